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

from StaICC.errors import OutputError, UndefinedMetricError
from StaICC.metrics.classification import (
    SUM_TOLERANCE,
    accuracy,
    averaged_truelabel_likelihood,
    brier,
    check_probabilities,
    confidence_bins,
    expected_calibration_error_1,
    macro_F1,
    nll,
    normalise,
    predicted_labels,
    softmax,
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
    assert [metric for metric in METRICS if not (0 <= metric(truth, rows) <= 1 + 1e-15)] == []
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


def test_brier_and_nll_equal_scikit_learn_and_numpy_on_1000_random_inputs():
    generator = np.random.default_rng(20261129)
    for _ in range(1000):
        width = int(generator.integers(2, 9))
        rows = generator.dirichlet(
            np.full(width, generator.choice([0.3, 1.0, 5.0])), size=int(generator.integers(1, 60))
        )
        rows = np.maximum(rows, 1e-12)
        rows /= rows.sum(axis=1, keepdims=True)
        truth = generator.integers(0, width, size=len(rows))
        one_hot = np.eye(width)[truth]
        # Of two labels, scikit-learn halves the score by default, so that it is the binary one.
        expected_brier = sklearn_metrics.brier_score_loss(truth, rows, labels=range(width), scale_by_half=False)
        assert brier(truth, rows) == pytest.approx(expected_brier, abs=1e-12)
        assert brier(truth, rows) == pytest.approx(np.mean(np.sum((rows - one_hot) ** 2, axis=1)), abs=1e-12)
        expected_nll = -np.mean(np.log(rows[np.arange(len(rows)), truth]))
        assert nll(truth, rows) == pytest.approx(expected_nll, abs=1e-12, rel=1e-12)
        sklearn_nll = sklearn_metrics.log_loss(truth, rows, labels=range(width))
        assert nll(truth, rows) == pytest.approx(sklearn_nll, abs=1e-12, rel=1e-12)


def test_the_brier_score_of_two_labels_is_twice_the_binary_one():
    truth = [0, 1, 1]
    rows = [[0.75, 0.25], [0.25, 0.75], [0.625, 0.375]]
    binary = sklearn_metrics.brier_score_loss(truth, [row[1] for row in rows])
    assert brier(truth, rows) == pytest.approx(2 * binary)
    assert (brier([0], [[1.0, 0.0]]), brier([0], [[0.0, 1.0]])) == (0.0, 2.0)


def test_a_probability_of_0_at_the_true_label_makes_nll_undefined_and_is_counted():
    with pytest.raises(UndefinedMetricError, match="2 of 3 queries have the probability 0 for the true label"):
        nll([0, 0, 1], [[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    assert nll([0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


def test_an_overconfident_model_has_the_better_likelihood_but_the_worse_brier_score_and_nll():
    """Both models are right on 70 of 100 queries. The calibrated one says 0.7, the overconfident one 0.99."""
    truth = [0] * 70 + [1] * 30
    calibrated = [[0.7, 0.3]] * 100
    overconfident = [[0.99, 0.01]] * 100
    assert averaged_truelabel_likelihood(truth, calibrated) == pytest.approx(0.58)
    assert averaged_truelabel_likelihood(truth, overconfident) == pytest.approx(0.696)
    assert [round(brier(truth, rows), 3) for rows in (calibrated, overconfident)] == [0.42, 0.588]
    assert [round(nll(truth, rows), 3) for rows in (calibrated, overconfident)] == [0.611, 1.389]


def test_rows_that_sum_to_one_nearly_are_scored():
    values = [metric([0], [[0.7, 0.2, 0.1]]) for metric in METRICS]  # an ulp less than 1
    assert values == pytest.approx([1.0, 0.7, 1 / 3, 0.3])
    assert check_probabilities([[0.3341, 0.333, 0.333]]) == [[0.3341, 0.333, 0.333]]


# -- entropies and divergences against SciPy and at zeros; consistency and the exact slope of GLER


@st.composite
def rows_of_probabilities(draw, width=None, lowest=0.0, rows=None):
    columns = width or draw(st.integers(1, 6))
    value = st.one_of(st.just(max(lowest, 1.0)), st.floats(lowest, 1))
    row = st.lists(value, min_size=columns, max_size=columns).filter(lambda v: math.fsum(v) > 1e-3)
    count = rows or draw(st.integers(1, 12))
    return [[v / math.fsum(r) for v in r] for r in draw(st.lists(row, min_size=count, max_size=count))]


@settings(deadline=None)
@given(rows_of_probabilities())
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
    p = data.draw(rows_of_probabilities(width, rows=1))[0]
    q = data.draw(rows_of_probabilities(width, lowest=0.01, rows=1))[0]
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
    return float(np.float16(value))


def single(value: float) -> float:
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
def test_distributions_stay_bit_for_bit(matrix):
    before = copy.deepcopy(matrix)
    result = normalise(matrix)
    assert (result.kind, result.reason) == ("probabilities", None)
    assert [list(row) for row in result.probabilities] == matrix == before
    once = normalise([[value * 3 for value in row] for row in matrix], kind="probabilities").probabilities
    assert normalise(once).probabilities == once


@pytest.mark.parametrize("rounded", [to_float16, to_bfloat16, single])
@pytest.mark.parametrize("width", [2, 3, 6, 174])
def test_probabilities_in_low_precision(rounded, width):
    draw = random.Random(width)
    matrix = [list(map(rounded, softmax([draw.gauss(0, 3) for _ in range(width)]))) for _ in range(300)]
    result = normalise(matrix)
    assert result.kind == "probabilities"
    for row, normalised in zip(matrix, result.probabilities, strict=True):
        assert math.fsum(normalised) == pytest.approx(1, abs=4e-16)
        assert normalised == pytest.approx(row, rel=2 * SUM_TOLERANCE)


@settings(deadline=None)
@given(distributions, st.floats(1 - 0.0078, 1 + 0.0078))
def test_sums_within_the_tolerance_are_divided_out(matrix, factor):
    result = normalise([[value * factor for value in row] for row in matrix])
    assert result.kind == "probabilities"
    for expected, row in zip(matrix, result.probabilities, strict=True):
        assert row == pytest.approx(expected, rel=1e-14)


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
def test_the_edge_of_the_tolerance(row, kind):
    assert normalise([row]).kind == kind


@pytest.mark.parametrize(
    ("matrix", "reasons"),
    [
        ([[0.75, 0.25], [0.2, 0.1], [0.5, 0.5]], ["no value is negative", "row 1 sums to 0.3"]),
        ([[4.0, -2.0]] + [[0.25, 0.75]] * 5 + [[0.5, -7.0]], ["mixture: 5 of 7 rows", "row 0 has the value 4"]),
        ([[0.02, 0.01]] * 51 + [[3.0, -1.0]] * 49, ["51 of 100 rows lie in [0, 1]", "row 51 has the value 3"]),
    ],
)
def test_reasons_name_rows_and_remedies(matrix, reasons):
    result = normalise(matrix)
    assert (result.kind, result.probabilities) == ("ambiguous", None)
    for reason in (*reasons, "outputs='probabilities'", "outputs='logits'"):
        assert reason in result.reason


# -- ambiguous matrices


def test_shares_just_below_a_mixture_are_logits():
    logits = [[-2.0, 3.0 + row] for row in range(1000)]
    rough, cut = [[0.25, 0.75 + 0.9 * SUM_TOLERANCE]] * 10, [[0.02, 0.01]]
    assert normalise(logits + [[0.25, 0.75]] * 10).kind == "logits"  # 10 of 1010 is less than one in a hundred
    assert normalise(logits[:990] + [[0.25, 0.75]] * 10).kind == "ambiguous"
    assert normalise(logits[:90] + rough).kind == "ambiguous"
    assert normalise(logits[:91] + rough).kind == "logits"
    assert normalise(cut * 50 + [[3.0, -1.0]] * 50).kind == "logits"


# -- counts, percentages and votes


@pytest.mark.parametrize(
    "matrix",
    [
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
    ],
)
def test_what_may_be_counts_is_ambiguous_and_can_be_forced(matrix):
    for read in (matrix, [list(map(float, row)) for row in matrix], matrix[::-1]):
        assert normalise(read).kind == "ambiguous"
    assert normalise(matrix, "logits").probabilities[0] == tuple(softmax(matrix[0]))
    if all(map(sum, matrix)):
        shares = [value / sum(matrix[0]) if sum(matrix[0]) < 1e308 else 0.5 for value in matrix[0]]
        assert normalise(matrix, "probabilities").probabilities[0] == pytest.approx(shares)


@pytest.mark.parametrize("labels", [2, 3, 4, 5, 6, 10, 20])
@pytest.mark.parametrize("decimals", range(5))
def test_rounded_percentages_are_ambiguous(labels, decimals):
    draw = random.Random(f"{labels} {decimals}")
    for scale in (0.5, 1.0, 3.0):
        percentages = [
            [100 * value for value in softmax([draw.gauss(0, scale) for _ in range(labels)])] for _ in range(40)
        ]
        for number in (1, 2, 6, 40):
            for cut in (round, lambda value, digits: math.floor(value * 10**digits) / 10**digits):
                rows = [[cut(value, decimals) for value in row] for row in percentages[:number]]
                for read in (rows, [list(map(single, row)) for row in rows], rows[::-1]):
                    assert normalise(read).kind == "ambiguous"


def raw_logits_above_zero(draw, labels):
    """Raw logits of a language model's label tokens, which happen to be positive."""
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
    for rows in (10, 100, 1000):
        matrix = [row_of(draw, labels) for _ in range(rows)]
        assert normalise(matrix).kind == "ambiguous"
        assert normalise(matrix, "logits").probabilities[0] == tuple(softmax(matrix[0]))


@pytest.mark.parametrize("error", [-1e-17, -9e-7])
def test_a_rounding_error_below_zero_is_a_probability_of_zero(error):
    result = normalise([[1.0, error], [0.5, 0.5], [error, 1.0]])
    assert result.kind == "probabilities"
    assert result.probabilities == ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))
    assert normalise([[3.0, error]], kind="probabilities").probabilities == ((1.0, 0.0),)
    assert check_probabilities([[1.0, error]]) == [[1.0, 0.0]]
    assert averaged_truelabel_likelihood([1], [[1.0, error]]) == 0.0


def test_a_value_further_below_zero_is_no_rounding_error():
    assert normalise([[1.0, -2e-6], [0.5, 0.5]]).kind == "ambiguous"  # a mixture: row 1 looks like probabilities
    with pytest.raises(OutputError, match=r"column 1 of the predictions is -2e-06"):
        normalise([[1.0, -2e-6]], kind="probabilities")


# -- logits


@pytest.mark.parametrize("width", [2, 3, 6])
@pytest.mark.parametrize("scale", [1.0, 3.0, 30.0])
@pytest.mark.parametrize("rounded", [float, to_float16, to_bfloat16])
def test_random_logits_are_logits(width, scale, rounded):
    draw = random.Random(7)
    for _ in range(5):
        matrix = [[rounded(draw.gauss(0, scale)) for _ in range(width)] for _ in range(1024)]
        result = normalise(matrix)
        assert result.kind == "logits"
        assert result.probabilities[5] == tuple(softmax(matrix[5]))


def test_log_probabilities_and_sums_that_overflow_are_logits():
    result = normalise([[math.log(0.25), math.log(0.75)], [-INF, 0.0]])
    assert result.kind == "logits"
    assert result.probabilities == (pytest.approx((0.25, 0.75)), (0.0, 1.0))
    assert normalise([[1e308, 1e308, -3.0]]).probabilities[0] == (0.5, 0.5, 0.0)


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
def test_forced_probabilities(row, expected):
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
