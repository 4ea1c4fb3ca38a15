"""P-values against predictors that need no model: guesses, one label for all queries, a copied label.

*Uniform guessing* is random. A guesser may draw for each query, or once for each test row and repeat its guess when the
row is asked again; the second scatters more. Both are reported, and the larger p-value is valid for either.

*The majority label* and *the last demonstration's label* are deterministic on frozen prompts. A run is compared with
them on the same queries: a one-sided sign test over test rows, in which the difference of a row (all its queries
together) keeps its size and takes either sign with probability 1/2.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul
from statistics import NormalDist

from StaICC.metrics.poisson_binomial import SMALLEST, binomial_probabilities
from StaICC.metrics.random_baselines import RandomBaseline

Guesses = Sequence[tuple[float, int, int]]
"""A mean accuracy of guessing, as a sum: (what one right guess adds, number of labels, number of guesses)."""

_EXACT_SCORES = 20_000
"""Number of different scores up to which their distribution is exact."""
_STEPS = 64
"""Grid points for a standard deviation, if there are more."""
_NEGLIGIBLE = 1e-15
"""On a grid, smaller probabilities are left out, ..."""
_THIN = 1e-9
"""... and smaller tails come from the saddlepoint approximation."""


def _sorted(guesses: Guesses) -> tuple[tuple[float, int, int], ...]:
    """Return the guesses, equal ones together, in an order that does not depend on that of the data sets."""
    counts: Counter[tuple[float, int]] = Counter()
    for weight, labels, count in guesses:
        counts[weight, labels] += count
    return tuple((*kind, count) for kind, count in sorted(counts.items(), reverse=True))


def _sums(chances: Mapping[int, float], added: Mapping[int, float]) -> dict[int, float]:
    """Return the distribution of the sum of two variables."""
    found: dict[int, float] = {}
    for place, chance in chances.items():
        for more, weight in added.items():
            found[place + more] = found.get(place + more, 0.0) + chance * weight
    return found


def _on_grid(chances: Mapping[int, float], scale: Fraction) -> dict[int, float]:
    """Return the distribution of a scaled variable, what lies between two integers shared so that its mean is kept."""
    found: dict[int, float] = {}
    for place, chance in chances.items():
        low, rest = divmod(place * scale.numerator, scale.denominator)
        part = rest / scale.denominator
        found[low] = found.get(low, 0.0) + chance * (1.0 - part)
        if rest:
            found[low + 1] = found.get(low + 1, 0.0) + chance * part
    return found


@lru_cache(maxsize=64)
def _distribution(guesses: tuple[tuple[float, int, int], ...]) -> tuple[list[float], list[float], float]:
    """Return the scores in rising order, the probability of at least each, and half a step of their grid.

    The few large weights come first, so that their sums are exact. From the weight on with which there could be more
    than ``_EXACT_SCORES`` scores, scores are rounded to a grid.
    """
    shares = [Fraction(weight).limit_denominator(10**8) for weight, *_ in guesses]
    unit, step = Fraction(1, math.lcm(*(share.denominator for share in shares))), Fraction(0)
    chances = {0: 1.0}
    for share, (_, labels, count) in zip(shares, guesses, strict=True):
        products = len(chances) * (count + 1)
        span = max(chances) - min(chances) + 1 + int(share * count / unit)
        if not step and (min(products, span) > _EXACT_SCORES or products > 40 * _EXACT_SCORES):
            step = Fraction(_moments(guesses)[1] / _STEPS)
            chances = {place: chance for place, chance in chances.items() if chance > _NEGLIGIBLE}
            chances, unit = _on_grid(chances, unit / step), step
        first, weights = binomial_probabilities(count, 1.0 / labels, _NEGLIGIBLE if step else SMALLEST)
        chances = _sums(chances, _on_grid(dict(enumerate(weights, first)), share / unit))
    places = sorted(chances)
    tails = list(accumulate(chances[place] for place in reversed(places)))[::-1]
    return [float(place * unit) for place in places], tails, float(step / 2)


def _equal(guesses: Guesses) -> RandomBaseline | None:
    """Return the exact distribution if all guesses add the same, else None."""
    if max(weight for weight, *_ in guesses) - min(weight for weight, *_ in guesses) > 1e-15:
        return None
    counts: Counter[int] = Counter()
    for _, labels, count in guesses:
        counts[labels] += count
    n = counts.total()
    return RandomBaseline(n, dict(counts)) if len(counts) > 1 else RandomBaseline(n, 1 / next(iter(counts)))


def _moments(guesses: Guesses) -> tuple[float, float]:
    mean = math.fsum(weight * count / labels for weight, labels, count in guesses)
    variance = math.fsum(weight**2 * count * (labels - 1) / labels**2 for weight, labels, count in guesses)
    return mean, math.sqrt(variance)


def _derivatives(guesses: Guesses, theta: float) -> tuple[float, float, float]:
    """Return the cumulant generating function and its first two derivatives."""
    value = slope = curve = 0.0
    for weight, labels, count in guesses:
        x = theta * weight - math.log(labels - 1) if labels > 1 else math.inf
        p = 1.0 if x > 700 else 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0
        log_sum = theta * weight if p == 1.0 else -math.log1p(-p) + math.log((labels - 1) / labels)
        value += count * log_sum
        slope += count * weight * p
        curve += count * weight * weight * p * (1.0 - p)
    return value, slope, curve


def upper_tail(guesses: Guesses, score: float) -> float:
    """Return the probability of at least a score, by the formula of Lugannani and Rice (1980).

    Args:
        guesses: The guesser's score as a sum.
        score: The score to reach.
    """
    guesses = _sorted(guesses)
    mean, deviation = _moments(guesses)
    most = math.fsum(weight * count for weight, _, count in guesses)
    if score <= 1e-12 or deviation == 0.0:
        return 1.0 if score <= mean + 1e-12 else 0.0
    if score >= most - 1e-12:
        return (
            math.exp(-math.fsum(count * math.log(labels) for _, labels, count in guesses))
            if score < most + 1e-9
            else 0.0
        )
    theta = (score - mean) / deviation**2
    scale = max(weight for weight, *_ in guesses)
    low, high = -800.0 / scale, 800.0 / scale
    for _ in range(80):
        _, slope, curve = _derivatives(guesses, theta)
        low, high = (theta, high) if slope < score else (low, theta)
        step = theta + (score - slope) / curve if curve > 0 else math.nan
        before, theta = theta, step if low < step < high else (low + high) / 2.0
        if abs(theta - before) <= 1e-12 * abs(theta):
            break
    value, _, curve = _derivatives(guesses, theta)
    w = math.copysign(math.sqrt(max(0.0, 2.0 * (theta * score - value))), theta)
    u = theta * math.sqrt(curve)
    normal = NormalDist()
    if abs(w) < 1e-3:
        return normal.cdf(-(score - mean) / deviation)
    return min(1.0, max(0.0, normal.cdf(-w) + normal.pdf(w) * (1.0 / u - 1.0 / w)))


def guessing_p_value(guesses: Guesses, score: float, tried: int = 1) -> float:
    """Return the probability that the best of several guessers reaches a score.

    Exact if all guesses add the same, or if few scores are possible. Otherwise scores are rounded to a grid, and tails
    below 1e-9 come from the saddlepoint approximation.

    Args:
        guesses: The guesser's score as a sum.
        score: The score to reach.
        tried: Number of guessers.

    Example:
        >>> round(guessing_p_value([(0.01, 2, 100)], 0.59), 4)  # 59 of 100 queries, two labels
        0.0443
    """
    guesses = _sorted(guesses)
    exact = _equal(guesses)
    if exact is not None:
        count = math.ceil(score / guesses[0][0] - 1e-6)
        return exact.p_value_of_count(min(exact.n, max(0, count)), tried) if count <= exact.n else 0.0
    scores, tails, slack = _distribution(guesses)
    place = bisect_left(scores, score - max(slack, 1e-9))
    tail = tails[place] if place < len(tails) else 0.0
    if slack and tail < _THIN:
        tail = min(_THIN, upper_tail(guesses, score))
    return 1.0 if tail >= 1.0 else -math.expm1(tried * math.log1p(-tail))


def expected_best(guesses: Guesses, tried: int = 1) -> float:
    """Return the expected score of the best of several guessers.

    The best of ``tried`` *means* over data sets is smaller than the mean of the bests.

    Args:
        guesses: The guesser's score as a sum.
        tried: Number of guessers.

    Example:
        >>> round(expected_best([(0.01, 2, 100)], 10), 5)
        0.57678
    """
    guesses = _sorted(guesses)
    mean, deviation = _moments(guesses)
    if tried == 1 or deviation == 0.0:
        return mean
    exact = _equal(guesses)
    if exact is not None:
        return exact.max_random_baseline(tried) * exact.n * guesses[0][0]
    scores, tails, _ = _distribution(guesses)
    reached = [1.0 if tail >= 1.0 else -math.expm1(tried * math.log1p(-tail)) for tail in tails[1:]]
    steps = [high - low for low, high in pairwise(scores)]
    return scores[0] + math.fsum(map(mul, steps, reached))


def sign_flip_sums(sizes: Mapping[int, int], most: int | None = None) -> dict[int, float] | None:
    """Return the probability of each sum of numbers with random signs.

    Args:
        sizes: How often each positive number occurs.
        most: Number of different sums up to which they are computed.

    Returns:
        The probability by sum; ``None`` if there are more than `most` sums.

    Example:
        >>> sign_flip_sums({1: 2})
        {-2: 0.25, 0: 0.5, 2: 0.25}
    """
    chances = {0: 1.0}
    for size, count in sorted(sizes.items(), reverse=True):
        first, weights = binomial_probabilities(count, 0.5)
        if most is not None and len(weights) * len(chances) > 8 * most:
            return None
        grown: dict[int, float] = {}
        for place, chance in chances.items():
            for number, weight in enumerate(weights, first):
                key = place + (2 * number - count) * size
                grown[key] = grown.get(key, 0.0) + chance * weight
        if most is not None and len(grown) > most:
            return None
        chances = grown
    return chances


def sign_test(differences: Sequence[float]) -> float:
    """Return the one-sided p-value of a sum of row differences under random signs.

    Args:
        differences: For each test row, how much more (of anything, such as correct queries) the run has than the
            baseline, such as differences of counts, or of shares.

    Returns:
        The probability of a sum at least as large.

    Example:
        >>> sign_test([1, 1, 1, 1, 0])
        0.0625
    """
    total = math.fsum(differences)
    if any(value != int(value) for value in differences):
        rows = len(differences)  # a sign guesses one of two labels, and adds twice the difference or nothing
        signs = Counter(abs(value) for value in differences if value)
        least = math.fsum(map(abs, differences))
        return guessing_p_value([(2.0 * size / rows, 2, n) for size, n in signs.items()], (total + least) / rows)
    sizes = Counter(abs(int(value)) for value in differences if value)
    if not sizes:
        return 1.0
    size, count = max(sizes.items(), key=lambda item: item[1])
    del sizes[size]
    sums = sign_flip_sums(sizes) or {}
    first, chances = binomial_probabilities(count, 0.5)
    tails = [*list(accumulate(reversed(chances)))[::-1], 0.0]
    p_value = 0.0
    for place, chance in sums.items():
        least = -(-(int(total) - place + size * count) // (2 * size))  # ups that are needed
        p_value += chance * tails[min(max(0, least - first), len(chances))]
    return min(1.0, p_value)
