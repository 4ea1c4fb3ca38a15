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
_BEST = "best"
"""The series of the runs that are the best one, or not shown to be worse."""
_OTHER = "other"
"""The series of all other runs."""
_COLOURS = {_BEST: 0, _OTHER: None}
"""The colour of each series, as :attr:`~StaICC.report.shapes.Shape.series`: the first colour, or grey."""
_LEGEND = (
    Shape(series=_COLOURS[_BEST], kind="mark", text="best, or not shown to be worse"),
    Shape(series=_COLOURS[_OTHER], kind="mark", text="shown to be worse, or not tested"),
)
_WIDE_PANEL = 210
"""Pixels of a panel if all are about one benchmark: there are few."""
_NARROW_PANEL = 145
"""Pixels of a panel if there is one for each benchmark."""
_PANEL_WITH_NAMES = 300
"""Pixels of the first panel, which has the names of the runs."""
_LONGEST_NAME = 18
"""The width of these names, in characters of average width."""


def overview_figure(headlines: Sequence[Headline], names: Sequence[str]) -> Markup:
    """Return a figure with a panel for each main score and a row for each run; empty if no run has a value.

    The marks of the best runs are in colour, the other ones are grey. Only the first panel has the names of the runs.

    Args:
        headlines: The headline scores.
        names: The runs in the order of the leaderboard.
    """
    shown_runs = names[:_MOST_ROWS]
    has_several_runs = len(names) > 1
    points = []
    for headline in _shown(headlines):
        for name in shown_runs:
            series = _OTHER
            if _is_best_or_tied(headline, name) or not has_several_runs:  # A single run has no verdict.
                series = _BEST
            points.append(Point(panel=headline.column.title, series=series, category=name, score=headline.score(name)))

    content_of_table = "the numbers"
    if len(names) > _MOST_ROWS:
        content_of_table = f"all {len(names)} runs and the numbers"
    benchmarks = {headline.column.benchmark for headline in headlines}
    figure = chart(
        "Overview",
        f"Means over the data sets, with intervals. The table below has {content_of_table}.",
        head=["", "", "run", "mean"],  # of panels, series, categories and scores; empty: without a column
        points=points,
        series=_COLOURS,
        legend=_LEGEND if has_several_runs else (),
        width=_WIDE_PANEL if len(benchmarks) == 1 else _NARROW_PANEL,
    )
    if not figure.panels:
        return Markup("")
    first_panel, *other_panels = figure.panels
    panel_with_names = first_panel._replace(width=_PANEL_WITH_NAMES, y=row_axis(shown_runs, _LONGEST_NAME))
    figure = replace(figure, panels=[panel_with_names, *other_panels])
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
