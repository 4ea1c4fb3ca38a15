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
    """A folder ``runs`` with the results a and deep/b, one whose accuracy was edited, and a JSON file of another kind.

    The working folder has it. The verdicts of verified files are kept in ``home``.
    """
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path / "home")
    (tmp_path / "runs" / "deep").mkdir(parents=True)
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    benchmark(lambda prompt, label_space: 0).save("runs/a.json")
    benchmark(lambda prompt, label_space: 1).save("runs/deep/b.json")
    benchmark(lambda prompt, label_space: 2).save("runs/changed.json")
    data = json.loads(Path("runs/changed.json").read_text("utf-8"))
    data["Divided results"]["mini"]["accuracy"] = 0.99
    data["Averaged results"]["accuracy"] = 0.99
    Path("runs/changed.json").write_text(json.dumps(data), "utf-8")
    Path("runs/other.json").write_text("{}", "utf-8")
    return tmp_path


def names_in(board: str) -> list[str]:
    """Return the names in a table of a page, without the places at which a long name may be broken."""
    return re.findall(r"<bdi>([^<]*)</bdi>", board.replace("<wbr>", ""))


def leaderboards_of(page: str) -> list[str]:
    """Return the HTML of each leaderboard of a page."""
    return re.findall(r"<caption>Leaderboard.*?</table>", page, re.DOTALL)


def build(capsys: pytest.CaptureFixture[str], folder: str, site: str) -> tuple[int, list[dict[str, Any]]]:
    """Build a site, and return the exit status and what is reported of each file."""
    capsys.readouterr()
    status = main(["leaderboard", folder, "-o", site, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_each_file_is_reported_with_the_status_of_its_verification(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, reported = build(capsys, "runs", "site")

    assert status == 1, "some files are not ranked"

    status_of = {Path(row["file"]).name: row["status"].split(":")[0] for row in reported}
    assert status_of == {
        "a.json": "recomputed",
        "b.json": "recomputed",
        "changed.json": "CONTRADICTED",
        "other.json": "UNREADABLE",
    }


def test_only_verified_files_are_ranked(folder: Path) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    page = Path("site/index.html").read_text("utf-8")
    (board,) = leaderboards_of(page)

    assert {"a", "deep/b"} <= set(names_in(board))
    assert "changed" not in board
    assert "0.9900" not in board, "the accuracy that was edited"
    assert "2 of 4 files are not ranked." in page


def test_the_site_has_copies_of_the_ranked_files(folder: Path) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    page = Path("site/index.html").read_text("utf-8")

    assert 'href="results/deep/b.json"' in page
    assert Path("site/results/deep/b.json").read_bytes() == Path("runs/deep/b.json").read_bytes()
    assert not Path("site/results/changed.json").exists()


def test_a_copy_shares_the_place_of_its_original(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The site of an earlier build within the folder has a copy, and git on Windows makes another."""
    assert main(["leaderboard", "runs", "-o", "runs/site"]) == 1
    copy_with_line_ends_of_windows = Path("runs/a.json").read_bytes().replace(b"\n", b"\r\n")
    Path("runs/crlf.json").write_bytes(copy_with_line_ends_of_windows)

    _, reported = build(capsys, "runs", "other")

    row_of = {Path(row["file"]).as_posix(): row for row in reported}
    assert row_of["runs/a.json"]["found"] == "Normal: one place with crlf, site/results/a"
    assert row_of["runs/crlf.json"]["found"] == "Normal: one place with a, site/results/a"
    for name in ("runs/a.json", "runs/deep/b.json", "runs/site/results/a.json", "runs/site/results/deep/b.json"):
        assert row_of[name]["status"] == "recomputed", name

    (board,) = leaderboards_of(Path("other/index.html").read_text("utf-8"))
    assert {"a = crlf = site/results/a", "deep/b = site/results/deep/b"} <= set(names_in(board))
    assert {"a", "crlf", "deep/b", "site/results/a"}.isdisjoint(names_in(board)), "a copy has a place of its own"


def unchanged(row: list[float]) -> list[float]:
    return row


def save_run(path: str, change: Any = unchanged, finished: str | None = None, **settings: Any) -> None:
    """Save the run of a model whose probability of the first of three labels depends on the length of the prompt.

    Args:
        path: The file.
        change: A function that returns other scores for a list of three scores of the model.
        finished: The time that the result records as its end, instead of the true one.
        settings: Further settings of the benchmark.
    """

    def model(prompt: str, label_space: list[str]) -> list[float]:
        first = (len(prompt) % 7 + 1) / 20
        others = (1 - first) / 2
        return list(change([first, others, others]))

    result = Normal(datasets=["mini"], limit=6, **settings)(model)
    assert isinstance(result, Result)
    if finished is not None:
        predictors = [replace(predictor, finished=finished) for predictor in result.provenance.predictors]
        result.provenance = replace(result.provenance, predictors=tuple(predictors))
    result.save(path)


def squared(row: list[float]) -> list[float]:
    """Return the squares of probabilities as probabilities: other scores, in the same order."""
    squares = [value**2 for value in row]
    return [value / sum(squares) for value in squares]


def test_a_copy_is_recognised_by_its_predictions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not by what anyone can write: times, and digits of scores that no reader sees."""

    def add_invisible_digit(row: list[float]) -> list[float]:
        return [row[0] + 1e-12, row[1], row[2]]

    save_run("runs/original.json")
    save_run("runs/0_first.json", finished="2020-01-01T00:00:00Z")
    save_run("runs/1_digits.json", change=add_invisible_digit)
    save_run("runs/2_other.json", change=squared)

    _, reported = build(capsys, "runs", "site")

    remark_of = {Path(row["file"]).stem: row["found"] for row in reported}
    assert remark_of["original"].startswith("Normal: one place with 0_first, 1_digits; ")
    assert remark_of["2_other"] == "Normal: equal labels in all queries as 0_first, 1_digits, original, other scores"
    page = Path("site/index.html").read_text("utf-8")
    assert "0_first = 1_digits = original" in page
    assert "Copies with one changed or missing label" in page


@pytest.mark.parametrize("settings", [{"unparsed": "wrong"}, {"metrics": "0.1.1"}], ids=str)
def test_a_copy_with_other_settings_leaves_the_original_on_its_leaderboard(settings: Any, folder: Path) -> None:
    """Runs with other metrics or another rule for unparsed replies are on another leaderboard, with their copies."""
    shutil.rmtree("runs")
    os.mkdir("runs")
    save_run("runs/original.json")
    save_run("runs/0_copy.json", **settings)
    Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 1).save("runs/other_model.json")

    assert main(["leaderboard", "runs", "-o", "site"]) == 0

    page = Path("site/index.html").read_text("utf-8")
    names_on_boards = [names_in(board) for board in leaderboards_of(page)]

    assert len(names_on_boards) == 2

    (names_beside_original,) = [names for names in names_on_boards if "original" in names]
    (names_beside_copy,) = [names for names in names_on_boards if "0_copy" in names]

    assert "other_model" in names_beside_original, "the settings are those of the original"
    assert names_beside_copy != names_beside_original


def test_a_verdict_does_not_outlive_the_data_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result of a user's data file is verified again when the file changes, and when it is as before."""
    original = "text,label\n" + "ticket,wish\nticket,bug\n" * 20
    edited = original + "another ticket,bug\n"
    data_file = Path("runs/tickets.csv")
    data_file.write_text(original, "utf-8")
    tickets = Dataset.from_file(data_file, texts=["text"], label="label")
    Normal(k=2, datasets=[tickets])(lambda prompt, label_space: 0).save("runs/own.json")

    def status_with_data(content: str) -> str:
        data_file.write_text(content, "utf-8")
        _, reported = build(capsys, "runs", "site")
        (row_of_own,) = [row for row in reported if Path(row["file"]).name == "own.json"]
        return row_of_own["status"]

    assert status_with_data(original).startswith("recomputed")
    assert status_with_data(edited).startswith("UNCHECKED")
    assert status_with_data(original).startswith("recomputed")


@pytest.mark.parametrize("runs", ["runs", "results"])
def test_copies_never_replace_files_of_the_user(runs: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The site of the working folder would have its copies in the user's folder results."""
    Path("results").mkdir()
    Path("results/a.json").write_text("mine", "utf-8")

    assert main(["leaderboard", runs, "-o", "."]) == 2
    assert "is not the one of an earlier site" in capsys.readouterr().err
    assert Path("results/a.json").read_text("utf-8") == "mine"


def test_the_copies_of_an_earlier_site_are_replaced(folder: Path) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    original = Path("runs/a.json")
    copy = Path("site/results/a.json")
    assert copy.is_file()
    changed = original.read_bytes() + b"\n"
    original.write_bytes(changed)

    status = main(["leaderboard", "runs", "-o", "site"])

    assert status == 1, "the folder has files that are not ranked"
    assert copy.read_bytes() == changed


def test_the_copies_of_a_site_cannot_be_its_runs(folder: Path) -> None:
    main(["leaderboard", "runs", "-o", "site"])

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


def test_a_file_that_was_recomputed_is_verified_once(folder: Path, verified: list[str]) -> None:
    """Also with another name. A file that was not recomputed may be, later."""
    main(["leaderboard", "runs", "-o", "site"])

    assert sorted(verified) == ["a.json", "b.json", "changed.json"]

    verified.clear()
    Path("runs/deep/b.json").rename("runs/renamed.json")
    main(["leaderboard", "runs", "-o", "site"])

    assert verified == ["changed.json"]


def test_a_renamed_file_leaves_no_copy_with_its_earlier_name(folder: Path) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    Path("runs/deep/b.json").rename("runs/renamed.json")

    main(["leaderboard", "runs", "-o", "site"])

    assert sorted(path.name for path in Path("site/results").rglob("*.json")) == ["a.json", "renamed.json"]
    assert "deep/b" not in Path("site/index.html").read_text("utf-8")


def test_files_of_the_user_among_the_copies_stay(folder: Path) -> None:
    """One is new, and one was the copy of a run that is removed now."""
    main(["leaderboard", "runs", "-o", "site"])
    of_user = [Path("site/results/added.json"), Path("site/results/a.json")]
    for path in of_user:
        path.write_text("of the user", "utf-8")
    Path("runs/a.json").unlink()

    main(["leaderboard", "runs", "-o", "site"])

    for path in of_user:
        assert path.read_text("utf-8") == "of the user", path


def cut_off(verdicts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts.write_text(verdicts.read_text("utf-8")[:50], "utf-8")


def replaced_by_a_list(verdicts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts.write_text("[]", "utf-8")


def of_another_version(verdicts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_cache, "digest_of_code", lambda: "another version")


def where_no_folder_can_be_made(verdicts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_cache, "data_home", lambda: Path("runs/a.json").absolute())


@pytest.mark.parametrize(
    "damage",
    [cut_off, replaced_by_a_list, of_another_version, where_no_folder_can_be_made],
    ids=lambda damage: damage.__name__,
)
def test_files_are_verified_again_if_their_verdicts_cannot_be_used(
    damage: Any, folder: Path, verified: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["leaderboard", "runs", "-o", "site"])
    damage(folder / "home" / "verdicts.json", monkeypatch)
    verified.clear()

    assert main(["leaderboard", "runs", "-o", "site"]) == 1
    assert sorted(verified) == ["a.json", "b.json", "changed.json"]
    assert not Path("site/results/changed.json").exists()


def commands_in(text: str) -> list[list[str]]:
    """Return the words of the commands of the template that read result files."""
    commands = re.findall(r"python -m StaICC ((?:leaderboard|verify|export) [^|<\n`]*)", text)
    return [shlex.split(command) for command in commands]


def test_the_commands_of_the_template_repository_run(folder: Path) -> None:
    """Each command of the workflow and the page that reads submissions runs on a folder of submissions."""
    yaml = pytest.importorskip("yaml")
    template = Path(__file__).parents[2] / "examples" / "leaderboard"
    shutil.copytree(template, folder / "repository")
    os.chdir(folder / "repository")
    shutil.rmtree("submissions/three-models")  # as the page advises: its data sets are not installed here
    Path("submissions/my-team").mkdir()
    shutil.copy(folder / "runs/a.json", "submissions/my-team/gpt2.json")

    workflow = yaml.safe_load((template / ".github/workflows/leaderboard.yml").read_text("utf-8"))
    commands = commands_in((template / "README.md").read_text("utf-8"))
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            commands += commands_in(step.get("run", ""))

    assert {command[0] for command in commands} == {"leaderboard", "verify", "export"}
    for command in commands:
        if "--rerun" in command:  # needs the model
            continue
        if command == ["verify"]:  # the workflow appends the changed files
            command.append("submissions/my-team/gpt2.json")
        assert main(command) == 0, command
    assert Path("site/results/my-team/gpt2.json").is_file()
