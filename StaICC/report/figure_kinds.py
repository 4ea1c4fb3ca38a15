"""The figures of a result by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from StaICC.arguments import known_name
from StaICC.report.figure import Figure
from StaICC.report.figures.accuracy_plot import accuracy_by_dataset
from StaICC.report.figures.bias_plot import bias_distributions
from StaICC.report.figures.confusion_plot import confusion_matrices
from StaICC.report.figures.cost_plot import cost_chart
from StaICC.report.figures.experiment_plot import experiment_chart
from StaICC.report.figures.forest_plot import forest
from StaICC.report.figures.model_size_plot import model_size_chart
from StaICC.report.figures.noise_plot import noise_lines
from StaICC.report.figures.reliability_plot import reliability_diagrams
from StaICC.report.figures.rounds_plot import rounds_chart
from StaICC.report.figures.shots_plot import shots_chart
from StaICC.report.figures.variance_plot import variance_chart
from StaICC.results.result import Result, ResultGroup

KINDS: Mapping[str, Callable[..., Figure]] = {
    "forest": forest,
    "accuracy": accuracy_by_dataset,
    "reliability": reliability_diagrams,
    "confusion": confusion_matrices,
    "bias": bias_distributions,
    "noise": noise_lines,
    "variance": variance_chart,
    "rounds": rounds_chart,
    "experiment": experiment_chart,
    "shots": shots_chart,
    "cost": cost_chart,
    "models": model_size_chart,
}
"""The functions that draw them."""


def figure_of(result: Result | ResultGroup, kind: str = "forest", **options: Any) -> Figure:
    """Return a figure of a result or of a group of results.

    Args:
        result: The result; of a group, all of its results are drawn.
        kind: One of :data:`KINDS`.
        **options: Further arguments of the figure, such as ``metric`` of :func:`forest`.

    Raises:
        ArgumentError: The result has not what the figure needs; the message says what.
        UnknownNameError: There is no such figure.
    """
    draw = KINDS[known_name("figure", kind, KINDS)]
    if isinstance(result, Result):
        return draw(result, **options)
    return draw(dict(result), **options)
