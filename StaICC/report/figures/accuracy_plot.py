"""The figure of accuracies by data set, with intervals next to baselines."""

from __future__ import annotations

from StaICC.report.chart import SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import NOT_EVALUATED, scores_of
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, dataset_names, named


def accuracy_by_dataset(given: Given) -> Figure:
    """Return accuracy by data set, with confidence intervals, the random baseline and the majority baseline.

    Args:
        given: A result of a benchmark that scores accuracy by data set (Normal), or several by the name of their run.

    Raises:
        ArgumentError: There are no results, or none has an accuracy.
    """
    runs = named(given)
    scores = {run: scores_of(result) for run, result in runs.items()}
    points = []
    for dataset in dataset_names(runs):
        for run in runs:
            score = scores[run].get((dataset, "accuracy"), NOT_EVALUATED)
            points.append(Point(panel=dataset, series=run, category=run, score=score))
    return chart(
        "Accuracy by data set",
        "Points are accuracies, with their confidence intervals. The solid line is the random baseline (the expected "
        "best of the tried settings), the dashed line is the majority baseline.",
        ["data set", "", "run", "accuracy"],
        points,
        needs="no result has an accuracy. Use results of Normal",
        values=SHARE_AXIS,
    )
