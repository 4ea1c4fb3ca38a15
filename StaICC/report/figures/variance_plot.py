"""The figure of the sources of variance."""

from __future__ import annotations

from StaICC.comparing.generalisation import variance_components
from StaICC.metrics.crossed_effects import SOURCES
from StaICC.metrics.intervals import Interval
from StaICC.report.chart import Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, left_out_note, named


def variance_chart(given: Given) -> Figure:
    """Return by how much the accuracy varies with test rows, draws of demonstrations, templates and their interactions.

    Args:
        given: A result of ``Generalisation``, or several by the name of their run.

    Raises:
        ArgumentError: There are no results, or one is of another benchmark.
    """
    points = []
    for run, result in named(given).items():
        for line in variance_components(result).lines:
            # For each source its standard deviation, and the ends of the interval of it; None if they are not known.
            for source, (deviation, ends) in zip(SOURCES.values(), line.deviations, strict=True):
                interval = None
                if ends:
                    interval = Interval(low=ends[0], high=ends[1], level=0.95, method="")  # the figure names no method
                # The reason is shown in place of a value, or of an interval, that is missing.
                score = ChartScore(deviation, interval, reason="too few levels, or no variation")
                points.append(Point(panel=line.dataset, series=run, category=source, score=score))
    return chart(
        "Sources of variance",
        "Standard deviation of the accuracy that comes from each source, at the numbers of rows, draws and templates "
        "of the run, with 95 % intervals. Estimates of variances below 0 are shown as 0." + left_out_note(given),
        ["data set", "run", "source", "standard deviation"],
        points,
        dodge=0.1,
    )
