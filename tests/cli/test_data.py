"""``python -m StaICC data``: what it prints, where, and with what status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from StaICC.cli import data
from StaICC.datasets import get_card, names
from StaICC.datasets.pack import table_path
from StaICC.errors import DataDamagedError, DataMissingError


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    data.add_arguments(parser)
    return data.run(parser.parse_args(arguments))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    return tmp_path / "home"


def test_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("path") == 0
    assert capsys.readouterr() == (f"{home}\n", "")
    assert not home.exists()


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == ""
    assert len(lines) == 12
    assert lines[0].split() == ["INDEX", "NAME", "TITLE", "TASK", "LABELS", "ROWS", "STATE", "LICENCE"]
    for index, name in enumerate(names()):
        assert lines[index + 1].startswith(f"{index}      {name} ")
        assert " missing " in lines[index + 1]
    assert lines[11].startswith("-      mini ")
    assert " shipped " in lines[11]


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["index"] for one in listed] == [*range(10), None]
    assert [one["name"] for one in listed] == [*names(), "mini"]
    assert [one["state"] for one in listed] == ["missing"] * 10 + ["shipped"]
    assert {key: value for key, value in listed[4].items() if key not in ("index", "state")} == get_card(
        "TREC"
    ).to_dict()


def test_verify_without_data(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 11
    assert err.count("is missing") == 10
    assert "python -m StaICC data install" in err
    assert not home.exists()


def test_verify_as_json_shows_both_digests(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_path("TREC").parent.mkdir(parents=True)
    table_path("TREC").write_bytes(b"")
    assert run("verify", "--json") == 1
    out, err = capsys.readouterr()
    found = {one["name"]: one for one in json.loads(out)}
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (found["TREC"]["state"], found["TREC"]["found"]) == ("damaged", empty)
    assert found["TREC"]["expected"] == get_card("TREC").digests.file
    assert found["AGNews"]["state"] == "missing"
    assert str(table_path("TREC")) in err


def test_install_needs_the_published_wheel(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="STAICC_OFFLINE"):
        run("install")
    (tmp_path / "some.whl").write_bytes(b"PK")
    with pytest.raises(DataDamagedError, match="is not the published wheel"):
        run("install", str(tmp_path / "some.whl"))
    with pytest.raises(DataMissingError, match="cannot be read"):
        run("install", str(tmp_path / "no.whl"))


def test_install_says_where(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(data.pack, "install", asked.append)
    assert run("install") == run("install", "some.whl") == 0
    assert asked == [None, Path("some.whl")]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count(str(home)) == 2
    assert run("install", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(data.pack.data_home()), "datasets": list(names())}


@pytest.mark.parametrize("arguments", [[], ["remove"], ["list", "extra"], ["install", "a", "b"], ["path", "extra"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err
