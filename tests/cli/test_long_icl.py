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


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """TACRED and GoEmotions in the published formats; the latter is not the published one."""
    folder = tmp_path / "data"
    folder.mkdir()
    places = {"subj_start": 1, "subj_end": 1, "obj_start": 3, "obj_end": 3}
    for split in ("train", "test"):
        rows = [
            {"id": str(i), "token": [split, "Beck", "sold", f"kettle{i}"], "relation": label, **places}
            for i, label in enumerate(card("tacred").labels * 2)
        ]
        (folder / f"tacred_{split}.json").write_text(json.dumps(rows), encoding="utf-8", newline="")
    return folder


RUN = ["run", "long-icl", "--datasets", "tacred", "--rounds", "1", "2", "--test-number", "6"]


def test_run_save_and_verify(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, here = tmp_path / "result.json", ["--data-dir", str(data)]
    store = ["--store", str(tmp_path / "store.sqlite"), "--published"]
    options = ["--instruct", "--variant", "strict", "--parsing", "tolerant", "--unparsed", "excluded"]
    assert main([*RUN, *here, *store, *options, "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert card("tacred").notice() in err.splitlines()  # the licence, before anything is used
    assert out.startswith("LongICL\ndata set")
    assert "not comparable: the published figures are for variant = published, this result has strict" in out
    result = load(path)
    assert out.startswith(str(result))
    assert "variant=strict,rounds=1+2,instruct=yes,parsing=tolerant" in str(result.signature)
    assert (result.signature.fields["rows"], result.signature.fields["unparsed"]) == ("6", "excluded")
    assert result.details["tacred"].asked == 12
    assert main([*RUN, *here, *store, *options]) == 0
    assert capsys.readouterr().out == out
    assert main(["verify", str(path), *here, "--rerun", "5", "--model", "ppm"]) == 0
    out = capsys.readouterr().out
    assert "recomputed  LongICL, tacred: the 12 prompts are the same\n" in out
    assert "5 of " in out
    assert main(["verify", str(path)]) == 3  # the data are installed nowhere
    assert "none of the data sets of LongICL is in" in capsys.readouterr().out


def test_experiments(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = [*RUN[:4], "--data-dir", str(data), "--test-number", "4", "--quiet"]
    assert main([*run, "--experiment", "context", "--levels", "1K", "1500"]) == 0
    out = capsys.readouterr().out
    assert "tacred, 1K" in out
    assert "experiment=context,levels=1024+1500" in out
    assert main([*run, "--experiment", "position", "--shots", "1", "--seed", "2", "--dry-run"]) == 0
    assert "queries         20\n" in capsys.readouterr().out


def test_installed_data_are_the_default(data: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "install", "long-icl", "--from", str(data)]) == 0
    err = capsys.readouterr().err
    assert f"installed in {home / 'long_icl'}: tacred" in err
    assert err.index(card("tacred").notice()) < err.index("installed in")
    assert main([*RUN, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] == "LongICL"
    named = ["--datasets", "tacred", "dialogre", "--json"]
    assert main(["data", "install", "long-icl", "--from", str(data), *named]) == 1
    reported = json.loads(capsys.readouterr().out)
    assert (reported["path"], reported["datasets"], list(reported["skipped"])) == (
        str(home / "long_icl"),
        ["tacred"],
        ["dialogre"],
    )
    for source, said in ((["--from", str(data / "none")], "there is no folder"), (["--hub"], "STAICC_OFFLINE forbids")):
        assert main(["data", "install", "long-icl", *source]) == 3
        assert said in capsys.readouterr().err


def test_a_trial_of_everything_leaves_out_data_sets_that_need_text(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "long-icl", "--data-dir", str(data), "--rounds", "1", "--test-number", "3"]
    assert main(run) == 0
    out, err = capsys.readouterr()
    assert "left out, since they need a model that generates text: few_nerd, dialogre" in err
    assert "banking77: SKIPPED" in out
    assert "few_nerd" not in out
    for split in ("train", "test"):
        (data / f"goemotions_{split}.tsv").write_text("a\t1\tc\n", encoding="utf-8", newline="")
    assert main(run) == 3
    assert "not the published file of GoEmotions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "long-icl", "--limit", "3"], "long-icl has no --limit; for a trial, use --test-number"),
        (["run", "long-icl", "--k", "2"], "long-icl has no --k"),
        (["run", "long-icl", "--noisy-channel"], "long-icl has no --noisy-channel"),
        (["run", "long-icl", "--datasets", "few_nerd"], "few_nerd: items have several labels"),
        (["run", "long-icl", "--datasets", "tacrd"], "did you mean 'tacred'"),
        (["run", "long-icl", "--answers", "text"], "PPMKernel has no method generate"),
        (["run", "long-icl", "--levels", "1K"], "--levels belongs to an experiment"),
        (["run", "long-icl", "--experiment", "nothing"], "no experiment 'nothing'"),
        (["run", "long-icl", "--experiment", "context", "--levels", "4M"], "such as 5 or 4K, not '4M'"),
        (["run", "long-icl", "--test-number", "many"], "not 'many'"),
        (["run", "normal", "--datasets", "mini", "--rounds", "1"], "--rounds belongs to long-icl; normal has no"),
        (["run", "normal", "--datasets", "mini", "--published"], "--published belongs to long-icl"),
        (["data", "install", "long-icl"], "say where the files of long-icl come from"),
        (["data", "install", "long-icl", "--hub", "--from", "x"], "say where the files of long-icl come from"),
        (["data", "install", "--hub"], "--from, --hub and --datasets belong to: data install long-icl"),
    ],
)
def test_unfit_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status: object = None
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert said in capsys.readouterr().err


def test_as_a_process(data: Path, tmp_path: Path) -> None:
    """Other commands do not load it, and its licence notice comes first."""
    code = (
        "import sys; from StaICC.cli import main; main(['cite']); "
        "assert 'StaICC.benchmarks.long_icl' not in sys.modules; "
        f"main({[*RUN, '--data-dir', str(data), '--test-number', 'all']!r})"
    )
    environment = {name: os.environ.get(name, "") for name in ("SYSTEMROOT", "STAICC_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "|rows:all|" in done.stdout
    assert done.stderr.startswith(card("tacred").notice())
