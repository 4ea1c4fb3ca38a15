"""Scores as the evaluation results of a model card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from StaICC.results.left_out import with_marks
from StaICC.results.protocol import ResultsLike
from StaICC.results.score_records import score_records

_HUB_METRICS = {"macro_F1": "f1"}
"""Names of metrics on the model hub, where they differ from the keys."""


def _dataset_title(record: Mapping[str, Any]) -> str:
    """Return the data set of a score, or what the mean over the data sets is called."""
    if record["dataset"]:
        return str(record["dataset"])
    return "mean over data sets"


def _evaluation_without_metrics(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evaluation that a score belongs to, before it has any metrics."""
    dataset = _dataset_title(record)
    return {
        "task": {"type": "text-classification", "name": f"StaICC {record['benchmark']}, {record['method']}"},
        "dataset": {"type": dataset, "name": dataset, "split": "test", "args": {"signature": record["signature"]}},
        "metrics": [],
    }


def _metric_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return one metric of an evaluation: type, name, value, and in ``args`` what else is known about the value."""
    arguments: dict[str, Any] = {}
    for name in ("low", "high", "level"):
        if record[name] is not None:
            arguments[name] = record[name]
    if record["left_out"]:
        arguments["queries_left_out"] = record["left_out"]
    if record["stopped_early"]:
        arguments["stopped_early"] = True
    if record["not_beaten"]:
        arguments["not_better_than"] = record["not_beaten"]
    return {
        "type": _HUB_METRICS.get(record["metric"], record["metric"]),
        "name": with_marks(record["metric"], record["left_out"], record["stopped_early"]),
        "value": record["value"],
        "args": arguments,
    }


def model_index(results: Iterable[ResultsLike]) -> list[dict[str, Any]]:
    """Return scores as the evaluation results of a model card (``model-index`` of the model hub's metadata).

    Args:
        results: Results and groups of results.

    Returns:
        One entry for each model, with one evaluation for each data set (and the mean) of each benchmark and signature.
        Undefined scores are left out. The name of a score says how many queries it leaves out, and whether the run
        stopped early.
    """
    evaluations_by_model: dict[str, dict[tuple[str, str, str], dict[str, Any]]] = {}
    for result in results:
        for record in score_records(result):
            if record["value"] is None:
                continue
            evaluations = evaluations_by_model.setdefault(record["model"], {})
            key = (record["benchmark"], record["signature"], _dataset_title(record))
            if key not in evaluations:
                evaluations[key] = _evaluation_without_metrics(record)
            evaluations[key]["metrics"].append(_metric_of(record))

    index = []
    for model, evaluations in evaluations_by_model.items():
        index.append({"name": model, "results": list(evaluations.values())})
    return index
