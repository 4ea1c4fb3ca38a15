"""Groups of benchmarks that run together.

The parts of StaICC share many prompts: Normal, posterior bias and GLER without noise have the same queries. A group
collects the queries of all its members, data set by data set, and predicts each distinct (prompt, label space) once;
prompts with a common prefix follow each other. The parts of its result equal the results of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC import habits
from StaICC.arguments import known_name
from StaICC.benchmarks.base_experimentor import run_together
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.context import RunContext, RunSettings
from StaICC.benchmarks.data_warnings import data_warnings
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.forecast import forecast
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.errors import ArgumentError
from StaICC.frozen import FixedAttributes
from StaICC.inference.contract import Inference
from StaICC.inference.forecast import Forecast
from StaICC.inference.runner import Part
from StaICC.layout import Block, Displayed, Line
from StaICC.results.result import ResultGroup
from StaICC.results.runs import SWEEPS
from StaICC.safe_text import one_line

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.prompting.prompt_writer import Query


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
    _advice = habits.OF_BENCHMARKS
    task_name: ClassVar[str] = ""
    """The name in results of a class of groups whose constructor makes the members; empty for other groups."""

    def __init__(self, name: str, members: Mapping[str, Benchmark]) -> None:
        """Check that all members are benchmarks over the same data sets."""
        self.name = name
        self.members = dict(members)
        if name in SWEEPS:
            raise ArgumentError(f"name: got {name!r}, the name of another kind of results. Choose another one")
        if not members:
            raise ArgumentError(f"the group {name!r} has no members; give at least one benchmark")
        datasets_by_part: dict[str, list[str]] = {}
        for part, member in self.members.items():
            if not isinstance(member, Benchmark):
                raise ArgumentError(f"the member {part!r} of {name!r}: got {member!r:.60}, expected a benchmark")
            datasets_by_part[part] = member.dataset_names
            if member.dataset_names != self._first_member().dataset_names:
                members_with_datasets = [f"{part} has {', '.join(names)}" for part, names in datasets_by_part.items()]
                raise ArgumentError(
                    f"the members of {name!r} must run over the same data sets, but {'; '.join(members_with_datasets)}"
                )

    def _first_member(self) -> Benchmark:
        """Return the first member. All members have the same data sets, so this member represents all of them."""
        return next(iter(self.members.values()))

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
        _, datasets = self._first_member().display_blocks()
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
                :class:`~StaICC.benchmarks.context.RunSettings`.

        Returns:
            The results, by part. The times and counts of each are those of the complete run.

        Raises:
            ArgumentError: An argument is invalid.
            OutputError: A query has no usable prediction and ``on_error="raise"``.
        """
        first = self._first_member()
        functions = first.functions_for_datasets(first.given_functions(list_of_forward_inference, forward_inference))
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.log(*data_warnings(self._experimentors()))
            runs_by_part = self._run_datasets(functions, context)

        predictions = context.predictions(dict(zip(first.dataset_names, functions, strict=True)))
        results = {}
        for part, member in self.members.items():
            results[part] = member.collect(
                runs_by_part[part], predictions, keep_outputs=return_outputs, divided=return_divided_results
            )
        return context.deliver(ResultGroup(self.name, results))

    def _experimentors(self) -> Iterator[Experimentor]:
        """Yield the data sets of all members, member by member."""
        for member in self.members.values():
            yield from member

    def _run_datasets(
        self, functions: Sequence[Inference], context: RunContext
    ) -> Mapping[str, Mapping[str, DatasetRun]]:
        """Run the data sets one after the other, each for all members together.

        Args:
            functions: The inference function of each data set.
            context: The context of the run.

        Returns:
            The run over each data set, by the name of the part and then by the name of the data set.
        """
        runs_by_part: dict[str, dict[str, DatasetRun]] = {part: {} for part in self.members}
        for number, dataset in enumerate(self._first_member().dataset_names):
            function = functions[number]
            step = Part(f"{self.name}, {dataset}", number, len(functions))
            experimentors = {}
            for part, member in self.members.items():
                experimentors[f"{step.name}, {part}"] = member[number]
            options = context.options_for(function, group_prefixes=True)
            runs = run_together(function, experimentors, step, options)
            for part, run in zip(self.members, runs, strict=True):
                runs_by_part[part][dataset] = run
            context.checkpoint()
        return runs_by_part

    __call__ = auto_run

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: queries, tokens, time and cost.

        A prompt that several members have counts once, because the run predicts it once.

        Args:
            function: The inference function.
            **options: See :class:`~StaICC.benchmarks.forecast.ForecastOptions`.
        """
        queries_by_dataset = []
        for number in range(len(self._first_member())):
            queries: list[Query] = []
            for member in self.members.values():
                queries += member[number].all_queries()
            queries_by_dataset.append(queries)
        return forecast(queries_by_dataset, function, grouped=True, **options)


def members(benchmark: BaseBenchmark[Any] | BenchmarkGroup) -> Mapping[str, BaseBenchmark[Any]]:
    """Return the benchmarks of a group, by the name of their part; for a single benchmark, only itself by its name.

    Args:
        benchmark: A benchmark or a group of benchmarks.
    """
    if isinstance(benchmark, BenchmarkGroup):
        return benchmark.members
    return {benchmark.benchmark_name: benchmark}
