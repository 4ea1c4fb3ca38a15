"""From predictions to scores: the outcomes of one data set, their scores and records, and the means over data sets.

The random baseline follows Yauney and Mimno (2024, arXiv 2404.13020). In the intervals of means, the data sets are
fixed and their rows independent: an interval says how the mean could move with other rows of the same data sets, not
with other data sets.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from StaICC.benchmarks.diagnostics import find_warnings
from StaICC.benchmarks.intervals import Intervals
from StaICC.benchmarks.task import Condition, Outcome, Scoring, Task
from StaICC.errors import OutputError, UndefinedMetricError, unknown_key
from StaICC.inference import Answer, Failure, Unparsed
from StaICC.metrics import Kind, metric_set, released
from StaICC.metrics.classification import ConfidenceBin, confidence_bins
from StaICC.metrics.intervals import Interval, mean_interval
from StaICC.metrics.registry import SCORES
from StaICC.prompting import Query, as_argument
from StaICC.results import Baselines, ConditionRecord, DatasetDetails, FailedQuery, MeanDetails
from StaICC.results.details import pack_scores


@lru_cache(maxsize=64)  # ten data sets have four shapes
def _expected_best(guesses: tuple[tuple[float, int, int], ...], tried: int) -> float:
    from StaICC.metrics.random_baselines import expected_best

    return expected_best(guesses, tried)


@dataclass(frozen=True, slots=True)
class AccuracyCounts:
    """What the baselines of one accuracy are computed from."""

    labels: int
    sizes: tuple[int, ...]
    """Queries of each test row."""
    correct: tuple[int, ...]
    """Correct predictions of each row."""
    majority: tuple[int, ...]
    """Correct predictions of each row, if the most frequent true label were always predicted."""
    last: tuple[int, ...] | None
    """The same for the label of the last demonstration; ``None`` if a prompt shows none, or a falsified one."""


def count_outcome(outcome: Outcome) -> AccuracyCounts | None:
    """Count the correct predictions of an outcome and of its deterministic baselines; ``None`` without predictions."""
    if not outcome.queries:
        return None
    label, _ = max(Counter(outcome.truth).items(), key=lambda item: (item[1], -item[0]))
    shown = [query.last_label for query in outcome.queries]

    def count(predictions: Sequence[int | None]) -> tuple[int, ...]:
        return tuple(sum(predictions[i] == outcome.truth[i] for i in group) for group in outcome.groups)

    return AccuracyCounts(
        len(outcome.queries[0].label_space),
        tuple(map(len, outcome.groups)),
        count(outcome.answered),
        count([label] * len(outcome.truth)),
        None if None in shown else count(shown),
    )


def baselines_of(counts: Sequence[AccuracyCounts], tried: int) -> Baselines:
    """Return the baselines of the mean accuracy over data sets, of which there may be one.

    Args:
        counts: The counts of each data set.
        tried: The number of settings that were tried.
    """
    from StaICC.metrics.random_baselines import guessing_p_value, sign_test  # benchmarks are made without it

    totals = [sum(one.sizes) for one in counts]
    scale = len(counts)

    def mean(sums: Sequence[Sequence[int]]) -> float:
        return math.fsum(sum(rows) / total for rows, total in zip(sums, totals, strict=True)) / scale

    def beaten(others: Sequence[Sequence[int]]) -> float:
        unit = 1 if len(set(totals)) == 1 else 0
        return sign_test(
            [
                (a - b) * unit or (a - b) / total
                for one, rows, total in zip(counts, others, totals, strict=True)
                for a, b in zip(one.correct, rows, strict=True)
            ]
        )

    per_query = tuple((1 / (total * scale), one.labels, total) for one, total in zip(counts, totals, strict=True))
    per_row = tuple(
        (size / (total * scale), one.labels, rows)
        for one, total in zip(counts, totals, strict=True)
        for size, rows in sorted(Counter(one.sizes).items())
    )
    score = mean([one.correct for one in counts])
    last = [one.last for one in counts if one.last is not None]
    complete = len(last) == len(counts)
    return Baselines(
        queries=sum(totals),
        labels=counts[0].labels if scale == 1 else 0,
        uniform=math.fsum(1 / one.labels for one in counts) / scale,
        majority=mean([one.majority for one in counts]),
        tried=tried,
        max_random=_expected_best(per_query, tried),
        p_value=guessing_p_value(per_query, score, tried),
        p_value_rows=guessing_p_value(per_row, score, tried),
        p_value_majority=beaten([one.majority for one in counts]),
        last_demonstration=mean(last) if complete else None,
        p_value_last_demonstration=beaten(last) if complete else None,
    )


_MARK = 4  # bytes kept of each prompt's digest


def _details_of(
    outcomes: Sequence[Outcome],
    missing: Mapping[str, str],
    intervals: Mapping[str, Interval],
    tried: int | None,
    content_free: bool,
    policy: Unparsed,
    bounds: Mapping[str, tuple[float | None, float | None]],
) -> DatasetDetails:
    """Return the details of one data set: counts, conditions, warnings, intervals, baselines, failures.

    Args:
        outcomes: The conditions with their predictions.
        missing: The reason for each undefined value, by its key.
        intervals: Confidence intervals by key.
        tried: The number of settings that were tried; ``None`` where accuracy is not scored.
        content_free: Whether the queries have no content.
        policy: How replies without a label count.
        bounds: The scores if all of these replies were wrong, and if all were right.
    """
    queries = [query for outcome in outcomes for query in outcome.condition.queries]
    scored, unparsed = sum(len(outcome.queries) for outcome in outcomes), _failures(outcomes, unparsed=True)
    prompts, marks = digest_prompts(queries)
    baselines = {
        outcome.condition.name: baselines_of([counts], tried)
        for outcome in outcomes
        if tried is not None and (counts := count_outcome(outcome)) is not None
    }
    note = (unparsed_note(unparsed, len(queries), policy),) if unparsed else ()
    return DatasetDetails(
        asked=len(queries),
        distinct=len({(query.prompt, query.label_space) for query in queries}),
        scored=scored,
        failed=len(queries) - scored - (len(unparsed) if policy == "excluded" else 0),
        prompts=prompts,
        query_digests=marks,
        conditions=tuple(map(_record, outcomes)),
        missing=dict(missing),
        notes=(*find_warnings(outcomes, content_free), *note),
        intervals={key: value for key, value in intervals.items() if key not in missing},
        baselines=baselines,
        failures=_failures(outcomes, unparsed=False),
        unparsed=unparsed,
        bounds=bounds,
        labels=queries[0].label_space if queries else (),
    )


def _failures(outcomes: Sequence[Outcome], unparsed: bool) -> tuple[FailedQuery, ...]:
    """Return the failed queries, or the replies without a label, which do not count as failed."""
    return tuple(
        FailedQuery(outcome.condition.name, number, answer.reason)
        for outcome in outcomes
        for number, answer in enumerate(outcome.answers)
        if isinstance(answer, Failure) and (answer.reply is not None) == unparsed
    )


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
            "predicted_probabilities": returned,
            "normalised_probabilities": normalised,
        }
        for (condition, number, query), truth, prediction, returned, normalised in zip(
            places, *outputs.values(), strict=True
        )
    ]


_RELEASED_KEYS = {"groundtruth": "ground_truth", "predicted": "predictions", "prob.": "predicted_probabilities"}


class Outputs(dict[str, list[Any]]):
    """The outputs of a run, one value for each query; the keys of the code of 0.1.1 can be read, too."""

    def __missing__(self, key: str) -> list[Any]:
        if key not in _RELEASED_KEYS:
            raise unknown_key("output", key, self)
        return self[_RELEASED_KEYS[key]]


def outputs_of(outcomes: Sequence[Outcome]) -> Outputs:
    """Return the outputs of all queries, in order; ``None`` where a query failed.

    ``ground_truth`` and ``predictions`` are label indexes. ``predicted_probabilities`` has the rows that the inference
    function returned (one-hot rows for labels), ``normalised_probabilities`` what the metrics read them as: ``None``
    if they may be probabilities or logits.
    """
    outputs = Outputs(ground_truth=[], predictions=[], predicted_probabilities=[], normalised_probabilities=[])
    for outcome in outcomes:
        outputs["ground_truth"] += [query.label for query in outcome.condition.queries]
        outputs["predictions"] += outcome.predictions
        probabilities = outcome.normalised.probabilities if outcome.queries else None
        for key, rows in (("predicted_probabilities", outcome.rows), ("normalised_probabilities", probabilities)):
            scored = iter(rows if rows is not None else [()] * len(outcome.rows))
            read = [() if isinstance(answer, Failure) else next(scored) for answer in outcome.given]
            answered = zip(outcome.answers, read, strict=True)
            outputs[key] += [None if isinstance(answer, Failure) else list(row) or None for answer, row in answered]
    return outputs


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest_prompts(queries: Iterable[Query]) -> tuple[str, str]:
    """Return the digest of all prompts in order, and the first 32 bits of each one's own digest as base64.

    The former is that of their list (:func:`~StaICC.results.signature.digest`), of which one prompt is in memory.
    """
    whole, marks, before = hashlib.sha256(b"["), bytearray(), b""
    for query in queries:
        whole.update(before + _JSON(as_argument(query.prompt)).encode("utf-8", "surrogatepass"))
        marks += _mark(query)
        before = b","
    whole.update(b"]")
    return whole.hexdigest(), base64.b64encode(marks).decode()


def _mark(query: Query) -> bytes:
    text = query.prompt if isinstance(query.prompt, str) else "\x1e".join(query.prompt)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_MARK]


def compare_prompts(details: DatasetDetails, prompts: str, marks: str) -> tuple[bool, int | None, str]:
    """Compare the prompts of a data set by their digests.

    Args:
        details: The saved details.
        prompts: Digest of all prompts that were written again.
        marks: First bytes of the digest of each of them, as base64.

    Returns:
        Whether all are the same, the number of the first query that differs, and both as a sentence.
    """
    ours = base64.b64decode(marks)
    try:
        theirs = base64.b64decode(details.query_digests, validate=True)
    except ValueError:
        theirs = b""
    places = range(0, max(len(ours), len(theirs)), _MARK)
    first = next((at // _MARK for at in places if ours[at : at + _MARK] != theirs[at : at + _MARK]), None)
    if first is not None:
        return False, first, f"query {first} is the first whose prompt differs"
    if prompts != details.prompts:
        return False, None, f"the digest of all prompts differs: saved {details.prompts:.64}, written {prompts}"
    return True, None, f"the {details.asked} prompts are the same"


@dataclass(frozen=True, slots=True)
class DatasetRun:
    """The scores of one data set, with details and outcomes."""

    values: Mapping[str, Any]
    """Scores under the documented keys."""
    averaged: Mapping[str, float | None]
    """The scores that enter the mean over data sets."""
    details: DatasetDetails
    outcomes: Sequence[Outcome]
    intervals: Mapping[str, Interval]
    """The intervals of the scores, with those that are reported for the mean over data sets only."""
    answers: Sequence[Any]
    """The prediction of each query."""
    scores: Sequence[Any] = ()
    """The score of each condition, where a task has more than outcomes."""
    timing: Mapping[str, float] = field(default_factory=dict)
    """What the run measured, in addition to its duration."""


def evaluate(
    task: Task,
    scoring: Scoring,
    conditions: Sequence[Condition],
    predictions: Sequence[Answer | Failure],
    outputs: Kind,
    run_name: str,
    unparsed: Unparsed = "error",
) -> DatasetRun:
    """Score the predictions of all conditions of one data set.

    Args:
        task: The task.
        scoring: How it scores.
        conditions: The conditions.
        predictions: The predictions of all conditions, in order.
        outputs: How to read rows of numbers.
        run_name: Benchmark and data set, for messages.
        unparsed: How replies without a label count. Scores that are not about accuracy leave them out.

    Raises:
        OutputError: Predictions cannot be read, or some are labels and some are rows of numbers.
    """
    if not task.scores_accuracy and unparsed == "wrong":
        unparsed = "excluded"

    def read(assume: Literal["wrong", "right"] | None) -> list[Outcome]:
        return _outcomes(conditions, predictions, outputs, run_name, assume)

    outcomes = read("wrong" if unparsed == "wrong" else None)
    scores = task.score(outcomes, scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    if unparsed == "excluded" and task.scores_accuracy and _failures(outcomes, unparsed=True):
        low, high = task.score(read("wrong"), scoring).averaged, task.score(read("right"), scoring).averaged
        bounds = {key: (low[key], high[key]) for key in scores.averaged if low[key] is not None}
    missing = dict(scores.missing)
    found = _intervals(task, scoring, outcomes, missing)
    intervals: dict[str, Interval] = {}
    reported: dict[str, Interval] = {}
    for key, interval in found.items():
        if isinstance(interval, Interval):
            intervals[key] = reported[key] = interval
        elif key not in scores.missing:
            missing[f"interval of {key}"] = interval.reason
            if interval.approximate is not None:
                intervals[key] = interval.approximate
    computed = scoring.statistics.intervals and not scoring.metric_set.as_released
    if computed and "interval of each score" not in missing:
        for key in scores.averaged:
            place = key if key in scores.values else f"sensitivity.{key}"
            if place not in found and place not in missing:
                missing[f"interval of {place}"] = "no confidence interval is known for this score"
    tried = settings_tried(task, scoring)
    details = _details_of(outcomes, missing, reported, tried, task.content_free, unparsed, bounds)
    return DatasetRun(scores.values, scores.averaged, details, outcomes, intervals, predictions)


def _outcomes(
    conditions: Sequence[Condition],
    predictions: Sequence[Answer | Failure],
    outputs: Kind,
    run_name: str,
    assume: Literal["wrong", "right"] | None,
) -> list[Outcome]:
    outcomes = []
    start = 0
    for condition in conditions:
        end = start + len(condition.queries)
        try:
            outcomes.append(Outcome(condition, predictions[start:end], outputs, assume))
            _ = outcomes[-1].kind  # normalises now, so that the message can name the condition
        except OutputError as error:
            place = f", condition {condition.name}" if len(conditions) > 1 else ""
            raise OutputError(f"{run_name}{place}: {error}") from error
        start = end
    return outcomes


def _intervals(task: Task, scoring: Scoring, outcomes: Sequence[Outcome], missing: dict[str, str]) -> Intervals:
    """Return the intervals of the scores; of the standard metrics only those of the metric set."""
    metrics = scoring.metric_set
    if metrics.as_released or not scoring.statistics.intervals or not all(outcome.queries for outcome in outcomes):
        return {}
    try:
        intervals = task.intervals(outcomes, scoring)
    except UndefinedMetricError as error:
        missing["interval of each score"] = str(error)
        return {}
    if not task.scores_accuracy:
        return intervals
    scored = {metric.name for metric in metrics.metrics if metric.known}
    left_out = {metric.name for metric in metric_set("standard").metrics} - scored
    return {key: interval for key, interval in intervals.items() if key.removeprefix("sensitivity.") not in left_out}


def settings_tried(task: Task, scoring: Scoring) -> int | None:
    """Return how many settings were tried, for the random baseline; ``None`` where accuracy is not scored.

    Another metric under the name ``accuracy`` has no baselines.
    """
    scored = any(
        metric.name == "accuracy" and (metric.known or metric.function is released.accuracy)
        for metric in scoring.metric_set.metrics
    )
    return scoring.statistics.tried if task.scores_accuracy and scored else None


def means_of(runs: Mapping[str, DatasetRun]) -> MeanDetails:
    """Return the intervals and the baselines of the means.

    Args:
        runs: The run over each data set, by name.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    computed = any(
        run.intervals or any(reason.startswith("interval of ") for reason in run.details.missing)
        for run in runs.values()
    )
    for key in dict.fromkeys(key for run in runs.values() for key in run.averaged) if computed else ():
        known = [value for run in runs.values() if (value := run.averaged.get(key)) is not None]
        if len(known) < len(runs):
            continue
        nested = f"sensitivity.{key}"
        told = any(nested in run.intervals or f"interval of {nested}" in run.details.missing for run in runs.values())
        place = nested if told else key
        reasons = {name: reason for name, run in runs.items() if (reason := _reason(run, place)) is not None}
        without = [name for name, run in runs.items() if place not in run.intervals]
        if len(runs) == 1:
            without = list(reasons) or without
        if not without:
            intervals[key] = mean_interval(known, [run.intervals[place] for run in runs.values()], _highest(key, runs))
        elif named := [reasons[name] for name in without if name in reasons]:
            missing[key] = f"no interval on {', '.join(without)}: {named[0]}"
    return MeanDetails(intervals, missing, _baselines(runs))


def _highest(key: str, runs: Mapping[str, DatasetRun]) -> float:
    """Return the largest possible mean of a score."""
    if key not in SCORES:
        return 1.0
    spaces = [run.outcomes[0].condition.queries[0].label_space for run in runs.values()]
    return math.fsum(SCORES[key].range(len(space))[1] for space in spaces) / len(spaces)


def _reason(run: DatasetRun, key: str) -> str | None:
    """Return why a score has no interval on its data set; ``None`` if it has."""
    missing = run.details.missing
    return missing.get(f"interval of {key}", missing.get("interval of each score"))


def _baselines(runs: Mapping[str, DatasetRun]) -> dict[str, Baselines]:
    """Return the baselines of the mean accuracy of each condition that all data sets score."""
    found = {}
    first = next(iter(runs.values()))
    for place, outcome in enumerate(first.outcomes):
        name = outcome.condition.name
        if not all(name in run.details.baselines for run in runs.values()):
            continue
        counts = [count for run in runs.values() if (count := count_outcome(run.outcomes[place])) is not None]
        found[name] = baselines_of(counts, first.details.baselines[name].tried)
    return found
