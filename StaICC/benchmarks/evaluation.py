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
from typing import TYPE_CHECKING, Any, TypeVar

from StaICC.benchmarks.prompt_digests import digest_prompts
from StaICC.benchmarks.records import Written, condition_record, count_distinct, failed_queries
from StaICC.benchmarks.score_intervals import Intervals
from StaICC.benchmarks.task import Assumed, Condition, Outcome, Scorer, Scores, Scoring
from StaICC.benchmarks.warnings import find_warnings
from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.inference.contract import Answer, dropped_demonstrations
from StaICC.inference.label_mass import mean_label_mass
from StaICC.inference.replies import Failure, Unparsed
from StaICC.metrics import released
from StaICC.metrics.intervals import Interval, NoInterval, mean_interval
from StaICC.metrics.statistics import Sample
from StaICC.results.details import Baselines, DatasetDetails, FailedQuery, MeanDetails
from StaICC.results.score_records import single_scores

if TYPE_CHECKING:
    from StaICC.metrics.fixed_baselines import CorrectPredictions

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
    """Times that the run measured in addition to its duration, in seconds."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and the highest possible value of each averaged score that may have an interval."""
    warnings: tuple[str, ...] = ()
    """Warnings about the predictions. Verification makes them again from the records of a result."""
    model_warnings: tuple[str, ...] = ()
    """Warnings that need the inference function (:mod:`StaICC.inference.model_warnings`), and those of a method."""


RunsByDataset = Mapping[str, DatasetRun]
"""The run over each data set, by name."""


def evaluate(
    task: Scorer,
    scoring: Scoring,
    conditions: Sequence[Condition],
    predictions: Sequence[Answer | Failure],
    name: str,
    clusters: Sequence[int] | None = None,
) -> DatasetRun:
    """Return the scores of the predictions of one data set, with intervals, baselines, warnings and records.

    Args:
        task: The task.
        scoring: How it scores.
        conditions: The conditions.
        predictions: The predictions of all conditions, in order.
        name: Benchmark and data set, for messages.
        clusters: The cluster of each test row; ``None`` if rows are independent.

    Raises:
        OutputError: Predictions cannot be read, or some are labels and some are rows of numbers.
        ArgumentError: The task averages a score that it does not return.
    """
    reader = _OutcomeReader(task, scoring, conditions, predictions, name, clusters)
    unparsed = _policy_for_replies(task, scoring)
    outcomes = reader.read(assume="wrong" if unparsed == "wrong" else None)
    failures = failed_queries(outcomes, of_replies=False)
    unparsed_replies = failed_queries(outcomes, of_replies=True)
    scores = task.score(outcomes, scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    if unparsed == "excluded" and task.scores_accuracy and unparsed_replies:
        bounds = _bounds_of_scores(reader, scores)

    interval_keys = _interval_keys(scores)
    intervals = _intervals(task, scoring, outcomes, list(interval_keys.values()), scores.missing)
    missing = {**scores.missing, **intervals.missing}

    written: list[Written] = []  # gets a record of each query, whose prompt is in memory only once
    queries = chain.from_iterable(condition.queries for condition in conditions)
    digests = digest_prompts(queries, written)
    records = []
    for outcome, written_of_condition in zip(outcomes, _by_condition(written, conditions), strict=True):
        records.append(condition_record(outcome, written_of_condition))

    warnings = _warnings(reader, outcomes, unparsed, unparsed_replies)
    failed_count = len(failures)
    if unparsed == "error":
        failed_count += len(unparsed_replies)
    details = DatasetDetails(
        asked=len(written),
        distinct=count_distinct(written),
        scored=sum(outcome.scored for outcome in outcomes),
        failed=failed_count,
        prompts=digests.of_all,
        query_digests=digests.marks,
        conditions=tuple(records),
        missing=missing,
        notes=warnings,
        intervals=_reported_intervals(intervals.by_key, missing),
        baselines=_baselines_by_condition(outcomes, n_tried_settings=settings_tried(task, scoring)),
        failures=failures,
        unparsed=unparsed_replies,
        bounds=bounds,
        label_mass=_label_masses(outcomes),
        dropped=_dropped_by_condition(conditions, predictions),
        labels=_label_space(task, conditions),
        clusters=None if clusters is None else tuple(clusters),
    )
    intervals_of_averaged = {}
    ranges_of_averaged = {}
    for key, interval_key in interval_keys.items():
        if interval_key in intervals.by_key:
            intervals_of_averaged[key] = intervals.by_key[interval_key]
            ranges_of_averaged[key] = task.range_of(key, outcomes, scoring)
    return DatasetRun(
        values=scores.values,
        averaged=scores.averaged,
        details=details,
        outcomes=outcomes,
        intervals=intervals_of_averaged,
        answers=predictions,
        ranges=ranges_of_averaged,
        warnings=warnings,
    )


@dataclass(frozen=True, slots=True)
class _OutcomeReader:
    """Reads the predictions of all conditions of one data set, under different assumptions about unparsed replies."""

    task: Scorer
    scoring: Scoring
    conditions: Sequence[Condition]
    predictions: Sequence[Answer | Failure]
    """The predictions of all conditions, in order."""
    name: str
    """Benchmark and data set, for messages."""
    clusters: Sequence[int] | None
    """The cluster of each test row; ``None`` if rows are independent."""

    def read(self, assume: Assumed) -> list[Outcome]:
        """Return the outcome of each condition.

        Args:
            assume: Whether unparsed replies are scored as wrong or as right; ``None`` leaves them out.

        Raises:
            OutputError: Predictions cannot be read. The message names the data set, and the condition if there are
                several.
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
                raise OutputError(f"{where}: {error}").at(where) from error
            outcome.clusters = self.clusters
            outcomes.append(outcome)
        return outcomes


def _by_condition(values: Sequence[_T], conditions: Sequence[Condition]) -> list[list[_T]]:
    """Return the values of the queries of each condition.

    Args:
        values: One value for each query of all conditions, in order.
        conditions: The conditions.
    """
    values_by_condition = []
    start = 0
    for condition in conditions:
        end = start + len(condition.queries)
        values_by_condition.append(list(values[start:end]))
        start = end
    return values_by_condition


def _policy_for_replies(task: Scorer, scoring: Scoring) -> Unparsed:
    """Return how unparsed replies count in the scores of a task: ``"error"``, ``"wrong"`` or ``"excluded"``.

    It is the policy of the user, with one exception: a task that does not score accuracy has no wrong predictions, so
    it leaves unparsed replies out instead of counting them as wrong.
    """
    if scoring.unparsed == "wrong" and not task.scores_accuracy:
        return "excluded"
    return scoring.unparsed


def _bounds_of_scores(reader: _OutcomeReader, scores: Scores) -> dict[str, tuple[float | None, float | None]]:
    """Return two values of each averaged score: with all unparsed replies wrong, and with all of them right.

    For the accuracy, these are the lowest and the highest value that it could have if every reply had a label. A score
    that is undefined with all unparsed replies wrong is left out.

    Args:
        reader: Reads the predictions under both assumptions.
        scores: The scores of the data set.
    """
    scores_if_wrong = reader.task.score(reader.read(assume="wrong"), reader.scoring)
    scores_if_right = reader.task.score(reader.read(assume="right"), reader.scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    for key in scores.averaged:
        value_if_wrong = scores_if_wrong.averaged[key]
        if value_if_wrong is not None:
            bounds[key] = (value_if_wrong, scores_if_right.averaged[key])
    return bounds


def _warnings(
    reader: _OutcomeReader, outcomes: Sequence[Outcome], unparsed: Unparsed, replies: Sequence[FailedQuery]
) -> tuple[str, ...]:
    """Return the warnings about the predictions of a data set, and the one about replies without a label.

    Args:
        reader: Reads the predictions.
        outcomes: The outcomes as they are scored.
        unparsed: How unparsed replies count.
        replies: The queries with such a reply.
    """
    outcomes_of_model = outcomes
    if unparsed == "wrong" and replies:
        # Warnings are about what the model predicted, not about what is assumed for a reply.
        outcomes_of_model = reader.read(assume=None)
    task = reader.task
    warnings = find_warnings(outcomes_of_model, task.content_free, watched=task.scores_accuracy)
    if not replies:
        return warnings
    return (*warnings, _warning_of_replies(replies, len(reader.predictions), unparsed))


def _warning_of_replies(replies: Sequence[FailedQuery], query_count: int, unparsed: Unparsed) -> str:
    """Return the warning about replies without a label, with the first three as examples.

    Args:
        replies: The queries whose reply has no label.
        query_count: The number of all queries of the data set.
        unparsed: How such replies count.
    """
    examples = [reply.reason.removeprefix("unparsed reply ") for reply in replies[:3]]
    different_examples = "; ".join(dict.fromkeys(examples))
    consequence = "count as wrong" if unparsed == "wrong" else "are excluded"
    return f"{len(replies)} of {query_count} replies are unparsed and {consequence}, such as {different_examples}"


def _label_masses(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the mean label mass of each condition, by name.

    The label mass of a prediction is the probability that the model gives to all labels together. A condition whose
    predictions do not record it is left out.
    """
    masses = {}
    for outcome in outcomes:
        mass = mean_label_mass(outcome.answers)
        if mass is not None:
            masses[outcome.condition.name] = mass
    return masses


def _dropped_by_condition(
    conditions: Sequence[Condition], predictions: Sequence[Answer | Failure]
) -> dict[str, tuple[int, int]]:
    """Return for each condition how many prompts were too long for the model, and how many demonstrations they lost.

    Args:
        conditions: The conditions.
        predictions: The predictions of all conditions, in order.

    Returns:
        Two numbers by the name of the condition: the number of its shortened prompts, and the number of demonstrations
        that all of these lost together. A condition without shortened prompts is left out.
    """
    dropped = {}
    for condition, answers in zip(conditions, _by_condition(predictions, conditions), strict=True):
        lost_counts = [dropped_demonstrations(answer) for answer in answers]
        shortened_prompt_count = sum(lost_count != 0 for lost_count in lost_counts)
        if shortened_prompt_count > 0:
            dropped[condition.name] = (shortened_prompt_count, sum(lost_counts))
    return dropped


def _label_space(task: Scorer, conditions: Sequence[Condition]) -> tuple[str, ...]:
    """Return the label names of a data set, which are those of its first query.

    The tuple is empty for a task with free texts, which has no label space, and if there is no query.
    """
    if task.free_text:
        return ()
    for condition in conditions:
        if condition.queries:
            return condition.queries[0].label_space
    return ()


# -- confidence intervals of the scores of a data set


_EACH_INTERVAL = "interval of each score"
"""The key under which a data set records why none of its scores has an interval."""


def _interval_keys(scores: Scores) -> dict[str, str]:
    """Return for each averaged score the key of its confidence interval.

    An averaged score is one that enters the mean over data sets. The key of its interval is usually the key of the
    score. But a task may average a sensitivity, which says how much a metric changes between conditions. Sensitivities
    are nested in the values of a data set, so the key of the interval starts with ``sensitivity.``. For example, GLER
    averages the slope of the accuracy over the noise rates under the key ``accuracy``. Its values have this slope in
    ``{"sensitivity": {"accuracy": [slope, intercept]}}``, and its interval has the key ``sensitivity.accuracy``.

    Args:
        scores: The scores of a data set.

    Returns:
        The key of the interval, by the key of the averaged score.

    Raises:
        ArgumentError: The task averages a score that the data set does not have, so no table could show it.
    """
    known_keys = {key for key, value in scores.values.items() if not isinstance(value, Mapping)}
    for nested_key, _ in single_scores(scores.values):  # such as "sensitivity.accuracy"
        known_keys.add(nested_key)
    interval_keys = {}
    for key in scores.averaged:
        if key in known_keys:
            interval_keys[key] = key
        elif key in scores.values.get("sensitivity", {}):
            interval_keys[key] = f"sensitivity.{key}"
        else:
            raise ArgumentError(
                f"the task averages {key!r}, which is no score of a data set; expected one of: "
                f"{', '.join(sorted(known_keys))}. Join the keys of nested scores by dots"
            )
    return interval_keys


@dataclass(frozen=True, slots=True)
class _ScoreIntervals:
    """The confidence intervals of the scores of a data set; nothing if none are computed."""

    by_key: Mapping[str, Interval | NoInterval] = field(default_factory=dict)
    """For each score its interval, or a :class:`NoInterval` with the reason why it has none."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reasons why defined scores have no interval, by the key under which the data set records them."""


def _intervals(
    task: Scorer, scoring: Scoring, outcomes: Sequence[Outcome], keys: Sequence[str], undefined: Mapping[str, str]
) -> _ScoreIntervals:
    """Return the confidence intervals of the scores of a data set.

    No intervals are computed if the options turn them off, or for the metrics of StaICC 0.1.1, which have none. A score
    without an interval gets the reason, except where the score itself is undefined: then that has a reason already.

    Args:
        task: The task.
        scoring: How it scores.
        outcomes: The outcome of each condition.
        keys: The key of the interval of each averaged score.
        undefined: The reason for each undefined score, by the key of the score.
    """
    if not scoring.statistics.intervals or scoring.metric_set.as_released:
        return _ScoreIntervals()
    intervals: dict[str, Interval | NoInterval] = {}
    all_have_predictions = all(outcome.queries for outcome in outcomes)
    if task.free_text or all_have_predictions:
        try:
            intervals.update(task.intervals(outcomes, scoring))
        except UndefinedMetricError as error:
            return _ScoreIntervals(missing={_EACH_INTERVAL: str(error)})
    if not task.free_text:
        for key in keys:
            if key not in intervals and key not in undefined:
                intervals[key] = NoInterval("no confidence interval is known for this score", None)

    missing = {}
    for key, interval in intervals.items():
        if isinstance(interval, NoInterval) and key not in undefined:
            missing[f"interval of {key}"] = interval.reason
    return _ScoreIntervals(intervals, missing)


def _reported_intervals(intervals: Intervals, missing: Mapping[str, str]) -> dict[str, Interval]:
    """Return the intervals of the defined scores, by key; a score without an interval is left out.

    Args:
        intervals: For each score its interval, or a :class:`NoInterval` with the reason why it has none.
        missing: The undefined scores, with the reasons.
    """
    reported = {}
    for key, interval in intervals.items():
        if isinstance(interval, Interval) and key not in missing:
            reported[key] = interval
    return reported


# -- baselines of the accuracy


def settings_tried(task: Scorer, scoring: Scoring) -> int | None:
    """Return how many settings the user tried before reporting the best of them; ``None`` without baselines.

    A setting is a complete configuration of a run, such as a template with a number of demonstrations. The user states
    the number in :class:`~StaICC.benchmarks.task.Statistics`. The best of ten settings looks better than one setting
    by chance alone. So it is compared with the best of ten random guessers: the expected maximum of their accuracies.

    Only the accuracy has baselines. ``None`` means that accuracy is not scored. A function of the user's own that is
    named ``accuracy`` may compute anything, so it does not count as the accuracy.

    Args:
        task: The task. Of some tasks, such as those that measure a bias, the accuracy is not scored.
        scoring: The metrics and options with which it scores.
    """
    if not task.scores_accuracy:
        return None
    for metric in scoring.metric_set.metrics:
        is_accuracy = metric.known or metric.function is released.accuracy
        if metric.name == "accuracy" and is_accuracy:
            return scoring.statistics.tried
    return None


def _baselines_by_condition(outcomes: Sequence[Outcome], n_tried_settings: int | None) -> dict[str, Baselines]:
    """Return the baselines of the accuracy of each condition, by name.

    A condition without predictions has no baselines, and is left out.

    Args:
        outcomes: The outcome of each condition.
        n_tried_settings: The number of settings that were tried; ``None`` if accuracy is not scored, so that no
            condition has baselines.
    """
    if n_tried_settings is None:
        return {}
    baselines = {}
    for outcome in outcomes:
        if outcome.queries:
            baselines[outcome.condition.name] = baselines_of([outcome], n_tried_settings)
    return baselines


def baselines_of(outcomes: Sequence[Outcome], tried: int) -> Baselines:
    """Return the baselines of the accuracy of a condition, or of its mean accuracy over several data sets.

    Baselines predict without a model: random guessing, the most frequent label, and the label of the last
    demonstration. Each has an accuracy, and a p-value of the accuracy of the run against it.

    The accuracy and its baselines are those of all queries. A query without a prediction counts as wrong, so that a
    run cannot improve its p-values by leaving out the queries that it would get wrong.

    Args:
        outcomes: The outcome of each data set, with predictions.
        tried: The number of settings that were tried (:func:`settings_tried`).
    """
    from StaICC.metrics.fixed_baselines import p_value_against_labels  # only runs need them
    from StaICC.metrics.random_baselines import expected_best, guessing_p_value

    datasets = [_DatasetAccuracy.of(outcome) for outcome in outcomes]
    samples = [dataset.sample for dataset in datasets]
    accuracy = _mean([dataset.accuracy for dataset in datasets])
    one_guess_per_query = _guesses_of_queries(samples)
    one_guess_per_row = _guesses_of_rows(samples)
    against_majority = [dataset.against(_majority_labels(dataset.sample)) for dataset in datasets]
    n_labels = 0  # Several data sets have no common number of labels.
    if len(samples) == 1:
        n_labels = samples[0].n_labels
    baselines = Baselines(
        queries=sum(len(sample.truth) for sample in samples),
        labels=n_labels,
        uniform=_mean([1 / sample.n_labels for sample in samples]),
        majority=_mean_baseline_accuracy(against_majority),
        tried=tried,
        max_random=expected_best(one_guess_per_query, tried),
        p_value=guessing_p_value(one_guess_per_query, accuracy, tried),
        p_value_rows=guessing_p_value(one_guess_per_row, accuracy, tried),
        p_value_majority=p_value_against_labels(against_majority, tried),
        last_demonstration=None,
        p_value_last_demonstration=None,
    )

    if any(None in dataset.last_labels for dataset in datasets):
        # Some queries have no last demonstration with its true label, so this baseline does not exist.
        return baselines
    against_last = [dataset.against(dataset.last_labels) for dataset in datasets]
    return replace(
        baselines,
        last_demonstration=_mean_baseline_accuracy(against_last),
        p_value_last_demonstration=p_value_against_labels(against_last, tried),
    )


@dataclass(frozen=True, slots=True)
class _DatasetAccuracy:
    """All queries of a data set, and which of them the run predicts correctly."""

    sample: Sample
    """All queries, also those without a prediction."""
    is_correct: list[bool]
    """For each query whether its prediction is the true label."""
    last_labels: Sequence[int | None]
    """The label of the last demonstration of each query; ``None`` if it is not known."""

    @classmethod
    def of(cls, outcome: Outcome) -> _DatasetAccuracy:
        """Return the queries of an outcome, which is that of one data set."""
        sample = outcome.sample_of_all
        return cls(
            sample,
            is_correct=_correct(outcome.scored_predictions, sample.truth),
            last_labels=outcome.last_labels,
        )

    @property
    def accuracy(self) -> float:
        """The share of the queries that are predicted correctly."""
        return _share(self.is_correct)

    def against(self, labels: Sequence[int | None]) -> CorrectPredictions:
        """Return which queries the run predicts correctly, and which a baseline with fixed labels predicts correctly.

        Args:
            labels: The label that the baseline predicts for each query; ``None``, no prediction, counts as wrong.
        """
        from StaICC.metrics.fixed_baselines import CorrectPredictions

        baseline_is_correct = _correct(labels, self.sample.truth)
        return CorrectPredictions(self.sample, of_run=self.is_correct, of_baseline=baseline_is_correct)


_Guesses = tuple[tuple[float, int, int], ...]
"""Groups of equal random guesses. Each group has three numbers: how much one right guess adds to the mean accuracy, the
number of labels that a guess chooses from, and the number of guesses."""


def _guesses_of_queries(samples: Sequence[Sample]) -> _Guesses:
    """Return the guesses of a random guesser who guesses a label for each query.

    For one data set of 100 queries with 6 labels, they are ``((0.01, 6, 100),)``.

    Args:
        samples: All queries of each data set.
    """
    guesses = []
    for sample in samples:
        query_count = len(sample.truth)
        weight = 1 / (query_count * len(samples))
        guesses.append((weight, sample.n_labels, query_count))
    return tuple(guesses)


def _guesses_of_rows(samples: Sequence[Sample]) -> _Guesses:
    """Return the guesses of a random guesser who guesses a label for each test row, and uses it in all of its queries.

    For one data set of 50 test rows with 2 queries each and 6 labels, they are ``((0.02, 6, 50),)``. Test rows with
    equally many queries are one group.

    Args:
        samples: All queries of each data set.
    """
    guesses = []
    for sample in samples:
        query_count = len(sample.truth)
        for queries_per_row, row_count in sorted(Counter(sample.sizes).items()):
            weight = queries_per_row / (query_count * len(samples))
            guesses.append((weight, sample.n_labels, row_count))
    return tuple(guesses)


def _majority_labels(sample: Sample) -> list[int]:
    """Return the most frequent true label of a sample, once for each query; of several, the smallest index."""
    counts = Counter(sample.truth)
    most_frequent = max(sorted(counts), key=counts.__getitem__)
    return [most_frequent] * len(sample.truth)


def _correct(predictions: Sequence[int | None], truth: Sequence[int]) -> list[bool]:
    """Return for each query whether its prediction is the true label."""
    return [predicted == true_label for predicted, true_label in zip(predictions, truth, strict=True)]


def _mean_baseline_accuracy(datasets: Sequence[CorrectPredictions]) -> float:
    """Return the mean over data sets of the accuracy of a baseline."""
    return _mean([_share(dataset.of_baseline) for dataset in datasets])


def _share(is_correct: Sequence[bool]) -> float:
    """Return the share of correct predictions."""
    return sum(is_correct) / len(is_correct)


def _mean(values: Sequence[float]) -> float:
    """Return the mean of one or more numbers."""
    return math.fsum(values) / len(values)


# -- means over data sets


def averaged_keys(runs: RunsByDataset) -> list[str]:
    """Return the keys of the scores that enter the means over data sets, each once, in the order of the runs."""
    keys: dict[str, None] = {}
    for run in runs.values():
        keys |= dict.fromkeys(run.averaged)
    return list(keys)


def means_of(runs: RunsByDataset) -> MeanDetails:
    """Return the intervals and the baselines of the means over data sets.

    Args:
        runs: The run over each data set, by name.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    for key in averaged_keys(runs):
        all_values = [run.averaged.get(key) for run in runs.values()]
        values = [value for value in all_values if value is not None]
        if len(values) < len(all_values):
            continue  # The mean is undefined, and has a reason of its own.

        of_datasets = _intervals_for_mean(key, runs)
        if not of_datasets.reasons:
            intervals[key] = interval_of_mean(key, values, of_datasets.intervals, runs)
            continue
        stated_reasons = [reason for reason in of_datasets.reasons.values() if reason]
        if stated_reasons:
            missing[key] = f"no interval on {', '.join(of_datasets.reasons)}: {stated_reasons[0]}"
    return MeanDetails(intervals, missing, _baselines_of_means(runs))


@dataclass(frozen=True, slots=True)
class _IntervalsOfDatasets:
    """The intervals of a score on the single data sets, from which the interval of its mean is computed."""

    intervals: list[Interval]
    """In the order of the data sets, without those that have none."""
    reasons: dict[str, str]
    """The reason for each data set without an interval, by its name; an empty text if none is recorded."""


def _intervals_for_mean(key: str, runs: RunsByDataset) -> _IntervalsOfDatasets:
    """Return the intervals of a score on the single data sets.

    The interval of a data set may be too unreliable to be reported. It is used for the mean over several data sets
    nevertheless, where such errors average out.

    Args:
        key: The score.
        runs: The run over each data set, by name.
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
    return _IntervalsOfDatasets(intervals, reasons)


def interval_of_mean(key: str, values: Sequence[float], intervals: Sequence[Interval], runs: RunsByDataset) -> Interval:
    """Return the interval of the mean of a score over data sets.

    For a single data set, it is the interval of the score there. The range of the score may be another one on each data
    set: that of an entropy depends on the number of labels.

    Args:
        key: The score.
        values: Its value on each data set.
        intervals: Its interval on each data set.
        runs: The run over each data set, by name.
    """
    ranges = [run.ranges[key] for run in runs.values()]
    return mean_interval(values, intervals, ranges)


def _baselines_of_means(runs: RunsByDataset) -> dict[str, Baselines]:
    """Return the baselines of the mean accuracy of each condition, by name.

    A condition is left out if it has no baselines on one of the data sets, or if its predictions are free texts: such
    an outcome has no queries, and its task has baselines of its own.

    Args:
        runs: The run over each data set, by name. All have the same conditions in the same order.
    """
    all_runs = list(runs.values())
    first_run = all_runs[0]
    baselines = {}
    for condition_index, outcome in enumerate(first_run.outcomes):
        is_free_text = not outcome.queries
        if is_free_text:
            continue
        name = outcome.condition.name
        all_have_baselines = all(name in run.details.baselines for run in all_runs)
        if all_have_baselines:
            outcomes_by_dataset = [run.outcomes[condition_index] for run in all_runs]
            tried = first_run.details.baselines[name].tried  # number of settings that were tried
            baselines[name] = baselines_of(outcomes_by_dataset, tried=tried)
    return baselines
