"""The figure above a leaderboard: the main scores, with the rows of the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from StaICC.comparing.verdicts import Best, Tied
from StaICC.report.chart import Point, chart
from StaICC.report.headlines import Headline
from StaICC.report.html import Markup, element
from StaICC.report.shapes import Shape, row_axis

_MOST_ROWS = 20
"""Of more runs, the first ones are drawn."""
_MOST_SCORES = 5
"""Scores that are drawn of a single benchmark."""


def overview_figure(headlines: Sequence[Headline], names: Sequence[str]) -> Markup:
    """Return a figure with a panel for each main score and a row for each run; empty if no run has a value.

    Args:
        headlines: The headline scores.
        names: The runs in the order of the leaderboard.
    """
    shown_runs = names[:_MOST_ROWS]
    has_several_runs = len(names) > 1
    points = []
    for headline in _shown(headlines):
        for name in shown_runs:
            series = "other"
            if not has_several_runs or _is_best_or_tied(headline, name):
                series = "best"
            points.append(Point(headline.column.title, series, name, headline.score(name)))
    legend = []
    if has_several_runs:
        legend = [
            Shape(series=0, kind="mark", text="best, or not shown to be worse"),
            Shape(kind="mark", text="shown to be worse, or not tested"),
        ]
    content_of_table = "the numbers"
    if len(names) > _MOST_ROWS:
        content_of_table = f"all {len(names)} runs and the numbers"
    caption = f"Means over the data sets, with intervals. The table below has {content_of_table}."
    benchmarks = {headline.column.benchmark for headline in headlines}
    figure = chart(
        "Overview",
        caption,
        ["", "", "run", "mean"],
        points,
        series={"best": 0, "other": None},
        legend=legend,
        width=210 if len(benchmarks) == 1 else 145,
    )
    if not figure.panels:
        return Markup("")
    # Only the first panel has the names of the runs, so it is wider.
    first_panel, *other_panels = figure.panels
    first_panel = first_panel._replace(width=300, y=row_axis(shown_runs, 18))
    figure = replace(figure, panels=[first_panel, *other_panels])
    return element("figure", figure.inline(), element("figcaption", figure.caption), class_="overview")


def _shown(headlines: Sequence[Headline]) -> list[Headline]:
    """Return the headline scores that are drawn: the first one of each benchmark, or the first five of a single one."""
    first_of_benchmark: dict[str, Headline] = {}
    for headline in headlines:
        first_of_benchmark.setdefault(headline.column.benchmark, headline)
    if len(first_of_benchmark) == 1:
        return list(headlines[:_MOST_SCORES])
    return list(first_of_benchmark.values())


def _is_best_or_tied(headline: Headline, run: str) -> bool:
    """Return whether a run is the best one, or not shown to be worse."""
    rank = headline.ranks.get(run)
    return rank is not None and isinstance(rank.verdict, Best | Tied)
