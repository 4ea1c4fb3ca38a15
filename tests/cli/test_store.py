"""``python -m StaICC store``: data on stdout, exit status, JSON."""

from __future__ import annotations

import argparse
import json

import pytest

from StaICC.cli import store as command
from StaICC.errors import SchemaError
from StaICC.inference.store import PredictionStore, query_key
from StaICC.inference.store_format import IDENTITY

KEYS = [query_key(f"prompt {number}", ["a", "b"]) for number in range(50)]


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


@pytest.fixture
def path(tmp_path):
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model A", [(key, [0.25, 0.75]) for key in KEYS])
        store.put_many(f"{IDENTITY}model B", [(KEYS[0], 1)])
    return tmp_path / "run.sqlite"


def spoil(path):
    data = bytearray(path.read_bytes())
    position = data.index(KEYS[7]) + 40
    data[position] ^= 1
    path.write_bytes(data)


def test_info(path, capsys):
    assert run("info", path) == 0
    out = capsys.readouterr().out
    assert "51 answers" in out
    assert "        50  model A  (stored without an identity by an older version; not used)\n" in out
    assert f"         1  {IDENTITY}model B\n" in out
    assert run("info", path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answers"], found["damaged"], found["models"][0]["fingerprint"]) == (51, 0, f"{IDENTITY}model B")


def test_info_of_a_store_with_a_damaged_row(path, capsys):
    spoil(path)
    assert run("info", path) == 1
    said = capsys.readouterr()
    assert "50  model A  (1 damaged)" in said.out
    assert "1 answers fail their checksum" in said.err


def test_export(path, tmp_path, capsys):
    assert run("export", path) == 0
    said = capsys.readouterr()
    assert said.err == "51 answers\n"
    lines = [json.loads(line) for line in said.out.splitlines()]
    model = lines[-1]["model"]
    assert {"answer": [0.25, 0.75], "fingerprint": "model A", "key": KEYS[0].hex(), "model": model} in lines
    assert run("export", path, "--output", tmp_path / "out.jsonl", "--json") == 0
    assert (tmp_path / "out.jsonl").read_text() == said.out
    with pytest.raises(FileExistsError):
        run("export", path, "--output", tmp_path / "out.jsonl")


def test_an_export_that_fails_leaves_no_file(path, tmp_path):
    spoil(path)
    for _ in range(2):
        with pytest.raises(SchemaError, match="salvage"):
            run("export", path, "--output", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


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


def test_salvage(path, tmp_path, capsys):
    spoil(path)
    assert run("salvage", path, tmp_path / "new", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "answers": 50,
        "models": [f"{IDENTITY}model B", "model A"],
        "path": str(tmp_path / "new"),
        "problem": None,
        "unnamed": 0,
    }
    assert run("salvage", path, tmp_path / "new 2") == 0
    assert "50 answers saved of 2 named models\n" in capsys.readouterr().out
    assert run("info", tmp_path / "new 2") == 0


def test_errors_are_raised_for_the_main_program_to_show(tmp_path):
    (tmp_path / "text").write_text("no store")
    with pytest.raises(SchemaError, match="not a prediction store"):
        run("info", tmp_path / "text")
    with pytest.raises(SystemExit):
        run("nothing", tmp_path)
