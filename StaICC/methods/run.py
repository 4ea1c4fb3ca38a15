"""Methods run on a benchmark: one method, a table of all, one at several numbers of demonstrations.

``Method("hidden_calibration", kernel).run(benchmark)`` trains on each data set's calibration set and evaluates;
:func:`run_all` runs all ten: one model's row of the table. ``result.timing`` and the table contain the cost of training
(prompts, seconds).

A method is a record (:class:`MethodSpec`) with a generator function: it yields requests for features of prompts, and
returns predictions. docs/adding_a_method.md shows how to add one; docs/methods.md compares the ten.

A forecast of methods: they write their prompts with random features in the place of those of the model.

The prompts of most methods do not depend on what the model computes, so their number and tokens are exact. To find out,
methods write them twice, with different features: where the prompts differ, the forecast is an estimate.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, cast

from StaICC.arguments import validate_integer
from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.context import RunContext
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.forecast import ForecastOptions, Tasks
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.benchmarks.result_warnings import answers_by_key, dataset_warnings, log_prompt_warnings
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.errors import ArgumentError, OutputError, PromptError, StaICCError, unknown_name
from StaICC.inference.contract import Answer, Features, Inference, ReplyLabel, Text, own_attribute, retried, tokens_used
from StaICC.inference.forecast import Forecast
from StaICC.inference.identity import Identity, code_mark
from StaICC.inference.model_warnings import model_warnings
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.replies import Failure, checked, failure_of_error
from StaICC.inference.runner import AnswerCollector, Part, RunOptions
from StaICC.kernels.huggingface.token_trie import distinct_positions
from StaICC.kernels.protocol import CapabilityError
from StaICC.kernels.registry import options_of
from StaICC.kernels.text_inference import TextInference
from StaICC.layout import Block, Line, TextTable
from StaICC.methods import features, specification
from StaICC.methods.calibration.base import calibrated as calibrated
from StaICC.methods.contract import MethodData, Predictions, Steps
from StaICC.methods.features import FeatureCache, Request
from StaICC.methods.outputs import as_probabilities, as_stated
from StaICC.methods.specification import METHODS as METHODS
from StaICC.methods.specification import TABLE_2 as TABLE_2
from StaICC.methods.specification import MethodSpec as MethodSpec
from StaICC.metrics.classification import Kind
from StaICC.progress import drawn_progress, within
from StaICC.prompting.prompt_writer import Query
from StaICC.registry import labelled, origin_of
from StaICC.results.remarks import bracket_note
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import Sweep
from StaICC.results.signature import Signature, short_digest
from StaICC.results.table import result_rows, shared_warning_lines
from StaICC.safe_text import logger, one_line

_log = logger(__name__)

OF_METHODS = Sweep(
    "Methods",
    lambda part, result: result.method == part or result.method.startswith((f"{part} ", f"{part}@")),
    ("method", "channel", "repeats", "demonstrations", "template", "scoring", "prompts", "failed"),
    ("skipped", "shared"),
)
"""The results of several methods with one model (:func:`run_all`)."""
OF_SHOTS = Sweep(
    "Many-shot",
    lambda part, result: part == f"k={result.signature.fields.get('k')}",
    ("k", "demonstrations", "template", "prompts", "failed"),
    ("skipped", "shared"),
)
"""The results of a method at several ``k`` (:func:`run_many_shot`)."""


def _find(name: str | MethodSpec) -> MethodSpec:
    return name if isinstance(name, MethodSpec) else METHODS.find(name).value


_PARTIAL_KEYWORDS = {"model", "tokenizer", "cache_empty", "return_hidden_state", "return_full_vocab_prob"}


def _as_kernel(kernel: Inference) -> Inference:
    """Return a kernel with all capabilities for the ``functools.partial`` that 0.1.1 documents."""
    if isinstance(kernel, functools.partial) and {"model", "tokenizer"} <= set(kernel.keywords) <= _PARTIAL_KEYWORDS:
        kernel_for = own_attribute(kernel.func, "kernel_for")
        return kernel if kernel_for is None else kernel_for(**kernel.keywords)
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
        self.variant = specification.check_variant(variant)
        self.calibration_number = validate_integer("calibration_number", calibration_number, 1)
        self.options = specification.make_options(self.spec.name, self.spec.options, options)
        required = self.spec.requires - getattr(self.options, "not_required", frozenset())
        features.check_capabilities(self.spec.title, self.kernel, required)

    def __repr__(self) -> str:
        return one_line(f"<{self.spec.title} ({self.variant}) on {self.kernel!r}>")

    def begin(self, experimentor: BaseExperimentor) -> tuple[MethodData, Steps, Sequence[Request] | None, Any]:
        """Return what the method gets to know about a data set, without labels of test rows, and its first step."""
        experimentor.refuse_function(self.kernel)
        data = self._data_of(experimentor)
        steps = self.spec.steps(data)
        if not isinstance(steps, Generator):
            got = f"got {type(steps).__name__}, expected a function that yields requests and returns predictions"
            raise ArgumentError(got)
        return data, steps, *self._next(steps)

    def _data_of(self, experimentor: BaseExperimentor) -> MethodData:
        """Return what the method gets to know about a data set, without labels of test rows."""
        # A data set that lacks something which a method uses, such as a calibration set, raises an ArgumentError.
        unlabelled = cast("Experimentor", experimentor.without_labels())
        extra = features.extra_features(self.kernel)
        return MethodData(unlabelled, self.variant, self.calibration_number, self.options, extra)

    def _next(self, steps: Steps, rows: Any = None) -> tuple[Sequence[Request] | None, Any]:
        """Return the next requests of a method, or ``None`` and its predictions.

        Raises:
            ArgumentError: The kernel counted tokens meanwhile, which no request says.
        """
        before = tokens_used(self.kernel)
        try:
            requests = steps.send(rows)
        except StopIteration as end:
            return None, end.value
        finally:
            if tokens_used(self.kernel) != before:
                raise ArgumentError("the method calls the kernel by itself; it must request features")
        features.check_requests(self.spec.title, self.kernel, requests)
        return requests, None

    def prepare(self, experimentor: BaseExperimentor) -> BaseExperimentor:
        """Return a data set with the prompts of the method: its instruction, its demonstrations.

        Args:
            experimentor: The data set; it is not changed.

        Raises:
            ArgumentError: The method cannot be applied to the data set.
            OutputError: The kernel has no features of a training prompt.
        """
        cache = FeatureCache(self.kernel)
        with self._named(experimentor):
            data, *_ = self.predict(experimentor, cache, Part("prompts"), stop=True)
        return data.experimentor.with_labels_of(cast("Experimentor", experimentor))

    def refusal(self, benchmark: BaseBenchmark[Any]) -> Exception | None:
        """Return why the method cannot run on a benchmark, before anything is computed; ``None`` if it can."""
        try:
            for experimentor in benchmark:
                with self._named(experimentor):
                    self.begin(experimentor)
        except Exception as error:
            return error
        return None

    @contextlib.contextmanager
    def _named(self, experimentor: BaseExperimentor) -> Iterator[None]:
        """Name the method and the data set in errors."""
        try:
            yield
        except (ArgumentError, OutputError) as error:
            if str(error).startswith(self.spec.title):
                raise
            message = f"{self.spec.title}, {experimentor.name}: {error}"
            if isinstance(error, PromptError):
                raise PromptError(message, error.index) from error
            raise type(error)(message) from error

    def run(
        self, benchmark: Benchmark | BenchmarkGroup, *, return_outputs: bool = False, **run: Any
    ) -> Result | ResultGroup:
        """Train on each data set's calibration set and evaluate.

        Args:
            benchmark: The benchmark, or a group; it is not changed. Members of a group on which the method cannot run
                are left out, with the reason in ``skipped``.
            return_outputs: Keep the predictions for each query in ``result.outputs``.
            **run: Options of the run: store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.context.RunSettings`.

        Returns:
            The result, with the method in its signature. ``timing`` contains, summed over the data sets,
            ``loading_seconds`` (identity of the kernel, data, prompts), ``training_prompts`` and ``training_seconds``,
            ``test_prompts`` and ``seconds`` (of the evaluation alone), and ``reused_prompts``: how many of the prompts
            were computed before, by another method or run, and so took no time. Prompts are the distinct ones that were
            requested of the kernel. Where methods run together, ``tokens_alone`` are those that the method alone reads,
            and generates at most. For kernels that count tokens, such as a server, also ``training_tokens_read``,
            ``training_tokens_generated`` and the same for ``test``.

        Raises:
            ArgumentError: The method cannot be applied to a data set; nothing was computed.
            OutputError: A prediction is invalid.
        """
        return self.run_on(FeatureCache(self.kernel), benchmark, return_outputs=return_outputs, **run)

    __call__ = run

    def run_on(self, cache: FeatureCache, benchmark: Any, **run: Any) -> Result | ResultGroup:
        """As :meth:`run`, with a cache that may contain features."""
        check_benchmark(benchmark)
        single = members(benchmark)
        refusals = {name: error for name, member in single.items() if (error := self.refusal(member)) is not None}
        for name, error in refusals.items():
            if len(refusals) == len(single) or not isinstance(error, ArgumentError):
                raise error
            _log.warning("left out: %s: %s", name, error)
        if isinstance(benchmark, BaseBenchmark):
            return self._run(cache, benchmark, **run)
        parts = {}
        with drawn_progress(run.get("progress")) as shown:
            for place, (name, member) in enumerate(single.items()):
                if name not in refusals:
                    run["progress"] = within(shown, place, len(single))
                    parts[name] = self._run(cache, member, **run)
        reasons = {name: str(error) for name, error in refusals.items()}
        titles = dict.fromkeys(parts, self.spec.title)
        return MethodTable(benchmark.name, parts, titles, reasons) if reasons else ResultGroup(benchmark.name, parts)

    def _run(
        self, cache: FeatureCache, benchmark: BaseBenchmark[Any], return_outputs: bool = False, **run: Any
    ) -> Result:
        runs: dict[str, DatasetRun] = {}
        predictors: dict[str, Inference] = {}
        views, cost, trained = [], Cost(cache), False
        with RunContext(False, **run) as running:
            running.logged = cache.logged
            running.warn(*benchmark.data_warnings())  # the method may change k
            for number, experimentor in enumerate(benchmark):
                part = Part(
                    f"{self.spec.title}: {benchmark.benchmark_name}, {experimentor.name}", number, len(benchmark)
                )
                running.start([cache.kernel])
                queries = experimentor.all_queries()  # reads the data
                log_prompt_warnings(experimentor.name, cache.kernel, queries, running.log)
                cost.charge("loading")
                cache.start(running, run.get("recheck"), experimentor.unparsed)
                if isinstance(cache, SharedFeatures):
                    cache.compute(experimentor, part)
                cache.computed = cache.reused = 0
                cost.start()
                before = retried(cache.kernel)
                try:
                    with self._named(experimentor):
                        data, predictions, requests, answers = self.predict(experimentor, cache, part, cost)
                    if isinstance(cache, SharedFeatures):
                        cost.add(tokens_alone=_tokens_of(requests, cache.kernel))
                except OutputError as error:
                    if run.get("on_error") != "collect":
                        raise
                    _log.warning("%s", error)  # no query of this data set has a prediction
                    cost.add(tokens_alone=math.nan)
                    data = MethodData(
                        experimentor.without_labels(), self.variant, self.calibration_number, self.options
                    )
                    predictions = [failure_of_error(error, str(error))] * len(queries)
                    answers = {OF_KERNEL: answers_by_key(queries, predictions)}
                predictor = cache.predictor
                if data.facts:
                    predictor = features.KernelCall(self.spec.name, "", (), Identity({}, data.facts), cache.kernel)
                    counter = running.options_for(predictor).counter
                    again = retried(cache.kernel) - before
                    counter.counts.update(computed=cache.computed, reused=cache.reused, retried=again)
                predictors[experimentor.name] = predictor
                cost.add(reused_prompts=cache.reused, **data.notes)
                trained = trained or self._trained(data)
                view = data.experimentor
                if isinstance(predictions, Predictions):
                    view, predictions = predictions.data.experimentor, predictions.rows
                views.append(view.with_labels_of(cast("Experimentor", experimentor)))
                scored = self._scored(views[-1], predictions, running.options_for(predictor), part)
                scored = replace(scored, model_warnings=method_warnings(data, cache, answers))
                runs[experimentor.name] = scored
                running.log(*dataset_warnings(experimentor.name, scored))
                running.checkpoint()
                cost.start()
        changed = benchmark.copy_with(experimentor=views)
        result = changed.collect(runs, running.predictions(predictors), return_outputs)
        result.timing.update({name: value for name, value in cost.timing.items() if not math.isnan(value)})
        result.signature = self._signed(result.signature, trained, _ks_of(benchmark))
        result.provenance = replace(result.provenance, method=result.signature.fields.get("method"))
        return running.deliver(result)

    def predict(
        self,
        experimentor: BaseExperimentor,
        cache: FeatureCache,
        part: Part,
        cost: Cost | None = None,
        stop: bool = False,
    ) -> tuple[MethodData, Any, list[Request], ModelAnswers]:
        """Return the predictions, what was requested, and its answers; charge what they cost to training and test.

        With ``stop``, end when the method has its prompts, before the test queries.
        """
        cost = cost or Cost(cache)
        prompts: dict[str, set[Any]] = {"training": set(), "test": set()}
        requested: list[Request] = []
        model_answers: ModelAnswers = {}
        data, steps, requests, predictions = self.begin(experimentor)
        phase = "test"
        while requests is not None:
            phase = "training" if any(request.role == "train" for request in requests) else "test"
            if stop and phase == "test":
                break
            answers: dict[int, list[Any]] = {}
            for name, keys in prompts.items():
                role = "train" if name == "training" else "test"
                chosen = [request for request in requests if request.role == role and not request.ahead]
                if chosen:
                    computed = cache.rows(chosen, replace(part, phase="training" if role == "train" else ""))
                    for request, rows in zip(chosen, computed, strict=True):
                        answers[id(request)] = self._read(request, rows, experimentor.outputs)
                        _keep_answers(model_answers, request, rows)
                        lost = sum(isinstance(row, Failure) for row in rows)
                        if name == "training" and 0 < lost < len(rows):
                            data.warnings.append(
                                f"{lost} of {len(rows)} training prompts have no prediction and are left out"
                            )
                    requested += chosen
                    # Features of one prompt come from one run of the model.
                    kinds = [(r, "" if isinstance(r.feature, str) else r.feature) for r in chosen]
                    keys.update((kind, key) for request, kind in kinds for key in request.keys)
                    cost.charge(name)
            requests, predictions = self._next(steps, [answers.get(id(request), []) for request in requests])
            cost.charge(phase)
        cost.add(**{f"{name}_prompts": len(keys) for name, keys in prompts.items()})
        if not self._passes_predictions_on:
            if isinstance(predictions, Predictions):
                predictions = replace(predictions, rows=as_stated(predictions.rows, experimentor.outputs))
            elif hasattr(predictions, "__len__"):
                predictions = as_stated(predictions, experimentor.outputs)
        return data, predictions, requested, model_answers

    @property
    def _passes_predictions_on(self) -> bool:
        """Whether the method is the model itself, so that the benchmark reads its outputs as they are."""
        return METHODS.get(self.spec.name) == self.spec and self.spec.name == "vanilla"

    def _read(self, request: Request, rows: list[Any], outputs: Kind) -> list[Any]:
        """Return rows as the method reads them."""
        if request.feature != "probabilities" or self._passes_predictions_on:
            return rows
        return as_probabilities(rows, outputs)

    def _scored(self, view: BaseExperimentor, answers: Sequence[Any], options: RunOptions, part: Part) -> DatasetRun:
        """Return scores and details of the predictions for the queries of a view."""
        queries = view.all_queries()
        if not hasattr(answers, "__len__") or len(answers) != len(queries):
            given = len(answers) if hasattr(answers, "__len__") else type(answers).__name__
            raise ArgumentError(f"{part.name}: got {given} predictions, expected {len(queries)}, one for each query")
        known, rows = (Failure, ReplyLabel), zip(queries, answers, strict=True)
        read = [row if isinstance(row, known) else checked(row, query.label_space) for query, row in rows]
        taken: dict[Any, Any] = {(str(n), query.label_space): read[n] for n, query in enumerate(queries)}
        options = replace(options, store=None, progress=None, unparsed=view.unparsed)
        prompt_of = dict(zip(taken, (query.prompt for query in queries), strict=True))
        collector = AnswerCollector(options, part, len(queries), taken, prompts=prompt_of)
        collector.refuse_failures({key: number for number, key in enumerate(taken)})
        return view.assemble(view.conditions(), [*collector.answers.values()], part.name)

    def _trained(self, data: MethodData) -> bool:
        """Return whether the number of calibration samples affects the results."""
        trains = self.spec.trains
        if trains is None:
            return data.record.calibration_number_read
        return trains if isinstance(trains, bool) else trains(self.options, self.variant)

    def _signed(
        self, signature: Signature, trained: bool, benchmark_ks: Set[str | None] = frozenset({None})
    ) -> Signature:
        """Return the signature with the method and its settings; vanilla inference adds nothing.

        It has ``calibration_number`` if the method read it (``trained``).

        The ``k`` of the benchmark is named where test prompts have another one.
        """
        if self._passes_predictions_on:
            return signature
        builtin = METHODS.get(self.spec.name) == self.spec
        plugin = origin_of(self.spec.steps)
        own = not builtin and not plugin
        name = labelled(self.spec.name, code_mark(self.spec.steps) if own else plugin)
        parts = [name, self.variant, *([f"n={self.calibration_number}"] if trained else [])]
        signed = getattr(self.options, "signed", {})
        for fact in options_of(self.spec.options):
            value = getattr(self.options, fact.name)
            if own or value != fact.default:
                parts.append(f"{fact.name}={signed.get(fact.name) or _signed_value(value)}")
        if signature.fields.get("k") not in benchmark_ks:
            parts.append(f"k={','.join(sorted(map(str, benchmark_ks)))}")
        return Signature({**signature.fields, "method": " ".join(parts)})


def _ks_of(benchmark: BaseBenchmark[Any]) -> set[str | None]:
    """Return the number of demonstrations per prompt of each data set; ``None`` if a data set has no single one."""
    ks: set[str | None] = set()
    for experimentor in benchmark:
        k = experimentor.get_k()
        ks.add(None if k is None else str(k))
    return ks


OF_KERNEL = "kernel"
"""Stands for all features that the kernel itself computes."""

ModelAnswers = dict[Any, dict[PromptKey, Any]]
"""For each feature that is an inference function of its own, and for the kernel (:data:`OF_KERNEL`): the prompts that a
method requested, with their predictions."""


def _keep_answers(answers: ModelAnswers, request: Request, rows: Sequence[Any]) -> None:
    """Keep the prompts of a request, and its rows where they are predictions: other features are large.

    Args:
        answers: Where they are kept.
        request: The request.
        rows: Its rows.
    """
    if not features.of_kernel(request.feature):
        return
    by_kernel = isinstance(request.feature, str)
    known = answers.setdefault(OF_KERNEL if by_kernel else request.feature, {})
    for key, row in zip(request.keys, rows, strict=True):
        if by_kernel and request.feature != "probabilities":
            known.setdefault(key, None)
        else:
            known[key] = row


def method_warnings(data: MethodData, cache: FeatureCache, answers: ModelAnswers) -> tuple[str, ...]:
    """Return what a method warns of on a data set, and what the model warns of for the prompts that it requested.

    Args:
        data: The method's data set.
        cache: Knows the inference function of each feature.
        answers: The prompts with their predictions.
    """
    warnings = list(data.warnings)
    duplicates = data.notes.get("duplicates")
    if duplicates:
        warnings.append(
            f"{duplicates:.0f} test examples are shown a demonstration of exactly their text; the option "
            "exclude_duplicates leaves these out"
        )
    for feature, predicted in answers.items():
        function = cache.kernel if feature == OF_KERNEL else cache.function(feature)
        warnings += model_warnings(function, predicted)
    return tuple(dict.fromkeys(warnings))


class Cost:
    """What a method costs: prompts, and by phase the seconds and the tokens that the kernel counted.

    Args:
        cache: Computes the features.

    Attributes:
        timing: The costs by name.
    """

    def __init__(self, cache: FeatureCache) -> None:
        names = ["loading_seconds", "training_prompts", "training_seconds", "test_prompts", "seconds", "reused_prompts"]
        if cache.tokens is not None:
            names += [f"{phase}_tokens_{kind}" for phase in ("training", "test") for kind in ("read", "generated")]
        self.timing = dict.fromkeys(names, 0.0)
        self._cache = cache
        self.start()

    def start(self) -> None:
        """Measure from now on."""
        self._marked, self._tokens = time.monotonic(), self._cache.tokens

    def add(self, **values: float) -> None:
        """Add to costs."""
        for name, value in values.items():
            self.timing[name] = self.timing.get(name, 0.0) + value

    def charge(self, phase: str) -> None:
        """Charge what was spent since the last call to ``"loading"``, ``"training"`` or ``"test"``."""
        marked, tokens = self._marked, self._tokens
        self.start()
        self.add(**{"seconds" if phase == "test" else f"{phase}_seconds": self._marked - marked})
        if tokens is not None and self._tokens is not None and phase != "loading":
            used = zip(("read", "generated"), tokens, self._tokens, strict=True)
            self.add(**{f"{phase}_tokens_{kind}": after - before for kind, before, after in used})


def _tokens_of(requests: Sequence[Request], kernel: Inference) -> float:
    """Return the tokens that all requests read, and generate at most, if nothing is cached; NaN if that is unknown."""
    tasks = Tasks(kernel)

    def count(function: Inference, queries: Sequence[Query], part: Part, options: RunOptions) -> list[Failure]:
        tasks.add(function, queries, options)
        return [Failure("it is only counted")] * len(queries)

    FeatureCache(kernel, count).rows([request for request in requests if features.of_kernel(request.feature)])
    try:
        forecast = tasks.forecast(ForecastOptions(probe_seconds=0))
    except StaICCError:  # a prompt that the model cannot read; it fails when it is computed
        return math.nan
    if (
        forecast.tokenizer is not None
    ):  # an estimate of a served model's tokens, which would not compare with its counts
        return math.nan
    tokens = forecast.tokens, forecast.output_tokens
    return math.nan if None in tokens else sum(filter(None, tokens))


def check_benchmark(benchmark: object) -> None:
    """Refuse what methods cannot run on."""
    if not isinstance(benchmark, (BaseBenchmark, BenchmarkGroup)):
        raise ArgumentError(f"benchmark: got {type(benchmark).__name__}, expected a Benchmark or BenchmarkGroup")


class SharedFeatures(FeatureCache):
    """A cache that computes together, for each data set, what several methods request before any of them has run.

    Args:
        kernel: The kernel of all methods.
        runs: The methods with their benchmarks.
        same_data: Whether all have one benchmark; else prompts that fail do not stop the others.
        **more: As for any cache.

    Attributes:
        cost: What computing took, without the methods' own costs.
    """

    def __init__(self, kernel: Inference, runs: Sequence[tuple[Method, Any]], same_data: bool, **more: Any) -> None:
        super().__init__(kernel, **more)
        self.cost: dict[str, float] = defaultdict(float, prompts=0)
        self._runs, self._same_data = runs, same_data
        self._done: list[BaseExperimentor] = []

    def compute(self, experimentor: BaseExperimentor, part: Part) -> None:
        """Compute the features of one data set, unless that was done; failures are left to the methods."""
        if experimentor in self._done or len(self._runs) < 2:
            return
        name, same = experimentor.name, self._same_data
        runs = [(method, experimentor if same else benchmark[name]) for method, benchmark in self._runs]
        self._done += [own for _, own in runs]
        cost, computed = Cost(self), self.computed
        requests: list[Request] = []
        for method, own in runs:
            with contextlib.suppress(Exception):  # the run of the method reports it
                requests += method.begin(own)[2] or ()
        requests = [request for request in requests if isinstance(request.feature, str)]
        try:
            self.rows(
                requests, replace(part, name=f"features of {len(runs)} runs: {name}"), None if same else "collect"
            )
        except Exception as error:
            _log.warning("%s: features could not be computed for all runs together: %s", name, error)
        cost.charge("test")
        self.cost["prompts"] += self.computed - computed
        for kind in {"seconds", "test_tokens_read", "test_tokens_generated"} & cost.timing.keys():
            self.cost[kind.removeprefix("test_")] += cost.timing[kind]


def _signed_value(value: Any) -> str:
    """Return an option's value without blanks: numbers and words verbatim, all else as a digest."""
    if callable(value):
        return code_mark(value)
    plain = isinstance(value, (int, float)) or (isinstance(value, str) and value.replace("-", "").isalnum())
    return str(value) if plain else short_digest(value)


def chosen_methods(
    kernel: Inference, names: Sequence[str | MethodSpec] | None, options: Mapping[str, Any], variant: str, number: int
) -> tuple[list[Method], dict[str, str]]:
    """Return the methods that the kernel supports, and why others are left out; see :func:`run_all`.

    Raises:
        ArgumentError: No method could be run, two methods have one name, or no method has an option.
    """
    if names is None:
        k_nn = "knn_prompt" if specification.check_variant(variant) == "paper" else "knn_prompt_centroid"
        names = [k_nn if name == "knn_prompt" else name for name in TABLE_2]
    specs = [_find(name) for name in names]
    declared = {spec.name: {fact.name for fact in options_of(spec.options)} for spec in specs}
    listed = ", ".join(spec.name for spec in specs)
    if len(declared) < len(specs):
        raise ArgumentError(f"got two methods of one name: {listed}; expected different names")
    known = set().union(*declared.values())
    if unknown := [name for name in options if name not in known]:
        raise unknown_name("option of these methods", unknown[0], sorted(known))
    made: list[Method] = []
    skipped: dict[str, str] = {}
    for spec in specs:
        settings = {name: value for name, value in options.items() if name in declared[spec.name]}
        try:
            made.append(Method(spec, kernel, variant, number, **settings))
        except CapabilityError as error:
            skipped[spec.name] = str(error)
            _log.warning("left out: %s", error)
    if not made:
        raise ArgumentError(f"none of the methods {listed} could be run: {'; '.join(skipped.values())}")
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
    check_benchmark(benchmark)
    methods = [methods] if isinstance(methods, str) else methods
    made, skipped = chosen_methods(kernel, methods, options or {}, variant, calibration_number)
    table = MethodTable(OF_METHODS.name, {}, {method.spec.name: method.spec.title for method in made}, skipped)
    runs = {method.spec.name: (method.spec.title, method, benchmark) for method in made}
    return _run_each(table, runs, finished, **run)


def _run_each(
    table: MethodTable,
    runs: Mapping[str, tuple[str, Method, Any]],
    finished: Callable[[MethodTable], None] | None,
    same_data: bool = True,
    **run: Any,
) -> MethodTable:
    """Add the results of several runs to a table; what fails is left out with its title and reason.

    Args:
        table: The table.
        runs: The title, the method and the benchmark of each run.
        finished: Called with the table after each run.
        same_data: Whether all have one benchmark; else prompts that fail do not stop the others.
        **run: Options of the run.

    Raises:
        ArgumentError: None could be run.
    """
    pairs = [(method, benchmark) for _, method, benchmark in runs.values()]
    fitting = [pair for pair in pairs if isinstance(pair[1], BenchmarkGroup) or pair[0].refusal(pair[1]) is None]
    cache = SharedFeatures(pairs[0][0].kernel, fitting, same_data)
    errors: list[Exception] = []
    with drawn_progress(run.get("progress")) as shown:
        for place, (name, (title, method, benchmark)) in enumerate(runs.items()):
            run["progress"] = within(shown, place, len(runs))
            try:
                table[name] = method.run_on(cache, benchmark, **run)
            except Exception as error:  # CUDA out of memory, a bug of a plug-in: the other results are not lost
                expected = isinstance(error, StaICCError)
                reason = str(error) if expected else f"{type(error).__name__}: {error}"
                table.skipped[name] = reason if reason.startswith(title) else f"{title}: {reason}"
                errors.append(error)
                _log.warning("left out: %s", table.skipped[name], exc_info=None if expected else error)
                continue
            table.shared = dict(cache.cost)
            if finished is not None:
                finished(table)
    if not table:
        reasons = [str(errors[0])] if len({str(error) for error in errors}) == 1 else table.skipped.values()
        raise ArgumentError(f"none of {', '.join(runs)} could be run: {'; '.join(reasons)}") from errors[0]
    return table


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
    value, digits = result.timing.get(key), 0 if key.endswith("prompts") else 1
    return "-" if value is None else f"{value:.{digits}f}"


def _figures(result: Result) -> dict[str, str]:
    """Return the last row of a result's own table (the mean, or the only data set) by column."""
    head, rows = result_rows(result)
    figures = zip(head[1:], rows[-1][1:], strict=True)
    return {column: cell for column, cell in figures if cell and column not in _SAME_FOR_ALL}


def display_methods(results: Result | ResultGroup) -> list[Block]:
    """Return what a run with a method prints: its tables and its cost.

    Args:
        results: The results of several methods, or of one, on one benchmark or on a group.
    """
    if isinstance(results, MethodTable):
        return results.display_blocks()
    blocks = results.display_blocks()
    for result in results.results():
        costs = ", ".join(f"{head} {_cost(result, key)}" for key, head in _COSTS.items())
        blocks.append(Line(costs if isinstance(results, Result) else f"{result.benchmark}: {costs}"))
    return blocks


def _tables(results: Mapping[str, Result], titles: Mapping[str, str]) -> list[TextTable]:
    """Return the methods with their figures and costs, and their accuracies by data set."""
    figures = {name: _figures(result) for name, result in results.items()}
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    rows = []
    for name, result in results.items():
        cells = [figures[name].get(column, "-") for column in columns]
        rows.append([titles.get(name, name), *cells, *(_cost(result, key) for key in _COSTS)])
    tables = [TextTable(["method", *columns, *_COSTS.values()], rows)]
    scores = [scores for result in results.values() for scores in result.divided.values()]
    datasets = list(dict.fromkeys(dataset for result in results.values() for dataset in result.divided))
    if len(datasets) > 1 and all("accuracy" in own for own in scores):
        rows = []
        for name, result in results.items():
            values = [result.divided.get(dataset, {}).get("accuracy") for dataset in datasets]
            rows.append([titles.get(name, name), *("-" if value is None else f"{value:.4f}" for value in values)])
        tables.append(TextTable(["accuracy", *datasets], rows))
    return tables


class MethodTable(ResultGroup):
    """Results of several methods on the same prompts, by method.

    Args:
        name: Name of the group.
        parts: The results by method.
        titles: Display names of the methods.
        skipped: The reasons of the methods that could not be run.
    """

    def __init__(self, name: str, parts: Mapping[str, Any], titles: dict[str, str], skipped: dict[str, str]) -> None:
        super().__init__(name, parts)
        self.titles, self.skipped = titles, skipped
        self.shared: dict[str, float] = {}
        """Prompts that were computed for several methods together, and the seconds that this took."""

    def curve(self, score: str = "accuracy") -> list[dict[str, Any]]:
        """Return a score against the tokens that it costs.

        Args:
            score: Name of the score; its mean over the data sets counts.

        Returns:
            A row for each result: ``method``, ``benchmark``, ``prompts`` (distinct ones, training and test), ``tokens``
            (those that a run of the method alone reads, and generates at most; ``None`` where the kernel cannot count
            them), the score by its name, and the ends of its interval, ``low`` and ``high`` (``None`` without one).
        """
        rows = []
        for name, part in self.items():
            for result in part.results():
                interval = result.means.intervals.get(score)
                rows.append(
                    {
                        "method": self.titles.get(name, name),
                        "benchmark": result.benchmark,
                        "prompts": result.timing.get("training_prompts", 0) + result.timing.get("test_prompts", 0),
                        "tokens": result.timing.get("tokens_alone"),
                        score: result.averaged[score],
                        "low": None if interval is None else interval.low,
                        "high": None if interval is None else interval.high,
                    }
                )
        return rows

    def display_blocks(self) -> list[Block]:
        """Return the tables, what was left out, the models and the signatures."""
        tables = [self, *(part for part in self.values() if isinstance(part, MethodTable))]
        skipped = [f"left out: {reason}" for table in tables for reason in table.skipped.values()]
        notes = [*bracket_note(self.results()), *skipped]
        if self.shared.get("prompts"):
            shared = "computed for several runs together: {prompts:.0f} prompts in {seconds:.1f} s"
            notes.insert(0, shared.format(**self.shared))
        notes += dict.fromkeys(f"model: {result.model}" for result in self.results())
        warnings = shared_warning_lines(
            {self.titles.get(name, name): tuple(part.warnings) for name, part in self.items()}
        )
        signatures = dict.fromkeys(str(result.signature) for result in self.results())
        parts: dict[str, dict[str, Result]] = {}  # by benchmark
        for name, part in self.items():
            for member, result in part.items() if isinstance(part, ResultGroup) else [(part.benchmark, part)]:
                parts.setdefault(member, {})[name] = result
        blocks: list[Block] = []
        for member, results in parts.items():
            blocks += [Line(member, "title")] * (len(parts) > 1)
            blocks += [block for table in _tables(results, self.titles) for block in (table, Line(""))]
        signed = [Line(signature, "code") for signature in signatures]
        return [*blocks[:-1], *map(Line, notes), *signed, *warnings]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a saved table is read back as a group of results."""
        return super().to_dict() | {"skipped": self.skipped, "shared": self.shared}


def refuse_groups(benchmarks: Sequence[Any]) -> None:
    """Refuse groups where several ``k`` are compared."""
    if not all(isinstance(benchmark, Benchmark) for benchmark in benchmarks):
        raise ArgumentError("several k need one benchmark: got a group. Run its members one by one")


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
    runs = {f"k={k}": (f"k = {k}", method, make_benchmark(k)) for k in numbers}
    refuse_groups([benchmark for _, _, benchmark in runs.values()])
    texts: set[str] = set()

    def measured(table: MethodTable) -> None:
        name = [*table][-1]
        prompts = [query.prompt for experimentor in runs[name][2] for query in experimentor.all_queries()]
        own = {prompt if isinstance(prompt, str) else "\0".join(prompt) for prompt in prompts}
        before = distinct_positions([*texts])
        texts.update(own)
        table[name].timing["prompt_characters"] = float(sum(map(len, own)))
        table[name].timing["new_characters"] = float(distinct_positions([*texts]) - before)
        if finished is not None:
            finished(table)

    table = MethodTable(OF_SHOTS.name, {}, {f"k={k}": f"{method.spec.title}, k = {k}" for k in numbers}, {})
    return _run_each(table, runs, measured, same_data=False, **run)


_WIDTH = 8
"""Of made-up hidden states and logits of the full vocabulary."""


def forecast_method(
    name: str,
    kernel: Inference,
    benchmarks: Sequence[Benchmark | BenchmarkGroup],
    variant: str = "paper",
    calibration_number: int = 128,
    options: Sequence[str] = (),
    **how: Any,
) -> Forecast:
    """Forecast the run of a method; the model computes the probe, and for task vectors the states of one prompt.

    Args:
        name: A method, or ``"all"`` for the ten of Table 2.
        kernel: Any inference function.
        benchmarks: One benchmark, or one for each ``k``, smallest first.
        variant: As for a run.
        calibration_number: As for a run.
        options: Options of the method as ``NAME=VALUE``.
        **how: Those of :class:`~StaICC.benchmarks.forecast.ForecastOptions`.

    Returns:
        The forecast. ``exact`` is false where the prompts depend on what the model computes.

    Raises:
        ArgumentError: An argument is invalid, or the kernel lacks a required capability.
        OutputError: A prediction of the probe failed.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.kernels.ppm import PPMKernel
        >>> mini = Normal(datasets=["mini"], limit=4)
        >>> forecast_method("batch-calibration", PPMKernel(), [mini], probe_seconds=0).distinct
        8
    """
    chosen, given = ForecastOptions(**how), specification.read_options(options)
    methods, _ = chosen_methods(kernel, None if name == "all" else [name], given, variant, calibration_number)
    for benchmark in benchmarks:
        check_benchmark(benchmark)
    if len(methods) > 1 < len(benchmarks):
        raise ArgumentError(f"got {len(benchmarks)} benchmarks for all methods, expected one")
    if len(benchmarks) > 1:
        refuse_groups(benchmarks)
    runs = [(method, benchmark) for method in methods for benchmark in benchmarks]
    parts = [(method, member) for method, benchmark in runs for member in members(benchmark).values()]
    refusals = [method.refusal(member) for method, member in parts]
    if isinstance(refusals[0], Exception) and None not in refusals:
        raise refusals[0]
    fitting = [part for part, refusal in zip(parts, refusals, strict=True) if refusal is None]
    first, second = (_tasks_of(runs, fitting, seed, chosen) for seed in (0, 1))
    certain = [call.chunk for call in first.new_calls] == [call.chunk for call in second.new_calls]
    return first.forecast(chosen, certain)


def _tasks_of(runs: Sequence[Any], fitting: Sequence[Any], seed: int, options: ForecastOptions) -> Tasks:
    """Return what methods compute on benchmarks (the members of groups), with made-up features of one seed."""
    kernel = runs[0][0].kernel
    made_up = _MadeUp(kernel, seed)
    cache = SharedFeatures(kernel, runs, runs[0][1] is runs[-1][1], compute=made_up)
    with options.context() as context:
        context.start([kernel])
        for method, benchmark in fitting:
            for number, experimentor in enumerate(benchmark):
                part = Part(f"{method.spec.title}, {experimentor.name}", number, len(benchmark))
                made_up.tasks.query_count += len(experimentor)
                cache.start(context, options.recheck)
                cache.compute(experimentor, part)
                method.predict(experimentor, cache, part)
    return made_up.tasks


class _MadeUp:
    """Predictions in the place of those of a model: what the store has, and random features for all else."""

    def __init__(self, kernel: Inference, seed: int) -> None:
        self.kernel, self.tasks = kernel, Tasks(kernel)
        self._random = random.Random(seed)
        self._losses, self._sign = 0, 1 - 2 * seed  # in the second forecast, another text has the lowest loss
        self._layers: Any = None

    def __call__(
        self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
    ) -> list[Answer | Failure]:
        """Count the queries, and make up predictions of them."""
        stored = self.tasks.add(function, queries, options, part.parts - part.number)
        keys = [(query.prompt, query.label_space) for query in queries]
        return [stored[key] if key in stored else self._prediction(function, key) for key in keys]

    def _prediction(self, function: Inference, key: PromptKey) -> Answer:
        if isinstance(function, features.FeatureFunction):
            rows = {name: self._row(name, key) for name in function.features(*key)}
            return Features({name: features.packed_row(name, row, key[1]) for name, row in rows.items()})
        if isinstance(function, TextInference):
            return Text(" ".join(str(self._random.randrange(10)) for _ in range(function.max_new_tokens)))
        row: list[float] = self._row("probabilities", key)
        return row

    def _row(self, feature: features.Feature, key: PromptKey) -> Any:
        if feature == "losses":
            self._losses += 1
            return 1.0 + self._sign * self._losses * 1e-6
        if feature == "layers":  # whose number decides how many prompts follow
            kernel: Any = self.kernel
            self._layers = kernel.layer_states([key[0]])[0] if self._layers is None else self._layers
            return self._layers
        size = _WIDTH if feature in ("hidden", "vocabulary") else len(key[1])
        row = [self._random.uniform(-1.0, -0.01) for _ in range(size)]
        return [value / sum(row) for value in row] if feature == "probabilities" else row
