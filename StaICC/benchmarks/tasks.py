"""A benchmark (one task over several data sets), groups, and those of StaICC-Normal and StaICC-Diagnosis by name.

The parts of StaICC share many prompts: Normal, posterior bias and GLER without noise have the same queries. A group
collects the queries of all its members, data set by data set, and predicts each distinct (prompt, label space) once;
prompts with a common prefix follow each other. The parts of its result equal the results of its members.

StaICC-Normal is the published benchmark of in-context classification (Cho and Inoue 2025, arXiv 2501.15708, section
3.2). Each of 512 test rows of ten data sets is used twice, with other demonstrations each time. Scores: accuracy,
averaged true-label likelihood, macro F1, and expected calibration error (ECE-1, 10 bins), per data set and as means.

StaICC-Diagnosis measures bias (does the model prefer a label independent of the query?):

* Contextual bias (Zhao et al. 2021, arXiv 2102.09690): the query is empty.
* Domain bias (Fei et al. 2023, arXiv 2305.19148): the query is random words of the demonstrations.
* Posterior bias, the paper's "empirical bias": the queries of StaICC-Normal; how far the averaged prediction is from
  the frequencies of the true labels.

``entropy`` is the score of the README, the entropy of the averaged prediction; ``contextual_bias`` and ``domain_bias``
are the paper's (Eq. 2), minus the average entropy of the single predictions. ``DL div.`` is the release's name of the
divergence that the paper calls ``empirical_bias`` (Eq. 3).

It also measures robustness against irrelevant changes of the prompt:

* GLER (Yoo et al. 2022, arXiv 2205.12685): the slope of accuracy over the share of correct demonstration labels.
* Template sensitivity: nine templates, an orthogonal array of instruction, input prefix, label prefix, label affix.
* Demonstration sensitivity: eight lists of demonstrations for the same query.

The latter two report consistency: per query the share of its most frequent predicted label, averaged over queries.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict

from StaICC import errors
from StaICC.benchmarks import evaluation
from StaICC.benchmarks.evaluation import DatasetRun, Intervals, RunsByDataset
from StaICC.benchmarks.experimentor import Experimentor, MetricTable, data_warnings, run_together
from StaICC.benchmarks.running import BaseBenchmark, EarlySettings, Goal, Predictions, RunContext, RunSettings, forecast
from StaICC.benchmarks.task import Condition, Outcome, Scores, Scoring, Statistics, Task, TaskInput
from StaICC.datasets import Card, Dataset, names
from StaICC.inference import Inference, Part, Unparsed
from StaICC.inference.contract import Forecast
from StaICC.inference.identity import code_mark, in_library
from StaICC.layout import Block, Displayed, Line
from StaICC.metrics import Kind, Metric, MetricFunction, MetricSet, diagnosis, metric_set, released
from StaICC.metrics.registry import STATISTICS, Mean
from StaICC.prompting import PromptSettings, Query, StableRandom, SubsetView, prompt_writer
from StaICC.registry import Registry, callable_entry, fold, labelled, origin_of
from StaICC.results import Result, ResultGroup, Signature, escaped, short_digest
from StaICC.results.provenance import QueryScores, common
from StaICC.results.result import SWEEPS
from StaICC.safe_text import one_line
from StaICC.version import SAMPLER_VERSION

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
        **settings: See :class:`~StaICC.benchmarks.tasks.Settings`.

    Attributes:
        experimentor: One experimentor for each data set, in order.
        task: The task.
        metrics: The metric functions by name, which the experimentors share. Assigning an item adds or replaces a
            metric.
    """

    __slots__ = ("_settings", "metrics", "task")
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
        for unknown in [name for name in settings if name not in Settings.__annotations__]:
            kind = f"argument of {type(self).__name__}"
            known = ["k", "noisy_channel", "metrics", "datasets", *Settings.__annotations__]
            raise TypeError(str(errors.unknown_name(kind, unknown, known, "The benchmark may have further arguments.")))
        if callable(k) or isinstance(k, (str, list, tuple, Dataset)):
            name = type(self).__name__
            use = f"{name}()(function)" if callable(k) else f"{name}(datasets=[...])"
            raise errors.ArgumentError(
                f"k must be an integer of at least 0, not {k!r:.60}. For data sets or a function, write {use}"
            )
        self.task = task
        self.metrics = MetricTable(metrics)
        self._settings = settings
        self.experimentor = self._make(_read_datasets(datasets), k, noisy_channel)
        for first, second in combinations(self.dataset_names, 2):
            if first.casefold() == second.casefold():
                raise errors.ArgumentError(f"datasets: got {first!r} and {second!r}, expected each once, case ignored")

    def _make(self, datasets: Sequence[str | Dataset], k: int, noisy_channel: bool) -> list[Experimentor]:
        common: dict[str, Any] = {"k": k, "noisy_channel": noisy_channel, "metrics": self.metrics, **self._settings}
        return [Experimentor(dataset, self.task, **common) for dataset in datasets]

    @property
    def noisy_channel(self) -> bool:
        """Whether the text is scored given the label; :meth:`re_initialize` changes it."""
        return self.experimentor[0].starts_noisy

    def re_initialize(self, k: int = 4, noisy_channel: bool = False, keep_prompter: bool = False) -> None:
        """Build the experimentors again.

        Args:
            k: Demonstrations per prompt.
            noisy_channel: Score the text given the label (noisy channel).
            keep_prompter: Keep the prompt writers with their changes.
        """
        before = self.experimentor
        self.experimentor = self._make([experimentor.dataset for experimentor in before], k, noisy_channel)
        if keep_prompter:
            for old, new in zip(before, self.experimentor, strict=True):
                new.prompt_former = old.prompt_former

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
        return data_warnings(self.experimentor)

    def run_to_precision(self, goal: Goal, functions: Sequence[Inference], settings: EarlySettings) -> Result:
        """Run until half the width of the interval of a score is at most ``precision``; arguments as for a run."""
        from StaICC.benchmarks.race import StoppingRule, run_early  # few runs stop early

        rule = StoppingRule.for_experimentors("precision", *goal, self.experimentor)
        context, (result,) = run_early(self, rule, [functions], settings)
        return context.deliver(result)

    def collect(self, runs: RunsByDataset, *arguments: Any, **settings: Any) -> Result:
        """Build the result; arguments as for :meth:`~StaICC.benchmarks.running.BaseBenchmark.collect`."""
        result = super().collect(runs, *arguments, **settings)
        metrics = self.metrics.metric_set
        own = [metric for metric in metrics.metrics if not metric.of_library]
        result.higher_is_better = {metric.name: metric.higher_is_better for metric in own}
        for metric in () if metrics.as_released else own:
            if isinstance(mean := metric.statistic, Mean):
                values = {
                    name: {at.condition.name: at.query_scores(mean) for at in runs[name].outcomes} for name in runs
                }
                result.query_scores[metric.name] = QueryScores(*mean.range(0), values)
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them.

        ``changed`` names what they do not say: settings that the user changed, or that differ between data sets.
        """
        of_datasets = [experimentor.arguments() for experimentor in self.experimentor]
        first = of_datasets[0]
        by_hand = [name for arguments in of_datasets for name in arguments["changed"]]
        differ = [key for key in first.keys() - {"changed"} if any(other[key] != first[key] for other in of_datasets)]
        options = {
            key: value if isinstance(value, (int, str)) else str(value) for key, value in self.task.options().items()
        }
        own = {"options": options, "changed": list(dict.fromkeys([*by_hand, *sorted(differ)]))}
        return {"datasets": self.dataset_names, **first, **own}

    def signature(self, runs: RunsByDataset | None = None, predictions: Predictions | None = None) -> Signature:
        """Return every setting that can change a number of this benchmark; arguments as for the base class."""
        all_settings = [experimentor.settings_for_signature() for experimentor in self.experimentor]
        fields = {key: common([settings[key] for settings in all_settings]) for key in all_settings[0]}
        # Data sets with fewer rows than the limit have none.
        fields["limit"] = next((settings["limit"] for settings in all_settings if settings["limit"] is not None), None)
        tables = [[own.dataset.table.digest, list(own.card.label_space)] for own in self.experimentor]
        options = ",".join(f"{key}={value}" for key, value in self.task.options().items())
        datasets = "+".join(labelled(escaped(own.name), own.dataset.origin) for own in self.experimentor)
        return Signature(
            {
                **fields,
                "benchmark": labelled(self.task.name, self._origin()),
                "datasets": None if tuple(self.dataset_names) == names() else datasets,
                "data": short_digest(tables),
                "sampler": SAMPLER_VERSION,
                "options": options or None,
                **self.common_fields(runs, predictions),
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
        **settings: See :class:`~StaICC.benchmarks.tasks.Settings`.
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
        super().__init__(self.task_class(), k, noisy_channel, metrics, datasets, **settings)


def _read_datasets(datasets: Datasets) -> Sequence[str | Dataset]:
    if datasets is None:
        return names()
    listed = [datasets] if isinstance(datasets, (str, Dataset)) else datasets
    chosen = list(listed) if isinstance(listed, Sequence) else []
    if not chosen or not all(isinstance(dataset, (str, Dataset)) for dataset in chosen):
        raise errors.ArgumentError(
            f"datasets: got {datasets!r:.80}, expected a name, a Dataset, or a list of these; leave it out for all ten"
        )
    return chosen


class BenchmarkGroup(Displayed, errors.FixedAttributes):
    """Benchmarks that run together.

    Args:
        name: Name of the group.
        members: The benchmarks, by the name of their part; all over the same data sets.

    Raises:
        ArgumentError: There are no members, or they run over different data sets.

    Attributes:
        members: The benchmarks.
    """

    __slots__ = ("members", "name")
    task_name: ClassVar[str] = ""
    """The name of the groups of a class whose constructor says which members they have; results carry it."""

    def __init__(self, name: str, members: Mapping[str, Benchmark]) -> None:
        self.name, self.members = name, dict(members)
        if name in SWEEPS:
            raise errors.ArgumentError(f"name: got {name!r}, the name of another kind of results. Choose another one")
        if not members:
            raise errors.ArgumentError(f"the group {name!r} has no members; give at least one benchmark")
        over: dict[str, list[str]] = {}
        for part, member in self.members.items():
            if not isinstance(member, Benchmark):
                raise errors.ArgumentError(f"the member {part!r} of {name!r}: got {member!r:.60}, expected a benchmark")
            over[part] = member.dataset_names
            if len(set(map(tuple, over.values()))) > 1:
                got = "; ".join(f"{part} has {', '.join(datasets)}" for part, datasets in over.items())
                raise errors.ArgumentError(f"the members of {name!r} must run over the same data sets, but {got}")

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __getitem__(self, part: str) -> Benchmark:
        """Return a member by the name of its part."""
        return self.members[errors.known_name(f"part of {self.name}", part, self.members)]

    def __repr__(self) -> str:
        return one_line(f"<{self.name}: {', '.join(self.members)}>")

    def display_blocks(self) -> list[Block]:
        """Return the benchmarks, and the data sets that they share."""
        _, datasets = next(iter(self.members.values())).display_blocks()
        return [Line(self.name, "title"), Line(f"benchmarks: {', '.join(self.members)}"), datasets]

    def auto_run(
        self,
        list_of_forward_inference: Sequence[Inference] | Inference | None = None,
        return_divided_results: bool = True,
        batched_inference: bool = False,
        *,
        forward_inference: Sequence[Inference] | Inference | None = None,
        return_outputs: bool = False,
        **run: Unpack[RunSettings],
    ) -> ResultGroup:
        """Run all members.

        Args:
            list_of_forward_inference: One inference function for all data sets, or a list with one for each.
            return_divided_results: Whether the dictionaries show the scores of each data set.
            batched_inference: The functions take the list of all prompts of a condition; equal prompts of several
                conditions are then predicted several times.
            forward_inference: Another name of ``list_of_forward_inference``.
            return_outputs: Keep the prediction of each query in the results' ``outputs``.
            **run: Store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The results, by part. The times and counts of each are those of the complete run.

        Raises:
            ArgumentError: An argument is invalid.
            OutputError: A query has no usable prediction and ``on_error="raise"``.
        """
        first = next(iter(self.members.values()))
        functions = first.functions_for_datasets(first.given_functions(list_of_forward_inference, forward_inference))
        runs: list[list[DatasetRun]] = []
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.warn(*data_warnings(experimentor for member in self.members.values() for experimentor in member))
            for number, function in enumerate(functions):
                where = Part(f"{self.name}, {first[number].name}", number, len(functions))
                experimentors = {f"{where.name}, {part}": member[number] for part, member in self.members.items()}
                options = context.options_for(function, group_prefixes=True)
                runs.append(run_together(function, experimentors, where, options))
        datasets = first.dataset_names
        predictions = context.predictions(dict(zip(datasets, functions, strict=True)))
        settings = predictions, return_outputs, return_divided_results
        results = {
            part: member.collect(dict(zip(datasets, own, strict=True)), *settings)
            for (part, member), own in zip(self.members.items(), zip(*runs, strict=True), strict=True)
        }
        return context.deliver(ResultGroup(self.name, results))

    __call__ = auto_run

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: as for a single benchmark, with each distinct prompt once."""
        parts = zip(*self.members.values(), strict=True)  # by data set
        queries = [[query for experimentor in part for query in experimentor.all_queries()] for part in parts]
        return forecast(queries, function, True, **options)


def members(benchmark: Benchmark | BenchmarkGroup) -> dict[str, Benchmark]:
    """Return the single benchmarks, by the name of their part (a single benchmark by its own name).

    Args:
        benchmark: A benchmark or a group of benchmarks.
    """
    return benchmark.members if isinstance(benchmark, BenchmarkGroup) else {benchmark.task.name: benchmark}


NO_PREDICTIONS = "no query has a prediction"


def attempt(missing: dict[str, str], key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compute a value that may be undefined.

    Args:
        missing: The reason is added to it under the key.
        key: Name of the value.
        function: Computes the value.
        arguments: The arguments of the function.

    Returns:
        The value; ``None`` if it is undefined or not finite.
    """
    try:
        value = function(*arguments)
    except errors.UndefinedMetricError as error:
        missing[key] = str(error)
        return None
    if not all(map(math.isfinite, value if isinstance(value, list) else [value])):
        missing[key] = f"the value is {value}"
        return None
    return value


def classification_scores(outcome: Outcome, metric_set: MetricSet) -> tuple[dict[str, Any], dict[str, str]]:
    """Score an outcome with the metrics of a set.

    Returns:
        Values by metric (``None`` where undefined), and the reasons for undefined ones.
    """
    if not outcome.queries:
        names = [metric.name for metric in metric_set.metrics]
        return dict.fromkeys(names), dict.fromkeys(names, NO_PREDICTIONS)
    normalised = None if metric_set.as_released else outcome.normalised
    scores = metric_set.score(outcome.truth, outcome.rows, outcome.outputs, outcome.hard, normalised)
    missing = {name: score.reason for name, score in scores.items() if score.reason is not None}
    return {name: score.value for name, score in scores.items()}, missing


def condition_missing(condition: str, missing: dict[str, str]) -> dict[str, str]:
    """Prefix the reasons of one condition with its name."""
    return {f"{condition}.{name}": reason for name, reason in missing.items()}


@dataclass(frozen=True, slots=True)
class NormalTask(Task):
    """Predicts with the unchanged prompts and scores the classification."""

    name: ClassVar[str] = "Normal"
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    row_scores: ClassVar[Sequence[str]] = ("accuracy", "averaged_truelabel_likelihood")

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the one condition."""
        return [Condition("normal", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Score the one outcome."""
        values, missing = classification_scores(outcomes[0], scoring.metric_set)
        return Scores(values, values, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of the metrics."""
        return evaluation.score_intervals(outcomes[0], scoring.metric_set.statistics, scoring.statistics.level)


class Normal(TaskBenchmark):
    """StaICC-Normal over the ten data sets.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel); the prompt is a list with one text for each
            label.
        metrics: ``"standard"``, ``"0.1.1"`` (the release bug for bug), or functions by name.
        datasets: Names of data sets (or data sets of your own); the ten by default.
        limit: The maximum number of test rows per data set.
        outputs: Read rows of numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides once for each data set.
        statistics: Options of the confidence intervals and random baselines.

    Example:
        >>> def always_first(prompt, label_space):
        ...     return 0
        >>> result = Normal(datasets=["mini"])(always_first)
        >>> round(result["Averaged results"]["accuracy"], 2)
        0.26
    """

    task_name = NormalTask.name
    task_class = NormalTask


_Released = Callable[[Sequence[int], Sequence[Sequence[float]]], Any]
"""A function of true labels and rows."""


def _bias(outcome: Outcome, key: str) -> Any:
    """Return a score of the mean prediction, or this prediction itself."""
    probabilities = outcome.normalised.probabilities if outcome.queries else None
    if probabilities is None:
        raise errors.UndefinedMetricError((outcome.queries and outcome.normalised.reason) or NO_PREDICTIONS)
    if key == "distribution":
        return diagnosis.mean_distribution(probabilities)
    predictions = outcome.read(STATISTICS[key])
    if predictions is None:
        raise errors.UndefinedMetricError("the predictions are bare labels, which have no entropy")
    return STATISTICS[key].value(outcome.sample, predictions)


class _BiasTask(Task, Protocol):
    """Reports two scores of the mean prediction, and the mean prediction itself."""

    score_keys: ClassVar[tuple[str, ...]]
    """The score of 0.1.1, and that of the paper."""

    released_functions: ClassVar[tuple[_Released, _Released]]
    """The score and the mean prediction of 0.1.1."""

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the score of the README, the mean prediction, and the paper's score."""
        (outcome,), missing = outcomes, dict[str, str]()
        key, *others = self.score_keys
        if scoring.metric_set.as_released:
            places = zip((key, "distribution"), self.released_functions, strict=True)
            values = {at: attempt(missing, at, function, outcome.truth, outcome.rows) for at, function in places}
            return Scores(values, {key: values[key], "distribution": 0.0}, missing)  # 0.1.1's mean of distributions
        values = {at: attempt(missing, at, _bias, outcome, at) for at in (key, "distribution", *others)}
        # Label spaces differ, so there is no mean distribution over data sets.
        return Scores(values, {key: values[key] for key in self.score_keys}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of both scores; bare labels have no entropy."""
        statistics = {key: STATISTICS[key] for key in self.score_keys}
        return evaluation.score_intervals(outcomes[0], statistics, scoring.statistics.level)


@dataclass(frozen=True, slots=True)
class _PriorBiasTask(_BiasTask):
    """Predicts queries without content, and reports the entropy of the predictions."""

    content_free: ClassVar[bool] = True
    released_functions: ClassVar[tuple[_Released, _Released]] = (
        lambda truth, rows: released.entropy_of_mean(rows),
        lambda truth, rows: released.mean_distribution(rows),
    )
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return Normal's queries with their texts replaced."""
        pseudo = self.pseudo_queries(task_input.card, task_input.split.demonstration)
        return [Condition(self.score_keys[1], task_input.queries(pseudo=pseudo))]


@dataclass(frozen=True, slots=True)
class ContextualBiasTask(_PriorBiasTask):
    """Predicts empty queries."""

    name: ClassVar[str] = "Contextual_bias"
    score_keys: ClassVar[tuple[str, ...]] = ("entropy", "contextual_bias")

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return empty queries."""
        return prompt_writer.empty_queries(len(card.template.input_text_prefixes))


@dataclass(frozen=True, slots=True)
class DomainBiasTask(_PriorBiasTask):
    """Predicts queries of random words of the demonstrations."""

    name: ClassVar[str] = "Domain_bias"
    score_keys: ClassVar[tuple[str, ...]] = ("entropy", "domain_bias")
    domain_query_length: int = prompt_writer.DOMAIN_QUERY_LENGTH

    def __post_init__(self) -> None:
        errors.set_integers(self, domain_query_length=0)

    def options(self) -> Mapping[str, Any]:
        """Return the number of words per query."""
        return {"domain_query_length": self.domain_query_length}

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return queries of random words."""
        return prompt_writer.domain_queries(demonstration_set, self.domain_query_length)


@dataclass(frozen=True, slots=True)
class PosteriorBiasTask(_BiasTask):
    """Predicts Normal's queries, and reports the divergence of the mean prediction from the label frequencies."""

    name: ClassVar[str] = "Post_bias"
    score_keys: ClassVar[tuple[str, ...]] = ("DL div.", "empirical_bias")
    released_functions: ClassVar[tuple[_Released, _Released]] = (released.divergence, released.excess_distribution)
    domain_query_length: int = prompt_writer.DOMAIN_QUERY_LENGTH
    """Accepted because 0.1.1 accepts it; without an effect."""
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return Normal's queries."""
        return [Condition("posterior_bias", task_input.queries())]


class ContextualBias(TaskBenchmark):
    """Contextual bias over the ten data sets (arguments as :class:`~StaICC.benchmarks.tasks.Normal`)."""

    task_name = ContextualBiasTask.name
    task_class = ContextualBiasTask


class _QueryLengthBenchmark(Benchmark):
    """A benchmark of bias with the parameters of 0.1.1.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words per query.
        **settings: See :class:`~StaICC.benchmarks.tasks.Settings`.
    """

    task_class: ClassVar[type[DomainBiasTask | PosteriorBiasTask]]

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        domain_query_length: int = prompt_writer.DOMAIN_QUERY_LENGTH,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(
            self.task_class(domain_query_length=domain_query_length), k, noisy_channel, metrics, datasets, **settings
        )


class DomainBias(_QueryLengthBenchmark):
    """Domain bias over the ten data sets, with queries of ``domain_query_length`` words."""

    task_name = DomainBiasTask.name
    task_class = DomainBiasTask


class PosteriorBias(_QueryLengthBenchmark):
    """Posterior (empirical) bias over the ten data sets.

    ``domain_query_length`` has no effect; it is accepted because 0.1.1 accepts it.
    """

    task_name = PosteriorBiasTask.name
    task_class = PosteriorBiasTask


L9 = ("0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210")
"""The orthogonal array L9(3^4). A row is a template: levels of instruction, input prefix, label prefix, label affix."""


@dataclass(frozen=True, slots=True)
class GLERTask(Task):
    """Predicts Normal's queries with an increasing share of wrong labels in the demonstrations."""

    name: ClassVar[str] = "GLER"
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    interpolations: int = 5

    def __post_init__(self) -> None:
        errors.set_integers(self, interpolations=2)

    def options(self) -> Mapping[str, Any]:
        """Return the number of noise rates."""
        return {"interpolations": self.interpolations}

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each rate of label noise, from 0 to 1; all conditions share one generator."""
        noise, last = StableRandom(), self.interpolations - 1
        noisy = [dataclasses.replace(task_input.settings, label_wrong_rate=step / last) for step in range(last + 1)]
        return [Condition(str(step), task_input.queries(own, noise=noise)) for step, own in enumerate(noisy)]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return each condition's metrics, and each metric's regression line on the share of correct labels."""
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            values[outcome.condition.name], reasons = classification_scores(outcome, scoring.metric_set)
            missing |= condition_missing(outcome.condition.name, reasons)
        lines: dict[str, list[float] | None] = {}
        for metric in values["0"]:
            series = [own[metric] for own in values.values()]
            lines[metric] = attempt(missing, f"sensitivity.{metric}", self._line, series, scoring)
        averaged = {metric: line[0] if line else None for metric, line in lines.items()}
        return Scores({**values, "sensitivity": lines}, averaged, missing)

    def _line(self, series: Sequence[float | None], scoring: Scoring) -> list[float]:
        """Return slope and intercept of a metric over the share of correct labels."""
        shares, known = diagnosis.noisy_label_shares(scoring.k, len(series)), [v for v in series if v is not None]
        if len(known) < len(series):
            raise errors.UndefinedMetricError("the metric is undefined at some noise rate")
        if scoring.metric_set.as_released:
            return list(released.gler(known))
        if len(set(shares)) < 2:
            raise errors.UndefinedMetricError("without demonstrations, labels cannot be wrong")
        return list(diagnosis.gler(known, shares))

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of the slopes."""
        shares = diagnosis.noisy_label_shares(scoring.k, self.interpolations)
        return evaluation.slope_intervals(outcomes, shares, scoring.metric_set.statistics, scoring.statistics.level)


def _grid(task_input: TaskInput, prompts: Sequence[PromptSettings]) -> Iterator[tuple[Query, ...]]:
    """Yield the queries of each repeat with each settings of the prompts, repeat by repeat."""
    written = [task_input.queries(settings) for settings in prompts]
    for repeat in range(task_input.repeats):
        yield from (tuple(query for query in queries if query.repeat == repeat) for queries in written)


class _ConsistencyTask(Task, Protocol):
    """Scores how often the conditions agree on a query, over the queries with a prediction in every condition."""

    def prompts(self, task_input: TaskInput) -> Sequence[PromptSettings]:
        """Return the settings of the prompts."""
        return [task_input.settings]

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each repeat and settings of the prompts."""
        cells = _grid(task_input, self.prompts(task_input))
        return [Condition(str(place), queries) for place, queries in enumerate(cells)]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the consistency over the conditions."""
        missing: dict[str, str] = {}
        value = attempt(missing, "sensitivity.consistency", _consistency, outcomes, scoring)
        return Scores({"sensitivity": {"consistency": value}}, {"consistency": value}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval of the consistency."""
        return evaluation.consistency_intervals(outcomes, scoring.statistics.level)


def _consistency(outcomes: Sequence[Outcome], scoring: Scoring) -> float:
    if len(outcomes) < 2:
        raise errors.UndefinedMetricError(
            "there is only one condition to compare (demonstrations set by hand give one list for each query)"
        )
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    complete = [[label for label in labels if label is not None] for labels in by_query if None not in labels]
    if not complete:
        raise errors.UndefinedMetricError("no query has a prediction in every condition")
    if scoring.metric_set.as_released and len(complete) == len(outcomes[0].answers):
        return released.consistency([row for outcome in outcomes for row in outcome.rows], len(complete))
    return diagnosis.consistency(complete)


@dataclass(frozen=True, slots=True)
class TemplateSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with nine templates."""

    name: ClassVar[str] = "Template_sens"
    test_rows: int | None = 100
    repeats: int = 1

    def prompts(self, task_input: TaskInput) -> Sequence[PromptSettings]:
        """Return the settings with each template of the orthogonal array."""
        return [template_of_levels(task_input, levels) for levels in L9]


def template_of_levels(task_input: TaskInput, levels: str) -> PromptSettings:
    """Return the settings with the template of one row of the array."""
    alternatives = task_input.card.alternatives
    if alternatives is None:
        raise errors.ArgumentError(
            f"the card of {task_input.card.name} has no alternative templates, which template sensitivity needs; give "
            "its card 'alternatives' (three levels of instruction, input prefixes, label prefix, label affix)"
        )
    factors = [factor.name for factor in dataclasses.fields(alternatives)]
    chosen = {name: getattr(alternatives, name)[int(level)] for name, level in zip(factors, levels, strict=True)}
    settings = task_input.settings
    return dataclasses.replace(settings, template=dataclasses.replace(settings.template, **chosen))


@dataclass(frozen=True, slots=True)
class DemonstrationSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with eight lists of demonstrations."""

    name: ClassVar[str] = "Demo_sens"
    test_rows: int | None = 128
    repeats: int = 8


_GENERALISATION_ROWS = 128


@dataclass(frozen=True, slots=True)
class GeneralisationTask(Task):
    """Predicts the same queries with every pair of a list of demonstrations and a template, and scores the accuracy."""

    name: ClassVar[str] = "Generalisation"
    test_rows: int | None = _GENERALISATION_ROWS
    scores_accuracy: ClassVar[bool] = True
    draws: int = 4
    templates: int = 3

    def __post_init__(self) -> None:
        errors.set_integers(self, draws=2)
        object.__setattr__(self, "templates", errors.validate_integer("templates", self.templates, 2, len(L9)))

    @property
    def repeats(self) -> int:
        """How many lists of demonstrations there are."""
        return self.draws

    def options(self) -> Mapping[str, Any]:
        """Return the numbers of draws and of templates, and of test rows if there can be more than by default."""
        more = {} if self.test_rows == _GENERALISATION_ROWS else {"rows": self.test_rows}
        return {"draws": self.draws, "templates": self.templates, **more}

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each draw and template, draw by draw.

        Raises:
            ArgumentError: The test rows of a draw have different demonstrations: draws are then no factor.
        """
        lists, rows = task_input.demonstration_lists, len(task_input.split.test)
        if task_input.repeats < 2 or any(lists[place] != lists[place - place % rows] for place in range(len(lists))):
            raise errors.ArgumentError(
                f"{self.name}: got other demonstrations for each test row, or one draw, expected "
                f"{self.draws} lists that all test rows share (sampler='nested-shared', the default)"
            )
        chosen = [template_of_levels(task_input, L9[place]) for place in _TEMPLATE_ORDER[: self.templates]]
        cells = [f"draw{draw + 1}-template{n + 1}" for draw in range(self.draws) for n in range(self.templates)]
        return [*map(Condition, cells, _grid(task_input, chosen))]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the accuracy over the queries of all conditions."""
        values, missing = classification_scores(_pooled(outcomes), metric_set("accuracy"))
        return Scores(values, values, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval over test rows, with draws and templates fixed."""
        statistics = {"accuracy": STATISTICS["accuracy"]}
        return evaluation.score_intervals(_pooled(outcomes), statistics, scoring.statistics.level)


_TEMPLATE_ORDER = (0, 3, 7, 1, 2, 4, 5, 6, 8)
"""Templates in the order in which they are used: the first three have all instructions, and no level three times."""


def _pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the queries of all conditions as one."""
    queries = [query for outcome in outcomes for query in outcome.condition.queries]
    return Outcome(Condition("all", queries), [a for outcome in outcomes for a in outcome.given], outcomes[0].outputs)


class GLER(Benchmark):
    """Sensitivity to label noise over the ten data sets.

    ``Averaged results`` holds the slopes: the change of each metric from no correct label to all correct labels.

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set, or functions by name.
        datasets: Data sets; the ten by default.
        interpolations: Number of noise rates, from 0 to 1 in equal steps.
        **settings: See :class:`~StaICC.benchmarks.tasks.ChannelSettings`.
    """

    task_name = GLERTask.name

    def __init__(
        self,
        k: int = 4,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        interpolations: int = 5,
        **settings: Unpack[ChannelSettings],
    ) -> None:
        super().__init__(GLERTask(interpolations=interpolations), k, metrics=metrics, datasets=datasets, **settings)


class TemplateSensitivity(Benchmark):
    """Consistency over nine templates on the ten data sets (100 test rows each).

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.tasks.ChannelSettings`.
    """

    task_name = TemplateSensitivityTask.name

    def __init__(
        self, k: int = 4, metrics: Metrics = "standard", datasets: Datasets = None, **settings: Unpack[ChannelSettings]
    ) -> None:
        super().__init__(TemplateSensitivityTask(), k, metrics=metrics, datasets=datasets, **settings)


class DemonstrationSensitivity(Benchmark):
    """Consistency over eight lists of demonstrations on the ten data sets (128 test rows each).

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.tasks.ScoringSettings`.
    """

    task_name = DemonstrationSensitivityTask.name

    def __init__(self, k: int = 4, datasets: Datasets = None, **settings: Unpack[ScoringSettings]) -> None:
        super().__init__(DemonstrationSensitivityTask(), k, datasets=datasets, **settings)


class Generalisation(Benchmark):
    """Accuracy over draws of demonstrations x templates, with their variance components, on the ten data sets.

    128 test rows each, or more with a larger ``limit``, and by default 4 x 3 prompts for a row: a draw is one list of
    demonstrations for all rows.
    :func:`~StaICC.results.generalisation.variance_components` reads the result.

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        draws: Number of lists of demonstrations.
        templates: Number of templates, at most nine, those of template sensitivity.
        **settings: See :class:`~StaICC.benchmarks.tasks.ScoringSettings`; ``sampler`` is ``"nested-shared"``.
    """

    task_name = GeneralisationTask.name

    def __init__(
        self,
        k: int = 4,
        datasets: Datasets = None,
        draws: int = 4,
        templates: int = 3,
        **settings: Unpack[ScoringSettings],
    ) -> None:
        settings.setdefault("sampler", "nested-shared")
        limit = settings.get("limit")
        rows = max(_GENERALISATION_ROWS, limit if isinstance(limit, int) else 0)
        super().__init__(GeneralisationTask(rows, draws, templates), k, datasets=datasets, **settings)


class TripletBias(BenchmarkGroup):
    """Contextual, domain and posterior bias in one pass (parts ``contextual``, ``domain``, ``post``).

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words in a domain query.
        **settings: See :class:`~StaICC.benchmarks.tasks.Settings`.

    Attributes:
        contextual: The benchmark of contextual bias.
        domain: The benchmark of domain bias.
        post: The benchmark of posterior bias.
    """

    __slots__ = ("contextual", "domain", "post")
    task_name: ClassVar[str] = "Triplet_bias"

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        domain_query_length: int = 128,
        **settings: Unpack[Settings],
    ) -> None:
        common = (k, noisy_channel, metrics, datasets)
        self.contextual = ContextualBias(*common, **settings)
        self.domain = DomainBias(*common, domain_query_length, **settings)
        self.post = PosteriorBias(*common, **settings)
        super().__init__(self.task_name, {part: getattr(self, part) for part in ("contextual", "domain", "post")})


class _Parts(BenchmarkGroup):
    """A group with a benchmark of each of its :attr:`kinds`.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.tasks.Settings`.
    """

    kinds: ClassVar[Sequence[type[Benchmark]]]
    """The benchmarks; their parts have the names that results carry."""

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        if Normal in self.kinds and not isinstance(metrics, str):
            raise errors.ArgumentError("a suite scores by a named metric set, 'standard' or '0.1.1', for all its parts")
        common: dict[str, Any] = {"k": k, "noisy_channel": noisy_channel, "metrics": metrics, "datasets": datasets}
        super().__init__(self.task_name, {kind.task_name: kind(**common, **settings) for kind in self.kinds})


class Diagnosis(_Parts):
    """All of StaICC-Diagnosis in one pass over the distinct prompts (arguments as :class:`Suite`)."""

    task_name: ClassVar[str] = "Diagnosis"
    kinds = (ContextualBias, DomainBias, PosteriorBias, GLER, TemplateSensitivity, DemonstrationSensitivity)


class Suite(_Parts):
    """StaICC-Normal and all of StaICC-Diagnosis in one pass over the distinct prompts.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.tasks.Settings`.

    Example:
        >>> result = Suite(datasets=["mini"], limit=8)(lambda prompt, label_space: 0)
        >>> list(result)
        ['Normal', 'Contextual_bias', 'Domain_bias', 'Post_bias', 'GLER', 'Template_sens', 'Demo_sens']
    """

    task_name: ClassVar[str] = "Suite"
    kinds = (Normal, *Diagnosis.kinds)


_SHORT = {"Template_sens": "template", "Demo_sens": "demonstration"}
"""Names on the command line that do not follow from those in results."""
_BUILTIN: Mapping[str, type[Benchmark | BenchmarkGroup]] = {
    _SHORT.get(kind.task_name) or kind.task_name.lower().replace("_", "-"): kind
    for kind in (*Suite.kinds, TripletBias, Generalisation, Diagnosis, Suite)
}

BENCHMARKS: Registry[Callable[..., Any]] = Registry(
    "benchmark",
    "staicc.benchmarks",
    {name: f"{__name__}:{kind.__name__}" for name, kind in _BUILTIN.items()},
    callable_entry("a class or function that makes a Benchmark or a BenchmarkGroup"),
    # Their classes, and the names of 0.1.1, which results carry.
    folded={fold(own): name for name, kind in _BUILTIN.items() for own in (kind.__name__, kind.task_name)},
)
"""All benchmarks that run over frozen classification data. To add one, add its class above."""


def make_benchmark(name: str, **arguments: Any) -> Any:
    """Make a benchmark by name.

    Args:
        name: A name of :data:`BENCHMARKS`, a plug-in's benchmark, or ``package.module:name``.
        **arguments: For the benchmark: ``k``, ``noisy_channel``, ``metrics``, ``datasets``, ``limit``, ``outputs``.

    Returns:
        The benchmark, to be called with an inference function.

    Raises:
        UnknownNameError: There is no such benchmark.
        PluginError: A plug-in is broken, or two plug-ins have that benchmark.
    """
    return BENCHMARKS.find(name).value(**arguments)
