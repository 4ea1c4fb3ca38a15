"""Widths of texts in figures, estimated without a font."""

from __future__ import annotations

import unicodedata

from StaICC.safe_text import one_line

_NARROW = frozenset("ijlIJ|!.,:;'`()[]/\\- ftr")
_WIDE = frozenset("mwMW@%")
_NARROW_WIDTH = 0.65
_WIDE_WIDTH = 1.75
_UPPER_WIDTH = 1.25
_OTHER_WIDTH = 1.1
_FULL_WIDTH = 1.75
"""Width of a Chinese, Japanese or Korean character."""
_SYMBOL_WIDTH = 2.4
"""Width of an emoji."""


def text_units(text: str) -> float:
    """Return the width of a text, in characters of average width.

    Args:
        text: The text.

    Example:
        >>> text_units("iii") < text_units("aaa") < text_units("WWW")
        True
    """
    return sum(map(_units, text))


def _units(character: str) -> float:
    """Return the approximate width of a character; 0 for a mark above or below another one.

    The categories are those of Unicode: Mn and Me are marks without a width, Cf are invisible, So are symbols such as
    emoji. An East Asian width of W or F is that of a Chinese character.
    """
    if character in _NARROW:
        return _NARROW_WIDTH
    if character in _WIDE:
        return _WIDE_WIDTH
    if character.isascii():
        return _UPPER_WIDTH if character.isupper() else _OTHER_WIDTH
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf"):
        return 0.0
    if category == "So":
        return _SYMBOL_WIDTH
    if unicodedata.east_asian_width(character) in "WF":
        return _FULL_WIDTH
    return _UPPER_WIDTH


def clip(text: str, length: float = 26) -> str:
    """Shorten a text for a figure in its middle, where names differ least; tables contain the full text.

    Args:
        text: The text.
        length: Largest width, in characters of average width.

    Example:
        >>> clip("meta-llama/Llama-3.1-8B-Instruct", 18)
        'meta-lla…-Instruct'
    """
    text = one_line(text)
    if text_units(text) <= length:
        return text
    half = (length - text_units("…")) / 2
    return f"{_beginning(text, half)}…{_beginning(text[::-1], half)[::-1]}"


def _beginning(text: str, length: float) -> str:
    """Return the longest beginning of a text that is at most so wide."""
    width = 0.0
    for number, character in enumerate(text):
        width += _units(character)
        if width > length:
            return text[:number]
    return text
