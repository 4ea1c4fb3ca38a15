"""Cells of tables of comparisons."""

from __future__ import annotations

from StaICC.metrics.intervals import Interval


def number_cell(value: float | None, number_format: str) -> str:
    """Return a number as a cell of a table; ``-`` without one."""
    if value is None:
        return "-"
    return format(value, number_format)


def interval_cell(interval: Interval | None) -> str:
    """Return an interval as a cell of a table; ``-`` without one."""
    if interval is None:
        return "-"
    return f"{interval.low:+.3f} .. {interval.high:+.3f}"
