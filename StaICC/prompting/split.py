"""The triplet split: which rows of a table are calibration, demonstration, test rows.

One fresh generator draws all rows that are needed, without repetition, from the frozen table; the first part of the
draw is the calibration set, then comes the demonstration set, then the test set. A shorter test set is therefore a
prefix of a longer one. The default split of users' own data is stratified by label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from StaICC.datasets.catalogue import SplitSizes
from StaICC.errors import ArgumentError
from StaICC.prompting.stable_random import StableRandom


@dataclass(frozen=True, slots=True)
class SplitIndexes:
    """Row numbers of the frozen table, part by part, in the order drawn."""

    calibration: tuple[int, ...]
    demonstration: tuple[int, ...]
    test: tuple[int, ...]


@lru_cache(maxsize=64)  # a suite splits the same ten tables for each of its parts
def split_indexes(rows: int, sizes: SplitSizes, labels: tuple[int, ...] = ()) -> SplitIndexes:
    """Draw the row numbers of the three sets.

    A stratified split orders the rows at random, and then by their position among the rows of their label, as a share
    of these. So each set, and the first rows of each set, have the label shares of the table to rounding.

    Args:
        rows: How many rows the table has.
        sizes: How many rows each set gets.
        labels: The label of each row, for a stratified split.

    Returns:
        The row numbers, in the order drawn.

    Raises:
        ArgumentError: The table has too few rows.
    """
    if sizes.total > rows:
        raise ArgumentError(f"the split needs {sizes.total} rows ({sizes}), but the table has {rows}")
    if sizes.stratified:
        drawn = _stratified_order(labels)[: sizes.total]
    else:
        drawn = StableRandom().sample_indexes(rows, sizes.total)
    demonstration_end = sizes.calibration + sizes.demonstration
    return SplitIndexes(
        calibration=tuple(drawn[: sizes.calibration]),
        demonstration=tuple(drawn[sizes.calibration : demonstration_end]),
        test=tuple(drawn[demonstration_end:]),
    )


def _stratified_order(labels: Sequence[int]) -> list[int]:
    """Return all rows in an order of which every beginning has the label shares of the table, to rounding.

    The rows are first put in random order. The ``i``-th of the ``n`` rows of a label (from 0) then gets the position
    ``(i + 0.5) / n`` in [0, 1], and the rows are sorted by it; equal positions keep the random order.

    Args:
        labels: The label of each row.
    """
    draws = list(StableRandom().floats(len(labels)))
    random_order = sorted(range(len(labels)), key=lambda row: draws[row])
    rows_with_label = Counter(labels)
    seen_rows_with_label: Counter[int] = Counter()
    position_of_row = {}
    for row in random_order:
        label = labels[row]
        position_of_row[row] = (seen_rows_with_label[label] + 0.5) / rows_with_label[label]
        seen_rows_with_label[label] += 1
    return sorted(random_order, key=lambda row: position_of_row[row])
