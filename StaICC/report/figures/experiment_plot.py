"""The figure of an experiment of LongICL, or of HELMET's lengths, by condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC import benchmark_names
from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
from StaICC.report.chart import SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, dataset_names, named
from StaICC.report.shapes import SERIES, Axis, Shape
from StaICC.results.result import Result

_AXIS_LABELS = {
    "context": "tokens of the context",
    "shots": "demonstrations per label",
    "position": "part of the context",
    benchmark_names.HELMET: "length of HELMET",
}
"""The experiments that are drawn as curves, with the labels of their axes; the others are rows."""

Conditions = Mapping[str, Mapping[str, Any]]
"""What is recorded of the conditions of an experiment, by name."""


def experiment_chart(given: Given) -> Figure:
    """Return the scores of an experiment of LongICL, or of HELMET's lengths, by condition, with their intervals.

    The axis of the experiment ``context`` is the number of tokens, by the model's tokenizer where it is known.

    Args:
        given: A result of LongICL with an experiment, or of HELMET; or several of the same experiment by the name of
            their run.

    Raises:
        ArgumentError: There is no experiment, or there are several.
    """
    runs = named(given)
    experiment = _common_experiment(runs)
    points: list[Point] = []
    bands_by_dataset: dict[str, list[Shape]] = {}
    axis_by_dataset: dict[str, Axis] = {}
    for dataset in dataset_names(runs):
        condition_names = _condition_names(runs, dataset, experiment)
        all_positions: list[float] = []
        bands: list[Shape] = []
        for number, (run, result) in enumerate(runs.items()):
            position_by_condition = _positions(result, dataset, experiment, condition_names)
            all_positions += position_by_condition.values()
            points += _points(run, result, dataset, position_by_condition)
            has_colour = number < SERIES
            if has_colour:
                bands += _bands(result, dataset, position_by_condition, number)
        bands_by_dataset[dataset] = bands
        if experiment in _AXIS_LABELS and all_positions:
            axis_by_dataset[dataset] = _axis(experiment, condition_names, all_positions)

    title = f"Experiment: {experiment}"
    if experiment == benchmark_names.HELMET:
        title = "HELMET"
    caption = "Accuracy or micro F1 by condition, with intervals. "
    head = ["data set", "run", "condition", "score"]
    if not axis_by_dataset:  # Each condition is a row.
        return chart(title, caption, head, points, values=SHARE_AXIS, dodge=0.1)
    return chart(
        title,
        f"{caption}Dashed lines are simultaneous intervals, for all conditions of a run together. ",
        head,
        points,
        across=axis_by_dataset,
        values=SHARE_AXIS._replace(label="score"),
        lines=bands_by_dataset,
    )


def _common_experiment(runs: Mapping[str, Result]) -> str:
    """Return the name of the experiment that all runs are of.

    Raises:
        ArgumentError: There is no experiment, or there are several.
    """
    names = set()
    for result in runs.values():
        for values in result.divided.values():
            experiment = values.get("experiment")
            if experiment:
                names.add(str(experiment["name"]))
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise ArgumentError(f"expected results of one experiment of LongICL, got {listed}")
    (name,) = names
    return name


def _conditions(result: Result, dataset: str) -> Conditions:
    """Return the conditions of a result on a data set; none if it has no experiment there."""
    experiment = result.divided.get(dataset, {}).get("experiment") or {}
    conditions: Conditions = experiment.get("conditions", {})
    return conditions


def _condition_names(runs: Mapping[str, Result], dataset: str, experiment: str) -> list[str]:
    """Return the conditions that any run has on a data set, in the order of the axis.

    Args:
        runs: The results, by the names of their runs.
        dataset: The data set.
        experiment: The name of the experiment. Conditions of numbers of demonstrations are sorted by these.
    """
    conditions: dict[str, Mapping[str, Any]] = {}
    for result in runs.values():
        conditions.update(_conditions(result, dataset))
    names = list(conditions)
    if experiment in ("shots", benchmark_names.HELMET):  # runs may have other levels
        names.sort(key=lambda name: conditions[name].get("demonstrations") or 0)
    return names


def _positions(result: Result, dataset: str, experiment: str, names: Sequence[str]) -> dict[str, float]:
    """Return the position of each condition of a run on the axis.

    In the experiment ``context``, it is the binary logarithm of the number of tokens. In ``position``, the context is
    divided into parts, and it is the middle of a part, on a scale on which all contexts have the same length. In any
    other experiment, it is the number of the condition.

    Args:
        result: The result of the run.
        dataset: The data set.
        experiment: Name of the experiment.
        names: The conditions of all runs.
    """
    conditions = _conditions(result, dataset)
    positions = {}
    for name, condition in conditions.items():
        if experiment == "context":
            tokens = result.timing.get(f"{dataset}, {name}, tokens")
            length = tokens or condition.get("reference_tokens") or 1.0
            positions[name] = math.log2(max(1.0, length))
        elif experiment == "position":
            # Runs may divide the context into different numbers of parts.
            middle_of_part = names.index(name) + 0.5  # in parts of this run
            positions[name] = middle_of_part * len(names) / len(conditions) - 0.5
        else:
            positions[name] = float(names.index(name))
    return positions


def _points(run: str, result: Result, dataset: str, positions: Mapping[str, float]) -> list[Point]:
    """Return a point for each condition of a run on a data set.

    Args:
        run: The name of the run.
        result: Its result.
        dataset: The data set.
        positions: The position of each condition on the horizontal axis.
    """
    points = []
    for name, condition in _conditions(result, dataset).items():
        low = condition.get("score_low")
        high = condition.get("score_high")
        interval = None
        if low is not None and high is not None:
            interval = Interval(low, high, 0.95, "")
        score = ChartScore(
            condition.get("score"),
            interval,
            "undefined or not measured",
            left_out=result.left_out_of(name, dataset),
        )
        points.append(Point(dataset, run, name, score, x=positions[name]))
    return points


def _bands(result: Result, dataset: str, positions: Mapping[str, float], number: int) -> list[Shape]:
    """Return the lower and the upper ends of the simultaneous intervals, as two lines.

    Args:
        result: The result of a run.
        dataset: The data set.
        positions: The position of each condition on the axis.
        number: The number of the run.
    """
    bands = []
    for key in ("band_low", "band_high"):
        line = []
        for name, condition in _conditions(result, dataset).items():
            if condition.get(key) is not None:
                line.append((positions[name], condition[key]))
        if line:
            bands.append(Shape(line, number, "dashed"))
    return bands


def _axis(experiment: str, names: Sequence[str], positions: Sequence[float]) -> Axis:
    """Return the axis of the conditions.

    Args:
        experiment: Name of the experiment.
        names: The conditions of all runs.
        positions: The positions of all points.
    """
    ticks = []
    if experiment == "context":
        for power in range(math.floor(min(positions)), math.ceil(max(positions)) + 1):
            tokens = str(2**power)
            if power >= 10:
                tokens = f"{2**power // 1024}K"
            ticks.append((float(power), tokens))
    else:
        for number, name in enumerate(names):
            ticks.append((float(number), name.removeprefix("part ").removesuffix(" shots")))
    return Axis((ticks[0][0] - 0.3, ticks[-1][0] + 0.3), ticks, _AXIS_LABELS[experiment])
