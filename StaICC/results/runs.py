"""Results split into runs, one for each model or method.

A file may hold one result, a group over benchmarks (a suite: one run), or a group that has the same benchmark several
times (all methods on one model: a run for each).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from StaICC.errors import ArgumentError
from StaICC.registry import import_reference
from StaICC.results.result import Result, ResultGroup

# -- results split into runs: one run for each model or method. A file may hold one result, a group over benchmarks (a
# suite: one run), or a group that has the same benchmark several times (all methods on one model: a run for each).


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
    "Methods": "StaICC.methods.run:OF_METHODS",
    "Many-shot": "StaICC.methods.run:OF_SHOTS",
}
"""The sweeps of this library by the name of their group, loaded by name: results know neither races nor methods."""


def find_sweep(group: str) -> Sweep | None:
    """Return the record of the sweep whose group has a name; ``None`` for the name of any other group."""
    if group not in SWEEPS:
        return None
    sweep: Sweep = import_reference(SWEEPS[group])
    return sweep


def _runs(name: str, result: Result | ResultGroup) -> Iterator[tuple[str, Result]]:
    if isinstance(result, Result):
        yield name, result
        return
    parts = ({single.benchmark for single in part.results()} for part in result.values())
    several = max(Counter(chain.from_iterable(parts)).values(), default=1) > 1
    for part, inner in result.items():
        yield from _runs(f"{name}: {part}" if several else name, inner)


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
    runs: dict[str, dict[str, Result]] = {}
    for name, result in results.items():
        for run, single in _runs(name, result):
            own = runs.setdefault(run, {})
            if single.benchmark in own:
                raise ArgumentError(f"{run} holds two results of {single.benchmark}; give them as files of their own")
            own[single.benchmark] = single
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
    for name, own in split_runs(results).items():
        for benchmark, result in own.items():
            benchmarks.setdefault(benchmark, {})[name] = result
    return benchmarks
