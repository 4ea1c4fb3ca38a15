"""Methods run on a benchmark.

``Method("hidden_calibration", kernel).run(benchmark)`` trains on each data set's calibration set and evaluates;
:func:`run_all` runs all ten: one model's row of the table. ``result.timing`` and the table contain the costs
(:mod:`StaICC.methods.costs`). docs/adding_a_method.md shows how to add a method; docs/methods.md compares them.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from StaICC.arguments import validate_integer
from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.context import RunContext
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.benchmarks.result_warnings import answers_by_key, dataset_warnings, log_prompt_warnings
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.errors import ArgumentError, OutputError, PromptError, StaICCError, unknown_name
from StaICC.inference.contract import Inference, ReplyLabel, own_attribute, retried
from StaICC.inference.replies import Failure, checked, failure_of_error
from StaICC.inference.runner import AnswerCollector, Part, RunOptions
from StaICC.kernels.protocol import CapabilityError
from StaICC.kernels.registry import options_of
from StaICC.methods.asked_prompts import AskedFunction, AskedPrompts
from StaICC.methods.capabilities import check_capabilities, extra_features
from StaICC.methods.catalogue import METHODS as METHODS
from StaICC.methods.catalogue import TABLE_2 as TABLE_2
from StaICC.methods.contract import MethodData, Predictions, Variant, check_variant, experimentor_of
from StaICC.methods.contract import MethodSpec as MethodSpec
from StaICC.methods.costs import Costs
from StaICC.methods.harness import Reading, RunningSteps, prompts_of_method, serve
from StaICC.methods.kernel_functions import StatedFacts
from StaICC.methods.method_signature import method_field, method_settings, with_method
from StaICC.methods.model_caches import ModelCaches
from StaICC.methods.options import make_options
from StaICC.methods.released.methods import steps_of
from StaICC.methods.requests import Request
from StaICC.methods.shared_features import SharedFeatures
from StaICC.methods.table import OF_METHODS, MethodTable
from StaICC.progress import drawn_progress, within
from StaICC.results.predictor import Predictor, predictors_of
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import digest
from StaICC.safe_text import logger, one_line

_log = logger(__name__)


def _find(name: str | MethodSpec) -> MethodSpec:
    """Return a method by its name, or the method itself."""
    if isinstance(name, MethodSpec):
        return name
    if not isinstance(name, str):
        raise ArgumentError(
            f"method: got {name!r:.80}, expected a name or a MethodSpec, such as "
            "MethodSpec('my_method', 'My method', my_function)"
        )
    return METHODS.find(name).value


_PARTIAL_KEYWORDS = {"model", "tokenizer", "cache_empty", "return_hidden_state", "return_full_vocab_prob"}


def _as_kernel(kernel: Inference) -> Inference:
    """Return a kernel with all capabilities for the ``functools.partial`` that 0.1.1 documents."""
    if not isinstance(kernel, functools.partial):
        return kernel
    keywords = set(kernel.keywords)
    if not {"model", "tokenizer"} <= keywords <= _PARTIAL_KEYWORDS:
        return kernel
    kernel_for = own_attribute(kernel.func, "kernel_for")
    if kernel_for is None:
        return kernel
    with_all_capabilities: Inference = kernel_for(**kernel.keywords)
    return with_all_capabilities


@dataclass(frozen=True)
class StartedMethod:
    """A method that has begun on a data set."""

    data: MethodData
    """What it knows."""
    steps: RunningSteps
    """What it asks."""
    asked: AskedPrompts = field(default_factory=AskedPrompts)
    """What it has asked so far."""


@dataclass(frozen=True)
class MethodOutcome:
    """What a method returned on a data set."""

    data: MethodData
    """What it knew, with the record of what it read and said."""
    predictions: Predictions
    """Its predictions, with the data whose queries they answer."""
    asked: AskedPrompts
    """What it asked."""
    finished: bool = True
    """Whether it could finish; else all predictions are failures."""


@dataclass
class _BenchmarkRun:
    """A run of a method on a benchmark: what it uses, and what is collected over the data sets."""

    caches: ModelCaches
    """Compute the features."""
    context: RunContext
    """The context of the run."""
    costs: Costs
    """What the method costs."""
    shared: SharedFeatures | None
    """Computes what other methods ask, too; ``None`` if the method is run alone."""
    scored: dict[str, DatasetRun] = field(default_factory=dict)
    """The scores by data set."""
    predictors: dict[str, Inference] = field(default_factory=dict)
    """By data set, whose predictions they are."""
    views: list[BaseExperimentor] = field(default_factory=list)
    """The data sets with the prompts of the method and the true labels."""
    asked: dict[str, AskedPrompts] = field(default_factory=dict)
    """By data set, what the method asked."""
    calibration_number_read: bool = False
    """Whether the method read the number of calibration samples on any data set."""

    def load(self, experimentor: BaseExperimentor, part: Part) -> None:
        """Prepare all that a method needs to begin on a data set, with the features that it shares with other methods.

        Args:
            experimentor: The data set.
            part: For messages and progress.
        """
        self.context.start([self.caches.kernel])
        queries = experimentor.all_queries()
        log_prompt_warnings(experimentor.name, self.caches.kernel, queries, self.context.log)
        self.costs.charge("loading")
        self.caches.start(self.context, self.context.recheck, experimentor.unparsed)
        if self.shared is not None:
            self.shared.compute(experimentor, part)
        self.costs.start()  # shared features are no cost of this method

    def add_costs(self, outcome: MethodOutcome, reused_prompts: int) -> None:
        """Add the costs of a data set that are no seconds or tokens.

        Args:
            outcome: What the method returned on it.
            reused_prompts: How many of its prompts were computed before.
        """
        predicted = experimentor_of(outcome.predictions.data)
        self.costs.add_data_set(outcome.asked, outcome.data.record, predicted, reused_prompts)
        if self.shared is not None:
            self.costs.add_tokens_alone(outcome.asked, outcome.finished)

    def predictor_of(self, outcome: MethodOutcome, method: str, prompt_counts: Counter[str]) -> Inference:
        """Return the inference function whose predictions those of the method are, for the provenance.

        That is the kernel, or the function that the method asked last, such as the noisy channel. A method that states
        facts of its own has a function of its own, which counts the prompts of the method.

        Args:
            outcome: What the method returned on a data set.
            method: The name of the method.
            prompt_counts: What became of its prompts on this data set (:func:`_prompt_counts`).
        """
        facts = outcome.data.record.facts
        if not facts:
            return self.caches.main.predictor  # it has counted its prompts
        predictor = StatedFacts(method, facts, self.caches.kernel)
        self.context.options_for(predictor).counter.counts.update(prompt_counts)
        return predictor


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
        if isinstance(kernel, str):
            raise ArgumentError(
                f"kernel: got the text {kernel!r}, expected an inference function: load_kernel({kernel!r})"
            )
        if not callable(kernel):
            raise ArgumentError(f"kernel: got {type(kernel).__name__}, expected an inference function")
        self.kernel = _as_kernel(kernel)
        self.variant = check_variant(variant)
        self.calibration_number = validate_integer("calibration_number", calibration_number, 1)
        self.options = make_options(self.spec.name, self.spec.options, options)
        if self.options == self.spec.options():  # what other options need is found at the first step
            check_capabilities(self.spec.title, self.kernel, self.spec.requires)

    def __repr__(self) -> str:
        return one_line(f"<{self.spec.title} ({self.variant}) on {self.kernel!r}>")

    # -- on a data set

    def started(self, experimentor: BaseExperimentor) -> StartedMethod:
        """Begin the method on a data set, without labels of test rows; nothing is computed.

        Raises:
            ArgumentError: The method cannot be applied to the data set, or the kernel lacks what it asks first.
        """
        experimentor.refuse_function(self.kernel)
        data = self._data_of(experimentor)
        return StartedMethod(data, RunningSteps(self.spec.title, steps_of(self.spec, self.variant)(data), self.kernel))

    def first_requests(self, experimentor: BaseExperimentor) -> Sequence[Request]:
        """Return what the method asks first on a data set."""
        return self.started(experimentor).steps.requests or ()

    def _data_of(self, experimentor: BaseExperimentor) -> MethodData:
        """Return what the method gets to know about a data set."""
        # A data set that lacks something which a method uses, such as a calibration set, raises an ArgumentError.
        unlabelled = cast("Experimentor", experimentor.without_labels())
        provides = extra_features(self.kernel)
        return MethodData(unlabelled, self.variant, self.calibration_number, self.options, provides, steps_of=steps_of)

    def outcome(
        self, experimentor: BaseExperimentor, caches: ModelCaches, part: Part, costs: Costs | None = None
    ) -> MethodOutcome:
        """Return the predictions for a data set, with what the method asked; nothing is scored.

        Args:
            experimentor: The data set.
            caches: Compute the features.
            part: For messages and progress.
            costs: Get the seconds and tokens of each phase.
        """
        started = self.started(experimentor)
        return self._finished(started, experimentor, caches, part, costs or Costs(caches))

    def _finished(
        self, started: StartedMethod, experimentor: BaseExperimentor, caches: ModelCaches, part: Part, costs: Costs
    ) -> MethodOutcome:
        """Return the predictions of a method that has begun on a data set."""
        reading = self._reading_of(experimentor)
        serve(started.steps, started.data, caches, part, costs, reading, started.asked)
        predictions = reading.predictions(started.steps.returned, started.data)
        return MethodOutcome(started.data, predictions, started.asked)

    def predict(self, experimentor: BaseExperimentor) -> Predictions:
        """Return the predictions for a data set, with the data whose queries they answer.

        Args:
            experimentor: The data set; it is not changed.

        Raises:
            ArgumentError: The method cannot be applied to the data set.
            OutputError: The kernel has no features of a prompt.
        """
        with self._named(experimentor):
            return self.outcome(experimentor, ModelCaches(self.kernel), Part(self.spec.title)).predictions

    def prepare(self, experimentor: BaseExperimentor) -> BaseExperimentor:
        """Return a data set with the prompts of the method: its instruction, its demonstrations.

        Args:
            experimentor: The data set; it is not changed.

        Raises:
            ArgumentError: The method cannot be applied to the data set.
            OutputError: The kernel has no features of a training prompt.
        """
        with self._named(experimentor):
            started = self.started(experimentor)
            chosen = prompts_of_method(
                started.steps, ModelCaches(self.kernel), Part(self.spec.title), self._reading_of(experimentor)
            )
        prepared = cast("Experimentor", chosen or experimentor_of(started.data))
        return prepared.with_labels_of(cast("Experimentor", experimentor))

    def _reading_of(self, experimentor: BaseExperimentor) -> Reading:
        """Return how the method reads the predictions of the model on a data set."""
        return Reading(experimentor.outputs, self._is_model_itself)

    @property
    def _is_model_itself(self) -> bool:
        """Whether the method is vanilla inference, so that the benchmark reads the outputs of the model as they are."""
        return self.spec.name == "vanilla" and METHODS.get("vanilla") == self.spec

    def refusal(self, benchmark: BaseBenchmark[Any]) -> Exception | None:
        """Return why the method cannot run on a benchmark, before anything is computed; ``None`` if it can.

        To start the method on a data set computes nothing, and raises an error if it cannot be applied there.
        """
        try:
            for experimentor in benchmark:
                with self._named(experimentor):
                    self.started(experimentor)
        except Exception as error:
            return error
        return None

    @contextlib.contextmanager
    def _named(self, experimentor: BaseExperimentor) -> Iterator[None]:
        """Name the method and the data set in errors that do not say where they happened."""
        try:
            yield
        except (ArgumentError, OutputError) as error:
            if error.where is not None:
                raise
            where = f"{self.spec.title}, {experimentor.name}"
            message = f"{where}: {error}"
            if isinstance(error, PromptError):
                raise PromptError(message, error.index).at(where) from error
            raise type(error)(message).at(where) from error

    # -- on a benchmark

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
            were computed before, by another method or run, and so took no time. Prompts are the distinct texts that
            were requested of the kernel, one for each label in the noisy channel. ``labelled_per_query`` is the mean
            number of distinct demonstrations that the model was shown for a query, ``labelled_in_training`` the number
            of rows whose labels the method read. Where methods run together, ``tokens_alone`` are those that the method
            alone reads, and generates at most. For kernels that count tokens, such as a server, also
            ``training_tokens_read``, ``training_tokens_generated`` and the same for ``test``; those of further models
            that the method asks begin with ``further_``.

        Raises:
            ArgumentError: The method cannot be applied to a data set; nothing was computed.
            OutputError: A prediction is invalid.
        """
        return self.run_on(ModelCaches(self.kernel), benchmark, return_outputs=return_outputs, **run)

    __call__ = run

    def run_on(
        self, caches: ModelCaches, benchmark: Any, shared: SharedFeatures | None = None, **run: Any
    ) -> Result | ResultGroup:
        """As :meth:`run`, with features that may be known.

        Args:
            caches: The features of other runs.
            benchmark: The benchmark, or a group.
            shared: Computes the features that other methods of the same run ask, too.
            **run: As for :meth:`run`.
        """
        check_benchmark(benchmark)
        if isinstance(benchmark, BaseBenchmark):
            refusal = self.refusal(benchmark)
            if refusal is not None:
                raise refusal
            return self._run(caches, benchmark, shared, **run)
        return self._run_group(caches, benchmark, shared, **run)

    def _run_group(
        self, caches: ModelCaches, group: BenchmarkGroup, shared: SharedFeatures | None, **run: Any
    ) -> ResultGroup:
        """Run the members of a group on which the method can run."""
        benchmarks = members(group)
        skipped = self._reasons_to_skip(benchmarks)
        for name, reason in skipped.items():
            _log.warning("left out: %s: %s", name, reason)
        results = {}
        with drawn_progress(run.get("progress")) as shown:
            for number, (name, benchmark) in enumerate(benchmarks.items()):
                if name in skipped:
                    continue
                run["progress"] = within(shown, number, len(benchmarks))
                results[name] = self._run(caches, benchmark, shared, **run)
        if not skipped:
            return ResultGroup(group.name, results)
        return MethodTable(group.name, results, dict.fromkeys(results, self.spec.title), skipped)

    def _reasons_to_skip(self, benchmarks: Mapping[str, BaseBenchmark[Any]]) -> dict[str, str]:
        """Return the members of a group on which the method cannot run, each with the reason.

        Raises:
            ArgumentError: It can run on none of them.
            Exception: A member fails by another error than an argument that does not suit it.
        """
        refusals: dict[str, Exception] = {}
        for name, benchmark in benchmarks.items():
            refusal = self.refusal(benchmark)
            if refusal is not None:
                refusals[name] = refusal
        none_is_left = len(refusals) == len(benchmarks)
        for refusal in refusals.values():
            if none_is_left or not isinstance(refusal, ArgumentError):
                raise refusal
        return {name: str(refusal) for name, refusal in refusals.items()}

    def _run(
        self,
        caches: ModelCaches,
        benchmark: BaseBenchmark[Any],
        shared: SharedFeatures | None,
        return_outputs: bool = False,
        **run: Any,
    ) -> Result:
        """Run the data sets of a benchmark one after the other."""
        with RunContext(False, **run) as context:
            context.logged = caches.main.logged
            context.warn(*benchmark.data_warnings())  # those of the given k, which the method may change
            running = _BenchmarkRun(caches, context, Costs(caches), shared)
            for number, experimentor in enumerate(benchmark):
                title = f"{self.spec.title}: {benchmark.benchmark_name}, {experimentor.name}"
                part = Part(title, number, len(benchmark))
                running.load(experimentor, part)
                self._run_data_set(experimentor, part, running)
                context.checkpoint()
                running.costs.start()  # a checkpoint is no cost of the next data set
        return context.deliver(self._result(benchmark, running, return_outputs))

    def _run_data_set(self, experimentor: BaseExperimentor, part: Part, running: _BenchmarkRun) -> None:
        """Run the method on a data set, score its predictions, and add both to the run of the benchmark."""
        # The caches count the prompts of the whole run, so those of this data set are a difference.
        counts_before = _prompt_counts(running.caches)
        outcome = self._outcome_or_failures(experimentor, part, running)
        prompt_counts = _prompt_counts(running.caches)
        prompt_counts.subtract(counts_before)
        running.add_costs(outcome, reused_prompts=prompt_counts["reused"])

        # The method saw a view of the data set without labels of test rows. They are put back to score it.
        predictor = running.predictor_of(outcome, self.spec.name, prompt_counts)
        view = experimentor_of(outcome.predictions.data)
        labelled = view.with_labels_of(cast("Experimentor", experimentor))
        options = running.context.options_for(predictor)
        scored = _scored(labelled, outcome.predictions.rows, options, part)
        scored = replace(scored, model_warnings=_warnings_of(outcome))

        name = experimentor.name
        running.asked[name] = outcome.asked
        running.calibration_number_read |= outcome.data.record.calibration_number_read
        running.predictors[name] = predictor
        running.views.append(labelled)
        running.scored[name] = scored
        running.context.log(*dataset_warnings(name, scored))

    def _result(self, benchmark: BaseBenchmark[Any], running: _BenchmarkRun, return_outputs: bool) -> Result:
        """Return the result of a run, with its costs, and the method in its signature and its provenance.

        Args:
            benchmark: The benchmark without the method.
            running: The run, when all data sets are scored.
            return_outputs: Whether the result keeps the prediction of each query.
        """
        with_prompts_of_method = benchmark.copy_with(experimentor=running.views)
        predictions = running.context.predictions(running.predictors)
        result = with_prompts_of_method.collect(running.scored, predictions, return_outputs)
        result.timing.update(running.costs.timing())
        if self._is_model_itself:
            return result  # vanilla inference adds nothing
        number_read = self.calibration_number if running.calibration_number_read else None
        words = method_field(self.spec, self.variant, self.options, number_read)
        result.signature = with_method(result.signature, words, benchmark)
        result.provenance = replace(
            result.provenance,
            method=result.signature.fields["method"],
            method_settings=method_settings(self.spec, self.variant, self.options, number_read),
            asked=digest({name: asked.digest() for name, asked in running.asked.items()}),
            further_models=_further_models(running),
        )
        return result

    def _outcome_or_failures(self, experimentor: BaseExperimentor, part: Part, running: _BenchmarkRun) -> MethodOutcome:
        """Return the outcome on a data set; where the method cannot finish and the run goes on, a failure everywhere.

        Raises:
            OutputError: The method cannot finish, and the run stops at the first failure.
        """
        with self._named(experimentor):
            started = self.started(experimentor)
        try:
            with self._named(experimentor):
                return self._finished(started, experimentor, running.caches, part, running.costs)
        except OutputError as error:
            if not running.context.collects_failures:
                raise
            _log.warning("%s", error)
            return _failed_outcome(started, experimentor, running.caches, error)


def _failed_outcome(
    started: StartedMethod, experimentor: BaseExperimentor, caches: ModelCaches, error: OutputError
) -> MethodOutcome:
    """Return a failure for each query of a data set on which a method could not finish, with all that it asked."""
    queries = experimentor.all_queries()
    failures = [failure_of_error(error, str(error))] * len(queries)
    # The model warns of all prompts of the data set, also of those that the method did not ask any more.
    predicted = started.asked.predicted.setdefault(AskedFunction(caches.main), {})
    for key, failure in answers_by_key(queries, failures).items():
        predicted.setdefault(key, failure)
    predictions = started.data.predictions(failures)
    return MethodOutcome(started.data, predictions, started.asked, finished=False)


def _prompt_counts(caches: ModelCaches) -> Counter[str]:
    """Return how many prompts were computed and reused so far, and how many requests were sent again."""
    return Counter(computed=caches.computed, reused=caches.reused, retried=retried(caches.kernel))


def _scored(view: BaseExperimentor, predictions: Any, options: RunOptions, part: Part) -> DatasetRun:
    """Return scores and details of the predictions for the queries of a data set.

    Args:
        view: The data set with the prompts that the predictions answer.
        predictions: What the method returned.
        options: The options of the run, which say what happens to failures.
        part: Name and number of the data set.

    Raises:
        ArgumentError: There is not one prediction for each query.
        OutputError: A prediction cannot be used.
    """
    queries = view.all_queries()
    given: object = len(predictions) if hasattr(predictions, "__len__") else type(predictions).__name__
    if given != len(queries):
        raise ArgumentError(
            f"{part.name}: got {given} predictions, expected {len(queries)}, one for each query; rows of a view are "
            "returned by this view: view.predictions(rows)"
        ).at(part.name)
    # The collector knows predictions by prompt. Those of a method may differ for equal prompts, so a number takes
    # the place of each prompt.
    answers: dict[Any, Any] = {}
    prompts: dict[Any, Any] = {}
    number_of_key: dict[Any, int] = {}
    for number, (query, prediction) in enumerate(zip(queries, predictions, strict=True)):
        key = (str(number), query.label_space)
        if isinstance(prediction, (Failure, ReplyLabel)):
            answers[key] = prediction
        else:
            answers[key] = checked(prediction, query.label_space)
        prompts[key] = query.prompt
        number_of_key[key] = number
    options = replace(options, store=None, progress=None, unparsed=view.unparsed)
    collector = AnswerCollector(options, part, len(queries), answers, prompts=prompts)
    collector.refuse_failures(number_of_key)
    return view.assemble(view.conditions(), list(collector.answers.values()), part.name)


def _warnings_of(outcome: MethodOutcome) -> tuple[str, ...]:
    """Return what a method warns of on a data set, and what the model warns of for the prompts that it asked."""
    record = outcome.data.record
    warnings = list(record.warnings)
    duplicates = record.notes.get("duplicates")
    if duplicates:
        warnings.append(
            f"{duplicates:.0f} test examples are shown a demonstration of exactly their text; the option "
            "exclude_duplicates leaves these out"
        )
    warnings += outcome.asked.warnings()
    return tuple(dict.fromkeys(warnings))


def _further_models(running: _BenchmarkRun) -> tuple[Predictor, ...]:
    """Return the further models that a method asked, such as a second kernel, as the provenance of a result has them.

    Args:
        running: The run of the method; each further model has a cache of its answers there.
    """
    models = []
    for cache in running.caches.further:
        datasets = [name for name, asked in running.asked.items() if asked.asks(cache.kernel)]
        if not datasets:
            continue  # another method of the same run asked it
        # The provenance of a model names its identity, its time and the data sets that it was asked about.
        predictions = running.context.predictions(dict.fromkeys(datasets, cache.kernel))
        records_and_datasets = [(record, dataset) for dataset, record in predictions.records.items()]
        (model,) = predictors_of(records_and_datasets, {})  # one, since all records are of one kernel
        tokens = running.costs.tokens_of(cache)
        if tokens is not None:
            model = replace(model, tokens_read=tokens.read, tokens_generated=tokens.generated)
        models.append(model)
    return tuple(models)


def check_benchmark(benchmark: object) -> None:
    """Refuse what methods cannot run on."""
    if not isinstance(benchmark, (BaseBenchmark, BenchmarkGroup)):
        raise ArgumentError(f"benchmark: got {type(benchmark).__name__}, expected a Benchmark or BenchmarkGroup")


# -- several methods


def chosen_methods(
    kernel: Inference, names: Sequence[str | MethodSpec] | None, options: Mapping[str, Any], variant: str, number: int
) -> tuple[list[Method], dict[str, str]]:
    """Return the methods that the kernel supports, and why others are left out; see :func:`run_all`.

    Raises:
        ArgumentError: No method could be run, two methods have one name, or no method has an option.
    """
    if names is None:
        names = _names_of_table_2(check_variant(variant))
    specs = [_find(name) for name in names]
    listed = ", ".join(spec.name for spec in specs)
    if len({spec.name for spec in specs}) < len(specs):
        raise ArgumentError(f"got two methods of one name: {listed}; expected different names")
    _check_option_names(specs, options)

    methods: list[Method] = []
    skipped: dict[str, str] = {}
    for spec in specs:
        declared = _option_names(spec)
        own_options = {name: value for name, value in options.items() if name in declared}
        try:
            methods.append(Method(spec, kernel, variant, number, **own_options))
        except CapabilityError as error:
            skipped[spec.name] = str(error)
    if not methods:
        raise ArgumentError(f"none of the methods {listed} could be run: {'; '.join(skipped.values())}")
    return methods, skipped


def _names_of_table_2(variant: Variant) -> list[str]:
    """Return the names of the ten methods; the table's own k-NN has centroids, that of its paper has neighbours."""
    names = list(TABLE_2)
    if variant != "paper":
        names[names.index("knn_prompt")] = "knn_prompt_centroid"
    return names


def _option_names(spec: MethodSpec) -> set[str]:
    """Return the names of the options that a method declares."""
    return {option.name for option in options_of(spec.options)}


def _check_option_names(specs: Sequence[MethodSpec], names: Iterable[str]) -> None:
    """Refuse an option that none of the methods declares."""
    known: set[str] = set()
    for spec in specs:
        known |= _option_names(spec)
    for name in names:
        if name not in known:
            raise unknown_name("option of these methods", name, sorted(known))


def log_skipped(skipped: Mapping[str, str]) -> None:
    """Log why methods are left out of a run."""
    for reason in skipped.values():
        _log.warning("left out: %s", reason)


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
    log_skipped(skipped)
    table = MethodTable(OF_METHODS.name, {}, {method.spec.name: method.spec.title for method in made}, skipped)
    runs = {method.spec.name: MethodRun(method.spec.title, method, benchmark) for method in made}
    return run_each(table, runs, finished, **run)


@dataclass(frozen=True)
class MethodRun:
    """A run of a method on a benchmark, as a part of several."""

    title: str
    """What it is called in messages and tables."""
    method: Method
    """The method."""
    benchmark: Any
    """The benchmark, or a group."""

    def reason(self, error: Exception) -> str:
        """Return why the run is left out. It begins with the title of the run, or with the method in its place."""
        if not isinstance(error, StaICCError):
            return f"{self.title}: {type(error).__name__}: {error}"
        is_titled_by_method = self.title == self.method.spec.title
        if is_titled_by_method and error.where is not None:
            return str(error)
        return f"{self.title}: {error}"


def run_each(
    table: MethodTable,
    runs: Mapping[str, MethodRun],
    finished: Callable[[MethodTable], None] | None,
    same_data: bool = True,
    **run: Any,
) -> MethodTable:
    """Add the results of several runs to a table; what fails is left out with its title and reason.

    Args:
        table: The table.
        runs: The runs by the names of their results.
        finished: Called with the table after each run.
        same_data: Whether all have one benchmark; else prompts that fail do not stop the others.
        **run: Options of the run.

    Raises:
        ArgumentError: None could be run.
    """
    sharing_runs = []
    for planned in runs.values():
        is_group = isinstance(planned.benchmark, BenchmarkGroup)
        if is_group or planned.method.refusal(planned.benchmark) is None:
            sharing_runs.append((planned.method.first_requests, planned.benchmark))
    first_run = next(iter(runs.values()))
    caches = ModelCaches(first_run.method.kernel)  # all runs have one kernel
    shared = SharedFeatures(caches, sharing_runs, same_data)

    errors: list[Exception] = []
    with drawn_progress(run.get("progress")) as shown:
        for number, (name, planned) in enumerate(runs.items()):
            run["progress"] = within(shown, number, len(runs))
            try:
                table[name] = planned.method.run_on(caches, planned.benchmark, shared, **run)
            except Exception as error:  # CUDA out of memory, a bug of a plug-in: the other results are not lost
                table.skipped[name] = planned.reason(error)
                errors.append(error)
                traceback_of = None if isinstance(error, StaICCError) else error
                _log.warning("left out: %s", table.skipped[name], exc_info=traceback_of)
                continue
            table.shared = dict(shared.cost)
            if finished is not None:
                finished(table)
    if not table:
        reasons = list(table.skipped.values())
        all_failed_alike = len({str(error) for error in errors}) == 1
        if all_failed_alike:
            reasons = [str(errors[0])]
        raise ArgumentError(f"none of {', '.join(runs)} could be run: {'; '.join(reasons)}") from errors[0]
    return table
