"""Metrics against scikit-learn, SciPy and NumPy, by hand, and at their edges."""

from __future__ import annotations

import copy
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics

from StaICC.metrics.classification import (
    accuracy,
    averaged_truelabel_likelihood,
    check_probabilities,
    confidence_bins,
    expected_calibration_error_1,
    macro_F1,
    predicted_labels,
)
from StaICC.metrics.diagnosis import (
    consistency,
    empirical_bias,
    entropy,
    entropy_of_mean,
    gler,
    kl_divergence,
    label_frequencies,
    mean_distribution,
    negated_mean_entropy,
)

METRICS = [accuracy, averaged_truelabel_likelihood, macro_F1, expected_calibration_error_1]


@st.composite
def scored(draw):
    """True labels and distributions, with round numbers so that ties, zeros and ones occur."""
    width = draw(st.integers(2, 6))
    weights = st.lists(st.one_of(st.integers(0, 4), st.floats(0.01, 1)), min_size=width, max_size=width).filter(any)
    rows = [[v / math.fsum(row) for v in row] for row in draw(st.lists(weights, min_size=1, max_size=30))]
    return draw(st.lists(st.integers(0, width - 1), min_size=len(rows), max_size=len(rows))), rows


def calibration_error_by_histogram(truth, rows, bins):
    """An independent calibration error: NumPy's histogram, whose last bin is closed too."""
    array = np.array(rows)
    confidence, hit = array.max(axis=1), (array.argmax(axis=1) == np.array(truth)).astype(float)
    edges = np.array([number / bins for number in range(bins + 1)])
    edges[-1] = max(edges[-1], confidence.max())
    hits, total = (np.histogram(confidence, edges, weights=weights)[0] for weights in (hit, confidence))
    return float(np.abs(hits - total).sum() / len(rows))


@settings(deadline=None)
@given(scored(), st.integers(1, 20))
def test_metrics_equal_scikit_learn_and_numpy(data, bins):
    truth, rows = data
    before, array = copy.deepcopy(data), np.array(rows)
    predicted = array.argmax(axis=1)
    f1 = sklearn_metrics.f1_score(truth, predicted, average="macro", labels=range(len(rows[0])), zero_division=0)
    assert predicted_labels(rows) == predicted.tolist()
    assert accuracy(truth, rows) == sklearn_metrics.accuracy_score(truth, predicted)
    assert macro_F1(truth, rows) == pytest.approx(f1, abs=1e-14)
    error = calibration_error_by_histogram(truth, rows, bins)
    assert expected_calibration_error_1(truth, rows, bins) == pytest.approx(error, abs=1e-13)
    likelihood = float(array[np.arange(len(rows)), truth].mean())
    assert averaged_truelabel_likelihood(truth, rows) == pytest.approx(likelihood, abs=1e-15)
    assert all(0 <= metric(truth, rows) <= 1 + 1e-15 for metric in METRICS)
    assert data == before


@given(scored(), st.sampled_from([1, 2, 7, 10]))
def test_confidence_bins_equal_exact_sums(data, bins):
    """Another way: exact fractions, and the bin by comparing with each edge as a float, the last one closed."""
    expected = [(0, Fraction(0), 0)] * bins
    for true, row in zip(*data, strict=True):
        top = max(row)
        place = next((b for b in range(bins) if b / bins <= top < (b + 1) / bins), bins - 1)
        count, confidence, correct = expected[place]
        expected[place] = (count + 1, confidence + Fraction(top), correct + (row.index(top) == true))
    exact = [(count, float(confidence), correct) for count, confidence, correct in expected]
    assert list(map(tuple, confidence_bins(*data, bins))) == exact


def test_bins_are_closed_below_and_the_last_one_above():
    rows = [[0.5, 0.5], [0.6, 0.4], [math.nextafter(0.6, 0), 0.4], [1.0, 0.0], [1.0, 0.0]]
    assert [one.queries for one in confidence_bins([0] * 5, rows)] == [0, 0, 0, 0, 0, 2, 1, 0, 0, 2]
    # The release's bins are open above, so that certain and always wrong scores 0 there.
    assert expected_calibration_error_1([1] * 4, [[1.0, 0.0]] * 4) == 1.0
    assert expected_calibration_error_1([0] * 4, [[1.0, 0.0]] * 4) == 0.0


def test_rows_that_sum_to_one_nearly_are_scored():
    values = [metric([0], [[0.7, 0.2, 0.1]]) for metric in METRICS]  # an ulp less than 1
    assert values == pytest.approx([1.0, 0.7, 1 / 3, 0.3])
    assert check_probabilities([[0.3341, 0.333, 0.333]]) == [[0.3341, 0.333, 0.333]]


# -- entropies and divergences against SciPy and at zeros; consistency and the exact slope of GLER


@st.composite
def distributions(draw, width=None, lowest=0.0, rows=None):
    columns = width or draw(st.integers(1, 6))
    value = st.one_of(st.just(max(lowest, 1.0)), st.floats(lowest, 1))
    row = st.lists(value, min_size=columns, max_size=columns).filter(lambda v: math.fsum(v) > 1e-3)
    count = rows or draw(st.integers(1, 12))
    return [[v / math.fsum(r) for v in r] for r in draw(st.lists(row, min_size=count, max_size=count))]


@settings(deadline=None)
@given(distributions())
def test_entropies_equal_scipy(rows):
    array = np.array(rows)
    assert mean_distribution(rows) == pytest.approx(array.mean(axis=0).tolist(), abs=1e-15)
    assert entropy(rows[0]) == pytest.approx(float(stats.entropy(array[0])), abs=1e-13)
    assert entropy_of_mean(rows) == pytest.approx(float(stats.entropy(array.mean(axis=0))), abs=1e-13)
    assert negated_mean_entropy(rows) == pytest.approx(-float(stats.entropy(array, axis=1).mean()), abs=1e-13)
    highest = math.log(len(rows[0])) + 1e-12
    assert 0 <= entropy_of_mean(rows) <= highest
    assert -highest <= negated_mean_entropy(rows) <= 0


@settings(deadline=None)
@given(st.data(), st.integers(2, 6))
def test_divergence_equals_scipy(data, width):
    p = data.draw(distributions(width, rows=1))[0]
    q = data.draw(distributions(width, lowest=0.01, rows=1))[0]
    assert kl_divergence(p, q) == pytest.approx(float(stats.entropy(p, q)), abs=1e-12)
    assert kl_divergence(p, p) == 0
    distance = sum(abs(a - b) for a, b in zip(p, q, strict=True))
    assert kl_divergence(p, q) >= distance**2 / 2 - 1e-12  # Pinsker's inequality


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ([1.0, 0.0], [0.5, 0.5], math.log(2)),  # 0 log 0 = 0, where the release stops
        ([0.0, 1.0], [0.0, 1.0], 0.0),
        ([1e-320, 1.0], [0.5, 0.5], math.log(2)),
        ([1.0, 0.0], [1e-320, 1.0], -math.log(1e-320)),
        ([0.5, 0.25, 0.25], [0.5, 0.5, 0.0], math.inf),
    ],
)
def test_divergence_with_zeros(p, q, expected):
    assert kl_divergence(p, q) == pytest.approx(expected)


def test_empirical_bias_by_hand():
    rows, truth = [[0.75, 0.25], [0.25, 0.75], [1.0, 0.0], [0.0, 1.0]], [0, 0, 0, 1]
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert empirical_bias(rows, truth) == empirical_bias(rows, truth, labels=2) == pytest.approx(expected)
    assert empirical_bias([[0.5, 0.25, 0.25]] * 2, [0, 1]) == math.inf  # a label that is never true
    assert empirical_bias([[0.5, 0.5, 0.0]] * 2, [0, 1]) == 0
    assert label_frequencies([2, 0, 2, 2], 4) == [0.25, 0.0, 0.75, 0.0]


# -- robustness

rate = st.integers(0, 1024).map(lambda hits: hits / 1024)  # accuracies of 1024 queries
runs = st.integers(1, 9).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, 5), min_size=count, max_size=count), min_size=1, max_size=20)
)


@settings(deadline=None)
@given(runs)
def test_consistency_by_counters(predictions):
    shares = [Fraction(Counter(labels).most_common(1)[0][1], len(labels)) for labels in predictions]
    assert consistency(predictions) == float(sum(shares) / len(shares))


@settings(deadline=None)
@given(st.lists(st.tuples(rate, rate), min_size=2, max_size=12).filter(lambda v: len({x for _, x in v}) > 1))
def test_slope_equals_numpy(points):
    values, shares = zip(*points, strict=True)
    if max(shares) - min(shares) >= 0.05:  # polyfit loses digits on points that nearly coincide
        assert gler(values, shares) == pytest.approx(np.polyfit(shares, values, 1).tolist(), abs=1e-9)
