"""``python -m StaICC verify``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import StaICC
from StaICC.cli import main
from StaICC.results.result import with_digests


@pytest.fixture
def saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "result.json"
    assert main(["run", "normal", "--datasets", "mini", "--limit", "3", "--json", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_result_of_this_library(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved)]) == 0
    *lines, recorded = capsys.readouterr().out.splitlines()
    assert lines == [
        "recomputed  Normal: the digests are the same",
        "recomputed  Normal, mini: the 6 prompts are the same",
        "recomputed  Normal: the means, the signature and the provenance",
    ]
    assert recorded.startswith("recorded by the run, not computed again: times, ")


def test_as_json(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved), "--json"]) == 0
    file, mini, means = json.loads(capsys.readouterr().out)
    assert mini == {
        "file": str(saved),
        "benchmark": "Normal",
        "dataset": "mini",
        "status": "recomputed",
        "message": "the 6 prompts are the same",
        "same": True,
        "first_difference": None,
        "contradicted": [],
        "unchecked": [],
    }
    assert file["dataset"] is means["dataset"] is None


def test_a_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert main(["run", "suite", "--datasets", "mini", "--limit", "1", "--json", str(path)]) == 0
    capsys.readouterr()
    assert main(["verify", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 7 + 1 + 1  # the file, each part, the group, what is recorded
    assert all(line.startswith("recomputed  ") for line in lines[:-1])


def test_what_nothing_computes_again_is_status_3(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    data = json.loads(saved.read_text("utf-8"))
    data["benchmark"] = data["signature"]["benchmark"] = "MyBench"
    data["Averaged results"]["accuracy"] = data["Divided results"]["mini"]["accuracy"] = 0.95
    saved.write_text(json.dumps(with_digests(data)))
    assert main(["verify", str(saved)]) == 3
    out = capsys.readouterr().out
    assert "UNCHECKED  MyBench" in out
    assert "pass the benchmark" in out


def test_several_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, saved: Path) -> None:
    data = json.loads(saved.read_text("utf-8"))
    data["Averaged results"]["accuracy"] = 0.875
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    assert main(["verify", str(saved), str(changed)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{saved}:\nrecomputed  ")
    assert "CONTRADICTED  Normal: the digests differ\n" in out
    assert "    Averaged results / accuracy: saved 0.875, recomputed 0." in out
    assert main(["verify", str(saved), str(tmp_path / "none.json")]) == 2
    data["signature"]["version"] = "2.0.0"
    data["Averaged results"] = json.loads(saved.read_text("utf-8"))["Averaged results"]
    unchecked = tmp_path / "unchecked.json"
    unchecked.write_text(json.dumps(with_digests(data)))
    assert main(["verify", str(saved), str(unchecked)]) == 3
    assert main(["verify", str(saved), str(unchecked), str(changed)]) == 1
    assert main(["verify", str(changed), str(tmp_path / "none.json"), str(unchecked)]) == 2


def test_json_on_stdout_has_the_digests_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", "normal", "--datasets", "mini", "--limit", "3", "--json", "-"]) == 0
    path = tmp_path / "result.json"
    path.write_text(capsys.readouterr().out, "utf-8")
    assert main(["verify", str(path)]) == 0
    assert "the digests are the same" in capsys.readouterr().out


def test_other_prompts_are_status_1(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    data = json.loads(saved.read_text("utf-8"))
    data["signature"]["k"], data["arguments"]["k"] = "3", 3
    saved.write_text(json.dumps(data), encoding="utf-8")
    assert main(["verify", str(saved)]) == 1
    assert "CONTRADICTED  Normal, mini: query 0 is the first whose prompt differs" in capsys.readouterr().out
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


# -- predict again


def test_an_honest_result_is_predicted_again(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    again = ["verify", str(saved), "--rerun", "4", "--model", "ppm"]
    assert main([*again, "--seed", "7"]) == 0
    first = capsys.readouterr().out
    assert "4 of 6 queries predicted again (seed 7): 0 differ" in first
    assert main([*again, "--seed", "7"]) == 0
    assert capsys.readouterr().out == first
    assert main([*again, "--json"]) == 0
    seeds = set()
    for _ in range(3):
        main(again)
        seeds.add(capsys.readouterr().out.partition("(seed ")[2].partition(")")[0])
    assert len(seeds) == 3


def test_invented_label_scores_are_contradicted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """They and all that follows from them are consistent, and the file says that the embedded model predicted them."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=3)
    honest = benchmark(StaICC.load_kernel("ppm"))
    truth = [one.label for one in benchmark[0].all_queries()]
    forged = benchmark(preentered_prediction=[[[float(place == one) for place in range(3)] for one in truth]])
    forged.provenance, forged.signature = honest.provenance, honest.signature
    path = str(tmp_path / "forged.json")
    forged.save(path)
    assert forged["Averaged results"]["accuracy"] == 1
    assert main(["verify", path]) == 0
    assert main(["verify", path, "--rerun", "20", "--model", "ppm"]) == 1
    out = capsys.readouterr().out
    assert "mini / normal / query 0 (test row 0): saved [" in out
    assert "6 of 6 queries predicted again" in out


def test_a_model_with_other_options_proves_nothing(capsys: pytest.CaptureFixture[str], saved: Path) -> None:
    assert main(["verify", str(saved), "--rerun", "20", "--model", "ppm", "--model-option", "order=2"]) == 3
    assert "give the options of the run" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--rerun", "3"], ["--model", "ppm"], ["--rerun", "0", "--model", "ppm"]])
def test_incomplete_options_of_rerun(capsys: pytest.CaptureFixture[str], saved: Path, options: list[str]) -> None:
    assert main(["verify", str(saved), *options]) == 2
    assert ("rerun" if "0" not in options else "queries") in capsys.readouterr().err
