"""How far a number could move with other test rows: Wilson and bootstrap intervals.

A test row is asked several times (two repeats by default), and its answers are alike. What varies from sample
to sample is therefore the row, so a resample draws whole test rows with all their queries (cluster
bootstrap). A plain binomial interval over the queries is too narrow: see :func:`design_effect`.

Every resample is scored from sums: each metric of this library is a function of sums over rows (counts of
right, predicted and true labels, likelihoods, and by how much each confidence bin is over- or
underconfident), so nothing is scored again.

Methods, named in :attr:`Interval.method`:

- *Wilson score*: for shares, also near 0 and 1, where the bootstrap collapses to a point.
- *percentile*: the quantiles of the resamples (linear between order statistics).
- *mirrored percentile*: for what has an end of its range nearby, such as a calibration error, a divergence near 0 or an
  entropy near its maximum. Its bias in the sample repeats itself in every resample, so plain percentiles lie beside the
  truth (for a calibrated model they *never* cover it). The interval reaches as far below the estimate as above it. For
  the calibration error the lower end is 0 if a bootstrap test (the bin sums of the resamples, centred at those of the
  sample) does not refute perfect calibration.

`tests/performance/bootstrap.py` measures how often each interval covers the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeVar

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.classification_sums import ClassificationSums
from StaICC.metrics.resampling import (
    BOOTSTRAP_VERSION,
    PackedRows,
    check_draws,
    draw_resamples,
    generator,
    group_by_row,
)

__all__ = [
    "Interval",
    "bootstrap_metrics",
    "bootstrap_replicates",
    "bootstrap_statistic",
    "bootstrap_sums",
    "design_effect",
    "mirrored_interval",
    "percentile_interval",
    "quantile",
    "wilson",
]

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval.

    Attributes:
        low: Lower end.
        high: Upper end.
        level: Nominal share of samples whose interval covers the truth.
        method: How it was made.
        resamples: Number of bootstrap resamples; None if there were none.
        seed: Text from which the draws come; None if nothing was drawn.
    """

    low: float
    high: float
    level: float
    method: str
    resamples: int | None = None
    seed: str | None = None


def _check_level(level: float, times: int | None = None) -> None:
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"level must lie between 0 and 1 (such as 0.95), not {level!r}")
    if times is not None:
        check_draws("resamples", times)
    if times is not None and times * (1.0 - level) < 2.0 - 1e-9:
        least = math.ceil(2.0 / (1.0 - level) - 1e-9)
        raise ArgumentError(f"{times} resamples are too few for a level of {level}; take {least} or more")


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of sorted numbers, linear between them (definition 7 of Hyndman and Fan 1996).

    Args:
        ordered: At least one number, in rising order.
        share: From 0 (the smallest) to 1 (the largest).

    Returns:
        The quantile.

    Example:
        >>> quantile([1.0, 2.0, 4.0], 0.75)
        3.0
    """
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def wilson(successes: int, n: int, level: float = 0.95, *, design_effect: float = 1.0) -> Interval:
    """Wilson score interval of a share, such as an accuracy.

    Args:
        successes: Number of right answers.
        n: Number of answers.
        level: Nominal coverage.
        design_effect: By how much the variance exceeds that of n independent answers, see
            :func:`design_effect`; n is divided by it. Leave it at 1 only if no two answers belong to the same
            test row.

    Returns:
        The interval, within [0, 1].

    Raises:
        ArgumentError: The counts are no counts, the level is not between 0 and 1, or the design effect is
            below 1.

    Source:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference"; the division of n
        by the design effect is Rao and Scott 1992, "A simple method for the analysis of clustered binary
        data".

    Example:
        >>> interval = wilson(594, 1024)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.5496, 0.61)
    """
    _check_level(level)
    if any(isinstance(count, bool) or not isinstance(count, int) for count in (successes, n)):
        raise ArgumentError(f"an interval of a share needs two whole numbers, not {successes!r} of {n!r}")
    if not 0 <= successes <= n or n < 1:
        raise ArgumentError(f"{successes} successes of {n} are no share; expected 0 <= successes <= n and n >= 1")
    if not 1.0 <= design_effect < math.inf:
        raise ArgumentError(f"a design effect is at least 1, not {design_effect!r}")
    share, size = successes / n, n / design_effect
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    scale = 1.0 + z * z / size
    centre = (share + z * z / (2.0 * size)) / scale
    reach = z / scale * math.sqrt(share * (1.0 - share) / size + z * z / (4.0 * size * size))
    return Interval(
        low=0.0 if successes == 0 else max(0.0, centre - reach),
        high=1.0 if successes == n else min(1.0, centre + reach),
        level=level,
        method="Wilson score" if design_effect == 1.0 else f"Wilson score, design effect {design_effect:.4g}",
    )


def design_effect(correct: Sequence[bool], rows: Sequence[int]) -> float:
    """By how much repeats of the same test rows widen the variance of an accuracy.

    1 means that the queries tell as much as so many independent ones; 2, with two repeats, that the second
    repeat tells nothing new. For a Wilson interval of an accuracy over repeats: ``wilson(right, n,
    design_effect=design_effect(...))``.

    Args:
        correct: Whether each query was answered right.
        rows: Test row of each query.

    Returns:
        The ratio of the variance between rows to the binomial variance, at least 1. If all answers are right
        or all wrong the ratio is undefined, and the largest possible one is returned, as if repeats were
        copies.

    Raises:
        ArgumentError: The two sequences differ in length, or are empty.

    Source:
        Rao and Scott 1992, "A simple method for the analysis of clustered binary data", Biometrics 48.

    Example:
        >>> answers = [True, True, False, False, True, False, True, True]
        >>> round(design_effect(answers, [0, 0, 1, 1, 2, 2, 3, 3]), 2)
        1.96
    """
    groups = group_by_row(rows, len(correct))
    right = [sum(1 for position in group if correct[position]) for group in groups]
    n, hits = len(correct), sum(right)
    if len(groups) == n:
        return 1.0
    if hits in (0, n) or len(groups) < 2:
        return sum(len(group) ** 2 for group in groups) / n
    share = hits / n
    spread = math.fsum((k - len(group) * share) ** 2 for k, group in zip(right, groups, strict=True))
    between = spread * len(groups) / (len(groups) - 1) / n**2
    return max(1.0, between / (share * (1.0 - share) / n))


def percentile_interval(replicates: Sequence[float], level: float, seed: str) -> Interval:
    """Make an interval from the values of a statistic on resamples.

    Args:
        replicates: The values, in any order.
        level: Nominal coverage.
        seed: Text from which the draws came.

    Returns:
        The interval between the two quantiles that leave equal tails.

    Raises:
        ArgumentError: The level does not fit, or there are too few values for it.

    Example:
        >>> interval = percentile_interval(range(101), 0.5, "demo")
        >>> interval.low, interval.high
        (25.0, 75.0)
    """
    _check_level(level, len(replicates))
    ordered = sorted(replicates)
    tail = (1.0 - level) / 2.0
    return Interval(
        low=quantile(ordered, tail),
        high=quantile(ordered, 1.0 - tail),
        level=level,
        method=f"percentile bootstrap of test rows ({BOOTSTRAP_VERSION})",
        resamples=len(ordered),
        seed=seed,
    )


def mirrored_interval(
    percentile: Interval, estimate: float, least: float = -math.inf, most: float = math.inf
) -> Interval:
    """Widen a percentile interval to the hull of itself and its mirror image at the estimate.

    For statistics with an end of their range nearby, such as an entropy near its maximum or a divergence near 0: they
    are biased in every sample, and again in every resample, so that the percentiles alone lie beside the truth.

    Args:
        percentile: The percentile interval.
        estimate: The statistic on the sample itself.
        least: Smallest value that the statistic can have.
        most: Largest value that it can have.

    Returns:
        The interval: as far below the estimate as above it, cut off at the ends of the range.

    Example:
        >>> interval = mirrored_interval(Interval(0.125, 0.5, 0.95, "percentile"), 0.25, least=0.125)
        >>> interval.low, interval.high
        (0.125, 0.5)
    """
    reach = max(estimate - percentile.low, percentile.high - estimate)
    return replace(
        percentile,
        low=max(least, estimate - reach),
        high=min(most, estimate + reach),
        method=f"mirrored {percentile.method}",
    )


def _check_clusters(clusters: int) -> None:
    if clusters < 2:
        raise UndefinedMetricError(f"an interval needs at least two test rows to resample, not {clusters}")


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise UndefinedMetricError(f"{name} is {value!r} on a resample, so it has no bootstrap interval")
    return value


def bootstrap_replicates(
    sums_by_cluster: Sequence[Sequence[float]],
    statistics: Callable[[Sequence[float]], Mapping[str, float]],
    *,
    seed: str,
    resamples: int = 1000,
) -> dict[str, list[float]]:
    """Values on resamples of test rows, for statistics that depend on the rows through sums alone.

    Args:
        sums_by_cluster: For each test row the same columns of finite numbers (counts, likelihoods, ...).
        statistics: Function of the column sums of a resample; gives the value of each statistic by name.
            Columns of whole numbers arrive as whole numbers.
        seed: Text from which the draws come.
        resamples: Number of resamples.

    Returns:
        The values of each statistic, one for each resample. All statistics see the same resamples.

    Raises:
        ArgumentError: The rows are no rows of equal length and finite numbers.
        UndefinedMetricError: There are fewer than two rows, or a statistic is not finite on a resample.

    Example:
        >>> bootstrap_replicates([[1], [3]], lambda sums: {"total": sums[0]}, seed="demo", resamples=3)
        {'total': [6, 4, 4]}
    """
    check_draws("resamples", resamples)
    _check_clusters(len(sums_by_cluster))
    packed = PackedRows(sums_by_cluster)
    replicates: dict[str, list[float]] = {}
    for drawn in draw_resamples(packed.items, resamples, generator(seed, "bootstrap")):
        for name, value in statistics(packed.unpack(sum(drawn))).items():
            replicates.setdefault(name, []).append(_finite(name, value))
    return replicates


def bootstrap_statistic(
    values_by_cluster: Sequence[Value],
    statistic: Callable[[Sequence[Value]], float],
    *,
    seed: str,
    resamples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of any statistic, by resampling test rows.

    For statistics of sums over rows :func:`bootstrap_sums` is many times faster.

    Args:
        values_by_cluster: What the statistic needs of each test row (all its repeats and conditions
            together).
        statistic: Function of such a sequence, of as many rows.
        seed: Text from which the draws come.
        resamples: Number of resamples.
        level: Nominal coverage.

    Returns:
        The interval.

    Raises:
        ArgumentError: The level, or the number of resamples for it, does not fit.
        UndefinedMetricError: There are fewer than two rows, or the statistic is not finite on a resample.

    Example:
        >>> from statistics import fmean
        >>> bootstrap_statistic([0.0, 1.0, 1.0, 0.5, 1.0], fmean, seed="demo", resamples=200).high
        1.0
    """
    _check_level(level, resamples)
    _check_clusters(len(values_by_cluster))
    draw = generator(seed, "bootstrap")
    replicates = [
        _finite("the statistic", statistic(drawn)) for drawn in draw_resamples(values_by_cluster, resamples, draw)
    ]
    return percentile_interval(replicates, level, seed)


def bootstrap_sums(
    sums_by_cluster: Sequence[Sequence[float]],
    statistics: Callable[[Sequence[float]], Mapping[str, float]],
    *,
    seed: str,
    resamples: int = 1000,
    level: float = 0.95,
    mirrored: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, Interval]:
    """Percentile intervals of statistics that depend on the rows through sums alone.

    Args:
        sums_by_cluster: For each test row the same columns of finite numbers (counts, likelihoods, ...).
        statistics: Function of the column sums of a resample; gives the value of each statistic by name.
            Columns of whole numbers arrive as whole numbers.
        seed: Text from which the draws come.
        resamples: Number of resamples.
        level: Nominal coverage.
        mirrored: Statistics with an end of their range nearby (entropy of a mean, divergence), by name, with their
            smallest and largest possible values; they get :func:`mirrored_interval`.

    Returns:
        The interval of each statistic. All come from the same draws.

    Raises:
        ArgumentError: The level, the number of resamples for it, or the rows do not fit.
        UndefinedMetricError: There are fewer than two rows, or a statistic is not finite on a resample.

    Example:
        >>> share = lambda sums: {"share": sums[0] / sums[1]}
        >>> bootstrap_sums([[1, 2], [2, 2], [0, 2], [2, 2]], share, seed="demo", resamples=200)["share"].high
        1.0
    """
    _check_level(level, resamples)
    replicates = bootstrap_replicates(sums_by_cluster, statistics, seed=seed, resamples=resamples)
    intervals = {name: percentile_interval(values, level, seed) for name, values in replicates.items()}
    if mirrored:
        packed = PackedRows(sums_by_cluster)
        estimates = statistics(packed.unpack(sum(packed.items)))
        for name, (least, most) in mirrored.items():
            intervals[name] = mirrored_interval(intervals[name], estimates[name], least, most)
    return intervals


def bootstrap_metrics(
    ground_truth: Sequence[int],
    probabilities: Sequence[Sequence[float]],
    rows: Sequence[int],
    n_labels: int,
    resamples: int = 1000,
    level: float = 0.95,
    *,
    seed: str,
    likelihood: bool = True,
) -> dict[str, Interval]:
    """Intervals of the classification metrics, by resampling test rows.

    Args:
        ground_truth: One label index per query.
        probabilities: One distribution over the labels per query (any scores, if `likelihood` is False).
        rows: Test row of each query; the queries of a row stay together.
        n_labels: Size of the label space.
        resamples: Number of resamples.
        level: Nominal coverage.
        seed: Text from which the draws come.
        likelihood: Whether the rows are probabilities. Without it there are only accuracy and macro F1.

    Returns:
        The interval of each metric, by the metric's name: percentile intervals, and a mirrored one for the
        calibration error (see the top of this module).

    Raises:
        ArgumentError: The arguments do not fit each other, or there are too few resamples for the level.
        OutputError: A row of the predictions cannot be read as numbers, or is no distribution where it must
            be.
        UndefinedMetricError: There are fewer than two test rows.

    Example:
        >>> truth, rows = [0, 1, 1, 0], [0, 1, 2, 3]
        >>> scores = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
        >>> interval = bootstrap_metrics(truth, scores, rows, 2, seed="demo")["accuracy"]
        >>> interval.low, interval.high
        (0.25, 1.0)
    """
    _check_level(level, resamples)
    sums = ClassificationSums(n_labels, likelihood)
    columns = sums.of_rows(ground_truth, probabilities, rows)
    total = [math.fsum(column) for column in zip(*columns, strict=True)]
    queries = len(ground_truth)

    def statistics(drawn: Sequence[float]) -> dict[str, float]:
        values = sums.metrics(drawn)
        if likelihood:  # how far the bins stray from the sample's own
            share = sum(drawn[2 * n_labels : 3 * n_labels]) / queries
            strays = [abs(bin_ - share * own) for bin_, own in zip(sums.excess(drawn), own_excess, strict=True)]
            values["stray"] = math.fsum(strays) / (share * queries)
        return values

    own_excess = sums.excess(total)
    replicates = bootstrap_replicates(columns, statistics, seed=seed, resamples=resamples)
    strays = replicates.pop("stray", [])
    intervals = {name: percentile_interval(values, level, seed) for name, values in replicates.items()}
    if likelihood:
        name = "expected_calibration_error_1"
        error = sums.metrics(total)[name]
        interval = mirrored_interval(intervals[name], error, least=0.0, most=1.0)
        refuted = error > quantile(sorted(strays), (1.0 + level) / 2.0)
        intervals[name] = interval if refuted else replace(interval, low=0.0)
    return intervals
