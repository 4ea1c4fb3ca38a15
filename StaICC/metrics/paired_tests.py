"""Paired tests of two runs by any metric.

The unit is the test row with all its queries. Every metric is written as a sum of one *contribution* for each row
(:class:`~StaICC.metrics.statistics.Contributions`): for means (accuracy, likelihood, consistency) the score of the row,
divided by the number of rows; for F1, calibration error and entropies its influence (Hampel 1974). The difference of
two runs is the sum of its *steps*: one for each row, the contribution to the first run minus that to the second.

**The test.** A sample may lack the rare rows that outweigh the common ones: a run that is a little worse on every row,
and much better on one row of a hundred, looks worse in most samples of fifty rows. So the test adds a *pseudo-row*,
which has the largest step against the observed difference that a row can have. All rows get random (Dirichlet) weights.
The p-value of "the difference is at most 0" is the probability that the weighted sum of the steps is not positive
(Gaffke 2005). For shares this is the exact binomial test, and for the accuracies of two runs with one query for each
row the exact test of McNemar. The two-sided p-value is twice the smaller one-sided one. The confidence interval has all
differences that the two-sided test does not reject. If the test would not be significant even with all steps in one
direction, nothing is tested (:func:`too_few_rows`).

**Its power.** With the least favourable pseudo-row, the test rejects equal runs less often than its level allows. So
the p-value is a weighted mean of two: that with the least favourable pseudo-row, and that with the most favourable one,
which has the largest step in the direction of the observed difference (:func:`favourable_weight`). With both weights
1/2 and one query for each row, this would be McNemar's mid-p-value (Lancaster 1961).

**One-sided estimates.** Chance raises calibration errors and divergences on average, and lowers entropies. The claim
that the first run has the larger value is tested with a lower estimate of its value and an upper estimate of that of
the second run, and the other claim the other way round (``lower_rows`` and ``upper_rows`` of the contributions). Each
is a sum over rows whose expected value is on the safe side of the true value, however few the rows are. The reason is
the same for all of these metrics. They are convex functions of the distribution of the rows, or minus such a function:
the largest value that a sum over rows has, of many sums. With the sum that is largest in the sample, the value is too
large on average; with a sum that was chosen on other rows, it is too small. For the calibration error the choice are
the signs of the confidence bins, for entropies and divergences the means of the predictions.

The upper estimate of the calibration error is a sum of absolute values, one for each confidence bin. If the sign of a
bin is uncertain, the one that makes the lower limit of the difference lowest is used (:func:`_with_lowest_limit`). In
the same way, the lower estimate of the entropy has a choice of means (:func:`_with_lowest_alternative`).

**Bias.** The bias of macro F1 is estimated, and subtracted from the observed difference before it is tested.

**Clusters.** If the rows of a data set are in clusters, a step is that of a cluster, and the sum of the steps has a
cluster-robust t test (:mod:`StaICC.metrics.clusters`) in the place of the test above. A pseudo-row would be a whole
cluster here: for clusters of different sizes, nothing would ever be significant.

**Computation.** Nothing is drawn at random: the probabilities are contour integrals (see
:func:`_probability_not_positive`), in which few values replace the many steps in the middle (:func:`condensed`).
``tests/performance/comparison.py`` measures type I error, power and coverage; ``docs/error_rates.md`` has the tables.

Sources:
    Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable",
    Mathematical Methods of Statistics 14. Learned-Miller and Thomas 2019, "A new confidence interval for the mean of a
    bounded random variable", arXiv:1905.06208. Lancaster 1961, "Significance tests in discrete distributions", Journal
    of the American Statistical Association 56. The validity of the test is measured here, not proven.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add, mul, sub
from statistics import NormalDist
from typing import NamedTuple

from StaICC.errors import ArgumentError
from StaICC.metrics.clusters import (
    CLUSTER_METHOD,
    VarianceOfSum,
    combined,
    smallest_p_value,
    student_limit,
    student_tail,
    too_few_clusters,
    variance_of_sum,
)
from StaICC.metrics.intervals import Interval
from StaICC.metrics.statistics import Contributions, RangeEnd

INTERVAL_METHOD = "paired test rows, pseudo-row with the largest possible step (Gaffke 2005)"
SIGNIFICANCE_LEVEL = 0.05
"""Differences with a p-value up to this level are called significant."""
_NORMAL = NormalDist()


class CondensedSteps(NamedTuple):
    """The steps of all data sets with the same number of rows, replaced by few values."""

    row_weight: float
    """The weight of one of these test rows in the mean over data sets: 1 / rows / data sets."""
    counts: Mapping[float, float]
    """The values with the number of steps that each replaces (see :func:`condensed`)."""


@dataclass(frozen=True)
class PairedDifference:
    """The difference of a metric between two runs, as a sum over test rows."""

    first: float
    """The value of the metric for the first run."""
    second: float
    """The value of the metric for the second run."""
    steps: Sequence[float]
    """The contribution of each test row to first minus second; their sum is the difference."""
    lowest_step: float
    """The lowest possible step of a row, negative or 0."""
    highest_step: float
    """The highest possible step of a row, positive or 0."""
    largest_size: float = math.inf
    """The largest possible absolute value of the difference."""
    upward_bias: float = 0.0
    """How far the expected difference of a sample may be above the true one, from the biases of both values."""
    downward_bias: float = 0.0
    """How far the expected difference of a sample may be below the true one."""
    lower_steps: Sequence[float] | None = None
    """Steps whose sum has an expected value that is at most the true difference: the claim that the first run has the
    larger value is tested with them. ``None``: the same as :attr:`steps`."""
    upper_steps: Sequence[float] | None = None
    """Steps whose sum has an expected value that is at least the true difference: the claim that the second run has the
    larger value is tested with them. ``None``: the same as :attr:`steps`."""
    strata: tuple[int, ...] = ()
    """The number of test rows of each data set, in the order of the steps; by default, all rows are one data set."""
    cluster_shares: tuple[float, ...] | None = None
    """If rows are in clusters, the steps are those of clusters, and each has here its share of the queries of its data
    set. A data set without clusters has a cluster for each row. ``None`` if no data set has clusters."""

    def __post_init__(self) -> None:
        """Take all test rows as one data set if no strata were given."""
        if not self.strata:
            object.__setattr__(self, "strata", (len(self.steps),))

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first - self.second

    @property
    def smallest_rows(self) -> int:
        """The number of test rows, if all data sets had as few as the smallest one."""
        return min(self.strata) * len(self.strata)

    @property
    def unbounded(self) -> bool:
        """Whether one more row could change the difference without limit."""
        return math.isinf(self.lowest_step) or math.isinf(self.highest_step)

    @property
    def negated(self) -> PairedDifference:
        """The difference of the same two runs in the other order: second minus first.

        All signed numbers change their sign. So what was the lowest step of a test row is minus the highest one, and
        the same holds for the lower and the upper steps. The two biases are sizes of an error, not signed: they change
        places. Sizes and shares stay the same.
        """
        return PairedDifference(
            first=self.second,
            second=self.first,
            steps=[-step for step in self.steps],
            lowest_step=-self.highest_step,
            highest_step=-self.lowest_step,
            largest_size=self.largest_size,
            upward_bias=self.downward_bias,
            downward_bias=self.upward_bias,
            lower_steps=_negated_steps(self.upper_steps),
            upper_steps=_negated_steps(self.lower_steps),
            strata=self.strata,
            cluster_shares=self.cluster_shares,
        )

    @property
    def tested_steps(self) -> Sequence[float]:
        """The steps with which the claim "the first run has the larger value" is tested."""
        if self.lower_steps is None:
            return self.steps
        return self.lower_steps

    @property
    def steps_of_other_claim(self) -> Sequence[float]:
        """The steps with which the claim "the second run has the larger value" is tested."""
        if self.upper_steps is None:
            return self.steps
        return self.upper_steps

    @property
    def _steps_by_dataset(self) -> list[Sequence[float]]:
        """For each data set the tested steps of its test rows."""
        return self._by_dataset(self.tested_steps)

    def _by_dataset(self, values: Sequence[float]) -> list[Sequence[float]]:
        """Return one list for each data set, of values for all steps.

        The values of the first data set come first, as many as it has test rows, then those of the second one and so
        on.
        """
        values_by_dataset = []
        start = 0
        for size in self.strata:
            values_by_dataset.append(values[start : start + size])
            start += size
        return values_by_dataset

    @cached_property
    def condensed(self) -> list[CondensedSteps]:
        """The tested steps, replaced by few values with weights (:func:`condensed`), so that tests are fast.

        Data sets with the same number of rows are taken together, because their rows have the same weight in the mean.
        """
        steps_by_size: dict[int, list[float]] = defaultdict(list)
        for size, steps in zip(self.strata, self._steps_by_dataset, strict=True):
            steps_by_size[size].extend(steps)
        n_datasets = len(self.strata)
        condensed_steps = []
        for size, steps in steps_by_size.items():
            condensed_steps.append(CondensedSteps(row_weight=1.0 / size / n_datasets, counts=condensed(steps)))
        return condensed_steps

    @cached_property
    def variance(self) -> float:
        """The variance of the sum of the tested steps, if the rows of each data set are drawn independently."""
        return math.fsum(_variance_of_sum(steps) for steps in self._steps_by_dataset)

    @cached_property
    def variance_over_clusters(self) -> VarianceOfSum:
        """The variance of the difference over clusters, with its degrees of freedom."""
        parts = []
        for steps, shares in zip(self._steps_by_dataset, self.shares_by_dataset, strict=True):
            parts.append(variance_of_sum(steps, shares))
        return combined(parts)

    @property
    def shares_by_dataset(self) -> list[Sequence[float]]:
        """For each data set the shares of its clusters; an empty list if no data set has clusters."""
        if self.cluster_shares is None:
            return []
        return self._by_dataset(self.cluster_shares)


def _negated_steps(steps: Sequence[float] | None) -> list[float] | None:
    """Return minus each step; ``None`` for ``None``."""
    if steps is None:
        return None
    return [-step for step in steps]


def _variance_of_sum(steps: Sequence[float]) -> float:
    """Return the variance of the sum of the steps of independent rows: the sum of their squared deviations."""
    mean = math.fsum(steps) / len(steps)
    return math.fsum((step - mean) ** 2 for step in steps)


# -- statistic


def paired_difference(
    first: Sequence[tuple[float, Contributions]],
    second: Sequence[tuple[float, Contributions]],
    cluster_shares: Sequence[float] | None = None,
) -> PairedDifference:
    """Return the difference of two runs by a weighted sum of metrics, such as a slope or a mean over rounds.

    Args:
        first: The weights and the metrics of the first run.
        second: The weights and the metrics of the second run, over the same test rows.
        cluster_shares: The share of each cluster in the queries, if the contributions are those of clusters; ``None``
            if they are those of independent rows.

    Example:
        >>> half = Contributions(0.5, [0.5, 0.0], lowest_after_row=1 / 3, highest_after_row=2 / 3, range_width=1.0)
        >>> other = Contributions(0.5, [0.0, 0.5], lowest_after_row=1 / 3, highest_after_row=2 / 3, range_width=1.0)
        >>> paired_difference([(1.0, half)], [(1.0, other)]).steps
        [0.5, -0.5]
    """
    terms = [_SignedTerm(weight, metric) for weight, metric in first]
    terms += [_SignedTerm(-weight, metric) for weight, metric in second]
    first_value = math.fsum(weight * metric.value for weight, metric in first)
    second_value = math.fsum(weight * metric.value for weight, metric in second)
    difference = first_value - second_value

    steps = _row_steps([term.rows for term in terms], difference, cluster_shares)
    lower_steps = None
    upper_steps = None
    if any(term.metric.has_one_sided_estimates for term in terms):
        lower_steps = _lower_steps(terms, cluster_shares)
        # The upper steps are minus the lower steps of second minus first.
        upper_steps = _negated_steps(_lower_steps([term.negated for term in terms], cluster_shares))

    # Both runs have the same weights and ranges, so the sum over both runs counts the range of the difference twice.
    largest_size = math.fsum(abs(term.weight) * term.metric.range_width for term in terms) / 2.0
    return PairedDifference(
        first=first_value,
        second=second_value,
        steps=steps,
        lowest_step=min(0.0, _extreme_step(terms, "lowest", difference, n_rows=len(steps))),
        highest_step=max(0.0, _extreme_step(terms, "highest", difference, n_rows=len(steps))),
        largest_size=largest_size,
        upward_bias=math.fsum(term.upward_bias for term in terms),
        downward_bias=math.fsum(term.negated.upward_bias for term in terms),
        lower_steps=lower_steps,
        upper_steps=upper_steps,
        cluster_shares=None if cluster_shares is None else tuple(cluster_shares),
    )


_ROUNDING = 1e-12
"""Sums of steps differ by less than this from rounding alone."""


class _SignedTerm(NamedTuple):
    """A term of the difference of two runs, which is a sum: a weight times a metric of one run.

    For runs compared by their accuracies, for example, the terms are ``1 * accuracy of the first run`` and
    ``-1 * accuracy of the second run``. A term with a negative weight makes the difference lowest where its metric is
    highest.
    """

    weight: float
    metric: Contributions

    @property
    def negated(self) -> _SignedTerm:
        """The term in the difference of the same runs in the other order."""
        return _SignedTerm(-self.weight, self.metric)

    @property
    def rows(self) -> list[float]:
        """The contribution of each row to the term."""
        return self._weighted(self.metric.rows)

    @property
    def value(self) -> float:
        """The value of the term."""
        return self.weight * self.metric.value

    @property
    def lower_rows(self) -> list[float]:
        """The contribution of each row to an estimate of the term that is not too high on average."""
        contributions = self._contributions_to_estimate
        if contributions is None:
            return self.rows
        return self._weighted(contributions)

    @property
    def lower_estimate(self) -> float:
        """The estimate of the term that is not too high on average: the sum of :attr:`lower_rows`, or the value."""
        contributions = self._contributions_to_estimate
        if contributions is None:
            return self.value
        return self.weight * math.fsum(contributions)

    @property
    def _contributions_to_estimate(self) -> Sequence[float] | None:
        """The contributions to the estimate of the metric with which the term is not too high on average.

        It is the lower estimate if the weight is positive, and the upper one if it is negative. ``None`` if the metric
        has no such estimate; its value is then taken.
        """
        if self.weight > 0.0:
            return self.metric.lower_rows
        return self.metric.upper_rows

    @property
    def upward_bias(self) -> float:
        """How far the expected value of the term in a sample may be above the true value; 0 or positive.

        With a negative weight, the term is too high where the metric is too low.
        """
        if self.weight > 0.0:
            bias_of_metric = self.metric.upward_bias
        else:
            bias_of_metric = self.metric.downward_bias
        return abs(self.weight) * bias_of_metric

    def extreme_after_row(self, end: RangeEnd) -> float:
        """Return the lowest or the highest value that the term could have after one more test row.

        With a negative weight, the term is lowest where the metric is highest.

        Args:
            end: Which of the two values of the term is returned.
        """
        lowest_term_at_lowest_metric = self.weight > 0.0
        wants_lowest_term = end == "lowest"
        if wants_lowest_term == lowest_term_at_lowest_metric:
            return self.weight * self.metric.lowest_after_row
        return self.weight * self.metric.highest_after_row

    def _weighted(self, contributions: Sequence[float]) -> list[float]:
        """Return the contributions times the weight of the term."""
        return [self.weight * contribution for contribution in contributions]


def _row_steps(
    rows_by_term: Sequence[Sequence[float]], total: float, cluster_shares: Sequence[float] | None
) -> list[float]:
    """Return the step of each row: the sum of its contributions to all terms. The steps add up to the total.

    Some contributions, such as those to an F1, are derivatives, and need not add up to the total. What is missing is
    divided equally between all rows; clusters get it in proportion to their sizes. A difference that is due to rounding
    is not added, so that equal steps stay equal.

    Args:
        rows_by_term: For each term the contributions of all rows.
        total: The difference, to which the steps add up.
        cluster_shares: The share of each cluster in the queries, if the rows are clusters; ``None`` if they are not.
    """
    contributions_by_row = zip(*rows_by_term, strict=True)
    steps = [math.fsum(contributions) for contributions in contributions_by_row]
    missing = total - math.fsum(steps)
    if abs(missing) <= _ROUNDING:
        return steps
    if cluster_shares is None:
        return [step + missing / len(steps) for step in steps]
    return [step + missing * share for step, share in zip(steps, cluster_shares, strict=True)]


def _lower_steps(terms: Sequence[_SignedTerm], cluster_shares: Sequence[float] | None) -> list[float]:
    """Return one step for each test row, with which the claim is tested that the sum of the terms is positive.

    The test must not be passed too often, so that each term is estimated rather too low:

    1. A term with a positive weight counts with the lower estimate of its metric, one with a negative weight with the
       upper estimate. A metric without such estimates counts with its value.
    2. Where a metric has several lower estimates, the one is used for which the lower confidence limit of the sum of
       the steps is lowest (:func:`_with_lowest_alternative`).
    3. An upper estimate that is a sum of absolute values has terms with uncertain signs. They get the signs for which
       the limit is lowest (:func:`_with_lowest_limit`).

    Args:
        terms: The terms of both runs.
        cluster_shares: The share of each cluster in the queries, if the rows are clusters; ``None`` if they are not.
    """
    total = math.fsum(term.lower_estimate for term in terms)
    steps = _row_steps([term.lower_rows for term in terms], total, cluster_shares)

    sign_changes = []
    for term in terms:
        if term.weight > 0.0:
            steps = _with_lowest_alternative(steps, term)
        else:
            for contributions in term.metric.uncertain_terms:
                # A term a becomes -a, so 2 a is subtracted from each step.
                sign_changes.append([2.0 * term.weight * contribution for contribution in contributions])
    return _with_lowest_limit(steps, sign_changes)


def _with_lowest_alternative(steps: list[float], term: _SignedTerm) -> list[float]:
    """Return the steps with the lower estimate of a metric for which the lower confidence limit of their sum is lowest.

    A metric may have several lower estimates. The one with the lowest sum can have a smaller variance than another one,
    so that its confidence limit is not the lowest.

    Args:
        steps: What each row contributes to the difference of two runs, with the first lower estimate of the metric.
        term: The metric of the first run, with a positive weight.
    """
    first_estimate = term.metric.lower_rows
    if first_estimate is None:
        first_estimate = term.metric.rows
    candidates = [steps]
    for estimate in term.metric.lower_alternatives:
        changes = [term.weight * (new - old) for new, old in zip(estimate, first_estimate, strict=True)]
        candidates.append(list(map(add, steps, changes)))
    z = _NORMAL.inv_cdf(1.0 - SIGNIFICANCE_LEVEL / 2.0)  # 1.96
    return min(candidates, key=lambda candidate: _lower_limit(candidate, z))


def _with_lowest_limit(steps: list[float], sign_changes: Sequence[Sequence[float]]) -> list[float]:
    """Return the steps after those changes of signs that make the lower confidence limit of their sum lowest.

    The metric is a sum of absolute values ``|a|``, each a term of all steps. If an observed a is near 0, the true a may
    have the other sign. With the true signs, which are unknown, the test of the difference would be valid. So the signs
    are chosen that make it hardest to pass: those with the lowest limit ``sum - 1.96 * sqrt(variance)``. The given
    steps have the lowest sum, but with other signs their variance can be larger.

    The search is greedy, because there are too many combinations: it makes the change that lowers the limit most, and
    begins again with the other changes, until none lowers it.

    Args:
        steps: One step for each row.
        sign_changes: For each uncertain sign what its change subtracts from the step of each row.
    """
    z = _NORMAL.inv_cdf(1.0 - SIGNIFICANCE_LEVEL / 2.0)  # 1.96
    best_steps = steps
    lowest_limit = _lower_limit(steps, z)
    untried_changes = list(sign_changes)
    while untried_changes:
        candidates = [list(map(sub, best_steps, changes)) for changes in untried_changes]
        limits = [_lower_limit(candidate, z) for candidate in candidates]
        if min(limits) >= lowest_limit:
            break
        lowest_limit = min(limits)
        best_index = limits.index(lowest_limit)
        best_steps = candidates[best_index]
        # The change is made, and is no candidate any more.
        untried_changes = untried_changes[:best_index] + untried_changes[best_index + 1 :]
    return best_steps


def _lower_limit(steps: Sequence[float], z: float) -> float:
    """Return the lower confidence limit of the sum of steps of independent rows: ``sum - z * sqrt(variance)``.

    The variance of the sum is the sum of the squared deviations of the steps from their mean.
    """
    total = math.fsum(steps)
    variance = math.fsum(map(mul, steps, steps)) - total * total / len(steps)
    return total - z * math.sqrt(max(0.0, variance))


def _extreme_step(terms: Sequence[_SignedTerm], end: RangeEnd, difference: float, *, n_rows: int) -> float:
    """Return the lowest or the highest step that one more row could have: its contribution to the difference.

    With n rows, let D be the difference, which is the sum of the steps. After one more row with the step x it is
    ``E = (D + x) * n / (n + 1)``, because steps of n rows are divided by n, and those of n + 1 rows by n + 1. The
    metrics say which E is the lowest or the highest possible one. So::

        x = E * (n + 1) / n - D = (E - D) * (n + 1) / n + D / n

    Args:
        terms: The terms of the difference, which say how low and how high they could be after one more row.
        end: Which of the two steps is returned.
        difference: The difference D.
        n_rows: The number n of rows.
    """
    extreme_difference = math.fsum(term.extreme_after_row(end) for term in terms)
    return (extreme_difference - difference) * (n_rows + 1) / n_rows + difference / n_rows


def _joined(steps_by_dataset: Sequence[Sequence[float]], divisor: int) -> list[float]:
    """Return the steps of all data sets one after the other, each divided by a number."""
    joined: list[float] = []
    for steps in steps_by_dataset:
        joined.extend(step / divisor for step in steps)
    return joined


def mean_difference(differences: Sequence[PairedDifference]) -> PairedDifference:
    """Return the difference of the means over data sets.

    A mean over data sets is their sum divided by their number. So each quantity of the result is the sum of those of
    the data sets, divided by their number. The steps of all data sets follow one another, and the rows of each data set
    are a stratum.

    Args:
        differences: The difference on each data set.
    """
    count = len(differences)
    steps = _joined([difference.steps for difference in differences], divisor=count)
    lower_steps = _joined([difference.tested_steps for difference in differences], divisor=count)
    upper_steps = _joined([difference.steps_of_other_claim for difference in differences], divisor=count)
    strata: list[int] = []
    for difference in differences:
        strata.extend(difference.strata)
    has_one_sided_steps = any(difference.lower_steps or difference.upper_steps for difference in differences)
    return PairedDifference(
        first=math.fsum(difference.first for difference in differences) / count,
        second=math.fsum(difference.second for difference in differences) / count,
        steps=steps,
        lowest_step=min(difference.lowest_step for difference in differences) / count,
        highest_step=max(difference.highest_step for difference in differences) / count,
        largest_size=math.fsum(difference.largest_size for difference in differences) / count,
        upward_bias=math.fsum(difference.upward_bias for difference in differences) / count,
        downward_bias=math.fsum(difference.downward_bias for difference in differences) / count,
        lower_steps=lower_steps if has_one_sided_steps else None,
        upper_steps=upper_steps if has_one_sided_steps else None,
        strata=tuple(strata),
        cluster_shares=_shares_of_all(differences),
    )


def _shares_of_all(differences: Sequence[PairedDifference]) -> tuple[float, ...] | None:
    """Return the share of each cluster of all data sets in the queries of its data set, in one tuple.

    In a data set without clusters, each test row is a cluster of its own. ``None`` if no data set has clusters.
    """
    if all(difference.cluster_shares is None for difference in differences):
        return None
    shares: list[float] = []
    for difference in differences:
        if difference.cluster_shares is not None:
            shares.extend(difference.cluster_shares)
            continue
        for n_rows in difference.strata:
            share_of_row = 1.0 / n_rows
            shares.extend([share_of_row] * n_rows)
    return tuple(shares)


# -- tail of a weighted sum of steps


_OUTERMOST_STEPS = 16
"""Number of the lowest steps, and of the highest steps, that are kept."""

_NODES = 12
"""Number of Chebyshev nodes, the values that replace the other steps."""


def condensed(steps: Sequence[float]) -> Mapping[float, float]:
    """Return few values with weights that replace many steps: sums of a smooth function over both are nearly equal.

    Tests of many rows are thus fast. The outermost steps are kept. The other steps are replaced by Chebyshev nodes,
    fixed numbers between the lowest and the highest of them. A smooth function is nearly equal to the polynomial that
    agrees with it at these nodes. The sum of this polynomial over all steps is a weighted sum of its values at the
    nodes (:func:`_node_weights`).

    The function here is the logarithm of the integrand of :func:`_probability_not_positive`. Its singularities are
    beyond the outermost steps, so that it is smooth between the other steps, and the sums agree to about nine digits.

    Args:
        steps: The steps.

    Returns:
        The weight of each value. The weight of a step that is kept is its number of occurrences. The weight of a node
        need not be a whole number, and can be negative. All steps are kept if nodes would not be fewer.

    Example:
        >>> values = condensed([n / 1000 for n in range(1000)])
        >>> len(values), round(sum(count * math.exp(value) for value, count in values.items()), 6)
        (44, 1717.422831)
    """
    counts = Counter(steps)
    if len(counts) <= 3 * _OUTERMOST_STEPS:
        return dict(counts)
    ordered = sorted(steps)
    low = ordered[_OUTERMOST_STEPS]
    high = ordered[-_OUTERMOST_STEPS - 1]
    middle_steps = [step for step in counts if low <= step <= high]
    if len(middle_steps) <= _NODES:
        return dict(counts)

    middle_counts = [counts.pop(step) for step in middle_steps]
    weights: dict[float, float] = dict(counts)
    weights.update(_node_weights(middle_steps, middle_counts, low, high))
    return weights


def _node_weights(steps: Sequence[float], counts: Sequence[int], low: float, high: float) -> dict[float, float]:
    """Return the Chebyshev nodes between the lowest and the highest step, with the weights that replace the steps.

    The steps are scaled to numbers x from -1 to 1, where the n nodes are ``cos(pi * (j + 1/2) / n)``. The weight of a
    node is the sum over all steps of the interpolation polynomial that is 1 at this node and 0 at the others. Written
    with the Chebyshev polynomials T_k (Mason and Handscomb 2003, discrete orthogonality), it is, at the node
    ``cos(angle)``::

        moment[k] = sum over all steps of T_k(x)
        weight    = (moment[0] + 2 * sum over k from 1 to n - 1 of cos(k * angle) * moment[k]) / n

    Args:
        steps: The distinct steps.
        counts: The number of occurrences of each step.
        low: The lowest step.
        high: The highest step.
    """
    center = (low + high) / 2.0
    half_width = (high - low) / 2.0
    scaled = [(step - center) / half_width for step in steps]

    # T_k(x) times the number of occurrences, for each step: T_0 = 1, T_1 = x and T_(k+1) = 2 x T_k - T_(k-1).
    before: Sequence[float] = counts
    current = list(map(mul, scaled, counts))
    moments = [math.fsum(before), math.fsum(current)]
    for _ in range(2, _NODES):
        following = [2.0 * x * t - t_before for x, t, t_before in zip(scaled, current, before, strict=True)]
        moments.append(math.fsum(following))
        before = current
        current = following

    weights = {}
    for number in range(_NODES):
        angle = math.pi * (number + 0.5) / _NODES
        sum_of_higher_moments = math.fsum(math.cos(k * angle) * moments[k] for k in range(1, _NODES))
        node = center + half_width * math.cos(angle)
        weights[node] = (moments[0] + 2.0 * sum_of_higher_moments) / _NODES
    return weights


_ScaledTerms = Sequence[tuple[float, float]]
"""The terms of a sum other than 0, divided by the largest absolute value, each with its number of occurrences."""


def _probability_not_positive(terms: Mapping[float, float]) -> float:
    """Return the probability that ``sum of (term * weight)`` is not positive, with independent exponential weights.

    An exponential weight times a term has the moment generating function ``1 / (1 - s * term)``. So the sum has
    ``M(s) = product of 1 / (1 - s * term)``. By the inversion formula (Lugannani and Rice 1980), the probability of a
    positive sum is the integral of ``M(s) / s / (2 pi i)`` along a vertical line in the complex plane, right of 0. To
    the left of 0, the integral is minus the probability that the sum is not positive, because the pole at 0 adds 1. The
    line passes near the saddlepoint of M, where the integrand falls fastest in both directions. The relative error
    is about 1e-6 for probabilities above 1e-30.

    Args:
        terms: The number of occurrences of each term.
    """
    largest = max(map(abs, terms))
    if largest == 0.0:
        return 1.0
    lowest = min(terms) / largest
    highest = max(terms) / largest
    if highest <= 0.0:
        return 1.0
    if lowest >= 0.0:
        return 0.0

    scaled_terms = [(term / largest, count) for term, count in terms.items() if term]
    saddlepoint, width = _saddlepoint(scaled_terms, lowest, highest)
    real_part = _away_from_zero(saddlepoint, width, lowest, highest)
    integral = _line_integral(scaled_terms, real_part, width)
    line_is_left_of_zero = real_part < 0.0
    if line_is_left_of_zero:
        probability = -integral
    else:
        probability = 1.0 - integral
    # Rounding may put the probability outside its range. It is never 0, which has no normal quantile.
    positive_probability = max(1e-300, probability)
    return min(1.0, positive_probability)


def _saddlepoint(terms: _ScaledTerms, lowest: float, highest: float) -> tuple[float, float]:
    """Return the approximate saddlepoint of the moment generating function M, and the width of its peak there.

    The saddlepoint is the real number s where ``log(M(s))`` is smallest, between the poles of the lowest and the
    highest term. Its derivative ``slope(s) = sum(count * term / (1 - s * term))`` is 0 there. A Newton search finds it,
    with bisection where a step would leave the interval. Along the vertical line through s, M has the shape of a normal
    density whose standard deviation, the width, is one over the root of the second derivative.

    Args:
        terms: The terms.
        lowest: The lowest term, negative.
        highest: The highest term, positive.
    """
    s = 0.0
    s_below = 1.0 / lowest
    s_above = 1.0 / highest
    for _ in range(60):
        ratios = [(term / (1.0 - s * term), count) for term, count in terms]
        slope = math.fsum(count * ratio for ratio, count in ratios)
        second_derivative = math.fsum(count * ratio * ratio for ratio, count in ratios)
        width = 1.0 / math.sqrt(second_derivative)
        # A twentieth of the width is near enough, because the integral is the same along any line near the saddlepoint.
        if abs(slope) * width < 0.05:
            break
        if slope > 0.0:
            s_above = s
        else:
            s_below = s
        newton_step = -slope * width * width  # minus the slope, divided by the second derivative
        if s_below < s + newton_step < s_above:
            s += newton_step
        else:
            s = (s_below + s_above) / 2.0
    return s, width


def _away_from_zero(s: float, width: float, lowest: float, highest: float) -> float:
    """Return a number near s that keeps a distance from 0, because the integrand ``M(s) / s`` has a pole at 0.

    A number within half a width of 0 is moved to half a width from 0. It is moved at most half way to the next pole of
    M, which is one over the lowest or the highest term.

    Args:
        s: The saddlepoint.
        width: The width of the peak of M.
        lowest: The lowest term, negative.
        highest: The highest term, positive.
    """
    if abs(s) >= 0.5 * width:
        return s
    if s <= 0.0:
        return max(0.5 / lowest, -0.5 * width)
    return min(0.5 / highest, 0.5 * width)


def _line_integral(terms: _ScaledTerms, real_part: float, width: float) -> float:
    """Return the integral of ``M(s) / s / (2 pi i)`` along the vertical line ``s = real_part + i y``.

    It is computed by the trapezoidal rule in u, after the substitution ``y = width * sinh(u)``, which has the
    derivative ``width * cosh(u)``. Equal distances in u are narrow near the peak at y = 0, and wide far from it.

    - The integrand at -y is the conjugate of that at y. So the integral is the real part of that over the upper half,
      divided by pi. The node at 0 is in both halves and counts half.
    - On the line, ``M(s) = M(real_part) / product(1 - i y * term / (1 - real_part * term))``. The constant factor
      M(real_part) is multiplied at the end.

    Args:
        terms: The terms.
        real_part: The real part of s.
        width: The width of the peak of M.
    """
    m_at_real_part = math.exp(-math.fsum(count * math.log1p(-real_part * term) for term, count in terms))
    ratios = [(term / (1.0 - real_part * term) * width, count) for term, count in terms]
    node_distance = 0.1  # in u
    total = 0.0
    peak = 0.0
    for node in range(400):
        u = node_distance * node
        sinh_u = math.sinh(u)
        s = complex(real_part, sinh_u * width)
        minus_i_sinh_u = -1j * sinh_u
        factors = [(1.0 + minus_i_sinh_u * ratio) ** count for ratio, count in ratios]  # of M(real_part) / M(s)
        s_times_factors = math.prod(factors, start=s)
        node_width = node_distance / 2.0 if node == 0 else node_distance
        value = math.cosh(u) * node_width * width / s_times_factors
        # The integrand falls from its peak on, so that all further nodes are negligible, too. Where the product of the
        # factors overflows, the value is NaN, which is not above any number.
        is_noticeable = abs(value) > 1e-14 * peak
        if not is_noticeable:
            break
        total += value.real
        peak = max(peak, abs(value))
    return m_at_real_part * total / math.pi


# -- p-values


def favourable_weight(rows: int) -> float:
    """Return the weight w of the most favourable pseudo-row in the p-value: ``0.0214 * sqrt(rows)``, at most 1/4.

    It depends on the number of rows only, so that no outcome can change it.

    **Where 0.0214 comes from.** With it, two runs that are equally accurate are called different with a probability of
    at most 0.055. Let X be the number of n rows on which the first of them is better. The test of McNemar calls k such
    rows significant if ``P(X > k) + (1 - w) P(X = k)`` is at most 0.025. The probability of a significant outcome, in
    both directions, is then at most ``0.05 + 2 w P(X = k)``. It is largest if the runs differ on all n rows.
    ``P(X = k)`` is there about ``2 phi(1.96) / sqrt(n) = 0.117 / sqrt(n)``, with the normal density phi. So
    ``2 w P(X = k)`` is 0.005 for ``w = 0.0214 sqrt(n)``. The largest exact value for 4 to 2,048 rows, and any share of
    rows that differ, is 0.0544. With a constant weight of 1/4, it is 0.0625, and with 1/2 (the mid-p-value) 0.0768.

    **Where 1/4 comes from.** It is for skewed differences. With 0.48 for 512 rows, one of 28 kinds of equal runs
    (consistency of two labels) was called different in 0.061 of the samples, with 1/4 in 0.047.

    Args:
        rows: Number of test rows.

    Example:
        >>> [round(favourable_weight(rows), 3) for rows in (20, 128, 512, 1024)]
        [0.096, 0.242, 0.25, 0.25]
    """
    return min(0.25, 0.0214 * math.sqrt(rows))


def upper_p_value(difference: PairedDifference, least: float = 0.0) -> float:
    """Return the one-sided p-value of the null hypothesis "the true difference is at most `least`".

    The step of a row is what the row adds to the difference: its score in the first run minus its score in the second
    one, divided by the number of data sets and by the number of rows of its own. So the steps sum up to the difference.

    The test is that of Gaffke (2005). Let x be the steps of the rows minus those of the null hypothesis, with one
    further row added, the pseudo-row, and let w be random Dirichlet weights. Then p is the probability that
    ``sum of w * x`` is not positive.

    Two pseudo-rows are tried. With the lowest possible step, the test is cautious: the sample may lack such a row. With
    the highest possible step, it is not. The p-value is the weighted mean of both probabilities
    (:func:`favourable_weight`)::

        (1 - weight) * p_if_least_favourable + weight * p_if_most_favourable

    If the expected difference of a sample may be above the true one, this upward bias is added to the hypothesis.

    Args:
        difference: The observed difference.
        least: The difference of the null hypothesis.
    """
    if difference.cluster_shares is not None:
        return _upper_p_value_over_clusters(difference, least)

    tested = least + difference.upward_bias
    terms = _steps_above(difference, tested)
    if not any(terms):  # every row has the difference of the null hypothesis, so that nothing speaks against it
        return 1.0

    # Under the hypothesis, all rows of a data set have the same step. With several data sets, a pseudo-row is one of
    # the smallest data set, in which a row has the largest weight.
    rows_by_dataset = difference.strata
    tested_step = tested / min(rows_by_dataset) / len(rows_by_dataset)
    least_favourable = min(0.0, difference.lowest_step - tested_step)
    most_favourable = max(0.0, difference.highest_step - tested_step)
    p_if_least_favourable = _probability_with_pseudo_row(terms, least_favourable)
    p_if_most_favourable = _probability_with_pseudo_row(terms, most_favourable)
    weight = favourable_weight(difference.smallest_rows)
    return (1.0 - weight) * p_if_least_favourable + weight * p_if_most_favourable


def _steps_above(difference: PairedDifference, tested: float) -> dict[float, float]:
    """Return the steps minus those of a null hypothesis, each with its number of occurrences.

    Under the hypothesis, all rows of a data set have the same step.

    Args:
        difference: The observed difference.
        tested: The difference of the null hypothesis.
    """
    counts: dict[float, float] = {}
    for row_weight, step_counts in difference.condensed:
        tested_step = tested * row_weight
        for step, count in step_counts.items():
            term = step - tested_step
            counts[term] = counts.get(term, 0) + count
    return counts


def _upper_p_value_over_clusters(difference: PairedDifference, least: float) -> float:
    """Return the one-sided p-value of "the true difference is at most `least`" by the t test over clusters.

    ``t`` is the distance from the difference of the null hypothesis to the observed one, in standard deviations, and
    the p-value is the tail of Student's t above it.

    For a positive distance it is at least half of :func:`~StaICC.metrics.clusters.smallest_p_value`: the p-value if all
    clusters differ in one direction, and had random signs. Without this limit, clusters with equal steps would have no
    variance, and the p-value 0.

    Args:
        difference: The observed difference.
        least: The difference of the null hypothesis.
    """
    distance = difference.difference - (least + difference.upward_bias)
    variance, freedom = difference.variance_over_clusters
    if distance == 0.0:
        return 0.5
    if variance > 0.0:
        t = distance / math.sqrt(variance)
    else:
        t = math.copysign(math.inf, distance)
    tail = student_tail(t, freedom)
    if distance < 0.0:
        return tail
    return max(tail, smallest_p_value(difference.steps) / 2.0)


def _probability_with_pseudo_row(counts: Mapping[float, float], pseudo_row: float) -> float:
    """Return the probability that a weighted mean of the terms of all test rows and of a pseudo-row is not positive.

    A pseudo-row is one more test row that the sample may lack. The weights are random: those of a Dirichlet
    distribution, which are independent exponential variables, divided by their sum. This sum is positive, so that the
    weighted mean has the sign of the sum with the exponential variables as weights.

    Args:
        counts: For each term, how many test rows have it.
        pseudo_row: The term of the pseudo-row, which may also be one of the test rows.
    """
    counts_with_pseudo_row = dict(counts)
    counts_with_pseudo_row[pseudo_row] = counts.get(pseudo_row, 0) + 1
    return _probability_not_positive(counts_with_pseudo_row)


def p_value(difference: PairedDifference) -> float:
    """Return the two-sided p-value of a difference: twice the smaller one-sided one, and at most 1.

    It is 1 if no row contributes to the difference: all steps are 0.

    Args:
        difference: The difference.

    Example:
        >>> steps = [1 / 7] * 6 + [0.0]  # six of seven rows differ, all in one direction
        >>> difference = PairedDifference(6 / 7, 0.0, steps, lowest_step=-1 / 7, highest_step=1 / 7)
        >>> round(p_value(difference), 6)  # twice 1/64, of which the share 1 - 0.0214 * sqrt(7) counts
        0.029481
    """
    if not any(difference.steps):
        return 1.0
    if difference.difference > 0.0:
        observed_side = difference
        other_side = difference.negated
    else:
        observed_side = difference.negated
        other_side = difference

    observed_p = upper_p_value(observed_side)
    if observed_p <= 0.5:  # the p-value of the other side is at least 1 - observed_p, so it is not smaller
        return 2.0 * observed_p
    return min(1.0, 2.0 * min(observed_p, upper_p_value(other_side)))


def too_few_rows(difference: PairedDifference) -> str | None:
    """Return the reason why no outcome on these rows could be significant; ``None`` if one could, or if no row differs.

    The most significant outcome that is possible has the observed sizes of the steps, all with one sign. If even its
    p-value is above the level, nothing is tested. There are two reasons, with different messages. Which one it is shows
    if each row that differs had the largest possible step, as rows have that differ in accuracy:

    - With such steps the test could be significant. Then the steps are small next to the step that one more row could
      have.
    - It could not even then: too few rows differ.

    Args:
        difference: The difference; only the absolute values of its steps are used.
    """
    if difference.unbounded:
        return "one more row could change the metric without limit"
    if difference.cluster_shares is not None:
        return too_few_clusters_of(difference) or _too_few_clusters_differ(difference)
    sizes = [abs(step) for step in difference.steps]
    pseudo_row = min(difference.lowest_step, -difference.highest_step)
    if not any(sizes) or not pseudo_row:
        return None
    if _can_be_significant(sizes, pseudo_row, difference.smallest_rows):
        return None

    differing_count = sum(1 for size in sizes if size)  # rows whose contributions of both runs are not equal
    largest_sizes = [-pseudo_row] * differing_count
    if _smallest_p_value(largest_sizes, pseudo_row, difference.smallest_rows) <= SIGNIFICANCE_LEVEL:
        return (
            f"one more row could change the difference by about {-pseudo_row:.2g}, and each of the {differing_count} "
            f"rows that contribute to it changes it by {max(sizes):.2g} at most: p would be above "
            f"{SIGNIFICANCE_LEVEL:g} even if all their differences had one direction"
        )
    return (
        f"too few rows differ: p would be above {SIGNIFICANCE_LEVEL:g} even if all their differences had one direction"
    )


def _can_be_significant(sizes: Sequence[float], pseudo_row: float, n_rows: int) -> bool:
    """Return whether a test is significant if all steps have one sign.

    The p-value is that of :func:`_smallest_p_value`, which is slow for many rows. So a quick bound is tried first,
    Chernoff's inequality: for any negative s, the moment generating function ``M(s) = product of 1 / (1 - s * term)``
    is an upper bound of the one-sided p-value. With ``s = 1 / pseudo_row / 2``, the factor of the pseudo-row is
    ``1 / (1 - 1/2) = 2``, and that of a step is ``1 / (1 + size / -pseudo_row / 2)``.

    Args:
        sizes: The absolute values of the steps.
        pseudo_row: The step of the pseudo-row, negative.
        n_rows: The number of test rows.
    """
    log_of_product = -math.fsum(math.log1p(size / -pseudo_row / 2.0) for size in sizes)
    one_sided_bound = 2.0 * math.exp(log_of_product)
    if 2.0 * one_sided_bound <= SIGNIFICANCE_LEVEL:
        return True
    return _smallest_p_value(sizes, pseudo_row, n_rows) <= SIGNIFICANCE_LEVEL


def too_few_clusters_of(difference: PairedDifference) -> str | None:
    """Return the reason why a data set has too few clusters for a test; ``None`` if all have enough, or no clusters."""
    for shares in difference.shares_by_dataset:
        reason = too_few_clusters(shares)
        if reason is not None:
            return reason
    return None


def _too_few_clusters_differ(difference: PairedDifference) -> str | None:
    """Return the reason why no outcome on these clusters could be significant; ``None`` if one could, or none differs.

    The most significant outcome has the observed sizes of the steps, all with one sign.
    """
    smallest = smallest_p_value(difference.steps)
    if not any(difference.steps) or smallest <= SIGNIFICANCE_LEVEL:
        return None
    return (
        f"too few clusters differ: p would be above {SIGNIFICANCE_LEVEL:g} even if all their differences had one "
        "direction"
    )


def _smallest_p_value(sizes: Sequence[float], pseudo_row: float, n_rows: int) -> float:
    """Return the two-sided p-value if all steps had one sign, the smallest one that their sizes allow.

    Args:
        sizes: The absolute values of the steps.
        pseudo_row: The step of the pseudo-row, negative.
        n_rows: The number of test rows, which decides the weight of the favourable pseudo-row.
    """
    # With the most favourable pseudo-row, the weighted sum of steps with one sign is always positive.
    least_favourable = _probability_with_pseudo_row(Counter(sizes), pseudo_row)
    return 2.0 * (1.0 - favourable_weight(n_rows)) * least_favourable


# -- interval and power


def difference_interval(difference: PairedDifference, level: float = 0.95) -> Interval | None:
    """Return the confidence interval of the true difference of two runs, on all test rows of the same kind.

    The interval contains all differences that the two-sided test does not reject at one minus the level (test
    inversion), and the observed difference.

    Args:
        difference: The observed difference.
        level: Nominal coverage.

    Returns:
        The interval; ``None`` if one more row could change the metric without limit, or if rows are in clusters that
        are too few.
    """
    if difference.unbounded:
        return None
    if difference.cluster_shares is not None:
        return _interval_over_clusters(difference, level)
    one_sided_level = (1.0 - level) / 2.0
    low = max(-difference.largest_size, _lower_end(difference, one_sided_level))
    high = min(difference.largest_size, -_lower_end(difference.negated, one_sided_level))
    observed = difference.difference
    return Interval(min(observed, low), max(observed, high), level, INTERVAL_METHOD)


def _interval_over_clusters(difference: PairedDifference, level: float) -> Interval | None:
    """Return the confidence interval of the t test over clusters: ``difference -+ t * sqrt(variance)``.

    The upward bias is subtracted at the lower limit, and the downward bias added at the upper one. The interval is
    within the range of the metric, and contains the observed difference. It is ``None`` if clusters are too few, or if
    too few of them differ: the observed variance would be too small.

    Args:
        difference: The observed difference.
        level: Nominal coverage.
    """
    if not any(difference.steps) or too_few_rows(difference) is not None:
        return None
    variance, freedom = difference.variance_over_clusters
    distance = student_limit((1.0 - level) / 2.0, freedom) * math.sqrt(variance)
    observed = difference.difference
    low = max(-difference.largest_size, observed - difference.upward_bias - distance)
    high = min(difference.largest_size, observed + difference.downward_bias + distance)
    return Interval(min(observed, low), max(observed, high), level, CLUSTER_METHOD)


def _lower_end(difference: PairedDifference, one_sided_level: float) -> float:
    """Return the lower end of the confidence interval of the true difference.

    Let p(d) be the p-value of the null hypothesis "the true difference is at most d" (:func:`upper_p_value`). It rises
    with d. The lower end is the number d for which p(d) is the level: the test rejects all smaller numbers.

    The end is found by a secant search. The search is quick, because the normal quantile of p(d) is nearly linear in d.

    Args:
        difference: The observed difference.
        one_sided_level: The level of the one-sided test, such as 0.025 for an interval with the coverage 0.95.
    """
    quantile_of_level = _NORMAL.inv_cdf(one_sided_level)

    def excess(tested: float) -> float:
        """Return the normal quantile of p(tested) minus that of the level: negative where the test rejects."""
        return _finite_normal_quantile(upper_p_value(difference, tested)) - quantile_of_level

    # The search starts from two numbers, `low` below the end and `high` above it. First, `high` is the observed
    # difference, or the sum of the tested steps if that is larger, and `low` is two distances below. The distance is
    # the sum of three sizes, none of them negative: the standard deviation of the difference, the size of the
    # pseudo-row (the row with the lowest possible step, which the test adds to the sample), and the upward bias.
    pseudo_row_size = -difference.lowest_step  # the lowest step is negative or 0
    distance = math.sqrt(difference.variance) + pseudo_row_size + difference.upward_bias
    high = max(difference.difference, math.fsum(difference.tested_steps))
    if distance == 0.0:  # rows do not vary, and no row can lower the difference
        return high
    low = high - 2.0 * distance
    excess_at_low = excess(low)
    excess_at_high = excess(high)
    # If the test does not reject `low`, the end is still lower. Then both numbers move down, by a doubled distance.
    while excess_at_low > 0.0:
        distance *= 2.0
        high = low
        excess_at_high = excess_at_low
        low = high - distance
        excess_at_low = excess(low)

    return _root_by_secants(excess, low, high, excess_at_low, excess_at_high, tolerance=1e-7 * distance)


def _finite_normal_quantile(probability: float) -> float:
    """Return the normal quantile of a probability; of 0 and 1, whose quantiles are infinite, that of a number near."""
    above_zero = max(1e-300, probability)
    return _NORMAL.inv_cdf(min(1.0 - 1e-12, above_zero))


def _root_by_secants(
    function: Callable[[float], float], low: float, high: float, at_low: float, at_high: float, *, tolerance: float
) -> float:
    """Return the root of an increasing function, by the Illinois variant of the secant method (regula falsi).

    The next number is where the straight line through the function values at both limits is 0. It replaces the limit
    whose function value has the same sign. If the same limit was replaced two times in a row, the function value at the
    other one is halved, which moves the next number towards it. So both limits approach the root (Dowell and Jarratt
    1971).

    Args:
        function: The function.
        low: A number below the root.
        high: A number above the root.
        at_low: The value of the function at the lower number, at most 0.
        at_high: The value of the function at the higher number. If it is not positive, the lower number is returned.
        tolerance: The search ends when the limits are closer to each other than this. It also ends where the absolute
            value of the function is below 1e-8, and after 60 rounds.
    """
    last_replaced = None
    for _ in range(60):
        if high - low < tolerance or at_high <= 0.0:
            break
        middle = low - at_low * (high - low) / (at_high - at_low)
        at_middle = function(middle)
        if abs(at_middle) < 1e-8:
            return middle
        if at_middle < 0.0:
            low = middle
            at_low = at_middle
            if last_replaced == "low":
                at_high /= 2.0
            last_replaced = "low"
        else:
            high = middle
            at_high = at_middle
            if last_replaced == "high":
                at_low /= 2.0
            last_replaced = "high"
    return low


def detectable_difference(difference: PairedDifference) -> float | None:
    """Return the smallest true difference that the test finds at level 0.05 with the power 0.8.

    With this true difference, 80 % of the samples of as many test rows would be significant. The difference d is the
    solution of this equation, a normal approximation of the test::

        d = (1 - 2 w) b + bias + z_a * sqrt(variance + b^2 + d^2 / rows) + z_b * sqrt(variance)

    - b is the size of the pseudo-row: the largest possible step of one row, which the test adds to the sample.
    - w is the weight of the most favourable pseudo-row (:func:`favourable_weight`). The pseudo-row lowers the weighted
      sum by b with the weight 1 - w, and raises it by b with the weight w.
    - bias is what the test subtracts from the observed difference: its upward bias, and the distance from the observed
      difference to the sum of the tested steps.
    - variance is that of the sum of the tested steps.
    - z_a = 1.96 is the normal quantile of the two-sided level, and z_b = 0.84 that of the power.
    - rows is the number of test rows. The test adds up squared steps, not squared deviations from the mean step. Steps
      that add up to d have the mean d / rows, which adds ``rows * (d / rows)^2 = d^2 / rows`` to the sum.

    It is not known which run has the larger value. If the two claims are tested with other steps or another bias, the
    larger solution counts.

    Args:
        difference: The observed difference; only the variation of its steps is used, and not its value.

    Returns:
        The detectable difference, which is positive; ``None`` if the runs differ on too few rows
        (:func:`too_few_rows`), or if the steps of these rows could not add up to it.

    Example:
        >>> steps = [1 / 512] * 80 + [-1 / 512] * 40 + [0] * 392
        >>> round(detectable_difference(PairedDifference(0.6, 0.6 - 40 / 512, steps, -1 / 512, 1 / 512)), 3)
        0.061
    """
    if not any(difference.steps) or too_few_rows(difference):
        return None
    if difference.cluster_shares is not None:
        return _detectable_over_clusters(difference)
    if_first_is_larger = _detectable_if_first_is_larger(difference)
    if_second_is_larger = _detectable_if_first_is_larger(difference.negated)
    if if_first_is_larger is None or if_second_is_larger is None:
        return None
    detectable = max(if_first_is_larger, if_second_is_larger)
    largest_possible = math.fsum(map(abs, difference.steps))
    if 0.0 < detectable <= largest_possible:
        return detectable
    return None


def _detectable_if_first_is_larger(difference: PairedDifference) -> float | None:
    """Return the solution of the equation of :func:`detectable_difference` for the claim that the first run is larger.

    The terms without d are ``f = (1 - 2 w) b + bias + z_b sqrt(variance)``, outside the root of z_a, and
    ``s = z_a^2 (variance + b^2)`` inside it. The equation is then ``(d - f)^2 = s + z_a^2 d^2 / rows``. It is quadratic
    in d: ``(1 - z_a^2 / rows) d^2 - 2 f d + f^2 - s = 0``. The larger solution counts.

    Args:
        difference: The observed difference.

    Returns:
        The solution; ``None`` if there is none, as with less than four rows.
    """
    z_a = _NORMAL.inv_cdf(1.0 - SIGNIFICANCE_LEVEL / 2.0)
    z_b = _NORMAL.inv_cdf(0.8)
    # Several data sets count as a single one for which the term d^2 / rows is the same. Data sets of equal size count
    # as one data set with all their rows.
    rows = len(difference.strata) ** 2 / math.fsum(1.0 / size for size in difference.strata)
    coefficient_of_square = 1.0 - z_a * z_a / rows
    if coefficient_of_square <= 0.0:
        return None

    b = max(-difference.lowest_step, difference.highest_step)  # the size of the pseudo-row
    w = favourable_weight(difference.smallest_rows)
    distance_to_tested = max(0.0, difference.difference - math.fsum(difference.tested_steps))
    bias = difference.upward_bias + distance_to_tested
    f = (1.0 - 2.0 * w) * b + bias + z_b * math.sqrt(difference.variance)
    s = z_a * z_a * (difference.variance + b**2)
    root = math.sqrt(f * f - coefficient_of_square * (f * f - s))
    return (f + root) / coefficient_of_square


def _detectable_over_clusters(difference: PairedDifference) -> float:
    """Return the smallest true difference that the t test over clusters finds at level 0.05 with the power 0.8.

    With Student's t instead of normal quantiles it is ``(t_a + t_b) * sqrt(variance) + bias``: t_a has the tail 0.025
    and t_b the tail 0.2. The larger of the two biases counts, because it is not known which run has the larger value.
    """
    variance, freedom = difference.variance_over_clusters
    quantiles = student_limit(SIGNIFICANCE_LEVEL / 2.0, freedom) + student_limit(0.2, freedom)
    return quantiles * math.sqrt(variance) + max(difference.upward_bias, difference.downward_bias)


# -- several tests


def bonferroni(p_value: float | None, tests: int) -> float | None:
    """Return the Bonferroni-corrected p-value of a test that was chosen from several because of its p-value.

    Bonferroni's correction is valid for tests that depend on each other, as tests of pairs of runs do: they share runs
    and test rows. The correction ``1 - (1 - p) ** tests`` is for independent tests, such as those of
    :func:`~StaICC.metrics.random_baselines.p_value_of_best`, and is not valid here.

    Args:
        p_value: The p-value; ``None`` if the test could not be made.
        tests: Number of tests, with those that could not be made.

    Example:
        >>> bonferroni(0.01, 3), bonferroni(0.5, 3), bonferroni(None, 3)
        (0.03, 1.0, None)
    """
    if p_value is None:
        return None
    return min(1.0, p_value * tests)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of several tests, so that the family-wise error rate is at most the level.

    This is the probability of one or more false positives among all tests. Holm's method multiplies the k-th smallest
    of n p-values by n - k + 1. An adjusted p-value is at least that of every smaller p-value, and at most 1.

    Args:
        p_values: One p-value for each test, such as one for each data set; ``None`` for a test that could not be made.
            Such a test counts among the n tests, so that a failure never makes the others more significant.

    Returns:
        The adjusted p-values, in the same order; ``None`` stays ``None``. Equal p-values get equal results.

    Raises:
        ArgumentError: An entry is no probability.

    Source:
        Holm 1979, "A simple sequentially rejective multiple test procedure".

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.04, 0.09, None, 0.09]
    """
    made_tests = []
    for index, p in enumerate(p_values):
        if p is None:
            continue
        if not isinstance(p, int | float) or not 0.0 <= p <= 1.0:
            raise ArgumentError(f"p-value {index} is {p!r}; expected a number from 0 to 1, or None")
        made_tests.append((p, index))

    adjusted: list[float | None] = [None] * len(p_values)
    largest_before = 0.0
    for rank, (p, index) in enumerate(sorted(made_tests)):
        multiplied = min(1.0, p * (len(p_values) - rank))
        largest_before = max(largest_before, multiplied)
        adjusted[index] = largest_before
    return adjusted


def directional_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values of pairs of runs, adjusted so that errors in the *direction* of a difference are controlled.

    The probability that any run is called better than one that is as good or better is at most the level, even if the
    tests depend on each other. For n two-sided tests, Holm's method has no such proof (Shaffer 1980, "Control of
    directional errors with stagewise multiple test procedures", Annals of Statistics 8). It has one for null
    hypotheses. So each pair has two of them, "the first run is not better" and "the second run is not better", with a
    one-sided p-value each. All 2n one-sided p-values are adjusted together by :func:`holm`.

    Only the smaller one-sided p-value of a pair is known: half of the two-sided one. The other one is taken as 1, its
    largest possible value, and only the adjusted value of the smaller one is returned.

    Args:
        p_values: The two-sided p-value of each pair: twice the smaller one-sided one. ``None`` for a pair that has no
            test. It has two null hypotheses nevertheless, which count in 2n.

    Returns:
        The adjusted p-values, in the same order; ``None`` for a pair without a test. The adjusted p-value of a single
        pair is its two-sided p-value.

    Example:
        >>> directional_holm([0.03]), directional_holm([0.01, None, 0.02])
        ([0.03], [0.03, None, 0.05])
    """
    n_pairs = len(p_values)
    smaller_one_sided: list[float | None] = []
    for p_value in p_values:
        if p_value is None:
            smaller_one_sided.append(None)
        else:
            smaller_one_sided.append(p_value / 2.0)
    larger_one_sided = [1.0] * n_pairs
    adjusted = holm([*smaller_one_sided, *larger_one_sided])
    return adjusted[:n_pairs]
