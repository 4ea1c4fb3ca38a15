"""The same prompts through lm-evaluation-harness and through our kernel: the same answers, but for named differences.

Needs ``lm_eval``, which is not among the packages of the tests: ``pip install lm_eval``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.exchange import read_predictions, score_predictions
from StaICC.benchmarks.harness_tasks import export_tasks
from StaICC.results.result import Result

torch = pytest.importorskip("torch")
pytest.importorskip("lm_eval")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LONG = {"n_positions": 1024, "max_position_embeddings": 1024}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def kernel(model: Any, tokenizer: Any, **options: Any) -> Any:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(model, tokenizer, label_scoring="full", **options)


def harness(model: Any, tokenizer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run lm_eval in this process on the tasks of a folder."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.chdir(folder)
    found = lm_eval.simple_evaluate(
        HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16),
        tasks=["staicc_normal"],
        task_manager=TaskManager(include_path=".", include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    logged = folder / "logged"
    logged.mkdir()
    for task, samples in found["samples"].items():
        lines = [json.dumps(sample, default=str) for sample in samples]
        (logged / f"samples_{task}_now.jsonl").write_text("\n".join(lines), "utf-8")
    return found["results"]


@pytest.mark.parametrize("family", ["GPT2", "Llama", "GPTNeoX"])
@pytest.mark.parametrize("start", [False, True])
def test_label_by_label(
    make_model: Any, make_tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, start: bool
) -> None:
    """With and without a token at the beginning: every label of every query gets the same probability."""
    sizes = LONG if family == "GPT2" else {"max_position_embeddings": 1024}
    model, tokenizer = make_model(family, **sizes), make_tokenizer(add_start=start)
    benchmark = StaICC.Normal(datasets=["mini"], limit=30)
    export_tasks(benchmark, tmp_path / "tasks")
    results = harness(model, tokenizer, tmp_path / "tasks", monkeypatch)
    ours = benchmark(kernel(model, tokenizer), return_outputs=True)
    theirs = score_predictions(benchmark, read_predictions(tmp_path / "tasks" / "logged"), return_outputs=True)
    assert isinstance(theirs, Result)
    assert ours.averaged["accuracy"] == theirs.averaged["accuracy"]
    assert results["staicc_normal_mini"]["acc,none"] == pytest.approx(ours.averaged["accuracy"], abs=1e-12)
    assert ours.outputs is not None
    assert theirs.outputs is not None
    for mine, other in zip(ours.outputs["mini"], theirs.outputs["mini"], strict=True):
        assert mine["normalised_probabilities"] == pytest.approx(other["normalised_probabilities"], abs=1e-5)
