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
    """Return a forest plot of the differences between runs.

    For one pair of runs, a row is a data set or the mean. For several pairs, a row is a pair with its mean difference,
    or, in an experiment, a condition of a pair.

    Args:
        compared: Comparisons by one metric, one for each pair.

    Raises:
        ArgumentError: There are none.
    """
    if not compared:
        raise ArgumentError("a figure needs a comparison of two runs at least")
    first_pair = compared[0]
    title = f"Difference in {first_pair.metric}"
    points = []
    if len(compared) == 1:
        row_kind = "data set"
        title += f": {first_pair.first} - {first_pair.second}"
        for line in first_pair.lines:
            points.append(_point(title, line.dataset, line, first_pair.higher_is_better))
    else:
        row_kind = "runs"
        all_have_same_first_run = all(pair.first == first_pair.first for pair in compared)
        if all_have_same_first_run:
            row_kind = "second run"
            title += f": {first_pair.first} - ..."
        for pair in compared:
            name_of_pair = f"{pair.first} - {pair.second}"
            if all_have_same_first_run:
                name_of_pair = pair.second
            # The claims of a pair are its tested differences: that of the mean, or those of all conditions.
            for claim in pair.claims:
                name = f"{name_of_pair}, {claim.dataset}" if pair.by_condition else name_of_pair
                points.append(_point(title, name, claim, pair.higher_is_better))
    no_difference = Shape([(0, -0.5), (0, len(points) - 0.5)])  # a vertical line through all rows
    return chart(
        title,
        "First minus second run, with intervals. Grey differences are not significant "
        f"({first_pair.correction.method}).",
        ["", "", row_kind, "difference", first_pair.corrected_head],
        points,
        series=_COLOURS,
        lines={title: [no_difference]},
        legend=[Shape(series=_COLOURS[name], kind="mark", text=f"{name}, significantly") for name in (_FIRST, _SECOND)],
        width=360,
    )


def _point(panel: str, name: str, line: DatasetComparison, higher_is_better: bool) -> Point:
    """Return the point of a difference, in the colour of the run that is significantly better.

    Args:
        panel: Title of the panel.
        name: Name of the row.
        line: The difference.
        higher_is_better: Whether larger values are better.
    """
    # The name of the series; None if neither run is significantly better.
    series = better_run(line, line.outcome, _FIRST, _SECOND, higher_is_better) or _OTHER
    if isinstance(line.outcome, Tested):
        p_cell = p_text(line.outcome.corrected_p_value)
    else:
        p_cell = Missing(line.outcome.reason)
    reason = "it has no bound" if line.difference is not None else "no query of a data set has a score"
    score = ChartScore(line.difference, line.interval, reason, left_out=sum(line.missing))
    return Point(panel, series, name, score, more=(p_cell,))
