"""Copies of the sets of a data set that do not have the labels of the test rows, for methods."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from StaICC.datasets.table import Row
from StaICC.prompting.views import SubsetView, TripletSplit


def copied_rows(view: SubsetView, texts: tuple[str, ...] | None = None, labelled: bool = True) -> SubsetView:
    """Return a set that holds its rows only, not the complete table.

    Args:
        view: The set.
        texts: Texts that replace those of all rows; ``None`` keeps those of each row.
        labelled: Whether the rows keep their labels; without, each label is 0.
    """
    copied = []
    for position in range(len(view)):
        row = view.row(position)
        shown_texts = row.texts
        if texts is not None:
            shown_texts = texts
        shown_label = 0
        if labelled:
            shown_label = row.label
        copied.append(Row(shown_texts, shown_label))
    return SubsetView(view.name, cast("Any", tuple(copied)), range(len(copied)), view.get_label_space())


def split_without_test_labels(split: TripletSplit) -> TripletSplit:
    """Return the three sets, with the label 0 in all test rows."""
    return _without_test_labels(split, split.sizes)


@lru_cache(maxsize=16)  # all methods of a run use the same data sets
def _without_test_labels(split: TripletSplit, sizes: tuple[int, int, int]) -> TripletSplit:
    """Return the three sets without test labels; ``sizes`` is not read: it makes a cut set another cache entry."""
    return TripletSplit(
        copied_rows(split.calibration), copied_rows(split.demonstration), copied_rows(split.test, labelled=False)
    )
