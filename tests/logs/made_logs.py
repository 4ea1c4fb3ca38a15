"""Logs of lm_eval that tests write themselves, in the formats of its versions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DATE = "2026-01-02T03-04-05.678901"

Values = Mapping[str, Sequence[Any]]
"""For each metric, with its filter after a comma, the value of each document."""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def patch(version: str) -> int:
    """Return the last number of a version of lm_eval 0.4."""
    return int(version.rpartition(".")[2])


def values_by_filter(values: Values) -> dict[str, dict[str, Sequence[Any]]]:
    """Return the values of each metric under the name of its filter: ``acc,none`` is the metric acc of none."""
    by_filter: dict[str, dict[str, Sequence[Any]]] = {}
    for name, of_documents in values.items():
        metric, _, filter_name = name.partition(",")
        by_filter.setdefault(filter_name or "none", {})[metric] = of_documents
    return by_filter


def number_of_documents(values: Values) -> int:
    """Return the number of values of each metric."""
    first_metric = next(iter(values))
    return len(values[first_metric])


def sample_of(doc_id: int, filter_name: str, values: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the sample of one document and filter, with a value of each metric, as a version of lm_eval logs it."""
    doc = {"question": f"How many are {doc_id} and {doc_id}?", "choices": ["a", "b"]}
    target: Any = doc_id % 2
    sample: dict[str, Any] = {
        "doc_id": doc_id,
        "doc": doc,
        "target": target,
        "arguments": [["a prompt", " a"], ["a prompt", " b"]],
        "resps": [[[-1.5, False]], [[-2.5, False]]],
        "filtered_resps": [[-1.5, False], [-2.5, False]],
    }
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
        sample["metrics"] = list(values)
    return {**sample, **values}


def samples_of(values: Values, *, version: str = "0.4.13", documents: Sequence[int] | None = None) -> list[Any]:
    """Return the samples of a task: one for each filter and document, in the order in which lm_eval logs them."""
    if documents is None:
        documents = range(number_of_documents(values))
    samples = []
    for filter_name, metrics in values_by_filter(values).items():
        for number, doc_id in enumerate(documents):
            values_of_document = {metric: of_documents[number] for metric, of_documents in metrics.items()}
            samples.append(sample_of(doc_id, filter_name, values_of_document, version))
    return samples


def mean_of(values: Sequence[Any]) -> float:
    """Return the mean of the values of a metric, or NaN if one of them is no number, as lm_eval does."""
    if all(isinstance(value, (int, float)) for value in values):
        return math.fsum(values) / len(values)
    return math.nan


def scores_of(task: str, values: Values) -> dict[str, Any]:
    """Return the scores of a task in a file of results: mean and standard error for each metric and filter."""
    scores: dict[str, Any] = {"alias": task}
    for filter_name, metrics in values_by_filter(values).items():
        for metric, of_documents in metrics.items():
            scores[f"{metric},{filter_name}"] = mean_of(of_documents)
            scores[f"{metric}_stderr,{filter_name}"] = 0.01
    return scores


def config_of(task: str, values: Values, aggregation: str | None) -> dict[str, Any]:
    """Return the configuration of a task in a file of results: its metrics and, if it has them, its filters."""
    metric_list = []
    for name in values:
        metric = {"metric": name.partition(",")[0], "higher_is_better": True}
        if aggregation is not None:
            metric["aggregation"] = aggregation
        metric_list.append(metric)
    config: dict[str, Any] = {"task": task, "metric_list": metric_list}
    filters = list(values_by_filter(values))
    if filters != ["none"]:
        config["filter_list"] = [{"name": name, "filter": []} for name in filters]
    return config


def results_of(
    tasks: Mapping[str, Values],
    *,
    model: str,
    version: str = "0.4.13",
    task_version: Any = 1.0,
    aggregation: str | None = "mean",
    fewshot: int = 0,
) -> dict[str, Any]:
    """Return the content of the file of results that a version of lm_eval writes."""
    results: dict[str, Any] = {
        "results": {task: scores_of(task, values) for task, values in tasks.items()},
        "configs": {task: config_of(task, values, aggregation) for task, values in tasks.items()},
        "versions": dict.fromkeys(tasks, task_version),
        "n-shot": dict.fromkeys(tasks, fewshot),
        "config": {"model": "hf", "model_args": f"pretrained={model},dtype=float32", "gen_kwargs": None},
    }
    if patch(version) >= 3:
        results["model_name"] = model
        results["lm_eval_version"] = version
        results["higher_is_better"] = {}
        results["n-samples"] = {}
        for task, values in tasks.items():
            metrics = [name.partition(",")[0] for name in values]
            results["higher_is_better"][task] = dict.fromkeys(metrics, True)
            results["n-samples"][task] = {"original": 1000, "effective": number_of_documents(values)}
    return results


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
    """Return the only file of samples of a folder."""
    (file,) = folder.glob("samples_*.jsonl")
    return file


def results_file(folder: Path) -> Path:
    """Return the only file of results of a folder."""
    (file,) = folder.glob("results_*.json")
    return file


@contextlib.contextmanager
def edited_json(file: Path) -> Iterator[Any]:
    """Yield the content of a JSON file, and write it again with the changes that were made to it."""
    content = json.loads(file.read_text("utf-8"))
    yield content
    file.write_text(json.dumps(content), "utf-8")


@contextlib.contextmanager
def edited_samples(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the samples of the only task of a folder, and write them again with the changes that were made to them."""
    file = samples_file(folder)
    samples = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    yield samples
    file.write_text("".join(json.dumps(sample) + "\n" for sample in samples), "utf-8")
