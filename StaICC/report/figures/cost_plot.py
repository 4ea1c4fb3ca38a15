"""The figure of accuracy next to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from StaICC.errors import ArgumentError
from StaICC.report.chart import Point, chart
from StaICC.report.chart_scores import ChartScore, scores_of
from StaICC.report.figure import Figure
from StaICC.report.html import Missing
from StaICC.report.runs_by_name import Given, named
from StaICC.report.shapes import Shape
from StaICC.results.result import Result


def cost_chart(given: Given) -> Figure:
    """Return the accuracy and the cost of each method: its tokens where all results have them, else its prompts.

    Args:
        given: Results of methods by name, such as the table of :func:`~StaICC.methods.run.run_all`.

    Raises:
        ArgumentError: No result has a cost and an accuracy.
    """
    runs = named(given)
    unit, costs = _costs(runs)
    cheapest_first = sorted(runs, key=lambda run: costs[run] or math.inf)
    accuracies = {run: scores_of(runs[run]).get((None, "accuracy"), ChartScore()) for run in cheapest_first}
    highest = _highest_so_far(cheapest_first, costs, accuracies)
    if not highest:
        raise ArgumentError("no result has a cost and an accuracy. Use the results of run_all")

    accuracy_points = []
    cost_points = []
    for run in cheapest_first:
        cost = costs[run]
        cost_cell = Missing("not recorded") if cost is None else f"{cost:.0f}"
        accuracy_points.append(Point("Accuracy", "", run, accuracies[run], more=(cost_cell,)))
        thousands = ChartScore(cost / 1000) if cost else ChartScore()
        cost_points.append(Point(f"Thousand {unit}", "", run, thousands))
    accuracy_figure = chart(
        "Accuracy and cost",
        f"Accuracy (mean over the data sets) with its interval, and the {unit} of training and test. The cheapest "
        "method is at the top.",
        ["", "", "method", "accuracy", unit],
        accuracy_points,
        lines={"Accuracy": [Shape(highest, 1)]},
        legend=[Shape((), 1, text="highest accuracy of the methods that cost no more")],
        width=320,
    )
    cost_figure = chart("", "", ["", "", "", ""], cost_points, width=320)
    return replace(accuracy_figure, panels=[*accuracy_figure.panels, *cost_figure.panels])


def _costs(runs: Mapping[str, Result]) -> tuple[str, dict[str, float | None]]:
    """Return the unit of the costs, and the cost of each run; ``None`` if it is not recorded."""
    tokens = {run: result.timing.get("tokens_alone") for run, result in runs.items()}
    if all(count is not None for count in tokens.values()):
        return "tokens", tokens
    return "prompts", {run: _prompts(result) for run, result in runs.items()}


def _prompts(result: Result) -> float | None:
    """Return the number of prompts of training and test; ``None`` if one of them is not recorded."""
    training = result.timing.get("training_prompts")
    test = result.timing.get("test_prompts")
    if training is None or test is None:
        return None
    return training + test


def _highest_so_far(
    cheapest_first: list[str], costs: Mapping[str, float | None], accuracies: Mapping[str, ChartScore]
) -> list[tuple[float, float]]:
    """Return a stepped line through the rows of methods: the highest accuracy of a method that costs no more.

    Args:
        cheapest_first: The methods in the order of their costs. Each has a row, of height 1.
        costs: The cost of each method; ``None`` or 0 if it is not known. Such a method is left out.
        accuracies: The accuracy of each method.

    Returns:
        The points of the line: accuracy and position, at the beginning and at the end of each row.
    """
    line: list[tuple[float, float]] = []
    highest = 0.0
    for row, run in enumerate(cheapest_first):
        accuracy = accuracies[run].value
        if costs[run] and accuracy is not None:
            highest = max(highest, accuracy)
            line += [(highest, row - 0.5), (highest, row + 0.5)]
    return line
