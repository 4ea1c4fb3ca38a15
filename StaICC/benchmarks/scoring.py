"""Scores of one outcome by a metric set and by the user's own metrics: what tasks share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.audit import DECIDED_BY_ORDER, blocking_reason
from StaICC.benchmarks.task import Outcome
from StaICC.errors import ArgumentError, UndefinedMetricError

if TYPE_CHECKING:
    from StaICC.benchmarks.experimentor import Experimentor

__all__ = ["NO_ANSWERS", "attempt", "classification_scores", "condition_missing"]

NO_ANSWERS = "no query has an answer"


def attempt(missing: dict[str, str], key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compute a value that may be undefined.

    Args:
        missing: Gets the reason under the key.
        key: Name of the value.
        function: Computes it.
        arguments: What to compute it from.

    Returns:
        The value, or ``None`` if the function says that it is undefined.
    """
    try:
        value = function(*arguments)
    except UndefinedMetricError as error:
        missing[key] = str(error)
        return None
    if not all(map(math.isfinite, value if isinstance(value, list) else [value])):
        missing[key] = f"the value is {value}"
        return None
    return value


def _figure(name: str, metric: Callable[..., Any], truth: list[int], rows: list[list[float]]) -> Any:
    """Compute a user's metric.

    Raises:
        ArgumentError: It raised something else than :class:`~StaICC.errors.UndefinedMetricError`, or gave no number.
    """
    try:
        value = metric(truth, rows)
    except UndefinedMetricError:
        raise
    except Exception as error:
        raise ArgumentError(f"the metric {name!r} raised {type(error).__name__}: {error}") from error
    if value is None:
        raise UndefinedMetricError("the metric returned None")
    if isinstance(value, (bool, str, bytes, complex)) or not hasattr(value, "__float__"):
        raise ArgumentError(f"the metric {name!r} returned {value!r} of type {type(value).__name__}, expected a number")
    if not math.isfinite(value):
        raise UndefinedMetricError(f"the metric returned {value}")
    return float(value)


def classification_scores(experimentor: Experimentor, outcome: Outcome) -> tuple[dict[str, Any], dict[str, str]]:
    """Score an outcome by the experimentor's metrics.

    Args:
        experimentor: Gives the metric set, the user's metrics, and how to read numbers.
        outcome: The answers.

    Returns:
        Values by metric (``None`` where undefined), and the reasons for those.
    """
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    metric_set, own = experimentor.metric_set, experimentor.own_metrics
    if not outcome.queries:
        names = [*(metric.name for metric in metric_set.metrics), *own]
        return dict.fromkeys(names), dict.fromkeys(names, NO_ANSWERS)
    blocked = None if metric_set.as_released else blocking_reason(outcome)
    for name, score in metric_set.score(outcome.truth, outcome.rows, experimentor.outputs, outcome.hard).items():
        reason = blocked if name in DECIDED_BY_ORDER and blocked else score.reason
        values[name] = None if reason else score.value
        if values[name] is None:
            missing[name] = reason or "undefined on this input"
    for name, metric in own.items():
        copies = list(outcome.truth), [list(row) for row in outcome.rows]
        values[name] = attempt(missing, name, _figure, name, metric, *copies)
    return values, missing


def condition_missing(condition: str, missing: dict[str, str]) -> dict[str, str]:
    """Prefix the reasons of one condition with its name."""
    return {f"{condition}.{name}": reason for name, reason in missing.items()}
