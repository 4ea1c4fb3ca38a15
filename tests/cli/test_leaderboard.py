"""``leaderboard``: only what is verified is ranked, and a changed file is shown as such."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import StaICC
from StaICC.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
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
    told = {Path(one["file"]).name: one["status"].split(":")[0] for one in json.loads(capsys.readouterr().out)}
    assert told == {
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


def test_copies_never_replace_files_of_the_user(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("results").mkdir()
    Path("results/a.json").write_text("mine", "utf-8")
    for arguments in (["runs", "-o", "."], ["results", "-o", "."]):
        assert main(["leaderboard", *arguments]) == 2
        assert "is not the one of an earlier site" in capsys.readouterr().err
    assert Path("results/a.json").read_text("utf-8") == "mine"
    assert main(["leaderboard", "runs"]) == main(["leaderboard", "runs"]) == 1  # the same site again
    assert main(["leaderboard", "site/results", "-o", "site"]) == 2


def test_links_lead_to_files_of_any_name(folder: Path) -> None:
    name = "k#1?x%20 a&b.json"
    Path("runs/a.json").rename(f"runs/{name}")
    main(["leaderboard", "runs", "-o", "site"])
    links = re.findall('href="(results/k[^"]*)"', Path("site/index.html").read_text("utf-8"))
    assert [urlsplit(one).path for one in links] == links
    assert [unquote(one) for one in links] == [f"results/{name}"]
    assert Path("site/results", name).exists()


def test_the_same_files_give_the_same_site_and_a_file_more_one_run_more(folder: Path) -> None:
    for name in ("changed", "other"):
        Path(f"runs/{name}.json").unlink()
    assert main(["leaderboard", "runs", "-o", "runs/site"]) == 0
    first = Path("runs/site/index.html").read_bytes()
    assert main(["leaderboard", "runs", "-o", "runs/site"]) == 0  # its copies are not results of their own
    assert Path("runs/site/index.html").read_bytes() == first
    Path("runs/c.json").write_bytes(Path("runs/a.json").read_bytes())
    assert main(["leaderboard", "runs", "-o", "runs/site"]) == 0
    assert b"3 runs." in Path("runs/site/index.html").read_bytes()


def test_a_folder_without_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", str(tmp_path), "-o", str(tmp_path / "site")]) == 2
    assert "no result is recomputed" in capsys.readouterr().err
    assert main(["leaderboard", str(tmp_path / "absent")]) == 2
    assert not (tmp_path / "site").exists()
