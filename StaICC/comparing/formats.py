"""The formats in which comparisons are written: text, Markdown, LaTeX, CSV, JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from StaICC.arguments import known_name
from StaICC.comparing.benchmark_comparison import BenchmarkComparison, display_comparisons, groups_of_blocks
from StaICC.comparing.comparison_results import Comparison, DatasetComparison
from StaICC.comparing.ranking import Ranking
from StaICC.comparing.verdicts import Untested
from StaICC.layout import Block, TextTable, layout
from StaICC.safe_text import csv_cell, latex_cell, one_line, with_latex_engine


def _line(text: str) -> str:
    """Return a text as one safe line, also if a name in it has line ends or control characters."""
    return one_line(" ".join(text.split()))


# -- Markdown

_MARKDOWN_MARKUP = "\\`*_{}[]<>#|~$&"
"""The signs with a meaning in Markdown, HTML or a formula. They are escaped."""


def _markdown_cell(text: str) -> str:
    """Return a text as Markdown that shows it unchanged, in one line."""
    escaped = [f"\\{letter}" if letter in _MARKDOWN_MARKUP else letter for letter in _line(text)]
    return "".join(escaped)


def _markdown_code(text: str) -> str:
    """Return a text as code of Markdown. The fence has more backticks than any run of backticks in the text."""
    longest_run = max([len(run) for run in re.findall("`+", text)], default=0)
    if longest_run == 0:
        return f"`{text}`"
    fence = "`" * (longest_run + 1)
    return f"{fence} {text} {fence}"


def _markdown_table(table: TextTable) -> str:
    """Return a table as Markdown; columns of numbers are aligned right."""
    rules = ["---" if column in table.texts else "---:" for column in range(len(table.head))]
    rows = [[_markdown_cell(cell) for cell in table.head], rules]
    for row in table.rows:
        rows.append([_markdown_cell(cell) for cell in row])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _markdown_block(block: Block) -> str:
    """Return a block as Markdown: a table, code, a title in bold, or an item of a list."""
    if isinstance(block, TextTable):
        return _markdown_table(block)
    if block.kind == "code":
        return _markdown_code(_line(block.text))
    text = _markdown_cell(block.text)
    if block.kind == "title":
        return f"**{text}**"
    return f"* {text}"


def _markdown_kind(block: Block) -> str:
    """Return the kind of a block: ``"table"``, or the kind of a line, such as ``"code"``."""
    if isinstance(block, TextTable):
        return "table"
    return block.kind


def _markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as Markdown.

    There is an empty line between blocks of different kinds, and none between adjacent blocks of one kind, such as the
    items of a list.
    """
    paragraphs = []
    for _, neighbours in groupby(blocks, key=_markdown_kind):
        paragraphs.append("\n".join(_markdown_block(block) for block in neighbours))
    return "\n\n".join(paragraphs)


# -- LaTeX


def _latex_number(text: str) -> str:
    """Return a number, or an interval, as a formula of LaTeX.

    A formula has a minus sign in place of a hyphen. The two dots of an interval become three.
    """
    if text == "-":
        return "--"
    if not text:
        return ""
    formula = latex_cell(text).replace(" .. ", r" \ldots ")
    return f"${formula}$"


def latex_table(caption: Sequence[str], tabulars: Sequence[str]) -> str:
    """Return a table for LaTeX without its last line, so that comments can be added before that line.

    Args:
        caption: The parts of the caption, as plain text.
        tabulars: What is below the caption, as :func:`latex_tabular` writes it.
    """
    joined_caption = "; ".join(latex_cell(part) for part in caption)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{joined_caption}}}", "\n\n\\bigskip\n".join(tabulars)]
    return "\n".join(lines) + "\n"


def latex_tabular(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows for LaTeX, with the rules of the package ``booktabs``.

    Args:
        head: Column heads, as plain text.
        rows: Cells, as LaTeX.
        left: Number of columns that are aligned left.
    """
    alignment = "l" * left + "r" * (len(head) - left)
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_row([latex_cell(title) for title in head]),
        r"\midrule",
        # Without rows, an empty line is in their place.
        "\n".join(_latex_row(row) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(blocks: Sequence[Block]) -> str:
    """Return blocks as a table for LaTeX. It has a ``tabular`` for each block that is a table.

    Lines of text become the caption (:attr:`~StaICC.layout.Line.caption`). Lines with digests of models or settings
    become comments, and so do lines of code, such as the signature.
    """
    tabulars: list[str] = []
    caption: list[str] = []
    comments: list[str] = []  # a line that begins with % is a comment of LaTeX
    for block in blocks:
        if isinstance(block, TextTable):
            rows = [_latex_cells(row, block.texts) for row in block.rows]
            tabulars.append(latex_tabular(block.head, rows, left=len(block.texts)))
            continue
        comment = f"% {_line(block.text)}\n"
        if block.kind == "code":
            comments.append(comment)
            continue
        text_of_caption = block.text
        if block.caption is not None:
            text_of_caption = block.caption
        if text_of_caption:
            caption.append(text_of_caption)
        if text_of_caption != block.text:
            comments.append(comment)
    return with_latex_engine(latex_table(caption, tabulars) + "".join(comments) + r"\end{table}")


def _latex_cells(row: Sequence[str], text_columns: Collection[int]) -> list[str]:
    """Return the cells of a table row as LaTeX; columns that have no text have numbers."""
    cells = []
    for column, cell in enumerate(row):
        if column in text_columns:
            cells.append(latex_cell(cell))
        else:
            cells.append(_latex_number(cell))
    return cells


# -- CSV


@dataclasses.dataclass(frozen=True, slots=True)
class _CsvLine:
    """The contents of one line of a CSV file."""

    pair: Comparison
    """The comparison of two runs."""
    line: DatasetComparison
    """The data set, the mean, or the condition that the line has."""


_CSV_COLUMNS: Mapping[str, Callable[[_CsvLine], str | float | None]] = {
    "benchmark": lambda csv_line: csv_line.pair.benchmark,
    "metric": lambda csv_line: csv_line.pair.metric,
    "first run": lambda csv_line: csv_line.pair.first,
    "second run": lambda csv_line: csv_line.pair.second,
    "data set": lambda csv_line: csv_line.line.dataset,
    "rows": lambda csv_line: csv_line.line.rows,
    "first no score": lambda csv_line: csv_line.line.missing[0],
    "second no score": lambda csv_line: csv_line.line.missing[1],
    "first": lambda csv_line: csv_line.line.values[0],
    "second": lambda csv_line: csv_line.line.values[1],
    "difference": lambda csv_line: csv_line.line.difference,
    "low": lambda csv_line: csv_line.line.low,
    "high": lambda csv_line: csv_line.line.high,
    "p": lambda csv_line: csv_line.line.p_value,
    "p (Holm)": lambda csv_line: csv_line.line.holm,
    "detectable": lambda csv_line: csv_line.line.detectable,
    "note": lambda csv_line: _csv_note(csv_line.pair, csv_line.line),
}
"""The columns of a CSV file, in order: head and value."""


def _csv_note(pair: Comparison, line: DatasetComparison) -> str:
    """Return the note of a line of a CSV file.

    The last line of a pair of runs has the notes about the whole pair: what is left out, and the conclusion. Another
    line has the reason if it is untested, else an empty note.
    """
    is_last_line = line is pair.claims[-1]
    if is_last_line:
        return "; ".join([*pair.left_out, *pair.notes, *pair.log_notes, *pair.conclusion()])
    if isinstance(line.outcome, Untested):
        return line.outcome.reason
    return ""


def _csv(comparisons: Sequence[BenchmarkComparison]) -> str:
    """Return comparisons as CSV, with all digits of numbers.

    Each pair of runs has one line for each data set or condition, then one for the mean if there is one.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(_CSV_COLUMNS))
    for comparison in comparisons:
        for pair in comparison.comparisons:
            for line in pair.lines:
                values = [value_of(_CsvLine(pair, line)) for value_of in _CSV_COLUMNS.values()]
                writer.writerow([_csv_value(value) for value in values])
    return text.getvalue().rstrip("\n")


def _csv_value(value: str | float | None) -> str | float | None:
    """Return a value as the cell of a CSV file; ``None`` is an empty cell.

    A text becomes one line, and is changed so that no spreadsheet reads it as a formula.
    """
    if not isinstance(value, str):
        return value
    cell: str = csv_cell(_line(value))
    return cell


# -- all formats


TABLE_FORMATS: Mapping[str, Callable[[Sequence[Block]], str]] = {"text": layout, "markdown": _markdown, "latex": _latex}
"""The formats of tables, each with the function that writes one."""
FORMATS = (*TABLE_FORMATS, "csv", "json")
"""The formats of :func:`format_comparisons`."""
RANKING_FORMATS = (*TABLE_FORMATS, "json")
"""The formats of :func:`format_rankings` and :func:`format_tables`."""


def format_comparisons(comparisons: Sequence[BenchmarkComparison], form: str = "text") -> str:
    """Return comparisons as text in one of several formats.

    Args:
        comparisons: The comparisons.
        form: One of :data:`FORMATS`.

    Returns:
        The text. Names of data sets and files are escaped as the format needs.

    Raises:
        UnknownNameError: There is no such format.
    """
    known_name("format", form, FORMATS)
    if form == "csv":
        return _csv(comparisons)
    if form == "json":
        return _json([_comparison_dict(comparison) for comparison in comparisons])
    if form == "text":
        return layout(display_comparisons(comparisons))
    write = TABLE_FORMATS[form]
    return "\n\n".join(write(blocks) for blocks in groups_of_blocks(comparisons))


def _comparison_dict(comparison: BenchmarkComparison) -> dict[str, Any]:
    """Return the comparisons of a benchmark as plain values for JSON."""
    plain = dataclasses.asdict(comparison)
    plain["comparisons"] = [pair.to_dict() for pair in comparison.comparisons]
    return plain


def _json(values: list[dict[str, Any]]) -> str:
    return json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)


def format_rankings(rankings: Sequence[Ranking], form: str = "text") -> str:
    """Return rankings as text in one of several formats.

    Args:
        rankings: The rankings.
        form: One of :data:`RANKING_FORMATS`.

    Raises:
        UnknownNameError: There is no such format.
    """
    return format_tables(rankings, form)


class TableOfRuns(Protocol):
    """What compares or ranks runs in one table."""

    def display_blocks(self) -> list[Block]:
        """Return what is printed, with one table."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""


def format_tables(tables: Sequence[TableOfRuns], form: str = "text") -> str:
    """Return objects that have one table each as text in one of several formats.

    Args:
        tables: The objects, such as rankings, or comparisons on subgroups.
        form: One of :data:`RANKING_FORMATS`.

    Raises:
        UnknownNameError: There is no such format.
    """
    known_name("format", form, RANKING_FORMATS)
    if form == "json":
        return _json([table.to_dict() for table in tables])
    write = TABLE_FORMATS[form]
    return "\n\n".join(write(table.display_blocks()) for table in tables)
