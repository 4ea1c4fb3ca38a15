"""From the predictions of a data set to its scores.

The random baseline follows Yauney and Mimno (2024, arXiv 2404.13020). In the intervals of means, the data sets are
fixed and their rows independent: an interval says how the mean could move with other rows of the same data sets, not
with other data sets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import eq
from typing import Any, TypeVar

from StaICC.benchmarks.prompt_digests import digest_prompts
from StaICC.benchmarks.records import Written, condition_record, failed_queries
from StaICC.benchmarks.score_intervals import Intervals
from StaICC.benchmarks.task import Assumed, Condition, Outcome, Scorer, Scores, Scoring
from StaICC.benchmarks.warnings import find_warnings
from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.inference.contract import Answer, dropped_demonstrations
from StaICC.inference.label_mass import mean_label_mass
from StaICC.inference.replies import Failure, Unparsed
from StaICC.metrics import released
from StaICC.metrics.intervals import Interval, NoInterval, mean_interval
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Mean, Statistic
from StaICC.results.details import Baselines, DatasetDetails, FailedQuery, MeanDetails
from StaICC.results.score_records import single_scores

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DatasetRun:
    """The scores of one data set, with details and outcomes."""

    values: Mapping[str, Any]
    """Scores under the documented keys."""
    averaged: Mapping[str, float | None]
    """The scores that enter the mean over data sets."""
    details: DatasetDetails
    outcomes: Sequence[Any]
    """One :class:`~StaICC.benchmarks.task.Outcome` for each condition."""
    intervals: Mapping[str, Interval | NoInterval]
    """The interval of each averaged score, or why it has none."""
    answers: Sequence[Any]
    """The prediction of each query."""
    timing: Mapping[str, float] = field(default_factory=dict)
    """What the run measured, in addition to its duration."""
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    """The statistics of the metrics that have one, by name."""
    warnings: tuple[str, ...] = ()
    """Warnings about the predictions, which follow from the records of a result."""
    model_warnings: tuple[str, ...] = ()
    """Warnings that only the inference function can make, about prompts and predictions
    (:mod:`StaICC.inference.model_warnings`), and those of a method."""


RunsByDataset = Mapping[str, DatasetRun]
"""The run over each data set, by name."""


def evaluate(
    task: Scorer, scoring: Scoring, conditions: Sequence[Condition], predictions: Sequence[Answer | Failure], name: str
) -> DatasetRun:
    """Score the predictions of all conditions of one data set.

    Args:
        task: The task.
        scoring: How it scores.
        conditions: The conditions.
        predictions: The predictions of all conditions, in order.
        name: Benchmark and data set, for messages.

    Raises:
        OutputError: Predictions cannot be read, or some are labels and some are rows of numbers.
        ArgumentError: The task averages a score that it does not return.
    """
    reader = _OutcomeReader(task, scoring, conditions, predictions, name)
    unparsed = _policy_for_replies(task, scoring)
    outcomes = reader.read(assume="wrong" if unparsed == "wrong" else None)
    failures = failed_queries(outcomes, of_replies=False)
    unparsed_replies = failed_queries(outcomes, of_replies=True)
    scores = task.score(outcomes, scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    if unparsed == "excluded" and task.scores_accuracy and unparsed_replies:
        bounds = _bounds(reader, scores)

    interval_keys = _interval_keys(scores)
    intervals, missing_intervals = _intervals(task, scoring, outcomes, list(interval_keys.values()), scores.missing)
    missing = {**scores.missing, **missing_intervals}

    written: list[Written] = []
    queries = chain.from_iterable(condition.queries for condition in conditions)
    prompts_digest, query_digests = digest_prompts(queries, written)

    outcomes_of_model = outcomes
    if unparsed == "wrong" and unparsed_replies:
        # Warnings are about what the model predicted, not about what is assumed for a reply.
        outcomes_of_model = reader.read(assume=None)
    warnings = find_warnings(outcomes_of_model, task.content_free, watched=task.scores_accuracy)
    if unparsed_replies:
        warnings = (*warnings, _warning_of_replies(unparsed_replies, len(written), unparsed))

    failed_count = len(failures)
    if unparsed == "error":
        failed_count += len(unparsed_replies)
    written_by_condition = _by_condition(written, conditions)
    details = DatasetDetails(
        asked=len(written),
        distinct=len({(prompt_digest, label_space) for prompt_digest, label_space, _, _ in written}),
        scored=sum(outcome.scored for outcome in outcomes),
        failed=failed_count,
        prompts=prompts_digest,
        query_digests=query_digests,
        conditions=tuple(map(condition_record, outcomes, written_by_condition)),
        missing=missing,
        notes=warnings,
        intervals=_reported_intervals(intervals, missing),
        baselines=_baselines_by_condition(outcomes, settings_tried(task, scoring)),
        failures=failures,
        unparsed=unparsed_replies,
        bounds=bounds,
        label_mass=_label_masses(outcomes),
        dropped=_dropped(conditions, predictions),
        labels=_label_space(task, conditions),
    )
    return DatasetRun(
        values=scores.values,
        averaged=scores.averaged,
        details=details,
        outcomes=outcomes,
        intervals={
            key: intervals[interval_key] for key, interval_key in interval_keys.items() if interval_key in intervals
        },
        answers=predictions,
        statistics=scoring.metric_set.statistics,
        warnings=warnings,
    )


@dataclass(frozen=True, slots=True)
class _OutcomeReader:
    """Reads the predictions of all conditions of one data set, under different assumptions about unparsed replies."""

    task: Scorer
    scoring: Scoring
    conditions: Sequence[Condition]
    predictions: Sequence[Answer | Failure]
    """Those of all conditions, in order."""
    name: str
    """Benchmark and data set, for messages."""

    def read(self, assume: Assumed) -> list[Outcome]:
        """Return the outcome of each condition.

        Args:
            assume: What is assumed of unparsed replies.

        Raises:
            OutputError: Predictions cannot be read; the message names the data set, and the condition of several.
        """
        outcomes = []
        for condition, answers in zip(self.conditions, _by_condition(self.predictions, self.conditions), strict=True):
            try:
                outcome = self.task.read_outcome(condition, answers, self.scoring.outputs, assume)
                _ = outcome.kind  # reads the rows of numbers now, so that an error can name the condition
            except OutputError as error:
                if self.task.free_text:
                    raise  # the message names the query
                where = self.name
                if len(self.conditions) > 1:
                    where = f"{self.name}, condition {condition.name}"
                raise OutputError(f"{where}: {error}") from error
            outcomes.append(outcome)
        return outcomes


def _by_condition(values: Sequence[_T], conditions: Sequence[Condition]) -> list[list[_T]]:
    """Split values, one for each query of all conditions in order, into one list for each condition."""
    parts = []
    start = 0
    for condition in conditions:
        end = start + len(condition.queries)
        parts.append(list(values[start:end]))
        start = end
    return parts


def _policy_for_replies(task: Scorer, scoring: Scoring) -> Unparsed:
    """Return how unparsed replies count; only a task that scores accuracy can count them as wrong predictions."""
    if scoring.unparsed == "wrong" and not task.scores_accuracy:
        return "excluded"
    return scoring.unparsed


def _bounds(reader: _OutcomeReader, scores: Scores) -> dict[str, tuple[float | None, float | None]]:
    """Return each averaged score if all unparsed replies were wrong, and if all were right.

    A score that is undefined if they were wrong is left out.
    """
    if_wrong = reader.task.score(reader.read(assume="wrong"), reader.scoring).averaged
    if_right = reader.task.score(reader.read(assume="right"), reader.scoring).averaged
    return {key: (if_wrong[key], if_right[key]) for key in scores.averaged if if_wrong[key] is not None}


def _warning_of_replies(replies: Sequence[FailedQuery], query_count: int, unparsed: Unparsed) -> str:
    """Return the warning about replies without a label, with the first three as examples."""
    examples = [reply.reason.removeprefix("unparsed reply ") for reply in replies[:3]]
    different_examples = "; ".join(dict.fromkeys(examples))
    consequence = "count as wrong" if unparsed == "wrong" else "are excluded"
    return f"{len(replies)} of {query_count} replies are unparsed and {consequence}, such as {different_examples}"


def _label_masses(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the mean label mass of each condition whose predictions record it."""
    masses = {}
    for outcome in outcomes:
        mass = mean_label_mass(outcome.answers)
        if mass is not None:
            masses[outcome.condition.name] = mass
    return masses


def _dropped(conditions: Sequence[Condition], predictions: Sequence[Answer | Failure]) -> dict[str, tuple[int, int]]:
    """Return for each condition with shortened prompts how many there are, and how many demonstrations they lost."""
    dropped = {}
    for condition, answers in zip(conditions, _by_condition(predictions, conditions), strict=True):
        numbers = [dropped_demonstrations(answer) for answer in answers]
        shortened_count = sum(number != 0 for number in numbers)
        if shortened_count > 0:
            dropped[condition.name] = shortened_count, sum(numbers)
    return dropped


def _label_space(task: Scorer, conditions: Sequence[Condition]) -> tuple[str, ...]:
    """Return the label names of the first query; none for a task with free texts, or without a query."""
    if task.free_text:
        return ()
    for condition in conditions:
        if condition.queries:
            return condition.queries[0].label_space
    return ()


# -- confidence intervals of the scores of a data set


_EACH_INTERVAL = "interval of each score"
"""Key of the reason why no score of a data set has an interval."""


def _interval_keys(scores: Scores) -> dict[str, str]:
    """Return the key of the interval of each averaged score.

    A score that is not among the values itself is the sensitivity of the values to the conditions.

    Raises:
        ArgumentError: The task averages a score that the data set does not have, so no table could show it.
    """
    known = {key for key, value in scores.values.items() if not isinstance(value, Mapping)}
    known.update(key for key, _ in single_scores(scores.values))
    interval_keys = {}
    for key in scores.averaged:
        if key in known:
            interval_keys[key] = key
        elif key in scores.values.get("sensitivity", {}):
            interval_keys[key] = f"sensitivity.{key}"
        else:
            raise ArgumentError(
                f"the task averages {key!r}, which is no score of a data set; expected one of: "
                f"{', '.join(sorted(known))}. Join the keys of nested scores by dots"
            )
    return interval_keys


def _intervals(
    task: Scorer, scoring: Scoring, outcomes: Sequence[Outcome], keys: Sequence[str], missing: Mapping[str, str]
) -> tuple[Intervals, dict[str, str]]:
    """Return the intervals of a data set, and the reasons for those that are not reported.

    Args:
        task: The task.
        scoring: How it scores.
        outcomes: The outcome of each condition.
        keys: The key of the interval of each averaged score.
        missing: The scores that are undefined, with the reasons.
    """
    if not scoring.statistics.intervals or scoring.metric_set.as_released:
        return {}, {}
    intervals: dict[str, Interval | NoInterval] = {}
    if task.free_text or all(outcome.queries for outcome in outcomes):
        try:
            intervals.update(task.intervals(outcomes, scoring))
        except UndefinedMetricError as error:
            return {}, {_EACH_INTERVAL: str(error)}
    if not task.free_text:
        for key in keys:
            if key not in intervals and key not in missing:
                intervals[key] = NoInterval("no confidence interval is known for this score", None)

    reasons = {}
    for key, interval in intervals.items():
        if isinstance(interval, NoInterval) and key not in missing:
            reasons[f"interval of {key}"] = interval.reason
    return intervals, reasons


def _reported_intervals(intervals: Intervals, missing: Mapping[str, str]) -> dict[str, Interval]:
    """Return the intervals that are known, without those of undefined scores."""
    reported = {}
    for key, interval in intervals.items():
        if isinstance(interval, Interval) and key not in missing:
            reported[key] = interval
    return reported


# -- baselines of the accuracy


def settings_tried(task: Scorer, scoring: Scoring) -> int | None:
    """Return how many settings were tried, for the random baseline; ``None`` where accuracy is not scored.

    Another metric under the name ``accuracy`` has no baselines.
    """
    if not task.scores_accuracy:
        return None
    for metric in scoring.metric_set.metrics:
        if metric.name == "accuracy":
            is_accuracy = metric.known or metric.function is released.accuracy
            return scoring.statistics.tried if is_accuracy else None
    return None


def _baselines_by_condition(outcomes: Sequence[Outcome], tried: int | None) -> dict[str, Baselines]:
    """Return the baselines of each condition with predictions; none where accuracy is not scored."""
    if tried is None:
        return {}
    return {outcome.condition.name: baselines_of([outcome], tried) for outcome in outcomes if outcome.queries}


def baselines_of(outcomes: Sequence[Outcome], tried: int) -> Baselines:
    """Return the baselines of the mean accuracy of a condition over data sets, of which there may be one.

    They are those of all queries: one without a prediction counts as wrong for the run, so that no run can leave out
    what it would have got wrong.

    Args:
        outcomes: The outcome of each data set, with predictions.
        tried: The number of settings that were tried.
    """
    from StaICC.metrics.fixed_baselines import CorrectPredictions, p_value_against_labels  # only runs need them
    from StaICC.metrics.random_baselines import expected_best, guessing_p_value

    samples = [outcome.sample_of_all for outcome in outcomes]
    correct = []
    for outcome, sample in zip(outcomes, samples, strict=True):
        correct.append(_correct(outcome.scored_predictions, sample.truth))

    def against(predictions: Sequence[Sequence[int | None]]) -> list[CorrectPredictions]:
        """Return for each data set which queries the run, and a baseline with these predictions, get right."""
        datasets = []
        for sample, of_run, of_dataset in zip(samples, correct, predictions, strict=True):
            datasets.append(CorrectPredictions(sample, of_run, _correct(of_dataset, sample.truth)))
        return datasets

    # Guesses in groups (what a right guess adds to the mean accuracy, number of labels, number of guesses): each query
    # with a guess of its own, and each test row with one guess for all of its queries.
    guesses_of_queries = []
    guesses_of_rows = []
    for sample in samples:
        query_count = len(sample.truth)
        guesses_of_queries.append((1 / (query_count * len(samples)), sample.n_labels, query_count))
        for row_size, row_count in sorted(Counter(sample.sizes).items()):
            guesses_of_rows.append((row_size / (query_count * len(samples)), sample.n_labels, row_count))

    accuracy = _mean_accuracy(correct)
    majority = against([[_most_frequent(sample.truth)] * len(sample.truth) for sample in samples])
    baselines = Baselines(
        queries=sum(len(sample.truth) for sample in samples),
        labels=samples[0].n_labels if len(samples) == 1 else 0,
        uniform=math.fsum(1 / sample.n_labels for sample in samples) / len(samples),
        majority=_mean_accuracy([dataset.of_baseline for dataset in majority]),
        tried=tried,
        max_random=expected_best(tuple(guesses_of_queries), tried),
        p_value=guessing_p_value(tuple(guesses_of_queries), accuracy, tried),
        p_value_rows=guessing_p_value(tuple(guesses_of_rows), accuracy, tried),
        p_value_majority=p_value_against_labels(majority, tried),
        last_demonstration=None,
        p_value_last_demonstration=None,
    )
    last_labels = [[query.last_label for query in outcome.condition.queries] for outcome in outcomes]
    if any(None in of_dataset for of_dataset in last_labels):
        return baselines
    last_demonstration = against(last_labels)
    return replace(
        baselines,
        last_demonstration=_mean_accuracy([dataset.of_baseline for dataset in last_demonstration]),
        p_value_last_demonstration=p_value_against_labels(last_demonstration, tried),
    )


def _correct(predictions: Sequence[int | None], truth: Sequence[int]) -> list[bool]:
    return list(map(eq, predictions, truth))


def _mean_accuracy(correct: Sequence[Sequence[bool]]) -> float:
    """Return the mean over data sets of the share of correct predictions."""
    return math.fsum(sum(of_dataset) / len(of_dataset) for of_dataset in correct) / len(correct)


def _most_frequent(labels: Sequence[int]) -> int:
    """Return the most frequent label, the first of equally frequent ones."""
    counts = Counter(labels)
    return max(sorted(counts), key=counts.__getitem__)


# -- means over data sets


def means_of(runs: RunsByDataset) -> MeanDetails:
    """Return the intervals and the baselines of the means.

    Args:
        runs: The run over each data set, by name.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    for key in dict.fromkeys(key for run in runs.values() for key in run.averaged):
        values = [value for run in runs.values() if (value := run.averaged.get(key)) is not None]
        if len(values) < len(runs):
            continue  # the mean is undefined, and has its own reason
        known, reasons = _intervals_for_mean(key, runs)
        if len(known) == len(runs):
            intervals[key] = interval_of_mean(key, values, known, runs)
            continue
        stated_reasons = [reason for reason in reasons.values() if reason]
        if stated_reasons:
            missing[key] = f"no interval on {', '.join(reasons)}: {stated_reasons[0]}"
    return MeanDetails(intervals, missing, _baselines_of_means(runs))


def _intervals_for_mean(key: str, runs: RunsByDataset) -> tuple[list[Interval], dict[str, str]]:
    """Return the intervals of a score that its mean is computed of, and the reason on each data set without one.

    An interval that is too unreliable to be reported for one data set can be used for the mean of several.
    """
    intervals: list[Interval] = []
    reasons: dict[str, str] = {}
    for name, run in runs.items():
        interval = run.intervals.get(key)
        if isinstance(interval, Interval):
            intervals.append(interval)
        elif interval is None:
            reasons[name] = run.details.missing.get(_EACH_INTERVAL, "")
        elif interval.approximate is not None and len(runs) > 1:
            intervals.append(interval.approximate)
        else:
            reasons[name] = interval.reason
    return intervals, reasons


def interval_of_mean(key: str, values: Sequence[float], intervals: Sequence[Interval], runs: RunsByDataset) -> Interval:
    """Return the interval of the mean of a score over data sets; the mean of one data set is that data set.

    Args:
        key: The score.
        values: Its values, by data set.
        intervals: Its intervals, by data set.
        runs: The run over each data set.
    """
    if len(intervals) == 1:
        return intervals[0]

    # mean_interval reads shares from 0 to 1, so a mean with another range is computed in units of its range.
    first_run = next(iter(runs.values()))
    statistic = first_run.statistics.get(key)
    low, high = 0.0, 1.0
    if isinstance(statistic, Mean):
        low, high = statistic.range(0)
    width = high - low
    shares = [(value - low) / width for value in values]
    intervals_of_shares = []
    for interval in intervals:
        intervals_of_shares.append(
            replace(interval, low=(interval.low - low) / width, high=(interval.high - low) / width)
        )

    mean = mean_interval(shares, intervals_of_shares, _highest_mean(key, runs))
    return replace(mean, low=low + width * mean.low, high=low + width * mean.high)


def _highest_mean(key: str, runs: RunsByDataset) -> float:
    """Return the largest possible mean of a score of the library; that of an entropy depends on the label spaces."""
    if key not in STATISTICS:
        return 1.0
    highest_values = []
    for run in runs.values():
        label_space = run.outcomes[0].condition.queries[0].label_space
        _, highest = STATISTICS[key].range(len(label_space))
        highest_values.append(highest)
    return math.fsum(highest_values) / len(highest_values)


def _baselines_of_means(runs: RunsByDataset) -> dict[str, Baselines]:
    """Return the baselines of the mean accuracy of each condition that all data sets score."""
    first_run = next(iter(runs.values()))
    baselines = {}
    for number, outcome in enumerate(first_run.outcomes):
        if not outcome.queries:
            continue  # a condition of free texts: its task has baselines of its own
        name = outcome.condition.name
        if all(name in run.details.baselines for run in runs.values()):
            tried = first_run.details.baselines[name].tried
            baselines[name] = baselines_of([run.outcomes[number] for run in runs.values()], tried)
    return baselines
