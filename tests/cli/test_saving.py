"""Ways to lose a finished run: its table is printed, its result is saved, and no other result is replaced."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.methods.run import Method
from StaICC.results import Result, ResultGroup

Cli = Callable[..., tuple[int, str, str]]
RUN = ("run", "normal", "--datasets", "mini", "--limit", "3")
FOLDER = Path("staicc-results")
MODULE = """
calls = 0

def fails_once(prompt, label_space):
    global calls
    calls += 1
    if calls == 2:
        raise ValueError("no")
    return 0
"""


def saved() -> list[Result | ResultGroup]:
    """The results in the folder, which has nothing else."""
    return [StaICC.load(path) for path in sorted(FOLDER.iterdir())] if FOLDER.is_dir() else []


@pytest.fixture
def other(staicc: Cli) -> bytes:
    """Content of a file r.json with another run."""
    assert staicc(*RUN, "--k", "2", "--json", "r.json")[0] == 0
    return Path("r.json").read_bytes()


def failing(monkeypatch: pytest.MonkeyPatch, number: int | None, times: int = 1000) -> None:
    """Writing to the disk fails with an error number, or is interrupted."""
    left = [times]

    def fsync(handle: int) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt if number is None else OSError(number, os.strerror(number))

    monkeypatch.setattr("StaICC.datasets.storage.os.fsync", fsync)


# -- what is saved where


def test_each_run_is_saved_under_a_new_name(staicc: Cli) -> None:
    for number in (1, 2, 3):
        status, out, err = staicc(*RUN)
        assert (status, out[:7], len(saved())) == (0, "Normal\n", number)
        (path,) = [word for word in err.split() if word.startswith(str(FOLDER))]
        assert Path(path).name.startswith("Normal_ppm_20")
        assert str(StaICC.load(path)) == out.rstrip("\n")
    status, out, _ = staicc(*RUN, "--json")
    assert json.loads(out)["Averaged results"] == saved()[0]["Averaged results"]
    assert len(saved()) == 4


# -- nothing is replaced


def test_another_run_is_not_replaced(staicc: Cli, other: bytes) -> None:
    for number, more in enumerate((["--limit", "2"], ["--model", "ppm;order=3"], ["--no-save"]), 1):
        status, out, err = staicc(*RUN, "--json", "r.json", *more)
        assert (status, out[:7]) == (4, "Normal\n")
        assert "--overwrite" in err
        assert Path("r.json").read_bytes() == other
        assert len(saved()) == number
    assert staicc(*RUN, "--json", "r.json", "--overwrite")[0] == 0
    assert StaICC.load("r.json") in saved()
    assert len(saved()) == 3


@pytest.mark.parametrize(("answer", "other"), [(0, 1), ("no label", "food")])
def test_other_predictions_of_the_same_function_are_not_replaced(
    answer: Any, other: Any, staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function has the same source with another model in its module. A reply without a label counts as wrong."""
    source = f"answer = {answer!r}\n\ndef constant(prompt, label_space):\n    return answer\n"
    Path("mine_constant.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.delitem(sys.modules, "mine_constant", raising=False)
    line = (*RUN, "--model", "mine_constant:constant", "--unparsed", "wrong", "--json", "r.json")
    assert staicc(*line)[0] == staicc(*line)[0] == 0
    before = Path("r.json").read_bytes()
    sys.modules["mine_constant"].answer = other  # type: ignore[attr-defined]
    status, _, err = staicc(*line)
    assert (status, len(saved()), "has other predictions" in err) == (4, 1, True)
    assert Path("r.json").read_bytes() == before
    assert staicc(*line, "--overwrite")[0] == 0


def test_a_partial_run_does_not_replace_a_complete_one(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine_once.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    line = (*RUN, "--model", "mine_once:fails_once", "--on-error", "collect", "--json", "r.json")
    assert staicc(*line)[0] == 1
    assert staicc(*line)[0] == 0, "a complete run replaces a partial one"
    before = Path("r.json").read_bytes()
    sys.modules["mine_once"].calls = 0  # type: ignore[attr-defined]
    assert staicc(*line)[0] == 4
    assert Path("r.json").read_bytes() == before
    (partial,) = saved()
    assert not partial.complete


# -- the disk fails


@pytest.mark.posix
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EACCES])
def test_a_disk_that_fails_costs_the_file_only(
    number: int, staicc: Cli, other: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, number)
    for more in ([], ["--k", "0,1"], ["--records", "q.jsonl"], ["--json", "r.json", "--overwrite"]):
        status, out, err = staicc(*RUN, *more)
        assert (status, "accuracy" in out, saved()) == (4, True, [])
        assert os.strerror(number) in err
        assert Path("r.json").read_bytes() == other
        assert not Path("q.jsonl").exists()


# -- stdout fails, interrupts, kills


def test_an_interrupt_between_runs_keeps_the_finished_ones(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter([Method._run])

    def interrupted(*given: Any, **settings: Any) -> Result:
        for run in results:
            return run(*given, **settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(Method, "_run", interrupted)
    status, _, err = staicc(*RUN, "--k", "0,4")
    assert status == 130
    (group,) = saved()
    assert list(group) == ["k=0"]
    assert str(next(FOLDER.iterdir())) in err


# -- folders of results


def test_commands_read_folders(staicc: Cli) -> None:
    for order in ("2", "3"):
        assert staicc(*RUN, "--model", f"ppm;order={order}")[0] == 0
    for line in (["compare"], ["report", "-o", "r.html"], ["export", "scores"], ["verify"]):
        assert staicc(*line, str(FOLDER))[0] == 0, line
    paths = sorted(map(str, FOLDER.iterdir()))
    assert staicc("verify", str(FOLDER))[1] == staicc("verify", *paths)[1]
    assert staicc("leaderboard", *paths, "-o", "a")[0] == staicc("leaderboard", str(FOLDER), "-o", "b")[0] == 0
    assert Path("a/index.html").read_bytes() == Path("b/index.html").read_bytes()
    Path("empty").mkdir()
    assert staicc("compare", "empty", *paths)[0] == 2
    assert staicc("compare", str(FOLDER), paths[0])[0] == 2, "one file twice"


def test_a_copy_in_a_folder_is_not_another_run(staicc: Cli) -> None:
    """The site of a leaderboard has copies: a ranking would count each run twice."""
    for order in ("2", "3"):
        assert staicc(*RUN, "--model", f"ppm;order={order}")[0] == 0
    lines = (["rank", str(FOLDER)], ["compare", str(FOLDER)], ["export", "scores", str(FOLDER)])
    before = [staicc(*line)[1] for line in lines]
    assert staicc("leaderboard", str(FOLDER), "-o", str(FOLDER / "site"))[0] == 0
    for line, printed in zip(lines, before, strict=True):
        _, out, err = staicc(*line)
        assert out == printed
        assert err.count("is a copy of") == 2


def test_a_file_of_another_format_is_refused_before_the_run(staicc: Cli) -> None:
    status, out, err = staicc(*RUN, "--json", "r.csv")
    assert (status, out, saved()) == (2, "", [])
    assert "expected a name such as 'result.json'" in err
