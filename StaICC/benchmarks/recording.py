"""What is kept of a run: details beside the scores, the answers of each query, digests of what was asked."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.benchmarks.audit import audit
from StaICC.benchmarks.statistics import baselines_of
from StaICC.benchmarks.task import Outcome
from StaICC.inference import Failure
from StaICC.metrics.classification import ConfidenceBin, confidence_bins
from StaICC.metrics.intervals import Interval
from StaICC.prompting import Query, as_argument
from StaICC.results import ConditionRecord, DatasetDetails, FailedQuery, digest

__all__ = ["details_of", "digest_prompts", "outputs_of", "records_of"]


def details_of(
    outcomes: Sequence[Outcome], missing: Mapping[str, str], intervals: Mapping[str, Interval], tried: int | None
) -> DatasetDetails:
    """Return what stands beside the scores of one data set.

    Args:
        outcomes: The conditions with their answers.
        missing: Why a value is missing, by its key.
        intervals: Confidence intervals by key.
        tried: How many settings were tried of which this is the best; ``None`` where accuracy is not scored.
    """
    queries = [query for outcome in outcomes for query in outcome.condition.queries]
    scored = sum(len(outcome.queries) for outcome in outcomes)
    prompts, marks = digest_prompts(queries)
    baselines = {outcome.condition.name: baselines_of(outcome, tried) for outcome in outcomes if tried is not None}
    return DatasetDetails(
        asked=len(queries),
        distinct=len({(query.prompt, query.label_space) for query in queries}),
        scored=scored,
        failed=len(queries) - scored,
        prompts=prompts,
        query_digests=marks,
        conditions=tuple(map(_record, outcomes)),
        missing=dict(missing),
        notes=audit(outcomes),
        intervals={key: value for key, value in intervals.items() if key not in missing},
        baselines={name: found for name, found in baselines.items() if found is not None},
        failures=tuple(
            FailedQuery(outcome.condition.name, number, answer.reason)
            for outcome in outcomes
            for number, answer in enumerate(outcome.answers)
            if isinstance(answer, Failure)
        ),
        labels=queries[0].label_space if queries else (),
    )


def _record(outcome: Outcome) -> ConditionRecord:
    queries = outcome.condition.queries
    return ConditionRecord(
        outcome.condition.name,
        outcome.kind,
        tuple(query.label for query in queries),
        tuple(outcome.predictions),
        tuple(query.row for query in queries),
        _calibration(outcome),
    )


def _calibration(outcome: Outcome) -> tuple[ConfidenceBin, ...] | None:
    if outcome.hard or not outcome.queries or outcome.normalised.probabilities is None:
        return None
    return confidence_bins(outcome.truth, outcome.normalised.probabilities)


def records_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one record for each query: what was asked (by number), the truth and the answer.

    Args:
        outcomes: The conditions with their answers.
    """
    kept = outputs_of(outcomes)
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
            places, kept["ground_truth"], kept["predictions"], kept["predicted_probabilities"], strict=True
        )
    ]


def outputs_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return truth, predicted labels and probabilities of all queries, in order, under the documented keys."""
    kept: dict[str, Any] = {"ground_truth": [], "predictions": [], "predicted_probabilities": []}
    for outcome in outcomes:
        kept["ground_truth"] += [query.label for query in outcome.condition.queries]
        kept["predictions"] += outcome.predictions
        rows = outcome.normalised.probabilities if outcome.queries else None
        numbers = iter(rows if rows is not None else [None] * len(outcome.rows))
        kept["predicted_probabilities"] += [
            None if isinstance(answer, Failure) else _listed(next(numbers)) for answer in outcome.answers
        ]
    return kept


def _listed(row: Sequence[float] | None) -> list[float] | None:
    return None if row is None else list(row)


def digest_prompts(queries: Sequence[Query]) -> tuple[str, str]:
    """Return the digest of all prompts in order, and the first 32 bits of each one's own digest as base64."""
    prompts = [as_argument(query.prompt) for query in queries]
    marks = b"".join(_mark(query) for query in queries)
    return digest(prompts), base64.b64encode(marks).decode()


def _mark(query: Query) -> bytes:
    text = query.prompt if isinstance(query.prompt, str) else "\x1e".join(query.prompt)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4]
