"""Clusters of test rows: variance and degrees of freedom by matrices and statsmodels, error rates by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

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


def effects_in_clusters(sizes: Sequence[int], seed: int) -> tuple[list[float], list[int]]:
    """Return a score of each row, with an effect of its cluster, and the cluster of each row.

    Args:
        sizes: The number of rows of each cluster.
        seed: The seed of the normal effects of clusters (mean 0.2, variance 1) and of rows (mean 0, variance 1).
    """
    rng = random.Random(seed)
    scores = []
    clusters = []
    for cluster, size in enumerate(sizes):
        effect_of_cluster = rng.gauss(0.2, 1.0)
        for _ in range(size):
            scores.append(effect_of_cluster + rng.gauss(0.0, 1.0))
            clusters.append(cluster)
    return scores, clusters


def cluster_sums(scores: Sequence[float], clusters: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return the part of each cluster in the mean over rows (their sum is the mean), and its share of the rows."""
    row_count = len(scores)
    steps = [0.0] * (max(clusters) + 1)
    shares = [0.0] * (max(clusters) + 1)
    for score, cluster in zip(scores, clusters, strict=True):
        steps[cluster] += score / row_count
        shares[cluster] += 1 / row_count
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
    """With clusters of equal size, CR2 of a mean is CR1 of statsmodels, whose factor is n / (n - 1)."""
    cluster_count = 12
    scores, clusters = effects_in_clusters([7] * cluster_count, seed=1)
    only_a_mean = np.ones(len(scores))
    fitted = sm.OLS(scores, only_a_mean).fit(cov_type="cluster", cov_kwds={"groups": clusters})

    found = variance_of_sum(*cluster_sums(scores, clusters))

    assert found.variance == pytest.approx(float(fitted.cov_params()[0, 0]), rel=1e-12)
    assert found.degrees_of_freedom == pytest.approx(cluster_count - 1, rel=1e-12)


def variance_and_freedom_by_matrices(scores: Sequence[float], clusters: Sequence[int]) -> tuple[float, float]:
    """Return variance and degrees of freedom of a mean by the matrices of Bell and McCaffrey.

    CR2: the residuals of a cluster c are multiplied by (I - H_cc)^(-1/2), where H is the hat matrix of a mean. The
    degrees of freedom are tr(G)^2 / tr(G G), the smaller one of two assumptions on the rows: independent, or equal
    within a cluster.
    """
    n = len(scores)
    identity = np.eye(n)
    hat = np.ones((n, n)) / n
    residuals = (identity - hat) @ np.array(scores)
    variance = 0.0
    weights = []
    for cluster in range(max(clusters) + 1):
        rows = np.flatnonzero(np.array(clusters) == cluster)
        values, vectors = np.linalg.eigh(np.eye(len(rows)) - hat[np.ix_(rows, rows)])
        inverse_square_root = vectors @ np.diag(values**-0.5) @ vectors.T
        row_weights = np.ones(len(rows)) @ inverse_square_root / n
        variance += float(row_weights @ residuals[rows]) ** 2
        weights.append(row_weights @ (identity - hat)[rows])
    p = np.array(weights)
    same_cluster = np.equal.outer(clusters, clusters).astype(float)
    freedoms = []
    for covariance_of_rows in (identity, same_cluster):
        g = p @ covariance_of_rows @ p.T
        freedoms.append(float(np.trace(g) ** 2 / np.trace(g @ g)))
    return variance, min(freedoms)


@pytest.mark.parametrize("seed", range(5))
def test_variance_and_freedom_with_unequal_clusters_are_those_of_the_matrices_of_bell_and_mccaffrey(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 25) for _ in range(rng.randint(4, 20))]
    scores, clusters = effects_in_clusters(sizes, seed)

    found = variance_of_sum(*cluster_sums(scores, clusters))

    variance, freedom = variance_and_freedom_by_matrices(scores, clusters)
    assert found.variance == pytest.approx(variance, rel=1e-9)
    assert found.degrees_of_freedom == pytest.approx(freedom, rel=1e-9)


def test_clusters_of_one_row_have_the_t_test_of_scipy() -> None:
    row_count = 40
    scores, clusters = effects_in_clusters([1] * row_count, seed=3)

    found = p_value(difference_over_clusters(scores, clusters))

    assert found == pytest.approx(stats.ttest_1samp(scores, 0.0).pvalue, rel=1e-9)


def test_data_sets_are_combined_as_by_welch() -> None:
    """Welch: the variances v add up, and the degrees of freedom are (v1 + v2)^2 / (v1^2 / f1 + v2^2 / f2)."""
    first = variance_of_sum([0.1, 0.3, 0.2], [1 / 3] * 3)  # f1 = 3 clusters - 1
    second = variance_of_sum([0.1, 0.0, 0.4, 0.1], [1 / 4] * 4)  # f2 = 4 clusters - 1

    both = combined([first, second])

    assert both.variance == pytest.approx(first.variance + second.variance)
    freedom = both.variance**2 / (first.variance**2 / 2 + second.variance**2 / 3)
    assert both.degrees_of_freedom == pytest.approx(freedom)


# -- test and interval of a difference


def difference_over_clusters(scores: Sequence[float], clusters: Sequence[int]) -> PairedDifference:
    """Return the difference of two runs that is the mean of these scores of rows in clusters."""
    steps, shares = cluster_sums(scores, clusters)
    return PairedDifference(
        first=math.fsum(steps),
        second=0.0,
        steps=steps,
        lowest_step=-1.0,
        highest_step=1.0,
        cluster_shares=tuple(shares),
    )


def difference_of(sizes: Sequence[int], seed: int) -> PairedDifference:
    """Return a difference of two runs over clusters of these numbers of rows, with effects of clusters and of rows."""
    return difference_over_clusters(*effects_in_clusters(sizes, seed))


@pytest.mark.parametrize(
    "sizes",
    [[8] * 15, [1, 2, 3, 40, 5, 6, 7, 8, 9, 10, 11]],
    ids=["equal clusters", "unequal clusters"],
)
def test_the_interval_has_the_differences_that_the_test_does_not_reject(sizes: list[int]) -> None:
    """At both ends of an interval of 95 %, the one-sided p-value is 2.5 %."""
    difference = difference_of(sizes, seed=5)

    interval = difference_interval(difference)

    assert interval is not None
    assert upper_p_value(difference, interval.low) == pytest.approx(0.025, abs=1e-6)
    assert upper_p_value(difference.negated, -interval.high) == pytest.approx(0.025, abs=1e-6)


def test_nine_clusters_are_untested() -> None:
    nine_clusters = difference_of([20] * 9, seed=1)

    assert too_few_rows(nine_clusters) == "the test rows are in 9 clusters, expected at least 10"
    assert difference_interval(nine_clusters) is None
    assert detectable_difference(nine_clusters) is None


def test_fifty_clusters_of_which_five_differ_are_untested() -> None:
    scores = [0.5] * 5 + [0.0] * 45
    five_differ = difference_over_clusters(scores, clusters=range(50))

    reason = too_few_rows(five_differ)

    assert reason is not None
    assert reason.startswith("too few clusters differ")
    assert difference_interval(five_differ) is None


@pytest.mark.parametrize(("size", "percent"), [(130, 54), (110, 50)])  # 130 of 240 rows; 110 of 220
def test_a_cluster_with_half_of_the_rows_is_too_large(size: int, percent: int) -> None:
    difference = difference_of([size] + [10] * 11, seed=1)

    assert too_few_rows(difference) == (
        f"one of 12 clusters of test rows has {percent}% of the queries, expected less than half"
    )


def test_a_cluster_with_less_than_half_of_the_rows_is_tested() -> None:
    difference = difference_of([90] + [10] * 11, seed=1)  # 90 of 200 rows

    assert too_few_rows(difference) is None


def test_an_interval_is_withheld_where_its_level_is_not_told_from_one() -> None:
    """One cluster of a hundred rows and 900 of one: t with 1.2 degrees of freedom, in formulas for 901 clusters."""
    clusters = [0] * 100 + list(range(1, 901))
    row_count = len(clusters)
    sample = Sample(truth=[0] * row_count, rows=list(range(row_count)), n_rows=row_count, n_labels=2, clusters=clusters)
    predictions = [0] * 700 + [1] * 300

    interval = ACCURACY.interval(sample, predictions, 0.95)

    assert isinstance(interval, NoInterval)
    assert interval.reason.startswith("an interval over 901 clusters of so different sizes cannot have the level 0.95")


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("others", [11, 60, 200, 1_000])
@pytest.mark.parametrize("largest", [0.05, 0.1, 0.2, 0.3, 0.45])
def test_intervals_over_unequal_clusters_have_the_quantile_of_their_degrees_of_freedom(
    largest: float, others: int, level: float
) -> None:
    """Two large clusters and many equal ones. The formulas take t with n - 1 degrees of freedom of n clusters, so that
    the level is raised until the quantile is that of the fewer degrees of freedom; one too near to 1 is refused."""
    share_of_others = (1.0 - 2.0 * largest) / others
    shares = [largest, largest, *[share_of_others] * others]
    freedom = variance_of_sum([0.0] * len(shares), shares).degrees_of_freedom

    try:
        raised_level = level_over_clusters(level, shares)
    except UndefinedMetricError:
        assert freedom < 4.0
        return

    quantile = student_quantile(raised_level, len(shares))
    assert quantile == pytest.approx(stats.t.isf((1.0 - level) / 2.0, freedom), rel=1e-5)


def test_fourteen_unequal_clusters_have_the_quantile_of_their_degrees_of_freedom() -> None:
    sizes = [30.0, 20.0, *[5.0] * 12]
    shares = [size / sum(sizes) for size in sizes]
    freedom = variance_of_sum([0.0] * len(shares), shares).degrees_of_freedom

    raised_level = level_over_clusters(0.95, shares)

    freedom_of_formulas = len(sizes) - 1
    quantile = stats.t.isf((1.0 - raised_level) / 2.0, freedom_of_formulas)
    assert quantile == pytest.approx(stats.t.isf(0.025, freedom), rel=1e-6)


def test_equal_clusters_keep_the_level() -> None:
    assert level_over_clusters(0.9, [0.1] * 10) == pytest.approx(0.9)


def test_clusters_that_all_differ_alike_have_the_p_value_of_the_sign_test() -> None:
    """The variance is zero, so t is infinite. All of ten signs are the same with the probability 2 * 2^-10."""
    cluster_count = 10
    alike = PairedDifference(
        first=1.0,
        second=0.0,
        steps=[1 / cluster_count] * cluster_count,
        lowest_step=-1 / cluster_count,
        highest_step=1 / cluster_count,
        cluster_shares=(1 / cluster_count,) * cluster_count,
    )

    assert p_value(alike) == pytest.approx(2.0 * 2.0**-cluster_count)


def test_a_mean_with_one_clustered_data_set_has_clusters_of_one_row_in_the_other() -> None:
    cluster_count, row_count = 12, 10
    clustered = difference_of([5] * cluster_count, seed=2)
    independent = PairedDifference(first=0.1, second=0.0, steps=[0.01] * row_count, lowest_step=-0.1, highest_step=0.1)

    mean = mean_difference([clustered, independent])
    mean_without_clusters = mean_difference([independent, independent])

    assert mean.cluster_shares is not None
    assert mean.cluster_shares[cluster_count:] == (1 / row_count,) * row_count
    assert mean_without_clusters.cluster_shares is None


# -- samples


def test_a_sample_by_cluster_adds_up_rows_and_counts_labels_in_clusters() -> None:
    """Rows 0 and 2 are in cluster 4, and row 1 is in cluster 2; row 2 has two queries."""
    sample = Sample(truth=[0, 1, 1, 0], rows=[0, 1, 2, 2], n_rows=3, n_labels=2, clusters=[4, 2, 4])

    units = sample.by_cluster()

    assert units.sizes == [1.0, 3.0], "queries of the clusters 2 and 4"
    assert units.cluster_shares == [0.25, 0.75]
    assert units.few_rows_reason == "2 of 2 labels have fewer than 5 clusters"


def test_a_sample_without_clusters_has_no_shares_of_clusters() -> None:
    sample = Sample(truth=[0], rows=[0], n_rows=1, n_labels=2)

    assert sample.by_cluster().cluster_shares is None


class TwoRuns(NamedTuple):
    """A sample of rows in clusters, and the predictions of two runs."""

    sample: Sample
    first: list[int]
    second: list[int]


def equal_models_on_clusters(clusters: int, rows: int, seed: int) -> TwoRuns:
    """Return a sample of three labels and the predictions of two equally good models.

    A model is correct in a row with the logit 0.4 plus a standard normal effect of the model in the cluster.

    Args:
        clusters: The number of clusters.
        rows: The number of rows of each cluster.
        seed: The seed of labels, effects and predictions.
    """
    rng = random.Random(seed)
    truth = []
    cluster_of_row = []
    first: list[int] = []
    second: list[int] = []
    for cluster in range(clusters):
        effects = (rng.gauss(0.0, 1.0), rng.gauss(0.0, 1.0))
        for _ in range(rows):
            label = rng.randrange(3)
            truth.append(label)
            cluster_of_row.append(cluster)
            for predictions, effect in zip((first, second), effects, strict=True):
                is_correct = rng.random() < 1.0 / (1.0 + math.exp(-0.4 - effect))
                predictions.append(label if is_correct else (label + 1) % 3)
    sample = Sample(truth, range(len(truth)), n_rows=len(truth), n_labels=3, clusters=cluster_of_row)
    return TwoRuns(sample, first, second)


def correct_predictions(sample: Sample, predictions: Sequence[int]) -> list[bool]:
    return [prediction == label for prediction, label in zip(predictions, sample.truth, strict=True)]


def p_value_of_runs(statistic: Statistic, sample: Sample, first: list[int], second: list[int]) -> float:
    """Return the p-value of the paired test of two runs on a data set, over clusters if the sample is by cluster."""
    first_run = statistic.of_run(sample, first, OtherRun(sample, second))
    second_run = statistic.of_run(sample, second, OtherRun(sample, first))
    weight = 1.0
    return p_value(paired_difference([(weight, first_run)], [(weight, second_run)], sample.cluster_shares))


@pytest.mark.parametrize("statistic", [ACCURACY, MACRO_F1], ids=["accuracy", "macro F1"])
def test_the_test_over_clusters_keeps_its_level_and_that_over_rows_does_not(statistic: Statistic) -> None:
    """All rejections are wrong, since the models are equally good. With a true rate of 0.05, 16 or more wrong ones in
    150 samples have the probability 0.004; over rows, more than a sixth are wrong."""
    wrong_over_clusters = 0
    wrong_over_rows = 0
    for seed in range(150):
        sample, first, second = equal_models_on_clusters(clusters=20, rows=16, seed=seed)
        independent_rows = replace(sample, clusters=None)
        if p_value_of_runs(statistic, sample.by_cluster(), first, second) <= 0.05:
            wrong_over_clusters += 1
        if p_value_of_runs(statistic, independent_rows, first, second) <= 0.05:
            wrong_over_rows += 1

    assert wrong_over_clusters <= 15
    assert wrong_over_rows >= 25


def test_the_interval_of_accuracy_covers_over_clusters_and_not_over_rows() -> None:
    """The true accuracy is the mean of logistic(0.4 + effect) over the normal effects of clusters."""
    effects = np.random.default_rng(0).normal(size=200_000)
    true_accuracy = float(np.mean(1.0 / (1.0 + np.exp(-0.4 - effects))))
    samples = 200
    covered_over_clusters = 0
    covered_over_rows = 0
    for seed in range(samples):
        sample, predictions, _ = equal_models_on_clusters(clusters=20, rows=16, seed=seed)
        over_clusters = ACCURACY.interval(sample, predictions, 0.95)
        over_rows = ACCURACY.interval(replace(sample, clusters=None), predictions, 0.95)
        assert isinstance(over_clusters, Interval)
        assert isinstance(over_rows, Interval)
        assert over_clusters.method.endswith("unit: cluster")
        covered_over_clusters += over_clusters.low <= true_accuracy <= over_clusters.high
        covered_over_rows += over_rows.low <= true_accuracy <= over_rows.high

    assert covered_over_clusters >= 0.93 * samples
    assert covered_over_rows <= 0.8 * samples


def test_the_calibration_error_has_no_interval_over_clusters() -> None:
    """No simulation has measured the coverage of an interval of it over clusters."""
    sample, _, _ = equal_models_on_clusters(clusters=12, rows=4, seed=0)
    probabilities = [[0.5, 0.3, 0.2]] * len(sample.truth)

    interval = STATISTICS["expected_calibration_error_1"].interval(sample, probabilities, 0.95)

    assert isinstance(interval, NoInterval)
    assert "coverage over clusters is not measured" in interval.reason


def test_nine_clusters_are_too_few_for_an_interval_of_the_accuracy() -> None:
    sample, predictions, _ = equal_models_on_clusters(clusters=9, rows=4, seed=0)

    interval = ACCURACY.interval(sample, predictions, 0.95)

    assert isinstance(interval, NoInterval)
    assert interval.reason == "the test rows are in 9 clusters, expected at least 10"


def test_the_test_against_a_fixed_label_is_over_clusters() -> None:
    """The test is the t-test of the differences of correct predictions, summed in clusters."""
    sample, run, baseline = equal_models_on_clusters(clusters=15, rows=8, seed=4)
    of_run, of_baseline = correct_predictions(sample, run), correct_predictions(sample, baseline)

    found = p_value_against_labels([CorrectPredictions(sample, of_run, of_baseline)])

    differences = [float(of_run[row]) - float(of_baseline[row]) for row in range(sample.n_rows)]
    assert sample.clusters is not None
    steps, shares = cluster_sums(differences, sample.clusters)
    variance, freedom = variance_of_sum(steps, shares)
    t = math.fsum(steps) / math.sqrt(variance)
    assert found == pytest.approx(stats.t.sf(t, freedom), rel=1e-6)


def test_nine_clusters_are_too_few_for_the_test_against_a_fixed_label() -> None:
    sample, run, _ = equal_models_on_clusters(clusters=9, rows=8, seed=4)
    never_correct = [False] * sample.n_rows

    found = p_value_against_labels([CorrectPredictions(sample, correct_predictions(sample, run), never_correct)])

    assert found is None


def with_clusters_without_a_query(sample: Sample) -> Sample:
    """Return a sample with six more clusters, of one row each, whose rows have no query."""
    assert sample.clusters is not None
    more_clusters = range(100, 106)
    return replace(sample, n_rows=sample.n_rows + len(more_clusters), clusters=[*sample.clusters, *more_clusters])


@pytest.mark.parametrize("statistic", [ACCURACY, MACRO_F1], ids=["accuracy", "macro F1"])
@pytest.mark.parametrize("clusters", [LEAST_CLUSTERS, 25])
def test_clusters_without_a_query_change_no_interval(statistic: Statistic, clusters: int) -> None:
    """Rows of a cluster may all lack a prediction: it is none of the clusters that a score is over."""
    sample, predictions, _ = equal_models_on_clusters(clusters=clusters, rows=12, seed=2)

    expected = statistic.interval(sample, predictions, 0.95)
    found = statistic.interval(with_clusters_without_a_query(sample), predictions, 0.95)

    assert isinstance(found, Interval)
    assert isinstance(expected, Interval)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("statistic", [ACCURACY, MACRO_F1], ids=["accuracy", "macro F1"])
def test_clusters_without_a_query_do_not_make_too_few_clusters_enough(statistic: Statistic) -> None:
    sample, predictions, _ = equal_models_on_clusters(clusters=LEAST_CLUSTERS - 1, rows=12, seed=2)

    found = statistic.interval(with_clusters_without_a_query(sample), predictions, 0.95)

    assert isinstance(found, NoInterval)
    assert found.reason == f"the test rows are in {LEAST_CLUSTERS - 1} clusters, expected at least {LEAST_CLUSTERS}"
    assert found == statistic.interval(sample, predictions, 0.95)
