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


CHECKED = "prompts, true labels and rows, scores, counts, intervals, baselines, records, notes"


def test_a_result_of_this_library(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "consistent  Normal, file: the digests are the same (checked: digests)",
        f"consistent  Normal, mini: the 6 prompts are the same (checked: {CHECKED})",
        "consistent  Normal, means: the means and the signature follow from the data sets (checked: Averaged results, "
        "signature, provenance)",
        "not checkable  environment, timing, signature / version, provenance (names, times, counts): "
        "recorded by the run",
    ]


def test_as_json(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved), "--json"]) == 0
    file, mini, means = json.loads(capsys.readouterr().out)
    assert mini == {
        "file": str(saved),
        "benchmark": "Normal",
        "dataset": "mini",
        "same": True,
        "first_difference": None,
        "message": "the 6 prompts are the same",
        "checked": CHECKED.split(", "),
        "inconsistent": [],
        "not_checkable": [],
        "consistent": True,
    }
    assert (file["dataset"], file["checked"]) == (means["dataset"], ["digests"]) == (None, ["digests"])


def test_a_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert main(["run", "suite", "--datasets", "mini", "--limit", "1", "--json", str(path)]) == 0
    capsys.readouterr()
    assert main(["verify", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 7 + 1
    assert all(line.startswith("consistent  ") for line in lines[:-1])
    assert lines[-1].endswith("recorded by the run (7 times)")


def test_several_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, saved: Path) -> None:
    data = json.loads(saved.read_text("utf-8"))
    data["Averaged results"]["accuracy"] = 0.875
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    assert main(["verify", str(saved), str(changed)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{saved}:\nconsistent  ")
    assert "INCONSISTENT  Normal, file: the digests differ (checked: digests)\n" in out
    assert "    Averaged results / accuracy: saved 0.875, recomputed 0." in out
    assert main(["verify", str(saved), str(tmp_path / "none.json")]) == 2


def test_json_on_stdout_has_the_digests_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", "normal", "--datasets", "mini", "--limit", "3", "--json", "-"]) == 0
    path = tmp_path / "result.json"
    path.write_text(capsys.readouterr().out, "utf-8")
    assert main(["verify", str(path)]) == 0
    assert "the digests are the same" in capsys.readouterr().out


def test_other_prompts_are_status_1(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    data = json.loads(saved.read_text("utf-8"))
    data["signature"]["k"] = "3"
    saved.write_text(json.dumps(data), encoding="utf-8")
    assert main(["verify", str(saved)]) == 1
    assert "INCONSISTENT  Normal, mini: query 0 is the first whose prompt differs" in capsys.readouterr().out
    assert main(["verify", str(saved), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[1]["first_difference"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "this is not JSON (Expecting value"),
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
