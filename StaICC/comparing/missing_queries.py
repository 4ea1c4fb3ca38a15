"""Missing queries: what can be said of two runs if queries have no score.

A query is missing if a run has no prediction for it: it failed, or its reply has no label and is excluded. Models often
fail on what they would have got wrong, so the other queries are no sample of all. Of a mean over queries, a missing
query is known to be within the range of the scores, also where a run predicted no query of a data set at all. So there
are two differences of two runs: the *lowest* (missing queries of the first run have the lowest score, those of the
second run the highest) and the *highest* (the other way round). A claim that the first run is better, or not worse, is
tested on the lowest difference, a claim about the second run on the highest one. Without missing queries both are the
same. Other metrics are untested if a query is missing.

Every comparison, ranking, and report decides by the functions of this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.argument_syntax import in_both_syntaxes
from StaICC.comparing.verdicts import Tested, TestOutcome, Untested
from StaICC.metrics import paired_tests
from StaICC.metrics.intervals import Interval
from StaICC.metrics.paired_tests import PairedDifference, mean_difference
from StaICC.metrics.statistics import Mean, MeanOfUnknownRange, Statistic, ValueOnly
from StaICC.results.score_names import column_head

MEANING = "missing queries count at their worst for each direction of a claim"


@dataclass(frozen=True)
class RunDifference:
    """The difference of two runs, or the value of one run as its difference from 0."""

    values: tuple[float | None, float | None]
    """The metric of each run on the queries that it predicted, as in its table; ``None`` if it predicted none of a data
    set (or of a condition), so that this value is undefined."""
    rows: int
    """Number of test rows, over all data sets."""
    missing: tuple[int, int]
    """Number of queries of each run without a score."""
    bounds: tuple[PairedDifference, PairedDifference] | None
    """The lowest and the highest difference that the scores of missing queries allow, as sums over test rows. Both are
    the same object without missing queries. ``None`` if they are not known, because queries are missing and the metric
    is no mean over queries."""
    reason: str | None = None
    """Why the bounds are not known, so that nothing can be tested; ``None`` if they are known."""

    @property
    def difference(self) -> float | None:
        """First minus second, each on the queries that its run predicted; ``None`` if one of both is undefined."""
        first, second = self.values
        if first is None or second is None:
            return None
        return first - second

    @property
    def ends(self) -> tuple[float, float] | None:
        """The values of :attr:`bounds`: the lowest and the highest difference; ``None`` if they are not known."""
        if self.bounds is None:
            return None
        lowest, highest = self.bounds
        return lowest.difference, highest.difference

    @property
    def negated(self) -> RunDifference:
        """The same difference in the other order: second minus first instead of first minus second.

        All differences change their sign. So the lowest one is minus the highest one of first minus second.
        """
        first_value, second_value = self.values
        first_missing, second_missing = self.missing
        bounds = None
        if self.bounds is not None:
            lowest, highest = self.bounds
            if lowest is highest:
                # No query is missing. The difference is negated once, to save time.
                negated = lowest.negated
                bounds = (negated, negated)
            else:
                bounds = (highest.negated, lowest.negated)
        return RunDifference(
            values=(second_value, first_value),
            rows=self.rows,
            missing=(second_missing, first_missing),
            bounds=bounds,
            reason=self.reason,
        )

    def at_worst(self, higher_is_better: bool) -> float | None:
        """Return the difference, or the value of a single run, with each missing query at its worst for the first run.

        This is the lowest difference if higher values are better, and the highest one if lower values are better.

        Args:
            higher_is_better: Whether higher values of the metric are better.

        Returns:
            The value; ``None`` if it is not known, because queries are missing and the metric is no mean over queries.
        """
        if self.ends is None:
            return None
        lowest, highest = self.ends
        if higher_is_better:
            return lowest
        return highest


def why_not_comparable(metric: str, statistic: Statistic, missing: int, queries: int) -> str | None:
    """Return the reason why a run cannot be tested by a metric; ``None`` if it can be tested.

    A mean over queries whose range is known can always be tested: a missing query changes it by a known amount at most.
    Other metrics have no such limit, and are untested if a query is missing. A mean whose range is not known is
    untested always, because the test needs the range. A score that has a value only is untested for its own reason.

    Args:
        metric: Key of the metric.
        statistic: The definition of the metric. A :class:`~StaICC.metrics.statistics.Mean` is a mean over queries.
        missing: Number of queries of the run without a score.
        queries: Number of all queries of the run.
    """
    name = column_head(metric)
    if isinstance(statistic, ValueOnly):
        return f"{name} has no test: {statistic.reason}"
    if isinstance(statistic, MeanOfUnknownRange):
        how = in_both_syntaxes("read_logs(..., value_range=(low, high))", "--range LOW HIGH")
        return f"the range of {name} is not known: state its lowest and highest value for a sample, with {how}"
    if missing == 0:
        return None
    if isinstance(statistic, Mean):
        _, highest = statistic.range(2)
        if math.isinf(highest):
            return f"{missing} of {queries} queries have no score, and {name} has no largest value to count them at"
        return None
    return f"{missing} of {queries} queries have no score, and {name} is no mean over queries"


def mean_of_differences(differences: Sequence[RunDifference]) -> RunDifference:
    """Return the difference of two runs in the mean over data sets.

    Rows and missing queries are added up over the data sets.

    Args:
        differences: The difference of the two runs on each data set.

    Returns:
        The difference. It has no bounds, and the reason of the first such data set, if a data set has no bounds.
    """
    values = (
        _mean_if_defined([difference.values[0] for difference in differences]),
        _mean_if_defined([difference.values[1] for difference in differences]),
    )
    missing = (
        sum(difference.missing[0] for difference in differences),
        sum(difference.missing[1] for difference in differences),
    )
    rows = sum(difference.rows for difference in differences)
    all_lowest: list[PairedDifference] = []
    all_highest: list[PairedDifference] = []
    for difference in differences:
        if difference.bounds is None:
            return RunDifference(values=values, rows=rows, missing=missing, bounds=None, reason=difference.reason)
        lowest_of_dataset, highest_of_dataset = difference.bounds
        all_lowest.append(lowest_of_dataset)
        all_highest.append(highest_of_dataset)
    lowest = mean_difference(all_lowest)
    if missing == (0, 0):
        return RunDifference(values=values, rows=rows, missing=missing, bounds=(lowest, lowest))
    return RunDifference(values=values, rows=rows, missing=missing, bounds=(lowest, mean_difference(all_highest)))


def _mean_if_defined(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values of data sets; ``None`` if one is undefined."""
    defined = [value for value in values if value is not None]
    if len(defined) < len(values):
        return None
    return math.fsum(defined) / len(defined)


def difference_outcome(difference: RunDifference) -> TestOutcome:
    """Return the two-sided test of the null hypothesis that two runs have the same true value.

    The p-value is twice the smaller one of two one-sided p-values: that the first run is better is tested on the lowest
    difference, that the second run is better on the highest one. The p-value is not corrected for other tests.
    """
    if difference.bounds is None:
        return Untested(str(difference.reason))
    lowest, highest = difference.bounds
    too_few = paired_tests.too_few_rows(lowest)
    if too_few is not None and paired_tests.too_few_rows(highest) is not None:
        return Untested(too_few)
    if difference.missing == (0, 0):
        p_value = paired_tests.p_value(lowest)
    else:
        # Each direction is tested where missing queries speak against it most.
        first_better = _one_sided_p_value(lowest)
        second_better = _one_sided_p_value(highest.negated)
        p_value = min(1.0, 2.0 * min(first_better, second_better))
    return Tested(p_value, corrected_p_value=p_value)


def _one_sided_p_value(difference: PairedDifference) -> float:
    """Return the p-value of the null hypothesis "the true difference is at most 0"; 1 if no test row differs."""
    if not any(difference.steps):
        return 1.0
    return paired_tests.upper_p_value(difference)


def outcome_above(difference: RunDifference, least: float) -> TestOutcome:
    """Return the one-sided test of the null hypothesis "the true difference is at most `least`".

    The lowest difference is tested: missing queries count at their worst for the first run. The p-value is not
    corrected for other tests, so the corrected p-value of the outcome is the same as the p-value.

    Args:
        difference: The observed difference, first minus second.
        least: The difference of the null hypothesis, such as minus the margin of a test of non-inferiority.
    """
    if difference.bounds is None:
        return Untested(str(difference.reason))
    lowest, _ = difference.bounds
    if lowest.unbounded:
        return Untested("one more row could change the metric without limit")
    too_few_clusters = paired_tests.too_few_clusters_of(lowest)
    if too_few_clusters is not None:
        return Untested(too_few_clusters)
    p_value = paired_tests.upper_p_value(lowest, least)
    return Tested(p_value, corrected_p_value=p_value)


def interval_of_difference(difference: RunDifference, level: float) -> Interval | None:
    """Return the confidence interval of a difference, valid for all possible scores of missing queries.

    The lowest and the highest difference have an interval each. The result has the lower end of the interval of the
    lowest difference, and the upper end of the interval of the highest difference.

    Args:
        difference: The observed difference.
        level: Nominal coverage of the interval.

    Returns:
        The interval; ``None`` if the difference has no bounds, or if one more row could change the metric without
        limit.
    """
    if difference.bounds is None:
        return None
    lowest, highest = difference.bounds
    of_lowest = paired_tests.difference_interval(lowest, level)
    if difference.missing == (0, 0) or of_lowest is None:
        return of_lowest
    of_highest = paired_tests.difference_interval(highest, level)
    if of_highest is None:
        return None
    return Interval(of_lowest.low, of_highest.high, level, f"{of_lowest.method}; {MEANING}")


def detectable_difference(difference: RunDifference) -> float | None:
    """Return the smallest true difference that the test finds with probability 0.8 at level 0.05.

    Let d(x) be :func:`~StaICC.metrics.paired_tests.detectable_difference` of a difference x. Without missing queries,
    d of the observed difference is returned. With missing queries, the larger one of two values is returned::

        if the first run is better:   d(lowest) + (observed - lowest)
        if the second run is better:  d(highest) + (highest - observed)

    The observed difference is that on the predicted queries. A claim that the first run is
    better is tested on the lowest difference, which is smaller than the observed one by ``observed - lowest``. So the
    true difference must be larger by the same amount. For the second run, the same is true of the highest difference.
    The larger value is valid for both, and it is not known which run is better.

    Returns:
        The difference, as a positive size; ``None`` if too few rows differ to state one, if the value of a run is
        undefined, or if no difference of the metric can be so large.
    """
    if difference.bounds is None:
        return None
    lowest, highest = difference.bounds
    if difference.missing == (0, 0):
        return paired_tests.detectable_difference(lowest)
    observed = difference.difference
    detectable_on_lowest = paired_tests.detectable_difference(lowest)
    detectable_on_highest = paired_tests.detectable_difference(highest)
    if detectable_on_lowest is None or detectable_on_highest is None or observed is None:
        return None
    if_first_is_better = detectable_on_lowest + (observed - lowest.difference)
    if_second_is_better = detectable_on_highest + (highest.difference - observed)
    detectable = max(if_first_is_better, if_second_is_better)
    if detectable > lowest.largest_size:
        return None
    return detectable
