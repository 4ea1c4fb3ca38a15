"""What is printed for people: text that fits the terminal, or HTML for a notebook.

Objects that print are :class:`Displayed`: they list their blocks, and this module lays them out. Every text is escaped.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, TextIO
from unicodedata import combining, east_asian_width

from StaICC.safe_text import one_line

_GAP = "  "
"""Blanks between two columns of a table, and before the later lines of a wrapped text."""
_NARROWEST = 16
"""Columns of text are not made narrower than this many characters."""
_STYLES = {"title": "1", "warning": "33", "code": "2"}
"""Terminal styles (ANSI numbers) of the kinds of text: bold, yellow, faint. Other kinds have none."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with text cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Collection[int] = (0,)
    """Columns with text, which are aligned left and may be wrapped; the others have numbers."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text."""

    text: str
    kind: Literal["text", "title", "warning", "code"] = "text"
    """Code, such as a signature, is never wrapped."""
    caption: str | None = None
    """The text in the caption of a table in LaTeX, without digests; empty if nothing remains. ``None``: the text
    itself."""


Block = TextTable | Line
_Style = Callable[[str, str], str]
"""Returns a text with the style of its kind."""


class Displayed:
    """An object that prints as blocks: as text, and as HTML in a notebook."""

    __slots__ = ()

    def display_blocks(self) -> Iterable[Block]:
        """Return what is printed."""
        raise NotImplementedError

    def __str__(self) -> str:
        return layout(self.display_blocks())

    def _repr_html_(self) -> str:
        return html(self.display_blocks())


def _plain(text: str, kind: str) -> str:
    """Return the text itself."""
    return text


def _coloured(text: str, kind: str) -> str:
    """Return a text with the terminal style of its kind."""
    if not text or kind not in _STYLES:
        return text
    return f"\x1b[{_STYLES[kind]}m{text}\x1b[0m"


def _display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    width = 0
    for letter in text:
        if east_asian_width(letter) in "FW":
            width += 2
        elif not combining(letter):
            width += 1
    return width


class _Wrapper(textwrap.TextWrapper):
    """Breaks at blanks, and behind the separators of names."""

    wordsep_re = re.compile(r"(\s+|[^\s/_=|-]*(?:[/_=|]|(?<=[A-Za-z])-))")


def _wrapped(cell: str, width: int) -> list[str]:
    """Return the lines of a cell; later ones are indented, so that no text looks like a line of its own.

    Args:
        cell: The text of the cell.
        width: How many columns of the terminal a line may take.
    """
    display_width = _display_width(cell)
    if display_width <= width:
        return [cell]
    # The wrapper counts characters, of which fewer fit into a line if some are wide.
    characters_in_width = width * len(cell) // display_width
    least_characters = 2  # the indent and one more
    return _Wrapper(max(least_characters, characters_in_width), subsequent_indent=" ").wrap(cell)


def _full_width(widths: Sequence[int]) -> int:
    """Return the width of a table with its gaps."""
    gaps = len(widths) - 1
    return sum(widths) + len(_GAP) * gaps


def _fitted(widths: Sequence[int], texts: Collection[int], width: int) -> list[int]:
    """Return the widths with which the columns of a table are shown: columns of text are narrowed until it fits.

    The widest column of text loses one character after the other. If all of them are as narrow as they may be
    (:data:`_NARROWEST`) and the table is still too wide, it will be split into parts. Then the columns keep the widths
    that they need, as far as two of them fit next to each other.

    Args:
        widths: The width that each column needs.
        texts: The columns with text.
        width: The width of the terminal.
    """
    fitted = list(widths)
    while _full_width(fitted) > width:
        widest = max(texts, key=fitted.__getitem__, default=0)
        if fitted[widest] <= _NARROWEST:
            return _widths_in_parts(widths, texts, width)
        fitted[widest] -= 1
    return fitted


def _widths_in_parts(widths: Sequence[int], texts: Collection[int], width: int) -> list[int]:
    """Return the widths of the columns of a table that is split: no column of text takes more than half of a line.

    Each part has the first column and at least one other column, so that there is room for two. Arguments as for
    :func:`_fitted`.
    """
    half = (width - len(_GAP)) // 2
    widths_in_parts = list(widths)
    for column in texts:
        widths_in_parts[column] = min(widths[column], half)
    return widths_in_parts


def _split(widths: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is too wide; each part begins with the first column."""
    parts = []
    part = [0]
    for column in range(1, len(widths)):
        width_with_column = _full_width([widths[index] for index in [*part, column]])
        has_other_columns = len(part) > 1
        if has_other_columns and width_with_column > width:
            parts.append(part)
            part = [0]
        part.append(column)
    parts.append(part)
    return parts


@dataclass(frozen=True, slots=True)
class _FittedTable:
    """A table whose cells are wrapped, so that its columns fit the terminal or parts of the table do."""

    rows: Sequence[Sequence[Sequence[str]]]
    """The lines of each cell, by row and column; the first row is the head."""
    widths: Sequence[int]
    """The width of each column."""
    texts: Collection[int]
    """The columns with text, which are aligned left."""

    def padded(self, text: str, column: int) -> str:
        """Return a line of a cell, filled with blanks to the width of its column."""
        blanks = " " * (self.widths[column] - _display_width(text))
        if column in self.texts:
            return text + blanks
        return blanks + text

    def row_lines(self, row: Sequence[Sequence[str]], columns: Sequence[int]) -> list[str]:
        """Return the lines of some columns of a row: as many as the cell with the most has."""
        lines = []
        cells = [row[column] for column in columns]
        for texts in zip_longest(*cells, fillvalue=""):
            padded = [self.padded(text, column) for column, text in zip(columns, texts, strict=True)]
            lines.append(_GAP.join(padded).rstrip())
        return lines

    def part_text(self, columns: Sequence[int], style: _Style) -> str:
        """Return some columns of the table as text: head, dashes, rows."""
        head = self.rows[0]
        lines = [style(line, "title") for line in self.row_lines(head, columns)]
        lines.append(_GAP.join("-" * self.widths[column] for column in columns).rstrip())
        for row in self.rows[1:]:
            lines.extend(self.row_lines(row, columns))
        return "\n".join(lines)


def _fitted_table(table: TextTable, width: int) -> _FittedTable:
    """Return a table with wrapped cells."""
    rows = []
    for row in (table.head, *table.rows):
        rows.append([one_line(cell) for cell in row])

    needed_widths = []
    for column in zip(*rows, strict=True):
        needed_widths.append(max(map(_display_width, column)))
    widths = _fitted(needed_widths, table.texts, width)

    wrapped_rows = []
    for row in rows:
        wrapped_rows.append([_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)])
    return _FittedTable(wrapped_rows, widths, table.texts)


def _table_text(table: TextTable, width: int, style: _Style) -> str:
    """Return a table as text; one that is too wide in several parts."""
    fitted = _fitted_table(table, width)
    parts = []
    for columns in _split(fitted.widths, width):
        parts.append(fitted.part_text(columns, style))
    return "\n\n".join(parts)


def layout(blocks: Iterable[Block], width: int | None = None, wrap: bool = False, style: _Style = _plain) -> str:
    """Return blocks as text. A table that is too wide is wrapped, then split: each part begins with the first column.

    There is an empty line between a table and a line of text below it.

    Args:
        blocks: Tables and lines.
        width: Characters per line (default: those of the terminal; 80 without one).
        wrap: Also wrap lines, but those of code.
        style: Adds the colours of a text of a kind.

    Example:
        >>> print(layout([TextTable(["set", "n"], [["a", "10"], ["bcd", "7"]])]))
        set   n
        ---  --
        a    10
        bcd   7
    """
    if width is None:
        import shutil  # with many modules, which few programs need

        width = shutil.get_terminal_size().columns
    shown: list[str] = []
    is_below_table = False
    for block in blocks:
        if isinstance(block, TextTable):
            shown.append(_table_text(block, width, style))
            is_below_table = True
            continue
        if is_below_table and block.text:
            shown.append("")
        is_below_table = False
        text = one_line(block.text)
        if wrap and block.kind != "code":
            text = textwrap.fill(text, width, subsequent_indent=_GAP, break_long_words=False, break_on_hyphens=False)
        shown.append(style(text, block.kind))
    return "\n".join(shown)


def print_blocks(blocks: Iterable[Block], stream: TextIO) -> None:
    """Print blocks; on a terminal with wrapped lines, and in colour unless ``NO_COLOR`` is set.

    Args:
        blocks: Tables and lines.
        stream: The output stream.
    """
    on_terminal = stream.isatty()
    allows_colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    style = _coloured if on_terminal and allows_colour else _plain
    text = layout(blocks, wrap=on_terminal, style=style)
    # Letters that the stream cannot encode are shown as escapes.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    printable = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(printable + "\n")


def _shared_form(line: Line, groups_with_line: Sequence[int], group_count: int, names: Sequence[str]) -> Line | None:
    """Return what is shown once in place of a line that several groups have; ``None`` if it stays in each of them.

    A line of all groups is shown unchanged. One of some groups begins with their names: "Normal, GLER: ...".

    Args:
        line: The line.
        groups_with_line: The indexes of the groups that have it.
        group_count: How many groups there are.
        names: Names of the groups; empty if only lines of all groups are shown once.
    """
    if len(groups_with_line) < 2:
        return None
    if len(groups_with_line) == group_count:
        return line
    if not names:
        return None
    names_of_groups = ", ".join(names[index] for index in groups_with_line)
    caption = f"{names_of_groups}: {line.caption}" if line.caption else line.caption
    return replace(line, text=f"{names_of_groups}: {line.text}", caption=caption)


def shared_lines(groups: Sequence[Iterable[Block]], names: Sequence[str] = ()) -> tuple[list[list[Block]], list[Line]]:
    """Separate the lines that several groups of blocks have in common from these groups, so that they are shown once.

    Args:
        groups: The blocks (tables and lines) of each group, such as those of one benchmark.
        names: Names of the groups. With them, a line that only some groups have is taken out, too; it begins with the
            names of its groups then. Without them, only lines of all groups are taken out.

    Returns:
        The remaining blocks of each group, and the lines that were taken out, each once.
    """
    blocks_of_groups = [list(group) for group in groups]
    lines_of_groups = []
    for blocks in blocks_of_groups:
        lines_of_groups.append({block for block in blocks if isinstance(block, Line) and block.text})

    shared_forms: dict[Line, Line] = {}  # each line that is taken out, with the form in which it is shown once
    for blocks in blocks_of_groups:
        for line in blocks:
            if isinstance(line, TextTable):
                continue
            groups_with_line = [index for index, lines_of_group in enumerate(lines_of_groups) if line in lines_of_group]
            shared_form = _shared_form(line, groups_with_line, len(blocks_of_groups), names)
            if shared_form is not None:
                shared_forms[line] = shared_form

    remaining: list[list[Block]] = []
    for blocks in blocks_of_groups:
        remaining.append([block for block in blocks if isinstance(block, TextTable) or block not in shared_forms])
    return remaining, list(shared_forms.values())


_HTML = {
    "text": "{}",
    "warning": "{}",
    "title": "<strong>{}</strong>",
    "code": "<code>{}</code>",
}
"""The HTML of a line of each kind."""


def _html_row(cells: Iterable[str], element: str) -> str:
    """Return a row of a table, whose cells are ``td`` or ``th`` elements."""
    from html import escape  # only for notebooks

    parts = []
    for cell in cells:
        parts.append(f"<{element}>{escape(one_line(cell))}</{element}>")
    return f"<tr>{''.join(parts)}</tr>"


def html(blocks: Iterable[Block]) -> str:
    r"""Return blocks as HTML, everything escaped. Lines that follow each other are one paragraph.

    Args:
        blocks: Tables and lines.

    Example:
        >>> html([Line("<b>\u202e")])
        '<p>&lt;b&gt;\\u202e</p>'
    """
    from html import escape  # only for notebooks

    parts = []
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, TextTable):
            parts.append(_html_paragraph(lines))
            lines = []
            head = _html_row(block.head, "th")
            body = "".join(_html_row(row, "td") for row in block.rows)
            parts.append(f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")
        elif block.text:
            lines.append(_HTML[block.kind].format(escape(one_line(block.text))))
    parts.append(_html_paragraph(lines))
    return "".join(parts)


def _html_paragraph(lines: Sequence[str]) -> str:
    """Return lines of HTML as one paragraph; nothing without lines."""
    if not lines:
        return ""
    return f"<p>{'<br>'.join(lines)}</p>"
