"""Clusters of test rows: variance and degrees of freedom by matrices and statsmodels, error rates by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.clusters import (
    LEAST_CLUSTERS,
    combined,
    level_over_clusters,
    student_limit,
    student_tail,
    variance_of_sum,
)
from StaICC.metrics.fixed_baselines import CorrectPredictions, p_value_against_labels
from StaICC.metrics.intervals import Interval, NoInterval, student_quantile
from StaICC.metrics.paired_tests import (
    PairedDifference,
    detectable_difference,
    difference_interval,
    mean_difference,
    p_value,
    paired_difference,
    too_few_rows,
    upper_p_value,
)
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import OtherRun, Sample, Statistic

ACCURACY = STATISTICS["accuracy"]
MACRO_F1 = STATISTICS["macro_F1"]


def rows_of(sizes: Sequence[int], seed: int, sd: float = 1.0) -> tuple[list[float], list[int]]:
    """Return a score of each row, with an effect of the cluster, and the cluster of each row."""
    rng = random.Random(seed)
    scores = []
    clusters = []
    for cluster, size in enumerate(sizes):
        effect = rng.gauss(0.2, sd)
        for _ in range(size):
            scores.append(effect + rng.gauss(0.0, 1.0))
            clusters.append(cluster)
    return scores, clusters


def cluster_sums(scores: Sequence[float], clusters: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return the steps and the shares of the clusters of a mean over rows."""
    n = len(scores)
    steps = [0.0] * (max(clusters) + 1)
    shares = [0.0] * (max(clusters) + 1)
    for score, cluster in zip(scores, clusters, strict=True):
        steps[cluster] += score / n
        shares[cluster] += 1 / n
    return steps, shares


# -- Student's t


@pytest.mark.parametrize("freedom", [0.8, 1.0, 2.5, 9.0, 37.4, 512.0])
def test_the_tail_and_the_limit_of_t_are_those_of_scipy_for_any_degrees_of_freedom(freedom: float) -> None:
    for t in (-30.0, -2.0, -0.01, 0.3, 1.0, 2.1, 7.0, 40.0):
        assert student_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-8)
    for tail in (0.4, 0.1, 0.025, 1e-4):
        assert student_limit(tail, freedom) == pytest.approx(stats.t.isf(tail, freedom), rel=1e-9)


# -- variance and degrees of freedom


def test_the_variance_with_equal_clusters_is_that_of_statsmodels() -> None:
    scores, clusters = rows_of([7] * 12, seed=1)
    fitted = sm.OLS(scores, np.ones(len(scores))).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    # With clusters of equal size, CR2 of a mean is CR1 (statsmodels), whose factor is n / (n - 1).
    found = variance_of_sum(*cluster_sums(scores, clusters))
    assert found.variance == pytest.approx(float(fitted.cov_params()[0, 0]), rel=1e-12)
    assert found.degrees_of_freedom == pytest.approx(11.0, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_variance_and_freedom_with_unequal_clusters_are_those_of_the_matrices_of_bell_and_mccaffrey(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 25) for _ in range(rng.randint(4, 20))]
    scores, clusters = rows_of(sizes, seed)
    n = sum(sizes)
    belongs = np.array([[float(cluster == c) for cluster in clusters] for c in range(len(sizes))])
    hat = np.ones((n, n)) / n
    residuals = (np.eye(n) - hat) @ np.array(scores)
    variance = 0.0
    weights = []
    for c in range(len(sizes)):
        rows = np.flatnonzero(belongs[c])
        # CR2: the residuals of a cluster times (I - H_cc)^(-1/2), by an eigendecomposition.
        values, vectors = np.linalg.eigh(np.eye(len(rows)) - hat[np.ix_(rows, rows)])
        adjustment = vectors @ np.diag(values**-0.5) @ vectors.T
        variance += (np.ones(len(rows)) @ adjustment @ residuals[rows] / n) ** 2
        weights.append(np.ones(len(rows)) @ adjustment @ (np.eye(n) - hat)[rows] / n)
    p = np.array(weights)
    freedoms = []
    for covariance in (np.eye(n), belongs.T @ belongs):  # independent rows, and equal rows of a cluster
        g = p @ covariance @ p.T
        freedoms.append(np.trace(g) ** 2 / np.trace(g @ g))

    found = variance_of_sum(*cluster_sums(scores, clusters))
    assert found.variance == pytest.approx(variance, rel=1e-9)
    assert found.degrees_of_freedom == pytest.approx(min(freedoms), rel=1e-9)


def test_clusters_of_one_row_have_the_t_test_of_scipy() -> None:
    scores, _ = rows_of([1] * 40, seed=3)
    n = len(scores)
    difference = PairedDifference(
        math.fsum(scores) / n, 0.0, [score / n for score in scores], -1.0, 1.0, cluster_shares=(1 / n,) * n
    )
    assert p_value(difference) == pytest.approx(stats.ttest_1samp(scores, 0.0).pvalue, rel=1e-9)


def test_data_sets_are_combined_as_by_welch() -> None:
    first = variance_of_sum([0.1, 0.3, 0.2], [1 / 3] * 3)
    second = variance_of_sum([0.1, 0.0, 0.4, 0.1], [1 / 4] * 4)
    both = combined([first, second])
    assert both.variance == pytest.approx(first.variance + second.variance)
    freedom = both.variance**2 / (first.variance**2 / 2 + second.variance**2 / 3)
    assert both.degrees_of_freedom == pytest.approx(freedom)


# -- test and interval of a difference


def difference_of(sizes: Sequence[int], seed: int) -> PairedDifference:
    scores, clusters = rows_of(sizes, seed)
    steps, shares = cluster_sums(scores, clusters)
    return PairedDifference(math.fsum(steps), 0.0, steps, -1.0, 1.0, cluster_shares=tuple(shares))


@pytest.mark.parametrize("sizes", [[8] * 15, [1, 2, 3, 40, 5, 6, 7, 8, 9, 10, 11]])
def test_the_interval_has_the_differences_that_the_test_does_not_reject(sizes: list[int]) -> None:
    difference = difference_of(sizes, seed=5)
    interval = difference_interval(difference)
    assert interval is not None
    assert upper_p_value(difference, interval.low) == pytest.approx(0.025, abs=1e-6)
    assert upper_p_value(difference.negated, -interval.high) == pytest.approx(0.025, abs=1e-6)


def test_nine_clusters_and_few_that_differ_are_untested() -> None:
    few = difference_of([20] * (LEAST_CLUSTERS - 1), seed=1)
    assert too_few_rows(few) == "the test rows are in 9 clusters, expected at least 10"
    assert difference_interval(few) is None
    assert detectable_difference(few) is None

    n = 50
    five_differ = [0.01] * 5 + [0.0] * (n - 5)
    rarely = PairedDifference(0.05, 0.0, five_differ, -1.0, 1.0, cluster_shares=(1 / n,) * n)
    assert str(too_few_rows(rarely)).startswith("too few clusters differ")
    assert difference_interval(rarely) is None


def test_a_cluster_with_more_than_half_of_the_rows_is_too_large() -> None:
    dominated = difference_of([130] + [10] * 11, seed=1)
    assert too_few_rows(dominated) == (
        "one of 12 clusters of test rows has 54% of the queries, expected less than half"
    )
    assert too_few_rows(difference_of([90] + [10] * 11, seed=1)) is None
    assert "50%" in str(too_few_rows(difference_of([110] + [10] * 11, seed=1)))


def test_an_interval_is_withheld_where_its_level_is_not_told_from_one() -> None:
    """One cluster of a hundred rows and 900 of one: t with 1.2 degrees of freedom, in formulas for 901 clusters."""
    clusters = [0] * 100 + list(range(1, 901))
    sample = Sample([0] * 1_000, list(range(1_000)), 1_000, 2, clusters=clusters)
    interval = ACCURACY.interval(sample, [0] * 700 + [1] * 300, 0.95)
    assert isinstance(interval, NoInterval)
    assert interval.reason.startswith("an interval over 901 clusters of so different sizes cannot have the level 0.95")


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("others", [11, 60, 200, 1_000])
@pytest.mark.parametrize("largest", [0.05, 0.1, 0.2, 0.3, 0.45])
def test_intervals_over_unequal_clusters_have_the_quantile_of_their_degrees_of_freedom(
    largest: float, others: int, level: float
) -> None:
    """Or none: a level that is too near to 1 is refused."""
    shares = [largest, largest, *[(1.0 - 2.0 * largest) / others] * others]
    freedom = variance_of_sum([0.0] * len(shares), shares).degrees_of_freedom
    try:
        of_formulas = student_quantile(level_over_clusters(level, shares), len(shares))
    except UndefinedMetricError:
        assert freedom < 4.0
        return
    assert of_formulas == pytest.approx(stats.t.isf((1.0 - level) / 2.0, freedom), rel=1e-5)


def test_unequal_clusters_have_the_quantile_of_their_degrees_of_freedom() -> None:
    sizes = [30.0, 20.0, *[5.0] * 12]
    shares = [size / sum(sizes) for size in sizes]
    level = level_over_clusters(0.95, shares)
    freedom = variance_of_sum([0.0] * len(shares), shares).degrees_of_freedom
    # The formulas take t with 13 degrees of freedom, of 14 clusters.
    assert stats.t.isf((1.0 - level) / 2.0, 13) == pytest.approx(stats.t.isf(0.025, freedom), rel=1e-6)
    assert level_over_clusters(0.9, [0.1] * 10) == pytest.approx(0.9)


def test_clusters_that_all_differ_alike_have_no_p_value_of_zero() -> None:
    n = 10
    alike = PairedDifference(1.0, 0.0, [1 / n] * n, -1 / n, 1 / n, cluster_shares=(1 / n,) * n)
    assert p_value(alike) == pytest.approx(2.0 ** (1 - n))


def test_a_mean_with_one_clustered_data_set_has_clusters_of_one_row_in_the_other() -> None:
    clustered = difference_of([5] * 12, seed=2)
    independent = PairedDifference(0.1, 0.0, [0.01] * 10, -0.1, 0.1)
    mean = mean_difference([clustered, independent])
    assert mean.cluster_shares is not None
    assert mean.cluster_shares[12:] == (0.1,) * 10
    assert mean_difference([independent, independent]).cluster_shares is None


# -- samples


def test_a_sample_by_cluster_adds_up_rows_and_counts_labels_in_clusters() -> None:
    sample = Sample([0, 1, 1, 0], [0, 1, 2, 2], 3, 2, clusters=[4, 2, 4])
    units = sample.by_cluster()
    assert units.sizes == [1.0, 3.0]  # clusters 2 and 4
    assert units.cluster_shares == [0.25, 0.75]
    assert units.few_rows_reason == "2 of 2 labels have fewer than 5 clusters"
    assert Sample([0], [0], 1, 2).by_cluster().cluster_shares is None


def clustered_sample(clusters: int, rows: int, seed: int, sd: float) -> tuple[Sample, list[int], list[int]]:
    """Return a sample of rows in clusters and the predictions of two equal models, each with effects of its own."""
    rng = random.Random(seed)
    truth = []
    cluster_of_row = []
    first = []
    second = []
    for cluster in range(clusters):
        effects = (rng.gauss(0.0, sd), rng.gauss(0.0, sd))
        for _ in range(rows):
            label = rng.randrange(3)
            truth.append(label)
            cluster_of_row.append(cluster)
            for predictions, effect in zip((first, second), effects, strict=True):
                is_correct = rng.random() < 1.0 / (1.0 + math.exp(-0.4 - effect))
                predictions.append(label if is_correct else (label + 1) % 3)
    return Sample(truth, range(len(truth)), len(truth), 3, clusters=cluster_of_row), first, second


@pytest.mark.parametrize("statistic", [ACCURACY, MACRO_F1], ids=["accuracy", "macro F1"])
def test_equal_models_are_called_different_in_five_of_a_hundred_samples_not_in_twenty_five(statistic: object) -> None:
    wrong = 0
    wrong_over_rows = 0
    n = 150
    for seed in range(n):
        sample, first, second = clustered_sample(clusters=20, rows=16, seed=seed, sd=1.0)
        units = sample.by_cluster()
        over_clusters = paired_difference(
            [(1.0, statistic.of_run(units, first, OtherRun(units, second)))],  # type: ignore[attr-defined]
            [(1.0, statistic.of_run(units, second, OtherRun(units, first)))],  # type: ignore[attr-defined]
            units.cluster_shares,
        )
        over_rows = paired_difference(
            [(1.0, statistic.of_run(sample, first, OtherRun(sample, second)))],  # type: ignore[attr-defined]
            [(1.0, statistic.of_run(sample, second, OtherRun(sample, first)))],  # type: ignore[attr-defined]
        )
        wrong += p_value(over_clusters) <= 0.05
        wrong_over_rows += p_value(over_rows) <= 0.05
    # With a true rate of 0.05, 16 or more of 150 have the probability 0.004.
    assert wrong <= 15
    assert wrong_over_rows >= 25


def test_the_interval_of_accuracy_covers_over_clusters_and_not_over_rows() -> None:
    truth = float(np.mean(1.0 / (1.0 + np.exp(-0.4 - np.random.default_rng(0).normal(size=200_000)))))
    covered = 0
    covered_over_rows = 0
    n = 200
    for seed in range(n):
        sample, first, _ = clustered_sample(clusters=20, rows=16, seed=seed, sd=1.0)
        interval = ACCURACY.interval(sample, first, 0.95)
        assert isinstance(interval, Interval)
        assert interval.method.endswith("unit: cluster")
        covered += interval.low <= truth <= interval.high
        over_rows = ACCURACY.interval(Sample(sample.truth, sample.rows, sample.n_rows, 3), first, 0.95)
        assert isinstance(over_rows, Interval)
        covered_over_rows += over_rows.low <= truth <= over_rows.high
    assert covered >= 0.93 * n
    assert covered_over_rows <= 0.8 * n


def test_scores_whose_coverage_over_clusters_is_not_measured_have_no_interval() -> None:
    sample, _, _ = clustered_sample(clusters=12, rows=4, seed=0, sd=1.0)
    rows = [[0.5, 0.3, 0.2]] * len(sample.truth)
    found = STATISTICS["expected_calibration_error_1"].interval(sample, rows, 0.95)
    assert isinstance(found, NoInterval)
    assert "coverage over clusters is not measured" in found.reason
    few, first, _ = clustered_sample(clusters=9, rows=4, seed=0, sd=1.0)
    withheld = ACCURACY.interval(few, first, 0.95)
    assert isinstance(withheld, NoInterval)
    assert withheld.reason == "the test rows are in 9 clusters, expected at least 10"


def test_the_test_against_a_fixed_label_is_over_clusters() -> None:
    sample, first, second = clustered_sample(clusters=15, rows=8, seed=4, sd=1.0)
    correct = [guess == label for guess, label in zip(first, sample.truth, strict=True)]
    other = [guess == label for guess, label in zip(second, sample.truth, strict=True)]
    found = p_value_against_labels([CorrectPredictions(sample, correct, other)])
    steps, shares = cluster_sums(
        [float(one) - float(two) for one, two in zip(correct, other, strict=True)],
        list(sample.clusters or ()),
    )
    variance, freedom = variance_of_sum(steps, shares)
    assert found == pytest.approx(stats.t.sf(math.fsum(steps) / math.sqrt(variance), freedom), rel=1e-6)

    few, first, second = clustered_sample(clusters=9, rows=8, seed=4, sd=1.0)
    correct = [guess == label for guess, label in zip(first, few.truth, strict=True)]
    assert p_value_against_labels([CorrectPredictions(few, correct, [False] * len(correct))]) is None


@pytest.mark.parametrize("statistic", [ACCURACY, MACRO_F1], ids=["accuracy", "macro F1"])
@pytest.mark.parametrize("clusters", [LEAST_CLUSTERS - 1, LEAST_CLUSTERS, 25])
def test_clusters_without_a_query_change_no_interval(statistic: Statistic, clusters: int) -> None:
    """Rows of a cluster may all lack a prediction: it is none of the clusters that a score is over."""
    sample, predictions, _ = clustered_sample(clusters=clusters, rows=12, seed=2, sd=1.0)
    without_query = range(100, 106)
    more_clusters = Sample(
        sample.truth,
        sample.rows,
        n_rows=sample.n_rows + len(without_query),
        n_labels=sample.n_labels,
        clusters=[*(sample.clusters or ()), *without_query],
    )
    expected = statistic.interval(sample, predictions, 0.95)
    found = statistic.interval(more_clusters, predictions, 0.95)
    if clusters < LEAST_CLUSTERS:
        assert found == expected
        assert isinstance(found, NoInterval)
        assert found.reason == f"the test rows are in {clusters} clusters, expected at least {LEAST_CLUSTERS}"
    else:
        assert isinstance(found, Interval)
        assert isinstance(expected, Interval)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
