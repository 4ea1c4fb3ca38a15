"""Warnings about the data of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from StaICC import Normal, NormalTask, Task, TaskBenchmark
from StaICC.benchmarks.data_warnings import data_warnings
from StaICC.datasets.dataset import Dataset
from StaICC.prompting.views import split_dataset

LABELS = ("no", "yes")


def yes_no_dataset(texts: Sequence[str]) -> Dataset:
    """Return a data set "own" of texts with the labels "no" and "yes" by turns."""
    return Dataset.from_rows([(text, row % 2) for row, text in enumerate(texts)], name="own", label_space=LABELS)


def first_rows_with_both_labels(dataset: Dataset, part: str) -> tuple[int, int]:
    """Return the first row of a part of the split, and the next one with the other label (of odd and even rows)."""
    rows = sorted(getattr(split_dataset(dataset), part).indexes)
    first_row = rows[0]
    rows_with_other_label = [row for row in rows if row % 2 != first_row % 2]
    return first_row, rows_with_other_label[0]


@pytest.mark.parametrize("part", ["test", "demonstration", "calibration"])
def test_a_text_with_two_labels_is_found_in_every_part_of_the_split(part: str) -> None:
    """Methods fit on the calibration set, so a wrong label there matters as much as one of a demonstration."""
    texts = [f"text {row}" for row in range(600)]
    first_row, second_row = first_rows_with_both_labels(yes_no_dataset(texts), part)
    texts[second_row] = texts[first_row]
    changed_part = getattr(split_dataset(yes_no_dataset(texts)), part)
    assert {first_row, second_row} <= set(changed_part.indexes), "the rows are in this part still"

    warnings = data_warnings(Normal(datasets=[yes_no_dataset(texts)]))

    (warning,) = [warning for warning in warnings if "labels in different rows" in warning]
    assert warning.startswith("own: 1 texts have two or more labels in different rows (first: row ")
    assert f"'text {first_row}'" in warning


class TaskOnSixtyRows(NormalTask):
    """The task of Normal on at most 60 test rows."""

    name: ClassVar[str] = "Small"
    test_rows: ClassVar[int | None] = 60


class NormalOnSixtyRows(TaskBenchmark):
    """Normal on at most 60 test rows."""

    task_name: ClassVar[str] = TaskOnSixtyRows.name
    task_class: ClassVar[type[Task]] = TaskOnSixtyRows


@pytest.mark.parametrize(
    ("row_count", "limit", "tested", "remedy"),
    [
        (600, None, 60, "The task Small tests at most 60 rows: raise its test_rows"),
        (600, 80, 60, "The task Small tests at most 60 rows: raise its test_rows"),
        (600, 20, 20, "Use a larger limit"),
        (100, None, 40, "Use more rows"),  # the split has 40 of 100 rows for tests
    ],
    ids=["the task", "the task below the limit", "the limit", "the data set"],
)
def test_the_warning_about_few_test_rows_names_the_remedy_for_its_cause(
    row_count: int, limit: int | None, tested: int, remedy: str
) -> None:
    data = yes_no_dataset([f"text {row}" for row in range(row_count)])

    (warning,) = data_warnings(NormalOnSixtyRows(datasets=[data], limit=limit, k=0))

    assert warning.startswith(f"own: {tested} of {row_count} rows are tested: ")
    assert warning.endswith(f" points. {remedy}")
