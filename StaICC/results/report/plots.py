"""Figures as records of numbers, drawn as SVG without other packages, and by matplotlib.

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

from StaICC.datasets.storage import write_output
from StaICC.errors import ArgumentError
from StaICC.optional import require
from StaICC.results.comparison import latex_cell
from StaICC.results.report.html import clip, escape, resource
from StaICC.safe_text import one_line

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


class Mark(NamedTuple):
    """A point of a series, with the interval of its x value."""

    x: float
    y: float
    series: int | None
    """From 0; ``None`` for the background."""
    name: str
    """Shown on hovering, before the value."""
    value: float
    interval: tuple[float, float] | None = None
    size: float = 1.0


class Line(NamedTuple):
    """A line through points; ``series`` as for marks."""

    points: Sequence[tuple[float, float]]
    series: int | None = None
    dashed: bool = False


class Bar(NamedTuple):
    """A rectangle of the background, by two corners."""

    x: tuple[float, float]
    y: tuple[float, float]


class Cell(NamedTuple):
    """A cell of a matrix, by its middle; the shade is a share from 0 to 1."""

    x: float
    y: float
    shade: float
    series: int
    text: str


class Axis(NamedTuple):
    """The ends of an axis (the left or the lower one first), its ticks and its label."""

    ends: tuple[float, float]
    ticks: Sequence[tuple[float, str]]
    label: str = ""
    names: bool = False
    """Whether the ticks are names of rows."""


class Key(NamedTuple):
    """An entry of the legend: a run, or a kind of line or bar."""

    text: str
    series: int | None = None
    kind: str = "mark"
    """``"mark"``, ``"line"``, ``"dashed"`` or ``"bar"``."""


def row_axis(names: Sequence[str], length: int = 16) -> Axis:
    """Return an axis with a name for each row, the first at the top.

    Args:
        names: Names from the data.
        length: Maximum number of characters.
    """
    ticks = [(place, clip(name, length)) for place, name in enumerate(names)]
    return Axis((len(names) - 0.5, -0.5), ticks, names=True)


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark] = ()
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = ()
    labels: Sequence[tuple[float, float, str]] = ()
    """Texts to the right of points."""
    cells: Sequence[Cell] = ()
    width: int = 244

    @property
    def height(self) -> int:
        """Pixels, with title and axis."""
        plot = 19 * len(self.y.ticks) if self.y.names else 150 if self.width < 400 else 250
        return 22 + plot + 18 + 15 * bool(self.x.label)

    def parts(self) -> Iterator[str]:
        """Yield the elements inside the ``svg`` element."""
        longest = max((len(text) for _, text in self.y.ticks), default=0)
        left = (14 + 6.5 * longest if self.y.names else 32) + 15 * bool(self.y.label)
        right, top, bottom = self.width - 16, 22, self.height - 18 - 15 * bool(self.x.label)

        def at(x: float, y: float) -> tuple[str, str]:
            (low, high), (under, over) = self.x.ends, self.y.ends
            return (
                _number(left + (x - low) / (high - low) * (right - left)),
                _number(bottom - (y - under) / (over - under) * (bottom - top)),
            )

        yield _text(2, 13, clip(self.title, self.width // 7), class_="t")
        grid = []
        for value, text in self.x.ticks:
            x, _ = at(value, 0)
            grid.append(f"M{x} {top}V{bottom}")
            yield _text(x, bottom + 13, text, "middle")
        for value, text in self.y.ticks:
            _, y = at(0, value)
            grid += [] if self.y.names else [f"M{left} {y}H{right}"]
            yield _text(left - 6, float(y) + 4, text, "end")
        yield f'<path class="grid" d="{"".join(grid)}"/>'
        if self.x.label:
            yield _text((left + right) / 2, self.height - 4, self.x.label, "middle")
        if self.y.label:
            y = _number((top + bottom) / 2)
            yield f'<g transform="translate(10 {y}) rotate(-90)">{_text(0, 0, self.y.label, "middle")}</g>'
        corners = [(at(bar.x[0], bar.y[0]), at(bar.x[1], bar.y[1])) for bar in self.bars]
        if corners:
            drawn = "".join(f"M{x} {y}H{x2}V{y2}H{x}Z" for (x, y), (x2, y2) in corners)
            yield f'<path class="b" d="{drawn}"/>'
        for cell in self.cells:
            (x, y), (x2, y2) = (at(cell.x + side, cell.y + side) for side in (-0.5, 0.5))
            style = f'class="m {_series(cell.series)}" fill-opacity="{_number(cell.shade / 2)}"'
            yield f'<path {style} d="M{x} {y}H{x2}V{y2}H{x}Z"/>'
            yield _text((float(x) + float(x2)) / 2, (float(y) + float(y2)) / 2 + 4, cell.text, "middle")
        for line in self.lines:
            path = "L".join(" ".join(at(*point)) for point in line.points)
            yield f'<path class="l {_series(line.series)}{" d" * line.dashed}" d="M{path}"/>'
        for mark in self.marks:
            x, y = at(mark.x, mark.y)
            style = _series(mark.series)
            if mark.interval is not None:
                yield f'<path class="l {style}" d="M{at(mark.interval[0], 0)[0]} {y}H{at(mark.interval[1], 0)[0]}"/>'
            place = f"translate({x} {y}) scale({_number(mark.size)})"
            tip = f"<title>{escape(f'{mark.name}: {mark.value:.4f}')}</title>"
            yield f'<path class="m {style}" transform="{place}" d="{_shape(mark.series)}">{tip}</path>'
        for x_value, y_value, text in self.labels:
            x, y = at(x_value, y_value)
            yield _text(float(x) + 6, float(y) + 3, text)

    def draw(self, axes: Any) -> None:
        """Draw the panel on matplotlib axes.

        Args:
            axes: The axes.
        """
        axes.set_title(_plain(self.title), parse_math=False, fontsize="medium")
        axes.grid(axis="x" if self.y.names else "both", color=ROLES["grid"], linewidth=0.6)
        axes.set_axisbelow(True)
        for bar in self.bars:
            axes.fill(*_corners(bar.x, bar.y), color=ROLES["mark"], alpha=0.35)
        for cell in self.cells:
            sides = [(middle - 0.5, middle + 0.5) for middle in (cell.x, cell.y)]
            axes.fill(*_corners(*sides), color=_colour(cell.series), alpha=cell.shade / 2, linewidth=0)
            axes.text(cell.x, cell.y, cell.text, ha="center", va="center")
        for line in self.lines:
            axes.plot(*zip(*line.points, strict=True), **_style(line.series, "dashed" if line.dashed else "line"))
        for mark in self.marks:
            if mark.interval is not None:
                axes.plot(mark.interval, [mark.y, mark.y], **_style(mark.series, "line"))
            axes.plot([mark.x], [mark.y], **_style(mark.series, "mark"), markersize=5 * mark.size)
        for x, y, text in self.labels:
            near = {"textcoords": "offset points", "xytext": (5, 3), "fontsize": "small"}
            axes.annotate(_plain(text), (x, y), **near, parse_math=False)
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
    legend: Sequence[Key] = ()

    def svg(self, columns: int = 4) -> str:
        """Return the figure as one SVG document, in the colours of the light theme.

        Args:
            columns: Number of panels side by side.
        """
        inner, y, width = [], 0, self._legend_width()
        for key in self.legend:
            inner.append(f'<g transform="translate(4 {y})">{_sample(key)}{_text(28, 11, clip(key.text, 60))}</g>')
            y += 16
        for start in range(0, len(self.panels), columns):
            x = 0
            for panel in self.panels[start : start + columns]:
                inner.append(f'<g transform="translate({x} {y})">{"".join(panel.parts())}</g>')
                x += panel.width + 8
            width = max(width, x)
            y += max(panel.height for panel in self.panels[start : start + columns]) + 8
        colours = ";".join(f"--{role}:{colour}" for role, colour in ROLES.items())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width}" height="{y}" '
            f'viewBox="0 0 {width} {y}">'
            f"<title>{escape(self.title)}</title><style>.chart{{{colours}}}{STYLE}</style>"
            f'<rect width="{width}" height="{y}" fill="#ffffff"/>{"".join(inner)}</svg>\n'
        )

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
            handles = [axes[0].plot([], [], **_style(key.series, key.kind))[0] for key in self.legend]
            legend = drawing.legend(handles, ["run"] * len(handles), loc="outside upper left", fontsize="small")
            for text, key in zip(legend.get_texts(), self.legend, strict=True):
                text.set(text=_plain(clip(key.text, 60)), parse_math=False)
        return axes

    def _legend_width(self) -> int:
        return max((40 + 7 * len(clip(key.text, 60)) for key in self.legend), default=0)

    def _repr_svg_(self) -> str:
        return self.svg()


def inline(figure: Figure) -> str:
    """Return the panels and the legend of a figure for a page that has :data:`STYLE`."""
    samples = (
        f'<li><svg class="chart" width="22" height="14" aria-hidden="true">{_sample(key)}</svg>{escape(key.text)}</li>'
        for key in figure.legend
    )
    legend = f'<ul class="legend">{"".join(samples)}</ul>' if figure.legend else ""
    drawn = []
    for panel in figure.panels:
        name = escape(f"{figure.title}: {panel.title}. The table below has the numbers.")
        size = f'width="{panel.width}" height="{panel.height}" viewBox="0 0 {panel.width} {panel.height}"'
        drawn.append(f'<svg class="chart" role="img" aria-label="{name}" {size}>{"".join(panel.parts())}</svg>')
    return f'{legend}<div class="panels">{"".join(drawn)}</div>'


def _series(number: int | None) -> str:
    return "g" if number is None else f"s{number % 6 + 1}"


def _shape(number: int | None) -> str:
    """Return the marker; from the seventh run on, a colour has the marker of another one."""
    return f"M0 0{_SHAPES[_marker(number)]}"


def _marker(number: int | None) -> int:
    number = number or 0
    return (number + (number > 5)) % 6


def _colour(series: int | None) -> str:
    return ROLES["mark" if series is None else f"series-{series % 6 + 1}"]


def _style(series: int | None, kind: str) -> dict[str, Any]:
    """Return the properties of a line in matplotlib, for a kind of legend entry."""
    style: dict[str, Any] = {"color": _colour(series), "linewidth": 1.2, "linestyle": {"dashed": "--"}.get(kind, "-")}
    if kind == "bar":
        return style | {"linewidth": 6, "alpha": 0.35}
    return style | ({"marker": "os^DvP"[_marker(series)], "linestyle": "none"} if kind == "mark" else {})


def _corners(x: tuple[float, float], y: tuple[float, float]) -> tuple[list[float], list[float]]:
    return [x[0], x[1], x[1], x[0]], [y[0], y[0], y[1], y[1]]


def _plain(text: str) -> str:
    """Return a text for matplotlib: as it is, or escaped where LaTeX sets all texts."""
    matplotlib = require("matplotlib", "plots", "a figure as axes")
    usetex: bool = matplotlib.rcParams["text.usetex"]
    return latex_cell(text) if usetex else one_line(text)


def _sample(key: Key) -> str:
    if key.kind == "mark":
        return f'<path class="m {_series(key.series)}" transform="translate(11 7)" d="{_shape(key.series)}"/>'
    if key.kind == "bar":
        return '<path class="b" d="M2 2h18v10h-18z"/>'
    return f'<path class="l {_series(key.series)}{" d" * (key.kind == "dashed")}" d="M1 7h20"/>'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(x: float | str, y: float | str, text: str, anchor: str = "", class_: str = "") -> str:
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' class="{class_}"' if class_ else "")
    places = [place if isinstance(place, str) else _number(place) for place in (x, y)]
    return f'<text x="{places[0]}" y="{places[1]}"{more}>{escape(text)}</text>'
