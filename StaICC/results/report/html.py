"""HTML and SVG from data: everything that is not marked as markup is escaped.

A figure is a title, a caption, small panels of fixed size and the table of its numbers. The panels flow on the page, so
a figure fits a phone without scrolling. A colour is a CSS variable of a role; the roles have WCAG contrast on both
themes (3 : 1 for markers, 4.5 : 1 for text). Runs differ in marker and colour.

:func:`element` builds all HTML. Its children are texts, which are escaped, or :class:`Markup`, which only this module
creates. So texts of data sets, labels, file names and messages cannot become markup.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from StaICC.datasets.storage import write_output
from StaICC.safe_text import one_line


def resource(name: str) -> str:
    """Return the text of a file of this package: a style sheet or a script."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


STYLE = "".join(resource("chart.css").splitlines())
"""The style sheet of all charts."""

ROLES = {
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


def row_axis(names: Sequence[str]) -> Axis:
    """Return an axis with a name for each row, the first at the top.

    Args:
        names: Names from the data.
    """
    ticks = [(place, clip(name, 16)) for place, name in enumerate(names)]
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
    width: int = 244

    @property
    def height(self) -> int:
        """Pixels, with title and axis."""
        plot = 19 * len(self.y.ticks) if self.y.names else 150 if self.width < 400 else 250
        return 22 + plot + 18 + 15 * bool(self.x.label)

    def parts(self) -> Iterator[str]:
        """Yield the elements inside the ``svg`` element."""
        left = 112 if self.y.names else 32
        right, top, bottom = self.width - 12, 22, self.height - 18 - 15 * bool(self.x.label)

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
        corners = [(at(bar.x[0], bar.y[0]), at(bar.x[1], bar.y[1])) for bar in self.bars]
        if corners:
            drawn = "".join(f"M{x} {y}H{x2}V{y2}H{x}Z" for (x, y), (x2, y2) in corners)
            yield f'<path class="b" d="{drawn}"/>'
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
        inner, y, width = [], 0, 0
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

    def save(self, path: str | os.PathLike[str], columns: int = 4) -> None:
        """Write the figure as an SVG file, atomically.

        Args:
            path: The file.
            columns: Number of panels side by side.

        Raises:
            OSError: The file cannot be written.
        """
        write_output(path, [self.svg(columns).encode("utf-8")])

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
    number = number or 0
    return f"M0 0{_SHAPES[(number + (number > 5)) % 6]}"


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


def clip(text: str, length: int = 26) -> str:
    """Shorten a text for a figure; tables contain the full text.

    Args:
        text: The text.
        length: Maximum number of characters.

    Example:
        >>> clip("financial_phrasebank", 12)
        'financial_p…'
    """
    text = one_line(text)
    return text if len(text) <= length else text[: length - 1] + "…"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Missing(str):
    """A cell without a value: ``-``, with the reason below its table."""

    reason: str

    def __new__(cls, reason: str) -> Missing:
        """Return the cell for a reason."""
        cell = super().__new__(cls, "-")
        cell.reason = reason
        return cell


def escape(text: str) -> str:
    """Escape a text for element content and attribute values, on one line (see :func:`~StaICC.safe_text.one_line`).

    Args:
        text: Any text.

    Example:
        >>> escape('<b> & "c"')
        '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(one_line(text))


def join(parts: Iterable[str]) -> Markup:
    """Join texts (escaped) and markup.

    Args:
        parts: The parts.
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def void(name: str, /, **attributes: str | bool | None) -> Markup:
    """Return an element without content, such as ``meta``.

    Args:
        name: Its name.
        **attributes: See :func:`element`.
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def element(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        *children: Texts, which are escaped, and markup.
        **attributes: Values, which are escaped; ``True`` means an attribute without a value, ``None`` and ``False``
            omit it. A trailing underscore is dropped, others become hyphens.

    Example:
        >>> element("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{join(children)}</{name}>")


def _attributes(attributes: dict[str, str | bool | None]) -> str:
    written = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        plain = name.rstrip("_").replace("_", "-")
        written.append(f" {plain}" if value is True else f' {plain}="{escape(value)}"')
    return "".join(written)


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    foot: Sequence[Sequence[str]] = (),
    words: Iterable[int] = (),
    classes: str = "sortable",
) -> Markup:
    """Return a sortable table; the reasons of missing cells are listed below it.

    Args:
        caption: The caption.
        head: Column heads.
        rows: Cells; the first of a row is its header. Numbers are sorted as numbers. A cell that is markup is a ``td``
            element, or the content of one.
        foot: Rows that stay at the bottom, such as a mean.
        words: Indices of the columns that contain text, which is aligned left; the first always does.
        classes: Style classes of the table.
    """
    left = {0, *words}
    reasons: dict[str, int] = {}

    def line(cells: Sequence[str]) -> Markup:
        found = []
        for place, cell in enumerate(cells):
            if isinstance(cell, Missing):
                note = element("sup", f"[{reasons.setdefault(cell.reason, len(reasons) + 1)}]")
                cell = join(["-", note])
            elif isinstance(cell, Markup) and cell.startswith("<td"):
                found.append(cell)
                continue
            body = element("bdi", cell) if place in left and not isinstance(cell, Markup) else cell
            kind = "th" if place == 0 else "td"
            style = "w" if place in left and place else None
            found.append(element(kind, body, scope="row" if place == 0 else None, class_=style))
        return element("tr", *found)

    names = [one if isinstance(one, Markup) else Markup(escape(one).replace("_", "_<wbr>")) for one in head]
    heads = [
        element("th", name, scope="col", class_="w" if place in left else None) for place, name in enumerate(names)
    ]
    parts = [
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *map(line, rows)),
    ]
    if foot:
        parts.append(element("tfoot", *map(line, foot)))
    body = element("table", *parts, class_=classes)  # scrolls, and can be focused with the keyboard
    shown = element("div", body, class_="scroll", tabindex="0", role="group", aria_label=caption)
    notes = " ".join(f"[{number}] {reason.rstrip('.')}." for reason, number in reasons.items())
    return join([shown, element("p", f"No value: {notes}", class_="soft")]) if notes else shown


def fold(summary: str | Markup, *children: str, opened: bool = False, **attributes: str | bool | None) -> Markup:
    """Return a collapsible element.

    Args:
        summary: The part that is always visible.
        *children: The collapsible part.
        opened: Whether it is open at first.
        **attributes: See :func:`element`.
    """
    return element("details", element("summary", summary), *children, open=opened, **attributes)
