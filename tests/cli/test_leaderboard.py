"""``leaderboard``: only what is verified is ranked, and a changed file is shown as such."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import verify_file
from StaICC.cli import main, reports


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reports, "data_home", lambda: tmp_path / "home")
    (tmp_path / "runs" / "deep").mkdir(parents=True)
    for name, label in (("a", 0), ("deep/b", 1), ("changed", 2)):
        result = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space, label=label: label)
        result.save(f"runs/{name}.json")
    data = json.loads(Path("runs/changed.json").read_text("utf-8"))
    data["Divided results"]["mini"]["accuracy"] = data["Averaged results"]["accuracy"] = 0.99
    Path("runs/changed.json").write_text(json.dumps(data), "utf-8")
    Path("runs/other.json").write_text("{}", "utf-8")
    return tmp_path


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
    assert re.findall(r"<bdi>(a|deep/b)</bdi>", board) in (["a", "deep/b"], ["deep/b", "a"])
    assert "0.9900" not in board
    assert "2 of 4 files are not ranked." in page
    assert 'href="results/deep/b.json"' in page
    assert Path("site/results/deep/b.json").read_bytes() == Path("runs/deep/b.json").read_bytes()
    assert not Path("site/results/changed.json").exists()


def test_a_copy_is_not_ranked_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as in the site of an earlier build, within the folder of the runs."""
    assert main(["leaderboard", "runs", "-o", "runs/site"]) == 1
    Path("runs/crlf.json").write_bytes(Path("runs/a.json").read_bytes().replace(b"\n", b"\r\n"))  # git on Windows
    assert main(["leaderboard", "runs", "-o", "other", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    ranked = [Path(row["file"]) for row in rows if row["status"] == "recomputed"]
    assert ranked == [Path("runs/a.json"), Path("runs/deep/b.json")]
    copies = {row["found"] for row in rows if row["status"].startswith("COPY")}
    assert copies == {"the same result as a", "the same result as deep/b"}
    assert not Path("other/results/site").exists()


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

    monkeypatch.setattr("StaICC.benchmarks.verify.verify_file", verify_and_note)
    return names


def test_unchanged_files_are_verified_once_and_removed_ones_disappear(folder: Path, verified: list[str]) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    assert sorted(verified) == ["a.json", "b.json", "changed.json", "other.json"]
    verified.clear()
    Path("runs/deep/b.json").rename("runs/renamed.json")
    main(["leaderboard", "runs", "-o", "site"])
    assert sorted(verified) == ["changed.json", "other.json"]  # what is not recomputed may be, later
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
        monkeypatch.setattr(reports, "_digest_of_code", lambda: "another version")
    elif change == "no folder":
        monkeypatch.setattr(reports, "data_home", lambda: folder / "runs" / "a.json")
    else:
        path.write_text(path.read_text("utf-8")[:50] if change == "half" else "[]", "utf-8")
    verified.clear()
    assert main(["leaderboard", "runs", "-o", "site"]) == 1
    assert sorted(verified) == ["a.json", "b.json", "changed.json", "other.json"]
    assert not Path("site/results/changed.json").exists()


def test_the_commands_of_the_template_repository(folder: Path) -> None:
    """Each command of the workflow and the page that reads submissions runs on a folder of submissions."""
    yaml = pytest.importorskip("yaml")
    template = Path(__file__).parents[2] / "examples" / "leaderboard"
    shutil.copytree(template, folder / "repository")
    os.chdir(folder / "repository")
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
