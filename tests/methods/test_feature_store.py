"""Prompts that share a stored feature have one value of it, whoever computed it first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.inference.contract import Features
from StaICC.inference.prompt_key import PromptKey
from StaICC.methods.feature_store import FeatureStore

YES_NO: PromptKey = ("a text", ("yes", "no"))
GOOD_BAD: PromptKey = ("a text", ("good", "bad"))
"""The same text with other labels: its loss does not depend on them, so a store keeps it once."""


class OneStore:
    """Keeps what was put first and returns it to those who come later, as the store of a run does."""

    def __init__(self) -> None:
        self.kept: dict[PromptKey, Any] = {}

    def put_many(self, answers: Sequence[tuple[PromptKey, Any]]) -> dict[PromptKey, Any]:
        earlier = {key: self.kept[key] for key, value in answers if self.kept.get(key, value) != value}
        for key, value in answers:
            self.kept.setdefault(key, value)
        return earlier


def computed(first_loss: float, second_loss: float) -> list[tuple[PromptKey, Any]]:
    return [(YES_NO, Features({"losses": first_loss})), (GOOD_BAD, Features({"losses": second_loss}))]


def losses_of_both(store: Any, answers: list[tuple[PromptKey, Any]]) -> list[float]:
    together = FeatureStore({"losses": store}, {YES_NO: {"losses"}, GOOD_BAD: {"losses"}})
    changed: dict[PromptKey, Any] = together.put_many(answers)
    return [changed.get(prompt, features)["losses"] for prompt, features in answers]


def test_what_another_run_stored_first_counts_for_all_prompts_of_a_text() -> None:
    store = OneStore()
    assert losses_of_both(store, computed(1.0, 1.0)) == [1.0, 1.0]
    assert losses_of_both(store, computed(2.0, 2.0)) == [1.0, 1.0]


def test_a_text_that_was_computed_twice_has_the_value_that_the_store_keeps() -> None:
    store = OneStore()
    assert losses_of_both(store, computed(1.0, 1.25)) == [1.0, 1.0]
    assert list(store.kept.values()) == [Features({"losses": 1.0})]
