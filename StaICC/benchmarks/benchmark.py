"""A benchmark: one task over several data sets."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from StaICC import errors, habits
from StaICC.benchmarks.experimentor import Experimentor, MetricTable
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.benchmarks.task import Statistics, Task
from StaICC.datasets.catalogue import names
from StaICC.datasets.dataset import Dataset
from StaICC.inference.replies import Unparsed
from StaICC.metrics.classification import Kind
from StaICC.metrics.metric_set import Metric, MetricFunction, MetricSet
from StaICC.metrics.statistics import Mean
from StaICC.prompting.views import AllRows
from StaICC.registry import labelled, origin_of
from StaICC.version import SAMPLER_VERSION

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.context import EarlySettings, Predictions
    from StaICC.benchmarks.evaluation import RunsByDataset
    from StaICC.benchmarks.running import Goal
    from StaICC.benchmarks.score_intervals import Intervals
    from StaICC.benchmarks.task import Outcome, Scoring
    from StaICC.inference.contract import Inference
    from StaICC.results.result import Result
    from StaICC.results.signature import Signature


Datasets = Sequence[str | Dataset] | str | Dataset | None
Metrics = str | MetricSet | Mapping[str, MetricFunction | Metric]


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


class ChannelSettings(Settings, total=False):
    """Settings of benchmarks that take the channel by keyword only."""

    noisy_channel: bool
    """Score the text given the label (noisy channel)."""


class ScoringSettings(ChannelSettings, total=False):
    """Settings of benchmarks that take the metrics, too, by keyword only."""

    metrics: Metrics
    """Metric set by name, or functions by name."""


class Benchmark(BaseBenchmark[Experimentor]):
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

    __slots__ = ("_datasets", "_settings", "metrics", "task")
    task_name: ClassVar[str]
    """The name that results carry."""

    def __init__(
        self,
        task: Task,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make an experimentor for each data set. Data sets whose names differ in case only are refused."""
        _refuse_unknown_settings(type(self).__name__, settings)
        _refuse_other_argument_as_k(type(self).__name__, k)
        self.task = task
        self.metrics = MetricTable(metrics)
        self._settings = settings
        self.experimentor = self._make(_read_datasets(datasets), k, noisy_channel)
        self._datasets = [experimentor.dataset for experimentor in self.experimentor]
        for first, second in combinations(self.dataset_names, 2):
            if first.casefold() == second.casefold():
                raise errors.ArgumentError(f"datasets: got {first!r} and {second!r}, expected each once, case ignored")

    def _make(self, datasets: Sequence[str | Dataset], k: int, noisy_channel: bool) -> list[Experimentor]:
        """Return one experimentor for each data set, with the common settings of the benchmark."""
        common: dict[str, Any] = {"k": k, "noisy_channel": noisy_channel, "metrics": self.metrics, **self._settings}
        return [Experimentor(dataset, self.task, **common) for dataset in datasets]

    @property
    def noisy_channel(self) -> bool:
        """Whether the text is scored given the label; :meth:`re_initialize` changes it."""
        return self.experimentor[0].starts_noisy

    def re_initialize(self, k: int = 4, noisy_channel: bool = False, keep_prompter: bool = False) -> None:
        """Make a new experimentor for each data set, with other settings.

        Args:
            k: Demonstrations per prompt.
            noisy_channel: Score the text given the label (noisy channel).
            keep_prompter: Keep the prompt writers with their changes.
        """
        old_experimentors = {experimentor.name: experimentor for experimentor in self.experimentor}
        self.experimentor = self._make(self._datasets, k, noisy_channel)
        if not keep_prompter:
            return
        for experimentor in self.experimentor:
            if experimentor.name in old_experimentors:
                experimentor.prompt_former = old_experimentors[experimentor.name].prompt_former

    @property
    def _original_data(self) -> list[AllRows]:
        """All rows of each data set with which the benchmark was made. StaICC 0.1.1 has this attribute."""
        return [AllRows(dataset) for dataset in self._datasets]

    def get_experiment_data(self) -> list[Any]:
        """Return the split of each data set."""
        return [experimentor.triplet_dataset for experimentor in self.experimentor]

    @property
    def benchmark_name(self) -> str:
        """The name in results and messages."""
        return self.task.name

    def own_data(self) -> Sequence[Dataset]:
        """Return the data sets whose origin results record if it is a file of the user's own."""
        return [experimentor.dataset for experimentor in self.experimentor]

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets."""
        from StaICC.benchmarks.data_warnings import data_warnings

        return data_warnings(self.experimentor)

    def run_to_precision(self, goal: Goal, functions: Sequence[Inference], settings: EarlySettings) -> Result:
        """Run until half the width of the interval of a score is at most ``goal.precision``.

        Args:
            goal: The precision, and the score.
            functions: The inference function of each data set.
            settings: The settings of the run.
        """
        from StaICC.benchmarks.race import StoppingRule, run_early  # few runs stop early

        rule = StoppingRule.for_experimentors("precision", goal.precision, goal.score, self.experimentor)
        context, results = run_early(self, rule, [functions], settings)
        return context.deliver(results[0])

    def collect(self, runs: RunsByDataset, *arguments: Any, **settings: Any) -> Result:
        """Build the result of the runs over all data sets.

        In addition to the base class, it adds two things for each metric of the user's own: whether higher values are
        better, and, if the metric is a mean over queries, the score of each query with its range.

        The arguments are those of :meth:`~StaICC.benchmarks.running.BaseBenchmark.collect`.
        """
        from StaICC.results.details import QueryScores

        result = super().collect(runs, *arguments, **settings)
        metric_set = self.metrics.metric_set
        higher_is_better = {}
        for metric in metric_set.metrics:
            if metric.of_library:
                continue
            higher_is_better[metric.name] = metric.higher_is_better
            if isinstance(metric.statistic, Mean) and not metric_set.as_released:
                low, high = metric.statistic.range(0)  # That of a mean does not depend on the number of labels.
                scores = _query_scores(runs, metric.statistic)
                result.query_scores[metric.name] = QueryScores(low, high, scores)
        result.higher_is_better = higher_is_better
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values.

        Results save the arguments, and verification makes the benchmark from them again. Some settings cannot be
        described by arguments, because the user changed them by hand, or because they differ between the data sets.
        ``changed`` lists the names of these settings.
        """
        by_dataset = [experimentor.arguments() for experimentor in self.experimentor]
        options = {}
        for key, value in self.task.options().items():
            options[key] = value if isinstance(value, (int, str)) else str(value)
        return {
            "datasets": self.dataset_names,
            **by_dataset[0],
            "options": options,
            "changed": self._changed_settings(by_dataset),
        }

    def _changed_settings(self, by_dataset: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the names of the settings that arguments cannot describe, each once.

        Args:
            by_dataset: The arguments of each data set. Their ``changed`` names what the user changed by hand.
        """
        names = []
        for arguments in by_dataset:
            names += arguments["changed"]
        if any(experimentor.task != self.task for experimentor in self.experimentor):
            names.append("task")
        first = by_dataset[0]
        for name in sorted(first):
            if name == "changed":
                continue
            differs_between_datasets = any(arguments[name] != first[name] for arguments in by_dataset)
            if differs_between_datasets:
                names.append(name)
        return list(dict.fromkeys(names))

    def signature(self, runs: RunsByDataset | None = None, predictions: Predictions | None = None) -> Signature:
        """Return the signature: every setting that can change a score of this benchmark.

        Args:
            runs: The runs over the data sets, which have the digests of their prompts. ``None`` before a run: the
                prompts are then written to compute their digests.
            predictions: The provenance of the predictions. ``None`` before a run: the signature then has no
                ``scoring``.
        """
        from StaICC.results.signature import Signature, common, short_digest

        settings_by_dataset = [experimentor.settings_for_signature() for experimentor in self.experimentor]
        fields: dict[str, str | None] = {}
        for key in settings_by_dataset[0]:
            fields[key] = common([settings[key] for settings in settings_by_dataset])
        # A data set with fewer rows than the limit has the limit None. All other data sets have the same limit.
        fields["limit"] = None
        for settings in settings_by_dataset:
            if settings["limit"] is not None:
                fields["limit"] = settings["limit"]

        data = []
        for experimentor in self.experimentor:
            data.append([experimentor.dataset.table.digest, list(experimentor.card.label_space)])
        options = [f"{key}={value}" for key, value in self.task.options().items()]
        fields["benchmark"] = labelled(self.task.name, self._origin())
        fields["datasets"] = self._datasets_field()
        fields["data"] = short_digest(data)
        fields["sampler"] = SAMPLER_VERSION
        fields["options"] = ",".join(options) or None
        fields.update(self.common_fields(runs, predictions))
        return Signature(fields)

    def _datasets_field(self) -> str | None:
        """Return the names of the data sets for the signature, with those of their plug-ins; ``None`` for the ten."""
        from StaICC.results.signature import escaped

        if tuple(self.dataset_names) == names():
            return None
        labels = []
        for experimentor in self.experimentor:
            labels.append(labelled(escaped(experimentor.name), experimentor.dataset.origin))
        return "+".join(labels)

    def _origin(self) -> str:
        """Return the origin of the code of the benchmark, for the signature.

        The origin of a plug-in is its name. The origin of a task of the user's own is a digest of its code. The origin
        of a benchmark of this library is empty.
        """
        from StaICC.inference.identity import code_mark, in_library

        plugin = origin_of(self.task) or origin_of(self)
        if plugin or in_library(type(self.task)):
            return plugin
        return code_mark(self.task)


def _refuse_unknown_settings(benchmark: str, settings: Mapping[str, object]) -> None:
    """Raise a TypeError if a keyword argument of a benchmark is not one of the common settings.

    Args:
        benchmark: The name of the class, for the message.
        settings: The keyword arguments.
    """
    for name in settings:
        if name not in Settings.__annotations__:
            known = ["k", "noisy_channel", "metrics", "datasets", *Settings.__annotations__]
            hint = habits.ARGUMENTS_OF_BENCHMARKS.get(name, "The benchmark may have further arguments.")
            raise TypeError(str(errors.unknown_name(f"argument of {benchmark}", name, known, hint)))


def _refuse_other_argument_as_k(benchmark: str, k: object) -> None:
    """Raise an ArgumentError if the first argument of a benchmark is an inference function, or data sets.

    The first argument is ``k``, the number of demonstrations.

    Args:
        benchmark: The name of the class, for the message.
        k: The first argument.
    """
    if isinstance(k, str):
        with contextlib.suppress(ValueError):
            int(k)
            return  # A number in quotes, for which the check of the experimentor has advice.
    if callable(k):
        usage = f"{benchmark}()(function)"
    elif isinstance(k, (str, list, tuple, Dataset)):
        usage = f"{benchmark}(datasets=[...])"
    else:
        return  # It may be a number, which the experimentor checks.
    raise errors.ArgumentError(
        f"k must be an integer of at least 0, not {k!r:.60}. For data sets or a function, write {usage}"
    )


def _query_scores(runs: RunsByDataset, mean: Mean) -> dict[str, dict[str, tuple[float | None, ...] | None]]:
    """Return the score of each query by a metric, by data set and condition. The mean of the scores is the metric.

    A query without a prediction has the score ``None``. A condition on which the metric is undefined has ``None``
    instead of a list of scores.

    Args:
        runs: The run over each data set, by name.
        mean: The metric, which is a mean over queries.
    """
    scores = {}
    for name, run in runs.items():
        scores_by_condition = {}
        for outcome in run.outcomes:
            scores_by_condition[outcome.condition.name] = outcome.query_scores(mean)
        scores[name] = scores_by_condition
    return scores


class TaskBenchmark(Benchmark):
    """A benchmark whose task has no arguments of its own.

    A subclass names the class of its task in ``task_class``.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, or functions by name.
        datasets: Names or data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    task_class: ClassVar[type[Task]]

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the benchmark with a task of the class that the subclass names."""
        super().__init__(self.task_class(), k, noisy_channel, metrics, datasets, **settings)


def _read_datasets(datasets: Datasets) -> Sequence[str | Dataset]:
    """Return the data sets of a benchmark as a list of names and data sets.

    Args:
        datasets: The argument of the benchmark. ``None``: the ten data sets.

    Raises:
        ArgumentError: The argument is something else than names or data sets.
    """
    if datasets is None:
        return names()
    if isinstance(datasets, (str, Dataset)):
        return [datasets]
    if isinstance(datasets, Sequence) and len(datasets) > 0:
        listed = list(datasets)
        if all(isinstance(dataset, (str, Dataset)) for dataset in listed):
            return listed
    raise errors.ArgumentError(
        f"datasets: got {datasets!r:.80}, expected a name, a Dataset, or a list of these; leave it out for all ten"
    )


NO_PREDICTIONS = "no query has a prediction"
"""Why all scores of a condition without predictions are undefined."""


def classification_scores(outcome: Outcome, metric_set: MetricSet) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the metrics of an outcome.

    Args:
        outcome: The condition with its predictions.
        metric_set: The metrics.

    Returns:
        The value of each metric by its name, ``None`` if it is undefined, and the reason for each undefined one.
    """
    if not outcome.queries:
        metric_names = [metric.name for metric in metric_set.metrics]
        return dict.fromkeys(metric_names), dict.fromkeys(metric_names, NO_PREDICTIONS)
    normalised = None if metric_set.as_released else outcome.normalised
    scores = metric_set.score(outcome.truth, outcome.rows, outcome.outputs, outcome.hard, normalised)
    values = {}
    missing = {}
    for name, score in scores.items():
        values[name] = score.value
        if score.reason is not None:
            missing[name] = score.reason
    return values, missing


def condition_missing(condition: str, missing: dict[str, str]) -> dict[str, str]:
    """Return the reasons for undefined metrics of one condition, by ``condition.metric``.

    Args:
        condition: The name of the condition.
        missing: The reasons, by the name of the metric.
    """
    return {f"{condition}.{name}": reason for name, reason in missing.items()}


def condition_intervals(outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
    """Return the intervals of the metrics of each condition.

    Args:
        outcomes: The outcome of each condition.
        scoring: How the task scores.

    Returns:
        The intervals by key: the name of the condition and of the metric, joined by a dot.
    """
    from StaICC.benchmarks.score_intervals import score_intervals

    intervals = {}
    for outcome in outcomes:
        of_condition = score_intervals(outcome, scoring.metric_set.statistics, scoring.statistics.level)
        for metric, interval in of_condition.items():
            intervals[f"{outcome.condition.name}.{metric}"] = interval
    return intervals
