"""How a run defines the metric by which it is compared."""

from __future__ import annotations

from dataclasses import dataclass

from StaICC.comparing.run_records import NotComparableError
from StaICC.metrics.scores import score_record
from StaICC.metrics.statistics import Mean, MeanOfUnknownRange, Statistic
from StaICC.results.result import Result


@dataclass(frozen=True, slots=True)
class SavedScores:
    """The range and the direction of a metric of the user's own, whose score of each query is saved in the run."""

    low: float | None
    """The lowest possible score; ``None`` if it is not known."""
    high: float | None
    higher_is_better: bool | None


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """What must be the same in two runs, so that both have the same metric."""

    benchmark: str
    is_log: bool
    """Whether the run was read from the logs of another harness."""
    saved_scores: SavedScores | None
    """For a metric of the user's own; ``None`` for a metric that is computed from the predictions."""


def metric_definition(result: Result, metric: str) -> MetricDefinition:
    """Return how a run defines a metric."""
    saved_scores = None
    scores = result.query_scores.get(metric)
    if scores is not None:
        direction = score_record(result.benchmark, metric, result.higher_is_better).higher_is_better
        saved_scores = SavedScores(scores.low, scores.high, direction)
    return MetricDefinition(result.benchmark, is_log=bool(result.samples), saved_scores=saved_scores)


def statistic_of(result: Result, metric: str) -> Statistic:
    """Return a metric of a run as a statistic. Saved scores of queries have their mean.

    Raises:
        NotComparableError: The metric cannot be recomputed from the records of the run.
    """
    saved_scores = metric_definition(result, metric).saved_scores
    if saved_scores is not None:
        if saved_scores.low is None or saved_scores.high is None:
            return MeanOfUnknownRange()
        return Mean(saved_scores.low, saved_scores.high)
    statistic = score_record(result.benchmark, metric, result.higher_is_better).statistic
    if statistic is not None:
        return statistic
    is_of_user = metric in result.higher_is_better
    if is_of_user:
        raise NotComparableError(_not_recomputed(metric))
    raise NotComparableError(
        f"{metric} is a score that only the benchmark {result.benchmark} computes; there is no paired test for it"
    )


def why_other_metrics(first: MetricDefinition, second: MetricDefinition, metric: str) -> str | None:
    """Return why two runs have other metrics of one name; ``None`` if they have the same metric.

    Scores of queries that are saved in both runs are compared whatever the benchmarks are, if range and direction are
    the same.
    """
    both_saved = first.saved_scores is not None and second.saved_scores is not None
    if both_saved and first.saved_scores == second.saved_scores:
        return None
    if both_saved and first.is_log and second.is_log:
        return f"the logs have other ranges or directions of {metric}: state them for all runs"
    if first.benchmark != second.benchmark:
        return f"the runs are of other benchmarks: {first.benchmark}, {second.benchmark}"
    if first.saved_scores is not None or second.saved_scores is not None:
        return _not_recomputed(metric)
    return None


def _not_recomputed(metric: str) -> str:
    """Return the reason why a metric of the user's own cannot be compared."""
    return (
        f"{metric} cannot be recomputed from a file: it is no metric of this library, and not in all runs a "
        "MeanOf with the same range and direction"
    )
