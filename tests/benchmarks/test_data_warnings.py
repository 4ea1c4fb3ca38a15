"""Warnings about the data of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from StaICC import Normal
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
