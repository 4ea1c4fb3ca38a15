"""Several benchmarks in one pass over their distinct prompts.

The parts of StaICC share many prompts: Normal, posterior bias and GLER without noise have the same queries. A group
collects the queries of all its members, data set by data set, and predicts each distinct (prompt, label space) once;
prompts with a common prefix follow each other. The parts of its result equal the results of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.benchmarks.base import Predictions
from StaICC.benchmarks.benchmark import Benchmark, Datasets, Metrics, Settings
from StaICC.benchmarks.diagnosis import (
    GLER,
    ContextualBias,
    DemonstrationSensitivity,
    DomainBias,
    PosteriorBias,
    TemplateSensitivity,
)
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor, data_warnings
from StaICC.benchmarks.forecast import forecast
from StaICC.benchmarks.normal import Normal
from StaICC.benchmarks.running import RunContext, RunSettings
from StaICC.errors import ArgumentError, unknown_name
from StaICC.frozen import FixedAttributes
from StaICC.inference import Inference, Part, RunOptions, ask
from StaICC.inference.forecast import Forecast
from StaICC.inference.runner import report_phase
from StaICC.prompting import Query
from StaICC.results import ResultGroup
from StaICC.safe_text import one_line

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BenchmarkGroup(FixedAttributes):
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
        if part not in self.members:
            raise unknown_name(f"part of {self.name}", part, self.members)
        return self.members[part]

    def __repr__(self) -> str:
        return one_line(f"<{self.name}: {', '.join(self.members)}>")

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
            context.warn(*data_warnings(one for member in self.members.values() for one in member))
            for number, function in enumerate(functions):
                experimentors = {part: member[number] for part, member in self.members.items()}
                name = first[number].name
                where = Part(f"{self.name}, {name}", number, len(functions))
                options = context.options_for(function, group_prefixes=True)
                for part, dataset_run in _run_together(function, experimentors, where, options).items():
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
            for one in member:
                parts.setdefault(one.name, []).extend(one.all_queries())
        return forecast(parts, function, True, **options)


def _run_together(
    function: Inference, experimentors: Mapping[str, Experimentor], part: Part, options: RunOptions
) -> dict[str, DatasetRun]:
    """Run the members over one data set; predict each distinct query once."""
    if options.batched:
        return {
            name: experimentor.run(function, options=options, part=part) for name, experimentor in experimentors.items()
        }
    by_member = {name: experimentor.conditions() for name, experimentor in experimentors.items()}
    queries = [query for conditions in by_member.values() for condition in conditions for query in condition.queries]
    first = next(iter(experimentors.values()))
    unparsed = "error" if any(one.unparsed == "error" for one in experimentors.values()) else first.unparsed
    options = replace(options, watched=first.watched, unparsed=unparsed)
    answers = ask(function, queries, part, options)
    report_phase(options, part, "statistics", queries, answers)
    runs = {}
    start = 0
    for name, conditions in by_member.items():
        end = start + sum(len(condition.queries) for condition in conditions)
        runs[name] = experimentors[name].assemble(conditions, answers[start:end], f"{part.name}, {name}")
        start = end
    return runs


class TripletBias(BenchmarkGroup):
    """Contextual, domain and posterior bias in one pass (parts ``contextual``, ``domain``, ``post``).

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words in a domain query.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

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
        self.contextual = ContextualBias(k, noisy_channel, metrics, datasets, **settings)
        self.domain = DomainBias(k, noisy_channel, metrics, datasets, domain_query_length, **settings)
        self.post = PosteriorBias(k, noisy_channel, metrics, datasets, **settings)
        super().__init__(self.task_name, {"contextual": self.contextual, "domain": self.domain, "post": self.post})


class _Parts(BenchmarkGroup):
    """A group with a benchmark for each of its :attr:`parts`.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
    parts: ClassVar[Mapping[str, type[Benchmark]]]
    """The benchmark of each part."""

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        if "Normal" in self.parts and not isinstance(metrics, str):
            raise ArgumentError("a suite scores by a named metric set, 'standard' or '0.1.1', for all its parts")
        common: dict[str, Any] = {"k": k, "noisy_channel": noisy_channel, "metrics": metrics, "datasets": datasets}
        super().__init__(self.task_name, {part: kind(**common, **settings) for part, kind in self.parts.items()})


class Diagnosis(_Parts):
    """All of StaICC-Diagnosis in one pass over the distinct prompts (arguments as :class:`Suite`)."""

    __slots__ = ()
    task_name: ClassVar[str] = "Diagnosis"
    parts: ClassVar[Mapping[str, type[Benchmark]]] = {
        "Contextual_bias": ContextualBias,
        "Domain_bias": DomainBias,
        "Post_bias": PosteriorBias,
        "GLER": GLER,
        "Template_sens": TemplateSensitivity,
        "Demo_sens": DemonstrationSensitivity,
    }


class Suite(_Parts):
    """StaICC-Normal and all of StaICC-Diagnosis in one pass over the distinct prompts.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Example:
        >>> result = Suite(datasets=["mini"], limit=8)(lambda prompt, label_space: 0)
        >>> list(result)
        ['Normal', 'Contextual_bias', 'Domain_bias', 'Post_bias', 'GLER', 'Template_sens', 'Demo_sens']
    """

    __slots__ = ()
    task_name: ClassVar[str] = "Suite"
    parts: ClassVar[Mapping[str, type[Benchmark]]] = {"Normal": Normal, **Diagnosis.parts}
