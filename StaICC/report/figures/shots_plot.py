"""The figure of accuracy, cost against the number of demonstrations."""

from __future__ import annotations

import math
from typing import Any

from StaICC.report.chart import SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import ChartScore, scores_of
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, named
from StaICC.report.shapes import Axis
from StaICC.results.result import Result

_NOT_SETTINGS = ("prompts", "failed", "version")
"""Fields of a signature that are no settings of a run."""
_ALWAYS_NAMED = ("method", "demonstrations", "model")
"""What the name of a line always has; other settings are in it where the lines differ."""
_COSTS = {"Thousand characters": "prompt_characters", "Without shared prefixes": "new_characters"}
"""Titles of the panels of costs, and the keys of the costs in a result."""


def shots_chart(given: Given) -> Figure:
    """Return accuracy and cost against the number of demonstrations, one line for each model and method.

    Args:
        given: Results with different ``k``, by the name of their run, such as those of
            :func:`~StaICC.methods.many_shot.run_many_shot`.

    Raises:
        ArgumentError: No two results differ in ``k`` only.
    """
    lines = shots_lines(given)
    points = []
    for name, results_by_k in lines.items():
        for k, result in results_by_k.items():
            accuracy = scores_of(result).get((None, "accuracy"), ChartScore())
            points.append(Point("Accuracy", name, str(k), accuracy, x=_x_of(k)))
    for title, key in _COSTS.items():
        for name, results_by_k in lines.items():
            for k, result in results_by_k.items():
                cost = result.timing.get(key)
                thousands = ChartScore() if cost is None else ChartScore(cost / 1000)
                points.append(Point(title, name, str(k), thousands, x=_x_of(k)))
    return chart(
        "Number of demonstrations",
        "Accuracy (mean over the data sets) against k with confidence intervals, and the characters of all test "
        "prompts: in total, and without the prefixes that prompts share with each other and with the prompts of a "
        "smaller k.",
        ["panel", "model and method", "k", "value"],
        points,
        needs="no two results differ in k only. Use results of run_many_shot",
        across=_axis_of_k(lines),
        values={"Accuracy": SHARE_AXIS},
        dodge=0.1,
    )


def shots_lines(given: Given) -> dict[str, dict[int, Result]]:
    """Return the runs that differ in ``k`` only, by model, method and other settings, each with its results by ``k``.

    Args:
        given: Results of Normal.
    """
    lines: dict[tuple[tuple[str, Any], ...], dict[int, Result]] = {}
    for result in named(given).values():
        settings = _settings(result)
        k = str(settings.pop("k", None))
        if k.isdigit():
            lines.setdefault(tuple(settings.items()), {})[int(k)] = result
    several = [(dict(settings), results) for settings, results in lines.items() if len(results) > 1]

    names = list(_ALWAYS_NAMED)
    for name in dict.fromkeys(name for settings, _ in several for name in settings):
        values = {settings.get(name) for settings, _ in several}
        if len(values) > 1 and name not in names:
            names.append(name)
    named_lines = {}
    for settings, results in several:
        named_lines[_name_of_line(settings, names)] = dict(sorted(results.items()))
    return named_lines


def _settings(result: Result) -> dict[str, Any]:
    """Return the settings of a run, with its method and its model."""
    settings: dict[str, Any] = {"method": result.method, "demonstrations": "default"}
    for name, value in result.signature.fields.items():
        if name not in _NOT_SETTINGS:
            settings[name] = value
    settings["model"] = result.model
    return settings


def _name_of_line(settings: dict[str, Any], names: list[str]) -> str:
    """Return the name of a line: the values of some settings."""
    parts = []
    for name in names:
        if name in _ALWAYS_NAMED:
            parts.append(f"{settings[name]}")
        else:
            parts.append(f"{name} {settings.get(name, 'not set')}")
    return ", ".join(parts)


def _x_of(k: int) -> float:
    """Return the position of a number of demonstrations on the axis: its binary logarithm; 0 is left of 1."""
    if k == 0:
        return -1.0
    return math.log2(k)


def _axis_of_k(lines: dict[str, dict[int, Result]]) -> Axis:
    """Return the axis with a tick for each number of demonstrations."""
    ks = sorted({k for results in lines.values() for k in results}) or [0]
    ticks = [(_x_of(k), str(k)) for k in ks]
    return Axis((_x_of(ks[0]) - 0.3, _x_of(ks[-1]) + 0.3), ticks, "demonstrations (k)")
