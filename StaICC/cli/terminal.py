"""Output streams that escape control characters, so that data cannot control the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast

from StaICC.safe_text import visible

_UP = "\x1b[A"  # used by progress bars of other packages


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
        before = after = ""
        if self._bars and text == _UP:
            shown = text
        elif self._bars and text.startswith("\r"):
            before, after = "\r", "\r" if len(text) > 1 and text.endswith("\r") else ""
            shown = before + visible(text[1 : len(text) - len(after)]) + after
        else:
            shown = visible(text)
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts, escaped.

        Args:
            lines: The texts.
        """
        for line in lines:
            self.write(line)


def raw(stream: Any) -> TextIO:
    """Return the stream under a :class:`TerminalStream`, for output that another program reads."""
    found: TextIO = stream.stream if isinstance(stream, TerminalStream) else stream
    return found


def escape_streams() -> None:
    """Replace stdout and stderr by escaping streams."""
    out: Any = sys.stdout
    err: Any = sys.stderr
    if out is not None and not isinstance(out, TerminalStream):
        sys.stdout = cast(TextIO, TerminalStream(out))
    if err is not None and not isinstance(err, TerminalStream):
        sys.stderr = cast(TextIO, TerminalStream(err, bars=True))


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Replace stdout and stderr by escaping streams within a with block."""
    before = sys.stdout, sys.stderr
    escape_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
