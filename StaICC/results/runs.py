"""Saved results split into runs: one run for each model or method, with its results by benchmark.

A file may hold one result, a group over benchmarks (a suite: one run), or a group that has the same benchmark several
times (all methods on one model: a run for each).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from StaICC.errors import ArgumentError
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


RACE = Sweep("Race", lambda part, result: part in ("first", "second") and result.stopping is not None, ("scoring",))
"""The results of a race between two models (:func:`StaICC.benchmarks.race.race`)."""
OF_METHODS = Sweep(
    "Methods",
    lambda part, result: result.method == part or result.method.startswith((f"{part} ", f"{part}@")),
    ("method", "channel", "repeats", "demonstrations", "template", "scoring", "prompts", "failed"),
    ("skipped", "shared"),
)
"""The results of several methods with one model (:func:`StaICC.methods.run.run_all`)."""
OF_SHOTS = Sweep(
    "Many-shot",
    lambda part, result: part == f"k={result.signature.fields.get('k')}",
    ("k", "demonstrations", "template", "prompts", "failed"),
    ("skipped", "shared"),
)
"""The results of a method at several ``k`` (:func:`StaICC.methods.run.run_many_shot`)."""
SWEEPS: Mapping[str, Sweep] = {one.name: one for one in (RACE, OF_METHODS, OF_SHOTS)}


def _runs(name: str, result: Result | ResultGroup) -> Iterator[tuple[str, Result]]:
    if isinstance(result, Result):
        yield name, result
        return
    seen = Counter(benchmark for part in result.values() for benchmark in {one.benchmark for one in part.results()})
    several = max(seen.values(), default=1) > 1
    for part, one in result.items():
        yield from _runs(f"{name}: {part}" if several else name, one)


def split_runs(results: Mapping[str, Result | ResultGroup]) -> dict[str, dict[str, Result]]:
    """Return the results of each run.

    Args:
        results: Results, or groups of results, by a name that tells them apart, such as that of their file.

    Returns:
        For each run its results by benchmark. If a group has several runs, the name of each includes its part.

    Raises:
        ArgumentError: Two results of one benchmark come under one name.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0)
        >>> list(split_runs({"gpt2": ResultGroup("methods", {"vanilla": result, "topk": result})}))
        ['gpt2: vanilla', 'gpt2: topk']
    """
    found: dict[str, dict[str, Result]] = {}
    for name, result in results.items():
        for run, one in _runs(name, result):
            own = found.setdefault(run, {})
            if one.benchmark in own:
                raise ArgumentError(f"{run} holds two results of {one.benchmark}; give them as files of their own")
            own[one.benchmark] = one
    return found


def by_benchmark(results: Mapping[str, Result | ResultGroup]) -> dict[str, dict[str, Result]]:
    """Return the results of each benchmark; groups are split (see :func:`split_runs`).

    Args:
        results: Results, or groups of results, by name.

    Returns:
        For each benchmark, the results by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    found: dict[str, dict[str, Result]] = {}
    for name, own in split_runs(results).items():
        for benchmark, result in own.items():
            found.setdefault(benchmark, {})[name] = result
    return found
