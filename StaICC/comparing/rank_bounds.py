"""Bounds of p-values, which decide most pairs of many runs.

**Why.** Of k runs, k (k - 1) / 2 pairs are tested. The p-value of a pair
(:func:`~StaICC.metrics.paired_tests.upper_p_value`) is an integral; the bound is a formula with two sums over the rows.

**The p-value.** The *step* t of a test row is what it contributes to the difference of two runs, which is the sum of
the steps. The one-sided p-value of a positive difference is the probability that a sum with random weights E is not
positive (Gaffke 2005). The weights are independent, with the standard exponential distribution. The *pseudo-row* is a
row with the lowest possible step, -a, that is added to the sample::

    p = P( sum(E * t) - E0 * a  <=  0 )

The test uses a weighted mean of this probability and of a smaller one, with the most favourable pseudo-row. So a bound
of p is a bound of the p-value of the test, too.

**The bound.** Chernoff's inequality, P(X <= 0) <= mean of exp(-s X) for each s > 0, is applied to the sum. The mean of
exp(-s t E) is 1 / (1 + s t). With w, the largest absolute value of a step, and each s below 1 / w and 1 / a::

    p <= exp(-sum(log(1 + s t))) / (1 - s a)

Of all steps of at least -w with the same number, sum and sum of squares, those with two values, one of them -w, have
the smallest sum of logarithms (Karlin and Studden 1966, "Tchebycheff Systems"), which makes the bound largest. So the
bound with these two values holds for all of them, and needs only the sums (:func:`_chernoff_bound`).

**Decisions.** The correction is Holm's method over both directions of all pairs
(:func:`~StaICC.metrics.paired_tests.directional_holm`). A pair whose bound is below the smallest level of the
correction, .05 over the number of hypotheses, is different. A pair whose difference is far below what the largest level
needs is not shown to differ: its p-value counts as 1, which cannot raise the error rate, because a larger p-value never
makes Holm's method reject more. The other pairs are tested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from statistics import NormalDist

from StaICC.comparing.alignment import AlignedRuns
from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL, PairedDifference

_SAFE_SHARE = 0.9
"""A pair counts as not different without a test if its normal score (its difference, divided by its standard error) is
below this share of the score that a normal test would need. The test of a pair is not a normal test, so that pairs near
the limit are tested. The number is a choice: a smaller one costs time, a larger one power, and none adds errors."""


@dataclass(frozen=True, slots=True)
class PValueBounds:
    """What decides most pairs of many runs without their p-value: :meth:`of_pair` returns an upper bound of it.

    The bounds replace the p-values in the correction (:func:`~StaICC.metrics.paired_tests.directional_holm`). A bound
    leads to the same decision as the p-value, or to "not different". So it cannot raise the error rate.
    """

    higher_is_better: bool
    lowest: Mapping[str, PairedDifference]
    """The mean of each run as a sum over test rows, if missing queries make it as low as possible."""
    highest: Mapping[str, PairedDifference]
    """The mean of each run as a sum over test rows, if missing queries make it as high as possible."""
    rows: int
    """Number of test rows."""
    largest_step: float
    """The largest absolute value of the difference of any two runs on one row."""
    smallest_level: float
    """The one-sided level with which the correction compares the smallest p-value. A smaller p-value is significant."""
    largest_level: float
    """The one-sided level that no level of the correction exceeds. A larger p-value is not significant."""
    least_normal_score: float
    """A pair counts as not different if its difference, divided by its standard error, is at most this number."""
    has_chernoff: bool
    """Whether Chernoff's inequality holds for the metric: contributions of rows are bounded, independent of the other
    run, and without bias."""

    def of_pair(self, first: str, second: str) -> float | None:
        """Return an upper bound of the two-sided p-value of two runs, which the correction may use in its place.

        Args:
            first: The better run, or one of two equal runs.
            second: The other run.

        Returns:
            The bound, twice a one-sided one. It is 1 if the runs count as not different. ``None`` if there is no bound,
            so that the pair must be tested.
        """
        larger_run, smaller_run = first, second
        if not self.higher_is_better:
            larger_run, smaller_run = second, first
        # The difference "larger minus smaller" is tested where missing queries make it smallest.
        # The step of a row is its contribution to the larger run minus that to the smaller run.
        larger = self.lowest[larger_run]
        smaller = self.highest[smaller_run]
        difference = larger.first - smaller.first  # the sum of the steps of all rows
        sum_of_squares = math.dist(larger.steps, smaller.steps) ** 2
        if self._is_far_from_significant(difference, sum_of_squares):
            return 1.0
        if not self.has_chernoff:
            return None

        lowest_step = larger.lowest_step - smaller.highest_step
        one_sided = _chernoff_bound(
            difference, sum_of_squares, self.largest_step, pseudo_row=-lowest_step, rows=self.rows
        )
        if one_sided > self.smallest_level:  # the bound is too large for a decision, so the p-value is computed
            one_sided = paired_tests.upper_p_value(_difference_of_means(larger, smaller))
        if one_sided > self.largest_level:
            return 1.0
        return 2.0 * one_sided

    def _is_far_from_significant(self, difference: float, sum_of_squares: float) -> bool:
        """Return whether the normal score of a pair is at most :attr:`least_normal_score`.

        The normal score is the difference divided by its standard error. With the steps t of n independent rows, and
        their sum d, the difference, the squared standard error of d is estimated by::

            sum((t - d / n) ** 2)  =  sum(t ** 2) - d ** 2 / n

        Args:
            difference: The difference of the two runs, which is the sum of the steps of all rows.
            sum_of_squares: The sum of the squares of these steps.
        """
        if difference <= 0.0:
            return True
        squared_error = sum_of_squares - difference * difference / self.rows
        # Squares are compared, without a division: the error is 0 if all steps are equal.
        return difference * difference <= self.least_normal_score**2 * squared_error


def _difference_of_means(larger: PairedDifference, smaller: PairedDifference) -> PairedDifference:
    """Return the difference of the means of two runs as a sum over test rows, which the paired test reads.

    The step of a row is its contribution to the first mean minus that to the second one. It is lowest if the first
    contribution is lowest and the second one highest.

    Args:
        larger: The mean of the first run, as its difference from 0.
        smaller: The mean of the second run, as its difference from 0.
    """
    return PairedDifference(
        first=larger.first,
        second=smaller.first,
        steps=list(map(sub, larger.steps, smaller.steps)),
        lowest_step=larger.lowest_step - smaller.highest_step,
        highest_step=larger.highest_step - smaller.lowest_step,
        strata=larger.strata,
    )


def p_value_bounds(aligned: AlignedRuns) -> PValueBounds | None:
    """Return what gives an upper bound of the p-value of each pair of runs (:class:`PValueBounds`).

    Args:
        aligned: The runs.

    Returns:
        The bounds. ``None`` if there are none, so that all pairs are tested: if a run cannot be compared; if the runs
        have different test rows or data sets, so that their test rows do not belong together one by one; or if rows are
        in clusters.
    """
    if not aligned.have_same_rows:
        return None
    lowest: dict[str, PairedDifference] = {}
    highest: dict[str, PairedDifference] = {}
    for run, mean in aligned.means.items():
        if mean.bounds is None:
            return None
        if mean.bounds[0].cluster_shares is not None:
            return None  # the test over clusters is another one, without such bounds
        # Missing queries have no score. They make the mean as low as possible in one bound, as high in the other.
        lowest[run], highest[run] = mean.bounds

    # Holm's method compares the smallest of m p-values with level / m, the next one with level / (m - 1), and so on.
    # Each of the m / 2 pairs has two p-values, one for each direction, and one of them counts as 1. So m / 2 of them
    # are never significant, and the largest level with which another one is compared is level / (m / 2 + 1). It is at
    # most 2 * level / m.
    hypotheses = len(lowest) * (len(lowest) - 1)  # m
    smallest_level = SIGNIFICANCE_LEVEL / hypotheses
    largest_level = 2.0 * SIGNIFICANCE_LEVEL / hypotheses
    return PValueBounds(
        higher_is_better=aligned.higher_is_better,
        lowest=lowest,
        highest=highest,
        rows=len(lowest[aligned.order[0]].steps),
        largest_step=_largest_difference_on_a_row([*lowest.values(), *highest.values()]),
        smallest_level=smallest_level,
        largest_level=largest_level,
        # A normal test is significant at the largest level if its score is above this quantile.
        least_normal_score=_SAFE_SHARE * NormalDist().inv_cdf(1.0 - largest_level),
        has_chernoff=_has_chernoff(aligned),
    )


def _largest_difference_on_a_row(means: Sequence[PairedDifference]) -> float:
    """Return the largest absolute value of the difference of any two means on one test row.

    Args:
        means: Means as sums over the same test rows.
    """
    largest_difference = 0.0
    for contributions_of_row in zip(*[mean.steps for mean in means], strict=True):
        largest_difference = max(largest_difference, max(contributions_of_row) - min(contributions_of_row))
    return largest_difference


def _has_chernoff(aligned: AlignedRuns) -> bool:
    """Return whether :func:`_chernoff_bound` is a bound of the p-value of each pair of runs.

    The formula needs steps that are bounded and that are the same in both directions of the test. So these metrics have
    no bound: metrics whose contributions to one run depend on the other run, are unbounded or are corrected for a bias,
    and metrics that have other steps for each direction.
    """
    for scored in aligned.scored.values():
        for score in scored.scores.values():
            if not score.statistic.independent:
                return False
            # The score of a run is saved as its difference from 0: with missing queries at their worst, and at best.
            for difference in score.from_zero.bounds or ():
                has_bias = difference.upward_bias != 0.0 or difference.downward_bias != 0.0
                has_steps_of_one_direction = difference.lower_steps is not None or difference.upper_steps is not None
                if difference.unbounded or has_bias or has_steps_of_one_direction:
                    return False
    return True


def _chernoff_bound(
    difference: float, sum_of_squares: float, largest_step: float, pseudo_row: float, rows: int
) -> float:
    """Return Chernoff's upper bound of the one-sided p-value of a positive difference.

    The p-value is the probability that a sum of steps, each with a random weight, is not positive. A step is what a
    test row contributes to the difference. A pseudo-row, with the lowest possible step, is added to the sample.

    The steps t of the rows are not known, only their sum and the sum of their squares. They are replaced by steps with
    two values, ``-largest_step`` and ``upper_step``, which have the same two sums and the largest bound. With
    ``mean_log``, the mean of ``log(1 + s * t)`` over the rows, the logarithm of the bound is::

        -rows * mean_log - log(1 - s * pseudo_row)

    It holds for each s between 0 and the smaller one of ``1 / largest_step`` and ``1 / pseudo_row``. Of the bounds for
    19 such values of s, the smallest one is returned, because each of them is valid.

    Args:
        difference: The difference, which is the sum of the steps of the rows.
        sum_of_squares: Sum of the squares of the steps.
        largest_step: The largest possible absolute value of a step.
        pseudo_row: Absolute value of the step of the pseudo-row.
        rows: Number of test rows.
    """
    mean = difference / rows
    variance = max(0.0, sum_of_squares / rows - mean * mean)
    # With the share q of rows that have -w, and 1 - q that have u, mean and variance are -q w + (1 - q) u and
    # q (1 - q) (u + w)^2. Solved for u and q:
    upper_step = mean + variance / (mean + largest_step)
    share_of_lower = variance / (variance + (mean + largest_step) ** 2)
    smallest_log_bound = 0.0  # a p-value is 1 at most
    for twentieth in range(1, 20):
        s = 0.05 * twentieth / max(largest_step, pseudo_row)
        mean_log = share_of_lower * math.log1p(-s * largest_step)
        mean_log += (1.0 - share_of_lower) * math.log1p(s * upper_step)
        log_bound = -rows * mean_log - math.log1p(-s * pseudo_row)
        smallest_log_bound = min(smallest_log_bound, log_bound)
    return math.exp(smallest_log_bound)
