"""``python -m StaICC run``: every benchmark, saved, shown, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.inference.store import PredictionStore
from StaICC.results import load

Cli = Callable[..., tuple[int, str, str]]
SMALL = ["--datasets", "mini", "--limit", "2"]


@pytest.fixture
def ppm() -> Any:
    return StaICC.load_kernel("ppm")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_settings_reach_the_benchmark(staicc: Cli, ppm: Any) -> None:
    settings = ["--k", "2", "--noisy-channel", "--metrics", "0.1.1"]
    status, out, _ = staicc("run", "normal", *SMALL, *settings, "--json", "r.json", "--records", "r.jsonl")
    assert status == 0
    benchmark = StaICC.Normal(k=2, noisy_channel=True, metrics="0.1.1", datasets=["mini"], limit=2)
    expected = benchmark(ppm)
    expected.provenance = expected.provenance.named("ppm")
    assert load("r.json") == expected
    assert str(expected.signature) in out
    records = [json.loads(line) for line in Path("r.jsonl").read_text("utf-8").splitlines()]
    assert [(record["row"], record["repeat"]) for record in records] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    _, out, _ = staicc("run", "normal", *SMALL, "--outputs", "logits", "--tried", "9", "--json")
    result = StaICC.Result.from_dict(json.loads(out))
    assert result.signature.fields["outputs"] == "logits"
    assert result.details["mini"].baselines["normal"].tried == 9


def test_predictions_are_kept_in_a_store(staicc: Cli) -> None:
    for name in ("a", "b"):
        command = ["run", "normal", *SMALL, "--store", "s", "--model-name", name, "--json", "r.json", "--overwrite"]
        first = staicc(*command)
        assert staicc(*command)[:2] == first[:2]
        assert load("r.json").provenance.predictors[0].name == name  # type: ignore[union-attr]
    with PredictionStore("s") as store:
        models = [(name.split()[-1], count) for name, count in store.info().models.items()]
    assert models == [("name:a", 4), ("name:b", 4)]


def test_a_partial_run_is_status_1(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import StaICC.cli.options as module

    lost = StaICC.Normal(datasets=["mini"])[0].prompt_set()[0]
    monkeypatch.setattr(
        module,
        "load_kernel",
        lambda spec: lambda prompt, label_space: None if prompt == lost else [0.1 * len(prompt), 3.0, 2.0],
    )
    status, out, _ = staicc("run", "normal", *SMALL, "--on-error", "collect", "--json", "r.json")
    assert status == 1
    assert "PARTIAL: 1 of 4" in out
    assert not load("r.json").complete
    status, out, err = staicc("run", "normal", *SMALL)
    assert (status, out) == (2, "")
    assert err.startswith("staicc: Normal, mini, query 0: ")
