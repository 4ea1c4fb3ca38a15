"""The scores of a result by which it can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.argument_syntax import argument
from StaICC.metrics.scores import BASELINE_KEYS, HEADLINE
from StaICC.results.experiment_table import is_experiment
from StaICC.results.result import Result
from StaICC.results.score_records import single_scores

_NOT_SCORES = frozenset({"distribution", *BASELINE_KEYS})
"""Keys of the means of a result that say nothing about its model."""


def metrics_of(result: Result) -> list[str]:
    """Return the names of the scores of a result that have a mean over data sets.

    For an experiment, these are the names of its conditions: the mean over its conditions is no score.
    """
    metrics = [name for name in result.averaged if name not in _NOT_SCORES]
    if is_experiment(result):
        return [name for name in metrics if name != "mean"]
    return metrics


def default_metric(result: Result) -> str | None:
    """Return the name of the score by which a result is compared by default.

    It is the main score of the benchmark. If the result does not have that one, it is its first score.

    Returns:
        The name; ``None`` for an experiment, whose conditions have no common mean.
    """
    if is_experiment(result):
        return None
    metrics = metrics_of(result)
    headline = HEADLINE.get(result.benchmark)
    if headline in metrics:
        return headline
    if metrics:
        return metrics[0]
    return "accuracy"


def scores_not_chosen(result: Result) -> tuple[str, ...]:
    """Return the names of the other scores if :func:`default_metric` took the first score of a result.

    It does so for benchmarks without a main score, such as those of users; no other score is less important then. The
    names are empty if the benchmark has a main score.
    """
    if is_experiment(result) or HEADLINE.get(result.benchmark) in metrics_of(result):
        return ()
    return tuple(metrics_of(result)[1:])


def first_score_note(other_metrics: Sequence[str]) -> str:
    """Return the sentence that runs are compared by the first score of a benchmark without a main one.

    Args:
        other_metrics: The names of its other scores (:func:`scores_not_chosen`).
    """
    others = f"others ({argument('metric')}): {', '.join(other_metrics)}"
    return f"this is the first score of the benchmark, which has no main one; {others}"


def saved_value(scores: Mapping[str, Any], metric: str) -> float | None:
    """Return the saved value of a score on a data set; ``None`` if it is absent or undefined.

    Some benchmarks save the sensitivity of a score to the conditions, such as a slope, in place of the score. It has
    the key ``sensitivity.<metric>``.

    Args:
        scores: The saved scores of the data set.
        metric: Name of the score.
    """
    values = dict(single_scores(scores))
    if metric in values:
        return values[metric]
    return values.get(f"sensitivity.{metric}")
