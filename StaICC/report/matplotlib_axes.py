"""Panels as matplotlib axes."""

from __future__ import annotations

from typing import Any

from StaICC.optional import require
from StaICC.report.colours import LIGHT
from StaICC.report.shapes import Axis, Panel, Shape
from StaICC.safe_text import latex_cell, one_line

_MARKERS = "os^DvP"
"""Matplotlib's names of the markers of series."""


def draw_panel(panel: Panel, axes: Any) -> None:
    """Draw a panel on matplotlib axes."""
    axes.set_title(plain_text(panel.title), parse_math=False, fontsize="medium", wrap=True)
    axes.grid(axis="x" if panel.y.names else "both", color=LIGHT["grid"], linewidth=0.6)
    axes.set_axisbelow(True)
    for shape in panel.shapes:
        draw_shape(shape, axes)
    turned = {"rotation": 45, "ha": "right"} if panel.x.names else {}
    _set_ticks(panel.x, axes.set_xticks, **turned)
    _set_ticks(panel.y, axes.set_yticks)
    axes.set(xlim=panel.x.ends, ylim=panel.y.ends)
    axes.set_xlabel(plain_text(panel.x.label), parse_math=False)
    axes.set_ylabel(plain_text(panel.y.label), parse_math=False)


def _set_ticks(axis: Axis, set_ticks: Any, **style: Any) -> None:
    """Set the ticks of an axis by a method of matplotlib axes."""
    values = [value for value, _ in axis.ticks]
    texts = [plain_text(text) for _, text in axis.ticks]
    set_ticks(values, texts, parse_math=False, **style)


def draw_shape(shape: Shape, axes: Any) -> Any:
    """Draw a shape on matplotlib axes, and return what a legend shows of it."""
    colour = LIGHT[shape.colour]
    xs = [x for x, _ in shape.corners]
    ys = [y for _, y in shape.corners]
    if shape.kind == "cell":
        ((x, y),) = shape.points
        axes.text(x, y, shape.text, ha="center", va="center")
        return axes.fill(xs, ys, color=colour, alpha=shape.size / 2, linewidth=0)
    if shape.kind == "mark":
        marker = _MARKERS[shape.marker]
        style = {"linestyle": "none", "marker": marker, "markersize": 5 * shape.size}
        return axes.plot(xs, ys, color=colour, clip_on=False, **style)[0]  # whole, also at the end of an axis
    line_style = "--" if shape.kind == "dashed" else "-"
    return axes.plot(xs, ys, color=colour, linewidth=1.2, linestyle=line_style)[0]


def plain_text(text: str) -> str:
    """Return a text for matplotlib: as it is, or escaped where LaTeX sets all texts."""
    matplotlib = require("matplotlib", "plots", "a figure as axes")
    uses_latex: bool = matplotlib.rcParams["text.usetex"]
    if uses_latex:
        return latex_cell(text)
    return one_line(text)
