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

import base64
import copy
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from StaICC.benchmarks.context import RunContext
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import forecast
from StaICC.inference.claims import Claims
from StaICC.inference.contract import Answer, Features, Inference, batch_form, check_answer, check_batch, tokens_used
from StaICC.inference.forecast import Forecast
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.recheck import RunCounter, rechecks, tolerance_of
from StaICC.inference.replies import Failure, OnError, Unparsed, failure_of_error, output_error
from StaICC.inference.runner import AnswerStore, Part, RunOptions, predict_queries
from StaICC.inference.store import query_key
from StaICC.kernels import protocol
from StaICC.kernels.protocol import Capability
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.requests import CAPABILITIES as CAPABILITIES
from StaICC.methods.requests import OF_TEXTS as OF_TEXTS
from StaICC.methods.requests import VECTORS, prompt_keys
from StaICC.methods.requests import Feature as Feature
from StaICC.methods.requests import Request as Request
from StaICC.optional import Package
from StaICC.prompting.prompt_writer import Query

numpy = Package("numpy", "hf", "this method")

AT_ONCE = 256
"""Maximum number of prompts whose features are in memory: full-vocabulary logits are large."""


def features_of(function: Inference, prompts: Sequence[Any], label_space: Sequence[str], feature: Feature) -> Any:
    """Return a feature of the model for each prompt.

    Args:
        function: A kernel with the capability. For ``"vocabulary"`` and ``"hidden"`` also a function that returns a
            tuple: label probabilities, then the hidden state and the logits as requested.
        prompts: The prompts.
        label_space: The labels.
        feature: The feature.

    Returns:
        For ``"probabilities"`` a list of unchecked predictions, otherwise a sequence of rows, one for each prompt.

    Raises:
        ArgumentError: The function does not return the feature.
    """
    batch, capability = batch_form(function), CAPABILITIES[feature]
    method = protocol.method_of(function, capability)
    if method is not None:
        return method(list(prompts))
    answers: Iterable[Any] = (function(prompt=prompt, label_space=list(label_space)) for prompt in prompts)
    if batch is not None:
        answers = check_batch(batch(list(prompts), list(label_space)), len(prompts))
    if feature == "probabilities":
        return list(answers)
    rows = []
    for answer in answers:
        if not isinstance(answer, tuple) or len(answer) < 2:
            got = f"it returned a {type(answer).__name__}, expected a tuple of label probabilities and features"
            name = protocol.kernel_name(function)
            raise ArgumentError(f"{name} does not provide {capability.value}: {got}. {protocol.USE_LOCAL_MODEL}")
        rows.append(answer[1 if feature == "hidden" else -1])
    return rows


def check_capabilities(user: str, kernel: Any, requires: frozenset[Capability], *features: Any) -> None:
    """Refuse a kernel that lacks a capability.

    Args:
        user: The name of the method that requires the capabilities, for the message.
        kernel: A kernel or any inference function.
        requires: The required capabilities.
        *features: The requested features.

    Raises:
        CapabilityError: The kernel lacks one. The message names method, capability and kernel.
    """
    requires |= {CAPABILITIES[feature] for feature in features if feature in OF_TEXTS}
    protocol.require_capabilities(user, kernel, requires, log_probabilities="log_probabilities" in features)


def check_requests(user: str, kernel: Any, requests: object) -> None:
    """Refuse what is no list of requests, and a kernel that lacks a requested feature.

    Args:
        user: The name of the method, for the message.
        kernel: A kernel or any inference function.
        requests: What the method yielded.

    Raises:
        ArgumentError: It is something else.
        CapabilityError: The kernel lacks a feature.
    """
    if not isinstance(requests, Sequence) or not all(isinstance(request, Request) for request in requests):
        expected = "a list of data.queries(...) and data.training(...)"
        raise ArgumentError(f"{user}: the method yielded {requests!r:.80}, expected {expected}")
    check_capabilities(user, kernel, frozenset(), *(own.feature for own in requests if isinstance(own.feature, str)))


def without_failures(rows: Any, *others: Sequence[Any]) -> tuple[Any, ...]:
    """Leave out the rows without a prediction, and what belongs to them in other lists.

    Args:
        rows: Predictions or features; failures occur only in runs that collect them.
        *others: Lists of the same length.

    Returns:
        The rows, and the other lists.

    Raises:
        OutputError: All rows are failures.
    """
    kept = [number for number, row in enumerate(rows) if not isinstance(row, Failure)]
    if len(kept) == len(rows):
        return (rows, *others)
    if not kept:
        check_answered(rows[:1], "calibration prompt")
    return tuple([part[number] for number in kept] for part in (rows, *others))


def present(rows: Iterable[Any]) -> list[Any]:
    """Return the rows that are neither failures nor exceptions."""
    return [row for row in rows if not isinstance(row, (Failure, BaseException))]


def apply_present(rows: Sequence[Any], apply: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Return what a function makes of copies of the rows that there are; failures and exceptions keep their places."""
    kept = list(map(copy.copy, present(rows)))
    done = iter(apply(kept) if kept else ())
    return [row if isinstance(row, (Failure, BaseException)) else next(done) for row in rows]


def check_answered(rows: Iterable[Any], what: str) -> list[Any]:
    """Return the predictions as a list; some kernels return an exception in the place of a prediction.

    Args:
        rows: Predictions of a kernel.
        what: What a row is, for the message, such as ``"calibration prompt"``.

    Raises:
        OutputError: A prediction is an exception.
    """
    predictions = list(rows)
    for number, row in enumerate(predictions):
        if isinstance(row, (Failure, BaseException)):
            failure = row if isinstance(row, Failure) else failure_of_error(row, str(row))
            raise output_error(f"{what} {number} has no prediction: {failure.reason}", failure)
    return predictions


_MEMORY = 1 << 30
"""Bytes of full-vocabulary logits that are kept in memory; a store keeps them all."""


def _place(feature: Any, key: PromptKey) -> PromptKey:
    """Return the key of a feature: those of texts have no label space."""
    return (key[0], ()) if isinstance(feature, str) and feature in OF_TEXTS else key


def packed_row(feature: Feature, row: Any, label_space: Sequence[str]) -> Any:
    """Return a row as a JSON value: vectors as base64 of their bytes.

    Raises:
        OutputError: The row has NaN or an infinity, or is not what the feature is.
        BaseException: The row itself, where a kernel returned an error in its place.
    """
    if isinstance(row, BaseException):
        raise row
    if feature not in OF_TEXTS:
        return check_answer(row, label_space)
    if feature == "layers":
        return [packed_row("hidden", state, label_space) for state in row]
    if feature in VECTORS:
        array = numpy.asarray(row)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu" or not numpy.isfinite(array).all():
            raise OutputError(f"{CAPABILITIES[feature].value} must be a row of finite numbers, not NaN or infinite")
        kind = "<f4" if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else "<f8"
        return kind + base64.b64encode(array.astype(kind).tobytes()).decode("ascii")
    if not math.isfinite(row):
        raise OutputError(f"the loss {row} is not finite; use a wider number type of the model, such as float32")
    return float(row)


def _unpacked(feature: Any, value: Any) -> Any:
    if feature == "layers":
        return numpy.stack([_unpacked("hidden", state) for state in value])
    if feature in VECTORS:
        return numpy.frombuffer(base64.b64decode(value[3:]), dtype=value[:3])
    return value


class KernelFunction:
    """An inference function that calls a kernel: the base of dataclasses with a field ``kernel``, and ``batch``."""

    kernel: Any

    def added_identity(self) -> tuple[str, Identity]:
        """Return what is added to the identity of the kernel: its name and its facts."""
        raise NotImplementedError

    def identity(self) -> Identity:
        """Return the identity of the kernel with what is added."""
        return combined(identity_of(self.kernel), *self.added_identity())

    @property
    def recheck_tolerance(self) -> float | None:
        """That of the kernel."""
        return tolerance_of(self.kernel)

    def forecast_prompts(self, prompts: Sequence[Any], label_space: Sequence[str], **kept: Any) -> Forecast:
        """Return the forecast of the prompts."""
        return forecast.forecast_prompts(self.kernel, prompts, label_space, **kept)

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        """Return the prediction for one prompt."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt."""
        raise NotImplementedError


@dataclass(frozen=True)
class KernelCall(KernelFunction):
    """A method of a kernel other than ``batch`` as an inference function: a feature that a method can request.

    Args:
        name: Name in identities.
        method: The method of the kernel; empty for texts, which the harness requests.
        arguments: What it gets after prompts and label space.
        facts: What identities say, in addition to those of the kernel.
        kernel: The kernel; the harness adds it.
    """

    name: str
    method: str
    arguments: tuple[Any, ...] = field(hash=False)  # they can be long
    facts: Identity = field(hash=False)
    kernel: Any = None

    def added_identity(self) -> tuple[str, Identity]:
        """Return name and facts."""
        return self.name, self.facts

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt."""
        return getattr(self.kernel, self.method)(prompts, label_space, *self.arguments)


@dataclass(eq=False)
class FeatureFunction(KernelFunction):
    """Features of a kernel as an inference function: its prediction is :class:`Features`.

    Args:
        kernel: The kernel.
        wanted: The features: one, or several that one run of the model computes.
        some: The digests of the prompts that need only some of the features, with these.
    """

    kernel: Inference
    wanted: Collection[Feature]
    some: Mapping[bytes, Collection[Feature]] = field(default_factory=dict)

    def added_identity(self) -> tuple[str, Identity]:
        """Return the names of the features."""
        return "features", Identity({"names": " ".join(sorted(self.wanted))})

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        """Return the features of each prompt; an exception where one of them is invalid."""
        needed = [self.features(prompt, label_space) for prompt in prompts]
        computed = _computed(self.kernel, frozenset().union(*needed), list(prompts), list(label_space))
        answers: list[Any] = []
        for names, *rows in zip(needed, *computed.values(), strict=True):
            row_of = dict(zip(computed, rows, strict=True))
            try:
                answers.append(Features({name: packed_row(name, row_of[name], label_space) for name in sorted(names)}))
            except Exception as error:
                answers.append(error)
        return answers

    def features(self, prompt: Any, label_space: Sequence[str]) -> Collection[Feature]:
        """Return the features of a prompt that are wanted."""
        return self.some.get(query_key(prompt, label_space), self.wanted) if self.some else self.wanted

    def forecast_prompts(self, prompts: Sequence[Any], label_space: Sequence[str], **kept: Any) -> Forecast:
        """Return the forecast of the features of the prompts."""
        names: frozenset[Feature] = frozenset().union(*(self.features(prompt, label_space) for prompt in prompts))
        return forecast.forecast_prompts(self.kernel, prompts, label_space, 0, names, **kept)


def _computed(kernel: Any, features: Collection[Feature], prompts: list[Any], labels: list[str]) -> Mapping[Any, Any]:
    if len(features) > 1 or "log_probabilities" in features:
        rows = kernel.features(prompts, labels, set(features))
        return {feature: rows[feature] for feature in features}
    return {feature: features_of(kernel, prompts, labels, feature) for feature in features}


class _FeatureCounter(RunCounter):
    """Compares rechecked features by their numbers, relative to the largest of a row; predictions as they are."""

    def compare(self, query: PromptKey, stored: Answer, again: Answer, where: str) -> str | None:
        """Count features that were computed again.

        Returns:
            A warning, if they differ and the kernel's predictions may change; else ``None``.

        Raises:
            IdentityError: They differ from the stored ones by more than the tolerance.
        """
        return super().compare(query, _numbers(stored), _numbers(again), where)


def _numbers(answer: Answer) -> Answer:
    if not isinstance(answer, Features):
        return answer
    numbers: list[float] = []
    for feature, value in sorted(answer.items()):
        row = _unpacked(feature, value)
        row = row.ravel().tolist() if hasattr(row, "ravel") else row if isinstance(row, list) else [row]
        scale = max(1.0, *(abs(number) for number in row if math.isfinite(number)))
        numbers += [number / scale for number in row]
    return numbers


class _FeatureStore:
    """The stores of several features as one: a prompt is stored if all that it needs are.

    Args:
        stores: The store of each feature.
        wanted: The features that each prompt needs.
    """

    def __init__(self, stores: Mapping[Feature, AnswerStore], wanted: Mapping[PromptKey, set[Feature]]) -> None:
        self._stores, self._wanted = stores, wanted

    def get_many(self, queries: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the stored features of the prompts that have all."""
        values = {key: Features() for key in queries}
        for feature, store in self._stores.items():
            places = {key: _place(feature, key) for key in queries if feature in self._wanted[key]}
            stored = store.get_many(list(dict.fromkeys(places.values())))
            for key, place in places.items():
                if place in stored:
                    values[key][feature] = _stored_value(feature, stored[place])
        return {key: answer for key, answer in values.items() if answer.keys() == self._wanted[key]}

    def version(self) -> object:
        """Return a value that changes when another run stores features."""
        return tuple(store.version() for store in self._stores.values())

    def claims(self) -> Claims:
        """Return the claims of a run on queries, which other runs that compute the first of these features see."""
        return next(iter(self._stores.values())).claims()

    def refuse_read_only(self) -> None:
        """Refuse stores that cannot be written, before features are computed for them."""
        for store in self._stores.values():
            store.refuse_read_only()

    def put_many(self, answers: Iterable[tuple[PromptKey, Answer]]) -> dict[PromptKey, Answer]:
        """Store features; return those of which others were stored earlier, by another run or process."""
        computed = {key: answer for key, answer in answers if isinstance(answer, Features)}
        changed: dict[PromptKey, Answer] = {}
        for feature, store in self._stores.items():
            keys = {_place(feature, key): key for key, answer in computed.items() if feature in answer}
            values = {place: computed[key][feature] for place, key in keys.items()}
            is_answer = feature == "probabilities"
            items = [(place, value if is_answer else Features({feature: value})) for place, value in values.items()]
            for place, kept in store.put_many(items).items():
                changed[keys[place]] = computed[keys[place]]
                computed[keys[place]][feature] = _stored_value(feature, kept)
        return changed


def _stored_value(feature: Feature, answer: Answer) -> Any:
    return answer[feature] if isinstance(answer, Features) else answer


def extra_features(kernel: Any) -> frozenset[str]:
    """Return what a kernel computes beyond its capabilities: joint features, and methods that bypass no override.

    These are ``"noisy_channel"`` (in two variants) and ``"patched"`` (with the state of a layer replaced).
    """
    names = ("noisy_channel", "patched")
    return protocol.joint_features_of(kernel).union(name for name in names if protocol.can_call_directly(kernel, name))


def of_kernel(feature: Any) -> bool:
    """Return whether the kernel computes a feature, not another function of texts."""
    return isinstance(feature, (str, TextInference, KernelFunction))


def _keeping_warnings(options: RunOptions, kept: list[str]) -> RunOptions:
    """Return options whose warnings of what went wrong in the run are also added to a list."""

    def warn(warning: str) -> None:
        kept.append(warning)
        if options.warn is not None:
            options.warn(warning)

    return replace(options, warn=warn)


class FeatureCache:
    """Computes each feature of each prompt once.

    Args:
        kernel: Any inference function.
        compute: Evaluates an inference function on queries, as :func:`StaICC.inference.runner.predict_queries`.

    Attributes:
        predictor: The function whose predictions the requests of the current data set are: the kernel, or its noisy
            channel.
        computed: How many prompts it computed features of.
        reused: How many requested prompts were in memory or in the store.
        logged: The warnings that runs with this cache logged.
        digest: Digest of the kernel's identity in the current run, or the last one; what is in memory belongs to it.
    """

    def __init__(self, kernel: Inference, compute: Callable[..., Sequence[Answer | Failure]] = predict_queries) -> None:
        self.kernel = self.predictor = kernel
        self.digest = ""
        self.logged: set[str] = set()
        self.computed = self.reused = 0
        self._compute_queries = compute
        self._memory: dict[tuple[Any, PromptKey], Any] = {}
        self._warnings: dict[tuple[Any, PromptKey], tuple[str, ...]] = {}  # of the call that computed what is in memory
        self._kept = 0
        self._functions: dict[Any, Inference] = {"probabilities": kernel}
        self._tokens_of_workers = (0, 0)
        self._context: RunContext | None = None
        self._recheck: bool | None = None
        self._unparsed: Unparsed = "error"

    @property
    def tokens(self) -> tuple[int, int] | None:
        """Tokens that the kernel has read and generated so far, in workers too; ``None`` if it does not count them."""
        used = tokens_used(self.kernel)
        return None if used is None else _sums(used, self._tokens_of_workers)

    def function(self, feature: Any) -> Inference:
        """Return the inference function of a feature, under whose identity a store keeps it."""
        if feature not in self._functions:
            of_kernel = isinstance(feature, str)
            self._functions[feature] = (
                FeatureFunction(self.kernel, {feature}) if of_kernel else replace(feature, kernel=self.kernel)
            )
        return self._functions[feature]

    def start(self, context: RunContext, recheck: bool | None = None, unparsed: Unparsed = "error") -> None:
        """Use the store, the workers and the policies of a run from now on."""
        identity = context.identity_of(self.kernel)
        another_run = context is not self._context
        if identity.digest != self.digest or (another_run and not identity.complete):  # maybe another model than before
            self.digest, self._kept = identity.digest, 0
            self._memory.clear()
            self._warnings.clear()
        self._context, self._recheck, self._unparsed = context, recheck, unparsed
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
        places: dict[tuple[Any, PromptKey], PromptKey] = {}
        for request in requests:
            if isinstance(request.feature, KernelCall):
                self.predictor = self.function(request.feature)
            for key in request.keys:
                places.setdefault((request.feature, _place(request.feature, key)), key)
        found = {place: self._memory[place] for place in places.keys() & self._memory.keys()}
        self._repeat_warnings(found)
        for feature, number in Counter(feature for feature, _ in found).items():
            self.reused += number
            if of_kernel(feature):
                self._options(feature).counter.counts.update(reused=number)
        wanted: dict[PromptKey, dict[Any, None]] = {}
        for place, key in places.items():
            if place not in found:
                wanted.setdefault(key, {})[place[0]] = None
        for names, of_names in self._calls(wanted):
            found |= self._compute(names, of_names, part or Part("features"), len(requests) > 1, policy)
        rows = []
        for request in requests:
            own = [found[request.feature, _place(request.feature, key)] for key in request.keys]
            rows.append(apply_present(own, list))
        return rows

    def _repeat_warnings(self, places: Iterable[tuple[Any, PromptKey]]) -> None:
        """Give a run the warnings of earlier calls, such as what a recheck found, whose features it reads again."""
        warnings: dict[str, None] = {}
        for place in places:
            warnings |= dict.fromkeys(self._warnings.get(place, ()))
        if self._context is not None:
            self._context.warn(*warnings)

    def _ask(self, function: Inference, keys: Iterable[PromptKey], part: Part, options: RunOptions) -> Sequence[Any]:
        """Evaluate a function on prompts, and count what was computed."""
        queries = [Query(prompt, labels, 0, number, 0) for number, (prompt, labels) in enumerate(keys)]
        total = options.counter
        recheck = rechecks(function, self._recheck)
        counter = _FeatureCounter(tolerance_of(function), recheck, total.counts["rechecked"], remark=total.remark)
        counter.size, counter.spent = total.size, total.spent
        try:
            return self._compute_queries(function, queries, part, replace(options, counter=counter))
        finally:
            total.counts += counter.counts
            total.size, total.spent = counter.size, counter.spent
            total.replies |= counter.replies
            self.computed += counter.counts["computed"]
            self.reused += counter.counts["reused"]
            self._tokens_of_workers = _sums(self._tokens_of_workers, counter.tokens)

    def _options(self, feature: Any) -> RunOptions:
        """Return how the run computes a feature. Prompts are counted for the kernel, as its label probabilities."""
        if self._context is None:
            return RunOptions()
        options = self._context.options_for(self.function(feature))
        counter = self._context.options_for(self.kernel).counter if isinstance(feature, str) else options.counter
        return replace(options, unparsed=self._unparsed, counter=counter)

    def _calls(
        self, wanted: Mapping[PromptKey, Mapping[Any, None]]
    ) -> list[tuple[list[Any], dict[PromptKey, set[Any]]]]:
        """Return what one run of the model computes of which prompts.

        These are joint features together and every other feature alone, texts and noisy channels apart.
        """
        features = list(dict.fromkeys(feature for needed in wanted.values() for feature in needed))
        joint = sorted(protocol.joint_features_of(self.kernel).intersection(features))
        if len(joint) < 2 and "log_probabilities" not in joint:
            joint = []
        calls = []
        for kind in (str, tuple):
            for names in (joint, *([feature] for feature in features if feature not in joint)):
                own = {key: needed.keys() & names for key, needed in wanted.items() if isinstance(key[0], kind)}
                calls.append((names, {key: needed for key, needed in own.items() if needed}))
        return [call for call in calls if call[1]]

    def _compute(
        self, names: list[Any], wanted: Mapping[PromptKey, set[Any]], part: Part, grouped: bool, policy: OnError | None
    ) -> dict[tuple[Any, PromptKey], Any]:
        """Compute and remember the rows of one call."""
        name, stores = names[0], dict[Any, AnswerStore]()
        warnings: list[str] = []
        if of_kernel(name):
            function, options = self.function(name), _keeping_warnings(self._options(name), warnings)
            if isinstance(name, TextInference):
                options = replace(options, free_text=True, on_error="collect")
            elif isinstance(name, str):
                stores = {own: store for own in names if (store := self._options(own).store) is not None}
                options = replace(options, group_prefixes=grouped, on_error=policy or options.on_error)
            if isinstance(name, str) and names != ["probabilities"]:
                fewer = {query_key(*key): needed for key, needed in wanted.items() if len(needed) < len(names)}
                function = FeatureFunction(self.kernel, names, fewer)
                options = replace(options, store=_FeatureStore(stores, wanted) if stores else None)
            answers = self._ask(function, wanted, part, options)
        else:
            texts = [str(prompt) for prompt, _ in wanted]
            starts = range(0, len(texts), AT_ONCE)
            answers = [row for start in starts for row in name(texts[start : start + AT_ONCE])]
            self.computed += len(texts)
        rows: dict[tuple[Any, PromptKey], Any] = {}
        for key, answer in zip(wanted, answers, strict=True):
            values: Any = answer if isinstance(answer, Features) else {names[0]: answer}
            for name in wanted[key]:
                place = (name, _place(name, key))
                rows[place] = answer
                if not isinstance(answer, Failure):
                    rows[place] = _unpacked(name, values[name])
                    size = rows[place].nbytes if name == "vocabulary" else 0
                    if not size or (name not in stores and self._kept + size <= _MEMORY):
                        self._kept += size
                        self._memory[place] = rows[place]
                        if warnings:
                            self._warnings[place] = tuple(warnings)
        return rows


def _sums(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    return first[0] + second[0], first[1] + second[1]


feature_keys = prompt_keys
"""Until all methods ask through their data."""
