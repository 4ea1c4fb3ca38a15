"""``python -m StaICC store``: data on stdout, exit status, JSON."""

from __future__ import annotations

import json

import pytest

from StaICC.cli import main
from StaICC.inference.store import PredictionStore, query_key

KEYS = [query_key(f"prompt {number}", ["a", "b"]) for number in range(50)]


def run(*words: object) -> int:
    return main(["store", *map(str, words)])


@pytest.fixture
def path(tmp_path):
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model A", [(key, [0.25, 0.75]) for key in KEYS])
        store.put_many("model B", [(KEYS[0], 1)])
    return tmp_path / "run.sqlite"


def test_info(path, capsys):
    assert run("info", path) == 0
    out = capsys.readouterr().out
    assert "51 answers" in out
    assert "        50  model A\n         1  model B\n" in out
    assert run("info", path, "--json") == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["answers"], info["models"]) == (51, {"model A": 50, "model B": 1})


def test_export(path, tmp_path, capsys):
    assert run("export", path) == 0
    said = capsys.readouterr()
    assert said.err == "51 answers\n"
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert {"answer": [0.25, 0.75], "fingerprint": "model A", "key": KEYS[0].hex()} in lines
    assert run("export", path, "--output", tmp_path / "out.jsonl", "--json") == 0
    assert (tmp_path / "out.jsonl").read_text() == said.out
    assert run("export", path, "--output", tmp_path / "out.jsonl") == 2


def test_merge(path, tmp_path, capsys):
    new = tmp_path / "all.sqlite"
    assert run("merge", new, path, path, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {str(path): {"added": 0, "present": 51, "different": 0}}
    with PredictionStore(path) as store, PredictionStore(new) as other:
        other.put_many("model A", [(query_key("more", []), 0)])
        store.put_many("model A", [(query_key("more", []), 1)])
    assert run("merge", new, path) == 0
    assert (
        capsys.readouterr().out == f"{path}: 0 answers added, 51 were there, 1 differ from those there (not copied)\n"
    )
