"""Compare two runs on the same queries by every classification metric.

Accuracy and likelihood are means of scores of queries; macro F1 and calibration error are not, so the tests
of :mod:`StaICC.metrics.significance` for means do not reach them. But all four follow from sums over test
rows, and so does their difference on a resample or after an exchange of the two runs on some rows.

Where the two tests disagree, trust the permutation test: it keeps its level for every metric. The bootstrap of a
difference of calibration errors is careful (on equally good runs its p-values are too large), because the bias of the
error varies from resample to resample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.metrics.classification_sums import ClassificationSums
from StaICC.metrics.intervals import bootstrap_replicates
from StaICC.metrics.resampling import PackedRows, draw_subsets, generator
from StaICC.metrics.significance import (
    RANDOM_PERMUTATION,
    TIE,
    PairedBootstrap,
    PairedPermutation,
    centred_bootstrap_test,
    sign_flip_test,
)

__all__ = ["MetricComparison", "compare_metrics"]


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """Two runs compared by one metric.

    Attributes:
        first: The metric of the first run.
        second: The metric of the second run.
        difference: First minus second.
        bootstrap: The bootstrap test, with the interval of the difference.
        permutation: The permutation test.
    """

    first: float
    second: float
    difference: float
    bootstrap: PairedBootstrap
    permutation: PairedPermutation


def compare_metrics(
    ground_truth: Sequence[int],
    first: Sequence[Sequence[float]],
    second: Sequence[Sequence[float]],
    rows: Sequence[int],
    n_labels: int,
    *,
    seed: str,
    resamples: int = 1000,
    permutations: int = 2000,
    level: float = 0.95,
    likelihood: bool = True,
) -> dict[str, MetricComparison]:
    """Compare two runs by every classification metric.

    Args:
        ground_truth: One label index per query.
        first: Predictions of the first run, one row per query: probabilities if `likelihood` is set.
        second: Predictions of the second run, in the same order.
        rows: Test row of each query; the queries of a row stay together.
        n_labels: Size of the label space.
        seed: Text from which the draws come.
        resamples: Number of bootstrap resamples.
        permutations: Number of random exchanges, where not all can be counted (for accuracy they mostly can).
        level: Nominal coverage of the intervals.
        likelihood: Whether the rows are probabilities. Without it there are only accuracy and macro F1.

    Returns:
        The comparison by each metric, by the metric's name.

    Raises:
        ArgumentError: The arguments do not fit each other.
        OutputError: A row of predictions cannot be read as numbers, or is no distribution where it must be.
        UndefinedMetricError: There are fewer than two test rows.

    Example:
        >>> truth, first = [0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]]
        >>> second = [[0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.3, 0.7]]
        >>> result = compare_metrics(truth, first, second, [0, 1, 2, 3], 2, seed="demo")["accuracy"]
        >>> result.difference, result.permutation.p_value
        (0.5, 0.5)
    """
    sums = ClassificationSums(n_labels, likelihood)
    one, two = (sums.of_rows(ground_truth, run, rows) for run in (first, second))
    width = len(one[0])

    def differences(a: Sequence[float], b: Sequence[float]) -> dict[str, float]:
        other = sums.metrics(b)
        return {name: value - other[name] for name, value in sums.metrics(a).items()}

    total_one, total_two = ([math.fsum(column) for column in zip(*run, strict=True)] for run in (one, two))
    observed = differences(total_one, total_two)
    replicates = bootstrap_replicates(
        [[*a, *b] for a, b in zip(one, two, strict=True)],
        lambda total: differences(total[:width], total[width:]),
        seed=seed,
        resamples=resamples,
    )

    exchange = [[x - y for x, y in zip(a, b, strict=True)] for a, b in zip(one, two, strict=True)]
    hits = [sum(row[:n_labels]) for row in exchange]
    tests = {"accuracy": sign_flip_test(hits, len(ground_truth), seed=seed, permutations=permutations)}
    if likelihood:
        likelihoods = [row[3 * n_labels] for row in exchange]
        test = sign_flip_test(likelihoods, len(ground_truth), seed=seed, permutations=permutations)
        tests["averaged_truelabel_likelihood"] = test
    extreme = dict.fromkeys(observed.keys() - tests.keys(), 0)
    packed = PackedRows(exchange)
    for subset in draw_subsets(packed.items, permutations, generator(seed, "permutation")):
        moved = packed.unpack(sum(subset))
        permuted = differences(
            [x - step for x, step in zip(total_one, moved, strict=True)],
            [x + step for x, step in zip(total_two, moved, strict=True)],
        )
        for name in extreme:
            extreme[name] += abs(permuted[name]) >= abs(observed[name]) - TIE
    for name, count in extreme.items():
        p_value = (1 + count) / (1 + permutations)
        tests[name] = PairedPermutation(observed[name], p_value, len(one), RANDOM_PERMUTATION, permutations, seed)

    values = sums.metrics(total_one), sums.metrics(total_two)
    return {
        name: MetricComparison(
            first=values[0][name],
            second=values[1][name],
            difference=difference,
            bootstrap=centred_bootstrap_test(difference, replicates[name], len(one), seed=seed, level=level),
            permutation=tests[name],
        )
        for name, difference in observed.items()
    }
