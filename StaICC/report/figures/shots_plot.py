"""The figure of accuracy, cost against the number of demonstrations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    """Return the lines of the figure by name. A line has the results of runs that differ in ``k`` only, by ``k``.

    A result that differs from all others in more than ``k`` is left out. The name of a line has its model, its method,
    and the settings in which the lines differ.

    Args:
        given: Results of Normal.
    """
    results_by_settings: dict[tuple[tuple[str, Any], ...], dict[int, Result]] = {}
    for result in named(given).values():
        settings = _settings(result)
        k = str(settings.pop("k", None))
        if k.isdigit():
            results_by_settings.setdefault(tuple(settings.items()), {})[int(k)] = result
    lines = []
    for items, results_by_k in results_by_settings.items():
        if len(results_by_k) > 1:
            lines.append(_Line(dict(items), dict(sorted(results_by_k.items()))))

    names_of_settings = [*_ALWAYS_NAMED, *_differing_settings([line.settings for line in lines])]
    return {_name_of_line(line.settings, names_of_settings): line.results_by_k for line in lines}


class _Line(NamedTuple):
    """A line of the figure: results that differ in ``k`` only."""

    settings: dict[str, Any]
    """The settings of all of its runs, with the method and the model."""
    results_by_k: dict[int, Result]


def _differing_settings(settings_of_lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the settings in which lines differ, without those that are always named."""
    names: dict[str, None] = {}
    for settings in settings_of_lines:
        names |= dict.fromkeys(settings)
    differing = []
    for name in names:
        values = {settings.get(name) for settings in settings_of_lines}
        if len(values) > 1 and name not in _ALWAYS_NAMED:
            differing.append(name)
    return differing


def _settings(result: Result) -> dict[str, Any]:
    """Return the settings of a run by name: the fields of its signature, with its method and its model.

    The field ``demonstrations`` is not in the signature if they are drawn as published; it is ``default`` then.
    """
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
    """Return the axis with a tick for each number of demonstrations; with a tick for 0 if there are no lines."""
    known_ks: set[int] = set()
    for results_by_k in lines.values():
        known_ks.update(results_by_k)
    ks = sorted(known_ks) or [0]
    ticks = [(_x_of(k), str(k)) for k in ks]
    return Axis((_x_of(ks[0]) - 0.3, _x_of(ks[-1]) + 0.3), ticks, "demonstrations (k)")
