"""A small data set to write prompts from, where every text tells its row and its column."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from StaICC.datasets.catalogue import SplitSizes, Template
from StaICC.datasets.dataset import Dataset
from StaICC.prompting.views import TripletSplit, split_dataset


def small_dataset(columns: int = 1, labels: tuple[str, ...] = ("no", "yes", "maybe")) -> Dataset:
    rows = [
        ([f"r{row}c{column} of {len(labels)}" for column in range(columns)], row % len(labels)) for row in range(40)
    ]
    return Dataset.from_rows(
        rows,
        name="small",
        label_space=labels,
        template=Template("", tuple(f"t{i}: " for i in range(columns)), (" ",) * columns, "label: ", "\n"),
        split=SplitSizes(calibration=4, demonstration=20, test=8),
    )


@pytest.fixture
def small() -> Callable[..., Dataset]:
    return small_dataset


@pytest.fixture
def triplet() -> TripletSplit:
    return split_dataset(small_dataset())
