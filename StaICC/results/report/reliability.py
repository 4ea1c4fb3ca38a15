"""Reliability diagrams: accuracy against confidence.

Every result contains ten confidence bins for each condition. The position of a point is the mean confidence
and the accuracy of its bin, and its area is the number of queries; the bars show the distribution of confidences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.errors import ArgumentError
from StaICC.metrics.classification import ConfidenceBin
from StaICC.results.report.drawing import ROLES, SERIES, clip, faint, new_grid, plain_axes, styled
from StaICC.results.report.runs import Given, figure, one_run
from StaICC.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["reliability_bins", "reliability_diagrams", "reliability_rows"]


def reliability_bins(result: Result) -> dict[str, tuple[ConfidenceBin, ...]]:
    """Return the confidence bins of each data set that has them.

    Args:
        result: A result with one condition (Normal).
    """
    found = {}
    for dataset, details in result.details.items():
        bins = details.conditions[0].calibration if details.conditions else None
        if bins is not None and any(one.queries for one in bins):
            found[dataset] = bins
    return found


def _draw(axes: Axes, bins: tuple[ConfidenceBin, ...]) -> None:
    total = sum(one.queries for one in bins)
    width = 1 / len(bins)
    axes.bar(
        [(place + 0.5) * width for place in range(len(bins))],
        [0.3 * one.queries / total for one in bins],
        width=width * 0.9,
        facecolor=faint("mark"),
        edgecolor=ROLES["mark"],
        linewidth=0.7,
    )
    axes.plot([0, 1], [0, 1], color=ROLES["mark"], linewidth=1, linestyle=(0, (3, 2)))
    full = [one for one in bins if one.queries]
    confidences = [one.confidence / one.queries for one in full]
    accuracies = [one.correct / one.queries for one in full]
    areas = [8 + 110 * one.queries / total for one in full]
    axes.plot(confidences, accuracies, color=SERIES[0].colour, linewidth=1.1)
    # A confidence of 1 is on the edge, so points are not clipped.
    axes.scatter(confidences, accuracies, s=areas, color=SERIES[0].colour, zorder=3, clip_on=False)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    plain_axes(axes)


@styled
def reliability_diagrams(result: Given) -> Figure:
    """Draw a reliability diagram for each data set.

    Args:
        result: A result of Normal, with probabilities.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: No data set has confidence bins: the predictions are labels, or the file is of an older version.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    run = one_run(result)
    found = reliability_bins(run)
    if not found:
        raise ArgumentError("the result has no confidences: its predictions are labels, or ambiguous scores")
    drawing, panels = new_grid(len(found), 5, 1.95, 2.05, sharex=True, sharey=True)
    for axes, (dataset, bins) in zip(panels, found.items(), strict=True):
        _draw(axes, bins)
        axes.set_title(clip(dataset, 20), parse_math=False)
        error = figure(run.divided.get(dataset), "expected_calibration_error_1")
        if error is not None:
            axes.text(0.03, 0.97, f"ECE-1 {error:.3f}", transform=axes.transAxes, va="top", color=ROLES["soft"])
    drawing.supxlabel("confidence", fontsize=9, color=ROLES["soft"])
    drawing.supylabel("accuracy", fontsize=9, color=ROLES["soft"])
    return drawing


def reliability_rows(result: Result) -> tuple[list[str], list[list[str]]]:
    """Return the bins as a table.

    Args:
        result: The result.

    Returns:
        Head and rows; empty bins are omitted.
    """
    rows = []
    for dataset, bins in reliability_bins(result).items():
        for place, one in enumerate(bins):
            if one.queries:
                span = f"{place / len(bins):g} to {(place + 1) / len(bins):g}"
                figures = (one.confidence / one.queries, one.correct / one.queries)
                rows.append([dataset, span, str(one.queries), *(f"{value:.3f}" for value in figures)])
    return ["data set", "bin", "queries", "mean confidence", "accuracy"], rows
