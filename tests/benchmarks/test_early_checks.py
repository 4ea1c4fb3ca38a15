"""What is logged after the first queries of a run: one label for all, numbers that are unclear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from StaICC import ContextualBias, Normal
from StaICC.inference.model_warnings import FIRST_QUERIES

LABELS = ["food", "travel", "weather"]
UNCLEAR = "the numbers of the first 50 queries are not clearly probabilities or logits"
ONE_LABEL = "the first 50 queries all got the label"


def positive_logits(prompt: str, label_space: list[str]) -> list[float]:
    return [20.5 + prompt.count(label) for label in label_space]


def log_probabilities(prompt: str, label_space: list[str]) -> list[float]:
    return [-20.5 + prompt.count(label) for label in label_space]


def logged_early(caplog: pytest.LogCaptureFixture, run: Callable[[], Any]) -> list[str]:
    caplog.clear()
    run()
    return [record.getMessage() for record in caplog.records if "the first 50 queries" in record.getMessage()]


def test_positive_logits_are_logged_after_the_first_queries(caplog: pytest.LogCaptureFixture) -> None:
    logged_at = []

    def function(prompt: str, label_space: list[str]) -> list[float]:
        logged_at.append(UNCLEAR in caplog.text)
        return positive_logits(prompt, label_space)

    (message,) = logged_early(caplog, lambda: Normal(datasets=["mini"])(function))
    assert logged_at.index(True) == FIRST_QUERIES, "the next query already follows the warning"
    assert message.startswith(f"mini: {UNCLEAR}")
    assert "outputs='logits'" in message


def test_the_result_warns_of_the_whole_condition() -> None:
    result = Normal(datasets=["mini"])(positive_logits)
    assert any("the numbers are not clearly probabilities or logits" in warning for warning in result.warnings), (
        f"got {result.warnings}"
    )


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_who_says_what_the_numbers_are_gets_no_warning(outputs: Any, caplog: pytest.LogCaptureFixture) -> None:
    results = []
    run = lambda: results.append(Normal(datasets=["mini"], outputs=outputs)(positive_logits))  # noqa: E731
    assert logged_early(caplog, run) == []
    assert results[0].averaged["averaged_truelabel_likelihood"] is not None


@pytest.mark.parametrize(
    "function",
    [
        log_probabilities,
        lambda prompt, label_space: len(prompt) % 3,
        lambda prompt, label_space: label_space[len(prompt) % 3],
        lambda prompt, label_space: [0.2, 0.3, 0.5] if len(prompt) % 2 else [0.5, 0.5, -1e-17],
    ],
)
def test_clear_predictions_get_no_warning(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert logged_early(caplog, lambda: Normal(datasets=["mini"])(function)) == []


def test_one_label_is_no_fault_where_queries_have_no_content(caplog: pytest.LogCaptureFixture) -> None:
    def function(prompt: str, label_space: list[str]) -> list[float]:
        return [3.0, 2.5, 1.0 + len(prompt) % 2]

    bias = logged_early(caplog, lambda: ContextualBias(datasets=["mini"])(function))
    assert [UNCLEAR in message for message in bias] == [True]
    normal = logged_early(caplog, lambda: Normal(datasets=["mini"], outputs="logits")(function))
    assert [ONE_LABEL in message for message in normal] == [True]


def test_a_run_from_a_store_logs_it_too(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    def run() -> None:
        Normal(datasets=["mini"])(positive_logits, store=tmp_path / "store.sqlite", model_name="positive")

    assert logged_early(caplog, run) == logged_early(caplog, run) != []


def test_the_kind_that_was_decided_is_saved() -> None:
    for function, kind in ((positive_logits, "ambiguous"), (log_probabilities, "logits")):
        details = Normal(datasets=["mini"])(function).details["mini"]
        assert [condition.output for condition in details.conditions] == [kind]
