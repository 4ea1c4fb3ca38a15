"""The records that a run keeps of its queries: row, true label, prediction, reply or failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

from StaICC.benchmarks.task import Outcome
from StaICC.errors import unknown_key
from StaICC.inference.contract import Answer, ReplyLabel, Text
from StaICC.inference.replies import Failure, recorded_failure, recorded_unlabelled
from StaICC.metrics.classification import confidence_bins
from StaICC.results.details import ConditionRecord, DatasetDetails, FailedQuery, pack_scores

MARK_BYTES = 4  # bytes kept of each prompt's digest


class Written(NamedTuple):
    """The record of a query that is kept after its prompt was written and hashed, because the prompt may be long."""

    prompt_digest: bytes
    """The SHA-256 of its prompt."""
    label_space: tuple[str, ...]
    """The label names of its prompt."""
    label: int
    """Its true label, as an index of the label space."""
    row: int
    """Its test row."""


def count_distinct(written: Sequence[Written]) -> int:
    """Return the number of distinct queries: queries with the same prompt and label space are predicted once.

    Args:
        written: The records of all queries of a data set.
    """
    return len({(query.prompt_digest, query.label_space) for query in written})


def failed_queries(outcomes: Sequence[Outcome], of_replies: bool) -> tuple[FailedQuery, ...]:
    """Return the queries without a prediction, in order.

    A query has no prediction if it failed, or if its reply is unparsed: no label could be read from it.

    Args:
        outcomes: The outcome of each condition.
        of_replies: ``True`` returns the queries with an unparsed reply, ``False`` those that failed.
    """
    queries = []
    for outcome in outcomes:
        for number, answer in enumerate(outcome.answers):
            if not isinstance(answer, Failure):
                continue
            is_unparsed_reply = answer.reply is not None
            if is_unparsed_reply == of_replies:
                queries.append(FailedQuery(outcome.condition.name, number, answer.reason))
    return tuple(queries)


def recorded_failures(details: DatasetDetails) -> dict[tuple[str, int], Failure]:
    """Return the failure of each query without a prediction, by its condition and its number within the condition.

    These are the queries that failed, and those whose reply has no label.

    Args:
        details: The saved details of a data set.
    """
    failures: dict[tuple[str, int], Failure] = {}
    for failed in details.failures:
        failures[failed.condition, failed.query] = recorded_failure(failed.reason)
    for reply in details.unparsed:
        failures[reply.condition, reply.query] = recorded_unlabelled(reply.reason)
    return failures


def condition_record(outcome: Outcome, written: Sequence[Written]) -> ConditionRecord:
    """Return the record of a condition: its true labels, predictions and label scores, for a result.

    From these records, a result can be scored again without the model.

    Args:
        outcome: The condition with its predictions.
        written: The record of each of its queries.
    """
    probabilities = None
    scores = None
    if outcome.queries and not outcome.hard:
        probabilities = outcome.normalised.probabilities
        scores = pack_scores(outcome.returned_rows)
    calibration = None
    if probabilities is not None:
        calibration = confidence_bins(outcome.truth, probabilities)
    return ConditionRecord(
        name=outcome.condition.name,
        output=outcome.kind,
        truth=tuple(query.label for query in written),
        predictions=tuple(outcome.predictions),
        rows=tuple(query.row for query in written),
        calibration=calibration,
        scores=scores,
    )


class ReplyRecord(TypedDict, total=False):
    """The fields of a query's record that describe its generated reply; empty if there is no reply."""

    response: str
    """The reply."""
    finish_reason: str | None
    """``"stop"``, ``"length"``, or ``None`` if it is unknown (:class:`~StaICC.inference.contract.Text`)."""


def reply_record(answer: Answer | Failure | None) -> ReplyRecord:
    """Return the text that a model generated for a query, and why the text ended.

    Args:
        answer: The prediction, or the failure; ``None`` if there is neither. Three kinds have a reply: a text, a label
            that was read from a reply, and the failure of a reply without a label.

    Returns:
        The fields ``response`` and ``finish_reason``; no field if there is no reply.
    """
    reply: object = answer
    if isinstance(answer, (Failure, ReplyLabel)):
        reply = answer.reply
    if isinstance(reply, Text):
        return {"response": str(reply), "finish_reason": reply.finish_reason}
    if isinstance(reply, str):
        return {"response": str(reply), "finish_reason": None}
    return {}


_FIELD_OF_OUTPUT = {
    "ground_truth": "ground_truth",
    "predictions": "prediction",
    "predicted_probabilities": "predicted_probabilities",
    "normalised_probabilities": "normalised_probabilities",
}
"""For each output of a run, the field of :func:`records_of` that has its values."""
_NAMES_OF_RELEASE = {
    "groundtruth": "ground_truth",
    "predicted": "predictions",
    "prob.": "predicted_probabilities",
}
"""For each name of an output in the code of StaICC 0.1.1, the documented name."""


class Outputs(dict[str, list[Any]]):
    """The outputs of a run, one value for each query; the keys in the code of StaICC 0.1.1 can be read, too."""

    def __missing__(self, key: str) -> list[Any]:
        if key not in _NAMES_OF_RELEASE:
            raise unknown_key("output", key, self)
        return self[_NAMES_OF_RELEASE[key]]


def records_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one record for each query: condition, number, test row, repeat, true label, prediction and reply.

    A record also has the row of numbers that the model returned, and its label probabilities. Both are ``None`` for a
    query without them: it failed, its reply has no label, or the numbers may be probabilities or logits.
    """
    records: list[dict[str, Any]] = []
    for outcome in outcomes:
        returned_rows = _rows_of_model(outcome, outcome.rows)
        normalised_rows: list[list[float] | None] = [None] * len(outcome.answers)
        if outcome.queries and outcome.normalised.probabilities is not None:
            normalised_rows = _rows_of_model(outcome, outcome.normalised.probabilities)
        for number, query in enumerate(outcome.condition.queries):
            records.append(
                {
                    "condition": outcome.condition.name,
                    "query": number,
                    "row": query.row,
                    "repeat": query.repeat,
                    "ground_truth": query.label,
                    "prediction": outcome.predictions[number],
                    "predicted_probabilities": returned_rows[number],
                    "normalised_probabilities": normalised_rows[number],
                    **reply_record(outcome.answers[number]),
                }
            )
    return records


def _rows_of_model(outcome: Outcome, scored_rows: Sequence[Sequence[float]]) -> list[list[float] | None]:
    """Return the row of numbers of each query of a condition; ``None`` for a query without a prediction of the model.

    An assumed row of an unparsed reply is scored, but is none that the model returned.

    Args:
        outcome: The condition with its predictions.
        scored_rows: The row of each scored query.
    """
    rows: list[list[float] | None] = []
    for answer, row in zip(outcome.answers, outcome.by_query(scored_rows), strict=True):
        if isinstance(answer, Failure) or not row:
            rows.append(None)
        else:
            rows.append(list(row))
    return rows


def outputs_of(outcomes: Sequence[Outcome]) -> Outputs:
    """Return the outputs of all queries by name, each as a list with one value for each query, in order.

    * ``ground_truth``: the true label indexes.
    * ``predictions``: the predicted label indexes.
    * ``predicted_probabilities``: the rows of numbers that the inference function returned; one-hot rows for labels.
    * ``normalised_probabilities``: the same rows as probabilities, as the metrics read them. ``None`` if they may
      be probabilities or logits.

    A query without a prediction has ``None`` everywhere but in ``ground_truth``.

    Args:
        outcomes: The outcome of each condition.
    """
    records = records_of(outcomes)
    outputs = Outputs()
    for name, field in _FIELD_OF_OUTPUT.items():
        outputs[name] = [record[field] for record in records]
    return outputs
