"""Scores as evaluation results of a model repository on the Hugging Face hub: the files ``.eval_results/*.yaml``.

The format is described in https://huggingface.co/docs/hub/eval-results: a list of entries, each with the id of a data
set on the hub, one value, and notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from StaICC import benchmark_names
from StaICC.datasets.catalogue import HubDataset
from StaICC.errors import ArgumentError
from StaICC.results.hub_datasets import hub_dataset
from StaICC.results.result import Result, ResultGroup
from StaICC.results.score_records import records_of_scores

_EXPORTED_SCORES = {benchmark_names.NORMAL: "accuracy", benchmark_names.LONG_ICL: "mean"}
"""The score of each benchmark that is exported. The format has no name for the score, so only scores are exported that
readers expect of a data set. A bias or a sensitivity would be read as an accuracy."""


@dataclass(frozen=True, slots=True)
class EvalResults:
    """What the results of one model become in the format of the hub."""

    entries: tuple[dict[str, Any], ...]
    """The entries of the file."""
    left_out: tuple[str, ...]
    """What the file does not have, each with the reason."""


def eval_results(results: Iterable[Result | ResultGroup], source_url: str | None = None) -> EvalResults:
    """Return scores in the format of ``.eval_results/*.yaml``: one entry for each data set that is on the hub.

    Args:
        results: Results and groups of results of one model.
        source_url: Where the evaluation can be looked up, such as the address of a report.

    Raises:
        ArgumentError: The results are of several models, or two are of the same data set on the hub, or none is of a
            data set on the hub.
    """
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    left_out: list[str] = []
    models: dict[str, None] = {}
    single_results = [result for group in results for result in group.results()]
    for result in single_results:
        models[result.model] = None
        if result.benchmark not in _EXPORTED_SCORES:
            left_out.append(f"{result.benchmark}: the format has no name for its scores")
            continue
        for record in _exported_records(result):
            name = f"{result.benchmark}, {record['dataset']}"
            on_hub = hub_dataset(result, record["dataset"])
            if on_hub is None:
                left_out.append(f"{name}: not a data set of the hub")
                continue
            if record["value"] is None:
                left_out.append(f"{name}: {record['missing'] or 'undefined'}")
                continue
            key = (on_hub.repository, on_hub.config)
            if key in entries:
                raise ArgumentError(f"two results of {' / '.join(key)}: export each into a file of its own")
            entries[key] = _entry(result, record, on_hub, source_url)
    if len(models) > 1:
        raise ArgumentError(f"results of {len(models)} models: {'; '.join(models):.200}. Export those of one model")
    if not entries:
        raise ArgumentError(f"no score of these results is exported: {'; '.join(left_out):.300}")
    return EvalResults(tuple(entries.values()), tuple(left_out))


def _exported_records(result: Result) -> Iterator[Mapping[str, Any]]:
    """Yield for each data set of a result the record of the score that is exported."""
    for record in records_of_scores(result):
        is_mean = record["dataset"] is None
        if not is_mean and record["metric"] == _EXPORTED_SCORES[result.benchmark]:
            yield record


def _entry(result: Result, record: Mapping[str, Any], on_hub: HubDataset, source_url: str | None) -> dict[str, Any]:
    """Return the entry of a score.

    Args:
        result: The result.
        record: The record of the score.
        on_hub: The data set on the hub.
        source_url: Where the evaluation can be looked up; ``None`` if nowhere.
    """
    entry: dict[str, Any] = {
        "dataset": {"id": on_hub.repository, "task_id": on_hub.config},
        "value": record["value"],
    }
    finished = [predictor.finished for predictor in result.provenance.predictors if predictor.finished]
    if finished:
        entry["date"] = max(finished)
    if source_url is not None:
        entry["source"] = {"url": source_url}
    entry["notes"] = "; ".join(_notes(result, record, on_hub.splits))
    return entry


def _notes(result: Result, record: Mapping[str, Any], splits: tuple[str, ...]) -> list[str]:
    """Return what a reader must know about a value: the marks of partial runs first."""
    notes = []
    if record["left_out"]:
        asked = record["n"] + record["left_out"]
        notes.append(f"PARTIAL: {record['left_out']} of {asked} queries are left out")
    if record["stopped_early"]:
        notes.append("STOPPED EARLY: an estimate from the first rows")
    settings = f"{record['metric']} of StaICC {result.benchmark}"
    if result.setting("k") is not None:
        settings += f" with {result.setting('k')} demonstrations"
    if result.method != "vanilla":
        settings += f", method {result.method}"
    notes.append(settings)
    rows = f"{record['n']} queries"
    if splits:
        rows += f" on rows of the split {'+'.join(splits)}"
    notes.append(rows)
    if record["low"] is not None:
        notes.append(f"{100 * record['level']:g} % interval {record['low']:.4f} to {record['high']:.4f}")
    if record["not_beaten"]:
        notes.append(f"not shown to be better than {record['not_beaten']}")
    return notes


def eval_results_yaml(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of entries as YAML. All texts are quoted as in JSON, which is YAML, too."""
    for entry in entries:
        indent = "- "  # of the first line of an item of a list
        for line in _object_lines(entry):
            yield f"{indent}{line}\n"
            indent = "  "


def _object_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an object as YAML, without line ends. Objects in it are indented by two blanks."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{key}:"
            for line in _object_lines(value):
                yield f"  {line}"
        else:
            yield f"{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """Return a text or a number as YAML."""
    return json.dumps(value, allow_nan=False)
