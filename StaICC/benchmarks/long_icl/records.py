"""Records: a query, its outcome, the scores of a round and of a data set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.long_icl.baselines import LongICLBaselines
from StaICC.benchmarks.long_icl.data.items import Item
from StaICC.benchmarks.long_icl.scoring import LabelCounts, Score, Tally


def round_name(number: int | str) -> str:
    """Return the name of a round in the paper; the name of a condition of an experiment is returned unchanged.

    Example:
        >>> round_name(3), round_name("zero shots")
        ('3R', 'zero shots')
    """
    return f"{number}R" if isinstance(number, int) else number


@dataclass(frozen=True, slots=True)
class LongICLQuery:
    """One prompt and its test item."""

    round: int | str
    """The round, or the name of a condition of an experiment."""
    number: int
    """Index in the round, from 0."""
    item: Item
    context: str
    """The text before the query."""
    question: str

    @property
    def prompt(self) -> str:
        """The final prompt."""
        return self.context + self.question


@dataclass(frozen=True, slots=True)
class LongICLOutcome:
    """The parsed answer and the counts of one query."""

    row: int
    answer: str | None
    """The parsed answer; None if the query failed."""
    tally: Tally | None


@dataclass(frozen=True, slots=True)
class RoundScore:
    """The result of one round."""

    round: int | str
    demonstrations: int
    """Chosen demonstrations (DialogRE: pairs)."""
    asked: int
    answered: int
    empty: int
    """Empty responses; they are wrong predictions."""
    unanswered: tuple[tuple[str, int], ...]
    """Failure reasons and their numbers of queries, the most frequent first. Reasons that differ only in numbers are
    merged into the first one."""
    score: Score | None
    """None if a query failed."""
    note: str
    """Why the score is undefined; empty if it is defined."""
    labels: tuple[LabelCounts, ...]
    """Counts for each label, over the queries that did not fail."""
    outcomes: tuple[LongICLOutcome, ...]
    unparsed: tuple[tuple[int, str], ...] = ()
    """Number and reason of each response without a label, and of each one that the server withheld."""
    bounds: tuple[float, float] | None = None
    """The score if all excluded responses were wrong, and if all were right; ``None`` if none is excluded."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record without its outcomes as plain values, ready for JSON."""
        return {
            "round": self.round,
            "demonstrations": self.demonstrations,
            "asked": self.asked,
            "answered": self.answered,
            "empty": self.empty,
            "unparsed": len(self.unparsed),
            "unanswered": dict(self.unanswered),
            "score": None if self.score is None else dataclasses.asdict(self.score),
            "note": self.note,
            "labels": {
                one.label: {"gold": one.gold, "predicted": one.predicted, "correct": one.correct} for one in self.labels
            },
        }


@dataclass(frozen=True, slots=True)
class DataSetScore:
    """The results of a data set's rounds."""

    dataset: str
    metric: str
    rounds: tuple[RoundScore, ...]
    baselines: LongICLBaselines
    settings: dict[str, Any]
    """The options and digests of the run, see :meth:`LongICLExperimentor.settings`."""

    def values(self) -> dict[int | str, float | None]:
        """Return the score of each round, None if it is undefined."""
        return {one.round: None if one.score is None else one.score.value for one in self.rounds}
