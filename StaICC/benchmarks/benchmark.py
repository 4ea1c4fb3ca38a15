"""A benchmark: one task over several data sets. It builds, runs, aggregates and signs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from StaICC.benchmarks.arguments import MetricTable
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.experimentor_list import ExperimentorList
from StaICC.benchmarks.means import means_of
from StaICC.benchmarks.predictions import Predictions
from StaICC.benchmarks.records import digest_prompts, records_of
from StaICC.benchmarks.run_warnings import data_warnings
from StaICC.benchmarks.running import RunContext, RunSettings
from StaICC.benchmarks.statistics import Statistics
from StaICC.benchmarks.task import Task
from StaICC.datasets import Dataset, names
from StaICC.datasets.own_data import record_of
from StaICC.errors import ArgumentError, unknown_name
from StaICC.inference import Inference, Part, Unparsed
from StaICC.inference.code_identity import in_library
from StaICC.inference.identity import code_mark
from StaICC.metrics import Kind, Metric, MetricFunction, MetricSet
from StaICC.registry import labelled, origin_of
from StaICC.results import Result, Signature, describe_environment, escaped, short_digest
from StaICC.results.early_stopping import EarlyStopping
from StaICC.results.provenance import utc_now
from StaICC.results.signature import common
from StaICC.version import SAMPLER_VERSION, __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.forecast import Forecast

DatasetChoice = Sequence[str | Dataset] | str | Dataset | None
MetricChoice = str | MetricSet | Mapping[str, MetricFunction | Metric]


class Settings(TypedDict, total=False):
    """Arguments of every benchmark, in addition to its own."""

    limit: int | None
    """The maximum number of test rows per data set; the signature contains it."""
    outputs: Kind
    """Read rows of numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides once for each condition."""
    statistics: Statistics | None
    """Options of the confidence intervals and random baselines."""
    sampler: str
    """How demonstrations are drawn: ``"default"``; ``"nested"``: those of a smaller ``k`` are the first of a larger;
    ``"nested-shared"``: the same list for all test rows of a repeat. The signature contains it."""
    unparsed: Unparsed
    """How generated replies without a label count: ``"error"`` (the default) ends the run, ``"wrong"`` scores them as
    wrong predictions, ``"excluded"`` leaves them out and reports the scores if all were wrong and if all were right."""


class Benchmark(ExperimentorList[Experimentor]):
    """A task over data sets, called with the user's inference function.

    Args:
        task: Writes the queries of each data set and scores their predictions.
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, or functions by name.
        datasets: Names or data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Attributes:
        experimentor: One experimentor for each data set, in order.
        task: The task.
        metrics: The metric functions by name, which the experimentors share. Assigning an item adds or replaces a
            metric.
    """

    __slots__ = ("_noisy_channel", "_settings", "_stopping", "metrics", "task")
    task_name: ClassVar[str]
    """The name that results carry."""

    def __init__(
        self,
        task: Task,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        **settings: Unpack[Settings],
    ) -> None:
        unknown = [name for name in settings if name not in Settings.__annotations__]
        if unknown:
            legal = ["k", "noisy_channel", "metrics", "datasets", *Settings.__annotations__]
            error = unknown_name(
                f"argument of {type(self).__name__}", unknown[0], legal, "The benchmark may have further arguments."
            )
            raise TypeError(str(error))
        self.task = task
        self._stopping: EarlyStopping | None = None
        self.metrics = MetricTable(metrics)
        self._settings = settings
        self._noisy_channel = noisy_channel
        self.experimentor = self._make(_read_datasets(datasets), k)
        names: dict[str, str] = {}
        for name in self.dataset_names:
            if (before := names.setdefault(name.casefold(), name)) == name and self.dataset_names.count(name) > 1:
                raise ArgumentError(f"the data set {name!r} was given twice; give each data set once")
            if before != name:
                raise ArgumentError(f"the data sets {before!r} and {name!r} differ only in case; rename one of them")

    def _make(self, datasets: Sequence[str | Dataset], k: int) -> list[Experimentor]:
        return [
            Experimentor(
                dataset, self.task, k=k, noisy_channel=self.noisy_channel, metrics=self.metrics, **self._settings
            )
            for dataset in datasets
        ]

    @property
    def noisy_channel(self) -> bool:
        """Whether the text is scored given the label; :meth:`re_initialize` changes it."""
        return self._noisy_channel

    def __repr__(self) -> str:
        return f"<{self.task.name} over {', '.join(self.dataset_names)}>"

    def re_initialize(self, k: int = 4, noisy_channel: bool = False, keep_prompter: bool = False) -> None:
        """Build the experimentors again.

        Args:
            k: Demonstrations per prompt.
            noisy_channel: Score the text given the label (noisy channel).
            keep_prompter: Keep the prompt writers with their changes.
        """
        before = self.experimentor
        self._noisy_channel = noisy_channel
        self.experimentor = self._make([experimentor.dataset for experimentor in before], k)
        if keep_prompter:
            for old, new in zip(before, self.experimentor, strict=True):
                new.prompt_former = old.prompt_former

    def get_experiment_data(self) -> list[Any]:
        """Return the split of each data set."""
        return [experimentor.triplet_dataset for experimentor in self.experimentor]

    # -- running

    def auto_run(
        self,
        list_of_forward_inference: Sequence[Inference] | Inference | None = None,
        return_divided_results: bool = True,
        batched_inference: bool = False,
        *,
        forward_inference: Inference | Sequence[Inference] | None = None,
        preentered_prediction: Sequence[Any] | Mapping[str, Any] | None = None,
        return_outputs: bool = False,
        precision: float | None = None,
        score: str | None = None,
        **run: Unpack[RunSettings],
    ) -> Result:
        """Run the benchmark.

        Args:
            list_of_forward_inference: One inference function for all data sets, or a list with one for each.
            return_divided_results: Whether the dictionary shows the scores of each data set.
            batched_inference: The functions take the list of all prompts and return the list of predictions.
            forward_inference: Another name of ``list_of_forward_inference``.
            preentered_prediction: Instead of functions: for each data set, in order or by name, one prediction
                for each prompt.
            return_outputs: Keep the prediction of each query in ``result.outputs``.
            precision: Evaluate test rows in a fixed random order, and stop when half the width of the interval of the
                score is at most this; ``result.stopping`` has the interval (see docs/early_stopping.md).
            score: The score that ``precision`` is about: ``"accuracy"`` (the default) or ``"likelihood"``.
            **run: Store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result: a dictionary with the documented keys.

        Raises:
            ArgumentError: An argument is invalid, such as a list of functions of another length than the data sets.
            OutputError: A query has no usable prediction and ``on_error="raise"``.
        """
        started, began = time.monotonic(), utc_now()
        given = self.given_functions(list_of_forward_inference, forward_inference)
        functions, predictions_given = self.functions_and_predictions(given, preentered_prediction)
        rule = None
        if precision is not None:
            from StaICC.benchmarks.sequential import StoppingRule, evaluate_in_rounds  # few runs stop early

            if preentered_prediction is not None:
                raise ArgumentError("precision needs an inference function: got preentered_prediction")
            rule = StoppingRule.for_experimentors("precision", precision, score, self.experimentor)
        elif score is not None:
            raise ArgumentError(f"score={score!r} says what precision is about: got no precision. Give it too")
        runs: dict[str, DatasetRun] = {}
        finished = self
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.warn(*data_warnings(self.experimentor))
            if rule is not None:
                models = [[function for function in functions if function is not None]]
                stopping, (runs,) = evaluate_in_rounds(rule, self.experimentor, models, context)
                finished = self.stopped(stopping)
            for number, experimentor in enumerate(self.experimentor if rule is None else ()):
                part = Part(f"{self.task.name}, {experimentor.name}", number, len(self))
                options = context.options_for(functions[number])
                runs[experimentor.name] = experimentor.run(functions[number], predictions_given[number], options, part)
        used = dict(zip(runs, functions, strict=True))
        predictions = Predictions.of_run(context, used, batched_inference, began)
        seconds = time.monotonic() - started
        return context.deliver(finished.collect(runs, seconds, predictions, return_outputs, return_divided_results))

    __call__ = auto_run

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: queries, tokens, time and cost.

        Args:
            function: The inference function.
            **options: ``store``, ``model_name``, ``chunk_size``, ``probe_seconds`` and ``prices``; see
                :class:`~StaICC.benchmarks.forecast.ForecastOptions`.
        """
        from StaICC.benchmarks.forecast import forecast  # few runs are forecast

        return forecast({one.name: one.all_queries() for one in self.experimentor}, function, **options)

    def stopped(self, stopping: EarlyStopping) -> Benchmark:
        """Return this benchmark with the test rows that a run evaluated before it stopped early.

        Args:
            stopping: The record of the run.
        """
        from StaICC.benchmarks.sequential import row_order

        restricted = [one.restricted_to(row_order(one)[: stopping.rounds]) for one in self.experimentor]
        return self.copy_with(experimentor=restricted, _stopping=stopping)

    def collect(
        self,
        runs: Mapping[str, DatasetRun],
        seconds: float,
        predictions: Predictions,
        keep_outputs: bool = False,
        with_divided: bool = True,
    ) -> Result:
        """Build the result of the runs over all data sets.

        Args:
            runs: One run for each data set, by name.
            seconds: Their duration.
            predictions: The provenance of the predictions.
            keep_outputs: Keep the prediction of each query.
            with_divided: Whether the dictionary shows the scores of each data set.

        Returns:
            The result.
        """
        keys = list(dict.fromkeys(key for run in runs.values() for key in run.averaged))
        averaged = {key: mean([run.averaged.get(key) for run in runs.values()]) for key in keys}
        details = {name: run.details for name, run in runs.items()}
        answers = {
            name: [answer for outcome in run.outcomes for answer in outcome.answers] for name, run in runs.items()
        }
        return Result(
            benchmark=self.task.name,
            divided={name: dict(run.values) for name, run in runs.items()},
            averaged=averaged,
            signature=self.signature(runs, predictions),
            provenance=predictions.provenance(answers, details),
            environment=describe_environment(),
            details=details,
            means=means_of(runs),
            timing={"seconds": seconds},
            outputs={name: records_of(run.outcomes) for name, run in runs.items()} if keep_outputs else None,
            with_divided=with_divided,
            stopping=self._stopping,
            warnings=tuple(dict.fromkeys([*data_warnings(self.experimentor), *predictions.warnings])),
            files={
                one.name: record for one in self.experimentor if (record := record_of(one.dataset.source, one.card))
            },
            higher_is_better={
                one.name: one.higher_is_better for one in self.metrics.metric_set.metrics if not one.of_library
            },
        )

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every setting that can change a number of this benchmark.

        Args:
            runs: The runs over the data sets; without them, the prompts are written to compute their digests.
            predictions: The provenance of the predictions; without it, the signature has no ``scoring``.

        Returns:
            The signature.
        """
        all_settings = [experimentor.settings_for_signature() for experimentor in self.experimentor]
        fields = {key: common([settings[key] for settings in all_settings]) for key in all_settings[0]}
        limits = [settings["limit"] for settings in all_settings if settings["limit"] is not None]
        fields["limit"] = limits[0] if limits else None  # data sets with fewer rows than the limit have none
        chosen = tuple(self.dataset_names)
        if runs is None:
            prompts = {
                experimentor.name: digest_prompts(experimentor.all_queries())[0] for experimentor in self.experimentor
            }
            failed = 0
        else:
            prompts = {name: run.details.prompts for name, run in runs.items()}
            failed = sum(run.details.failed for run in runs.values())
        options = ",".join(f"{key}={value}" for key, value in self.task.options().items())
        return Signature(
            {
                **fields,
                "benchmark": labelled(self.task.name, self._origin()),
                "datasets": None
                if chosen == names()
                else "+".join(labelled(escaped(each.name), each.dataset.origin) for each in self.experimentor),
                "data": short_digest(
                    [[each.dataset.table.digest, list(each.card.label_space)] for each in self.experimentor]
                ),
                "sampler": SAMPLER_VERSION,
                "options": options or None,
                "stopping": self._stopping.settings if self._stopping is not None else None,
                "scoring": predictions.scoring(chosen) if predictions is not None else None,
                "prompts": short_digest(prompts),
                "failed": str(failed) if failed else None,
                "version": __version__,
            }
        )

    def _origin(self) -> str:
        """Return the plug-in that the benchmark is from, or a digest of the code of a task of the user's own."""
        plugin = origin_of(self.task) or origin_of(self)
        return plugin if plugin or in_library(type(self.task)) else code_mark(self.task)


class TaskBenchmark(Benchmark):
    """A benchmark whose task has no arguments of its own: a subclass names the class of its task.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, or functions by name.
        datasets: Names or data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
    task_class: ClassVar[type[Task]]

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(self.task_class(), k, noisy_channel, metrics, datasets, **settings)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the data sets' scores; it is undefined (``None``) if one of them is."""
    if not values or any(value is None for value in values):
        return None
    return math.fsum(value for value in values if value is not None) / len(values)


def _read_datasets(datasets: DatasetChoice) -> Sequence[str | Dataset]:
    if datasets is None:
        return names()
    if not isinstance(datasets, (str, Dataset, Sequence)):
        raise ArgumentError(f"datasets must be names or data sets in a list, not {datasets!r}")
    chosen = [datasets] if isinstance(datasets, (str, Dataset)) else list(datasets)
    for dataset in chosen:
        if not isinstance(dataset, (str, Dataset)):
            raise ArgumentError(f"a data set is given by its name or as a Dataset, not {dataset!r}")
    if not chosen:
        raise ArgumentError("no data set was chosen; leave datasets out for all ten, or name at least one")
    return chosen
