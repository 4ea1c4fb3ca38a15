"""Consecutive batches of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")


def in_batches(rows: Sequence[Row], size: int) -> list[Sequence[Row]]:
    """Return rows in batches of a size, in their order; the last batch may be smaller.

    Example:
        >>> in_batches("abcde", 2)
        ['ab', 'cd', 'e']
    """
    batches = []
    for start in range(0, len(rows), size):
        end = start + size
        batches.append(rows[start:end])
    return batches
