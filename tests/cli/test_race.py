"""``race``, and ``run --precision``: the library's results, saved, verified, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.results import load

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
Cli = Callable[..., tuple[int, str, str]]
MINI = ["--datasets", "mini"]
MODELS = ("racing_models:by_length", "racing_models:first")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "racing_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)


def scores(staicc: Cli, file: str) -> list[Any]:
    return [json.loads(line) for line in staicc("export", "scores", file, "--json")[1].splitlines()]


def test_a_race_prints_and_saves_what_the_library_returns(staicc: Cli) -> None:
    command = ["race", "--model", MODELS[0], "--model", MODELS[1], *MINI, "--margin", "0.1", "--store", "s.sqlite"]
    status, out, err = staicc(*command, "--json", "race.json", "--records", "records.jsonl")
    assert (status, err) == (0, "")
    first, second = map(StaICC.load_kernel, MODELS)
    expected = race(StaICC.Normal(datasets=["mini"]), first, second, 0.1)
    saved: Any = load("race.json")
    assert [result.stopping for result in saved.results()] == [result.stopping for result in expected.results()]
    assert str(expected["first"].stopping) in out
    assert [result.model.split()[0] for result in saved.results()] == list(MODELS)
    assert len(Path("records.jsonl").read_text().splitlines()) == 2 * expected["first"].stopping.queries
    status, out, _ = staicc("verify", "race.json")
    assert status == 0
    assert "recomputed  Race: the parts" in out
    assert "stopped early" in staicc("compare", "race.json")[2]
    rows = scores(staicc, "race.json")
    assert {row["run"] for row in rows} == {"race: first", "race: second"}
    assert all(row["low"] is None for row in rows)  # the interval of a race is that of the difference
    assert staicc(*command, "--json", "two.json", "--chunk-size", "3")[0] == 0
    again: Any = load("two.json")
    assert list(again.results()) == list(saved.results())
    assert all(result.provenance.predictors[0].computed == 0 for result in again.results()), "all from the store"
