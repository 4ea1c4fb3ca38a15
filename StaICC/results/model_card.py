"""Scores as the evaluation results of a model card (``model-index``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from StaICC.results.hub_datasets import hub_dataset
from StaICC.results.interval_scope import scope_notes
from StaICC.results.left_out import with_marks
from StaICC.results.result import Result, ResultGroup
from StaICC.results.score_records import records_of_scores

_HUB_METRICS = {"macro_F1": "f1"}
"""Names of metrics on the model hub, where they differ from the keys."""


def _dataset_title(record: Mapping[str, Any]) -> str:
    """Return the data set of a score, or what the mean over the data sets is called."""
    if record["dataset"]:
        return str(record["dataset"])
    return "mean over data sets"


def _dataset_entry(result: Result, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the metadata say about the data set of a score.

    Its ``type`` is the id of the data set on the hub; that of a mean, or of a data set that is not there, is its name.
    ``split`` names the splits of the hub that the rows come from, because the benchmark makes its own test set of them.
    """
    title = _dataset_title(record)
    arguments = {"signature": record["signature"], "identity": result.provenance.label}
    notes = scope_notes([result])
    if notes:
        arguments["intervals"] = " ".join(notes)
    entry = {"type": title, "name": title, "args": arguments}
    on_hub = hub_dataset(result, title)
    if on_hub is not None:
        entry["type"] = on_hub.repository
        entry["config"] = on_hub.config
        if on_hub.splits:
            entry["split"] = "+".join(on_hub.splits)
    return entry


def _evaluation_without_metrics(result: Result, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evaluation that a score belongs to, before it has any metrics.

    A benchmark of this library is classification. Tasks of other harnesses, read from logs, are of many kinds: the hub
    calls them all text generation.
    """
    task = {"type": "text-classification", "name": f"StaICC {record['benchmark']}, {record['method']}"}
    if result.samples:
        task = {"type": "text-generation", "name": str(record["benchmark"])}
    return {
        "task": task,
        "dataset": _dataset_entry(result, record),
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


def model_index(results: Iterable[Result | ResultGroup]) -> list[dict[str, Any]]:
    """Return scores as the evaluation results of a model card (``model-index`` of the model hub's metadata).

    Args:
        results: Results and groups of results.

    Returns:
        One entry for each model, with one evaluation for each data set (and the mean) of each benchmark and signature.
        Undefined scores are left out. The name of a score says how many queries it leaves out, and whether the run
        stopped early. Two models with the same name and other identities have two entries; the identity is in ``args``
        of each data set.
    """
    entries: dict[str, dict[str, Any]] = {}
    evaluations: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    single_results = [result for group in results for result in group.results()]
    for result in single_results:
        for record in records_of_scores(result):
            if record["value"] is None:
                continue
            if result.model not in entries:
                entries[result.model] = {"name": result.provenance.names, "results": []}
            key = (result.model, record["benchmark"], record["signature"], _dataset_title(record))
            if key not in evaluations:
                evaluations[key] = _evaluation_without_metrics(result, record)
                entries[result.model]["results"].append(evaluations[key])
            evaluations[key]["metrics"].append(_metric_of(record))
    return list(entries.values())
