"""The records that a run keeps of its queries: row, true label, prediction, reply or failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.benchmarks.task import Outcome
from StaICC.errors import unknown_key
from StaICC.inference.contract import ReplyLabel, Text
from StaICC.inference.replies import Failure
from StaICC.metrics.classification import confidence_bins
from StaICC.results.details import ConditionRecord, FailedQuery, pack_scores

MARK_BYTES = 4  # bytes kept of each prompt's digest


def failed_queries(outcomes: Sequence[Outcome], of_replies: bool) -> tuple[FailedQuery, ...]:
    """Return the failed queries, or the replies without a label, which do not count as failed."""
    return tuple(
        FailedQuery(outcome.condition.name, number, answer.reason)
        for outcome in outcomes
        for number, answer in enumerate(outcome.answers)
        if isinstance(answer, Failure) and (answer.reply is not None) == of_replies
    )


def condition_record(outcome: Outcome, written: Sequence[Written]) -> ConditionRecord:
    """Return the record of a condition."""
    scored = bool(outcome.queries) and not outcome.hard
    probabilities = outcome.normalised.probabilities if scored else None
    return ConditionRecord(
        outcome.condition.name,
        outcome.kind,
        tuple(label for _, _, label, _ in written),
        tuple(outcome.predictions),
        tuple(row for *_, row in written),
        None if probabilities is None else confidence_bins(outcome.truth, probabilities),
        pack_scores(outcome.returned_rows) if scored else None,
    )


def reply_record(answer: object) -> dict[str, str | None]:
    """Return the reply that is a prediction, or of which the label was read, and how it ended; nothing without one."""
    reply = answer.reply if isinstance(answer, (Failure, ReplyLabel)) else answer
    reason = reply.finish_reason if isinstance(reply, Text) else None
    return {"response": str(reply), "finish_reason": reason} if isinstance(reply, str) else {}


_OUTPUTS = ("ground_truth", "prediction", "predicted_probabilities", "normalised_probabilities")
_RELEASED_KEYS = {"groundtruth": "ground_truth", "predicted": "predictions", "prob.": "predicted_probabilities"}


class Outputs(dict[str, list[Any]]):
    """The outputs of a run, one value for each query; the keys of the code of 0.1.1 can be read, too."""

    def __missing__(self, key: str) -> list[Any]:
        if key not in _RELEASED_KEYS:
            raise unknown_key("output", key, self)
        return self[_RELEASED_KEYS[key]]


def records_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one record for each query: condition, number, test row, repeat, true label, prediction and reply."""
    records = []
    for outcome in outcomes:
        read = outcome.normalised.probabilities if outcome.queries else None
        scored = iter(zip(outcome.rows, read or [()] * len(outcome.rows), strict=True))
        for number, (query, answer) in enumerate(zip(outcome.condition.queries, outcome.answers, strict=True)):
            rows = ((), ()) if isinstance(outcome.given[number], Failure) else next(scored)
            returned, normalised = (None if isinstance(answer, Failure) else list(row) or None for row in rows)
            record = {
                "condition": outcome.condition.name,
                "query": number,
                "row": query.row,
                "repeat": query.repeat,
                "ground_truth": query.label,
                "prediction": outcome.predictions[number],
                "predicted_probabilities": returned,
                "normalised_probabilities": normalised,
            }
            records.append(record | reply_record(answer))
    return records


def outputs_of(outcomes: Sequence[Outcome]) -> Outputs:
    """Return the outputs of all queries, in order; ``None`` where a query failed.

    ``ground_truth`` and ``predictions`` are label indexes. ``predicted_probabilities`` has the rows that the inference
    function returned (one-hot rows for labels), ``normalised_probabilities`` what the metrics read them as: ``None``
    if they may be probabilities or logits.
    """
    records = records_of(outcomes)
    return Outputs({f"{key}s" if key == "prediction" else key: [record[key] for record in records] for key in _OUTPUTS})


Written = tuple[bytes, tuple[str, ...], int, int]
"""Digest of a prompt, with the label space, the true label and the test row of its query."""
