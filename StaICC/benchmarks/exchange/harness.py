"""Export to and import from lm-evaluation-harness (Gao et al., https://github.com/EleutherAI/lm-evaluation-harness).

The function :func:`export_tasks` writes one task for each data set and condition: a YAML file and a JSON Lines file
with the prompts, of type ``multiple_choice`` with the labels as choices. The prompts are the benchmark's, byte for
byte: no few-shot examples are added (they are in the prompt already), and prompt and label are concatenated directly.
:func:`read_samples` reads the samples of ``lm_eval --log_samples`` as predictions, after checking that their prompts
are the exported ones.

The harness scores a label by the log-probability of all its tokens, as a kernel with ``label_scoring="full"`` does.
``docs/reports.md`` lists the remaining differences.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange.files import LONGEST_ID, json_lines, numbered_records
from StaICC.benchmarks.exchange.queries import members, prompt_records
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.datasets.outputs import write_output
from StaICC.errors import ArgumentError, SchemaError
from StaICC.version import __version__


def _task_name(*parts: str) -> str:
    return "_".join(["staicc", *(re.sub(r"[^0-9a-z]+", "_", part.casefold()).strip("_") or "x" for part in parts)])


def _yaml(values: Mapping[str, Any]) -> str:
    """Write a flat mapping as YAML; JSON values are valid YAML."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())


def _task(name: str, file: str, alias: str) -> dict[str, Any]:
    return {
        "task": name,
        "task_alias": alias,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": file}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "prompt",
        "doc_to_choice": "label_space",
        "doc_to_target": "ground_truth",
        "target_delimiter": "",
        "num_fewshot": 0,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": __version__},
    }


def export_tasks(
    benchmark: Benchmark | BenchmarkGroup, folder: str | os.PathLike[str], command: str = "score normal logged"
) -> tuple[str, ...]:
    """Write a benchmark as tasks of lm-evaluation-harness.

    Args:
        benchmark: A benchmark, or a group of benchmarks, in the direct channel.
        folder: The folder of the files. It is created if necessary; files of the same names are replaced.
        command: The arguments of ``python -m StaICC`` that score the samples in ``logged``, for the instructions.

    Returns:
        The names of the groups of tasks, one for each benchmark.

    Raises:
        ArgumentError: The benchmark uses the noisy channel, which scores texts instead of labels, or two tasks would
            have the same name.
        OSError: The folder cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file; the tasks are several files, so give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    by_task: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in prompt_records(benchmark, with_truth=True):
        if not isinstance(record["prompt"], str):
            raise ArgumentError(
                "the noisy channel scores the text after each label, which is not multiple choice among labels; export "
                "the direct channel"
            )
        by_task.setdefault((record["benchmark"], record["dataset"], record["condition"]), []).append(record)
    several = Counter((one, dataset) for one, dataset, _ in by_task)
    groups: dict[str, list[str]] = {}
    seen: set[str] = set()
    for (one, dataset, condition), records in by_task.items():
        parts = (one, dataset, condition) if several[one, dataset] > 1 else (one, dataset)
        name = _task_name(*parts)
        if name in seen:
            raise ArgumentError(f"two data sets or conditions have the task name {name}; rename one of them")
        seen.add(name)
        groups.setdefault(one, []).append(name)
        _write(folder / f"{name}.jsonl", "".join(json_lines(iter(records))))
        _write(folder / f"{name}.yaml", _yaml(_task(name, f"{name}.jsonl", ", ".join(parts[1:]))))
    for one, tasks in groups.items():
        group = {
            "group": _task_name(one),
            "task": tasks,
            "aggregate_metric_list": [{"metric": "acc", "aggregation": "mean", "weight_by_size": False}],
            "metadata": {"version": __version__},
        }
        _write(folder / f"{_task_name(one)}.yaml", _yaml(group))
    names = tuple(_task_name(one) for one in groups)
    meanings = "\n".join(
        f"| {_task_name(one)} | "
        + ("the benchmark's accuracy" if one == "Normal" else "not a score of this benchmark: score the logged samples")
        + " |"
        for one in groups
    )
    settings = "\n".join(f"    {member.signature()}" for member in members(benchmark).values())
    readme = (resources.files(__package__) / "harness_readme.md").read_text("utf-8")
    facts = {"groups": ",".join(names), "command": command, "meanings": meanings, "settings": settings}
    _write(folder / "README.md", readme.format(version=__version__, **facts))
    return names


def _write(path: Path, text: str) -> None:
    write_output(path, [text.encode("utf-8", "surrogatepass")])


def is_sample_file(path: str | os.PathLike[str]) -> bool:
    """Return whether the first record of a file is a sample that lm_eval logged.

    Args:
        path: The file; ``False`` if it is not JSON Lines.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        return any(_is_sample(record) for _, record in itertools.islice(numbered_records(Path(path)), 1))
    except (SchemaError, UnicodeError):
        return False


def _is_sample(record: Mapping[str, Any]) -> bool:
    return "doc" in record and ("filtered_resps" in record or "resps" in record)


def find_sample_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files to which lm_eval logged samples.

    Args:
        path: The folder of ``--output_path``, or one file.

    Returns:
        The files, by name.

    Raises:
        ArgumentError: There are none.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    files = sorted(path.rglob("samples_*.jsonl"))
    if not files:
        raise ArgumentError(f"{path} contains no samples_*.jsonl; run lm_eval with --log_samples and --output_path")
    return files


def read_samples(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Read the samples that lm_eval logged, as predictions.

    Args:
        path: The folder of ``--output_path``, or one file.

    Returns:
        For each id, ``{"logits": [...]}``: the log-probability of each label.

    Raises:
        ArgumentError: There are no logged samples.
        SchemaError: A sample is damaged, appears twice, or has another prompt than the exported one.
    """
    predictions: dict[str, dict[str, Any]] = {}
    origin: dict[str, str] = {}
    for file in find_sample_files(path):
        for number, record in numbered_records(file):
            where = f"{file}, line {number}"
            key, logits = _read_sample(where, record)
            if key in predictions:
                raise SchemaError(
                    f"{where}: the id {key} appears twice; it is in {origin[key]} too. Give the folder of one run, "
                    "or one file"
                )
            predictions[key], origin[key] = {"logits": logits}, where
    return predictions


def _read_sample(where: str, record: Mapping[str, Any]) -> tuple[str, list[float]]:
    if not _is_sample(record):
        raise SchemaError(
            f"{where}: this is not a sample that lm_eval logged (expected doc, and resps or filtered_resps)"
        )
    doc = record["doc"]
    key, space = (doc.get("id"), doc.get("label_space")) if isinstance(doc, dict) else (None, None)
    if not isinstance(key, str) or len(key) > LONGEST_ID or not isinstance(space, list) or "prompt" not in doc:
        raise SchemaError(f"{where}: the sample is not of a task that StaICC exported")
    try:
        answers = record.get("filtered_resps") or [answer for (answer,) in record["resps"]]
        logits = [float(answer[0]) for answer in answers]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        found = str(record.get("filtered_resps") or record.get("resps"))[:200]
        raise SchemaError(f"{where}: expected a log-probability for each label of {key}, found {found}") from error
    if len(logits) != len(space):
        raise SchemaError(f"{where}: {len(logits)} answers for the {len(space)} labels of {key}")
    for place, (context, continuation) in enumerate(_arguments(where, record, len(space))):
        if context != doc["prompt"] or continuation != space[place]:
            raise SchemaError(
                f"{where}: lm_eval used another prompt than the exported one of {key}; run it without "
                "--num_fewshot, --apply_chat_template, --system_instruction and --fewshot_as_multiturn"
            )
    return key, logits


def _arguments(where: str, record: Mapping[str, Any], labels: int) -> list[tuple[str, str]]:
    """Return context and continuation of each label, as lm_eval used them."""
    given = record.get("arguments")
    pairs = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or len(pairs) < labels:
        raise SchemaError(f"{where}: the sample has no prompts (field 'arguments')")
    arguments = []
    for pair in pairs[:labels]:
        values = list(pair.values()) if isinstance(pair, dict) else pair
        if not isinstance(values, list) or len(values) < 2:
            raise SchemaError(f"{where}: the sample has no prompts (field 'arguments')")
        arguments.append((values[0], values[1]))
    return arguments
