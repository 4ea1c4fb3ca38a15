"""Logs of lm_eval that tests write themselves, in the formats of its versions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DATE = "2026-01-02T03-04-05.678901"

Values = Mapping[str, Sequence[Any]]
"""For each metric, with its filter after a comma, the value of each document."""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def patch(version: str) -> int:
    """The last number of a version of lm_eval 0.4."""
    return int(version.rpartition(".")[2])


def samples_of(values: Values, *, version: str = "0.4.13", documents: Sequence[int] | None = None) -> list[Any]:
    """The samples of a task: one for each filter and document, in the order in which lm_eval logs them."""
    by_filter: dict[str, dict[str, Sequence[Any]]] = {}
    for name, of_documents in values.items():
        metric, _, filter_name = name.partition(",")
        by_filter.setdefault(filter_name or "none", {})[metric] = of_documents
    count = len(next(iter(values.values())))
    samples = []
    for filter_name, metrics in by_filter.items():
        for number in range(count):
            doc_id = number if documents is None else documents[number]
            doc = {"question": f"How many are {doc_id} and {doc_id}?", "choices": ["a", "b"]}
            target: Any = doc_id % 2
            sample: dict[str, Any] = {"doc_id": doc_id, "doc": doc, "target": target}
            sample["arguments"] = [["a prompt", " a"], ["a prompt", " b"]]
            sample["resps"] = [[[-1.5, False]], [[-2.5, False]]]
            sample["filtered_resps"] = [[-1.5, False], [-2.5, False]]
            if patch(version) >= 3:
                sample["doc_hash"] = sha(json.dumps(doc, indent=2))
                sample["prompt_hash"] = sha("a prompt")
                sample["target_hash"] = sha(str(target))
                sample["arguments"] = {"gen_args_0": {"arg_0": "a prompt", "arg_1": " a"}}
                sample["resps"] = [[["-1.5", "False"]], [["-2.5", "False"]]]
            if patch(version) >= 4:
                sample["target"] = str(target)
            if patch(version) >= 7:
                sample["filter"] = filter_name
                sample["metrics"] = list(metrics)
            sample.update({metric: of_documents[number] for metric, of_documents in metrics.items()})
            samples.append(sample)
    return samples


def results_of(
    tasks: Mapping[str, Values],
    *,
    model: str,
    version: str = "0.4.13",
    task_version: Any = 1.0,
    aggregation: str | None = "mean",
    fewshot: int = 0,
) -> dict[str, Any]:
    """The values of a file of results."""
    results: dict[str, Any] = {}
    configs: dict[str, Any] = {}
    for task, values in tasks.items():
        results[task] = {"alias": task}
        metric_list = []
        filters: dict[str, None] = {}
        for name, of_documents in values.items():
            metric, _, filter_name = name.partition(",")
            filters[filter_name or "none"] = None
            numbers = [value for value in of_documents if isinstance(value, (int, float))]
            mean = math.fsum(numbers) / len(numbers) if len(numbers) == len(of_documents) else math.nan
            results[task][f"{metric},{filter_name or 'none'}"] = mean
            results[task][f"{metric}_stderr,{filter_name or 'none'}"] = 0.01
            item = {"metric": metric, "higher_is_better": True}
            if aggregation is not None:
                item["aggregation"] = aggregation
            metric_list.append(item)
        configs[task] = {"task": task, "metric_list": metric_list}
        if list(filters) != ["none"]:
            configs[task]["filter_list"] = [{"name": name, "filter": []} for name in filters]
    count = {task: len(next(iter(values.values()))) for task, values in tasks.items()}
    made: dict[str, Any] = {"results": results, "configs": configs}
    made["versions"] = dict.fromkeys(tasks, task_version)
    made["n-shot"] = dict.fromkeys(tasks, fewshot)
    made["config"] = {"model": "hf", "model_args": f"pretrained={model},dtype=float32", "gen_kwargs": None}
    if patch(version) >= 3:
        made["model_name"] = model
        made["lm_eval_version"] = version
        made["higher_is_better"] = {
            task: {name.partition(",")[0]: True for name in values} for task, values in tasks.items()
        }
        made["n-samples"] = {task: {"original": 1000, "effective": size} for task, size in count.items()}
    return made


def write_evaluation(
    folder: Path,
    tasks: Mapping[str, Values],
    *,
    model: str,
    version: str = "0.4.13",
    date: str = DATE,
    documents: Sequence[int] | None = None,
    **facts: Any,
) -> Path:
    """Write an evaluation as one version of lm_eval does, and return its folder.

    Args:
        folder: The output path.
        tasks: The values of each task.
        model: Name of the model.
        version: Version of lm_eval.
        date: The date in the names of the files.
        documents: The ids of the documents; by default, they are counted from 0.
        **facts: Further arguments of :func:`results_of`.
    """
    results = results_of(tasks, model=model, version=version, **facts)
    if patch(version) < 3:
        folder.mkdir(parents=True, exist_ok=True)
        for task, values in tasks.items():
            samples = samples_of(values, version=version, documents=documents)
            name = f"pretrained__{model.replace('/', '__')},dtype__float32_{task}.jsonl"
            (folder / name).write_text(json.dumps(samples, indent=2), "utf-8")
        (folder / "results.json").write_text(json.dumps(results, indent=2), "utf-8")
        return folder
    folder = folder / model.replace("/", "__")
    folder.mkdir(parents=True, exist_ok=True)
    results["task_hashes"] = {}
    for task, values in tasks.items():
        samples = samples_of(values, version=version, documents=documents)
        joined = "".join(sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"] for sample in samples)
        results["task_hashes"][task] = sha(joined)
        lines = "".join(json.dumps(sample) + "\n" for sample in samples)
        (folder / f"samples_{task}_{date}.jsonl").write_text(lines, "utf-8")
    (folder / f"results_{date}.json").write_text(json.dumps(results, indent=2), "utf-8")
    return folder


def samples_file(folder: Path) -> Path:
    """The only file of samples of a folder."""
    (file,) = folder.glob("samples_*.jsonl")
    return file


def results_file(folder: Path) -> Path:
    """The only file of results of a folder."""
    (file,) = folder.glob("results_*.json")
    return file
