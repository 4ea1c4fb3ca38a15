"""Ends runs with signals at random moments, and counts the answers that were made and not stored.

Run it from the repository: ``python tests/inference/durability_signals.py [--moments 20] [--ways plain served ...]``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from durability_kernels import calls_of  # noqa: E402
from durability_kills import QUERIES, environment, stored, wait_until_empty  # noqa: E402
from durability_server import MODEL  # noqa: E402

SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
"""By name, since Windows has no SIGKILL and imports this file, too."""
QUERY_SECONDS = 0.02
SERVED_SECONDS = 0.3
CONNECTIONS = 8


@dataclass(frozen=True)
class Way:
    """A way to run from the command line."""

    kernel: str
    workers: int = 1
    threads: int = 0
    dask: int = 0
    chunk_size: int | None = None


WAYS = {
    "plain": Way("Deterministic"),
    "threads": Way("Deterministic", threads=3),
    "processes": Way("Deterministic", workers=2),
    "batches": Way("Batching", chunk_size=16),
    "Dask": Way("Deterministic", dask=2),
    "served": Way("served"),
}


@dataclass
class Loss:
    """What signals of one kind cost."""

    moments: int = 0
    most_lost: int = 0
    """Answers that were made and not stored, at most."""
    lost: int = 0
    made: int = 0
    slowest_end: float = 0.0
    """Seconds from the signal to the end of the run, at most."""

    def add(self, made: int, kept: int, seconds: float) -> None:
        """Count a run."""
        self.moments += 1
        self.made += made
        self.lost += made - kept
        self.most_lost = max(self.most_lost, made - kept)
        self.slowest_end = max(self.slowest_end, seconds)


def command(way: Way, folder: Path, server: str) -> list[str]:
    """Return the command of a run: of the command line, or of ``durability_run.py`` for threads and Dask."""
    if way.threads > 0:
        return command_of_api(way, folder, executor="threads", workers=way.threads)
    if way.dask > 0:
        return command_of_api(way, folder, executor="dask", workers=way.dask)

    program = [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini"]
    program += ["--store", str(folder / "run.sqlite"), "--json", str(folder / "result.json")]
    if way.kernel == "served":
        program += ["--model", f"openai:{server}#{MODEL};scoring=text;concurrency={CONNECTIONS}"]
        program += ["--unparsed", "wrong"]
    else:
        program += ["--model", f"durability_kernels:{way.kernel}:{QUERY_SECONDS}:{folder / 'calls'}"]
    if way.chunk_size is not None:
        program += ["--chunk-size", str(way.chunk_size)]
    if way.workers > 1:
        program += ["--workers", str(way.workers)]
    return program


def command_of_api(way: Way, folder: Path, executor: str, workers: int) -> list[str]:
    """Return the command of a run with an executor that the command line does not have."""
    store, result, calls = str(folder / "run.sqlite"), str(folder / "result.json"), str(folder / "calls")
    chunk_size = "" if way.chunk_size is None else str(way.chunk_size)
    program = [sys.executable, str(HERE / "durability_run.py"), "api", store, result, calls]
    return [*program, str(QUERY_SECONDS), str(workers), chunk_size, f"{way.kernel},{executor}"]


@dataclass(frozen=True)
class EndedRun:
    """A run that a signal ended."""

    made: int
    """Answers that were made."""
    stored: int
    """Answers that are in the store."""
    seconds: float
    """From the signal to the end."""


def start_server(calls: Path) -> subprocess.Popen[str]:
    """Start a server that notes its answers in a file, and prints its address as the first line."""
    program = [sys.executable, str(HERE / "durability_server.py"), str(calls), str(SERVED_SECONDS), "0"]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def start_run(program: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a run in a session of its own, which SIGINT ends as it does in a terminal."""
    environment_of_run = environment()
    environment_of_run["NO_PROXY"] = "127.0.0.1"
    return subprocess.Popen(
        program,
        env=environment_of_run,
        stdout=(folder / "stdout").open("wb"),
        stderr=(folder / "stderr").open("wb"),
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def end_run(way: Way, number: signal.Signals, after: float, folder: Path) -> EndedRun:
    """Start a run, and send it a signal so many seconds after its first answer."""
    calls = folder / "calls"
    server = None
    url = ""
    if way.kernel == "served":
        server = start_server(calls)
        assert server.stdout is not None
        url = server.stdout.readline().strip()
    process = start_run(command(way, folder, url), folder)

    while process.poll() is None and answers_in(calls) == 0:
        time.sleep(0.01)
    time.sleep(after)
    signal_time = time.monotonic()
    if process.poll() is None:
        os.kill(process.pid, number)
    process.wait(60)
    seconds = time.monotonic() - signal_time

    wait_until_empty(process.pid)
    if server is not None:
        server.kill()
        server.wait()
    return EndedRun(answers_in(calls), stored(folder), seconds)


def answers_in(calls: Path) -> int:
    """Return how many answers were made; the request for the served edition is none of them."""
    if not calls.exists():
        return 0
    lines = calls.read_text().splitlines()
    if lines and len(lines[0].split()) == 1:
        return max(0, len(lines) - 1)
    return len(calls_of(calls))


def measured(name: str, number: signal.Signals, moments: int) -> Loss:
    """End so many runs of one way with one signal, each at a random moment."""
    draw = random.Random(f"{name} {number}")
    loss = Loss()
    for _ in range(moments):
        with tempfile.TemporaryDirectory() as folder:
            ended = end_run(WAYS[name], number, draw.uniform(0, 2.5), Path(folder))
        loss.add(min(ended.made, QUERIES), ended.stored, ended.seconds)
    return loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    print("| way | signal | moments | made | lost | most lost | seconds to end, at most |")
    print("|---|---|---|---|---|---|---|")
    for way_name in options.ways:
        for signal_name in SIGNALS:
            ending_signal = signal.Signals[signal_name]
            row = measured(way_name, ending_signal, options.moments)
            cells = [row.moments, row.made, row.lost, row.most_lost, f"{row.slowest_end:.2f}"]
            print("|", " | ".join([way_name, ending_signal.name, *map(str, cells)]), "|", flush=True)
