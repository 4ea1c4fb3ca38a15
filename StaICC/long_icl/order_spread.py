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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from StaICC.long_icl.condition_scores import DEFAULT_LEVEL, ScoredItems, Tallies, lacks_replies
from StaICC.metrics.crossed_effects import chi_square_probability
from StaICC.metrics.intervals import MetricTerm

_NEGLIGIBLE = 1e-18
"""Variances up to this one are taken as 0: they come from rounding."""
_BISECTION_STEPS = 50
"""Halvings of an interval, which leave about the precision of a float."""


@dataclass(frozen=True, slots=True)
class OrderSpread:
    """How far the scores of several orders spread. Values are ``None`` where they are undefined."""

    observed_deviation: float | None = None
    """The standard deviation of the observed scores."""
    observed_range: float | None = None
    """The largest difference of two observed scores."""
    deviation: float | None = None
    """The standard deviation without sampling noise."""
    deviation_low: float | None = None
    deviation_high: float | None = None
    range: float | None = None
    """The range without sampling noise."""
    range_low: float | None = None
    range_high: float | None = None
    note: str = ""
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
    scores = []
    for order_tallies in tallies.values():
        score = None
        if not lacks_replies(order_tallies):
            score = scored_items.score_with_limits(order_tallies, level or DEFAULT_LEVEL)
        if score is None:
            return asdict(OrderSpread(note="an order has no score, or misses replies"))
        scores.append(score)
    if len(scores) < 2:
        return asdict(OrderSpread(note="there is one order only"))
    return asdict(_spread(scored_items, list(tallies.values()), scores, level))


def _spread(
    scored_items: ScoredItems, orders: Sequence[Tallies], scores: Sequence[MetricTerm], level: float | None
) -> OrderSpread:
    """Return the spread of orders that all have a score.

    Args:
        scored_items: The test items.
        orders: The tallies of each order.
        scores: The score of each order, with the influence of each test item on it.
        level: Level of the intervals; ``None`` for none.
    """
    values = [score.value for score in scores]
    order_count = len(values)
    mean = math.fsum(values) / order_count
    deviations_from_mean = [value - mean for value in values]
    sum_of_squares = math.fsum(deviation**2 for deviation in deviations_from_mean)
    noise = _noise([score.influence for score in scores], deviations_from_mean)

    observed_deviation = math.sqrt(sum_of_squares / (order_count - 1))
    observed_range = max(values) - min(values)
    deviation = math.sqrt(max(0.0, sum_of_squares - noise.trace) / (order_count - 1))
    corrected_range = 0.0
    if observed_deviation > 0.0:
        corrected_range = observed_range * deviation / observed_deviation
    spread = OrderSpread(observed_deviation, observed_range, deviation=deviation, range=corrected_range)
    if level is None:
        return spread

    range_low, range_high = _range_limits(scored_items, orders, level)
    deviation_low, deviation_high = _deviation_limits(sum_of_squares, noise, order_count, range_high, level)
    return replace(
        spread,
        deviation_low=deviation_low,
        deviation_high=deviation_high,
        range_low=range_low,
        range_high=range_high,
    )


def _noise(influences: Sequence[Sequence[float]], deviations: Sequence[float]) -> _Noise:
    """Return the trace of the centred covariance C of the noise, and the scale g of the sum of squares.

    The scale is ``k / 4 / n^2 + max(trace(C^2) / trace(C), d' C d / d' d)``, with k orders and n units; the beginning
    of this file says why. A quotient whose denominator is 0 is left out.

    Args:
        influences: For each order the influence of each unit.
        deviations: The deviation d of the score of each order from their mean.
    """
    order_count = len(influences)
    unit_count = len(influences[0])
    covariance = _centred_covariance(influences)
    trace = _trace(covariance)
    influence_of_missing_item = order_count / 4.0 / unit_count**2
    if trace <= _NEGLIGIBLE:
        return _Noise(trace, scale=influence_of_missing_item)
    variance_of_noise = _trace_of_square(covariance) / trace
    variance_along_deviations = _variance_along(deviations, covariance)
    return _Noise(trace, scale=influence_of_missing_item + max(variance_of_noise, variance_along_deviations))


def _trace(matrix: Sequence[Sequence[float]]) -> float:
    """Return the sum of the diagonal of a matrix."""
    trace = 0.0
    for index in range(len(matrix)):
        trace += matrix[index][index]
    return trace


def _trace_of_square(symmetric_matrix: Sequence[Sequence[float]]) -> float:
    """Return the trace of the square of a symmetric matrix, which is the sum of its squared elements."""
    total = 0.0
    for row in symmetric_matrix:
        for element in row:
            total += element * element
    return total


def _variance_along(direction: Sequence[float], covariance: Sequence[Sequence[float]]) -> float:
    """Return the variance ``d' C d / d' d`` in a direction d; 0 if the direction has no length."""
    squared_length = math.fsum(component * component for component in direction)
    if squared_length <= _NEGLIGIBLE:
        return 0.0
    product = 0.0  # d' C d
    for first_component, row in zip(direction, covariance, strict=True):
        for element, second_component in zip(row, direction, strict=True):
            product += first_component * element * second_component
    return product / squared_length


def _centred_covariance(influences: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the covariance C of the noise of the scores, centred over the orders.

    With c_io the influence of item i on the score of order o, minus the mean over orders, the covariance is
    ``C_op = n / (n - 1) * sum over i of c_io * c_ip``.

    Args:
        influences: For each order the influence of each unit.
    """
    order_count = len(influences)
    unit_count = len(influences[0])
    centred = []  # for each unit its influence on each order, minus their mean
    for influences_of_unit in zip(*influences, strict=True):
        mean = math.fsum(influences_of_unit) / order_count
        centred.append([influence - mean for influence in influences_of_unit])

    factor = unit_count / (unit_count - 1)
    covariance = []
    for first in range(order_count):
        row = []
        for second in range(order_count):
            row.append(factor * math.fsum(of_unit[first] * of_unit[second] for of_unit in centred))
        covariance.append(row)
    return covariance


def _deviation_limits(
    sum_of_squares: float, noise: _Noise, order_count: int, range_high: float, level: float
) -> tuple[float, float]:
    """Return the confidence limits of the deviation of the expected scores.

    With k orders and the scale g of the noise, ``S / g`` is taken as a noncentral chi-square variable with
    ``trace(C) / g`` degrees of freedom and the noncentrality ``(k - 1) * deviation^2 / g``. The lower limit is the
    deviation under which the observed ``S / g`` is the upper quantile of this variable, the upper limit that under
    which it is the lower quantile.

    Args:
        sum_of_squares: The sum of squares S of the scores about their mean.
        noise: The noise of the scores, with trace(C) and the scale g.
        order_count: Number k of orders.
        range_high: The upper limit of the range. It bounds the deviation if no item differs between the orders: no
            deviation is larger than that of scores of which half are at each end of the range.
        level: Level of the limits.
    """
    if noise.trace < _NEGLIGIBLE:  # no item differs between the orders
        largest_deviation = range_high / 2.0 * math.sqrt(order_count / (order_count - 1))
        return 0.0, largest_deviation
    statistic = sum_of_squares / noise.scale
    degrees_of_freedom = noise.trace / noise.scale
    # Without a spread, the statistic has the expected value degrees_of_freedom. A smaller one is chance, and would make
    # the upper limit too low.
    statistic_for_high = max(statistic, degrees_of_freedom)
    low_noncentrality = _noncentrality(statistic, degrees_of_freedom, quantile=(1.0 + level) / 2.0)
    high_noncentrality = _noncentrality(statistic_for_high, degrees_of_freedom, quantile=(1.0 - level) / 2.0)
    squared_deviation_per_noncentrality = noise.scale / (order_count - 1)
    low = math.sqrt(low_noncentrality * squared_deviation_per_noncentrality)
    high = math.sqrt(high_noncentrality * squared_deviation_per_noncentrality)
    return low, high


def _noncentrality(statistic: float, degrees_of_freedom: float, quantile: float) -> float:
    """Return the noncentrality for which a statistic is a quantile of the noncentral chi-square distribution.

    The probability of smaller values falls with the noncentrality, so bisection finds it.

    Args:
        statistic: The statistic.
        degrees_of_freedom: The degrees of freedom of the distribution.
        quantile: The probability of values that are at most the statistic.

    Returns:
        The noncentrality; 0 if this probability is not above the quantile without noncentrality.
    """

    def is_too_small(noncentrality: float) -> bool:
        return noncentral_chi_square_probability(statistic, degrees_of_freedom, noncentrality) > quantile

    if not is_too_small(0.0):
        return 0.0
    low = 0.0
    high = 1.0
    while is_too_small(high):
        low = high
        high *= 2.0
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2.0
        if is_too_small(middle):
            low = middle
        else:
            high = middle
    return high


def noncentral_chi_square_probability(x: float, degrees_of_freedom: float, noncentrality: float) -> float:
    """Return the probability that a noncentral chi-square variable is at most x.

    The distribution is a mixture of chi-square distributions with ``degrees_of_freedom + 2 j`` degrees of freedom. Here
    j has a Poisson distribution with the mean ``noncentrality / 2`` (Johnson, Kotz and Balakrishnan 1995, "Continuous
    Univariate Distributions", 29.3).

    Example:
        >>> round(noncentral_chi_square_probability(5.0, 3.0, 2.0), 6)
        0.593405
    """
    if x <= 0.0:
        return 0.0
    mean = noncentrality / 2.0
    # Poisson probabilities are negligible ten standard deviations from their mean.
    half_width = 10.0 * math.sqrt(mean) + 10.0
    first_j = max(0, math.floor(mean - half_width))
    last_j = 0
    if mean > 0.0:
        last_j = math.ceil(mean + half_width)

    half_x = x / 2.0
    half_degrees = degrees_of_freedom / 2.0 + first_j
    probability = chi_square_probability(x, 2.0 * half_degrees)
    total = 0.0
    for j in range(first_j, last_j + 1):
        log_weight = -mean - math.lgamma(j + 1.0)
        if j > 0:
            log_weight += j * math.log(mean)
        total += math.exp(log_weight) * probability
        # Two more degrees of freedom (Abramowitz and Stegun 1964, 6.5.21): with h half of the degrees of freedom and
        # y = x / 2, the probability falls by y^h exp(-y) / gamma(h + 1).
        probability -= math.exp(half_degrees * math.log(half_x) - half_x - math.lgamma(half_degrees + 1.0))
        half_degrees += 1.0
    return total


def _range_limits(scored_items: ScoredItems, orders: Sequence[Tallies], level: float) -> tuple[float, float]:
    """Return the confidence limits of the range: of the largest difference between the expected scores of two orders.

    The limits of the range are the largest lower and the largest upper limit of the differences of all pairs of orders,
    in both directions. Each has half of the error probability. Any pair can make the lower limit too high, so its error
    probability is divided among the pairs (Bonferroni). Only the pair with the true range can make the upper limit too
    low.

    Args:
        scored_items: The test items.
        orders: The tallies of each order.
        level: Level of the limits.
    """
    pairs = list(combinations(orders, 2))
    corrected_level = 1.0 - (1.0 - level) / (2.0 * len(pairs))
    low = 0.0
    high = 0.0
    for pair in pairs:
        difference_for_low = scored_items.weighted_sum(pair, [1.0, -1.0], corrected_level)
        difference_for_high = scored_items.weighted_sum(pair, [1.0, -1.0], level)
        if difference_for_low is None or difference_for_high is None:
            continue
        first_minus_second_low = difference_for_low.value - difference_for_low.below
        second_minus_first_low = -(difference_for_low.value + difference_for_low.above)
        low = max(low, first_minus_second_low, second_minus_first_low)
        first_minus_second_high = difference_for_high.value + difference_for_high.above
        second_minus_first_high = -(difference_for_high.value - difference_for_high.below)
        high = max(high, first_minus_second_high, second_minus_first_high)
    return low, min(1.0, high)
