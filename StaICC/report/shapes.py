"""Figures as records of numbers: shapes, axes, panels.

:mod:`StaICC.report.svg` draws them without other packages, :mod:`StaICC.report.matplotlib_axes` by matplotlib. A panel
has a fixed size. Panels flow on the page, so that a figure fits a phone without scrolling. Runs differ in marker and
colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from StaICC.report.text_widths import clip

COLOURS = 6
"""Number of colours of series."""
MARKERS = 6
"""Number of markers of series."""
SERIES = 12
"""Number of runs that differ in marker or colour."""
CELL_CORNERS = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
"""The corners of a cell, from its middle."""


class Shape(NamedTuple):
    """A part of a panel: a point, a line or a cell of a matrix. In a legend, it has a text and no position."""

    points: Sequence[tuple[float, float]] = ()
    """Of a point or a cell its middle."""
    series: int | None = None
    """From 0; ``None`` for the background."""
    kind: Literal["line", "dashed", "mark", "cell"] = "line"
    text: str = ""
    """Of a point, it is shown on hovering."""
    size: float = 1.0
    """Of a point; of a cell its shade, from 0 to 1."""

    @property
    def colour(self) -> str:
        """The role of its colour, such as ``"series-1"``; ``"mark"`` in the background."""
        if self.series is None:
            return "mark"
        return f"series-{self.series % COLOURS + 1}"

    @property
    def marker(self) -> int:
        """The number of its marker, from 0.

        A colour that is used for a second series has another marker then.
        """
        if self.series is None:
            return 0
        if self.series < COLOURS:
            return self.series
        return (self.series + 1) % MARKERS

    @property
    def corners(self) -> list[tuple[float, float]]:
        """The points between which it is drawn."""
        if self.kind != "cell":
            return list(self.points)
        corners = []
        for x, y in self.points:
            for to_the_right, upwards in CELL_CORNERS:
                corners.append((x + to_the_right, y + upwards))
        return corners


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
        length: Their largest width, in characters of average width.
    """
    ticks = [(row, clip(name, length)) for row, name in enumerate(names)]
    return Axis((len(names) - 0.5, -0.5), ticks, names=True)


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    shapes: Sequence[Shape] = ()
    """Later ones are above earlier ones."""
    width: int = 280
