"""The English detokeniser of Moses, by which the published prompts show the sentences of TACRED.

The rules attach punctuation to words. They leave some tokens apart (``did n't``, ``-LRB-``). They treat two backticks
and two apostrophes as different quotation marks, so ``''`` opens a quotation. The published prompts have these errors,
so they are reproduced.

LongICLBench uses the Perl program of ``mosestokenizer``. One difference to it is known. Some scripts, such as
Devanagari, have vowel signs (Unicode category Mn) that are letters in Perl. They are no letters here, which matters
before a word such as ``'s``.
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
"""The characters that Moses escapes. They are replaced in this order, so that ``&amp;lt;`` becomes ``&lt;``."""

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
    """Return whether the word is a clitic, such as the ``'s`` of a genitive, that is attached to the word before it.

    A clitic begins with an apostrophe and a letter. The word before it must end with a letter or a digit.
    """
    begins_as_clitic = len(word) >= 2 and word[0] == "'" and _is_letter(word[1])
    if not begins_as_clitic or not previous_word:
        return False
    last_character = previous_word[-1]
    return _is_letter(last_character) or _is_digit(last_character)


def _is_digit(character: str) -> bool:
    """Return whether the character is a decimal digit of any script."""
    return unicodedata.category(character) == "Nd"


def _is_currency_sign(character: str) -> bool:
    """Return whether the character is a currency sign."""
    return unicodedata.category(character) == "Sc"


def _consists_of(word: str, characters: frozenset[str]) -> bool:
    """Return whether a word is not empty and all of its characters are in a set."""
    return word != "" and characters.issuperset(word)


def _is_opening(word: str) -> bool:
    """Return whether a word consists of opening brackets and currency signs, which no blank follows."""
    if word == "":
        return False
    return all(character in _OPENING_BRACKETS or _is_currency_sign(character) for character in word)


def _kind_of_quotation_mark(word: str) -> str:
    """Return the kind of a quotation mark: a mark closes a quotation that a mark of the same kind has opened.

    Curly marks and the straight double mark are one kind. Any other mark is a kind of its own.
    """
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
    is_blank = not line.strip()
    if is_blank or _TAG.fullmatch(line):
        return line
    line = f" {line} ".replace(" @-@ ", "-")
    for entity, character in _CHARACTER_OF_ENTITY.items():
        line = line.replace(entity, character)
    text = _join_words(line.split(" "))
    return re.sub(" +", " ", text).removeprefix(" ").removesuffix(" ")


def _join_words(words: Iterable[str]) -> str:
    """Join words to a text with blanks between them, except around punctuation.

    A word is attached to the word before it, or a blank comes between them. After an opening bracket or an opening
    quotation mark there is no blank, either.

    Args:
        words: The words; empty ones where the line has several blanks in a row.
    """
    text_parts: list[str] = []
    open_quotations: set[str] = set()
    previous_word = ""
    blank_before_word = " "
    for word in words:
        is_attached = False
        blank_after_word = " "
        if _CJK.match(word):
            is_attached = _ends_in_cjk(previous_word)
        elif _is_opening(word):
            blank_after_word = ""
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
                blank_after_word = ""
        if not is_attached:
            text_parts.append(blank_before_word)
        text_parts.append(word)
        blank_before_word = blank_after_word
        previous_word = word
    return "".join(text_parts)


def _ends_in_cjk(word: str) -> bool:
    """Return whether the last character of a word is of a script without blanks between words."""
    return _CJK.match(word[-1:]) is not None
