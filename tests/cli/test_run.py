"""``python -m StaICC run``: every benchmark, saved, shown, and what it refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.tasks import BENCHMARKS
from StaICC.inference.store import PredictionStore
from StaICC.results import ResultGroup, load

Cli = Callable[..., tuple[int, str, str]]
SMALL = ["--datasets", "mini", "--limit", "2"]


@pytest.fixture
def ppm() -> Any:
    return StaICC.load_kernel("ppm")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_prints_its_table(name: str, staicc: Cli, ppm: Any) -> None:
    expected = BENCHMARKS[name](datasets=["mini"], limit=1)(ppm)
    assert staicc("run", name, "--datasets", "MINI", "--limit", "1", "--no-save") == (0, f"{expected}\n", "")


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


def test_json_instead_of_the_table(staicc: Cli, ppm: Any) -> None:
    printed = ResultGroup.from_dict(json.loads(staicc("run", "suite", *SMALL, "--json", "-")[1]))
    expected = StaICC.Suite(datasets=["mini"], limit=2)(ppm)
    for result in expected.results():
        result.provenance = result.provenance.named("ppm")
    assert printed == expected


def test_predictions_are_kept_in_a_store(staicc: Cli) -> None:
    for name in ("a", "b"):
        command = ["run", "normal", *SMALL, "--store", "s", "--model-name", name, "--json", "r.json", "--overwrite"]
        first = staicc(*command)
        assert staicc(*command)[:2] == first[:2]
        assert load("r.json").provenance.predictors[0].name == name  # type: ignore[union-attr]
    with PredictionStore("s") as store:
        models = [(name.split()[-1], count) for name, count in store.info().models.items()]
    assert models == [("name:a", 4), ("name:b", 4)]


@pytest.mark.pack
def test_several_data_sets(staicc: Cli) -> None:
    lines = staicc("run", "normal", "--datasets", "AGNews", "TREC", "--limit", "1", "--k", "1")[1].splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["AGNews", "TREC", "mean"]


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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--limit 0", "limit must be an integer of at least 1, not 0"),
        ("--k -1", "k must be an integer of at least 0, not -1"),
        ("--datasets minni", "did you mean 'mini'?"),
        ("--datasets mini mini", "'mini' was given twice"),
        ("--model pmp", "did you mean 'ppm'?"),
        ("--metrics 0.1", "did you mean '0.1.1'?"),
        ("--tried 0", "tried must be an integer of at least 1, not 0"),
        ("--workers 0", "workers must be an integer of at least 1, not 0"),
        ("--chunk-size 0", "chunk_size must be an integer of at least 1, not 0"),
        ("--stop x", "Add it"),
    ],
)
def test_bad_arguments_are_refused_before_a_prediction(
    staicc: Cli, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    import StaICC.benchmarks.experimentor as module

    def never(*given: Any) -> Any:
        raise AssertionError("predicted before the arguments were checked")

    monkeypatch.setattr(module, "predict_queries", never)
    data = [] if "--datasets" in line else ["--datasets", "mini"]
    status, out, err = staicc("run", "normal", *data, *line.split())
    assert (status, out) == (2, "")
    assert err.startswith("staicc: ")
    assert message in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("more", "drawn"), [([], True), (["--quiet"], False)])
def test_progress_is_drawn_on_a_terminal_and_wiped(
    monkeypatch: pytest.MonkeyPatch, more: list[str], drawn: bool
) -> None:
    from StaICC.cli import main

    monkeypatch.delenv("STAICC_PROGRESS", raising=False)
    monkeypatch.setattr("StaICC.progress._FIRST_SECONDS", 0.0)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    assert main(["run", "normal", *SMALL, "--no-save", *more]) == 0
    shown = stream.getvalue()
    assert ("Normal, mini: " in shown) is drawn
    assert not drawn or shown.endswith(" \r")
    assert "\n" not in shown
