"""Words of texts, also in languages without blanks between words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SCRIPTS_WITHOUT_BLANKS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007"  # radicals and iteration marks of Han
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_RUNS = re.compile(f"(?P<without_blanks>[{_SCRIPTS_WITHOUT_BLANKS}]+)|(?:(?![{_SCRIPTS_WITHOUT_BLANKS}])\\w)+")
"""A run of characters of a script without blanks, or a word."""


def words_of(text: str) -> list[str]:
    """Return the words of a text for a comparison of texts, in lower case and without punctuation.

    Where a script has no blanks between words, these are pairs of neighbouring characters, as usual in the retrieval of
    Chinese and Japanese texts.

    Example:
        >>> words_of("My card is lost."), words_of("卡丢了 OK")
        (['my', 'card', 'is', 'lost'], ['卡丢', '丢了', 'ok'])
    """
    words = []
    for run in _RUNS.finditer(text.casefold()):
        characters = run["without_blanks"]
        if characters is None or len(characters) == 1:
            words.append(run[0])
            continue
        words += [characters[start : start + 2] for start in range(len(characters) - 1)]
    return words


def pieces_of(text: str) -> list[str]:
    """Return the pieces of which a text of the same language can be made.

    These are words, or single characters of scripts without blanks between words. Punctuation around words is no part
    of them.

    Example:
        >>> pieces_of("Don't panic!"), pieces_of("卡丢了 OK")
        (["Don't", 'panic'], ['卡', '丢', '了', 'OK'])
    """
    pieces = []
    for word in text.split():
        start = 0
        for run in _RUNS.finditer(word):
            if run["without_blanks"] is None:
                continue
            pieces += _without_marks(word[start : run.start()])
            pieces += run["without_blanks"]
            start = run.end()
        pieces += _without_marks(word[start:])
    return pieces


def _without_marks(word: str) -> list[str]:
    """Return a word without the punctuation around it, in a list; an empty list if nothing else is left."""
    first = 0
    last = len(word)
    while first < last and not word[first].isalnum():
        first += 1
    while last > first and not word[last - 1].isalnum() and not _is_mark_of_letter(word[last - 1]):
        last -= 1
    if first == last:
        return []
    return [word[first:last]]


def _is_mark_of_letter(character: str) -> bool:
    """Return whether a character belongs to the letter before it: a vowel sign or an accent."""
    return unicodedata.category(character).startswith("M")


def join_pieces(pieces: Sequence[str]) -> str:
    """Return pieces as a text: with blanks between words, without blanks between characters of scripts that have none.

    Example:
        >>> join_pieces(["卡", "丢", "OK", "now"])
        '卡丢 OK now'
    """
    parts: list[str] = []
    previous_is_word = False
    for piece in pieces:
        run = _RUNS.match(piece)
        is_word = run is None or run["without_blanks"] is None
        if parts and (is_word or previous_is_word):
            parts.append(" ")
        parts.append(piece)
        previous_is_word = is_word
    return "".join(parts)
