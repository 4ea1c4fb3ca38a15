"""HTML from data: whatever is not marked as markup is escaped.

:func:`element` builds everything. Its children are texts, which are escaped, or :class:`Markup`, which only this
module and :mod:`StaICC.results.report.svg` make. So no text of a data set, a label, a file name or a message can become
markup.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from StaICC.results.report.drawing import printable

__all__ = ["Markup", "element", "escape", "fold", "join", "scrolling", "table", "void"]


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> str:
    """Escape a text for element content and attribute values; what no document may hold becomes a visible mark.

    Args:
        text: Any text.

    Example:
        >>> escape('<b> & "c"')
        '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(printable(text), quote=True)


def join(parts: Iterable[str]) -> Markup:
    """Join texts (escaped) and markup.

    Args:
        parts: The parts.
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def void(name: str, /, **attributes: str | bool | None) -> Markup:
    """Return an element without content, such as ``meta``.

    Args:
        name: Its name.
        **attributes: See :func:`element`.
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def element(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        *children: Texts, which are escaped, and markup.
        **attributes: Values, which are escaped; ``True`` stands alone, ``None`` and ``False`` are left out; a trailing
            underscore is dropped, others become hyphens.

    Example:
        >>> element("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{join(children)}</{name}>")


def _attributes(attributes: dict[str, str | bool | None]) -> str:
    written = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        plain = name.rstrip("_").replace("_", "-")
        written.append(f" {plain}" if value is True else f' {plain}="{escape(value)}"')
    return "".join(written)


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    foot: Sequence[Sequence[str]] = (),
    words: Iterable[int] = (),
) -> Markup:
    """Return a table that a reader can sort.

    Args:
        caption: What it shows.
        head: Column heads.
        rows: Cells; the first of a row is its head. Numbers are sorted as numbers.
        foot: Rows that stay below, such as a mean.
        words: Numbers of the columns, from 0, that hold words and are set to the left; the first always does.
    """
    left = {0, *words}

    def line(cells: Sequence[str]) -> Markup:
        found = []
        for place, cell in enumerate(cells):
            style = None if place in left else "number"
            body = element("bdi", cell) if place in left else cell
            kind = "th" if place == 0 else "td"
            found.append(element(kind, body, scope="row" if place == 0 else None, class_=style))
        return element("tr", *found)

    heads = [
        element("th", text, scope="col", class_=None if place in left else "number") for place, text in enumerate(head)
    ]
    parts = [
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *map(line, rows)),
    ]
    if foot:
        parts.append(element("tfoot", *map(line, foot)))
    return scrolling(element("table", *parts, class_="sortable"), caption)


def scrolling(wide: Markup, name: str) -> Markup:
    """Let a wide part scroll by itself, for which the keyboard must reach it.

    Args:
        wide: The part.
        name: What it is, for screen readers; unique on the page.
    """
    return element("div", wide, class_="scroll", tabindex="0", role="region", aria_label=name)


def fold(summary: str | Markup, *children: str, opened: bool = False, **attributes: str | bool | None) -> Markup:
    """Return a part that a reader can fold.

    Args:
        summary: What stands there in any case.
        *children: What is folded.
        opened: Whether it is open at first.
        **attributes: See :func:`element`.
    """
    return element("details", element("summary", summary), *children, open=opened, **attributes)
