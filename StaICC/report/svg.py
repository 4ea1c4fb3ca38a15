"""Panels as SVG, without other packages.

Colours, lines and sizes of texts are attributes, which every program reads. Each element also has a class for the role
of its colour, such as ``stroke-grid``, so that a page can draw it in the colours of another theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from StaICC.report.colours import LIGHT
from StaICC.report.html import Markup, element
from StaICC.report.shapes import Axis, Panel, Shape
from StaICC.report.text_widths import clip, text_units

_MARKERS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "m-3.5-3.5h7v7h-7z",
    "m0-4.5l4.3 7.8h-8.6z",
    "m0-4.8l4.8 4.8l-4.8 4.8l-4.8-4.8z",
    "m0 4.5l4.3-7.8h-8.6z",
    "m-1.6-4.2h3.2v2.6h2.6v3.2h-2.6v2.6h-3.2v-2.6h-2.6v-3.2h2.6z",
)
"""Paths of the markers: circle, square, triangle, diamond, triangle that points down, cross."""
FONT = {"font_family": "system-ui, 'DejaVu Sans', Arial, sans-serif", "font_size": "13"}
"""The attributes of all texts of a figure."""
_CHARACTER = 7.5
"""Pixels of a character, on average."""
_BOLD_CHARACTER = 8.3
"""Pixels of a bold character, on average."""
_TOP = 24
"""Pixels above the plot, for the title."""
_TICKS = 20
"""Pixels below the plot, for the numbers of the axis."""
_LABEL = 18
"""Pixels of the label of an axis."""
_ROW = 21
"""Pixels of a row with a name."""
_RIGHT = 20
"""Pixels to the right of the plot."""


def panel_height(panel: Panel) -> int:
    """Return the height of a panel in pixels, with title and axis."""
    if panel.y.names:
        plot = _ROW * len(panel.y.ticks)
    elif panel.width < 360:
        plot = 150
    else:
        plot = 250
    height = _TOP + plot + _TICKS
    if panel.x.label:
        height += _LABEL
    return height


def panel_svg(panel: Panel, **attributes: str) -> Markup:
    """Return a panel as an ``svg`` element.

    Args:
        panel: The panel.
        **attributes: Further attributes of the element.
    """
    drawing = _PanelDrawing(panel)
    size = {
        "width": f"{panel.width}",
        "height": f"{drawing.height}",
        "viewBox": f"0 0 {panel.width} {drawing.height}",
    }
    return element("svg", *drawing.elements(), class_="chart", **FONT, **size, **attributes)


class _PanelDrawing:
    """The elements of a panel, and the pixels between which its plot is.

    Args:
        panel: The panel.
    """

    def __init__(self, panel: Panel) -> None:
        """Find the edges of the plot, which leave room for the ticks and the labels of the axes."""
        self.panel = panel
        self.height = panel_height(panel)
        self.left: float = 34  # room for numbers
        if panel.y.names:
            longest_name = max((text_units(text) for _, text in panel.y.ticks), default=0.0)
            self.left = 14 + _CHARACTER * longest_name
        if panel.y.label:
            self.left += _LABEL
        self.right: float = panel.width - _RIGHT
        if panel.x.ticks:  # Texts of ticks are centred, so that half of the first and the last one may be outside.
            plot_width = self.right - self.left
            first, first_text = panel.x.ticks[0]
            last, last_text = panel.x.ticks[-1]
            room_left = text_width(first_text) / 2 - _share(panel.x, first) * plot_width
            room_right = text_width(last_text) / 2 - (1 - _share(panel.x, last)) * plot_width
            self.left = max(self.left, room_left)
            self.right = min(self.right, panel.width - room_right)
        self.top = _TOP
        self.bottom = self.height - _TICKS
        if panel.x.label:
            self.bottom -= _LABEL

    def x_pixel(self, x: float) -> float:
        """Return the horizontal position of a value."""
        return self.left + _share(self.panel.x, x) * (self.right - self.left)

    def y_pixel(self, y: float) -> float:
        """Return the vertical position of a value."""
        return self.bottom - _share(self.panel.y, y) * (self.bottom - self.top)

    def elements(self) -> Iterator[Markup]:
        """Yield the title, the axes and the shapes."""
        title = clip(self.panel.title, int(self.panel.width / _BOLD_CHARACTER))
        yield text_svg(2, 14, title, role="ink", font_weight="600")
        yield from self._axes()
        for shape in self.panel.shapes:
            pixels = [(self.x_pixel(x), self.y_pixel(y)) for x, y in shape.corners]
            yield from shape_svg(shape, pixels)

    def _axes(self) -> Iterator[Markup]:
        """Yield the texts of the axes, and the grid as one path."""
        grid = []
        for value, text in self.panel.x.ticks:
            x = self.x_pixel(value)
            grid.append(f"M{number(x)} {self.top}V{self.bottom}")
            yield text_svg(x, self.bottom + 15, text, text_anchor="middle")
        for value, text in self.panel.y.ticks:
            y = self.y_pixel(value)
            if not self.panel.y.names:
                grid.append(f"M{self.left} {number(y)}H{self.right}")
            yield text_svg(self.left - 6, y + 4, text, text_anchor="end")
        yield element("path", **_line_style("grid", width="1"), d="".join(grid))
        if self.panel.x.label:
            yield text_svg((self.left + self.right) / 2, self.height - 4, self.panel.x.label, text_anchor="middle")
        if self.panel.y.label:
            transform = f"translate(12 {number((self.top + self.bottom) / 2)}) rotate(-90)"
            yield element("g", text_svg(0, 0, self.panel.y.label, text_anchor="middle"), transform=transform)


def _share(axis: Axis, value: float) -> float:
    """Return where a value is on an axis: 0 at its first end, 1 at its second one."""
    first, second = axis.ends
    return (value - first) / (second - first)


def shape_svg(shape: Shape, pixels: Sequence[tuple[float, float]]) -> Iterator[Markup]:
    """Yield the SVG elements of a shape.

    Args:
        shape: The shape.
        pixels: Its points on the drawing; of a cell its corners.
    """
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in pixels)
    if shape.kind == "mark":
        ((x, y),) = pixels
        transform = f"translate({number(x)} {number(y)}) scale({number(shape.size)})"
        marker = f"M0 0{_MARKERS[shape.marker]}"
        yield element("path", element("title", shape.text), **_fill_style(shape.colour), d=marker, transform=transform)
    elif shape.kind == "cell":
        xs = [x for x, _ in pixels]
        ys = [y for _, y in pixels]
        yield element("path", **_fill_style(shape.colour), d=f"{path}Z", fill_opacity=number(shape.size / 2))
        middle = (min(xs) + max(xs)) / 2
        yield text_svg(middle, (min(ys) + max(ys)) / 2 + 4, shape.text, role="ink", text_anchor="middle")
    elif shape.kind == "dashed":
        yield element("path", **_line_style(shape.colour), d=path, stroke_dasharray="4 3")
    else:
        yield element("path", **_line_style(shape.colour), d=path)


def _fill_style(role: str) -> dict[str, str]:
    """Return the attributes of an area or a text in the colour of a role."""
    return {"class_": f"fill-{role}", "fill": LIGHT[role]}


def _line_style(role: str, width: str = "1.5") -> dict[str, str]:
    """Return the attributes of a line in the colour of a role."""
    return {"class_": f"stroke-{role}", "fill": "none", "stroke": LIGHT[role], "stroke_width": width}


def legend_sample(key: Shape) -> Iterator[Markup]:
    """Yield what a legend shows of an entry, in 22 by 14 pixels."""
    if key.kind == "mark":
        return shape_svg(key, [(11, 7)])
    return shape_svg(key, [(1, 7), (21, 7)])


def number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text_svg(x: float, y: float, text: str, role: str = "soft", **attributes: str) -> Markup:
    """Return a text element.

    Args:
        x: Its position.
        y: Its base line.
        text: The text.
        role: The role of its colour.
        **attributes: Further attributes.
    """
    return element("text", text, x=number(x), y=number(y), **_fill_style(role), **attributes)


def text_width(text: str) -> float:
    """Return the width of a text in pixels, on average."""
    return _CHARACTER * text_units(text)


def fitting_characters(pixels: float) -> int:
    """Return how many characters fit into a width, on average."""
    return int(pixels / _CHARACTER)
