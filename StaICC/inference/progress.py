"""Progress of a run, reported by callback; the library never draws it itself.

The command line draws it on stderr; a notebook may hand it to any progress bar. :class:`Pace` turns the reports into
a rate and the time that is left.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Estimate", "Pace", "Progress", "ProgressCallback"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    done: int
    """Distinct queries answered so far (from the store or by the function), or given up."""
    total: int
    """Distinct queries of the part that runs now."""
    where: str
    """The part that runs now, such as ``"Normal, TREC"``."""
    number: int
    """Number of this part, from 0."""
    parts: int
    """How many parts the run has."""
    stored: int = 0
    """How many of ``done`` the store had."""
    failed: int = 0
    """How many of ``done`` have no answer."""


ProgressCallback = Callable[[Progress], None]


class Estimate(NamedTuple):
    """How fast a run is, and how long it may go on."""

    rate: float | None
    """Queries that the function answers in a second, lately; ``None`` while nothing is known."""
    seconds_left: float | None
    """Seconds until the whole run ends, if the parts to come are as large as those so far and nothing of them is
    stored."""


class Pace:
    """Rate and time left of a run, from its reports.

    The rate counts what the function answered, not what the store had, over the last minute or the last reports,
    whichever is longer.

    Args:
        clock: Seconds that only grow.

    Example:
        >>> seconds = iter([0.0, 10.0])
        >>> pace = Pace(lambda: next(seconds))
        >>> pace.update(Progress(100, 400, "Normal, TREC", 0, 2, stored=100)).rate
        >>> pace.update(Progress(200, 400, "Normal, TREC", 0, 2, stored=100))
        Estimate(rate=10.0, seconds_left=60.0)
    """

    _SECONDS = 60.0
    _REPORTS = 8
    _APART = 0.5  # reports that follow each other faster count as one

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        self._before = 0  # answered by the function in the parts that are over
        self._totals: dict[int, int] = {}
        self._last: Progress | None = None

    def update(self, progress: Progress) -> Estimate:
        """Take a report.

        Args:
            progress: The report; those of one run, in order.

        Returns:
            What it means.
        """
        now, last = self._clock(), self._last
        if last is not None and last.number != progress.number:
            self._before += last.done - last.stored
        self._last = progress
        self._totals[progress.number] = progress.total
        answered = self._before + progress.done - progress.stored
        if len(self._seen) > 1 and now - self._seen[-2][0] < self._APART:
            self._seen.pop()
        self._seen.append((now, answered))
        while len(self._seen) > self._REPORTS and now - self._seen[1][0] > self._SECONDS:
            self._seen.popleft()
        started, before = self._seen[0]
        if answered == before or now == started:
            return Estimate(None, None)
        rate = (answered - before) / (now - started)
        usual = sum(self._totals.values()) / len(self._totals)
        left = progress.total - progress.done + usual * (progress.parts - progress.number - 1)
        return Estimate(rate, left / rate)
