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
    """Return the results, split into groups of comparable runs. The results of a group are by benchmark and run.

    A run joins the first group in which it fits; if there is none, it begins a new group.

    Args:
        benchmarks: All results by benchmark and run.
    """
    groups: list[dict[str, dict[str, Result]]] = []
    for run in run_names(benchmarks):
        result_by_benchmark = {benchmark: runs[run] for benchmark, runs in benchmarks.items() if run in runs}
        fitting_groups = [group for group in groups if _fits_group(result_by_benchmark, group)]
        if fitting_groups:
            group = fitting_groups[0]
        else:
            group = {}
            groups.append(group)
        for benchmark, result in result_by_benchmark.items():
            group.setdefault(benchmark, {})[run] = result
    return groups


def _fits_group(result_by_benchmark: Mapping[str, Result], group: Group) -> bool:
    """Return whether a run is comparable with the runs of a group.

    They must have a common benchmark. On each common benchmark, they must agree in the data, the test rows, the metrics
    and the options. All runs of the group agree in these, so the run is compared with one of them.

    Args:
        result_by_benchmark: The results of the run.
        group: The group.
    """
    has_common_benchmark = False
    for benchmark, result in result_by_benchmark.items():
        if benchmark not in group:
            continue
        has_common_benchmark = True
        result_of_group = next(iter(group[benchmark].values()))
        if comparable_by(result) != comparable_by(result_of_group):
            return False
    return has_common_benchmark


def group_title(group: Group) -> str:
    """Return what the runs of a group share, in a few words, such as ``TREC, SST2, limit 100``.

    Args:
        group: Comparable results. They all have the same data sets and settings, so the first one is described.
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
    """Return a title for each group. If two would be equal, all titles also state the settings that differ.

    Args:
        groups: Groups of comparable results.
    """
    titles = [group_title(group) for group in groups]
    all_are_different = len(set(titles)) == len(titles)
    if all_are_different:
        return titles
    value_of_groups_by_setting = _differing_values(groups)
    longer_titles = []
    for number, title in enumerate(titles):
        parts = [title]
        for setting, value_of_groups in value_of_groups_by_setting.items():
            parts.append(f"{setting} {value_of_groups[number]}")
        longer_titles.append(", ".join(parts))
    return longer_titles


def why_not_comparable(groups: Sequence[Group]) -> str:
    """Return in what groups of runs differ, so that they are not comparable: ``"data sets, limit"``.

    Args:
        groups: Groups of comparable results, two at least.
    """
    return ", ".join(_differing_values(groups))


def _differing_values(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return the settings that differ between groups, in words, each with its value in every group in order.

    An example for two groups is ``{"limit": ["100", "default"]}``. Settings are fields of the signature. They are
    compared within each benchmark, because benchmarks have different options.
    """
    differing: dict[str, list[str]] = {}
    benchmarks = [", ".join(group) for group in groups]
    if len(set(benchmarks)) > 1:
        differing["benchmarks"] = benchmarks
    for field in SHARED_FIELDS:
        if _differs_within_a_benchmark(field, groups):
            differing[_WORDS.get(field, field)] = [_value_of_group(field, group) for group in groups]
    return differing


def _differs_within_a_benchmark(field: str, groups: Sequence[Group]) -> bool:
    """Return whether the results of some benchmark have different values of a field of the signature.

    Results in one group are comparable, so they have the same value. Those of different groups may differ.

    Args:
        field: The field, such as ``"k"``.
        groups: All groups of comparable results.
    """
    values_by_benchmark: dict[str, set[str]] = {}
    for group in groups:
        for _, benchmark, result in each_result(group):
            values_by_benchmark.setdefault(benchmark, set()).add(_shared_value(field, result))
    return any(len(values) > 1 for values in values_by_benchmark.values())


def _value_of_group(field: str, group: Group) -> str:
    """Return the value of a field in a group; several if its benchmarks have different ones."""
    return "/".join(dict.fromkeys(_shared_value(field, result) for _, _, result in each_result(group)))


def _shared_value(field: str, result: Result) -> str:
    """Return the value of a field in which comparable results agree, such as ``"4"`` for the field ``k``, as text."""
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
