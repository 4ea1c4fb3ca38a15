"""Words of texts, also in languages without blanks between words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# The scripts in which words have no blanks between them, as ranges of Unicode code points. Korean has blanks.
_SCRIPTS_WITHOUT_BLANKS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007"  # radicals and iteration marks of Han
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_RUN_WITHOUT_BLANKS = re.compile(f"[{_SCRIPTS_WITHOUT_BLANKS}]+")
"""Characters of scripts without blanks, next to each other."""
_RUNS = re.compile(f"(?P<without_blanks>[{_SCRIPTS_WITHOUT_BLANKS}]+)|(?:(?![{_SCRIPTS_WITHOUT_BLANKS}])\\w)+")
"""Characters of scripts without blanks next to each other (the group ``without_blanks``), or a word of another script
(the group is ``None``)."""


def words_of(text: str) -> list[str]:
    """Return the words of a text by which texts are compared, in lower case and without punctuation.

    In scripts without blanks between words, pairs of neighbouring characters are the words, as usual in the retrieval
    of Chinese and Japanese texts. A single character is a word of its own.

    Example:
        >>> words_of("My card is lost."), words_of("卡丢了 OK")
        (['my', 'card', 'is', 'lost'], ['卡丢', '丢了', 'ok'])
    """
    words = []
    for run in _RUNS.finditer(text.casefold()):
        has_pairs = run["without_blanks"] is not None and len(run[0]) > 1
        if has_pairs:
            words += _pairs_of_characters(run[0])
        else:
            words.append(run[0])
    return words


def _pairs_of_characters(characters: str) -> list[str]:
    """Return all pairs of neighbouring characters."""
    return [characters[start : start + 2] for start in range(len(characters) - 1)]


def pieces_of(text: str) -> list[str]:
    """Return the pieces of a text, which :func:`join_pieces` can join to another text of the same language.

    A piece is a word without punctuation around it, or a single character of a script without blanks between words.

    Example:
        >>> pieces_of("Don't panic!"), pieces_of("卡丢了 OK")
        (["Don't", 'panic'], ['卡', '丢', '了', 'OK'])
    """
    pieces = []
    for word in text.split():
        pieces += _pieces_of_word(word)
    return pieces


def _pieces_of_word(word: str) -> list[str]:
    """Return the pieces of a text without blanks, such as ``"卡丢OK!"``: ``["卡", "丢", "OK"]``.

    Each character of a script without blanks between words is a piece. What is between such characters is one piece,
    without the punctuation around it.
    """
    pieces = []
    end_of_last_run = 0
    for run in _RUN_WITHOUT_BLANKS.finditer(word):
        text_before_run = word[end_of_last_run : run.start()]
        pieces.append(_without_punctuation(text_before_run))
        single_characters = list(run[0])
        pieces += single_characters
        end_of_last_run = run.end()
    text_after_last_run = word[end_of_last_run:]
    pieces.append(_without_punctuation(text_after_last_run))
    return [piece for piece in pieces if piece]


def _without_punctuation(word: str) -> str:
    """Return a word without the punctuation around it; an empty text if it is punctuation only."""
    start = 0
    while start < len(word) and not word[start].isalnum():
        start += 1
    end = len(word)
    while end > start and not _can_end_word(word[end - 1]):
        end -= 1
    return word[start:end]


def _can_end_word(character: str) -> bool:
    """Return whether a character is a letter or a digit, or belongs to the letter before it."""
    return character.isalnum() or _is_mark_of_letter(character)


def _is_mark_of_letter(character: str) -> bool:
    """Return whether a character belongs to the letter before it: a vowel sign or an accent."""
    return unicodedata.category(character).startswith("M")


def join_pieces(pieces: Sequence[str]) -> str:
    """Join pieces to a text, with blanks around words, but not between characters of scripts without blanks.

    Example:
        >>> join_pieces(["卡", "丢", "OK", "now"])
        '卡丢 OK now'
    """
    text_parts: list[str] = []
    previous_is_word = False
    for piece in pieces:
        is_word = not _begins_without_blanks(piece)
        is_first = not text_parts
        if not is_first and (is_word or previous_is_word):
            text_parts.append(" ")
        text_parts.append(piece)
        previous_is_word = is_word
    return "".join(text_parts)


def _begins_without_blanks(piece: str) -> bool:
    """Return whether a piece begins with a character of a script without blanks between words."""
    return _RUN_WITHOUT_BLANKS.match(piece) is not None
