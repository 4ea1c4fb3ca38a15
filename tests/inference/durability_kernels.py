"""Kernels for the tests of runs that survive: deterministic, slow at will, with every call in a side file."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from StaICC.inference.identity import Identity


def mark_of(prompt: str | Sequence[str]) -> str:
    """Return a short name of a prompt: twelve hexadecimal digits."""
    return hashlib.sha256(repr(prompt).encode()).hexdigest()[:12]


def row_of(prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
    """Return a probability of each label, which depends on the prompt in every bit."""
    weights = []
    for label in label_space:
        digest = hashlib.sha256(f"{prompt}|{label}".encode()).digest()
        weights.append(1 + int.from_bytes(digest[:7], "big"))
    return [weight / sum(weights) for weight in weights]


def make_file_once(path: str) -> bool:
    """Make an empty file, and return whether it was not there before; only one of several processes gets True."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return False
    os.close(descriptor)
    return True


class Deterministic:
    """Predicts one prompt at a time, and may kill its process at a prompt.

    Args:
        calls: File that gets a line with process and prompt for each call; empty for none.
        seconds: How long each call takes.
        name: The name of the model, which is its identity.
        guilty: The mark of the prompt at which it kills its process; empty for none.
        once: A file that it makes when it kills its process, so that it does so once only: at the prompt ``guilty``,
            or at any prompt if there is none.
    """

    def __init__(
        self, calls: str = "", seconds: float = 0.0, name: str = "one", guilty: str = "", once: str = ""
    ) -> None:
        self.calls, self.seconds, self.name, self.guilty, self.once = calls, seconds, name, guilty, once

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> Deterministic:
        """Return the kernel of a specification ``Deterministic:SECONDS:CALLS``."""
        _, seconds, calls = spec.split(":", 2)
        return cls(calls, float(seconds), **options)

    def identity(self) -> Identity:
        return Identity({"model": f"deterministic/{self.name}"})

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        self._begin_call(prompt)
        return row_of(prompt, label_space)

    def _begin_call(self, prompt: str | Sequence[str]) -> None:
        """Note the call, kill the process if it is time to, and wait."""
        mark = mark_of(prompt)
        if self.calls:
            self._note_call(mark)
        if self.once:
            is_time_to_die = not self.guilty or mark == self.guilty
            if is_time_to_die and make_file_once(self.once):
                os.kill(os.getpid(), signal.SIGKILL)
        elif mark == self.guilty:
            os._exit(7)
        if self.seconds:
            time.sleep(self.seconds)

    def _note_call(self, mark: str) -> None:
        """Append a line to the file of the calls, in one write, since other processes append to it as well."""
        descriptor = os.open(self.calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{os.getpid()} {mark}\n".encode())
        os.close(descriptor)


class Batching(Deterministic):
    """Predicts many prompts at once, with a rounding error that depends on the batch, as real kernels have."""

    def identity(self) -> Identity:
        return Identity({"model": f"batching/{self.name}"})

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        """Return one row for each prompt; all have the same rounding error, from 0 to 1e-9."""
        for prompt in prompts:
            self._begin_call(prompt)
        mark_of_batch = mark_of("".join(mark_of(prompt) for prompt in prompts))
        rounding_error = 1e-9 * int(mark_of_batch, 16) / 16**12
        rows = []
        for prompt in prompts:
            rows.append([probability + rounding_error for probability in row_of(prompt, label_space)])
        return rows


class Loading(Deterministic):
    """Writes its process to the file ``CALLS.loads`` when it loads: once for each object, as a kernel with weights."""

    _is_loaded = False

    def identity(self) -> Identity:
        return Identity({"model": f"loading/{self.name}"})

    def __getstate__(self) -> dict[str, Any]:
        """Leave out that it is loaded: a copy in another process has to load, too."""
        return {key: value for key, value in self.__dict__.items() if key != "_is_loaded"}

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        if not self._is_loaded:
            self._is_loaded = True
            with Path(self.calls + ".loads").open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()}\n")
        return super().__call__(prompt, label_space)


def calls_of(path: str | Path) -> list[str]:
    """Return the marks of the prompts in a file of calls, in the order of the calls; none if there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [mark for _, mark in (line.split() for line in lines)]
