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
from StaICC.prompting.prompt_text import Prompt
from StaICC.prompting.prompt_writer import Query

AT_ONCE = 256
"""Maximum number of prompts whose features are in memory: full-vocabulary logits are large."""

_MEMORY = 1 << 30
"""Bytes of full-vocabulary logits that are kept in memory; a store keeps them all."""

CacheKey = tuple[Any, PromptKey]
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


def _cache_key(feature: Any, prompt: PromptKey) -> CacheKey:
    """Return the key of a feature of a prompt. Prompts that differ in labels only share features of their text."""
    return (feature, stored_key(feature, prompt))


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
        """Make an empty cache for a kernel; the description of the class explains the arguments."""
        self.kernel = kernel
        self.predictor = kernel
        self.digest = ""
        self.logged: set[str] = set()
        self.computed = 0
        self.reused = 0
        self._compute_queries = compute
        self._memory: dict[CacheKey, Any] = {}
        self._warnings: dict[CacheKey, tuple[str, ...]] = {}  # of the call that computed what is in memory
        self._bytes_in_memory = 0  # of the logits of the whole vocabulary, which are the largest features
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
        """Return the inference function that computes a feature. A store keeps the feature under its identity.

        Args:
            feature: The name of a feature, such as ``"hidden"``; or an inference function without its kernel.
        """
        if feature not in self._functions:
            if is_named(feature):
                self._functions[feature] = FeatureFunction(self.kernel, {feature})
            else:
                self._functions[feature] = replace(feature, kernel=self.kernel)
        return self._functions[feature]

    def start(self, context: RunContext, recheck: bool | None = None, unparsed: Unparsed = "error") -> None:
        """Use the store, the workers and the policies of a run from now on.

        Features in memory are kept if the kernel is known to be the same as before. If its identity is incomplete, it
        may have changed since an earlier run.

        Args:
            context: The context of the run, with its store and workers.
            recheck: Whether reused predictions are rechecked; ``None``: unless requests may cost money.
            unparsed: What to do about replies without a label.
        """
        identity = context.identity_of(self.kernel)
        is_another_run = context is not self._context
        may_have_changed = is_another_run and not identity.complete
        if identity.digest != self.digest or may_have_changed:
            self.digest = identity.digest
            self._bytes_in_memory = 0
            self._memory.clear()
            self._warnings.clear()
        self._context = context
        self._recheck = recheck
        self._unparsed = unparsed
        self.predictor = self.kernel

    def rows(self, requests: Sequence[Request], part: Part | None = None, policy: OnError | None = None) -> list[Any]:
        """Return the rows of each request: for each prompt the requested feature.

        Features that are neither in memory nor in the store are computed, those of all requests together. So prompts
        with a common beginning can follow each other.

        Args:
            requests: The requests.
            part: Name and number of this part of the run, for messages and progress.
            policy: What to do about failures; ``None`` for the policy of the run.

        Returns:
            For each request its rows; a :class:`Failure` where there is none and the run collects failures.

        Raises:
            OutputError: A prompt has no feature, and the run stops at the first failure.
        """
        prompts: dict[CacheKey, PromptKey] = {}
        for request in requests:
            if isinstance(request.feature, KernelFunction):
                self.predictor = self.function(request.feature)
            for prompt in request.keys:
                prompts.setdefault(_cache_key(request.feature, prompt), prompt)

        rows = self._rows_in_memory(prompts)
        missing: dict[PromptKey, dict[Any, None]] = {}  # by prompt its features; a dictionary keeps their order
        for cache_key, prompt in prompts.items():
            if cache_key not in rows:
                feature, _ = cache_key
                missing.setdefault(prompt, {})[feature] = None
        for call in self._calls(missing):
            rows |= self._compute(call, part or Part("features"), len(requests) > 1, policy)

        rows_of_requests = []
        for request in requests:
            rows_of_request = [rows[_cache_key(request.feature, prompt)] for prompt in request.keys]
            rows_of_requests.append(apply_present(rows_of_request, list))  # copies: a method may change its rows
        return rows_of_requests

    def _rows_in_memory(self, cache_keys: Iterable[CacheKey]) -> dict[CacheKey, Any]:
        """Return the rows that are in memory, count them as reused, and repeat the warnings of their computation."""
        rows = {cache_key: self._memory[cache_key] for cache_key in cache_keys if cache_key in self._memory}

        reused_of_features = Counter(feature for feature, _ in rows)
        for feature, number in reused_of_features.items():
            if of_kernel(feature):
                self._options(feature).counter.counts.update(reused=number)
        self.reused += sum(text_count(prompt) for _, (prompt, _) in rows)

        if self._context is not None:
            warnings: dict[str, None] = {}  # each once, in their order
            for cache_key in rows:
                warnings.update(dict.fromkeys(self._warnings.get(cache_key, ())))
            self._context.warn(*warnings)
        return rows

    def _calls(self, missing: Mapping[PromptKey, Collection[Any]]) -> list[_FeatureCall]:
        """Return the runs of the model that compute missing features.

        A run computes several features of a prompt if the kernel can (its joint features), otherwise one. Prompts that
        are a text and those of the noisy channel, which are several texts, are in different runs.

        Args:
            missing: For each prompt, the features that are to be computed.
        """
        groups = self._groups_of_features(missing)
        calls = []
        for prompt_type in (str, tuple):  # texts, then prompts of the noisy channel
            keys_of_type = [key for key in missing if isinstance(key[0], prompt_type)]
            for group in groups:
                needed = {}
                for key in keys_of_type:
                    features_of_prompt = set(group).intersection(missing[key])
                    if features_of_prompt:
                        needed[key] = features_of_prompt
                if needed:
                    calls.append(_FeatureCall(group, needed))
        return calls

    def _groups_of_features(self, missing: Mapping[PromptKey, Collection[Any]]) -> list[list[Any]]:
        """Return the missing features in groups. One run of the model can compute the features of a group together.

        Args:
            missing: For each prompt, the features that are to be computed.
        """
        features: dict[Any, None] = {}  # a dictionary keeps their order
        for features_of_prompt in missing.values():
            features.update(dict.fromkeys(features_of_prompt))
        joint_features = sorted(protocol.joint_features_of(self.kernel).intersection(features))
        # The kernel has a method for each single feature, except for log-probabilities: these are always computed as
        # joint features.
        if len(joint_features) == 1 and joint_features != ["log_probabilities"]:
            joint_features = []

        groups = []
        if joint_features:
            groups.append(joint_features)
        for feature in features:
            if feature not in joint_features:
                groups.append([feature])
        return groups

    def _compute(self, call: _FeatureCall, part: Part, grouped: bool, policy: OnError | None) -> dict[CacheKey, Any]:
        """Compute the rows of a call, and keep them in memory.

        Args:
            call: The features and the prompts.
            part: Name and number of this part of the run, for messages and progress.
            grouped: Whether prompts with a common prefix follow each other.
            policy: What to do about failures; ``None`` for the policy of the run.
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

    def _compute_named(
        self, call: _FeatureCall, part: Part, grouped: bool, policy: OnError | None
    ) -> dict[CacheKey, Any]:
        """Compute features that have a name, such as ``"hidden"``: the kernel itself computes these.

        Predictions alone are computed as in a run without a method, with the same store. Arguments as for
        :meth:`_compute`.
        """
        warnings: list[str] = []
        options = _keeping_warnings(self._options(call.features[0]), warnings)
        options = replace(options, group_prefixes=grouped, on_error=policy or options.on_error)
        stores = self._stores(call.features)
        if call.features == [MODEL_ITSELF]:
            function = self.function(MODEL_ITSELF)
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
        """Return the function that computes the features of a call, of each prompt only those that it needs."""
        features_of_prompts_with_fewer = {}
        for (prompt, labels), needed in call.needed.items():
            if len(needed) < len(call.features):
                features_of_prompts_with_fewer[query_key(prompt, labels)] = needed
        return FeatureFunction(self.kernel, call.features, fewer=features_of_prompts_with_fewer)

    def _encode(self, encoder: Callable[[list[str]], Any], call: _FeatureCall) -> list[Any]:
        """Return the vector of each prompt of a call from a text encoder, which is no inference function."""
        texts = [str(prompt) for prompt, _ in call.needed]
        vectors: list[Any] = []
        for some_texts in in_batches(texts, AT_ONCE):
            vectors.extend(encoder(list(some_texts)))
        self.computed += len(texts)
        return vectors

    def _predict(self, function: Inference, call: _FeatureCall, part: Part, options: RunOptions) -> Sequence[Any]:
        """Return what an inference function predicts for the prompts of a call, and count what was computed.

        Args:
            function: The inference function.
            call: The prompts.
            part: Name and number of this part of the run, for messages and progress.
            options: The options of the run for this function.
        """
        queries = []
        for number, (prompt, labels) in enumerate(call.needed):
            # The runner takes queries. No prediction depends on the true label or the row that they have here.
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
    ) -> dict[CacheKey, Any]:
        """Return the rows that were computed, and keep them in memory, but for failures.

        Args:
            call: The features and prompts that were computed.
            answers: For each prompt a failure, its features, or the value of the only feature.
            warnings: The warnings of the computation.
            stored_features: The features that a store keeps.
        """
        rows: dict[CacheKey, Any] = {}
        for (prompt, needed), answer in zip(call.needed.items(), answers, strict=True):
            for feature in needed:
                cache_key = _cache_key(feature, prompt)
                if isinstance(answer, Failure):
                    rows[cache_key] = answer
                else:
                    value = answer[feature] if isinstance(answer, Features) else answer
                    row = unpacked_row(feature, value)
                    rows[cache_key] = row
                    self._keep(cache_key, row, warnings, is_stored=feature in stored_features)
        return rows

    def _keep(self, cache_key: CacheKey, row: Any, warnings: tuple[str, ...], is_stored: bool) -> None:
        """Keep a row in memory, with the warnings of its computation.

        Logits of the full vocabulary are large. They are kept only if no store has them and there is room.

        Args:
            cache_key: The feature and the prompt of the row.
            row: The row.
            warnings: The warnings of the computation.
            is_stored: Whether a store has the row.
        """
        feature, _ = cache_key
        if feature == "vocabulary":
            has_room = self._bytes_in_memory + row.nbytes <= _MEMORY
            if is_stored or not has_room:
                return
            self._bytes_in_memory += row.nbytes
        self._memory[cache_key] = row
        if warnings:
            self._warnings[cache_key] = warnings


def _keeping_warnings(options: RunOptions, kept: list[str]) -> RunOptions:
    """Return options with which each warning of a run is also appended to a list.

    Args:
        options: The options of the run.
        kept: Gets the warnings.
    """

    def warn(warning: str) -> None:
        """Append a warning to the list, and pass it on to the function that the options have for warnings."""
        kept.append(warning)
        if options.warn is not None:
            options.warn(warning)

    return replace(options, warn=warn)
