"""Comparisons of saved results as text, Markdown, LaTeX, CSV and JSON.

All pairs of the given runs are compared, benchmark by benchmark. What only some runs have is named as left out.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError, UnknownNameError, unknown_name
from StaICC.results.comparison import BenchmarkComparison, compare_runs
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark, split_runs
from StaICC.results.table import format_columns
from StaICC.safe_text import csv_cell

_MEANING = (
    "difference: first minus second, with its interval over test rows; p: sign-flip test over test rows, mid-p; p "
    "(Holm): of a data set, corrected for data sets and pairs of runs, of the mean, for pairs of runs; detectable: the "
    "smallest true difference that the test finds with probability 0.8 at level 0.05 (-: too few rows differ)"
)


def compare_all(
    results: Mapping[str, Result | ResultGroup], metric: str | None = None, *, margin: float | None = None
) -> tuple[tuple[BenchmarkComparison, ...], tuple[str, ...]]:
    """Compare all pairs of results.

    Args:
        results: Results, or groups of results, by the name that tells them apart (see
            :func:`~StaICC.results.runs.split_runs`); two runs at least.
        metric: A score, such as ``"macro_F1"``; by default the main one of each benchmark.
        margin: Also test whether each run is not worse than the other by more than this.

    Returns:
        The comparison of each benchmark, and what was left out, with the reason in brackets.

    Raises:
        ArgumentError: There are fewer than two runs, or nothing can be compared; the message says why.
        UnknownNameError: No benchmark has the metric.
    """
    runs = split_runs(results)
    if len(runs) < 2:
        raise ArgumentError(f"a comparison needs two results at least, {len(runs)} given")
    left_out: list[str] = []
    found: list[BenchmarkComparison] = []
    errors: list[ArgumentError | UnknownNameError] = []
    for benchmark, own in by_benchmark(results).items():
        missing = [name for name in runs if name not in own]
        if missing:
            left_out.append(f"{benchmark} (not in {', '.join(missing)})")
        if len(own) < 2:
            continue
        try:
            found.append(compare_runs(own, metric, margin=margin))
        except (ArgumentError, UnknownNameError) as error:
            errors.append(error)
            left_out.append(f"{benchmark} ({error})")
    if not found and errors:
        raise errors[0]
    if not found:
        described = " and ".join(f"{name} ({', '.join(parts)})" for name, parts in runs.items())
        raise ArgumentError(f"{described} share no benchmark")
    return tuple(found), (*left_out, *(one for each in found for one in each.left_out))


class _Table(NamedTuple):
    """A comparison of two runs, or a ranking, with what is written around its table."""

    title: str
    notes: list[str]
    head: list[str]
    rows: list[list[str]]
    words: int
    """Number of columns with text, which come first; the others have numbers."""
    below: list[str]
    signature: str = ""


_GROUPS = "Runs that share a letter are not shown to differ in the mean (Holm, level 0.05)."


def _tables(found: Sequence[BenchmarkComparison]) -> Iterator[_Table]:
    for each in found:
        for one in each.comparisons:
            title = f"{one.benchmark}: first {one.first}, second {one.second}"
            yield _Table(title, one.introduction(), *one.table(), 1, one.conclusion(), one.signature)
        if len(each.ranking) > 2:
            head = ["rank", "run", "group", each.metric]
            rows = [[str(n), rank.run, rank.groups, f"{rank.value:.4f}"] for n, rank in enumerate(each.ranking, 1)]
            yield _Table(f"{each.benchmark}: ranking", [], head, rows, 3, [_GROUPS])


def _text(found: Sequence[BenchmarkComparison]) -> str:
    blocks = []
    for one in _tables(found):
        figures = format_columns(one.head, [[_line(cell) for cell in row] for row in one.rows])
        notes, below = map(_line, [one.title, *one.notes]), map(_line, one.below)
        blocks.append("\n".join(filter(None, [*notes, figures, *below, one.signature])))
    return "\n\n".join(blocks)


def _line(text: str) -> str:
    """Return a text as one line, whatever names it holds."""
    return " ".join(text.split())


def _markdown_cell(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~$&" else letter for letter in text)
    return " ".join(escaped.split())


def _markdown_code(text: str) -> str:
    """Set a text as code; the fence is longer than any row of backticks within."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _markdown(found: Sequence[BenchmarkComparison]) -> str:
    blocks = []
    for one in _tables(found):
        rule = [*["---"] * one.words, *["---:"] * (len(one.head) - one.words)]
        lines = [list(map(_markdown_cell, row)) for row in (one.head, *one.rows)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in (lines[0], rule, *lines[1:]))
        notes, below = ("\n".join(f"* {_markdown_cell(note)}" for note in part) for part in (one.notes, one.below))
        signature = _markdown_code(one.signature) if one.signature else ""
        parts = [f"**{_markdown_cell(one.title)}**", notes, table, below, signature]
        blocks.append("\n\n".join(filter(None, parts)))
    return "\n\n".join(blocks)


_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def latex_cell(text: str) -> str:
    """Return a text with the special characters of LaTeX escaped.

    Args:
        text: The text.
    """
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _latex_number(text: str) -> str:
    """Set the minus sign as one, and the dots of an interval."""
    escaped = latex_cell(text)
    if not escaped or escaped == "-":
        return "--" if escaped else ""
    return " .. ".join(f"${part}$" for part in escaped.split(" .. ")).replace("$ .. $", r" \ldots ")


def latex_table(caption: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table for LaTeX, without its end, so that comments can follow.

    Args:
        caption: The parts of the caption, as plain text.
        head: Column heads, as plain text.
        rows: Cells, as LaTeX.
        left: Number of columns that are aligned left.
    """
    lines = [" & ".join(map(latex_cell, head)) + r" \\", *(" & ".join(row) + r" \\" for row in rows)]
    return (
        "\\begin{table}\n\\centering\n"
        f"\\caption{{{'; '.join(map(latex_cell, caption))}}}\n"
        f"\\begin{{tabular}}{{{'l' * left}{'r' * (len(head) - left)}}}\n\\hline\n{lines[0]}\n\\hline\n"
        + "\n".join(lines[1:])
        + "\n\\hline\n\\end{tabular}\n"
    )


def _latex(found: Sequence[BenchmarkComparison]) -> str:
    blocks = []
    for one in _tables(found):
        cells = [[*map(latex_cell, row[: one.words]), *map(_latex_number, row[one.words :])] for row in one.rows]
        table = latex_table([one.title, *one.notes, *one.below], one.head, cells, one.words)
        blocks.append(table + (f"% {one.signature}\n" if one.signature else "") + "\\end{table}")
    return "\n\n".join(blocks)


def _csv(found: Sequence[BenchmarkComparison]) -> str:
    """Return one line for each data set and mean of each pair, with all digits; the last line has all other notes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    runs = ("first run", "second run", "data set", "rows", "first", "second", "difference")
    writer.writerow(["benchmark", "metric", *runs, "low", "high", "p", "p (Holm)", "detectable", "note"])
    for one in (pair for each in found for pair in each.comparisons):
        for row in one.lines:
            ends = (None, None) if row.interval is None else (row.interval.low, row.interval.high)
            names = (one.benchmark, one.metric, one.first, one.second, row.dataset)
            figures = (row.rows, *row.values, row.difference, *ends, row.p_value, row.holm, row.detectable)
            notes = "; ".join([*one.left_out, *one.conclusion()]) if row is one.overall else row.reason or ""
            cells = [csv_cell(" ".join(text.split())) for text in (*names, notes)]
            writer.writerow([*cells[:-1], *figures, cells[-1]])
    return text.getvalue().rstrip("\n")


def _json(found: Sequence[BenchmarkComparison]) -> str:
    return json.dumps([_plain(one) for one in found], ensure_ascii=False, indent=1, allow_nan=False)


def _plain(each: BenchmarkComparison) -> dict[str, Any]:
    plain = dataclasses.asdict(each)
    for one, values in zip(each.comparisons, plain["comparisons"], strict=True):
        values["differences"] = [difference._asdict() for difference in one.differences]
    return plain


FORMATS: dict[str, Callable[[Sequence[BenchmarkComparison]], str]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}
"""What :func:`format_comparisons` can write."""


def format_comparisons(found: Sequence[BenchmarkComparison], form: str = "text") -> str:
    """Write comparisons down.

    Args:
        found: The comparisons.
        form: A key of :data:`FORMATS`.

    Returns:
        The text; names of data sets and files are escaped as the format needs.

    Raises:
        UnknownNameError: There is no such format.
    """
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    written = FORMATS[form](found)
    return f"{written}\n\n{_MEANING}" if form == "text" else written
