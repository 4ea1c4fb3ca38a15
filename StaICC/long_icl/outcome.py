"""A round of LongICL, or a condition of an experiment, with its predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.benchmarks.task import Assumed, Condition, Outcome
from StaICC.errors import OutputError
from StaICC.inference.contract import Answer, dropped_demonstrations
from StaICC.inference.replies import Failure, alike, continue_without_labels
from StaICC.long_icl.options import LongICLOptions
from StaICC.long_icl.queries import LongICLQueries
from StaICC.long_icl.reading import CUT_OFF, Reading, read_prediction
from StaICC.long_icl.scoring import Tally, label_counts, score_tallies, scored, value_of

NO_LABEL = -1
"""Predicted label index of a response that names no label; it is a wrong prediction."""


class LongICLOutcome(Outcome):
    """A round, or a condition of an experiment, with its predictions, parsed and compared with the true labels.

    Args:
        queries: The queries of the data set.
        options: The options of the run.
        condition: The condition.
        responses: One prediction or failure for each test item.
        assume: As for :class:`~StaICC.benchmarks.task.Outcome`; ``None`` leaves responses without a label out.

    Attributes:
        number: The round, or the name of the condition.
        answers: The label index of each prediction (several labels: its text); a failure where it names none.
        parsed: The parsed answer of each query; ``None`` if it failed.
        tallies: ``None`` for failed queries and excluded responses.
        failed: The number of failed queries for each reason.
        unparsed: The reason of each response without a label, and of each one that the server withheld.
        cut_off: How many responses without a label ended at the maximum number of tokens.
        published_reads: Of how many responses that the library's parser was used for the published parser reads a
            label, too.
        library_reads: Of how many responses the library's parser reads a label.
        dropped: How many demonstrations each prompt lost because it was too long.
        score: The score with its counts; ``None`` if a query failed, or all responses are excluded.
        value: The score.
        note: Why the score is undefined; empty if it is defined.

    Raises:
        OutputError: A prediction cannot be scored, or has no label and ``unparsed="error"``.
    """

    hard = True

    def __init__(
        self,
        queries: LongICLQueries,
        options: LongICLOptions,
        condition: Condition,
        responses: Sequence[Answer | Failure],
        assume: Assumed,
    ) -> None:
        self.condition = condition
        self.responses = responses
        self.queries = []
        self.number = queries.number_of(condition.name)
        self.dropped = [dropped_demonstrations(response) for response in responses]
        self._source = queries
        self._options = options

        # What is read of each response, and how it is scored.
        readings = []
        for position, response in enumerate(responses):
            readings.append(read_prediction(queries, options, self.number, position, response))
        self.parsed = [reading.text for reading in readings]
        self.answers = [reading.answer for reading in readings]
        self.tallies = [self._scored_tally(position, reading, assume) for position, reading in enumerate(readings)]
        self.published_reads = sum(reading.published_reads is True for reading in readings)
        self.library_reads = sum(_is_read_by_library(reading) for reading in readings)

        # A failure without a reply is a failed query, one with a reply is a response without a label.
        failures = [answer for answer in self.answers if isinstance(answer, Failure)]
        failed_queries = [failure for failure in failures if failure.reply is None]
        self.failed = Counter(failure.reason for failure in failed_queries)
        self.unparsed = [failure.reason for failure in failures if failure.reply is not None]
        self.cut_off = sum(reason.startswith(f"unparsed reply ({CUT_OFF})") for reason in self.unparsed)

        rule = queries.card.scoring
        self.scored_tallies = scored(rule, self.tallies)
        self.score = None
        if not failed_queries:
            self.score = score_tallies(rule, self.scored_tallies)
        self.value = value_of(self.score)
        self.note = ""
        if self.score is None:
            self.note = _why_not_scored(failed_queries, len(responses))

    def _scored_tally(self, position: int, reading: Reading, assume: Assumed) -> Tally | None:
        """Return the tally with which a query is scored; ``None`` for a failed query, or a reply that is left out.

        Args:
            position: The test item.
            reading: What was read of its prediction.
            assume: How a response without a label is scored: ``"wrong"``, ``"right"``, or not at all (``None``).

        Raises:
            OutputError: The response has no label and ``unparsed="error"``.
        """
        answer = reading.answer
        if not isinstance(answer, Failure):
            return reading.tally
        is_failed_query = answer.reply is None
        if is_failed_query or assume == "wrong":
            return reading.tally  # None; of a response without a label, a tally without predicted labels
        if self._options.unparsed == "error":
            place = self._source.place_of(self.number, position)
            raise OutputError(f"{place}: {answer.reason}. {continue_without_labels()}")
        if assume is None:
            return None
        gold = self._source.test_items[position].gold
        return Tally(gold, predicted=gold, correct=gold)  # as if the response were right

    @property
    def scored(self) -> int:
        """The number of queries that are scored: none if one failed."""
        if self.score is None:
            return 0
        return sum(tally is not None for tally in self.tallies)

    @property
    def kind(self) -> Any:
        """What the predictions are: ``"text"``, ``"labels"``, ``"numbers"``, ``"mixed"`` or ``"none"``."""
        kinds = {_kind_of(response) for response in self.responses if not isinstance(response, Failure)}
        if not kinds:
            return "none"
        if len(kinds) > 1:
            return "mixed"
        return kinds.pop()

    @property
    def predictions(self) -> list[int | None]:
        """The predicted label index of each query; ``None`` if it failed or is excluded."""
        predictions: list[int | None] = []
        for tally, answer in zip(self.tallies, self.answers, strict=True):
            if tally is None:
                predictions.append(None)
            elif isinstance(answer, int):
                predictions.append(answer)
            else:
                predictions.append(NO_LABEL)
        return predictions

    def record(self) -> dict[str, Any]:
        """Return counts, score and counts for each label, as the result has them."""
        card, items = self._source.card, self._source.test_items
        contexts = self._source.contexts[self.number].sent(self.dropped)
        record: dict[str, Any] = {
            "round": self.number,
            "demonstrations": contexts.demonstrations,
            **contexts.coverage([item.gold for item in items]),
            "dropped": sum(self.dropped),
            "asked": len(items),
            "answered": len(items) - self.failed.total(),
            "empty": sum(_is_empty_reply(answer) for answer in self.answers),
            "unparsed": len(self.unparsed),
            "cut_off": self.cut_off,
            "unanswered": dict(alike(self.failed)),
            "score": self.score,
            "note": self.note,
            "labels": label_counts(card, self.scored_tallies),
        }
        if card.scoring.metric == "micro_f1":
            labels_of_items = []
            # The published score of DialogRE leaves out the last items.
            for item, tally in zip(items, self.scored_tallies, strict=False):
                labels_of_items.append([item.row, *_labels_in_record(tally)])
            record["items"] = labels_of_items
        return record


def _is_read_by_library(reading: Reading) -> bool:
    """Return whether the library's parser read a label of a reply, so that the published parser can be compared."""
    was_parsed_by_library = reading.published_reads is not None
    return was_parsed_by_library and not isinstance(reading.answer, Failure)


def _kind_of(response: Answer) -> str:
    """Return what a prediction is: ``"text"``, ``"labels"`` (a label index) or ``"numbers"`` (label scores)."""
    if isinstance(response, str):
        return "text"
    if hasattr(response, "__index__"):
        return "labels"
    return "numbers"


def _is_empty_reply(answer: Answer | Failure) -> bool:
    """Return whether a query has no label because its reply is a text without content."""
    if not isinstance(answer, Failure):
        return False
    return isinstance(answer.reply, str) and not answer.reply.strip()


def _labels_in_record(tally: Tally | None) -> list[list[str] | None]:
    """Return the lists of true, predicted and correct labels of an item; three times ``None`` if it is not scored.

    Two runs are compared by them, and verification computes the scores from them again.
    """
    if tally is None:
        return [None, None, None]
    return [list(labels) for labels in tally]


def _why_not_scored(failures: Sequence[Failure], asked: int) -> str:
    """Return why the score of a round is undefined.

    Args:
        failures: The failed queries; none if all responses are unparsed.
        asked: The number of queries.
    """
    if not failures:
        return "not scored: all responses are unparsed"
    counts: Mapping[str, int] = Counter(failure.reason for failure in failures)
    reasons = alike(counts)
    if all(failure.is_too_long for failure in failures):
        listed = "; ".join(reason for reason, _ in reasons)
        count = f"{len(failures)} of {asked} queries without an answer"
        return f"not scored: context and query are longer than the model's limit ({count}): {listed}"
    listed = "; ".join(f"{reason} ({count})" for reason, count in reasons)
    return f"not scored: {len(failures)} of {asked} queries were not answered: {listed}"
