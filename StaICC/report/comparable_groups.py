"""Groups of comparable runs: each has a leaderboard of its own.

Two runs are comparable if they have the same data sets, test rows, metrics and benchmark options. Model, method, k,
templates and label scoring may differ: they are what a leaderboard compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from StaICC.report.runs_by_name import ResultsByRun
from StaICC.results.comparable import SHARED_FIELDS, comparable_by
from StaICC.results.result import Result

Group = Mapping[str, ResultsByRun]
"""Results by benchmark and run."""


_WORDS = {
    "datasets": "data sets",
    "data": "contents of data sets",
    "options": "benchmark options",
    "stopping": "early stopping",
    "unparsed": "replies without a label",
}
"""Fields of a signature in words; the others are words themselves."""


def run_names(group: Group) -> list[str]:
    """Return the names of all runs, each once.

    Args:
        group: The results.
    """
    names: dict[str, None] = {}
    for runs in group.values():
        names |= dict.fromkeys(runs)
    return list(names)


def each_result(group: Group) -> Iterator[tuple[str, str, Result]]:
    """Yield the name of the run, the benchmark and the result."""
    for benchmark, runs in group.items():
        for run, result in runs.items():
            yield run, benchmark, result


def comparable_groups(benchmarks: Group) -> list[dict[str, dict[str, Result]]]:
    """Split runs into groups of comparable runs.

    A run joins the first group that has one of its benchmarks and agrees in all that both have.

    Args:
        benchmarks: All results.

    Returns:
        The groups.
    """
    groups: list[dict[str, dict[str, Result]]] = []
    for run in run_names(benchmarks):
        results = {benchmark: runs[run] for benchmark, runs in benchmarks.items() if run in runs}
        group = _group_of(results, groups)
        if group is None:
            group = {}
            groups.append(group)
        for benchmark, result in results.items():
            group.setdefault(benchmark, {})[run] = result
    return groups


def _group_of(
    results: Mapping[str, Result], groups: Sequence[dict[str, dict[str, Result]]]
) -> dict[str, dict[str, Result]] | None:
    """Return the group that a run joins; ``None`` if it agrees with no group.

    Args:
        results: The results of the run by benchmark.
        groups: The groups.
    """
    for group in groups:
        shared = [benchmark for benchmark in results if benchmark in group]
        first_of_group = {benchmark: next(iter(group[benchmark].values())) for benchmark in shared}
        agrees = all(
            comparable_by(results[benchmark]) == comparable_by(first) for benchmark, first in first_of_group.items()
        )
        if shared and agrees:
            return group
    return None


def group_title(group: Group) -> str:
    """Return what the runs of a group share, in a few words.

    Args:
        group: Comparable results.
    """
    _, _, result = next(each_result(group))
    fields = result.signature.fields
    parts = [listed(list(result.divided), "data sets")]
    if fields.get("limit"):
        parts.append(f"limit {fields['limit']}")
    if fields.get("metrics") and fields["metrics"] != "standard":
        parts.append(f"metrics {fields['metrics']}")
    if result.stopping is not None:
        parts.append("stopped early")
    return ", ".join(parts)


def group_titles(groups: Sequence[Group]) -> list[str]:
    """Return the titles of groups. Those that would have the same title also have the values that differ.

    Args:
        groups: Groups of comparable results.
    """
    titles = [group_title(group) for group in groups]
    if len({*titles}) == len(titles):
        return titles
    differing = _differing_values(groups)
    for number, title in enumerate(titles):
        values = [f"{word} {values_of_groups[number]}" for word, values_of_groups in differing.items()]
        titles[number] = ", ".join([title, *values])
    return titles


def why_not_comparable(groups: Sequence[Group]) -> str:
    """Return in what groups of runs differ, so that they are not comparable: ``"data sets, limit"``.

    Args:
        groups: Groups of comparable results, two at least.
    """
    return ", ".join(_differing_values(groups))


def _differing_values(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return what differs between groups: the values of all groups, by what it is in words.

    Fields of the signature are compared within each benchmark, because benchmarks have different options.
    """
    differing: dict[str, list[str]] = {}
    benchmarks = [", ".join(group) for group in groups]
    if len({*benchmarks}) > 1:
        differing["benchmarks"] = benchmarks
    for field in SHARED_FIELDS:
        if _differs_within_a_benchmark(field, groups):
            differing[_WORDS.get(field, field)] = [_value_of_group(field, group) for group in groups]
    return differing


def _differs_within_a_benchmark(field: str, groups: Sequence[Group]) -> bool:
    """Return whether a field that comparable results share has several values in the results of one benchmark."""
    values_by_benchmark: dict[str, set[str]] = {}
    for group in groups:
        for _, benchmark, result in each_result(group):
            values_by_benchmark.setdefault(benchmark, set()).add(_shared_value(field, result))
    return any(len(values) > 1 for values in values_by_benchmark.values())


def _value_of_group(field: str, group: Group) -> str:
    """Return the value of a field in a group; several if its benchmarks have different ones."""
    return "/".join(dict.fromkeys(_shared_value(field, result) for _, _, result in each_result(group)))


def _shared_value(field: str, result: Result) -> str:
    """Return the value of a field that comparable results share."""
    if field == "datasets":
        return "+".join(sorted(result.divided))  # as comparable_by does
    return result.signature.fields.get(field) or "default"


def listed(names: Sequence[str], kind: str) -> str:
    """Return up to three names, or their number: ``"a, b"``, ``"4 runs"``.

    Args:
        names: The names.
        kind: What they name, in the plural.
    """
    if len(names) < 4:
        return ", ".join(names)
    return f"{len(names)} {kind}"
