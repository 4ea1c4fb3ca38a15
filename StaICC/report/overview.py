"""The figure above a leaderboard: the main score of each benchmark, with the rows of the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from StaICC.comparing.verdicts import Best, Tied
from StaICC.report.chart import Point, chart
from StaICC.report.headlines import Headline
from StaICC.report.html import Markup, element
from StaICC.report.shapes import row_axis

_MOST_ROWS = 20
"""Of more runs, the first ones are drawn."""


def overview_figure(headlines: Sequence[Headline], names: Sequence[str]) -> Markup:
    """Return the means of the main score of each benchmark; empty if no run has a value.

    Args:
        headlines: The headline scores.
        names: The runs in the order of the leaderboard.
    """
    shown = names[:_MOST_ROWS]
    points = []
    for headline in _first_of_each_benchmark(headlines):
        for name in shown:
            series = "best" if len(names) == 1 or _is_best_or_tied(headline, name) else "other"
            score = headline.score(name)._replace(random=None, majority=None)
            points.append(Point(headline.column.title, series, name, score))
    caption = "Means over the data sets, with intervals. "
    if len(names) > 1:
        caption += "Blue: the best run and those that are not shown to be worse. "
    of_all = f"all {len(names)} runs and " if len(names) > _MOST_ROWS else ""
    caption += f"The table below has {of_all}the numbers."
    figure = chart("Overview", caption, ["", "", "run", "mean"], points, {"best": 0, "other": None}, width=148)
    if not figure.panels:
        return Markup("")
    # The first panel is wider, because it has the names of the rows.
    first, *others = figure.panels
    figure = replace(figure, panels=[first._replace(width=280, y=row_axis(shown, 25)), *others])
    return element("figure", figure.inline(), element("figcaption", figure.caption), class_="overview")


def _first_of_each_benchmark(headlines: Sequence[Headline]) -> list[Headline]:
    """Return the first headline score of each benchmark."""
    firsts: dict[str, Headline] = {}
    for headline in headlines:
        firsts.setdefault(headline.column.benchmark, headline)
    return list(firsts.values())


def _is_best_or_tied(headline: Headline, run: str) -> bool:
    """Return whether a run is the best one, or not shown to be worse."""
    place = headline.places.get(run)
    return place is not None and isinstance(place.verdict, Best | Tied)
