"""``python -m StaICC run``: every benchmark, saved, shown, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.catalogue import BENCHMARKS
from StaICC.cli import main
from StaICC.results import Result, ResultGroup, load

SMALL = ["--datasets", "mini", "--limit", "2"]


@pytest.fixture
def ppm() -> Any:
    return StaICC.load_kernel("ppm")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_prints_its_table(capsys: pytest.CaptureFixture[str], name: str, ppm: Any) -> None:
    assert main(["run", name, *SMALL]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    expected = BENCHMARKS[name](datasets=["mini"], limit=2)(ppm)
    assert captured.out == f"{expected}\n"


def test_the_settings_reach_the_benchmark(capsys: pytest.CaptureFixture[str], tmp_path: Path, ppm: Any) -> None:
    path = tmp_path / "result.json"
    arguments = ["--k", "2", "--noisy-channel", "--metrics", "0.1.1", "--json", str(path)]
    assert main(["run", "normal", *SMALL, *arguments]) == 0
    expected = StaICC.Normal(k=2, noisy_channel=True, metrics="0.1.1", datasets=["mini"], limit=2)(ppm)
    expected.provenance = expected.provenance.named("ppm")
    assert load(path) == expected
    assert str(expected.signature) in capsys.readouterr().out


def test_how_numbers_are_read_and_how_many_settings_were_tried(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert main(["run", "normal", *SMALL, "--outputs", "logits", "--tried", "9", "--json", str(path)]) == 0
    result = load(path)
    assert isinstance(result, Result)
    assert result.signature.fields["outputs"] == "logits"
    assert result.details["mini"].baselines["normal"].tried == 9


def test_json_instead_of_the_table(capsys: pytest.CaptureFixture[str], ppm: Any) -> None:
    assert main(["run", "suite", *SMALL, "--json", "-"]) == 0
    found = ResultGroup.from_dict(json.loads(capsys.readouterr().out))
    expected = StaICC.Suite(datasets=["mini"], limit=2)(ppm)
    for one in expected.results():
        one.provenance = one.provenance.named("ppm")
    assert found == expected


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    assert main(["run", "normal", *SMALL, "--records", str(path)]) == 0
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(record["row"], record["repeat"]) for record in records] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_answers_are_kept_in_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "run.sqlite"
    assert main(["run", "normal", *SMALL, "--store", str(store)]) == 0
    first = capsys.readouterr().out
    assert store.exists()
    assert main(["run", "normal", *SMALL, "--store", str(store)]) == 0
    assert capsys.readouterr().out == first


def test_the_order_of_the_data_sets_is_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "MINI", "--limit", "1"]) == 0
    assert "datasets:mini" in capsys.readouterr().out


@pytest.mark.pack
def test_several_data_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "AGNews", "TREC", "--limit", "1", "--k", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["AGNews", "TREC", "mean"]


def test_a_partial_run_is_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import StaICC.cli.benchmark_options as module

    lost = StaICC.Normal(datasets=["mini"])[0].prompt_set()[0]
    monkeypatch.setattr(
        module,
        "load_kernel",
        lambda spec: lambda prompt, label_space: None if prompt == lost else [0.1 * len(prompt), 3.0, 2.0],
    )
    assert main(["run", "normal", *SMALL, "--on-error", "collect", "--json", str(tmp_path / "result.json")]) == 1
    assert "PARTIAL: 1 of 4 queries have no answer" in capsys.readouterr().out
    assert not load(tmp_path / "result.json").complete
    assert main(["run", "normal", *SMALL]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        "staicc: Normal, mini, query 0: the inference function's answer cannot be scored: got"
    )


BAD: list[tuple[list[str], str]] = [
    (["--limit", "0"], "limit must be an integer of at least 1, not 0"),
    (["--k", "-1"], "k must be an integer of at least 0, not -1"),
    (["--datasets", "minni"], "there is no data set 'minni'; did you mean 'mini'?"),
    (["--datasets", "mini", "mini"], "the data set 'mini' was given twice; give each data set once"),
    (["--model", "pmp"], "there is no kind of model 'pmp'; did you mean 'ppm'?"),
    (["--metrics", "0.1"], "there is no metric set '0.1'; did you mean '0.1.1'?"),
    (["--tried", "0"], "tried must be an integer of at least 1, not 0"),
    (["--json", "no/such/result.json"], "the folder no/such is not there; make it first, or give another path"),
    (["--records", "no/such/records.jsonl"], "the folder no/such is not there; make it first, or give another path"),
    (["--json", "."], ". is a folder; give the name of a file"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments_are_refused_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    import StaICC.benchmarks.experimentor as module

    def never(*given: Any) -> Any:
        raise AssertionError("asked before the arguments were checked")

    monkeypatch.setattr(module, "ask", never)
    assert main(["run", "normal", *SMALL, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"staicc: {message}")


# -- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("more", "drawn"), [([], True), (["--quiet"], False)])
def test_progress_is_drawn_on_a_terminal_and_wiped(
    monkeypatch: pytest.MonkeyPatch, more: list[str], drawn: bool
) -> None:
    monkeypatch.delenv("STAICC_PROGRESS", raising=False)
    monkeypatch.setattr("StaICC.progress._FIRST_SECONDS", 0.0)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    assert main(["run", "normal", *SMALL, *more]) == 0
    shown = stream.getvalue()
    assert ("Normal, mini: " in shown) is drawn
    assert not drawn or shown.endswith(" \r")
    assert "\n" not in shown


def test_a_saved_result_says_which_model_it_is_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "triplet-bias", "--datasets", "mini", "--limit", "3", "--json", "r.json"]) == 0
    assert {one.provenance.predictors[0].name for one in load("r.json").results()} == {"ppm"}
    assert (
        main(["run", "normal", "--datasets", "mini", "--limit", "3", "--model-name", "mine", "--json", "r.json"]) == 0
    )
    assert load("r.json").provenance.predictors[0].name == "mine"
