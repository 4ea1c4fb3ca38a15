"""Cells of tables of scores: a number with its interval."""

from __future__ import annotations

from typing import Any

from StaICC.results.left_out import with_marks


def figure_text(value: Any) -> str:
    """Return a number as the text of a cell: a float with four decimals, an integer as it is, ``"-"`` for ``None``."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)


def _end_text(value: float) -> str:
    """Return an end of an interval with three decimals, without the zero before the point, such as ``".612"``."""
    text = f"{abs(value):.3f}".removeprefix("0")
    if value < 0 and text != ".000":
        return f"-{text}"
    return text


def cell_text(value: Any, low: float | None, high: float | None, left_out: int = 0) -> str:
    """Return a score as text, such as ``"0.7000 (3 left out) [.612, .774]"``.

    Args:
        value: The score; ``None`` if it is undefined.
        low: The lower end of its interval; ``None`` without an interval.
        high: The upper end.
        left_out: The number of queries that the score leaves out.
    """
    text = figure_text(value)
    if value is not None:
        text = with_marks(text, left_out)
    if low is None or high is None:
        return text
    return f"{text} [{_end_text(low)}, {_end_text(high)}]"
