"""The scores of a result by which it can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.argument_syntax import argument
from StaICC.metrics.scores import BASELINE_KEYS, HEADLINE
from StaICC.results.experiment_table import is_experiment
from StaICC.results.result import Result
from StaICC.results.score_names import column_head
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


def metric_key(result: Result, name: str) -> str:
    """Return the key of a score that a user named: by its key, or by the head of its column in tables.

    Args:
        result: A result that has the score.
        name: The name, such as ``"averaged_truelabel_likelihood"`` or ``"likelihood"``.

    Returns:
        The key; the name itself if the result has no score of this name.
    """
    keys = metrics_of(result)
    if name in keys:
        return name
    for key in keys:
        if column_head(key) == name:
            return key
    return name


def default_metric(result: Result) -> str | None:
    """Return the name of the score by which a result is compared by default.

    It is the main score of the benchmark. If the benchmark has none, or the result does not have that one, it is the
    first score of the result. For a result without scores it is ``"accuracy"``. The comparison then says that the
    result has no accuracy.

    Returns:
        The name; ``None`` for an experiment, whose conditions have no common mean.
    """
    if is_experiment(result):
        return None
    metrics = metrics_of(result)
    main_score = HEADLINE.get(result.benchmark)
    if main_score is not None and main_score in metrics:
        return main_score
    if metrics:
        return metrics[0]
    return "accuracy"


def scores_not_chosen(result: Result) -> tuple[str, ...]:
    """Return the names of all scores but the first, if :func:`default_metric` takes the first for want of a main one.

    A note lists them (:func:`first_score_note`): the first score is not more important than the others then. This is so
    for benchmarks of users, which have no main score.

    Returns:
        The names. They are empty if the default is the main score of the benchmark, or if there is no default, as for
        an experiment.
    """
    if is_experiment(result):
        return ()
    metrics = metrics_of(result)
    main_score = HEADLINE.get(result.benchmark)
    if main_score is not None and main_score in metrics:
        return ()
    return tuple(metrics[1:])


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
