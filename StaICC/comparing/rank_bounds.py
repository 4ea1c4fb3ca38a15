"""Bounds of p-values, which decide most pairs of many runs.

The p-value is a tail of a sum of exponential variables, each times the step t of a row. By Chernoff's inequality, for
each s > 0 with s w < 1 and s a < 1 (w: largest step, a: size of the pseudo-row)::

    p <= exp(-sum(log(1 + s t))) / (1 - s a)

Of all steps with the same number, sum and sum of squares, those with two values, one of them -w, have the smallest sum
of logarithms (Karlin and Studden 1966, "Tchebycheff Systems"), so the bound needs only these sums. A pair whose bound
is below the level over the number of hypotheses is different. A pair whose normal score is far below what the last step
of the correction needs is not, whatever its p-value: it counts as 1, which cannot raise the error rate. The others are
tested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import sub
from statistics import NormalDist

from StaICC.comparing.alignment import AlignedRuns
from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL, PairedDifference

_SAFE_SHARE = 0.9
"""A pair is not different if its normal score is below this share of what the last step of the correction needs."""


@dataclass(frozen=True, slots=True)
class PValueBounds:
    """Upper bounds of two-sided p-values, which replace the p-values in the correction of many pairs.

    A bound leads to the same decision as the p-value, or to "not different". So it cannot raise the error rate.
    """

    higher_is_better: bool
    lowest: Mapping[str, PairedDifference]
    """The mean of each run as a sum over test rows, if missing queries make it as low as possible."""
    highest: Mapping[str, PairedDifference]
    """The mean of each run as a sum over test rows, if missing queries make it as high as possible."""
    rows: int
    """Number of test rows."""
    largest_step: float
    """The largest difference of two runs on one row."""
    first_level: float
    """Level of the first step of the correction, the smallest one."""
    last_level: float
    """Level of its last step, the largest one."""
    least_score: float
    """The normal score below which a pair counts as not different."""
    has_chernoff: bool
    """Whether Chernoff's inequality holds for the metric: contributions of rows are bounded, independent of the other
    run, and without bias."""

    def of_pair(self, first: str, second: str) -> float | None:
        """Return an upper bound of the two-sided p-value of two runs.

        Args:
            first: The better run, or one of two equal runs.
            second: The other run.

        Returns:
            The bound, 1 if the runs count as not different; ``None`` if there is no bound, so that the pair must be
            tested.
        """
        larger_run, smaller_run = first, second
        if not self.higher_is_better:
            larger_run, smaller_run = second, first
        # The difference "larger minus smaller" is tested where missing queries make it smallest.
        larger = self.lowest[larger_run]
        smaller = self.highest[smaller_run]
        difference = larger.first - smaller.first  # the sum of the steps of all rows
        sum_of_squares = math.dist(larger.steps, smaller.steps) ** 2
        if self._is_far_from_significant(difference, sum_of_squares):
            return 1.0
        if not self.has_chernoff:
            return None

        lowest_step = larger.lowest_step - smaller.highest_step
        p_value = _chernoff_bound(
            difference, sum_of_squares, self.largest_step, pseudo_row=-lowest_step, rows=self.rows
        )
        if p_value > self.first_level:  # the bound decides nothing, so the p-value is computed
            p_value = paired_tests.upper_p_value(_difference_of_means(larger, smaller))
        if p_value > self.last_level:
            return 1.0
        return 2.0 * p_value

    def _is_far_from_significant(self, difference: float, sum_of_squares: float) -> bool:
        """Return whether the normal score of a pair is at most :attr:`least_score`.

        The normal score is the difference by its standard deviation.

        Args:
            difference: The difference of the two runs, which is the sum of the steps of all rows.
            sum_of_squares: The sum of the squares of these steps.
        """
        if difference <= 0.0:
            return True
        variance = sum_of_squares - difference * difference / self.rows
        return difference * difference <= self.least_score**2 * variance


def _difference_of_means(larger: PairedDifference, smaller: PairedDifference) -> PairedDifference:
    """Return the difference of the means of two runs as a sum over test rows: the step of a row is their difference.

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
    """Return the upper bounds of the p-values of all pairs of runs.

    Returns:
        The bounds; ``None`` if a run cannot be compared, if the runs have different test rows or data sets, so that
        their test rows do not belong together one by one, or if rows are in clusters: then all pairs are tested.
    """
    if not aligned.have_same_rows:
        return None
    lowest: dict[str, PairedDifference] = {}
    highest: dict[str, PairedDifference] = {}
    for run, mean in aligned.means.items():
        if mean.bounds is None:
            return None
        if mean.bounds[0].cluster_shares is not None:
            return None  # the test over clusters has no such bounds
        lowest[run], highest[run] = mean.bounds

    rows = len(lowest[aligned.order[0]].steps)
    largest_step = 0.0
    steps_of_means = [mean.steps for mean in (*lowest.values(), *highest.values())]
    for steps_of_row in zip(*steps_of_means, strict=True):
        largest_step = max(largest_step, max(steps_of_row) - min(steps_of_row))
    hypotheses = len(lowest) * (len(lowest) - 1)  # both directions of all pairs
    last_level = 2.0 * SIGNIFICANCE_LEVEL / hypotheses
    return PValueBounds(
        higher_is_better=aligned.higher_is_better,
        lowest=lowest,
        highest=highest,
        rows=rows,
        largest_step=largest_step,
        first_level=SIGNIFICANCE_LEVEL / hypotheses,
        last_level=last_level,
        least_score=_SAFE_SHARE * NormalDist().inv_cdf(1.0 - last_level),
        has_chernoff=_has_chernoff(aligned),
    )


def _has_chernoff(aligned: AlignedRuns) -> bool:
    """Return whether Chernoff's inequality bounds the p-values of all pairs of runs.

    The contributions of the test rows must be bounded, without bias, and independent of the run that is compared.
    """
    for scored in aligned.scored.values():
        for score in scored.scores.values():
            if not score.statistic.independent:
                return False
            for difference in score.from_zero.bounds or ():
                has_bias = difference.upward_bias != 0.0 or difference.downward_bias != 0.0
                has_steps_of_one_direction = difference.lower_steps is not None or difference.upper_steps is not None
                if difference.unbounded or has_bias or has_steps_of_one_direction:
                    return False
    return True


def _chernoff_bound(
    difference: float, sum_of_squares: float, largest_step: float, pseudo_row: float, rows: int
) -> float:
    """Return Chernoff's upper bound of the one-sided p-value of a positive difference (see the head of this module).

    The steps t of all rows are replaced by steps with two values, which have the same sum and the same sum of squares.
    With the mean over rows of ``log(1 + s t)``, the logarithm of the bound is::

        -rows * mean_log - log(1 - s * pseudo_row)

    It holds for each s between 0 and the smaller one of ``1 / largest_step`` and ``1 / pseudo_row``. Of the bounds for
    19 such values of s, the smallest one is returned.

    Args:
        difference: The difference, which is the sum of the steps of the rows.
        sum_of_squares: Sum of the squares of the steps.
        largest_step: The largest possible absolute value of a step.
        pseudo_row: Absolute value of the step of the pseudo-row.
        rows: Number of test rows.
    """
    mean = difference / rows
    variance = max(0.0, sum_of_squares / rows - mean * mean)
    # The two values with this mean and variance, one of which is -largest_step, and the share of rows with that one.
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
