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
    """A short name of a prompt."""
    return hashlib.sha256(repr(prompt).encode()).hexdigest()[:12]


def row_of(prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
    """Probabilities that depend on the prompt in every bit."""
    weights = [
        1 + int.from_bytes(hashlib.sha256(f"{prompt}|{label}".encode()).digest()[:7], "big") for label in label_space
    ]
    return [weight / sum(weights) for weight in weights]


class Deterministic:
    """Answers one prompt at a time.

    Args:
        calls: File that gets a line for each call; empty for none.
        seconds: Sleeps so long in each call.
        name: Tells it from others.
        guilty: At the prompt of this mark it kills its process.
        once: With this file not there, the first call at ``guilty`` (or any call, without one) makes it and kills its
            process; later calls answer.
    """

    def __init__(
        self, calls: str = "", seconds: float = 0.0, name: str = "one", guilty: str = "", once: str = ""
    ) -> None:
        self.calls, self.seconds, self.name, self.guilty, self.once = calls, seconds, name, guilty, once

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> Deterministic:
        """``Deterministic:SECONDS:CALLS``."""
        _, seconds, calls = spec.split(":", 2)
        return cls(calls, float(seconds), **options)

    def identity(self) -> Identity:
        return Identity({"model": f"deterministic/{self.name}"})

    def _called(self, prompt: str | Sequence[str]) -> None:
        mark = mark_of(prompt)
        if self.calls:
            handle = os.open(self.calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{os.getpid()} {mark}\n".encode())
            os.close(handle)
        if self.once:
            if not self.guilty or mark == self.guilty:
                try:
                    os.close(os.open(self.once, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
        elif mark == self.guilty:
            os._exit(7)
        if self.seconds:
            time.sleep(self.seconds)

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        self._called(prompt)
        return row_of(prompt, label_space)


class Batching(Deterministic):
    """Answers many prompts at once, with an error of rounding that depends on the batch, as real kernels have."""

    def identity(self) -> Identity:
        return Identity({"model": f"batching/{self.name}"})

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        """One row for each prompt."""
        for prompt in prompts:
            self._called(prompt)
        rounding = int(mark_of("".join(map(mark_of, prompts))), 16) / 16**12 * 1e-9
        return [[number + rounding for number in row_of(prompt, label_space)] for prompt in prompts]


class Loading(Deterministic):
    """Writes a line when it loads, once for each object that is used, as a kernel loads its weights."""

    _loaded = False

    def identity(self) -> Identity:
        return Identity({"model": f"loading/{self.name}"})

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_loaded"}

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        if not self._loaded:
            self._loaded = True
            with Path(self.calls + ".loads").open("a", encoding="utf-8") as stream:
                stream.write(f"{os.getpid()}\n")
        return super().__call__(prompt, label_space)


def calls_of(path: str | Path) -> list[str]:
    """Marks of the prompts that were asked, in order of asking."""
    path = Path(path)
    return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []
