"""Arithmetic of one row of numbers: softmax, entropy, log-sum, mean."""

from __future__ import annotations

import math
from collections.abc import Sequence


def softmax(row: Sequence[float]) -> list[float]:
    """Return the probabilities that are proportional to the exponentials of finite or minus infinite numbers.

    Args:
        row: The numbers, not all minus infinity.

    Example:
        >>> softmax([1.0, 1.0])
        [0.5, 0.5]
    """
    largest = max(row)
    exponentials = [math.exp(value - largest) for value in row]
    total = math.fsum(exponentials)
    return [exponential / total for exponential in exponentials]


def log_sum_exp(values: Sequence[float]) -> float:
    """Return the logarithm of the sum of exponentials; it is exact also where the exponentials underflow.

    Args:
        values: Finite numbers, at least one.

    Example:
        >>> log_sum_exp([-9999.0])
        -9999.0
    """
    largest = max(values)
    total = math.fsum(math.exp(value - largest) for value in values)
    return largest + math.log(total)


def entropy(distribution: Sequence[float]) -> float:
    """Return the Shannon entropy in nats; 0 log 0 is 0. Rounding may put it outside its range by an ulp.

    Args:
        distribution: Probabilities.

    Example:
        >>> round(entropy([0.5, 0.5]), 6)
        0.693147
    """
    return -math.fsum(p * math.log(p) for p in distribution if p > 0)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of scores, such as those of several data sets.

    Args:
        values: The scores; ``None`` for one that is undefined.

    Returns:
        ``None`` if a score is undefined, or if there is none.

    Example:
        >>> mean([0.5, 1.0]), mean([0.5, None]), mean([])
        (0.75, None, None)
    """
    known = [value for value in values if value is not None]
    has_undefined = len(known) < len(values)
    if not known or has_undefined:
        return None
    return math.fsum(known) / len(known)
