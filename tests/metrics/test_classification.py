"""Accuracy, likelihood, macro F1 and calibration error against scikit-learn and an independent histogram."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.metrics.classification import (
    accuracy,
    averaged_truelabel_likelihood,
    check_probabilities,
    expected_calibration_error_1,
    macro_F1,
    predicted_labels,
)

INF = math.inf
METRICS = [accuracy, averaged_truelabel_likelihood, macro_F1, expected_calibration_error_1]
OF_PROBABILITIES = [averaged_truelabel_likelihood, expected_calibration_error_1]


@st.composite
def scored(draw, min_rows=1, max_rows=30):
    """True labels and distributions, with round numbers so that ties, zeros and ones occur."""
    width = draw(st.integers(2, 6))
    weights = st.lists(st.one_of(st.integers(0, 4), st.floats(0.01, 1)), min_size=width, max_size=width).filter(any)
    rows = [[v / math.fsum(row) for v in row] for row in draw(st.lists(weights, min_size=min_rows, max_size=max_rows))]
    truth = draw(st.lists(st.integers(0, width - 1), min_size=len(rows), max_size=len(rows)))
    return truth, rows


def calibration_error_by_histogram(truth, rows, bins=10):
    """An independent calibration error: NumPy's histogram, whose last bin is closed too."""
    np = pytest.importorskip("numpy")
    array = np.array(rows)
    confidence = array.max(axis=1)
    hit = (array.argmax(axis=1) == np.array(truth)).astype(float)
    edges = np.array([number / bins for number in range(bins + 1)])
    edges[-1] = max(edges[-1], confidence.max())
    count, _ = np.histogram(confidence, edges)
    hits, _ = np.histogram(confidence, edges, weights=hit)
    total, _ = np.histogram(confidence, edges, weights=confidence)
    full = count > 0
    gap = np.abs(hits[full] / count[full] - total[full] / count[full])
    return float((gap * count[full]).sum() / len(rows))


# --- independent oracles ---------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(scored())
def test_accuracy_and_f1_equal_scikit_learn(data):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    np = pytest.importorskip("numpy")
    truth, rows = data
    predicted = np.array(rows).argmax(axis=1)
    assert predicted_labels(rows) == predicted.tolist()
    assert accuracy(truth, rows) == sklearn_metrics.accuracy_score(truth, predicted)
    f1 = sklearn_metrics.f1_score(truth, predicted, average="macro", labels=range(len(rows[0])), zero_division=0)
    assert macro_F1(truth, rows) == pytest.approx(f1, abs=1e-14)


@settings(deadline=None)
@given(scored(), st.integers(1, 20))
def test_calibration_error_equals_a_histogram(data, bins):
    truth, rows = data
    expected = calibration_error_by_histogram(truth, rows, bins)
    assert expected_calibration_error_1(truth, rows, bins) == pytest.approx(expected, abs=1e-13)


@settings(deadline=None)
@given(scored())
def test_likelihood_equals_numpy(data):
    np = pytest.importorskip("numpy")
    truth, rows = data
    expected = np.array(rows)[np.arange(len(rows)), truth].mean()
    assert averaged_truelabel_likelihood(truth, rows) == pytest.approx(float(expected), abs=1e-15)


# --- properties of every metric --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@settings(deadline=None)
@given(data=scored())
def test_bounds_and_inputs_not_changed(metric, data):
    truth, rows = data
    before = copy.deepcopy(data)
    assert 0 <= metric(truth, rows) <= 1 + 1e-15
    assert (truth, rows) == before


@pytest.mark.parametrize("metric", METRICS)
def test_a_row_that_sums_to_one_within_an_ulp(metric):
    assert metric([0], [[0.7, 0.2, 0.1]]) == pytest.approx(
        {accuracy: 1.0, macro_F1: 1 / 3, averaged_truelabel_likelihood: 0.7, expected_calibration_error_1: 0.3}[metric]
    )


# --- single decisions ------------------------------------------------------------------------------------------------


def test_the_first_of_tied_labels_is_predicted_and_ties_are_counted():
    rows = [[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]
    assert predicted_labels(rows) == [0, 1, 0]


def test_certain_and_always_wrong_is_the_worst_calibration():
    # The release's bins are open above, so that this scores 0 there.
    assert expected_calibration_error_1([1] * 4, [[1.0, 0.0]] * 4) == 1.0
    assert expected_calibration_error_1([0] * 4, [[1.0, 0.0]] * 4) == 0.0


@pytest.mark.parametrize("tenth", range(6, 10))
def test_bins_are_closed_below_and_open_above(tenth):
    edge = tenth / 10
    above, below = [edge, 1 - edge], [math.nextafter(edge, 0), 1 - edge]
    inside = [edge - 0.02, 1.02 - edge]
    assert max(below) < edge

    def same_bin(first, second):  # one right and one wrong answer: in one bin the errors partly cancel
        together = abs(1 - max(first) - max(second)) / 2
        error = expected_calibration_error_1([0, 1], [first, second])
        return math.isclose(error, together, abs_tol=1e-12)

    assert same_bin(below, inside)
    assert not same_bin(above, inside)
    assert not same_bin(above, below)


def test_labels_that_do_not_occur_count_as_zero_in_macro_f1():
    rows = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]
    assert macro_F1([0, 1], rows) == pytest.approx(2 / 3)  # scikit-learn's default label list would give 1
    assert macro_F1([0, 0], [[1.0, 0.0]] * 2) == 0.5


def test_the_rows_give_the_width_not_the_labels():
    # The release makes rows as wide as the largest predicted label, and ends with an IndexError.
    assert accuracy([2, 0], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]) == 0.5
    assert macro_F1([2, 0], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]) == pytest.approx(2 / 9)


def test_probabilities_in_low_precision_pass():
    assert check_probabilities([[0.3341, 0.333, 0.333]]) == [[0.3341, 0.333, 0.333]]


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_of_nothing_is_undefined(metric):
    with pytest.raises(UndefinedMetricError, match="a metric of nothing is undefined"):
        metric([], [])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([0], "there are 1 true labels for 2 rows"),
        ([0, 1, 1], "there are 3 true labels for 2 rows"),
        ([], "there are 0 true labels for 2 rows"),
        ([0, 2], "true label 1 is 2, but the rows have 2 columns; expected 0 to 1"),
        ([-1, 0], "true label 0 is -1"),
        ([0, 1.0], r"true label 1 is 1\.0; expected a label index, an integer from 0 to 1$"),
        ([0, "1"], "true label 1 is '1'"),
        ([0, None], "true label 1 is None"),
        ([0, True], "true label 1 is True"),
        (["negative", "positive"], "true label 0 is 'negative'"),
    ],
)
def test_true_labels_that_do_not_fit(metric, truth, message):
    with pytest.raises(ArgumentError, match=message):
        metric(truth, [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize("metric", METRICS)
def test_true_labels_without_rows(metric):
    with pytest.raises(ArgumentError, match="there are 1 true labels for 0 rows"):
        metric([0], [])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.5], [math.nan, 1.0]], "row 1, column 0 of the predictions is nan"),
        ([[0.5, 0.5], [INF, 1.0]], "row 1, column 0 of the predictions is inf"),
        ([[0.5, 0.5], [1.0]], "row 1 of the predictions has 1 columns, row 0 has 2"),
        ([[0.5, 0.5], 1], "row 1 of the predictions cannot be read as numbers"),
        ([0, 1], "row 0 of the predictions cannot be read as numbers"),
        (["ab", "cd"], "row 0 of the predictions is text"),
    ],
)
def test_rows_that_cannot_be_read(metric, rows, message):
    with pytest.raises(OutputError, match=message):
        metric([0, 1], rows)


@pytest.mark.parametrize("metric", OF_PROBABILITIES)
@pytest.mark.parametrize("row", [[2.0, -1.0], [0.5, 0.4], [3.0, 1.0], [0.0, 0.0], [1.01, 0.0], [-INF, 1.0]])
def test_what_needs_probabilities_refuses_logits(metric, row):
    with pytest.raises(OutputError, match="row 1 of the predictions is no probability distribution"):
        metric([0, 1], [[0.5, 0.5], row])
