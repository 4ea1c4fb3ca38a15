"""Signals that end the command line: Ctrl-C; SIGTERM of Slurm or a container; SIGHUP of a closed terminal."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130
"""The exit status after Ctrl-C, by convention 128 and the number of the signal."""
_NAMES = ("SIGTERM", "SIGHUP")


class EndingSignals:
    """SIGTERM and SIGHUP, which raise ``KeyboardInterrupt`` as Ctrl-C does once :meth:`listen` is called.

    The first signal ends the run. Later ones are ignored, because a terminal that closes, or a scheduler, may send
    several, and predictions are being stored.
    """

    def __init__(self) -> None:
        """Begin without a signal; :meth:`listen` handles the signals."""
        self.received: signal.Signals | None = None
        """The signal that came; ``None`` if there was none, or Ctrl-C."""
        self.ended = False
        """Whether the command was ended, by a signal or by Ctrl-C."""

    def listen(self) -> None:
        """Handle the signals, unless they are handled or ignored already, as SIGHUP is under ``nohup``."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may handle signals
        atexit.register(self._exit)  # early, so that it is called after the functions of other modules
        for number in _ending_signals():
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: remember it, ignore all later ones, and end the run as Ctrl-C does."""
        self.received = signal.Signals(number)
        for other in _ending_signals():
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    def _exit(self) -> None:
        """Exit with the status, when the interpreter exits.

        ``python -m`` remembers a ``KeyboardInterrupt`` that was raised in code compiled from a text, such as the
        methods of a dataclass. It then ends the process with SIGINT, also if the exception was caught. ``os._exit``
        comes before that.
        """
        if self.ended:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):  # a closed terminal, a closed stream
                    stream.flush()
            os._exit(self.exit_status)

    @property
    def exit_status(self) -> int:
        """The exit status of a command that was ended."""
        if self.received is None:
            return INTERRUPTED
        return 128 + self.received

    def __str__(self) -> str:
        if self.received is None:
            return "interrupted"
        return f"ended by {self.received.name}"


def _ending_signals() -> list[signal.Signals]:
    """Return the signals that this system has: Windows has no SIGHUP."""
    return [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
