"""Warnings after the first queries of a run: one label for all, numbers that are unclear."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC import ContextualBias, Normal
from StaICC.benchmarks.experimentor import WATCHED

LABELS = ["food", "travel", "weather"]
UNCLEAR = "the numbers of the first 50 queries are not clearly probabilities or logits"
ONE_LABEL = "the first 50 queries all got the label"


def positive_logits(prompt: str, label_space: list[str]) -> list[float]:
    return [20.5 + prompt.count(label) for label in label_space]


def log_probabilities(prompt: str, label_space: list[str]) -> list[float]:
    return [-20.5 + prompt.count(label) for label in label_space]


def early_warnings(result: Any) -> list[str]:
    return [warning for warning in result.warnings if "the first 50 queries" in warning]


def test_positive_logits_are_warned_of_after_the_first_queries(caplog: pytest.LogCaptureFixture) -> None:
    warned_at = []

    def function(prompt: str, label_space: list[str]) -> list[float]:
        warned_at.append(UNCLEAR in caplog.text)
        return positive_logits(prompt, label_space)

    result = Normal(datasets=["mini"])(function)
    assert warned_at.index(True) == WATCHED, "the next query already follows the warning"
    assert [warning.split(": ", 1)[1][: len(UNCLEAR)] for warning in early_warnings(result)] == [UNCLEAR]
    assert "outputs='logits'" in early_warnings(result)[0]


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_who_says_what_the_numbers_are_gets_no_warning(outputs: Any) -> None:
    result = Normal(datasets=["mini"], outputs=outputs)(positive_logits)
    assert early_warnings(result) == []
    assert result.averaged["averaged_truelabel_likelihood"] is not None


@pytest.mark.parametrize(
    "function",
    [
        log_probabilities,
        lambda prompt, label_space: len(prompt) % 3,
        lambda prompt, label_space: label_space[len(prompt) % 3],
        lambda prompt, label_space: [0.2, 0.3, 0.5] if len(prompt) % 2 else [0.5, 0.5, -1e-17],
    ],
)
def test_clear_predictions_get_no_warning(function: Any) -> None:
    assert early_warnings(Normal(datasets=["mini"])(function)) == []


def test_bias_scores_need_probabilities_too_but_one_label_is_no_fault_there() -> None:
    result = ContextualBias(datasets=["mini"])(lambda prompt, label_space: [3.0, 2.5, 1.0 + len(prompt) % 2])
    assert [UNCLEAR in warning for warning in early_warnings(result)] == [True]
    assert not any(ONE_LABEL in warning for warning in result.warnings)


def test_the_warning_comes_also_from_a_store(tmp_path: Any) -> None:
    store = tmp_path / "store.sqlite"
    first = Normal(datasets=["mini"])(positive_logits, store=store, model_name="positive")
    again = Normal(datasets=["mini"])(positive_logits, store=store, model_name="positive")
    assert early_warnings(first) == early_warnings(again) != []


def test_the_kind_that_was_decided_is_saved() -> None:
    for function, kind in ((positive_logits, "ambiguous"), (log_probabilities, "logits")):
        details = Normal(datasets=["mini"])(function).details["mini"]
        assert [condition.output for condition in details.conditions] == [kind]
