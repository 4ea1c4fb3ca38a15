"""Tables of results, as text and as HTML.

One row for each data set, one column for each figure. Rounding happens here and nowhere else. Names of data sets and
labels may come from users, so HTML escapes everything.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from StaICC.results.result import Result

__all__ = ["format_columns", "format_result", "html_result", "html_table", "remarks", "result_rows"]

_HEADS = {
    "averaged_truelabel_likelihood": "likelihood",
    "macro_F1": "macro F1",
    "expected_calibration_error_1": "ECE-1",
}


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return str(value) if isinstance(value, int) else f"{value:.4f}"


class _Column(NamedTuple):
    """A figure of the table: where its value, its mean and its interval stand."""

    head: str
    mean: str
    interval: str
    values: dict[str, Any]


def _columns(result: Result) -> list[_Column]:
    """Give the single figures of all data sets: scalars, and what a sensitivity test concludes."""
    found: dict[str, _Column] = {}
    for name, scores in result.divided.items():
        for key, value in scores.items():
            if value is None or isinstance(value, (int, float)):
                found.setdefault(key, _Column(_HEADS.get(key, key), key, key, {})).values[name] = value
            elif key == "sensitivity":
                for metric, figure in value.items():
                    line = isinstance(figure, (list, tuple)) or metric in _HEADS or metric == "accuracy"
                    head = f"slope of {_HEADS.get(metric, metric)}" if line else metric
                    column = found.setdefault(f"{key}.{metric}", _Column(head, metric, f"{key}.{metric}", {}))
                    column.values[name] = figure[0] if isinstance(figure, (list, tuple)) else figure
    return list(found.values())


def result_rows(result: Result) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a result's table, as text.

    The first figure stands with its interval, accuracy also with its baselines.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each data set, the mean last.
    """
    columns = _columns(result)
    table: list[tuple[str, list[str], str]] = []  # head, one cell for each data set, mean
    details = [result.details.get(name) for name in result.divided]
    for place, column in enumerate(columns):
        cells = [_figure(column.values.get(name)) for name in result.divided]
        table.append((column.head, cells, _figure(result.averaged.get(column.mean))))
        intervals = [one.intervals.get(column.interval) if one else None for one in details]
        if place == 0 and any(intervals):
            level = next(f"{100 * one.level:g} % interval" for one in intervals if one)
            table.append((level, [f"{one.low:.3f} .. {one.high:.3f}" if one else "-" for one in intervals], ""))
        if column.mean == "accuracy" and column.interval == "accuracy":
            bases = [next(iter(one.baselines.values()), None) if one else None for one in details]
            if any(bases):
                table.append(("random", [_figure(base.max_random) if base else "-" for base in bases], ""))
                table.append(("majority", [_figure(base.majority) if base else "-" for base in bases], ""))
    head = ["data set", *(head for head, _, _ in table)]
    rows = [[name, *(cells[place] for _, cells, _ in table)] for place, name in enumerate(result.divided)]
    if len(rows) > 1:
        rows.append(["mean", *(mean for _, _, mean in table)])
    return head, rows


def format_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table: the first column to the left, the others to the right.

    Args:
        head: Column heads.
        rows: Cells, as text.

    Returns:
        Lines joined by newlines.

    Example:
        >>> print(format_columns(["set", "n"], [["a", "10"], ["bcd", "7"]]))
        set   n
        ---  --
        a    10
        bcd   7
    """
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = [list(head), ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(cells)
        ).rstrip()
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    )


def remarks(result: Result) -> list[str]:
    """Say what a reader must know beside the figures.

    Args:
        result: The result.

    Returns:
        Sentences that say how partial it is, why values are missing, what the audit found.
    """
    found = []
    failed = sum(details.failed for details in result.details.values())
    if failed:
        asked = sum(details.asked for details in result.details.values())
        found.append(f"PARTIAL: {failed} of {asked} queries have no answer; no figure counts them.")
    said: dict[str, list[str]] = {}
    for name, details in result.details.items():
        for key, reason in details.missing.items():
            said.setdefault(f"{key} is undefined: {reason}", []).append(name)
        for note in details.notes:
            said.setdefault(note, []).append(name)
    found += [
        f"{', '.join(names) if len(names) < 4 else f'{len(names)} data sets'}: {note}" for note, names in said.items()
    ]
    return found


def format_result(result: Result) -> str:
    """Return a result as a text table with its remarks and its signature.

    Args:
        result: The result.
    """
    head, rows = result_rows(result)
    lines = [result.benchmark, format_columns(head, rows), *remarks(result), str(result.signature)]
    return "\n".join(lines)


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML, everything escaped.

    Args:
        caption: What it shows.
        head: Names of the columns.
        rows: The cells.
    """
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    )


def html_result(result: Result) -> str:
    """Return a result as an HTML table with its remarks and its signature, everything escaped.

    Args:
        result: The result.
    """
    notes = "".join(f"<p>{html.escape(remark)}</p>" for remark in remarks(result))
    signature = f"<p><code>{html.escape(str(result.signature))}</code></p>"
    return html_table(result.benchmark, *result_rows(result)) + notes + signature
