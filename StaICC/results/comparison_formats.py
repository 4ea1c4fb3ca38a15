"""Comparisons of saved results as text, Markdown, LaTeX, CSV and JSON.

All pairs of the given runs are compared, benchmark by benchmark. What only some runs have is named as left out.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError, UnknownNameError, unknown_name
from StaICC.results.comparison import BenchmarkComparison, Comparison, compare_runs
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import split_runs
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
    having: dict[str, dict[str, Result]] = {}
    for name, parts in runs.items():
        for benchmark, result in parts.items():
            having.setdefault(benchmark, {})[name] = result
    left_out: list[str] = []
    found: list[BenchmarkComparison] = []
    errors: list[ArgumentError | UnknownNameError] = []
    for benchmark, own in having.items():
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


def _titled(one: Comparison) -> str:
    return f"{one.benchmark}: first {one.first}, second {one.second}"


def _ranking(one: BenchmarkComparison) -> tuple[list[str], list[list[str]]]:
    """Return the ranking of three or more runs; runs that share a letter are not shown to differ."""
    rows = [[str(place), rank.run, f"{rank.value:.4f}", rank.groups] for place, rank in enumerate(one.ranking, 1)]
    return ["rank", "run", one.metric, "group"], rows


_GROUPS = "Runs that share a letter are not shown to differ in the mean (Holm, level 0.05)."


def _text(found: Sequence[BenchmarkComparison]) -> str:
    blocks = []
    for each in found:
        for one in each.comparisons:
            head, rows = one.table()
            figures = format_columns(head, [[_line(cell) for cell in row] for row in rows])
            notes = map(_line, [_titled(one), *one.introduction()])
            blocks.append("\n".join([*notes, figures, *map(_line, one.conclusion()), one.signature]))
        if len(each.ranking) > 2:
            head, rows = _ranking(each)
            figures = format_columns(head, [[_line(cell) for cell in row] for row in rows])
            blocks.append(f"{each.benchmark}: ranking\n{figures}\n{_GROUPS}")
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


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = [*("---" for _ in head[:left]), *("---:" for _ in head[left:])]
    return "\n".join(
        "| " + " | ".join(cell if line is rule else _markdown_cell(cell) for cell in line) + " |"
        for line in (head, rule, *rows)
    )


def _markdown(found: Sequence[BenchmarkComparison]) -> str:
    blocks = []
    for each in found:
        for one in each.comparisons:
            notes, below = (
                "\n".join(f"* {_markdown_cell(note)}" for note in lines)
                for lines in (one.introduction(), one.conclusion())
            )
            title = f"**{_markdown_cell(_titled(one))}**"
            parts = [title, notes, _markdown_table(*one.table()), below, _markdown_code(one.signature)]
            blocks.append("\n\n".join(filter(None, parts)))
        if len(each.ranking) > 2:
            title = f"**{_markdown_cell(each.benchmark)}: ranking**"
            blocks.append(f"{title}\n\n{_markdown_table(*_ranking(each), 2)}\n\n{_GROUPS}")
    return "\n\n".join(blocks)


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
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


def _latex_table(caption: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    cells = [[*map(latex_cell, row[:left]), *map(_latex_number, row[left:])] for row in rows]
    return latex_table(caption, head, cells, left)


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
    for each in found:
        for one in each.comparisons:
            caption = [_titled(one), *one.introduction(), *one.conclusion()]
            blocks.append(_latex_table(caption, *one.table()) + f"% {one.signature}\n\\end{{table}}")
        if len(each.ranking) > 2:
            head, rows = _ranking(each)
            text = [[place, run, groups, value] for place, run, value, groups in rows]
            caption = [f"{each.benchmark}: ranking", _GROUPS]
            blocks.append(_latex_table(caption, [head[0], head[1], head[3], head[2]], text, 3) + "\\end{table}")
    return "\n\n".join(blocks)


def _csv(found: Sequence[BenchmarkComparison]) -> str:
    """Return one line for each data set and mean of each pair, with all digits; the last line has all other notes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    runs = ("first run", "second run", "data set", "rows", "first", "second", "difference")
    writer.writerow(["benchmark", "metric", *runs, "low", "high", "p", "p (Holm)", "detectable", "note"])
    for one in (pair for each in found for pair in each.comparisons):
        for row in [*one.datasets, *([one.mean] if one.mean else [])]:
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
