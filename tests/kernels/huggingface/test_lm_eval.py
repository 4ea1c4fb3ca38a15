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

pytest.importorskip("torch")
pytest.importorskip("lm_eval")

from StaICC.kernels.huggingface.kernel import CausalLMKernel

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def run_harness(model: Any, tokenizer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run lm_eval in this process on the tasks of a folder: return its scores, and log its samples in ``logged``."""
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
    (folder / "logged").mkdir()
    for task, samples in found["samples"].items():
        lines = [json.dumps(sample, default=str) for sample in samples]
        (folder / "logged" / f"samples_{task}_now.jsonl").write_text("\n".join(lines), "utf-8")
    scores: dict[str, Any] = found["results"]
    return scores


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("GPT2", {"n_positions": 1024, "max_position_embeddings": 1024}),
        ("Llama", {"max_position_embeddings": 1024}),
        ("GPTNeoX", {"max_position_embeddings": 1024}),
    ],
    ids=["GPT2", "Llama", "GPTNeoX"],
)
@pytest.mark.parametrize("start", [False, True], ids=["no start token", "start token"])
def test_the_harness_and_our_kernel_give_each_label_the_same_probability(
    make_model: Any,
    make_tokenizer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    sizes: dict[str, int],
    start: bool,
) -> None:
    model, tokenizer = make_model(family, **sizes), make_tokenizer(add_start=start)
    benchmark = StaICC.Normal(datasets=["mini"], limit=30)
    kernel = CausalLMKernel(model, tokenizer, label_scoring="full")
    ours = benchmark(kernel, return_outputs=True)

    export_tasks(benchmark, tmp_path / "tasks")
    scores_of_harness = run_harness(model, tokenizer, tmp_path / "tasks", monkeypatch)
    theirs = score_predictions(benchmark, read_predictions(tmp_path / "tasks" / "logged"), return_outputs=True)

    assert isinstance(theirs, Result)
    assert ours.averaged["accuracy"] == theirs.averaged["accuracy"]
    accuracy_of_harness = scores_of_harness["staicc_normal_mini"]["acc,none"]
    assert accuracy_of_harness == pytest.approx(ours.averaged["accuracy"], abs=1e-12)
    assert ours.outputs is not None
    assert theirs.outputs is not None
    for our_output, their_output in zip(ours.outputs["mini"], theirs.outputs["mini"], strict=True):
        probabilities = their_output["normalised_probabilities"]
        assert our_output["normalised_probabilities"] == pytest.approx(probabilities, abs=1e-5)
