"""One data set of the benchmark as queries and scores.

:class:`LongICLExperimentor` gives the queries of its rounds, in order, and scores the predictions for them. It keeps
no state from run to run: the same experimentor gives the same queries every time. Queries of a round share their
context (the same string object), so whoever runs them can pay for it once.

A query that could not be answered (its prompt is longer than the model's limit, say) gets a
:class:`~StaICC.inference.runner.Failure` with the reason. It is never scored as a wrong answer: a round with such
queries has no score, and says why.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from StaICC.benchmarks.long_icl.baselines import baselines
from StaICC.benchmarks.long_icl.cards import ROUNDS
from StaICC.benchmarks.long_icl.items import Item
from StaICC.benchmarks.long_icl.limits import alike, is_too_long
from StaICC.benchmarks.long_icl.loading import DataSet
from StaICC.benchmarks.long_icl.parsing import VARIANTS
from StaICC.benchmarks.long_icl.positions import arrange, label_positions
from StaICC.benchmarks.long_icl.prompting import write_context, write_query
from StaICC.benchmarks.long_icl.records import DataSetScore, Outcome, Query, RoundScore
from StaICC.benchmarks.long_icl.scoring import label_counts, score_tallies, scored, tally_prediction
from StaICC.errors import ArgumentError, OutputError, unknown_name
from StaICC.inference.runner import Failure
from StaICC.prompting import Query as RunnerQuery

__all__ = ["DataSetScore", "LongICLExperimentor", "Outcome", "Query", "RoundScore"]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_json(text: str) -> bytes:
    """The inside of a JSON string, which for two texts in a row is the one after the other."""
    return _bytes(json.dumps(text, ensure_ascii=False)[1:-1])


def _checked_rounds(rounds: Iterable[int]) -> tuple[int, ...]:
    wanted = f"rounds must be different whole numbers from 1 to {ROUNDS}"
    try:
        found = tuple(rounds)
    except TypeError:
        raise ArgumentError(f"{wanted}, in a list, not {rounds!r}") from None
    good = all(isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= ROUNDS for one in found)
    if not found or not good or len(set(found)) < len(found):
        raise ArgumentError(f"{wanted}, not {found!r}")
    return found


def _why_not_scored(unanswered: Sequence[tuple[str, int]], missing: int, asked: int) -> str:
    """Why a round has no score; empty if it has one."""
    if not missing:
        return ""
    if all(is_too_long(reason) for reason, _ in unanswered):
        listed = "; ".join(reason for reason, _ in unanswered)
        told = f"{missing} of {asked} queries without an answer"
        return f"not scored: context and query are longer than the model's limit ({told}): {listed}"
    listed = "; ".join(f"{reason} ({count})" for reason, count in unanswered)
    return f"not scored: {missing} of {asked} queries were not answered: {listed}"


class LongICLExperimentor:
    """The queries of a data set, and the scores of the answers.

    Args:
        data: The data set, as :func:`~StaICC.benchmarks.long_icl.loading.load` gives it.
        rounds: Rounds, in the order in which they are asked.
        test_number: Number of test items (DialogRE: pairs); None for all.
        instruct: Show the label list in the prompt.
        variant: ``published`` or ``strict``.
        arrangement: ``interleaved`` as published, or ``grouped`` by label (see
            :mod:`~StaICC.benchmarks.long_icl.positions`).

    Raises:
        ArgumentError: An argument cannot be used with this data set.
        UnknownNameError: There is no such variant or arrangement.
    """

    def __init__(
        self,
        data: DataSet,
        rounds: Iterable[int] = (1, 2, 3, 4, 5),
        test_number: int | None = 500,
        instruct: bool = False,
        variant: str = "published",
        arrangement: str = "interleaved",
    ) -> None:
        if variant not in VARIANTS:
            raise unknown_name("variant", variant, VARIANTS)
        self.data = data
        self.card = data.card
        self.rounds = _checked_rounds(rounds)
        self.test_number = test_number
        self.instruct = bool(instruct)
        self.variant = variant
        self.arrangement = arrangement
        strict = variant == "strict"
        self._items = tuple(data.test_items(test_number, strict=strict))
        self._questions = tuple(write_query(self.card, item) for item in self._items)
        self._counts: dict[int, int] = {}
        self._contexts: dict[int, str] = {}
        self._positions: dict[int, dict[str, tuple[int, ...]]] = {}
        for number in self.rounds:
            chosen = data.demonstration_rows(number, strict=strict)
            shown = arrange(self.card, data.shown(chosen), arrangement)
            self._counts[number] = len(chosen)
            self._contexts[number] = write_context(self.card, shown, instruct=self.instruct)
            self._positions[number] = label_positions(shown)

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.card.name

    def __repr__(self) -> str:
        asked = ", ".join(f"{number}R" for number in self.rounds)
        return f"<LongICL on {self.name}: {asked}, {len(self._items)} items, {self.variant}>"

    def get_label_space(self) -> list[str]:
        """The labels, in prompt order."""
        return list(self.card.labels)

    @property
    def test_items(self) -> tuple[Item, ...]:
        """The items that each round asks for."""
        return self._items

    @property
    def distinct_questions(self) -> int:
        """How many of the items are asked in other words than all others."""
        return len(set(self._questions))

    def context(self, number: int) -> str:
        """What all prompts of a round begin with."""
        return self._contexts[number]

    def queries(self) -> tuple[Query, ...]:
        """All queries, round by round; those of a round stand together and share their context."""
        return tuple(
            Query(number, place, item, self._contexts[number], question)
            for number in self.rounds
            for place, (item, question) in enumerate(zip(self._items, self._questions, strict=True))
        )

    def prompt_set(self) -> list[str]:
        """The final prompts, in the order of :meth:`queries`."""
        return [query.prompt for query in self.queries()]

    def round_queries(self, number: int) -> list[RunnerQuery]:
        """The queries of a round as the runner asks them.

        ``label`` is the index of the gold label, or -1 where an item has several; ``row`` is the item's row in its
        file.
        """
        labels = self.card.labels
        return [
            RunnerQuery(
                self._contexts[number] + question,
                labels,
                -1 if self.card.structured else labels.index(item.gold[0]),
                item.row,
                0,
            )
            for item, question in zip(self._items, self._questions, strict=True)
        ]

    def all_queries(self) -> list[RunnerQuery]:
        """The queries of all rounds, in the order of :meth:`queries`."""
        return [query for number in self.rounds for query in self.round_queries(number)]

    def digests(self) -> tuple[str, str]:
        """What a result keeps of the prompts, as :func:`StaICC.benchmarks.verify.verify` compares it.

        Returns:
            SHA-256 of the JSON list of all prompts, and the first 32 bits of each prompt's own SHA-256 as base64.
            Neither the list nor a whole prompt is ever made: a round's context is encoded once.
        """
        whole = hashlib.sha256(b"[")
        marks: list[bytes] = []
        questions = [_in_json(question) for question in self._questions]
        for number in self.rounds:
            context, start = _in_json(self._contexts[number]), hashlib.sha256(_bytes(self._contexts[number]))
            for place, question in enumerate(self._questions):
                whole.update(b'"' if not marks else b',"')
                whole.update(context)
                whole.update(questions[place] + b'"')
                own = start.copy()
                own.update(_bytes(question))
                marks.append(own.digest()[:4])
        whole.update(b"]")
        return whole.hexdigest(), base64.b64encode(b"".join(marks)).decode()

    def prompts_digest(self, number: int) -> str:
        """SHA-256 of the list of the SHA-256 digests of a round's final prompts, one a line."""
        digest = hashlib.sha256()
        beginning = hashlib.sha256(_bytes(self._contexts[number]))
        for place, question in enumerate(self._questions):
            one = beginning.copy()
            one.update(_bytes(question))
            digest.update((b"\n" if place else b"") + one.hexdigest().encode())
        return digest.hexdigest()

    def longest_prompts(self, measure: Callable[[str], int] = len) -> dict[int, int]:
        """The length of each round's longest prompt, to compare with a model's limit before it is asked.

        Args:
            measure: Length of a text; by default in characters, with ``lambda text: len(tokenizer(text).input_ids)``
                in tokens. It is asked once for each round, for the prompt with the most characters.
        """
        longest = max(self._questions, key=len)
        return {number: measure(self._contexts[number] + longest) for number in self.rounds}

    def settings(self) -> dict[str, Any]:
        """Everything that can move a number, as plain values."""
        files = {"train": self.data.train_file, "test": self.data.test_file}
        return {
            "dataset": self.card.name,
            "variant": self.variant,
            "rounds": list(self.rounds),
            "test_number": self.test_number,
            "instruct": self.instruct,
            "arrangement": self.arrangement,
            "made_up": self.data.made_up,
            "files": {split: {"sha256": one.sha256, "verified": one.verified} for split, one in files.items()},
            "prompts": {str(number): self.prompts_digest(number) for number in self.rounds},
        }

    def score(self, predictions: Sequence[Any]) -> DataSetScore:
        """Score the predictions.

        Args:
            predictions: One for each query, in the order of :meth:`queries`: text; or, for data sets with one label
                per item, a label index or one number per label; or a :class:`~StaICC.inference.runner.Failure`.

        Returns:
            The results.

        Raises:
            OutputError: There is not one prediction for each query, or one cannot be scored (it is named).
        """
        each = len(self._items)
        if len(predictions) != each * len(self.rounds):
            raise OutputError(
                f"{self.card.title}: expected {each * len(self.rounds)} predictions ({each} items in "
                f"{len(self.rounds)} rounds), found {len(predictions)}"
            )
        rounds = tuple(
            self._score_round(number, predictions[place * each : (place + 1) * each])
            for place, number in enumerate(self.rounds)
        )
        own = baselines(self.card, self._items, self.variant)
        return DataSetScore(self.card.name, self.card.scoring.metric, rounds, own, self.settings())

    def _score_round(self, number: int, predictions: Sequence[Any]) -> RoundScore:
        outcomes: list[Outcome] = []
        reasons: Counter[str] = Counter()
        empty = 0
        for place, (item, prediction) in enumerate(zip(self._items, predictions, strict=True)):
            if isinstance(prediction, Failure):
                reasons[prediction.reason] += 1
                outcomes.append(Outcome(item.row, None, None))
                continue
            empty += isinstance(prediction, str) and not prediction.strip()
            tally, answer = tally_prediction(
                self.card,
                prediction,
                item,
                variant=self.variant,
                prompt=self._contexts[number] + self._questions[place] if self.variant == "strict" else None,
                where=f"{self.card.title}, round {number}, query {place} (row {item.row})",
            )
            outcomes.append(Outcome(item.row, answer, tally))
        tallies = scored(self.card.scoring, [one.tally for one in outcomes if one.tally is not None], self.variant)
        missing = sum(reasons.values())
        unanswered = alike(reasons)
        return RoundScore(
            round=number,
            demonstrations=self._counts[number],
            asked=len(outcomes),
            answered=len(outcomes) - missing,
            empty=empty,
            unanswered=unanswered,
            score=None if missing else score_tallies(self.card.scoring, tallies, self.variant),
            note=_why_not_scored(unanswered, missing, len(outcomes)),
            labels=label_counts(self.card, tallies),
            positions=self._positions[number],
            outcomes=tuple(outcomes),
        )
