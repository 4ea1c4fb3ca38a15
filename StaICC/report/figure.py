"""A figure: small panels, a legend, the table of their numbers."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.files.output import write_output
from StaICC.optional import require
from StaICC.report.html import Markup, element, join
from StaICC.report.matplotlib_axes import draw_panel, draw_shape, plain_text
from StaICC.report.shapes import Panel, Shape
from StaICC.report.svg import FONT, legend_sample, panel_height, panel_svg, text_svg, text_width
from StaICC.report.text_widths import clip

_DPI = 80
"""Pixels of a panel for each inch of a drawing by matplotlib."""
_LEGEND_LENGTH = 60
"""Maximum number of characters of a legend entry in a saved figure."""
_LEGEND_ROW = 18
"""Pixels of a legend entry."""
_MARGIN = 4
"""Pixels above the legend."""
_GAP = 8
"""Pixels between panels."""


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

        The legend is at the top. Below it are the panels, in rows.

        Args:
            columns: Number of panels side by side.
        """
        drawn = list(self._legend_svg())
        width = self._legend_width()
        height = 0
        if self.legend:
            height = _MARGIN + _LEGEND_ROW * len(self.legend)
        for start in range(0, len(self.panels), columns):
            panels_of_row = self.panels[start : start + columns]
            row_width = 0
            for panel in panels_of_row:
                drawn.append(panel_svg(panel, x=f"{row_width}", y=f"{height}"))
                row_width += panel.width + _GAP
            width = max(width, row_width)
            height += max(map(panel_height, panels_of_row)) + _GAP
        size = {"width": f"{width}", "height": f"{height}"}
        title = element("title", self.title)
        background = element("rect", fill="#ffffff", **size)
        space = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}"}
        return f"{element('svg', title, background, *drawn, **space, **FONT, **size)}\n"

    def _legend_svg(self) -> Iterator[Markup]:
        """Yield the entries of the legend, one below the other."""
        for row, key in enumerate(self.legend):
            text = text_svg(30, 12, clip(key.text, _LEGEND_LENGTH))
            yield element("g", *legend_sample(key), text, transform=f"translate(4 {_MARGIN + _LEGEND_ROW * row})")

    def _legend_width(self) -> int:
        """Return the width of the legend in pixels; 0 without one."""
        widths = [40 + text_width(clip(key.text, _LEGEND_LENGTH)) for key in self.legend]
        return math.ceil(max(widths, default=0))

    def inline(self) -> Markup:
        """Return the legend and the panels for a page; its style sheet may replace their colours."""
        box = {"class_": "chart", "width": "22", "height": "14"}
        keys = []
        for key in self.legend:
            sample = element("svg", *legend_sample(key), **box, aria_hidden="true")
            keys.append(element("li", sample, key.text))
        panels = []
        for panel in self.panels:
            label = f"{self.title}: {panel.title}. The table below has the numbers."
            panels.append(panel_svg(panel, role="img", aria_label=label))
        legend = element("ul", *keys, class_="legend") if keys else ""
        return join([legend, element("div", *panels, class_="panels")])

    def axes(self, columns: int = 4) -> list[Any]:
        """Return the figure as matplotlib axes, one for each panel.

        Args:
            columns: Number of panels side by side.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        pyplot = require("matplotlib.pyplot", "plots", "a figure as axes")
        return self._drawn_axes(pyplot.figure, columns)

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
        file_format = os.path.splitext(path)[1].lower().lstrip(".")
        if file_format in ("", "svg"):
            write_output(path, [self.svg(columns).encode("utf-8")])
            return
        matplotlib_figure = require("matplotlib.figure", "plots", f"a figure as {file_format}")
        axes = self._drawn_axes(matplotlib_figure.Figure, columns)
        drawing = axes[0].figure
        known_formats = drawing.canvas.get_supported_filetypes()
        if file_format not in known_formats:
            expected = ", ".join(sorted(known_formats))
            raise ArgumentError(f"figure: got the file {str(path)!r}, expected a suffix of {expected}")
        content = io.BytesIO()
        drawing.savefig(content, format=file_format, dpi=200)
        write_output(path, [content.getvalue()])

    def _drawn_axes(self, make_drawing: Callable[..., Any], columns: int) -> list[Any]:
        """Draw the figure as a new drawing of matplotlib, and return its axes, one for each panel.

        Args:
            make_drawing: Makes an empty drawing of matplotlib, such as ``matplotlib.pyplot.figure``.
            columns: Number of panels side by side.
        """
        columns = min(columns, len(self.panels))
        row_count = math.ceil(len(self.panels) / columns)
        width_of_panels = columns * max(panel.width for panel in self.panels)
        width = max(width_of_panels, self._legend_width())
        height = row_count * max(map(panel_height, self.panels)) + _LEGEND_ROW * len(self.legend)
        drawing = make_drawing(figsize=(width / _DPI, height / _DPI), layout="constrained")

        # The last row of the grid may have more axes than there are panels left.
        grid = list(drawing.subplots(row_count, columns, squeeze=False).flat)
        axes = grid[: len(self.panels)]
        unused_axes = grid[len(self.panels) :]
        for unused in unused_axes:
            unused.remove()
        for panel, panel_axes in zip(self.panels, axes, strict=True):
            draw_panel(panel, panel_axes)
        if self.legend:
            self._draw_legend(drawing, axes[0])
        return axes

    def _draw_legend(self, drawing: Any, axes: Any) -> None:
        """Add the legend to a drawing of matplotlib; its texts are set as they are, whatever they contain."""
        handles = []
        for key in self.legend:
            handle = draw_shape(key, axes)
            handle.set_in_layout(False)  # it has no points: the layout would make room for a mark at the corner (0, 0)
            handles.append(handle)
        legend = drawing.legend(handles, ["run"] * len(handles), loc="outside upper left", fontsize="small")
        for text, key in zip(legend.get_texts(), self.legend, strict=True):
            text.set(text=plain_text(clip(key.text, _LEGEND_LENGTH)), parse_math=False)

    def _repr_svg_(self) -> str:
        return self.svg()
