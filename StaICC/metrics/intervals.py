"""Confidence intervals of scores, with the test row as the unit, without random draws.

The population is that of the test rows: intervals say how a score could move with other rows from the same source,
queried in the same way. All queries of a row (repeats, conditions) are summed first; their correlation needs no model.

Three tools make all intervals:

- :func:`ratio_part`: a ratio of sums over rows (accuracy, consistency, F1 of one label) has the score interval of
  Wilson (1927). The number of rows is divided by a design effect, estimated from the rows (Rao and Scott 1992), mixed
  with one pseudo-event in which all queries of a row agree. Without any event the interval is therefore that of the
  rows, and never a point. Student's t replaces the normal quantile.
- :func:`combine`: sums of correlated parts (labels of a macro average, conditions of a slope, data sets of a mean) by
  the method of variance estimates recovery (Zou and Donner 2008): each part contributes the distance to its own limits,
  and the correlation comes from the rows.
- Scores with an end of their range nearby are biased. The calibration error and divergences are inverted as tests: the
  limits are the values under which the estimate, with its bias, would be just significant.

`tests/performance/interval_coverage.py` measures the coverage; docs/metrics.md has its table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import mul

from StaICC.errors import UndefinedMetricError


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval.

    Attributes:
        low: Lower end.
        high: Upper end.
        level: Nominal share of samples whose interval covers the truth.
        method: How it was made.
        centre: The estimate without its bias, where the score is biased; means over data sets need it.
    """

    low: float
    high: float
    level: float
    method: str
    centre: float | None = None


Rows = Sequence[float]
"""One number for each test row."""

INTERVAL_VERSION = "intervals-3"
"""Version of the rules for intervals; part of signatures. The first version was a bootstrap."""

LEAST_ROWS = 5
"""Macro F1 and divergences need this many test rows of each label for an interval (validated by simulation)."""

_TINY = 1e-12
"""Sums and deviations below this size are rounding errors."""

_FEW_EVENTS = 1.5
"""Below this number of events, an exact limit replaces that of Wilson. One event is below it, two events are not."""

_LARGEST_DESIGN_EFFECT = 2.0

_FOLDED_CORRELATION = 1.0 - 2.0 / math.pi
"""The variance of the absolute value of a normal variable with mean 0, as a share of that of the variable."""


@dataclass(frozen=True, slots=True)
class MetricTerm:
    """An estimate with its limits and the influence of each test row on it.

    Attributes:
        value: The estimate.
        below: Distance from the estimate to its lower limit.
        above: Distance to its upper limit.
        influence: For each row, in a fixed order, its contribution to estimate minus truth (linear approximation).
        variance: Variance that the limits assume; at least the sum of the squared influences.
        centre: The estimate without its bias (it can be negative); None where the bias is negligible.
    """

    value: float
    below: float
    above: float
    influence: Rows
    variance: float
    centre: float | None = None

    def interval(self, level: float, method: str, low: float = 0.0, high: float = 1.0) -> Interval:
        """Return the interval, cut off at the ends of the score's range."""
        value = min(high, max(low, self.value))
        return Interval(
            low=max(low, value - max(0.0, self.below)),
            high=min(high, value + max(0.0, self.above)),
            level=level,
            method=method,
            centre=self.centre,
        )


@dataclass(frozen=True, slots=True)
class NoInterval:
    """An interval that is too unreliable to be reported for one data set.

    Attributes:
        reason: Why.
        approximate: The interval all the same, for the mean over data sets; None if labels have no test rows at all,
            for the score is then far from that of the population.
    """

    reason: str
    approximate: Interval | None


# -- Student's t


@lru_cache(maxsize=256)
def student_quantile(level: float, rows: int) -> float:
    """Return the quantile of Student's t for a two-sided interval from a number of rows.

    Args:
        level: Nominal coverage.
        rows: Number of test rows; the degrees of freedom are one less.

    Raises:
        UndefinedMetricError: There are fewer than two rows.

    Source:
        Bisection of the distribution function, which is a finite sum for an integer number of degrees of freedom
        (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).

    Example:
        >>> round(student_quantile(0.95, 20), 4)
        2.093
    """
    if rows < 2:
        raise UndefinedMetricError(f"an interval needs at least two test rows, not {rows}")
    degrees = rows - 1
    low = 0.0
    high = 2.0
    while _student_probability_within(high, degrees) < level:
        low = high
        high *= 2.0
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high):  # no number lies between them
            return high
        if _student_probability_within(middle, degrees) < level:
            low = middle
        else:
            high = middle


def _student_probability_within(t: float, degrees: int) -> float:
    """Return the probability that a variable of Student's t is between ``-t`` and ``t``.

    With ``tan(angle) = t / sqrt(degrees)`` and ``c = cos(angle) ** 2``, the series is

        odd degrees:   sqrt(c) * (1 + 2/3 c + 2*4/(3*5) c^2 + ...), of (degrees - 1) / 2 terms
        even degrees:  1 + 1/2 c + 1*3/(2*4) c^2 + ..., of degrees / 2 terms

    and the probability ``(angle + sin(angle) * series) * 2 / pi`` for odd degrees, ``sin(angle) * series`` for even.
    """
    squared_cosine = degrees / (degrees + t * t)
    is_odd = degrees % 2 == 1
    if is_odd:
        term = math.sqrt(squared_cosine)
        first_power = 1
    else:
        term = 1.0
        first_power = 0

    series = 0.0
    for power in range(first_power, degrees - 1, 2):
        series += term
        term *= (power + 1) / (power + 2) * squared_cosine

    sine = t / math.sqrt(degrees + t * t)
    if is_odd:
        angle = math.atan(t / math.sqrt(degrees))
        return (angle + series * sine) * 2.0 / math.pi
    return series * sine


# -- shares


def _wilson_distances(share: float, rows: float, q: float) -> tuple[float, float]:
    """Return the distances from a share to its lower and its upper limit.

    The limits of Wilson (1927) are the solutions x of ``|share - x| = q * sqrt(x * (1 - x) / rows)``.

    Args:
        share: The share, from 0 to 1.
        rows: Number of independent rows with the same variance; it need not be whole.
        q: Quantile of the interval.
    """
    scale = 1.0 + q * q / rows
    centre = (share + q * q / (2.0 * rows)) / scale
    half_width = q / scale * math.sqrt(max(0.0, share * (1.0 - share)) / rows + q * q / (4.0 * rows * rows))
    low = max(0.0, centre - half_width)
    high = min(1.0, centre + half_width)

    # For one event, Wilson's limit on its side covers only 0.84 (Brown, Cai and DasGupta 2001). The exact one-sided
    # limit of a Poisson variable replaces it.
    poisson_limit = -math.log(math.erf(q / math.sqrt(2.0)))
    if share * rows < _FEW_EVENTS:
        low = min(low, share * poisson_limit)
    if (1.0 - share) * rows < _FEW_EVENTS:
        high = max(high, 1.0 - (1.0 - share) * poisson_limit)

    below = share - low if share > 0 else 0.0
    above = high - share if share < 1 else 0.0
    return below, above


def wilson_distances(share: float, variance: float, q: float) -> tuple[float, float]:
    """Return the distances to the Wilson limits of a share with a given variance; none at the ends of its range."""
    if variance <= _TINY**2:
        return 0.0, 0.0
    if not 0.0 < share < 1.0:
        return 0.0, 0.0
    effective_rows = max(0.5, share * (1.0 - share) / variance)
    return _wilson_distances(share, effective_rows, q)


def _squares(values: Sequence[float]) -> float:
    """Return the sum of the squares."""
    return math.fsum([value * value for value in values])


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the sum of the products."""
    return math.fsum(map(mul, first, second))


def _by_row(columns: Iterable[Rows]) -> list[tuple[float, ...]]:
    """Return for each row its numbers in all columns."""
    return list(zip(*columns, strict=True))


def ratio_part(numerators: Rows, denominators: Rows, level: float, *, continuous: bool = False) -> MetricTerm:
    """Return a ratio of sums over rows, between 0 and 1, with its limits.

    Args:
        numerators: Numerator of each row (such as correct queries), from 0 to its denominator.
        denominators: Denominator of each row (such as queries).
        level: Nominal coverage.
        continuous: The numerators are no counts. Small values are then no events, and a rare large one may be missing
            in the sample: the pseudo-event weighs more.

    Raises:
        UndefinedMetricError: There are fewer than two rows.

    Example:
        >>> part = ratio_part([2, 2, 0, 1] * 5, [2] * 20, 0.95)
        >>> round(part.value - part.below, 3), round(part.value + part.above, 3)
        (0.423, 0.791)
    """
    q = student_quantile(level, len(denominators))
    total = math.fsum(denominators)
    if not total:  # nothing is known of the ratio
        return MetricTerm(value=0.0, below=0.0, above=1.0, influence=[0.0] * len(denominators), variance=0.0)

    value = min(1.0, math.fsum(numerators) / total)
    influence = [(a - value * b) / total for a, b in zip(numerators, denominators, strict=True)]
    observed_variance = _squares(influence)

    # The binomial variance is that of rows in which all queries agree.
    squared_denominators = _squares(denominators)
    binomial_variance = value * (1.0 - value) * squared_denominators / total**2
    events = _number_of_events(numerators, denominators, value, total, continuous=continuous)
    effect = _design_effect(events, observed_variance, binomial_variance)

    effective_rows = max(0.5, total**2 / squared_denominators / effect)
    below, above = _wilson_distances(value, effective_rows, q)
    return MetricTerm(value, below, above, influence, variance=max(observed_variance, effect * binomial_variance))


def _number_of_events(numerators: Rows, denominators: Rows, value: float, total: float, *, continuous: bool) -> float:
    """Return the effective number of rows that have the rarer outcome of a ratio, such as wrong predictions.

    It is ``(sum over rows)^2 / (sum of squares)``: for rows that are all or nothing, their number.

    Args:
        numerators: Numerator of each row.
        denominators: Denominator of each row.
        value: The ratio.
        total: The sum of the denominators.
        continuous: Whether the numerators are no counts. Small ones are then no events: the number is that of rows,
            times the mean of the rarer outcome.
    """
    if value < 0.5:
        rarer = numerators
    else:
        rarer = [b - a for a, b in zip(numerators, denominators, strict=True)]
    rarer_total = math.fsum(rarer)
    if rarer_total < _TINY:
        return 0.0
    if continuous:
        return rarer_total * len(rarer) / total
    return rarer_total * rarer_total / _squares(rarer)


def _design_effect(events: float, observed_variance: float, binomial_variance: float) -> float:
    """Return the ratio of the observed to the binomial variance, averaged over the events and one pseudo-event.

    The pseudo-event has the ratio 1, so that the effect of few events is near 1.
    """
    ratio = 0.0
    if binomial_variance > _TINY**2:
        ratio = min(_LARGEST_DESIGN_EFFECT, observed_variance / binomial_variance)
    return (events * ratio + 1.0) / (events + 1.0)


def expected_distances(value: float, variance: float, rows: int, level: float) -> tuple[float, float]:
    """Return the distances to the limits that :func:`ratio_part` is expected to have for rows of equal size.

    Args:
        value: The expected ratio.
        variance: The variance of the ratio of a row.
        rows: Number of rows.
        level: Nominal coverage.
    """
    # With m the mean of the rarer outcome, its sum is rows * m, and its sum of squares rows * (variance + m^2).
    squared_mean = min(value, 1.0 - value) ** 2
    events = 0.0
    if squared_mean > _TINY:
        events = rows * squared_mean / (variance + squared_mean)
    effect = _design_effect(events, variance, value * (1.0 - value))
    effective_rows = max(0.5, rows / effect)
    return _wilson_distances(value, effective_rows, student_quantile(level, rows))


# -- sums of correlated parts


def combine(parts: Sequence[MetricTerm], weights: Sequence[float]) -> MetricTerm:
    """Return the weighted sum of parts over the same rows, with its limits.

    In a difference, rows that are predicted alike cancel out, and a small sample may have no other rows. So the
    variance is at least that of two pseudo-rows: one is correct only in the parts with positive weights, one only in
    those with negative weights (as in Bonett and Price 2012 for two conditions). A sum without negative weights has no
    pseudo-rows.

    Args:
        parts: The parts.
        weights: Their weights, of any sign.

    Source:
        Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach".
    """
    influences_by_row = _by_row(part.influence for part in parts)
    influence = [_dot(weights, influences) for influences in influences_by_row]
    lower_distances = []
    upper_distances = []
    for weight, part in zip(weights, parts, strict=True):
        if weight > 0.0:
            lower_distances.append(weight * part.below)
            upper_distances.append(weight * part.above)
        else:  # the sum is low where the part is high
            lower_distances.append(weight * part.above)
            upper_distances.append(weight * part.below)
    return MetricTerm(
        value=math.fsum([weight * part.value for weight, part in zip(weights, parts, strict=True)]),
        below=_combined_distance(parts, lower_distances, influences_by_row),
        above=_combined_distance(parts, upper_distances, influences_by_row),
        influence=influence,
        variance=_squares(influence),
    )


def _combined_distance(
    parts: Sequence[MetricTerm], distances: Sequence[float], influences_by_row: Sequence[Sequence[float]]
) -> float:
    """Return the distance from a weighted sum of parts to one of its limits.

    The squared distance of a part to its limit has two terms. One is explained by the influences of the rows, which
    correlate the parts; the other one is independent of the other parts.

    Args:
        parts: The parts.
        distances: For each part its weight times the distance to the limit on this side of the sum.
        influences_by_row: For each row, its influence on each part.
    """
    scales = []
    unexplained = []
    for part, distance in zip(parts, distances, strict=True):
        if not part.variance:
            scales.append(0.0)
            unexplained.append(distance**2)
            continue
        scales.append(distance / math.sqrt(part.variance))
        explained_share = min(1.0, _squares(part.influence) / part.variance)
        unexplained.append(distance**2 * (1.0 - explained_share))
    explained = _squares([_dot(scales, influences) for influences in influences_by_row])

    # Each pseudo-row is correct in the parts with one sign only. The smaller sum of their scales counts for both.
    positive = math.fsum([scale for scale in scales if scale > 0.0])
    negative = math.fsum([-scale for scale in scales if scale < 0.0])
    pseudo_rows = 2.0 * (min(positive, negative) / max(1, len(influences_by_row))) ** 2
    return math.sqrt(explained + max(pseudo_rows, math.fsum(unexplained)))


def of_difference(part: MetricTerm, level: float) -> MetricTerm:
    """Return a part of a difference: its limits are no closer than a normal variable's, for a difference has no ends.

    Args:
        part: A share, whose own limits are drawn towards the middle of its range.
        level: Nominal coverage.
    """
    deviation = math.sqrt(_squares(part.influence))
    distance = student_quantile(level, len(part.influence)) * deviation
    return replace(part, below=max(part.below, distance), above=max(part.above, distance))


def macro_part(hits: Sequence[Rows], sizes: Sequence[Rows], level: float) -> MetricTerm:
    """Return the mean of ratios, such as macro F1, with its limits.

    The limits are the wider ones of two: from the limits of each label (for labels with few events), and of the mean as
    one share (for few events in all).

    Args:
        hits: For each label the numerators of the rows: for F1 two times the true positives.
        sizes: For each label the denominators of the rows: for F1 predicted plus true.
        level: Nominal coverage.
    """
    parts = [ratio_part(a, b, level) for a, b in zip(hits, sizes, strict=True)]
    macro = combine(parts, weights=[1.0 / len(parts)] * len(parts))
    q = student_quantile(level, len(macro.influence))
    below, above = wilson_distances(macro.value, macro.variance, q)
    wider = replace(macro, below=max(macro.below, below), above=max(macro.above, above))
    return _with_implied_variance(wider, level)


def _with_implied_variance(part: MetricTerm, level: float) -> MetricTerm:
    """Return a part with the variance that its limits imply, at least that of its influences.

    The limits imply that their mean distance is ``q`` standard deviations.
    """
    q = student_quantile(level, len(part.influence))
    implied_deviation = (part.below + part.above) / (2.0 * q)
    return replace(part, variance=max(_squares(part.influence), implied_deviation**2))


def likelihood_part(likelihoods: Rows, correct: Rows, of_correct: Rows, queries: Rows, level: float) -> MetricTerm:
    """Return the mean true-label likelihood with its limits.

    Wrong predictions of a certain model are rare and cost a likelihood of almost 1 each. So the limits have two
    sources: those of the accuracy, times the difference of the likelihoods of correct and wrong predictions (with one
    pseudo-row each, of 1 and 0), and the variation of the likelihood within both kinds.

    Args:
        likelihoods: Sum over the queries of each row.
        correct: Number of correct predictions of each row.
        of_correct: Sum of the likelihoods of its correct predictions.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    total = math.fsum(queries)
    queries_per_row = total / len(queries)
    accuracy = ratio_part(correct, queries, level)
    mean = ratio_part(likelihoods, queries, level, continuous=True)

    n_correct = math.fsum(correct)
    n_wrong = total - n_correct
    correct_sum = math.fsum(of_correct)
    wrong_sum = max(0.0, math.fsum(likelihoods) - correct_sum)
    correct_mean = correct_sum / n_correct if n_correct else 1.0
    wrong_mean = wrong_sum / n_wrong if n_wrong else 0.0

    # First source: the accuracy. The pseudo-rows bound the gap between both kinds of predictions.
    correct_mean_with_pseudo_row = (correct_sum + queries_per_row) / (n_correct + queries_per_row)
    wrong_mean_with_pseudo_row = wrong_sum / (n_wrong + queries_per_row)
    gap = correct_mean_with_pseudo_row - wrong_mean_with_pseudo_row

    # Second source: the likelihoods around the mean of their kind.
    deviations = [
        (likelihood - correct_mean * hits - wrong_mean * (count - hits)) / total
        for likelihood, hits, count in zip(likelihoods, correct, queries, strict=True)
    ]
    share = min(1.0, max(0.0, mean.value))
    q = student_quantile(level, len(queries))
    within_below, within_above = wilson_distances(share, _squares(deviations), q)

    # Queries of one row correlate, and so do the sources. The variance of the rows' sums includes that.
    least_below, least_above = wilson_distances(share, _squares(mean.influence), q)
    below = max(math.hypot(gap * accuracy.below, within_below), least_below)
    above = max(math.hypot(gap * accuracy.above, within_above), least_above)
    return _with_implied_variance(replace(mean, below=below, above=above), level)


# -- calibration error


def folded_moments(mean: float, deviation: float) -> tuple[float, float]:
    """Return mean and variance of the absolute value of a normal variable.

    Args:
        mean: Mean of the variable.
        deviation: Its standard deviation.
    """
    if deviation < _TINY:
        return abs(mean), 0.0
    z = mean / deviation
    folded_mean = 2.0 * deviation * math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    folded_mean += mean * math.erf(z / math.sqrt(2.0))
    variance = mean * mean + deviation * deviation - folded_mean * folded_mean
    return folded_mean, max(0.0, variance)


@dataclass(frozen=True, slots=True)
class _BinError:
    """The calibration error of one confidence bin, weighted with its share of the queries.

    Attributes:
        size: Absolute value of the sum of correct minus confidence, divided by the number of queries.
        lower_deviation: Standard deviation for the lower limit: that of errors nearer to 0.
        upper_deviation: Standard deviation for the upper limit: the larger one of both directions.
        influence: Influence of each row on the size.
        queries: Number of queries of each row in the bin.
    """

    size: float
    lower_deviation: float
    upper_deviation: float
    influence: Rows
    queries: Rows


def calibration_part(bins: Sequence[Sequence[Rows]], queries: Rows, level: float) -> MetricTerm:
    """Return the expected calibration error with its limits.

    The estimate, a sum of absolute values, is larger than the truth on average. A limit is the error under which the
    estimate is as far from its mean as the quantile of Student's t says; it is reached by moving the gaps of all bins
    together in the likeliest way. Queries of one row may be in different bins, whose gaps are then correlated as their
    influences are. A calibrated model has the lower limit 0.

    Args:
        bins: For each confidence bin with queries, by row: the correct predictions in the bin, the queries, and the sum
            over the queries of correct minus confidence.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    q = student_quantile(level, len(queries))
    errors = [_bin_error(hits, of_bin, excess, queries, level) for hits, of_bin, excess in bins]
    sizes = [error.size for error in errors]
    lower_deviations = [error.lower_deviation for error in errors]
    lower_covariances = _covariances(errors, lower_deviations)
    upper_covariances = _covariances(errors, [error.upper_deviation for error in errors])
    value = math.fsum(sizes)

    # The lower limit is at least as far away as that of a sum whose signs are known.
    variance_with_signs = max(0.0, math.fsum(map(math.fsum, lower_covariances)))
    least_distance = min(value, q * math.sqrt(variance_with_signs))
    lower_limit = _calibration_limit(value, sizes, lower_covariances, q, direction=-1.0)
    upper_limit = _calibration_limit(value, sizes, upper_covariances, q, direction=1.0)

    # The estimate of a calibrated model has this mean. A smaller estimate is the mean of no error: its unbiased value
    # is negative.
    means_if_calibrated = []
    for deviation in lower_deviations:
        folded_mean, _ = folded_moments(mean=0.0, deviation=deviation)
        means_if_calibrated.append(folded_mean)
    mean_if_calibrated = math.fsum(means_if_calibrated)
    if value < mean_if_calibrated:
        unbiased = value - mean_if_calibrated
    else:
        unbiased = _calibration_limit(value, sizes, lower_covariances, 0.0, direction=-1.0)

    influences_by_row = _by_row(error.influence for error in errors)
    part = MetricTerm(
        value,
        below=max(0.0, value - lower_limit, least_distance),
        above=max(0.0, min(1.0, upper_limit) - value),
        influence=list(map(math.fsum, influences_by_row)),
        variance=0.0,
        centre=unbiased,
    )
    return _with_implied_variance(part, level)


def _bin_error(hits: Rows, bin_queries: Rows, excess: Rows, queries: Rows, level: float) -> _BinError:
    """Return the calibration error of one bin.

    Args:
        hits: Correct predictions of each row in the bin.
        bin_queries: Queries of each row in the bin.
        excess: For each row, the sum of correct minus confidence over its queries in the bin.
        queries: All queries of each row.
        level: Nominal coverage.
    """
    q = student_quantile(level, len(queries))
    total = math.fsum(queries)
    gap = math.fsum(excess) / total
    share = math.fsum(bin_queries) / total

    # Two things vary: the accuracy in the bin, and the share of the queries that are in it.
    accuracy = ratio_part(hits, bin_queries, level)
    influence_on_share = [(a - share * b) / total for a, b in zip(bin_queries, queries, strict=True)]
    variance_from_share = (gap / share) ** 2 * _squares(influence_on_share)
    deviation_below = math.sqrt((share * accuracy.below / q) ** 2 + variance_from_share)
    deviation_above = math.sqrt((share * accuracy.above / q) ** 2 + variance_from_share)

    # A positive gap is nearer to 0 with a lower accuracy, a negative one with a higher accuracy.
    if gap <= 0:
        towards_zero = deviation_above
        away_from_zero = deviation_below
    else:
        towards_zero = deviation_below
        away_from_zero = deviation_above
    # The true gap may have the other sign: q deviations towards 0 and past it increase the error by twice the gap less.
    past_zero = towards_zero - 2.0 * abs(gap) / q
    sign = -1.0 if gap < 0.0 else 1.0
    return _BinError(
        size=abs(gap),
        lower_deviation=towards_zero,
        upper_deviation=max(away_from_zero, past_zero),
        influence=[sign * (value - gap * count) / total for value, count in zip(excess, queries, strict=True)],
        queries=bin_queries,
    )


def _covariances(errors: Sequence[_BinError], deviations: Sequence[float]) -> list[list[float]]:
    """Return the covariances of the errors of bins that have the given standard deviations.

    The part of the deviations that is observed is correlated as the influences are. The other part, from errors that
    the sample may lack, is correlated as the bins share rows: such a row is wrong in all its bins.
    """
    observed_scales = []
    hidden_scales = []
    for error, deviation in zip(errors, deviations, strict=True):
        variance = deviation * deviation
        observed_variance = _squares(error.influence)
        observed_scales.append(deviation / math.sqrt(max(variance, observed_variance, _TINY**2)))
        hidden_variance = max(0.0, variance - observed_variance)
        hidden_scales.append(math.sqrt(hidden_variance / max(_squares(error.queries), _TINY)))

    covariances = []
    for a, first in enumerate(errors):
        row = []
        for b, second in enumerate(errors):
            if a == b:
                row.append(deviations[a] ** 2)
                continue
            observed = observed_scales[a] * observed_scales[b] * _dot(first.influence, second.influence)
            hidden = hidden_scales[a] * hidden_scales[b] * _dot(first.queries, second.queries)
            row.append(observed + hidden)
        covariances.append(row)
    return covariances


def _folded_sum(means: Sequence[float], covariances: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return mean and variance of the sum of the absolute values of normal variables with means from 0 on.

    The covariance of two absolute values is that of the variables where both keep their signs, and at most 1 - 2 / pi
    of its size where the signs are free.
    """
    folded_means = []
    variances = []
    sign_certainties = []
    for index, mean in enumerate(means):
        deviation = math.sqrt(covariances[index][index])
        folded_mean, folded_variance = folded_moments(mean, deviation)
        folded_means.append(folded_mean)
        variances.append(folded_variance)
        sign_certainties.append(math.erf(mean / max(deviation, _TINY) / math.sqrt(2.0)))

    variance = math.fsum(variances)
    for first, row in enumerate(covariances):
        for second in range(first):
            covariance = row[second]
            both_certain = sign_certainties[first] * sign_certainties[second]
            free = (1.0 - both_certain) * _FOLDED_CORRELATION * abs(covariance)
            variance += 2.0 * (both_certain * covariance + free)
    return math.fsum(folded_means), max(0.0, variance)


def _calibration_limit(
    value: float, sizes: Sequence[float], covariances: Sequence[Sequence[float]], q: float, *, direction: float
) -> float:
    """Return the calibration error from whose mean estimate the observed one is ``q`` standard deviations away.

    Args:
        value: The observed estimate.
        sizes: The observed error of each bin.
        covariances: Covariances of the errors of the bins.
        q: Number of standard deviations.
        direction: 1 for the upper limit, -1 for the lower one.
    """
    moves = [max(0.0, math.fsum(row)) for row in covariances]
    scale = math.sqrt(math.fsum(moves))
    if scale < _TINY:
        return value

    def moved(step: float) -> list[float]:
        """Return the errors of the bins if their sum moves by some standard deviations, in the likeliest way."""
        return [max(0.0, size + direction * step * move / scale) for size, move in zip(sizes, moves, strict=True)]

    # Bisection of the number of standard deviations.
    low = 0.0
    high = 60.0
    for _ in range(40):
        middle = (low + high) / 2.0
        mean, variance = _folded_sum(moved(middle), covariances)
        if direction * (mean - value) > q * math.sqrt(variance):
            high = middle
        else:
            low = middle
    return math.fsum(moved(high))


# -- divergence


@dataclass(frozen=True, slots=True)
class _LabelTerm:
    """What one label contributes to a divergence and its variance.

    With the mean probability p and the frequency f of the label, the divergence is the sum of ``p * log(p / f)``.

    Attributes:
        divergence: ``p * log(p / f)``.
        gradient: For each row its influence on the divergence, by the derivative at p and f.
        deviation: For each row its influence on u, the change of p relative to f, divided by ``sqrt(p)``. Near 0, the
            divergence is half the sum of the squared u of all labels.
        hidden_variance: Variance of the divergence from predictions that the sample may lack.
        hidden_deviation_variance: Variance of u from them.
    """

    divergence: float
    gradient: Rows
    deviation: Rows
    hidden_variance: float
    hidden_deviation_variance: float


def divergence_interval(
    probabilities: Sequence[Rows], frequencies: Sequence[Rows] | None, queries: Rows, level: float
) -> Interval:
    """Return the interval of the divergence of the mean prediction from label frequencies, or from uniform ones.

    The estimate is larger than the truth on average, by its mean if there is no divergence (a second-order term). A
    limit is the divergence under which the estimate without this bias is just significant, with the variance that it
    has under that divergence. The lower limit is 0 unless the estimate exceeds the quantile of a chi-square (Wilson and
    Hilferty 1931) with the mean and the variance that it has if there is no divergence.

    Args:
        probabilities: For each label the sum of its probabilities over the queries of each row.
        frequencies: For each label its number of queries; None for the divergence from the uniform distribution.
        queries: Number of queries of each row.
        level: Nominal coverage.

    Raises:
        UndefinedMetricError: There are fewer than two rows.
    """
    q = student_quantile(level, len(queries))
    n_labels = len(probabilities)
    terms = []
    for label in range(n_labels):
        label_frequencies = None if frequencies is None else frequencies[label]
        terms.append(_label_term(probabilities[label], label_frequencies, n_labels, queries, level))
    moments = _divergence_moments(terms)

    largest = math.log(n_labels) if frequencies is None else math.inf
    return Interval(
        low=_lower_divergence_limit(moments, q),
        high=min(largest, _upper_divergence_limit(moments, q)),
        level=level,
        method="second-order delta method, unit: test row",
        centre=moments.value - moments.bias,
    )


def _label_term(
    probabilities: Rows, frequencies: Rows | None, n_labels: int, queries: Rows, level: float
) -> _LabelTerm:
    """Return what one label contributes to a divergence.

    Args:
        probabilities: For each row the sum of the label's probabilities over its queries.
        frequencies: For each row the number of its queries with this label; None if all labels are equally frequent.
        n_labels: Number of labels.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    n_rows = len(queries)
    part = ratio_part(probabilities, queries, level, continuous=True)
    if frequencies is None:
        frequency = 1.0 / n_labels
        frequency_influence = [0.0] * n_rows
    else:
        total = math.fsum(queries)
        frequency = math.fsum(frequencies) / total
        frequency_influence = [
            (count - frequency * size) / total for count, size in zip(frequencies, queries, strict=True)
        ]

    # A pseudo-row with equal probabilities keeps the mean above 0.
    mean = (n_rows * part.value + 1.0 / n_labels) / (n_rows + 1.0)
    ratio = mean / frequency
    slope = math.log(mean / frequency) + 1.0

    # The limits of the mean probability assume more variance than the rows show. The least is that of a pseudo-row
    # whose prediction is another label than the true one.
    pseudo_row_variance = 0.5 / n_rows**2
    assumed_variance = _with_implied_variance(part, level).variance
    hidden_variance = max(pseudo_row_variance, assumed_variance - _squares(part.influence))

    influences = list(zip(part.influence, frequency_influence, strict=True))
    divergence = 0.0
    if part.value > 0:
        divergence = part.value * math.log(part.value / frequency)
    return _LabelTerm(
        divergence=divergence,
        gradient=[slope * a - ratio * b for a, b in influences],
        deviation=[(a - ratio * b) / math.sqrt(mean) for a, b in influences],
        hidden_variance=(slope - 1.0) ** 2 * hidden_variance,
        hidden_deviation_variance=hidden_variance / mean,
    )


@dataclass(frozen=True, slots=True)
class _DivergenceMoments:
    """An observed divergence and the moments of its sampling distribution.

    Attributes:
        value: The observed divergence.
        bias: Its mean if there is no divergence.
        null_variance: Its variance if there is no divergence.
        variance: Its first-order variance if the truth is the observed divergence.
    """

    value: float
    bias: float
    null_variance: float
    variance: float


def _divergence_moments(terms: Sequence[_LabelTerm]) -> _DivergenceMoments:
    """Return a divergence and its moments from the terms of the labels.

    If there is no divergence, it is ``sum(u^2) / 2``. For normal u with the covariances C, its mean is half the sum of
    the variances, and its variance half the sum of all squared C.
    """
    observed = [_squares(term.deviation) for term in terms]
    hidden = [term.hidden_deviation_variance for term in terms]

    squared_covariances = []
    for a, first in enumerate(terms):
        for b, second in enumerate(terms):
            covariance = _dot(first.deviation, second.deviation)
            if a == b:
                covariance += first.hidden_deviation_variance
            squared_covariances.append(covariance**2)

    gradients_by_row = _by_row(term.gradient for term in terms)
    gradient = list(map(math.fsum, gradients_by_row))
    return _DivergenceMoments(
        value=math.fsum(term.divergence for term in terms),
        bias=0.5 * math.fsum([*observed, *hidden]),
        null_variance=0.5 * math.fsum(squared_covariances),
        variance=_squares(gradient) + math.fsum(term.hidden_variance for term in terms),
    )


def _growth(moments: _DivergenceMoments, q: float) -> float:
    """Return how fast the variance of an estimate grows with the divergence, times ``q^2 / 2``.

    The first-order variance of an estimate is proportional to the divergence. ``q^2`` times the variance under a
    divergence D is therefore ``2 * growth * D``.
    """
    least_value = 0.01 * moments.bias  # the variance of an estimate near 0 is too uncertain to divide by it
    return q * q * moments.variance / max(moments.value, least_value) / 2.0


def _upper_divergence_limit(moments: _DivergenceMoments, q: float) -> float:
    """Return the largest divergence that the estimate does not reject.

    It solves ``(D - unbiased)^2 = 2 * growth * D + q^2 * null_variance`` for D.
    """
    growth = _growth(moments, q)
    null_distance = q * math.sqrt(moments.null_variance)
    unbiased = max(0.0, moments.value - moments.bias)
    distance = math.sqrt(growth * growth + 2.0 * growth * unbiased + q * q * moments.null_variance)
    # An estimate below its bias lowers the limit, but by no more than chance explains.
    centre = max(moments.value - moments.bias, -null_distance) + growth
    return max(moments.value, centre + distance)


def _lower_divergence_limit(moments: _DivergenceMoments, q: float) -> float:
    """Return the smallest divergence that the estimate does not reject."""
    # Without divergence, the estimate is a scaled chi-square. This is its quantile of Wilson and Hilferty.
    degrees = 2.0 * moments.bias * moments.bias / max(moments.null_variance, _TINY**2)
    significant = moments.bias * (1.0 - 2.0 / (9.0 * degrees) + q * math.sqrt(2.0 / (9.0 * degrees))) ** 3
    if moments.value <= significant:
        return 0.0

    # With u the deviation in the direction of the divergence, the estimate is u^2 / 2 plus the bias from the other
    # directions. u is nearly normal with the variance growth / q^2, of which half is the bias from its own direction.
    growth = _growth(moments, q)
    other_bias = max(0.0, moments.bias - growth / (2.0 * q * q))
    root = math.sqrt(2.0 * max(0.0, moments.value - other_bias)) - math.sqrt(growth)
    return max(0.0, root) ** 2 / 2.0


# -- means over data sets


def mean_interval(values: Sequence[float], intervals: Sequence[Interval], highest: float = 1.0) -> Interval:
    """Return the interval of a mean over data sets, whose rows are independent of each other.

    The limits of a share near an end of its range are skewed, and their skewness must shrink with the number of data
    sets. With b and a the distances of a data set to its lower and upper limit, its level is ``a b`` and its slope
    ``a - b``: the limits are ``value + slope / 2 -+ sqrt(level + slope^2 / 4)``. The mean has the sum of the levels,
    divided by the squared number of data sets, and the mean slope (weighted with the squared widths, which also exist
    without any event), divided by their number. One data set keeps its interval; many data sets have nearly the Wilson
    interval of all rows.

    Args:
        values: The score of each data set.
        intervals: Its interval.
        highest: Largest possible mean of a score whose bias is removed.

    Example:
        >>> half = Interval(0.4, 0.6, 0.95, "any")
        >>> interval = mean_interval([0.5] * 4, [half] * 4)
        >>> round(interval.low, 2), round(interval.high, 2)
        (0.45, 0.55)
    """
    if any(interval.centre is not None for interval in intervals):
        return _biased_mean_interval(values, intervals, highest)

    below = [max(0.0, value - interval.low) for value, interval in zip(values, intervals, strict=True)]
    above = [max(0.0, interval.high - value) for value, interval in zip(values, intervals, strict=True)]
    # Scores at both ends of their ranges have no level, and their slopes cancel out: the mean would have no width.
    at_lowest = any(up and not down for down, up in zip(below, above, strict=True))
    at_highest = any(down and not up for down, up in zip(below, above, strict=True))
    if at_lowest and at_highest:
        is_skewed_down = [up < down for down, up in zip(below, above, strict=True)]
        return _mean_interval_of_halves(values, intervals, is_skewed_down)
    return _skewed_mean_interval(values, intervals, below, above)


def _skewed_mean_interval(
    values: Sequence[float], intervals: Sequence[Interval], below: Sequence[float], above: Sequence[float]
) -> Interval:
    """Return the interval of a mean over data sets from the distances of their scores to the limits.

    Args:
        values: The score of each data set.
        intervals: Its interval.
        below: The distance to its lower limit.
        above: The distance to its upper limit.
    """
    count = len(values)
    mean = math.fsum(values) / count
    slopes = [up - down for down, up in zip(below, above, strict=True)]
    squared_widths = [(up + down) ** 2 for down, up in zip(below, above, strict=True)]
    total_weight = max(math.fsum(squared_widths), _TINY**2)
    slope = _dot(slopes, squared_widths) / total_weight / count

    # With k = q^2 / rows, a Wilson interval of a share p has the slope s (1 - 2 p) and the level s p (1 - p), where the
    # shrinkage s is k / (1 + k). So level / (1 - s) is k p (1 - p), which is q^2 times the variance and adds up. The
    # mean has the rows of all data sets, so that its shrinkage is about 1 / count of theirs.
    shrinkages = []
    for value, down, up, own_slope in zip(values, below, above, slopes, strict=True):
        shrinkage = abs(own_slope)
        if 0.0 < value < 1.0:
            shrinkage = max(shrinkage, down * up / (value * (1.0 - value)))
        shrinkages.append(min(0.5, shrinkage))
    remaining_share = 1.0 - _dot(shrinkages, squared_widths) / total_weight / count
    level = math.fsum(
        down * up * remaining_share / (1.0 - shrinkage)
        for down, up, shrinkage in zip(below, above, shrinkages, strict=True)
    )

    half_width = math.sqrt(level / count**2 + slope * slope / 4.0)
    centre = mean + slope / 2.0
    mean_low = math.fsum(interval.low for interval in intervals) / count
    mean_high = math.fsum(interval.high for interval in intervals) / count
    low = max(mean_low, centre - half_width)
    high = min(mean_high, centre + half_width)
    return _interval_of_mean(intervals, min(mean, low), max(mean, high))


def _biased_mean_interval(values: Sequence[float], intervals: Sequence[Interval], highest: float) -> Interval:
    """Return the interval of the mean over data sets of a score that chance raises or lowers.

    Args:
        values: The score of each data set.
        intervals: Its interval.
        highest: Largest possible mean.
    """
    count = len(values)
    mean = math.fsum(values) / count
    centres = []
    squared_distances = []
    for value, interval in zip(values, intervals, strict=True):
        centre = value if interval.centre is None else interval.centre
        centres.append(centre)
        # One of the limits may be cut off at the end of the range. So the larger distance counts.
        distance = max(0.0, centre - interval.low, interval.high - centre)
        squared_distances.append(distance * distance)
    half_width = math.sqrt(math.fsum(squared_distances) / count**2)

    # The bias is estimated, and uncertain by about its size: it may be twice that, or nothing.
    mean_centre = math.fsum(centres) / count
    bias = mean - mean_centre
    with_whole_bias = half_width + abs(bias)
    with_uncertain_bias = math.hypot(half_width, bias)
    if bias > 0.0:
        low = mean_centre - with_whole_bias
        high = mean_centre + with_uncertain_bias
    else:
        low = mean_centre - with_uncertain_bias
        high = mean_centre + with_whole_bias
    return _interval_of_mean(intervals, min(mean, max(0.0, low)), max(mean, min(highest, high)))


def _mean_interval_of_halves(
    values: Sequence[float], intervals: Sequence[Interval], is_skewed_down: Sequence[bool]
) -> Interval:
    """Return the interval of a mean from those of its two halves, which are skewed to different sides (MOVER).

    Args:
        values: The score of each data set.
        intervals: Its interval.
        is_skewed_down: Whether its lower limit is farther away than its upper limit.
    """
    mean = math.fsum(values) / len(values)
    below = 0.0
    above = 0.0
    for direction in (False, True):
        half_values = []
        half_intervals = []
        for value, interval, skewed_down in zip(values, intervals, is_skewed_down, strict=True):
            if skewed_down == direction:
                half_values.append(value)
                half_intervals.append(interval)
        half = mean_interval(half_values, half_intervals)
        share = len(half_values) / len(values)
        half_mean = math.fsum(half_values) / len(half_values)
        below = math.hypot(below, share * (half_mean - half.low))
        above = math.hypot(above, share * (half.high - half_mean))
    return _interval_of_mean(intervals, mean - below, mean + above)


def _interval_of_mean(intervals: Sequence[Interval], low: float, high: float) -> Interval:
    """Return an interval with the level of the intervals of the data sets."""
    return Interval(low, high, intervals[0].level, method="variance recovery over data sets")
