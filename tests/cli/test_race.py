"""``race``, and ``run --precision``: the library's results, saved, verified, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.results import Result, ResultGroup, load

MODULE = """
from StaICC.inference.identity import Identity

class Model:
    def __init__(self, name):
        self.name = name

    def identity(self):
        return Identity({"model": self.name})

    def __call__(self, prompt, label_space):
        chosen = len(prompt) % len(label_space) if self.name == "by_length" else 0
        return [float(place == chosen) for place in range(len(label_space))]

def by_length(argument):
    return Model("by_length")

def first(argument):
    return Model("first")
"""

MINI = ["--datasets", "mini"]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    (tmp_path / "racing_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "racing_models:by_length", "racing_models:first"


def test_a_race_prints_and_saves_what_the_library_returns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, models: tuple[str, str]
) -> None:
    path, records = tmp_path / "race.json", tmp_path / "records.jsonl"
    arguments = [
        "--margin",
        "0.1",
        "--json",
        str(path),
        "--records",
        str(records),
        "--store",
        str(tmp_path / "s.sqlite"),
    ]
    assert main(["race", "--model", models[0], "--model", models[1], *MINI, *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    first, second = map(StaICC.load_kernel, models)
    expected = race(StaICC.Normal(datasets=["mini"]), first, second, 0.1)
    saved = load(path)
    assert isinstance(saved, ResultGroup)
    assert [one.stopping for one in saved.results()] == [one.stopping for one in expected.results()]
    assert str(expected["first"].stopping) in printed.out
    assert [one.model.split()[0] for one in saved.results()] == list(models)
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(lines) == 2 * expected["first"].stopping.queries
    assert main(["verify", str(path)]) == 0
    assert "recomputed  Race: the parts" in capsys.readouterr().out
    assert main(["compare", str(path)]) == 2
    assert "stopped early" in capsys.readouterr().err
    assert main(["export", "scores", str(path), "--json"]) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["run"] for one in scores} == {"race: first", "race: second"}
    assert all(one["low"] is None for one in scores)  # the interval of a race is that of the difference


def test_a_race_continues_from_its_store(tmp_path: Path, models: tuple[str, str]) -> None:
    command = ["race", "--model", models[0], "--model", models[1], *MINI, "--store", str(tmp_path / "s.sqlite")]
    assert main([*command, "--json", str(tmp_path / "one.json")]) == 0
    assert main([*command, "--json", str(tmp_path / "two.json"), "--chunk-size", "3"]) == 0
    one, two = load(tmp_path / "one.json"), load(tmp_path / "two.json")
    assert list(one.results()) == list(two.results())
    assert all(each.provenance.predictors[0].computed == 0 for each in two.results())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "ppm"], "got 1, expected two"),
        (["--model", "ppm"] * 3, "got 3, expected two"),
        (["--model", "ppm"] * 2 + ["--margin", "0"], "wrong margin"),
        (["--model", "ppm"] * 2 + ["--score", "likelihood"], "outputs='auto'"),
        (["--model", "ppm"] * 2 + ["--limit", "0"], "limit"),
        (["--model", "ppm"] * 2 + ["--json", "StaICC/__init__.py"], ""),
    ],
)
def test_what_a_race_refuses(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["race", *MINI, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_run_with_precision(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "early.json"
    arguments = ["--precision", "0.15", "--score", "likelihood", "--outputs", "probabilities", "--json", str(path)]
    assert main(["run", "normal", *MINI, *arguments]) == 0
    printed = capsys.readouterr().out
    ppm: Any = StaICC.load_kernel("ppm")
    expected = StaICC.Normal(datasets=["mini"], outputs="probabilities")(ppm, precision=0.15, score="likelihood")
    saved = load(path)
    assert isinstance(saved, Result)
    assert saved.stopping == expected.stopping
    assert str(saved.stopping) in printed
    assert main(["verify", str(path)]) == 0
    assert saved.stopping is not None
    capsys.readouterr()
    assert main(["export", "scores", str(path), "--json"]) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    interval = saved.stopping.interval
    known = [(one["dataset"], one["metric"], one["low"], one["high"], one["level"]) for one in scores if one["level"]]
    assert known == [(None, saved.stopping.score, interval.low, interval.high, 0.95)]
    full, page = tmp_path / "full.json", tmp_path / "page.html"
    assert main(["run", "normal", *MINI, "--json", str(full)]) == 0
    assert main(["compare", str(full), str(path)]) == 2
    assert "it stopped early" in capsys.readouterr().err
    assert main(["report", str(full), str(path), "--output", str(page)]) == 0
    assert "STOPPED EARLY, do not compare with full runs: early, Normal." in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["normal", "--precision", "0"], "wrong precision: got 0.0"),
        (["normal", "--precision", "nan"], "wrong precision: got nan"),
        (["normal", "--score", "accuracy"], "got no precision"),
        (
            ["suite", "--precision", "0.1"],
            "--precision is for the benchmark normal with one k and without a method: got suite",
        ),
        (["gler", "--precision", "0.1"], "got gler"),
        (["normal", "--precision", "0.1", "--method", "all"], "got --method all"),
        (["normal", "--precision", "0.1", "--on-error", "collect"], "on_error='collect'"),
        (["normal", "--precision", "0.1", "--tried", "4"], "tried=4"),
        (["normal", "--precision", "0.1", "--metrics", "0.1.1"], "standard metric"),
    ],
)
def test_what_precision_refuses(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["run", *arguments, *MINI]) == 2
    assert message in capsys.readouterr().err


def test_options_of_each_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An option belongs to the model before it."""
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    race = ["race", *MINI, "--limit", "20", "--margin", "0.3", "--quiet"]
    separate = ["--model", "ppm", "--model-option", "escape=C", "--model", "ppm", "--model-option", "order=3"]
    assert main([*race, *separate, "--model-option", "escape=D", "--json", str(files[0])]) == 0
    assert main([*race, "--model", "ppm;escape=C", "--model", "ppm;order=3;escape=D", "--json", str(files[1])]) == 0
    groups = [load(file) for file in files]
    assert [[one.signature.fields["scoring"] for one in group.results()] for group in groups] == [
        ["escape=C;order=12", "escape=D;order=3"]
    ] * 2
    capsys.readouterr()
    for wrong, message in (
        (["--model-option", "order=3", "--model", "ppm", "--model", "ppm"], "got no --model before it"),
        (["--model", "ppm", "--model-option", "order=3;escape=C", "--model", "ppm"], "without a semicolon"),
    ):
        with pytest.raises(SystemExit):
            main([*race, *wrong])
        assert message in capsys.readouterr().err
    for option, message in (("order", "expected name=value"), ("ordre=3", "did you mean 'order'")):
        assert main([*race, "--model", "ppm", "--model", "ppm", "--model-option", option]) == 2
        assert message in capsys.readouterr().err
