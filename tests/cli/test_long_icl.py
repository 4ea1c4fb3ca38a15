"""LongICL on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from StaICC.benchmarks.long_icl import card
from StaICC.cli import main
from StaICC.results import load

ROOT = Path(__file__).parents[2]


def write_goemotions(folder: Path) -> Path:
    """A small GoEmotions in the published format; nobody takes it for the published one."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "test"):
        lines = [f"{split} text {i}\t{i % 28}\tc{i}\n" for i in range(56)]
        (folder / f"goemotions_{split}.tsv").write_text("".join(lines), encoding="utf-8", newline="")
    return folder


def write_tacred(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for split in ("train", "test"):
        rows = [
            {
                "token": [split, "Beck", "sold", f"kettle{i}"],
                "subj_start": 1,
                "subj_end": 1,
                "obj_start": 3,
                "obj_end": 3,
            }
            | {"id": str(i), "relation": label}
            for i, label in enumerate(card("tacred").labels * 2)
        ]
        (folder / f"tacred_{split}.json").write_text(json.dumps(rows), encoding="utf-8", newline="")
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_tacred(tmp_path / "data")


RUN = ["run", "long-icl", "--datasets", "tacred", "--rounds", "1", "2", "--test-number", "6"]


def test_run(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    assert main([*RUN, "--data-dir", str(data), "--json", str(path), "--instruct", "--variant", "strict"]) == 0
    out, err = capsys.readouterr()
    assert card("tacred").notice() in err.splitlines()  # the licence, before anything is used
    assert out.startswith("LongICL\ndata set")
    result = load(path)
    assert str(result) + "\n" == out
    assert result.signature.fields["options"] == "variant=strict,rounds=1+2,instruct=yes"
    assert result.signature.fields["rows"] == "6"
    assert result.details["tacred"].asked == 12


def test_published_figures_on_request(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--data-dir", str(data), "--published"]) == 0
    out = capsys.readouterr().out
    assert "tacred, 1R" in out
    assert "not comparable: the published figures are for test_number = 500, this result has " in out


def test_installed_data_are_the_default(
    data: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "install", "long-icl", "--from", str(data)]) == 0
    err = capsys.readouterr().err
    assert f"installed in {home / 'long_icl'}: tacred" in err
    assert err.index(card("tacred").notice()) < err.index("installed in")
    assert main([*RUN, "--json", "-"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["benchmark"] == "LongICL"


def test_a_named_data_set_that_cannot_be_installed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--datasets", "tacred", "dialogre", "--json"]
    assert main(["data", "install", "long-icl", "--from", str(data), *named]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["datasets"] == ["tacred"]
    assert list(told["skipped"]) == ["dialogre"]
    assert (Path(told["path"]) / "tacred_test.json").is_file()
    assert main(["data", "install", "long-icl", "--from", str(data / "nothing")]) == 3
    assert "there is no folder" in capsys.readouterr().err


def test_files_that_are_not_the_published_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_goemotions(tmp_path / "own")
    assert main(["run", "long-icl", "--data-dir", str(folder)]) == 3
    assert "not the published file of GoEmotions" in capsys.readouterr().err


def test_a_trial_of_everything_leaves_out_what_needs_text(
    data: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["run", "long-icl", "--data-dir", str(data), "--rounds", "1", "--test-number", "3"]) == 0
    out, err = capsys.readouterr()
    assert "left out, since they need a model that generates text: few_nerd, dialogre" in err
    assert "banking77: SKIPPED" in out
    assert "few_nerd" not in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "long-icl", "--limit", "3"], "long-icl has no --limit; for a trial, use --test-number"),
        (["run", "long-icl", "--k", "2"], "long-icl has no --k"),
        (["run", "long-icl", "--noisy-channel"], "long-icl has no --noisy-channel"),
        (["run", "long-icl", "--datasets", "few_nerd"], "few_nerd: items have several labels"),
        (["run", "long-icl", "--datasets", "tacrd"], "did you mean 'tacred'"),
        (["run", "long-icl", "--answers", "text"], "PPMKernel has no method generate"),
        (["run", "normal", "--datasets", "mini", "--rounds", "1"], "--rounds belongs to long-icl; normal has no"),
        (["run", "normal", "--datasets", "mini", "--published"], "--published belongs to long-icl"),
        (["data", "install", "long-icl"], "say where the files of long-icl come from"),
        (["data", "install", "long-icl", "--hub", "--from", "x"], "say where the files of long-icl come from"),
        (["data", "install", "--hub"], "--from, --hub and --datasets belong to: data install long-icl"),
    ],
)
def test_what_does_not_fit(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_hub_is_not_asked_offline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "install", "long-icl", "--hub"]) == 3
    assert "STAICC_OFFLINE forbids fetching" in capsys.readouterr().err


def test_a_wrong_number_of_items(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "long-icl", "--test-number", "many"])
    assert ended.value.code == 2
    assert "expected a number of test items, or 'all', not 'many'" in capsys.readouterr().err


def test_the_store_goes_on(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "store.sqlite")]
    assert main([*RUN, "--data-dir", str(data), *store]) == 0
    first = capsys.readouterr().out
    assert main([*RUN, "--data-dir", str(data), *store]) == 0
    assert capsys.readouterr().out == first


def test_as_a_process(data: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "StaICC", *RUN, "--data-dir", str(data), "--test-number", "all"],
        cwd=tmp_path,
        env={
            "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
            "PYTHONPATH": str(ROOT),
            "STAICC_HOME": str(tmp_path / "home"),
            "PATH": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "|rows:all|" in done.stdout
    assert done.stderr.startswith(card("tacred").notice())


def test_other_commands_do_not_load_it() -> None:
    code = "import sys; from StaICC.cli import main; main(['cite']); print('StaICC.benchmarks.long_icl' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"SYSTEMROOT": os.environ.get("SYSTEMROOT", ""), "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_a_saved_result_verifies(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(tmp_path / "result.json")
    assert main([*RUN, "--data-dir", str(data), "--model", "ppm", "--json", saved]) == 0
    capsys.readouterr()
    assert main(["verify", saved, "--data-dir", str(data)]) == 0
    assert "recomputed  LongICL, tacred: the 12 prompts are the same\n" in capsys.readouterr().out
    assert main(["verify", saved, "--data-dir", str(data), "--rerun", "5", "--model", "ppm"]) == 0
    assert "5 of " in capsys.readouterr().out
    assert main(["verify", saved]) == 3  # the data are installed nowhere
    assert "none of the data sets of LongICL is in" in capsys.readouterr().out
