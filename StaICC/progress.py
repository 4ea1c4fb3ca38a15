"""Progress of a run, reported or shown as a line on stderr.

A run draws its progress by default: on a terminal and in a notebook as one line that changes, in a file (such as under
``nohup``) as one line each minute. ``progress=False``, ``--quiet`` and ``STAICC_PROGRESS=0`` turn it off. A function as
``progress`` gets the reports instead.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TextIO

from StaICC.errors import ArgumentError
from StaICC.safe_text import one_line

VARIABLE = "STAICC_PROGRESS"
"""Environment variable: ``0`` draws nothing."""

INSTALLING = "installing"
LOADING = "loading"
"""The phases of an installation and of loading a model: what follows them may take long without a report."""
_AT_ONCE = (INSTALLING, LOADING)

_REDRAW_SECONDS = 0.2
_FIRST_SECONDS = 0.5  # a shorter run draws nothing
_LINE_SECONDS = 60.0
_TICK_SECONDS = 5.0
_RATE_SECONDS = 60.0
_BAR = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    done: int
    """Distinct queries that are predicted (or were in the store) or have failed."""
    total: int
    """Distinct queries of the current part; 0 if it is not known."""
    where: str
    """The current part, such as ``"Normal, TREC"``."""
    number: int
    """Number of this part, from 0."""
    parts: int
    """Number of parts of the run."""
    stored: int = 0
    """How many of ``done`` the store had."""
    failed: int = 0
    """How many of ``done`` have no prediction."""
    phase: str = ""
    """What else than prediction is done: ``"training"``, ``"encoding"``, ``"statistics"``, ``"installing"``,
    ``"loading"`` (a model)."""


ProgressCallback = Callable[[Progress], None]
"""A function that is called with reports."""


def _span(seconds: float) -> str:
    """Return a duration as text, in a suitable unit."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class ProgressLine:
    """A progress line on a stream: part, bar, counts, rate, and the remaining time of the complete run.

    The rate counts predictions that were computed, not those from the store, over about the last minute. The remaining
    time assumes that the parts to come are as large as those so far, and that none of their predictions is stored.

    Args:
        stream: The output stream.
        lines: Write a new line once per minute instead of redrawing one, also while no report comes.
        clock: Seconds that only grow.
    """

    def __init__(self, stream: TextIO, lines: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._lines, self._clock = stream, lines, clock
        self._started = clock()
        self._due = self._started + (_LINE_SECONDS if lines else _FIRST_SECONDS)
        self._width = 0
        self._parts: dict[int, Progress] = {}  # the last report of each part
        self._marks = [(self._started, 0)]  # times, and computed predictions by then
        self._last: Progress | None = None
        self._drawing = threading.Lock()
        self._closed = threading.Event()
        if lines:
            threading.Thread(target=self._repeat, name="StaICC progress", daemon=True).start()

    def __call__(self, progress: Progress) -> None:
        """Take a report; draw it if the last one was drawn long enough ago."""
        with self._drawing:
            if not progress.phase:
                self._parts[progress.number] = progress
            begins = progress.phase in _AT_ONCE and (self._last is None or self._last.phase != progress.phase)
            self._last = progress
            self._draw_if_due(progress, at_once=begins and not self._lines)

    def _draw_if_due(self, progress: Progress, at_once: bool = False) -> None:
        now = self._clock()
        if now >= self._due or at_once:
            self._due = now + (_LINE_SECONDS if self._lines else _REDRAW_SECONDS)
            self._draw(self._text(progress, now))

    def _repeat(self) -> None:
        """Write the last report again each minute: a model may load, or compute its first batch, for a long time."""
        while not self._closed.wait(_TICK_SECONDS):
            with self._drawing:
                if self._last is not None:
                    self._draw_if_due(self._last)

    def _draw(self, text: str) -> None:
        if self._lines:
            self._write(text + "\n")
        else:
            import shutil  # with many modules, which few runs need

            columns = shutil.get_terminal_size().columns
            if len(text) >= columns:  # the numbers say more than the bar
                text = re.sub(r" \|[#.]*\|", "", text)
            text = text[: columns - 1]  # a line that wraps could not be erased
            self._write("\r" + text.ljust(self._width))
            self._width = len(text)

    def _write(self, text: str) -> None:
        """Write to the stream, if it can be written: a terminal that was closed ends no run."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()

    def _text(self, progress: Progress, now: float) -> str:
        done, total, phase = progress.done, progress.total, progress.phase
        text = f"[{progress.number + 1}/{progress.parts}] " if progress.parts > 1 else ""
        text += one_line(progress.where) + (f", {phase}: " if phase else ": ")
        if total and not (phase and done == total):
            filled = "#" * int(_BAR * done / total)
            text += f"{100 * done / total:.0f} % |{filled:.<{_BAR}}| {done}/{total}, "
        elif done and not total:
            text += f"{done}, "
        text += f"{progress.failed} failed, " if progress.failed else ""
        text += _span(now - self._started)
        seen = self._parts.values()
        computed = sum(part.done - part.stored for part in seen)
        since, before = self._marks[0]
        if now - self._marks[-1][0] >= _RATE_SECONDS / 2:
            self._marks = [self._marks[-1], (now, computed)]
        if computed > before and now > since and not phase:
            rate = (computed - before) / (now - since)
            usual = sum(part.total for part in seen) / len(seen)
            left = total - done + usual * (progress.parts - progress.number - 1)
            text += f", {rate:.3g}/s, {_span(left / rate)} left"
        return text

    def close(self) -> None:
        """Erase the line."""
        self._closed.set()
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0


class _NotebookLine(ProgressLine):
    """A progress line in the output of a notebook's cell, where a saved notebook would keep each redrawn line."""

    _handle: Any = None

    def _draw(self, text: str) -> None:
        self._width = len(text)
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display({}, raw=True, display_id=True)
        self._handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        """Empty the output."""
        self._closed.set()
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def _line(setting: bool | None) -> ProgressLine | None:
    """Return what draws the progress; ``None`` for nothing."""
    stream = sys.stderr
    if setting is None:
        setting = os.environ.get(VARIABLE, "").strip().lower() not in ("0", "no", "off")
    if setting is False or stream is None or getattr(stream, "closed", False):
        return None
    if type(stream).__module__.startswith("ipykernel."):
        return _NotebookLine(stream)
    return ProgressLine(stream, lines=not stream.isatty())


def within(progress: ProgressCallback | None, place: int, places: int) -> ProgressCallback | bool:
    """Return the progress setting of one of several runs with equally many parts, which count as one run.

    Args:
        progress: The function for the reports of all runs; ``None`` for no reports.
        place: Number of this run, from 0.
        places: Number of runs.
    """
    if progress is None:
        return False

    def report(own: Progress) -> None:
        progress(replace(own, number=place * own.parts + own.number, parts=places * own.parts))

    return report


@contextlib.contextmanager
def drawn_progress(setting: ProgressCallback | bool | None) -> Iterator[ProgressCallback | None]:
    """Yield a function for the reports of a run, and erase what it drew.

    Args:
        setting: A function for the reports; ``None``: draw unless the environment variable forbids it; ``False``: draw
            nothing; ``True``: draw.

    Raises:
        ArgumentError: The setting is none of these.
    """
    if setting is not None and not isinstance(setting, bool):
        if not callable(setting):
            raise ArgumentError(f"progress must be True, False or a function of one Progress, not {setting!r}")
        yield setting
        return
    line = _line(setting)
    try:
        yield line
    finally:
        if line is not None:
            line.close()
