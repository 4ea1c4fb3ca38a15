"""What a benchmark asks of one data set, and how the answers become scores.

A *task* is all that a sub-benchmark adds. It names *conditions* (lists of queries, such as one for each rate of label
noise) and scores their *outcomes*. Building a benchmark over data sets, running, aggregating, printing and saving are
written once, in :mod:`~StaICC.benchmarks.experimentor` and :mod:`~StaICC.benchmarks.benchmark`. Tasks are pure: the
same experimentor gives the same queries every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from StaICC.errors import OutputError
from StaICC.inference import Answer, Failure
from StaICC.metrics import Kind, Normalised, normalise
from StaICC.prompting import Query

if TYPE_CHECKING:
    from StaICC.benchmarks.experimentor import Experimentor
    from StaICC.benchmarks.statistics import Statistics
    from StaICC.metrics.intervals import Interval

__all__ = ["Condition", "Outcome", "Scores", "Task", "argmax"]

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
    """A condition with its answers.

    Only queries with an answer take part in scores; the others are counted as failed.

    Args:
        condition: What was asked.
        answers: One for each query, in order.
        outputs: How to read numbers: ``"auto"``, ``"probabilities"`` or ``"logits"``.

    Raises:
        OutputError: Some answers are labels and some are rows of numbers.
    """

    def __init__(self, condition: Condition, answers: Sequence[Answer | Failure], outputs: Kind) -> None:
        self.condition = condition
        self.answers = answers
        self._outputs: Kind = outputs
        answered = [(query, answer) for query, answer in zip(condition.queries, answers, strict=True)]
        scored = [(query, answer) for query, answer in answered if not isinstance(answer, Failure)]
        labels = sum(isinstance(answer, int) for _, answer in scored)
        if 0 < labels < len(scored):
            first = {isinstance(answer, int): number for number, answer in reversed(list(enumerate(answers)))}
            raise OutputError(
                f"query {first[True]} was answered by a label and query {first[False]} by numbers; answer every query "
                "of a run in the same way"
            )
        self.hard = labels > 0
        self.queries = [query for query, _ in scored]
        self.truth = [query.label for query, _ in scored]
        self.rows: list[list[float]] = [
            _one_hot(answer, len(query.label_space)) if isinstance(answer, int) else _numbers(answer)
            for query, answer in scored
        ]

    @cached_property
    def normalised(self) -> Normalised:
        """The answers as probabilities, if they can be read so (see :mod:`StaICC.metrics.normalise`)."""
        return normalise(self.rows, "probabilities" if self.hard else self._outputs)

    @property
    def kind(self) -> OutputKind:
        """How the answers were read; ``"none"`` if there are none."""
        if not self.queries:
            return "none"
        return "labels" if self.hard else self.normalised.kind

    @cached_property
    def answered(self) -> list[int]:
        """The predicted label index of each query that has an answer."""
        return [label for label in self.predictions if label is not None]

    @cached_property
    def predictions(self) -> list[int | None]:
        """The predicted label index of each query of the condition; ``None`` without an answer."""
        return [_predicted(answer) for answer in self.answers]


def _predicted(answer: Answer | Failure) -> int | None:
    if isinstance(answer, Failure):
        return None
    return answer if isinstance(answer, int) else argmax(_numbers(answer))


def _numbers(answer: Answer) -> list[float]:
    """Give a row of numbers; a classification task never asks for free text."""
    assert isinstance(answer, list)
    return answer


def _one_hot(label: int, width: int) -> list[float]:
    row = [0.0] * width
    row[label] = 1.0
    return row


@dataclass(frozen=True, slots=True)
class Scores:
    """What a task makes of its outcomes on one data set."""

    values: Mapping[str, Any]
    """The documented keys and their values; ``None`` where undefined."""
    averaged: Mapping[str, float | None]
    """The figures that enter the mean over data sets."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a value is ``None``, by its key."""


class Task(Protocol):
    """What a sub-benchmark adds to the common machinery."""

    name: ClassVar[str]
    """For messages and signatures, such as ``"Normal"``."""

    @property
    def test_rows(self) -> int | None:
        """How many test rows are asked at most; ``None`` for all."""

    @property
    def repeats(self) -> int:
        """How often each row is asked, with other demonstrations each time."""

    def options(self) -> Mapping[str, Any]:
        """Return the settings of this task that can move a number, for the signature."""

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return the conditions, always the same for the same settings of the experimentor."""

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Return the scores of the outcomes, one outcome for each condition in order."""

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return confidence intervals of the scores, by key; nested keys joined by a dot."""

    @property
    def scores_accuracy(self) -> bool:
        """Whether accuracy is among the scores of each condition, so that its baselines are wanted."""
