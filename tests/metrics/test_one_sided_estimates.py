"""Estimates of ECE-1, entropy and divergence that are too small or too large on purpose, one for each claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from StaICC.metrics import paired_tests as paired
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Contributions, OtherRun, Sample
from tests.performance.skewed_nulls import both, of_pair

ECE = STATISTICS["expected_calibration_error_1"]
ENTROPY = STATISTICS["entropy"]
DIVERGENCE = STATISTICS["DL div."]


def lower(contributions: Contributions) -> list[float]:
    """The contributions for the claim that the run has the larger value."""
    return list(contributions.rows if contributions.lower_rows is None else contributions.lower_rows)


def upper(contributions: Contributions) -> list[float]:
    """The contributions for the claim that the run has the smaller value."""
    return list(contributions.rows if contributions.upper_rows is None else contributions.upper_rows)


def drawn(seed: int, labels: int, n_rows: int = 30, repeats: int = 2) -> tuple[Sample, list[list[list[float]]]]:
    """A sample in which every label is true, and the probabilities of two runs."""
    draw = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(labels), draw.integers(0, labels, n_rows - labels)])
    sample = Sample(np.repeat(truth, repeats).tolist(), np.repeat(np.arange(n_rows), repeats).tolist(), n_rows, labels)
    runs = [draw.dirichlet(np.full(labels, size), n_rows * repeats).tolist() for size in (0.5, 1.0)]
    return sample, runs


# -- against the formulas, computed by leaving out rows one by one


@pytest.mark.parametrize("seed", range(4))
def test_the_upper_entropy_is_the_code_length_of_each_row_given_the_others(seed: int) -> None:
    labels = 2 + seed
    sample, (run, _) = drawn(seed, labels)
    probabilities = np.array(run).reshape(30, 2, labels)
    expected = []
    for row in range(30):
        others = np.delete(probabilities, row, axis=0).reshape(-1, labels)
        means = (others.sum(axis=0) + 1.0) / (len(others) + labels)  # half a row of two queries
        expected.append(-(probabilities[row] @ np.log(means)).sum() / 60)
    found = ENTROPY.of_run(sample, run)
    assert found.upper_rows == pytest.approx(expected)
    assert found.lower_rows is None  # chance makes the entropy too small, so it is its own lower estimate


@pytest.mark.parametrize("seed", range(4))
def test_the_divergence_has_the_code_length_or_the_entropy_and_the_frequencies_of_other_rows(seed: int) -> None:
    labels = 2 + seed
    sample, runs = drawn(seed, labels)
    truth = np.array(sample.truth).reshape(30, 2)
    probabilities = [np.array(run).reshape(30, 2, labels) for run in runs]
    means = [run.mean(axis=(0, 1)) for run in probabilities]
    frequencies = np.bincount(truth[:, 0]) / 30
    first = probabilities[0]
    expected_lower, expected_upper = [], []
    for row in range(30):
        others = np.delete(first, row, axis=0).reshape(-1, labels)
        means_of_others = (others.sum(axis=0) + 1.0) / (58 + labels)
        labels_of_others = np.bincount(np.delete(truth, row, axis=0).ravel(), minlength=labels)
        frequencies_of_others = (labels_of_others + 1.0) / (58 + labels)
        label = truth[row, 0]
        label_term = 2 * (means[1] - means[0])[label] / 2 / frequencies[label]
        cross_entropy = -(first[row] @ np.log(frequencies_of_others)).sum()
        expected_lower.append(((first[row] @ np.log(means_of_others)).sum() + cross_entropy + label_term) / 60)
        expected_upper.append(((first[row] @ np.log(means[0])).sum() + cross_entropy + label_term) / 60)
    found, _ = both(DIVERGENCE, sample, *runs)
    assert found.lower_rows == pytest.approx(expected_lower)
    assert found.upper_rows == pytest.approx(expected_upper)


def ece_with_signs_of_the_other_half(confidences: np.ndarray, hits: np.ndarray) -> float:
    """The lower estimate of ECE-1 with one query for each row, by NumPy."""
    total = 0.0
    halves = np.arange(len(hits)) % 2
    bins = np.minimum(9, (confidences * 10 + 1e-9).astype(int))
    errors = hits - confidences
    for half in (0, 1):
        elsewhere = np.where(halves == half, 0.0, errors)
        size = max(1, (halves != half).sum())
        deviation = math.sqrt(max(0.0, (elsewhere**2).sum() - elsewhere.sum() ** 2 / size))
        common_sign = 1 if elsewhere.sum() > deviation else -1
        for number in range(10):
            in_bin = np.where(bins == number, elsewhere, 0.0)
            deviation = math.sqrt(max(0.0, (in_bin**2).sum() - in_bin.sum() ** 2 / size))
            sign = np.sign(in_bin.sum()) if abs(in_bin.sum()) > 2 * deviation else common_sign
            total += sign * errors[(halves == half) & (bins == number)].sum()
    return float(total / len(hits))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.55, 0.62, 0.75, 0.88, 0.97]), st.booleans()), min_size=2, max_size=60))
def test_the_lower_ece_has_the_signs_of_the_other_half(rows: list[tuple[float, bool]]) -> None:
    sample = Sample([int(not hit) for _, hit in rows], range(len(rows)), len(rows), 2)
    found = ECE.of_run(sample, [[confidence, 1 - confidence] for confidence, _ in rows])
    confidences = np.array([confidence for confidence, _ in rows])
    hits = np.array([float(hit) for _, hit in rows])
    assert math.fsum(lower(found)) == pytest.approx(ece_with_signs_of_the_other_half(confidences, hits), abs=1e-12)
    assert math.fsum(lower(found)) <= found.value + 1e-12
    assert found.upper_rows is None  # chance makes the error too large, so it is its own upper estimate


# -- the expected value, over all samples of few rows


def expected_value(outcomes: Sequence[float], sums: Sequence[float]) -> float:
    return float(np.dot(outcomes, sums))


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize(("gap", "is_uncertain"), [(1 / 64, True), (1 / 32, False)])
@pytest.mark.parametrize("is_right", [True, False])
def test_the_sign_of_a_bin_is_uncertain_if_one_row_that_the_sample_lacks_could_turn_it(
    queries: int, gap: float, is_uncertain: bool, is_right: bool
) -> None:
    """All rows have the same error, so that their variance is 0. A rare row of wrong queries has the error -queries.

    The error of the bin is 96 times that of a row. It is certain from two standard deviations on, 2 * queries.
    """
    n_rows = 96
    label = 0
    distribution = [1 - gap, gap]
    if not is_right:
        label = 1  # the first of several equal probabilities is predicted
        distribution = [gap] * round(1 / gap)
    rows = np.repeat(range(n_rows), queries).tolist()
    sample = Sample([label] * len(rows), rows, n_rows, len(distribution))
    found = ECE.of_run(sample, [distribution] * len(rows))
    assert found.value == pytest.approx(gap)
    assert bool(found.uncertain_terms) is is_uncertain


@pytest.mark.parametrize("share", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("labels", [2, 3])
def test_the_expected_estimates_of_the_entropy_are_on_both_sides_of_the_true_one(share: float, labels: int) -> None:
    """Exact, over all samples of five rows with certain predictions."""
    population = [1 - share] + [share / (labels - 1)] * (labels - 1)
    true_entropy = -sum(p * math.log(p) for p in population)
    chances, lowers, uppers = [], [], []
    for predicted in product(range(labels), repeat=5):
        found = ENTROPY.of_run(Sample([0] * 5, range(5), 5, labels), np.eye(labels)[list(predicted)].tolist())
        chances.append(math.prod(population[label] for label in predicted))
        lowers.append(math.fsum(lower(found)))
        uppers.append(math.fsum(upper(found)))
    assert expected_value(chances, lowers) < true_entropy < expected_value(chances, uppers)


@pytest.mark.parametrize("accuracies", [(0.55, 0.95), (0.4, 0.6), (0.7, 0.9), (0.9, 0.3)])
def test_the_expected_estimates_of_ece_are_on_both_sides_of_the_true_one(accuracies: tuple[float, float]) -> None:
    """Exact, over all samples of four rows from two bins of equal size, with confidences of 0.55 and 0.95."""
    confidences = (0.55, 0.95)
    true_ece = sum(abs(right - sure) for right, sure in zip(accuracies, confidences, strict=True)) / 2
    chances, lowers, uppers = [], [], []
    for rows in product(product((0, 1), (False, True)), repeat=4):
        runs = [[confidences[number], 1 - confidences[number]] for number, _ in rows]
        found = ECE.of_run(Sample([int(not hit) for _, hit in rows], range(4), 4, 2), runs)
        chances.append(math.prod(0.5 * (accuracies[b] if hit else 1 - accuracies[b]) for b, hit in rows))
        lowers.append(math.fsum(lower(found)))
        uppers.append(math.fsum(upper(found)))
    assert expected_value(chances, lowers) <= true_ece + 1e-12
    assert expected_value(chances, uppers) >= true_ece - 1e-12


def test_the_expected_estimates_of_a_difference_of_divergences_are_on_both_sides_of_the_true_one() -> None:
    """On 100 rows with a label that is true in 1 of 20, over 1,000 samples."""
    draw = np.random.default_rng(3)
    frequencies, mean = np.array([0.55, 0.4, 0.05]), np.array([0.3, 0.5, 0.2])
    true_difference = float(mean @ np.log(mean / frequencies))
    lowers, uppers = [], []
    for _ in range(1000):
        truth = draw.choice(3, 100, p=frequencies)
        if len(set(truth)) < 3:
            continue
        certain = np.eye(3)[draw.choice(3, 100, p=mean)].tolist()
        found = of_pair(
            both(DIVERGENCE, Sample(truth.tolist(), range(100), 100, 3), certain, [frequencies.tolist()] * 100)
        )
        lowers.append(math.fsum(found.tested_steps))
        uppers.append(-math.fsum(found.negated.tested_steps))
    assert np.mean(lowers) < true_difference < np.mean(uppers)


# -- the test of a pair


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), labels=st.integers(2, 4))
def test_p_value_and_interval_agree_and_do_not_depend_on_the_order_of_the_runs(
    key: str, seed: int, labels: int
) -> None:
    sample, runs = drawn(seed, labels)
    found = of_pair(both(STATISTICS[key], sample, *runs))
    swapped = of_pair(both(STATISTICS[key], sample, runs[1], runs[0]))
    p_value = paired.p_value(found)
    assert p_value == pytest.approx(paired.p_value(swapped), rel=1e-6)
    assert p_value == pytest.approx(paired.p_value(found.negated), rel=1e-6)
    interval = paired.difference_interval(found)
    assert interval is not None
    assert interval.low <= found.difference <= interval.high
    if min(abs(interval.low), abs(interval.high)) > 1e-5:
        assert (p_value <= 0.05) == (not interval.low < 0.0 < interval.high)


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
def test_a_run_does_not_differ_from_itself(key: str) -> None:
    sample, (run, _) = drawn(1, 3)
    found = of_pair(both(STATISTICS[key], sample, run, run))
    assert found.difference == 0.0
    assert paired.p_value(found) == 1.0
    assert paired.too_few_rows(found) is None


def test_each_claim_is_tested_with_its_own_steps() -> None:
    plain = paired.PairedDifference(0.3, 0.0, [0.003] * 100, -0.01, 0.01)
    cautious = replace(plain, lower_steps=[0.001] * 100)
    assert paired.upper_p_value(cautious) > paired.upper_p_value(plain)
    assert paired.upper_p_value(cautious.negated) == paired.upper_p_value(plain.negated)
    assert paired.p_value(cautious) == pytest.approx(2 * paired.upper_p_value(cautious))


def test_what_one_more_run_could_do_with_an_unseen_label_is_finite() -> None:
    """A label that no query predicts has half a row in the means of the other rows."""
    sample = Sample([0, 1, 0, 1], range(4), 4, 2)
    lengths = ENTROPY.of_run(sample, [[1.0, 0.0]] * 4).upper_rows
    assert lengths == pytest.approx([-math.log(3.5 / 4) / 4] * 4)


def test_equal_calibration_errors_of_noise_are_called_different_in_at_most_one_of_twenty_samples() -> None:
    """A calibrated run with confidences in nine bins, and one that is always right and sure: both have no error.

    Chance gives the first one an error of about 0.06. A test without regard to this calls it worse in all samples, and
    one with a sign of its own for each bin, from the other half of the rows, in more than one of twenty.
    """
    draw = np.random.default_rng(11)
    called = 0
    for _ in range(150):
        confidences = draw.choice([0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95], 400)
        right = draw.random(400) < confidences
        rest = (1 - confidences) / 9
        # Ten labels; the confidence of label 0 is the largest probability, and another label is true if it is wrong.
        run = np.column_stack([confidences, *[rest] * 9]).tolist()
        sample = Sample(np.where(right, 0, 1).tolist(), range(400), 400, 10)
        sure = np.eye(10)[sample.truth].tolist()
        found = of_pair(both(ECE, sample, run, sure))
        called += paired.too_few_rows(found) is None and paired.p_value(found) <= 0.05
    assert called <= 14  # 0.05 has more with a probability of 0.01


@pytest.mark.parametrize(("rows", "wrong"), [(100, 0.05), (128, 0.1), (100, 0.2), (256, 0.05)])
def test_equal_calibration_errors_of_rare_errors_are_called_different_in_at_most_55_of_1000_samples(
    rows: int, wrong: float
) -> None:
    """The exact size: confidence 1 or 1 - 2 * wrong, so that both errors are the share of wrong rows.

    What a sample says depends on the number of wrong rows in each half.
    """
    half = rows // 2
    likely = stats.binom.ppf([1e-5, 1 - 1e-5], half, wrong).astype(int)
    size = 0.0
    for first, second in product(range(likely[0], likely[1] + 1), repeat=2):
        if first > second:  # the same p-value as with the halves exchanged
            continue
        truth = [0] * rows
        truth[0 : 2 * first : 2] = [1] * first
        truth[1 : 2 * second : 2] = [1] * second
        runs = [[[1.0, 0.0]] * rows, [[1 - 2 * wrong, 2 * wrong]] * rows]
        found = of_pair(both(ECE, Sample(truth, range(rows), rows, 2), *runs))
        if paired.too_few_rows(found) is None and paired.p_value(found) <= 0.05:
            chance = stats.binom.pmf(first, half, wrong) * stats.binom.pmf(second, half, wrong)
            size += float(chance if first == second else 2 * chance)
    assert 0.01 < size <= 0.055


@pytest.mark.parametrize(
    ("rows", "share", "least"), [(128, 0.55, 0.0), (128, 0.6, 0.005), (50, 0.7, 0.005), (250, 0.6, 0.01)]
)
def test_equal_entropies_near_the_uniform_distribution_are_called_different_in_at_most_45_of_1000_samples(
    rows: int, share: float, least: float
) -> None:
    """The exact size: always (share, 1 - share), or certain, with the first label in this share of the rows.

    A mean that is by chance more even than the true one has a larger entropy and hardly any variance.
    """
    likely = stats.binom.ppf([1e-4, 1 - 1e-4], rows, share).astype(int)
    size = 0.0
    for first in range(likely[0], likely[1] + 1):
        runs = [[[share, 1 - share]] * rows, [[1.0, 0.0]] * first + [[0.0, 1.0]] * (rows - first)]
        found = of_pair(both(ENTROPY, Sample([0] * rows, range(rows), rows, 2), *runs))
        if paired.too_few_rows(found) is None and paired.p_value(found) <= 0.05:
            size += float(stats.binom.pmf(first, rows, share))
    assert least <= size <= 0.045


def test_a_mean_that_is_uniform_by_chance_does_not_show_a_larger_entropy() -> None:
    """All its code lengths are log(2), so that they have no variance."""
    certain = [[1.0, 0.0], [0.0, 1.0]] * 64
    sample = Sample([0] * 128, range(128), 128, 2)
    near = of_pair(both(ENTROPY, sample, certain, [[0.55, 0.45]] * 128))
    far = of_pair(both(ENTROPY, sample, certain, [[0.65, 0.35]] * 128))
    assert paired.upper_p_value(near) > 0.05
    assert paired.upper_p_value(far) < 0.025


def test_the_alternatives_are_code_lengths_of_means_up_to_two_standard_errors_less_even() -> None:
    """For two labels and certain predictions, the standard error is that of a share."""
    sample = Sample([0] * 100, range(100), 100, 2)
    found = ENTROPY.of_run(sample, [[1.0, 0.0]] * 60 + [[0.0, 1.0]] * 40)
    means = [0.6 + errors * math.sqrt(0.6 * 0.4 / 100) for errors in (0.5, 1.0, 1.5, 2.0)]
    expected = [[-math.log(mean) / 100] * 60 + [-math.log(1 - mean) / 100] * 40 for mean in means]
    assert [list(rows) for rows in found.lower_alternatives] == [pytest.approx(rows) for rows in expected]
    assert ENTROPY.of_run(sample, [[0.6, 0.4]] * 100).lower_alternatives == ()  # its mean has no error


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
def test_a_run_with_each_query_twice_does_not_differ(key: str) -> None:
    sample, (run, _) = drawn(4, 3, n_rows=40, repeats=1)
    twice = Sample(np.repeat(sample.truth, 2).tolist(), np.repeat(sample.rows, 2).tolist(), 40, 3)
    run_twice = np.repeat(run, 2, axis=0).tolist()
    first = STATISTICS[key].of_run(sample, run, OtherRun(twice, run_twice))
    second = STATISTICS[key].of_run(twice, run_twice, OtherRun(sample, run))
    found = of_pair((first, second))
    assert found.difference == pytest.approx(0.0, abs=1e-12)
    assert found.tested_steps == pytest.approx(of_pair(both(STATISTICS[key], sample, run, run)).tested_steps)
    assert paired.p_value(found) == 1.0
