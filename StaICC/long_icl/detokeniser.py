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

_CHARACTER_OF_ENTITY = {
    "&bar;": "|",
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&bra;": "[",
    "&ket;": "]",
    "&quot;": '"',
    "&apos;": "'",
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}
"""The character of each escaped one. They are replaced in this order, so that ``&amp;lt;`` becomes ``&lt;``."""

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua840-\ua87f\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff65-\uffdc\U00020000-\U0002ffff]"
)
"""A character of a script whose words have no blanks between them, as Moses lists these scripts."""
_OPENING_BRACKETS = frozenset("([{\u00bf\u00a1")
_CLOSING_MARKS = frozenset(",.?!:;\\%}])")
_QUOTATION_MARKS = frozenset("'\"\u201e\u201c`")
_CURLY_QUOTATION_MARKS = frozenset("\u201e\u201c")
_TAG = re.compile(r"<.+>")


def _is_letter(character: str) -> bool:
    """Return whether the character is a letter in Perl (``\u00bd`` and ``\u00b2`` are not, unlike in Python)."""
    category = unicodedata.category(character)
    return category.startswith("L") or category in ("Nl", "Mc")


def _is_clitic(word: str, previous_word: str) -> bool:
    """Return whether the word is a clitic, such as the ``'s`` of a genitive: an apostrophe, a letter, anything.

    The word before it must end with a letter or a digit.
    """
    if len(word) < 2 or not previous_word:
        return False
    if word[0] != "'" or not _is_letter(word[1]):
        return False
    last_character = previous_word[-1]
    return _is_letter(last_character) or unicodedata.category(last_character) == "Nd"


def _consists_of(word: str, characters: frozenset[str]) -> bool:
    """Return whether a word that is not empty has only characters of a set."""
    return word != "" and characters.issuperset(word)


def _is_opening(word: str) -> bool:
    """Return whether a word consists of opening brackets and currency signs, which no blank follows."""
    if word == "":
        return False
    return all(character in _OPENING_BRACKETS or unicodedata.category(character) == "Sc" for character in word)


def _kind_of_quotation_mark(word: str) -> str:
    """Return which mark closes a quotation: all curly marks are one kind, any other mark closes itself."""
    if _CURLY_QUOTATION_MARKS.issuperset(word):
        return '"'
    return word


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
    for entity, character in _CHARACTER_OF_ENTITY.items():
        line = line.replace(entity, character)

    parts: list[str] = []
    blank = " "  # what separates a word from the one before it, unless it is attached
    open_quotations: set[str] = set()
    previous_word = ""
    for word in line.split(" "):
        is_attached = False
        next_blank = " "
        if _CJK.match(word):
            is_attached = _CJK.match(previous_word[-1:]) is not None
        elif _is_opening(word):
            next_blank = ""
        elif _consists_of(word, _CLOSING_MARKS) or _is_clitic(word, previous_word):
            is_attached = True
        elif _consists_of(word, _QUOTATION_MARKS):
            kind = _kind_of_quotation_mark(word)
            is_genitive = word == "'" and previous_word.endswith("s")
            if kind in open_quotations:
                open_quotations.remove(kind)
                is_attached = True
            elif is_genitive:  # it neither opens nor closes a quotation
                is_attached = True
            else:
                open_quotations.add(kind)
                next_blank = ""
        parts.append(word if is_attached else blank + word)
        blank = next_blank
        previous_word = word
    return re.sub(" +", " ", "".join(parts)).removeprefix(" ").removesuffix(" ")
