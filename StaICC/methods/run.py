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
from StaICC.inference.function_check import refuse_unsuitable_function
from StaICC.inference.replies import Failure, checked_prediction, failure_of_error
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
from StaICC.methods.requests import MODEL_ITSELF, Request
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
"""The keywords of a documented ``functools.partial`` that do not change its label probabilities."""


def _as_kernel(kernel: Inference) -> Inference:
    """Return a kernel with all capabilities for the ``functools.partial`` that 0.1.1 documents.

    Any other inference function is returned unchanged; so is a partial with a keyword that changes its predictions,
    such as ``calibration_function``.
    """
    if not isinstance(kernel, functools.partial):
        return kernel
    keywords = set(kernel.keywords)
    has_model = {"model", "tokenizer"} <= keywords
    changes_predictions = not keywords <= _PARTIAL_KEYWORDS
    if not has_model or changes_predictions:
        return kernel
    kernel_for = own_attribute(kernel.func, "kernel_for")
    if kernel_for is None:
        return kernel
    with_all_capabilities: Inference = kernel_for(**kernel.keywords)
    return with_all_capabilities


@dataclass(frozen=True)
class StartedMethod:
    """A method that was started on a data set, up to its first requests to the model."""

    data: MethodData
    """The data set as the method sees it, without labels of test rows."""
    steps: RunningSteps
    """The running generator function of the method, with its present requests."""
    asked: AskedPrompts = field(default_factory=AskedPrompts)
    """The requests that were computed so far, with the predictions."""


@dataclass(frozen=True)
class MethodOutcome:
    """What a method returned on a data set."""

    data: MethodData
    """The data set as the method saw it, with the record of its warnings, its notes and the labels that it read."""
    predictions: Predictions
    """Its predictions, with the data whose queries they answer."""
    asked: AskedPrompts
    """Its requests to models, with the predictions."""
    finished: bool = True
    """Whether it could finish; else all predictions are failures."""


@dataclass
class _BenchmarkRun:
    """A run of a method on a benchmark: what it uses, and what is collected over the data sets."""

    caches: ModelCaches
    """Compute the requests of the method, and keep the answers of each model."""
    context: RunContext
    """The store, the workers and the policies of the run."""
    costs: Costs
    """What the method costs."""
    shared: SharedFeatures | None
    """Computes what several methods of one run need; ``None`` if the method is run alone."""
    scored: dict[str, DatasetRun] = field(default_factory=dict)
    """The scores by data set."""
    predictors: dict[str, Inference] = field(default_factory=dict)
    """The inference function under which the predictions of each data set are recorded."""
    views: list[BaseExperimentor] = field(default_factory=list)
    """The data sets with the prompts of the method and the true labels."""
    asked: dict[str, AskedPrompts] = field(default_factory=dict)
    """The requests of the method by data set."""
    calibration_number_read: bool = False
    """Whether the method read the number of calibration samples on any data set."""

    def load(self, experimentor: BaseExperimentor, part: Part) -> None:
        """Prepare the caches for a data set, and compute the features that several methods of the run need of it.

        Args:
            experimentor: The data set.
            part: Name and number of this part of the run, for messages and progress.
        """
        self.context.start([self.caches.kernel])
        queries = experimentor.all_queries()
        log_prompt_warnings(experimentor.name, self.caches.kernel, queries, self.context.log)
        self.costs.charge("loading")
        self.caches.start(self.context, self.context.recheck, experimentor.unparsed)
        if self.shared is not None:
            self.shared.compute(experimentor, part)
        self.costs.start()  # the time from here on: shared features are no cost of this method

    def add_costs(self, outcome: MethodOutcome, reused_prompts: int) -> None:
        """Add the costs of a data set that are counts: prompts, labelled examples, tokens of the method alone.

        Args:
            outcome: What the method returned on the data set.
            reused_prompts: How many of its prompts were computed before.
        """
        predicted = experimentor_of(outcome.predictions.data)
        self.costs.add_data_set(outcome.asked, outcome.data.record, predicted, reused_prompts)
        if self.shared is not None:
            self.costs.add_tokens_alone(outcome.asked, outcome.finished)

    def predictor_of(self, outcome: MethodOutcome, method: str, prompt_counts: Counter[str]) -> Inference:
        """Return the inference function under which the provenance of the result records the predictions of a method.

        Usually this is the kernel, or the function of the kernel that the method called last, such as its noisy
        channel. If other facts than these determine the predictions, such as the temperature of samples, it is a
        function whose identity has these facts. It is never called, so it gets the counts of the prompts here.

        Args:
            outcome: What the method returned on a data set.
            method: The name of the method.
            prompt_counts: How many prompts of this data set were computed and reused (:func:`_prompt_counts`).
        """
        facts = outcome.data.record.facts
        if not facts:
            return self.caches.main.predictor
        predictor = StatedFacts(method, facts, self.caches.kernel)
        counter = self.context.options_for(predictor).counter
        counter.counts.update(prompt_counts)
        return predictor

    def add(self, outcome: MethodOutcome, predictor: Inference, labelled: BaseExperimentor, scored: DatasetRun) -> None:
        """Collect what the result needs of a data set.

        Args:
            outcome: What the method returned on the data set.
            predictor: The inference function under which its predictions are recorded.
            labelled: The data set with the prompts of the method and the true labels.
            scored: The scores of the predictions.
        """
        name = labelled.name
        self.asked[name] = outcome.asked
        self.predictors[name] = predictor
        self.views.append(labelled)
        self.scored[name] = scored
        if outcome.data.record.calibration_number_read:
            self.calibration_number_read = True
        self.context.log(*dataset_warnings(name, scored))

    def further_models(self) -> tuple[Predictor, ...]:
        """Return the provenance record of each further model that the method sent prompts to, such as a second kernel.

        A record names the model, the data sets on which the method asked it, and the tokens that it counted. Methods
        that run together share the caches, so models that only another method asked are left out.
        """
        records = []
        for cache in self.caches.further:  # one for each further model
            model = cache.kernel
            datasets = [name for name, asked in self.asked.items() if asked.asks(model)]
            if datasets:
                record = self._record_of_model(model, datasets)
                tokens = self.costs.tokens_of(cache)
                if tokens is not None:
                    record = replace(record, tokens_read=tokens.read, tokens_generated=tokens.generated)
                records.append(record)
        return tuple(records)

    def _record_of_model(self, model: Inference, datasets: Sequence[str]) -> Predictor:
        """Return the provenance record of a model that was called on some data sets."""
        model_of_dataset = dict.fromkeys(datasets, model)
        record_of_dataset = self.context.predictions(model_of_dataset).records
        pairs = [(record, dataset) for dataset, record in record_of_dataset.items()]
        (predictor,) = predictors_of(pairs, details={})  # one, since all pairs are about the same model
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
        """Find the method, and check its arguments and what it requires of the kernel; nothing is computed.

        The description of the class explains the arguments.
        """
        self.spec = _find(name)
        refuse_unsuitable_function(kernel, "kernel")
        self.kernel = _as_kernel(kernel)
        self.variant = check_variant(variant)
        self.calibration_number = validate_integer("calibration_number", calibration_number, 1)
        self.options = make_options(self.spec.name, self.spec.options, options)
        # The record states what the default options require. Whether the kernel can compute what other options require
        # is found when the method makes its first requests.
        if self.options == self.spec.options():
            check_capabilities(self.spec.title, self.kernel, self.spec.requires)

    def __repr__(self) -> str:
        return one_line(f"<{self.spec.title} ({self.variant}) on {self.kernel!r}>")

    # -- on a data set

    def started(self, experimentor: BaseExperimentor) -> StartedMethod:
        """Start the method on a data set: run its generator function up to its first requests to the model.

        No request is computed, and the method gets no labels of test rows.

        Args:
            experimentor: The data set.

        Raises:
            ArgumentError: The method cannot be applied to the data set, such as one without a calibration set, or the
                kernel cannot compute the first requests.
        """
        experimentor.refuse_function(self.kernel)
        data = MethodData(
            # Some benchmarks have other experimentors. A method that needs what these lack raises an ArgumentError.
            cast("Experimentor", experimentor.without_labels()),
            self.variant,
            self.calibration_number,
            self.options,
            provides=extra_features(self.kernel),
            steps_of=steps_of,
        )
        generator_function = steps_of(self.spec, self.variant)
        steps = RunningSteps(self.spec.title, generator_function(data), self.kernel)
        return StartedMethod(data, steps)

    def first_requests(self, experimentor: BaseExperimentor) -> Sequence[Request]:
        """Return the first requests of the method on a data set, of which none is computed."""
        return self.started(experimentor).steps.requests or ()

    def outcome(
        self, experimentor: BaseExperimentor, caches: ModelCaches, part: Part, costs: Costs | None = None
    ) -> MethodOutcome:
        """Return the predictions for a data set, with the requests of the method; nothing is scored.

        Args:
            experimentor: The data set.
            caches: Compute the requests.
            part: Name and number of this part of the run, for messages and progress.
            costs: Get the seconds and tokens of each phase.
        """
        started = self.started(experimentor)
        return self._finished(started, experimentor, caches, part, costs or Costs(caches))

    def _finished(
        self, started: StartedMethod, experimentor: BaseExperimentor, caches: ModelCaches, part: Part, costs: Costs
    ) -> MethodOutcome:
        """Compute the requests of a method that was started on a data set until it returns, and return its outcome."""
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
            caches = ModelCaches(self.kernel)
            reading = self._reading_of(experimentor)
            prepared = prompts_of_method(started.steps, caches, Part(self.spec.title), reading)
        if prepared is None:  # the method changes no prompts
            prepared = experimentor_of(started.data)
        # The method saw no labels of test rows. The data set gets them back.
        return cast("Experimentor", prepared).with_labels_of(cast("Experimentor", experimentor))

    def _reading_of(self, experimentor: BaseExperimentor) -> Reading:
        """Return how the method reads the predictions of the model on a data set."""
        return Reading(experimentor.outputs, self._is_model_itself)

    @property
    def _is_model_itself(self) -> bool:
        """Whether the method is vanilla inference, so that the benchmark reads the outputs of the model as they are."""
        return self.spec.name == "vanilla" and METHODS.get("vanilla") == self.spec

    def refusal(self, benchmark: BaseBenchmark[Any]) -> Exception | None:
        """Return the error with which the method refuses a data set of a benchmark; ``None`` if it can run on all.

        The method is started on each data set as a trial. It raises its refusals then, before the model computes
        anything.
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
        """Put the method and the data set before the messages of errors that do not say where they happened.

        Use it as ``with self._named(experimentor):`` around what may raise an error.
        """
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
        """Return the result of a run, as :meth:`run`, but without computing again what caches have.

        Args:
            caches: What models have computed so far, such as in the runs of other methods.
            benchmark: The benchmark, or a group.
            shared: Computes what several methods of one run need; ``None`` if this method is run alone.
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
        """Run the method on each benchmark of a group on which it can run; arguments as for :meth:`run_on`."""
        benchmarks = members(group)
        skipped = self._reasons_to_skip(benchmarks)
        for name, reason in skipped.items():
            _log.warning("left out: %s: %s", name, reason)
        results = {}
        with drawn_progress(run.get("progress")) as progress:
            for number, (name, benchmark) in enumerate(benchmarks.items()):
                if name not in skipped:
                    run["progress"] = within(progress, number, len(benchmarks))
                    results[name] = self._run(caches, benchmark, shared, **run)
        if not skipped:
            return ResultGroup(group.name, results)
        return MethodTable(group.name, results, dict.fromkeys(results, self.spec.title), skipped)

    def _reasons_to_skip(self, benchmarks: Mapping[str, BaseBenchmark[Any]]) -> dict[str, str]:
        """Return the reason for each benchmark, by its name, on which the method cannot run.

        Raises:
            ArgumentError: The method can run on none of the benchmarks; the first reason is raised.
            Exception: Another error, such as a bug of a plug-in: only an ArgumentError says that a benchmark does not
                suit the method.
        """
        refusals: dict[str, Exception] = {}
        for name, benchmark in benchmarks.items():
            refusal = self.refusal(benchmark)
            if refusal is not None:
                refusals[name] = refusal
        runs_on_none = len(refusals) == len(benchmarks)
        for refusal in refusals.values():
            if runs_on_none or not isinstance(refusal, ArgumentError):
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
        """Run the method on the data sets of a benchmark one after the other, and return the result.

        Arguments as for :meth:`run_on`.
        """
        with RunContext(False, **run) as context:
            context.logged = caches.main.logged
            context.warn(*benchmark.data_warnings())  # those of the given k, which the method may change
            benchmark_run = _BenchmarkRun(caches, context, Costs(caches), shared)
            for number, experimentor in enumerate(benchmark):
                title = f"{self.spec.title}: {benchmark.benchmark_name}, {experimentor.name}"
                part = Part(title, number, len(benchmark))
                benchmark_run.load(experimentor, part)
                self._run_data_set(experimentor, part, benchmark_run)
                context.checkpoint()
                benchmark_run.costs.start()  # a checkpoint is no cost of the next data set
        return context.deliver(self._result(benchmark, benchmark_run, return_outputs))

    def _run_data_set(self, experimentor: BaseExperimentor, part: Part, benchmark_run: _BenchmarkRun) -> None:
        """Predict the test queries of a data set with the method, score the predictions, and collect both.

        Args:
            experimentor: The data set.
            part: Its name and number in the run, for messages and progress.
            benchmark_run: Collects the costs, the predictions and the scores of all data sets.
        """
        # The caches count the prompts of all data sets, so those of this one are a difference.
        counts_before = _prompt_counts(benchmark_run.caches)
        outcome = self._outcome_or_failures(experimentor, part, benchmark_run)
        prompt_counts = _prompt_counts(benchmark_run.caches)
        prompt_counts.subtract(counts_before)
        benchmark_run.add_costs(outcome, reused_prompts=prompt_counts["reused"])

        # The method got a copy of the data set without labels of test rows. Scoring needs them.
        unlabelled = experimentor_of(outcome.predictions.data)
        labelled = unlabelled.with_labels_of(cast("Experimentor", experimentor))
        predictor = benchmark_run.predictor_of(outcome, self.spec.name, prompt_counts)
        options = benchmark_run.context.options_for(predictor)
        scored = _scored(labelled, outcome.predictions.rows, options, part)
        scored = replace(scored, model_warnings=_warnings_of(outcome))
        benchmark_run.add(outcome, predictor, labelled, scored)

    def _result(self, benchmark: BaseBenchmark[Any], benchmark_run: _BenchmarkRun, return_outputs: bool) -> Result:
        """Return the result of a run, with its costs, and the method in its signature and its provenance.

        Args:
            benchmark: The benchmark without the method.
            benchmark_run: What was collected over its data sets.
            return_outputs: Whether the result keeps the prediction of each query.
        """
        with_prompts_of_method = benchmark.copy_with(experimentor=benchmark_run.views)
        predictions = benchmark_run.context.predictions(benchmark_run.predictors)
        result = with_prompts_of_method.collect(benchmark_run.scored, predictions, return_outputs)
        result.timing.update(benchmark_run.costs.timing())
        if self._is_model_itself:
            return result  # vanilla inference adds nothing to signature and provenance

        calibration_number = None
        if benchmark_run.calibration_number_read:  # otherwise it changes no score
            calibration_number = self.calibration_number
        signature_field = method_field(self.spec, self.variant, self.options, calibration_number)
        result.signature = with_method(result.signature, signature_field, benchmark)
        digest_of_dataset = {name: asked.digest() for name, asked in benchmark_run.asked.items()}
        result.provenance = replace(
            result.provenance,
            method=result.signature.fields["method"],
            method_settings=method_settings(self.spec, self.variant, self.options, calibration_number),
            asked=digest(digest_of_dataset),
            further_models=benchmark_run.further_models(),
        )
        return result

    def _outcome_or_failures(
        self, experimentor: BaseExperimentor, part: Part, benchmark_run: _BenchmarkRun
    ) -> MethodOutcome:
        """Return the outcome of the method on a data set: predictions, or failures if the method cannot finish.

        Arguments as for :meth:`_run_data_set`.

        Raises:
            OutputError: The method cannot finish, and the run stops at the first failure.
        """
        with self._named(experimentor):
            started = self.started(experimentor)
        try:
            with self._named(experimentor):
                return self._finished(started, experimentor, benchmark_run.caches, part, benchmark_run.costs)
        except OutputError as error:
            if not benchmark_run.context.collects_failures:
                raise
            _log.warning("%s", error)
            return _failed_outcome(started, experimentor, benchmark_run.caches, error)


def _failed_outcome(
    started: StartedMethod, experimentor: BaseExperimentor, caches: ModelCaches, error: OutputError
) -> MethodOutcome:
    """Return the outcome of a method that could not finish on a data set: the same failure for each query.

    Args:
        started: The method, with the requests that it made before the error.
        experimentor: The data set.
        caches: The caches of the models.
        error: Why the method could not finish.
    """
    queries = experimentor.all_queries()
    failures = [failure_of_error(error, str(error))] * len(queries)
    # The model warns of all prompts of the data set, so those that the method did not send to it are added.
    predictions_of_model = started.asked.predicted.setdefault(AskedFunction(caches.main, MODEL_ITSELF), {})
    for key, failure in answers_by_key(queries, failures).items():
        predictions_of_model.setdefault(key, failure)
    predictions = started.data.predictions(failures)
    return MethodOutcome(started.data, predictions, started.asked, finished=False)


def _prompt_counts(caches: ModelCaches) -> Counter[str]:
    """Return how many prompts were computed and reused so far, and how many requests were sent again."""
    return Counter(computed=caches.computed, reused=caches.reused, retried=retried(caches.kernel))


def _scored(labelled: BaseExperimentor, predictions: Any, options: RunOptions, part: Part) -> DatasetRun:
    """Return the scores of predictions for the queries of a data set, with details.

    Args:
        labelled: The data set with the prompts that the predictions answer, and the true labels.
        predictions: What the method returned: a prediction or a failure for each query, in order.
        options: The options of the run, which say whether failures are collected or end the run.
        part: Name and number of the data set.

    Raises:
        ArgumentError: There is not one prediction for each query.
        OutputError: A prediction cannot be used, or is a failure that ends the run.
    """
    queries = labelled.all_queries()
    _check_prediction_count(predictions, len(queries), part)
    # AnswerCollector takes predictions by prompt. A method may predict different labels for equal prompts, so the
    # number of the query takes the place of its prompt.
    answers: dict[Any, Any] = {}
    prompts: dict[Any, Any] = {}
    number_of_key: dict[Any, int] = {}
    for number, (query, prediction) in enumerate(zip(queries, predictions, strict=True)):
        key = (str(number), query.label_space)
        if isinstance(prediction, (Failure, ReplyLabel)):
            answers[key] = prediction
        else:
            answers[key] = checked_prediction(prediction, query.label_space)
        prompts[key] = query.prompt
        number_of_key[key] = number
    options = replace(options, store=None, progress=None, unparsed=labelled.unparsed)
    collector = AnswerCollector(options, part, len(queries), answers, prompts=prompts)
    collector.refuse_failures(number_of_key)
    return labelled.assemble(labelled.conditions(), list(collector.answers.values()), part.name)


def _check_prediction_count(predictions: Any, query_count: int, part: Part) -> None:
    """Refuse what is not a list with one prediction for each query.

    Args:
        predictions: What a method returned.
        query_count: The number of queries.
        part: Name and number of the data set, for the message.
    """
    got: object = type(predictions).__name__
    if hasattr(predictions, "__len__"):
        got = len(predictions)
    if got != query_count:
        raise ArgumentError(
            f"{part.name}: got {got} predictions, expected {query_count}, one for each query; rows of a view are "
            "returned by this view: view.predictions(rows)"
        ).at(part.name)


def _warnings_of(outcome: MethodOutcome) -> tuple[str, ...]:
    """Return the warnings of a method on a data set and those of the models about its prompts, each once."""
    record = outcome.data.record
    warnings = list(record.warnings)
    duplicate_count = record.notes.get("duplicates")  # a float, as all notes
    if duplicate_count:
        warnings.append(
            f"{duplicate_count:.0f} test examples are shown a demonstration of exactly their text; the option "
            "exclude_duplicates leaves these out"
        )
    warnings += outcome.asked.warnings()
    return tuple(dict.fromkeys(warnings))


def check_benchmark(benchmark: object) -> None:
    """Refuse what methods cannot run on."""
    if not isinstance(benchmark, (BaseBenchmark, BenchmarkGroup)):
        raise ArgumentError(f"benchmark: got {type(benchmark).__name__}, expected a Benchmark or BenchmarkGroup")


# -- several methods


def chosen_methods(
    kernel: Inference, names: Sequence[str | MethodSpec] | None, options: Mapping[str, Any], variant: str, number: int
) -> tuple[list[Method], dict[str, str]]:
    """Return the methods that a kernel can run, and for each other method the reason why it is left out.

    Args:
        kernel: Any inference function.
        names: Names or records of the methods; ``None`` for the ten of Table 2 of the StaICC paper.
        options: Options by name. Each method gets those that it declares.
        variant: The variant of all methods (:data:`~StaICC.methods.contract.Variant`).
        number: Number of training prompts of each method, for each data set.

    Returns:
        The methods, and the reasons by the name of the method.

    Raises:
        ArgumentError: The kernel can run no method, two methods have one name, or no method declares an option.
    """
    if names is None:
        names = _names_of_table_2(check_variant(variant))
    specs = [_find(name) for name in names]
    spec_names = [spec.name for spec in specs]
    listed = ", ".join(spec_names)
    if len(set(spec_names)) < len(spec_names):
        raise ArgumentError(f"got two methods of one name: {listed}; expected different names")
    _check_option_names(specs, options)

    methods: list[Method] = []
    skipped: dict[str, str] = {}
    for spec in specs:
        declared = _option_names(spec)
        options_of_method = {name: value for name, value in options.items() if name in declared}
        try:
            methods.append(Method(spec, kernel, variant, number, **options_of_method))
        except CapabilityError as error:
            skipped[spec.name] = str(error)
    if not methods:
        raise ArgumentError(f"none of the methods {listed} could be run: {'; '.join(skipped.values())}")
    return methods, skipped


def _names_of_table_2(variant: Variant) -> list[str]:
    """Return the names of the ten methods of Table 2 of the StaICC paper in a variant.

    The method k-NN of the table compares a query with one centroid for each label, which is a method of its own here.
    The k-NN of its own paper compares it with single neighbours.
    """
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
        """Return why the run is left out, as the title of the run and the message of the error.

        The message of an error that says where it happened begins with the method. If this is the title of the run, it
        is not repeated.
        """
        if not isinstance(error, StaICCError):
            return f"{self.title}: {type(error).__name__}: {error}"
        message_begins_with_method = error.where is not None
        if message_begins_with_method and self.title == self.method.spec.title:
            return str(error)
        return f"{self.title}: {error}"


def run_each(
    table: MethodTable,
    runs: Mapping[str, MethodRun],
    finished: Callable[[MethodTable], None] | None,
    same_data: bool = True,
    **run: Any,
) -> MethodTable:
    """Run several methods one after the other, and add their results to a table.

    A run that fails is left out, and the table gets the reason. What the methods need of the same prompts is computed
    once for all of them.

    Args:
        table: Gets the results and the reasons.
        runs: The runs by the names of their results. All methods have the same kernel.
        finished: Called with the table after each run that did not fail.
        same_data: Whether all runs have the same benchmark. If not, a prompt that fails when the prompts of all runs
            are computed does not stop the others.
        **run: Options of the run.

    Returns:
        The table.

    Raises:
        ArgumentError: All runs failed.
    """
    first_run = next(iter(runs.values()))
    caches = ModelCaches(first_run.method.kernel)
    shared = _shared_features(runs.values(), caches, same_data)
    errors: list[Exception] = []
    with drawn_progress(run.get("progress")) as progress:
        for number, (name, method_run) in enumerate(runs.items()):
            run["progress"] = within(progress, number, len(runs))
            try:
                table[name] = method_run.method.run_on(caches, method_run.benchmark, shared, **run)
            except Exception as error:  # CUDA out of memory, a bug of a plug-in: the other results are not lost
                table.skipped[name] = method_run.reason(error)
                errors.append(error)
                error_with_traceback = None if isinstance(error, StaICCError) else error
                _log.warning("left out: %s", table.skipped[name], exc_info=error_with_traceback)
                continue
            table.shared = dict(shared.cost)
            if finished is not None:
                finished(table)
    if not table:
        reasons = list(table.skipped.values())
        messages = {str(error) for error in errors}
        if len(messages) == 1:  # all runs failed for the same reason, which is stated once
            reasons = list(messages)
        raise ArgumentError(f"none of {', '.join(runs)} could be run: {'; '.join(reasons)}") from errors[0]
    return table


def _shared_features(runs: Iterable[MethodRun], caches: ModelCaches, same_data: bool) -> SharedFeatures:
    """Return what computes the first requests of several runs together; arguments as for :func:`run_each`.

    A run whose method refuses its benchmark has no part in it. A group has one, because its other members can be run.
    """
    sharing_runs = []
    for method_run in runs:
        is_group = isinstance(method_run.benchmark, BenchmarkGroup)
        if is_group or method_run.method.refusal(method_run.benchmark) is None:
            sharing_runs.append((method_run.method.first_requests, method_run.benchmark))
    return SharedFeatures(caches, sharing_runs, same_data)
