"""The audit before the score: what in the answers makes a figure meaningless, and what a reader should know.

A figure that would only show how ties are broken is blocked, with the reason; everything else is a note beside the
scores.
"""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.benchmarks.task import Outcome

__all__ = ["DECIDED_BY_ORDER", "audit", "blocking_reason"]

DECIDED_BY_ORDER = frozenset({"accuracy", "macro_F1", "expected_calibration_error_1"})
"""Metrics that look at the largest value of a row, and so at nothing if all its values are equal."""


def _constant(row: Sequence[float]) -> bool:
    return min(row) == max(row)


def blocking_reason(outcome: Outcome) -> str | None:
    """Say why the metrics of :data:`DECIDED_BY_ORDER` mean nothing for an outcome.

    Args:
        outcome: The answers of one condition.

    Returns:
        The reason, or ``None`` if they mean something.
    """
    if not outcome.hard and outcome.rows and all(map(_constant, outcome.rows)):
        return "every answer gives all labels the same value, so only the order of the labels would decide"
    return None


def audit(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Look over the answers of all conditions.

    Args:
        outcomes: The answers.

    Returns:
        Notes for a reader.
    """
    notes: list[str] = []
    for outcome in outcomes:
        where = f"condition {outcome.condition.name}: " if len(outcomes) > 1 else ""
        notes += [where + note for note in _notes(outcome)]
    return tuple(notes)


def _notes(outcome: Outcome) -> list[str]:
    rows = outcome.rows
    notes = []
    if len(rows) > 1 and all(row == rows[0] for row in rows):
        notes.append("every query got the same answer")
    if outcome.hard:
        return notes
    constant = sum(map(_constant, rows))
    tied = sum(row.count(max(row)) > 1 for row in rows) - constant
    if 0 < constant < len(rows):
        notes.append(f"{constant} of {len(rows)} answers give all labels the same value; the first label counts")
    if tied:
        notes.append(f"{tied} of {len(rows)} answers have a tie for the largest value; the first label of these counts")
    if outcome.kind == "ambiguous":
        notes.append("the numbers can be read neither as probabilities nor as logits with certainty")
    return notes
