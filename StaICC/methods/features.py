"""The features of a model that methods use, each computed once: kept in memory for all methods, and in the store.

A *feature* is whatever a kernel computes for a prompt: label probabilities, log-probabilities of the labels over the
vocabulary, logits of the full vocabulary, the last hidden state, or the mean loss of a text. The cache key is the
identity of the kernel, the feature, the prompt and, for the first two, the label space. What a method learns is not
cached, but computed again from cached features for each data set of each benchmark. It therefore belongs to exactly its
training prompts, and rounding repeats no prompt.

All features go through the runner (:func:`StaICC.inference.ask`): in chunks that are durable, with progress, workers,
rechecks and the failure policy of the run. Features of one prompt that several methods need come from one run of the
model where the kernel allows it (:class:`~StaICC.kernels.joint_features.JointFeatures`).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from StaICC.benchmarks import Experimentor
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import (
    Answer,
    AnswerStore,
    Failure,
    Inference,
    OnError,
    Part,
    RunOptions,
    Unparsed,
    ask,
    batch_form,
)
from StaICC.inference.contract import Features, check_answer, check_batch
from StaICC.inference.forecast import Forecast, forecast_prompts
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.recheck import RunCounter, RunCounts, tolerance_of
from StaICC.inference.store import query_key
from StaICC.kernels.protocol import (
    METHODS,
    Capability,
    JointFeatures,
    NoisyChannelVariants,
    capabilities_of,
    represents,
)
from StaICC.kernels.text_inference import TextInference
from StaICC.optional import require
from StaICC.prompting import Prompt, Query, as_argument
from StaICC.safe_text import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from StaICC.benchmarks.running import RunContext


_log = logger(__name__)

Feature = Literal["probabilities", "log_probabilities", "vocabulary", "hidden", "losses"]
"""Label probabilities; log-probabilities of the labels over the vocabulary; logits over the full vocabulary; the last
hidden state; the mean loss of a text."""

AT_ONCE = 256
"""Maximum number of prompts whose features are in memory: full-vocabulary logits are large."""

NEEDS: dict[Feature, str] = {
    "probabilities": "label probabilities",
    "log_probabilities": "log-probabilities of the labels",
    "vocabulary": "the logits of the full vocabulary",
    "hidden": "hidden states",
    "losses": "losses of texts",
}
"""Features in words, for messages."""

_LOCAL = "Use a local model, such as hf:NAME"

_CAPABILITIES: dict[Feature, Capability] = {
    "vocabulary": Capability.FULL_VOCABULARY,
    "hidden": Capability.HIDDEN_STATES,
    "losses": Capability.LOSSES,
}
_METHODS = {feature: METHODS[capability] for feature, capability in _CAPABILITIES.items()}
"""The methods of kernels that compute features without labels."""


def ask_model(function: Inference, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
    """Return the unchecked prediction for each prompt, in order.

    Each distinct prompt is computed once, in one batch if the function has ``batch``.

    Raises:
        OutputError: The batch has another length than the list of prompts.
    """
    keys = [prompt if isinstance(prompt, str) else tuple(prompt) for prompt in prompts]
    distinct = dict(zip(keys, prompts, strict=True))
    batch = batch_form(function)
    if batch is not None:
        predictions = check_batch(batch(list(distinct.values()), list(label_space)), len(distinct))
    else:
        predictions = [function(prompt=prompt, label_space=list(label_space)) for prompt in distinct.values()]
    by_prompt = dict(zip(distinct, predictions, strict=True))
    return [by_prompt[key] for key in keys]


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
    if feature == "probabilities":
        return ask_model(function, prompts, label_space)
    capability = _CAPABILITIES[feature]
    if capability in capabilities_of(function):
        return getattr(function, _METHODS[feature])(list(prompts))
    # One prompt is enough to find out that a function does not return the feature.
    answers = ask_model(function, prompts[:1], label_space)
    for number in range(len(prompts)):
        if number == 1:
            answers += ask_model(function, prompts[1:], label_space)
        answer = answers[number]
        if not isinstance(answer, tuple) or len(answer) < 2:
            raise ArgumentError(
                f"{_name(function)} does not provide {NEEDS[feature]}: it returned a {type(answer).__name__}, expected "
                f"a tuple of label probabilities and features. {_LOCAL}"
            )
    return [answer[1 if feature == "hidden" else -1] for answer in answers]


def _name(function: Any) -> str:
    return str(function.__name__) if isinstance(function, FunctionType) else type(function).__name__


class CapabilityError(ArgumentError):
    """A kernel lacks a capability."""


def check_capabilities(user: str, kernel: Any, requires: frozenset[Capability]) -> None:
    """Refuse a kernel that lacks a capability.

    Args:
        user: The name of the method that requires the capabilities, for the message.
        kernel: A kernel or any inference function.
        requires: The required capabilities.

    Raises:
        CapabilityError: The kernel lacks one. The message names method, capability and kernel.
    """
    available = capabilities_of(kernel)
    missing = [capability.value for capability in Capability if capability in requires - available]
    if missing:
        provided = ", ".join(capability.value for capability in Capability if capability in available)
        raise CapabilityError(
            f"{user} needs {' and '.join(missing)}, which {_name(kernel)} does not provide; "
            f"it provides {provided}. {_LOCAL}"
        )


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
    if not isinstance(rows, list) or not any(isinstance(row, Failure) for row in rows):
        return (rows, *others)
    kept = [number for number, row in enumerate(rows) if not isinstance(row, Failure)]
    if not kept:
        check_answered(rows[:1], "calibration prompt")
    _log.warning("%d of %d training prompts have no prediction and are left out", len(rows) - len(kept), len(rows))
    return tuple([part[number] for number in kept] for part in (rows, *others))


def apply_present(rows: Sequence[Any], apply: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Return what a function makes of the rows that there are; failures and exceptions keep their places."""
    present = [row for row in rows if not isinstance(row, (Failure, BaseException))]
    done = iter(apply(present) if present else ())
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
        if isinstance(row, Failure):
            raise OutputError(f"{what} {number} has no prediction: {row.reason}") from row.cause
        if isinstance(row, BaseException):
            raise OutputError(f"{what} {number} has no prediction: {row}") from row
    return predictions


Key = tuple[Prompt, tuple[str, ...]]
"""A prompt and its label space."""

_OF_LABELS: frozenset[Feature] = frozenset({"probabilities", "log_probabilities"})
_VECTORS: frozenset[Feature] = frozenset({"hidden", "vocabulary"})
_MEMORY = 1 << 30
"""Bytes of full-vocabulary logits that are kept in memory; a store keeps them all."""


def _place(feature: Feature, key: Key) -> Key:
    """Return the key of a feature: those of no label have no label space."""
    return key if feature in _OF_LABELS else (key[0], ())


def packed_row(feature: Feature, row: Any, label_space: Sequence[str]) -> Any:
    """Return a row as a JSON value: vectors as base64 of their bytes.

    Raises:
        OutputError: The row has NaN or an infinity, or is not what the feature is.
    """
    if feature in _OF_LABELS:
        return check_answer(row, label_space)
    if feature in _VECTORS:
        numpy = require("numpy", "hf", NEEDS[feature])
        array = numpy.asarray(row)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu" or not numpy.isfinite(array).all():
            raise OutputError(f"{NEEDS[feature]} must be a row of finite numbers, not NaN or infinite")
        kind = "<f4" if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else "<f8"
        return kind + base64.b64encode(array.astype(kind).tobytes()).decode("ascii")
    if not math.isfinite(row):
        raise OutputError(f"the loss {row} is not finite; use a wider number type of the model, such as float32")
    return float(row)


def _unpacked(feature: str, value: Any) -> Any:
    if feature in _VECTORS:
        numpy = require("numpy", "hf", NEEDS[feature])
        return numpy.frombuffer(base64.b64decode(value[3:]), dtype=value[:3])
    return value


class FeatureFunction:
    """Features of a kernel as an inference function: its prediction is :class:`Features`.

    Args:
        kernel: The kernel.
        wanted: The features.
        some: The digests of the prompts that need only some of the features, with these.
    """

    def __init__(
        self,
        kernel: Inference,
        wanted: Collection[Feature],
        some: Mapping[bytes, Collection[Feature]] = MappingProxyType({}),
    ) -> None:
        self.kernel = kernel
        self.wanted = frozenset(wanted)
        self.some = dict(some)

    def identity(self) -> Identity:
        """Return the identity of the kernel with the features."""
        return combined(identity_of(self.kernel), "features", Identity({"names": " ".join(sorted(self.wanted))}))

    @property
    def recheck_tolerance(self) -> float | None:
        """That of the kernel."""
        return tolerance_of(self.kernel)

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        """Return the features of one prompt."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        """Return the features of each prompt; an exception where one of them is invalid."""
        found: list[Any] = [Features() for _ in prompts]
        for features, places in self._calls(prompts, label_space):
            asked = [prompts[place] for place in places]
            for feature, rows in sorted(_computed(self.kernel, features, asked, list(label_space)).items()):
                for place, row in zip(places, rows, strict=True):
                    if isinstance(found[place], Features) and feature in self.features(prompts[place], label_space):
                        try:
                            if isinstance(row, BaseException):
                                raise row
                            found[place][feature] = packed_row(feature, row, label_space)
                        except Exception as error:
                            found[place] = error
        return found

    def features(self, prompt: Any, label_space: Sequence[str]) -> Collection[Feature]:
        """Return the features of a prompt that are wanted."""
        return self.some.get(query_key(as_argument(prompt), label_space), self.wanted) if self.some else self.wanted

    def forecast_prompts(
        self, prompts: Sequence[Any], label_space: Sequence[str], kept: tuple[int, ...] = ()
    ) -> Forecast:
        """Return the forecast of the features of the prompts."""
        total = Forecast(kept=kept)
        for some, places in self._calls(prompts, label_space):
            asked = [prompts[place] for place in places]
            total += forecast_prompts(self.kernel, asked, label_space, 0, some, kept=total.kept)
        return total

    def _calls(
        self, prompts: Sequence[Any], label_space: Sequence[str]
    ) -> list[tuple[Collection[Feature], Sequence[int]]]:
        """Return the calls of the kernel: what each computes, and the numbers of its prompts."""
        needed = [self.features(prompt, label_space) for prompt in prompts]
        here = frozenset[Feature]().union(*needed)
        joint = here & _joint(self.kernel)
        if len(joint) < 2 and "log_probabilities" not in joint:
            joint = frozenset()
        calls: list[tuple[Collection[Feature], Sequence[int]]] = [(joint, range(len(prompts)))] if joint else []
        for feature in sorted(here - joint):
            calls.append(({feature}, [place for place, features in enumerate(needed) if feature in features]))
        return calls


def _joint(kernel: Any) -> frozenset[str]:
    """Return the features that one run of the model computes; none where that would bypass what a subclass adds."""
    usable = isinstance(kernel, JointFeatures) and represents(kernel, "features")
    return kernel.joint_features if usable else frozenset()


def _computed(kernel: Any, features: Collection[Feature], prompts: list[Any], labels: list[str]) -> Mapping[Any, Any]:
    if len(features) > 1 or "log_probabilities" in features:
        rows = kernel.features(prompts, labels, set(features))
        return {feature: rows[feature] for feature in features}
    (feature,) = features
    if feature in _METHODS:
        return {feature: getattr(kernel, _METHODS[feature])(prompts)}
    return {feature: ask_model(kernel, prompts, labels)}


class _FeatureCounter(RunCounter):
    """Compares rechecked features by their numbers, relative to the largest of a row; predictions as they are."""

    features = True

    def compare(self, query: Key, stored: Answer, again: Answer, part: str) -> None:
        """Count features that were computed again.

        Raises:
            IdentityError: They differ from the stored ones by more than the tolerance.
        """
        if self.features:
            stored, again = _numbers(stored), _numbers(again)
        super().compare(query, stored, again, part)


def _numbers(answer: Answer) -> Answer:
    if not isinstance(answer, Features):
        return answer
    found: list[float] = []
    for feature, value in sorted(answer.items()):
        row = _unpacked(feature, value)
        row = [float(number) for number in (row if hasattr(row, "__len__") else [row])]
        scale = max(1.0, *(abs(number) for number in row if math.isfinite(number)))
        found += [number / scale for number in row]
    return found


class _FeatureStore:
    """The stores of several features as one: a prompt is stored if all that it needs are.

    Args:
        stores: The store of each feature.
        wanted: The features that each prompt needs.
    """

    def __init__(self, stores: Mapping[Feature, AnswerStore], wanted: Mapping[Key, set[Feature]]) -> None:
        self._stores = stores
        self._wanted = wanted
        self._present: set[tuple[Feature, Key]] = set()

    def get_many(self, queries: Sequence[Key]) -> dict[Key, Answer]:
        """Return the stored features of the prompts that have all."""
        values: dict[Key, dict[str, Any]] = {key: {} for key in queries}
        for feature, store in self._stores.items():
            places = {key: _place(feature, key) for key in queries if feature in self._wanted[key]}
            stored = store.get_many(list(dict.fromkeys(places.values())))
            for key, place in places.items():
                if place in stored:
                    self._present.add((feature, key))
                    values[key][feature] = _stored_value(feature, stored[place])
        return {key: Features(found) for key, found in values.items() if found.keys() == self._wanted[key]}

    def put_many(self, answers: Iterable[tuple[Key, Answer]]) -> dict[Key, Answer]:
        """Store features; return those that another process stored earlier and that differ."""
        computed = {key: dict(answer) for key, answer in answers if isinstance(answer, Features)}
        changed: dict[Key, Answer] = {}
        for feature, store in self._stores.items():
            new = {
                _place(feature, key): (key, values[feature])
                for key, values in computed.items()
                if feature in values and (feature, key) not in self._present
            }
            items = [
                (place, value if feature == "probabilities" else Features({feature: value}))
                for place, (_, value) in new.items()
            ]
            for place, kept in (store.put_many(items) or {}).items():
                key = new[place][0]
                computed[key][feature] = _stored_value(feature, kept)
                changed[key] = Features(computed[key])
        return changed


def _stored_value(feature: Feature, answer: Answer) -> Any:
    return answer[feature] if isinstance(answer, Features) else answer


@dataclass(frozen=True)
class NoisyChannel:
    """The noisy channel of a kernel in one of two variants, as an inference function."""

    kernel: Any
    variant: str

    def identity(self) -> Identity:
        """Return the identity of the kernel with the variant."""
        return combined(identity_of(self.kernel), "noisy channel", Identity({}, {"variant": self.variant}))

    @property
    def recheck_tolerance(self) -> float | None:
        """That of the kernel."""
        return tolerance_of(self.kernel)

    def forecast_prompts(
        self, prompts: Sequence[Any], label_space: Sequence[str], kept: tuple[int, ...] = ()
    ) -> Forecast:
        """Return the forecast of the prompts."""
        return forecast_prompts(self.kernel, prompts, label_space, kept=kept)

    def __call__(self, prompt: Sequence[str], label_space: Sequence[str]) -> Any:
        """Return the prediction for one prompt."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt."""
        return self.kernel.noisy_channel(prompts, label_space, self.variant)


def extra_features(kernel: Any) -> frozenset[str]:
    """Return what a kernel computes beyond its capabilities: its joint features, and the noisy channel's variants."""
    noisy = isinstance(kernel, NoisyChannelVariants) and represents(kernel, "noisy_channel")
    return _joint(kernel) | ({"noisy_channel"} if noisy else frozenset())


Apply = Callable[[list[Any]], Sequence[Any]]
"""Turns the rows of some prompts into other rows, one for each."""


@dataclass(frozen=True)
class Request:
    """Prompts of which a method needs a feature of the model."""

    feature: Any
    """A :data:`Feature`; a ``TextInference`` or :class:`NoisyChannel` without kernel; or a function that returns a
    vector for each text of a list."""
    prompts: Sequence[Key] | Experimentor
    """Prompts with their label spaces, or all queries of a data set."""
    phase: str = ""
    """What the prompts are for: empty for test queries; everything else is a cost of training."""
    ahead: bool = False
    """The method will request this when it has learned something: computed now only if other methods run too."""
    apply: Sequence[Apply] = ()
    """What turns the rows into predictions: a function for each condition, or one for all. It gets the rows of one
    condition at a time (of full-vocabulary logits only some), without failures."""

    @cached_property
    def conditions(self) -> list[list[Key]]:
        """The prompts of each condition."""
        if isinstance(self.prompts, Experimentor):
            return [[(query.prompt, query.label_space) for query in one.queries] for one in self.prompts.conditions()]
        return [list(self.prompts)]

    @property
    def keys(self) -> list[Key]:
        """All prompts with their label spaces."""
        return [key for condition in self.conditions for key in condition]

    @property
    def kind(self) -> Any:
        """What computes it: features of one prompt come from one run of the model."""
        return "" if isinstance(self.feature, str) else self.feature

    @property
    def in_pieces(self) -> bool:
        """Whether few rows may be in memory at once."""
        return self.feature == "vocabulary" and bool(self.apply)


class FeatureCache:
    """Computes each feature of each prompt once.

    Args:
        kernel: Any inference function.
        compute: Evaluates an inference function on queries, as :func:`StaICC.inference.ask`.

    Attributes:
        predictor: The function whose predictions the requests of the current data set are: the kernel, or its noisy
            channel.
        computed: How many prompts it computed features of.
        reused: How many requested prompts were in memory or in the store.
        digest: Digest of the kernel's identity in the current run, or the last one; what is in memory belongs to it.
    """

    def __init__(self, kernel: Inference, compute: Callable[..., list[Answer | Failure]] = ask) -> None:
        self.kernel = kernel
        self.predictor = kernel
        self.digest = ""
        self.computed = self.reused = 0
        self._ask = compute
        self._memory: dict[tuple[Any, Key], Any] = {}
        self._kept = 0
        self._functions: dict[Any, Inference] = {"probabilities": kernel}
        self._context: RunContext | None = None
        self._run: RunContext | None = None
        self._recheck = True
        self._unparsed: Unparsed = "error"

    def function(self, feature: Any) -> Inference:
        """Return the inference function of a feature, under whose identity a store keeps it."""
        if feature not in self._functions:
            one = isinstance(feature, str)
            self._functions[feature] = (
                FeatureFunction(self.kernel, {feature}) if one else replace(feature, kernel=self.kernel)
            )
        return self._functions[feature]

    @contextmanager
    def running(self, context: RunContext, recheck: bool = True, unparsed: Unparsed = "error") -> Iterator[None]:
        """Within the block, use the store, the workers and the policies of a run."""
        identity = context.identity_of(self.kernel)
        another_run = context is not self._run
        if identity.digest != self.digest or (another_run and not identity.complete):  # maybe another model than before
            self.digest, self._kept = identity.digest, 0
            self._memory.clear()
        self._run = context
        before = self._context, self._recheck, self._unparsed
        self._context, self._recheck, self._unparsed = context, recheck, unparsed
        self.predictor = self.kernel
        try:
            yield
        finally:
            self._context, self._recheck, self._unparsed = before

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
        part = part or Part("features")
        joint = [one for one in requests if isinstance(one.feature, str) and not one.in_pieces]
        computed = dict(zip(map(id, joint), self._several(joint, part, policy), strict=True))
        found = []
        for request in requests:
            if not isinstance(request.feature, str):
                computed[id(request)] = self._of_function(request.feature, request.keys, part)
            rows, functions = iter(computed.get(id(request), ())), cycle(request.apply or [list])
            answers: list[Any] = []
            for condition, function in zip(request.conditions, functions):  # noqa: B905
                pieces: Iterable[Iterable[Any]] = [islice(rows, len(condition))]
                if request.in_pieces:
                    starts = range(0, len(condition), AT_ONCE)
                    some = (replace(request, prompts=condition[start : start + AT_ONCE]) for start in starts)
                    pieces = (self._several([piece], part, policy)[0] for piece in some)
                for piece in pieces:
                    answers += apply_present(list(piece), function)
            found.append(answers)
        return found

    def _of_function(self, feature: Any, keys: Sequence[Key], part: Part) -> list[Any]:
        """Return what another function than the kernel returns for each prompt."""
        if not isinstance(feature, (TextInference, NoisyChannel)):
            new = [key[0] for key in dict.fromkeys(keys) if (feature, key) not in self._memory]
            for start in range(0, len(new), AT_ONCE):
                some = new[start : start + AT_ONCE]
                self._memory.update(zip([(feature, (text, ())) for text in some], feature(some), strict=True))
            self.computed += len(new)
            return [self._memory[feature, key] for key in keys]
        function = self.function(feature)
        text = isinstance(function, TextInference)
        self.predictor = self.predictor if text else function
        options = RunOptions(free_text=text)
        if self._context is not None:
            options = replace(self._context.options_for(function, free_text=text), unparsed=self._unparsed)
        if text:
            options = replace(options, on_error="collect")
        counter = options.counter or RunCounter(recheck=False)
        before = counter.counts
        queries = [Query(prompt, labels, 0, number, 0) for number, (prompt, labels) in enumerate(keys)]
        try:
            return self._ask(function, queries, part, replace(options, counter=counter))
        finally:
            self.computed += counter.counts.computed - before.computed
            self.reused += counter.counts.reused - before.reused

    def _several(self, requests: Sequence[Request], part: Part, policy: OnError | None) -> list[list[Any]]:
        wanted: dict[Key, set[Feature]] = {}
        distinct = set()
        for request in requests:
            for key in request.keys:
                place = (request.feature, _place(request.feature, key))
                if place in distinct:
                    continue
                distinct.add(place)
                if place not in self._memory:
                    wanted.setdefault(key, set()).add(request.feature)
        reused = len(distinct.intersection(self._memory))
        self.reused += reused
        if (counter := self._options("probabilities").counter) is not None:
            counter.counts += RunCounts(reused=reused)
        found: dict[tuple[Feature, Key], Any] = {}
        for kind in (str, tuple):  # a noisy channel has several texts for each query
            some = {key: features for key, features in wanted.items() if isinstance(key[0], kind)}
            if some:
                found |= self._compute(some, part, len(requests) > 1, policy)
        return [
            [found[place] if place in found else self._memory[place] for place in places]
            for places in ([(one.feature, _place(one.feature, key)) for key in one.keys] for one in requests)
        ]

    def _options(self, feature: Feature) -> RunOptions:
        """Return how the run computes a feature. Prompts are counted for the kernel, as its label probabilities."""
        if self._context is None:
            return RunOptions()
        return replace(self._context.options_for(self.function(feature)), unparsed=self._unparsed)

    def _compute(
        self, wanted: Mapping[Key, set[Feature]], part: Part, grouped: bool, policy: OnError | None
    ) -> dict[tuple[Feature, Key], Any]:
        features: set[Feature] = set().union(*wanted.values())
        each = {feature: self._options(feature) for feature in sorted(features)}
        main = each["probabilities" if "probabilities" in each else min(each)]
        total = self._options("probabilities").counter
        plain = features == {"probabilities"}
        counter = _FeatureCounter(
            tolerance_of(self.kernel), self._recheck, 0 if total is None else total.counts.rechecked
        )
        counter.features = not plain
        options = replace(main, group_prefixes=grouped, on_error=policy or main.on_error, counter=counter)
        function: Inference = self.kernel
        if not plain:
            stores = {feature: one.store for feature, one in each.items() if one.store is not None}
            options = replace(options, store=_FeatureStore(stores, wanted) if stores else None)
            some = {
                query_key(as_argument(prompt), labels): needed
                for (prompt, labels), needed in wanted.items()
                if needed != features
            }
            function = FeatureFunction(self.kernel, features, some)
        queries = [Query(prompt, labels, 0, number, 0) for number, (prompt, labels) in enumerate(wanted)]
        try:
            answers = self._ask(function, queries, part, options)
        finally:
            self.computed += counter.counts.computed
            self.reused += counter.counts.reused
            if total is not None:
                total.counts += counter.counts
        found: dict[tuple[Feature, Key], Any] = {}
        for key, answer in zip(wanted, answers, strict=True):
            values: Any = answer if isinstance(answer, Features) else {"probabilities": answer}
            for feature in wanted[key]:
                place = (feature, _place(feature, key))
                found[place] = answer
                if not isinstance(answer, Failure):
                    found[place] = _unpacked(feature, values[feature])
                    self._remember(place, found[place], each[feature].store is not None)
        return found

    def _remember(self, place: tuple[Feature, Key], row: Any, stored: bool) -> None:
        if place[0] == "vocabulary":
            if stored or self._kept + row.nbytes > _MEMORY:
                return
            self._kept += row.nbytes
        self._memory[place] = row


def feature_keys(prompts: Sequence[Any], label_space: Sequence[str] = ()) -> list[Key]:
    """Return prompts with their label space, as a :class:`Request` takes them."""
    labels = tuple(label_space)
    return [(prompt if isinstance(prompt, str) else tuple(prompt), labels) for prompt in prompts]
