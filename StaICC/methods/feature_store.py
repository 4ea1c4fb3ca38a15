"""The stores of several features as one, for features that one run of the model computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from StaICC.inference.claims import Claims
from StaICC.inference.contract import Answer, Features
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.recheck import RunCounter
from StaICC.inference.runner import AnswerStore
from StaICC.methods.packed_features import comparable_numbers
from StaICC.methods.requests import OF_TEXTS, Feature, is_named


def stored_key(feature: Any, key: PromptKey) -> PromptKey:
    """Return the key under which a feature of a prompt is kept: those of texts have no label space."""
    prompt, _ = key
    if is_named(feature) and feature in OF_TEXTS:
        return (prompt, ())
    return key


class FeatureStore:
    """The stores of several features as one: a prompt is stored if all features that it needs are.

    A prediction is :class:`~StaICC.inference.contract.Features`, with the features of a prompt as JSON values
    (:mod:`StaICC.methods.packed_features`). The store of a feature has the identity of this feature, so that a run that
    needs it alone finds it.
    """

    def __init__(self, stores: Mapping[Feature, AnswerStore], needed: Mapping[PromptKey, set[Feature]]) -> None:
        """Join the stores of features for some prompts.

        Args:
            stores: The store of each feature.
            needed: By a prompt with its labels, the features that are needed of it.
        """
        self._stores = stores
        self._needed = needed

    def get_many(self, queries: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the features of each prompt of which the stores have all needed features.

        Args:
            queries: The prompts with their labels.
        """
        features_of_prompts = {prompt: Features() for prompt in queries}
        for feature, store in self._stores.items():
            prompts = [prompt for prompt in queries if feature in self._needed[prompt]]
            distinct_keys = dict.fromkeys(stored_key(feature, prompt) for prompt in prompts)
            stored = store.get_many(list(distinct_keys))
            for prompt in prompts:
                key = stored_key(feature, prompt)
                if key in stored:
                    features_of_prompts[prompt][feature] = _value_of(feature, stored[key])

        complete: dict[PromptKey, Answer] = {}
        for prompt, features in features_of_prompts.items():
            if features.keys() == self._needed[prompt]:
                complete[prompt] = features
        return complete

    def put_many(self, answers: Iterable[tuple[PromptKey, Answer]]) -> dict[PromptKey, Answer]:
        """Store the computed features of prompts, and return those that differ from what was stored earlier.

        Another run or process may have stored a feature earlier, and prompts that differ in their labels only share a
        feature of their text. In both cases the value that was stored first counts. It replaces the computed one in
        the given features, too.

        Args:
            answers: Prompts, each with its computed features. Failures are not stored.

        Returns:
            The features of each prompt of which a feature was replaced.
        """
        computed = {prompt: features for prompt, features in answers if isinstance(features, Features)}
        changed: dict[PromptKey, Answer] = {}
        for feature, store in self._stores.items():
            with_feature = {prompt: features for prompt, features in computed.items() if feature in features}
            to_store: dict[PromptKey, Answer] = {}
            for prompt, features in with_feature.items():
                to_store.setdefault(stored_key(feature, prompt), _as_stored(feature, features))
            stored_earlier = store.put_many(list(to_store.items()))

            kept = to_store | stored_earlier
            for prompt, features in with_feature.items():
                kept_value = _value_of(feature, kept[stored_key(feature, prompt)])
                if features[feature] != kept_value:
                    features[feature] = kept_value
                    changed[prompt] = features
        return changed

    def version(self) -> object:
        """Return a value that changes when another run stores features."""
        return tuple(store.version() for store in self._stores.values())

    def claims(self) -> Claims:
        """Return the claims of a run on queries, which other runs that compute the first of these features see."""
        first_store = next(iter(self._stores.values()))
        return first_store.claims()

    def refuse_read_only(self) -> None:
        """Refuse stores that cannot be written, before features are computed for them."""
        for store in self._stores.values():
            store.refuse_read_only()


def _as_stored(feature: Feature, features: Features) -> Answer:
    """Return a feature as its own store keeps it: label probabilities as a plain run keeps predictions."""
    if feature == "probabilities":
        probabilities: Answer = features[feature]
        return probabilities
    return Features({feature: features[feature]})


def _value_of(feature: Feature, stored: Answer) -> Any:
    """Return the value of a feature from what its own store keeps."""
    return stored[feature] if isinstance(stored, Features) else stored


class FeatureCounter(RunCounter):
    """Compares rechecked features by their numbers, relative to the largest of a row; predictions as they are."""

    def compare(self, query: PromptKey, stored: Answer, again: Answer, where: str) -> str | None:
        """Count features that were computed again.

        Args:
            query: The prompt.
            stored: Its stored features.
            again: The features that were computed again.
            where: Which query it is, for messages.

        Returns:
            A warning, if they differ and the kernel's predictions may change; else ``None``.

        Raises:
            IdentityError: They differ from the stored ones by more than the tolerance.
        """
        return super().compare(query, comparable_numbers(stored), comparable_numbers(again), where)
