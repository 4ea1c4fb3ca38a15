"""Kills runs at random moments, resumes them, and looks what was lost. Used by tests and by a measurement."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from durability_kernels import calls_of

from StaICC.inference.store import PredictionStore
from StaICC.results.result import Result, load

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
QUERIES = 192
"""Distinct prompts of StaICC-Normal on the mini data set."""


@dataclass(frozen=True)
class Way:
    """A way to run."""

    name: str
    kernel: str
    where: str
    workers: int
    chunk: int
    seconds: float

    def command(self, folder: Path) -> list[str]:
        """The command line of the run."""
        program = [sys.executable, str(HERE / "durability_run.py")]
        store, result, calls = (str(folder / name) for name in ("run.sqlite", "result.json", "calls"))
        seconds, workers, chunk = str(self.seconds), str(self.workers), str(self.chunk)
        if self.where != "cli":
            kind = f"{self.kernel},{self.where}"
            return [*program, "api", store, result, calls, seconds, workers, chunk, kind]
        model = f"durability_kernels:{self.kernel}:{seconds}:{calls}"
        settings = ["--store", store, "--json", result, "--chunk-size", chunk]
        settings += ["--workers", workers] if self.workers > 1 else []
        return [*program, "cli", "run", "normal", "--datasets", "mini", "--model", model, *settings]


WAYS = [
    Way("one by one", "Deterministic", "here", 1, 16, 0.002),
    Way("in batches", "Batching", "here", 1, 16, 0.002),
    Way("three threads", "Deterministic", "threads", 3, 8, 0.005),
    Way("two processes", "Batching", "processes", 2, 8, 0.003),
    Way("command line", "Batching", "cli", 1, 16, 0.002),
    Way("command line, two processes", "Deterministic", "cli", 2, 8, 0.003),
]


def environment() -> dict[str, str]:
    """Where the run finds the library and the kernels."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]), "STAICC_OFFLINE": "1"}


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a run, in a session of its own."""
    return subprocess.Popen(
        command,
        env=environment(),
        stdout=(folder / "stdout").open("wb"),
        stderr=(folder / "stderr").open("wb"),
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )


def complete(way: Way, folder: Path) -> bytes:
    """Run to the end; the saved result without its timing."""
    process = start(way.command(folder), folder)
    assert process.wait(120) == 0, (folder / "stderr").read_text()
    return result_of(folder / "result.json")


def result_of(path: Path) -> bytes:
    """What equal runs share of a saved result: all but times, counts and the model's name, which holds its folder."""
    found = load(path)
    shared = [one.reproducible() for one in ([found] if isinstance(found, Result) else found.results())]
    for one in shared:
        for predictor in one["provenance"]["predictors"]:
            predictor["name"] = None
    return json.dumps(shared).encode()


def stored(folder: Path) -> int:
    """Number of predictions in the store."""
    path = folder / "run.sqlite"
    if not path.exists():
        return 0
    with PredictionStore(path) as store:  # a kill may have left an empty file
        return store.info().answers


@dataclass
class Toll:
    """What kills cost."""

    kills: int = 0
    equal: int = 0
    resumed: int = 0
    most_lost: int = 0
    """Answers that one kill lost, at most: they were computed and had to be computed again."""


RECHECKED = 30
"""Stored answers that a resumed run computes again, or all if there are fewer."""


def kill_run(way: Way, folder: Path, moment: float, toll: Toll, group: bool) -> None:
    """Start a run and kill it (or with it all its workers) after so many seconds."""
    before = len(calls_of(folder / "calls")), stored(folder)
    process = start(way.command(folder), folder)
    time.sleep(moment)
    if process.poll() is None:
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    wait_until_empty(process.pid)
    toll.kills += killed
    lost = (len(calls_of(folder / "calls")) - before[0]) - (stored(folder) - before[1])
    toll.most_lost = max(toll.most_lost, lost)
    assert 0 <= lost <= way.workers * way.chunk + RECHECKED, f"{way.name}: a kill after {moment} s lost {lost} answers"


def wait_until_empty(group: int) -> None:
    """Wait until no process of a group is left: workers end with the run that they belong to."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("workers outlive the run that was killed")


def kill_and_resume(way: Way, folder: Path, kills: int, seed: int) -> Toll:
    """Kill runs at random moments, each some times in a row, and let each end at last."""
    draw = random.Random(f"{way.name} {seed}")
    toll = Toll()
    whole = folder / "whole"
    whole.mkdir()
    started = time.monotonic()
    expected = complete(way, whole)
    longest = time.monotonic() - started
    assert len(calls_of(whole / "calls")) == QUERIES
    number = 0
    while toll.kills < kills:
        number += 1
        one = folder / str(number)
        one.mkdir()
        for _ in range(draw.randint(1, 3)):
            if toll.kills < kills:
                kill_run(way, one, draw.uniform(0.05, longest), toll, group=draw.random() < 0.5)
        toll.resumed += 1
        toll.equal += complete(way, one) == expected
        assert stored(one) == QUERIES
        shutil.rmtree(one)
    return toll
