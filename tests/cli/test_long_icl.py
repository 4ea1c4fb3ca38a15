"""LongICL on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from StaICC.benchmarks.long_icl import card
from StaICC.cli import main
from StaICC.results import load

pytestmark = pytest.mark.usefixtures("home")


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
