"""Charts: figures that are made from a list of points, with the table of their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from StaICC.errors import ArgumentError
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.shapes import SERIES, Axis, Panel, Shape, row_axis
from StaICC.report.svg import fitting_characters


class Point(NamedTuple):
    """A score in a figure, and a row of its table."""

    panel: str
    series: str
    category: str
    """The name of its row, or of its position on the horizontal axis."""
    score: ChartScore
    x: float | None = None
    """The position on the horizontal axis; without one, a point is in the table only."""
    more: tuple[str, ...] = ()
    """Further cells of the table."""
    size: float = 1.0

    @property
    def label(self) -> str:
        """Its series and its category, each once."""
        return ", ".join(name for name in dict.fromkeys((self.series, self.category)) if name)


SHARE_AXIS = Axis((0, 1), [(0, "0"), (0.5, "0.5"), (1, "1")])
"""The axis of a score from 0 to 1."""
ACCURACY_AXIS = SHARE_AXIS._replace(label="accuracy")
RANDOM_KEY = Shape(text="random baseline")
MAJORITY_KEY = Shape(kind="dashed", text="majority baseline")
"""The entries of a legend about the two baselines."""

_NARROWEST_WITH_NAMES = 220
"""Pixels of a panel; the rows of narrower ones have no names."""
_SHARE_OF_NAMES = 0.45
"""Share of the width of a panel that the names of its rows take at most."""
_NO_NAMES = ("", "best", "other", "first is better", "second is better", "data sets")
"""Names of series that are not those of runs."""


def range_axis(values: Iterable[float], steps: int) -> Axis:
    """Return an axis that contains all values, with round ticks.

    Args:
        values: The values, at least one.
        steps: Largest number of steps within the range of the values.
    """
    known = list(values)
    lowest = min(known)
    highest = max(known)
    span = max(highest - lowest, 1e-3)
    step = _round_step(span, steps)
    first_tick = math.floor(lowest / step)
    last_tick = max(math.ceil(highest / step), first_tick + 1)
    ticks = [(tick * step, f"{tick * step:.6g}") for tick in range(first_tick, last_tick + 1)]
    return Axis((first_tick * step, last_tick * step), ticks)


def _round_step(span: float, steps: int) -> float:
    """Return the smallest round number of which at most so many steps fit into a range."""
    magnitude = 10.0 ** math.floor(math.log10(span))
    for factor in (0.2, 0.5, 1.0, 2.0, 5.0):
        if span / (magnitude * factor) <= steps:
            return magnitude * factor
    return magnitude * 10.0


def chart(
    title: str,
    caption: str,
    head: Sequence[str],
    points: Sequence[Point],
    series: Mapping[str, int | None] | None = None,
    *,
    needs: str = "",
    across: Axis | Mapping[str, Axis] | None = None,
    values: Axis | Mapping[str, Axis] | None = None,
    lines: Mapping[str, Sequence[Shape]] = MappingProxyType({}),
    legend: Sequence[Shape] = (),
    dodge: float = 0.0,
    width: int = 280,
) -> Figure:
    """Return a figure of points, with the table of their numbers.

    Args:
        title: The title.
        caption: What it shows.
        head: The names of panels, series, categories, scores and further cells; a column without a name is left out.
        points: The points, in the order of the table.
        series: The number of each series, which decides its marker and colour (``None`` is grey); by default in the
            order of the points, with a legend. Lines connect the points of a numbered series in a curve.
        needs: The message if no point has a value; without one, a figure may have no panels.
        across: The horizontal axis of curves, or of each panel. Without one, each category is a row, and the
            baselines are lines in it.
        values: The axis of the scores, or that of each panel; by default it contains all of them.
        lines: Lines in the background of each panel.
        legend: Further entries of the legend.
        dodge: Distance of series from each other at the same position.
        width: Pixels; rows of a panel below 220 pixels have no names.

    Raises:
        ArgumentError: No point has a value, and there is a message for that.
    """
    series_names = list(dict.fromkeys(point.series for point in points))
    if series is None:
        series = {name: number for number, name in enumerate(series_names)}
    points_by_panel = _points_by_panel(points)
    if not points_by_panel and needs:
        raise ArgumentError(f"{title}: {needs}")

    panels = []
    for name, points_of_panel in points_by_panel.items():
        panel = _ChartPanel(series, dodge, across=_axis_of(across, name), values=_axis_of(values, name), width=width)
        panels.append(panel.drawn(name, points_of_panel, background=lines.get(name, ())))

    keys = []
    if head[1] and len(series_names) > 1:
        keys = [Shape((), series[name], "mark", name) for name in series_names if name]
    if len(keys) > SERIES:
        caption += f" The first {SERIES} of {len(keys)} are drawn, the table has all."
    baseline_keys = []
    if across is None and any(point.score.random is not None for point in points):
        baseline_keys = [RANDOM_KEY, MAJORITY_KEY]
    table_head, rows = _numbers(head, points, with_baselines=bool(baseline_keys))
    text_columns = [name for name in head[:3] if name]
    return Figure(
        title,
        f"{caption}{_marks_note(points)}",
        panels,
        table_head,
        rows,
        words=range(len(text_columns)),
        legend=[*keys[:SERIES], *baseline_keys, *legend],
    )


def _axis_of(axes: Axis | Mapping[str, Axis] | None, panel: str) -> Axis | None:
    """Return the axis of a panel: that of all panels, or its own."""
    if isinstance(axes, Mapping):
        return axes.get(panel)
    return axes


def _points_by_panel(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Return the points of each panel in which a point has a value."""
    by_panel: dict[str, list[Point]] = {}
    for point in points:
        by_panel.setdefault(point.panel, []).append(point)
    drawn = {}
    for name, points_of_panel in by_panel.items():
        if any(point.score.value is not None for point in points_of_panel):
            drawn[name] = points_of_panel
    return drawn


class _ChartPanel:
    """A panel of a chart, whose points are curves or rows.

    Curves have a horizontal axis, and their scores are vertical. Without a horizontal axis, each category is a row, and
    scores are horizontal.
    """

    def __init__(
        self,
        series: Mapping[str, int | None],
        dodge: float,
        across: Axis | None,
        values: Axis | None,
        width: int,
    ) -> None:
        self.series = series
        self.dodge = dodge
        self.across = across
        self.values = values
        self.width = width
        self.shapes: list[Shape] = []
        """Lines in the background, baselines, intervals."""
        self.marks: list[Shape] = []
        self.curves: dict[int | None, list[tuple[float, float]]] = {}
        """The points of each series, which a line connects."""

    def drawn(self, title: str, points: Sequence[Point], background: Sequence[Shape]) -> Panel:
        """Return the panel, with the shapes of the points, which are kept here.

        Args:
            title: Its title.
            points: Its points.
            background: Lines behind them.
        """
        self.shapes += background
        categories = list(dict.fromkeys(point.category for point in points))
        for point in points:
            number = self.series[point.series]
            position = float(categories.index(point.category)) if self.across is None else point.x
            is_drawn = number is None or number < SERIES
            if point.score.value is not None and position is not None and is_drawn:
                self._add_point(point, number, position, point.score.value)

        values = self.values or self._axis_of_shapes()
        if self.across is None:
            return self._with_rows(title, values, categories)
        return self._with_curves(title, self.across, values)

    def _with_curves(self, title: str, across: Axis, values: Axis) -> Panel:
        """Return the panel with a line through the points of each series."""
        lines = [Shape(curve, number) for number, curve in self.curves.items() if number is not None]
        return Panel(title, across, values, [*self.shapes, *lines, *self.marks], self.width)

    def _with_rows(self, title: str, values: Axis, categories: Sequence[str]) -> Panel:
        """Return the panel with a row for each category; a narrow one has no room for their names."""
        names = list(categories)
        if self.width < _NARROWEST_WITH_NAMES:
            names = [""] * len(categories)
        longest_name = fitting_characters(_SHARE_OF_NAMES * self.width)
        return Panel(title, values, row_axis(names, longest_name), [*self.shapes, *self.marks], self.width)

    def _add_point(self, point: Point, number: int | None, position: float, value: float) -> None:
        """Add a point with its baselines and its interval.

        Args:
            point: The point.
            number: The number of its series; ``None`` is grey.
            position: Its position on the axis that is not that of the scores.
            value: Its score.
        """
        if self.across is None:
            self._add_baseline(point.score.random, position, Shape(kind="line"))
            self._add_baseline(point.score.majority, position, Shape(kind="dashed"))
        middle_of_series = (len(self.series) - 1) / 2
        position += self.dodge * ((number or 0) - middle_of_series)
        interval = point.score.interval
        if interval is not None:
            ends = [self._at(position, interval.low), self._at(position, interval.high)]
            self.shapes.append(Shape(ends, number))
        text = f"{point.label}: {point.score.cell}"
        self.marks.append(Shape([self._at(position, value)], number, "mark", text, point.size))
        self.curves.setdefault(number, []).append(self._at(position, value))

    def _add_baseline(self, value: float | None, row: float, style: Shape) -> None:
        """Add a baseline as a line through a row; nothing without one."""
        if value is not None:
            self.shapes.append(style._replace(points=[(value, row - 0.5), (value, row + 0.5)]))

    def _at(self, position: float, value: float) -> tuple[float, float]:
        """Return the point of a score: scores are vertical in curves, and horizontal in rows."""
        if self.across is not None:
            return position, value
        return value, position

    def _axis_of_shapes(self) -> Axis:
        """Return an axis that contains all shapes; from 0 to 1 without any."""
        direction = 0 if self.across is None else 1
        values = []
        for shape in (*self.shapes, *self.marks):
            values += [end[direction] for end in shape.points]
        if not values:
            return SHARE_AXIS
        return range_axis(values, steps=self.width // 80)


def _numbers(head: Sequence[str], points: Sequence[Point], with_baselines: bool) -> tuple[list[str], list[list[str]]]:
    """Return the table of the numbers: its column heads and its rows.

    Args:
        head: As for :func:`chart`.
        points: The points.
        with_baselines: Whether there are columns of the baselines.
    """
    with_intervals = any(point.score.interval for point in points)
    table_head: list[str] = []
    rows = []
    for point in points:
        score = point.score
        # A column is a pair: its head, and the cell of this point. One without a head is left out.
        cells = [*zip(head[:4], (point.panel, point.series, point.category, score.cell), strict=True)]
        if with_intervals:
            cells.append(("interval", score.interval_cell))
        if with_baselines:
            cells.append((RANDOM_KEY.text, ChartScore(score.random).cell))
            cells.append((MAJORITY_KEY.text, ChartScore(score.majority).cell))
        cells += zip(head[4:], point.more, strict=True)
        table_head = [name for name, _ in cells if name]
        rows.append([cell for name, cell in cells if name])
    return table_head, rows


def _marks_note(points: Iterable[Point]) -> str:
    """Return the sentences of a caption about scores that are not of all queries."""
    left_out: dict[str, None] = {}
    stopped_early: dict[str, None] = {}
    for point in points:
        if point.score.value is None:
            continue
        names = dict.fromkeys(name for name in (point.series, point.category) if name not in _NO_NAMES)
        name = ", ".join(names)
        if point.score.left_out:
            left_out[f"{name}: {point.score.left_out}"] = None
        if point.score.stopped_early:
            stopped_early[name] = None
    note = ""
    if left_out:
        note += f" Queries left out: {'; '.join(left_out)}."
    if stopped_early:
        note += f" Stopped early: {'; '.join(stopped_early)}."
    return note
