"""Scores as figures show them: with interval, baselines, marks, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.metrics.intervals import Interval
from StaICC.report.html import Missing
from StaICC.results.left_out import with_marks
from StaICC.results.result import Result
from StaICC.results.score_records import score_records

SLOPES = (
    benchmark_names.GLER,
    benchmark_names.TEMPLATE_SENSITIVITY,
    benchmark_names.DEMONSTRATION_SENSITIVITY,
)
"""Benchmarks whose scores of a data set are under ``sensitivity``."""


class ChartScore(NamedTuple):
    """A score with its interval and its baselines."""

    value: float | None = None
    interval: Interval | None = None
    reason: str = "not recorded"
    """Why there is no value, or no interval."""
    random: float | None = None
    """The expected best accuracy of guessing."""
    majority: float | None = None
    """The accuracy of the most frequent label."""
    left_out: int = 0
    """Number of queries that it leaves out."""
    stopped_early: bool = False
    """Whether the run stopped early."""

    @property
    def cell(self) -> str:
        """The value as a cell of a table, with its marks. Without a value it is a :class:`Missing`: ``-`` as text.

        The page shows the reason of such a cell on hovering.
        """
        if self.value is None:
            return Missing(self.reason)
        return with_marks(f"{self.value:.4f}", self.left_out, self.stopped_early)

    @property
    def interval_cell(self) -> str:
        """The interval as a cell of a table; ``-`` with the reason if there is none."""
        if self.interval is None:
            return Missing(self.reason)
        return f"{self.interval.low:.3f} .. {self.interval.high:.3f}"


NOT_EVALUATED = ChartScore(reason="data set not evaluated")


def mean_key(benchmark: str, metric: str) -> str:
    """Return the key of the mean of a metric in :func:`scores_of`.

    Args:
        benchmark: Name of the benchmark.
        metric: The metric.
    """
    if benchmark in SLOPES:
        return f"sensitivity.{metric}"
    return metric


Scores = dict[tuple[str | None, str], ChartScore]
"""Scores by data set (``None``: the mean) and key."""


def scores_of(result: Result) -> Scores:
    """Return every score with its interval, or the reason why it is undefined.

    Args:
        result: The result.

    Returns:
        The scores by data set and key. Nested keys are joined by dots; a mean has the key of the scores that it
        averages.
    """
    scores: Scores = {}
    for record in score_records(result):
        dataset = record["dataset"]
        key = record["metric"]
        score = _score_of_record(record)
        if dataset is None:  # the means come last
            key = mean_key(result.benchmark, key)
            reason = _undefined_on(scores, key, datasets=list(result.divided))
            if reason:
                score = score._replace(reason=reason)
        scores[dataset, key] = score
    return scores


def _score_of_record(record: Mapping[str, Any]) -> ChartScore:
    """Return the score of a record (:func:`~StaICC.results.score_records.records_of_scores`) for a figure."""
    interval = None
    if record["low"] is not None:
        interval = Interval(record["low"], record["high"], record["level"], "")
    return ChartScore(
        value=record["value"],
        interval=interval,
        reason=record["missing"] or "not recorded",
        random=record["random"],
        majority=record["majority"],
        left_out=record["left_out"],
        stopped_early=record["stopped_early"],
    )


def _undefined_on(scores: Scores, key: str, datasets: list[str]) -> str:
    """Return the reason why a mean over data sets is undefined: the data sets on which the score is undefined.

    Args:
        scores: The scores of a result, by data set and key.
        key: The key of the score.
        datasets: The data sets of the result.

    Returns:
        The reason; empty if the score is defined on all data sets.
    """
    with_score = [name for name in datasets if (name, key) in scores]
    undefined = [name for name in with_score if scores[name, key].value is None]
    if not undefined:
        return ""
    if len(undefined) == len(with_score):
        return f"undefined on all {len(with_score)} data sets"
    return f"undefined on {', '.join(undefined)}"
