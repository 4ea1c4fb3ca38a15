"""What changed between runs: settings, models, main scores."""

from __future__ import annotations

from StaICC.comparing.comparison import compare_runs
from StaICC.errors import StaICCError
from StaICC.report.comparable_groups import Group, run_names
from StaICC.report.figures.difference_plot import differences
from StaICC.report.html import Markup, element, fold, join
from StaICC.report.parts import folded_parts
from StaICC.report.tables import printed

_INTRODUCTION = (
    "The main metric of each benchmark on the same test rows: the first run minus each other one, with 95 % "
    "intervals. p is from a paired test over test rows, corrected for the pairs of runs (Holm). Significant "
    "differences are coloured. The lists have every difference in settings and models. Detectable is the smallest "
    "difference that a sample of this size detects with power 0.8."
)


def changes(group: Group) -> str:
    """Compare every run with the first, by the main metric of each benchmark.

    Args:
        group: Comparable results.
    """
    first = run_names(group)[0]
    parts: list[Markup] = []
    for benchmark, runs in group.items():
        if len(runs) < 2:
            continue
        try:
            compared = compare_runs(runs, reference=first).comparisons
        except StaICCError as error:
            parts.append(element("p", f"{benchmark}: {error}.", class_="soft"))
            continue
        if not compared:
            continue
        tables = {}
        for pair in compared:
            names = f"{pair.first}, {pair.second}"
            tables[names] = printed(pair.display_blocks(), f"{benchmark}: {names}")
        drawn = element("figure", differences(compared).inline())  # the tables have the numbers
        parts.append(fold(benchmark, drawn, folded_parts(tables), opened=not parts))
    if not parts:
        return ""
    return join([element("p", _INTRODUCTION, class_="soft"), *parts])
