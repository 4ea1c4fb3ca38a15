"""One data set of the benchmark: its queries and scores.

:class:`LongICLExperimentor` writes the queries of its rounds, in order, and scores predictions. It has no state: every
call returns the same queries. Queries of a round share their context (the same string object).

A failed query (for example, its prompt exceeds the context length of the model) has a
:class:`~StaICC.inference.runner.Failure` with the reason as its prediction. It is never scored as a wrong prediction:
the score of its round is undefined, and the record says why.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from StaICC.benchmarks.arguments import validate_unparsed
from StaICC.benchmarks.long_icl.baselines import compute_baselines
from StaICC.benchmarks.long_icl.data.cards import ROUNDS
from StaICC.benchmarks.long_icl.data.items import Item
from StaICC.benchmarks.long_icl.data.loading import LongICLData
from StaICC.benchmarks.long_icl.protocol.parsing import PARSINGS, VARIANTS
from StaICC.benchmarks.long_icl.protocol.positions import arrange, label_positions
from StaICC.benchmarks.long_icl.protocol.prompts import write_context, write_query
from StaICC.benchmarks.long_icl.records import DataSetScore, LongICLOutcome, LongICLQuery, RoundScore
from StaICC.benchmarks.long_icl.scoring import Tally, label_counts, score_tallies, scored, tally_prediction
from StaICC.errors import ArgumentError, OutputError, unknown_name, validate_integer
from StaICC.inference.chunk import unparsed_reason
from StaICC.inference.failure_reasons import alike, is_too_long
from StaICC.inference.runner import Failure, Unparsed
from StaICC.prompting import Query

__all__ = ["DataSetScore", "LongICLExperimentor", "LongICLOutcome", "LongICLQuery", "RoundScore"]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_json(text: str) -> bytes:
    """Return the content of a JSON string, without quotation marks; it can be concatenated."""
    return _bytes(json.dumps(text, ensure_ascii=False)[1:-1])


def _checked_rounds(rounds: Iterable[int]) -> tuple[int, ...]:
    if not isinstance(rounds, Iterable):
        raise ArgumentError(f"rounds must be different whole numbers from 1 to {ROUNDS}, in a list, not {rounds!r}")
    numbers = tuple(validate_integer("a round", number, 1, ROUNDS) for number in rounds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"rounds must be different whole numbers from 1 to {ROUNDS}, not {numbers!r}")
    return numbers


def _why_not_scored(unanswered: Sequence[tuple[str, int]], missing: int, asked: int) -> str:
    """Return why the score of a round is undefined; empty if it is defined."""
    if not missing:
        return ""
    if all(is_too_long(reason) for reason, _ in unanswered):
        listed = "; ".join(reason for reason, _ in unanswered)
        count = f"{missing} of {asked} queries without an answer"
        return f"not scored: context and query are longer than the model's limit ({count}): {listed}"
    listed = "; ".join(f"{reason} ({count})" for reason, count in unanswered)
    return f"not scored: {missing} of {asked} queries were not answered: {listed}"


def _why_unparsed(response: str) -> str:
    return unparsed_reason("no label" if response.strip() else "empty", response)


class LongICLExperimentor:
    """Writes the queries of a data set and scores the predictions.

    Args:
        data: The data set, from :func:`~StaICC.benchmarks.long_icl.data.loading.load`.
        rounds: Rounds to evaluate, in order.
        test_number: Maximum number of test items (DialogRE: pairs); None for all.
        instruct: Show the label list in the prompt.
        variant: ``published`` or ``strict``.
        arrangement: ``interleaved`` as published, or ``grouped`` by label (see
            :mod:`~StaICC.benchmarks.long_icl.protocol.positions`).
        parsing: How responses are parsed: ``published``, ``strict`` or ``tolerant``; None for the variant's.
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``.

    Raises:
        ArgumentError: An argument cannot be used with this data set.
        UnknownNameError: The variant, arrangement, parsing or policy is unknown.
    """

    def __init__(
        self,
        data: LongICLData,
        rounds: Iterable[int] = (1, 2, 3, 4, 5),
        test_number: int | None = 500,
        instruct: bool = False,
        variant: str = "published",
        arrangement: str = "interleaved",
        parsing: str | None = None,
        unparsed: Unparsed = "wrong",
    ) -> None:
        if variant not in VARIANTS:
            raise unknown_name("variant", variant, VARIANTS)
        if parsing is not None and parsing not in PARSINGS:
            raise unknown_name("parsing", parsing, PARSINGS)
        self.data = data
        self.card = data.card
        self.rounds = _checked_rounds(rounds)
        self.test_number = test_number
        self.instruct = bool(instruct)
        self.variant = variant
        self.parsing = parsing or variant
        self.unparsed = validate_unparsed(unparsed)
        self.arrangement = arrangement
        strict = variant == "strict"
        self._items = tuple(data.test_items(test_number, strict=strict))
        if self._items == tuple(data.test_items(None, strict=strict)):
            self.test_number = None  # no item is cut, so the signature is that of None
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
        """The name of the data set."""
        return self.card.name

    def __repr__(self) -> str:
        asked = ", ".join(f"{number}R" for number in self.rounds)
        return f"<LongICL on {self.name}: {asked}, {len(self._items)} items, {self.variant}>"

    def get_label_space(self) -> list[str]:
        """Return the label names, in prompt order."""
        return list(self.card.labels)

    @property
    def test_items(self) -> tuple[Item, ...]:
        """The test items, the same in each round."""
        return self._items

    @property
    def distinct_questions(self) -> int:
        """Number of distinct query texts."""
        return len(set(self._questions))

    def context(self, number: int) -> str:
        """Return the text before the query, which all prompts of a round share."""
        return self._contexts[number]

    def queries(self) -> tuple[LongICLQuery, ...]:
        """Return all queries, round by round."""
        return tuple(
            LongICLQuery(number, place, item, self._contexts[number], question)
            for number in self.rounds
            for place, (item, question) in enumerate(zip(self._items, self._questions, strict=True))
        )

    def prompt_set(self) -> list[str]:
        """Return the prompts, in the order of :meth:`queries`."""
        return [query.prompt for query in self.queries()]

    def round_queries(self, number: int) -> list[Query]:
        """Return the queries of a round for the runner.

        ``label`` is the index of the gold label, or -1 if an item has several; ``row`` is the item's row in its
        file.
        """
        labels = self.card.labels
        return [
            Query(
                self._contexts[number] + question,
                labels,
                -1 if self.card.structured else labels.index(item.gold[0]),
                item.row,
                0,
            )
            for item, question in zip(self._items, self._questions, strict=True)
        ]

    def all_queries(self) -> list[Query]:
        """Return the queries of all rounds for the runner, in the order of :meth:`queries`."""
        return [query for number in self.rounds for query in self.round_queries(number)]

    def digests(self) -> tuple[str, str]:
        """Return the digests of the prompts, which :func:`StaICC.benchmarks.verify.verify` compares.

        Returns:
            SHA-256 of the JSON list of all prompts, and the first 32 bits of each prompt's own SHA-256 as base64.
            The context of a round is encoded once; no full prompt is built.
        """
        whole = hashlib.sha256()
        separator = b"["
        marks: list[bytes] = []
        questions = [_in_json(question) for question in self._questions]
        for number in self.rounds:
            context = _in_json(self._contexts[number])
            for question in questions:
                whole.update(separator + b'"')
                whole.update(context)
                whole.update(question + b'"')
                separator = b","
            marks += [digest[:4] for digest in self._prompt_digests(number)]
        whole.update(b"]")
        return whole.hexdigest(), base64.b64encode(b"".join(marks)).decode()

    def _prompt_digests(self, number: int) -> Iterator[bytes]:
        """Yield the SHA-256 of each prompt of a round; the context is hashed once."""
        context = hashlib.sha256(_bytes(self._contexts[number]))
        for question in self._questions:
            digest = context.copy()
            digest.update(_bytes(question))
            yield digest.digest()

    def prompts_digest(self, number: int) -> str:
        """Return the SHA-256 of the SHA-256 digests of a round's prompts, one per line."""
        listed = "\n".join(digest.hex() for digest in self._prompt_digests(number))
        return hashlib.sha256(listed.encode()).hexdigest()

    def longest_prompts(self, measure: Callable[[str], int] = len) -> dict[int, int]:
        """Return the length of each round's longest prompt, to compare with the context length of a model.

        Args:
            measure: Returns the length of a text: by default in characters; for tokens, pass
                ``lambda text: len(tokenizer(text).input_ids)``. It is called once per round, on the prompt with the
                most characters.
        """
        longest = max(self._questions, key=len)
        return {number: measure(self._contexts[number] + longest) for number in self.rounds}

    def settings(self) -> dict[str, Any]:
        """Return the options and digests that can change a score, as plain values."""
        files = {"train": self.data.train_file, "test": self.data.test_file}
        return {
            "dataset": self.card.name,
            "variant": self.variant,
            "rounds": list(self.rounds),
            "test_number": self.test_number,
            "instruct": self.instruct,
            "arrangement": self.arrangement,
            "parsing": self.parsing,
            "unparsed": self.unparsed,
            "made_up": self.data.made_up,
            "files": {split: {"sha256": one.sha256, "verified": one.verified} for split, one in files.items()},
            "prompts": {str(number): self.prompts_digest(number) for number in self.rounds},
        }

    def score(self, predictions: Sequence[Any]) -> DataSetScore:
        """Score the predictions.

        Args:
            predictions: One for each query, in the order of :meth:`queries`: text; or, for data sets with one label
                per item, a label index or one score per label; or a :class:`~StaICC.inference.runner.Failure`.

        Returns:
            The scores of all rounds.

        Raises:
            OutputError: The number of predictions is wrong, or one cannot be scored.
        """
        each = len(self._items)
        if len(predictions) != each * len(self.rounds):
            raise OutputError(
                f"{self.card.title}: expected {each * len(self.rounds)} predictions ({each} items in "
                f"{len(self.rounds)} rounds), found {len(predictions)}"
            )
        rounds = tuple(
            self.score_round(number, predictions[place * each : (place + 1) * each])
            for place, number in enumerate(self.rounds)
        )
        own = compute_baselines(self.card, self._items, self.variant)
        return DataSetScore(self.card.name, self.card.scoring.metric, rounds, own, self.settings())

    def score_round(self, number: int, predictions: Sequence[Any]) -> RoundScore:
        """Score the predictions of one round.

        Args:
            number: The round.
            predictions: One for each item, as for :meth:`score`.

        Raises:
            OutputError: A prediction cannot be scored, or has no label and ``unparsed="error"``.
        """
        outcomes: list[LongICLOutcome] = []
        unparsed: dict[int, str] = {}
        assumed: tuple[list[Tally], list[Tally]] = ([], [])
        reasons: Counter[str] = Counter()
        empty = 0
        for place, (item, prediction) in enumerate(zip(self._items, predictions, strict=True)):
            if isinstance(prediction, Failure) and prediction.reply is None:
                reasons[prediction.reason] += 1
                outcomes.append(LongICLOutcome(item.row, None, None))
                continue
            response = "" if isinstance(prediction, Failure) else prediction  # withheld: empty, as published
            empty += isinstance(response, str) and not response.strip()
            where = f"{self.card.title}, round {number}, query {place} (row {item.row})"
            tally, answer = tally_prediction(
                self.card,
                response,
                item,
                variant=self.parsing,
                prompt=None if self.parsing == "published" else self._contexts[number] + self._questions[place],
                where=where,
            )
            right = tally
            if isinstance(response, str) and tally.gold and not tally.predicted:
                withheld = isinstance(prediction, Failure)
                unparsed[place] = prediction.reason if withheld else _why_unparsed(response)
                right = Tally(tally.gold, tally.gold, tally.gold)
                if self.unparsed == "error":
                    raise OutputError(
                        f"{where}: {unparsed[place]}. unparsed='wrong' or 'excluded' continues without it"
                    )
            outcomes.append(LongICLOutcome(item.row, answer, tally))
            for tallies, one in zip(assumed, (tally, right), strict=True):
                tallies.append(one)
        if self.unparsed == "excluded":
            outcomes = [replace(one, tally=None) if place in unparsed else one for place, one in enumerate(outcomes)]
        tallies = scored(self.card.scoring, [one.tally for one in outcomes if one.tally is not None], self.variant)
        missing = sum(reasons.values())
        unanswered = alike(reasons)
        note = _why_not_scored(unanswered, missing, len(outcomes))
        if not missing and not tallies:
            note = "not scored: all responses are unparsed"
        bounds = None
        if self.unparsed == "excluded" and unparsed and not missing:
            low, high = (score_tallies(self.card.scoring, scores, self.variant).value for scores in assumed)
            bounds = (low, high)
        return RoundScore(
            round=number,
            demonstrations=self._counts[number],
            asked=len(outcomes),
            answered=len(outcomes) - missing,
            empty=empty,
            unanswered=unanswered,
            score=None if note else score_tallies(self.card.scoring, tallies, self.variant),
            note=note,
            labels=label_counts(self.card, tallies),
            positions=self._positions[number],
            outcomes=tuple(outcomes),
            unparsed=tuple(unparsed.items()),
            bounds=bounds,
        )
