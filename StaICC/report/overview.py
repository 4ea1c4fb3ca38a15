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
    """Return the means of the main scores; empty if no run has a value.

    Args:
        headlines: The headline scores.
        names: The runs in the order of the leaderboard.
    """
    shown = names[:_MOST_ROWS]
    points = []
    for headline in _shown(headlines):
        for name in shown:
            mark = "best" if len(names) == 1 or _is_best_or_tied(headline, name) else "other"
            points.append(Point(headline.column.title, mark, name, headline.score(name)))
    legend = []
    if len(names) > 1:
        legend = [
            Shape(series=0, kind="mark", text="best, or not shown to be worse"),
            Shape(kind="mark", text="shown to be worse, or not tested"),
        ]
    caption = "Means over the data sets, with intervals. "
    of_all = f"all {len(names)} runs and " if len(names) > _MOST_ROWS else ""
    caption += f"The table below has {of_all}the numbers."
    series = {"best": 0, "other": None}
    benchmarks = {headline.column.benchmark for headline in headlines}
    width = 210 if len(benchmarks) == 1 else 145
    figure = chart("Overview", caption, ["", "", "run", "mean"], points, series, legend=legend, width=width)
    if not figure.panels:
        return Markup("")
    # The first panel is wider, because it has the names of the rows.
    first, *others = figure.panels
    figure = replace(figure, panels=[first._replace(width=300, y=row_axis(shown, 18)), *others])
    return element("figure", figure.inline(), element("figcaption", figure.caption), class_="overview")


def _shown(headlines: Sequence[Headline]) -> list[Headline]:
    """Return the first headline score of each benchmark; of a single benchmark, the first scores."""
    firsts: dict[str, Headline] = {}
    for headline in headlines:
        firsts.setdefault(headline.column.benchmark, headline)
    if len(firsts) == 1:
        return list(headlines[:_MOST_SCORES])
    return list(firsts.values())


def _is_best_or_tied(headline: Headline, run: str) -> bool:
    """Return whether a run is the best one, or not shown to be worse."""
    rank = headline.ranks.get(run)
    return rank is not None and isinstance(rank.verdict, Best | Tied)
