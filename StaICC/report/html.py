"""HTML from data: everything that is not marked as markup is escaped.

:func:`element` builds all HTML. Its children are texts, which are escaped, or :class:`Markup`, which only this module
creates. So texts of data sets, labels, file names and messages cannot become markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from importlib import resources

from StaICC.layout import Block, TextTable
from StaICC.safe_text import one_line


def resource(name: str) -> str:
    """Return the text of a file of this package: a style sheet or a script."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def clip(text: str, length: int = 26) -> str:
    """Shorten a text for a figure in its middle, where names differ least; tables contain the full text.

    Args:
        text: The text.
        length: Maximum number of characters.

    Example:
        >>> clip("meta-llama/Llama-3.1-8B-Instruct", 18)
        'meta-llam…Instruct'
    """
    text = one_line(text)
    end = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - end]}…{text[-end:]}"


_SEPARATORS = re.compile(r"(?<=[/_|:])|(?<=\w-)")  # not behind the sign of a number


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Missing(str):
    """A cell without a value: ``-``, with the reason below its table."""

    reason: str

    def __new__(cls, reason: str) -> Missing:
        """Return the cell for a reason."""
        cell = super().__new__(cls, "-")
        cell.reason = reason
        return cell


def escape(text: str) -> str:
    """Escape a text for element content and attribute values, on one line (see :func:`~StaICC.safe_text.one_line`).

    Args:
        text: Any text.

    Example:
        >>> escape('<b> & "c"')
        '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(one_line(text))


def breakable(text: str) -> Markup:
    """Escape a name, with possible line breaks after its separators.

    Args:
        text: The name.

    Example:
        >>> breakable("gpt2_<xl>")
        'gpt2_<wbr>&lt;xl&gt;'
    """
    return Markup("<wbr>".join(map(escape, _SEPARATORS.split(text))))


def join(parts: Iterable[str]) -> Markup:
    """Join texts (escaped) and markup.

    Args:
        parts: The parts.
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


_WITHOUT_CONTENT = ("meta", "wbr")


def element(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        *children: Texts, which are escaped, and markup.
        **attributes: Values, which are escaped; ``True`` means an attribute without a value, ``None`` and ``False``
            omit it. A trailing underscore is dropped, others become hyphens.

    Example:
        >>> element("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
    """
    written = name
    for key, value in attributes.items():
        plain = key.rstrip("_").replace("_", "-")
        if value is True:
            written += f" {plain}"
        elif value is not None and value is not False:
            written += f' {plain}="{escape(value)}"'
    return Markup(f"<{written}>" if name in _WITHOUT_CONTENT else f"<{written}>{join(children)}</{name}>")


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    foot: Sequence[Sequence[str]] = (),
    words: Iterable[int] = (),
    classes: str = "sortable",
) -> Markup:
    """Return a sortable table; the reasons of missing cells are listed below it.

    Args:
        caption: The caption.
        head: Column heads.
        rows: Cells; the first of a row is its header. Numbers are sorted as numbers. A cell that is markup is a ``td``
            element, or the content of one.
        foot: Rows that stay at the bottom, such as a mean.
        words: Indices of the columns that contain text, which is aligned left; the first always does.
        classes: Style classes of the table.
    """
    left = {0, *words}
    reasons: dict[str, int] = {}

    def line(cells: Sequence[str]) -> Markup:
        elements = []
        for place, cell in enumerate(cells):
            if isinstance(cell, Missing):
                note = element("sup", f"[{reasons.setdefault(cell.reason, len(reasons) + 1)}]")
                cell = join(["-", note])
            elif isinstance(cell, Markup) and cell.startswith("<td"):
                elements.append(cell)
                continue
            body = element("bdi", breakable(cell)) if place in left and not isinstance(cell, Markup) else cell
            style = "w" if place in left and place else None
            elements.append(element("td", body, class_=style) if place else element("th", body, scope="row"))
        return element("tr", *elements)

    heads = []
    for place, cell in enumerate(head):
        name = cell if isinstance(cell, Markup) else breakable(cell)
        heads.append(element("th", name, scope="col", class_="w" if place in left else None))
    parts = [element("thead", element("tr", *heads)), element("tbody", *map(line, rows))]
    parts += [element("tfoot", *map(line, foot))] if foot else []
    body = element("table", element("caption", caption), *parts, class_=classes)
    # It scrolls, and can be focused with the keyboard.
    shown = element("div", body, class_="scroll", tabindex="0", role="group", aria_label=caption)
    notes = [element("li", f"[{number}] {reason.rstrip('.')}.") for reason, number in reasons.items()]
    return join([shown, fold("No value: reasons", element("ul", *notes), class_="reasons")]) if notes else shown


def fold(summary: str | Markup, *children: str, opened: bool = False, **attributes: str | bool | None) -> Markup:
    """Return a collapsible element.

    Args:
        summary: The part that is always visible.
        *children: The collapsible part.
        opened: Whether it is open at first.
        **attributes: See :func:`element`.
    """
    return element("details", element("summary", summary), *children, open=opened, **attributes)


def items(texts: Iterable[str]) -> Markup:
    """Return a list.

    Args:
        texts: Its items.
    """
    return element("ul", *(element("li", text) for text in texts))


def printed(blocks: Iterable[Block], caption: str) -> Markup:
    """Return what an object prints: its tables, and a list of its lines.

    Args:
        blocks: See :class:`~StaICC.layout.Displayed`.
        caption: The caption of its tables.
    """
    tables: list[Markup] = []
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, TextTable):
            none = Missing("undefined: see the lines below")
            rows = [[none if cell == "-" else cell for cell in row] for row in block.rows]
            mean = bool(rows) and rows[-1][0].startswith("mean")
            shown = (rows[:-1], rows[-1:]) if mean else (rows, [])
            tables.append(table(caption, block.head, *shown, words=block.texts))
        elif block.kind == "code":
            lines.append(element("code", breakable(block.text)))
        elif block.kind != "title" and block.text:
            lines.append(block.text)
    return join([*tables, items(lines)])
