r"""The sensitivity to the order of demonstrations: how far the scores of several orders spread.

Let s_o be the score of order o, of k orders, and m_o its expected value over test items. The *deviation* is the
standard deviation of the expected scores of these orders, the *range* is their largest difference. The observed scores
spread more, because each has sampling noise.

**Deviation.** Let C be the covariance of the noise of the scores, centred over the orders. It is estimated from the
influence of each test item on each score, so it allows for items that all orders have in common. The sum of squares
``S = sum over o of (s_o - mean)^2`` has the expected value ``trace(C) + (k - 1) * deviation^2``. So the deviation is
estimated by ``sqrt((S - trace(C)) / (k - 1))``, and by 0 if this is negative (Searle, Casella and McCulloch 1992,
"Variance Components": the analysis of variance estimate).

**Its interval.** S is taken as g times a noncentral chi-square variable with ``f = trace(C) / g`` degrees of freedom
and noncentrality ``(k - 1) * deviation^2 / g``, which has the expected value of S. The limits are the deviations under
which S is at its upper, or at its lower quantile. The scale g is the larger one of two variances:
``trace(C^2) / trace(C)``, that of noise alone (Satterthwaite 1946), and ``d' C d / d' d``, that of noise in the
direction of the observed deviations d. A sample may lack an item that changes between the orders, so g is increased by
the largest squared influence that one item can have in this direction, ``k / 4 / n^2`` with n items.

**Range.** The observed range is reduced in the same ratio as the deviation. Its limits are those of the differences of
two orders: the largest lower limit of all pairs (corrected for their number, Bonferroni) and the largest upper limit.
The upper limit needs no correction, because it is too low only if that of one pair is, the pair with the true range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from StaICC.long_icl.condition_scores import DEFAULT_LEVEL, ScoredItems, Tallies, lacks_replies
from StaICC.metrics.crossed_effects import chi_square_probability
from StaICC.metrics.intervals import MetricTerm

_NEGLIGIBLE = 1e-18
"""A variance that comes from rounding."""


@dataclass(frozen=True, slots=True)
class OrderSpread:
    """How far the scores of several orders spread."""

    observed_deviation: float | None
    """The standard deviation of the observed scores."""
    observed_range: float | None
    deviation: float | None
    """The standard deviation without sampling noise; ``None`` if it is undefined."""
    deviation_low: float | None
    deviation_high: float | None
    range: float | None
    """The range without sampling noise."""
    range_low: float | None
    range_high: float | None
    note: str
    """Why the spread is undefined; empty if it is defined."""


@dataclass(frozen=True, slots=True)
class _Noise:
    """The covariance C of the sampling noise of the scores, centred over the orders."""

    trace: float
    """The expected sum of squares of the noise."""
    scale: float
    """The scale g of the sum of squares of the scores."""


def order_spread(scored_items: ScoredItems, tallies: Mapping[str, Tallies], level: float | None) -> dict[str, Any]:
    """Return how far the scores of the orders spread, as a plain record (:class:`OrderSpread`).

    Args:
        scored_items: The test items.
        tallies: The tallies of each order; empty if a query failed.
        level: Level of the intervals; ``None`` for none.
    """
    terms = []
    for order_tallies in tallies.values():
        term = None
        if not lacks_replies(order_tallies):
            term = scored_items.term(order_tallies, level or DEFAULT_LEVEL)
        if term is None:
            note = "an order has no score, or misses replies"
            return asdict(OrderSpread(None, None, None, None, None, None, None, None, note))
        terms.append(term)
    if len(terms) < 2:
        return asdict(OrderSpread(None, None, None, None, None, None, None, None, "there is one order only"))
    return asdict(_spread(scored_items, list(tallies.values()), terms, level))


def _spread(
    scored_items: ScoredItems, orders: Sequence[Tallies], terms: Sequence[MetricTerm], level: float | None
) -> OrderSpread:
    """Return the spread of orders that all have a score."""
    scores = [term.value for term in terms]
    order_count = len(scores)
    mean = math.fsum(scores) / order_count
    sum_of_squares = math.fsum((score - mean) ** 2 for score in scores)
    noise = _noise([term.influence for term in terms], [score - mean for score in scores])

    observed_deviation = math.sqrt(sum_of_squares / (order_count - 1))
    observed_range = max(scores) - min(scores)
    deviation = math.sqrt(max(0.0, sum_of_squares - noise.trace) / (order_count - 1))
    corrected_range = 0.0
    if observed_deviation > 0.0:
        corrected_range = observed_range * deviation / observed_deviation
    low: float | None = None
    high: float | None = None
    range_low: float | None = None
    range_high: float | None = None
    if level is not None:
        range_low, range_high = _range_limits(scored_items, orders, level)
        low, high = _deviation_limits(sum_of_squares, noise, order_count, range_high, level)
    return OrderSpread(
        observed_deviation, observed_range, deviation, low, high, corrected_range, range_low, range_high, ""
    )


def _noise(influences: Sequence[Sequence[float]], deviations: Sequence[float]) -> _Noise:
    """Return the size of the noise of the scores, from its centred covariance C.

    With c_io the influence of item i on the score of order o, minus the mean over orders, the covariance is
    ``C_op = n / (n - 1) * sum over i of c_io * c_ip``.

    Args:
        influences: For each order the influence of each unit.
        deviations: The deviation d of the score of each order from their mean.
    """
    unit_count = len(influences[0])
    order_count = len(influences)
    centred = []
    for of_unit in zip(*influences, strict=True):
        mean = math.fsum(of_unit) / order_count
        centred.append([influence - mean for influence in of_unit])

    factor = unit_count / (unit_count - 1)
    trace = 0.0
    trace_of_square = 0.0
    along_deviations = 0.0
    for first in range(order_count):
        for second in range(order_count):
            covariance = factor * math.fsum(of_unit[first] * of_unit[second] for of_unit in centred)
            trace_of_square += covariance * covariance
            along_deviations += deviations[first] * covariance * deviations[second]
            if first == second:
                trace += covariance
    scale = order_count / 4.0 / unit_count**2
    squared_deviations = math.fsum(deviation * deviation for deviation in deviations)
    if trace > _NEGLIGIBLE:
        of_noise = trace_of_square / trace
        in_direction = along_deviations / squared_deviations if squared_deviations > _NEGLIGIBLE else 0.0
        scale += max(of_noise, in_direction)
    return _Noise(trace, scale)


def _deviation_limits(
    sum_of_squares: float, noise: _Noise, order_count: int, range_high: float, level: float
) -> tuple[float, float]:
    """Return the confidence limits of the deviation.

    Args:
        sum_of_squares: The sum of squares S of the scores.
        noise: Their noise.
        order_count: Number of orders.
        range_high: The upper limit of the range. No deviation is larger than that of scores of which half are at each
            end of the range.
        level: Level of the limits.
    """
    largest = range_high / 2.0 * math.sqrt(order_count / (order_count - 1))
    if noise.trace < _NEGLIGIBLE:  # no item differs between the orders
        return 0.0, largest
    statistic = sum_of_squares / noise.scale
    freedom = noise.trace / noise.scale
    scale_of_deviation = noise.scale / (order_count - 1)

    def probability(noncentrality: float) -> float:
        return noncentral_chi_square_probability(statistic, freedom, noncentrality)

    # A sum of squares below its expected value without an effect says nothing more than this expected value.
    statistic_for_high = max(statistic, freedom)

    def probability_for_high(noncentrality: float) -> float:
        return noncentral_chi_square_probability(statistic_for_high, freedom, noncentrality)

    low = _noncentrality(probability, (1.0 + level) / 2.0)
    high = _noncentrality(probability_for_high, (1.0 - level) / 2.0)
    return math.sqrt(low * scale_of_deviation), math.sqrt(high * scale_of_deviation)


def _noncentrality(probability: Callable[[float], float], wanted: float) -> float:
    """Return the noncentrality at which a falling probability has a wanted value, by bisection; 0 if it is below."""
    if probability(0.0) <= wanted:
        return 0.0
    low = 0.0
    high = 1.0
    while probability(high) > wanted:
        low = high
        high *= 2.0
    for _ in range(50):
        middle = (low + high) / 2.0
        if probability(middle) > wanted:
            low = middle
        else:
            high = middle
    return high


def noncentral_chi_square_probability(x: float, freedom: float, noncentrality: float) -> float:
    """Return the probability that a noncentral chi-square variable is at most x.

    It is a chi-square variable with ``freedom + 2 j`` degrees of freedom, where j has a Poisson distribution with the
    mean ``noncentrality / 2`` (Johnson, Kotz and Balakrishnan 1995, "Continuous Univariate Distributions", 29.3).

    Example:
        >>> round(noncentral_chi_square_probability(5.0, 3.0, 2.0), 6)
        0.593405
    """
    if x <= 0.0:
        return 0.0
    mean = noncentrality / 2.0
    # Poisson probabilities are negligible ten standard deviations from their mean.
    reach = 10.0 * math.sqrt(mean) + 10.0
    first = max(0, math.floor(mean - reach))
    last = math.ceil(mean + reach) if mean > 0.0 else 0

    half_x = x / 2.0
    half_freedom = freedom / 2.0 + first
    probability = chi_square_probability(x, 2.0 * half_freedom)
    total = 0.0
    for number in range(first, last + 1):
        log_weight = -mean - math.lgamma(number + 1.0)
        if number > 0:
            log_weight += number * math.log(mean)
        total += math.exp(log_weight) * probability
        # Two more degrees of freedom (Abramowitz and Stegun 1964, 6.5.21): with h half of the degrees of freedom and
        # y = x / 2, the probability falls by y^h exp(-y) / gamma(h + 1).
        probability -= math.exp(half_freedom * math.log(half_x) - half_x - math.lgamma(half_freedom + 1.0))
        half_freedom += 1.0
    return total


def _range_limits(scored_items: ScoredItems, orders: Sequence[Tallies], level: float) -> tuple[float, float]:
    """Return the confidence limits of the range of the expected scores.

    Each limit has half of the error probability. That of the lower limit is divided among all pairs of orders.
    """
    pairs = list(combinations(orders, 2))
    corrected_level = 1.0 - (1.0 - level) / (2.0 * len(pairs))
    low = 0.0
    high = 0.0
    for pair in pairs:
        corrected = scored_items.weighted_sum(pair, [1.0, -1.0], corrected_level)
        alone = scored_items.weighted_sum(pair, [1.0, -1.0], level)
        if corrected is None or alone is None:
            continue
        low = max(low, corrected.value - corrected.below, -(corrected.value + corrected.above))
        high = max(high, alone.value + alone.above, -(alone.value - alone.below))
    return low, min(1.0, high)
