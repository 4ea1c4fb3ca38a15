"""What all figures share: colours, sizes, marks, and text that is never read as anything but text.

Colours are the light theme's. Each has a role; the page replaces them by the role's variable (see
:mod:`StaICC.results.report.svg`), so that one figure serves light, dark and print. All pass WCAG's contrast on white:
3 : 1 for marks, 4.5 : 1 for text. Runs differ by mark as well as by colour.
"""

from __future__ import annotations

import functools
import io
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

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
    "drawn",
    "faint",
    "new_figure",
    "new_grid",
    "plain_axes",
    "printable",
    "series",
    "set_names",
    "settings",
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
"""Every colour of a figure, by its role."""

FONT = "DejaVu Sans"
"""Comes with matplotlib; pages name others after it."""
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
"""Settings of matplotlib for these figures, whatever the user's are."""


class Series(NamedTuple):
    """How one run is drawn."""

    colour: str
    mark: str


SERIES = tuple(
    Series(ROLES[f"series-{number}"], mark) for number, mark in enumerate(("o", "s", "^", "D", "v", "P"), start=1)
)


def series(number: int) -> Series:
    """Return how the run of a number is drawn; a seventh run repeats the first one's colour with another mark.

    Args:
        number: The run, from 0.
    """
    own = SERIES[number % len(SERIES)]
    return own if number < len(SERIES) else Series(own.colour, SERIES[(number + 1) % len(SERIES)].mark)


def printable(text: str) -> str:
    r"""Replace what no document may hold (control characters, lone surrogates, non-characters) by a visible mark.

    So are characters that turn the direction of what follows. Line ends and tabs become blanks.

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
    """Shorten a text for a place in a figure; tables have it in full.

    Args:
        text: The text.
        length: Most characters.

    Example:
        >>> clip("financial_phrasebank", 12)
        'financial_p…'
    """
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def faint(role: str) -> tuple[float, float, float, float]:
    """Return a colour for the inside of a bar, whose edge shows where it ends.

    Args:
        role: A key of :data:`ROLES`.
    """
    red, green, blue = (int(ROLES[role][place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue, 0.35


def settings() -> Any:
    """Return a context in which matplotlib has the settings of these figures.

    Raises:
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    matplotlib = require("matplotlib", "report", "drawing figures")
    return matplotlib.rc_context(_SETTINGS)


def drawn(function: Drawing) -> Drawing:
    """Have a function draw with the settings of these figures.

    Args:
        function: It makes a figure.
    """

    @functools.wraps(function)
    def with_settings(*arguments: Any, **keywords: Any) -> Any:
        with settings():
            return function(*arguments, **keywords)

    return cast("Drawing", with_settings)


@functools.cache
def _figure_class() -> Any:
    """Make the class of figures: matplotlib's, which a notebook shows without pyplot."""
    require("matplotlib", "report", "drawing figures")
    from matplotlib.figure import Figure

    class ReportFigure(Figure):  # type: ignore[misc, unused-ignore]  # without matplotlib, mypy takes it for Any
        """A figure that draws itself with the settings of these figures."""

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
        count: How many panels.
        columns: Most panels side by side.
        width: Inches of a panel.
        height: Inches of a panel.
        **shared: For ``subplots``: ``sharex``, ``sharey``.

    Returns:
        The figure and its panels; places without a panel are empty.
    """
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure = new_figure(max(width * columns, 3.2), height * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for empty in panels[count:]:
        empty.set_axis_off()
    if shared.get("sharex"):  # the lowest panel of a column shows its ticks, also above an empty place
        for panel in panels[max(0, count - columns) : count]:
            panel.xaxis.set_tick_params(labelbottom=True)
    return figure, panels[:count]


def plain_axes(axes: Axes, grid: Literal["x", "y", "both"] | None = None) -> None:
    """Take away what says nothing: the upper and right edges.

    Args:
        axes: The axes.
        grid: Draw grid lines across ``"x"``, ``"y"`` or ``"both"``.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)
    if grid is not None:
        axes.grid(axis=grid, linewidth=0.7)
        axes.set_axisbelow(True)


def set_names(axes: Axes, names: Sequence[str], length: int = 22) -> None:
    """Name the lines of a chart, the first at the top.

    Args:
        axes: The axes.
        names: Names from the data; they are never read as mathematics.
        length: Most characters.
    """
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels([clip(name, length) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
