"""A small data set to write prompts from, where every text tells its row and its column."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from StaICC.datasets.catalogue import SplitSizes, Template
from StaICC.datasets.dataset import Dataset
from StaICC.prompting.views import TripletSplit, split_dataset


def small_dataset(columns: int = 1, labels: tuple[str, ...] = ("no", "yes", "maybe")) -> Dataset:
    """Return a data set with 40 rows; the text ``r3c0 of 3`` is that of row 3 and column 0, with 3 labels in all."""
    rows = []
    for row in range(40):
        texts = [f"r{row}c{column} of {len(labels)}" for column in range(columns)]
        rows.append((texts, row % len(labels)))
    template = Template(
        instruction="",
        input_text_prefixes=tuple(f"t{column}: " for column in range(columns)),
        input_text_affixes=(" ",) * columns,
        label_prefix="label: ",
        label_affix="\n",
    )
    sizes = SplitSizes(calibration=4, demonstration=20, test=8)
    return Dataset.from_rows(rows, name="small", label_space=labels, template=template, split=sizes)


@pytest.fixture
def small() -> Callable[..., Dataset]:
    """A function that makes the data set with so many columns."""
    return small_dataset


@pytest.fixture
def triplet() -> TripletSplit:
    """The three parts of the data set with one column."""
    return split_dataset(small_dataset())
