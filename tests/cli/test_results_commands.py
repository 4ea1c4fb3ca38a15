"""``compare``, ``published``, ``report``, ``prompts``, ``score``, ``export`` on files: what they print and refuse."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.cli import main
from StaICC.cli.files import show_result


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, answer in (("a", 0), ("b", 1)):
        StaICC.Normal(datasets=["mini"], limit=10)(lambda prompt, label_space, answer=answer: answer).save(
            f"{name}.json"
        )
    return tmp_path


def test_a_result_is_saved_before_its_reader_can_go_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    result = StaICC.results.load("a.json")
    monkeypatch.setattr("sys.stdout", Gone())
    with pytest.raises(BrokenPipeError):
        show_result(result, tmp_path / "kept.json")
    assert StaICC.results.load(tmp_path / "kept.json") == result


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a.json", "b.json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Normal: first a, second b\nmetric: accuracy (higher is better)\n")
    assert err == ""


def test_compare_by_another_metric_with_a_margin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a.json", "b.json", "--metric", "macro_F1", "--margin", "0.01", "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    saved = [StaICC.results.load(f"{name}.json")["Averaged results"]["macro_F1"] for name in "ab"]  # type: ignore[union-attr]
    assert [float(row["first"]), float(row["second"])] == saved
    assert main(["compare", "a.json", "b.json", "--margin", "0.01"]) == 0
    assert "b not worse than a by more than 0.01: " in capsys.readouterr().out


def test_compare_names_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    StaICC.Suite(datasets=["mini"], limit=4)(lambda prompt, label_space: 0).save("suite.json")
    assert main(["compare", "a.json", "suite.json"]) == 0
    out, err = capsys.readouterr()
    assert "note: mini: 12 of 20 queries of a are not compared" in out
    assert "GLER (not in a)" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.json"], "a comparison needs two results at least, 1 given"),
        (["a.json", "a.json"], "duplicate result: got a.json twice"),
        (["a.json", "no.json"], "no.json: No such file"),
        (["a.json", "bad.json"], "bad.json: "),
        (["a.json", "b.json", "--metric", "f1"], "there is no metric 'f1'"),
        (["a.json", "b.json", "--margin", "-1"], "margin: got -1.0, expected a number between 0 and 1"),
    ],
)
def test_compare_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.json").write_text("{", "utf-8")
    assert main(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_names_of_files_that_share_a_stem(capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        Path(name).mkdir()
        Path(f"{name}.json").rename(f"{name}/result.json")
    assert main(["compare", "a/result.json", "b/result.json"]) == 0
    assert "first a/result.json, second b/result.json" in capsys.readouterr().out


def test_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["published", "--model", "NEO 2.7", "--method", "noisy-channel"]) == 0
    out = capsys.readouterr().out
    assert "0.5678[1]" in out
    assert "[1] DOUBTFUL: all four figures equal those of OPT 2.7" in out
    assert "source: Cho and Inoue (2025), arXiv 2501.15708, Table 8" in out


def test_published_prints_all_models_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["published"]) == 0
    out = capsys.readouterr().out
    assert len([line for line in out.splitlines() if line[:1].isalpha() and " 0." in line]) == 29


def test_published_beside(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["published", "--result", "a.json"]) == 0
    assert "not comparable: the published figures are means over the ten data sets, this result has mini" in (
        capsys.readouterr().out
    )


def test_published_says_where_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["published", "--benchmark", "long-icl", "--method", "vanilla"]) == 2
    assert "no published figure matches all of these options" in capsys.readouterr().err


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a.json", "b.json", "-o", "r.html", "--title", "Two", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"path": "r.html", "bytes": Path("r.html").stat().st_size, "runs": ["a", "b"]}
    assert "<title>Two</title>" in Path("r.html").read_text("utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "a.json", "-o", "no/out"],
        ["prompts", "normal", "--datasets", "mini", "-o", "no/out"],
        ["score", "normal", "nosuch.jsonl", "--datasets", "mini", "--json", "no/out"],
        ["score", "normal", "nosuch.jsonl", "--datasets", "mini", "--records", "no/out"],
        ["export", "scores", "a.json", "-o", "no/out"],
        ["run", "normal", "--datasets", "mini", "--json", "no/out"],
    ],
)
def test_an_output_that_cannot_be_written_is_refused_first(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "no is not there" in said
    assert said.count("\n") == 1
    Path("no").mkdir()
    Path("no/out").mkdir()
    assert main(arguments) == 2
    assert "staicc: no/out is a folder; give the name of a file\n" in capsys.readouterr().err.replace("\\", "/")


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.csv"])
def test_answers_that_are_no_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(name).write_bytes(b"id,label\n\xff\xfe\x00,food\n")
    assert main(["score", "normal", name, "--datasets", "mini"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"staicc: {name}")
    assert "this is not UTF-8 text" in told
    assert told.count("\n") == 1


def test_the_whole_way_out_and_back(capsys: pytest.CaptureFixture[str], anonymous: Any) -> None:
    """Prompts to a file, answers by a program that knows only the file, the score of the run itself."""
    limits = ["--datasets", "mini", "--limit", "10"]
    assert main(["prompts", "normal", *limits, "-o", "prompts.jsonl"]) == 0
    asked = [json.loads(line) for line in Path("prompts.jsonl").read_text("utf-8").splitlines()]
    answers = [json.dumps({"id": one["id"], "index": 0}) for one in reversed(asked)]
    Path("answers.jsonl").write_text("\n".join(answers), "utf-8")
    capsys.readouterr()
    assert main(["score", "normal", "answers.jsonl", *limits, "--json", "scored.json", "--records", "r.jsonl"]) == 0
    assert anonymous(StaICC.load("scored.json")) == anonymous(StaICC.load("a.json"))
    assert len(Path("r.jsonl").read_text("utf-8").splitlines()) == 20
    assert main(["verify", "scored.json"]) == 0


def test_a_partial_score_has_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--datasets", "mini", "--limit", "10"]
    main(["prompts", "normal", *limits, "-o", "prompts.jsonl"])
    asked = [json.loads(line) for line in Path("prompts.jsonl").read_text("utf-8").splitlines()]
    Path("answers.jsonl").write_text(json.dumps({"id": asked[0]["id"], "index": 0}), "utf-8")
    capsys.readouterr()
    assert main(["score", "normal", "answers.jsonl", *limits]) == 2
    assert "19 of 20 queries have no prediction" in capsys.readouterr().err
    assert main(["score", "normal", "answers.jsonl", *limits, "--partial"]) == 1
    assert "PARTIAL: 19 of 20 queries have no answer" in capsys.readouterr().out


def test_the_exported_tasks_say_how_to_score_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "lm-eval", "t", "--datasets", "mini", "--limit", "3", "--k", "2"]) == 0
    readme = Path("t/README.md").read_text("utf-8")
    assert "python -m StaICC score normal logged --k 2 --limit 3 --datasets mini\n" in readme


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "scores", "a.json", "b.json", "-o", "scores.csv"]) == 0
    with Path("scores.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {(one["run"], one["dataset"], one["metric"]): one["value"] for one in rows}
    result = StaICC.load("a.json")
    assert isinstance(result, StaICC.Result)
    assert float(found["a", "mini", "accuracy"]) == result.averaged["accuracy"]
    assert {run for run, _, _ in found} == {"a", "b"}
    assert main(["export", "queries", "a.json", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 20
    assert lines[0]["prediction_label"] == "food"


def test_predictions_after_data_sets_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "normal", "--datasets", "mini", "--limit", "4", "-o", "p.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("p.jsonl").read_text("utf-8").splitlines()]
    Path("a.jsonl").write_text("".join(json.dumps({"id": one["id"], "index": 0}) + "\n" for one in lines), "utf-8")
    first = main(["score", "normal", "a.jsonl", "--datasets", "mini", "--limit", "4"]), capsys.readouterr().out
    last = main(["score", "normal", "--limit", "4", "--datasets", "mini", "a.jsonl"]), capsys.readouterr().out
    assert first == last
    assert first[0] == 0
    assert main(["score", "normal", "--limit", "4", "--datasets", "mini"]) == 2
    assert "predictions: got none, expected a file. Put it first" in capsys.readouterr().err


def test_latex(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "latex", "a.json", "b.json"]) == 0
    text = capsys.readouterr().out
    for name in ("a", "b"):
        value = StaICC.load(f"{name}.json")["Averaged results"]["accuracy"]
        assert f"{value:.4f}" in next(line for line in text.splitlines() if line.startswith("accuracy "))
    assert r"\mathbf{" in text
    assert "% StaICC|benchmark:Normal" in text
    assert main(["export", "latex", "a.json", "b.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["latex"] == text.rstrip("\n")
