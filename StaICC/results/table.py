"""The table of a result, followed by its remarks, its signature, its warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from StaICC import benchmark_names
from StaICC.layout import Block, Line, TextTable
from StaICC.metrics.scores import BASELINE_KEYS, SCORES
from StaICC.numerics import mean
from StaICC.results.cells import cell_text, figure_text
from StaICC.results.experiment_table import experiment_rows
from StaICC.results.protocol import ResultLike
from StaICC.results.remarks import remarks

_ScoreColumn = Sequence[Mapping[str, Any]]
"""The records of a score for each row of a table; an empty record where a data set has no such score."""


def _shared_left_out(columns: Sequence[_ScoreColumn]) -> list[int] | None:
    """Return how many queries of each row all scores leave out; ``None`` if it is not the same for all scores."""
    counts = {tuple(record.get("left_out", 0) for record in column) for column in columns}
    return list(counts.pop()) if len(counts) == 1 else None


def result_rows(result: ResultLike) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a result's table, as text.

    Each score has its interval in brackets; next to accuracy are its baselines. The row of the mean has those of the
    mean.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each data set, the mean last.
    """
    scores = {(record["dataset"], record["metric"]): record for record in result.score_records()}
    places: list[str | None] = [*result.divided, None]
    details = [result.details.get(name) for name in result.divided]
    bounds = [own.bounds if own else {} for own in details]
    table: list[tuple[str, list[str]]] = [("data set", [*result.divided, "mean"])]
    score_keys = (key for place, key in scores if place is not None and _is_column(key, result.divided[place]))
    keys = dict.fromkeys(score_keys)
    columns = {
        key: [scores.get((place, key.removeprefix("sensitivity.") if place is None else key), {}) for place in places]
        for key in keys
    }
    left_out = _shared_left_out([column for key, column in columns.items() if key not in BASELINE_KEYS])
    for key, column in columns.items():
        metric = key.removeprefix("sensitivity.")
        head = (SCORES[metric].head if metric in SCORES else "") or metric
        head = f"slope of {head}" if metric != key and result.benchmark == benchmark_names.GLER else head
        marks = [record.get("left_out", 0) if left_out is None else 0 for record in column]
        cells = [
            cell_text(record.get("value"), record.get("low"), record.get("high"), mark)
            for record, mark in zip(column, marks, strict=True)
        ]
        table.append((head, cells))
        if any(metric in of_set for of_set in bounds):
            values = [record.get("value") for record in column[:-1]]
            ends = [of_set.get(metric) or (own, own) for of_set, own in zip(bounds, values, strict=True)]
            ends.append(tuple(mean([pair[side] for pair in ends]) for side in (0, 1)))
            cells = [f"{figure_text(low)}, {figure_text(high)}" for low, high in ends]
            table.append((f"{head} if unparsed wrong, right", cells))
        for name in ("random", "majority"):
            if any(record.get(name) is not None for record in column):
                table.append((name, [figure_text(record.get(name)) for record in column]))
    if any(own and own.unparsed for own in details):
        counts = [(len(own.unparsed), own.asked) if own else (0, 0) for own in details]
        counts.append((sum(number for number, _ in counts), sum(asked for _, asked in counts)))
        table.append(("unparsed", [f"{number} ({number / asked:.1%})" if asked else "-" for number, asked in counts]))
    if left_out is not None and any(left_out):
        table.append(("left out", list(map(str, left_out))))
    rows = [list(row) for row in zip(*(column for _, column in table), strict=True)]
    return [head for head, _ in table], rows if len(rows) > 2 else rows[:-1]


def _is_column(key: str, scores: Mapping[str, Any]) -> bool:
    """Whether a score is a column of the table: a single score, or the slope of a regression line."""
    return key in scores or (key.startswith("sensitivity.") and not key.endswith(" (intercept)"))


def result_blocks(result: ResultLike) -> list[Block]:
    """Return a result as a table with its remarks, its model, its signature and its warnings."""
    head, rows = experiment_rows(result)
    if not rows:
        head, rows = result_rows(result)
    said = [*remarks(result), f"model: {result.model}"]
    return [
        Line(result.benchmark, "title"),
        TextTable(head, rows),
        *(Line(text, "warning" if text.startswith(("PARTIAL", "UNIDENTIFIED")) else "text") for text in said),
        Line(str(result.signature), "code"),
        *(Line(f"WARNING: {warning}", "warning") for warning in result.warnings),
    ]


def shared_warning_lines(warnings_of: Mapping[str, Sequence[str]]) -> list[Line]:
    """Return the warnings of several results as lines, each once, with the names of its results unless all have it.

    Args:
        warnings_of: The warnings of each result, by name.
    """
    names_of: dict[str, list[str]] = {}
    for name, warnings in warnings_of.items():
        for warning in warnings:
            names_of.setdefault(warning, []).append(name)
    lines = []
    for warning, names in names_of.items():
        text = f"WARNING: {warning}"
        if len(names) < len(warnings_of):
            text = f"WARNING: {', '.join(names)}: {warning}"
        lines.append(Line(text, "warning"))
    return lines
