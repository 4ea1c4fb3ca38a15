"""The figure of reliability diagrams."""

from __future__ import annotations

from collections.abc import Iterable

from StaICC.metrics.classification import ConfidenceBin
from StaICC.report.chart import ACCURACY_AXIS, SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, left_out_note, named
from StaICC.report.shapes import Shape
from StaICC.results.result import Result

Bins = tuple[ConfidenceBin, ...]


def reliability_diagrams(given: Given) -> Figure:
    """Return accuracy against confidence in ten bins: one panel for each data set, or for each of several runs.

    Args:
        given: A result of Normal with probabilities: a panel for each data set. Or results by the name of their run: a
            panel for each run, with the queries of all data sets.

    Raises:
        ArgumentError: No result has confidence bins: the predictions are labels, or ambiguous scores.
    """
    if isinstance(given, Result):
        panel_kind = "data set"
        bins_by_panel = _bins_by_dataset(given)
    else:
        panel_kind = "run"
        bins_by_panel = {}
        for run, result in named(given).items():
            bins_by_panel[run] = _pooled(_bins_by_dataset(result).values())
    points = []
    for panel, bins in bins_by_panel.items():
        points += _points(panel, bins)
    diagonal = Shape([(0, 0), (1, 1)], kind="dashed")
    return chart(
        f"Reliability by {panel_kind}",
        "Accuracy (vertical) against confidence in ten bins. The size of a point grows with the number of queries. "
        "Points on the dashed line are calibrated, points below it are overconfident." + left_out_note(given),
        [panel_kind, "", "confidence", "accuracy", "mean confidence", "queries"],
        points,
        needs="the result has no confidences: its predictions are labels, or ambiguous scores",
        across=SHARE_AXIS._replace(label="confidence"),
        values=ACCURACY_AXIS,
        lines={panel: [diagonal] for panel in bins_by_panel},
        width=236,
    )


def _points(panel: str, bins: Bins) -> list[Point]:
    """Return a point for each confidence bin that has queries: its accuracy at its mean confidence.

    Args:
        panel: The title of the panel.
        bins: The bins in order, or none. All have the same width, and together they are the range from 0 to 1.
    """
    all_queries = sum(confidence_bin.queries for confidence_bin in bins)
    points = []
    for number, confidence_bin in enumerate(bins):
        queries = confidence_bin.queries
        if queries == 0:
            continue
        mean_confidence = confidence_bin.confidence / queries
        point = Point(
            panel,
            series="",
            category=f"{number / len(bins):g} to {(number + 1) / len(bins):g}",
            score=ChartScore(confidence_bin.correct / queries),
            x=mean_confidence,
            more=(f"{mean_confidence:.3f}", str(queries)),
            size=0.5 + (queries / all_queries) ** 0.5,
        )
        points.append(point)
    return points


def _bins_by_dataset(result: Result) -> dict[str, Bins]:
    """Return the confidence bins of each data set whose conditions all have them."""
    by_dataset = {}
    for dataset, details in result.details.items():
        known = [condition.calibration for condition in details.conditions if condition.calibration is not None]
        if len(known) < len(details.conditions):
            continue
        bins = _pooled(known)
        if any(confidence_bin.queries for confidence_bin in bins):
            by_dataset[dataset] = bins
    return by_dataset


def _pooled(several: Iterable[Bins]) -> Bins:
    """Return the bins of several conditions or data sets together: each has the sums over the bins of its number."""
    pooled = []
    for bins_of_number in zip(*several, strict=True):
        pooled.append(
            ConfidenceBin(
                queries=sum(confidence_bin.queries for confidence_bin in bins_of_number),
                confidence=sum(confidence_bin.confidence for confidence_bin in bins_of_number),
                correct=sum(confidence_bin.correct for confidence_bin in bins_of_number),
            )
        )
    return tuple(pooled)
