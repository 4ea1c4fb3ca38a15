"""Parts of a section: functions of comparable results, empty for results that lack what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from StaICC.errors import ArgumentError
from StaICC.report.comparable_groups import Group, run_names
from StaICC.report.figure import Figure
from StaICC.report.html import Markup, element, fold, join
from StaICC.report.runs_by_name import Given, ResultsByRun
from StaICC.report.tables import table


class Section(NamedTuple):
    """A part of the page with its own heading."""

    key: str
    title: str
    content: Markup
    assets: str = ""
    """Name of the script and the style sheet that only this section needs."""


ReportPart = Callable[[Group], str]
"""Returns a part of a section for comparable results; an empty text if they have not what it needs."""


def drawn(make: Callable[[Given], Figure], given: Given, run: str = "", optional: bool = False) -> str:
    """Return a figure with its caption and its numbers; without data, the reason, or nothing if it is optional.

    Args:
        make: The figure.
        given: Its results.
        run: Name of the run, if the figure is about a single one of several.
        optional: Whether nothing is said about results without the data for it.
    """
    try:
        figure = make(given)
    except ArgumentError as error:
        if optional:
            return ""
        of_run = f", {run}" if run else ""
        return element("p", f"Not drawn{of_run}: {error}.", class_="soft")
    title = f"{figure.title}, {run}" if run else figure.title
    caption = element("figcaption", element("strong", f"{title}."), " ", figure.caption)
    numbers = table(f"{title}: numbers", figure.head, figure.rows, words=figure.words)
    return element("figure", caption, figure.inline(), fold("Numbers", numbers, class_="numbers"))


def figure_part(benchmark: str, make: Callable[[Given], Figure], optional: bool = False) -> ReportPart:
    """Return a part: a figure of the runs of a benchmark.

    Args:
        benchmark: Name of the benchmark.
        make: The figure.
        optional: Whether nothing is said about results without the data for it.
    """

    def part(group: Group) -> str:
        if benchmark not in group:
            return ""
        return drawn(make, group[benchmark], optional=optional)

    return part


def run_part(benchmarks: Sequence[str], make: Callable[[str, ResultsByRun], str]) -> ReportPart:
    """Return a part that has a folded part for each run.

    Args:
        benchmarks: Names of benchmarks.
        make: Takes the name of a run and its results of these benchmarks.
    """

    def part(group: Group) -> str:
        """Return one folded part for each run that has one of the benchmarks."""
        chosen = {benchmark: group[benchmark] for benchmark in benchmarks if benchmark in group}
        parts = {}
        for run in run_names(chosen):
            results = {benchmark: runs[run] for benchmark, runs in chosen.items() if run in runs}
            parts[run] = make(run, results)
        return folded_parts(parts)

    return part


def folded_parts(parts: Mapping[str, str]) -> Markup:
    """Return parts by their names, each folded if there are several."""
    if len(parts) == 1:
        return join(parts.values())
    return join([fold(name, content) for name, content in parts.items()])
