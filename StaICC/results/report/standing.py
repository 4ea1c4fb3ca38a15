"""Where runs stand among the published models: accuracy against parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from StaICC.results.published import PublishedFigure, beside, figures, find_method, models
from StaICC.results.report.accuracy import legend_label
from StaICC.results.report.drawing import ROLES, drawn, new_figure, plain_axes, series
from StaICC.results.report.runs import Given, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["standing_chart", "standing_rows"]

_SIZE = (8.2, 4.0)
"""Of the figure, in inches."""
_NAME_SIZE = 7.0
"""Of a model's name, in points."""
_MARK = 3.5
"""Half the size of a model's mark, in points."""
_AXES = (0.87, 0.75)
"""Share of the figure's width and height that the axes take; known for certain only after drawing."""


class _Box(NamedTuple):
    """A place in the axes, in points."""

    left: float
    low: float
    right: float
    high: float

    def meets(self, other: _Box) -> bool:
        """Say whether the two share a point."""
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high


def _name_models(axes: Axes, known: Sequence[PublishedFigure], lines: Sequence[float]) -> None:
    """Name the models whose names lie on no mark, no line across and no other name; the best come first."""
    sizes = {model.name: model for model in models()}
    width, height = (72 * inches * share for inches, share in zip(_SIZE, _AXES, strict=True))
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    ends = math.log10(left), math.log10(right)

    def place(one: PublishedFigure) -> tuple[float, float]:
        across = (math.log10(sizes[one.model].params_b) - ends[0]) / (ends[1] - ends[0])
        return across * width, ((one.value or 0.0) - low) / (high - low) * height

    marks = [_Box(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in map(place, known)]
    across = [_Box(0, y - 1, width, y + 1) for y in ((value - low) / (high - low) * height for value in lines)]
    taken = [*marks, *across]
    for one in sorted(known, key=lambda one: -(one.value or 0.0)):
        x, y = place(one)
        name = sizes[one.model].family
        wide = 0.62 * _NAME_SIZE * len(name)
        for dx, dy in ((5.0, 2.0), (5.0, -7.5), (-5.0 - wide, 2.0), (-5.0 - wide, -7.5)):
            box = _Box(x + dx, y + dy, x + dx + wide, y + dy + 0.8 * _NAME_SIZE)
            if box.left > 0 and not any(box.meets(other) for other in taken):
                axes.annotate(
                    name,
                    (sizes[one.model].params_b, one.value or 0.0),
                    xytext=(dx, dy),
                    textcoords="offset points",
                    fontsize=_NAME_SIZE,
                    color=ROLES["soft"],
                )
                taken.append(box)
                break


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
    drawing = new_figure(*_SIZE)
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
    lines: list[float] = []
    for number, (name, result) in enumerate(named(given).items()):
        own = series(number)
        placed = [one for one in beside(result, method) if one.metric == "accuracy" and one.reason is None]
        size = (parameters or {}).get(name)
        for value in (placement.value for placement in placed if placement.value is not None):
            if size is None:
                axes.axhline(value, color=own.colour, linewidth=1.6, label=legend_label(name))
                lines.append(value)
            else:
                axes.plot([size], [value], own.mark, color=own.colour, markersize=8, label=legend_label(name))
    axes.set_xscale("log")
    axes.set_xticks([0.01, 0.1, 1, 10, 100])
    axes.set_xticklabels(["10M", "100M", "1B", "10B", "100B"])
    axes.minorticks_off()
    _name_models(axes, known, lines)
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
