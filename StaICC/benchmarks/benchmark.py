"""A benchmark, one task over several data sets, and a group: several benchmarks in one pass over their prompts.

The parts of StaICC share many prompts: Normal, posterior bias and GLER without noise have the same queries. A group
collects the queries of all its members, data set by data set, and predicts each distinct (prompt, label space) once;
prompts with a common prefix follow each other. The parts of its result equal the results of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor, MetricTable, data_warnings, run_together
from StaICC.benchmarks.running import BaseBenchmark, EarlySettings, Predictions, RunContext, RunSettings, forecast
from StaICC.benchmarks.task import Statistics, Task
from StaICC.datasets import Dataset, names
from StaICC.errors import ArgumentError, FixedAttributes, known_name, unknown_name
from StaICC.inference import Inference, Part, Unparsed
from StaICC.inference.contract import Forecast
from StaICC.inference.identity import code_mark, in_library
from StaICC.layout import Block, Displayed, Line
from StaICC.metrics import Kind, Metric, MetricFunction, MetricSet
from StaICC.metrics.registry import Mean
from StaICC.prompting import Query
from StaICC.registry import labelled, origin_of
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
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Attributes:
        experimentor: One experimentor for each data set, in order.
        task: The task.
        metrics: The metric functions by name, which the experimentors share. Assigning an item adds or replaces a
            metric.
    """

    __slots__ = ("_noisy_channel", "_settings", "metrics", "task")
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
        unknown = [name for name in settings if name not in Settings.__annotations__]
        if unknown:
            legal = ["k", "noisy_channel", "metrics", "datasets", *Settings.__annotations__]
            error = unknown_name(
                f"argument of {type(self).__name__}", unknown[0], legal, "The benchmark may have further arguments."
            )
            raise TypeError(str(error))
        if callable(k) or isinstance(k, (str, list, tuple, Dataset)):
            name = type(self).__name__
            use = f"{name}()(function)" if callable(k) else f"{name}(datasets=[...])"
            raise ArgumentError(
                f"k must be an integer of at least 0, not {k!r:.60}. For data sets or a function, write {use}"
            )
        self.task = task
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
        return one_line(f"<{self.task.name} over {', '.join(self.dataset_names)}>")

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

    def run_to_precision(
        self, precision: float, score: str | None, functions: Sequence[Inference], *settings: Unpack[EarlySettings]
    ) -> Result:
        """Run until half the width of the interval of a score is at most ``precision``; arguments as for a run."""
        from StaICC.benchmarks.race import run_early  # few runs stop early

        context, (result,) = run_early(self, "precision", precision, score, [functions], *settings)
        return context.deliver(result)

    def collect(self, runs: Mapping[str, DatasetRun], *arguments: Any, **settings: Any) -> Result:
        """Build the result; arguments as for :meth:`~StaICC.benchmarks.running.BaseBenchmark.collect`."""
        result = super().collect(runs, *arguments, **settings)
        own = [metric for metric in self.metrics.metric_set.metrics if not metric.of_library]
        result.higher_is_better = {metric.name: metric.higher_is_better for metric in own}
        for metric in own:
            if isinstance(mean := metric.statistic, Mean) and not self.metrics.metric_set.as_released:
                values = {
                    name: {outcome.condition.name: outcome.query_scores(mean) for outcome in run.outcomes}
                    for name, run in runs.items()
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

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every setting that can change a number of this benchmark; arguments as for the base class."""
        all_settings = [experimentor.settings_for_signature() for experimentor in self.experimentor]
        fields = {key: common([settings[key] for settings in all_settings]) for key in all_settings[0]}
        limits = [settings["limit"] for settings in all_settings if settings["limit"] is not None]
        fields["limit"] = limits[0] if limits else None  # data sets with fewer rows than the limit have none
        chosen = tuple(self.dataset_names)
        tables = [[own.dataset.table.digest, list(own.card.label_space)] for own in self.experimentor]
        options = ",".join(f"{key}={value}" for key, value in self.task.options().items())
        return Signature(
            {
                **fields,
                "benchmark": labelled(self.task.name, self._origin()),
                "datasets": None
                if chosen == names()
                else "+".join(labelled(escaped(own.name), own.dataset.origin) for own in self.experimentor),
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
        super().__init__(self.task_class(), k, noisy_channel, metrics, datasets, **settings)


def _read_datasets(datasets: Datasets) -> Sequence[str | Dataset]:
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


class BenchmarkGroup(Displayed, FixedAttributes):
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
        self.name = name
        self.members = dict(members)
        if name in SWEEPS:
            raise ArgumentError(f"name: got {name!r}, the name of another kind of results. Choose another one")
        for part, member in self.members.items():
            if not isinstance(member, Benchmark):
                raise ArgumentError(f"the member {part!r} of {name!r}: got {member!r:.60}, expected a benchmark")
        over = {part: member.dataset_names for part, member in self.members.items()}
        if not over:
            raise ArgumentError(f"the group {name!r} has no members; give at least one benchmark")
        first = next(iter(over))
        for part, datasets in over.items():
            if datasets != over[first]:
                raise ArgumentError(
                    f"the members of {name!r} must run over the same data sets, but {first} has "
                    f"{', '.join(over[first])} and {part} has {', '.join(datasets)}"
                )

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __getitem__(self, part: str) -> Benchmark:
        """Return a member by the name of its part."""
        return self.members[known_name(f"part of {self.name}", part, self.members)]

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
        runs: dict[str, dict[str, DatasetRun]] = {part: {} for part in self.members}
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.warn(*data_warnings(experimentor for member in self.members.values() for experimentor in member))
            for number, function in enumerate(functions):
                name = first[number].name
                where = Part(f"{self.name}, {name}", number, len(functions))
                experimentors = {f"{where.name}, {part}": member[number] for part, member in self.members.items()}
                options = context.options_for(function, group_prefixes=True)
                for part, dataset_run in zip(
                    self.members, run_together(function, experimentors, where, options), strict=True
                ):
                    runs[part][name] = dataset_run
        used = dict(zip(first.dataset_names, functions, strict=True))
        predictions, seconds = Predictions.of_run(context, used), context.seconds
        results = {
            part: member.collect(runs[part], seconds, predictions, return_outputs, return_divided_results)
            for part, member in self.members.items()
        }
        return context.deliver(ResultGroup(self.name, results))

    __call__ = auto_run

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: as for a single benchmark, with each distinct prompt once."""
        parts: dict[str, list[Query]] = {}
        for member in self.members.values():
            for experimentor in member:
                parts.setdefault(experimentor.name, []).extend(experimentor.all_queries())
        return forecast(parts, function, True, **options)


def members(benchmark: Benchmark | BenchmarkGroup) -> dict[str, Benchmark]:
    """Return the single benchmarks, by the name of their part (a single benchmark by its own name).

    Args:
        benchmark: A benchmark or a group of benchmarks.
    """
    return benchmark.members if isinstance(benchmark, BenchmarkGroup) else {benchmark.task.name: benchmark}
