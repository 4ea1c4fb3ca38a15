"""Scores as the evaluation results of a model card."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from StaICC.results.left_out import with_marks
from StaICC.results.protocol import ResultsLike
from StaICC.results.score_records import score_records

_HUB_METRICS = {"macro_F1": "f1"}
"""Names of metrics on the model hub, where they differ from the keys."""


def model_index(results: Iterable[ResultsLike]) -> list[dict[str, Any]]:
    """Return scores as the evaluation results of a model card (``model-index`` of the model hub's metadata).

    Args:
        results: Results and groups of results.

    Returns:
        One entry for each model, with one evaluation for each data set (and the mean) of each benchmark and signature.
        Undefined scores are left out. The name of a score says how many queries it leaves out, and whether the run
        stopped early.
    """
    models: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for record in (record for result in results for record in score_records(result) if record["value"] is not None):
        benchmark, signature, dataset = record["benchmark"], record["signature"], record["dataset"]
        dataset = dataset or "mean over data sets"
        empty: dict[str, Any] = {
            "task": {"type": "text-classification", "name": f"StaICC {benchmark}, {record['method']}"},
            "dataset": {"type": dataset, "name": dataset, "split": "test", "args": {"signature": signature}},
            "metrics": [],
        }
        evaluation = models.setdefault(record["model"], {}).setdefault((benchmark, signature, dataset), empty)
        metric = {"type": _HUB_METRICS.get(record["metric"], record["metric"])}
        details = {name: record[name] for name in ("low", "high", "level") if record[name] is not None}
        metric["name"] = with_marks(record["metric"], record["left_out"], record["stopped_early"])
        if record["left_out"]:
            details["queries_left_out"] = record["left_out"]
        if record["stopped_early"]:
            details["stopped_early"] = True
        if record["not_beaten"]:
            details["not_better_than"] = record["not_beaten"]
        evaluation["metrics"].append({**metric, "value": record["value"], "args": details})
    return [{"name": model, "results": list(evaluations.values())} for model, evaluations in models.items()]
