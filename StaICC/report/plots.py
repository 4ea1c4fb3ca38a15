"""Figures as records of numbers, drawn as SVG without other packages, or by matplotlib.

A figure is a title, a caption, small panels of fixed size and the table of its numbers. The panels flow on the page, so
a figure fits a phone without scrolling. A colour is a CSS variable of a role; the roles have WCAG contrast on both
themes (3 : 1 for markers, 4.5 : 1 for text). Runs differ in marker and colour.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError
from StaICC.files.output import write_output
from StaICC.optional import require
from StaICC.report.html import Markup, clip, element, join, resource
from StaICC.safe_text import latex_cell, one_line

STYLE = "".join(resource("chart.css").splitlines())
"""The style sheet of all charts."""

ROLES: dict[str, str] = {
    role: colour
    for role, colour in re.findall(r"--([\w-]+): (#\w+)", resource("style.css").partition("}")[0])
    if role in {*re.findall(r"var\(--([\w-]+)\)", STYLE), "surface"}
}
"""The colours of the page's light theme that charts have, by role."""

_SHAPES = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "m-3.5-3.5h7v7h-7z",
    "m0-4.5l4.3 7.8h-8.6z",
    "m0-4.8l4.8 4.8l-4.8 4.8l-4.8-4.8z",
    "m0 4.5l4.3-7.8h-8.6z",
    "m-1.6-4.2h3.2v2.6h2.6v3.2h-2.6v2.6h-3.2v-2.6h-2.6v-3.2h2.6z",
)
_DPI = 80
SERIES = 12
"""Number of runs that differ in marker or colour."""


class Shape(NamedTuple):
    """A part of a panel: a point, a line or a cell of a matrix. In a legend, it has a text and no place."""

    points: Sequence[tuple[float, float]] = ()
    """Of a point or a cell its middle."""
    series: int | None = None
    """From 0; ``None`` for the background."""
    kind: str = "line"
    """``"line"``, ``"dashed"``, ``"mark"`` or ``"cell"``."""
    text: str = ""
    """Of a point, it is shown on hovering."""
    size: float = 1.0
    """Of a point; of a cell its shade, from 0 to 1."""

    def svg(self, *pixels: tuple[float, float]) -> Iterator[Markup]:
        """Yield the shape as SVG elements.

        Args:
            *pixels: Its points on the drawing; of a cell its corners.
        """
        style: dict[str, str] = {"d": "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in pixels)}
        role = "g" if self.series is None else f"s{self.series % 6 + 1}"
        if self.kind == "mark":
            place = f"translate({style['d'][1:]}) scale({_number(self.size)})"
            style |= {"transform": place, "d": f"M0 0{_SHAPES[_marker(self.series)]}"}
            yield element("path", element("title", self.text), class_=f"m {role}", **style)
        elif self.kind == "cell":
            (left, top), _, (right, bottom), _ = pixels
            style |= {"fill_opacity": _number(self.size / 2), "d": f"{style['d']}Z"}
            yield element("path", class_=f"m {role}", **style)
            yield _text((left + right) / 2, (top + bottom) / 2 + 4, self.text, text_anchor="middle")
        else:
            yield element("path", class_=f"l {role}{' d' * (self.kind == 'dashed')}", **style)

    def draw(self, axes: Any) -> Any:
        """Draw the shape on matplotlib axes, and return what a legend shows of it.

        Args:
            axes: The axes.
        """
        colour = ROLES["mark" if self.series is None else f"series-{self.series % 6 + 1}"]
        places = list(zip(*self.corners, strict=True)) or [(), ()]
        if self.kind == "cell":
            ((x, y),) = self.points
            axes.text(x, y, self.text, ha="center", va="center")
            return axes.fill(*places, color=colour, alpha=self.size / 2, linewidth=0)
        style = {"linewidth": 1.2, "linestyle": "--" if self.kind == "dashed" else "-"}
        if self.kind == "mark":
            style = {"linestyle": "none", "marker": "os^DvP"[_marker(self.series)], "markersize": 5 * self.size}
        return axes.plot(*places, color=colour, **style)[0]

    @property
    def corners(self) -> list[tuple[float, float]]:
        """The points between which it is drawn."""
        around = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)) if self.kind == "cell" else ((0.0, 0.0),)
        return [(x + across, y + up) for x, y in self.points for across, up in around]


class Axis(NamedTuple):
    """The ends of an axis (the left or the lower one first), its ticks and its label."""

    ends: tuple[float, float]
    ticks: Sequence[tuple[float, str]]
    label: str = ""
    names: bool = False
    """Whether the ticks are names of rows."""


def row_axis(names: Sequence[str], length: int = 16) -> Axis:
    """Return an axis with a name for each row, the first at the top.

    Args:
        names: Names from the data.
        length: Maximum number of characters.
    """
    ticks = [(place, clip(name, length)) for place, name in enumerate(names)]
    return Axis((len(names) - 0.5, -0.5), ticks, names=True)


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    shapes: Sequence[Shape] = ()
    """Later ones are above earlier ones."""
    width: int = 244

    @property
    def height(self) -> int:
        """Pixels, with title and axis."""
        plot = 19 * len(self.y.ticks) if self.y.names else 150 if self.width < 400 else 250
        return 22 + plot + 18 + 15 * bool(self.x.label)

    def svg(self, **attributes: str) -> Markup:
        """Return the panel as an ``svg`` element.

        Args:
            **attributes: Further attributes of the element.
        """
        size = {"width": f"{self.width}", "height": f"{self.height}", "viewBox": f"0 0 {self.width} {self.height}"}
        return element("svg", *self._parts(), class_="chart", **size, **attributes)

    def _parts(self) -> Iterator[Markup]:
        longest = max((len(text) for _, text in self.y.ticks), default=0)
        left = (14 + 6.5 * longest if self.y.names else 32) + 15 * bool(self.y.label)
        right, top, bottom = self.width - 20, 22, self.height - 18 - 15 * bool(self.x.label)

        def at(x: float, y: float) -> tuple[float, float]:
            across, up = ((value - low) / (high - low) for value, (low, high) in ((x, self.x.ends), (y, self.y.ends)))
            return left + across * (right - left), bottom - up * (bottom - top)

        yield _text(2, 13, clip(self.title, int(self.width / 5.9)), class_="t")
        grid = []
        for value, text in self.x.ticks:
            x, _ = at(value, 0)
            grid.append(f"M{_number(x)} {top}V{bottom}")
            yield _text(x, bottom + 13, text, text_anchor="middle")
        for value, text in self.y.ticks:
            _, y = at(0, value)
            grid += [] if self.y.names else [f"M{left} {_number(y)}H{right}"]
            yield _text(left - 6, y + 4, text, text_anchor="end")
        yield element("path", class_="grid", d="".join(grid))
        if self.x.label:
            yield _text((left + right) / 2, self.height - 4, self.x.label, text_anchor="middle")
        if self.y.label:
            turned = f"translate(10 {_number((top + bottom) / 2)}) rotate(-90)"
            yield element("g", _text(0, 0, self.y.label, text_anchor="middle"), transform=turned)
        for shape in self.shapes:
            yield from shape.svg(*(at(*point) for point in shape.corners))

    def draw(self, axes: Any) -> None:
        """Draw the panel on matplotlib axes.

        Args:
            axes: The axes.
        """
        axes.set_title(_plain(self.title), parse_math=False, fontsize="medium")
        axes.grid(axis="x" if self.y.names else "both", color=ROLES["grid"], linewidth=0.6)
        axes.set_axisbelow(True)
        for shape in self.shapes:
            shape.draw(axes)
        for axis, set_ticks in ((self.x, axes.set_xticks), (self.y, axes.set_yticks)):
            places, texts = zip(*axis.ticks, strict=True)
            turned = {"rotation": 45, "ha": "right"} if axis.names and axis is self.x else {}
            set_ticks(places, list(map(_plain, texts)), parse_math=False, **turned)
        axes.set(xlim=self.x.ends, ylim=self.y.ends)
        axes.set_xlabel(_plain(self.x.label), parse_math=False)
        axes.set_ylabel(_plain(self.y.label), parse_math=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with the table of its numbers; notebooks show it."""

    title: str
    caption: str
    panels: Sequence[Panel]
    head: Sequence[str]
    """The heads of the columns of the numbers."""
    rows: Sequence[Sequence[str]]
    """The numbers, as text."""
    words: Sequence[int] = ()
    """Indices of the columns that contain text; the first always does."""
    legend: Sequence[Shape] = ()

    def svg(self, columns: int = 4) -> str:
        """Return the figure as one SVG document, in the colours of the light theme.

        Args:
            columns: Number of panels side by side.
        """
        inner = [
            element("g", *_sample(key), _text(28, 11, clip(key.text, 60)), transform=f"translate(4 {16 * place})")
            for place, key in enumerate(self.legend)
        ]
        width, y = self._legend_width(), 16 * len(self.legend)
        for start in range(0, len(self.panels), columns):
            x, row = 0, self.panels[start : start + columns]
            for panel in row:
                inner.append(panel.svg(x=f"{x}", y=f"{y}"))
                x += panel.width + 8
            width = max(width, x)
            y += max(panel.height for panel in row) + 8
        size = {"width": f"{width}", "height": f"{y}"}
        colours = ";".join(f"--{role}:{colour}" for role, colour in ROLES.items())
        head = [
            element("title", self.title),
            element("style", Markup(f".chart{{{colours}}}{STYLE}")),
            element("rect", fill="#ffffff", **size),
        ]
        space = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {y}", "class_": "chart"}
        return f"{element('svg', *head, *inner, **space, **size)}\n"

    def inline(self) -> Markup:
        """Return the legend and the panels for a page that has :data:`STYLE`."""
        box = {"class_": "chart", "width": "22", "height": "14"}
        keys = [
            element("li", element("svg", *_sample(key), **box, aria_hidden="true"), key.text) for key in self.legend
        ]
        about = "The table below has the numbers."
        drawn = [panel.svg(role="img", aria_label=f"{self.title}: {panel.title}. {about}") for panel in self.panels]
        return join([element("ul", *keys, class_="legend") if keys else "", element("div", *drawn, class_="panels")])

    def axes(self, columns: int = 4) -> list[Any]:
        """Return the figure as matplotlib axes, one for each panel.

        Args:
            columns: Number of panels side by side.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        return self._draw(require("matplotlib.pyplot", "plots", "a figure as axes").figure, columns)

    def save(self, path: str | os.PathLike[str], columns: int = 4) -> None:
        """Write the figure as a file, atomically: SVG, or what matplotlib writes, such as PDF and PNG.

        Args:
            path: The file; its suffix is the format. SVG, also without a suffix, needs no other package.
            columns: Number of panels side by side.

        Raises:
            ArgumentError: Matplotlib has no such format.
            MissingDependencyError: The format needs matplotlib, which is not installed.
            OSError: The file cannot be written.
        """
        form = os.path.splitext(path)[1].lower().lstrip(".")
        if form in ("", "svg"):
            write_output(path, [self.svg(columns).encode("utf-8")])
            return
        drawn = self._draw(require("matplotlib.figure", "plots", f"a figure as {form}").Figure, columns)[0].figure
        known = drawn.canvas.get_supported_filetypes()
        if form not in known:
            raise ArgumentError(f"figure: got the file {str(path)!r}, expected a suffix of {', '.join(sorted(known))}")
        content = io.BytesIO()
        drawn.savefig(content, format=form, dpi=200)
        write_output(path, [content.getvalue()])

    def _draw(self, make_figure: Callable[..., Any], columns: int) -> list[Any]:
        columns = min(columns, len(self.panels))
        lines = math.ceil(len(self.panels) / columns)
        size = [columns * max(panel.width for panel in self.panels), lines * max(panel.height for panel in self.panels)]
        width = max(size[0], self._legend_width()) / _DPI
        drawing = make_figure(figsize=(width, (size[1] + 18 * len(self.legend)) / _DPI), layout="constrained")
        places = list(drawing.subplots(lines, columns, squeeze=False).flat)
        axes, unused = places[: len(self.panels)], places[len(self.panels) :]
        for place in unused:
            place.remove()
        for panel, place in zip(self.panels, axes, strict=True):
            panel.draw(place)
        if self.legend:
            handles = [key.draw(axes[0]) for key in self.legend]
            legend = drawing.legend(handles, ["run"] * len(handles), loc="outside upper left", fontsize="small")
            for text, key in zip(legend.get_texts(), self.legend, strict=True):
                text.set(text=_plain(clip(key.text, 60)), parse_math=False)
        return axes

    def _legend_width(self) -> int:
        return max((40 + 7 * len(clip(key.text, 60)) for key in self.legend), default=0)

    def _repr_svg_(self) -> str:
        return self.svg()


def _marker(number: int | None) -> int:
    """Return the number of the marker; from the seventh run on, a colour has the marker of another one."""
    number = number or 0
    return (number + (number > 5)) % 6


def _sample(key: Shape) -> Iterator[Markup]:
    return key.svg((11, 7)) if key.kind == "mark" else key.svg((1, 7), (21, 7))


def _plain(text: str) -> str:
    """Return a text for matplotlib: as it is, or escaped where LaTeX sets all texts."""
    matplotlib = require("matplotlib", "plots", "a figure as axes")
    usetex: bool = matplotlib.rcParams["text.usetex"]
    return latex_cell(text) if usetex else one_line(text)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, text: str, **attributes: str) -> Markup:
    return element("text", text, x=_number(x), y=_number(y), **attributes)
