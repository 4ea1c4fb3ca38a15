"""Balanced accuracy, Matthews correlation, selective prediction and the debiased calibration error: against peers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from StaICC import GLER, Normal, compare
from StaICC.comparing.verdicts import Untested
from StaICC.errors import UndefinedMetricError
from StaICC.metrics import paired_tests
from StaICC.metrics.balanced_accuracy import balanced_accuracy
from StaICC.metrics.confidence_auroc import auroc_confidence
from StaICC.metrics.debiased_calibration_error import debiased_calibration_error
from StaICC.metrics.intervals import Interval, NoInterval, share_of_rows_part
from StaICC.metrics.matthews import matthews
from StaICC.metrics.risk_coverage import aurc
from StaICC.metrics.scores import SCORES, STATISTICS
from StaICC.metrics.statistics import OtherRun, Sample

Inputs = tuple[np.ndarray, np.ndarray]


def random_inputs() -> Iterator[Inputs]:
    """1,000 sets of true labels and probabilities: with ties, certain rows, constant and perfect models."""
    generator = np.random.default_rng(57)
    for number in range(1000):
        width = int(generator.integers(2, 8))
        n_queries = int(generator.integers(1, 70))
        rows = generator.dirichlet(np.full(width, generator.choice([0.1, 1.0, 5.0])), size=n_queries)
        truth = generator.integers(0, width, size=n_queries)
        kind = number % 5
        if kind == 1:  # quarters, so that many confidences are equal
            rows = generator.multinomial(4, np.full(width, 1 / width), size=n_queries) / 4
        elif kind == 2:  # certain predictions
            rows = np.eye(width)[generator.integers(0, width, size=n_queries)]
        elif kind == 3:  # mostly correct
            rows = 0.5 * rows + 0.5 * np.eye(width)[truth]
        if number % 37 == 0:  # a constant prediction
            rows = np.tile(rows[0], (n_queries, 1))
        if number % 41 == 0:  # a single true label
            truth = np.full(n_queries, truth[0])
        yield truth, rows


def value_or_none(metric: Callable[..., float], truth: np.ndarray, rows: np.ndarray) -> float | None:
    """Return the value of a metric of this library; ``None`` if it is undefined."""
    try:
        return metric(truth.tolist(), rows.tolist())
    except UndefinedMetricError:
        return None


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_balanced_accuracy_equals_scikit_learn_on_1000_random_inputs() -> None:
    for truth, rows in random_inputs():
        expected = sklearn_metrics.balanced_accuracy_score(truth, rows.argmax(axis=1))
        assert balanced_accuracy(truth, rows) == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:A single label was found")
def test_matthews_equals_scikit_learn_on_1000_random_inputs() -> None:
    """Undefined is what scikit-learn counts as 0: if all true labels, or all predicted ones, are the same."""
    undefined_count = 0
    for truth, rows in random_inputs():
        predicted = rows.argmax(axis=1)
        expected = sklearn_metrics.matthews_corrcoef(truth, predicted)

        value = value_or_none(matthews, truth, rows)

        if len(set(truth)) == 1 or len(set(predicted)) == 1:
            undefined_count += 1
            assert (value, expected) == (None, 0.0)
        else:
            assert value == pytest.approx(expected, abs=1e-12)
    assert undefined_count > 20


def test_the_auroc_of_confidence_equals_scikit_learn_on_1000_random_inputs() -> None:
    """The AUROC is undefined if all predictions are correct, or all are wrong."""
    undefined_count = 0
    for truth, rows in random_inputs():
        is_correct = rows.argmax(axis=1) == truth

        value = value_or_none(auroc_confidence, truth, rows)

        if is_correct.all() or not is_correct.any():
            undefined_count += 1
            assert value is None
        else:
            expected = sklearn_metrics.roc_auc_score(is_correct, rows.max(axis=1))
            assert value == pytest.approx(expected, abs=1e-12)
    assert undefined_count > 20


def aurc_by_numpy(truth: np.ndarray, rows: np.ndarray) -> float:
    """Return the mean of the risks of the 1, 2, ... most confident predictions.

    Queries of a tie in confidence count as wrong in equal parts.
    """
    confidence = rows.max(axis=1)
    wrong = (rows.argmax(axis=1) != truth).astype(float)
    order = np.argsort(-confidence, kind="stable")
    wrong, confidence = wrong[order], confidence[order]
    for value in np.unique(confidence):
        wrong[confidence == value] = wrong[confidence == value].mean()
    risks = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    return float(risks.mean())


def test_aurc_equals_numpy_on_1000_random_inputs() -> None:
    for truth, rows in random_inputs():
        assert aurc(truth, rows) == pytest.approx(aurc_by_numpy(truth, rows), abs=1e-12)


TIED_TRUTH = [0, 0, 0, 0, 1, 1]
TIED_ROWS = [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [0.5, 0.5]]
"""Four predictions with the confidence 0.75, two of them wrong, and two with 0.5, one of them wrong."""


def test_aurc_is_the_mean_over_all_orders_of_tied_queries() -> None:
    areas = []
    for first_tie in itertools.permutations([0, 0, 1, 1]):
        for second_tie in itertools.permutations([0, 1]):
            risks = np.cumsum([*first_tie, *second_tie]) / np.arange(1, 7)
            areas.append(risks.mean())

    assert aurc(TIED_TRUTH, TIED_ROWS) == pytest.approx(np.mean(areas))


def test_aurc_does_not_depend_on_the_order_of_queries() -> None:
    assert aurc(TIED_TRUTH[::-1], TIED_ROWS[::-1]) == aurc(TIED_TRUTH, TIED_ROWS)


def debiased_by_numpy(truth: np.ndarray, rows: np.ndarray) -> float | None:
    """Return the debiased calibration error in ten bins; ``None`` if no bin has two queries."""
    confidence = rows.max(axis=1)
    correct = (rows.argmax(axis=1) == truth).astype(float)
    edges = np.array([number / 10 for number in range(1, 10)])
    bins = np.digitize(confidence, edges)
    squares = []
    for number in np.unique(bins):
        in_bin = bins == number
        if in_bin.sum() > 1:
            gap = confidence[in_bin].mean() - correct[in_bin].mean()
            variance_of_mean = correct[in_bin].var(ddof=1) / in_bin.sum()
            squares.append(in_bin.mean() * (gap**2 - variance_of_mean))
    return float(np.sqrt(max(0.0, np.sum(squares)))) if squares else None


def test_the_debiased_calibration_error_equals_numpy_on_1000_random_inputs() -> None:
    """Compared are squares, because the root of a rounding error is larger than it."""
    for truth, rows in random_inputs():
        value = value_or_none(debiased_calibration_error, truth, rows)

        expected = debiased_by_numpy(truth, rows)
        if expected is None:
            assert value is None
        else:
            assert value is not None
            assert value**2 == pytest.approx(expected**2, abs=1e-12)


def debiased_square(correct_count: int) -> float:
    """Return the debiased square of the gap, where 40 predictions say 0.75 and so many are correct."""
    accuracy = correct_count / 40
    variance_of_mean = accuracy * (1 - accuracy) / 39
    return (0.75 - accuracy) ** 2 - variance_of_mean


@pytest.mark.parametrize("correct_count", range(41))
def test_the_debiased_calibration_error_is_the_root_of_the_debiased_square(correct_count: int) -> None:
    truth = [0] * correct_count + [1] * (40 - correct_count)

    error = debiased_calibration_error(truth, [[0.75, 0.25]] * 40)

    assert error == pytest.approx(math.sqrt(max(0.0, debiased_square(correct_count))))


def test_the_square_of_the_debiased_calibration_error_has_no_bias() -> None:
    """A model with the accuracy 0.7 says 0.75: the mean of the squares is the true 0.05^2.

    Without the correction, their mean would be 0.0025 + 0.7 * 0.3 / 40 = 0.00775.
    """
    mean_of_squares = 0.0
    for correct_count in range(41):
        probability = math.comb(40, correct_count) * 0.7**correct_count * 0.3 ** (40 - correct_count)
        mean_of_squares += probability * debiased_square(correct_count)

    assert mean_of_squares == pytest.approx(0.05**2)


@pytest.mark.parametrize(
    ("metric", "truth", "rows", "reason"),
    [
        (matthews, [0, 0], [[1.0, 0.0], [0.0, 1.0]], "all 2 queries have the same true label"),
        (matthews, [0, 1], [[1.0, 0.0], [1.0, 0.0]], "all 2 predictions are the same label"),
        (auroc_confidence, [0, 1], [[1.0, 0.0], [0.25, 0.75]], "all 2 predictions are correct"),
        (auroc_confidence, [1, 0], [[1.0, 0.0], [0.25, 0.75]], "all 2 predictions are wrong"),
        (debiased_calibration_error, [0, 1], [[1.0, 0.0], [0.5, 0.5]], "no confidence bin has two queries"),
    ],
)
def test_a_score_is_undefined_with_the_reason(metric: Callable[..., float], truth: Any, rows: Any, reason: str) -> None:
    with pytest.raises(UndefinedMetricError, match=reason):
        metric(truth, rows)


# -- interval and test of the Matthews correlation


def random_labels(n_queries: int, n_labels: int, seed: int, accuracy: float = 0.7) -> tuple[list[int], list[int]]:
    """Return true and predicted labels; wrong predictions are random labels."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, n_labels, n_queries)
    predictions = np.where(generator.random(n_queries) < accuracy, truth, generator.integers(0, n_labels, n_queries))
    return truth.tolist(), predictions.tolist()


def matthews_by_scikit_learn(truth: list[int], predictions: list[int]) -> float:
    return float(sklearn_metrics.matthews_corrcoef(truth, predictions))


def test_the_influence_of_a_row_on_the_matthews_correlation_is_the_change_if_the_row_is_there_twice() -> None:
    n_rows = 3000
    truth, predictions = random_labels(n_rows, 4, seed=1)
    value = matthews_by_scikit_learn(truth, predictions)

    influences = STATISTICS["matthews"].of_run(Sample(truth, range(n_rows), n_rows, 4), predictions).rows

    assert math.fsum(influences) == pytest.approx(0.0, abs=1e-9)
    for row in range(0, n_rows, 100):
        change = matthews_by_scikit_learn([*truth, truth[row]], [*predictions, predictions[row]]) - value
        assert n_rows * change == pytest.approx(n_rows * influences[row], abs=0.01), row


def test_with_two_equally_common_labels_the_matthews_correlation_has_the_interval_of_the_accuracy() -> None:
    """If also both predictions are equally common, ``MCC = 2 accuracy - 1``."""
    truth = [0] * 40 + [1] * 40
    predictions = [1] * 6 + [0] * 34 + [0] * 6 + [1] * 34
    sample = Sample(truth, range(80), 80, 2)

    interval = STATISTICS["matthews"].interval(sample, predictions, 0.95)

    of_accuracy = STATISTICS["accuracy"].interval(sample, predictions, 0.95)
    assert isinstance(interval, Interval)
    assert isinstance(of_accuracy, Interval)
    assert interval.low == pytest.approx(2 * of_accuracy.low - 1)
    assert interval.high == pytest.approx(2 * of_accuracy.high - 1)


EQUALLY_COMMON = [0] * 20 + [1] * 20
"""The variance is 1 - (1/2)^2 - (1/2)^2 = 1/2."""
UNEQUALLY_COMMON = [0] * 18 + [1] * 10 + [0] * 12
"""The variance is 1 - (3/4)^2 - (1/4)^2 = 3/8."""


@pytest.mark.parametrize(
    ("truth", "predictions"),
    [(EQUALLY_COMMON, UNEQUALLY_COMMON), (UNEQUALLY_COMMON, EQUALLY_COMMON)],
    ids=["predicted labels", "true labels"],
)
def test_the_interval_of_the_matthews_correlation_is_that_of_as_many_rows_as_the_smaller_variance_says(
    truth: list[int], predictions: list[int]
) -> None:
    """It is a share of 2 n T = 2 * 40 * 3/8 = 30 rows, whether the true or the predicted labels vary less."""
    statistic, sample = STATISTICS["matthews"], Sample(truth, range(40), 40, 2)
    half_influences = [influence / 2 for influence in statistic.of_run(sample, predictions).rows]
    half_value = (1 + matthews_by_scikit_learn(truth, predictions)) / 2

    found = statistic.part(sample, predictions, 0.95)

    expected = share_of_rows_part(half_value, half_influences, 30, 0.95).scaled(2)
    assert (found.below, found.above) == pytest.approx((expected.below, expected.above))


def test_the_interval_of_a_negative_matthews_correlation_is_that_of_the_opposite_predictions() -> None:
    truth, predictions = random_labels(60, 2, seed=3)
    opposite = [1 - guess for guess in predictions]
    sample = Sample(truth, range(60), 60, 2)

    interval = STATISTICS["matthews"].interval(sample, predictions, 0.95)
    of_opposite = STATISTICS["matthews"].interval(sample, opposite, 0.95)

    assert isinstance(interval, Interval)
    assert isinstance(of_opposite, Interval)
    assert of_opposite.low < 0.0
    assert (of_opposite.low, of_opposite.high) == pytest.approx((-interval.high, -interval.low))


@pytest.mark.parametrize(
    ("truth", "predictions", "reason"),
    [
        ([1] * 4 + [0] * 36, [1] * 9 + [0] * 31, "4 test rows have another true label than the most common one"),
        ([1] * 9 + [0] * 31, [1] * 4 + [0] * 36, "4 test rows have another prediction than the most common one"),
    ],
)
def test_the_matthews_correlation_has_no_interval_if_few_rows_differ(
    truth: list[int], predictions: list[int], reason: str
) -> None:
    withheld = STATISTICS["matthews"].interval(Sample(truth, range(40), 40, 2), predictions, 0.95)

    assert isinstance(withheld, NoInterval)
    assert withheld.reason.startswith(reason)


def slope_intervals_of_a_model_that_predicts_one_label(metrics: str, other_label_in: int) -> Mapping[str, Interval]:
    """Return the intervals of the slopes of GLER on 60 rows, of a model that predicts another label a few times.

    Args:
        metrics: The metrics.
        other_label_in: In how many of the first queries the model predicts the second label.
    """
    query_number = itertools.count()

    def model(prompt: str, label_space: list[str]) -> list[float]:
        likely = 1 if next(query_number) < other_label_in else 0
        return [0.8 if label == likely else 0.1 for label in range(3)]

    result = GLER(datasets=["mini"], limit=60, metrics=metrics)(model)
    return result.details["mini"].intervals


@pytest.mark.parametrize("other_label_in", [0, 2], ids=["undefined correlation", "too few other rows"])
def test_a_matthews_correlation_without_a_slope_takes_no_interval_from_other_slopes(other_label_in: int) -> None:
    expected = slope_intervals_of_a_model_that_predicts_one_label("standard", other_label_in)

    found = slope_intervals_of_a_model_that_predicts_one_label("standard+matthews", other_label_in)

    assert found == expected
    assert "sensitivity.accuracy" in found


@pytest.mark.parametrize("n_labels", [3, 4], ids=["all labels occur", "a label does not occur"])
def test_one_more_row_changes_the_matthews_correlation_as_much_as_said(n_labels: int) -> None:
    """Rows have two queries. The fourth label is in the data set, but no row has it, and it is never predicted."""
    truth, predictions = random_labels(60, 3, seed=4)
    rows = [index // 2 for index in range(60)]

    found = STATISTICS["matthews"].of_run(Sample(truth, rows, 30, n_labels), predictions)

    values_after_row = []
    for label in range(n_labels):
        for guess in range(n_labels):
            values_after_row.append(matthews_by_scikit_learn([*truth, label, label], [*predictions, guess, guess]))
    assert found.lowest_after_row == pytest.approx(min(values_after_row), abs=1e-12)
    assert found.highest_after_row == pytest.approx(max(values_after_row), abs=1e-12)


def matthews_difference(
    truth: list[int], first: list[int], second: list[int], n_labels: int
) -> paired_tests.PairedDifference:
    sample = Sample(truth, range(len(truth)), len(truth), n_labels)
    statistic = STATISTICS["matthews"]
    of_first = statistic.of_run(sample, first, OtherRun(sample, second))
    of_second = statistic.of_run(sample, second, OtherRun(sample, first))
    return paired_tests.paired_difference([(1.0, of_first)], [(1.0, of_second)])


def test_the_influences_on_a_matthews_correlation_do_not_depend_on_the_other_run() -> None:
    """Influences at the mean of both runs are too small if the runs predict the labels with different frequencies."""
    truth, first = random_labels(60, 3, seed=5)
    sample = Sample(truth, range(60), 60, 3)
    always_nearly_the_first = OtherRun(sample, [0] * 55 + [1] * 5)
    statistic = STATISTICS["matthews"]

    assert statistic.of_run(sample, first, always_nearly_the_first).rows == statistic.of_run(sample, first).rows


def test_a_better_matthews_correlation_is_found_in_both_orders() -> None:
    truth, weak = random_labels(200, 3, seed=6, accuracy=0.5)
    strong = [label if index % 4 else guess for index, (label, guess) in enumerate(zip(truth, weak, strict=True))]

    difference = matthews_difference(truth, strong, weak, 3)

    assert difference.difference > 0.0
    assert paired_tests.p_value(difference) < 0.001
    assert paired_tests.p_value(difference.negated) == pytest.approx(paired_tests.p_value(difference))


def test_runs_with_the_same_matthews_correlation_are_rarely_called_different() -> None:
    """One run misses 40 % of a label on 10 % of the rows, the other one invents it as often as costs the same."""
    generator = np.random.default_rng(7)
    invented_rate = 2 / 29  # both have the correlation 0.758
    rejected_count = 0
    covered_count = 0

    for _ in range(200):
        truth = (generator.random(128) < 0.1).astype(int)
        missing = np.where(generator.random(128) < 0.4, 0, truth)
        inventing = np.where(generator.random(128) < invented_rate, 1, truth)
        difference = matthews_difference(truth.tolist(), missing.tolist(), inventing.tolist(), 2)
        is_tested = paired_tests.too_few_rows(difference) is None
        rejected_count += is_tested and paired_tests.p_value(difference) <= 0.05
        interval = paired_tests.difference_interval(difference)
        assert interval is not None
        covered_count += interval.low <= 0.0 <= interval.high
    assert rejected_count <= 0.055 * 200
    assert covered_count >= 0.94 * 200


# -- intervals and tests of other scores


def sample_with_wrong(wrong_count: int) -> tuple[Sample, list[list[float]]]:
    """Return a sample of 40 rows and their probabilities: label 0 is predicted, and so many predictions are wrong.

    The wrong ones have the lowest confidences, except for the first row, which has the highest.
    """
    truth = [1] * wrong_count + [0] * (40 - wrong_count)
    rows = [[0.6 + row / 200, 0.4 - row / 200] for row in range(40)]
    rows[0] = [0.95, 0.05]
    return Sample(truth, range(40), 40, 2), rows


def test_the_auroc_of_confidence_has_an_interval_if_five_rows_are_wrong() -> None:
    sample, rows = sample_with_wrong(5)

    interval = STATISTICS["auroc_confidence"].interval(sample, rows, 0.95)

    assert isinstance(interval, Interval)
    assert interval.low < auroc_confidence(sample.truth, rows) < interval.high


@pytest.mark.parametrize(
    ("wrong_count", "reason"),
    [(4, "4 test rows have a wrong prediction, expected 5"), (0, "all 40 predictions are correct")],
)
def test_the_auroc_of_confidence_has_no_interval_if_fewer_rows_are_wrong(wrong_count: int, reason: str) -> None:
    sample, rows = sample_with_wrong(wrong_count)

    withheld = STATISTICS["auroc_confidence"].interval(sample, rows, 0.95)

    assert isinstance(withheld, NoInterval)
    assert withheld.reason.startswith(reason)


@pytest.mark.parametrize("key", ["auroc_confidence", "aurc"])
def test_the_influence_of_a_row_is_the_change_of_the_metric_if_the_row_is_there_twice(key: str) -> None:
    n_rows = 2000
    generator = np.random.default_rng(5)
    confidences = 0.5 + generator.random(n_rows) / 2
    truth = (generator.random(n_rows) > confidences).astype(int).tolist()
    rows = [[confidence, 1 - confidence] for confidence in confidences.tolist()]
    metric = SCORES[key].metric
    assert metric is not None

    influences = STATISTICS[key].of_run(Sample(truth, range(n_rows), n_rows, 2), rows).rows

    assert math.fsum(influences) == pytest.approx(0.0, abs=1e-9)
    for row in range(0, n_rows, 100):
        change = metric([*truth, truth[row]], [*rows, rows[row]]) - metric(truth, rows)
        assert n_rows * change == pytest.approx(n_rows * influences[row], abs=0.01), row


def test_a_metric_without_a_test_has_values_and_the_reason_in_a_comparison() -> None:
    key = "debiased_calibration_error"

    def often_the_first(prompt: str, label_space: list[str]) -> list[float]:
        return [0.5, 0.3, 0.2] if len(prompt) % 3 else [0.2, 0.3, 0.5]

    def often_the_last(prompt: str, label_space: list[str]) -> list[float]:
        return [0.2, 0.3, 0.5] if len(prompt) % 3 else [0.5, 0.3, 0.2]

    benchmark = Normal(datasets=["mini"], limit=12, metrics=f"standard+{key}")
    first, second = benchmark(often_the_first), benchmark(often_the_last)

    overall = compare(first, second, key).overall

    assert overall.values == pytest.approx((first.averaged[key], second.averaged[key]))
    assert isinstance(overall.outcome, Untested)
    assert overall.outcome.reason.startswith("debiased CE has no test")
    assert "interval of debiased CE is undefined" in str(first)


@pytest.mark.parametrize(("key", "higher_is_better"), [("auroc_confidence", True), ("aurc", False)])
def test_selective_prediction_is_tested_in_both_directions(key: str, higher_is_better: bool) -> None:
    """The confidence of a model orders its predictions perfectly, that of the other one in the opposite order."""
    truth = [0] * 60 + [1] * 40
    informative = [[0.9 - row / 250, 0.1 + row / 250] for row in range(100)]
    opposite = informative[::-1]
    sample = Sample(truth, range(100), 100, 2)
    of_informative = STATISTICS[key].of_run(sample, informative)
    of_opposite = STATISTICS[key].of_run(sample, opposite)

    difference = paired_tests.paired_difference([(1.0, of_informative)], [(1.0, of_opposite)])

    assert (difference.difference > 0.0) is higher_is_better
    assert paired_tests.p_value(difference) < 0.01
    assert paired_tests.p_value(difference.negated) == pytest.approx(paired_tests.p_value(difference))
