"""Tasks for lm-evaluation-harness and its logged samples, without the harness itself (test_lm_eval.py runs it)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.exchange import export_tasks, identified_queries, read_samples, score_predictions
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, SchemaError


def tasks_of(folder: Path) -> dict[str, dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yaml")}


def logged(folder: Path, docs: list[dict[str, Any]], stand_in: Any, name: str = "samples_x_2026.jsonl") -> Path:
    """Write what lm_eval logs for its documents."""
    target = folder / "logged" / "model"
    target.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, doc in enumerate(docs):
        row = stand_in(doc["prompt"], doc["label_space"])
        arguments = {
            f"gen_args_{place}": {"arg_0": doc["prompt"], "arg_1": label}
            for place, label in enumerate(doc["label_space"])
        }
        lines.append(
            {
                "doc_id": number,
                "doc": doc,
                "arguments": arguments,
                "resps": [[[str(value), "False"]] for value in row],
                "filtered_resps": [[str(value), "False"] for value in row],
            }
        )
    (target / name).write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return target / name


def documents(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(folder.glob("staicc_*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]


def test_one_task_for_each_data_set(tmp_path: Path) -> None:
    own = Dataset.from_rows([(f"t {i}", i % 2) for i in range(40)], name="My set/2", label_space=["no", "yes"])
    assert export_tasks(StaICC.Normal(datasets=["mini", own], limit=3), tmp_path) == ("staicc_normal",)
    tasks = tasks_of(tmp_path)
    assert tasks["staicc_normal"]["task"] == ["staicc_normal_mini", "staicc_normal_my_set_2"]
    one = tasks["staicc_normal_mini"]
    assert one["output_type"] == "multiple_choice"
    assert one["target_delimiter"] == ""
    assert one["num_fewshot"] == 0
    assert (tmp_path / one["dataset_kwargs"]["data_files"]["test"]).is_file()


def test_documents_are_the_queries(tmp_path: Path) -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    export_tasks(benchmark, tmp_path)
    for doc, one in zip(documents(tmp_path), identified_queries(benchmark), strict=True):
        assert (doc["id"], doc["prompt"], doc["ground_truth"]) == (one.id, one.query.prompt, one.query.label)
        assert tuple(doc["label_space"]) == one.query.label_space


def test_one_task_for_each_condition(tmp_path: Path) -> None:
    names = export_tasks(StaICC.Suite(datasets=["mini"], limit=2), tmp_path, "score suite logged")
    assert len(names) == 7
    tasks = tasks_of(tmp_path)
    assert len(tasks["staicc_gler"]["task"]) == 5
    assert len(tasks["staicc_template_sens"]["task"]) == 9
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert "python -m StaICC score suite logged" in readme
    assert "--tasks staicc_normal,staicc_contextual_bias," in readme


def test_the_noisy_channel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="the noisy channel scores the text after each label"):
        export_tasks(StaICC.Normal(datasets=["mini"], noisy_channel=True, limit=2), tmp_path)


def test_two_names_that_become_one(tmp_path: Path) -> None:
    sets = [
        Dataset.from_rows([(f"t {i}", i % 2) for i in range(40)], name=name, label_space=["no", "yes"])
        for name in ("a b", "a-b")
    ]
    with pytest.raises(ArgumentError, match="two data sets or conditions have the task name staicc_normal_a_b"):
        export_tasks(StaICC.Normal(datasets=sets, limit=2), tmp_path)


@pytest.mark.parametrize("name", ["Normal", "Suite"])
def test_logged_samples_score_as_if_run(
    tmp_path: Path, stand_in: Callable[..., Any], name: str, anonymous: Callable[[Any], Any]
) -> None:
    benchmark = getattr(StaICC, name)(datasets=["mini"], limit=3)
    export_tasks(benchmark, tmp_path)
    file = logged(tmp_path, documents(tmp_path), stand_in)
    expected = anonymous(benchmark(stand_in))
    assert anonymous(score_predictions(benchmark, read_samples(tmp_path / "logged"))) == expected
    assert anonymous(score_predictions(benchmark, read_samples(file))) == expected


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, stand_in: Callable[..., Any]) -> None:
    export_tasks(StaICC.Normal(datasets=["mini"], limit=2), tmp_path)
    for name in ("samples_x_1.jsonl", "samples_x_2.jsonl"):
        logged(tmp_path, documents(tmp_path), stand_in, name)
    with pytest.raises(SchemaError, match=r"samples_x_2.jsonl, line 1: the id .* appears twice; .*samples_x_1"):
        read_samples(tmp_path / "logged")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="run lm_eval with --log_samples"):
        read_samples(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one["arguments"]["gen_args_0"].update(arg_0="Q: ..."), "lm_eval used another prompt"),
        (lambda one: one["arguments"]["gen_args_1"].update(arg_1=" travel"), "lm_eval used another prompt"),
        (lambda one: one.pop("arguments"), "the sample has no prompts"),
        (lambda one: one.update(arguments={"gen_args_0": {}}), "the sample has no prompts"),
        (lambda one: one.update(filtered_resps=one["filtered_resps"][:2]), "2 answers for the 3 labels"),
        (lambda one: one.update(filtered_resps=[["x"], ["y"], ["z"]]), "expected a log-probability for each label"),
        (lambda one: one.update(filtered_resps=[[], [], []]), "expected a log-probability for each label"),
        (lambda one: one.update(filtered_resps=None, resps=[[["1.0", "False"]] * 2] * 3), "expected a log-probability"),
        (lambda one: one.update(filtered_resps=None, resps=7), "expected a log-probability for each label"),
        (lambda one: (one.update(filtered_resps=[]), one.pop("resps")), "expected a log-probability for each label"),
        (lambda one: one.update(filtered_resps=7), "expected a log-probability for each label"),
        (lambda one: one["doc"].update(label_space=3), "the sample is not of a task"),
        (lambda one: one["doc"].update(id=["x"]), "the sample is not of a task"),
        (lambda one: one["doc"].pop("id"), "the sample is not of a task"),
        (lambda one: one.update(doc="text"), "the sample is not of a task"),
        (lambda one: one.pop("doc"), "this is not a sample that lm_eval logged"),
    ],
)
def test_samples_that_are_refused(
    tmp_path: Path, stand_in: Callable[..., Any], change: Callable[[dict[str, Any]], object], message: str
) -> None:
    export_tasks(StaICC.Normal(datasets=["mini"], limit=2), tmp_path)
    file = logged(tmp_path, documents(tmp_path), stand_in)
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    change(records[1])
    file.write_text("\n".join(map(json.dumps, records)), "utf-8")
    with pytest.raises(SchemaError, match=message) as caught:
        read_samples(file)
    assert f"{file}, line 2" in str(caught.value)


def test_samples_without_filtered_answers(
    tmp_path: Path, stand_in: Callable[..., Any], anonymous: Callable[[Any], Any]
) -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=2)
    export_tasks(benchmark, tmp_path)
    file = logged(tmp_path, documents(tmp_path), stand_in)
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for one in records:
        del one["filtered_resps"]
    file.write_text("\n".join(map(json.dumps, records)), "utf-8")
    assert anonymous(score_predictions(benchmark, read_samples(file))) == anonymous(benchmark(stand_in))
