"""Where runs stand among the published models: accuracy against parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from StaICC.results.published import PublishedFigure, beside, figures, find_method, models
from StaICC.results.report.accuracy import legend_label
from StaICC.results.report.drawing import ROLES, drawn, new_figure, plain_axes, series
from StaICC.results.report.runs import Given, named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["standing_chart", "standing_rows"]

_NAME_WIDTH, _NAME_HEIGHT = 0.3, 0.013
"""Room of a model's name in the figure, in decades of parameters and in accuracy."""


def _spaced(known: Sequence[PublishedFigure]) -> list[PublishedFigure]:
    """Choose the figures whose names can stand beside their points without lying on each other; the best come first."""
    sizes = {model.name: math.log10(model.params_b) for model in models()}
    chosen: list[PublishedFigure] = []
    for one in sorted(known, key=lambda one: -(one.value or 0.0)):
        here = sizes[one.model], one.value or 0.0
        if all(
            abs(sizes[other.model] - here[0]) > _NAME_WIDTH or abs((other.value or 0.0) - here[1]) > _NAME_HEIGHT
            for other in chosen
        ):
            chosen.append(one)
    return chosen


@drawn
def standing_chart(given: Given, method: str = "Vanilla ICL", parameters: Mapping[str, float] | None = None) -> Figure:
    """Draw the published accuracies against the models' sizes, and the runs among them.

    Only runs whose accuracy is comparable with the published ones are drawn (see
    :mod:`StaICC.results.published.beside`); a run whose size is not told is a line across.

    Args:
        given: A result of Normal, or several by the name of their run.
        method: The inference method whose published figures are drawn.
        parameters: Billions of parameters, by the name of the run.

    Returns:
        A matplotlib figure.

    Raises:
        UnknownNameError: There is no such published method.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    sizes = {model.name: model for model in models()}
    known = [
        one for one in figures("Normal", method=method, metric="accuracy") if one.value is not None and not one.doubtful
    ]
    drawing = new_figure(8.2, 4.0)
    axes = drawing.subplots()
    for tuned, mark, label in ((False, "o", "published, base"), (True, "^", "published, instruction-tuned")):
        of_kind = [one for one in known if sizes[one.model].instruction_tuned is tuned]
        axes.plot(
            [sizes[one.model].params_b for one in of_kind],
            [one.value for one in of_kind],
            mark,
            color=ROLES["mark"],
            markersize=5.5,
            label=label,
        )
    for one in _spaced(known):
        model = sizes[one.model]
        at = (model.params_b, one.value or 0.0)
        axes.annotate(model.family, at, xytext=(5, 2.5), textcoords="offset points", fontsize=7, color=ROLES["soft"])
    for number, (name, result) in enumerate(named(given).items()):
        own = series(number)
        placed = [one for one in beside(result, method) if one.metric == "accuracy" and one.reason is None]
        size = (parameters or {}).get(name)
        for value in (placement.value for placement in placed if placement.value is not None):
            if size is None:
                axes.axhline(value, color=own.colour, linewidth=1.6, label=legend_label(name))
            else:
                axes.plot([size], [value], own.mark, color=own.colour, markersize=8, label=legend_label(name))
    axes.set_xscale("log")
    axes.set_xticks([0.01, 0.1, 1, 10, 100])
    axes.set_xticklabels(["10M", "100M", "1B", "10B", "100B"])
    axes.minorticks_off()
    axes.set_xlabel("parameters")
    axes.set_ylabel("accuracy, mean of ten data sets")
    plain_axes(axes, "y")
    drawing.legend(loc="outside upper left", ncols=4, frameon=False)
    return drawing


def standing_rows(method: str = "Vanilla ICL") -> tuple[list[str], list[list[str]]]:
    """Return the published accuracies as a table.

    Args:
        method: The inference method.

    Returns:
        Head and rows.
    """
    sizes = {model.name: model for model in models()}
    rows = []
    for one in figures("Normal", method=find_method(method), metric="accuracy"):
        if one.value is not None:
            rows.append([one.model, f"{sizes[one.model].params_b:g}", f"{one.value:.4f}", "; ".join(one.warnings)])
    return ["model", "parameters (billions)", "accuracy", "warnings"], rows
