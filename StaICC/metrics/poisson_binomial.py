"""How many of n independent trials succeed: binomial and Poisson binomial probabilities, tails included.

The probabilities of a binomial distribution follow from one another by their ratios. Walking from the mode
outwards and dividing by the sum keeps every term positive, so nothing cancels and a probability of 1e-300 has
its digits. Trials that differ in their chance of success are grouped by it, and the groups are convolved
(Poisson binomial distribution; Hong 2013, "On computing the distribution function for the Poisson binomial
distribution"). Below the range of floating point a tail is found under a tilted distribution, where it is not
small.

Arguments are not checked here: the callers have done so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

__all__ = ["UNLIKELY", "Distribution", "binomial_probabilities", "log_upper_tail", "poisson_binomial_probabilities"]

SMALLEST = 1e-320
"""Where a chain of ratios stops: below it floating point has too few digits for a product to fall further."""

UNLIKELY = 1e-40
"""What sums to nothing beside any probability above 1e-20: leaving it out makes convolutions ten times as short."""

_BLOCK = 32
"""So many trials that all differ are multiplied out one by one, before blocks are convolved."""

Distribution = tuple[int, list[float]]
"""The smallest possible value, and the probabilities from there on."""


def _convolve(a: Distribution, b: Distribution, negligible: float) -> Distribution:
    """Distribution of the sum of two independent numbers, what is less probable than ``negligible`` left out."""
    (first, short), (second, long) = sorted((a, b), key=lambda part: len(part[1]))
    reverse, width = short[::-1], len(short)
    padded = [0.0] * (width - 1) + long + [0.0] * (width - 1)
    values = [sum(map(mul, reverse, padded[k : k + width])) for k in range(len(long) + width - 1)]
    return _trimmed(first + second, values, negligible)


def _trimmed(first: int, values: list[float], negligible: float) -> Distribution:
    """Leave out what is less probable than ``negligible`` at both ends."""
    while values[-1] < negligible:
        values.pop()
    start = next(k for k, value in enumerate(values) if value >= negligible)
    return first + start, values[start:]


def _one_by_one(rates: Sequence[float], negligible: float) -> Distribution:
    """Distribution of a few trials that all differ."""
    values = [1.0]
    for rate in rates:
        fail = 1.0 - rate
        values = [a * fail + b * rate for a, b in zip([*values, 0.0], [0.0, *values], strict=True)]
    return _trimmed(0, values, negligible)


def binomial_probabilities(n: int, p: float, negligible: float = SMALLEST) -> Distribution:
    """Probabilities of a binomial distribution, by default wherever floating point can hold them.

    Args:
        n: Number of trials, at least 0.
        p: Probability of a success, from 0 to 1.
        negligible: What is below this share of the largest probability is left out.

    Returns:
        The smallest number of successes in the list, and the probabilities from there on.

    Example:
        >>> binomial_probabilities(2, 0.5)
        (0, [0.25, 0.5, 0.25])
    """
    if p in (0.0, 1.0) or n == 0:
        return (n if p == 1.0 else 0), [1.0]
    mode = min(n, int((n + 1) * p))
    odds = p / (1.0 - p)
    weight, above = 1.0, [1.0]
    for k in range(mode, n):
        weight *= (n - k) / (k + 1) * odds
        if weight < negligible:
            break
        above.append(weight)
    weight, below = 1.0, []
    for k in range(mode, 0, -1):
        weight *= k / (n - k + 1) / odds
        if weight < negligible:
            break
        below.append(weight)
    total = math.fsum(above) + math.fsum(below)
    return mode - len(below), [weight / total for weight in [*reversed(below), *above]]


def poisson_binomial_probabilities(groups: Sequence[tuple[float, int]], negligible: float = SMALLEST) -> Distribution:
    """Probabilities of the number of successes in trials that differ in their chance of success.

    Args:
        groups: Pairs of (probability of a success, number of such trials), at least one.
        negligible: What is less probable is left out, by default only what floating point cannot hold.

    Returns:
        The smallest number of successes in the list, and the probabilities from there on.

    Example:
        >>> poisson_binomial_probabilities([(0.5, 1), (1.0, 2)])
        (2, [0.5, 0.5])
    """
    single = [rate for rate, trials in groups if trials == 1]
    parts = [binomial_probabilities(trials, rate, negligible) for rate, trials in groups if trials != 1]
    parts += [_one_by_one(single[start : start + _BLOCK], negligible) for start in range(0, len(single), _BLOCK)]
    while len(parts) > 1:  # pair the shortest, so that the work stays even
        parts.sort(key=lambda part: len(part[1]))
        pairs = [_convolve(a, b, negligible) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    first, values = parts[0]
    total = math.fsum(values)
    return first, [value / total for value in values]


def log_upper_tail(groups: Sequence[tuple[float, int]], k: int) -> float:
    """Natural logarithm of the probability of at least k successes, however small it is.

    Tilting by theta multiplies the probability of j successes by ``exp(theta * j)`` and normalises. It turns
    each p into ``p / (p + (1 - p) * exp(-theta))``. Under the theta that makes k the mean, the tail is an
    ordinary number.

    Args:
        groups: Pairs of (probability of a success, number of such trials).
        k: Number of successes, well above the mean.

    Returns:
        The logarithm; minus infinity when so many successes cannot be.

    Example:
        >>> log_upper_tail([(0.5, 2000)], 2000) == 2000 * math.log(0.5)
        True
    """
    groups = [(rate, trials) for rate, trials in groups if rate > 0.0]
    most = sum(trials for _, trials in groups)
    if k > most:
        return -math.inf
    if k == most:
        return math.fsum(trials * math.log(rate) for rate, trials in groups)

    def tilted(theta: float) -> list[tuple[float, int]]:
        shrink = math.exp(-theta)
        return [(rate / (rate + (1.0 - rate) * shrink), trials) for rate, trials in groups]

    def mean(theta: float) -> float:
        return math.fsum(rate * trials for rate, trials in tilted(theta))

    low, high = 0.0, 1.0
    while mean(high) < k:  # ends: with exp(-theta) = 0 the mean is above every k that is left
        low, high = high, high * 2.0
    below = mean(low)
    while k - below > 1.0:  # the tail is right for any theta, and safe to compute near the wanted one
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        reached = mean(middle)
        if reached < k:
            low, below = middle, reached
        else:
            high = middle
    first, values = poisson_binomial_probabilities(tilted(low), UNLIKELY)
    tail = math.fsum(value * math.exp(low * (k - j)) for j, value in enumerate(values, first) if j >= k)
    if low < 1.0:
        norms = [trials * math.log1p(rate * math.expm1(low)) for rate, trials in groups]
    else:
        norms = [trials * (low + math.log(rate + (1.0 - rate) * math.exp(-low))) for rate, trials in groups]
    return math.fsum([*norms, -low * k, math.log(tail)])
