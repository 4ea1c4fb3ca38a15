"""Metrics against scikit-learn, SciPy and NumPy, by hand, and at their edges."""

from __future__ import annotations

import copy
import math
import random
import struct
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from sklearn import metrics as sklearn_metrics

from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.metrics.classification import (
    SUM_TOLERANCE,
    accuracy,
    averaged_truelabel_likelihood,
    brier,
    check_labels,
    check_probabilities,
    confidence_bin,
    confidence_bins,
    expected_calibration_error_1,
    macro_F1,
    nll,
    normalise,
    predicted_labels,
    softmax,
    valid_probabilities,
    valid_rows,
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
def labels_and_distributions(draw):
    """True labels and distributions, with round numbers so that ties, zeros and ones occur."""
    width = draw(st.integers(2, 6))
    weights = st.lists(st.one_of(st.integers(0, 4), st.floats(0.01, 1)), min_size=width, max_size=width).filter(any)
    rows = [[v / math.fsum(row) for v in row] for row in draw(st.lists(weights, min_size=1, max_size=30))]
    truth = draw(st.lists(st.integers(0, width - 1), min_size=len(rows), max_size=len(rows)))
    return truth, rows


def calibration_error_by_histogram(truth, rows, bins):
    """Return the calibration error by NumPy's histogram, whose last bin is closed too."""
    array = np.array(rows)
    confidence = array.max(axis=1)
    is_correct = (array.argmax(axis=1) == np.array(truth)).astype(float)
    edges = np.array([number / bins for number in range(bins + 1)])
    edges[-1] = max(edges[-1], confidence.max())
    correct_in_bins, _ = np.histogram(confidence, edges, weights=is_correct)
    confidence_in_bins, _ = np.histogram(confidence, edges, weights=confidence)
    return float(np.abs(correct_in_bins - confidence_in_bins).sum() / len(rows))


@settings(deadline=None)
@given(labels_and_distributions())
def test_accuracy_and_f1_equal_those_of_scikit_learn(data):
    truth, rows = data

    predicted = np.array(rows).argmax(axis=1)
    labels = range(len(rows[0]))
    f1 = sklearn_metrics.f1_score(truth, predicted, average="macro", labels=labels, zero_division=0)
    assert predicted_labels(rows) == predicted.tolist()
    assert accuracy(truth, rows) == sklearn_metrics.accuracy_score(truth, predicted)
    assert macro_F1(truth, rows) == pytest.approx(f1, abs=1e-14)


@settings(deadline=None)
@given(labels_and_distributions(), st.integers(1, 20))
def test_the_calibration_error_equals_that_of_a_histogram(data, bins):
    truth, rows = data

    expected = calibration_error_by_histogram(truth, rows, bins)
    assert expected_calibration_error_1(truth, rows, bins) == pytest.approx(expected, abs=1e-13)


@settings(deadline=None)
@given(labels_and_distributions())
def test_the_likelihood_is_the_mean_probability_of_the_true_label(data):
    truth, rows = data

    expected = np.mean([row[label] for row, label in zip(rows, truth, strict=True)])
    assert averaged_truelabel_likelihood(truth, rows) == pytest.approx(float(expected), abs=1e-15)


@pytest.mark.parametrize("metric", METRICS)
@settings(deadline=None)
@given(data=labels_and_distributions())
def test_a_metric_is_between_0_and_1_and_does_not_change_its_input(metric, data):
    truth, rows = data
    before = copy.deepcopy(data)

    assert 0 <= metric(truth, rows) <= 1 + 1e-15
    assert (truth, rows) == before


@settings(deadline=None)
@given(labels_and_distributions(), st.sampled_from([1, 2, 7, 10]))
def test_confidence_bins_equal_exact_sums(data, bin_count):
    """A confidence is in the first bin whose upper edge, as a float, is above it; the last bin is closed."""
    truth, rows = data
    queries, confidences, correct = [0] * bin_count, [Fraction(0)] * bin_count, [0] * bin_count
    for label, row in zip(truth, rows, strict=True):
        confidence = max(row)
        edges_reached = [number for number in range(1, bin_count) if confidence >= number / bin_count]
        bin_number = len(edges_reached)
        queries[bin_number] += 1
        confidences[bin_number] += Fraction(confidence)
        if row.index(confidence) == label:
            correct[bin_number] += 1

    bins = [tuple(sums) for sums in confidence_bins(truth, rows, bin_count)]

    assert bins == list(zip(queries, map(float, confidences), correct, strict=True))


def random_labels_and_distributions():
    """Yield 1,000 random arrays of true labels with distributions, seeded; no probability is 0."""
    generator = np.random.default_rng(20261129)
    for _ in range(1000):
        width = int(generator.integers(2, 9))
        evenness = generator.choice([0.3, 1.0, 5.0])
        rows = generator.dirichlet(np.full(width, evenness), size=int(generator.integers(1, 60)))
        rows = np.maximum(rows, 1e-12)
        rows /= rows.sum(axis=1, keepdims=True)
        yield generator.integers(0, width, size=len(rows)), rows


def test_the_brier_score_equals_that_of_scikit_learn_and_numpy_on_1000_random_inputs():
    """Of two labels, scikit-learn halves the score by default, so that it is the binary one."""
    for truth, rows in random_labels_and_distributions():
        width = rows.shape[1]
        of_sklearn = sklearn_metrics.brier_score_loss(truth, rows, labels=range(width), scale_by_half=False)
        squared_errors = (rows - np.eye(width)[truth]) ** 2
        assert brier(truth, rows) == pytest.approx(of_sklearn, abs=1e-12)
        assert brier(truth, rows) == pytest.approx(squared_errors.sum(axis=1).mean(), abs=1e-12)


def test_nll_equals_that_of_scikit_learn_and_numpy_on_1000_random_inputs():
    for truth, rows in random_labels_and_distributions():
        of_sklearn = sklearn_metrics.log_loss(truth, rows, labels=range(rows.shape[1]))
        true_probabilities = rows[np.arange(len(rows)), truth]
        assert nll(truth, rows) == pytest.approx(of_sklearn, abs=1e-12, rel=1e-12)
        assert nll(truth, rows) == pytest.approx(-np.log(true_probabilities).mean(), abs=1e-12, rel=1e-12)


def test_the_brier_score_of_two_labels_is_twice_the_binary_one():
    truth = [0, 1, 1]
    probabilities_of_label_1 = [0.25, 0.75, 0.375]
    binary = sklearn_metrics.brier_score_loss(truth, probabilities_of_label_1)

    rows = [[1 - probability, probability] for probability in probabilities_of_label_1]
    assert brier(truth, rows) == pytest.approx(2 * binary)


def test_the_brier_score_is_between_0_and_2():
    assert brier([0], [[1.0, 0.0]]) == 0.0
    assert brier([0], [[0.0, 1.0]]) == 2.0


def test_a_probability_of_0_at_the_true_label_makes_nll_undefined_and_is_counted():
    with pytest.raises(UndefinedMetricError, match="2 of 3 queries have the probability 0 for the true label"):
        nll([0, 0, 1], [[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])


def test_a_probability_of_0_at_another_label_does_not_matter_to_nll():
    assert nll([0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


def test_an_overconfident_model_has_the_better_likelihood_but_the_worse_brier_score_and_nll():
    """Both models are right on 70 of 100 queries. The calibrated one says 0.7, the overconfident one 0.99."""
    truth = [0] * 70 + [1] * 30
    calibrated = [[0.7, 0.3]] * 100
    overconfident = [[0.99, 0.01]] * 100

    assert averaged_truelabel_likelihood(truth, calibrated) == pytest.approx(0.58)
    assert averaged_truelabel_likelihood(truth, overconfident) == pytest.approx(0.696)
    assert brier(truth, calibrated) == pytest.approx(0.42)
    assert brier(truth, overconfident) == pytest.approx(0.588, abs=5e-4)
    assert nll(truth, calibrated) == pytest.approx(0.611, abs=5e-4)
    assert nll(truth, overconfident) == pytest.approx(1.389, abs=5e-4)


def test_a_row_whose_sum_is_rounded_is_scored():
    rows = [[0.7, 0.2, 0.1]]
    assert 0.7 + 0.2 + 0.1 < 1.0

    assert accuracy([0], rows) == 1.0
    assert averaged_truelabel_likelihood([0], rows) == pytest.approx(0.7)
    assert macro_F1([0], rows) == pytest.approx(1 / 3)
    assert expected_calibration_error_1([0], rows) == pytest.approx(0.3)


def test_probabilities_of_four_digits_are_probabilities():
    assert check_probabilities([[0.3341, 0.333, 0.333]]) == [[0.3341, 0.333, 0.333]]


@pytest.mark.parametrize("metric", [*METRICS, brier, nll])
def test_a_metric_of_rows_that_were_checked_before_is_that_of_the_rows(metric):
    rows = [[0.7, 0.2, 0.1], [0.25, 0.25, 0.5], [0.1, 0.45, 0.45]]
    truth = [0, 1, 2]
    checked = normalise(rows).probabilities

    assert valid_rows(checked) is checked
    assert valid_probabilities(checked) is checked
    assert metric(truth, checked) == metric(truth, rows)


def test_rows_that_are_valid_logits_are_checked_as_probabilities():
    logits = valid_rows([[2.0, -1.0], [0.5, 0.5]])

    with pytest.raises(OutputError, match="row 0 of the predictions is no probability distribution"):
        averaged_truelabel_likelihood([0, 1], logits)


@pytest.mark.parametrize("label", [-1, 2, 1.0, True, "1"])
def test_a_true_label_is_an_index_of_the_label_space(label):
    with pytest.raises(ArgumentError, match=r"true label 1 is .* from 0 to 1"):
        check_labels([0, label, 1], queries=3, labels=2)


def test_true_labels_of_any_integer_type_become_integers():
    checked = check_labels(np.array([0, 1]), queries=2, labels=2)

    assert checked == [0, 1]
    assert [type(label) for label in checked] == [int, int]


@pytest.mark.parametrize("bins", [2, 3, 7, 10, 49])
def test_a_confidence_at_an_edge_is_in_the_bin_above_it(bins):
    for edge in range(1, bins):
        confidence = edge / bins
        sums = confidence_bins([0], [[confidence, 1 - confidence]], bins)
        largest = max(confidence, 1 - confidence)
        assert sums[confidence_bin(largest, bins)].queries == 1
        assert confidence_bin(confidence, bins) == edge


# -- entropies and divergences against SciPy and at zeros; consistency and the exact slope of GLER


@st.composite
def distributions_of(draw, width, lowest=0.0):
    """A distribution over so many labels, each with a weight from ``lowest`` to 1 before they are normalised."""
    weight = st.one_of(st.just(1.0), st.floats(lowest, 1))
    weights = draw(st.lists(weight, min_size=width, max_size=width).filter(lambda values: math.fsum(values) > 1e-3))
    return [value / math.fsum(weights) for value in weights]


ROWS_OF_PROBABILITIES = st.integers(1, 6).flatmap(
    lambda width: st.lists(distributions_of(width), min_size=1, max_size=12)
)


@settings(deadline=None)
@given(ROWS_OF_PROBABILITIES)
def test_entropies_equal_those_of_scipy(rows):
    array = np.array(rows)

    assert mean_distribution(rows) == pytest.approx(array.mean(axis=0).tolist(), abs=1e-15)
    assert entropy(rows[0]) == pytest.approx(float(stats.entropy(array[0])), abs=1e-13)
    assert entropy_of_mean(rows) == pytest.approx(float(stats.entropy(array.mean(axis=0))), abs=1e-13)
    assert negated_mean_entropy(rows) == pytest.approx(-float(stats.entropy(array, axis=1).mean()), abs=1e-13)


@settings(deadline=None)
@given(ROWS_OF_PROBABILITIES)
def test_entropies_are_between_0_and_that_of_equal_probabilities(rows):
    highest = math.log(len(rows[0])) + 1e-12

    assert 0 <= entropy_of_mean(rows) <= highest
    assert -highest <= negated_mean_entropy(rows) <= 0


PAIRS_OF_DISTRIBUTIONS = st.integers(2, 6).flatmap(
    lambda width: st.tuples(distributions_of(width), distributions_of(width, lowest=0.01))
)


@settings(deadline=None)
@given(PAIRS_OF_DISTRIBUTIONS)
def test_the_divergence_equals_that_of_scipy(pair):
    p, q = pair

    assert kl_divergence(p, q) == pytest.approx(float(stats.entropy(p, q)), abs=1e-12)
    assert kl_divergence(p, p) == 0


@settings(deadline=None)
@given(PAIRS_OF_DISTRIBUTIONS)
def test_the_divergence_is_at_least_half_the_square_of_the_distance(pair):
    """Pinsker's inequality."""
    p, q = pair

    distance = sum(abs(first - second) for first, second in zip(p, q, strict=True))
    assert kl_divergence(p, q) >= distance**2 / 2 - 1e-12


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
def test_the_divergence_of_probabilities_near_zero(p, q, expected):
    assert kl_divergence(p, q) == pytest.approx(expected)


def test_the_empirical_bias_is_the_divergence_of_the_predictions_from_the_true_labels():
    """On average the rows predict (1/2, 1/2); of the true labels, 3/4 are label 0."""
    rows = [[0.75, 0.25], [0.25, 0.75], [1.0, 0.0], [0.0, 1.0]]
    truth = [0, 0, 0, 1]

    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert empirical_bias(rows, truth) == pytest.approx(expected)
    assert empirical_bias(rows, truth, labels=2) == pytest.approx(expected)


def test_the_empirical_bias_to_a_label_that_is_never_true_is_infinite():
    assert empirical_bias([[0.5, 0.25, 0.25]] * 2, [0, 1]) == math.inf


def test_a_label_that_is_neither_true_nor_predicted_has_no_bias():
    assert empirical_bias([[0.5, 0.5, 0.0]] * 2, [0, 1]) == 0


def test_label_frequencies_are_shares_of_the_rows():
    assert label_frequencies([2, 0, 2, 2], 4) == [0.25, 0.0, 0.75, 0.0]


# -- robustness

rate = st.integers(0, 1024).map(lambda hits: hits / 1024)  # accuracies of 1024 queries
runs = st.integers(1, 9).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, 5), min_size=count, max_size=count), min_size=1, max_size=20)
)


@settings(deadline=None)
@given(runs)
def test_consistency_is_the_mean_share_of_the_most_frequent_prediction(predictions):
    shares = []
    for labels in predictions:
        ((_, count),) = Counter(labels).most_common(1)
        shares.append(Fraction(count, len(labels)))

    assert consistency(predictions) == float(sum(shares) / len(shares))


@settings(deadline=None)
@given(st.lists(rate, min_size=2, max_size=12), st.data())
def test_the_slope_equals_that_of_numpy(values, data):
    """The first two shares differ by 0.05 at least: NumPy loses digits on points that nearly coincide."""
    shares = [0.0, 0.05, *data.draw(st.lists(rate, min_size=len(values) - 2, max_size=len(values) - 2))]

    assert gler(values, shares) == pytest.approx(np.polyfit(shares, values, 1).tolist(), abs=1e-9)


# -- probabilities or logits: the rule, its edges, and everything that is refused


INF = math.inf
logit = st.floats(min_value=-700, max_value=700)


@st.composite
def matrices(draw, values=logit, max_rows=8):
    width = draw(st.integers(1, 6))
    return draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=max_rows))


distributions = matrices(st.floats(1e-6, 1)).map(lambda matrix: [[v / math.fsum(row) for v in row] for row in matrix])


def to_bfloat16(value: float) -> float:
    """Round to nearest even in bfloat16: the upper half of a single-precision number."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def to_float16(value: float) -> float:
    """Round to half precision."""
    return float(np.float16(value))


def to_float32(value: float) -> float:
    """Round to single precision."""
    return float(np.float32(value))


# -- softmax


@settings(deadline=None)
@given(matrices(max_rows=1))
def test_softmax_equals_scipy(matrix):
    assert softmax(matrix[0]) == pytest.approx(special.softmax(matrix[0]).tolist(), rel=1e-12, abs=1e-300)


def test_softmax_of_extremes():
    assert softmax([1e308, -1e308]) == [1.0, 0.0]
    assert softmax([-1e308, -1e308]) == [0.5, 0.5]
    assert softmax([-INF, 3.0, 3.0]) == [0.0, 0.5, 0.5]
    assert softmax([5]) == [1.0]


# -- probabilities


@settings(deadline=None)
@given(distributions)
def test_distributions_are_returned_bit_for_bit(matrix):
    before = copy.deepcopy(matrix)

    result = normalise(matrix)

    assert result.kind == "probabilities"
    assert result.reason is None
    assert [list(row) for row in result.probabilities] == before
    assert matrix == before


@settings(deadline=None)
@given(distributions)
def test_what_was_normalised_once_is_not_changed_again(matrix):
    tripled = [[3 * value for value in row] for row in matrix]

    once = normalise(tripled, kind="probabilities").probabilities

    assert normalise(once).probabilities == once


@pytest.mark.parametrize("rounded", [to_float16, to_bfloat16, to_float32])
@pytest.mark.parametrize("width", [2, 3, 6, 174])
def test_probabilities_in_low_precision_are_probabilities(rounded, width):
    draw = random.Random(width)
    rows = []
    for _ in range(300):
        row = softmax([draw.gauss(0, 3) for _ in range(width)])
        rows.append([rounded(value) for value in row])

    result = normalise(rows)

    assert result.kind == "probabilities"
    for row, normalised in zip(rows, result.probabilities, strict=True):
        assert math.fsum(normalised) == pytest.approx(1, abs=4e-16)
        assert normalised == pytest.approx(row, rel=2 * SUM_TOLERANCE)


@settings(deadline=None)
@given(distributions, st.floats(1 - 0.0078, 1 + 0.0078))
def test_sums_within_the_tolerance_are_divided_out(matrix, factor):
    scaled_rows = [[value * factor for value in row] for row in matrix]

    result = normalise(scaled_rows)

    assert result.kind == "probabilities"
    for row, normalised in zip(matrix, result.probabilities, strict=True):
        assert normalised == pytest.approx(row, rel=1e-14)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ([0.5, 0.5 + SUM_TOLERANCE], "probabilities"),
        ([0.5, 0.5 + 1.01 * SUM_TOLERANCE], "ambiguous"),
        ([1.0 + SUM_TOLERANCE, 0.0], "probabilities"),
        ([1.0 + 1.01 * SUM_TOLERANCE, 0.0], "ambiguous"),
        ([1.0 + 1.01 * SUM_TOLERANCE, -0.01], "logits"),
    ],
)
def test_a_row_may_sum_to_1_plus_the_tolerance(row, kind):
    assert normalise([row]).kind == kind


@pytest.mark.parametrize(
    ("matrix", "reasons"),
    [
        ([[0.75, 0.25], [0.2, 0.1], [0.5, 0.5]], ["no value is negative", "row 1 sums to 0.3"]),
        ([[4.0, -2.0]] + [[0.25, 0.75]] * 5 + [[0.5, -7.0]], ["mixture: 5 of 7 rows", "row 0 has the value 4"]),
        ([[0.02, 0.01]] * 51 + [[3.0, -1.0]] * 49, ["51 of 100 rows lie in [0, 1]", "row 51 has the value 3"]),
    ],
    ids=["not negative", "mixture", "cut distributions"],
)
def test_the_reason_why_a_matrix_is_ambiguous_names_rows_and_remedies(matrix, reasons):
    result = normalise(matrix)

    assert result.kind == "ambiguous"
    assert result.probabilities is None
    for words in (*reasons, "outputs='probabilities'", "outputs='logits'"):
        assert words in result.reason


# -- ambiguous matrices


LOGITS = [-2.0, 3.0]
DISTRIBUTION = [0.25, 0.75]
NEARLY_A_DISTRIBUTION = [0.25, 0.75 + 0.9 * SUM_TOLERANCE]
CUT_DISTRIBUTION = [0.02, 0.01]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([LOGITS] * 1000 + [DISTRIBUTION] * 10, "logits"),
        ([LOGITS] * 990 + [DISTRIBUTION] * 10, "ambiguous"),
        ([LOGITS] * 91 + [NEARLY_A_DISTRIBUTION] * 10, "logits"),
        ([LOGITS] * 90 + [NEARLY_A_DISTRIBUTION] * 10, "ambiguous"),
        ([LOGITS] * 50 + [CUT_DISTRIBUTION] * 50, "logits"),
        ([LOGITS] * 49 + [CUT_DISTRIBUTION] * 51, "ambiguous"),
    ],
)
def test_a_few_rows_that_look_like_probabilities_are_logits(rows, kind):
    """Up to one row in a hundred may sum to 1, one in ten to nearly 1, and half of them to much less, as 0.03."""
    assert normalise(rows).kind == kind


# -- counts, percentages and votes


COUNTS = [
    [[60, 30, 10]] * 50,
    [[60, 30, 10], [5, 5, 80], [0, 0, 0]],  # two have no prediction
    [[3.0, 1.0], [0.0, 2.0], [7.0, 4.0]],  # counts with other sums
    [[3, 1, 2], [1, 2, 3]],  # ranks
    [[0, 0], [0, 1], [2, 1]],
    [[60.5, 29.5, 10]],
    [[33.3, 33.3, 33.3], [5.2, 5.2, 89.7]],
    [[2.5, 0.5]] * 7,
    [[1.5, 1.5], [0.25, 2.75]],  # weighted votes
    [[0.7, 0.5], [0.9, 0.1]],
    [[1e308, 1e308], [1e308, 5.5]],
]


@pytest.mark.parametrize("matrix", COUNTS)
def test_numbers_that_may_be_counts_are_ambiguous(matrix):
    as_floats = [[float(value) for value in row] for row in matrix]
    in_reverse_order = matrix[::-1]

    assert normalise(matrix).kind == "ambiguous"
    assert normalise(as_floats).kind == "ambiguous"
    assert normalise(in_reverse_order).kind == "ambiguous"


@pytest.mark.parametrize("matrix", COUNTS)
def test_numbers_that_may_be_counts_are_logits_if_the_user_says_so(matrix):
    result = normalise(matrix, kind="logits")

    assert result.probabilities[0] == tuple(softmax(matrix[0]))


def test_numbers_that_may_be_counts_are_shares_if_the_user_says_so():
    result = normalise([[3, 1], [2, 2]], kind="probabilities")

    assert result.probabilities == ((0.75, 0.25), (0.5, 0.5))


def percentages(row_count, labels, spread, draw):
    """Return distributions in per cent, the softmax of normal logits with this standard deviation."""
    rows = []
    for _ in range(row_count):
        row = softmax([draw.gauss(0, spread) for _ in range(labels)])
        rows.append([100 * value for value in row])
    return rows


def cut(value, decimals):
    """Return the value without further decimals."""
    return math.floor(value * 10**decimals) / 10**decimals


@pytest.mark.parametrize("rounded", [round, cut])
@pytest.mark.parametrize("labels", [2, 3, 4, 5, 6, 10, 20])
@pytest.mark.parametrize("decimals", range(5))
def test_rounded_percentages_are_ambiguous(labels, decimals, rounded):
    draw = random.Random(f"{labels} {decimals}")
    for row_count in (1, 2, 6, 40):
        for spread in (0.5, 1.0, 3.0):
            exact_rows = percentages(row_count, labels, spread, draw)
            rows = [[rounded(value, decimals) for value in row] for row in exact_rows]
            in_single_precision = [[to_float32(value) for value in row] for row in rows]

            assert normalise(rows).kind == "ambiguous", rows
            assert normalise(in_single_precision).kind == "ambiguous", rows


def raw_logits_above_zero(draw, labels):
    """Return raw logits of a language model's label tokens, which happen to be positive."""
    return [draw.gauss(18, 3) + 25 for _ in range(labels)]


def negative_log_likelihoods(draw, labels):
    """Mean losses per token, without a sign."""
    return [draw.uniform(0.5, 9) for _ in range(labels)]


def cut_percentages(draw, labels):
    """Probabilities of a larger vocabulary in per cent."""
    return [100 * value for value in softmax([draw.gauss(0, 3) for _ in range(labels + 40)])[:labels]]


def weights(draw, labels):
    """Weights that are drawn one by one, such as votes of a number of neighbours."""
    return [draw.expovariate(0.3) for _ in range(labels)]


@pytest.mark.parametrize("row_of", [raw_logits_above_zero, negative_log_likelihoods, cut_percentages, weights])
@pytest.mark.parametrize("labels", [2, 3, 6, 20])
def test_rows_without_a_negative_value_that_are_no_probabilities_are_ambiguous(row_of, labels):
    draw = random.Random(labels)
    for row_count in (10, 100, 1000):
        rows = [row_of(draw, labels) for _ in range(row_count)]

        assert normalise(rows).kind == "ambiguous"
        assert normalise(rows, kind="logits").probabilities[0] == tuple(softmax(rows[0]))


@pytest.mark.parametrize("error", [-1e-17, -9e-7])
def test_a_rounding_error_below_zero_is_a_probability_of_zero(error):
    result = normalise([[1.0, error], [0.5, 0.5], [error, 1.0]])

    assert result.kind == "probabilities"
    assert result.probabilities == ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))


@pytest.mark.parametrize("error", [-1e-17, -9e-7])
def test_a_rounding_error_below_zero_is_a_share_of_zero(error):
    assert normalise([[3.0, error]], kind="probabilities").probabilities == ((1.0, 0.0),)


@pytest.mark.parametrize("error", [-1e-17, -9e-7])
def test_a_rounding_error_below_zero_is_a_likelihood_of_zero(error):
    assert check_probabilities([[1.0, error]]) == [[1.0, 0.0]]
    assert averaged_truelabel_likelihood([1], [[1.0, error]]) == 0.0


def test_a_value_further_below_zero_is_no_rounding_error():
    """Of the two rows, only one looks like probabilities."""
    assert normalise([[1.0, -2e-6], [0.5, 0.5]]).kind == "ambiguous"


def test_a_probability_further_below_zero_is_refused():
    with pytest.raises(OutputError, match=r"column 1 of the predictions is -2e-06"):
        normalise([[1.0, -2e-6]], kind="probabilities")


# -- logits


@pytest.mark.parametrize("width", [2, 3, 6])
@pytest.mark.parametrize("spread", [1.0, 3.0, 30.0])
@pytest.mark.parametrize("rounded", [float, to_float16, to_bfloat16])
def test_random_logits_are_logits(width, spread, rounded):
    draw = random.Random(7)
    for _ in range(5):
        rows = [[rounded(draw.gauss(0, spread)) for _ in range(width)] for _ in range(1024)]

        result = normalise(rows)

        assert result.kind == "logits"
        assert result.probabilities[5] == tuple(softmax(rows[5]))


def test_log_probabilities_are_logits():
    result = normalise([[math.log(0.25), math.log(0.75)], [-INF, 0.0]])

    assert result.kind == "logits"
    assert result.probabilities == (pytest.approx((0.25, 0.75)), (0.0, 1.0))


def test_logits_whose_sum_overflows_are_logits():
    assert normalise([[1e308, 1e308, -3.0]]).probabilities == ((0.5, 0.5, 0.0),)


# -- forced, and bad input


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.02, 0.06], [0.25, 0.75]),
        ([3, 1], [0.75, 0.25]),
        ([1e308, 1e308], [0.5, 0.5]),
        ([5e-324, 5e-324], [0.5, 0.5]),
        ([0, 5], [0.0, 1.0]),
    ],
)
def test_a_row_that_is_declared_as_probabilities_is_divided_by_its_sum(row, expected):
    result = normalise([row, [0.5, 0.5]], kind="probabilities")

    assert result.kind == "probabilities"
    assert result.probabilities[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [math.nan, 0.5]], "row 1, column 0 .* is nan"),
        ([[0.5, 0.5], [0.5, INF]], "row 1, column 1 .* is inf"),
        ([[-INF, INF]], "row 0, column 1 .* is inf"),
        ([[-INF, math.nan]], "row 0, column 1 .* is nan"),
        ([[1.0, 2.0], [-INF, -INF]], "row 1 .* minus infinity"),
        ([[0.5, 0.5], [0.2, 0.3, 0.5]], "row 1 .* 3 columns, row 0 has 2"),
        ([[]], "row 0 .* empty"),
        ([[0.5, 0.5], 1], "row 1 .* cannot be read"),
        (["positive"], "row 0 .* text: 'positive'"),
        ([b"ab"], "row 0 .* text"),
        *(([row], "row 0 .* cannot be read") for row in ([0.5, None], ["0.5"], [1 + 2j], [[0.5]], [10**400])),
    ],
)
@pytest.mark.parametrize("kind", ["auto", "logits", "probabilities"])
def test_unreadable_rows_are_refused(matrix, message, kind):
    with pytest.raises(OutputError, match=message):
        normalise(matrix, kind)
