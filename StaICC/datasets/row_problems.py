"""Problems of rows, collected so that all of them are reported at once: each kind with its first rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from StaICC.errors import ArgumentError

_SHOWN = 5
"""How many rows of each kind a message names."""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """One kind of problem, and the rows that have it."""

    message: str
    """What is wrong with the first row, with its place."""
    advice: str
    """What to do about it."""
    numbers: Sequence[int]
    """The rows, as they are counted in messages: lines of a file, or positions."""


def refuse_rows(problems: Iterable[RowProblem], row_count: int, unit: str) -> None:
    """Refuse a table whose rows have problems.

    Args:
        problems: All that were found, one of each kind.
        row_count: How many rows the table has.
        unit: What ``numbers`` counts: ``"line"`` or ``"row"``.

    Raises:
        ArgumentError: There is a problem. The message has every kind, with its number of rows and the first of them.
    """
    sentences = []
    for problem in problems:
        count = f"{len(problem.numbers)} of {row_count} rows"
        if len(problem.numbers) > 1:
            shown = ", ".join(map(str, problem.numbers[:_SHOWN]))
            more = ", ..." if len(problem.numbers) > _SHOWN else ""
            count += f": {unit}s {shown}{more}"
        sentences.append(f"{problem.message} ({count}). {problem.advice}")
    if sentences:
        raise ArgumentError(". ".join(sentences))
