"""Runs among the published models: accuracy against the number of parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from StaICC.results.published import PublishedFigure, compare_with_published, figures, find_method, models
from StaICC.results.report.accuracy import legend_label
from StaICC.results.report.drawing import ROLES, new_figure, plain_axes, series, styled
from StaICC.results.report.runs import Given, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["model_size_chart", "model_size_rows"]

_SIZE = (8.2, 4.0)
"""Width and height of the figure, in inches."""
_NAME_SIZE = 7.0
"""Font size of model names, in points."""
_MARK = 3.5
"""Half the size of a marker, in points."""
_AXES = (0.87, 0.75)
"""Share of the figure's width and height that the axes take, approximately."""


class _Box(NamedTuple):
    """A rectangle in the axes, in points."""

    left: float
    low: float
    right: float
    high: float

    def meets(self, other: _Box) -> bool:
        """Return whether the two overlap."""
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high


def _name_models(axes: Axes, known: Sequence[PublishedFigure], lines: Sequence[float]) -> None:
    """Label the models whose labels overlap no marker, line or other label; the best models come first."""
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
                where = (sizes[one.model].params_b, one.value or 0.0)
                style: dict[str, Any] = {"fontsize": _NAME_SIZE, "color": ROLES["soft"]}
                axes.annotate(name, where, xytext=(dx, dy), textcoords="offset points", **style)
                taken.append(box)
                break


@styled
def model_size_chart(given: Given, method: str = "Vanilla ICL") -> Figure:
    """Draw the published accuracies against the number of parameters, and each run as a horizontal line.

    Only runs whose accuracy is comparable with the published ones are drawn (see
    :mod:`StaICC.results.published.published_comparison`).

    Args:
        given: A result of Normal, or several by the name of their run.
        method: The inference method whose published figures are drawn.

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
        parameters, accuracies = [sizes[one.model].params_b for one in of_kind], [one.value for one in of_kind]
        axes.plot(parameters, accuracies, mark, color=ROLES["mark"], markersize=5.5, label=label)
    lines: list[float] = []
    for number, (name, result) in enumerate(named(given).items()):
        own = series(number)
        for one in compare_with_published(result, method):
            if one.metric == "accuracy" and one.reason is None and one.value is not None:
                axes.axhline(one.value, color=own.colour, linewidth=1.6, label=legend_label(name))
                lines.append(one.value)
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


def model_size_rows(method: str = "Vanilla ICL") -> tuple[list[str], list[list[str]]]:
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
