"""Logs of HELM: the scores of per_instance_stats.json, by split and perturbation."""

from __future__ import annotations

import json
from pathlib import Path

from StaICC.logs.helm import read_helm_run
from tests.logs.helm_logs import TYPOS, instance_stats, request_state, run_spec, stat, write_run


def test_scores_of_several_classes_of_metrics_are_put_together(tmp_path: Path) -> None:
    # Each class of metrics adds its own item for an instance.
    items = [
        instance_stats("id1", stat("exact_match", 1.0), stat("num_prompt_tokens", 333)),
        instance_stats("id2", stat("exact_match", 0.0), stat("num_prompt_tokens", 100)),
        instance_stats("id1", stat("toxicity", 0.25)),
        instance_stats("id2", stat("toxicity", None)),
    ]
    requests = [request_state("id1"), request_state("id2")]
    stats = [stat("exact_match", 0.5), stat("num_prompt_tokens", 216.5)]
    (run,) = read_helm_run(write_run(tmp_path / "run", items, requests, stats=stats)).runs
    assert (run.model, run.task, run.fewshot) == ("openai/gpt2", "mmlu:subject=anatomy,method=multiple_choice_joint", 5)
    assert [item.values for item in run.samples] == [{"exact_match": 1.0, "toxicity": 0.25}, {"exact_match": 0.0}]
    assert run.expected == 2
    assert run.ranges == {"exact_match": (0.0, 1.0)}
    assert run.reported["exact_match"] == 0.5
    assert list(run.not_scores) == ["num_prompt_tokens"]
    assert run.settings == {"method": "multiple_choice_joint", "temperature": "0.0"}
    assert run.notes == ()


def test_the_file_of_scores_may_be_named_instead_of_its_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [instance_stats("id1", stat("exact_match", 1.0))])
    assert read_helm_run(folder / "per_instance_stats.json") == read_helm_run(folder)


def test_each_split_and_perturbation_is_a_run(tmp_path: Path) -> None:
    """A score that HELM computed on the worst perturbation is left out."""
    computed_on_worst = dict(TYPOS, computed_on="worst")
    items = [
        instance_stats("id1", stat("exact_match", 1.0, "valid")),
        instance_stats("id2", stat("exact_match", 0.0), stat("exact_match", 0.0, perturbation=computed_on_worst)),
        instance_stats("id2", stat("exact_match", 1.0, perturbation=TYPOS), perturbation=TYPOS),
    ]

    valid, test, test_with_typos = read_helm_run(write_run(tmp_path / "run", items)).runs

    scenario = "mmlu:subject=anatomy,method=multiple_choice_joint"
    assert valid.task == f"{scenario} (valid)"
    assert valid.samples[0].document == "id1"
    assert dict(valid.samples[0].values) == {"exact_match": 1.0}
    assert test.task == f"{scenario} (test)"
    assert test.samples[0].document == "id2"
    assert dict(test.samples[0].values) == {"exact_match": 0.0}
    assert test_with_typos.task == f"{scenario} (test) (typos(prob=0.05))"
    assert test_with_typos.samples[0].document == "id2"
    assert dict(test_with_typos.samples[0].values) == {"exact_match": 1.0}
    assert len({run.evaluation for run in (valid, test, test_with_typos)}) == 1


def test_training_trials_are_repeats(tmp_path: Path) -> None:
    items = [instance_stats("id1", stat("exact_match", float(trial)), trial=trial) for trial in (0, 1)]
    (run,) = read_helm_run(write_run(tmp_path / "run", items)).runs
    assert [(item.repeat, item.values["exact_match"]) for item in run.samples] == [(0, 0.0), (1, 1.0)]


def test_texts_of_instances_come_from_either_file(tmp_path: Path) -> None:
    """They are in the file of requests and in that of instances."""
    items = [instance_stats("id1", stat("exact_match", 1.0))]
    folder_with_requests = write_run(tmp_path / "a", items, [request_state("id1")])
    folder_with_instances = write_run(tmp_path / "b", items)
    (folder_with_instances / "instances.json").write_text(json.dumps([request_state("id1")["instance"]]))

    (by_requests,) = read_helm_run(folder_with_requests).runs
    (by_instances,) = read_helm_run(folder_with_instances).runs

    assert by_requests.samples[0].digest is not None
    assert by_instances.samples[0].digest == by_requests.samples[0].digest
    assert by_requests.prompts is not None


def test_instances_without_texts_have_no_digest(tmp_path: Path) -> None:
    items = [instance_stats("id1", stat("exact_match", 1.0))]
    (run,) = read_helm_run(write_run(tmp_path / "run", items)).runs
    assert run.samples[0].digest is None
    assert "rows are matched by the ids of instances only" in run.notes[0]


def test_requests_without_scores_are_missing_samples(tmp_path: Path) -> None:
    items = [instance_stats("id1", stat("exact_match", 1.0))]
    requests = [request_state("id1"), request_state("id2"), request_state("id3", split="valid")]
    (run,) = read_helm_run(write_run(tmp_path / "run", items, requests)).runs
    reasons = {item.document: item.reason for item in run.samples}
    assert reasons == {"id1": None, "id2": "the instance has no scores"}
    assert run.notes == ("1 of 2 instances have no scores in per_instance_stats.json",)


def test_a_mean_that_is_not_the_reported_one_makes_its_metric_unusable(tmp_path: Path) -> None:
    items = [instance_stats("id1", stat("exact_match", 1.0), stat("f1_score", 0.5))]
    stats = [stat("exact_match", 0.5), stat("f1_score", 0.5)]
    (run,) = read_helm_run(write_run(tmp_path / "run", items, stats=stats)).runs
    assert run.metrics == ("f1_score",)
    assert run.not_scores == {"exact_match": "HELM reports 0.5, which is not the mean of the instances (1)"}


def test_the_name_of_the_model_is_no_part_of_the_task(tmp_path: Path) -> None:
    items = [instance_stats("id1", stat("exact_match", 1.0))]
    spec = {**run_spec(), "name": "narrative_qa:model=openai_gpt2,model_deployment=huggingface_gpt2"}
    (run,) = read_helm_run(write_run(tmp_path / "run", items, spec=spec)).runs
    assert run.task == "narrative_qa"
