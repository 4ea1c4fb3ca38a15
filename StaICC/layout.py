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
_NARROW = 16  # columns of text are not made narrower than this
_STYLES = {"title": "1", "warning": "33", "code": "2"}


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


Block = TextTable | Line
_Style = Callable[[str, str], str]


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
    return text


def _coloured(text: str, kind: str) -> str:
    return f"\x1b[{_STYLES[kind]}m{text}\x1b[0m" if kind in _STYLES and text else text


def _columns(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(char) in "FW" else not combining(char) for char in text)


class _Wrapper(textwrap.TextWrapper):
    """Breaks at blanks, and behind the separators of names."""

    wordsep_re = re.compile(r"(\s+|[^\s/_=|-]*(?:[/_=|]|(?<=[A-Za-z])-))")


def _wrapped(cell: str, width: int) -> list[str]:
    """Return the lines of a cell; later ones are indented, so that no text looks like a line of its own."""
    columns = _columns(cell)
    if columns <= width:
        return [cell]
    return _Wrapper(max(2, width * len(cell) // columns), subsequent_indent=" ").wrap(cell)


def _full_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _fitted(widths: list[int], texts: Collection[int], width: int) -> list[int]:
    """Return the widths of the columns of a table: those with text are narrower where this makes the table fit."""
    narrowed = list(widths)
    while _full_width(narrowed) > width:
        widest = max(texts, key=narrowed.__getitem__, default=0)
        if narrowed[widest] <= _NARROW:  # the table is split, and each part has room for its texts
            half = (width - len(_GAP)) // 2
            return [min(size, half) if column in texts else size for column, size in enumerate(widths)]
        narrowed[widest] -= 1
    return narrowed


def _split(widths: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is too wide; each part begins with the first column."""
    parts = [[0]]
    for column in range(1, len(widths)):
        if len(parts[-1]) > 1 and _full_width([widths[place] for place in [*parts[-1], column]]) > width:
            parts.append([0])
        parts[-1].append(column)
    return parts


def _table_text(table: TextTable, width: int, style: _Style) -> str:
    rows = [[one_line(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = _fitted([max(map(_columns, column)) for column in zip(*rows, strict=True)], table.texts, width)
    wrapped = [[_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)] for row in rows]
    parts = []
    for columns in _split(widths, width):
        lines = []
        for row in wrapped:
            for texts in zip_longest(*(row[column] for column in columns), fillvalue=""):
                cells = []
                for column, cell in zip(columns, texts, strict=True):
                    blanks = " " * (widths[column] - _columns(cell))
                    cells.append(cell + blanks if column in table.texts else blanks + cell)
                line = _GAP.join(cells).rstrip()
                lines.append(style(line, "title") if row is wrapped[0] else line)
            if row is wrapped[0]:
                lines.append(_GAP.join("-" * widths[column] for column in columns).rstrip())
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def layout(blocks: Iterable[Block], width: int | None = None, wrap: bool = False, style: _Style = _plain) -> str:
    """Return blocks as text. A table that is too wide is wrapped, then split: each part begins with the first column.

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
    shown = []
    for block in blocks:
        if isinstance(block, TextTable):
            shown.append(_table_text(block, width, style))
            continue
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
    colour = on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = layout(blocks, wrap=on_terminal, style=_coloured if colour else _plain)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def shared_lines(groups: Sequence[Iterable[Block]], names: Sequence[str] = ()) -> tuple[list[list[Block]], list[Line]]:
    """Return several groups of blocks without the lines that all of them have, and these lines.

    Args:
        groups: The blocks of each group.
        names: Names of the groups. With them, a line of several groups is shared too, behind their names.
    """
    listed = [list(group) for group in groups]
    lines = [{block for block in group if isinstance(block, Line) and block.text} for group in listed]
    shared: dict[Line, Line] = {}
    for line in (block for group in listed for block in group if isinstance(block, Line)):
        places = [place for place, own in enumerate(lines) if line in own]
        if len(places) == len(listed) > 1:
            shared[line] = line
        elif len(places) > 1 and names:
            shared[line] = replace(line, text=f"{', '.join(names[place] for place in places)}: {line.text}")
    kept = [[block for block in group if isinstance(block, TextTable) or block not in shared] for group in listed]
    return kept, list(shared.values())


_HTML = {"title": "<p><strong>{}</strong></p>", "code": "<p><code>{}</code></p>"}


def html(blocks: Iterable[Block]) -> str:
    r"""Return blocks as HTML, everything escaped.

    Args:
        blocks: Tables and lines.

    Example:
        >>> html([Line("<b>\u202e")])
        '<p>&lt;b&gt;\\u202e</p>'
    """
    from html import escape  # only for notebooks

    def row(cells: Iterable[str], element: str = "td") -> str:
        return f"<tr>{''.join(f'<{element}>{escape(one_line(cell))}</{element}>' for cell in cells)}</tr>"

    shown = []
    for block in blocks:
        if isinstance(block, TextTable):
            body = "".join(map(row, block.rows))
            shown.append(f"<table><thead>{row(block.head, 'th')}</thead><tbody>{body}</tbody></table>")
        elif block.text:
            shown.append(_HTML.get(block.kind, "<p>{}</p>").format(escape(one_line(block.text))))
    return "".join(shown)
