"""Confidence intervals of scores, with the test row as the unit, without random draws.

The population is that of the test rows: an interval says how a score could differ on other rows from the same source,
queried in the same way. All queries of a row (repeats, conditions) are summed first, so that their correlation needs no
model.

Three methods make all intervals:

- :func:`ratio_part`: a ratio of sums over rows (accuracy, consistency, F1 of one label) has the score interval of
  Wilson (1927). The number of rows is divided by the design effect, which is the ratio of the observed variance to the
  binomial one (Rao and Scott 1992). Student's t replaces the normal quantile.
- :func:`combine`: a sum of correlated parts (labels of a macro average, conditions of a slope, data sets of a mean) has
  the limits of Zou's method of variance estimates recovery, MOVER (Zou and Donner 2008). Each part contributes the
  distance to its own limits. The correlation comes from the influences of the rows.
- The calibration error and divergences are never negative, so that chance raises them: their estimates are biased.
  Their limits come from inverted tests. A limit is the true value under which the estimate, with its bias, would be
  just significant.

Words of this module:

- The *influence* of a row on an estimate is the change that the row makes, to first order. The sum of the squared
  influences estimates the variance.
- An *event* is a row with the rarer outcome, such as a wrong prediction where most predictions are right.
- A *pseudo-row* is a row that was not observed and is added to the computation. With it, a sample without any event
  still has a variance, as other samples would have events.
- A *hidden* variance is the part of an assumed variance that the rows of the sample do not show.

`tests/performance/interval_coverage.py` measures the coverage; docs/error_rates.md has its table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import mul

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.bisection import least_number_where


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

INTERVAL_VERSION = "intervals-5"
"""Version of the rules for intervals; part of signatures. The first version was a bootstrap."""

LEAST_ROWS = 5
"""Macro F1 and divergences need this many test rows of each label for an interval (validated by simulation)."""

_TINY = 1e-12
"""Sums and deviations below this size are rounding errors."""

_FEW_EVENTS = 1.5
"""Below this number of events, an exact limit replaces that of Wilson. One event is below it, two events are not."""

_LARGEST_DESIGN_EFFECT = 2.0
"""Bound of the design effect. It exceeds 1 only where rows with many queries have other ratios than the rest."""

_FEWEST_ROWS = 0.5
"""Least effective number of rows: Wilson's limits divide by it."""

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

    def scaled(self, factor: float) -> MetricTerm:
        """Return the estimate of the score times a positive factor."""
        return MetricTerm(
            value=factor * self.value,
            below=factor * self.below,
            above=factor * self.above,
            influence=[factor * influence for influence in self.influence],
            variance=factor * factor * self.variance,
            centre=None if self.centre is None else factor * self.centre,
        )

    def interval(self, level: float, method: str, low: float = 0.0, high: float = 1.0) -> Interval:
        """Return the interval of the estimate; its ends are within the range of the score.

        Args:
            level: Nominal coverage.
            method: How the limits were computed, in words.
            low: Lowest possible score.
            high: Highest possible score.
        """
        value = min(high, max(low, self.value))
        lower_limit = value - max(0.0, self.below)
        upper_limit = value + max(0.0, self.above)
        return Interval(
            low=max(low, lower_limit),
            high=min(high, upper_limit),
            level=level,
            method=method,
            centre=self.centre,
        )


@dataclass(frozen=True, slots=True)
class NoInterval:
    """The reason why a score has no interval for one data set: the interval would be too unreliable.

    Attributes:
        reason: Why.
        approximate: The unreliable interval, which the mean over data sets uses, where such errors average out. It is
            None if labels have no test rows at all, because the score is then far from that of the population.
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

    Example:
        >>> round(student_quantile(0.95, 20), 4)
        2.093
    """
    if rows < 2:
        raise UndefinedMetricError(f"an interval needs at least two test rows, not {rows}")
    return least_number_where(lambda t: _student_probability_within(t, rows - 1) >= level)


def _student_probability_within(t: float, degrees_of_freedom: int) -> float:
    """Return the probability that a variable with Student's t distribution is between ``-t`` and ``t``.

    For an integer number n of degrees of freedom, it is a finite sum (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    With ``tan(angle) = t / sqrt(n)`` and ``c = cos(angle) ** 2``, the series is

        odd n:   sqrt(c) * (1 + 2/3 c + 2*4/(3*5) c^2 + ...), of (n - 1) / 2 terms
        even n:  1 + 1/2 c + 1*3/(2*4) c^2 + ..., of n / 2 terms

    and the probability ``(angle + sin(angle) * series) * 2 / pi`` for odd n, ``sin(angle) * series`` for even n.
    """
    squared_cosine = degrees_of_freedom / (degrees_of_freedom + t * t)
    is_odd = degrees_of_freedom % 2 == 1
    if is_odd:
        term = math.sqrt(squared_cosine)
        first_power = 1
    else:
        term = 1.0
        first_power = 0

    series = 0.0
    for power in range(first_power, degrees_of_freedom - 1, 2):
        series += term
        term *= (power + 1) / (power + 2) * squared_cosine

    sine = t / math.sqrt(degrees_of_freedom + t * t)
    if is_odd:
        angle = math.atan(t / math.sqrt(degrees_of_freedom))
        return (angle + series * sine) * 2.0 / math.pi
    return series * sine


# -- shares


def _wilson_distances(share: float, rows: float, q: float) -> tuple[float, float]:
    """Return the distances from a share to its lower and its upper limit, by Wilson (1927).

    The limits are the solutions x of ``|share - x| = q * sqrt(x * (1 - x) / rows)``. On the side of very few events,
    an exact limit replaces a limit that is closer.

    Args:
        share: The share, from 0 to 1.
        rows: Effective number of independent rows; it need not be an integer.
        q: Quantile of the interval, such as 1.96 for the coverage 0.95.
    """
    scale = 1.0 + q * q / rows
    centre = (share + q * q / (2.0 * rows)) / scale
    half_width = q / scale * math.sqrt(max(0.0, share * (1.0 - share)) / rows + q * q / (4.0 * rows * rows))
    low = max(0.0, centre - half_width)
    high = min(1.0, centre + half_width)

    # For one event, Wilson's limit on its side covers only 0.84 (Brown, Cai and DasGupta 2001). The exact one-sided
    # limit of a Poisson variable replaces it: the mean m with P(no event) = exp(-m) = level. The level of a normal
    # quantile q is erf(q / sqrt(2)). One event in n rows is the share 1/n, and its limit is m/n.
    poisson_limit = -math.log(math.erf(q / math.sqrt(2.0)))
    if share * rows < _FEW_EVENTS:
        low = min(low, share * poisson_limit)
    if (1.0 - share) * rows < _FEW_EVENTS:
        high = max(high, 1.0 - (1.0 - share) * poisson_limit)

    below = 0.0
    if share > 0:
        below = share - low
    above = 0.0
    if share < 1:
        above = high - share
    return below, above


def wilson_distances(share: float, variance: float, q: float) -> tuple[float, float]:
    """Return the distances from a share to its lower and its upper Wilson limit, from the variance of the share.

    The Wilson limits need a number of rows. A binomial share of n rows has the variance ``share * (1 - share) / n``. So
    the effective number of rows is ``share * (1 - share) / variance``. Both distances are 0 if there is no variance,
    and for shares of 0 or 1, which have no effective number of rows.

    Args:
        share: The share.
        variance: Its variance.
        q: Quantile of the interval, such as 1.96 for the coverage 0.95.
    """
    if variance <= _TINY**2:  # a standard deviation of _TINY is a rounding error
        return 0.0, 0.0
    if not 0.0 < share < 1.0:
        return 0.0, 0.0
    effective_rows = max(_FEWEST_ROWS, share * (1.0 - share) / variance)
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
    """Return a ratio of sums over rows, between 0 and 1, with its Wilson limits.

    The limits are those of an effective number of rows: fewer than there are if their denominators differ, or if the
    queries of a row agree more than independent ones (design effect).

    Args:
        numerators: Numerator of each row (such as correct queries), from 0 to its denominator.
        denominators: Denominator of each row (such as queries).
        level: Nominal coverage.
        continuous: Whether the numerators can be any numbers, such as probabilities, instead of counts.

    Raises:
        UndefinedMetricError: There are fewer than two rows.

    Example:
        >>> part = ratio_part([2, 2, 0, 1] * 5, [2] * 20, 0.95)
        >>> round(part.value - part.below, 3), round(part.value + part.above, 3)
        (0.423, 0.791)
    """
    q = student_quantile(level, len(denominators))
    total = math.fsum(denominators)
    if not total:  # the ratio can have any value from 0 to 1
        return MetricTerm(value=0.0, below=0.0, above=1.0, influence=[0.0] * len(denominators), variance=0.0)

    value = min(1.0, math.fsum(numerators) / total)
    influence = _ratio_influence(numerators, denominators, value, total)
    observed_variance = _squares(influence)

    # The binomial variance is that of rows in which all queries agree.
    squared_denominators = _squares(denominators)
    binomial_variance = value * (1.0 - value) * squared_denominators / total**2
    events = _number_of_events(numerators, denominators, value, total, continuous=continuous)
    design_effect = _design_effect(events, observed_variance, binomial_variance)

    # Rows of different sizes are as good as (sum of sizes)^2 / (sum of squared sizes) rows of equal size (Kish 1965).
    effective_rows = max(_FEWEST_ROWS, total**2 / squared_denominators / design_effect)
    below, above = _wilson_distances(value, effective_rows, q)
    assumed_variance = max(observed_variance, design_effect * binomial_variance)
    return MetricTerm(value=value, below=below, above=above, influence=influence, variance=assumed_variance)


def _ratio_influence(numerators: Rows, denominators: Rows, ratio: float, total: float) -> list[float]:
    """Return the influence of each row on a ratio of sums over rows.

    A row with numerator a and denominator b changes the ratio r of sums A / B by ``(a - r b) / B``, to first order.

    Args:
        numerators: The numerator a of each row.
        denominators: The denominator b of each row.
        ratio: The ratio r.
        total: The sum B of the denominators.
    """
    return [(a - ratio * b) / total for a, b in zip(numerators, denominators, strict=True)]


def share_of_rows_part(value: float, influence: Rows, rows: int, level: float) -> MetricTerm:
    """Return an estimate between 0 and 1 with the Wilson limits of a share of an effective number of rows.

    It serves estimates that are no ratios of sums, such as areas under curves. With the estimate v of n rows::

        design effect  = (events * observed variance / binomial variance + 1) / (events + 1)
        effective rows = n / design effect

    The observed variance is the sum of the squared influences of the rows, and the binomial variance that of a share,
    ``v (1 - v) / n``. Their ratio is unreliable with few events, the ``n * min(v, 1 - v)`` rows with the rarer outcome.
    So it is averaged over the events and one pseudo-event, whose ratio is 1 (as in :func:`ratio_part`).

    Args:
        value: The estimate.
        influence: The influence of each test row.
        rows: The number of rows that a share with at least this variance would have.
        level: Nominal coverage.
    """
    q = student_quantile(level, rows)
    share = min(1.0, max(0.0, value))
    events = rows * min(share, 1.0 - share)
    observed_variance = _squares(influence)
    binomial_variance = share * (1.0 - share) / rows
    ratio = 0.0
    if binomial_variance > _TINY**2:
        ratio = observed_variance / binomial_variance
    design_effect = (events * ratio + 1.0) / (events + 1.0)

    effective_rows = max(_FEWEST_ROWS, rows / design_effect)
    below, above = _wilson_distances(share, effective_rows, q)
    assumed_variance = max(observed_variance, design_effect * binomial_variance)
    return MetricTerm(value=value, below=below, above=above, influence=influence, variance=assumed_variance)


def _number_of_events(numerators: Rows, denominators: Rows, value: float, total: float, *, continuous: bool) -> float:
    """Return the effective number of events of a ratio: of rows with the rarer outcome, such as wrong predictions.

    Let x be what a row has of the rarer outcome: its numerator if the ratio is below 1/2, else its denominator minus
    its numerator.

    - For counts, the number is ``sum(x)^2 / sum(x^2)``. If each row has the outcome in all of its k queries or in none,
      this is the number of rows that have it.
    - For continuous numerators, it is the number of rows times the mean of the outcome, ``rows * sum(x) / total``. This
      is smaller, which is cautious: the pseudo-event (:func:`_design_effect`) weighs more. Many small x are no events,
      and the sample may lack a rare large one.

    Args:
        numerators: Numerator of each row.
        denominators: Denominator of each row.
        value: The ratio.
        total: The sum of the denominators.
        continuous: Whether the numerators can be any numbers instead of counts.
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
    """Return the design effect: the ratio of the observed to the binomial variance (Rao and Scott 1992).

    A ratio from few events is unreliable. (An event is a row with the rarer outcome, such as a wrong prediction.) So
    the ratio is averaged over the events and one pseudo-event, an added row in which all queries agree, whose ratio is
    1. Without any event the design effect is therefore 1, so that the interval has a positive width.

    Args:
        events: The effective number of events (:func:`_number_of_events`).
        observed_variance: The variance of the score, from the influences of the rows.
        binomial_variance: The variance that the score would have if all queries of each row agreed.
    """
    ratio = 0.0
    if binomial_variance > _TINY**2:
        ratio = min(_LARGEST_DESIGN_EFFECT, observed_variance / binomial_variance)
    return (events * ratio + 1.0) / (events + 1.0)


def expected_distances(value: float, variance: float, rows: int, level: float) -> tuple[float, float]:
    """Return the distances from a ratio to its lower and its upper limit that a planned run can expect.

    They are the distances of :func:`ratio_part` for rows of equal size. Planning has no rows yet, so the design effect
    comes from the expected mean and variance.

    Args:
        value: The expected ratio.
        variance: The expected variance of the ratio of a single row.
        rows: Number of rows.
        level: Nominal coverage.
    """
    # The number of events is (sum over rows)^2 / (sum of squares), for the rarer outcome of each row. If its mean is m,
    # the sum is rows * m, and the sum of squares is rows * (variance + m^2). The quotient is then
    # rows * m^2 / (variance + m^2).
    rarer_mean = min(value, 1.0 - value)
    squared_mean = rarer_mean**2
    events = 0.0
    if squared_mean > _TINY:
        events = rows * squared_mean / (variance + squared_mean)
    binomial_variance = value * (1.0 - value)
    design_effect = _design_effect(events, variance, binomial_variance)
    effective_rows = max(_FEWEST_ROWS, rows / design_effect)
    return _wilson_distances(value, effective_rows, student_quantile(level, rows))


# -- sums of correlated parts


def combine(parts: Sequence[MetricTerm], weights: Sequence[float]) -> MetricTerm:
    """Return a weighted sum of estimates over the same test rows, with its confidence limits (MOVER).

    Each estimate, a *part*, has the distance ``below`` to its own lower limit and ``above`` to its upper limit. The
    method of variance estimates recovery, MOVER (Zou and Donner 2008), reads a distance as a number of standard
    deviations. For parts that are independent, the lower limit of the sum is
    ``value - sqrt(sum over parts of (weight * distance)^2)``. The distance is ``below`` for a positive weight. For a
    negative weight it is ``above``, because the sum is low where the part is high. The upper limit is the other way
    round. Here the parts depend on each other, because they are over the same rows: :func:`_combined_distance` has the
    formula.

    Args:
        parts: The estimates, with the influence of each row.
        weights: The weight of each part, of any sign.

    Source:
        Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach".
    """
    influences_by_row = _by_row(part.influence for part in parts)
    influence_on_sum = [_dot(weights, influences) for influences in influences_by_row]
    lower_distances = []
    upper_distances = []
    for weight, part in zip(weights, parts, strict=True):
        if weight > 0.0:
            lower_distances.append(weight * part.below)
            upper_distances.append(weight * part.above)
        else:
            lower_distances.append(weight * part.above)
            upper_distances.append(weight * part.below)
    return MetricTerm(
        value=math.fsum([weight * part.value for weight, part in zip(weights, parts, strict=True)]),
        below=_combined_distance(parts, lower_distances, influences_by_row),
        above=_combined_distance(parts, upper_distances, influences_by_row),
        influence=influence_on_sum,
        variance=_squares(influence_on_sum),
    )


def _combined_distance(
    parts: Sequence[MetricTerm], distances: Sequence[float], influences_by_row: Sequence[Sequence[float]]
) -> float:
    """Return the distance from a weighted sum of parts to one of its two confidence limits.

    For independent parts it is the root of the sum of the squared distances (MOVER, :func:`combine`). Parts over the
    same rows are correlated. So the squared distance of each part is split in two:

    - The share that the rows explain: the sum of their squared influences, divided by the variance that the limits of
      the part assume. To sum these shares, the influences of a row on all parts are first added up, each times the
      *scale* of its part (distance / standard deviation), and then squared. So the correlation counts.
    - The rest, which comes from rows that the sample may lack. It is taken as independent of the other parts.

    A small sample may also lack rows on which the parts differ. So the sum of the unexplained squares is at least that
    of two rows that were not observed (:func:`_square_from_pseudo_rows`).

    Args:
        parts: The parts.
        distances: For each part its weight times the distance to its limit; negative for a negative weight.
        influences_by_row: For each row, its influence on each part.
    """
    scales = []
    unexplained_squares = []
    for part, distance in zip(parts, distances, strict=True):
        if part.variance:
            scale = distance / math.sqrt(part.variance)
            explained_share = min(1.0, _squares(part.influence) / part.variance)
        else:  # no row has an influence on the part
            scale = 0.0
            explained_share = 0.0
        scales.append(scale)
        unexplained_squares.append(distance**2 * (1.0 - explained_share))

    scaled_influences = [_dot(scales, influences) for influences in influences_by_row]
    explained = _squares(scaled_influences)
    least_unexplained = _square_from_pseudo_rows(scales, n_rows=len(influences_by_row))
    unexplained = max(least_unexplained, math.fsum(unexplained_squares))
    return math.sqrt(explained + unexplained)


def _square_from_pseudo_rows(scales: Sequence[float], n_rows: int) -> float:
    """Return the least unexplained square in a difference of correlated parts: that of two rows that were not observed.

    In a difference, rows that are predicted alike cancel out, and a small sample may have no other rows. Its limits
    would then be too close. So two pseudo-rows are added: one is correct only in the parts with positive weights,
    the other only in those with negative weights. (Bonett and Price 2012 add such rows for two conditions.)

    A pseudo-row has the influence ``1 / n_rows`` on each of its parts, a mean over rows. Times the scales of the parts,
    this is ``sum of scales / n_rows``. The smaller one of the two sums is taken for both pseudo-rows. So a sum without
    negative weights, which is no difference, has the result 0.

    Args:
        scales: For each part its weight times the distance to its limit, in standard deviations of the part. A scale
            is negative if the weight is.
        n_rows: Number of test rows.
    """
    positive_sum = math.fsum([scale for scale in scales if scale > 0.0])
    negative_sum = math.fsum([-scale for scale in scales if scale < 0.0])
    scaled_influence = min(positive_sum, negative_sum) / max(1, n_rows)
    return 2.0 * scaled_influence**2


def of_difference(part: MetricTerm, level: float) -> MetricTerm:
    """Return a share with limits that can be used in a difference of shares: they are not too close to it.

    The Wilson limits of a share near 0 or 1 are drawn towards the middle, so that the limit at that end is close to the
    share. The difference of two such shares is near 0, far from the ends of its range, -1 and 1. A close limit would
    make its interval too narrow. So both limits are at least as far away as those of a normal variable: the quantile of
    Student's t times the standard deviation of the share.

    Args:
        part: The share, with its limits and the influence of each row.
        level: Nominal coverage.
    """
    deviation = math.sqrt(_squares(part.influence))
    normal_distance = student_quantile(level, len(part.influence)) * deviation
    return replace(part, below=max(part.below, normal_distance), above=max(part.above, normal_distance))


def macro_part(hits: Sequence[Rows], sizes: Sequence[Rows], level: float) -> MetricTerm:
    """Return the mean of the ratios of all labels, such as macro F1, with its limits.

    The limits are computed in two ways, and on each side the limit that is farther away counts. MOVER combines the
    limits of the labels, which matters if single labels have few events. The Wilson limits of the mean, taken as a
    single share with the variance of the mean, matter if all labels together have few events.

    Args:
        hits: For each label the numerators of the rows: for F1 two times the true positives.
        sizes: For each label the denominators of the rows: for F1 predicted plus true.
        level: Nominal coverage.
    """
    label_parts = []
    for label_hits, label_sizes in zip(hits, sizes, strict=True):
        label_parts.append(ratio_part(label_hits, label_sizes, level))
    macro = combine(label_parts, weights=[1.0 / len(label_parts)] * len(label_parts))

    q = student_quantile(level, len(macro.influence))
    wilson_below, wilson_above = wilson_distances(macro.value, macro.variance, q)
    wider = replace(macro, below=max(macro.below, wilson_below), above=max(macro.above, wilson_above))
    return _with_implied_variance(wider, level)


def _with_implied_variance(part: MetricTerm, level: float) -> MetricTerm:
    """Return an estimate with the variance that its limits imply, or the variance of its influences if this is larger.

    An interval with Student's t has its limits q standard deviations from the estimate, where q is the quantile of t.
    So the mean distance to the two limits, divided by q, is the standard deviation that the limits imply. The variance
    of the influences is the sum of their squares, because the rows are independent.

    Args:
        part: The estimate, the distances to its limits (``below``, ``above``) and the influences of the rows.
        level: Nominal coverage of the limits.
    """
    q = student_quantile(level, len(part.influence))
    mean_distance = (part.below + part.above) / 2.0
    implied_deviation = mean_distance / q
    variance_of_influences = _squares(part.influence)
    return replace(part, variance=max(variance_of_influences, implied_deviation**2))


def likelihood_part(likelihoods: Rows, correct: Rows, of_correct: Rows, queries: Rows, level: float) -> MetricTerm:
    """Return the mean probability of the true label (the likelihood) with its limits.

    The variance of the likelihoods of the rows alone can be far too small. Wrong predictions of a certain model are
    rare, and each lowers the mean by almost 1; a small sample may have none. So the distance to a limit combines
    several sources of error, as independent errors: it is the root of the sum of their squares.

    1. The number of correct predictions: the distance of the accuracy to its limit, times the gap between the mean
       likelihoods of correct and of wrong predictions.
    2. The likelihoods of correct predictions around their mean, and those of wrong predictions around theirs.
    3. For the upper limit, a pseudo-row of likelihood 1. It is for a model whose predictions are correct with a low
       probability, but for a few rows with a high one: its accuracy does not show that such rows exist.

    Args:
        likelihoods: Sum over the queries of each row.
        correct: Number of correct predictions of each row.
        of_correct: Sum of the likelihoods of its correct predictions.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    mean = ratio_part(likelihoods, queries, level, continuous=True)
    accuracy = ratio_part(correct, queries, level)
    q = student_quantile(level, len(queries))
    total = math.fsum(queries)
    n_correct = math.fsum(correct)
    n_wrong = total - n_correct
    correct_sum = math.fsum(of_correct)
    wrong_sum = max(0.0, math.fsum(likelihoods) - correct_sum)

    # Source 1. The correct predictions get a pseudo-row with the likelihood 1, the wrong ones one with the likelihood
    # 0. So the gap is wide, which is cautious, where a kind is rare.
    queries_per_row = total / len(queries)
    correct_mean_with_pseudo_row = (correct_sum + queries_per_row) / (n_correct + queries_per_row)
    wrong_mean_with_pseudo_row = wrong_sum / (n_wrong + queries_per_row)
    gap = correct_mean_with_pseudo_row - wrong_mean_with_pseudo_row

    # Source 2. The deviation of a row is what its likelihoods differ from the means of their kinds.
    correct_mean = correct_sum / n_correct if n_correct else 1.0
    wrong_mean = wrong_sum / n_wrong if n_wrong else 0.0
    deviations = []
    for likelihood, hits, count in zip(likelihoods, correct, queries, strict=True):
        deviations.append((likelihood - correct_mean * hits - wrong_mean * (count - hits)) / total)
    share = min(1.0, max(0.0, mean.value))
    within_below, within_above = wilson_distances(share, _squares(deviations), q)

    # Source 3. A row of likelihood 1 would change the mean by this, which counts as a standard deviation.
    change_by_pseudo_row = (1.0 - share) / (len(queries) + 1)

    # Sources 1 and 2 can be correlated in a row, so that the root of the sum of squares is too small. The variance of
    # the likelihoods of the rows includes the correlation. So its Wilson limits are the closest ones possible.
    least_below, least_above = wilson_distances(share, _squares(mean.influence), q)
    below = max(math.hypot(gap * accuracy.below, within_below), least_below)
    above_by_observed_rows = max(math.hypot(gap * accuracy.above, within_above), least_above)
    above = math.hypot(above_by_observed_rows, q * change_by_pseudo_row)
    return _with_implied_variance(replace(mean, below=below, above=above), level)


# -- calibration error


def folded_moments(mean: float, deviation: float) -> tuple[float, float]:
    """Return mean and variance of the absolute value of a normal variable (folded normal distribution).

    With the mean m and the standard deviation d of the variable X, and ``z = m / d``, they are (Leone, Nelson and
    Nottingham 1961)::

        E|X|   = d * sqrt(2 / pi) * exp(-z^2 / 2) + m * erf(z / sqrt(2))
        Var|X| = m^2 + d^2 - (E|X|)^2

    Args:
        mean: Mean m of the variable.
        deviation: Its standard deviation d.
    """
    if deviation < _TINY:
        return abs(mean), 0.0
    z = mean / deviation
    folded_mean = 2.0 * deviation * math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    folded_mean += mean * math.erf(z / math.sqrt(2.0))
    variance = mean * mean + deviation * deviation - folded_mean * folded_mean
    return folded_mean, max(0.0, variance)


@dataclass(frozen=True, slots=True)
class BinRows:
    """The queries of one confidence bin, as sums over the queries of each test row: one number for each row."""

    hits: list[float]
    """Number of correct predictions."""
    queries: list[float]
    """Number of queries."""
    errors: list[float]
    """Sum over the queries of 1 for a correct prediction or 0 for a wrong one, minus the confidence."""


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


def calibration_part(bins: Sequence[BinRows], queries: Rows, level: float) -> MetricTerm:
    """Return the expected calibration error with its limits, by inverting a test.

    The estimate is a sum of absolute values, one for each confidence bin, so it is larger than the truth on average. A
    limit is the true error for which the estimate is q standard deviations from its own mean
    (:func:`_calibration_limit`), where q is the quantile of Student's t. The errors of bins are correlated, because the
    queries of one row may be in different bins (:func:`_covariances`). A calibrated model has the lower limit 0.

    To be cautious, the lower limit is at least as far away as that of a sum whose signs are known, a normal variable.

    Args:
        bins: The confidence bins that have queries.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    q = student_quantile(level, len(queries))
    errors = [_bin_error(bin_rows, queries, level) for bin_rows in bins]
    sizes = [error.size for error in errors]
    value = math.fsum(sizes)

    upper_covariances = _covariances(errors, [error.upper_deviation for error in errors])
    upper_limit = _calibration_limit(value, sizes, upper_covariances, q, direction=1.0)

    lower_deviations = [error.lower_deviation for error in errors]
    lower_covariances = _covariances(errors, lower_deviations)
    lower_limit = _calibration_limit(value, sizes, lower_covariances, q, direction=-1.0)
    # The variance of a sum of correlated numbers is the sum of all elements of their covariance matrix.
    variance_with_signs = max(0.0, math.fsum(map(math.fsum, lower_covariances)))
    least_distance = min(value, q * math.sqrt(variance_with_signs))

    influences_by_row = _by_row(error.influence for error in errors)
    part = MetricTerm(
        value,
        below=max(0.0, value - lower_limit, least_distance),
        above=max(0.0, min(1.0, upper_limit) - value),
        influence=list(map(math.fsum, influences_by_row)),
        variance=0.0,
        centre=_unbiased_calibration_error(value, sizes, lower_deviations, lower_covariances),
    )
    return _with_implied_variance(part, level)


def _unbiased_calibration_error(
    value: float, sizes: Sequence[float], deviations: Sequence[float], covariances: Sequence[Sequence[float]]
) -> float:
    """Return an estimate of the calibration error without its bias. It can be negative.

    An estimated calibration error is larger than the true error on average. So the true error is returned under which
    the mean of the estimates would be the observed estimate, ``value``.

    Even a calibrated model, with the true error 0, has a positive mean estimate, and no true error has a smaller one.
    If the observed estimate is below this mean, it minus this mean is returned, which is negative. If 0 was returned
    instead, a mean over data sets would keep a bias.

    Args:
        value: The observed estimate, the sum of the errors of all bins.
        sizes: The observed error of each bin.
        deviations: The standard deviation of the error of each bin.
        covariances: Covariances of the errors of the bins.
    """
    means_if_calibrated = []
    for deviation in deviations:
        folded_mean, _ = folded_moments(mean=0.0, deviation=deviation)
        means_if_calibrated.append(folded_mean)
    mean_if_calibrated = math.fsum(means_if_calibrated)
    if value < mean_if_calibrated:
        return value - mean_if_calibrated
    # A limit that is 0 standard deviations away is the true error whose mean estimate is the observed one. It is below
    # the observed estimate.
    return _calibration_limit(value, sizes, covariances, q=0.0, direction=-1.0)


def _bin_error(bin_rows: BinRows, queries: Rows, level: float) -> _BinError:
    """Return the calibration error of one confidence bin, with its standard deviations.

    The *gap* of a bin is ``share * (accuracy - confidence)``, where share is the share of all queries that are in the
    bin. Its absolute value is the error of the bin. Two parts of it vary from sample to sample::

        variance of the gap = share^2 * variance of the accuracy + (gap / share)^2 * variance of the share

    (the derivative of the gap by the accuracy is share, and by the share it is accuracy - confidence = gap / share).
    The accuracy has Wilson limits, which are not symmetric. So it has two standard deviations, one for lower and one
    for higher accuracies: the distance to a limit, divided by the quantile q.

    Args:
        bin_rows: The queries of the bin.
        queries: All queries of each row.
        level: Nominal coverage.
    """
    q = student_quantile(level, len(queries))
    total = math.fsum(queries)
    gap = math.fsum(bin_rows.errors) / total
    share = math.fsum(bin_rows.queries) / total

    accuracy = ratio_part(bin_rows.hits, bin_rows.queries, level)
    influence_on_share = _ratio_influence(bin_rows.queries, queries, share, total)
    variance_from_share = (gap / share) ** 2 * _squares(influence_on_share)
    deviation_below = math.sqrt((share * accuracy.below / q) ** 2 + variance_from_share)
    deviation_above = math.sqrt((share * accuracy.above / q) ** 2 + variance_from_share)

    # A positive gap is nearer to 0 with a lower accuracy, a negative one with a higher accuracy.
    if gap > 0:
        towards_zero = deviation_below
        away_from_zero = deviation_above
    else:
        towards_zero = deviation_above
        away_from_zero = deviation_below
    # The true gap may have the other sign. A move by q deviations towards 0 and past it ends at the absolute value
    # q * towards_zero - |gap|. This is an increase by q * towards_zero - 2 |gap|: so many standard deviations times q.
    past_zero = towards_zero - 2.0 * abs(gap) / q

    # The gap is a ratio of sums over rows: errors / queries. Its absolute value has the same influences, with its sign.
    sign = -1.0 if gap < 0.0 else 1.0
    influence = []
    for error, count in zip(bin_rows.errors, queries, strict=True):
        influence.append(sign * (error - gap * count) / total)
    return _BinError(
        size=abs(gap),
        lower_deviation=towards_zero,
        upper_deviation=max(away_from_zero, past_zero),
        influence=influence,
        queries=bin_rows.queries,
    )


def _covariances(errors: Sequence[_BinError], deviations: Sequence[float]) -> list[list[float]]:
    """Return the covariance matrix of the errors of all confidence bins.

    The variance of an error, its squared deviation, is what its limits assume. It has an observed part, the sum of the
    squared influences of the rows, and a hidden part, the rest. So a covariance of two bins has two parts as well::

        covariance = scale_1 * scale_2 * sum over rows of (influence on bin 1 * influence on bin 2)
                     + hidden_scale_1 * hidden_scale_2 * sum over rows of (queries in bin 1 * queries in bin 2)

    Hidden parts come from rows with wrong predictions that the sample may lack. Such a row would be wrong in all bins
    that it has queries in, so that they are correlated as the numbers of queries are. The scales make each part of a
    variance as large as it is. If the assumed variance is below the observed one, the influences are scaled down.

    Args:
        errors: The error of each bin.
        deviations: The standard deviation of each error.
    """
    observed_scales = []
    hidden_scales = []
    for error, deviation in zip(errors, deviations, strict=True):
        variance = deviation * deviation
        observed_variance = _squares(error.influence)
        hidden_variance = max(0.0, variance - observed_variance)
        observed_scales.append(deviation / math.sqrt(max(variance, observed_variance, _TINY**2)))
        hidden_scales.append(math.sqrt(hidden_variance / max(_squares(error.queries), _TINY)))

    n_bins = len(errors)
    covariances = [[0.0] * n_bins for _ in range(n_bins)]
    for a in range(n_bins):
        for b in range(n_bins):
            if a == b:
                covariances[a][a] = deviations[a] ** 2
                continue
            observed_products = _dot(errors[a].influence, errors[b].influence)
            hidden_products = _dot(errors[a].queries, errors[b].queries)
            observed = observed_scales[a] * observed_scales[b] * observed_products
            hidden = hidden_scales[a] * hidden_scales[b] * hidden_products
            covariances[a][b] = observed + hidden
    return covariances


def _folded_sum(means: Sequence[float], covariances: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return mean and variance of the sum of the absolute values of correlated normal variables.

    The mean is the sum of the means of the absolute values (:func:`folded_moments`). The variance is the sum of their
    variances, plus twice the covariance of each pair. A covariance of two absolute values depends on how certain the
    signs of both variables are:

    - If both signs are certain, it is the covariance of the variables.
    - If both variables have the mean 0, it is at most ``1 - 2 / pi`` times the absolute value of their covariance.
    - In between it is a mean of these two, an approximation. The weight of the first one is the product of the two
      certainties ``P(|X - mean| < mean) = erf(mean / deviation / sqrt(2))``, the probability that X has the
      sign of its mean, minus that of the other sign.

    Args:
        means: The means of the variables, none of them negative.
        covariances: Their covariance matrix.
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
    for first in range(len(means)):
        for second in range(first):
            covariance = covariances[first][second]
            both_certain = sign_certainties[first] * sign_certainties[second]
            with_certain_signs = both_certain * covariance
            with_free_signs = (1.0 - both_certain) * _FOLDED_CORRELATION * abs(covariance)
            variance += 2.0 * (with_certain_signs + with_free_signs)
    return math.fsum(folded_means), max(0.0, variance)


def _calibration_limit(
    value: float,
    observed_errors: Sequence[float],
    covariances: Sequence[Sequence[float]],
    q: float,
    *,
    direction: float,
) -> float:
    """Return a limit of the true calibration error, the sum of the true errors of the confidence bins.

    The limit is the true calibration error for which the estimates have a mean that is q of their standard deviations
    from the observed estimate. A trial value of the true calibration error is examined in two steps:

    1. Many combinations of true errors of the bins have this sum. Of these, the likeliest one under the covariances is
       taken (:func:`_moved_errors`).
    2. The estimate is a sum of absolute values of normal variables with these true errors as means. Its mean and its
       variance are computed (:func:`_folded_sum`).

    Args:
        value: The observed estimate, the sum of the errors of all bins.
        observed_errors: The observed error of each bin, not negative.
        covariances: Covariances of the errors of the bins.
        q: Number of standard deviations; 0 for the true error whose mean estimate is the observed one.
        direction: 1 for the upper limit, -1 for the lower one.
    """
    covariances_with_sum = [max(0.0, math.fsum(row)) for row in covariances]
    deviation_of_sum = math.sqrt(math.fsum(covariances_with_sum))
    if deviation_of_sum < _TINY:  # nothing varies, so no other truth is possible
        return value

    # Bisection of the step, the number of standard deviations by which the sum of the errors is moved. At a larger step
    # the mean estimate is farther from the observed one, so the limit is at the step where its distance is q standard
    # deviations. 40 halvings of the range from 0 to 60 leave less than 1e-10.
    low = 0.0
    high = 60.0
    for _ in range(40):
        middle = (low + high) / 2.0
        true_errors = _moved_errors(observed_errors, covariances_with_sum, deviation_of_sum, step=direction * middle)
        mean_estimate, variance = _folded_sum(true_errors, covariances)
        distance = direction * (mean_estimate - value)
        if distance > q * math.sqrt(variance):
            high = middle
        else:
            low = middle
    return math.fsum(_moved_errors(observed_errors, covariances_with_sum, deviation_of_sum, step=direction * high))


def _moved_errors(
    observed_errors: Sequence[float], covariances_with_sum: Sequence[float], deviation_of_sum: float, step: float
) -> list[float]:
    """Return the likeliest true errors of the bins, given that their sum is moved from the observed one.

    The regression of a normal variable on a sum that contains it: if the sum moves by ``step * deviation of the sum``,
    the variable moves by ``step * covariance with the sum / deviation of the sum``. An error that would be moved below
    0 becomes 0.

    Args:
        observed_errors: The observed error of each bin.
        covariances_with_sum: The covariance of the error of each bin with the sum of all errors.
        deviation_of_sum: The standard deviation of the sum.
        step: By how many of its standard deviations the sum is moved; negative for a smaller sum.
    """
    errors = []
    for observed_error, covariance_with_sum in zip(observed_errors, covariances_with_sum, strict=True):
        moved_error = observed_error + step * covariance_with_sum / deviation_of_sum
        errors.append(max(0.0, moved_error))
    return errors


# -- divergence


@dataclass(frozen=True, slots=True)
class _LabelTerm:
    """What one label contributes to a divergence and its variance.

    With the mean probability p and the frequency f of each label, the divergence is ``sum over labels of p log(p/f)``.
    Let u be the deviation of p from f, divided by ``sqrt(p)``. Near 0, the divergence is ``sum over labels of u^2 / 2``
    (its Taylor series of second order).

    A *hidden* variance is that of predictions which the sample may lack.

    Attributes:
        divergence: ``p log(p/f)``.
        influence_on_divergence: The influence of each row on the divergence by way of p and f of this label.
        influence_on_u: The influence of each row on u.
        hidden_variance_of_divergence: The hidden variance of the divergence.
        hidden_variance_of_u: The hidden variance of u.
    """

    divergence: float
    influence_on_divergence: Rows
    influence_on_u: Rows
    hidden_variance_of_divergence: float
    hidden_variance_of_u: float


def divergence_interval(
    probabilities: Sequence[Rows], frequencies: Sequence[Rows] | None, queries: Rows, level: float
) -> Interval:
    """Return the interval of the divergence of the mean prediction from label frequencies, or from uniform ones.

    A divergence is never negative, so its estimate is larger than the truth on average. This bias is a second-order
    term: the mean that the estimate has if there is no divergence. A limit is the true divergence under which the
    estimate without bias is just significant, with the variance that it has under that divergence.

    The lower limit is 0 if the estimate is no larger than estimates of a zero divergence usually are. These have nearly
    a chi-square distribution.

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
    frequencies_by_label: Sequence[Rows | None]
    if frequencies is None:
        frequencies_by_label = [None] * n_labels
        largest = math.log(n_labels)  # the divergence of a certain prediction from the uniform distribution
    else:
        frequencies_by_label = frequencies
        largest = math.inf
    terms = []
    for label_probabilities, label_frequencies in zip(probabilities, frequencies_by_label, strict=True):
        terms.append(_label_term(label_probabilities, label_frequencies, n_labels, queries, level))
    moments = _divergence_moments(terms)
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
    """Return what one label contributes to a divergence and its variance.

    With the mean probability p and the frequency f of the label, its contribution is ``p log(p/f)``. Near p = f the
    divergence is about half the sum of the squares of ``u = (p - f) / sqrt(p)`` over all labels. The influences of a
    row follow from those on p and f, called dp and df here, by the derivatives::

        influence on p log(p/f)  = (log(p/f) + 1) * dp - p/f * df
        influence on u           = (dp - p/f * df) / sqrt(p)

    Args:
        probabilities: For each row the sum of the label's probabilities over its queries.
        frequencies: For each row the number of its queries with this label; None if all labels are equally frequent.
        n_labels: Number of labels.
        queries: Number of queries of each row.
        level: Nominal coverage.
    """
    n_rows = len(queries)
    mean_probability = ratio_part(probabilities, queries, level, continuous=True)
    if frequencies is None:
        frequency = 1.0 / n_labels
        influence_on_frequency = [0.0] * n_rows  # a fixed number
    else:
        total = math.fsum(queries)
        frequency = math.fsum(frequencies) / total
        influence_on_frequency = _ratio_influence(frequencies, queries, frequency, total)

    divergence = 0.0  # the limit of p log(p/f) for p = 0
    if mean_probability.value > 0:
        divergence = mean_probability.value * math.log(mean_probability.value / frequency)

    # The derivatives need a p above 0. So a pseudo-row with equal probabilities of all labels is added to p.
    p = (n_rows * mean_probability.value + 1.0 / n_labels) / (n_rows + 1.0)
    ratio = p / frequency
    slope = math.log(ratio) + 1.0
    influence_on_divergence = []
    influence_on_u = []
    for dp, df in zip(mean_probability.influence, influence_on_frequency, strict=True):
        influence_on_divergence.append(slope * dp - ratio * df)
        influence_on_u.append((dp - ratio * df) / math.sqrt(p))

    # The limits of the mean probability assume more variance than the rows show: the difference is hidden. It is at
    # least that of a pseudo-row whose prediction is another label than the true one. The influence of such a row is
    # 1 / n_rows. Half of its square counts for each of the two labels.
    pseudo_row_variance = 0.5 / n_rows**2
    assumed_variance = _with_implied_variance(mean_probability, level).variance
    hidden_variance_of_p = max(pseudo_row_variance, assumed_variance - _squares(mean_probability.influence))
    # A hidden row changes p and not f. The changes of p of all labels sum to 0, so that the 1 in the slope cancels out.
    slope_of_hidden_row = slope - 1.0
    return _LabelTerm(
        divergence=divergence,
        influence_on_divergence=influence_on_divergence,
        influence_on_u=influence_on_u,
        hidden_variance_of_divergence=slope_of_hidden_row**2 * hidden_variance_of_p,
        hidden_variance_of_u=hidden_variance_of_p / p,
    )


@dataclass(frozen=True, slots=True)
class _DivergenceMoments:
    """An observed divergence, with the mean and the variances that such an estimate has over samples.

    Attributes:
        value: The observed divergence.
        bias: The mean of the estimate if the true divergence is 0.
        null_variance: Its variance if the true divergence is 0.
        variance: Its variance if the true divergence is the observed one, to first order.
    """

    value: float
    bias: float
    null_variance: float
    variance: float


def _divergence_moments(terms: Sequence[_LabelTerm]) -> _DivergenceMoments:
    """Return an observed divergence with its bias and its two variances.

    **Without any divergence**, the observed one is nearly ``sum over labels of u^2 / 2``, where u are the deviations of
    the labels (:class:`_LabelTerm`). They are sums over many rows, so nearly normal with mean 0 and some covariance
    matrix C. Such a sum of squares has the moments (of a quadratic form of normal variables)::

        bias          = mean     = sum over labels a of C[a][a] / 2
        null_variance = variance = sum over labels a and b of C[a][b]^2 / 2

    ``C[a][b]`` is the sum over rows of the products of their influences on u of both labels. ``C[a][a]`` has the hidden
    variance of u in addition. The hidden parts of different labels are taken as independent.

    **With the observed divergence as the truth**, the variance is the sum of the squared influences of the rows, plus
    the hidden variances (delta method of first order).

    Args:
        terms: The term of each label.
    """
    observed_variances_of_u = [_squares(term.influence_on_u) for term in terms]
    hidden_variances_of_u = [term.hidden_variance_of_u for term in terms]
    trace_of_c = math.fsum([*observed_variances_of_u, *hidden_variances_of_u])

    squares_of_c = []
    for a, first in enumerate(terms):
        for b, second in enumerate(terms):
            covariance = _dot(first.influence_on_u, second.influence_on_u)
            if a == b:
                covariance += first.hidden_variance_of_u
            squares_of_c.append(covariance**2)

    influences_by_row = _by_row(term.influence_on_divergence for term in terms)
    influence_of_row = list(map(math.fsum, influences_by_row))  # by way of all labels
    hidden_variance = math.fsum(term.hidden_variance_of_divergence for term in terms)
    return _DivergenceMoments(
        value=math.fsum(term.divergence for term in terms),
        bias=0.5 * trace_of_c,
        null_variance=0.5 * math.fsum(squares_of_c),
        variance=_squares(influence_of_row) + hidden_variance,
    )


def _growth(moments: _DivergenceMoments, q: float) -> float:
    """Return how fast the variance of an estimated divergence grows with the true divergence D.

    To first order, this variance is proportional to D. The growth g is defined by ``q^2 * variance = 2 * g * D``, the
    form that the equations of the limits need. It is computed at the observed divergence:
    ``g = q^2 * variance / (2 * D)``.

    Args:
        moments: The observed divergence and its moments.
        q: Quantile of the interval.
    """
    # Near 0, both the variance and D are uncertain. So D is at least a hundredth of the bias in the denominator.
    observed_divergence = max(moments.value, 0.01 * moments.bias)
    return q * q * moments.variance / observed_divergence / 2.0


def _upper_divergence_limit(moments: _DivergenceMoments, q: float) -> float:
    """Return the largest true divergence D that the estimate does not reject.

    The estimate without bias, U, is the observed divergence minus its bias. If the truth is D, U has the mean D, and a
    variance of two parts: the variance V0 that it has without any divergence, and a part that is proportional to D,
    ``2 * growth * D / q^2`` (:func:`_growth`). So D is q standard deviations above U if::

        (D - U)^2 = 2 * growth * D + q^2 * V0

    The larger solution of this quadratic equation is::

        D = U + growth + sqrt(growth^2 + 2 * growth * U + q^2 * V0)

    U is negative if the observed divergence is below its bias. Under the root it then counts as 0. Outside of the root
    it counts, but not with less than minus q standard deviations of an estimate without divergence.

    Args:
        moments: The observed divergence and its moments.
        q: Quantile of the interval.
    """
    growth = _growth(moments, q)
    unbiased = moments.value - moments.bias
    unbiased_under_root = max(0.0, unbiased)
    root = math.sqrt(growth * growth + 2.0 * growth * unbiased_under_root + q * q * moments.null_variance)
    smallest_unbiased = -q * math.sqrt(moments.null_variance)
    limit = max(unbiased, smallest_unbiased) + growth + root
    return max(moments.value, limit)


def _lower_divergence_limit(moments: _DivergenceMoments, q: float) -> float:
    """Return the smallest true divergence that the estimate does not reject; 0 if it does not reject 0.

    Let u be the deviation of the mean prediction from the frequencies, in the direction of the observed one. The
    estimate is ``u^2 / 2`` plus the bias from all other directions. u is nearly normal with the variance
    ``growth / q^2``, so that q of its standard deviations are ``sqrt(growth)``. The limit is ``lowest^2 / 2``, where::

        lowest     = observed_u - sqrt(growth)
        observed_u = sqrt(2 * (estimate - bias from other directions))

    The bias from the direction of u itself is half of the variance of u; the other directions have the rest.

    Args:
        moments: The observed divergence and its moments.
        q: Quantile of the interval.
    """
    if moments.value <= _quantile_without_divergence(moments, q):
        return 0.0

    growth = _growth(moments, q)
    bias_from_u = growth / (2.0 * q * q)
    bias_from_other_directions = max(0.0, moments.bias - bias_from_u)
    observed_u = math.sqrt(2.0 * max(0.0, moments.value - bias_from_other_directions))
    lowest_u = max(0.0, observed_u - math.sqrt(growth))
    return lowest_u**2 / 2.0


def _quantile_without_divergence(moments: _DivergenceMoments, q: float) -> float:
    """Return the quantile of the estimates of a divergence if the true one is 0, for the normal quantile ``q``.

    Such an estimate is nearly a chi-square variable times a factor. A chi-square variable with f degrees of freedom has
    the mean f and the variance 2 f. So f is ``2 * mean^2 / variance`` of the estimate, whatever the factor is. The
    quantile is the approximation of Wilson and Hilferty (1931)::

        mean * (1 - c + q * sqrt(c))^3    with  c = 2 / (9 * f)

    Args:
        moments: The bias is the mean of the estimate, the null variance its variance.
        q: Quantile of a normal variable, such as 1.96.
    """
    degrees_of_freedom = 2.0 * moments.bias * moments.bias / max(moments.null_variance, _TINY**2)
    c = 2.0 / (9.0 * degrees_of_freedom)
    return moments.bias * (1.0 - c + q * math.sqrt(c)) ** 3


# -- means over data sets


def mean_interval(
    values: Sequence[float], intervals: Sequence[Interval], ranges: Sequence[tuple[float, float]] | None = None
) -> Interval:
    """Return the confidence interval of a mean over data sets, from the interval of each data set.

    Rows of different data sets are independent of each other. There are three cases:

    - A biased score, whose intervals have a ``centre``, is averaged without its bias (:func:`_biased_mean_interval`).
    - Usually the mean has nearly the Wilson interval of all rows together (:func:`_skewed_mean_interval`).
    - Some scores may be at the lowest, and others at the highest end of the range. They have the distance 0 to the
      limit at that end. Their opposite skewness would cancel out, and the mean would have an interval without width. So
      the data sets whose intervals are skewed to one side are averaged alone, and then both groups are combined
      (:func:`_mean_interval_by_skewness`).

    The mean of a single data set has the interval of that data set.

    Args:
        values: The score of each data set.
        intervals: Its interval.
        ranges: The lowest and the highest possible score on each data set; by default 0 and 1. If all scores have the
            opposite sign, and ranges as well, the interval has the opposite limits.

    Example:
        >>> half = Interval(0.4, 0.6, 0.95, "any")
        >>> interval = mean_interval([0.5] * 4, [half] * 4)
        >>> round(interval.low, 2), round(interval.high, 2)
        (0.45, 0.55)
    """
    if len(intervals) == 1:
        return intervals[0]
    if ranges is None:
        ranges = [(0.0, 1.0)] * len(values)
    is_biased = any(interval.centre is not None for interval in intervals)
    if is_biased:
        return _biased_mean_interval(values, intervals, ranges)

    below = [max(0.0, value - interval.low) for value, interval in zip(values, intervals, strict=True)]
    above = [max(0.0, interval.high - value) for value, interval in zip(values, intervals, strict=True)]
    any_at_lowest = False
    any_at_highest = False
    for down, up in zip(below, above, strict=True):
        if down == 0.0 and up > 0.0:
            any_at_lowest = True
        if up == 0.0 and down > 0.0:
            any_at_highest = True
    if any_at_lowest and any_at_highest:
        is_skewed_down = [up < down for down, up in zip(below, above, strict=True)]
        return _mean_interval_by_skewness(values, intervals, ranges, is_skewed_down)
    return _skewed_mean_interval(values, intervals, ranges, below, above)


def _skewed_mean_interval(
    values: Sequence[float],
    intervals: Sequence[Interval],
    ranges: Sequence[tuple[float, float]],
    below: Sequence[float],
    above: Sequence[float],
) -> Interval:
    """Return the interval of a mean over data sets from the distances of their scores to the limits.

    An interval of a score near 0 or 1 is skewed: one limit is farther away than the other. The interval of a mean is
    less skewed, the more data sets there are. So each interval is described by two numbers. Let b be the distance to
    the lower limit and a that to the upper limit::

        skewness = a - b
        spread   = a * b
        limits   = value + skewness / 2 -+ sqrt(spread + skewness^2 / 4)

    The interval of the mean is computed from its own skewness and spread, by the same formula:

    - The spread is the sum of the spreads of the data sets, divided by the squared number of data sets
      (:func:`_sum_of_spreads`).
    - The skewness is the mean of the skewnesses, divided by the number of data sets. Each data set has the squared
      width ``(a + b)^2`` of its interval as its weight in the mean. The spread would be no weight: it is 0 for a score
      of 0 or 1, where b or a is 0.

    Args:
        values: The score of each data set.
        intervals: Its interval.
        ranges: The lowest and the highest possible score on each data set.
        below: The distance to its lower limit.
        above: The distance to its upper limit.
    """
    count = len(values)
    mean = math.fsum(values) / count
    skewnesses = [up - down for down, up in zip(below, above, strict=True)]
    weights = [(up + down) ** 2 for down, up in zip(below, above, strict=True)]
    total_weight = max(math.fsum(weights), _TINY**2)
    skewness = _dot(skewnesses, weights) / total_weight / count

    shrinkages = _shrinkages(values, ranges, below, above)
    shrinkage_of_mean = _dot(shrinkages, weights) / total_weight / count
    spread = _sum_of_spreads(below, above, shrinkages, shrinkage_of_mean) / count**2

    half_width = math.sqrt(spread + skewness * skewness / 4.0)
    centre = mean + skewness / 2.0
    # No limit is farther away than the mean of the limits of the data sets, and the interval contains the mean.
    mean_low = math.fsum(interval.low for interval in intervals) / count
    mean_high = math.fsum(interval.high for interval in intervals) / count
    low = max(mean_low, centre - half_width)
    high = min(mean_high, centre + half_width)
    return _interval_of_mean(intervals, low=min(mean, low), high=max(mean, high))


def _sum_of_spreads(
    below: Sequence[float], above: Sequence[float], shrinkages: Sequence[float], shrinkage_of_mean: float
) -> float:
    """Return the sum of the spreads of the intervals of all data sets, each with the shrinkage of their mean.

    The spread of an interval is the product of the distances from the score to its two limits. A Wilson interval draws
    the limits towards the middle. Let p be the score, and::

        k = q^2 / rows            with the quantile q of the interval
        s = k / (1 + k)           the shrinkage
        spread = s * p * (1 - p)  so that  spread / (1 - s) = k * p * (1 - p) = q^2 * (variance of the score)

    Variances of independent scores can be added, and so ``spread / (1 - s)`` can. The mean over data sets has the rows
    of all of them, and so a smaller shrinkage S. The result, the spread of their sum, is
    ``(1 - S) * sum of spread / (1 - s)``.

    Args:
        below: For each data set the distance from its score to the lower limit.
        above: The distance to the upper limit.
        shrinkages: The shrinkage s of each data set (:func:`_shrinkages`).
        shrinkage_of_mean: The shrinkage S of the mean, about the mean of s divided by the number of data sets.
    """
    remaining_share = 1.0 - shrinkage_of_mean
    spreads = []
    for down, up, shrinkage in zip(below, above, shrinkages, strict=True):
        spreads.append(down * up * remaining_share / (1.0 - shrinkage))
    return math.fsum(spreads)


def _shrinkages(
    values: Sequence[float], ranges: Sequence[tuple[float, float]], below: Sequence[float], above: Sequence[float]
) -> list[float]:
    """Return the shrinkage of each data set: how far a Wilson interval draws its limits to the middle.

    Let p be the score of a data set as a share of its range, which an accuracy is, and s its shrinkage. The limits have
    the distances b and a from p, for which ``a - b = s (1 - 2 p)`` and ``a b = s p (1 - p)``. From the first equation,
    s is at least ``|a - b|``. The second one gives s, unless p is 0 or 1.

    Args:
        values: The score of each data set.
        ranges: The lowest and the highest possible score there.
        below: The distance to its lower limit.
        above: The distance to its upper limit.
    """
    shrinkages = []
    for value, (lowest, highest), down, up in zip(values, ranges, below, above, strict=True):
        width = highest - lowest
        share = (value - lowest) / width
        share_below = down / width
        share_above = up / width
        shrinkage = abs(share_above - share_below)
        if 0.0 < share < 1.0:
            shrinkage = max(shrinkage, share_below * share_above / (share * (1.0 - share)))
        shrinkages.append(min(0.5, shrinkage))
    return shrinkages


def _biased_mean_interval(
    values: Sequence[float], intervals: Sequence[Interval], ranges: Sequence[tuple[float, float]]
) -> Interval:
    """Return the interval of the mean over data sets of a biased score, such as a calibration error.

    The interval is around the mean of the estimates without bias, the centres. With n data sets, it has two errors:

    - That of the centres: ``half_width = sqrt(sum of (half width of each data set)^2) / n`` (MOVER). One of the limits
      of a data set may be cut off at the end of the range, so that its half width is the larger of the two distances.
    - That of the bias itself, which is estimated. The true bias may be twice the estimate, or 0. If it is twice that,
      the truth is farther from the observed mean than the centre is. On that side the whole bias is added to
      ``half_width``, which is the cautious choice. On the side of the observed mean, it is added as an independent
      error, by the root of the sum of the squares.

    Args:
        values: The score of each data set.
        intervals: Its interval. Its ``centre`` is the estimate without bias; without a centre, the bias is 0.
        ranges: The lowest and the highest possible score there.
    """
    count = len(values)
    mean = math.fsum(values) / count
    centres = []
    squared_distances = []
    for value, interval in zip(values, intervals, strict=True):
        centre = value if interval.centre is None else interval.centre
        centres.append(centre)
        distance = max(0.0, centre - interval.low, interval.high - centre)
        squared_distances.append(distance * distance)
    half_width = math.sqrt(math.fsum(squared_distances) / count**2)

    mean_centre = math.fsum(centres) / count
    bias = mean - mean_centre
    cautious_half_width = half_width + abs(bias)
    usual_half_width = math.hypot(half_width, bias)
    if bias > 0.0:
        low = mean_centre - cautious_half_width
        high = mean_centre + usual_half_width
    else:
        low = mean_centre - usual_half_width
        high = mean_centre + cautious_half_width

    # The limits are within the range of the mean, and the interval contains the observed mean.
    lowest_mean = math.fsum(lowest for lowest, _ in ranges) / count
    highest_mean = math.fsum(highest for _, highest in ranges) / count
    low_in_range = max(lowest_mean, low)
    high_in_range = min(highest_mean, high)
    return _interval_of_mean(intervals, low=min(mean, low_in_range), high=max(mean, high_in_range))


def _mean_interval_by_skewness(
    values: Sequence[float],
    intervals: Sequence[Interval],
    ranges: Sequence[tuple[float, float]],
    is_skewed_down: Sequence[bool],
) -> Interval:
    """Return the interval of a mean over data sets whose intervals are skewed to different sides.

    The data sets are divided by the side of their skewness. Each of the two groups has the interval of its mean. MOVER
    combines both: the distance to a limit is the root of the sum of the squared distances of the groups. Each distance
    is multiplied by the share of the data sets that are in the group.

    Args:
        values: The score of each data set.
        intervals: Its interval.
        ranges: The lowest and the highest possible score there.
        is_skewed_down: Whether its lower limit is farther away than its upper limit.
    """
    values_by_side: dict[bool, list[float]] = {False: [], True: []}
    intervals_by_side: dict[bool, list[Interval]] = {False: [], True: []}
    ranges_by_side: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for value, interval, range_of_score, side in zip(values, intervals, ranges, is_skewed_down, strict=True):
        values_by_side[side].append(value)
        intervals_by_side[side].append(interval)
        ranges_by_side[side].append(range_of_score)

    below = 0.0
    above = 0.0
    for side in (False, True):
        group_values = values_by_side[side]
        group_interval = mean_interval(group_values, intervals_by_side[side], ranges_by_side[side])
        group_mean = math.fsum(group_values) / len(group_values)
        share = len(group_values) / len(values)
        below = math.hypot(below, share * (group_mean - group_interval.low))
        above = math.hypot(above, share * (group_interval.high - group_mean))
    mean = math.fsum(values) / len(values)
    return _interval_of_mean(intervals, mean - below, mean + above)


def _interval_of_mean(intervals: Sequence[Interval], low: float, high: float) -> Interval:
    """Return an interval of a mean, with the level of the intervals of the data sets."""
    return Interval(low, high, level=intervals[0].level, method="variance recovery over data sets")
