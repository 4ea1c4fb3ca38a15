"""Estimates of ECE-1, entropy and divergence that are too small or too large on purpose, one for each claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from StaICC.metrics import paired_tests as paired
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Contributions, OtherRun, Sample
from tests.performance.skewed_nulls import contributions_of_two_runs, difference_of_contributions

ECE = STATISTICS["expected_calibration_error_1"]
ENTROPY = STATISTICS["entropy"]
DIVERGENCE = STATISTICS["DL div."]


def lower(contributions: Contributions) -> list[float]:
    """The contributions for the claim that the run has the larger value."""
    return list(contributions.rows if contributions.lower_rows is None else contributions.lower_rows)


def upper(contributions: Contributions) -> list[float]:
    """The contributions for the claim that the run has the smaller value."""
    return list(contributions.rows if contributions.upper_rows is None else contributions.upper_rows)


def difference_of_runs(statistic: Any, sample: Sample, first_run: Any, second_run: Any) -> paired.PairedDifference:
    return difference_of_contributions(contributions_of_two_runs(statistic, sample, first_run, second_run))


def drawn(seed: int, labels: int, n_rows: int = 30, repeats: int = 2) -> tuple[Sample, list[list[list[float]]]]:
    """Return a sample in which every label is true, and the probabilities of two runs on it.

    A sample has the true label and the row of each query: ``repeats`` queries for each of ``n_rows`` rows.
    """
    draw = np.random.default_rng(seed)
    true_labels = np.concatenate([np.arange(labels), draw.integers(0, labels, n_rows - labels)])
    rows = np.arange(n_rows)
    sample = Sample(np.repeat(true_labels, repeats).tolist(), np.repeat(rows, repeats).tolist(), n_rows, labels)
    sharp_run = draw.dirichlet(np.full(labels, 0.5), n_rows * repeats).tolist()
    flat_run = draw.dirichlet(np.full(labels, 1.0), n_rows * repeats).tolist()
    return sample, [sharp_run, flat_run]


# -- against the formulas, computed by leaving out rows one by one


def smoothed_shares(counts: np.ndarray) -> np.ndarray:
    """Return the shares of labels if each label occurs once more than counted: half a row of two queries."""
    return (counts + 1.0) / (counts + 1.0).sum()


@pytest.mark.parametrize("labels", [2, 3, 4, 5])
def test_the_upper_entropy_is_the_code_length_of_each_row_given_the_others(labels: int) -> None:
    """The code length of a row: the sum of -probability * log(mean of the other rows) over its two queries."""
    sample, (run, _) = drawn(seed=labels, labels=labels)

    contributions = ENTROPY.of_run(sample, run)

    probabilities = np.array(run).reshape(30, 2, labels)  # of 30 rows with two queries each
    expected = []
    for row in range(30):
        sum_of_others = np.delete(probabilities, row, axis=0).sum(axis=(0, 1))
        code_length = -(probabilities[row] @ np.log(smoothed_shares(sum_of_others))).sum()
        expected.append(code_length / 60)
    assert contributions.upper_rows == pytest.approx(expected)
    assert contributions.lower_rows is None  # chance makes the entropy too small, so it is its own lower estimate


@pytest.mark.parametrize("labels", [2, 3, 4, 5])
def test_the_divergence_has_the_code_length_or_the_entropy_and_the_frequencies_of_other_rows(labels: int) -> None:
    """The divergence of predictions p from frequencies f is the cross entropy -p log f minus the entropy -p log p.

    The lower estimate has the code length in place of the entropy, the upper one the entropy itself. Both have the
    frequencies of the other rows, and the influence that the true label of the row has by way of the frequencies.
    """
    sample, (run, other_run) = drawn(seed=labels, labels=labels)

    contributions, _ = contributions_of_two_runs(DIVERGENCE, sample, run, other_run)

    probabilities = np.array(run).reshape(30, 2, labels)  # of 30 rows with two queries each
    mean = np.mean(run, axis=0)
    mean_of_other_run = np.mean(other_run, axis=0)
    true_labels = np.array(sample.truth).reshape(30, 2)
    frequencies = np.bincount(sample.truth) / 60
    expected_lower, expected_upper = [], []
    for row in range(30):
        sum_of_others = np.delete(probabilities, row, axis=0).sum(axis=(0, 1))
        labels_of_others = np.bincount(np.delete(true_labels, row, axis=0).ravel(), minlength=labels)
        code_length = -(probabilities[row] @ np.log(smoothed_shares(sum_of_others))).sum()
        entropy = -(probabilities[row] @ np.log(mean)).sum()
        cross_entropy = -(probabilities[row] @ np.log(smoothed_shares(labels_of_others))).sum()
        label = true_labels[row, 0]
        influence_of_the_label = (mean_of_other_run - mean)[label] / frequencies[label]
        expected_lower.append((cross_entropy - code_length + influence_of_the_label) / 60)
        expected_upper.append((cross_entropy - entropy + influence_of_the_label) / 60)
    assert contributions.lower_rows == pytest.approx(expected_lower)
    assert contributions.upper_rows == pytest.approx(expected_upper)


def deviation_of_a_sum(values: np.ndarray) -> float:
    """Return the standard deviation of a sum, as the variance of its terms times their number."""
    return math.sqrt(max(0.0, (values**2).sum() - values.sum() ** 2 / max(1, len(values))))


def ece_with_signs_of_the_other_half(confidences: np.ndarray, hits: np.ndarray) -> float:
    """Return the lower estimate of ECE-1 with one query for each row, by NumPy.

    Rows with even and odd numbers are halves. A bin of one half has the sign of the sum of errors of the same bin in
    the other half, if that is more than two standard deviations from 0, else the sign of the whole other half.
    """
    errors = hits - confidences
    bins = np.minimum(9, (confidences * 10 + 1e-9).astype(int))
    halves = np.arange(len(hits)) % 2
    total = 0.0
    for half in (0, 1):
        other_errors = errors[halves != half]
        other_bins = bins[halves != half]
        common_sign = 1 if other_errors.sum() > deviation_of_a_sum(other_errors) else -1
        for number in range(10):
            in_other_half = np.where(other_bins == number, other_errors, 0.0)
            sign = common_sign
            if abs(in_other_half.sum()) > 2 * deviation_of_a_sum(in_other_half):
                sign = np.sign(in_other_half.sum())
            total += sign * errors[(halves == half) & (bins == number)].sum()
    return float(total / len(hits))


ROWS_OF_FIVE_BINS = st.lists(
    st.tuples(st.sampled_from([0.55, 0.62, 0.75, 0.88, 0.97]), st.booleans()), min_size=2, max_size=60
)
"""Confidence in label 0 and whether it is the true one, for each row."""


@settings(max_examples=100, deadline=None)
@given(ROWS_OF_FIVE_BINS)
def test_the_lower_ece_has_the_signs_of_the_other_half(rows: list[tuple[float, bool]]) -> None:
    true_labels = [0 if hit else 1 for _, hit in rows]
    sample = Sample(true_labels, range(len(rows)), len(rows), 2)
    contributions = ECE.of_run(sample, [[confidence, 1 - confidence] for confidence, _ in rows])

    lower_ece = math.fsum(lower(contributions))

    confidences = np.array([confidence for confidence, _ in rows])
    hits = np.array([float(hit) for _, hit in rows])
    assert lower_ece == pytest.approx(ece_with_signs_of_the_other_half(confidences, hits), abs=1e-12)
    assert lower_ece <= contributions.value + 1e-12
    assert contributions.upper_rows is None  # chance makes the error too large, so it is its own upper estimate


# -- the expected value, over all samples of few rows


def expected_value(chances: Sequence[float], values: Sequence[float]) -> float:
    """Return the sum of values times their chances."""
    return float(np.dot(chances, values))


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
    if is_right:
        true_label = 0
        distribution = [1 - gap, gap]
    else:
        true_label = 1  # the first of several equal probabilities is predicted
        distribution = [gap] * round(1 / gap)
    rows = np.repeat(range(n_rows), queries).tolist()
    sample = Sample([true_label] * len(rows), rows, n_rows, len(distribution))

    contributions = ECE.of_run(sample, [distribution] * len(rows))

    assert contributions.value == pytest.approx(gap)
    assert bool(contributions.uncertain_terms) is is_uncertain


@pytest.mark.parametrize("share", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("labels", [2, 3])
def test_the_expected_estimates_of_the_entropy_are_on_both_sides_of_the_true_one(share: float, labels: int) -> None:
    """Exact, over all samples of five rows with certain predictions."""
    chance_of_label = [1 - share] + [share / (labels - 1)] * (labels - 1)
    true_entropy = -sum(chance * math.log(chance) for chance in chance_of_label)
    certain_of_label = np.eye(labels)

    chances, lowers, uppers = [], [], []
    for predicted in product(range(labels), repeat=5):
        run = certain_of_label[list(predicted)].tolist()
        contributions = ENTROPY.of_run(Sample([0] * 5, range(5), 5, labels), run)
        chances.append(math.prod(chance_of_label[label] for label in predicted))
        lowers.append(math.fsum(lower(contributions)))
        uppers.append(math.fsum(upper(contributions)))

    assert expected_value(chances, lowers) < true_entropy < expected_value(chances, uppers)


@pytest.mark.parametrize("accuracies", [(0.55, 0.95), (0.4, 0.6), (0.7, 0.9), (0.9, 0.3)])
def test_the_expected_estimates_of_ece_are_on_both_sides_of_the_true_one(accuracies: tuple[float, float]) -> None:
    """Exact, over all samples of four rows, half of them with a confidence of 0.55 and half with one of 0.95."""
    unsure, sure = accuracies
    true_ece = (abs(unsure - 0.55) + abs(sure - 0.95)) / 2
    # A row has its confidence in label 0, and 0 as the true label if it is right. The chances of a row sum to 1.
    chance_of_row = {
        (0.55, 0): 0.5 * unsure,
        (0.55, 1): 0.5 * (1 - unsure),
        (0.95, 0): 0.5 * sure,
        (0.95, 1): 0.5 * (1 - sure),
    }

    chances, lowers, uppers = [], [], []
    for rows in product(chance_of_row, repeat=4):
        run = [[confidence, 1 - confidence] for confidence, _ in rows]
        true_labels = [true_label for _, true_label in rows]
        contributions = ECE.of_run(Sample(true_labels, range(4), 4, 2), run)
        chances.append(math.prod(chance_of_row[row] for row in rows))
        lowers.append(math.fsum(lower(contributions)))
        uppers.append(math.fsum(upper(contributions)))

    assert expected_value(chances, lowers) <= true_ece + 1e-12
    assert expected_value(chances, uppers) >= true_ece - 1e-12


def test_the_expected_estimates_of_a_difference_of_divergences_are_on_both_sides_of_the_true_one() -> None:
    """On 100 rows with a label that is true in 1 of 20, over 1,000 samples; the second run has a divergence of 0."""
    draw = np.random.default_rng(3)
    frequencies, mean = np.array([0.55, 0.4, 0.05]), np.array([0.3, 0.5, 0.2])
    true_difference = float(mean @ np.log(mean / frequencies))
    certain_of_label = np.eye(3)

    lowers, uppers = [], []
    for _ in range(1000):
        true_labels = draw.choice(3, 100, p=frequencies)
        if len(set(true_labels)) < 3:
            continue
        sample = Sample(true_labels.tolist(), range(100), 100, 3)
        certain_run = certain_of_label[draw.choice(3, 100, p=mean)].tolist()
        run_without_divergence = [frequencies.tolist()] * 100
        difference = difference_of_runs(DIVERGENCE, sample, certain_run, run_without_divergence)
        lowers.append(math.fsum(difference.tested_steps))
        uppers.append(-math.fsum(difference.negated.tested_steps))

    assert np.mean(lowers) < true_difference < np.mean(uppers)


# -- the test of a pair


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), labels=st.integers(2, 4))
def test_the_p_value_does_not_depend_on_the_order_of_the_runs(key: str, seed: int, labels: int) -> None:
    sample, (first_run, second_run) = drawn(seed, labels)

    difference = difference_of_runs(STATISTICS[key], sample, first_run, second_run)
    difference_of_swapped_runs = difference_of_runs(STATISTICS[key], sample, second_run, first_run)

    p_value = paired.p_value(difference)
    assert p_value == pytest.approx(paired.p_value(difference_of_swapped_runs), rel=1e-6)
    assert p_value == pytest.approx(paired.p_value(difference.negated), rel=1e-6)


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), labels=st.integers(2, 4))
def test_the_interval_lacks_zero_if_the_difference_is_significant(key: str, seed: int, labels: int) -> None:
    """Bounds within 1e-5 of zero are left out: there, rounding decides."""
    sample, (first_run, second_run) = drawn(seed, labels)
    difference = difference_of_runs(STATISTICS[key], sample, first_run, second_run)

    interval = paired.difference_interval(difference)

    assert interval is not None
    assert interval.low <= difference.difference <= interval.high
    if min(abs(interval.low), abs(interval.high)) > 1e-5:
        has_zero = interval.low < 0.0 < interval.high
        assert (paired.p_value(difference) <= 0.05) is not has_zero


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
def test_a_run_does_not_differ_from_itself(key: str) -> None:
    sample, (run, _) = drawn(1, 3)

    difference = difference_of_runs(STATISTICS[key], sample, run, run)

    assert difference.difference == 0.0
    assert paired.p_value(difference) == 1.0
    assert paired.too_few_rows(difference) is None


def test_each_claim_is_tested_with_its_own_steps() -> None:
    """Only the claim that the first run has the larger value is tested with the lower steps."""
    without_lower_steps = paired.PairedDifference(0.3, 0.0, [0.003] * 100, -0.01, 0.01)
    with_lower_steps = replace(without_lower_steps, lower_steps=[0.001] * 100)

    p_first_larger = paired.upper_p_value(with_lower_steps)
    p_second_larger = paired.upper_p_value(with_lower_steps.negated)

    assert p_first_larger > paired.upper_p_value(without_lower_steps)
    assert p_second_larger == paired.upper_p_value(without_lower_steps.negated)
    assert paired.p_value(with_lower_steps) == pytest.approx(2 * p_first_larger)


def test_the_code_length_of_a_label_that_no_other_row_predicts_is_finite() -> None:
    """Each of two labels has half a row more in the mean of the three other rows, all of which predict label 0."""
    sample = Sample([0, 1, 0, 1], range(4), 4, 2)
    always_label_0 = [[1.0, 0.0]] * 4

    code_lengths = ENTROPY.of_run(sample, always_label_0).upper_rows

    mean_of_others = (3 + 0.5) / (3 + 0.5 + 0.5)
    assert code_lengths == pytest.approx([-math.log(mean_of_others) / 4] * 4)


def test_equal_calibration_errors_of_noise_are_called_different_in_at_most_one_of_twenty_samples() -> None:
    """A calibrated run with confidences in nine bins, and one that is always right and sure: both have no error.

    Chance gives the first one an error of about 0.06. A test without regard to this calls it worse in all samples, and
    one with a sign of its own for each bin, from the other half of the rows, in more than one of twenty.
    """
    draw = np.random.default_rng(11)
    significant_samples = 0
    for _ in range(150):
        # Ten labels: label 0 has the largest probability, and label 1 is true where label 0 is wrong.
        confidences = draw.choice([0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95], 400)
        is_right = draw.random(400) < confidences
        sample = Sample(np.where(is_right, 0, 1).tolist(), range(400), 400, 10)
        calibrated_run = np.repeat((1 - confidences)[:, np.newaxis] / 9, 10, axis=1)
        calibrated_run[:, 0] = confidences
        always_right_run = np.eye(10)[sample.truth]
        if is_significant(ECE, sample, calibrated_run.tolist(), always_right_run.tolist()):
            significant_samples += 1
    assert significant_samples <= 14  # a test of size 0.05 has more with a probability of 0.01


def is_significant(statistic: Any, sample: Sample, first_run: Any, second_run: Any) -> bool:
    """Return whether two runs on one sample are called different at the level 0.05."""
    difference = difference_of_runs(statistic, sample, first_run, second_run)
    return paired.too_few_rows(difference) is None and paired.p_value(difference) <= 0.05


@pytest.mark.parametrize(("rows", "wrong"), [(100, 0.05), (128, 0.1), (100, 0.2), (256, 0.05)])
def test_equal_calibration_errors_of_rare_errors_are_called_different_in_at_most_55_of_1000_samples(
    rows: int, wrong: float
) -> None:
    """The exact size: confidence 1 or 1 - 2 * wrong, so that both errors are the share of wrong rows.

    What a sample says depends on the number of wrong rows in each half, which are the even and the odd rows.
    """
    rows_of_half = rows // 2
    fewest, most = stats.binom.ppf([1e-5, 1 - 1e-5], rows_of_half, wrong).astype(int)
    sure_run = [[1.0, 0.0]] * rows
    unsure_run = [[1 - 2 * wrong, 2 * wrong]] * rows
    size = 0.0
    for wrong_in_first, wrong_in_second in combinations_with_replacement(range(fewest, most + 1), 2):
        true_labels = [0] * rows
        true_labels[0 : 2 * wrong_in_first : 2] = [1] * wrong_in_first
        true_labels[1 : 2 * wrong_in_second : 2] = [1] * wrong_in_second
        if is_significant(ECE, Sample(true_labels, range(rows), rows, 2), sure_run, unsure_run):
            chances = stats.binom.pmf([wrong_in_first, wrong_in_second], rows_of_half, wrong)
            size += math.prod(chances)
            if wrong_in_first != wrong_in_second:
                size += math.prod(chances)  # the halves exchanged, which have the same p-value
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
    fewest, most = stats.binom.ppf([1e-4, 1 - 1e-4], rows, share).astype(int)
    sample = Sample([0] * rows, range(rows), rows, 2)
    constant_run = [[share, 1 - share]] * rows
    size = 0.0
    for first_label_rows in range(fewest, most + 1):
        certain_run = [[1.0, 0.0]] * first_label_rows + [[0.0, 1.0]] * (rows - first_label_rows)
        if is_significant(ENTROPY, sample, constant_run, certain_run):
            size += float(stats.binom.pmf(first_label_rows, rows, share))
    assert least <= size <= 0.045


def test_a_mean_that_is_uniform_by_chance_does_not_show_a_larger_entropy() -> None:
    """All its code lengths are log(2), so that they have no variance."""
    sample = Sample([0] * 128, range(128), 128, 2)
    uniform_by_chance = [[1.0, 0.0], [0.0, 1.0]] * 64
    nearly_uniform = [[0.55, 0.45]] * 128
    less_uniform = [[0.65, 0.35]] * 128

    from_nearly_uniform = difference_of_runs(ENTROPY, sample, uniform_by_chance, nearly_uniform)
    from_less_uniform = difference_of_runs(ENTROPY, sample, uniform_by_chance, less_uniform)

    assert paired.upper_p_value(from_nearly_uniform) > 0.05
    assert paired.upper_p_value(from_less_uniform) < 0.025


def test_the_alternatives_are_code_lengths_of_means_up_to_two_standard_errors_less_even() -> None:
    """For two labels and certain predictions, the standard error is that of a share."""
    sample = Sample([0] * 100, range(100), 100, 2)
    standard_error = math.sqrt(0.6 * 0.4 / 100)
    expected = []
    for standard_errors in (0.5, 1.0, 1.5, 2.0):
        mean = 0.6 + standard_errors * standard_error
        expected.append([-math.log(mean) / 100] * 60 + [-math.log(1 - mean) / 100] * 40)

    contributions = ENTROPY.of_run(sample, [[1.0, 0.0]] * 60 + [[0.0, 1.0]] * 40)

    assert np.array(contributions.lower_alternatives) == pytest.approx(np.array(expected))


def test_a_mean_without_error_has_no_alternatives() -> None:
    sample = Sample([0] * 100, range(100), 100, 2)
    equal_predictions = [[0.6, 0.4]] * 100

    assert ENTROPY.of_run(sample, equal_predictions).lower_alternatives == ()


@pytest.mark.parametrize("key", ["expected_calibration_error_1", "entropy", "DL div."])
def test_a_run_with_each_query_twice_does_not_differ(key: str) -> None:
    statistic = STATISTICS[key]
    sample, (run, _) = drawn(seed=4, labels=3, n_rows=40, repeats=1)
    sample_twice = Sample(np.repeat(sample.truth, 2).tolist(), np.repeat(sample.rows, 2).tolist(), 40, 3)
    run_twice = np.repeat(run, 2, axis=0).tolist()

    once = statistic.of_run(sample, run, OtherRun(sample_twice, run_twice))
    twice = statistic.of_run(sample_twice, run_twice, OtherRun(sample, run))
    difference = difference_of_contributions((once, twice))

    assert difference.difference == pytest.approx(0.0, abs=1e-12)
    difference_from_itself = difference_of_runs(statistic, sample, run, run)
    assert difference.tested_steps == pytest.approx(difference_from_itself.tested_steps)
    assert paired.p_value(difference) == 1.0
