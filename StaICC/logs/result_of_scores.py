"""Results of scores: the runs of one model on several tasks, as a result that is compared, ranked, shown like others.

Each task is a data set, each document a test row, each repeat of a document a query. A metric is the mean over the
samples of a task, and the mean over tasks gives each task the same weight. Nothing here is about classification: such a
result has neither labels nor predictions, but the scores of the samples (``query_scores``) and their documents
(``samples``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference.identity import Identity
from StaICC.logs.metric_ranges import known_metric
from StaICC.logs.samples import LoggedRun, SampleScore
from StaICC.metrics.intervals import Interval, NoInterval, mean_interval
from StaICC.metrics.statistics import Mean, Sample, Share
from StaICC.results.details import SAMPLES, DatasetDetails, FailedQuery, LoggedSamples, MeanDetails, QueryScores
from StaICC.results.predictor import Predictor, Provenance, describe_environment
from StaICC.results.result import Result
from StaICC.results.signature import Signature, common, escaped, scoring_field, short_digest
from StaICC.version import __version__

LEVEL = 0.95
"""Nominal coverage of the intervals, the default of this library."""

_LEAST_DOCUMENTS = 2
"""Fewest documents with a score of which an interval is computed."""

_RESERVED = frozenset(
    {"metric", "rounds", "settings", "experiment", "distribution", "sensitivity", "uniform", "majority"}
)
"""Keys of scores that have another meaning in results; a metric cannot have such a name."""

_WITHOUT_RANGE = " has no interval and is untested: "
"""What the note about a metric without a known range says after its name, before the reason."""

Range = tuple[float, float]
"""The lowest and the highest possible value of a metric for one sample."""


@dataclass(frozen=True, slots=True)
class StatedMetrics:
    """What the user states about metrics."""

    ranges: Mapping[str, Range]
    """The range of metrics by name. It has precedence over that of the log and over the known one."""
    directions: Mapping[str, bool]
    """Whether higher values are better, by name of the metric. It has precedence, too."""
    other_range: Range | None = None
    """The range of all other metrics whose range is not known."""
    other_direction: bool | None = None
    """Whether higher values are better, for all other metrics whose direction is not known."""


NOTHING_STATED = StatedMetrics(ranges={}, directions={})


# -- what is known about a metric


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric of a result."""

    name: str
    range: Range | None
    """``None`` if it is not known."""
    higher_is_better: bool | None
    note: str | None
    """Why the range is not known; ``None`` if it is known."""

    def statistic(self, values: Sequence[float]) -> Mean | None:
        """Return the metric as a statistic that has an interval; ``None`` if its range is not known.

        Args:
            values: The values of all samples. If all of them are 0 or 1, the metric is a share.
        """
        if self.range is None:
            return None
        if self.range == (0.0, 1.0) and set(values) <= {0.0, 1.0}:
            return Share()
        return Mean(*self.range)


def _metric_of(name: str, runs: Sequence[LoggedRun], stated: StatedMetrics) -> _Metric:
    """Return what is known about a metric, from the user, from the logs, or from the table of known metrics.

    Raises:
        ArgumentError: A value is outside the range that the user states.
    """
    values = []
    for run in runs:
        values += _values_of(name, run.samples)
    lowest = min(values)
    highest = max(values)
    direction = _direction(name, runs, stated)
    documented_range = _documented_range(name, runs, lowest, highest)
    stated_range = stated.ranges.get(name)
    if stated_range is None and documented_range is None:
        stated_range = stated.other_range

    if stated_range is not None:
        _check_values(name, runs, stated_range)
        return _Metric(name, stated_range, direction, note=None)
    if documented_range is not None:
        return _Metric(name, documented_range, direction, note=None)
    note = f"{name}{_WITHOUT_RANGE}{_why_no_range(name, runs, lowest, highest)}"
    return _Metric(name, None, direction, note)


def _values_of(name: str, samples: Iterable[SampleScore]) -> list[float]:
    """Return the values of a metric, of the samples that have one."""
    return [sample.values[name] for sample in samples if name in sample.values]


def _check_values(name: str, runs: Sequence[LoggedRun], stated_range: Range) -> None:
    """Raise an ArgumentError if a sample has a value of a metric outside the range that the user states."""
    low, high = stated_range
    for run in runs:
        for sample in run.samples:
            value = sample.values.get(name)
            if value is not None and not low <= value <= high:
                raise ArgumentError(
                    f"{name}: a sample has the value {value:g}, which is outside the stated range {low:g} to {high:g}"
                )


def _documented_range(name: str, runs: Sequence[LoggedRun], lowest: float, highest: float) -> Range | None:
    """Return the range of a metric that all logs state, else the known one; ``None`` if a value is outside.

    Args:
        name: The metric.
        runs: The runs.
        lowest: The lowest value of a sample.
        highest: The highest value of a sample.
    """
    ranges = _candidate_ranges(name, runs)
    if len(ranges) != 1:
        return None
    low, high = ranges[0]
    if lowest < low or highest > high:
        return None
    return float(low), float(high)


def _candidate_ranges(name: str, runs: Sequence[LoggedRun]) -> list[Range]:
    """Return the different ranges that the logs state for a metric; the known one if none states it."""
    logged = dict.fromkeys(run.ranges[name] for run in runs if name in run.ranges)
    if logged:
        return list(logged)
    known = known_metric(name)
    if known is None:
        return []
    return [(known.low, known.high)]


def _why_no_range(name: str, runs: Sequence[LoggedRun], lowest: float, highest: float) -> str:
    """Return why the range of a metric is not known. The arguments are those of :func:`_documented_range`."""
    ranges = _candidate_ranges(name, runs)
    if not ranges:
        return "its range is not known"
    if len(ranges) > 1:
        return "its tasks have different ranges"
    low, high = ranges[0]
    outside = lowest if lowest < low else highest
    return f"a sample has the value {outside:g}, which is outside its usual range {low:g} to {high:g}"


def _direction(name: str, runs: Sequence[LoggedRun], stated: StatedMetrics) -> bool | None:
    """Return whether higher values of a metric are better; ``None`` if that is not known, or differs between tasks."""
    if name in stated.directions:
        return stated.directions[name]
    logged = {run.higher_is_better[name] for run in runs if name in run.higher_is_better}
    if len(logged) == 1:
        return logged.pop()
    known = known_metric(name)
    if known is not None and not logged:
        return known.higher_is_better
    return stated.other_direction


# -- the result


def result_of_runs(runs: Sequence[LoggedRun], stated: StatedMetrics = NOTHING_STATED) -> Result:
    """Return the result of one model on several tasks.

    Args:
        runs: The runs, one for each task, of one model and one harness.
        stated: What the user states about metrics.

    Raises:
        ArgumentError: No metric has a score for each sample, or a value is outside the range that the user states.
    """
    metrics = []
    for name in _metric_names(runs):
        metrics.append(_metric_of(name, runs, stated))
    if not metrics:
        raise _no_metric_error(runs)

    scores = _scores_of_runs(runs, metrics)
    return Result(
        benchmark=runs[0].harness,
        signature=_signature(runs, scores.details),
        provenance=_provenance(runs, scores.details),
        environment={**describe_environment(), **_harness_version(runs)},
        divided=scores.divided,
        averaged=scores.averaged,
        details=scores.details,
        means=scores.means,
        warnings=tuple(f"{run.task}: {note}" for run in runs for note in run.notes),
        higher_is_better={metric.name: metric.higher_is_better for metric in metrics},
        query_scores={metric.name: _query_scores(metric, runs) for metric in metrics},
        samples={run.task: _logged_samples(run) for run in runs},
    )


@dataclass(frozen=True, slots=True)
class RecomputedScores:
    """What follows from the scores of the samples of a result."""

    divided: dict[str, dict[str, Any]]
    """The scores by task."""
    averaged: dict[str, float | None]
    """Their means over the tasks."""
    details: dict[str, DatasetDetails]
    means: MeanDetails


def _scores_of_runs(runs: Sequence[LoggedRun], metrics: Sequence[_Metric]) -> RecomputedScores:
    """Return the scores of runs with their details."""
    details = {run.task: _details(run, metrics) for run in runs}
    divided: dict[str, dict[str, Any]] = {run.task: _values(run, metrics) for run in runs}
    averaged = _means(divided, metrics)
    return RecomputedScores(divided, averaged, details, _mean_details(divided, details, metrics, averaged))


def _no_metric_error(runs: Sequence[LoggedRun]) -> ArgumentError:
    """Return the error about runs without a metric that has a score for each sample."""
    reasons: dict[str, None] = {}
    for run in runs:
        for name, reason in run.not_scores.items():
            reasons[f"{name}: {reason}"] = None
    listed = "; ".join(reasons)
    if not listed:
        listed = "the log has no metrics"
    return ArgumentError(f"{runs[0].path}: no metric has a number for each sample ({listed})")


def _metric_names(runs: Sequence[LoggedRun]) -> list[str]:
    """Return the names of the metrics that at least one sample has, in the order of the logs."""
    names: dict[str, None] = {}
    for run in runs:
        names.update(dict.fromkeys(name for name in run.metrics if _why_reserved(name) is None))
    return list(names)


def _why_reserved(name: str) -> str | None:
    """Return why a metric cannot have a name; ``None`` if it can."""
    if name in _RESERVED or name.startswith("sensitivity."):
        return "results have another meaning for its name; rename it in the task"
    return None


def _query_scores(metric: _Metric, runs: Sequence[LoggedRun]) -> QueryScores:
    """Return the scores of all samples by a metric, with its range."""
    low = None
    high = None
    if metric.range is not None:
        low, high = metric.range
    values = {}
    for run in runs:
        if metric.name in run.metrics:
            values[run.task] = {SAMPLES: tuple(sample.values.get(metric.name) for sample in run.samples)}
    return QueryScores(low, high, values)


def _logged_samples(run: LoggedRun) -> LoggedSamples:
    """Return the documents of a run, in the order of its samples."""
    return LoggedSamples(
        documents=tuple(sample.document for sample in run.samples),
        repeats=tuple(sample.repeat for sample in run.samples),
        digests=tuple(sample.digest for sample in run.samples),
        task_version=run.task_version,
    )


# -- the same from a saved result


def recomputed_scores(result: Result) -> RecomputedScores:
    """Compute the scores of a result that was read from logs again, from its samples.

    Args:
        result: The result.

    Raises:
        SchemaError: The samples and their scores do not fit together.
    """
    runs = [_run_of_dataset(result, dataset) for dataset in result.samples]
    metrics = []
    for name, scores in result.query_scores.items():
        metrics.append(_Metric(name, _saved_range(scores), result.higher_is_better.get(name), note=None))
    return _scores_of_runs(runs, metrics)


def _saved_range(scores: QueryScores) -> Range | None:
    """Return the range of a metric of a saved result; ``None`` if it is not known."""
    if scores.low is None or scores.high is None:
        return None
    return scores.low, scores.high


def with_stated_metrics(result: Result, stated: StatedMetrics) -> Result:
    """Return a result of logs with the ranges and directions of metrics that the user states.

    Args:
        result: A result that was read from logs, such as a saved one. Other results are returned unchanged.
        stated: What the user states.

    Raises:
        ArgumentError: A sample has a value outside the stated range.
    """
    if not result.samples or stated == NOTHING_STATED:
        return result
    runs = [_run_of_dataset(result, dataset) for dataset in result.samples]
    metrics = []
    for name in result.query_scores:
        metric = _saved_metric_with(name, result, stated)
        if metric.range is not None:
            _check_values(name, runs, metric.range)
        metrics.append(metric)

    # Metrics whose range is known now have intervals, and no notes any more that they have none.
    outdated_notes = tuple(f"{metric.name}{_WITHOUT_RANGE}" for metric in metrics if metric.range is not None)
    details = {}
    for run in runs:
        saved = result.details[run.task]
        notes = tuple(note for note in saved.notes if not note.startswith(outdated_notes))
        details[run.task] = replace(saved, intervals=_details(run, metrics).intervals, notes=notes)
    return replace(
        result,
        details=details,
        means=_mean_details(result.divided, details, metrics, result.averaged),
        higher_is_better={metric.name: metric.higher_is_better for metric in metrics},
        query_scores={metric.name: _query_scores(metric, runs) for metric in metrics},
    )


def _saved_metric_with(name: str, result: Result, stated: StatedMetrics) -> _Metric:
    """Return a metric of a saved result with what the user states about it, or about all unknown metrics."""
    value_range = stated.ranges.get(name)
    if value_range is None:
        value_range = _saved_range(result.query_scores[name])
    if value_range is None:
        value_range = stated.other_range
    direction = stated.directions.get(name, result.higher_is_better.get(name))
    if direction is None:
        direction = stated.other_direction
    return _Metric(name, value_range, direction, note=None)


def _run_of_dataset(result: Result, dataset: str) -> LoggedRun:
    """Return the samples of a data set of a result with their values, as they were when the log was read.

    Raises:
        SchemaError: A metric has another number of scores than there are samples.
    """
    logged = result.samples[dataset]
    n_samples = len(logged.documents)
    values: list[dict[str, float]] = [{} for _ in range(n_samples)]
    for name, query_scores in result.query_scores.items():
        scores = query_scores.values.get(dataset, {}).get(SAMPLES)
        if scores is None:
            continue
        if len(scores) != n_samples:
            raise SchemaError(f"{dataset}: {len(scores)} scores by {name}, expected {n_samples}")
        for values_of_sample, score in zip(values, scores, strict=True):
            if score is not None:
                values_of_sample[name] = score

    reasons = {failure.query: failure.reason for failure in result.details[dataset].failures}
    samples = []
    for number in range(n_samples):
        samples.append(
            SampleScore(
                document=logged.documents[number],
                repeat=logged.repeats[number],
                digest=logged.digests[number],
                values=values[number],
                reason=reasons.get(number),
            )
        )
    return LoggedRun(path="", harness=result.benchmark, model=result.model, task=dataset, samples=tuple(samples))


# -- scores of one task


def _values(run: LoggedRun, metrics: Sequence[_Metric]) -> dict[str, float]:
    """Return the mean over the samples of each metric that the task has."""
    means = {}
    for metric in metrics:
        values = _values_of(metric.name, run.samples)
        if values:
            means[metric.name] = math.fsum(values) / len(values)
    return means


def _details(run: LoggedRun, metrics: Sequence[_Metric]) -> DatasetDetails:
    """Return counts, intervals and notes of a task."""
    failures = []
    for number, sample in enumerate(run.samples):
        if sample.values:
            continue
        reason = "the log has no score of this sample"
        if sample.reason is not None:
            reason = sample.reason
        failures.append(FailedQuery(SAMPLES, number, reason))
    intervals = {}
    for metric in metrics:
        interval = _interval(run, metric)
        if interval is not None:
            intervals[metric.name] = interval
    return DatasetDetails(
        asked=len(run.samples),
        distinct=len({sample.document for sample in run.samples}),
        scored=len(run.samples) - len(failures),
        failed=len(failures),
        prompts="" if run.prompts is None else run.prompts,
        query_digests="",
        conditions=(),
        missing=_left_out(run),
        notes=tuple(_notes(run, metrics)),
        intervals=intervals,
        failures=tuple(failures),
        data=_data_digest(run),
    )


def _interval(run: LoggedRun, metric: _Metric) -> Interval | None:
    """Return the interval of a metric of a task; ``None`` if its range is not known, or too few documents have it.

    The unit is the document: the samples of one document depend on each other.
    """
    values = _values_of(metric.name, run.samples)
    statistic = metric.statistic(values)
    sample = _sample_by_document(run, metric.name)
    if statistic is None or sample.n_rows < _LEAST_DOCUMENTS:
        return None
    interval = statistic.interval(sample, values, LEVEL)
    if isinstance(interval, NoInterval):
        return None
    return interval


def _sample_by_document(run: LoggedRun, metric: str) -> Sample:
    """Return the samples of a task that have a score by a metric as queries, with the documents as test rows.

    Documents are numbered in the order of their first sample. They have no labels, so that all labels are 0.
    """
    row_of_document: dict[str, int] = {}
    rows = []
    for sample in run.samples:
        if metric in sample.values:
            rows.append(row_of_document.setdefault(sample.document, len(row_of_document)))
    return Sample(truth=[0] * len(rows), rows=rows, n_rows=len(row_of_document), n_labels=0)


def _left_out(run: LoggedRun) -> dict[str, str]:
    """Return the metrics of a log that the result does not have, with the reasons."""
    reasons = dict(run.not_scores)
    for name in run.metrics:
        reason = _why_reserved(name)
        if reason is not None:
            reasons[name] = reason
    return reasons


def _notes(run: LoggedRun, metrics: Sequence[_Metric]) -> Iterator[str]:
    """Yield sentences about a task: what is unusual in its log, and which metrics are untested."""
    yield from run.notes
    for metric in metrics:
        if metric.note is not None and metric.name in run.metrics:
            yield metric.note
        n_documents = len({sample.document for sample in run.samples if metric.name in sample.values})
        if 0 < n_documents < _LEAST_DOCUMENTS:
            yield f"{metric.name} has no interval: one document has a score, expected at least {_LEAST_DOCUMENTS}"


def _data_digest(run: LoggedRun) -> str | None:
    """Return a digest of the documents of a task; ``None`` if the log does not have those of all samples."""
    digests = {}
    for sample in run.samples:
        if sample.digest is None:
            return None
        digests[sample.document] = sample.digest
    return short_digest(sorted(digests.items()))


# -- means over tasks


def _means(divided: Mapping[str, Mapping[str, float]], metrics: Sequence[_Metric]) -> dict[str, float | None]:
    """Return the mean over the tasks of each metric; ``None`` if a task does not have the metric."""
    means: dict[str, float | None] = {}
    for metric in metrics:
        values = [scores[metric.name] for scores in divided.values() if metric.name in scores]
        means[metric.name] = None
        if len(values) == len(divided):
            means[metric.name] = math.fsum(values) / len(values)
    return means


def _mean_details(
    divided: Mapping[str, Mapping[str, float]],
    details: Mapping[str, DatasetDetails],
    metrics: Sequence[_Metric],
    averaged: Mapping[str, float | None],
) -> MeanDetails:
    """Return the intervals of the means over tasks, and why a mean has none.

    Args:
        divided: The scores by task.
        details: The details of each task, which have the intervals of its scores.
        metrics: The metrics. One without a known range has no interval; the tasks have a note that says so.
        averaged: The mean of each metric; ``None`` if a task does not have the metric.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    for metric in metrics:
        name = metric.name
        if averaged[name] is None:
            count = sum(name in scores for scores in divided.values())
            missing[name] = f"{count} of {len(divided)} tasks have this metric"
            continue
        if metric.range is None:
            continue
        tasks_without = [task for task in divided if name not in details[task].intervals]
        if tasks_without:
            missing[name] = f"{tasks_without[0]} has no interval"
            continue
        values = [scores[name] for scores in divided.values()]
        intervals_of_tasks = [details[task].intervals[name] for task in divided]
        ranges = [metric.range] * len(values)
        intervals[name] = mean_interval(values, intervals_of_tasks, ranges)
    return MeanDetails(intervals, missing)


# -- settings and provenance


def _signature(runs: Sequence[LoggedRun], details: Mapping[str, DatasetDetails]) -> Signature:
    """Return the settings of the runs that can change their scores."""
    tasks = []
    for run in runs:
        task = escaped(run.task)
        if run.task_version is not None:
            task += f"@{escaped(run.task_version)}"
        tasks.append(task)
    fields: dict[str, str | None] = {
        "benchmark": escaped(runs[0].harness),
        "datasets": "+".join(tasks),
        "k": common([_shots(run) for run in runs]),
        "version": __version__,
    }
    if all(of_task.data for of_task in details.values()):
        fields["data"] = short_digest([[task, of_task.data] for task, of_task in sorted(details.items())])
    if all(of_task.prompts for of_task in details.values()):
        fields["prompts"] = short_digest([of_task.prompts for of_task in details.values()])
    settings = _common_settings(runs)
    if settings:
        fields["scoring"] = scoring_field(settings)
    failed = sum(of_task.failed for of_task in details.values())
    if failed > 0:
        fields["failed"] = str(failed)
    return Signature(fields)


def _shots(run: LoggedRun) -> str | None:
    """Return the number of demonstrations of a run as text; ``None`` if it is not known."""
    if run.fewshot is None:
        return None
    return str(run.fewshot)


def _common_settings(runs: Sequence[LoggedRun]) -> dict[str, str]:
    """Return the settings of all runs by name (:func:`_joined_settings`)."""
    return _joined_settings({run.task: run.settings for run in runs})


def _joined_settings(settings_by_task: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the settings of all tasks by name. One that differs between tasks has the name of the task after its own.

    If the tasks a and b have different ``limit``, the names are ``limit (a)`` and ``limit (b)``.
    """
    names: dict[str, None] = {}
    for settings in settings_by_task.values():
        names.update(dict.fromkeys(settings))
    joined = {}
    for name in names:
        values = {settings.get(name) for settings in settings_by_task.values()}
        if len(values) == 1:
            joined[name] = str(values.pop())
            continue
        for task, settings in settings_by_task.items():
            if name in settings:
                joined[f"{name} ({task})"] = settings[name]
    return joined


def _facts_about(run: LoggedRun) -> dict[str, str]:
    """Return the settings of a run with the number of demonstrations and the version of the task."""
    facts = dict(run.settings)
    if run.fewshot is not None:
        facts["k"] = str(run.fewshot)
    if run.task_version is not None:
        facts["task version"] = run.task_version
    return facts


def _harness_version(runs: Sequence[LoggedRun]) -> dict[str, str]:
    """Return the version of the harness under its name; nothing if the log does not say it."""
    versions = dict.fromkeys(run.harness_version for run in runs if run.harness_version is not None)
    if not versions:
        return {}
    return {runs[0].harness: ", ".join(versions)}


def _provenance(runs: Sequence[LoggedRun], details: Mapping[str, DatasetDetails]) -> Provenance:
    """Return who predicted: the model as the log names it.

    A name does not identify weights. The commit of a repository of the hub (``sha``) does.
    """
    first = runs[0]
    who = {"model": first.model, **first.model_settings, **_harness_version(runs)}
    unidentified: tuple[str, ...] = ()
    if not first.model_settings.get("sha"):
        unidentified = ("the log names the model, and does not identify its weights",)
    settings = _joined_settings({run.task: _facts_about(run) for run in runs})
    dates = [run.date for run in runs if run.date is not None]
    predictor = Predictor(
        name=None,
        identity=Identity(who, settings).digest,
        who=who,
        how=settings,
        unidentified=unidentified,
        datasets=tuple(run.task for run in runs),
        started=min(dates, default=""),
        finished=max(dates, default=""),
        failed=sum(of_task.failed for of_task in details.values()),
    )
    return Provenance((predictor,))
