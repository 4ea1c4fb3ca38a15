"""One data set of the benchmark: its queries and scores.

:class:`LongICLExperimentor` writes the queries of its rounds, in order, and scores predictions. It has no state: every
call returns the same queries. Queries of a round share their context (the same string object).

A failed query (for example, its prompt exceeds the context length of the model) has a
:class:`~StaICC.inference.chunk.Failure` with the reason as its prediction. It is never scored as a wrong prediction:
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
from StaICC.benchmarks.long_icl.data.items import Item, relabelled
from StaICC.benchmarks.long_icl.data.loading import LongICLData
from StaICC.benchmarks.long_icl.experiments import Condition, Experiment, Material
from StaICC.benchmarks.long_icl.protocol.parsing import PARSINGS, VARIANTS
from StaICC.benchmarks.long_icl.protocol.prompts import arrange, write_context, write_query
from StaICC.benchmarks.long_icl.records import DataSetScore, LongICLOutcome, LongICLQuery, RoundScore, round_name
from StaICC.benchmarks.long_icl.scoring import Tally, label_counts, score_tallies, scored, tally_prediction
from StaICC.errors import ArgumentError, OutputError, unknown_name, validate_integer
from StaICC.inference.chunk import Failure, Unparsed, unparsed_reason
from StaICC.inference.failure_reasons import alike, is_too_long
from StaICC.prompting import Query

__all__ = ["DataSetScore", "LongICLExperimentor", "LongICLOutcome", "LongICLQuery", "RoundScore"]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_json(text: str) -> bytes:
    """Return the content of a JSON string, without quotation marks; it can be concatenated."""
    return _bytes(json.dumps(text, ensure_ascii=False)[1:-1])


_ALL_ROUNDS = (1, 2, 3, 4, 5)


def _checked_rounds(rounds: Iterable[int]) -> tuple[int, ...]:
    given = tuple(rounds) if isinstance(rounds, Iterable) else ()
    numbers = tuple(validate_integer("a round", number, 1, ROUNDS) for number in given)
    if not numbers or len(set(numbers)) < len(numbers):
        shown = given or rounds
        raise ArgumentError(f"rounds must be different whole numbers from 1 to {ROUNDS}, in a list, not {shown!r}")
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
            :func:`~StaICC.benchmarks.long_icl.protocol.prompts.arrange`).
        parsing: How responses are parsed: ``published``, ``strict`` or ``tolerant``; None for the variant's.
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``.
        experiment: Replaces the rounds by the conditions of an experiment.

    Attributes:
        rounds: The rounds, or the names of the conditions of the experiment.
        unavailable: Conditions of the experiment that the data cannot fill, with the reason.

    Raises:
        ArgumentError: An argument cannot be used with this data set.
        UnknownNameError: The variant, arrangement, parsing or policy is unknown.
    """

    def __init__(
        self,
        data: LongICLData,
        rounds: Iterable[int] = _ALL_ROUNDS,
        test_number: int | None = 500,
        instruct: bool = False,
        variant: str = "published",
        arrangement: str = "interleaved",
        parsing: str | None = None,
        unparsed: Unparsed = "wrong",
        experiment: Experiment | None = None,
    ) -> None:
        if variant not in VARIANTS:
            raise unknown_name("variant", variant, VARIANTS)
        if parsing is not None and parsing not in PARSINGS:
            raise unknown_name("parsing", parsing, PARSINGS)
        self.data = data
        self.card = data.card
        numbers = _checked_rounds(rounds)
        self.experiment = experiment
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
        self.unavailable: dict[str, str] = {}
        self.conditions: dict[int | str, Condition] = {}
        if experiment is None:
            for number in numbers:
                chosen = data.demonstration_rows(number, strict=strict)
                shown = arrange(self.card, data.shown(chosen), arrangement)
                context = write_context(self.card, shown, instruct=self.instruct)
                self.conditions[number] = Condition(context, len(chosen))
        else:
            if numbers != _ALL_ROUNDS or arrangement != "interleaved":
                raise ArgumentError(
                    f"the experiment {experiment.name} replaces rounds and arrangement; leave them out. The options "
                    "of an experiment are those of Experiment"
                )
            found = experiment.conditions(Material(data, self._items, self.instruct))
            for name, one in found.items():
                if isinstance(one, Condition):
                    self.conditions[name] = one
                else:
                    self.unavailable[name] = one
            if not self.conditions:
                reasons = "; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items())
                raise ArgumentError(f"{self.card.title}: the experiment has no condition: {reasons}")
        self.rounds = tuple(self.conditions)

    @property
    def name(self) -> str:
        """The name of the data set."""
        return self.card.name

    def __repr__(self) -> str:
        asked = ", ".join(map(round_name, self.rounds))
        return f"<LongICL on {self.name}: {asked}, {len(self._items)} items, {self.variant}>"

    def get_label_space(self) -> list[str]:
        """Return the label names, in prompt order."""
        return list(self.card.labels)

    @property
    def test_items(self) -> tuple[Item, ...]:
        """The test items, the same in each round."""
        return self._items

    @property
    def distinct(self) -> int:
        """Number of distinct pairs of prompt and label space."""
        return len(
            {(digest, self.conditions[name].labels) for name in self.rounds for digest in self._prompt_digests(name)}
        )

    def context(self, number: int | str, place: int = 0) -> str:
        """Return the text before the query, which all prompts of a round share.

        Args:
            number: The round, or the name of a condition.
            place: The test item, for conditions with a context for each.
        """
        return self.conditions[number].context_of(place)

    def queries(self) -> tuple[LongICLQuery, ...]:
        """Return all queries, round by round."""
        return tuple(
            LongICLQuery(number, place, item, self.context(number, place), question)
            for number in self.rounds
            for place, (item, question) in enumerate(zip(self._items, self._questions, strict=True))
        )

    def prompt_set(self) -> list[str]:
        """Return the prompts, in the order of :meth:`queries`."""
        return [query.prompt for query in self.queries()]

    def round_queries(self, number: int | str) -> list[Query]:
        """Return the queries of a round for the runner.

        ``label`` is the index of the gold label, or -1 if an item has several; ``row`` is the item's row in its
        file.
        """
        labels = self.card.labels
        return [
            Query(
                self.context(number, place) + question,
                self.conditions[number].labels or labels,
                -1 if self.card.structured else labels.index(item.gold[0]),
                item.row,
                0,
            )
            for place, (item, question) in enumerate(zip(self._items, self._questions, strict=True))
        ]

    def all_queries(self) -> list[Query]:
        """Return the queries of all rounds for the runner, in the order of :meth:`queries`."""
        return [query for number in self.rounds for query in self.round_queries(number)]

    def digests(self) -> tuple[str, str]:
        """Return the digests of the prompts, which :func:`StaICC.benchmarks.verify.verify` compares.

        Returns:
            SHA-256 of the JSON list of all prompts, and the first 32 bits of each prompt's own SHA-256 as base64.
            A context that all items share is encoded once; no full prompt is built.
        """
        whole = hashlib.sha256()
        separator = b"["
        marks: list[bytes] = []
        questions = [_in_json(question) for question in self._questions]
        for number in self.rounds:
            context, encoded = "", b""
            for place, question in enumerate(questions):
                if context is not self.context(number, place):
                    context = self.context(number, place)
                    encoded = _in_json(context)
                whole.update(separator + b'"')
                whole.update(encoded)
                whole.update(question + b'"')
                separator = b","
            marks += [digest[:4] for digest in self._prompt_digests(number)]
        whole.update(b"]")
        return whole.hexdigest(), base64.b64encode(b"".join(marks)).decode()

    def _prompt_digests(self, number: int | str) -> Iterator[bytes]:
        """Yield the SHA-256 of each prompt of a round; a context that all items share is hashed once."""
        context, hashed = "", hashlib.sha256()
        for place, question in enumerate(self._questions):
            if context is not self.context(number, place):
                context = self.context(number, place)
                hashed = hashlib.sha256(_bytes(context))
            digest = hashed.copy()
            digest.update(_bytes(question))
            yield digest.digest()

    def prompts_digest(self, number: int | str) -> str:
        """Return the SHA-256 of the SHA-256 digests of a round's prompts, one per line."""
        listed = "\n".join(digest.hex() for digest in self._prompt_digests(number))
        return hashlib.sha256(listed.encode()).hexdigest()

    def longest_prompts(self, measure: Callable[[str], int] = len) -> dict[int | str, int]:
        """Return the length of each round's longest prompt, to compare with the context length of a model.

        Args:
            measure: Returns the length of a text: by default in characters; for tokens, pass
                ``lambda text: len(tokenizer(text).input_ids)``. It is called once per round, on the prompt with the
                most characters.
        """
        return {
            number: measure(max((query.prompt for query in self.queries() if query.round == number), key=len))
            for number in self.rounds
        }

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
            "experiment": None if self.experiment is None else self.experiment.options(),
            "made_up": self.data.made_up,
            "files": {split: {"sha256": one.sha256, "verified": one.verified} for split, one in files.items()},
            "prompts": {str(number): self.prompts_digest(number) for number in self.rounds},
        }

    def score(self, predictions: Sequence[Any]) -> DataSetScore:
        """Score the predictions.

        Args:
            predictions: One for each query, in the order of :meth:`queries`: text; or, for data sets with one label
                per item, a label index or one score per label; or a :class:`~StaICC.inference.chunk.Failure`.

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

    def score_round(self, number: int | str, predictions: Sequence[Any]) -> RoundScore:
        """Score the predictions of one round.

        Args:
            number: The round, or the name of a condition.
            predictions: One for each item, as for :meth:`score`.

        Raises:
            OutputError: A prediction cannot be scored, or has no label and ``unparsed="error"``.
        """
        labels = self.conditions[number].labels
        card = replace(self.card, labels=labels or self.card.labels)
        names = dict(zip(self.card.labels, labels, strict=False))
        back = {name: label for label, name in names.items()}
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
            what = "condition" if self.experiment else "round"
            where = f"{self.card.title}, {what} {number}, query {place} (row {item.row})"
            tally, answer = tally_prediction(
                card,
                response,
                relabelled(item, names[item.gold[0]]) if names else item,
                variant=self.parsing,
                prompt=None if self.parsing == "published" else self.context(number, place) + self._questions[place],
                where=where,
            )
            if names:
                right_label = bool(tally.correct)
                tally = Tally(item.gold, tuple(back[name] for name in tally.predicted), item.gold * right_label)
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
            demonstrations=self.conditions[number].demonstrations,
            asked=len(outcomes),
            answered=len(outcomes) - missing,
            empty=empty,
            unanswered=unanswered,
            score=None if note else score_tallies(self.card.scoring, tallies, self.variant),
            note=note,
            labels=label_counts(self.card, tallies),
            outcomes=tuple(outcomes),
            unparsed=tuple(unparsed.items()),
            bounds=bounds,
        )
