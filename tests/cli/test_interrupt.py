"""Ctrl-C on the command line: it ends soon, keeps what is done, and says how to go on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from durability_kernels import calls_of
from durability_kills import HERE, QUERIES, environment, result_of, start, wait_until_empty

from StaICC.cli import main
from StaICC.inference.store import PredictionStore

PROGRAM = [sys.executable, str(HERE / "durability_run.py"), "cli"]
WAYS = {
    "one by one": ("durability_kernels:Deterministic:0.02", 1, ["--chunk-size", "32"]),
    "two processes, in batches": ("durability_kernels:Batching:0.04", 32, ["--chunk-size", "16", "--workers", "2"]),
}


def wait_for_calls(path: Path, number: int) -> None:
    end = time.monotonic() + 60
    while len(calls_of(path)) < number:
        assert time.monotonic() < end, "the run does not get going"
        time.sleep(0.01)


def interrupt(process: subprocess.Popen[bytes], group: bool) -> float:
    """Interrupt, and return how many seconds it took to end."""
    started = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    seconds = time.monotonic() - started
    wait_until_empty(process.pid)
    return seconds


@pytest.mark.posix
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_ends_soon_keeps_what_is_done_and_says_how_to_go_on(way, tmp_path):
    model, most_lost, settings = WAYS[way]
    store, calls, result = (tmp_path / name for name in ("run.sqlite", "calls", "result.json"))
    arguments = ["run", "normal", "--datasets", "mini", "--store", str(store), "--json", str(result), *settings]
    process = start([*PROGRAM, *arguments, "--model", f"{model}:{calls}"], tmp_path)
    wait_for_calls(calls, 40)
    assert interrupt(process, group=way.startswith("one")) < 2
    assert (tmp_path / "stdout").read_text() == ""
    said = (tmp_path / "stderr").read_text().splitlines()
    assert said[0] == f"staicc: interrupted; completed predictions are in {store}; the same command continues"
    again = shlex.split(said[1])
    assert again[:3] == ["python", "-m", "StaICC"]
    assert said[2:] == []
    asked = len(calls_of(calls))
    with PredictionStore(store) as kept:
        predictions = kept.info().answers
    assert asked - most_lost <= predictions <= asked
    assert predictions > 0
    alone = [word for word in again[3:] if word not in ("--workers", "2")]  # workers start from a program only
    fast = ":".join([model.rpartition(":")[0], "0", str(calls)])  # the same model, without waiting
    alone[alone.index("--model") + 1] = fast
    assert main([*alone, "--no-recheck"]) == 0
    assert len(calls_of(calls)) == QUERIES + asked - predictions
    alone[alone.index("--json") + 1] = str(tmp_path / "whole.json")
    alone[alone.index("--store") + 1] = str(tmp_path / "other.sqlite")
    assert main(alone) == 0
    assert result_of(result) == result_of(tmp_path / "whole.json")


@pytest.mark.posix
def test_workers_that_start_leave_an_interrupt_to_the_run(tmp_path):
    program, begun = tmp_path / "program.py", tmp_path / "begun"
    asleep = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(9)"  # a worker imports it, too
    program.write_text(f"import StaICC.cli\nif __name__ == '__main__': exit(StaICC.cli.main())\nelse: {asleep}\n")
    arguments = ["run", "normal", "--datasets", "mini", "--workers", "2", "--no-save"]
    process = start([sys.executable, str(program), *arguments], tmp_path)
    while not begun.exists():
        time.sleep(0.01)
    interrupt(process, group=True)
    assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.posix
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_scheduler_or_a_closed_terminal_ends_a_run_as_an_interrupt_does(way, name, status, tmp_path):
    model, most_lost, settings = WAYS[way]
    store, calls = tmp_path / "run.sqlite", tmp_path / "calls"
    arguments = ["run", "normal", "--datasets", "mini", "--store", str(store), "--no-save", *settings]
    process = start([*PROGRAM, *arguments, "--model", f"{model}:{calls}"], tmp_path)
    wait_for_calls(calls, 40)
    os.killpg(process.pid, getattr(signal, name))  # all processes of a job, or of a terminal
    os.killpg(process.pid, getattr(signal, name))  # some schedulers send it twice
    assert process.wait(30) == status, (tmp_path / "stderr").read_text()
    wait_until_empty(process.pid)
    ended, command, *rest = (tmp_path / "stderr").read_text().splitlines()
    assert ended == f"staicc: ended by {name}; completed predictions are in {store}; the same command continues"
    assert shlex.split(command)[3:] == [*arguments, "--model", f"{model}:{calls}"]
    assert rest == []
    with PredictionStore(store) as kept:
        predictions = kept.info().answers
    assert len(calls_of(calls)) - most_lost <= predictions <= len(calls_of(calls))
    assert predictions > 0


@pytest.mark.posix
def test_a_race_says_how_to_go_on_too(tmp_path):
    store, calls = tmp_path / "run.sqlite", tmp_path / "calls"
    models = ["--model", f"durability_kernels:Deterministic:0.02:{calls}", "--model", "ppm"]
    arguments = ["race", "--datasets", "mini", "--store", str(store), "--no-save", *models]
    process = start([*PROGRAM, *arguments], tmp_path)
    wait_for_calls(calls, 40)
    interrupt(process, group=True)
    ended, command = (tmp_path / "stderr").read_text().splitlines()
    assert ended == f"staicc: interrupted; completed predictions are in {store}; the same command continues"
    assert shlex.split(command)[3:] == arguments


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
    ("name", "status", "said"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "ended by SIGTERM")]
)
def test_a_signal_while_modules_are_imported_has_no_traceback(name, status, said, tmp_path, monkeypatch):
    """The signal comes in code that is compiled from a text, as a dataclass compiles its methods."""
    text = f"import os, signal, time; os.kill(os.getpid(), signal.{name}); time.sleep(9)"
    send = f"exec({text!r})"
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "class Sender:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'StaICC.cli.output': {send}\n"
        "sys.meta_path.insert(0, Sender())\n"
        "import StaICC.cli\n"
        "sys.exit(StaICC.cli.main())\n"
    )
    monkeypatch.chdir(tmp_path)
    process = start([sys.executable, "-m", "program", "models"], tmp_path)
    assert process.wait(30) == status
    assert (tmp_path / "stderr").read_text() == f"staicc: {said}\n"


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
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 129
    with PredictionStore(store) as kept:
        assert kept.info().answers >= len(calls_of(calls)) - 1
