"""Progress of a run as a bar of ``tqdm``, on a terminal or in a notebook.

The library needs no ``tqdm`` and never draws by itself: a run reports to whatever callback it is given, such as this::

    Normal()(my_inference, progress=TqdmProgress())

The command line takes it where ``tqdm`` is installed, and a plain line elsewhere.
"""

from __future__ import annotations

from typing import Any, TextIO

from StaICC.errors import MissingDependencyError
from StaICC.inference.progress import Pace, Progress
from StaICC.optional import require

__all__ = ["TqdmProgress", "tqdm_progress"]


class TqdmProgress:
    """A bar for the part that runs, with its rate and time left, and behind it the time left of all parts.

    Args:
        stream: Where to draw; nothing is drawn where it is no terminal. Without one, a notebook gets a widget and a
            terminal a bar on stderr.
        quiet: Never draw.

    Raises:
        MissingDependencyError: ``tqdm`` is not installed.

    Example:
        >>> bar = TqdmProgress(quiet=True)  # doctest: +SKIP
        >>> bar(Progress(10, 100, "Normal, TREC", 0, 10))  # doctest: +SKIP
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._make = require("tqdm.auto" if stream is None else "tqdm", "progress", "the progress bar").tqdm
        self._stream = stream
        self._draw = not quiet and (stream is None or stream.isatty())
        self._bar: Any = None
        self._number: int | None = None
        self._pace = Pace()

    def __call__(self, progress: Progress) -> None:
        """Draw how far the run is."""
        if not self._draw:
            return
        if self._bar is None or progress.number != self._number:
            self.close()
            place = f"[{progress.number + 1}/{progress.parts}] " if progress.parts > 1 else ""
            options = {} if self._stream is None else {"file": self._stream}
            self._bar = self._make(
                total=progress.total, desc=place + progress.where, unit="query", leave=False, **options
            )
            self._number = progress.number
        estimate = self._pace.update(progress)
        behind = {}
        if progress.failed:
            behind["failed"] = str(progress.failed)
        if progress.parts > 1 and estimate.seconds_left is not None:
            behind["in all"] = f"{self._bar.format_interval(estimate.seconds_left)} left"
        self._bar.set_postfix(behind, refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def tqdm_progress(stream: TextIO | None = None, quiet: bool = False) -> TqdmProgress | None:
    """Return a bar, or nothing where ``tqdm`` is not installed.

    Args:
        stream: See :class:`TqdmProgress`.
        quiet: Never draw.
    """
    try:
        return TqdmProgress(stream, quiet)
    except MissingDependencyError:
        return None
