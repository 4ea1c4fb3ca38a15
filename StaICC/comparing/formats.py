"""The formats in which comparisons are written: text, Markdown, LaTeX, CSV, JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from StaICC.arguments import known_name
from StaICC.comparing.comparison_results import BenchmarkComparison, display_comparisons, groups_of_blocks
from StaICC.comparing.ranking import Ranking
from StaICC.comparing.verdicts import Untested
from StaICC.layout import Block, Line, TextTable, layout
from StaICC.safe_text import csv_cell, latex_cell, one_line


def _line(text: str) -> str:
    """Return a text as one line, whatever names it holds."""
    return one_line(" ".join(text.split()))


def _markdown_cell(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~$&" else letter for letter in _line(text))


def _markdown_code(text: str) -> str:
    """Set a text as code; the fence is longer than any row of backticks within."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _markdown_block(block: Block) -> str:
    if isinstance(block, TextTable):
        rule = ["---" if column in block.texts else "---:" for column in range(len(block.head))]
        head, *rows = ([_markdown_cell(cell) for cell in row] for row in (block.head, *block.rows))
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
    if block.kind == "code":
        return _markdown_code(_line(block.text))
    text = _markdown_cell(block.text)
    return f"**{text}**" if block.kind == "title" else f"* {text}"


def _markdown(blocks: Iterable[Block]) -> str:
    groups = groupby(blocks, lambda block: "table" if isinstance(block, TextTable) else block.kind)
    return "\n\n".join("\n".join(map(_markdown_block, group)) for _, group in groups)


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


def _latex(blocks: Sequence[Block]) -> str:
    lines = [block for block in blocks if isinstance(block, Line)]
    (table,) = (block for block in blocks if isinstance(block, TextTable))
    cells = [
        [latex_cell(cell) if column in table.texts else _latex_number(cell) for column, cell in enumerate(row)]
        for row in table.rows
    ]
    text = latex_table([line.text for line in lines if line.kind != "code"], table.head, cells, len(table.texts))
    return text + "".join(f"% {_line(line.text)}\n" for line in lines if line.kind == "code") + "\\end{table}"


def _csv(comparisons: Sequence[BenchmarkComparison]) -> str:
    """Return one line for each data set and mean of each pair, with all digits; the last line has all other notes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    runs = ("first run", "second run", "data set", "rows", "first no score", "second no score", "first", "second")
    writer.writerow(["benchmark", "metric", *runs, "difference", "low", "high", "p", "p (Holm)", "detectable", "note"])
    for pair in (pair for comparison in comparisons for pair in comparison.comparisons):
        for line in pair.lines:
            ends = (line.interval.low, line.interval.high) if line.interval else (None, None)
            names = (pair.benchmark, pair.metric, pair.first, pair.second, line.dataset)
            figures = (
                line.rows,
                *line.missing,
                *line.values,
                line.difference,
                *ends,
                line.p_value,
                line.holm,
                line.detectable,
            )
            note = line.outcome.reason if isinstance(line.outcome, Untested) else ""
            if line is pair.claims[-1]:
                note = "; ".join([*pair.left_out, *pair.conclusion()])
            *cells, note = (csv_cell(_line(cell)) for cell in (*names, note))
            writer.writerow([*cells, *figures, note])
    return text.getvalue().rstrip("\n")


TABLE_FORMATS: Mapping[str, Callable[[Sequence[Block]], str]] = {"text": layout, "markdown": _markdown, "latex": _latex}
"""What writes a table down, by format."""
FORMATS = (*TABLE_FORMATS, "csv", "json")
"""What :func:`format_comparisons` can write."""
RANKING_FORMATS = (*TABLE_FORMATS, "json")
"""What :func:`format_rankings` can write."""


def format_comparisons(comparisons: Sequence[BenchmarkComparison], form: str = "text") -> str:
    """Write comparisons down.

    Args:
        comparisons: The comparisons.
        form: One of :data:`FORMATS`.

    Returns:
        The text; names of data sets and files are escaped as the format needs.

    Raises:
        UnknownNameError: There is no such format.
    """
    if known_name("format", form, FORMATS) == "csv":
        return _csv(comparisons)
    if form == "json":
        plain = [
            dataclasses.asdict(comparison) | {"comparisons": [pair.to_dict() for pair in comparison.comparisons]}
            for comparison in comparisons
        ]
        return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False)
    if form == "text":
        return layout(display_comparisons(comparisons))
    return "\n\n".join(map(TABLE_FORMATS[form], groups_of_blocks(comparisons)))


def format_rankings(rankings: Sequence[Ranking], form: str = "text") -> str:
    """Write rankings down; arguments and errors as for :func:`format_comparisons`, without CSV."""
    if known_name("format", form, RANKING_FORMATS) == "json":
        return json.dumps([ranking.to_dict() for ranking in rankings], ensure_ascii=False, indent=1, allow_nan=False)
    return "\n\n".join(TABLE_FORMATS[form](ranking.display_blocks()) for ranking in rankings)
