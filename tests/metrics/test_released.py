"""The metrics of StaICC 0.1.1, bug for bug, against figures that the release computed (golden/released_metrics.json).

The figures of whole benchmarks (golden/staicc_0_1_1.json) need the frozen prompts: see the tests of the benchmarks.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from pathlib import Path

import pytest

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import classification, released
from StaICC.metrics.metric_set import metric_set

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "released_metrics.json").read_text("utf-8"))
METRICS = {metric.name: metric.function for metric in metric_set("0.1.1").metrics}
BIAS = {
    "distribution": lambda truth, rows: released.mean_distribution(rows),
    "entropy": lambda truth, rows: released.entropy_of_mean(rows),
    "posterior_distribution": released.excess_distribution,
    "DL div.": released.divergence,
}


def hashed_matrix(labels, queries):
    """Return true labels and logits by the rule that the note in the golden file states."""
    truth, rows = [], []
    for query in range(queries):
        truth.append((query * query + query // 7) % labels)
        row = []
        for label in range(labels):
            digest = hashlib.sha256(f"query {query}\0label {label}".encode()).digest()
            row.append(4 * int.from_bytes(digest[:8], "big") / 2**64)
        rows.append(row)
    return truth, rows


def assert_as_released(function, arguments, expected):
    """Fail if a function does not return what the release returned, or does not refuse what ended the release."""
    before = copy.deepcopy(arguments)
    if isinstance(expected, dict):
        assert_refused_as_released(function, arguments, expected["raises"])
    elif expected and isinstance(expected, list) and isinstance(expected[0], list):
        assert function(*arguments) == expected
    else:
        assert function(*arguments) == pytest.approx(expected, rel=1e-14, abs=1e-14)
    assert arguments == before


def assert_refused_as_released(function, arguments, error_of_release):
    """Fail if a function does not refuse its arguments; an undefined metric must name the error of the release.

    Too short distributions were a ValueError of the release; here they are a wrong argument.
    """
    with pytest.raises((UndefinedMetricError, ArgumentError)) as caught:
        function(*arguments)
    if isinstance(caught.value, UndefinedMetricError):
        article = "an" if error_of_release[0] in "IA" else "a"
        assert f"StaICC 0.1.1 ends with {article} {error_of_release}" in str(caught.value)


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_metrics_of_small_matrices_are_those_of_the_release(name):
    case = GOLDEN["cases"][name]
    for metric, expected in case["metrics"].items():
        assert_as_released(METRICS[metric], (case["ground_truth"], case["rows"]), expected)


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_the_metric_set_has_no_value_where_the_release_ended(name):
    case = GOLDEN["cases"][name]

    scores = metric_set("0.1.1").score(case["ground_truth"], case["rows"])

    without_value = {metric for metric in case["metrics"] if scores[metric].value is None}
    assert without_value == {metric for metric, expected in case["metrics"].items() if isinstance(expected, dict)}


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_bias_in_small_matrices_is_that_of_the_release(name):
    case = GOLDEN["cases"][name]
    for score, expected in case["bias"].items():
        assert_as_released(BIAS[score], (case["ground_truth"], case["rows"]), expected)


@pytest.mark.parametrize("labels", GOLDEN["hashed"])
def test_metrics_of_large_matrices_are_those_of_the_release(labels):
    case = GOLDEN["hashed"][labels]
    truth, rows = hashed_matrix(int(labels), case["queries"])
    for metric, function in METRICS.items():
        assert_as_released(function, (truth, rows), case["metrics"][metric])


@pytest.mark.parametrize("labels", GOLDEN["hashed"])
def test_bias_and_consistency_in_large_matrices_are_those_of_the_release(labels):
    case = GOLDEN["hashed"][labels]
    truth, rows = hashed_matrix(int(labels), case["queries"])
    for score, function in BIAS.items():
        assert_as_released(function, (truth, rows), case["bias"][score])
    for queries, expected in case["consistency"].items():
        assert_as_released(released.consistency, (rows, int(queries)), expected)


@pytest.mark.parametrize(
    ("function", "cases"),
    [
        (released.entropy, "entropy"),
        (released.kl_divergence, "kl"),
        (released.expand_label_indexes, "expansion"),
        (released.gler, "gler"),
    ],
)
def test_other_functions_are_those_of_the_release(function, cases):
    for *arguments, expected in GOLDEN[cases]:
        assert_as_released(function, tuple(arguments), expected)


# -- the defects themselves, so that they are not corrected here


PROBABILITIES = [0.9, 0.05, 0.05]
SUM_BELOW_ONE = [0.7, 0.2, 0.1]
"""Plain addition gives an ulp less than 1."""


def test_a_sum_of_an_ulp_less_than_one_is_not_probability_like():
    assert released.probability_like(PROBABILITIES)
    assert not released.probability_like(SUM_BELOW_ONE)


def test_one_row_that_is_not_probability_like_softmaxes_all_rows():
    """The likelihood of 0.9 falls below 0.54; that of the standard set does not."""
    good_rows = [PROBABILITIES] * 11
    assert released.averaged_truelabel_likelihood([0] * 11, good_rows) == pytest.approx(0.9)

    assert released.averaged_truelabel_likelihood([0] * 12, [*good_rows, SUM_BELOW_ONE]) < 0.54
    assert classification.averaged_truelabel_likelihood([0] * 12, [*good_rows, SUM_BELOW_ONE]) > 0.88


def test_the_sum_is_plain_addition_on_every_python():
    """From Python 3.12 on, sum() compensates and gives exactly 1.0 here."""
    assert released.probability_like([0.1] * 10) is False


def test_the_softmax_divides_by_a_plain_sum():
    """With this sum, the first row is a tie of all labels."""
    rows = [[0.0, 1e-16, 0.0, 2e-16], [0.0, 1.0, 0.0, 0.0]]

    assert released.accuracy([1, 1], rows) == 1.0
    assert released.consistency(rows, 1) == 1.0


def test_bare_labels_are_scored_as_rows_with_a_one():
    """Of each four predictions, the last one is wrong."""
    rows = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]] * 3

    scores = metric_set("0.1.1").score([0, 1, 2, 0] * 3, rows, hard=True)

    assert {name: score.value for name, score in scores.items()} == {
        "accuracy": 0.75,
        "averaged_truelabel_likelihood": 0.75,
        "macro_F1": pytest.approx((2 / 3 + 2 / 3 + 1) / 3),
        "expected_calibration_error_1": 0.0,
    }


def test_the_set_says_how_the_release_ended():
    scores = metric_set("0.1.1").score([0, 2] * 5, [[1, 0, 0], [0, 1, 0]] * 5, hard=True)

    for score in scores.values():
        assert score.value is None
        assert "ends with an IndexError" in score.reason
        assert "label 2 is true somewhere, but no label above 1 is predicted" in score.reason


def test_the_entropy_of_logits_of_minus_infinity_is_undefined():
    with pytest.raises(UndefinedMetricError, match="minus infinity"):
        released.entropy_of_mean([[-math.inf, 0.0], [0.0, -math.inf]])
