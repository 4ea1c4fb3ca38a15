"""The least positive number from which on a condition holds, for quantiles of distribution functions."""

from __future__ import annotations

from collections.abc import Callable


def least_number_where(holds: Callable[[float], bool]) -> float:
    """Return the least positive number for which a condition holds.

    A power of two for which it holds is found by doubling, then the interval is halved until there is no number inside.

    Args:
        holds: The condition. If it holds for a number, it holds for all larger ones; it holds for some finite number.

    Example:
        >>> least_number_where(lambda number: number**2 >= 2.0)
        1.4142135623730951
    """
    low = 0.0
    high = 1.0
    while not holds(high):
        low = high
        high *= 2.0
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high):  # there is no number between them
            return high
        if holds(middle):
            high = middle
        else:
            low = middle
