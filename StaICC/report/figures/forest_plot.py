"""The forest plot of a score: data sets of one run, or means of several runs."""

from __future__ import annotations

from StaICC.comparing.comparable_scores import default_metric, metrics_of
from StaICC.errors import ArgumentError
from StaICC.metrics.scores import score_record
from StaICC.report.chart import Point, chart
from StaICC.report.chart_scores import ChartScore, mean_key, scores_of
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, named
from StaICC.results.result import Result

_DIRECTIONS = {True: "Higher is better. ", False: "Lower is better. ", None: ""}
"""The first sentence of the caption, by whether higher values are better."""


def forest(given: Given, metric: str | None = None) -> Figure:
    """Return a forest plot: the data sets of one result and their mean, or the means of several results.

    Args:
        given: A result, or several of one benchmark by the name of their run.
        metric: A score with a mean; by default the main one of the benchmark, or the first condition of an experiment.

    Raises:
        ArgumentError: There are no results, they are of several benchmarks, or none has the score.
    """
    runs = named(given)
    benchmarks = list(dict.fromkeys(result.benchmark for result in runs.values()))
    if len(benchmarks) > 1:
        raise ArgumentError(f"expected results of one benchmark, got {', '.join(benchmarks)}. Plot one of them")
    first = next(iter(runs.values()))
    metric = metric or _default_metric(first)
    key = mean_key(first.benchmark, metric)
    record = score_record(first.benchmark, metric, first.higher_is_better)

    points = []
    if len(runs) == 1:
        row_kind = "data set"
        points = _dataset_points(first, key, record.title)
    else:
        row_kind = "run"
        for run, result in runs.items():
            mean = scores_of(result).get((None, key), ChartScore())  # no data set: the mean over all
            points.append(Point(panel=record.title, series="", category=run, score=mean))
    return chart(
        record.title,
        f"{_DIRECTIONS[record.higher_is_better]}Points with confidence intervals.",
        ["", "", row_kind, record.title],
        points,
        needs=f"no value in the results; scores with a mean: {', '.join(first.averaged)}",
        width=360,
    )


def _default_metric(result: Result) -> str:
    """Return the main score of a benchmark, or the first score of a result without one."""
    main = default_metric(result)
    if main:
        return main
    return next(iter(metrics_of(result)), "accuracy")


def _dataset_points(result: Result, key: str, panel: str) -> list[Point]:
    """Return a point for each data set of a result, and for the mean if there are several.

    Args:
        result: The result.
        key: Key of the score in :func:`~StaICC.report.chart_scores.scores_of`.
        panel: Title of the panel.
    """
    score_by_dataset_and_key = scores_of(result)
    datasets = list(result.divided)  # the scores by data set
    points = []
    for dataset in datasets:
        score = score_by_dataset_and_key.get((dataset, key), ChartScore())
        points.append(Point(panel, series="data sets", category=dataset, score=score))
    if len(datasets) > 1:
        mean = score_by_dataset_and_key.get((None, key), ChartScore())
        points.append(Point(panel, series="mean", category="mean", score=mean))
    return points
