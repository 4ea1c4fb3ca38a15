"""The figure of accuracy against label noise."""

from __future__ import annotations

from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.report.chart import ACCURACY_AXIS, SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import ChartScore, Scores, scores_of
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, named
from StaICC.results.result import Result

_MANY_DEMONSTRATIONS = 10**6
"""With so many demonstrations, the shares of correct labels are those that the noise rates aim at."""


def noise_lines(given: Given) -> Figure:
    """Return accuracy against the share of correct labels in the demonstrations, with the GLER regression line.

    Args:
        given: A result of GLER, or several by the name of their run.

    Raises:
        ArgumentError: No result has an accuracy by noise rate.
    """
    points: list[Point] = []
    for run, result in named(given).items():
        scores = scores_of(result)
        demonstrations = _demonstrations(result)
        for dataset in result.divided:
            points += _points(run, result, dataset, scores, demonstrations)
    return chart(
        "Accuracy against label noise",
        "From all demonstration labels wrong (left) to all correct (right). GLER is the slope of a line through the "
        "points: how much the demonstration labels influence the predictions.",
        ["data set", "run", "share of correct labels", "accuracy", "slope (GLER)"],
        points,
        needs="no result has an accuracy by noise rate. Use results of GLER",
        across=SHARE_AXIS._replace(label="share of correct labels"),
        values=ACCURACY_AXIS,
        width=236,
    )


def _demonstrations(result: Result) -> int:
    """Return the number of demonstrations of a prompt; a large number if the result does not record it."""
    k = result.signature.fields.get("k") or ""
    if k.isdigit() and int(k) > 0:
        return int(k)
    return _MANY_DEMONSTRATIONS


def _points(run: str, result: Result, dataset: str, scores: Scores, demonstrations: int) -> list[Point]:
    """Return a point for each noise rate, at the share of correct labels in the demonstrations.

    The scores of a data set have the numbers of the noise rates as keys, in order: "0" is without noise.

    Args:
        run: Name of the run.
        result: Its result.
        dataset: The data set.
        scores: All scores of the result.
        demonstrations: Number of demonstrations of a prompt.
    """
    slope = scores.get((dataset, "sensitivity.accuracy"), ChartScore())
    slope_cell = slope.cell if slope.value is None else f"{slope.value:+.4f}"
    numbers_of_rates = sorted(int(key) for key in result.divided[dataset] if key.isdigit())
    shares = noisy_label_shares(demonstrations, len(numbers_of_rates))
    points = []
    for number, share in zip(numbers_of_rates, shares, strict=True):
        score = scores.get((dataset, f"{number}.accuracy"), ChartScore())
        points.append(Point(dataset, run, f"{share:.2f}", score, x=share, more=(slope_cell,)))
    return points
