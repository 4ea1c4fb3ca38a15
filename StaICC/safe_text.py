r"""Texts that are not trusted, made safe for where they are shown: a terminal, a table, JSON, a spreadsheet, LaTeX.

Names, labels, replies of models and contents of files may hold escape sequences, characters that reverse the direction
of writing, or invisible ones. They are stored verbatim and shown escaped, such as ``\x1b`` and ``\u202e``.
"""

from __future__ import annotations

import logging
import re
from typing import Any

# Controls, soft hyphen and other default-ignorable characters, direction marks, line separators, lone surrogates, tags.
# The controls below \x20 are not among them: newlines and tabs are hidden in some places only.
_HIDDEN = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_HIDDEN}]")
_UNSAFE_OR_BREAK = re.compile(f"[\x00-\x1f{_HIDDEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_HIDDEN}]")  # JSON texts have the other controls escaped already
_UNSAFE_OR_NOT_ASCII = re.compile("[^\x00-\x7e]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

# How a formula of a spreadsheet begins, in usual or wide letters. A text with apostrophes before such a sign gets one
# more, so that taking one away gives any text back.
_FORMULA = re.compile(r"'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def has_lone_surrogate(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, which no file in UTF-8 can hold."""
    if text.isascii():
        return False
    return _LONE_SURROGATE.search(text) is not None


def utf8(text: str) -> bytes:
    r"""Return a text in UTF-8, as files have it.

    Half of a surrogate pair, as in a reply that was cut, has no UTF-8. It is written as the escape ``\ud83d``: in JSON
    this is the same text, which is read back; elsewhere it is visible.

    Args:
        text: Any text.

    Example:
        >>> utf8('["half \ud83d"]')
        b'["half \\ud83d"]'
    """
    return text.encode("utf-8", "backslashreplace")


def valid_unicode(value: Any) -> Any:
    r"""Return a value that other libraries can store: half of a surrogate pair becomes the visible escape ``\ud83d``.

    Args:
        value: The content of a cell. What is no text stays as it is.
    """
    if not isinstance(value, str):
        return value
    return utf8(value).decode()


def _escape(match: re.Match[str]) -> str:
    """Return the escape of a character, as Python writes it."""
    letter = match[0]
    if letter in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[letter]
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    """Return the escape of a character, as JSON writes it: one or two units of UTF-16, each of four digits."""
    digits = match[0].encode("utf-16-be", "surrogatepass").hex()
    escape = ""
    for start in range(0, len(digits), 4):
        escape += f"\\u{digits[start : start + 4]}"
    return escape


def visible(text: str) -> str:
    r"""Escape what a terminal would obey or hide; newlines and tabs stay.

    Args:
        text: Any text.

    Example:
        >>> visible("\x1b[31mred\u202e")
        '\\x1b[31mred\\u202e'
    """
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    r"""Escape what a terminal would obey or hide, newlines and tabs too: for cells, names and messages of one line.

    Args:
        text: Any text.

    Example:
        >>> one_line("two\nlines")
        'two\\nlines'
    """
    return _UNSAFE_OR_BREAK.sub(_escape, text)


def _escape_record(record: logging.LogRecord) -> bool:
    """Escape the message and the traceback of a log record, which quote names and texts of data. The record is kept."""
    record.msg = visible(record.getMessage())
    record.args = None
    if record.exc_info:
        record.exc_text = visible(logging.Formatter().formatException(record.exc_info))
    return True


def logger(name: str) -> logging.Logger:
    """Return a logger whose messages are escaped.

    Args:
        name: The name of the module.
    """
    log = logging.getLogger(name)
    log.addFilter(_escape_record)  # logging adds a filter once, however often this is called
    return log


def json_escaped(text: str, only_ascii: bool = False) -> str:
    r"""Escape what a terminal would obey or hide in JSON: the text stays JSON, with the same value.

    Args:
        text: JSON, or JSON Lines.
        only_ascii: Escape everything outside of ASCII.

    Example:
        >>> json_escaped('["\u202e"]')
        '["\\u202e"]'
    """
    if only_ascii:
        return _UNSAFE_OR_NOT_ASCII.sub(_json_escape, text)
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def csv_cell(value: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run as a formula.

    Args:
        value: The content of a cell. Numbers, as numbers or as text, stay as they are.

    Returns:
        The value, or the text with one ``'`` in front. Take it away to get the text back.

    Example:
        >>> [csv_cell(value) for value in ("=1+1", "-0.5", -0.5, "- item", "food")]
        ["'=1+1", '-0.5', -0.5, "'- item", 'food']
    """
    if not isinstance(value, str):
        return value
    is_number = _NUMBER.fullmatch(value)
    if _FORMULA.match(value) and not is_number:
        return f"'{value}"
    return value


def latex_cell(text: str) -> str:
    r"""Escape the special characters of LaTeX, and what a terminal would obey or hide; blanks of any kind become one.

    Args:
        text: Any text.

    Example:
        >>> print(latex_cell("50 %\nof a_b"))
        50 \% of a\_b
    """
    text_with_single_blanks = " ".join(text.split())
    return "".join(_LATEX.get(letter, letter) for letter in one_line(text_with_single_blanks))


_LAST_LETTER_OF_PDFLATEX = "\u017f"
"""The last letter of the Unicode block Latin Extended-A. pdfLaTeX sets hardly any letter after it on its own."""
_FURTHER_SIGNS_OF_PDFLATEX = "–—‘’“”„†‡•…‰‹›€™"
"""Signs after that letter that it sets nevertheless."""


def with_latex_engine(latex: str) -> str:
    """Put a comment before LaTeX that pdfLaTeX cannot compile: which programs can.

    Args:
        latex: The LaTeX, in which names may have letters of any script.

    Example:
        >>> print(with_latex_engine("data set 中"))
        % pdfLaTeX cannot set '中': compile with LuaLaTeX or XeLaTeX, with a font that has it (package fontspec).
        data set 中
        >>> print(with_latex_engine("Müller"))
        Müller
    """
    for letter in latex:
        if letter > _LAST_LETTER_OF_PDFLATEX and letter not in _FURTHER_SIGNS_OF_PDFLATEX:
            advice = "compile with LuaLaTeX or XeLaTeX, with a font that has it (package fontspec)"
            return f"% pdfLaTeX cannot set {letter!r}: {advice}.\n{latex}"
    return latex
