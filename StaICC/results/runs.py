"""Results split into runs, one for each model or method.

A file may hold one result, a group over benchmarks (a suite: one run), or a group that has the same benchmark several
times (all methods on one model: a run for each).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from StaICC.errors import ArgumentError
from StaICC.registry import import_reference
from StaICC.results.result import Result, ResultGroup


@dataclass(frozen=True, slots=True)
class Sweep:
    """A group of results on the same data that differ in one setting, which names their parts.

    Verification reads this record to know what such a group must satisfy.
    """

    name: str
    """Name of the group."""
    describes: Callable[[str, Result], bool]
    """Whether a part with this name may have this result."""
    varies: tuple[str, ...]
    """Fields of the signature in which the parts may differ."""
    recorded: tuple[str, ...] = ()
    """Further entries of the saved group, which the run records."""


SWEEPS = {
    "Race": "StaICC.benchmarks.race:RACE",
    "Methods": "StaICC.methods.table:OF_METHODS",
    "Many-shot": "StaICC.methods.table:OF_SHOTS",
}
"""The sweeps of this library by the name of their group, loaded by name: results know neither races nor methods."""


def find_sweep(group: str) -> Sweep | None:
    """Return the sweep that a group of this name is; ``None`` if the name is that of another kind of group."""
    if group not in SWEEPS:
        return None
    sweep: Sweep = import_reference(SWEEPS[group])
    return sweep


def _has_several_runs(group: ResultGroup) -> bool:
    """Return whether each part of a group is a run of its own: several parts have results of the same benchmark.

    One run has at most one result of each benchmark.
    """
    parts_with_benchmark: Counter[str] = Counter()
    for part in group.values():
        benchmarks = {single.benchmark for single in part.results()}
        parts_with_benchmark.update(benchmarks)
    return any(count > 1 for count in parts_with_benchmark.values())


def _named_results(name: str, result: Result | ResultGroup) -> Iterator[tuple[str, Result]]:
    """Yield pairs of the name of a run and a single result of this run.

    A group of several runs, such as of two models, adds the name of each run: ``"file: gpt2"``. A group of several
    benchmarks of one run adds nothing.

    Args:
        name: The beginning of the names, such as the name of the file.
        result: A result, or a group of results, which may hold further groups.
    """
    if isinstance(result, Result):
        yield name, result
        return
    parts_are_runs = _has_several_runs(result)
    for part_name, part in result.items():
        if parts_are_runs:
            yield from _named_results(f"{name}: {part_name}", part)
        else:
            yield from _named_results(name, part)


def check_results_by_name(results: object) -> None:
    """Raise an error unless an argument is a mapping of names to results, or to groups of results.

    Raises:
        ArgumentError: It is something else. The message says how to name results, or how to read a file.
    """
    expected = "expected a mapping of names to results"
    naming = 'Give each result a name, as in {"first": result, "second": other_result}'
    if isinstance(results, Result):
        raise ArgumentError(f"results: got one result of {results.benchmark}, {expected}. {naming}")
    if isinstance(results, Mapping):
        for name, result in results.items():
            check_result(f"results, {name!r}", result)
        return
    are_without_names = isinstance(results, (list, tuple)) and any(isinstance(item, Result) for item in results)
    if are_without_names:
        raise ArgumentError(f"results: got a {type(results).__name__} of results, {expected}. {naming}")
    raise ArgumentError(f"results: got {results!r:.80}, {expected}. {_READING}")


def check_result(argument: str, value: object) -> None:
    """Raise an error unless an argument is a result or a group of results.

    Args:
        argument: Its name.
        value: What the caller passed.

    Raises:
        ArgumentError: It is something else, such as the path of a file.
    """
    if not isinstance(value, (Result, ResultGroup)):
        raise ArgumentError(f"{argument}: got {value!r:.80}, expected a result. {_READING}")


_READING = "StaICC.load(path) reads the result of a file"
"""What to do if a path was passed in the place of a result."""


def split_runs(results: Mapping[str, Result | ResultGroup]) -> dict[str, dict[str, Result]]:
    """Return the results of each run.

    Args:
        results: Results, or groups of results, by a name that tells them apart, such as that of their file.

    Returns:
        For each run its results by benchmark. If a group has several runs, the name of each includes its part.

    Raises:
        ArgumentError: Two results of one benchmark come under one name, or the argument is no such mapping.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0)
        >>> list(split_runs({"gpt2": ResultGroup("methods", {"vanilla": result, "topk": result})}))
        ['gpt2: vanilla', 'gpt2: topk']
    """
    check_results_by_name(results)
    runs: dict[str, dict[str, Result]] = {}
    for name, result in results.items():
        for run, single in _named_results(name, result):
            results_of_run = runs.setdefault(run, {})
            if single.benchmark in results_of_run:
                raise ArgumentError(f"{run} holds two results of {single.benchmark}; give them as files of their own")
            results_of_run[single.benchmark] = single
    return runs


def by_benchmark(results: Mapping[str, Result | ResultGroup]) -> dict[str, dict[str, Result]]:
    """Return the results of each benchmark; groups are split (see :func:`split_runs`).

    Args:
        results: Results, or groups of results, by name.

    Returns:
        For each benchmark, the results by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    benchmarks: dict[str, dict[str, Result]] = {}
    for run, results_of_run in split_runs(results).items():
        for benchmark, result in results_of_run.items():
            benchmarks.setdefault(benchmark, {})[run] = result
    return benchmarks
