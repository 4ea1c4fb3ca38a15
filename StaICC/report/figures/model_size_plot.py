"""The figure of a run among the published models."""

from __future__ import annotations

import math
from collections.abc import Mapping

from StaICC import benchmark_names
from StaICC.comparing.published import published_figures, published_models
from StaICC.comparing.published_comparison import compare_with_published
from StaICC.errors import ArgumentError
from StaICC.report.chart import Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.html import Missing
from StaICC.report.runs_by_name import Given, named
from StaICC.report.shapes import SERIES, Axis, Shape
from StaICC.results.result import Result

_TITLE = "Accuracy, mean of ten data sets"
_TICKS = [(-2.0, "10M"), (-1.0, "100M"), (0.0, "1B"), (1.0, "10B"), (2.0, "100B")]
"""Ticks of the axis, at the decimal logarithm of the parameters in billions."""
_ENDS = (-2, 2.3)


def model_size_chart(given: Given, method: str = "Vanilla ICL") -> Figure:
    """Return the published accuracies against the number of parameters, and each comparable run as a horizontal line.

    Args:
        given: A result of Normal, or several by the name of their run.
        method: The inference method whose published figures are drawn.

    Raises:
        ArgumentError: No run is comparable with the published figures
            (:mod:`StaICC.comparing.published`).
        UnknownNameError: There is no such published method.
    """
    accuracies = _comparable_accuracies(named(given), method)
    if not accuracies:
        raise ArgumentError("no run is comparable with the published figures")
    points = _published_points(method)
    keys = [Shape(kind="mark", text="published models")]
    lines = []
    unknown_size = Missing("the parameters of a run are not recorded")
    for number, (run, accuracy) in enumerate(accuracies):
        points.append(Point(_TITLE, "runs", run, ChartScore(accuracy), more=(unknown_size, "")))
        lines.append(Shape([(x, accuracy) for x in _ENDS], number))
        keys.append(Shape((), number, text=run))
    return chart(
        "Comparison with the published models",
        f"Accuracy of the published models ({method}) against their number of parameters. A horizontal line is a run "
        "with the published prompts.",
        ["", "", "model", "accuracy", "parameters (billions)", "warnings"],
        points,
        {"published models": None, "runs": 0},
        across=Axis(_ENDS, _TICKS, "parameters"),
        lines={_TITLE: lines},
        legend=keys,
        width=640,
    )


def _comparable_accuracies(runs: Mapping[str, Result], method: str) -> list[tuple[str, float]]:
    """Return the names and the accuracies of the runs that are comparable with the published figures.

    Runs that have no colour of their own are left out.
    """
    accuracies = []
    for run, result in list(runs.items())[:SERIES]:
        for compared in compare_with_published(result, method):
            if compared.metric == "accuracy" and compared.reason is None and compared.value is not None:
                accuracies.append((run, compared.value))
    return accuracies


def _published_points(method: str) -> list[Point]:
    """Return a point for each published accuracy. Doubtful figures are in the table only."""
    sizes = {model.name: model.params_b for model in published_models()}
    points = []
    for published in published_figures(benchmark_names.NORMAL, method=method, metric="accuracy"):
        if published.value is None:
            continue
        size = sizes[published.model]
        point = Point(
            _TITLE,
            "published models",
            published.model,
            ChartScore(published.value),
            x=None if published.doubtful else math.log10(size),
            more=(f"{size:g}", "; ".join(published.warnings)),
        )
        points.append(point)
    return points
