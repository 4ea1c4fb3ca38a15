"""The figure of LongICL's scores by rounds of demonstrations."""

from __future__ import annotations

from collections.abc import Mapping

from StaICC import benchmark_names
from StaICC.comparing.published import published_figures
from StaICC.report.chart import SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import NOT_EVALUATED, ChartScore, Scores, scores_of
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, dataset_names, named
from StaICC.report.shapes import Axis, Shape

_ROUNDS = {"1R": 1.0, "2R": 2.0, "3R": 3.0, "4R": 4.0, "5R": 5.0}
"""Keys of the rounds, each with its position on the axis."""
_ENDS = (0.7, 5.3)
"""The ends of the axis."""


def rounds_chart(given: Given) -> Figure:
    """Return the score of each data set by rounds of demonstrations, with the published models in the background.

    Args:
        given: A result of LongICL, or several by the name of their run.

    Raises:
        ArgumentError: No result has a score of a round.
    """
    runs = named(given)
    scores_by_run = {run: scores_of(result) for run, result in runs.items()}
    points = []
    lines = {}
    for dataset in dataset_names(runs):
        for run, scores in scores_by_run.items():
            for key, x in _ROUNDS.items():
                score = scores.get((dataset, key), NOT_EVALUATED)
                points.append(Point(dataset, run, key, score, x))
        lines[dataset] = [*_published_lines(dataset), *_random_baseline(dataset, scores_by_run)]
    return chart(
        "Score by rounds of demonstrations",
        "Accuracy or micro F1 (vertical). Each round adds one demonstration of every label. Grey lines are the "
        "published models, the dashed line is the random baseline.",
        ["data set", "run", "round", "score"],
        points,
        needs="no result has a score of a round. Use results of LongICL",
        across=Axis(_ENDS, [(x, f"{x:g}") for x in _ROUNDS.values()], "rounds of demonstrations"),
        values=SHARE_AXIS._replace(label="score"),
        lines=lines,
        legend=[Shape(text="published models"), Shape(kind="dashed", text="random baseline")],
    )


def _published_lines(dataset: str) -> list[Shape]:
    """Return a line for each published model."""
    points_by_model: dict[str, list[tuple[float, float]]] = {}
    for published in published_figures(benchmark_names.LONG_ICL):
        if published.dataset == dataset and published.value is not None and published.metric in _ROUNDS:
            point = (_ROUNDS[published.metric], published.value)
            points_by_model.setdefault(published.model, []).append(point)
    return [Shape(points) for points in points_by_model.values()]


def _random_baseline(dataset: str, scores_by_run: Mapping[str, Scores]) -> list[Shape]:
    """Return the random baseline, from the first run that records it; nothing without one."""
    for scores in scores_by_run.values():
        value = scores.get((dataset, "uniform"), ChartScore()).value
        if value is not None:
            return [Shape([(x, value) for x in _ENDS], kind="dashed")]
    return []
