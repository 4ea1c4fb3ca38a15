"""The table of the page about logs: metrics of other harnesses whose range is known."""

from __future__ import annotations

from markup import code, plain, table

from StaICC.logs.metric_ranges import KNOWN_METRICS

__all__ = ["known_metrics_table"]


def known_metrics_table() -> str:
    """Return a table of the metrics whose range is known, with what the value of a sample is."""
    rows = []
    for metric in KNOWN_METRICS.values():
        direction = "higher" if metric.higher_is_better else "lower"
        rows.append([code(metric.name), f"{metric.low:g} to {metric.high:g}", direction, plain(metric.meaning)])
    return table(["metric", "range", "better", "value of a sample"], rows)
