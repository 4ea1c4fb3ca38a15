"""A benchmark as tasks of lm-evaluation-harness (Gao et al., https://github.com/EleutherAI/lm-evaluation-harness).

There is one task for each data set and condition, of type ``multiple_choice`` with the labels as choices. The prompts
are the benchmark's, byte for byte. The harness scores a label by the log-probability of all its tokens, as a kernel
with ``label_scoring="full"`` does.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange import json_lines, prompt_records
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.errors import ArgumentError
from StaICC.files.output import StrPath, write_output
from StaICC.safe_text import utf8
from StaICC.version import __version__


def _task_name(*names: str) -> str:
    """Return the name of a task in small letters, digits and underscores.

    Args:
        *names: The names of benchmark, data set and condition.
    """
    words = ["staicc"]
    for name in names:
        word = re.sub(r"[^0-9a-z]+", "_", name.casefold()).strip("_")
        if not word:
            word = "x"  # The name has neither letters nor digits of ASCII.
        words.append(word)
    return "_".join(words)


def _yaml(values: Mapping[str, Any]) -> str:
    """Return a mapping as YAML, one line for each key. The values are JSON, which is valid YAML."""
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in values.items()]
    return "".join(lines)


def _task(name: str, file: str, alias: str) -> dict[str, Any]:
    """Return the configuration of a task of lm-evaluation-harness.

    Args:
        name: The name of the task.
        file: The name of the file with the records of its queries.
        alias: The name that lm-evaluation-harness prints.
    """
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


def check_folder(folder: StrPath) -> None:
    """Refuse a path for the files of tasks that is no folder.

    Raises:
        ArgumentError: It is a file.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ArgumentError(f"{path} is a file; the tasks are several files, so give a folder")


def export_tasks(
    benchmark: Benchmark | BenchmarkGroup, folder: StrPath, command: str = "score normal logged"
) -> tuple[str, ...]:
    """Write a benchmark as tasks of lm-evaluation-harness, and return the names of their groups.

    Each condition of a data set is a task, with two files: the records of its queries (``NAME.jsonl``) and its
    configuration (``NAME.yaml``). The tasks of a benchmark are a group, with a configuration. A ``README.md`` says how
    to run the tasks and how to score the samples that the harness logs.

    Args:
        benchmark: A benchmark, or a group of benchmarks, in the direct channel.
        folder: The folder of the files. It is created if necessary; files of the same names are replaced.
        command: For the README: the arguments of ``python -m StaICC`` that score the samples. By default, the command
            ``score`` with the benchmark ``normal`` and the folder ``logged``, in which the README has them logged.

    Returns:
        The names of the groups of tasks, one for each benchmark.

    Raises:
        ArgumentError: The benchmark uses the noisy channel, which scores texts instead of labels, or two tasks would
            have the same name.
        OSError: The folder cannot be written.
    """
    folder = Path(folder)
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records_by_condition = _records_by_condition(benchmark)
    titles = _titles(list(records_by_condition))
    tasks_by_benchmark: dict[str, list[str]] = {}
    task_names: set[str] = set()
    for condition, records in records_by_condition.items():
        title = titles[condition]
        task_name = _task_name(condition.benchmark, *title)
        if task_name in task_names:
            raise ArgumentError(f"two data sets or conditions have the task name {task_name}; rename one of them")
        task_names.add(task_name)
        tasks_by_benchmark.setdefault(condition.benchmark, []).append(task_name)
        _write_task(folder, task_name, ", ".join(title), records)

    group_names = []
    for benchmark_name, tasks in tasks_by_benchmark.items():
        group_name = _task_name(benchmark_name)
        group_names.append(group_name)
        _write(folder / f"{group_name}.yaml", _yaml(_task_group(group_name, tasks)))
    _write(folder / "README.md", _readme(benchmark, list(tasks_by_benchmark), command))
    return tuple(group_names)


def _write_task(folder: Path, name: str, alias: str, records: list[dict[str, Any]]) -> None:
    """Write the two files of a task: the records of its queries, and its configuration.

    Args:
        folder: The folder of the files.
        name: The name of the task, which the files have too.
        alias: The name that lm-evaluation-harness prints.
        records: The records of the queries.
    """
    records_file = f"{name}.jsonl"
    _write(folder / records_file, "".join(json_lines(iter(records))))
    _write(folder / f"{name}.yaml", _yaml(_task(name, records_file, alias)))


class _ConditionName(NamedTuple):
    """A condition of a data set of a benchmark, by the names of all three. Each has one task."""

    benchmark: str
    dataset: str
    name: str


def _titles(conditions: Sequence[_ConditionName]) -> dict[_ConditionName, list[str]]:
    """Return the title of the task of each condition as words: the data set, and the condition if it has several.

    Args:
        conditions: The conditions of all data sets and benchmarks.
    """
    n_conditions = Counter((condition.benchmark, condition.dataset) for condition in conditions)
    titles = {}
    for condition in conditions:
        title = [condition.dataset]
        if n_conditions[condition.benchmark, condition.dataset] > 1:
            title.append(condition.name)
        titles[condition] = title
    return titles


def _records_by_condition(benchmark: Benchmark | BenchmarkGroup) -> dict[_ConditionName, list[dict[str, Any]]]:
    """Return the records of the queries of each condition, as :func:`prompt_records` yields them with true labels.

    Raises:
        ArgumentError: The benchmark uses the noisy channel.
    """
    records_by_condition: dict[_ConditionName, list[dict[str, Any]]] = {}
    for record in prompt_records(benchmark, with_truth=True):
        if not isinstance(record["prompt"], str):
            raise ArgumentError(
                "the noisy channel scores the text after each label, not a choice of labels; export the direct channel"
            )
        condition = _ConditionName(record["benchmark"], record["dataset"], record["condition"])
        records_by_condition.setdefault(condition, []).append(record)
    return records_by_condition


def _task_group(name: str, tasks: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a group of tasks. The accuracy of the group is the mean over its tasks.

    Args:
        name: The name of the group.
        tasks: The names of the tasks of one benchmark.
    """
    return {
        "group": name,
        "task": tasks,
        "aggregate_metric_list": [{"metric": "acc", "aggregation": "mean", "weight_by_size": False}],
        "metadata": {"version": __version__},
    }


def _readme(benchmark: Benchmark | BenchmarkGroup, exported: Sequence[str], command: str) -> str:
    """Return the instructions for exported tasks: how to run them, and what the scores of their groups mean.

    Args:
        benchmark: The exported benchmark.
        exported: The names of the benchmarks that have tasks.
        command: As for :func:`export_tasks`.
    """
    group_names = []
    meanings = []
    for name in exported:
        group_names.append(_task_name(name))
        meaning = "not a score of this benchmark: score the logged samples"
        if name == benchmark_names.NORMAL:
            meaning = "the benchmark's accuracy"
        meanings.append(f"| {_task_name(name)} | {meaning} |")
    signatures = [f"    {member.signature()}" for member in members(benchmark).values()]
    template = (resources.files(__package__) / "harness_readme.md").read_text("utf-8")
    return template.format(
        version=__version__,
        groups=",".join(group_names),
        command=command,
        meanings="\n".join(meanings),
        settings="\n".join(signatures),
    )


def _write(path: Path, text: str) -> None:
    """Write a text file in UTF-8."""
    write_output(path, [utf8(text)])
