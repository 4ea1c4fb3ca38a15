"""From the predictions of a data set to its scores.

The random baseline follows Yauney and Mimno (2024, arXiv 2404.13020). In the intervals of means, the data sets are
fixed and their rows independent: an interval says how the mean could move with other rows of the same data sets, not
with other data sets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import eq
from typing import Any

from StaICC.benchmarks.prompt_digests import digest_prompts
from StaICC.benchmarks.records import Written, condition_record, failed_queries
from StaICC.benchmarks.score_intervals import Intervals
from StaICC.benchmarks.task import Assumed, Condition, Outcome, Scorer, Scoring
from StaICC.benchmarks.warnings import find_warnings
from StaICC.errors import OutputError, UndefinedMetricError
from StaICC.inference.contract import Answer, dropped_demonstrations
from StaICC.inference.label_mass import mean_label_mass
from StaICC.inference.replies import Failure
from StaICC.metrics import released
from StaICC.metrics.intervals import Interval, NoInterval, mean_interval
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Mean, Statistic
from StaICC.results.details import Baselines, DatasetDetails, MeanDetails


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

    scale = len(outcomes)
    samples = [outcome.sample_of_all for outcome in outcomes]
    totals = [len(sample.truth) for sample in samples]
    labels = [sample.n_labels for sample in samples]
    correct = [
        list(map(eq, outcome.scored_predictions, sample.truth))
        for outcome, sample in zip(outcomes, samples, strict=True)
    ]

    def baseline(predictions: Iterable[Sequence[int | None]]) -> list[CorrectPredictions]:
        """Return the correct predictions of the run next to those of a baseline."""
        return [
            CorrectPredictions(sample, of_run, list(map(eq, of_dataset, sample.truth)))
            for sample, of_run, of_dataset in zip(samples, correct, predictions, strict=True)
        ]

    def mean_accuracy(of_datasets: Iterable[Sequence[bool]]) -> float:
        return math.fsum(sum(hits) / total for hits, total in zip(of_datasets, totals, strict=True)) / scale

    majority = baseline([[_most_frequent(sample.truth)] * len(sample.truth) for sample in samples])
    copied = [[query.last_label for query in outcome.condition.queries] for outcome in outcomes]
    last = None if None in chain(*copied) else baseline(copied)
    per_query = tuple((1 / (total * scale), count, total) for total, count in zip(totals, labels, strict=True))
    per_row = tuple(
        (size / (total * scale), count, rows)
        for sample, total, count in zip(samples, totals, labels, strict=True)
        for size, rows in sorted(Counter(sample.sizes).items())
    )
    accuracy = mean_accuracy(correct)
    return Baselines(
        queries=sum(totals),
        labels=labels[0] if scale == 1 else 0,
        uniform=math.fsum(1 / count for count in labels) / scale,
        majority=mean_accuracy(dataset.of_baseline for dataset in majority),
        tried=tried,
        max_random=expected_best(per_query, tried),
        p_value=guessing_p_value(per_query, accuracy, tried),
        p_value_rows=guessing_p_value(per_row, accuracy, tried),
        p_value_majority=p_value_against_labels(majority, tried),
        last_demonstration=None if last is None else mean_accuracy(dataset.of_baseline for dataset in last),
        p_value_last_demonstration=None if last is None else p_value_against_labels(last, tried),
    )


def _most_frequent(labels: Sequence[int]) -> int:
    """Return the most frequent label, the first of equally frequent ones."""
    counts = Counter(labels)
    return max(sorted(counts), key=counts.__getitem__)


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
    """
    unparsed = scoring.unparsed if task.scores_accuracy or scoring.unparsed == "error" else "excluded"

    def read(assume: Assumed) -> list[Outcome]:
        outcomes, left = [], iter(predictions)
        for condition in conditions:
            answers = list(islice(left, len(condition.queries)))
            try:
                outcomes.append(task.read_outcome(condition, answers, scoring.outputs, assume))
                _ = outcomes[-1].kind  # normalises now, so that the message can name the condition
            except OutputError as error:
                if task.free_text:
                    raise  # the message names the query
                place = f", condition {condition.name}" if len(conditions) > 1 else ""
                raise OutputError(f"{name}{place}: {error}") from error
        return outcomes

    outcomes = read("wrong" if unparsed == "wrong" else None)
    failures, replies = (failed_queries(outcomes, of_replies) for of_replies in (False, True))
    scores = task.score(outcomes, scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    if unparsed == "excluded" and task.scores_accuracy and replies:
        low, high = task.score(read("wrong"), scoring).averaged, task.score(read("right"), scoring).averaged
        bounds = {key: (low[key], high[key]) for key in scores.averaged if low[key] is not None}
    missing = dict(scores.missing)
    places = {key: key if key in scores.values else f"sensitivity.{key}" for key in scores.averaged}
    intervals = _intervals(task, scoring, outcomes, places.values(), missing)
    tried = settings_tried(task, scoring)
    seen: list[Written] = []
    prompts, marks = digest_prompts(chain.from_iterable(condition.queries for condition in conditions), seen)
    predicted = read(None) if unparsed == "wrong" and replies else outcomes  # by the model, not assumed for a reply
    left, notes = iter(seen), find_warnings(predicted, task.content_free, watched=task.scores_accuracy)
    if replies:
        examples = "; ".join(dict.fromkeys(reply.reason.removeprefix("unparsed reply ") for reply in replies[:3]))
        how = "count as wrong" if unparsed == "wrong" else "are excluded"
        notes += (f"{len(replies)} of {len(seen)} replies are unparsed and {how}, such as {examples}",)
    details = DatasetDetails(
        asked=len(seen),
        distinct=len({written[:2] for written in seen}),
        scored=sum(outcome.scored for outcome in outcomes),
        failed=len(failures) + (len(replies) if unparsed == "error" else 0),
        prompts=prompts,
        query_digests=marks,
        conditions=tuple(condition_record(outcome, [*islice(left, len(outcome.answers))]) for outcome in outcomes),
        missing=missing,
        notes=notes,
        intervals={key: own for key, own in intervals.items() if isinstance(own, Interval) and key not in missing},
        baselines={
            outcome.condition.name: baselines_of([outcome], tried)
            for outcome in outcomes
            if tried is not None and outcome.queries
        },
        failures=failures,
        unparsed=replies,
        bounds=bounds,
        label_mass=_label_masses(outcomes),
        dropped=_dropped(conditions, predictions),
        labels=next((own.queries[0].label_space for own in conditions if own.queries and not task.free_text), ()),
    )
    own = {key: intervals[place] for key, place in places.items() if place in intervals}
    statistics = scoring.metric_set.statistics
    return DatasetRun(
        scores.values,
        scores.averaged,
        details,
        outcomes,
        own,
        predictions,
        statistics=statistics,
        warnings=notes,
    )


def _label_masses(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the mean label mass of each condition whose predictions record it."""
    masses = {outcome.condition.name: mean_label_mass(outcome.answers) for outcome in outcomes}
    return {name: mass for name, mass in masses.items() if mass is not None}


def _dropped(conditions: Sequence[Condition], predictions: Sequence[Answer | Failure]) -> dict[str, tuple[int, int]]:
    """Return for each condition with shortened prompts how many there are, and how many demonstrations they lost."""
    dropped = {}
    left = iter(predictions)
    for condition in conditions:
        numbers = [dropped_demonstrations(answer) for answer in islice(left, len(condition.queries))]
        shortened = len(numbers) - numbers.count(0)
        if shortened:
            dropped[condition.name] = shortened, sum(numbers)
    return dropped


_EACH_INTERVAL = "interval of each score"
"""Key of the reason why no score of a data set has an interval."""


def _intervals(
    task: Scorer, scoring: Scoring, outcomes: Sequence[Outcome], places: Iterable[str], missing: dict[str, str]
) -> Intervals:
    """Return the intervals of a data set, and add the reasons for missing ones."""
    if not scoring.statistics.intervals or scoring.metric_set.as_released:
        return {}
    intervals: dict[str, Interval | NoInterval] = {}
    try:
        if task.free_text or all(outcome.queries for outcome in outcomes):
            intervals |= task.intervals(outcomes, scoring)
    except UndefinedMetricError as error:
        missing[_EACH_INTERVAL] = str(error)
        return {}
    for place in () if task.free_text else places:
        if place not in missing:
            intervals.setdefault(place, NoInterval("no confidence interval is known for this score", None))
    for key, interval in intervals.items():
        if isinstance(interval, NoInterval) and key not in missing:
            missing[f"interval of {key}"] = interval.reason
    return intervals


def settings_tried(task: Scorer, scoring: Scoring) -> int | None:
    """Return how many settings were tried, for the random baseline; ``None`` where accuracy is not scored.

    Another metric under the name ``accuracy`` has no baselines.
    """
    own = next((metric for metric in scoring.metric_set.metrics if metric.name == "accuracy"), None)
    scored = task.scores_accuracy and own is not None and (own.known or own.function is released.accuracy)
    return scoring.statistics.tried if scored else None


def means_of(runs: RunsByDataset) -> MeanDetails:
    """Return the intervals and the baselines of the means.

    Args:
        runs: The run over each data set, by name.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    for key in dict.fromkeys(key for run in runs.values() for key in run.averaged):
        values = [value for run in runs.values() if (value := run.averaged.get(key)) is not None]
        known: list[Interval] = []
        without: dict[str, str] = {}
        for name, run in runs.items():
            own = run.intervals.get(key, NoInterval(run.details.missing.get(_EACH_INTERVAL, ""), None))
            interval = own.approximate if isinstance(own, NoInterval) and len(runs) > 1 else own
            if isinstance(interval, Interval):
                known.append(interval)
            elif isinstance(own, NoInterval):
                without[name] = own.reason
        if len(values) == len(known) == len(runs):
            intervals[key] = interval_of_mean(key, values, known, runs)
        elif len(values) == len(runs) and any(without.values()):
            missing[key] = f"no interval on {', '.join(without)}: {next(filter(None, without.values()))}"
    return MeanDetails(intervals, missing, _baselines(runs))


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
    statistic = next(iter(runs.values())).statistics.get(key)
    low, top = statistic.range(0) if isinstance(statistic, Mean) else (0.0, 1.0)
    highest, width = 1.0, top - low
    if key in STATISTICS:
        spaces = [run.outcomes[0].condition.queries[0].label_space for run in runs.values()]
        highest = math.fsum(STATISTICS[key].range(len(space))[1] for space in spaces) / len(spaces)
    parts = [replace(own, low=(own.low - low) / width, high=(own.high - low) / width) for own in intervals]
    mean = mean_interval([(value - low) / width for value in values], parts, highest)  # in units of the range
    return replace(mean, low=low + width * mean.low, high=low + width * mean.high)


def _baselines(runs: RunsByDataset) -> dict[str, Baselines]:
    """Return the baselines of the mean accuracy of each condition that all data sets score."""
    first, *others = runs.values()
    return {
        outcome.condition.name: baselines_of([run.outcomes[place] for run in runs.values()], baselines.tried)
        for place, outcome in enumerate(first.outcomes)
        if outcome.queries  # free text has none
        and (baselines := first.details.baselines.get(outcome.condition.name)) is not None
        and all(outcome.condition.name in run.details.baselines for run in others)
    }
