"""The ten inference methods of the paper's Table 2, each one call.

``Method("hidden_calibration", kernel).run(benchmark)`` trains on each data set's calibration set and evaluates;
:func:`run_all` runs all ten: one model's row of the table. ``result.timing`` and the table contain the cost of training
(prompts, seconds).

A method is a record (:class:`MethodSpec`) with a generator function: it yields requests for features of prompts, and
returns predictions. docs/adding_a_method.md shows how to add one; docs/methods.md compares the ten.
"""

from __future__ import annotations

import copy
import functools
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import Any

from StaICC.benchmarks import Benchmark, BenchmarkGroup, DatasetRun, Experimentor
from StaICC.benchmarks.base import Predictions
from StaICC.benchmarks.experimentor import data_warnings
from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError, OutputError, StaICCError, unknown_name, validate_integer
from StaICC.inference import Failure, Inference, Part, RunOptions
from StaICC.inference.chunk import read_reply
from StaICC.inference.forecast import CountsTokens
from StaICC.inference.identity import Identity, code_mark, combined, identity_of
from StaICC.inference.recheck import RunCounts
from StaICC.kernels.registry import options_of
from StaICC.methods.calibration.base import check_variant
from StaICC.methods.catalogue import METHODS, TABLE_2, calibrated
from StaICC.methods.features import CapabilityError, FeatureCache, Request, check_capabilities, extra_features
from StaICC.methods.specification import (
    MethodData,
    MethodSpec,
    make_options,
    read_options,
    with_labels,
    without_labels,
)
from StaICC.progress import drawn_progress, within
from StaICC.prompting import Prompt
from StaICC.registry import labelled, origin_of
from StaICC.results import Result, ResultGroup, Signature, short_digest
from StaICC.results.result import bracket_note, format_columns, html_table, html_text, result_rows
from StaICC.results.runs import OF_METHODS, OF_SHOTS
from StaICC.safe_text import lines, logger, one_line

__all__ = [
    "METHODS",
    "TABLE_2",
    "Method",
    "MethodSpec",
    "MethodTable",
    "calibrated",
    "format_methods",
    "read_method",
    "run_all",
    "run_many_shot",
    "run_method",
]

_log = logger(__name__)


def _find(name: str | MethodSpec) -> MethodSpec:
    return name if isinstance(name, MethodSpec) else METHODS.find(name).value


_PARTIAL_KEYWORDS = {"model", "tokenizer", "cache_empty", "return_hidden_state", "return_full_vocab_prob"}


def _as_kernel(kernel: Inference) -> Inference:
    """Return a kernel with all capabilities for the ``functools.partial`` that 0.1.1 documents."""
    if isinstance(kernel, functools.partial) and {"model", "tokenizer"} <= set(kernel.keywords) <= _PARTIAL_KEYWORDS:
        from StaICC.kernels.huggingface import functions as model_kernel
        from StaICC.kernels.huggingface.kernel import CausalLMKernel

        if kernel.func is model_kernel.standard_ICL_inference_with_torch_Causal_LM:
            return CausalLMKernel(kernel.keywords["model"], kernel.keywords["tokenizer"], label_mass=False)
    return kernel


class Method:
    """An inference method on a kernel.

    Args:
        name: A name of :data:`METHODS` (``-`` and ``_`` are equal), a plug-in's method, ``package.module:name`` of a
            record, or the record.
        kernel: An inference function with the capabilities that the method requires. A ``functools.partial`` of
            ``standard_ICL_inference_with_torch_Causal_LM`` has all of them.
        variant: ``"paper"``: as the method's own paper defines it; ``"staicc"``: the protocol of StaICC's Table 2;
            ``"0.1.1"``: as the release computes it.
        calibration_number: Number of training prompts for each data set.
        **options: The options that the method declares; ``python -m StaICC show methods`` lists them.

    Raises:
        UnknownNameError: There is no such method or variant.
        PluginError: A plug-in is broken, or two plug-ins have that method.
        ArgumentError: An option is unknown or invalid, or the kernel lacks a required capability.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.kernels.ppm import PPMKernel
        >>> method = Method("contextual-calibration", PPMKernel(), "staicc", calibration_number=8)
        >>> result = method.run(Normal(datasets=["mini"], limit=4))
        >>> result.timing["training_prompts"]
        8.0
    """

    def __init__(
        self,
        name: str | MethodSpec,
        kernel: Inference,
        variant: str = "paper",
        calibration_number: int = 128,
        **options: Any,
    ) -> None:
        self.spec = _find(name)
        if not callable(kernel):
            raise ArgumentError(f"kernel: got {type(kernel).__name__}, expected an inference function")
        self.kernel = _as_kernel(kernel)
        self.variant = check_variant(variant)
        self.calibration_number = validate_integer("calibration_number", calibration_number, 1)
        self.options = make_options(self.spec.name, self.spec.options, options)
        check_capabilities(self.spec.title, self.kernel, self.spec.required(self.options))

    def __repr__(self) -> str:
        return one_line(f"<{self.spec.title} ({self.variant}) on {self.kernel!r}>")

    def data(self, one: Experimentor) -> MethodData:
        """Return what the method gets to know about a data set: no label of a test row."""
        extra = extra_features(self.kernel)
        return MethodData(without_labels(one), self.variant, self.calibration_number, self.options, extra)

    def prepare(self, one: Experimentor) -> Experimentor:
        """Return a data set with the prompts of the method: its instruction, its demonstrations.

        Args:
            one: The data set; it is not changed.

        Raises:
            ArgumentError: The method cannot be applied to the data set.
            OutputError: The kernel has no features of a training prompt.
        """
        data, cache = self.data(one), FeatureCache(self.kernel)
        with self._named(one):
            steps = self.spec.begin(data)
            requests = next(steps, [])
            while training := [request for request in requests if request.phase]:
                rows = iter(cache.rows(training))
                requests = steps.send([next(rows) if request.phase else [] for request in requests])
        return with_labels(data.experimentor, one)

    def refusal(self, benchmark: Benchmark) -> Exception | None:
        """Return why the method cannot run on a benchmark, before anything is computed; ``None`` if it can."""
        try:
            for one in benchmark:
                with self._named(one):
                    next(self.spec.begin(self.data(one)))
        except Exception as error:
            return error
        return None

    @contextmanager
    def _named(self, one: Experimentor) -> Iterator[None]:
        """Name the method and the data set in errors."""
        try:
            yield
        except (ArgumentError, OutputError) as error:
            if str(error).startswith(self.spec.title):
                raise
            raise type(error)(f"{self.spec.title}, {one.name}: {error}") from error

    def run(
        self, benchmark: Benchmark | BenchmarkGroup, *, return_outputs: bool = False, **run: Any
    ) -> Result | ResultGroup:
        """Train on each data set's calibration set and evaluate.

        Args:
            benchmark: The benchmark, or a group; it is not changed. Members of a group on which the method cannot run
                are left out, with the reason in ``skipped``.
            return_outputs: Keep the predictions for each query in ``result.outputs``.
            **run: Options of the run: store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result, with the method in its signature. ``timing`` contains, summed over the data sets,
            ``loading_seconds`` (identity of the kernel, data, prompts), ``training_prompts`` and ``training_seconds``,
            ``test_prompts`` and ``seconds`` (of the evaluation alone), and ``reused_prompts``: how many of the prompts
            were computed before, by another method or run, and so took no time. Prompts are the distinct ones that were
            requested of the kernel. For kernels that count tokens, such as a server, also ``training_tokens_read``,
            ``training_tokens_generated`` and the same for ``test``.

        Raises:
            ArgumentError: The method cannot be applied to a data set; nothing was computed.
            OutputError: A prediction is invalid.
        """
        return self.run_on(FeatureCache(self.kernel), benchmark, return_outputs=return_outputs, **run)

    __call__ = run

    def run_on(
        self,
        cache: FeatureCache,
        benchmark: Benchmark | BenchmarkGroup,
        *,
        share: Share | None = None,
        return_outputs: bool = False,
        **run: Any,
    ) -> Result | ResultGroup:
        """As :meth:`run`, with a cache that may contain features, and what computes those of several methods."""
        check_benchmark(benchmark)
        if isinstance(benchmark, BenchmarkGroup):
            refusals = {name: self.refusal(member) for name, member in benchmark.members.items()}
            skipped = {name: error for name, error in refusals.items() if error is not None}
            for name, error in skipped.items():
                if len(skipped) == len(refusals) or not isinstance(error, ArgumentError):
                    raise error
                _log.warning("left out: %s: %s", name, error)
            parts = {}
            with drawn_progress(run.get("progress")) as shown:
                for place, (name, member) in enumerate(benchmark.members.items()):
                    if name not in skipped:
                        run["progress"] = within(shown, place, len(benchmark))
                        parts[name] = self._run(cache, member, share, return_outputs, **run)
            reasons = {name: str(error) for name, error in skipped.items()}
            return MethodTable(benchmark.name, parts, {}, reasons) if skipped else ResultGroup(benchmark.name, parts)
        if (refused := self.refusal(benchmark)) is not None:
            raise refused
        return self._run(cache, benchmark, share, return_outputs, **run)

    def _run(
        self, cache: FeatureCache, benchmark: Benchmark, share: Share | None, return_outputs: bool, **run: Any
    ) -> Result:
        runs, views = {}, []
        used: dict[str, Inference] = {}
        timing = dict.fromkeys(TIMES, 0.0)
        predictor = None
        if self.spec.settings is not None:
            predictor = _Predictor(cache.kernel, self.spec.name, self.spec.settings(self.options))
        with RunContext(False, **run) as running:
            running.warn(*data_warnings(benchmark))
            for number, one in enumerate(benchmark):
                part = Part(f"{self.spec.title}: {benchmark.task.name}, {one.name}", number, len(benchmark))
                began = time.monotonic()
                running.start([cache.kernel])
                queries = one.all_queries()  # reads the data
                timing["loading_seconds"] += time.monotonic() - began
                data = self.data(one)
                with cache.running(running, run.get("recheck", True), one.unparsed):
                    if share is not None:
                        share(cache, one, part)
                    before, reused = cache.computed, cache.reused
                    try:
                        with self._named(one):
                            answers = self.predict(data, cache, part, timing)
                    except OutputError as error:
                        if run.get("on_error") != "collect":
                            raise
                        _log.warning("%s", error)  # no query of this data set has a prediction
                        data.experimentor = without_labels(one)
                        answers = [Failure(str(error), error)] * len(queries)
                    used[one.name] = predictor or cache.predictor
                    options = running.options_for(used[one.name])
                    if predictor is not None and options.counter is not None:
                        options.counter.counts += RunCounts(cache.computed - before, cache.reused - reused)
                timing["reused_prompts"] += cache.reused - reused
                for name, value in data.notes.items():
                    timing[name] = timing.get(name, 0.0) + value
                if data.notes.get("duplicates"):
                    _log.warning(
                        "%s: %d test examples are shown a demonstration of exactly their text; the option "
                        "exclude_duplicates leaves these out",
                        part.name,
                        data.notes["duplicates"],
                    )
                views.append(with_labels(data.experimentor, one))
                runs[one.name] = self._scored(views[-1], answers, options, part)
        twin = copy.copy(benchmark)
        twin.experimentor = views
        result = twin.collect(runs, timing["seconds"], Predictions.of_run(running, used), return_outputs)
        result.timing.update(timing)
        result.signature = self._signed(result.signature)
        result.provenance = replace(result.provenance, method=result.signature.fields.get("method"))
        return running.deliver(result)

    def predict(self, data: MethodData, cache: FeatureCache, part: Part, timing: dict[str, float]) -> Sequence[Any]:
        """Return the predictions; count the distinct prompts that the method requests, and the seconds."""
        asked: dict[bool, set[Any]] = {True: set(), False: set()}
        marked, tokens = time.monotonic(), _tokens(cache.kernel)

        def charge(training: bool) -> None:
            nonlocal marked, tokens
            began, marked = marked, time.monotonic()
            timing["training_seconds" if training else "seconds"] += marked - began
            before, tokens = tokens, _tokens(cache.kernel)
            for kind in tokens:
                name = f"{'training' if training else 'test'}_tokens_{kind}"
                timing[name] = timing.get(name, 0.0) + tokens[kind] - before.get(kind, 0)

        steps = self.spec.begin(data)
        rows: Any = None
        learns = False
        try:
            while True:
                requests = steps.send(rows)
                charge(learns or (rows is None and any(request.phase for request in requests)))
                rows = [[] for _ in requests]
                for training in (True, False):
                    now = [place for place, one in enumerate(requests) if bool(one.phase) is training and not one.ahead]
                    chosen = [requests[place] for place in now]
                    if chosen:
                        found = cache.rows(chosen, replace(part, phase=chosen[0].phase))
                        for place, some in zip(now, found, strict=True):
                            rows[place] = some
                        asked[training] |= {(one.kind, key) for one in chosen for key in one.keys}
                        charge(training)
                learns = any(request.phase for request in requests)
        except StopIteration as end:
            charge(learns)
            answers: Sequence[Any] = end.value
        timing["training_prompts"] += len(asked[True])
        timing["test_prompts"] += len(asked[False])
        return answers

    def _scored(self, view: Experimentor, answers: Sequence[Any], options: RunOptions, part: Part) -> DatasetRun:
        """Return scores and details of the predictions for the queries of a view."""
        conditions = view.conditions()
        queries = [query for condition in conditions for query in condition.queries]
        if not isinstance(answers, Sequence) or len(answers) != len(queries):
            given = len(answers) if isinstance(answers, Sequence) else type(answers).__name__
            raise ArgumentError(
                f"{part.name}: got {given} predictions, expected one for each of {len(queries)} queries"
            )
        if options.counter is not None and any(isinstance(answer, str) for answer in answers):
            options.counter.replies = True
        final = [
            read_reply(answer, query.label_space, view.unparsed) for answer, query in zip(answers, queries, strict=True)
        ]
        if options.on_error == "raise":
            for number, answer in enumerate(final):
                if isinstance(answer, Failure) and answer.reply is None:
                    raise OutputError(f"{part.name}, query {number}: {answer.reason}") from answer.cause
        return view.assemble(conditions, final, part.name)

    def _signed(self, signature: Signature) -> Signature:
        """Return the signature with the method and its settings; vanilla inference adds nothing."""
        builtin = METHODS.get(self.spec.name) == self.spec
        if builtin and self.spec.name == "vanilla":
            return signature
        plugin = origin_of(self.spec.steps)
        own = not builtin and not plugin
        name = labelled(self.spec.name, code_mark(self.spec.steps) if own else plugin)
        counts = self.spec.counts(self.options, self.variant)
        parts = [name, self.variant, *([f"n={self.calibration_number}"] if counts else [])]
        for fact in options_of(self.spec.options):
            value = getattr(self.options, fact.name)
            if own or value != fact.default:
                parts.append(f"{fact.name}={_signed_value(value)}")
        return Signature({**signature.fields, "method": " ".join(parts)})


TIMES = (
    "loading_seconds",
    "training_prompts",
    "training_seconds",
    "test_prompts",
    "seconds",
    "reused_prompts",
)


def check_benchmark(benchmark: object) -> None:
    """Refuse what methods cannot run on, such as LongICL."""
    if not isinstance(benchmark, (Benchmark, BenchmarkGroup)):
        raise ArgumentError(f"benchmark: got {type(benchmark).__name__}, expected a Benchmark or BenchmarkGroup")


def _tokens(kernel: Inference) -> dict[str, int]:
    """Return the tokens that a kernel has read and generated so far, where it counts them."""
    used = kernel.tokens_used if isinstance(kernel, CountsTokens) else None
    return {} if used is None else dict(zip(("read", "generated"), used, strict=True))


@dataclass(frozen=True)
class _Predictor:
    """A kernel with what a method adds to its identity."""

    kernel: Inference
    name: str
    settings: Mapping[str, str]

    recheck_tolerance = None
    """One other token changes a text."""

    def identity(self) -> Identity:
        """Return the identity."""
        return combined(identity_of(self.kernel), self.name, Identity({}, dict(self.settings)))

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        """Refuse: the harness predicts."""
        raise NotImplementedError


Share = Callable[[FeatureCache, Experimentor, Part], None]


class SharedFeatures:
    """What several methods request before any of them has run, computed together for each data set.

    Args:
        methods: The methods.
        benchmarks: The benchmark of each method; by default the one that is run. With it, prompts that fail do not
            stop the others.

    Attributes:
        seconds: What computing took.
        prompts: How many prompts were computed.
    """

    def __init__(self, methods: Sequence[Method], benchmarks: Sequence[Benchmark] | None = None) -> None:
        self.seconds = 0.0
        self.prompts = 0
        self._methods = methods
        self._benchmarks = benchmarks
        self._done: list[Experimentor] = []

    def compute(self, cache: FeatureCache, one: Experimentor, part: Part) -> None:
        """Compute the features of one data set, unless that was done; failures are left to the methods."""
        if any(one is done for done in self._done) or len(self._methods) < 2:
            return
        each = [one] * len(self._methods) if self._benchmarks is None else [some[one.name] for some in self._benchmarks]
        self._done += each
        began, computed = time.monotonic(), cache.computed
        requests: list[Request] = []
        for method, own in zip(self._methods, each, strict=True):
            try:
                requests += next(method.spec.begin(method.data(own)))
            except Exception as error:
                _log.debug("%s, %s: %s", method.spec.title, one.name, error)
        try:
            cache.rows(
                [replace(request, apply=()) for request in requests if isinstance(request.feature, str)],
                replace(part, name=f"features of {len(self._methods)} runs: {one.name}"),
                None if self._benchmarks is None else "collect",
            )
        except Exception as error:
            _log.warning("%s: features could not be computed for all runs together: %s", one.name, error)
        self.seconds += time.monotonic() - began
        self.prompts += cache.computed - computed


def _signed_value(value: Any) -> str:
    """Return an option's value without blanks: numbers and words verbatim, all else as a digest."""
    if callable(value):
        return code_mark(value)
    plain = isinstance(value, (int, float)) or (isinstance(value, str) and value.replace("-", "").isalnum())
    return str(value) if plain else short_digest(value)


def chosen_methods(
    kernel: Inference,
    variant: str,
    calibration_number: int,
    methods: Sequence[str | MethodSpec] | None,
    options: Mapping[str, Any] | None,
) -> tuple[list[Method], dict[str, str]]:
    """Return the methods that the kernel supports, and why others are left out; see :func:`run_all`.

    Raises:
        ArgumentError: No method could be run, two methods have one name, or no method has an option.
    """
    if methods is None:
        centroids = check_variant(variant) != "paper"
        methods = [f"{name}_centroid" if centroids and name == "knn_prompt" else name for name in TABLE_2]
    specs = [_find(name) for name in methods]
    named = [spec.name for spec in specs]
    if len(set(named)) < len(named):
        raise ArgumentError(f"got two methods of one name: {', '.join(named)}; expected different names")
    declared = [{fact.name for fact in options_of(spec.options)} for spec in specs]
    given = dict(options or {})
    for name in given:
        if not any(name in known for known in declared):
            raise unknown_name("option of these methods", name, sorted(set().union(*declared)))
    made: list[Method] = []
    skipped: dict[str, str] = {}
    for spec, known in zip(specs, declared, strict=True):
        own_options = {name: value for name, value in given.items() if name in known}
        try:
            made.append(Method(spec, kernel, variant, calibration_number, **own_options))
        except CapabilityError as error:
            skipped[spec.name] = str(error)
    for reason in skipped.values():
        _log.warning("left out: %s", reason)
    if not made:
        raise ArgumentError(f"none of the methods {', '.join(named)} could be run: {'; '.join(skipped.values())}")
    return made, skipped


def run_all(
    kernel: Inference,
    benchmark: Benchmark | BenchmarkGroup,
    variant: str = "paper",
    calibration_number: int = 128,
    *,
    methods: Sequence[str | MethodSpec] | None = None,
    options: Mapping[str, Any] | None = None,
    finished: Callable[[MethodTable], None] | None = None,
    **run: Any,
) -> MethodTable:
    """Return the results of all methods: one model's row of Table 2.

    Features that several methods share are computed once, those that are known in advance together. Methods whose
    required capabilities the kernel lacks are skipped before anything is evaluated, and methods that raise any
    exception when they do. ``skipped`` contains the reasons.

    Args:
        kernel: Any inference function.
        benchmark: The benchmark, or a group; it is not changed.
        variant: ``"paper"``, ``"staicc"`` or ``"0.1.1"`` (the latter two have the centroid form of k-NN, as Table 2).
        calibration_number: Number of training prompts of each method, for each data set.
        methods: Names or records; the ten by default.
        options: Options by name; each method gets those that it declares.
        finished: Called with the table so far when a method has finished, such as to save it.
        **run: Options of the run, and ``return_outputs``; see :meth:`Method.run`.

    Returns:
        The results by method; it prints as a table.

    Raises:
        ArgumentError: No method could be run, two methods have one name, or no method has an option.
    """
    made, skipped = chosen_methods(kernel, variant, calibration_number, methods, options)
    table = MethodTable(OF_METHODS.name, {}, {method.spec.name: method.spec.title for method in made}, skipped)
    runs = {method.spec.name: (method.spec.title, method, benchmark) for method in made}
    return _run_each(table, runs, None, finished, **run)


def _run_each(
    table: MethodTable,
    runs: Mapping[str, tuple[str, Method, Any]],
    benchmarks: Sequence[Benchmark] | None,
    finished: Callable[[MethodTable], None] | None,
    measure: Callable[[Any, Benchmark], None] = lambda result, benchmark: None,
    **run: Any,
) -> MethodTable:
    """Add the results of several runs to a table; what fails is left out with its title and reason.

    Raises:
        ArgumentError: None could be run.
    """
    methods = [method for _, method, _ in runs.values()]
    fits = [isinstance(where, BenchmarkGroup) or method.refusal(where) is None for _, method, where in runs.values()]
    cache = FeatureCache(methods[0].kernel)
    shared = SharedFeatures(
        list(compress(methods, fits)), None if benchmarks is None else list(compress(benchmarks, fits))
    )
    with drawn_progress(run.get("progress")) as shown:
        for place, (name, (title, method, benchmark)) in enumerate(runs.items()):
            run["progress"] = within(shown, place, len(runs))
            try:
                result = method.run_on(cache, benchmark, share=shared.compute, **run)
            except Exception as error:  # CUDA out of memory, a bug of a plug-in: the other results are not lost
                expected = isinstance(error, StaICCError)
                reason = str(error) if expected else f"{type(error).__name__}: {error}"
                table.skipped[name] = reason if reason.startswith(title) else f"{title}: {reason}"
                _log.warning("left out: %s", table.skipped[name], exc_info=None if expected else error)
                continue
            measure(result, benchmark)
            table[name] = result
            table.shared = {"prompts": shared.prompts, "seconds": shared.seconds}
            if finished is not None:
                finished(table)
    if not table:
        raise ArgumentError(f"none of {', '.join(runs)} could be run: {'; '.join(table.skipped.values())}")
    return table


def run_method(
    name: str,
    kernel: Inference,
    make_benchmark: Callable[[], Benchmark | BenchmarkGroup],
    variant: str = "paper",
    calibration_number: int = 128,
    options: Sequence[str] = (),
    finished: Callable[[MethodTable], None] | None = None,
    **run: Any,
) -> Result | ResultGroup:
    """Return the result of one method, or of all, as the command line's ``--method``.

    Args:
        name: A method, or ``"all"`` for the ten of Table 2.
        kernel: Any inference function.
        make_benchmark: Returns the benchmark; called after the method and its options were checked.
        variant: ``"paper"``, ``"staicc"`` or ``"0.1.1"``.
        calibration_number: Number of training prompts for each data set.
        options: Options as ``NAME=VALUE``.
        finished: See :func:`run_all`.
        **run: Options of the run; see :meth:`Method.run`.

    Returns:
        A result, or a table of them; :func:`~StaICC.methods.run.format_methods` prints either.

    Raises:
        UnknownNameError: There is no such method.
        ArgumentError: An option is unknown or invalid, or the kernel lacks a required capability.
    """
    if name == "all":
        given = read_all(options)
        return run_all(kernel, make_benchmark(), variant, calibration_number, options=given, finished=finished, **run)
    method = read_method(name, kernel, variant, calibration_number, options)  # before the data is read
    return method.run(make_benchmark(), **run)


def read_all(options: Sequence[str]) -> dict[str, Any]:
    """Return options of the ten methods given as ``NAME=VALUE``."""
    return read_options("the ten methods", [METHODS[one].options for one in TABLE_2], options)


def read_method(
    name: str, kernel: Inference, variant: str = "paper", calibration_number: int = 128, options: Sequence[str] = ()
) -> Method:
    """Return a method with options given as ``NAME=VALUE``; arguments and errors are those of :func:`run_method`."""
    spec = _find(name)
    return Method(spec, kernel, variant, calibration_number, **read_options(spec.name, [spec.options], options))


_SAME_FOR_ALL = ("random", "majority")
"""Columns of a result's own table that are equal for all methods."""

_COSTS = {
    "training_prompts": "train prompts",
    "training_seconds": "train s",
    "test_prompts": "test prompts",
    "seconds": "test s",
    "reused_prompts": "reused",
    "loading_seconds": "load s",
}


def _cost(result: Result, key: str) -> str:
    value = result.timing.get(key)
    if value is None:
        return "-"
    return f"{value:.0f}" if key.endswith("prompts") else f"{value:.1f}"


def _figures(result: Result) -> dict[str, str]:
    """Return the last row of a result's own table (the mean, or the only data set) by column."""
    head, rows = result_rows(result)
    return {
        column: cell
        for column, cell in zip(head[1:], rows[-1][1:], strict=True)
        if cell and column not in _SAME_FOR_ALL
    }


def format_methods(found: Result | ResultGroup, titles: Mapping[str, str] | None = None) -> str:
    """Return the results of methods as text.

    Args:
        found: The results by method, or the result of one.
        titles: Display names of the methods.

    Returns:
        One row for each method, its figures (means over the data sets) and its cost; then the accuracies by data set.
        For the result of one method, its own table and its cost. A :class:`MethodTable` as it prints.
    """
    if titles is None and isinstance(found, MethodTable):
        return str(found)
    titles = titles or {}
    if isinstance(found, Result):
        costs = ", ".join(f"{head} {_cost(found, key)}" for key, head in _COSTS.items())
        return f"{found}\n{costs}"
    if len({part.benchmark if isinstance(part, Result) else part.name for part in found.values()}) > 1:
        return "\n\n".join(format_methods(part, titles) for part in found.values())  # one method on several benchmarks
    if not all(isinstance(part, Result) for part in found.values()):
        return _by_part(found, titles)
    return "\n\n".join(format_columns(head, rows) for _, head, rows in _tables(dict(found.items()), titles))


def _tables(found: Mapping[str, Result], titles: Mapping[str, str]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Captions, heads and rows: the methods with their figures and costs, and their accuracies by data set."""
    figures = {name: _figures(result) for name, result in found.items()}
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    rows = [
        [
            titles.get(name, name),
            *(figures[name].get(column, "-") for column in columns),
            *(_cost(result, key) for key in _COSTS),
        ]
        for name, result in found.items()
    ]
    tables = [("Methods", ["method", *columns, *_COSTS.values()], rows)]
    datasets = list(dict.fromkeys(name for result in found.values() for name in result.divided))
    if len(datasets) > 1 and all("accuracy" in one for result in found.values() for one in result.divided.values()):
        accuracies = [
            [result.divided.get(dataset, {}).get("accuracy") for dataset in datasets] for result in found.values()
        ]
        cells = [["-" if value is None else f"{value:.4f}" for value in row] for row in accuracies]
        rows = [[titles.get(name, name), *row] for name, row in zip(found, cells, strict=True)]
        tables.append(("Accuracy by data set", ["accuracy", *datasets], rows))
    return tables


def _by_part(found: ResultGroup, titles: Mapping[str, str]) -> str:
    """One table for each part of the groups that the methods ran on."""
    groups: dict[str, Any] = {name: part for name, part in found.items() if isinstance(part, ResultGroup)}
    parts = dict.fromkeys(name for group in groups.values() for name in group)
    return "\n\n".join(
        f"{one_line(part)}\n"
        + format_methods(ResultGroup(part, {n: group[part] for n, group in groups.items() if part in group}), titles)
        for part in parts
    )


class MethodTable(ResultGroup):
    """Results of several methods on the same prompts, by method.

    Args:
        name: Name of the group.
        parts: The results by method.
        titles: Display names of the methods.
        skipped: The reasons of the methods that could not be run.
    """

    def __init__(
        self,
        name: str,
        parts: Mapping[str, Result | ResultGroup],
        titles: Mapping[str, str] | None = None,
        skipped: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, parts)
        self.titles = dict(titles or {})
        self.skipped = dict(skipped or {})
        self.shared: dict[str, float] = {}
        """Prompts that were computed for several methods together, and the seconds that this took."""

    def _repr_html_(self) -> str:
        found = {name: part for name, part in self.items() if isinstance(part, Result)}
        if len(found) < len(self) or len({part.benchmark for part in found.values()}) > 1:
            return super()._repr_html_()
        tables = "".join(html_table(*table) for table in _tables(found, self.titles))
        reasons = "".join(f"<p>left out: {html_text(reason)}</p>" for reason in self.skipped.values())
        return tables + "".join(f"<p>{note}</p>" for note in bracket_note(found.values())) + reasons

    def __str__(self) -> str:
        reasons = [*bracket_note(self.results()), *(f"left out: {reason}" for reason in self.skipped.values())]
        if self.shared.get("prompts"):
            shared = "computed for several runs together: {prompts:.0f} prompts in {seconds:.1f} s"
            reasons.insert(0, shared.format(**self.shared))
        models = dict.fromkeys(f"model: {result.model}" for result in self.results())
        signatures = dict.fromkeys(str(result.signature) for result in self.results())
        return f"{format_methods(self, self.titles)}\n{lines([*reasons, *models, *signatures])}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a saved table is read back as a group of results."""
        return super().to_dict() | {"skipped": self.skipped, "shared": self.shared}


def different(ks: Iterable[int]) -> list[int]:
    """Return numbers of demonstrations in order.

    Raises:
        ArgumentError: There is none, or one is given twice.
    """
    numbers = sorted(ks)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"k: got {numbers}, expected different numbers, at least one")
    return numbers


def run_many_shot(
    method: Method,
    make_benchmark: Callable[[int], Benchmark],
    ks: Iterable[int],
    finished: Callable[[MethodTable], None] | None = None,
    **run: Any,
) -> MethodTable:
    """Return the results of a method for several numbers of demonstrations.

    Args:
        method: The method with its kernel.
        make_benchmark: Returns the benchmark for a ``k``, such as ``lambda k: Normal(k, sampler="nested")``.
        ks: The numbers of demonstrations; the smallest is run first.
        finished: Called with the table so far after each ``k``.
        **run: Options of the run; see :meth:`~StaICC.methods.run.Method.run`.

    Returns:
        The results by ``"k=4"``; it prints as a table. ``skipped`` has the reasons of those that failed, such as
        prompts that are longer than the context of the model. ``timing`` of each result has ``prompt_characters`` (of
        the distinct test prompts) and ``new_characters`` (without the prefixes that they share with each other and with
        the prompts of a smaller ``k``).

    Raises:
        ArgumentError: No ``k`` is given, one is given twice, the benchmark is a group, or none could be run.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.kernels.ppm import PPMKernel
        >>> mini = lambda k: Normal(k, datasets=["mini"], limit=2, sampler="nested")
        >>> list(run_many_shot(Method("vanilla", PPMKernel()), mini, [2, 8]))
        ['k=2', 'k=8']
    """
    numbers = different(ks)
    members = [make_benchmark(k) for k in numbers]
    if not all(isinstance(benchmark, Benchmark) for benchmark in members):
        raise ArgumentError("several k need one benchmark: got a group. Run its members one by one")
    prompts = set[Prompt]()

    def measure(result: Result, benchmark: Benchmark) -> None:
        before = _distinct_characters(map(_text, prompts))
        own = {query.prompt for one in benchmark for query in one.all_queries()}
        prompts.update(own)
        result.timing["prompt_characters"] = float(sum(len(_text(prompt)) for prompt in own))
        result.timing["new_characters"] = float(_distinct_characters(map(_text, prompts)) - before)

    table = MethodTable(OF_SHOTS.name, {}, {f"k={k}": f"{method.spec.title}, k = {k}" for k in numbers})
    runs = {f"k={k}": (f"k = {k}", method, benchmark) for k, benchmark in zip(numbers, members, strict=True)}
    return _run_each(table, runs, members, finished, measure, **run)


def _text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else "\0".join(prompt)


def _distinct_characters(texts: Iterable[str]) -> int:
    """Return the number of distinct prefixes of texts."""
    ordered = sorted(texts)
    shared = (
        bisect_left(range(min(len(one), len(other))), True, key=lambda end: one[: end + 1] != other[: end + 1])
        for one, other in pairwise(ordered)
    )
    return sum(map(len, ordered)) - sum(shared)
