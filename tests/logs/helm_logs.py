"""Small folders as HELM writes them, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TYPOS = {"name": "typos", "robustness": True, "fairness": False, "computed_on": "perturbed", "prob": 0.05}


def run_spec(model: str = "openai/gpt2") -> dict[str, Any]:
    """The specification of a run of MMLU."""
    adapter = {"method": "multiple_choice_joint", "model": model, "max_train_instances": 5, "temperature": 0.0}
    name = f"mmlu:subject=anatomy,method=multiple_choice_joint,model={model.replace('/', '_')}"
    return {"name": name, "adapter_spec": adapter}


def stat(name: str, mean: float | None, split: str = "test", **more: Any) -> dict[str, Any]:
    """A statistic; without a mean, it has no observations."""
    values: dict[str, Any] = {"name": {"name": name, "split": split, **more}, "count": int(mean is not None)}
    if mean is not None:
        values["mean"] = mean
    return values


def instance_stats(instance: str, *stats: Mapping[str, Any], trial: int = 0, **more: Any) -> dict[str, Any]:
    """The statistics of one class of metrics for an instance."""
    return {"instance_id": instance, "train_trial_index": trial, "stats": list(stats), **more}


def request_state(instance: str, trial: int = 0, split: str = "test", **more: Any) -> dict[str, Any]:
    """The request of an instance."""
    references = [{"output": {"text": "yes"}, "tags": ["correct"]}, {"output": {"text": "no"}, "tags": []}]
    texts = {
        "id": instance,
        "input": {"text": f"question {instance}"},
        "references": references,
        "split": split,
        **more,
    }
    return {"instance": texts, "train_trial_index": trial, "request": {"prompt": f"Q: question {instance}\nA:"}}


def write_run(
    folder: Path,
    items: Sequence[Mapping[str, Any]],
    requests: Sequence[Mapping[str, Any]] | None = None,
    spec: Mapping[str, Any] | None = None,
    stats: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """Write the folder of a run; files that are ``None`` are left out, and without ``spec`` it is :func:`run_spec`."""
    folder.mkdir(exist_ok=True)
    (folder / "per_instance_stats.json").write_text(json.dumps(list(items)))
    (folder / "run_spec.json").write_text(json.dumps(spec if spec is not None else run_spec()))
    if requests is not None:
        (folder / "scenario_state.json").write_text(json.dumps({"adapter_spec": {}, "request_states": list(requests)}))
    if stats is not None:
        (folder / "stats.json").write_text(json.dumps(list(stats)))
    return folder
