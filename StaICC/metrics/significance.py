"""Is one run better than another on the same queries, and could this sample have shown it?

Two runs with the same signature answered the same prompts, so they are compared in pairs. The tests differ in
what they take as independent:

- :func:`mcnemar_exact` takes *queries* as independent. It is the standard test for two accuracies when every test row
  was asked once; where the repeats of a row go together its p-values are too small.
- :func:`paired_permutation` and :func:`paired_bootstrap` take *test rows* as independent and keep the queries
  of a row together, for any score of a query (right or wrong, likelihood of the true label).
- :func:`StaICC.metrics.metric_comparison.compare_metrics` does both for every classification metric.

All tests are two-sided. A p-value from random draws is ``(1 + as extreme) / (1 + draws)``: the observed split
is one of the possible ones, so a p-value of zero cannot come out (Phipson and Smyth 2010). Ties are exact,
for sums are whole numbers.

A difference that is not significant is not yet absent: :func:`minimum_detectable_difference` says what the
sample could have shown. Several data sets tested at once are corrected by :func:`holm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval, bootstrap_replicates, percentile_interval
from StaICC.metrics.poisson_binomial import binomial_probabilities
from StaICC.metrics.resampling import (
    BOOTSTRAP_VERSION,
    PackedRows,
    check_draws,
    draw_subsets,
    generator,
    group_by_row,
)

__all__ = [
    "RANDOM_PERMUTATION",
    "TIE",
    "McNemarTest",
    "PairedBootstrap",
    "PairedPermutation",
    "centred_bootstrap_test",
    "holm",
    "mcnemar_exact",
    "paired_bootstrap",
    "paired_permutation",
    "sign_flip_test",
]

_EXACT_STEPS = 4_000_000
"""Additions that an exact permutation distribution may take; beyond it signs are drawn."""

TIE = 1e-12
"""Differences between metrics that are no further apart are called equal."""

_SUMS_PER_TIE = 10**12
"""Sums that are no further apart than this part of the largest possible one are called equal (0.1 + 0.2 and 0.3)."""

RANDOM_PERMUTATION = f"random paired permutation of test rows, two-sided, add-one ({BOOTSTRAP_VERSION})"


@dataclass(frozen=True, slots=True)
class McNemarTest:
    """McNemar's exact test.

    Attributes:
        only_first: Queries that only the first run answered right.
        only_second: Queries that only the second run answered right.
        p_value: Two-sided p-value.
        method: How it was computed.
    """

    only_first: int
    only_second: int
    p_value: float
    method: str


@dataclass(frozen=True, slots=True)
class PairedPermutation:
    """A paired permutation test.

    Attributes:
        difference: First run minus second run.
        p_value: Two-sided p-value.
        rows: Number of test rows, the units that were exchanged.
        method: How it was computed: over all exchanges, or over random ones.
        permutations: Number of random exchanges; None if exact.
        seed: Text from which the draws come; None if exact.
    """

    difference: float
    p_value: float
    rows: int
    method: str
    permutations: int | None = None
    seed: str | None = None


@dataclass(frozen=True, slots=True)
class PairedBootstrap:
    """A paired bootstrap test.

    Attributes:
        difference: First run minus second run.
        p_value: Two-sided add-one p-value of the centred resamples.
        rows: Number of test rows, the units that were resampled.
        interval: Interval of the difference; it names method, number of resamples and seed.
    """

    difference: float
    p_value: float
    rows: int
    interval: Interval


def mcnemar_exact(b: int, c: int) -> McNemarTest:
    """McNemar's exact test of two accuracies on the same queries.

    Args:
        b: Number of queries that only the first run answered right.
        c: Number of queries that only the second run answered right.

    Returns:
        The test: under equal accuracies, b is binomial with b + c trials and chance 1/2. With b + c = 0
        nothing speaks against equality, and the p-value is 1.

    Raises:
        ArgumentError: A count is not a whole number of at least 0.

    Source:
        McNemar 1947, "Note on the sampling error of the difference between correlated proportions or
        percentages".

    Example:
        >>> mcnemar_exact(8, 2).p_value
        0.109375
    """
    for count in (b, c):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ArgumentError(f"McNemar's test needs two whole numbers of queries, at least 0, not {b!r} and {c!r}")
    first, chances = binomial_probabilities(b + c, 0.5)
    tail = math.fsum(chances[max(0, max(b, c) - first) :])
    return McNemarTest(b, c, 1.0 if b == c else min(1.0, 2.0 * tail), "McNemar, exact binomial, two-sided")


def _row_sums(a: Sequence[float], b: Sequence[float], rows: Sequence[int]) -> list[tuple[float, int]]:
    """Difference and number of queries of each test row."""
    if len(a) != len(b):
        raise ArgumentError(f"paired runs must have a score for each query, but there are {len(a)} and {len(b)} scores")
    groups = group_by_row(rows, len(a))
    for name, scores in (("first", a), ("second", b)):
        for position, score in enumerate(scores):
            if not isinstance(score, int | float) or not math.isfinite(score):
                raise ArgumentError(f"score {position} of the {name} run is {score!r}; expected a finite number")
    return [(math.fsum([*(a[i] for i in group), *(-b[i] for i in group)]), len(group)) for group in groups]


def _exact_share(steps: Sequence[int], least: int) -> float | None:
    """Share of all choices of signs of the steps whose sum is at least so far from 0; None if they are too many."""
    places = min(2 ** len(steps), sum(steps) // max(1, math.gcd(*steps)) + 1)
    if len(steps) * places > _EXACT_STEPS:
        return None
    counts = {0: 1}
    for step in steps:
        grown: dict[int, int] = {}
        for place, ways in counts.items():
            grown[place + step] = grown.get(place + step, 0) + ways
            grown[place - step] = grown.get(place - step, 0) + ways
        counts = grown
    extreme = sum(ways for place, ways in counts.items() if abs(place) >= least)
    return float(Fraction(extreme, 2 ** len(steps)))


def sign_flip_test(
    differences: Sequence[float], queries: int, *, seed: str, permutations: int = 10_000
) -> PairedPermutation:
    """Permutation test of a mean difference: exchanging the runs on a test row flips its sign.

    Args:
        differences: Sum over the queries of each test row of first score minus second score.
        queries: Number of queries in all.
        seed: Text from which the draws come, where there are too many exchanges to count.
        permutations: Number of random exchanges in that case.

    Returns:
        The test; see :func:`paired_permutation`.

    Raises:
        ArgumentError: The number of permutations is no positive whole number, or a difference is not finite.

    Example:
        >>> sign_flip_test([2, 1, 0, -1], 8, seed="demo").p_value
        0.75
    """
    check_draws("permutations", permutations)
    units = PackedRows([[difference] for difference in differences]).items
    steps = sorted(abs(unit) for unit in units if unit)
    total = sum(units)
    least = abs(total) - sum(steps) // _SUMS_PER_TIE  # of counts, nothing is taken off
    difference = math.fsum(differences) / queries
    share = _exact_share(steps, least)
    if share is not None:
        return PairedPermutation(difference, share, len(units), "exact paired permutation of test rows, two-sided")
    moved = [unit for unit in units if unit]
    extreme = sum(
        abs(total - 2 * sum(flipped)) >= least
        for flipped in draw_subsets(moved, permutations, generator(seed, "permutation"))
    )
    p_value = (1 + extreme) / (1 + permutations)
    return PairedPermutation(difference, p_value, len(units), RANDOM_PERMUTATION, permutations, seed)


def paired_permutation(
    a: Sequence[float], b: Sequence[float], rows: Sequence[int], *, seed: str, permutations: int = 10_000
) -> PairedPermutation:
    """Permutation test of the difference of two mean scores on the same queries.

    If the runs are exchangeable, exchanging them on any test rows (all queries of a row together) changes
    nothing. Where all exchanges can be counted they are: always for right and wrong answers of a benchmark of
    ordinary size, by adding one row after another to the distribution of the sum (Pagano and Tritchler 1983),
    else up to about 20 rows.

    Args:
        a: Score of each query in the first run (1 or 0, or a likelihood, ...).
        b: Score of each query in the second run, in the same order.
        rows: Test row of each query.
        seed: Text from which the draws come, where there are too many exchanges to count.
        permutations: Number of random exchanges in that case.

    Returns:
        The test of the mean of a minus the mean of b.

    Raises:
        ArgumentError: The sequences differ in length or are empty, a score is not a finite number, or the
            number of permutations is no positive whole number.

    Example:
        >>> paired_permutation([1, 1, 1, 1, 1], [0, 0, 0, 0, 1], rows=range(5), seed="demo").p_value
        0.125
    """
    differences = [difference for difference, _ in _row_sums(a, b, rows)]
    return sign_flip_test(differences, len(a), seed=seed, permutations=permutations)


def centred_bootstrap_test(
    difference: float, replicates: Sequence[float], rows: int, *, seed: str, level: float = 0.95
) -> PairedBootstrap:
    """Test a difference by how far resamples of it stray from their mean.

    Args:
        difference: The observed difference.
        replicates: The difference on each resample.
        rows: Number of test rows that were resampled.
        seed: Text from which the draws came.
        level: Nominal coverage of the interval.

    Returns:
        The test; see :func:`paired_bootstrap`.

    Raises:
        ArgumentError: There are too few replicates for the level, or the level does not fit.
    """
    interval = percentile_interval(replicates, level, seed)
    centre = math.fsum(replicates) / len(replicates)
    extreme = sum(abs(value - centre) >= abs(difference) - TIE for value in replicates)
    return PairedBootstrap(difference, (1 + extreme) / (1 + len(replicates)), rows, interval)


def paired_bootstrap(
    a: Sequence[float],
    b: Sequence[float],
    rows: Sequence[int],
    *,
    seed: str,
    resamples: int = 1000,
    level: float = 0.95,
) -> PairedBootstrap:
    """Bootstrap test of the difference of two mean scores on the same queries, with its interval.

    Args:
        a: Score of each query in the first run.
        b: Score of each query in the second run, in the same order.
        rows: Test row of each query; the queries of a row are drawn together.
        seed: Text from which the draws come.
        resamples: Number of resamples.
        level: Nominal coverage of the interval.

    Returns:
        The test of the mean of a minus the mean of b. Its p-value is the share of resamples that stray from
        their mean by no less than the observed difference from 0, the sample counted among them.

    Raises:
        ArgumentError: The sequences differ in length or are empty, a score is not a finite number, or the
            level or the number of resamples does not fit.
        UndefinedMetricError: There are fewer than two test rows.

    Source:
        Efron and Tibshirani 1993, "An introduction to the bootstrap", chapter 16 (centring under the null
        hypothesis).

    Example:
        >>> test = paired_bootstrap([1, 1, 1, 1, 1], [0, 0, 0, 0, 1], rows=range(5), seed="demo")
        >>> test.difference, test.interval.high
        (0.8, 1.0)
    """
    sums = _row_sums(a, b, rows)
    replicates = bootstrap_replicates(
        sums, lambda total: {"difference": total[0] / total[1]}, seed=seed, resamples=resamples
    )
    difference = math.fsum(row for row, _ in sums) / len(a)
    return centred_bootstrap_test(difference, replicates["difference"], len(sums), seed=seed, level=level)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct the p-values of several tests, so that any false alarm among them is as rare as promised.

    Args:
        p_values: One p-value for each test, such as one a data set. None stands for a test that could not be
            made; it stays None, and is counted among the tests, so that a failure never makes the others more
            significant.

    Returns:
        The adjusted p-values, in the same order: the k-th smallest is multiplied by the number of tests from
        it on, is never below a smaller one's, and is at most 1. Equal p-values get equal results.

    Raises:
        ArgumentError: An entry is no probability.

    Source:
        Holm 1979, "A simple sequentially rejective multiple test procedure".

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.04, 0.09, None, 0.09]
    """
    for position, p in enumerate(p_values):
        if p is not None and not (isinstance(p, int | float) and 0.0 <= p <= 1.0):
            raise ArgumentError(f"p-value {position} is {p!r}; expected a number from 0 to 1, or None")
    made = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    scaled = (min(1.0, p * (len(p_values) - rank)) for rank, (p, _) in enumerate(made))
    adjusted: list[float | None] = [None] * len(p_values)
    for (_, position), value in zip(made, accumulate(scaled, max), strict=True):
        adjusted[position] = value
    return adjusted
