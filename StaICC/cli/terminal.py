"""Output streams of the command line, which escape control characters, so that data cannot control the terminal."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from StaICC.safe_text import visible

_UP = "\x1b[A"
"""Moves the cursor a line up; used by progress bars of other packages."""


class TerminalStream:
    """A text stream that escapes control characters and characters that its encoding lacks.

    Args:
        stream: The underlying stream.
        bars: Allow progress bars: a carriage return at the start or end of a text is not escaped.
    """

    def __init__(self, stream: TextIO, bars: bool = False) -> None:
        self.stream = stream
        self._bars = bars

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text, escaped.

        Args:
            text: The text.

        Returns:
            The number of characters of the text.
        """
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        # Characters that the encoding lacks are written as escape sequences.
        self.stream.write(self._escaped(text).encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def _escaped(self, text: str) -> str:
        """Return a text with control characters escaped, without those of a progress bar if bars are allowed."""
        if not self._bars:
            return visible(text)
        if text == _UP:
            return text
        bar = re.fullmatch(r"\r(.*?)(\r?)", text, re.DOTALL)
        if bar is None:
            return visible(text)
        content, return_at_end = bar.groups()
        return f"\r{visible(content)}{return_at_end}"

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts, escaped.

        Args:
            lines: The texts.
        """
        for line in lines:
            self.write(line)


def raw(stream: Any) -> TextIO:
    """Return the stream under a :class:`TerminalStream`, for output that another program reads."""
    underlying: TextIO = stream.stream if isinstance(stream, TerminalStream) else stream
    return underlying


def drop_unwritten(stream: TextIO) -> None:
    """Drop what a stream cannot take: Python would try again at exit, and change the exit status to 120.

    Args:
        stream: The stream. It takes what is written later, and drops it.
    """
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def escape_streams() -> None:
    """Replace stdout and stderr by escaping streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed, as in some background processes
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if not isinstance(stream, TerminalStream):
            setattr(sys, name, TerminalStream(stream, bars=name == "stderr"))


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Replace stdout and stderr by escaping streams within a with block."""
    before = sys.stdout, sys.stderr
    escape_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
