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


class FirstValueStore:
    """Keeps the first value of each key, as the store of a run does."""

    def __init__(self) -> None:
        self.kept: dict[PromptKey, Any] = {}

    def put_many(self, answers: Sequence[tuple[PromptKey, Any]]) -> dict[PromptKey, Any]:
        """Keep the values of new keys, and return the earlier value of each key that has another one."""
        earlier = {}
        for key, value in answers:
            kept_value = self.kept.setdefault(key, value)
            if kept_value != value:
                earlier[key] = kept_value
        return earlier


def computed(yes_no_loss: float, good_bad_loss: float) -> list[tuple[PromptKey, Any]]:
    """Return losses of the text that a run computed for both label spaces."""
    return [(YES_NO, Features({"losses": yes_no_loss})), (GOOD_BAD, Features({"losses": good_bad_loss}))]


def losses_after_storing(store: Any, answers: list[tuple[PromptKey, Any]]) -> list[float]:
    """Store losses, and return those that the run goes on with."""
    feature_store = FeatureStore({"losses": store}, {YES_NO: {"losses"}, GOOD_BAD: {"losses"}})
    changed: dict[PromptKey, Any] = feature_store.put_many(answers)
    return [changed.get(prompt, features)["losses"] for prompt, features in answers]


def test_what_another_run_stored_first_counts_for_all_prompts_of_a_text() -> None:
    store = FirstValueStore()
    assert losses_after_storing(store, computed(1.0, 1.0)) == [1.0, 1.0]

    assert losses_after_storing(store, computed(2.0, 2.0)) == [1.0, 1.0]


def test_a_text_that_was_computed_twice_has_the_value_that_the_store_keeps() -> None:
    store = FirstValueStore()

    assert losses_after_storing(store, computed(1.0, 1.25)) == [1.0, 1.0]
    assert list(store.kept.values()) == [Features({"losses": 1.0})]
