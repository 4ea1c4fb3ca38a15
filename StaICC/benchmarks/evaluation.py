"""From predictions to scores: the outcomes of one data set, their scores, and the details of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from StaICC.benchmarks.intervals import Intervals
from StaICC.benchmarks.outcome import Condition, Outcome
from StaICC.benchmarks.records import details_of, unparsed_note, unparsed_of
from StaICC.benchmarks.task import Scoring, Task
from StaICC.errors import OutputError, UndefinedMetricError
from StaICC.inference import Answer, Failure, Unparsed
from StaICC.metrics import Kind, metric_set, released
from StaICC.metrics.intervals import Interval
from StaICC.results import DatasetDetails

_ASSUMED: tuple[Literal["wrong", "right"], ...] = ("wrong", "right")
_UNKNOWN = "no confidence interval is known for this score"


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
    outcomes = _outcomes(conditions, predictions, outputs, run_name, "wrong" if unparsed == "wrong" else None)
    scores = task.score(outcomes, scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    if unparsed == "excluded" and task.scores_accuracy and unparsed_of(outcomes):
        low, high = (
            task.score(_outcomes(conditions, predictions, outputs, run_name, assume), scoring).averaged
            for assume in _ASSUMED
        )
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
                missing[f"interval of {place}"] = _UNKNOWN
    details = details_of(outcomes, missing, reported, settings_tried(task, scoring), task.content_free)
    if found_unparsed := unparsed_of(outcomes):
        details = replace(
            details,
            unparsed=found_unparsed,
            failed=details.failed - (len(found_unparsed) if unparsed == "excluded" else 0),
            bounds=bounds,
            notes=(*details.notes, unparsed_note(found_unparsed, details.asked, unparsed)),
        )
    return DatasetRun(scores.values, scores.averaged, details, outcomes, intervals)


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
