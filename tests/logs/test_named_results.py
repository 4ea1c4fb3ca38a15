"""Which logs are one result, and what its name says."""

from __future__ import annotations

import json
from pathlib import Path

from StaICC.logs.reading import read_logs
from tests.logs.made_logs import DATE, edited_json, results_file, write_evaluation

SECOND_DATE = "2026-02-03T00-00-00.000000"


def set_shots(folder: Path, shots: dict[str, int]) -> None:
    """Set the number of demonstrations of each task."""
    with edited_json(results_file(folder)) as results:
        results["n-shot"] = shots


def test_the_tasks_of_one_evaluation_stay_together(tmp_path: Path) -> None:
    """A second evaluation of arc has the settings that gsm had in the first one."""
    folder = write_evaluation(tmp_path, {"arc": {"acc": [1.0] * 4}, "gsm": {"acc": [1.0] * 4}}, model="m")
    set_shots(folder, {"arc": 0, "gsm": 5})
    write_evaluation(tmp_path, {"arc": {"acc": [0.0] * 4}}, model="m", date=SECOND_DATE, fewshot=5)
    results = read_logs(tmp_path)
    assert list(results) == [f"m ({DATE})", f"m ({SECOND_DATE})"]
    assert results[f"m ({DATE})"].divided == {"arc": {"acc": 1.0}, "gsm": {"acc": 1.0}}
    assert results[f"m ({SECOND_DATE})"].divided == {"arc": {"acc": 0.0}}


def test_the_name_has_every_evaluation_that_a_result_is_from(tmp_path: Path) -> None:
    """Two evaluations with five demonstrations are one result, and one without demonstrations is another."""
    dates = ["2026-01-01T00-00-00.000000", "2026-01-02T00-00-00.000000", "2026-01-03T00-00-00.000000"]
    write_evaluation(tmp_path, {"arc": {"acc": [1.0] * 4}}, model="m", date=dates[0], fewshot=5)
    write_evaluation(tmp_path, {"arc": {"acc": [0.0] * 4}}, model="m", date=dates[1], fewshot=0)
    write_evaluation(tmp_path, {"gsm": {"acc": [1.0] * 4}}, model="m", date=dates[2], fewshot=5)
    assert list(read_logs(tmp_path)) == [f"m ({dates[0]} + {dates[2]})", f"m ({dates[1]})"]


def write_table(path: Path, task: str, score: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{row},{task},{score}" for row in range(4)]
    path.write_text("\n".join(["row,task,acc", *lines]), "utf-8")
    return path


def test_tables_of_the_same_name_are_of_different_models(tmp_path: Path) -> None:
    """Also if they have different tasks, so that nothing but the path says that two models made them."""
    first = write_table(tmp_path / "runs" / "large" / "scores.csv", "sums", 1)
    second = write_table(tmp_path / "runs" / "small" / "scores.csv", "words", 0)
    results = read_logs(first, second)
    assert {name: list(result.divided) for name, result in results.items()} == {
        "large/scores": ["sums"],
        "small/scores": ["words"],
    }
    assert [result.provenance.names for result in results.values()] == ["large/scores", "small/scores"]


def test_tables_of_different_formats_are_told_apart_by_their_suffixes(tmp_path: Path) -> None:
    table = write_table(tmp_path / "scores.csv", "sums", 1)
    lines = tmp_path / "scores.jsonl"
    lines.write_text("\n".join(json.dumps({"row": row, "task": "words", "acc": 0}) for row in range(4)), "utf-8")
    assert list(read_logs(table, lines)) == ["scores.csv", "scores.jsonl"]


def test_tables_that_name_their_model_are_one_result_of_it(tmp_path: Path) -> None:
    paths = []
    for task in ("sums", "words"):
        path = tmp_path / task / "scores.csv"
        path.parent.mkdir()
        path.write_text(f"row,task,model,acc\n1,{task},large,1\n2,{task},large,0\n", "utf-8")
        paths.append(path)
    (result,) = read_logs(*paths).values()
    assert result.provenance.names == "large"
    assert list(result.divided) == ["sums", "words"]
