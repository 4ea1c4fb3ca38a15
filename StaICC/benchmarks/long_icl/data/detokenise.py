"""Detokenises text with the English rules of the Moses detokeniser, in its default mode.

The published prompts show the sentences of TACRED as text. The rules attach punctuation to words. They leave some
tokens apart (``did n't``, ``-LRB-``), and treat two backticks and two apostrophes as different quotation marks, so
``''`` opens a quotation. The published prompts have these errors, so they are reproduced.

LongICLBench uses the Perl program of ``mosestokenizer``. The only known difference to it: some scripts, such as
Devanagari, have vowel signs (Unicode category Mn) that are letters in Perl and not here, before a word such as ``'s``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

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


def _is_letter(character: str) -> bool:
    """Return whether the character is a letter in Perl (``\u00bd`` and ``\u00b2`` are not, unlike in Python)."""
    category = unicodedata.category(character)
    return category.startswith("L") or category in ("Nl", "Mc")


def _is_clitic(word: str, before: str) -> bool:
    """Return whether the word is a clitic, such as the ``'s`` of a genitive."""
    if word[:1] != "'" or not before or not _is_letter(word[1:2] or " "):
        return False
    return _is_letter(before[-1]) or unicodedata.category(before[-1]) == "Nd"


def detokenise(tokens: Iterable[str]) -> str:
    """Join tokens to a line of text.

    Args:
        tokens: The tokens, without blanks.

    Returns:
        The text, without blanks at the ends.

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
    opened: set[str] = set()
    words = line.split(" ")
    for before, word in pairwise(["", *words]):
        if word and _is_cjk(word[0]):
            joined, gap_after = bool(before) and _is_cjk(before[-1]), " "
        elif word and _is_opening(word):
            joined, gap_after = False, ""
        elif (word and _CLOSING.issuperset(word)) or _is_clitic(word, before):
            joined, gap_after = True, " "
        elif word and _QUOTES.issuperset(word):
            kind = '"' if _CURLY.issuperset(word) else word
            closing = kind in opened
            genitive = not closing and word == "'" and before.endswith("s")
            joined, gap_after = closing or genitive, " " if closing or genitive else ""
            if not genitive:
                opened ^= {kind}
        else:
            joined, gap_after = False, " "
        text.append(word if joined else gap + word)
        gap = gap_after
    return re.sub(" +", " ", "".join(text)).removeprefix(" ").removesuffix(" ")
