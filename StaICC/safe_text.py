r"""Texts that are not trusted, made safe for where they are shown: a terminal, a table, JSON, a spreadsheet, LaTeX.

Names, labels, replies of models and contents of files may hold escape sequences, characters that reverse the direction
of writing, or invisible ones. They are stored verbatim and shown escaped, such as ``\x1b`` and ``\u202e``.
"""

from __future__ import annotations

import logging
import re
from typing import Any

# Controls, soft hyphen and other default-ignorable characters, direction marks, line separators, lone surrogates, tags.
_HIDDEN = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_HIDDEN}]")
_UNSAFE_OR_BREAK = re.compile(f"[\x00-\x1f{_HIDDEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_HIDDEN}]")  # the controls before it are escaped in any JSON text
_UNSAFE_OR_NOT_ASCII = re.compile("[^\x00-\x7e]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

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
    return not text.isascii() and re.search("[\ud800-\udfff]", text) is not None


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
    r"""Return a value for other libraries: in a text, half of a surrogate pair is the visible escape ``\ud83d``.

    Args:
        value: The content of a cell. What is no text stays as it is.
    """
    return utf8(value).decode() if isinstance(value, str) else value


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    usual = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _SHORT.get(match[0], usual)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()  # of two bytes each
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


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
    """Escape the message and the traceback of a log record, which quote names and texts of data."""
    record.msg, record.args = visible(record.getMessage()), None
    if record.exc_info:
        record.exc_text = visible(logging.Formatter().formatException(record.exc_info))
    return True


def logger(name: str) -> logging.Logger:
    """Return a logger whose messages are escaped.

    Args:
        name: The name of the module.
    """
    log = logging.getLogger(name)
    log.addFilter(_escape_record)  # once, however often it is added
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
    return (_UNSAFE_OR_NOT_ASCII if only_ascii else _UNSAFE_IN_JSON).sub(_json_escape, text)


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
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
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
    return "".join(_LATEX.get(letter, letter) for letter in one_line(" ".join(text.split())))
