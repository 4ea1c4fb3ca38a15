"""Records: a query, what became of it, the scores of a round and of a data set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.long_icl.baselines import Baselines
from StaICC.benchmarks.long_icl.items import Item
from StaICC.benchmarks.long_icl.scoring import LabelCounts, Score, Tally

__all__ = ["DataSetScore", "Outcome", "Query", "RoundScore"]


@dataclass(frozen=True, slots=True)
class Query:
    """One prompt and what is asked in it."""

    round: int
    number: int
    """Place in the round, from 0."""
    item: Item
    context: str
    """Everything before the query, shared by the round."""
    question: str

    @property
    def prompt(self) -> str:
        """The final prompt."""
        return self.context + self.question

    @property
    def context_length(self) -> int:
        """Characters of the shared beginning."""
        return len(self.context)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one query."""

    row: int
    answer: str | None
    """As parsed; None if the query is unanswered."""
    tally: Tally | None


@dataclass(frozen=True, slots=True)
class RoundScore:
    """The result of one round."""

    round: int
    demonstrations: int
    """Chosen demonstrations (DialogRE: pairs)."""
    asked: int
    answered: int
    empty: int
    """Responses without any text; they count as wrong."""
    unanswered: tuple[tuple[str, int], ...]
    """Reasons and how many queries each took, the most frequent first; of reasons that differ in numbers only, the
    first one stands for all."""
    score: Score | None
    """None if a query is unanswered: a part is not the whole."""
    note: str
    """Why there is no score; empty if there is one."""
    labels: tuple[LabelCounts, ...]
    """Counts of the answered items, label by label."""
    positions: dict[str, tuple[int, ...]]
    """Places of each label's demonstrations (for the positional study)."""
    outcomes: tuple[Outcome, ...]

    def to_dict(self, *, outcomes: bool = False) -> dict[str, Any]:
        """The result as plain values, ready for JSON.

        Args:
            outcomes: Add the outcome of each query.
        """
        plain = {
            "round": self.round,
            "demonstrations": self.demonstrations,
            "asked": self.asked,
            "answered": self.answered,
            "empty": self.empty,
            "unanswered": dict(self.unanswered),
            "score": None if self.score is None else dataclasses.asdict(self.score),
            "note": self.note,
            "labels": {
                part.label: {"gold": part.gold, "predicted": part.predicted, "correct": part.correct}
                for part in self.labels
            },
            "positions": {label: list(places) for label, places in self.positions.items()},
        }
        if outcomes:
            plain["outcomes"] = [
                {"row": one.row, "answer": one.answer, "tally": None if one.tally is None else _plain(one.tally)}
                for one in self.outcomes
            ]
        return plain


def _plain(tally: Tally) -> dict[str, list[str]]:
    return {"gold": list(tally.gold), "predicted": list(tally.predicted), "correct": list(tally.correct)}


@dataclass(frozen=True, slots=True)
class DataSetScore:
    """The results of a data set's rounds."""

    dataset: str
    metric: str
    rounds: tuple[RoundScore, ...]
    baselines: Baselines
    settings: dict[str, Any]
    """What was asked, as :meth:`LongICLExperimentor.settings` gives it."""

    def values(self) -> dict[int, float | None]:
        """The table's row: the score of each round, None where there is none."""
        return {one.round: None if one.score is None else one.score.value for one in self.rounds}

    def to_dict(self, *, outcomes: bool = False) -> dict[str, Any]:
        """The results as plain values, ready for JSON (see :meth:`RoundScore.to_dict`)."""
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "rounds": [one.to_dict(outcomes=outcomes) for one in self.rounds],
            "baselines": dataclasses.asdict(self.baselines),
            "settings": self.settings,
        }
