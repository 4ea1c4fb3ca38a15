"""What a task exchanges with a run: conditions (queries), outcomes (their predictions) and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from StaICC.errors import OutputError
from StaICC.inference import Answer, Failure
from StaICC.metrics import Kind, Normalised, normalise
from StaICC.prompting import Query

OutputKind = Literal["probabilities", "logits", "labels", "ambiguous", "none"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A named list of queries."""

    name: str
    """Unique within its task."""
    queries: tuple[Query, ...]


def argmax(row: Sequence[float]) -> int:
    """Return the position of the largest value, the first of equals."""
    return max(range(len(row)), key=row.__getitem__)


class Outcome:
    """A condition with its predictions.

    Scores use only queries with a prediction; the others are counted as failed, or as unparsed replies.

    Args:
        condition: The condition.
        answers: One prediction or failure for each query, in order.
        outputs: How to read numbers: ``"auto"``, ``"probabilities"`` or ``"logits"``.
        assume: Score each unparsed reply as a wrong prediction (the label after the true one), or as a right one;
            ``None`` leaves it out.

    Raises:
        OutputError: Some predictions are labels and some are rows of numbers.
    """

    def __init__(
        self,
        condition: Condition,
        answers: Sequence[Answer | Failure],
        outputs: Kind,
        assume: Literal["wrong", "right"] | None = None,
    ) -> None:
        self.condition = condition
        self.answers = answers
        self.outputs: Kind = outputs
        given = list(answers)
        rows = self.returned_rows
        self._kind: Kind = outputs
        self._ambiguous: Normalised | None = None
        if assume is not None and any(map(_unparsed, answers)):
            read = normalise(rows, outputs) if rows else None  # of the predictions, without those that are assumed
            if read is not None and read.kind != "ambiguous":
                self._kind = read.kind
            elif read is not None:
                self._ambiguous = read
            certain = (-math.inf, 0.0) if self._kind == "logits" else (0.0, 1.0)
            shift = int(assume == "wrong")
            for number, (query, answer) in enumerate(zip(condition.queries, answers, strict=True)):
                if _unparsed(answer):  # a label space has two labels or more
                    label, size = (query.label + shift) % len(query.label_space), len(query.label_space)
                    given[number] = _one_hot(label, size, *certain) if rows else label
        answered = list(zip(condition.queries, given, strict=True))
        scored = [(query, answer) for query, answer in answered if not isinstance(answer, Failure)]
        labels = sum(isinstance(answer, int) for _, answer in scored)
        if 0 < labels < len(scored):
            first = {isinstance(answer, int): number for number, answer in reversed(list(enumerate(answers)))}
            raise OutputError(
                f"the prediction of query {first[True]} is a label, that of query {first[False]} is a row of numbers; "
                "return the same kind for every query of a run"
            )
        self.hard = labels > 0
        self.given = given
        """The answers with the assumed predictions."""
        self.queries = [query for query, _ in scored]
        self.truth = [query.label for query, _ in scored]
        self.rows: list[list[float]] = [
            _one_hot(answer, len(query.label_space)) if isinstance(answer, int) else _numbers(answer)
            for query, answer in scored
        ]

    @cached_property
    def normalised(self) -> Normalised:
        """The predictions as probabilities, if they can be read so (see :mod:`StaICC.metrics.normalisation`)."""
        return self._ambiguous or normalise(self.rows, "probabilities" if self.hard else self._kind)

    @property
    def returned_rows(self) -> list[list[float]]:
        """The rows of numbers that were returned: without those that are assumed for unparsed replies."""
        return [answer for answer in self.answers if isinstance(answer, list)]

    @cached_property
    def groups(self) -> list[list[int]]:
        """For each test row, in rising order, the positions of its queries that have a prediction."""
        found: dict[int, list[int]] = {}
        for position, query in enumerate(self.queries):
            found.setdefault(query.row, []).append(position)
        return [found[row] for row in sorted(found)]

    @property
    def kind(self) -> OutputKind:
        """How the predictions were read; ``"none"`` if there are none."""
        if not self.queries:
            return "none"
        return "labels" if self.hard else self.normalised.kind

    @cached_property
    def answered(self) -> list[int]:
        """The predicted label index of each scored query."""
        return [argmax(row) for row in self.rows]

    @cached_property
    def predictions(self) -> list[int | None]:
        """The predicted label index of each query of the condition; ``None`` for a failed query or unparsed reply."""
        return [_predicted(answer) for answer in self.answers]


def _unparsed(answer: Answer | Failure) -> bool:
    return isinstance(answer, Failure) and answer.reply is not None


def _predicted(answer: Answer | Failure) -> int | None:
    if isinstance(answer, Failure):
        return None
    return answer if isinstance(answer, int) else argmax(_numbers(answer))


def _numbers(answer: Answer) -> list[float]:
    assert isinstance(answer, list)
    return answer


def _one_hot(label: int, width: int, others: float = 0.0, certain: float = 1.0) -> list[float]:
    row = [others] * width
    row[label] = certain
    return row


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one data set."""

    values: Mapping[str, Any]
    """The documented keys and their values; ``None`` where undefined."""
    averaged: Mapping[str, float | None]
    """The scores that enter the mean over data sets."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reason for each undefined value (``None``), by its key."""
