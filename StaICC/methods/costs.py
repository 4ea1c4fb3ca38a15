"""What a method costs: prompts, seconds, tokens, labelled examples. This is the one place that counts them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Literal

from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.methods.asked_prompts import AskedPrompts
from StaICC.methods.contract import MethodRecord
from StaICC.methods.features import FeatureCache, Tokens
from StaICC.methods.model_caches import ModelCaches
from StaICC.methods.requests import Role

Phase = Literal["loading", "training", "test"]
"""What time and tokens are spent on. Loading: identity of the model, data, prompts. Training: requests of the role
``"train"`` with what the method makes of them. Test: those of the role ``"test"``."""

PHASES: dict[Role, Phase] = {"train": "training", "test": "test"}
"""The phase of requests by their role."""

SECONDS: dict[Phase, str] = {"loading": "loading_seconds", "training": "training_seconds", "test": "seconds"}
"""Names of the seconds of each phase in ``result.timing``."""

PROMPTS: dict[Phase, str] = {"training": "training_prompts", "test": "test_prompts"}
"""Names of the numbers of distinct prompts of each phase."""

TOKENS_READ: dict[Phase, str] = {"training": "training_tokens_read", "test": "test_tokens_read"}
"""Names of the tokens that the model reads in each phase."""

TOKENS_GENERATED: dict[Phase, str] = {"training": "training_tokens_generated", "test": "test_tokens_generated"}
"""Names of the tokens that it generates."""

FURTHER = "further_"
"""Begins the names of the tokens of further models."""

REUSED_PROMPTS = "reused_prompts"
"""Number of prompts that were computed before, by another method or run."""

TOKENS_ALONE = "tokens_alone"
"""Tokens that the method alone reads, and generates at most; only where methods run together."""

LABELLED_PER_QUERY = "labelled_per_query"
"""Mean number of distinct demonstrations that the model was shown for a query, in all its prompts."""

LABELLED_IN_TRAINING = "labelled_in_training"
"""Number of distinct rows of the calibration or demonstration set whose labels the method read."""


class Costs:
    """The costs of a method, summed over the data sets of a benchmark."""

    def __init__(self, caches: ModelCaches) -> None:
        """Set all costs to 0, and measure seconds and tokens from now on.

        Costs in tokens are among them if the model of the method counts tokens, as a server does.

        Args:
            caches: The caches of the models, which compute the requests of the method and count tokens.
        """
        names = [
            SECONDS["loading"],
            PROMPTS["training"],
            SECONDS["training"],
            PROMPTS["test"],
            SECONDS["test"],
            REUSED_PROMPTS,
        ]
        if caches.main.tokens is not None:
            for phase in PHASES.values():
                names += [TOKENS_READ[phase], TOKENS_GENERATED[phase]]
        self._sums = dict.fromkeys([*names, LABELLED_IN_TRAINING], 0.0)
        self._caches = caches
        self._demonstrations = 0.0
        """Sum over queries of the distinct demonstrations that the model was shown; NaN if unknown for a data set."""
        self._queries = 0
        self._measured_from = time.monotonic()
        self._tokens_before: dict[FeatureCache, Tokens | None] = {}
        """The tokens that each model had counted when the present phase began."""
        self.start()
        self._tokens_at_start = dict(self._tokens_before)

    def start(self) -> None:
        """Measure seconds and tokens from now on."""
        self._measured_from = time.monotonic()
        self._tokens_before = {cache: cache.tokens for cache in (self._caches.main, *self._caches.further)}

    def add(self, name: str, value: float) -> None:
        """Add to a cost."""
        self._sums[name] = self._sums.get(name, 0.0) + value

    def charge(self, phase: Phase) -> None:
        """Charge the seconds and tokens that were spent since the last call, or since :meth:`start`, to a phase."""
        self.add(SECONDS[phase], time.monotonic() - self._measured_from)
        if phase != "loading":
            self._charge_tokens(phase)
        self.start()

    def _charge_tokens(self, phase: Phase) -> None:
        """Charge the tokens that each model has counted since :meth:`start` to a phase."""
        for cache in (self._caches.main, *self._caches.further):
            spent = _tokens_since(self._tokens_before, cache)
            if spent is None:
                continue
            prefix = "" if cache is self._caches.main else FURTHER
            self.add(prefix + TOKENS_READ[phase], spent.read)
            self.add(prefix + TOKENS_GENERATED[phase], spent.generated)

    def tokens_of(self, cache: FeatureCache) -> Tokens | None:
        """Return the tokens that a model has counted since these costs began; ``None`` if it does not count them."""
        return _tokens_since(self._tokens_at_start, cache)

    def add_data_set(
        self, asked: AskedPrompts, record: MethodRecord, predicted: BaseExperimentor, reused_prompts: int
    ) -> None:
        """Add the prompts, labelled examples and notes of a data set.

        Args:
            asked: What the method asked.
            record: What the method read, and what it notes.
            predicted: The data set with the prompts that the predictions answer.
            reused_prompts: How many of its prompts were computed before.
        """
        for role, phase in PHASES.items():
            self.add(PROMPTS[phase], asked.number_of_texts(role))
        self.add(REUSED_PROMPTS, reused_prompts)
        for name, number in record.notes.items():
            self.add(name, number)
        for positions in record.labels_read.values():
            self.add(LABELLED_IN_TRAINING, len(positions))
        demonstrations = asked.demonstrations_per_query(predicted)
        self._demonstrations += math.nan if demonstrations is None else sum(demonstrations)
        self._queries += len(predicted)

    def add_tokens_alone(self, asked: AskedPrompts, finished: bool) -> None:
        """Add the tokens that the method alone needs on a data set; unknown if it could not finish.

        Args:
            asked: What the method asked.
            finished: Whether it could finish.
        """
        self.add(TOKENS_ALONE, asked.tokens_alone() if finished else math.nan)

    def timing(self) -> dict[str, float]:
        """Return the costs by name; those that are unknown for a data set are left out."""
        costs = dict(self._sums)
        if self._queries:
            costs[LABELLED_PER_QUERY] = self._demonstrations / self._queries
        return {name: value for name, value in costs.items() if not math.isnan(value)}


def _tokens_since(earlier: Mapping[FeatureCache, Tokens | None], cache: FeatureCache) -> Tokens | None:
    """Return the tokens that a model has counted since an earlier time; ``None`` if it does not count them.

    Args:
        earlier: By the cache of a model, the tokens that it had counted at the earlier time; ``None`` for a model that
            does not count them.
        cache: The cache of the model.
    """
    tokens_now = cache.tokens
    if cache in earlier:
        tokens_then = earlier[cache]
    else:  # the cache was made after the earlier time, so all tokens since then count
        tokens_then = cache.tokens_at_start
    if tokens_now is None or tokens_then is None:
        return None
    return tokens_now.minus(tokens_then)
