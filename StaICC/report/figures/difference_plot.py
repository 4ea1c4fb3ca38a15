"""The forest plot of differences between runs."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.comparing.comparison_results import Comparison, DatasetComparison, better_run
from StaICC.comparing.verdicts import Tested, p_text
from StaICC.errors import ArgumentError
from StaICC.report.chart import Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.html import Missing
from StaICC.report.shapes import Shape

_FIRST = "first is better"
_SECOND = "second is better"
_OTHER = "other"
_COLOURS = {_FIRST: 0, _SECOND: 1, _OTHER: None}
"""The numbers of the series, which decide their colours: blue is better, also where lower values are."""


def differences(compared: Sequence[Comparison]) -> Figure:
    """Return a forest plot of the differences between two runs by data set, or of several pairs in the mean.

    Args:
        compared: Comparisons by one metric.

    Raises:
        ArgumentError: There are none.
    """
    if not compared:
        raise ArgumentError("a figure needs a comparison of two runs at least")
    first = compared[0]
    title = f"Difference in {first.metric}"
    points = []
    if len(compared) == 1:
        row_kind = "data set"
        title += f": {first.first} - {first.second}"
        for line in first.lines:
            points.append(_point(title, line.dataset, line, first.higher_is_better))
    else:
        row_kind = "runs"
        is_shared = all(pair.first == first.first for pair in compared)
        if is_shared:
            row_kind = "second run"
            title += f": {first.first} - ..."
        for pair in compared:
            runs = pair.second if is_shared else f"{pair.first} - {pair.second}"
            for claim in pair.claims:
                name = f"{runs}, {claim.dataset}" if pair.by_condition else runs
                points.append(_point(title, name, claim, pair.higher_is_better))
    no_difference = Shape([(0, -0.5), (0, len(points) - 0.5)])
    return chart(
        title,
        f"First minus second run, with intervals. Grey differences are not significant ({first.correction.method}).",
        ["", "", row_kind, "difference", first.corrected_head],
        points,
        _COLOURS,
        lines={title: [no_difference]},
        legend=[
            Shape((), number, "mark", f"{name}, significantly") for name, number in _COLOURS.items() if name != _OTHER
        ],
        width=360,
    )


def _point(panel: str, name: str, line: DatasetComparison, higher_is_better: bool) -> Point:
    """Return the point of a difference.

    Args:
        panel: Title of the panel.
        name: Name of the row.
        line: The difference.
        higher_is_better: Whether larger values are better.
    """
    series = better_run(line, line.outcome, _FIRST, _SECOND, higher_is_better) or _OTHER
    if isinstance(line.outcome, Tested):
        p_cell = p_text(line.outcome.corrected_p_value)
    else:
        p_cell = Missing(line.outcome.reason)
    reason = "it has no bound" if line.difference is not None else "no query of a data set has a score"
    score = ChartScore(line.difference, line.interval, reason, left_out=sum(line.missing))
    return Point(panel, series, name, score, more=(p_cell,))
