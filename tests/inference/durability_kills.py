"""Kills runs at random moments, resumes them, and counts what was lost. Used by tests and by a measurement."""

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
    """A way to run StaICC-Normal on the mini data set."""

    name: str
    kernel: str
    """The class of ``durability_kernels``."""
    where: str
    """``here`` (in one process), ``threads``, ``processes``, or ``cli`` for the command line."""
    workers: int
    chunk: int
    """The number of queries in a chunk."""
    seconds: float
    """How long a query takes."""

    def command(self, folder: Path) -> list[str]:
        """Return the command of a run whose store, result and file of calls are in the folder."""
        program = [sys.executable, str(HERE / "durability_run.py")]
        store = str(folder / "run.sqlite")
        result = str(folder / "result.json")
        calls = str(folder / "calls")
        seconds, workers, chunk = str(self.seconds), str(self.workers), str(self.chunk)
        if self.where != "cli":
            kernel_and_place = f"{self.kernel},{self.where}"
            return [*program, "api", store, result, calls, seconds, workers, chunk, kernel_and_place]

        model = f"durability_kernels:{self.kernel}:{seconds}:{calls}"
        arguments = ["run", "normal", "--datasets", "mini", "--model", model]
        arguments += ["--store", store, "--json", result, "--chunk-size", chunk]
        if self.workers > 1:
            arguments += ["--workers", workers]
        return [*program, "cli", *arguments]


WAYS = [
    Way("one by one", "Deterministic", "here", 1, 16, 0.002),
    Way("in batches", "Batching", "here", 1, 16, 0.002),
    Way("three threads", "Deterministic", "threads", 3, 8, 0.005),
    Way("two processes", "Batching", "processes", 2, 8, 0.003),
    Way("command line", "Batching", "cli", 1, 16, 0.002),
    Way("command line, two processes", "Deterministic", "cli", 2, 8, 0.003),
]


def environment() -> dict[str, str]:
    """Return the environment of a run, in which it finds the library and the kernels, and fetches nothing."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]), "STAICC_OFFLINE": "1"}


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a run in a session of its own; its output goes to files of the folder."""
    return subprocess.Popen(
        command,
        env=environment(),
        stdout=(folder / "stdout").open("wb"),
        stderr=(folder / "stderr").open("wb"),
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )


def run_to_the_end(way: Way, folder: Path) -> bytes:
    """Run without a kill, and return what equal runs share of the result."""
    process = start(way.command(folder), folder)
    assert process.wait(120) == 0, (folder / "stderr").read_text()
    return result_of(folder / "result.json")


def result_of(path: Path) -> bytes:
    """Return what equal runs share of a saved result: all but times, counts and the model's name, which has a path."""
    loaded = load(path)
    results = [loaded] if isinstance(loaded, Result) else loaded.results()
    documents = []
    for result in results:
        document = result.reproducible()
        for predictor in document["provenance"]["predictors"]:
            predictor["name"] = None
        documents.append(document)
    return json.dumps(documents).encode()


def stored(folder: Path) -> int:
    """Return how many predictions the store of a run has."""
    path = folder / "run.sqlite"
    if not path.exists():
        return 0
    with PredictionStore(path) as store:  # a kill may have left an empty file
        return store.info().answers


@dataclass
class KillCounts:
    """What happened to runs that were killed."""

    kills: int = 0
    """Kills of runs that had not ended yet."""
    resumed_runs: int = 0
    """Runs that went on after their kills, and ended."""
    equal_results: int = 0
    """How many of these have the result of a run without a kill."""
    most_lost: int = 0
    """Predictions that one kill lost, at most: they were computed and had to be computed again."""


RECHECKED = 30
"""Stored predictions that a resumed run computes again, or all if there are fewer."""


def kill_run(way: Way, folder: Path, seconds: float, counts: KillCounts, with_workers: bool) -> None:
    """Start a run and kill it after some time, alone or with its workers; count the kill, and what it lost."""
    calls_before = len(calls_of(folder / "calls"))
    stored_before = stored(folder)

    process = start(way.command(folder), folder)
    time.sleep(seconds)
    has_ended = process.poll() is not None
    if not has_ended and with_workers:
        os.killpg(process.pid, signal.SIGKILL)
    elif not has_ended:
        os.kill(process.pid, signal.SIGKILL)
    if process.wait() == -signal.SIGKILL:
        counts.kills += 1
    wait_until_empty(process.pid)

    computed = len(calls_of(folder / "calls")) - calls_before
    newly_stored = stored(folder) - stored_before
    lost = computed - newly_stored
    counts.most_lost = max(counts.most_lost, lost)
    in_flight = way.workers * way.chunk
    assert 0 <= lost <= in_flight + RECHECKED, f"{way.name}: a kill after {seconds} s lost {lost} predictions"


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


def kill_and_resume(way: Way, folder: Path, kills: int, seed: int) -> KillCounts:
    """Kill runs at random moments, each one to three times in a row, until there were so many kills.

    After its kills, each run is started once more and ends. It must have stored all queries then.
    """
    draw = random.Random(f"{way.name} {seed}")
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    started = time.monotonic()
    expected_result = run_to_the_end(way, undisturbed)
    seconds_of_a_run = time.monotonic() - started
    assert len(calls_of(undisturbed / "calls")) == QUERIES

    counts = KillCounts()
    while counts.kills < kills:
        run_folder = folder / f"run {counts.resumed_runs}"
        run_folder.mkdir()
        for _ in range(draw.randint(1, 3)):
            if counts.kills < kills:
                seconds = draw.uniform(0.05, seconds_of_a_run)
                kill_run(way, run_folder, seconds, counts, with_workers=draw.random() < 0.5)
        result = run_to_the_end(way, run_folder)
        counts.resumed_runs += 1
        if result == expected_result:
            counts.equal_results += 1
        assert stored(run_folder) == QUERIES
        shutil.rmtree(run_folder)
    return counts
