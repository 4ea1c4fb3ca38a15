"""What a run records about one inference function: who predicted, when, and how many predictions."""

from __future__ import annotations

import operator
from dataclasses import astuple, dataclass
from typing import Protocol, runtime_checkable

from StaICC.inference.contract import Interface
from StaICC.inference.identity import Identity


@runtime_checkable
class CountsRetries(Interface, Protocol):
    """An inference function that counts the requests that it sent again."""

    @property
    def retried(self) -> int:
        """How many, since it was made."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How many predictions a run obtained in which way."""

    computed: int = 0
    """Predictions that the inference function computed in this run (rechecked ones not counted)."""
    reused: int = 0
    """Predictions taken from the store."""
    rechecked: int = 0
    """Reused predictions that were computed again and compared."""
    retried: int = 0
    """Requests that the inference function sent again after a transient error, where it counts them."""
    failed: int = 0
    """Queries without a prediction."""

    def __add__(self, other: RunCounts) -> RunCounts:
        """Return the sums."""
        return RunCounts(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One inference function in one run."""

    identity: Identity
    """Its identity at the start, verified at the end."""
    model_name: str | None
    """The name that the user gave it."""
    started: str
    """UTC, ISO 8601 with seconds."""
    finished: str
    """UTC, ISO 8601 with seconds."""
    counts: RunCounts
    """How many predictions it computed, reused, rechecked, retried and failed."""
    editions: tuple[str, ...] = ()
    """The editions that served it, where it uses a server; empty if all predictions were reused."""
    replies: bool = False
    """Whether it returned replies, whose labels the parser found."""
