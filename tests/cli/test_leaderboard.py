"""``leaderboard``: only what is verified is ranked, and a changed file is shown as such."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Dataset, Normal
from StaICC.benchmarks import verdict_cache
from StaICC.benchmarks.verify import verify_file
from StaICC.cli import main
from StaICC.results.result import Result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path / "home")
    (tmp_path / "runs" / "deep").mkdir(parents=True)
    for name, label in (("a", 0), ("deep/b", 1), ("changed", 2)):
        result = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space, label=label: label)
        result.save(f"runs/{name}.json")
    data = json.loads(Path("runs/changed.json").read_text("utf-8"))
    data["Divided results"]["mini"]["accuracy"] = data["Averaged results"]["accuracy"] = 0.99
    Path("runs/changed.json").write_text(json.dumps(data), "utf-8")
    Path("runs/other.json").write_text("{}", "utf-8")
    return tmp_path


def names_in(board: str) -> list[str]:
    """Return the names in a table of a page, without the places at which a long name may be broken."""
    return re.findall(r"<bdi>([^<]*)</bdi>", board.replace("<wbr>", ""))


def test_verified_files_are_ranked_and_the_others_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "runs", "-o", "site", "--json"]) == 1
    reported = {Path(row["file"]).name: row["status"].split(":")[0] for row in json.loads(capsys.readouterr().out)}
    assert reported == {
        "a.json": "recomputed",
        "b.json": "recomputed",
        "changed.json": "CONTRADICTED",
        "other.json": "UNREADABLE",
    }
    page = Path("site/index.html").read_text("utf-8")
    board = page[page.index("<caption>Leaderboard") : page.index("</table>")]
    assert "changed" not in board
    assert sorted(set(names_in(board)) & {"a", "deep/b"}) == ["a", "deep/b"]
    assert "0.9900" not in board
    assert "2 of 4 files are not ranked." in page
    assert 'href="results/deep/b.json"' in page
    assert Path("site/results/deep/b.json").read_bytes() == Path("runs/deep/b.json").read_bytes()
    assert not Path("site/results/changed.json").exists()


def test_a_copy_shares_the_place_of_its_original(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as in the site of an earlier build, within the folder of the runs."""
    assert main(["leaderboard", "runs", "-o", "runs/site"]) == 1
    Path("runs/crlf.json").write_bytes(Path("runs/a.json").read_bytes().replace(b"\n", b"\r\n"))  # git on Windows
    assert main(["leaderboard", "runs", "-o", "other", "--json"]) == 1
    rows = {Path(row["file"]).as_posix(): row for row in json.loads(capsys.readouterr().out)}
    assert rows["runs/a.json"]["found"] == "Normal: one place with crlf, site/results/a"
    assert rows["runs/crlf.json"]["found"] == "Normal: one place with a, site/results/a"
    assert {row["status"] for name, row in rows.items() if "a.json" in name or "b.json" in name} == {"recomputed"}
    page = Path("other/index.html").read_text("utf-8")
    board = page[page.index("<caption>Leaderboard") : page.index("</table>")]
    assert sorted(name for name in names_in(board) if name.startswith(("a", "deep"))) == [
        "a = crlf = site/results/a",
        "deep/b = site/results/deep/b",
    ]


def scored(path: str, change: Any = lambda row: row, when: str | None = None, **settings: Any) -> None:
    """Save the result of a model whose scores are changed, with another recorded time or settings of the benchmark."""

    def model(prompt: str, label_space: list[str]) -> list[float]:
        first = (len(prompt) % 7 + 1) / 20
        row = [first, *[(1 - first) / (len(label_space) - 1)] * (len(label_space) - 1)]
        return list(change(row))

    result = Normal(datasets=["mini"], limit=6, **settings)(model)
    assert isinstance(result, Result)
    if when is not None:
        predictors = [replace(own, finished=when) for own in result.provenance.predictors]
        result.provenance = replace(result.provenance, predictors=tuple(predictors))
    result.save(path)


def test_a_copy_is_recognised_by_its_predictions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not by what anyone can write: times, and digits of scores that no reader sees."""

    def sharper(row: list[float]) -> list[float]:
        squares = [value**2 for value in row]
        return [value / sum(squares) for value in squares]

    scored("runs/original.json")
    scored("runs/0_first.json", when="2020-01-01T00:00:00Z")
    scored("runs/1_digits.json", lambda row: [row[0] + 1e-12, *row[1:]])
    scored("runs/2_other.json", sharper)
    main(["leaderboard", "runs", "-o", "site", "--json"])
    found = {Path(row["file"]).stem: row["found"] for row in json.loads(capsys.readouterr().out)}
    assert found["original"].startswith("Normal: one place with 0_first, 1_digits; ")
    assert found["2_other"] == ("Normal: equal labels in all queries as 0_first, 1_digits, original, other scores")
    page = Path("site/index.html").read_text("utf-8")
    assert "0_first = 1_digits = original" in page
    assert "Copies with one changed or missing label" in page


def in_boards(page: str) -> list[list[str]]:
    """Return the names of the runs on each leaderboard of a page."""
    boards = re.findall(r"<caption>Leaderboard.*?</table>", page, re.DOTALL)
    return [sorted(names_in(board)) for board in boards]


@pytest.mark.parametrize("change", [{"unparsed": "wrong"}, {"metrics": "0.1.1"}])
def test_a_copy_with_other_settings_leaves_the_original_on_its_leaderboard(change: Any, folder: Path) -> None:
    """Runs with other metrics or another rule for unparsed replies are on another leaderboard, with their copies."""
    shutil.rmtree("runs")
    os.mkdir("runs")
    scored("runs/original.json")
    scored("runs/0_copy.json", **change)
    Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 1).save("runs/other.json")
    assert main(["leaderboard", "runs", "-o", "site"]) == 0
    first, second = in_boards(Path("site/index.html").read_text("utf-8"))
    assert {"original", "other"} <= {*first} | {*second}
    assert ("original" in first) == ("other" in first)
    assert ("0_copy" in first) != ("original" in first)


def test_a_verdict_does_not_outlive_the_data_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["text,label", *(f"ticket {number},{'bug' if number % 2 else 'wish'}" for number in range(40))]
    Path("runs/tickets.csv").write_text("\n".join(lines), "utf-8")
    own = Dataset.from_file("runs/tickets.csv", texts=["text"], label="label")
    Normal(k=2, datasets=[own])(lambda prompt, label_space: 0).save("runs/own.json")
    for content, status in (("same", "recomputed"), ("changed", "UNCHECKED"), ("same", "recomputed")):
        changed = lines if content == "same" else [*lines[:-1], "another ticket,bug"]
        Path("runs/tickets.csv").write_text("\n".join(changed), "utf-8")
        main(["leaderboard", "runs", "-o", "site", "--json"])
        statuses = {Path(row["file"]).stem: row["status"] for row in json.loads(capsys.readouterr().out)}
        assert statuses["own"].startswith(status)


def test_copies_never_replace_files_of_the_user(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("results").mkdir()
    Path("results/a.json").write_text("mine", "utf-8")
    for arguments in (["runs", "-o", "."], ["results", "-o", "."]):
        assert main(["leaderboard", *arguments]) == 2
        assert "is not the one of an earlier site" in capsys.readouterr().err
    assert Path("results/a.json").read_text("utf-8") == "mine"
    assert main(["leaderboard", "runs"]) == main(["leaderboard", "runs"]) == 1  # the same site again
    assert main(["leaderboard", "site/results", "-o", "site"]) == 2


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were verified, not read from the verdicts of an earlier build."""
    names: list[str] = []

    def verify_and_note(path: Path) -> Any:
        names.append(path.name)
        return verify_file(path)

    monkeypatch.setattr("StaICC.cli.leaderboard.verify_file", verify_and_note)
    return names


def test_unchanged_files_are_verified_once_and_removed_ones_disappear(folder: Path, verified: list[str]) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    assert sorted(verified) == ["a.json", "b.json", "changed.json"]
    verified.clear()
    Path("runs/deep/b.json").rename("runs/renamed.json")
    main(["leaderboard", "runs", "-o", "site"])
    assert sorted(verified) == ["changed.json"]  # what is not recomputed may be, later
    assert sorted(path.name for path in Path("site/results").rglob("*.json")) == ["a.json", "renamed.json"]
    page = Path("site/index.html").read_text("utf-8")
    assert "deep/b" not in page
    Path("site/results/added.json").write_text("of the user", "utf-8")
    Path("site/results/a.json").write_text("of the user", "utf-8")
    Path("runs/a.json").unlink()
    main(["leaderboard", "runs", "-o", "site"])
    assert {Path(f"site/results/{name}.json").read_text("utf-8") for name in ("a", "added")} == {"of the user"}


@pytest.mark.parametrize("change", ["half", "list", "code", "no folder"])
def test_a_damaged_or_foreign_verdict_recomputes_nothing(
    change: str, folder: Path, verified: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    path = folder / "home" / "verdicts.json"
    if change == "code":
        monkeypatch.setattr(verdict_cache, "digest_of_code", lambda: "another version")
    elif change == "no folder":
        monkeypatch.setattr(verdict_cache, "data_home", lambda: folder / "runs" / "a.json")
    else:
        path.write_text(path.read_text("utf-8")[:50] if change == "half" else "[]", "utf-8")
    verified.clear()
    assert main(["leaderboard", "runs", "-o", "site"]) == 1
    assert sorted(verified) == ["a.json", "b.json", "changed.json"]
    assert not Path("site/results/changed.json").exists()


def test_the_commands_of_the_template_repository(folder: Path) -> None:
    """Each command of the workflow and the page that reads submissions runs on a folder of submissions."""
    yaml = pytest.importorskip("yaml")
    template = Path(__file__).parents[2] / "examples" / "leaderboard"
    shutil.copytree(template, folder / "repository")
    os.chdir(folder / "repository")
    shutil.rmtree("submissions/three-models")  # as the page advises: its data sets are not installed here
    workflow = yaml.safe_load((template / ".github/workflows/leaderboard.yml").read_text("utf-8"))
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    text = "\n".join([*steps, (template / "README.md").read_text("utf-8")])
    Path("submissions/my-team").mkdir()
    shutil.copy(folder / "runs/a.json", "submissions/my-team/gpt2.json")
    commands = re.findall(r"python -m StaICC ((?:leaderboard|verify|export) [^|<\n`]*)", text)
    for command in commands:
        words = shlex.split(command)
        if words == ["verify"]:  # of the changed files
            words.append("submissions/my-team/gpt2.json")
        assert "--rerun" in words or main(words) == 0, command
    assert {command.split()[0] for command in commands} == {"leaderboard", "verify", "export"}
    assert Path("site/results/my-team/gpt2.json").is_file()
