"""The features of a model that methods use, each computed once.

A *feature* is whatever a kernel computes for a prompt: label probabilities, log-probabilities of the labels over the
vocabulary, logits of the full vocabulary, the last hidden state, or the mean loss of a text. The cache key is the
identity of the kernel, the feature, the prompt and, for the first two, the label space. What a method learns is not
cached, but computed again from cached features for each data set of each benchmark. It therefore belongs to exactly its
training prompts, and rounding repeats no prompt.

All features go through the runner (:func:`StaICC.inference.runner.predict_queries`): in chunks that are durable, with
progress, workers, rechecks and the failure policy of the run. Features of one prompt that several methods need come
from one run of the model where the kernel allows it (its ``joint_features``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from StaICC.benchmarks.context import RunContext
from StaICC.inference.contract import Answer, Features, Inference, tokens_used
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.recheck import rechecks, tolerance_of
from StaICC.inference.replies import Failure, OnError, Unparsed
from StaICC.inference.runner import AnswerStore, Part, RunOptions, predict_queries
from StaICC.inference.store import query_key
from StaICC.kernels import protocol
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.batches import in_batches
from StaICC.methods.feature_store import FeatureCounter, FeatureStore, stored_key
from StaICC.methods.kernel_functions import FeatureFunction, KernelFunction, of_kernel
from StaICC.methods.packed_features import unpacked_row
from StaICC.methods.present_rows import apply_present
from StaICC.methods.requests import MODEL_ITSELF, Request, is_named
from StaICC.prompting.prompt_writer import Prompt, Query

AT_ONCE = 256
"""Maximum number of prompts whose features are in memory: full-vocabulary logits are large."""

_MEMORY = 1 << 30
"""Bytes of full-vocabulary logits that are kept in memory; a store keeps them all."""

Slot = tuple[Any, PromptKey]
"""A feature of a prompt: the feature, then the prompt with the labels if the feature depends on them."""


class Tokens(NamedTuple):
    """Tokens that a model has counted."""

    read: int
    generated: int

    def plus(self, other: Tokens) -> Tokens:
        """Return the sums."""
        return Tokens(self.read + other.read, self.generated + other.generated)

    def minus(self, other: Tokens) -> Tokens:
        """Return the differences."""
        return Tokens(self.read - other.read, self.generated - other.generated)


@dataclass(frozen=True)
class _FeatureCall:
    """What one run of the model computes: some features of some prompts."""

    features: list[Any]
    """Joint features of the kernel, or one other feature."""
    needed: dict[PromptKey, set[Any]]
    """For each prompt, those of the features that are needed."""


def text_count(prompt: Prompt) -> int:
    """Return how many texts the model reads for a prompt: in the noisy channel one for each label."""
    return 1 if isinstance(prompt, str) else len(prompt)


class FeatureCache:
    """Computes each feature of each prompt once.

    Args:
        kernel: Any inference function.
        compute: Evaluates an inference function on queries, as :func:`StaICC.inference.runner.predict_queries`.

    Attributes:
        predictor: The function whose predictions the requests of the current data set are: the kernel, or another
            function that calls it, such as its noisy channel.
        computed: Of how many texts it computed features.
        reused: Of how many texts requested features were in memory or in the store.
        logged: The warnings that runs with this cache logged.
        tokens_at_start: The tokens that the kernel had counted when the cache was made; ``None`` as for :attr:`tokens`.
        digest: Digest of the kernel's identity in the current run, or the last one; what is in memory belongs to it.
    """

    def __init__(self, kernel: Inference, compute: Callable[..., Sequence[Answer | Failure]] = predict_queries) -> None:
        self.kernel = kernel
        self.predictor = kernel
        self.digest = ""
        self.logged: set[str] = set()
        self.computed = 0
        self.reused = 0
        self._compute_queries = compute
        self._memory: dict[Slot, Any] = {}
        self._warnings: dict[Slot, tuple[str, ...]] = {}  # of the call that computed what is in memory
        self._bytes_in_memory = 0
        self._functions: dict[Any, Inference] = {MODEL_ITSELF: kernel}
        self._tokens_of_workers = Tokens(0, 0)
        self.tokens_at_start = self.tokens
        self._context: RunContext | None = None
        self._recheck: bool | None = None
        self._unparsed: Unparsed = "error"

    @property
    def tokens(self) -> Tokens | None:
        """Tokens that the kernel has read and generated so far, in workers too; ``None`` if it does not count them."""
        used = tokens_used(self.kernel)
        if used is None:
            return None
        return self._tokens_of_workers.plus(Tokens(*used))

    def function(self, feature: Any) -> Inference:
        """Return the inference function of a feature, under whose identity a store keeps it."""
        if feature not in self._functions:
            if is_named(feature):
                self._functions[feature] = FeatureFunction(self.kernel, {feature})
            else:
                self._functions[feature] = replace(feature, kernel=self.kernel)
        return self._functions[feature]

    def start(self, context: RunContext, recheck: bool | None = None, unparsed: Unparsed = "error") -> None:
        """Use the store, the workers and the policies of a run from now on.

        Args:
            context: The context of the run, with its store and workers.
            recheck: Whether reused predictions are rechecked; ``None``: unless requests may cost money.
            unparsed: What to do about replies without a label.
        """
        identity = context.identity_of(self.kernel)
        is_another_run = context is not self._context
        may_be_another_model = is_another_run and not identity.complete
        if identity.digest != self.digest or may_be_another_model:
            self.digest = identity.digest
            self._bytes_in_memory = 0
            self._memory.clear()
            self._warnings.clear()
        self._context = context
        self._recheck = recheck
        self._unparsed = unparsed
        self.predictor = self.kernel

    def rows(self, requests: Sequence[Request], part: Part | None = None, policy: OnError | None = None) -> list[Any]:
        """Return the rows of each request; features are computed together, so that prompts share prefixes.

        Args:
            requests: The requests.
            part: For messages and progress.
            policy: What to do about failures, where it is not that of the run.

        Returns:
            For each request its rows; a :class:`Failure` where there is none and the run collects failures.

        Raises:
            OutputError: A prompt has no feature, and the run stops at the first failure.
        """
        prompt_of_slot: dict[Slot, PromptKey] = {}
        for request in requests:
            self._set_predictor(request.feature)
            for key in request.keys:
                slot = (request.feature, stored_key(request.feature, key))
                prompt_of_slot.setdefault(slot, key)

        row_of_slot = self._remembered(prompt_of_slot)
        missing: dict[PromptKey, dict[Any, None]] = {}  # a dictionary keeps the order of the features
        for slot, key in prompt_of_slot.items():
            if slot not in row_of_slot:
                feature, _ = slot
                missing.setdefault(key, {})[feature] = None
        for call in self._calls(missing):
            row_of_slot |= self._compute(call, part or Part("features"), len(requests) > 1, policy)

        rows_of_requests = []
        for request in requests:
            rows = [row_of_slot[request.feature, stored_key(request.feature, key)] for key in request.keys]
            rows_of_requests.append(apply_present(rows, list))  # copies: a method may change its rows
        return rows_of_requests

    def _set_predictor(self, feature: Any) -> None:
        """Take a function that calls the kernel otherwise, such as its noisy channel, for who predicts."""
        if isinstance(feature, KernelFunction):
            self.predictor = self.function(feature)

    def _remembered(self, slots: Iterable[Slot]) -> dict[Slot, Any]:
        """Return the rows that are in memory, count them as reused, and repeat the warnings of their computation."""
        rows = {slot: self._memory[slot] for slot in slots if slot in self._memory}

        reused_of_features = Counter(feature for feature, _ in rows)
        for feature, number in reused_of_features.items():
            if of_kernel(feature):
                self._options(feature).counter.counts.update(reused=number)
        self.reused += sum(text_count(prompt) for _, (prompt, _) in rows)

        if self._context is not None:
            warnings: dict[str, None] = {}  # each once, in their order
            for slot in rows:
                warnings.update(dict.fromkeys(self._warnings.get(slot, ())))
            self._context.warn(*warnings)
        return rows

    def _calls(self, missing: Mapping[PromptKey, Collection[Any]]) -> list[_FeatureCall]:
        """Return what one run of the model computes of which prompts.

        These are joint features together and every other feature alone, texts and noisy channels apart.

        Args:
            missing: For each prompt, the features that are to be computed.
        """
        groups = self._groups_of_features(missing)
        calls = []
        for prompt_type in (str, tuple):  # texts, then noisy channels
            keys = [key for key in missing if isinstance(key[0], prompt_type)]
            for group in groups:
                needed = {}
                for key in keys:
                    needed_of_prompt = set(group).intersection(missing[key])
                    if needed_of_prompt:
                        needed[key] = needed_of_prompt
                if needed:
                    calls.append(_FeatureCall(group, needed))
        return calls

    def _groups_of_features(self, missing: Mapping[PromptKey, Collection[Any]]) -> list[list[Any]]:
        """Return the features that are to be computed, in groups of which each needs one run of the model."""
        features: dict[Any, None] = {}  # a dictionary keeps their order
        for features_of_prompt in missing.values():
            features.update(dict.fromkeys(features_of_prompt))
        groups = []
        joint = sorted(protocol.joint_features_of(self.kernel).intersection(features))
        # The kernel computes log-probabilities only as a joint feature, and any other single feature by itself.
        if len(joint) > 1 or "log_probabilities" in joint:
            groups.append(joint)
        else:
            joint = []
        for feature in features:
            if feature not in joint:
                groups.append([feature])
        return groups

    def _compute(self, call: _FeatureCall, part: Part, grouped: bool, policy: OnError | None) -> dict[Slot, Any]:
        """Compute and remember the rows of a call.

        Args:
            call: The call.
            part: For messages and progress.
            grouped: Whether prompts with a common prefix follow each other.
            policy: What to do about failures, where it is not that of the run.
        """
        feature = call.features[0]
        if not of_kernel(feature):
            vectors = self._encode(feature, call)
            return self._remember(call, vectors, warnings=(), stored_features=())
        if is_named(feature):
            return self._compute_named(call, part, grouped, policy)

        warnings: list[str] = []
        options = _keeping_warnings(self._options(feature), warnings)
        if isinstance(feature, TextInference):
            options = replace(options, free_text=True, on_error="collect")
        answers = self._predict(self.function(feature), call, part, options)
        return self._remember(call, answers, tuple(warnings), stored_features=())

    def _compute_named(self, call: _FeatureCall, part: Part, grouped: bool, policy: OnError | None) -> dict[Slot, Any]:
        """Compute features that the kernel itself has, and remember their rows; arguments as for :meth:`_compute`."""
        warnings: list[str] = []
        options = _keeping_warnings(self._options(call.features[0]), warnings)
        options = replace(options, group_prefixes=grouped, on_error=policy or options.on_error)
        stores = self._stores(call.features)
        if call.features == [MODEL_ITSELF]:
            function = self.function(MODEL_ITSELF)  # with the store of plain predictions
        else:
            function = self._joint_function(call)
            store_of_features = FeatureStore(stores, call.needed) if stores else None
            options = replace(options, store=store_of_features)
        answers = self._predict(function, call, part, options)
        return self._remember(call, answers, tuple(warnings), stored_features=stores.keys())

    def _stores(self, features: Sequence[Any]) -> dict[Any, AnswerStore]:
        """Return the store of each feature, if the run has one."""
        stores = {}
        for feature in features:
            store = self._options(feature).store
            if store is not None:
                stores[feature] = store
        return stores

    def _joint_function(self, call: _FeatureCall) -> FeatureFunction:
        """Return the function that computes the features of a call, and of each prompt only those that it needs."""
        fewer = {}
        for (prompt, labels), needed in call.needed.items():
            if len(needed) < len(call.features):
                fewer[query_key(prompt, labels)] = needed
        return FeatureFunction(self.kernel, call.features, fewer)

    def _encode(self, function: Callable[[list[str]], Any], call: _FeatureCall) -> list[Any]:
        """Return the vectors that a function of texts, which is no inference function, returns."""
        texts = [str(prompt) for prompt, _ in call.needed]
        vectors: list[Any] = []
        for some_texts in in_batches(texts, AT_ONCE):
            vectors.extend(function(list(some_texts)))
        self.computed += len(texts)
        return vectors

    def _predict(self, function: Inference, call: _FeatureCall, part: Part, options: RunOptions) -> Sequence[Any]:
        """Evaluate a function on the prompts of a call, and count what was computed."""
        queries = []
        for number, (prompt, labels) in enumerate(call.needed):
            # Features do not depend on the true label; the prompts are numbered in the place of test rows.
            queries.append(Query(prompt, labels, label=0, row=number, repeat=0))
        counter_of_run = options.counter
        counter_of_call = FeatureCounter(
            tolerance=tolerance_of(function),
            recheck=rechecks(function, self._recheck),
            done=counter_of_run.counts["rechecked"],
            remark=counter_of_run.remark,
            budget=counter_of_run.budget,
        )
        try:
            return self._compute_queries(function, queries, part, replace(options, counter=counter_of_call))
        finally:
            counter_of_run.include(counter_of_call)
            self._count_texts(queries, counter_of_call)

    def _count_texts(self, queries: Sequence[Query], counter: FeatureCounter) -> None:
        """Add what a run of the model computed, and what it reused, to the counts of this cache.

        Args:
            queries: The prompts, all with the same number of texts.
            counter: The counter of the run of the model.
        """
        texts_per_prompt = sum(text_count(query.prompt) for query in queries) // len(queries)
        self.computed += counter.counts["computed"] * texts_per_prompt
        self.reused += counter.counts["reused"] * texts_per_prompt
        self._tokens_of_workers = self._tokens_of_workers.plus(Tokens(*counter.tokens))

    def _options(self, feature: Any) -> RunOptions:
        """Return the options with which the run computes a feature.

        The kernel itself computes the features that have a name, so they are counted as predictions of the kernel.
        Other functions, such as the noisy channel, have counts of their own.
        """
        if self._context is None:
            return RunOptions()
        options = self._context.options_for(self.function(feature))
        counter = options.counter
        if is_named(feature):
            counter = self._context.options_for(self.kernel).counter
        return replace(options, unparsed=self._unparsed, counter=counter)

    def _remember(
        self,
        call: _FeatureCall,
        answers: Iterable[Any],
        warnings: tuple[str, ...],
        stored_features: Collection[Any],
    ) -> dict[Slot, Any]:
        """Return the rows of what was computed, and keep them in memory.

        Args:
            call: What was computed.
            answers: The answer for each of its prompts.
            warnings: The warnings of the computation.
            stored_features: The features that a store keeps.
        """
        rows: dict[Slot, Any] = {}
        for (key, needed), answer in zip(call.needed.items(), answers, strict=True):
            for feature in needed:
                slot = (feature, stored_key(feature, key))
                if isinstance(answer, Failure):
                    rows[slot] = answer
                else:
                    value = answer[feature] if isinstance(answer, Features) else answer
                    rows[slot] = unpacked_row(feature, value)
                    self._keep(slot, rows[slot], warnings, is_stored=feature in stored_features)
        return rows

    def _keep(self, slot: Slot, row: Any, warnings: tuple[str, ...], is_stored: bool) -> None:
        """Keep a row in memory, with the warnings of its computation.

        Logits of the full vocabulary are large. They are kept only if no store has them and there is room.
        """
        feature, _ = slot
        if feature == "vocabulary":
            has_room = self._bytes_in_memory + row.nbytes <= _MEMORY
            if is_stored or not has_room:
                return
            self._bytes_in_memory += row.nbytes
        self._memory[slot] = row
        if warnings:
            self._warnings[slot] = warnings


def _keeping_warnings(options: RunOptions, kept: list[str]) -> RunOptions:
    """Return options whose warnings of what went wrong in the run are also added to a list."""

    def warn(warning: str) -> None:
        kept.append(warning)
        if options.warn is not None:
            options.warn(warning)

    return replace(options, warn=warn)
