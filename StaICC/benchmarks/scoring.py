"""Scores of one outcome by a metric set; tasks share these functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from StaICC.benchmarks.diagnostics import DECIDED_BY_ORDER, reason_undefined
from StaICC.benchmarks.outcome import Outcome
from StaICC.errors import UndefinedMetricError
from StaICC.metrics import MetricSet

NO_PREDICTIONS = "no query has a prediction"


def attempt(missing: dict[str, str], key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compute a value that may be undefined.

    Args:
        missing: The reason is added to it under the key.
        key: Name of the value.
        function: Computes the value.
        arguments: The arguments of the function.

    Returns:
        The value; ``None`` if it is undefined or not finite.
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


def classification_scores(outcome: Outcome, metric_set: MetricSet) -> tuple[dict[str, Any], dict[str, str]]:
    """Score an outcome with the metrics of a set.

    Returns:
        Values by metric (``None`` where undefined), and the reasons for undefined ones.
    """
    if not outcome.queries:
        names = [metric.name for metric in metric_set.metrics]
        return dict.fromkeys(names), dict.fromkeys(names, NO_PREDICTIONS)
    normalised = None if metric_set.as_released else outcome.normalised
    undefined = None if metric_set.as_released else reason_undefined(outcome)
    scores = metric_set.score(outcome.truth, outcome.rows, outcome.outputs, outcome.hard, normalised)
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for metric in metric_set.metrics:
        score = scores[metric.name]
        reason = undefined if undefined and metric.known and metric.name in DECIDED_BY_ORDER else score.reason
        values[metric.name] = None if reason else score.value
        if values[metric.name] is None:
            missing[metric.name] = reason or "undefined on this input"
    return values, missing


def condition_missing(condition: str, missing: dict[str, str]) -> dict[str, str]:
    """Prefix the reasons of one condition with its name."""
    return {f"{condition}.{name}": reason for name, reason in missing.items()}
