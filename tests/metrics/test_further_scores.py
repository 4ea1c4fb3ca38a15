"""Balanced accuracy, Matthews correlation, selective prediction and the debiased calibration error: against peers."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from StaICC import Normal, compare
from StaICC.comparing.verdicts import Untested
from StaICC.errors import UndefinedMetricError
from StaICC.metrics import paired_tests
from StaICC.metrics.balanced_accuracy import balanced_accuracy
from StaICC.metrics.confidence_auroc import auroc_confidence
from StaICC.metrics.debiased_calibration_error import debiased_calibration_error
from StaICC.metrics.intervals import Interval, NoInterval
from StaICC.metrics.matthews import matthews
from StaICC.metrics.risk_coverage import aurc
from StaICC.metrics.scores import SCORES, STATISTICS
from StaICC.metrics.statistics import Sample

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


def of_numpy(metric: Callable[..., float], truth: np.ndarray, rows: np.ndarray) -> float | None:
    """The value of a metric of this library; ``None`` if it is undefined."""
    try:
        return metric(truth.tolist(), rows.tolist())
    except UndefinedMetricError:
        return None


def test_balanced_accuracy_and_matthews_equal_scikit_learn_on_1000_random_inputs() -> None:
    undefined = 0
    for truth, rows in random_inputs():
        predicted = rows.argmax(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of labels that are predicted and never true
            expected = sklearn_metrics.balanced_accuracy_score(truth, predicted)
            expected_matthews = sklearn_metrics.matthews_corrcoef(truth, predicted)
        assert balanced_accuracy(truth, rows) == pytest.approx(expected, abs=1e-12)
        value = of_numpy(matthews, truth, rows)
        is_undefined = len(set(truth)) == 1 or len(set(predicted)) == 1
        assert (value is None) is is_undefined
        if value is None:
            undefined += 1
            assert expected_matthews == 0.0
        else:
            assert value == pytest.approx(expected_matthews, abs=1e-12)
    assert undefined > 20


def test_the_auroc_of_confidence_equals_scikit_learn_on_1000_random_inputs() -> None:
    undefined = 0
    for truth, rows in random_inputs():
        correct = rows.argmax(axis=1) == truth
        value = of_numpy(auroc_confidence, truth, rows)
        if correct.all() or not correct.any():
            undefined += 1
            assert value is None
        else:
            assert value == pytest.approx(sklearn_metrics.roc_auc_score(correct, rows.max(axis=1)), abs=1e-12)
    assert undefined > 20


def aurc_by_pairs(truth: np.ndarray, rows: np.ndarray) -> float:
    """Each wrong query with the risks that it is part of: the sum of 1/k from its position on, in the mean over ties.

    At the positions of a tie, the expected number of wrong queries rises by the same amount.
    """
    confidence = rows.max(axis=1)
    wrong = (rows.argmax(axis=1) != truth).astype(float)
    order = np.argsort(-confidence, kind="stable")
    wrong, confidence = wrong[order], confidence[order]
    for value in np.unique(confidence):
        wrong[confidence == value] = wrong[confidence == value].mean()
    return float((np.cumsum(wrong) / np.arange(1, len(wrong) + 1)).mean())


def test_aurc_equals_numpy_on_1000_random_inputs() -> None:
    for truth, rows in random_inputs():
        assert aurc(truth, rows) == pytest.approx(aurc_by_pairs(truth, rows), abs=1e-12)


def test_aurc_is_the_mean_over_all_orders_of_tied_queries() -> None:
    truth = [0, 0, 0, 0, 1, 1]
    rows = [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [0.5, 0.5]]
    wrong_by_tie = [[0, 0, 1, 1], [0, 1]]
    areas = []
    for first in itertools.permutations(wrong_by_tie[0]):
        for second in itertools.permutations(wrong_by_tie[1]):
            risks = np.cumsum([*first, *second]) / np.arange(1, 7)
            areas.append(risks.mean())
    assert aurc(truth, rows) == pytest.approx(np.mean(areas))
    assert aurc(truth[::-1], rows[::-1]) == aurc(truth, rows)


def debiased_by_numpy(truth: np.ndarray, rows: np.ndarray) -> float | None:
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
    for truth, rows in random_inputs():
        value = of_numpy(debiased_calibration_error, truth, rows)
        expected = debiased_by_numpy(truth, rows)
        if value is None or expected is None:
            assert value is expected
        else:  # of squares, because the root of a rounding error is larger than it
            assert value**2 == pytest.approx(expected**2, abs=1e-12)


def test_the_square_of_the_debiased_calibration_error_has_no_bias() -> None:
    """A model with the accuracy 0.7 says 0.75: the true error is 0.05. The mean of the squares is 0.0025.

    The plug-in squares have the mean 0.0025 + 0.21 / 40 = 0.00775.
    """
    squares = []
    for correct in range(41):
        accuracy = correct / 40
        square = (0.75 - accuracy) ** 2 - accuracy * (1 - accuracy) / 39
        value = debiased_calibration_error([0] * correct + [1] * (40 - correct), [[0.75, 0.25]] * 40)
        assert value == pytest.approx(math.sqrt(max(0.0, square)))
        probability = math.comb(40, correct) * 0.7**correct * 0.3 ** (40 - correct)
        squares.append(probability * square)
    assert math.fsum(squares) == pytest.approx(0.0025)


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


# -- intervals and tests


def sample_with_wrong(n_wrong: int, n_rows: int = 40) -> tuple[Sample, list[list[float]]]:
    """Predictions of label 0, of which some are wrong; those have the lower confidences, but for one."""
    truth = [1] * n_wrong + [0] * (n_rows - n_wrong)
    rows = [[0.6 + row / 200, 0.4 - row / 200] for row in range(n_rows)]
    rows[0] = [0.95, 0.05]
    return Sample(truth, range(n_rows), n_rows, 2), rows


def test_the_auroc_of_confidence_has_an_interval_if_five_rows_of_each_kind_are_there() -> None:
    statistic = STATISTICS["auroc_confidence"]
    sample, rows = sample_with_wrong(5)
    interval = statistic.interval(sample, rows, 0.95)
    assert isinstance(interval, Interval)
    assert interval.low < auroc_confidence(sample.truth, rows) < interval.high
    for n_wrong, reason in ((4, "4 test rows have a wrong prediction, expected 5"), (0, "all 40 predictions are corr")):
        withheld = statistic.interval(*sample_with_wrong(n_wrong), 0.95)
        assert isinstance(withheld, NoInterval)
        assert withheld.reason.startswith(reason)


@pytest.mark.parametrize("key", ["auroc_confidence", "aurc"])
def test_the_influence_of_a_row_is_the_derivative_by_its_weight(key: str) -> None:
    """As a quotient: the change of the metric if a row is there twice, of a sample of 2,000 rows."""
    generator = np.random.default_rng(5)
    confidences = 0.5 + generator.random(2000) / 2
    truth = (generator.random(2000) > confidences).astype(int).tolist()
    rows = [[confidence, 1 - confidence] for confidence in confidences.tolist()]
    metric = SCORES[key].metric
    assert metric is not None
    influences = STATISTICS[key].of_run(Sample(truth, range(2000), 2000, 2), rows).rows
    assert math.fsum(influences) == pytest.approx(0.0, abs=1e-9)
    value = metric(truth, rows)
    for row in range(0, 2000, 100):
        change = metric([*truth, truth[row]], [*rows, rows[row]]) - value
        assert change * 2000 == pytest.approx(influences[row] * 2000, abs=0.01)


def test_matthews_and_the_debiased_error_have_values_and_reasons_in_comparisons() -> None:
    def often_the_first(prompt: str, label_space: list[str]) -> list[float]:
        return [0.5, 0.3, 0.2] if len(prompt) % 3 else [0.2, 0.3, 0.5]

    def often_the_last(prompt: str, label_space: list[str]) -> list[float]:
        return [0.2, 0.3, 0.5] if len(prompt) % 3 else [0.5, 0.3, 0.2]

    benchmark = Normal(datasets=["mini"], limit=12, metrics="standard+matthews+debiased_calibration_error")
    first, second = benchmark(often_the_first), benchmark(often_the_last)
    titles = {"matthews": "MCC", "debiased_calibration_error": "debiased CE"}
    for key, title in titles.items():
        overall = compare(first, second, key).overall
        assert overall.values == pytest.approx((first.averaged[key], second.averaged[key]))
        assert isinstance(overall.outcome, Untested)
        assert f"{key} has no test" in overall.outcome.reason
        assert f"interval of {title} is undefined" in str(first)


def test_selective_prediction_is_tested_in_both_directions() -> None:
    """A model whose confidence orders its predictions perfectly, next to one with the opposite order."""
    n_rows = 100
    truth = [0] * 60 + [1] * 40
    informative = [[0.9 - row / 250, 0.1 + row / 250] for row in range(n_rows)]
    opposite = informative[::-1]
    sample = Sample(truth, range(n_rows), n_rows, 2)
    for key in ("auroc_confidence", "aurc"):
        terms = [STATISTICS[key].of_run(sample, run) for run in (informative, opposite)]
        difference = paired_tests.paired_difference([(1.0, terms[0])], [(1.0, terms[1])])
        assert (difference.difference > 0.0) is (key == "auroc_confidence")
        assert paired_tests.p_value(difference) < 0.01
        assert paired_tests.p_value(difference.negated) == pytest.approx(paired_tests.p_value(difference))
