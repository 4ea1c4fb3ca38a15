"""The English detokeniser of Moses, by which the published prompts show the sentences of TACRED.

The rules attach punctuation to words. They leave some tokens apart (``did n't``, ``-LRB-``), and treat two
backticks and two apostrophes as different quotation marks, so ``''`` opens a quotation. The published prompts have
these errors, so they are reproduced. LongICLBench uses the Perl program of ``mosestokenizer``. The only known
difference to it: some scripts, such as Devanagari, have vowel signs (Unicode category Mn) that are letters in Perl and
not here, before a word such as ``'s``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

_ENTITIES = (
    *("&bar;|", "&#124;|", "&lt;<", "&gt;>", "&bra;[", "&ket;]", '&quot;"', "&apos;'", "&#91;[", "&#93;]", "&amp;&"),
)
"""Each with its character at the end; replaced in this order."""

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua840-\ua87f\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff65-\uffdc\U00020000-\U0002ffff]"
)
_OPENING = frozenset("([{\u00bf\u00a1")
_CLOSING = frozenset(",.?!:;\\%}])")
_QUOTES = frozenset("'\"\u201e\u201c`")
_CURLY = frozenset("\u201e\u201c")
_TAG = re.compile(r"<.+>")


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
    for entity in _ENTITIES:
        line = line.replace(entity[:-1], entity[-1])

    text: list[str] = []
    gap = " "
    opened: set[str] = set()
    words = line.split(" ")
    for before, word in pairwise(["", *words]):
        joined, gap_after = False, " "
        if _CJK.match(word):
            joined = _CJK.match(before[-1:]) is not None
        elif word and all(character in _OPENING or unicodedata.category(character) == "Sc" for character in word):
            gap_after = ""
        elif (word and _CLOSING.issuperset(word)) or _is_clitic(word, before):
            joined = True
        elif word and _QUOTES.issuperset(word):
            kind = '"' if _CURLY.issuperset(word) else word
            closing = kind in opened
            joined = closing or (word == "'" and before.endswith("s"))  # a genitive neither opens nor closes
            gap_after = " " * joined
            opened ^= {kind} if closing or not joined else set()
        text.append(word if joined else gap + word)
        gap = gap_after
    return re.sub(" +", " ", "".join(text)).removeprefix(" ").removesuffix(" ")
