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
    """Return an axis that contains all values, with ticks at multiples of a round number.

    For the values from 0.13 to 0.48 and at most 4 steps, the ticks are 0.1, 0.2, 0.3, 0.4 and 0.5.

    Args:
        values: The values, at least one.
        steps: The largest number of distances between ticks that fit between the lowest and the highest value.
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
    """Return the distance of the ticks of an axis: the smallest round number that divides a range into few parts.

    Round numbers are 1, 2 and 5 times a power of ten. The range 0.35 and at most 4 parts have the distance 0.1, because
    0.35 / 0.1 is at most 4, and 0.35 / 0.05 is not.

    Args:
        span: The length of the range.
        steps: The largest number of parts.
    """
    magnitude = 10.0 ** math.floor(math.log10(span))  # the largest power of ten that is not above the range
    for factor in (0.2, 0.5, 1.0, 2.0, 5.0):  # 0.2 and 0.5 are 2 and 5 times the power below
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
    series_names = list(dict.fromkeys(point.series for point in points))  # each once, in order
    if series is None:
        series = {name: number for number, name in enumerate(series_names)}
    points_by_panel = _points_by_panel(points)
    if not points_by_panel and needs:
        raise ArgumentError(f"{title}: {needs}")

    panels = []
    for name, points_of_panel in points_by_panel.items():
        panel = _ChartPanel(series, dodge, across=_axis_of(across, name), values=_axis_of(values, name), width=width)
        panels.append(panel.drawn(name, points_of_panel, background=lines.get(name, ())))

    series_legend = []
    series_have_a_column = bool(head[1])
    if series_have_a_column and len(series_names) > 1:
        series_legend = [Shape(series=series[name], kind="mark", text=name) for name in series_names if name]
    if len(series_legend) > SERIES:
        caption += f" The first {SERIES} of {len(series_legend)} are drawn, the table has all."
    categories_are_rows = across is None
    with_baselines = categories_are_rows and any(point.score.random is not None for point in points)
    baseline_legend = []
    if with_baselines:
        baseline_legend = [RANDOM_KEY, MAJORITY_KEY]
    table_head, rows = _numbers(head, points, with_baselines)
    text_columns = [name for name in head[:3] if name]
    return Figure(
        title,
        f"{caption}{_marks_note(points)}",
        panels,
        table_head,
        rows,
        words=range(len(text_columns)),
        legend=[*series_legend[:SERIES], *baseline_legend, *legend],
    )


def _axis_of(axes: Axis | Mapping[str, Axis] | None, panel: str) -> Axis | None:
    """Return the axis of a panel: that of all panels, or its own."""
    if isinstance(axes, Mapping):
        return axes.get(panel)
    return axes


def _points_by_panel(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Return the points of each panel by its name, in order. A panel in which no point has a value is left out."""
    points_by_panel: dict[str, list[Point]] = {}
    for point in points:
        points_by_panel.setdefault(point.panel, []).append(point)
    panels_with_value = {}
    for name, points_of_panel in points_by_panel.items():
        if any(point.score.value is not None for point in points_of_panel):
            panels_with_value[name] = points_of_panel
    return panels_with_value


class _ChartPanel:
    """A panel of a chart, whose points are curves or rows.

    Curves have a horizontal axis, and their scores are vertical. Without a horizontal axis, each category is a row, and
    scores are horizontal.

    Args:
        series: The number of each series, which decides its marker and colour; ``None`` is grey.
        dodge: Distance of series from each other at the same position.
        across: The horizontal axis of curves; ``None`` for rows.
        values: The axis of the scores; ``None`` for one that contains all of them.
        width: Pixels.
    """

    def __init__(
        self,
        series: Mapping[str, int | None],
        dodge: float,
        across: Axis | None,
        values: Axis | None,
        width: int,
    ) -> None:
        """Begin without points; :meth:`drawn` adds them."""
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
        """Return the panel with the shapes of its points: marks, intervals, baselines and lines.

        A point is drawn if it has a value and a position, and if its series is one of the first 12.

        Args:
            title: The title of the panel.
            points: Its points.
            background: Lines behind them.
        """
        self.shapes += background
        categories = list(dict.fromkeys(point.category for point in points))
        for point in points:
            if self.across is None:
                position: float | None = float(categories.index(point.category))  # the row of the category
            else:
                position = point.x
            number = self.series[point.series]
            has_colour = number is None or number < SERIES
            if point.score.value is not None and position is not None and has_colour:
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
    """Return the table of the numbers of a chart: the heads of its columns, and a row for each point.

    Args:
        head: The names of panels, series, categories, scores and further cells. A column with an empty name is left
            out.
        points: The points.
        with_baselines: Whether there are columns of the baselines.
    """
    with_intervals = any(point.score.interval for point in points)
    all_heads = list(head[:4])
    if with_intervals:
        all_heads.append("interval")
    if with_baselines:
        all_heads += [RANDOM_KEY.text, MAJORITY_KEY.text]
    all_heads += head[4:]
    shown_columns = [column for column, name in enumerate(all_heads) if name]

    rows = []
    for point in points:
        score = point.score
        cells = [point.panel, point.series, point.category, score.cell]
        if with_intervals:
            cells.append(score.interval_cell)
        if with_baselines:
            cells += [ChartScore(score.random).cell, ChartScore(score.majority).cell]
        cells += point.more
        rows.append([cells[column] for column in shown_columns])
    return [all_heads[column] for column in shown_columns], rows


def _marks_note(points: Iterable[Point]) -> str:
    """Return the sentences of a caption about scores that are not of all queries; empty if all are.

    An example is `` Queries left out: a, TREC: 3. Stopped early: b.``
    """
    left_out: list[str] = []
    stopped_early: list[str] = []
    for point in points:
        if point.score.value is None:
            continue
        names = [name for name in (point.series, point.category) if name not in _NO_NAMES]
        name_of_point = ", ".join(dict.fromkeys(names))
        if point.score.left_out:
            left_out.append(f"{name_of_point}: {point.score.left_out}")
        if point.score.stopped_early:
            stopped_early.append(name_of_point)
    note = ""
    if left_out:
        note += f" Queries left out: {'; '.join(dict.fromkeys(left_out))}."
    if stopped_early:
        note += f" Stopped early: {'; '.join(dict.fromkeys(stopped_early))}."
    return note
