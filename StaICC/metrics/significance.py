"""Correction of the p-values of several tests.

The test itself, for every metric, is :func:`StaICC.metrics.metric_comparison.sign_flip_p_value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from StaICC.errors import ArgumentError


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct the p-values of several tests, so that any false alarm among them is as rare as promised.

    Args:
        p_values: One p-value for each test, such as one a data set. None is a test that could not be
            made; it stays None, and is counted among the tests, so that a failure never makes the others more
            significant.

    Returns:
        The adjusted p-values, in the same order: the k-th smallest is multiplied by the number of tests from
        it on, is never below a smaller one's, and is at most 1. Equal p-values get equal results.

    Raises:
        ArgumentError: An entry is no probability.

    Source:
        Holm 1979, "A simple sequentially rejective multiple test procedure".

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.04, 0.09, None, 0.09]
    """
    for position, p in enumerate(p_values):
        if p is not None and not (isinstance(p, int | float) and 0.0 <= p <= 1.0):
            raise ArgumentError(f"p-value {position} is {p!r}; expected a number from 0 to 1, or None")
    made = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    scaled = (min(1.0, p * (len(p_values) - rank)) for rank, (p, _) in enumerate(made))
    adjusted: list[float | None] = [None] * len(p_values)
    for (_, position), value in zip(made, accumulate(scaled, max), strict=True):
        adjusted[position] = value
    return adjusted
