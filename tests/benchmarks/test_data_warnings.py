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


def own(texts: Sequence[str]) -> Dataset:
    return Dataset.from_rows([(text, row % 2) for row, text in enumerate(texts)], name="own", label_space=LABELS)


@pytest.mark.parametrize("part", ["test", "demonstration", "calibration"])
def test_a_text_with_two_labels_is_found_in_every_part_of_the_split(part: str) -> None:
    """Methods fit on the calibration set, so a wrong label there matters as much as one of a demonstration."""
    texts = [f"text {row}" for row in range(600)]
    rows = getattr(split_dataset(own(texts)), part).indexes
    first = min(rows)
    second = next(row for row in sorted(rows) if row % 2 != first % 2)
    texts[second] = texts[first]
    data = own(texts)
    assert {first, second} <= set(getattr(split_dataset(data), part).indexes)
    found = [warning for warning in data_warnings(Normal(datasets=[data])) if "labels in different rows" in warning]
    assert len(found) == 1
    assert found[0].startswith("own: 1 texts have two or more labels in different rows (first: row ")
    assert f"'text {first}'" in found[0]


class SmallTask(NormalTask):
    """The task of Normal on few test rows."""

    name: ClassVar[str] = "Small"
    test_rows: ClassVar[int | None] = 60


class Small(TaskBenchmark):
    """Normal on few test rows."""

    task_name: ClassVar[str] = SmallTask.name
    task_class: ClassVar[type[Task]] = SmallTask


@pytest.mark.parametrize(
    ("row_count", "limit", "tested", "remedy"),
    [
        (600, None, 60, "The task Small tests at most 60 rows: raise its test_rows"),
        (600, 80, 60, "The task Small tests at most 60 rows: raise its test_rows"),
        (600, 20, 20, "Use a larger limit"),
        (100, None, 40, "Use more rows"),
    ],
)
def test_the_remedy_for_few_rows_is_that_of_what_has_too_few(
    row_count: int, limit: int | None, tested: int, remedy: str
) -> None:
    """The limit of the user, the task of the benchmark, or the data set."""
    data = own([f"text {row}" for row in range(row_count)])
    (warning,) = data_warnings(Small(datasets=[data], limit=limit, k=0))
    assert warning.startswith(f"own: {tested} of {row_count} rows are tested: ")
    assert warning.endswith(f" points. {remedy}")
