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
"""The least time between two drawings of a line that changes."""
_FIRST_SECONDS = 0.5
"""The time until the first drawing: a shorter run draws nothing."""
_LINE_SECONDS = 60.0
"""The time between two lines in a file."""
_TICK_SECONDS = 5.0
"""How often a thread looks whether a line is due while no report comes."""
_RATE_SECONDS = 60.0
"""The time over which the rate is computed, about."""
_BAR_WIDTH = 20
_OFF = ("0", "no", "off")
"""Values of the environment variable that turn the drawing off."""


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
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@dataclass(frozen=True, slots=True)
class _Mark:
    """A time, and how many predictions were computed by then."""

    time: float
    computed: int


def _counts_text(progress: Progress) -> str:
    """Return share, bar and counts of a report, each followed by a comma; nothing while there is nothing to count."""
    done = progress.done
    total = progress.total
    text = ""
    is_finished_phase = progress.phase and done == total
    if total and not is_finished_phase:
        bar = "#" * int(_BAR_WIDTH * done / total)
        text += f"{100 * done / total:.0f} % |{bar:.<{_BAR_WIDTH}}| {done}/{total}, "
    elif done and not total:
        text += f"{done}, "
    if progress.failed:
        text += f"{progress.failed} failed, "
    return text


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
        """Begin the time of the run; nothing is drawn yet."""
        self._stream = stream
        self._lines = lines
        self._clock = clock
        self._started = clock()
        # When the next drawing is due.
        self._due = self._started + (_LINE_SECONDS if lines else _FIRST_SECONDS)
        # The width of the line that is drawn, to erase it.
        self._width = 0
        # The last report of each part, and of all.
        self._parts: dict[int, Progress] = {}
        self._last: Progress | None = None
        # The rate is that since the older one of two marks.
        self._older_mark = _Mark(self._started, computed=0)
        self._newer_mark = self._older_mark
        self._drawing = threading.Lock()
        self._closed = threading.Event()
        if lines:
            threading.Thread(target=self._repeat, name="StaICC progress", daemon=True).start()

    def __call__(self, progress: Progress) -> None:
        """Take a report of a run; draw it if the last one was drawn long enough ago, or if a long phase begins.

        A long phase, such as the loading of a model, sends no report until it ends. So its first one is drawn at once,
        but not where each report is a line of its own.
        """
        with self._drawing:
            if not progress.phase:  # its numbers count predictions
                self._parts[progress.number] = progress
            last_phase = None if self._last is None else self._last.phase
            begins_long_phase = progress.phase in _AT_ONCE and progress.phase != last_phase
            self._last = progress
            self._draw_if_due(progress, at_once=begins_long_phase and not self._lines)

    def _draw_if_due(self, progress: Progress, at_once: bool = False) -> None:
        """Draw a report if the last one was drawn long enough ago, or if it must be drawn at once."""
        now = self._clock()
        if now < self._due and not at_once:
            return
        self._due = now + (_LINE_SECONDS if self._lines else _REDRAW_SECONDS)
        self._draw(self._text(progress, now))

    def _repeat(self) -> None:
        """Write the last report again each minute: a model may load, or compute its first batch, for a long time."""
        while not self._closed.wait(_TICK_SECONDS):
            with self._drawing:
                # The line may have been closed while this thread waited for the lock.
                if self._last is not None and not self._closed.is_set():
                    self._draw_if_due(self._last)

    def _draw(self, text: str) -> None:
        """Write a line below the others, or in the place of the last one."""
        if self._lines:
            self._write(text + "\n")
            return
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
        """Return the line for a report."""
        text = ""
        if progress.parts > 1:
            text += f"[{progress.number + 1}/{progress.parts}] "
        text += one_line(progress.where)
        if progress.phase:
            text += f", {progress.phase}"
        text += f": {_counts_text(progress)}{_span(now - self._started)}"

        rate = self._rate(now)
        if rate is not None and not progress.phase:
            seconds_left = self._queries_left(progress) / rate
            text += f", {rate:.3g}/s, {_span(seconds_left)} left"
        return text

    def _rate(self, now: float) -> float | None:
        """Return how many predictions were computed in a second, on average over about the last minute.

        Two marks have a time and the number of predictions that were computed until then. The average is that since the
        older mark. When the newer one is half of :data:`_RATE_SECONDS` ago, it becomes the older one, and a new mark is
        set.

        Args:
            now: The time now, in seconds.

        Returns:
            The rate; ``None`` if no prediction was computed since the older mark.
        """
        computed = sum(part.done - part.stored for part in self._parts.values())
        start = self._older_mark
        if now - self._newer_mark.time >= _RATE_SECONDS / 2:
            self._older_mark = self._newer_mark
            self._newer_mark = _Mark(now, computed)
        if computed <= start.computed or now <= start.time:
            return None
        return (computed - start.computed) / (now - start.time)

    def _queries_left(self, progress: Progress) -> float:
        """Return how many queries are left, if the parts to come are as large as those so far."""
        mean_size = sum(part.total for part in self._parts.values()) / len(self._parts)
        parts_to_come = progress.parts - progress.number - 1
        return progress.total - progress.done + mean_size * parts_to_come

    def close(self) -> None:
        """Erase the line."""
        with self._drawing:
            self._closed.set()
        if self._width:
            blanks = " " * self._width
            self._write(f"\r{blanks}\r")
            self._width = 0


class _NotebookLine(ProgressLine):
    """A progress line in the output of a notebook's cell, where a saved notebook would keep each redrawn line."""

    _handle: Any = None

    def _draw(self, text: str) -> None:
        """Show a line in the output of the cell, in the place of the last one."""
        self._width = len(text)
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display({}, raw=True, display_id=True)
        self._handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        """Empty the output."""
        with self._drawing:
            self._closed.set()
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def _line(setting: bool | None) -> ProgressLine | None:
    """Return what draws the progress; ``None`` for nothing.

    Args:
        setting: Whether to draw; ``None`` if the environment variable decides.
    """
    stream = sys.stderr
    if setting is None:
        setting = os.environ.get(VARIABLE, "").strip().lower() not in _OFF
    if not setting:
        return None
    if stream is None or getattr(stream, "closed", False):
        return None
    if type(stream).__module__.startswith("ipykernel."):
        return _NotebookLine(stream)
    return ProgressLine(stream, lines=not stream.isatty())


def within(progress: ProgressCallback | None, place: int, places: int) -> ProgressCallback | bool:
    """Return the progress setting of one of several runs, whose reports shall count the parts of all these runs.

    All runs have the same number of parts. In the second of three runs of ten parts, the first part is reported as
    number 10 (from 0) of 30.

    Args:
        progress: The function for the reports of all runs; ``None`` for no reports.
        place: Number of this run, from 0.
        places: Number of runs.
    """
    if progress is None:
        return False

    def report(report_of_run: Progress) -> None:
        """Pass a report of this run on, with the numbers among all parts."""
        parts_before = place * report_of_run.parts
        progress(
            replace(
                report_of_run,
                number=parts_before + report_of_run.number,
                parts=places * report_of_run.parts,
            )
        )

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
