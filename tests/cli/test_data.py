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
    return main(["data", *arguments])


pytestmark = pytest.mark.usefixtures("home")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == ""
    assert lines[13:15] == ["", "LongICL, HELMET:"]
    assert lines[0].split() == ["INDEX", "NAME", "TITLE", "TASK", "LABELS", "ROWS", "STATE", "LICENCE"]
    for index, name in enumerate(names()):
        assert lines[index + 2].startswith(f"{index}      {name} ")
        assert " missing " in lines[index + 2]
    assert lines[12].startswith("-      mini ")
    assert " shipped " in lines[12]


def write_long_icl(folder: Path) -> None:
    """Few-NERD with other rows than the published ones, TACRED (no published digest), half of BANKING77."""
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
    assert [line.split()[:2] for line in out.splitlines()[12:]] == [["tacred", "installed"], ["few_nerd", "damaged"]]
    assert "python -m StaICC data install long-icl" in err
    assert "few_nerd: " in err
    assert "tacred: " not in err


@pytest.mark.parametrize("damaged", [False, True])
def test_published_files_are_verified(home: Path, damaged: bool, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get("STAICC_LONGICL_DATA", "")
    if not folder:
        pytest.skip("needs the published files of BANKING77: set STAICC_LONGICL_DATA to their folder")
    assert run("install", "long-icl", "--from", folder, "--datasets", "banking77") == 0
    installed = home / "long_icl" / "banking77_test.csv"
    if damaged:
        installed.write_bytes(installed.read_bytes().replace(b"card", b"Card", 1))
    run("verify", "--json")
    (table,) = [row for row in json.loads(capsys.readouterr().out) if row["name"] == "banking77"]
    assert table["state"] == ("damaged" if damaged else "verified")
    assert (table["expected"] == table["found"]) is not damaged
    assert table["rows"] == 13083


# -- ``run long-icl``


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """TACRED and GoEmotions in the published formats; the latter is not the published one."""
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


def test_run_save_and_verify(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, here = tmp_path / "result.json", ["--data-dir", str(data)]
    store = ["--store", str(tmp_path / "store.sqlite"), "--published"]
    options = ["--instruct", "--parsing", "library", "--unparsed", "excluded"]
    assert main([*RUN, *here, *store, *options, "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert task_card("tacred").notice() in err.splitlines()  # the licence, before anything is used
    assert out.startswith("LongICL\ndata set")
    assert "not comparable: the published figures are for parsing = published, this result has library" in out
    result = load(path)
    assert out.startswith(str(result))
    assert "rounds=1+2,instruct=yes,parsing=library" in str(result.signature)
    assert (result.signature.fields["limit"], result.signature.fields["unparsed"]) == ("6", "excluded")
    assert result.details["tacred"].asked == 12
    assert main([*RUN, *here, *store, *options]) == 0
    assert capsys.readouterr().out == out
    assert main(["verify", str(path), *here, "--rerun", "5", "--model", "ppm"]) == 0
    out = capsys.readouterr().out
    assert "recomputed  LongICL, tacred: the 12 prompts are the same\n" in out
    assert "5 of " in out
    assert main(["verify", str(path)]) == 3  # the data are installed nowhere
    assert "tacred of LongICL is not in" in capsys.readouterr().out
