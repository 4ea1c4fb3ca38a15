"""Named sets of metrics: values with reasons, bare labels, metrics of the user."""

from __future__ import annotations

import copy
import math

import pytest

import StaICC
from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError, UnknownNameError
from StaICC.metrics import classification, diagnosis
from StaICC.metrics.classification import softmax
from StaICC.metrics.registry import SCORES, Metric, MetricSet, Score, metric_set, score_record
from StaICC.results import compare

NAMES = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]
TRUTH = [0, 1, 1]
PROBABILITIES = [[0.75, 0.25], [0.25, 0.75], [0.625, 0.375]]
LOGITS = [[3.0, -1.0], [0.0, 2.0], [1.5, 1.0]]


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
def test_the_sets_have_the_documented_metrics(name):
    found = metric_set(name)
    assert found.name == name
    assert [metric.name for metric in found.metrics] == NAMES
    assert [metric.requires_probabilities for metric in found.metrics] == [False, True, False, True]
    assert [metric.higher_is_better for metric in found.metrics] == [True, True, True, False]
    assert {metric.range for metric in found.metrics} == {(0.0, 1.0) if name == "standard" else None}
    assert metric_set(found) is found


def test_ambiguous_predictions_have_accuracy_but_no_likelihood():
    scores = metric_set().score(TRUTH, [[0.3, 0.1], [0.1, 0.2], [0.75, 0.25]])
    assert scores["accuracy"].value == 2 / 3
    assert scores["macro_F1"].value is not None
    for name in ("averaged_truelabel_likelihood", "expected_calibration_error_1"):
        assert scores[name].value is None
        assert "row 0 sums to 0.4" in scores[name].reason


def test_the_kind_can_be_forced():
    rows = [[0.3, 0.1], [0.1, 0.3], [0.2, 0.2]]
    expected = {"probabilities": 2 / 3, "logits": (2 * softmax([0.3, 0.1])[0] + 0.5) / 3}
    for kind, value in expected.items():
        assert metric_set().score(TRUTH, rows, kind=kind)[NAMES[1]].value == pytest.approx(value)


def test_bare_labels_have_no_likelihood():
    scores = metric_set().score(TRUTH, [[1, 0], [0, 1], [0, 1]], hard=True)
    assert scores["accuracy"] == Score(1.0)
    assert scores["macro_F1"] == Score(1.0)
    assert scores["averaged_truelabel_likelihood"].value is None
    assert "bare labels" in scores["expected_calibration_error_1"].reason


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
@pytest.mark.parametrize("hard", [False, True])
def test_nothing_to_score_gives_reasons(name, hard):
    scores = metric_set(name).score([], [], hard=hard)
    assert list(scores) == NAMES
    assert {score.value for score in scores.values()} == {None}
    assert "a metric of nothing is undefined" in scores["accuracy"].reason


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
@pytest.mark.parametrize(
    ("truth", "rows", "hard", "error", "message"),
    [
        ([0, 1], [[0.5, 0.5]], False, ArgumentError, "2 true labels for 1 rows"),
        ([2], [[0.5, 0.5]], False, ArgumentError, "true label 0 is 2"),
        ([0], [[math.nan, 0.5]], False, OutputError, "row 0, column 0 of the predictions is nan"),
        ([0, 0], [[0.5, 0.5], [1.0]], False, OutputError, "row 1 of the predictions has 1 columns"),
        *(
            ([0], [row], True, ArgumentError, "row 0 .* one-hot")
            for row in ([0.5, 0.5], [1.0, 1.0], [1.0, 0.5], [0.0, 0.5])
        ),
    ],
)
def test_bad_input(name, truth, rows, hard, error, message):
    with pytest.raises(error, match=message):
        metric_set(name).score(truth, rows, hard=hard)


@pytest.mark.parametrize(
    ("name", "row", "kind", "error", "message"),
    [
        ("standard", [0.5, 0.5], "logit", UnknownNameError, "'logit'"),
        ("standard", [0.5, -0.5], "probabilities", OutputError, "row 0, column 1"),
        ("0.1.1", [0.5, 0.5], "logits", ArgumentError, "'standard'"),
    ],
)
def test_bad_kinds(name, row, kind, error, message):
    with pytest.raises(error, match=message):
        metric_set(name).score([0], [row], kind=kind)


@pytest.mark.parametrize(
    ("given", "nearest"), [("standart", "'standard'"), ("0.1.0", "'0.1.1'"), (None, "None"), (["standard"], "standard")]
)
def test_unknown_sets_name_the_nearest(given, nearest):
    with pytest.raises(UnknownNameError, match=nearest):
        metric_set(given)


# --- metrics of the user ---------------------------------------------------------------------------------------------


def test_a_metric_of_the_user_gets_the_rows_as_returned():
    seen = []

    def first(ground_truth, prediction):
        seen.append((ground_truth, prediction))
        return 0.25

    extended = metric_set().adding(Metric("first", first))
    scores = extended.score(TRUTH, LOGITS)
    assert extended.name == "standard+first"
    assert list(scores)[-1] == "first"
    assert list(scores)[:-1] == NAMES
    assert scores["first"] == Score(0.25)
    assert seen == [(TRUTH, LOGITS)]
    assert type(seen[0][1][0]) is list


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
def test_a_metric_that_spoils_its_arguments_harms_nobody(name):
    def vandal(truth, rows):
        truth.clear()
        for row in rows:
            row.clear()
        return 0

    before = copy.deepcopy(PROBABILITIES)
    rows = PROBABILITIES * 4
    members = metric_set(name).metrics
    spoiled = MetricSet(name, (Metric("vandal", vandal), *members), as_released=name == "0.1.1").score(TRUTH * 4, rows)
    assert before == PROBABILITIES
    del spoiled["vandal"]
    assert metric_set(name).score(TRUTH * 4, rows) == spoiled


def test_a_metric_replaces_one_of_its_name():
    extended = metric_set().adding(Metric("accuracy", lambda truth, rows: 0.125))
    assert extended.score(TRUTH, LOGITS)["accuracy"] == Score(0.125)
    assert len(extended.metrics) == 4


@pytest.mark.parametrize("returned", [True, "0.5", [0.5], {"a": 1}])
def test_a_metric_that_returns_no_number(returned):
    extended = metric_set().adding(Metric("bad", lambda truth, rows: returned))
    with pytest.raises(ArgumentError, match="the metric 'bad' returned"):
        extended.score(TRUTH, LOGITS)


def test_a_metric_may_be_undefined():
    def undefined(truth, rows):
        raise UndefinedMetricError("too few rows")

    assert metric_set().adding(Metric("mine", undefined)).score(TRUTH, LOGITS)["mine"] == Score(None, "too few rows")


def test_numbers_of_numpy_are_numbers():
    np = pytest.importorskip("numpy")
    extended = metric_set().adding(Metric("mean", lambda truth, rows: np.float32(0.5)))
    score = extended.score(TRUTH, LOGITS)["mean"]
    assert score == Score(0.5)
    assert type(score.value) is float


def test_functions_by_name_make_a_set():
    made = metric_set(
        {"acc": classification.accuracy, "ece": classification.expected_calibration_error_1, "mine": lambda y, x: 1}
    )
    assert made.name == "custom+acc+ece+mine"
    assert [metric.requires_probabilities for metric in made.metrics] == [False, True, None]
    assert [metric.higher_is_better for metric in made.metrics] == [True, False, None]
    scores = made.score(TRUTH, [[1, 0]] * 3, hard=True)
    assert (scores["acc"].value, scores["ece"].value, scores["mine"].value) == (1 / 3, None, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: metric_set({}), "empty dictionary"),
        (lambda: metric_set({"accuracy": "accuracy"}), "the metric 'accuracy' is 'accuracy'"),
        (lambda: metric_set({"a": []}), r"the metric 'a' is \[\]"),
        (lambda: Metric("", len), "the name of a metric is ''"),
        (lambda: MetricSet("mine", (Metric("a", len), Metric("a", len))), "'mine' has two metrics of one name .* a, a"),
    ],
)
def test_bad_sets(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("value", [-0.01, 2.5])
def test_a_value_outside_the_range_of_its_metric_ends_the_run(value):
    def with_value(value):
        return metric_set({"brier": Metric("brier", lambda truth, rows: value, range=(0.0, 2.0))})

    assert with_value(2).score(TRUTH, PROBABILITIES)["brier"] == Score(2.0)
    with pytest.raises(ArgumentError, match=rf"'brier' returned {value}, .* 0 to 2"):
        with_value(value).score(TRUTH, PROBABILITIES)


def test_every_score_of_a_benchmark_has_a_record():
    result = StaICC.Suite(datasets=["mini"], limit=3)(lambda prompt, label_space: [0.5, 0.3, 0.2])
    for part in result.results():
        for key in part.averaged:
            assert key == "distribution" or score_record(part.benchmark, key).statistic is not None, key


def test_a_function_under_the_name_of_a_score_is_not_compared_as_this_score():
    benchmark = StaICC.Normal(datasets=["mini"], limit=3, metrics={"accuracy": lambda truth, rows: 0.5})
    results = [benchmark(lambda prompt, label_space, n=n: n) for n in (0, 1)]
    assert score_record("Normal", "accuracy", results[0].higher_is_better).higher_is_better is None
    with pytest.raises(ArgumentError, match="accuracy cannot be recomputed"):
        compare(*results, "accuracy")


def test_every_score_of_the_library_has_its_direction_and_range():
    """The better of two extreme models has the better value by the record of the score."""
    even, sure, truth = [[0.5, 0.5]] * 4, [[1.0, 0.0]] * 4, [0, 0, 1, 1]
    right, wrong = [[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2 + [[1.0, 0.0]] * 2
    better_and_worse = {
        "accuracy": [classification.accuracy(truth, rows) for rows in (right, wrong)],
        "likelihood": [classification.averaged_truelabel_likelihood(truth, rows) for rows in (right, wrong)],
        "macro F1": [classification.macro_F1(truth, rows) for rows in (right, wrong)],
        "calibration error": [classification.expected_calibration_error_1(truth, rows) for rows in (right, wrong)],
        "mean entropy": [diagnosis.negated_mean_entropy(rows) for rows in (even, sure)],
        "entropy of mean": [diagnosis.entropy_of_mean(rows) for rows in (even, sure)],
        "divergence": [diagnosis.empirical_bias(rows, truth) for rows in (even, sure)],
        "consistency": [diagnosis.consistency([[0] * 4]), diagnosis.consistency([[0, 0, 1, 1]])],
    }
    assert {score.statistic for score in SCORES.values()} == better_and_worse.keys()
    for score in SCORES.values():
        better, worse = better_and_worse[score.statistic]
        assert (better > worse) is score.higher_is_better, score.key
        low, high = score.range(2)
        assert all(low <= value <= high for value in (better, worse)), score.key
        reached = (better, worse) if score.higher_is_better else (worse, better)
        if score.statistic not in ("divergence", "consistency"):
            assert (high, low) == pytest.approx(reached), score.key
