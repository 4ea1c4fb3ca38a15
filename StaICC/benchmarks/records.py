"""Records of a run: details of the scores, the prediction of each query, digests of the prompts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from StaICC.benchmarks.diagnostics import find_warnings
from StaICC.benchmarks.outcome import Outcome
from StaICC.inference import Failure, Unparsed
from StaICC.metrics.classification import ConfidenceBin, confidence_bins
from StaICC.metrics.intervals import Interval
from StaICC.prompting import Query, as_argument
from StaICC.results import ConditionRecord, DatasetDetails, FailedQuery, digest
from StaICC.results.label_scores import pack_scores


def details_of(
    outcomes: Sequence[Outcome],
    missing: Mapping[str, str],
    intervals: Mapping[str, Interval],
    tried: int | None,
    content_free: bool = False,
) -> DatasetDetails:
    """Return the details of one data set: counts, conditions, warnings, intervals, baselines, failures.

    Args:
        outcomes: The conditions with their predictions.
        missing: The reason for each undefined value, by its key.
        intervals: Confidence intervals by key.
        tried: The number of settings that were tried; ``None`` where accuracy is not scored.
        content_free: Whether the queries have no content.
    """
    from StaICC.benchmarks.baselines import baselines_of, count_outcome  # with the models of chance

    queries = [query for outcome in outcomes for query in outcome.condition.queries]
    scored = sum(len(outcome.queries) for outcome in outcomes)
    prompts, marks = digest_prompts(queries)
    baselines = {
        outcome.condition.name: baselines_of([counts], tried)
        for outcome in outcomes
        if tried is not None and (counts := count_outcome(outcome)) is not None
    }
    return DatasetDetails(
        asked=len(queries),
        distinct=len({(query.prompt, query.label_space) for query in queries}),
        scored=scored,
        failed=len(queries) - scored,
        prompts=prompts,
        query_digests=marks,
        conditions=tuple(map(_record, outcomes)),
        missing=dict(missing),
        notes=find_warnings(outcomes, content_free),
        intervals={key: value for key, value in intervals.items() if key not in missing},
        baselines=baselines,
        failures=_failures(outcomes, lambda failure: failure.reply is None),
        labels=queries[0].label_space if queries else (),
    )


def _failures(outcomes: Sequence[Outcome], wanted: Callable[[Failure], bool]) -> tuple[FailedQuery, ...]:
    return tuple(
        FailedQuery(outcome.condition.name, number, answer.reason)
        for outcome in outcomes
        for number, answer in enumerate(outcome.answers)
        if isinstance(answer, Failure) and wanted(answer)
    )


def unparsed_of(outcomes: Sequence[Outcome]) -> tuple[FailedQuery, ...]:
    """Return the replies without a label that do not count as failed queries."""
    return _failures(outcomes, lambda failure: failure.reply is not None)


def unparsed_note(unparsed: Sequence[FailedQuery], asked: int, policy: Unparsed) -> str:
    """Return how many replies have no label, how they count, and three of them.

    Args:
        unparsed: The replies.
        asked: Queries of the data set.
        policy: How they count.
    """
    examples = "; ".join(dict.fromkeys(one.reason.removeprefix("unparsed reply ") for one in unparsed[:3]))
    how = "count as wrong" if policy == "wrong" else "are excluded"
    return f"{len(unparsed)} of {asked} replies are unparsed and {how}, such as {examples}"


def _record(outcome: Outcome) -> ConditionRecord:
    queries = outcome.condition.queries
    return ConditionRecord(
        outcome.condition.name,
        outcome.kind,
        tuple(query.label for query in queries),
        tuple(outcome.predictions),
        tuple(query.row for query in queries),
        _calibration(outcome),
        None if outcome.hard or not outcome.queries else pack_scores(outcome.returned_rows),
    )


def _calibration(outcome: Outcome) -> tuple[ConfidenceBin, ...] | None:
    if outcome.hard or not outcome.queries or outcome.normalised.probabilities is None:
        return None
    return confidence_bins(outcome.truth, outcome.normalised.probabilities)


def records_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one record for each query: condition, number, test row, repeat, true label and prediction."""
    outputs = outputs_of(outcomes)
    places = [
        (outcome.condition.name, number, query)
        for outcome in outcomes
        for number, query in enumerate(outcome.condition.queries)
    ]
    return [
        {
            "condition": condition,
            "query": number,
            "row": query.row,
            "repeat": query.repeat,
            "ground_truth": truth,
            "prediction": prediction,
            "predicted_probabilities": row,
        }
        for (condition, number, query), truth, prediction, row in zip(
            places, outputs["ground_truth"], outputs["predictions"], outputs["predicted_probabilities"], strict=True
        )
    ]


def outputs_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return truth, predicted labels and probabilities of all queries, in order, under the documented keys."""
    outputs: dict[str, Any] = {"ground_truth": [], "predictions": [], "predicted_probabilities": []}
    for outcome in outcomes:
        outputs["ground_truth"] += [query.label for query in outcome.condition.queries]
        outputs["predictions"] += outcome.predictions
        rows = outcome.normalised.probabilities if outcome.queries else None
        numbers = iter(rows if rows is not None else [None] * len(outcome.rows))
        scored = [
            None if isinstance(answer, Failure) or (row := next(numbers)) is None else list(row)
            for answer in outcome.given
        ]
        outputs["predicted_probabilities"] += [
            None if isinstance(answer, Failure) else row for answer, row in zip(outcome.answers, scored, strict=True)
        ]
    return outputs


def digest_prompts(queries: Sequence[Query]) -> tuple[str, str]:
    """Return the digest of all prompts in order, and the first 32 bits of each one's own digest as base64."""
    prompts = [as_argument(query.prompt) for query in queries]
    marks = b"".join(_mark(query) for query in queries)
    return digest(prompts), base64.b64encode(marks).decode()


def _mark(query: Query) -> bytes:
    text = query.prompt if isinstance(query.prompt, str) else "\x1e".join(query.prompt)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4]
