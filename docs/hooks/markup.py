"""Text of other people on our pages: made harmless for Markdown and HTML alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

__all__ = ["code", "link", "plain", "pre", "shown", "table"]


def plain(text: object) -> str:
    """A text as Markdown and HTML that shows exactly that text, whatever it holds.

    Letters, digits, blanks, commas and letters of other scripts stay; every other character becomes a numeric
    entity, which neither Markdown nor HTML reads as markup.
    """
    return "".join(letter if _harmless(letter) else f"&#{ord(letter)};" for letter in str(text))


def _harmless(letter: str) -> bool:
    return letter.isalnum() or letter in " ," or (ord(letter) > 127 and letter.isprintable())


def code(text: object) -> str:
    """A text in the typeface of code, in a line."""
    return f"<code>{plain(text)}</code>"


def shown(text: str) -> str:
    """A text as code in quotes, so that blanks at its ends and line ends can be seen."""
    return f'<code class="text">{plain(json.dumps(text, ensure_ascii=False))}</code>'


def pre(text: str) -> str:
    """A text as a block of code, line for line."""
    return f"<pre><code>{plain(text)}</code></pre>"


def link(address: str) -> str:
    """An address as a link if it is one of the web, else as text."""
    if not address.startswith(("https://", "http://")):
        return plain(address)
    return f'<a href="{plain(address)}">{plain(address)}</a>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
