"""``data``: what it prints, where, and with what status; LongICL on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from StaICC.cli import main
from StaICC.datasets.catalogue import names
from StaICC.long_icl.cards import task_card
from StaICC.results.result import load


def run(*arguments: str) -> int:
    """Run a ``data`` command, and return its exit status."""
    return main(["data", *arguments])


pytestmark = pytest.mark.usefixtures("home")


def test_data_list_has_a_line_for_each_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    """A line of headings, a rule, the ten data sets, mini, a blank line, and those of LongICL."""
    assert run("list") == 0
    out, err = capsys.readouterr()
    assert err == ""
    headings, _, *lines = out.splitlines()
    assert headings.split() == ["INDEX", "NAME", "TITLE", "TASK", "LABELS", "ROWS", "STATE", "LICENCE"]

    for index, name in enumerate(names()):
        assert lines[index].startswith(f"{index}      {name} ")
        assert " missing " in lines[index], name

    mini, blank, heading_of_long_icl = lines[10:13]
    assert mini.startswith("-      mini ")
    assert " shipped " in mini
    assert (blank, heading_of_long_icl) == ("", "LongICL, HELMET:")


def write_long_icl(folder: Path) -> None:
    """Write Few-NERD with other rows than the published ones, TACRED (no published digest), half of BANKING77."""
    folder.mkdir(parents=True)
    row = {"id": "1", "token": ["a", "b"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1}
    rows = [row | {"relation": label} for label in task_card("tacred").labels]
    for split in ("train", "test"):
        sentence = '[{"sentence": "Ox.", "entities": {"Ox": "person-other"}}]'
        (folder / f"fewnerd_{split}.json").write_text(sentence, "utf-8")
        (folder / f"tacred_{split}.json").write_text(json.dumps(rows), "utf-8")
    (folder / "banking77_train.csv").write_text("text,category\na,age_limit\n", "utf-8")


def test_data_sets_of_long_icl_are_verified(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_long_icl(home / "long_icl")

    assert run("verify") == 1

    out, err = capsys.readouterr()
    lines_of_long_icl = out.splitlines()[12:]

    assert [line.split()[:2] for line in lines_of_long_icl] == [["tacred", "installed"], ["few_nerd", "damaged"]]
    assert "python -m StaICC data install long-icl" in err
    assert "few_nerd: " in err
    assert "tacred: " not in err


def verified_banking77(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Return what ``data verify`` says about BANKING77."""
    capsys.readouterr()
    run("verify", "--json")
    (report,) = [report for report in json.loads(capsys.readouterr().out) if report["name"] == "banking77"]
    return dict(report)


def test_published_files_are_verified_until_one_is_changed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get("STAICC_LONGICL_DATA", "")
    if not folder:
        pytest.skip("needs the published files of BANKING77: set STAICC_LONGICL_DATA to their folder")
    assert run("install", "long-icl", "--from", folder, "--datasets", "banking77") == 0
    report = verified_banking77(capsys)
    assert (report["state"], report["rows"]) == ("verified", 13083)
    assert report["expected"] == report["found"]

    installed = home / "long_icl" / "banking77_test.csv"
    installed.write_bytes(installed.read_bytes().replace(b"card", b"Card", 1))
    report = verified_banking77(capsys)
    assert (report["state"], report["rows"]) == ("damaged", 13083)
    assert report["expected"] != report["found"]


# -- ``run long-icl``


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with TACRED in the published format: two rows of each label in each split."""
    folder = tmp_path / "data"
    folder.mkdir()
    places = {"subj_start": 1, "subj_end": 1, "obj_start": 3, "obj_end": 3}
    for split in ("train", "test"):
        rows = [
            {"id": str(i), "token": [split, "Beck", "sold", f"kettle{i}"], "relation": label, **places}
            for i, label in enumerate(task_card("tacred").labels * 2)
        ]
        (folder / f"tacred_{split}.json").write_text(json.dumps(rows), encoding="utf-8", newline="")
    return folder


RUN = ["run", "long-icl", "--datasets", "tacred", "--rounds", "1", "2", "--limit", "6"]
"""A run with one and two demonstrations of each label, each with six queries."""

OPTIONS = ["--published", "--instruct", "--parsing", "library", "--unparsed", "excluded"]


def test_a_run_of_long_icl_prints_the_licence_and_its_settings(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    assert main([*RUN, "--data-dir", str(data), *OPTIONS, "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert task_card("tacred").notice() in err.splitlines()
    assert out.startswith("LongICL\ndata set")
    assert "not comparable: the published figures are for parsing = published, this result has library" in out

    result = load(path)
    assert out.startswith(str(result))
    assert "rounds=1+2,instruct=yes,parsing=library" in str(result.signature)
    assert result.signature.fields["limit"] == "6"
    assert result.signature.fields["unparsed"] == "excluded"
    assert result.details["tacred"].asked == 12, "six queries in each of two rounds"


def test_a_repeated_run_of_long_icl_with_a_store_prints_the_same(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*RUN, "--data-dir", str(data), "--store", str(tmp_path / "store.sqlite"), *OPTIONS]

    assert main([*command, "--json", str(tmp_path / "result.json")]) == 0

    first = capsys.readouterr().out
    assert main(command) == 0
    assert capsys.readouterr().out == first


def test_a_result_of_long_icl_is_verified_where_its_data_are(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "result.json")
    main([*RUN, "--data-dir", str(data), *OPTIONS, "--json", path])
    capsys.readouterr()
    assert main(["verify", path, "--data-dir", str(data), "--rerun", "5", "--model", "ppm"]) == 0
    out = capsys.readouterr().out
    assert "recomputed  LongICL, tacred: the 12 prompts are the same\n" in out
    assert "5 of " in out

    assert main(["verify", path]) == 3, "the data are installed nowhere"
    assert "tacred of LongICL is not in" in capsys.readouterr().out
