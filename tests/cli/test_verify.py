"""``python -m StaICC verify``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from StaICC.cli import main


@pytest.fixture
def saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "result.json"
    assert main(["run", "normal", "--datasets", "mini", "--limit", "3", "--json", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_result_of_this_library(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved)]) == 0
    assert capsys.readouterr().out == "same  Normal, mini: the 6 prompts are the same\n"


def test_as_json(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "benchmark": "Normal",
            "dataset": "mini",
            "same": True,
            "first_difference": None,
            "message": "the 6 prompts are the same",
        }
    ]


def test_a_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert main(["run", "suite", "--datasets", "mini", "--limit", "1", "--json", str(path)]) == 0
    capsys.readouterr()
    assert main(["verify", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("same  ") for line in lines)


def test_other_prompts_are_status_1(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    data = json.loads(saved.read_text("utf-8"))
    data["signature"]["k"] = "3"
    saved.write_text(json.dumps(data))
    assert main(["verify", str(saved)]) == 1
    assert capsys.readouterr().out == "DIFFERS  Normal, mini: query 0 is the first whose prompt differs\n"
    assert main(["verify", str(saved), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["first_difference"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "no saved result, or a damaged one; it is not JSON (Expecting value"),
        ('{"kind": "result", "schema": 99}', "the file has result schema 99, this version of StaICC reads up to"),
    ],
)
def test_what_is_no_result(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    assert main(["verify", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"staicc: {path}: {message}")
