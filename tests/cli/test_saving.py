"""Ways to lose a finished run: its table is printed, its result is saved, and no other result is replaced."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.cli import main
from StaICC.cli.saving import ResultSaver
from StaICC.methods.run import Method
from StaICC.results.query_records import save_records
from StaICC.results.result import Result, ResultGroup

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

    monkeypatch.setattr("StaICC.files.output.os.fsync", fsync)


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


@pytest.mark.parametrize(
    "line",
    [
        ("race", "--model", "ppm", "--model", "ppm;order=3", "--datasets", "mini", "--limit", "3"),
        ("run", "diagnosis", "--datasets", "mini", "--limit", "2"),
        ("run", "normal", "--datasets", "mini", "--limit", "2", "--k", "0,1"),
        ("run", "normal", "--datasets", "mini", "--limit", "2", "--precision", "0.4"),
    ],
    ids=["race", "suite", "several k", "sequential"],
)
def test_the_option_output_names_the_only_folder_of_results(line: tuple[str, ...], staicc: Cli) -> None:
    status, _, err = staicc(*line, "--output", "mine/here")
    assert status == 0, err
    assert [path.suffix for path in Path("mine/here").iterdir()] == [".json"]
    assert not FOLDER.exists(), f"the default folder has {list(FOLDER.iterdir())}"


def test_nothing_is_saved_on_request(staicc: Cli) -> None:
    status, out, err = staicc(*RUN, "--no-save")
    assert (status, out[:7], err, FOLDER.exists()) == (0, "Normal\n", "", False)


# -- nothing is replaced


def test_another_run_is_not_replaced(staicc: Cli, other: bytes) -> None:
    others = (["--limit", "2"], ["--k", "2", "--model-name", "another"], ["--model", "ppm;order=3"], ["--no-save"])
    for number, more in enumerate(others, 1):
        status, out, err = staicc(*RUN, "--json", "r.json", *more)
        assert (status, out[:7]) == (4, "Normal\n")
        assert "--overwrite" in err
        assert Path("r.json").read_bytes() == other
        assert len(saved()) == number
    assert staicc(*RUN, "--json", "r.json", "--overwrite")[0] == 0
    assert StaICC.load("r.json") in saved()
    assert len(saved()) == 4


def test_the_same_run_is_replaced_with_a_message(staicc: Cli, other: bytes) -> None:
    status, _, err = staicc(*RUN, "--k", "2", "--json", "r.json")
    assert (status, saved()) == (0, [])
    assert "r.json was replaced" in err


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


def test_a_shorter_series_does_not_replace_a_longer_one(staicc: Cli) -> None:
    line = ("run", "normal", "--datasets", "mini", "--limit", "2", "--json", "r.json", "--k")
    assert staicc(*line, "0,1,2")[0] == 0
    before = Path("r.json").read_bytes()
    assert staicc(*line, "0,1")[0] == 4
    assert Path("r.json").read_bytes() == before
    assert [len(group) for group in saved()] == [2]
    (FOLDER / "one.json").write_bytes(next(FOLDER.iterdir()).read_bytes())
    assert staicc(*line, "0,1,2,3", "--output", "so-far")[0] == 0
    assert len(StaICC.load("r.json")) == 4
    assert (len(saved()), Path("so-far").exists()) == (2, False), "the runs so far are not left in a folder"


# -- the disk fails


@pytest.mark.posix
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES])
def test_a_disk_that_fails_costs_the_file_only(
    number: int, staicc: Cli, other: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, number)
    for more in ([], ["--k", "0,1"], ["--records", "q.jsonl"], ["--json", "r.json", "--overwrite"]):
        status, out, err = staicc(*RUN, *more)
        assert saved() == [], f"{more}: a result was saved, although the disk fails"
        assert status == 4, err
        assert "accuracy" in out, "the table is not lost with the file"
        assert os.strerror(number) in err
        assert Path("r.json").read_bytes() == other
        assert not Path("q.jsonl").exists()


@pytest.mark.posix
@pytest.mark.parametrize("options", ["--records", "--json", "--json --records"])
def test_a_file_that_cannot_be_written(options: str, staicc: Cli) -> None:
    status, out, err = staicc(*RUN, *(word for option in options.split() for word in (option, "/dev/full")))
    assert (status, out[:7], len(saved())) == (4, "Normal\n", 1)
    assert "/dev/full" in err


@pytest.mark.posix
@pytest.mark.parametrize("folder", ["file/below", "dangling", "dangling/below"])
def test_a_folder_that_cannot_be_made_is_refused_before_the_run(
    folder: str, staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").touch()
    Path("dangling").symlink_to("nowhere/there")
    assert staicc(*RUN, "--output", folder, "--json", "r.json")[0] == 0, "it is not needed"
    monkeypatch.setattr("StaICC.cli.run._evaluate", lambda *given: pytest.fail("evaluated"))
    status, out, err = staicc(*RUN, "--output", folder)
    assert (status, out) == (2, "")
    assert folder in err


@pytest.mark.posix
def test_a_removed_working_folder_costs_the_file_only(program: Any) -> None:
    removes = "import os; os.mkdir('x'); os.chdir('x'); os.rmdir('../x')"
    Path("removes.py").write_text(f"{removes}; from StaICC.cli import main; raise SystemExit(main())")
    # A script: with -c, "" is on the path of modules, and Python 3.13.0 fails on it in a removed folder.
    done = program(*RUN, start=("removes.py",))
    assert (done.returncode, done.stdout[:7]) == (4, "Normal\n"), done.stderr
    assert "not saved" in done.stderr
    refused = program(*RUN, "--json", "r.json", start=("removes.py",))
    assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
    assert "'r.json' cannot be written to" in refused.stderr


# -- stdout fails, interrupts, kills


@pytest.mark.posix
def test_stdout_is_full_or_closed(program: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "w", encoding="utf-8") as full, open(write, "w", encoding="utf-8") as closed:
        for stdout, status in ((full, 2), (closed, 0)):
            for command in (RUN, ("show", "metrics")):
                assert program(*command, stdout=stdout).returncode == status
    assert len(saved()) == 2


@pytest.mark.posix
def test_a_sweep_continues_if_nothing_reads_its_tables(program: Any) -> None:
    Path("run.toml").write_text(
        'benchmark = "normal"\ndatasets = ["mini"]\nlimit = 2\n[sweep]\nk = [0, 1, 2]\n', "utf-8"
    )
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as closed:
        assert program("run", "--config", "run.toml", stdout=closed).returncode == 0
    assert len(saved()) == 3


def test_a_result_that_is_not_saved_has_its_status_if_nothing_reads_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    result = StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0)
    given = Namespace(json=tmp_path / "kept.json", records=None, overwrite=False, output=FOLDER, save=True)
    monkeypatch.setattr("sys.stdout", Closed())
    assert ResultSaver(given).finish(result) == 0
    other = StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 1)
    assert ResultSaver(given).finish(other) == 4
    assert StaICC.load(tmp_path / "kept.json") == result


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_printing_fails(error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    result = StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0)
    given = Namespace(json=tmp_path / "kept.json", records=None, overwrite=False, output=FOLDER, save=True)
    monkeypatch.setattr("sys.stdout", Broken())
    with pytest.raises(error):
        ResultSaver(given).finish(result)
    assert StaICC.load(tmp_path / "kept.json") == result


def test_without_stdout_and_stderr_it_is_saved(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a background process, where Python has no streams."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", None)
    assert main([*RUN]) == main([*RUN, "--json"]) == 0
    assert len(saved()) == 2


@pytest.mark.posix
def test_an_interrupt_while_it_is_saved(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, None, times=1)
    status, out, _ = staicc(*RUN)
    assert (status, out[:7], len(saved())) == (130, "Normal\n", 1)


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


KILLS = """
import os, sys
from argparse import Namespace
from pathlib import Path
import StaICC
from StaICC.cli.saving import ResultSaver

def result(limit):
    return StaICC.Normal(datasets=["mini"], limit=limit)(lambda prompt, label_space: 0)

json = Path("r.json") if sys.argv[1] == "json" else None
given = Namespace(json=json, records=None, overwrite=True, output=Path("folder"), save=True)
old, new, left = result(1), result(2), [0]

def kill(frame, event, argument):
    if event in ("call", "c_call") and frame.f_code.co_name in ("replacing", "open_output", "write_output"):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), 9)

calls, status = 0, 9
while status:
    calls += 1
    old.save("r.json")
    for file in Path("folder").glob("*"):
        file.unlink()
    process = os.fork()
    if not process:
        left[0] = calls
        sys.setprofile(kill)
        ResultSaver(given).save(new)
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    assert StaICC.load("r.json") in ([old, new] if json else [old]), calls
    assert all(StaICC.load(file) == new for file in Path("folder").glob("*.json")), calls
print(calls)
"""


@pytest.mark.posix
@pytest.mark.parametrize("place", ["json", "folder"])
def test_killed_at_any_call_while_it_is_saved(place: str, program: Any) -> None:
    """A file has the earlier result or the new one, whole; a new name has the whole result, or there is none."""
    done = program(place, start=("-c", KILLS))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_the_same_name_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("StaICC.cli.saving.time.strftime", lambda *given: "now")
    result = StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0)
    given = Namespace(json=None, records=None, overwrite=False, output=FOLDER, save=True)
    savers = [ResultSaver(given) for _ in range(8)]
    threads = [threading.Thread(target=saver.save, args=(result,)) for saver in savers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({saver.path for saver in savers}) == 8
    assert saved() == [result] * 8


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_another_run_saves_meanwhile_is_not_replaced(links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs see no file, and save at once: one of them is in the folder of results."""
    made = [StaICC.Normal(datasets=["mini"], limit=limit) for limit in (1, 2)]
    results = [one(lambda prompt, label_space: 0, model_name="m") for one in made]
    given = Namespace(json=Path("one.json"), records=None, overwrite=False, output=FOLDER, save=True)
    first, second = ResultSaver(given), ResultSaver(given)
    refuse = ResultSaver._refuse_other_run

    def meanwhile(self: ResultSaver, path: Path, result: Any) -> None:
        refuse(self, path, result)
        if self is second:
            assert first.save(results[0])

    monkeypatch.setattr(ResultSaver, "_refuse_other_run", meanwhile)
    if not links:  # a file system without hard links
        monkeypatch.setattr("os.link", lambda *_: os.stat("absent"))
    assert not second.save(results[1])
    assert StaICC.load("one.json") == results[0]
    assert saved() == [results[1]]


def test_records_of_an_unsaved_result(tmp_path: Path) -> None:
    """In Python, saving replaces a file, as in 0.1.1."""
    first, second = (
        StaICC.Normal(datasets=["mini"], limit=limit)(lambda prompt, label_space: 0, return_outputs=True)
        for limit in (1, 2)
    )
    for result in (first, second):
        result.save(tmp_path / "r.json")
        save_records(result, tmp_path / "q.jsonl")
    assert StaICC.load(tmp_path / "r.json") == second
    assert len((tmp_path / "q.jsonl").read_text("utf-8").splitlines()) == 4


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
    for hidden in (FOLDER / ".ipynb_checkpoints", FOLDER / "other.json"):  # the second is a folder, and no result
        hidden.mkdir()
    first, second = sorted(file for file in FOLDER.glob("*.json") if file.is_file())
    checkpoint = first.read_text("utf-8").replace("accuracy", "old")
    (FOLDER / ".ipynb_checkpoints" / "first-checkpoint.json").write_text(checkpoint, "utf-8")
    assert [staicc(*line)[1] for line in lines] == before
    assert staicc("verify", str(FOLDER))[0] == 0
    Path("other").mkdir()
    Path("other/crlf.json").write_bytes(first.read_bytes().replace(b"\n", b"\r\n"))
    Path("other/notes.json").write_text("{}", "utf-8")
    Path("other/cut.json").write_text('{"schema": ', "utf-8")
    for given in ((FOLDER, "other"), ("other", FOLDER / "site"), (first, second, "other")):
        status, out, err = staicc("rank", *map(str, given))
        assert (status, "Normal: 2 runs" in out) == (0, True)
        assert "is a copy of" in err
        assert "notes.json is no saved result" in err
        assert "cut.json: this is not JSON" in err


def test_a_ranking_names_the_benchmarks_that_it_leaves_out(staicc: Cli) -> None:
    def run(benchmark: str, model: str) -> str:
        name = f"{benchmark}{model[-1]}.json"
        line = ["run", benchmark, "--datasets", "mini", "--limit", "4", "--model", model, "--json", name]
        assert staicc(*line)[0] == 0
        return name

    runs = [run(benchmark, f"ppm;order={order}") for benchmark in ("normal", "template") for order in (2, 3)]
    for names, reason in ((runs[:3], "Template_sens (not in "), (runs, "Template_sens (there is no")):
        status, out, err = staicc("rank", *names, "--metric", "macro_F1")
        assert (status, out.count("2 runs")) == (0, 1)
        assert reason in err
    assert staicc("rank", *runs)[1].count("2 runs") == 2
    assert staicc("rank", *runs[2:], "--metric", "macro_F1")[0] == 2


def test_a_file_of_another_format_is_refused_before_the_run(staicc: Cli) -> None:
    status, out, err = staicc(*RUN, "--json", "r.csv")
    assert (status, out, saved()) == (2, "", [])
    assert "expected a name such as 'result.json'" in err
