"""Tables of results, as text and as HTML.

One row for each data set, one column for each score. Only this module rounds. Names of data sets and labels may come
from users, so HTML escapes everything.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from StaICC.metrics.intervals import Interval
from StaICC.results.details import Baselines, DatasetDetails, MeanDetails
from StaICC.results.early_stopping import EarlyStopping
from StaICC.results.provenance import Provenance
from StaICC.results.signature import Signature
from StaICC.safe_text import one_line


class TableResult(Protocol):
    """What a table shows of a :class:`~StaICC.results.result.Result`."""

    benchmark: str
    divided: dict[str, dict[str, Any]]
    averaged: dict[str, float | None]
    signature: Signature
    provenance: Provenance
    details: dict[str, DatasetDetails]
    means: MeanDetails
    stopping: EarlyStopping | None
    timing: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def model(self) -> str:
        """The models by name and short identity."""

    @property
    def method(self) -> str:
        """The inference method."""


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


def _end(value: float) -> str:
    """Return an end of an interval with three decimals, without the zero before the point."""
    text = f"{abs(value):.3f}".removeprefix("0")
    return f"-{text}" if value < 0 and text != ".000" else text


def _with_interval(figure: str, interval: Interval | None) -> str:
    return figure if interval is None else f"{figure} [{_end(interval.low)}, {_end(interval.high)}]"


class _Column(NamedTuple):
    """A score of the table: the keys of its mean and interval, and its values by data set."""

    head: str
    mean: str
    interval: str
    values: dict[str, Any]


def _columns(result: TableResult) -> list[_Column]:
    """Return the single scores of all data sets: numbers, and the slopes of a sensitivity test."""
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


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def result_rows(result: TableResult) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a result's table, as text.

    Each score has its interval in brackets; next to accuracy are its baselines. The row of the mean has those of the
    mean.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each data set, the mean last.
    """
    columns = _columns(result)
    table: list[tuple[str, list[str], str]] = []  # head, one cell for each data set, mean
    details = [result.details.get(name) for name in result.divided]
    for column in columns:
        cells = [
            _with_interval(_figure(column.values.get(name)), one.intervals.get(column.interval) if one else None)
            for name, one in zip(result.divided, details, strict=True)
        ]
        mean = _with_interval(_figure(result.averaged.get(column.mean)), result.means.intervals.get(column.mean))
        table.append((column.head, cells, mean))
        if any(one and column.mean in one.bounds for one in details):
            pairs = [one.bounds.get(column.mean) if one else None for one in details]
            values = [column.values.get(name) for name in result.divided]
            ends = [pair or (value, value) for pair, value in zip(pairs, values, strict=True)]
            means = [_mean([pair[side] for pair in ends]) for side in (0, 1)]
            cells = [f"{_figure(low)}, {_figure(high)}" for low, high in (*ends, means)]
            table.append((f"{column.head} if unparsed wrong, right", cells[:-1], cells[-1]))
        if column.mean == "accuracy" and column.interval == "accuracy":
            every = [*(one.baselines if one else {} for one in details), result.means.baselines]
            bases = [next(iter(one.values()), None) for one in every]
            if any(bases):
                for name in ("random", "majority"):
                    attribute = "max_random" if name == "random" else name
                    cells = [_figure(getattr(base, attribute)) if base else "-" for base in bases]
                    table.append((name, cells[:-1], cells[-1]))
    if any(one and one.unparsed for one in details):
        counts = [(len(one.unparsed), one.asked) if one else (0, 0) for one in details]
        counts.append((sum(number for number, _ in counts), sum(asked for _, asked in counts)))
        cells = [f"{number} ({number / asked:.1%})" if asked else "-" for number, asked in counts]
        table.append(("unparsed", cells[:-1], cells[-1]))
    head = ["data set", *(head for head, _, _ in table)]
    rows = [[name, *(cells[place] for _, cells, _ in table)] for place, name in enumerate(result.divided)]
    if len(rows) > 1:
        rows.append(["mean", *(mean for _, _, mean in table)])
    return head, rows


def experiment_rows(result: TableResult) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of an experiment of LongICL, as text; no rows without one.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each condition of each data set.
    """
    head = ["data set, condition", "demonstrations", "reference tokens", "all contexts", "model's tokens"]
    head += ["score", "difference"]
    rows: list[list[str]] = []
    for dataset, scores in result.divided.items():
        experiment = scores.get("experiment") or {"conditions": {}}
        for name, row in experiment["conditions"].items():
            tokens = result.timing.get(f"{dataset}, {name}, tokens")
            cells = []
            for key in ("score", "difference"):
                ends = row.get(f"{key}_low"), row.get(f"{key}_high")
                cells.append(_figure(row.get(key)))
                if None not in ends:
                    cells[-1] += f" [{_end(ends[0])}, {_end(ends[1])}]"
            counts = [row.get(key) for key in ("demonstrations", "reference_tokens", "all_contexts")]
            counts.append(None if tokens is None else int(tokens))
            rows.append([f"{dataset}, {name}", *map(_figure, counts), *cells])
    hidden = set()
    if all(row[2] == row[3] for row in rows):  # all test items share their contexts
        hidden.add("all contexts")
    if all(row[4] == "-" for row in rows):
        hidden.add("model's tokens")
    kept = [place for place, title in enumerate(head) if title not in hidden]
    return [head[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _experiment_notes(result: TableResult) -> list[str]:
    """Return what the differences are, and the p-values of the test of positions."""
    found = {name: one for name, scores in result.divided.items() if (one := scores.get("experiment"))}
    if not found:
        return []
    by_position = any(one["name"] == "position" for one in found.values())
    others = "the mean of the other parts" if by_position else "the first condition of the data set"
    notes = [f"A difference is that from {others}, on the same test items; its interval is for this row alone."]
    for name, one in found.items():
        if (p_value := one.get("p_value")) is not None:
            notes.append(f"{name}: test of no effect of the part of the context: p = {p_value:.4f}.")
    return notes


def format_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text: the first column left-aligned, the others right-aligned.

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
    head, *rows = ([one_line(cell) for cell in row] for row in (head, *rows))
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = [list(head), ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(cells)
        ).rstrip()
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    )


_RIVALS: dict[str, Callable[[Baselines], float | None]] = {
    "uniform guessing": lambda base: max(base.p_value, base.p_value_rows or 0.0),
    "always the majority label": lambda base: base.p_value_majority,
    "a copy of the last demonstration's label": lambda base: base.p_value_last_demonstration,
}
_ALPHA = 0.05


def bracket_note(results: Iterable[TableResult]) -> list[str]:
    """Return what the brackets in the tables of results are: one sentence for each level of their intervals.

    Args:
        results: The results.
    """
    levels = {one.level for result in results for each in result.details.values() for one in each.intervals.values()}
    return [f"In brackets: {100 * level:g} % intervals." for level in sorted(levels)]


def _not_beaten(result: TableResult) -> list[str]:
    """Return one sentence for each predictor without a model that the accuracy does not beat."""
    places = {
        name: next(iter(one.baselines.values()), None)
        for name, one in result.details.items()
        if "experiment" not in result.divided.get(name, {})  # its first condition is not the one to look at
    }
    if len(places) > 1:
        places["the mean"] = next(iter(result.means.baselines.values()), None)
    found = []
    for rival, p_value in _RIVALS.items():
        p_values = {name: p_value(base) for name, base in places.items() if base}
        lost = [name for name, p in p_values.items() if p is not None and p > _ALPHA]
        if lost:
            sets = [name for name in lost if name != "the mean"]
            shown = sets if len(sets) < 4 else [f"{len(sets)} data sets"]
            found.append(f"Not better than {rival} (p > {_ALPHA:g}): {', '.join(shown + lost[len(sets) :])}.")
    return found


def remarks(result: TableResult) -> list[str]:
    """Return remarks about the scores, one sentence each.

    Args:
        result: The result.

    Returns:
        Where the run stopped early, how many queries failed, why the model is not identified, why scores are
        undefined, warnings of the checks, which predictions without a model are not beaten, and what the brackets are.
    """
    found = [] if result.stopping is None else [str(result.stopping)]
    failed = sum(details.failed for details in result.details.values())
    if failed:
        asked = sum(details.asked for details in result.details.values())
        found.append(f"PARTIAL: {failed} of {asked} queries have no answer; no figure counts them.")
    found += [f"UNIDENTIFIED: {' '.join(reason.split())}" for reason in result.provenance.unidentified]
    said: dict[str, list[str]] = {}
    for name, details in result.details.items():
        for key, reason in details.missing.items():
            said.setdefault(f"{key} is undefined: {reason}", []).append(name)
        for note in details.notes:
            said.setdefault(note, []).append(name)
    for key, reason in result.means.missing.items():
        if len(result.details) > 1:
            said.setdefault(f"interval of {key} is undefined: {reason}", []).append("mean")
    found += [
        f"{', '.join(names) if len(names) < 4 else f'{len(names)} data sets'}: {note}" for note, names in said.items()
    ]
    return found + _not_beaten(result) + _experiment_notes(result) + bracket_note([result])


def format_result(result: TableResult) -> str:
    """Return a result as a text table with its remarks, its model and its signature.

    Args:
        result: The result.
    """
    head, rows = experiment_rows(result)
    if not rows:
        head, rows = result_rows(result)
    lines = [
        result.benchmark,
        format_columns(head, rows),
        *remarks(result),
        f"model: {result.model}",
        str(result.signature),
    ]
    return "\n".join(lines)


def format_warnings(warnings: Sequence[str]) -> list[str]:
    """Return the warnings of a run as lines."""
    return [f"WARNING: {one_line(warning)}" for warning in warnings]


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


def html_result(result: TableResult) -> str:
    """Return a result as an HTML table with its remarks, its model and its signature, everything escaped.

    Args:
        result: The result.
    """
    lines = [*remarks(result), *format_warnings(result.warnings)]
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    signature = f"<p><code>{html.escape(str(result.signature))}</code></p>"
    model = f"<p>model: {html.escape(result.model)}</p>"
    head, rows = experiment_rows(result)
    table = html_table(result.benchmark, head, rows) if rows else html_table(result.benchmark, *result_rows(result))
    return table + notes + model + signature
