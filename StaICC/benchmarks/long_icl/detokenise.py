"""From tokens back to text: the English rules of the Moses detokeniser, in its default mode.

The benchmark shows TACRED's sentences as text, not as tokens. The rules put punctuation where English has it; what
they do not know stays apart (``did n't``, ``-LRB-``), and two backticks are another kind of quote than two
apostrophes, so that ``''`` opens a quotation. That is part of the published prompts, so it is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

__all__ = ["detokenise"]

_ENTITIES = (
    ("&bar;", "|"),
    ("&#124;", "|"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&bra;", "["),
    ("&ket;", "]"),
    ("&quot;", '"'),
    ("&apos;", "'"),
    ("&#91;", "["),
    ("&#93;", "]"),
    ("&amp;", "&"),
)
"""Replaced in this order."""

_CJK = (
    (0x1100, 0x11FF),
    (0x2E80, 0xA4CF),
    (0xA840, 0xA87F),
    (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF65, 0xFFDC),
    (0x20000, 0x2FFFF),
)
_OPENING = frozenset("([{\u00bf\u00a1")
_CLOSING = frozenset(",.?!:;\\%}])")
_QUOTES = frozenset("'\"\u201e\u201c`")
_CURLY = frozenset("\u201e\u201c")
_TAG = re.compile(r"<.+>")


def _is_cjk(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _CJK)


def _is_opening(word: str) -> bool:
    return all(character in _OPENING or unicodedata.category(character) == "Sc" for character in word)


def _is_clitic(word: str, before: str) -> bool:
    """Such as the ``'s`` of a genitive."""
    return word[:1] == "'" and word[1:2].isalpha() and before[-1:].isalnum()


def detokenise(tokens: Iterable[str]) -> str:
    """Join tokens to a line of text.

    Args:
        tokens: The tokens; none of them holds a blank.

    Returns:
        The text, without a blank at either end.

    Example:
        >>> detokenise(["He", "said", '"', "no", '"', "(", "twice", ")", "."])
        'He said "no" (twice).'
    """
    line = " ".join(tokens)
    if not line.strip() or _TAG.fullmatch(line):
        return line
    line = f" {line} ".replace(" @-@ ", "-")
    for entity, character in _ENTITIES:
        line = line.replace(entity, character)

    text: list[str] = []
    gap = " "
    quotes: dict[str, int] = {}
    words = line.split(" ")
    for before, word in pairwise(["", *words]):
        if word and _is_cjk(word[0]):
            text.append(word if before and _is_cjk(before[-1]) else gap + word)
            gap = " "
        elif word and _is_opening(word):
            text.append(gap + word)
            gap = ""
        elif (word and _CLOSING.issuperset(word)) or _is_clitic(word, before):
            text.append(word)
            gap = " "
        elif word and _QUOTES.issuperset(word):
            kind = '"' if _CURLY.issuperset(word) else word
            seen = quotes.get(kind, 0)
            if seen % 2:
                text.append(word)
                gap = " "
                quotes[kind] = seen + 1
            elif word == "'" and before.endswith("s"):
                text.append(word)
                gap = " "
            else:
                text.append(gap + word)
                gap = ""
                quotes[kind] = seen + 1
        else:
            text.append(gap + word)
            gap = " "
    joined = re.sub(" +", " ", "".join(text))
    return joined.removeprefix(" ").removesuffix(" ")
