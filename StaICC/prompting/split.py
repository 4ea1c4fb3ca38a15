"""The triplet split: which rows of a table are calibration, demonstration, test rows.

One fresh generator draws all rows that are needed, without repetition, from the frozen table; the first part of the
draw is the calibration set, then comes the demonstration set, then the test set. A shorter test set is therefore a
prefix of a longer one. The default split of users' own data is stratified by label.
"""

from __future__ import annotations

from collections import Counter
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
        draws = list(StableRandom().floats(rows))
        order = sorted(range(rows), key=draws.__getitem__)
        counts, seen, shares = Counter(labels), Counter[int](), {}
        for row in order:
            shares[row] = (seen[labels[row]] + 0.5) / counts[labels[row]]
            seen[labels[row]] += 1
        drawn = tuple(sorted(order, key=shares.__getitem__)[: sizes.total])
    else:
        drawn = tuple(StableRandom().sample_indexes(rows, sizes.total))
    first = sizes.calibration + sizes.demonstration
    return SplitIndexes(drawn[: sizes.calibration], drawn[sizes.calibration : first], drawn[first:])
