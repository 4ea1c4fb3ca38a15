"""How much work prompts are, measured before they are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

PROBABILITIES = frozenset({"probabilities"})
"""What is computed of prompts unless a method says otherwise."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of some prompts, by the tokenizer of the model."""

    tokens: int = 0
    """Tokens of all sequences that the model reads."""
    positions: int = 0
    """Positions that remain to be computed when every shared prefix is computed once."""
    output: int = 0
    """Maximum number of tokens that the model generates."""
    longest: int = 0
    """Tokens of the longest sequence."""
    limit: int | None = None
    """Maximum number of tokens that the model reads; ``None`` if it is unknown."""

    def __add__(self, other: Workload) -> Workload:
        """Return the sums, and the longest of both."""
        return Workload(
            self.tokens + other.tokens,
            self.positions + other.positions,
            self.output + other.output,
            max(self.longest, other.longest),
            self.limit if other.limit is None else other.limit,
        )


@runtime_checkable
class MeasuresWork(Protocol):
    """An inference function that can say how much work prompts are."""

    def workload(self, prompts: Sequence[Any], label_space: Sequence[str], *how: Any) -> Workload | None:
        """Return the work of prompts, at least one, that are predicted in one call; ``None`` if it cannot be measured.

        A kernel also takes the maximum number of tokens to generate for each prompt (0 computes features), and the
        features of each prompt (:data:`PROBABILITIES`).
        """


def work_of(function: object, *work: Any) -> Workload | None:
    """Return the work of prompts, with the arguments of :meth:`MeasuresWork.workload`; ``None`` if it is unknown."""
    return function.workload(*work) if isinstance(function, MeasuresWork) else None


@runtime_checkable
class CountsTokens(Protocol):
    """An inference function that counts the tokens of its requests, such as a served model."""

    @property
    def tokens_used(self) -> tuple[int, int] | None:
        """Tokens of prompts and of completions, since it was made; ``None`` if it does not count them after all."""
