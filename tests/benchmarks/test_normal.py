"""StaICC-Normal: right by default where the release was wrong, and the release bug for bug on request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from StaICC import Normal
from StaICC.datasets import Dataset
from StaICC.errors import OutputError
from StaICC.metrics.intervals import ratio_part
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.metrics.registry import Statistic

LIKELIHOOD, ECE = "averaged_truelabel_likelihood", "expected_calibration_error_1"


def scores(rows: Sequence[Any], dataset: Dataset, **settings: Any) -> dict[str, Any]:
    """Score given predictions; the true label of query i is that of its test row."""
    return dict(Normal(datasets=[dataset], **settings)(preentered_prediction=[rows])["Averaged results"])


@pytest.fixture
def own(make_own: Callable[..., Dataset]) -> Dataset:
    return make_own(1)


@pytest.fixture
def truth(own: Dataset) -> list[int]:
    return [query.label for query in Normal(datasets=[own])[0].all_queries()]


def test_probabilities_are_not_put_through_softmax_again(own: Dataset, truth: list[int]) -> None:
    """One row that does not sum to exactly 1.0 sends the release's whole matrix through softmax (defect 1)."""
    rows = [[0.9, 0.1] if label == 0 else [0.1, 0.9] for label in truth]
    rows[3] = [value * (1 + 1e-15) for value in rows[3]]
    assert math.fsum(rows[3]) != 1.0
    assert scores(rows, own)[LIKELIHOOD] == pytest.approx(0.9)
    assert scores(rows, own)[ECE] == pytest.approx(0.1)
    assert scores(rows, own, metrics="0.1.1")[LIKELIHOOD] == pytest.approx(1 / (1 + math.exp(-0.8)))


def test_logits_are_softmaxed(own: Dataset, truth: list[int]) -> None:
    rows = [[3.0, -1.0] if label == 0 else [-1.0, 3.0] for label in truth]
    shifted = [[value + 100.5 + number for value in row] for number, row in enumerate(rows)]
    positive = [[value + 100 for value in row] for row in rows]
    for found in (scores(rows, own), scores(shifted, own), scores(positive, own, outputs="logits")):
        assert found[LIKELIHOOD] == pytest.approx(1 / (1 + math.exp(-4)))
    assert scores(positive, own)[LIKELIHOOD] is None


def test_what_is_ambiguous_is_named_and_can_be_forced(own: Dataset, truth: list[int]) -> None:
    rows = [[0.3, 0.1] if label == 0 else [0.1, 0.3] for label in truth]
    result = Normal(datasets=[own])(preentered_prediction=[rows])
    assert result["Averaged results"]["accuracy"] == 1.0
    assert result["Averaged results"][LIKELIHOOD] is None
    missing = result.details["own"].missing
    assert set(missing) == {LIKELIHOOD, ECE}
    assert "row 0 sums to 0.4" in missing[LIKELIHOOD]
    assert scores(rows, own, outputs="probabilities")[LIKELIHOOD] == pytest.approx(0.75)
    assert scores(rows, own, outputs="logits")[LIKELIHOOD] == pytest.approx(1 / (1 + math.exp(-0.2)))
    mixed = [[0.5, 0.5] if number % 2 else [4.0, -2.0] for number in range(len(truth))]
    result = Normal(datasets=[own])(preentered_prediction=[mixed])
    assert result["Averaged results"][LIKELIHOOD] is None
    assert "mixture" in result.details["own"].missing[LIKELIHOOD]
    with pytest.raises(OutputError, match=r"^Normal, own: row 0, column 1 of the predictions is -1\.0"):
        scores([[3.0, -1.0]] * len(truth), own, outputs="probabilities")


def test_certain_and_always_wrong_is_fully_miscalibrated(own: Dataset, truth: list[int]) -> None:
    """Confidence 1.0 falls in no bin of the release (defect 2)."""
    wrong = [[0.0, 1.0] if label == 0 else [1.0, 0.0] for label in truth]
    assert scores(wrong, own)[ECE] == 1.0
    assert scores([row[::-1] for row in wrong], own)[ECE] == 0.0
    assert scores(wrong, own, metrics="0.1.1")[ECE] == 0.0


def test_a_label_that_is_never_predicted(make_own: Callable[..., Dataset]) -> None:
    """An IndexError in the release (defect 9)."""
    benchmark = Normal(datasets=[make_own(1, labels=("a", "b", "c", "d"))])
    result = benchmark(lambda prompt, label_space: 0)["Averaged results"]
    truth = [query.label for query in benchmark[0].all_queries()]
    share = truth.count(0) / len(truth)
    assert result["accuracy"] == share
    assert result["macro_F1"] == pytest.approx(2 * share / (1 + share) / 4)
    assert result[LIKELIHOOD] is result[ECE] is None


def test_of_equal_scores_the_first_counts_also_if_all_are_equal(own: Dataset, truth: list[int]) -> None:
    result = Normal(datasets=[own])(lambda prompt, label_space: [0.5, 0.5])
    always_first = Normal(datasets=[own])(lambda prompt, label_space: [1.0, 0.0])["Averaged results"]
    equal = result["Averaged results"]
    assert equal["accuracy"] == always_first["accuracy"] == truth.count(0) / len(truth)
    assert equal["macro_F1"] == always_first["macro_F1"]
    assert equal[LIKELIHOOD] == 0.5
    assert equal[ECE] == pytest.approx(abs(equal["accuracy"] - 0.5))
    assert not result.details["own"].missing
    assert any("tie for the largest score" in note for note in result.details["own"].notes)
    released = Normal(datasets=[own], metrics="0.1.1")(lambda prompt, label_space: [0.5, 0.5])["Averaged results"]
    assert all(equal[name] == pytest.approx(released[name], abs=1e-12) for name in released)


def test_accuracy_has_baselines_and_an_interval(own: Dataset, truth: list[int]) -> None:
    rows = [[0.7, 0.3] if number % 3 else [0.3, 0.7] for number in range(len(truth))]
    result = Normal(datasets=[own])(preentered_prediction=[rows])
    baselines = result.details["own"].baselines["normal"]
    assert (baselines.queries, baselines.labels, baselines.uniform) == (len(truth), 2, 0.5)
    assert baselines.majority == max(truth.count(0), truth.count(1)) / len(truth)
    assert baselines.max_random == pytest.approx(0.5)
    assert 0 <= baselines.p_value <= 1
    interval = result.details["own"].intervals["accuracy"]
    correct = [row.index(max(row)) == label for row, label in zip(rows, truth, strict=True)]
    of_rows = [float(first + second) for first, second in zip(correct[:12], correct[12:], strict=True)]
    assert interval == ratio_part(of_rows, [2.0] * 12, 0.95).interval(0.95, Statistic.method)
    assert interval.low <= result["Averaged results"]["accuracy"] <= interval.high


def test_one_guess_for_each_row_has_a_p_value_of_its_own() -> None:
    benchmark = Normal(datasets=["mini"])
    queries = benchmark.experimentor[0].all_queries()
    answers = [query.label if query.row % 3 else (query.label + 1) % 3 for query in queries]
    result = benchmark(preentered_prediction=[answers])
    (baselines,) = result.details["mini"].baselines.values()
    accuracy, rows = result["Averaged results"]["accuracy"], len({query.row for query in queries})
    assert baselines.p_value_rows == RandomBaseline(rows, 1 / 3).p_value(accuracy) > baselines.p_value
