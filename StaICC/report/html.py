"""HTML from data: everything that is not marked as markup is escaped.

:func:`element` builds all HTML. Its children are texts, which are escaped, or :class:`Markup`, which only this module
creates. So texts of data sets, labels, file names and messages cannot become markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from importlib import resources

from StaICC.safe_text import one_line


def resource(name: str) -> str:
    """Return the text of a file of this package: a style sheet or a script."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


_SEPARATORS = re.compile(r"(?<=[/_|:])|(?<=\w-)")
"""Places where a name may be broken. A minus sign is no separator, because no letter is before it."""


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
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Markup):
            texts.append(part)
        else:
            texts.append(escape(part))
    return Markup("".join(texts))


_WITHOUT_CONTENT = ("meta", "wbr")
"""Elements that have no closing tag."""


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
    start = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            start += f" {attribute}"
        else:
            start += f' {attribute}="{escape(value)}"'
    if name in _WITHOUT_CONTENT:
        return Markup(f"<{start}>")
    return Markup(f"<{start}>{join(children)}</{name}>")


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
