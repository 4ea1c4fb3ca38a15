"""Colours, markers, sizes and text handling of all figures.

The colours are those of the light theme. Each has a role, and the page replaces it by a CSS variable of that role (see
:mod:`StaICC.results.report.svg`), so one figure fits the light theme, the dark theme and print. All colours meet the
WCAG contrast on white: 3 : 1 for markers, 4.5 : 1 for text. Runs differ in marker and colour. Text from data is never
interpreted as markup or mathematics.
"""

from __future__ import annotations

import functools
import io
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from StaICC.metrics.intervals import Interval
from StaICC.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FONT",
    "ROLES",
    "SERIES",
    "Series",
    "clip",
    "draw_interval",
    "faint",
    "new_figure",
    "new_grid",
    "plain_axes",
    "printable",
    "series",
    "set_names",
    "settings",
    "styled",
]

_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
Drawing = TypeVar("Drawing", bound=Callable[..., Any])

ROLES = {
    "surface": "#ffffff",
    "ink": "#1c2128",
    "soft": "#57606a",
    "grid": "#d8dee4",
    "mark": "#8a939d",
    "series-1": "#1f6fc4",
    "series-2": "#c4541a",
    "series-3": "#1a7f5a",
    "series-4": "#7a4fc9",
    "series-5": "#b8336a",
    "series-6": "#7a6a00",
}
"""The colours of figures, by role."""

FONT = "DejaVu Sans"
"""Included in matplotlib; pages name fallback fonts after it."""
_SETTINGS = {
    "font.family": FONT,
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.edgecolor": ROLES["mark"],
    "axes.labelcolor": ROLES["soft"],
    "axes.titlecolor": ROLES["ink"],
    "text.color": ROLES["ink"],
    "text.parse_math": False,
    "xtick.color": ROLES["soft"],
    "ytick.color": ROLES["soft"],
    "grid.color": ROLES["grid"],
    "figure.facecolor": ROLES["surface"],
    "axes.facecolor": ROLES["surface"],
    "savefig.facecolor": ROLES["surface"],
    "svg.fonttype": "none",
    "svg.hashsalt": "StaICC",
}
"""Settings of matplotlib for these figures; they override those of the user."""


class Series(NamedTuple):
    """Colour and marker of one run."""

    colour: str
    mark: str


SERIES = tuple(
    Series(ROLES[f"series-{number}"], mark) for number, mark in enumerate(("o", "s", "^", "D", "v", "P"), start=1)
)


def series(number: int) -> Series:
    """Return colour and marker of a run; a seventh run has the colour of the first with another marker.

    Args:
        number: The index of the run, from 0.
    """
    own = SERIES[number % len(SERIES)]
    return own if number < len(SERIES) else Series(own.colour, SERIES[(number + 1) % len(SERIES)].mark)


def printable(text: str) -> str:
    r"""Replace control characters, lone surrogates, non-characters and direction overrides by U+FFFD.

    Line ends and tabs become blanks.

    Args:
        text: Any text.

    Example:
        >>> printable("a\x00b\nc")
        'a�b c'
    """
    return "".join(
        " "
        if letter in "\n\r\t"
        else "\ufffd"
        if letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Cn")
        else letter
        for letter in text
    )


def clip(text: str, length: int = 26) -> str:
    """Shorten a text for a figure; tables contain the full text.

    Args:
        text: The text.
        length: Maximum number of characters.

    Example:
        >>> clip("financial_phrasebank", 12)
        'financial_p…'
    """
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def faint(role: str) -> tuple[float, float, float, float]:
    """Return a transparent variant of a colour, for the inside of a bar.

    Args:
        role: A key of :data:`ROLES`.
    """
    red, green, blue = (int(ROLES[role][place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue, 0.35


def settings() -> Any:
    """Return a context manager that applies the matplotlib settings of these figures.

    Raises:
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    matplotlib = require("matplotlib", "report", "drawing figures")
    return matplotlib.rc_context(_SETTINGS)


def styled(function: Drawing) -> Drawing:
    """Decorate a function that makes a figure: it runs with the settings of these figures.

    Args:
        function: The function.
    """

    @functools.wraps(function)
    def with_settings(*arguments: Any, **keywords: Any) -> Any:
        with settings():
            return function(*arguments, **keywords)

    return cast("Drawing", with_settings)


@functools.cache
def _figure_class() -> Any:
    """Return a subclass of matplotlib's figure that notebooks show without pyplot."""
    require("matplotlib", "report", "drawing figures")
    from matplotlib.figure import Figure

    class ReportFigure(Figure):  # type: ignore[misc, unused-ignore]  # without matplotlib, mypy takes it for Any
        """A figure that is rendered with the settings of these figures."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            with settings():
                self.savefig(buffer, format="png", dpi=130)
            return buffer.getvalue()

    return ReportFigure


def new_figure(width: float, height: float) -> Figure:
    """Make a figure.

    Args:
        width: Inches.
        height: Inches.

    Raises:
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    made: Figure = _figure_class()(figsize=(width, height), layout="constrained")
    return made


def new_grid(count: int, columns: int, width: float, height: float, **shared: Any) -> tuple[Figure, Sequence[Axes]]:
    """Make a figure of small multiples.

    Args:
        count: Number of panels.
        columns: Maximum number of panels in a row.
        width: Inches of a panel.
        height: Inches of a panel.
        **shared: For ``subplots``: ``sharex``, ``sharey``.

    Returns:
        The figure and its panels.
    """
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure = new_figure(max(width * columns, 3.2), height * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for empty in panels[count:]:
        empty.set_axis_off()
    if shared.get("sharex"):  # the lowest panel of each column shows its tick labels
        for panel in panels[max(0, count - columns) : count]:
            panel.xaxis.set_tick_params(labelbottom=True)
    return figure, panels[:count]


def plain_axes(axes: Axes, grid: Literal["x", "y", "both"] | None = None) -> None:
    """Hide the upper and right edges, and add grid lines.

    Args:
        axes: The axes.
        grid: Draw grid lines across ``"x"``, ``"y"`` or ``"both"``.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)
    if grid is not None:
        axes.grid(axis=grid, linewidth=0.7)
        axes.set_axisbelow(True)


def draw_interval(axes: Axes, interval: Interval | None, place: float, own: Series, upright: bool = False) -> None:
    """Draw a confidence interval, if there is one, as a line.

    Args:
        axes: The axes.
        interval: The interval.
        place: Its position on the other axis.
        own: Colour and marker of the run.
        upright: Whether the interval is vertical.
    """
    if interval is not None:
        ends, places = [interval.low, interval.high], [place, place]
        axes.plot(*((places, ends) if upright else (ends, places)), color=own.colour, linewidth=1.4)


def set_names(axes: Axes, names: Sequence[str], length: int = 22) -> None:
    """Label the rows of a chart, the first at the top.

    Args:
        axes: The axes.
        names: Names from the data; never interpreted as mathematics.
        length: Maximum number of characters.
    """
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels([clip(name, length) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
