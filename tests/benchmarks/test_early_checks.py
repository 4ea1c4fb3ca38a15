"""What is logged after the first queries of a run: one label for all, numbers that are unclear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from StaICC import ContextualBias, Normal
from StaICC.inference.model_warnings import FIRST_QUERIES

UNCLEAR = "the numbers of the first 50 queries are not clearly probabilities or logits"
ONE_LABEL = "the first 50 queries all got the label"


def positive_logits(prompt: str, label_space: list[str]) -> list[float]:
    """Predict logits above 20, by how often the prompt has each label. They might be weights, too."""
    return [20.5 + prompt.count(label) for label in label_space]


def negative_logits(prompt: str, label_space: list[str]) -> list[float]:
    """Predict logits below zero, which cannot be probabilities or weights."""
    return [-20.5 + prompt.count(label) for label in label_space]


def first_of_three_labels(prompt: str, label_space: list[str]) -> list[float]:
    """Predict the first label for every prompt, with positive logits."""
    return [3.0, 2.5, 1.0 + len(prompt) % 2]


def early_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged messages about the first queries."""
    return [message for message in caplog.messages if "the first 50 queries" in message]


def test_positive_logits_are_logged_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    Normal(datasets=["mini"])(positive_logits)

    (message,) = early_warnings(caplog)
    assert message.startswith(f"mini: {UNCLEAR}")
    assert "outputs='logits'" in message


def test_positive_logits_are_logged_as_soon_as_the_first_queries_are_predicted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_logged_at_call = []

    def model(prompt: str, label_space: list[str]) -> list[float]:
        is_logged_at_call.append(UNCLEAR in caplog.text)
        return positive_logits(prompt, label_space)

    Normal(datasets=["mini"])(model)

    assert FIRST_QUERIES == 50
    assert is_logged_at_call[:50] == [False] * 50
    assert is_logged_at_call[50] is True


def test_a_result_of_positive_logits_has_a_warning_about_all_queries() -> None:
    result = Normal(datasets=["mini"])(positive_logits)

    assert "the numbers are not clearly probabilities or logits" in "\n".join(result.warnings)


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_positive_numbers_that_are_declared_get_no_warning_and_have_a_likelihood(
    outputs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = Normal(datasets=["mini"], outputs=outputs)(positive_logits)

    assert early_warnings(caplog) == []
    assert result.averaged["averaged_truelabel_likelihood"] is not None


def predict_index(prompt: str, label_space: list[str]) -> int:
    return len(prompt) % 3


def predict_label_name(prompt: str, label_space: list[str]) -> str:
    return label_space[len(prompt) % 3]


def predict_probabilities(prompt: str, label_space: list[str]) -> list[float]:
    """Predict one of two rows of probabilities, of which one has a rounding error below zero."""
    return [0.2, 0.3, 0.5] if len(prompt) % 2 else [0.5, 0.5, -1e-17]


@pytest.mark.parametrize("model", [negative_logits, predict_index, predict_label_name, predict_probabilities])
def test_clear_predictions_get_no_warning(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    Normal(datasets=["mini"])(model)

    assert early_warnings(caplog) == []


def test_one_label_for_the_first_queries_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Normal(datasets=["mini"], outputs="logits")(first_of_three_labels)

    (message,) = early_warnings(caplog)
    assert ONE_LABEL in message


def test_one_label_is_no_fault_where_queries_have_no_content(caplog: pytest.LogCaptureFixture) -> None:
    """All that is logged is that the logits are unclear."""
    ContextualBias(datasets=["mini"])(first_of_three_labels)

    (message,) = early_warnings(caplog)
    assert UNCLEAR in message
    assert ONE_LABEL not in message


def test_a_run_from_a_store_logs_the_same_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark, store = Normal(datasets=["mini"]), tmp_path / "store.sqlite"

    benchmark(positive_logits, store=store, model_name="positive")
    warnings_of_first_run = early_warnings(caplog)
    caplog.clear()
    benchmark(positive_logits, store=store, model_name="positive")

    assert len(warnings_of_first_run) == 1
    assert early_warnings(caplog) == warnings_of_first_run


@pytest.mark.parametrize(
    ("model", "kind"), [(positive_logits, "ambiguous"), (negative_logits, "logits")], ids=["positive", "negative"]
)
def test_the_kind_of_numbers_that_was_decided_is_saved(model: Any, kind: str) -> None:
    details = Normal(datasets=["mini"])(model).details["mini"]

    assert [condition.output for condition in details.conditions] == [kind]
