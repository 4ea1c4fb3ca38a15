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


def hashed(labels, queries):
    """The matrix of the golden file's note."""

    def logit(query, label):
        digest = hashlib.sha256(f"query {query}\0label {label}".encode()).digest()
        return 4 * int.from_bytes(digest[:8], "big") / 2**64

    rows = [[logit(query, label) for label in range(labels)] for query in range(queries)]
    return [(query * query + query // 7) % labels for query in range(queries)], rows


def check(function, arguments, expected):
    """Compare with what the release returned, or ended with."""
    before = copy.deepcopy(arguments)
    if isinstance(expected, dict):
        # Too short distributions were a ValueError of the release; here they are a wrong argument.
        with pytest.raises((UndefinedMetricError, ArgumentError)) as caught:
            function(*arguments)
        if isinstance(caught.value, UndefinedMetricError):
            article = "an" if expected["raises"][0] in "IA" else "a"
            assert f"StaICC 0.1.1 ends with {article} {expected['raises']}" in str(caught.value)
    elif expected and isinstance(expected, list) and isinstance(expected[0], list):
        assert function(*arguments) == expected
    else:
        assert function(*arguments) == pytest.approx(expected, rel=1e-14, abs=1e-14)
    assert arguments == before


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_small_matrices(name):
    case = GOLDEN["cases"][name]
    truth, rows = case["ground_truth"], case["rows"]
    scores = metric_set("0.1.1").score(truth, rows)
    for metric, expected in case["metrics"].items():
        check(METRICS[metric], (truth, rows), expected)
        assert (scores[metric].value is None) is isinstance(expected, dict)
    for figure, expected in case["bias"].items():
        check(BIAS[figure], (truth, rows), expected)


@pytest.mark.parametrize("labels", GOLDEN["hashed"])
def test_hashed_matrices(labels):
    case = GOLDEN["hashed"][labels]
    truth, rows = hashed(int(labels), case["queries"])
    for metric, function in METRICS.items():
        check(function, (truth, rows), case["metrics"][metric])
    for figure, function_of_bias in BIAS.items():
        check(function_of_bias, (truth, rows), case["bias"][figure])
    for queries, expected in case["consistency"].items():
        check(released.consistency, (rows, int(queries)), expected)


@pytest.mark.parametrize(
    ("function", "cases"),
    [
        (released.entropy, "entropy"),
        (released.kl_divergence, "kl"),
        (released.expand_label_indexes, "expansion"),
        (released.gler, "gler"),
    ],
)
def test_other_functions(function, cases):
    for *arguments, expected in GOLDEN[cases]:
        check(function, tuple(arguments), expected)


# -- the defects themselves, so that they are not corrected here


def test_one_ulp_in_one_row_softmaxes_all_rows():
    rows = [[0.9, 0.05, 0.05]] * 11
    assert [row for row in rows if not released.probability_like(row)] == []
    assert released.averaged_truelabel_likelihood([0] * 11, rows) == pytest.approx(0.9)
    assert not released.probability_like([0.7, 0.2, 0.1])
    assert released.averaged_truelabel_likelihood([0] * 12, [*rows, [0.7, 0.2, 0.1]]) < 0.54
    assert classification.averaged_truelabel_likelihood([0] * 12, [*rows, [0.7, 0.2, 0.1]]) > 0.88


def test_the_sum_is_plain_addition_on_every_python():
    # From Python 3.12 on, sum() compensates and gives exactly 1.0 here.
    assert released.probability_like([0.1] * 10) is False
    rows = [[0.0, 1e-16, 0.0, 2e-16], [0.0, 1.0, 0.0, 0.0]]  # the first has a tie, by the softmax with this sum
    assert released.accuracy([1, 1], rows) == released.consistency(rows, 1) == 1.0


def test_bare_labels_in_the_set():
    rows = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]] * 3
    scores = metric_set("0.1.1").score([0, 1, 2, 0] * 3, rows, hard=True)
    assert {name: score.value for name, score in scores.items()} == {
        "accuracy": 0.75,
        "averaged_truelabel_likelihood": 0.75,
        "macro_F1": pytest.approx((2 / 3 + 2 / 3 + 1) / 3),
        "expected_calibration_error_1": 0.0,
    }


def test_the_set_has_no_figures_where_the_release_had_none():
    scores = metric_set("0.1.1").score([0, 2] * 5, [[1, 0, 0], [0, 1, 0]] * 5, hard=True)
    for score in scores.values():
        assert score.value is None
        assert "ends with an IndexError" in score.reason
        assert "label 2 is true somewhere, but no label above 1 is predicted" in score.reason
    with pytest.raises(UndefinedMetricError, match="minus infinity"):  # the run goes on
        released.entropy_of_mean([[-math.inf, 0.0], [0.0, -math.inf]])
