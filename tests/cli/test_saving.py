"""Ways to lose a finished run: its table is printed, its result is saved, and no other result is replaced."""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

import StaICC
from StaICC.cli import main
from StaICC.cli.saving import ResultSaver
from StaICC.methods.run import Method
from StaICC.results.query_records import save_records
from StaICC.results.result import Result, ResultGroup
from tests.cli.conftest import Cli

RUN = ("run", "normal", "--datasets", "mini", "--limit", "3")
FOLDER = Path("staicc-results")
FAILS_AT_SECOND_CALL = """
calls = 0

def fails_once(prompt, label_space):
    global calls
    calls += 1
    if calls == 2:
        raise ValueError("no")
    return 0
"""
"""A module with a model that fails at its second call only."""


def results_in_default_folder() -> list[Result | ResultGroup]:
    """Return the results in the folder where runs are saved by default, which has nothing else."""
    if not FOLDER.is_dir():
        return []
    return [StaICC.load(path) for path in sorted(FOLDER.iterdir())]


@pytest.fixture
def bytes_of_result_with_k_2(staicc: Cli) -> bytes:
    """The content of the file r.json, which has a result with k = 2."""
    assert staicc(*RUN, "--k", "2", "--json", "r.json").status == 0
    return Path("r.json").read_bytes()


def let_disk_fail(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let every writing to the disk fail with an error number."""

    def fsync(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("StaICC.files.output.os.fsync", fsync)


def write_model(monkeypatch: pytest.MonkeyPatch, module: str, source: str) -> None:
    """Write a module of the user in the working folder, from where it can be imported."""
    Path(f"{module}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.delitem(sys.modules, module, raising=False)


# -- what is saved where


def test_each_run_is_saved_under_a_new_name(staicc: Cli) -> None:
    for saved_runs in (1, 2, 3):
        assert staicc(*RUN).status == 0
        assert len(results_in_default_folder()) == saved_runs


def test_a_run_prints_the_path_of_its_saved_result(staicc: Cli) -> None:
    status, out, err = staicc(*RUN)

    assert status == 0
    assert out.startswith("Normal\n")
    (path,) = FOLDER.iterdir()
    assert str(path) in err.split()
    assert path.name.startswith("Normal_ppm_20"), "the benchmark, the model, and a year"
    assert str(StaICC.load(path)) == out.rstrip("\n")


def test_a_run_that_is_printed_as_json_is_saved_too(staicc: Cli) -> None:
    status, out, _ = staicc(*RUN, "--json")

    assert status == 0

    (result,) = results_in_default_folder()
    assert json.loads(out)["Averaged results"] == result["Averaged results"]


@pytest.mark.parametrize(
    "line",
    [
        "race --model ppm --model ppm;order=3 --datasets mini --limit 3",
        "run diagnosis --datasets mini --limit 2",
        "run normal --datasets mini --limit 2 --k 0,1",
        "run normal --datasets mini --limit 2 --precision 0.4",
    ],
    ids=["race", "diagnosis", "series over k", "run until a precision"],
)
def test_a_result_of_every_kind_is_one_file_in_the_folder_of_output(line: str, staicc: Cli) -> None:
    assert staicc(*line.split(), "--output", "mine/here").status == 0
    assert [path.suffix for path in Path("mine/here").iterdir()] == [".json"]
    assert not FOLDER.exists()


def test_a_forecast_says_that_the_folder_of_output_is_not_used(staicc: Cli) -> None:
    status, _, stderr = staicc(*RUN, "--dry-run", "--output", "mine")

    assert status == 0
    assert "--dry-run saves no result: --output mine is not used" in stderr.splitlines()
    assert not Path("mine").exists()


def test_a_forecast_without_a_folder_says_nothing_about_it(staicc: Cli) -> None:
    assert "--output" not in staicc(*RUN, "--dry-run").stderr


def test_nothing_is_saved_on_request(staicc: Cli) -> None:
    status, out, err = staicc(*RUN, "--no-save")

    assert (status, err) == (0, "")
    assert out.startswith("Normal\n")
    assert not FOLDER.exists()


# -- nothing is replaced


@pytest.mark.parametrize(
    "options",
    [
        ["--level", "0.9"],
        ["--k", "2", "--model-name", "another"],
        ["--model", "ppm;order=3"],
        ["--no-save"],
    ],
    ids=["level", "model name", "model", "not to be saved"],
)
def test_another_run_does_not_replace_a_result_and_is_saved_in_the_folder(
    options: list[str], staicc: Cli, bytes_of_result_with_k_2: bytes
) -> None:
    """The saved one has k = 2 and the other settings of RUN."""
    status, out, err = staicc(*RUN, "--json", "r.json", *options)

    assert status == 4
    assert out.startswith("Normal\n")
    assert "--overwrite" in err
    assert Path("r.json").read_bytes() == bytes_of_result_with_k_2
    assert len(results_in_default_folder()) == 1


def test_another_run_replaces_a_result_on_request(staicc: Cli, bytes_of_result_with_k_2: bytes) -> None:
    assert staicc(*RUN, "--json", "r.json", "--overwrite").status == 0
    assert Path("r.json").read_bytes() != bytes_of_result_with_k_2
    assert staicc(*RUN).status == 0
    assert results_in_default_folder() == [StaICC.load("r.json")]


def test_the_same_run_is_replaced_with_a_message(staicc: Cli, bytes_of_result_with_k_2: bytes) -> None:
    status, _, err = staicc(*RUN, "--k", "2", "--json", "r.json")

    assert status == 0
    assert "r.json was replaced" in err
    assert results_in_default_folder() == []


@pytest.mark.parametrize(
    ("before", "after"), [(0, 1), ("no label", "food")], ids=["another label", "a reply without a label before"]
)
def test_other_predictions_of_the_same_function_are_not_replaced(
    before: Any, after: Any, staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function has the same source with another model in its module. A reply without a label counts as wrong."""
    source = f"answer = {before!r}\n\ndef constant(prompt, label_space):\n    return answer\n"
    write_model(monkeypatch, "mine_constant", source)
    command = (*RUN, "--model", "mine_constant:constant", "--unparsed", "wrong", "--json", "r.json")
    assert staicc(*command).status == 0
    result_before = Path("r.json").read_bytes()

    sys.modules["mine_constant"].answer = after  # type: ignore[attr-defined]
    with_other_predictions = staicc(*command)

    assert with_other_predictions.status == 4
    assert "has other predictions" in with_other_predictions.stderr
    assert Path("r.json").read_bytes() == result_before
    assert len(results_in_default_folder()) == 1


def test_other_predictions_of_the_same_function_are_replaced_on_request(
    staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(monkeypatch, "mine_label", "answer = 0\n\ndef constant(prompt, label_space):\n    return answer\n")
    command = (*RUN, "--model", "mine_label:constant", "--json", "r.json")
    assert staicc(*command).status == 0
    assert staicc(*command).status == 0, "equal predictions are replaced without a request"

    sys.modules["mine_label"].answer = 1  # type: ignore[attr-defined]

    assert staicc(*command, "--overwrite").status == 0


def test_a_partial_run_does_not_replace_a_complete_one(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(monkeypatch, "mine_once", FAILS_AT_SECOND_CALL)
    line = (*RUN, "--model", "mine_once:fails_once", "--on-error", "collect", "--json", "r.json")
    assert staicc(*line).status == 1, "the first run is partial"
    assert staicc(*line).status == 0, "a complete run replaces a partial one"
    complete = Path("r.json").read_bytes()

    sys.modules["mine_once"].calls = 0  # type: ignore[attr-defined]  # so that it fails again
    assert staicc(*line).status == 4
    assert Path("r.json").read_bytes() == complete
    (partial,) = results_in_default_folder()
    assert not partial.complete


def test_a_shorter_series_does_not_replace_a_longer_one(staicc: Cli) -> None:
    command = ("run", "normal", "--datasets", "mini", "--limit", "2", "--json", "r.json")
    assert staicc(*command, "--k", "0,1,2").status == 0
    longer_series = Path("r.json").read_bytes()

    assert staicc(*command, "--k", "0,1").status == 4

    assert Path("r.json").read_bytes() == longer_series
    (shorter_series,) = results_in_default_folder()
    assert list(shorter_series) == ["k=0", "k=1"]


def test_a_longer_series_replaces_its_beginning_and_leaves_no_other_file(staicc: Cli) -> None:
    """While it runs, the runs so far are saved in the folder of output."""
    line = ("run", "normal", "--datasets", "mini", "--limit", "2", "--json", "r.json", "--k")

    assert staicc(*line, "0,1,2").status == 0
    assert staicc(*line, "0,1,2,3", "--output", "so-far").status == 0
    assert len(StaICC.load("r.json")) == 4
    assert not Path("so-far").exists()
    assert results_in_default_folder() == []


# -- the disk fails


@pytest.mark.posix
@pytest.mark.parametrize(
    "options",
    ["", "--k 0,1", "--records q.jsonl", "--json r.json --overwrite"],
    ids=["result", "series", "records", "overwrite"],
)
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES], ids=os.strerror
)
def test_a_disk_that_fails_costs_the_file_only(
    number: int, options: str, staicc: Cli, bytes_of_result_with_k_2: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_disk_fail(monkeypatch, number)

    run = staicc(*RUN, *options.split())

    assert run.status == 4, run.stderr
    assert "accuracy" in run.stdout, "the table is lost with the file"
    assert os.strerror(number) in run.stderr
    assert results_in_default_folder() == [], "a result was saved, although the disk fails"
    assert Path("r.json").read_bytes() == bytes_of_result_with_k_2, "the earlier result is as before"
    assert not Path("q.jsonl").exists()


@pytest.mark.posix
@pytest.mark.parametrize(
    "outputs",
    ["--records /dev/full", "--json /dev/full", "--json /dev/full --records /dev/full"],
)
def test_a_result_whose_file_cannot_be_written_is_saved_in_the_folder(outputs: str, staicc: Cli) -> None:
    status, out, err = staicc(*RUN, *outputs.split())

    assert status == 4
    assert out.startswith("Normal\n")
    assert "/dev/full" in err
    assert len(results_in_default_folder()) == 1


@pytest.mark.posix
@pytest.mark.parametrize("folder", ["file/below", "dangling", "dangling/below"])
def test_a_folder_that_cannot_be_made_is_refused_before_the_run(
    folder: str, staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").touch()
    Path("dangling").symlink_to("nowhere/there")

    def evaluate(*arguments: Any) -> None:
        pytest.fail("evaluated before the folder was checked")

    monkeypatch.setattr("StaICC.cli.run._evaluate", evaluate)
    status, out, err = staicc(*RUN, "--output", folder)
    assert status == 2
    assert out == ""
    assert folder in err


@pytest.mark.posix
def test_a_folder_that_is_not_needed_is_not_refused(staicc: Cli) -> None:
    """With ``--json``, the folder is for runs that may not replace the file."""
    Path("file").touch()

    assert staicc(*RUN, "--output", "file/below", "--json", "r.json").status == 0


@pytest.fixture
def in_removed_folder(program: Any) -> Any:
    """A function that runs a command in a process whose working folder was removed.

    It is a script: with -c, "" is on the path of modules, and Python 3.13.0 fails on it in a removed folder.
    """
    remove = "import os; os.mkdir('x'); os.chdir('x'); os.rmdir('../x')"
    Path("removes.py").write_text(f"{remove}; from StaICC.cli import main; raise SystemExit(main())")
    return functools.partial(program, start=("removes.py",))


@pytest.mark.posix
def test_a_removed_working_folder_costs_the_file_only(in_removed_folder: Any) -> None:
    done = in_removed_folder(*RUN)

    assert done.returncode == 4, done.stderr
    assert done.stdout.startswith("Normal\n")
    assert "not saved" in done.stderr


@pytest.mark.posix
def test_a_file_in_a_removed_working_folder_is_refused_before_the_run(in_removed_folder: Any) -> None:
    refused = in_removed_folder(*RUN, "--json", "r.json")

    assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
    assert "'r.json' cannot be written to" in refused.stderr


# -- stdout fails, interrupts, kills


@pytest.fixture
def closed_pipe() -> Iterator[TextIO]:
    """A pipe that nothing reads any more."""
    end_to_read, end_to_write = os.pipe()
    os.close(end_to_read)
    with open(end_to_write, "w", encoding="utf-8") as pipe:
        yield pipe


@pytest.mark.posix
def test_a_full_stdout_is_status_2_and_the_result_is_saved(program: Any) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert program(*RUN, stdout=full).returncode == 2
        assert program("show", "metrics", stdout=full).returncode == 2
    assert len(results_in_default_folder()) == 1


@pytest.mark.posix
def test_a_stdout_that_nothing_reads_is_no_error_and_the_result_is_saved(program: Any, closed_pipe: TextIO) -> None:
    assert program(*RUN, stdout=closed_pipe).returncode == 0
    assert program("show", "metrics", stdout=closed_pipe).returncode == 0
    assert len(results_in_default_folder()) == 1


@pytest.mark.posix
def test_a_sweep_continues_if_nothing_reads_its_tables(program: Any, closed_pipe: TextIO) -> None:
    Path("run.toml").write_text(
        'benchmark = "normal"\ndatasets = ["mini"]\nlimit = 2\n[sweep]\nk = [0, 1, 2]\n', "utf-8"
    )

    assert program("run", "--config", "run.toml", stdout=closed_pipe).returncode == 0
    assert len(results_in_default_folder()) == 3, "a result of each k"


def constant_result(label: int = 0, limit: int = 2) -> Result:
    """Return the result of a model that always predicts one label."""
    return StaICC.Normal(datasets=["mini"], limit=limit)(lambda prompt, label_space: label)


def options_of_saving(json: Path | None, overwrite: bool = False) -> Namespace:
    """Return the options that a command line hands to :class:`ResultSaver`."""
    return Namespace(json=json, records=None, overwrite=overwrite, output=FOLDER, save=True)


class FailingStream(io.StringIO):
    """A stream on which printing raises an error."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


def test_a_result_that_is_not_saved_has_its_status_if_nothing_reads_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", FailingStream(BrokenPipeError))
    options = options_of_saving(json=tmp_path / "kept.json")
    first_run, other_run = constant_result(label=0), constant_result(label=1)

    status_of_first = ResultSaver(options).finish(first_run)
    status_of_other = ResultSaver(options).finish(other_run)

    assert status_of_first == 0
    assert status_of_other == 4, "the file has another run"
    assert StaICC.load(tmp_path / "kept.json") == first_run


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_result_is_saved_before_it_is_printed(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = constant_result()
    monkeypatch.setattr("sys.stdout", FailingStream(error))

    with pytest.raises(error):
        ResultSaver(options_of_saving(json=tmp_path / "kept.json")).finish(result)
    assert StaICC.load(tmp_path / "kept.json") == result


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "JSON"])
def test_without_stdout_and_stderr_a_result_is_saved(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a background process, where Python has no streams."""
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)

    assert main([*RUN, *options]) == 0
    assert len(results_in_default_folder()) == 1


@pytest.mark.posix
def test_a_result_whose_saving_is_interrupted_once_is_saved(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = [KeyboardInterrupt]

    def fsync(handle: int) -> None:
        if interrupts:
            raise interrupts.pop()

    monkeypatch.setattr("StaICC.files.output.os.fsync", fsync)
    status, out, _ = staicc(*RUN)
    assert status == 130
    assert out.startswith("Normal\n")
    assert len(results_in_default_folder()) == 1


def test_an_interrupt_between_runs_keeps_the_finished_ones(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Method._run
    finished: list[Result] = []

    def interrupted_after_one(*given: Any, **settings: Any) -> Result:
        if finished:
            raise KeyboardInterrupt
        finished.append(run(*given, **settings))
        return finished[0]

    monkeypatch.setattr(Method, "_run", interrupted_after_one)
    status, _, err = staicc(*RUN, "--k", "0,4")
    assert status == 130
    (group,) = results_in_default_folder()
    assert list(group) == ["k=0"]
    (path,) = FOLDER.iterdir()
    assert str(path) in err


KILLED_WHILE_SAVING = """
import os, sys
from argparse import Namespace
from pathlib import Path
import StaICC
from StaICC.cli.saving import ResultSaver

def result(limit):
    return StaICC.Normal(datasets=["mini"], limit=limit)(lambda prompt, label_space: 0)

json = Path("r.json") if sys.argv[1] == "json" else None
options = Namespace(json=json, records=None, overwrite=True, output=Path("folder"), save=True)
old, new = result(1), result(2)
calls_left = 0

def kill_at_last_call(frame, event, argument):
    global calls_left
    if event in ("call", "c_call") and frame.f_code.co_name in ("replacing", "open_output", "write_output"):
        calls_left -= 1
        if calls_left == 0:
            os.kill(os.getpid(), 9)

calls, status = 0, 9
while status != 0:  # until the process ends before it makes so many calls
    calls += 1
    old.save("r.json")
    for file in Path("folder").glob("*"):
        file.unlink()
    process = os.fork()
    if process == 0:
        calls_left = calls
        sys.setprofile(kill_at_last_call)
        ResultSaver(options).save(new)
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    assert StaICC.load("r.json") in ([old, new] if json else [old]), calls
    assert all(StaICC.load(file) == new for file in Path("folder").glob("*.json")), calls
print(calls)
"""
"""A program that saves a new result, once for each call of the code that writes files, and is killed at this call.

It prints how many calls there are. After each kill, it checks the file of an earlier result and the folder.
"""


@pytest.mark.posix
@pytest.mark.parametrize("place", ["json", "folder"])
def test_a_kill_at_any_call_while_a_result_is_saved_leaves_whole_files(place: str, program: Any) -> None:
    """A file has the earlier result or the new one, whole; a new name has the whole result, or there is none."""
    done = program(place, start=("-c", KILLED_WHILE_SAVING))

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_results_that_are_saved_in_the_same_second_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads save a result at once."""
    monkeypatch.setattr("StaICC.cli.saving.time.strftime", lambda *given: "now")
    result = constant_result()
    savers = [ResultSaver(options_of_saving(json=None)) for _ in range(8)]

    threads = [threading.Thread(target=saver.save, args=(result,)) for saver in savers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    different_paths = {saver.path for saver in savers}
    assert len(different_paths) == 8
    assert results_in_default_folder() == [result] * 8


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_another_run_saves_meanwhile_is_not_replaced(
    hard_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs see no file. The first saves its result between the check of the second and its writing."""
    first_result = constant_result(limit=1)
    second_result = constant_result(limit=2)
    first_saver = ResultSaver(options_of_saving(json=Path("one.json")))
    second_saver = ResultSaver(options_of_saving(json=Path("one.json")))
    refuse_other_run = ResultSaver._refuse_other_run

    def check_and_let_first_save(self: ResultSaver, path: Path, result: Any) -> None:
        refuse_other_run(self, path, result)
        if self is second_saver:
            assert first_saver.save(first_result)

    def link_without_hard_links(source: Any, target: Any) -> None:
        raise OSError(errno.EPERM, "the file system has no hard links")

    monkeypatch.setattr(ResultSaver, "_refuse_other_run", check_and_let_first_save)
    if not hard_links:
        monkeypatch.setattr("os.link", link_without_hard_links)

    assert not second_saver.save(second_result)
    assert StaICC.load("one.json") == first_result
    assert results_in_default_folder() == [second_result]


def test_saving_in_python_replaces_a_result_and_its_records(tmp_path: Path) -> None:
    """As in 0.1.1."""
    for limit in (1, 2):
        benchmark = StaICC.Normal(datasets=["mini"], limit=limit)
        result = benchmark(lambda prompt, label_space: 0, return_outputs=True)
        result.save(tmp_path / "r.json")
        save_records(result, tmp_path / "q.jsonl")

    assert StaICC.load(tmp_path / "r.json") == result

    rows_and_draws = 2 * 2
    assert len((tmp_path / "q.jsonl").read_text("utf-8").splitlines()) == rows_and_draws


# -- folders of results


@pytest.fixture
def two_runs(staicc: Cli) -> list[Path]:
    """The files of two runs of different models, in the folder where runs are saved by default."""
    for order in ("2", "3"):
        assert staicc(*RUN, "--model", f"ppm;order={order}").status == 0
    return sorted(FOLDER.iterdir())


@pytest.mark.parametrize("command", ["compare", "report -o r.html", "export scores", "verify"])
def test_commands_read_folders(command: str, staicc: Cli, two_runs: list[Path]) -> None:
    assert staicc(*command.split(), str(FOLDER)).status == 0


def test_a_folder_is_the_list_of_its_files(staicc: Cli, two_runs: list[Path]) -> None:
    paths = [str(path) for path in two_runs]

    assert staicc("verify", str(FOLDER)).stdout == staicc("verify", *paths).stdout
    assert staicc("leaderboard", *paths, "-o", "of_files").status == 0
    assert staicc("leaderboard", str(FOLDER), "-o", "of_folder").status == 0
    assert Path("of_files/index.html").read_bytes() == Path("of_folder/index.html").read_bytes()


def test_an_empty_folder_of_results_is_refused(staicc: Cli, two_runs: list[Path]) -> None:
    first, second = (str(path) for path in two_runs)
    Path("empty").mkdir()

    assert staicc("compare", "empty", first, second).status == 2


def test_a_file_that_is_given_next_to_its_folder_is_refused(staicc: Cli, two_runs: list[Path]) -> None:
    first, _ = two_runs

    assert staicc("compare", str(FOLDER), str(first)).status == 2


ON_THE_FOLDER = ("rank", "compare", "export scores")
"""Commands that would count each run twice if copies were runs."""


def printed_on_the_folder(staicc: Cli) -> dict[str, str]:
    """Return what each of these commands prints."""
    return {command: staicc(*command.split(), str(FOLDER)).stdout for command in ON_THE_FOLDER}


@pytest.mark.usefixtures("two_runs")
def test_the_copies_of_a_site_in_a_folder_are_no_further_runs(staicc: Cli) -> None:
    before = printed_on_the_folder(staicc)

    assert staicc("leaderboard", str(FOLDER), "-o", str(FOLDER / "site")).status == 0
    assert printed_on_the_folder(staicc) == before
    for command in ON_THE_FOLDER:
        _, _, err = staicc(*command.split(), str(FOLDER))
        assert err.count("is a copy of") == 2, f"{command}: {err}"


def test_files_in_a_hidden_folder_are_no_runs(staicc: Cli, two_runs: list[Path]) -> None:
    """Jupyter keeps earlier versions of files in a hidden folder. They are no copies, since a metric has changed."""
    printed_before = printed_on_the_folder(staicc)
    checkpoints = FOLDER / ".ipynb_checkpoints"
    checkpoints.mkdir()
    earlier_version = two_runs[0].read_text("utf-8").replace("accuracy", "old")
    (checkpoints / "first-checkpoint.json").write_text(earlier_version, "utf-8")

    assert printed_on_the_folder(staicc) == printed_before
    assert staicc("verify", str(FOLDER)).status == 0


@pytest.mark.usefixtures("two_runs")
def test_a_folder_with_the_name_of_a_file_is_no_run(staicc: Cli) -> None:
    printed_before = printed_on_the_folder(staicc)
    (FOLDER / "folder.json").mkdir()

    assert printed_on_the_folder(staicc) == printed_before
    assert staicc("verify", str(FOLDER)).status == 0


@pytest.fixture
def folder_with_a_copy(staicc: Cli, two_runs: list[Path]) -> None:
    """The folder ``other`` with a copy of the first run with other line ends, and two files that are no results.

    The folder of both runs also has a site, with copies of them.
    """
    assert staicc("leaderboard", str(FOLDER), "-o", str(FOLDER / "site")).status == 0
    Path("other").mkdir()
    Path("other/crlf.json").write_bytes(two_runs[0].read_bytes().replace(b"\n", b"\r\n"))
    Path("other/notes.json").write_text("{}", "utf-8")
    Path("other/cut.json").write_text('{"schema": ', "utf-8")


@pytest.mark.usefixtures("folder_with_a_copy")
@pytest.mark.parametrize("arguments", ["FOLDER other", "other FOLDER/site", "FIRST SECOND other"])
def test_a_copy_in_another_folder_is_no_further_run(arguments: str, staicc: Cli, two_runs: list[Path]) -> None:
    first, second = (str(path) for path in two_runs)
    paths = arguments.replace("FOLDER", str(FOLDER)).replace("FIRST", first).replace("SECOND", second)

    ranking = staicc("rank", *paths.split())

    assert ranking.status == 0
    assert "Normal: 2 runs" in ranking.stdout
    assert "is a copy of" in ranking.stderr


@pytest.mark.usefixtures("folder_with_a_copy")
def test_files_of_a_folder_that_are_no_results_are_named(staicc: Cli) -> None:
    ranking = staicc("rank", str(FOLDER), "other")

    assert "notes.json is no saved result" in ranking.stderr
    assert "cut.json: this is not JSON" in ranking.stderr


@pytest.fixture
def runs_of_two_benchmarks(staicc: Cli) -> list[str]:
    """The files of two models on the benchmark normal, then of both on the template benchmark."""
    names = []
    for benchmark in ("normal", "template"):
        for order in (2, 3):
            names.append(f"{benchmark}{order}.json")
            words = ["--datasets", "mini", "--limit", "4", "--model", f"ppm;order={order}", "--json", names[-1]]
            assert staicc("run", benchmark, *words).status == 0
    return names


def test_a_ranking_has_each_benchmark_with_two_runs(staicc: Cli, runs_of_two_benchmarks: list[str]) -> None:
    _, out, _ = staicc("rank", *runs_of_two_benchmarks)

    assert out.count("2 runs") == 2


def test_a_ranking_names_a_benchmark_that_some_runs_lack(staicc: Cli, runs_of_two_benchmarks: list[str]) -> None:
    status, out, err = staicc("rank", *runs_of_two_benchmarks[:3], "--metric", "macro_F1")

    assert (status, out.count("2 runs")) == (0, 1)
    assert "Template_sens (not in " in err


def test_a_ranking_names_a_benchmark_without_the_metric(staicc: Cli, runs_of_two_benchmarks: list[str]) -> None:
    status, out, err = staicc("rank", *runs_of_two_benchmarks, "--metric", "macro_F1")

    assert (status, out.count("2 runs")) == (0, 1)
    assert "Template_sens (there is no" in err


def test_a_ranking_without_any_benchmark_is_refused(staicc: Cli, runs_of_two_benchmarks: list[str]) -> None:
    of_template = runs_of_two_benchmarks[2:]

    assert staicc("rank", *of_template, "--metric", "macro_F1").status == 2


def test_a_file_of_another_format_is_refused_before_the_run(staicc: Cli) -> None:
    run = staicc(*RUN, "--json", "r.csv")

    assert run.status == 2
    assert run.stdout == ""
    assert "expected a name such as 'result.json'" in run.stderr
    assert results_in_default_folder() == []
