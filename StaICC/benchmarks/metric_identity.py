"""The signature's field ``metrics``: sets of the library by name, metrics of the user by name and digest of code."""

from __future__ import annotations

from StaICC.inference.identity import identity_of
from StaICC.metrics import Metric, MetricSet, metric_set
from StaICC.registry import origin_of
from StaICC.results import escaped, short_digest

_SETS = ("standard", "0.1.1")


def is_of_library(metrics: MetricSet) -> bool:
    """Return whether the set is one of the library's, without further metrics."""
    return metrics in [metric_set(name) for name in _SETS]


def metrics_field(metrics: MetricSet) -> str:
    """Return the metrics as text; a digest of the code distinguishes functions of the same name.

    Args:
        metrics: The metric set.

    Returns:
        The name of the set; unless it is one of the library's, its further metrics. A metric of the user is written
        ``name@digest`` (with the distribution of a plug-in before the digest), and with ``unidentified`` where its code
        refers to something without a digest.

    Example:
        >>> metrics_field(metric_set("standard"))
        'standard'
    """
    if is_of_library(metrics):
        return metrics.name
    known = [metric_set(name) for name in _SETS]
    base = next((one for one in known if (metrics.parts[0], metrics.as_released) == (one.name, one.as_released)), None)
    parts = []
    if base is not None:
        parts.append(base.name)
    elif not metrics.metrics or metrics.parts[0] != metrics.metrics[0].label:
        parts.append(escaped(metrics.parts[0]))
    inherited = () if base is None else base.metrics
    parts += [_member(metric, known) for metric in metrics.metrics if metric not in inherited]
    parts += [f"without {escaped(one.name)}" for one in inherited if one not in metrics.metrics]
    if metrics.as_released and base is None:
        parts.append("as released")
    return "+".join(parts)


def _member(metric: Metric, known: list[MetricSet]) -> str:
    if any(metric == one for one_set in known for one in one_set.metrics if one.name == metric.name):
        return escaped(metric.name)
    identity = identity_of(metric.function)
    origin = origin_of(metric.function).replace(" ", "-")
    mark = "-unidentified" if identity.unidentified else ""
    code = short_digest([identity.digest, metric.requires_probabilities])
    return f"{escaped(metric.name)}@{f'{origin}-' if origin else ''}{code}{mark}"
