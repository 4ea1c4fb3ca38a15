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
from collections.abc import Callable
from operator import sub
from statistics import NormalDist

from StaICC.comparing.alignment import AlignedRuns
from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL, PairedDifference


def p_value_bounds(aligned: AlignedRuns) -> Callable[[str, str], float | None]:
    """Return upper bounds of p-values that are as good as the p-values for the correction of many pairs.

    Returns:
        A function of two runs, the second of which is not better. It returns a bound of the two-sided p-value (see the
        module); ``None`` if there is none, and the pair must be tested.
    """
    bounds = {run: mean.bounds for run, mean in aligned.means.items()}
    lowest = {run: of_run[0] for run, of_run in bounds.items() if of_run is not None}
    highest = {run: of_run[1] for run, of_run in bounds.items() if of_run is not None}
    if len(lowest) < len(bounds):
        return lambda first, second: None
    columns = [*zip(*(mean.steps for mean in (*lowest.values(), *highest.values())), strict=True)]
    width, rows = max(max(column) - min(column) for column in columns), len(columns)
    hypotheses = len(bounds) * (len(bounds) - 1)
    last_step = 2.0 * SIGNIFICANCE_LEVEL / hypotheses
    needed = (0.9 * NormalDist().inv_cdf(1.0 - last_step)) ** 2
    simple = all(
        paired.statistic.independent and not part.unbounded and not part.raised and not part.lowered
        for paired in aligned.datasets.values()
        for own in paired.alone.values()
        for part in own.bounds or ()
    )

    def bound(first: str, second: str) -> float | None:
        larger, smaller = (first, second) if aligned.higher_is_better else (second, first)
        above, below = lowest[larger], highest[smaller]
        size, square = above.first - below.first, math.dist(above.steps, below.steps) ** 2
        if size <= 0.0 or size * size <= needed * (square - size * size / rows):
            return 1.0
        if not simple:
            return None
        low, high = above.low - below.high, above.high - below.low
        if (p := _chernoff(size, square, width, -low, rows)) > SIGNIFICANCE_LEVEL / hypotheses:
            steps = list(map(sub, above.steps, below.steps))
            gap = PairedDifference(above.first, below.first, steps, low, high, strata=above.strata)
            p = paired_tests.upper_p_value(gap)
        return 1.0 if p > last_step else 2.0 * p

    return bound


def _chernoff(size: float, square: float, width: float, pseudo_row: float, rows: int) -> float:
    """Return an upper bound of the one-sided p-value of a positive difference of this size (see the module)."""
    mean = size / rows
    variance = max(0.0, square / rows - mean * mean)
    upper = mean + variance / (mean + width)
    share = variance / (variance + (mean + width) ** 2)
    best = 0.0
    for part in range(1, 20):
        s = 0.05 * part / max(width, pseudo_row)
        of_rows = share * math.log1p(-s * width) + (1.0 - share) * math.log1p(s * upper)
        best = min(best, -rows * of_rows - math.log1p(-s * pseudo_row))
    return math.exp(best)
