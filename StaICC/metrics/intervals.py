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
from collections.abc import Sequence
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
_RARE = 1.5  # events; between one and two


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
        ends = max(low, value - max(0.0, self.below)), min(high, value + max(0.0, self.above))
        return Interval(*ends, level, method, centre=self.centre)


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
    low, high = 0.0, 2.0
    while _within(high, rows - 1) < level:
        low, high = high, 2.0 * high
    while low < (t := (low + high) / 2.0) < high:
        low, high = (t, high) if _within(t, rows - 1) < level else (low, t)
    return high


def _within(t: float, df: int) -> float:
    """Return the probability that a variable of Student's t is closer to 0 than ``t``."""
    squared_cosine, odd = df / (df + t * t), df % 2
    term, total = math.sqrt(squared_cosine) if odd else 1.0, 0.0
    for power in range(odd, df - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * squared_cosine
    total *= t / math.sqrt(df + t * t)
    return (math.atan(t / math.sqrt(df)) + total) * 2.0 / math.pi if odd else total


def _wilson(share: float, size: float, q: float) -> tuple[float, float]:
    """Return the distances from a share to its Wilson limits.

    Up to one event, the limit on its side is the exact one-sided limit of a Poisson variable (Brown, Cai and DasGupta
    2001): that of Wilson covers only 0.84 there.
    """
    scale = 1.0 + q * q / size
    centre = (share + q * q / (2.0 * size)) / scale
    reach = q / scale * math.sqrt(max(0.0, share * (1.0 - share)) / size + q * q / (4.0 * size * size))
    rare = -math.log(math.erf(q / math.sqrt(2.0)))
    low, high = max(0.0, centre - reach), min(1.0, centre + reach)
    if share * size < _RARE:
        low = min(low, share * rare)
    if (1.0 - share) * size < _RARE:
        high = max(high, 1.0 - (1.0 - share) * rare)
    return share - low if share > 0 else 0.0, high - share if share < 1 else 0.0


def wilson_distances(share: float, variance: float, q: float) -> tuple[float, float]:
    """Return the distances to the Wilson limits of a share with a given variance; none at the ends of its range."""
    if variance <= _TINY**2 or not 0.0 < share < 1.0:
        return 0.0, 0.0
    return _wilson(share, max(0.5, share * (1.0 - share) / variance), q)


def _squares(values: Sequence[float]) -> float:
    return math.fsum([value * value for value in values])


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return math.fsum(map(mul, first, second))


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
    total, size = math.fsum(denominators), _squares(denominators)
    if not total:
        return MetricTerm(0.0, 0.0, 1.0, [0.0] * len(denominators), 0.0)
    value = min(1.0, math.fsum(numerators) / total)
    influence = [(a - value * b) / total for a, b in zip(numerators, denominators, strict=True)]
    observed = _squares(influence)
    binomial = value * (1.0 - value) * size / total**2
    minor = numerators if value < 0.5 else [b - a for a, b in zip(numerators, denominators, strict=True)]
    mass, squares = math.fsum(minor), _squares(minor)
    events = 0.0 if mass < _TINY else mass * len(minor) / total if continuous else mass * mass / squares
    effect = _design_effect(events, observed, binomial)
    below, above = _wilson(value, max(0.5, total**2 / size / effect), q)
    return MetricTerm(value, below, above, influence, max(observed, effect * binomial))


def _design_effect(events: float, observed: float, binomial: float) -> float:
    """Return the ratio of a variance to the binomial one, at most 2, with a pseudo-event whose ratio is 1."""
    ratio = min(2.0, observed / binomial) if binomial > _TINY**2 else 0.0
    return (events * ratio + 1.0) / (events + 1.0)


def expected_distances(value: float, variance: float, rows: int, level: float) -> tuple[float, float]:
    """Return the distances to the limits that :func:`ratio_part` is expected to have for rows of equal size.

    Args:
        value: The expected ratio.
        variance: The variance of the ratio of a row.
        rows: Number of rows.
        level: Nominal coverage.
    """
    minor = min(value, 1.0 - value) ** 2
    events = rows * minor / (variance + minor) if minor > _TINY else 0.0
    effect = _design_effect(events, variance, value * (1.0 - value))
    return _wilson(value, max(0.5, rows / effect), student_quantile(level, rows))


def combine(parts: Sequence[MetricTerm], weights: Sequence[float]) -> MetricTerm:
    """Return the weighted sum of parts over the same rows, with its limits.

    The rows cancel in a difference where their predictions agree, and rows that differ may be missing in the sample. So
    two pseudo-rows are the least of the variance that rows do not share: one is correct only under the positive
    weights, one only under the negative ones (as in Bonett and Price 2012 for two conditions). A sum without negative
    weights has none.

    Args:
        parts: The parts.
        weights: Their weights, of any sign.

    Source:
        Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach".
    """
    columns = list(zip(*(part.influence for part in parts), strict=True))
    influence = [_dot(weights, column) for column in columns]
    reaches = []
    for side in (1.0, -1.0):
        scales, alone = [], []
        for weight, part in zip(weights, parts, strict=True):
            distance = weight * (part.below if weight * side > 0 else part.above)
            variance = part.variance or math.inf
            scales.append(distance / math.sqrt(variance))
            alone.append(distance**2 * (1.0 - min(1.0, _squares(part.influence) / variance)))
        shared = _squares([_dot(scales, column) for column in columns])
        lost = [math.fsum(scale for scale in scales if scale * sign > 0.0) for sign in (1.0, -1.0)]
        least = 2.0 * (min(map(abs, lost)) / max(1, len(columns))) ** 2
        reaches.append(math.sqrt(shared + max(least, math.fsum(alone))))
    value = math.fsum([weight * part.value for weight, part in zip(weights, parts, strict=True)])
    return MetricTerm(value, reaches[0], reaches[1], influence, _squares(influence))


def of_difference(part: MetricTerm, level: float) -> MetricTerm:
    """Return a part of a difference: its limits are no closer than a normal variable's, for a difference has no ends.

    Args:
        part: A share, whose own limits are drawn towards the middle of its range.
        level: Nominal coverage.
    """
    reach = student_quantile(level, len(part.influence)) * math.sqrt(_squares(part.influence))
    return replace(part, below=max(part.below, reach), above=max(part.above, reach))


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
    macro = combine(parts, [1.0 / len(parts)] * len(parts))
    limits = wilson_distances(macro.value, macro.variance, student_quantile(level, len(macro.influence)))
    return _with_spread(replace(macro, below=max(macro.below, limits[0]), above=max(macro.above, limits[1])), level)


def _with_spread(part: MetricTerm, level: float) -> MetricTerm:
    """Return a part with the variance that its limits imply, at least that of its influences."""
    q = student_quantile(level, len(part.influence))
    return replace(part, variance=max(_squares(part.influence), ((part.below + part.above) / (2.0 * q)) ** 2))


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
    rows, total = len(queries), math.fsum(queries)
    repeats = total / rows
    accuracy, mean = ratio_part(correct, queries, level), ratio_part(likelihoods, queries, level, continuous=True)
    right, lik_right, lik = math.fsum(correct), math.fsum(of_correct), math.fsum(likelihoods)
    wrong, lik_wrong = total - right, max(0.0, lik - lik_right)
    of_right = lik_right / right if right else 1.0
    other = lik_wrong / wrong if wrong else 0.0
    gap = (lik_right + repeats) / (right + repeats) - lik_wrong / (wrong + repeats)
    rest = [
        (value - of_right * hit - other * (count - hit)) / total
        for value, hit, count in zip(likelihoods, correct, queries, strict=True)
    ]
    share, q = min(1.0, max(0.0, mean.value)), student_quantile(level, rows)
    within = wilson_distances(share, _squares(rest), q)
    least = wilson_distances(share, _squares(mean.influence), q)  # the sources correlate: a row has several queries
    below, above = (
        max(math.hypot(gap * side, inner), lowest)
        for side, inner, lowest in zip((accuracy.below, accuracy.above), within, least, strict=True)
    )
    return _with_spread(replace(mean, below=below, above=above), level)


def folded_moments(mean: float, deviation: float) -> tuple[float, float]:
    """Return mean and variance of the absolute value of a normal variable.

    Args:
        mean: Mean of the variable.
        deviation: Its standard deviation.
    """
    if deviation < _TINY:
        return abs(mean), 0.0
    z = mean / deviation
    centre = 2.0 * deviation * math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) + mean * math.erf(z / math.sqrt(2.0))
    return centre, max(0.0, mean * mean + deviation * deviation - centre * centre)


def calibration_part(bins: Sequence[Sequence[Rows]], queries: Rows, level: float) -> MetricTerm:
    """Return the expected calibration error with its limits.

    The estimate, a sum of absolute values, is larger than the truth on average. A limit is the error, reached by moving
    the gaps of the bins along the direction of least variance, under which the estimate is as far from its expectation
    as the quantile of Student's t says. Queries of one row may be in different bins, whose gaps are then correlated as
    their influences are. A calibrated model has the lower limit 0.

    Args:
        bins: For each confidence bin with queries, by row: the correct predictions in the bin, the queries, and the sum
            over the queries of correct minus confidence.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    total, q = math.fsum(queries), student_quantile(level, len(queries))
    gaps, upward, downward, influences = [], [], [], []
    for hits, sizes, excess in bins:
        gap, share = math.fsum(excess) / total, math.fsum(sizes) / total
        rate = ratio_part(hits, sizes, level)
        moves = [(a - share * b) / total for a, b in zip(sizes, queries, strict=True)]
        of_size = (gap / share) ** 2 * _squares(moves)
        less, more = (math.sqrt((share * side / q) ** 2 + of_size) for side in (rate.below, rate.above))
        toward, away = (more, less) if gap <= 0 else (less, more)
        gaps.append(abs(gap))
        upward.append(max(away, toward - 2.0 * abs(gap) / q))
        downward.append(toward)
        side = -1.0 if gap < 0.0 else 1.0
        influences.append([side * (value - gap * b) / total for value, b in zip(excess, queries, strict=True)])
    value, occupied = math.fsum(gaps), [sizes for _, sizes, _ in bins]
    down, up = (_covariances(deviations, influences, occupied) for deviations in (downward, upward))
    plain = q * math.sqrt(max(0.0, math.fsum(map(math.fsum, down))))
    below = max(0.0, value - _invert(value, gaps, down, q, -1.0), min(value, plain))
    above = max(0.0, min(1.0, _invert(value, gaps, up, q, 1.0)) - value)
    of_zero = math.fsum(folded_moments(0.0, deviation)[0] for deviation in downward)
    centre = value - of_zero if value < of_zero else _invert(value, gaps, down, 0.0, -1.0)
    influence = list(map(math.fsum, zip(*influences, strict=True)))
    return _with_spread(MetricTerm(value, below, above, influence, 0.0, centre), level)


def _covariances(deviations: Sequence[float], influences: Sequence[Rows], sizes: Sequence[Rows]) -> list[list[float]]:
    """Return the covariances of bins with given deviations.

    The part of the deviations that is observed is correlated as the influences are. The other part, from errors that
    the sample may lack, is correlated as the bins share rows: such a row is wrong in all its bins.
    """
    observed = [_squares(influence) for influence in influences]
    scales = [sd / math.sqrt(max(sd * sd, square, _TINY**2)) for sd, square in zip(deviations, observed, strict=True)]
    hidden = [
        math.sqrt(max(0.0, sd * sd - square) / max(_squares(size), _TINY))
        for sd, square, size in zip(deviations, observed, sizes, strict=True)
    ]

    def covariance(a: int, b: int) -> float:
        shared = scales[a] * scales[b] * _dot(influences[a], influences[b])
        missing = hidden[a] * hidden[b] * _dot(sizes[a], sizes[b])
        return deviations[a] ** 2 if a == b else shared + missing

    return [[covariance(a, b) for b in range(len(sizes))] for a in range(len(sizes))]


def _folded_sum(means: Sequence[float], covariances: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return mean and variance of the sum of the absolute values of normal variables with means from 0 on.

    The covariance of two absolute values is that of the variables where both keep their signs, and at most 1 - 2 / pi
    of its size where the signs are free.
    """
    deviations = [math.sqrt(row[place]) for place, row in enumerate(covariances)]
    moments = [folded_moments(*pair) for pair in zip(means, deviations, strict=True)]
    kept = [math.erf(mean / max(sd, _TINY) / math.sqrt(2.0)) for mean, sd in zip(means, deviations, strict=True)]
    variance = math.fsum(of_one for _, of_one in moments)
    for place, row in enumerate(covariances):
        for other in range(place):
            both = kept[place] * kept[other]
            variance += 2.0 * (both * row[other] + (1.0 - both) * (1.0 - 2.0 / math.pi) * abs(row[other]))
    return math.fsum(mean for mean, _ in moments), max(0.0, variance)


def _invert(
    value: float, gaps: Sequence[float], covariances: Sequence[Sequence[float]], q: float, side: float
) -> float:
    """Return the calibration error under which the estimate is just ``q`` deviations below or above its mean."""
    direction = [max(0.0, math.fsum(row)) for row in covariances]
    scale = math.sqrt(math.fsum(direction))
    if scale < _TINY:
        return value

    def moved(step: float) -> list[float]:
        return [max(0.0, gap + side * step * move / scale) for gap, move in zip(gaps, direction, strict=True)]

    low, high = 0.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2.0
        mean, variance = _folded_sum(moved(middle), covariances)
        low, high = (low, middle) if side * (mean - value) > q * math.sqrt(variance) else (middle, high)
    return math.fsum(moved(high))


def divergence_interval(
    probabilities: Sequence[Rows], frequencies: Sequence[Rows] | None, queries: Rows, level: float
) -> Interval:
    """Return the interval of the divergence of the mean prediction from label frequencies, or from uniform ones.

    Second-order: with ``u`` the deviation of the means, scaled so that the divergence is half its squared length near
    0, the bias is half the total variance of ``u``; a limit is the divergence whose own variance makes the unbiased
    estimate just significant. The lower limit is 0 unless the estimate exceeds the quantile of a chi-square (Wilson
    and Hilferty 1931) with its moments under no divergence.

    Args:
        probabilities: For each label the sum of its probabilities over the queries of each row.
        frequencies: For each label its number of queries; None for the divergence from the uniform distribution.
        queries: Number of queries of each row.
        level: Nominal coverage.

    Raises:
        UndefinedMetricError: There are fewer than two rows.
    """
    rows, width, total = len(queries), len(probabilities), math.fsum(queries)
    q = student_quantile(level, rows)
    error = 0.5 / rows**2  # variance of one pseudo-row whose prediction is another label than the true one
    terms, linear, scaled, hidden, extra = [], [], [], [], []
    for label, column in enumerate(probabilities):
        share, move = 1.0 / width, [0.0] * rows
        if frequencies is not None:
            share = math.fsum(frequencies[label]) / total
            move = [(count - share * size) / total for count, size in zip(frequencies[label], queries, strict=True)]
        part = ratio_part(column, queries, level, continuous=True)
        mean = (rows * part.value + 1.0 / width) / (rows + 1.0)
        ratio, slope = mean / share, math.log(mean / share) + 1.0
        spread = max(error, _with_spread(part, level).variance - _squares(part.influence))
        pairs = list(zip(part.influence, move, strict=True))
        linear.append([slope * a - ratio * b for a, b in pairs])
        scaled.append([(a - ratio * b) / math.sqrt(mean) for a, b in pairs])
        hidden.append((slope - 1.0) ** 2 * spread)
        extra.append(spread / mean)
        if part.value > 0:
            terms.append(part.value * math.log(part.value / share))
    value = math.fsum(terms)
    bias = 0.5 * math.fsum([*map(_squares, scaled), *extra])
    curved = 0.5 * math.fsum(
        (_dot(scaled[a], scaled[b]) + (extra[a] if a == b else 0.0)) ** 2 for a in range(width) for b in range(width)
    )
    variance = _squares(list(map(math.fsum, zip(*linear, strict=True)))) + math.fsum(hidden)
    unbiased = max(0.0, value - bias)
    tilt = q * q * variance / max(value, 0.01 * bias) / 2.0
    reach = math.sqrt(tilt * tilt + 2.0 * tilt * unbiased + q * q * curved)
    high = math.inf if frequencies is not None else math.log(width)
    centre = max(value - bias, -q * math.sqrt(curved)) + tilt
    freedom = 2.0 * bias * bias / max(curved, _TINY**2)  # without divergence, the estimate is a scaled chi-square
    noise = bias * (1.0 - 2.0 / (9.0 * freedom) + q * math.sqrt(2.0 / (9.0 * freedom))) ** 3
    # the root of the divergence is nearly normal; its bias comes from the directions other than that of the divergence
    root = math.sqrt(2.0 * max(0.0, value - max(0.0, bias - tilt / (2.0 * q * q)))) - math.sqrt(tilt)
    ends = max(0.0, root) ** 2 / 2.0 if value > noise else 0.0, min(high, max(value, centre + reach))
    return Interval(*ends, level, "second-order delta method, unit: test row", centre=value - bias)


def mean_interval(values: Sequence[float], intervals: Sequence[Interval], highest: float = 1.0) -> Interval:
    """Return the interval of a mean over data sets, whose rows are independent of each other.

    The limits of a share near an end of its range are skewed, and their skewness must shrink with the number of data
    sets. The distances of a data set to its limits are read as a variance that changes linearly with the truth: product
    and difference of the distances are its level and its slope. The mean has the sum of the levels and the mean slope
    (weighted with the squared widths, which also exist without any event). One data set keeps its interval; many data
    sets have nearly the Wilson interval of all rows.

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
    count, mean = len(values), math.fsum(values) / len(values)
    biased = any(interval.centre is not None for interval in intervals)
    centres = [
        value if interval.centre is None else interval.centre for value, interval in zip(values, intervals, strict=True)
    ]
    below = [max(0.0, centre - interval.low) for centre, interval in zip(centres, intervals, strict=True)]
    above = [max(0.0, interval.high - centre) for centre, interval in zip(centres, intervals, strict=True)]
    slopes = [more - less for less, more in zip(below, above, strict=True)]
    # scores at both ends of their ranges have no level, and their slopes cancel out: the mean would have no width
    if not biased and {(True, False), (False, True)} <= {*zip(map(bool, below), map(bool, above), strict=True)}:
        return _of_both_ends(mean, values, intervals, [slope < 0.0 for slope in slopes])
    if biased:  # an end may be cut off at the end of the range
        below = above = list(map(max, below, above))
        slopes = [0.0] * count
    squares = [(more + less) ** 2 for less, more in zip(below, above, strict=True)]
    slope = _dot(slopes, squares) / max(math.fsum(squares), _TINY**2) / count
    lost = [  # by which a Wilson interval shrinks the level and the slope: less for many data sets
        min(0.5, max(abs(own), less * more / (value * (1.0 - value)) if 0.0 < value < 1.0 and not biased else 0.0))
        for less, more, own, value in zip(below, above, slopes, values, strict=True)
    ]
    kept = 1.0 - _dot(lost, squares) / max(math.fsum(squares), _TINY**2) / count
    level = math.fsum(less * more * kept / (1.0 - own) for less, more, own in zip(below, above, lost, strict=True))
    reach = math.sqrt(level / count**2 + slope * slope / 4.0)
    centre = math.fsum(centres) / count
    bias = mean - centre  # estimated, and uncertain by about its size: it may be twice that, or nothing
    far, near = reach + abs(bias), math.hypot(reach, bias)
    low = centre + slope / 2.0 - (far if bias > 0.0 else near)
    high = centre + slope / 2.0 + (near if bias > 0.0 else far)
    least = 0.0 if biased else math.fsum(interval.low for interval in intervals) / count
    most = highest if biased else math.fsum(interval.high for interval in intervals) / count
    return _mean(intervals, min(mean, max(least, low)), max(mean, min(most, high)))


def _mean(intervals: Sequence[Interval], low: float, high: float) -> Interval:
    return Interval(low, high, intervals[0].level, "variance recovery over data sets")


def _of_both_ends(
    mean: float, values: Sequence[float], intervals: Sequence[Interval], falling: Sequence[bool]
) -> Interval:
    """Return the interval of a mean from those of its two halves, which are skewed to different sides (MOVER)."""
    less, more = 0.0, 0.0
    for side in (False, True):
        own = [pair for *pair, down in zip(values, intervals, falling, strict=True) if down == side]
        numbers, limits = zip(*own, strict=True)
        half, share = mean_interval(numbers, limits), len(own) / len(values)
        centre = math.fsum(numbers) / len(numbers)
        less, more = math.hypot(less, share * (centre - half.low)), math.hypot(more, share * (half.high - centre))
    return _mean(intervals, mean - less, mean + more)
