"""Ctrl-C on the command line: it ends soon, keeps what is done, and says how to go on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from durability_kernels import calls_of
from durability_kills import HERE, QUERIES, environment, result_of, start, wait_until_empty

from StaICC.cli import main
from StaICC.inference.store import PredictionStore

PROGRAM = [sys.executable, str(HERE / "durability_run.py"), "cli"]


class Way(NamedTuple):
    """A way to run a model, which is a class with the seconds of each call."""

    model: str
    """The name of the file to which it writes its calls is appended, as in MODEL:FILE."""
    options: list[str]
    most_lost: int
    """How many predictions an interrupt may lose."""


WAYS = {
    "one by one": Way("durability_kernels:Deterministic:0.02", ["--chunk-size", "32"], most_lost=1),
    "two processes, in batches": Way(
        "durability_kernels:Batching:0.04", ["--chunk-size", "16", "--workers", "2"], most_lost=32
    ),
}


def wait_for_calls(path: Path, number: int) -> None:
    """Wait until a model has written so many calls to its file."""
    end = time.monotonic() + 60
    while len(calls_of(path)) < number:
        assert time.monotonic() < end, "the run does not get going"
        time.sleep(0.01)


def check_that_few_predictions_are_lost(store: Path, calls: Path, most_lost: int) -> None:
    """Check that a store has the prediction of each call but the last ones."""
    number_of_calls = len(calls_of(calls))
    stored_predictions = predictions_in(store)
    assert stored_predictions > 0
    assert number_of_calls - most_lost <= stored_predictions <= number_of_calls


def predictions_in(path: Path) -> int:
    """Return how many predictions a store has."""
    with PredictionStore(path) as store:
        return store.info().answers


def interrupt(process: subprocess.Popen[bytes], group: bool) -> float:
    """Send SIGINT to a process or its whole group, and return how many seconds it took to end."""
    started = time.monotonic()
    if group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        os.kill(process.pid, signal.SIGINT)
    assert process.wait(30) == 130  # 128 + SIGINT
    seconds = time.monotonic() - started
    wait_until_empty(process.pid)
    return seconds


def command_to_continue(stderr: str, store: Path, reason: str = "interrupted") -> list[str]:
    """Return the words of the command that a run says when it ends early, and check that it says nothing else."""
    ended, command = stderr.splitlines()
    words = shlex.split(command)
    lost = f"up to {chunk_size_of(words)} queries are lost; with a smaller --chunk-size, fewer"
    kept = f"completed predictions are in {store} (of a local model, {lost})"
    assert ended == f"staicc: {reason}; {kept}; the same command continues"
    assert words[:3] == ["python", "-m", "StaICC"]
    return words[3:]


def chunk_size_of(words: list[str]) -> int:
    """Return the queries that a local model of a command gets at once: 256 by default, as docs/durable_runs.md says."""
    if "--chunk-size" not in words:
        return 256
    return int(words[words.index("--chunk-size") + 1])


def with_option(words: list[str], option: str, value: object) -> list[str]:
    """Return a command line with another value of an option."""
    index = words.index(option) + 1
    return [*words[:index], str(value), *words[index + 1 :]]


def without_workers(words: list[str]) -> list[str]:
    """Return a command line that predicts in this process: workers can only start from a program."""
    if "--workers" not in words:
        return words
    index = words.index("--workers")
    return [*words[:index], *words[index + 2 :]]


def with_seconds_of_call(model: str, seconds: str) -> str:
    """Return a model such as ``durability_kernels:Batching:0.04`` with another number of seconds at its end."""
    class_of_model = model.rpartition(":")[0]
    return f"{class_of_model}:{seconds}"


def seconds_of_interrupted_run(way: str, folder: Path) -> float:
    """Interrupt a run, check that it keeps what is done, and return how many seconds it took to end."""
    model, options, most_lost = WAYS[way]
    store, calls = folder / "run.sqlite", folder / "calls"
    arguments = ["run", "normal", "--datasets", "mini", "--store", str(store), "--no-save", *options]
    process = start([*PROGRAM, *arguments, "--model", f"{model}:{calls}"], folder)
    wait_for_calls(calls, 40)

    seconds = interrupt(process, group=way == "one by one")

    assert len(calls_of(calls)) < QUERIES, "it completed the run before it ended"
    assert (folder / "stdout").read_text() == ""
    check_that_few_predictions_are_lost(store, calls, most_lost)
    return seconds


@pytest.mark.posix
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_ends_soon_and_keeps_what_is_done(way, tmp_path):
    """One of several runs ends within two seconds: a busy machine makes some slower, and none faster."""
    seconds = []
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        seconds.append(seconds_of_interrupted_run(way, folder))
        if min(seconds) < 2:
            return
    raise AssertionError(f"the runs took {min(seconds):.1f} s or more to end")


@pytest.mark.posix
@pytest.mark.parametrize("way", WAYS)
def test_the_command_that_an_interrupt_says_completes_the_run(way, tmp_path):
    """The command evaluates only what is not stored, and its result is that of a run without an interrupt."""
    model, options, _ = WAYS[way]
    store = tmp_path / "run.sqlite"
    calls = tmp_path / "calls"
    result = tmp_path / "result.json"
    arguments = ["run", "normal", "--datasets", "mini", "--store", str(store), "--json", str(result), *options]
    process = start([*PROGRAM, *arguments, "--model", f"{model}:{calls}"], tmp_path)
    wait_for_calls(calls, 40)
    interrupt(process, group=way == "one by one")
    calls_before_the_interrupt = len(calls_of(calls))
    stored_predictions = predictions_in(store)

    command = without_workers(command_to_continue((tmp_path / "stderr").read_text(), store))
    model_that_does_not_wait = with_seconds_of_call(model, "0")
    command = with_option(command, "--model", f"{model_that_does_not_wait}:{calls}")
    assert main([*command, "--no-recheck"]) == 0

    calls_after_the_interrupt = len(calls_of(calls)) - calls_before_the_interrupt
    assert calls_after_the_interrupt == QUERIES - stored_predictions

    uninterrupted = with_option(command, "--json", tmp_path / "uninterrupted.json")
    uninterrupted = with_option(uninterrupted, "--store", tmp_path / "other.sqlite")
    assert main(uninterrupted) == 0
    assert result_of(result) == result_of(tmp_path / "uninterrupted.json")


@pytest.mark.posix
def test_workers_that_start_leave_an_interrupt_to_the_run(tmp_path):
    """A worker imports the program. Here it sleeps then, so that the interrupt comes while it starts."""
    program = tmp_path / "program.py"
    worker_started = tmp_path / "worker_started"
    program.write_text(
        "import pathlib, time\n"
        "import StaICC.cli\n"
        "if __name__ == '__main__':\n"
        "    exit(StaICC.cli.main())\n"
        f"pathlib.Path({str(worker_started)!r}).touch()\n"
        "time.sleep(9)\n"
    )
    arguments = ["run", "normal", "--datasets", "mini", "--workers", "2", "--no-save"]
    process = start([sys.executable, str(program), *arguments], tmp_path)
    while not worker_started.exists():
        time.sleep(0.01)
    interrupt(process, group=True)

    assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.posix
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_scheduler_or_a_closed_terminal_ends_a_run_as_an_interrupt_does(way, name, status, tmp_path):
    model, options, most_lost = WAYS[way]
    store, calls = tmp_path / "run.sqlite", tmp_path / "calls"
    arguments = ["run", "normal", "--datasets", "mini", "--store", str(store), "--no-save", *options]
    arguments += ["--model", f"{model}:{calls}"]
    process = start([*PROGRAM, *arguments], tmp_path)
    wait_for_calls(calls, 40)

    os.killpg(process.pid, getattr(signal, name))  # all processes of a job, or of a terminal
    os.killpg(process.pid, getattr(signal, name))  # some schedulers send it twice

    assert process.wait(30) == status, (tmp_path / "stderr").read_text()
    wait_until_empty(process.pid)
    command = command_to_continue((tmp_path / "stderr").read_text(), store, reason=f"ended by {name}")
    assert command == arguments
    check_that_few_predictions_are_lost(store, calls, most_lost)


@pytest.mark.posix
def test_a_race_says_how_to_go_on_too(tmp_path):
    store, calls = tmp_path / "run.sqlite", tmp_path / "calls"
    models = ["--model", f"durability_kernels:Deterministic:0.02:{calls}", "--model", "ppm"]
    arguments = ["race", "--datasets", "mini", "--store", str(store), "--no-save", *models]
    process = start([*PROGRAM, *arguments], tmp_path)
    wait_for_calls(calls, 40)
    interrupt(process, group=True)

    assert command_to_continue((tmp_path / "stderr").read_text(), store) == arguments


@pytest.mark.posix
def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    """``nohup`` starts a command that ignores SIGHUP."""
    calls = tmp_path / "calls"
    arguments = ["run", "normal", "--datasets", "mini", "--no-save", "--model"]
    model = f"durability_kernels:Deterministic:0.01:{calls}"
    process = start(["nohup", *PROGRAM, *arguments, model], tmp_path)
    wait_for_calls(calls, 10)
    process.send_signal(signal.SIGHUP)

    assert process.wait(60) == 0
    assert len(calls_of(calls)) == QUERIES


@pytest.mark.posix
@pytest.mark.parametrize(
    ("name", "status", "message"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "ended by SIGTERM")]
)
def test_a_signal_while_modules_are_imported_has_no_traceback(name, status, message, tmp_path, monkeypatch):
    """The signal comes in code that is compiled from a text, as a dataclass compiles its methods."""
    send_signal = f"import os, signal, time; os.kill(os.getpid(), signal.{name}); time.sleep(9)"
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "class Sender:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'StaICC.cli.output': exec({send_signal!r})\n"
        "sys.meta_path.insert(0, Sender())\n"
        "import StaICC.cli\n"
        "sys.exit(StaICC.cli.main())\n"
    )
    monkeypatch.chdir(tmp_path)
    process = start([sys.executable, "-m", "program", "models"], tmp_path)

    assert process.wait(30) == status
    assert (tmp_path / "stderr").read_text() == f"staicc: {message}\n"


@pytest.mark.posix
def test_a_terminal_that_closes_leaves_the_predictions_in_the_store(tmp_path):
    import pty

    store, calls = tmp_path / "run.sqlite", tmp_path / "calls"
    model = f"durability_kernels:Deterministic:0.02:{calls}"
    arguments = ["run", "normal", "--datasets", "mini", "--store", str(store), "--no-save", "--model", model]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, [*PROGRAM, *arguments], environment())
    wait_for_calls(calls, 40)
    os.close(terminal)
    _, wait_status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(wait_status) == 129  # 128 + SIGHUP
    assert predictions_in(store) >= len(calls_of(calls)) - 1
