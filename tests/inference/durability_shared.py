"""Runs the same benchmark several times at once on one store, and counts the queries that were evaluated twice.

Run it from the repository: ``python tests/inference/durability_shared.py [--runs 2 4] [--ways plain served ...]``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from durability_kills import QUERIES, environment, result_of, stored  # noqa: E402
from durability_server import MODEL  # noqa: E402

SECONDS = 0.02
"""How long a kernel takes for a query."""
SERVED_SECONDS = 0.2
"""How long the server takes for a request."""


@dataclass(frozen=True)
class Way:
    """A way to evaluate the queries."""

    kernel: str
    """The class of ``durability_kernels``; empty for a model behind a server."""
    options: tuple[str, ...] = ()
    """Options of the command line."""


WAYS = {
    "plain": Way("Deterministic"),
    "processes": Way("Deterministic", ("--workers", "2")),
    "batches": Way("Batching", ("--chunk-size", "16")),
    "served": Way("", ("--unparsed", "wrong")),
}


@dataclass(frozen=True)
class SharedRuns:
    """What several runs at once did."""

    evaluated: int
    """Queries that were evaluated, each counted as often as it was."""
    repeated: int
    """How many of these were not the first of their query."""
    seconds: float
    """Until the last one ended."""
    equal: bool
    """Whether all results are equal."""


@contextmanager
def model_of(way: Way, calls: Path) -> Iterator[str]:
    """Give the specification of a model that writes a line to a file at each call; its server runs meanwhile."""
    if way.kernel:
        yield f"durability_kernels:{way.kernel}:{SECONDS}:{calls}"
        return
    program = [sys.executable, str(HERE / "durability_server.py"), str(calls), str(SERVED_SECONDS), "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        yield f"openai:{url}#{MODEL};scoring=text"
        server.kill()


def run_at_once(commands: list[list[str]], folder: Path) -> float:
    """Start commands at the same time, and return the seconds until the last one ended; all must succeed."""
    began = time.monotonic()
    settings: dict[str, Any] = {"env": {**environment(), "NO_PROXY": "127.0.0.1"}, "stdout": subprocess.DEVNULL}
    processes = []
    for number, command in enumerate(commands):
        with (folder / f"stderr{number}").open("wb") as errors:
            processes.append(subprocess.Popen(command, stderr=errors, **settings))
    for number, process in enumerate(processes):
        assert process.wait(300) == 0, (folder / f"stderr{number}").read_text()
    return time.monotonic() - began


def share(name: str, runs: int, folder: Path) -> SharedRuns:
    """Start so many equal runs at once on one store, and let them end.

    Args:
        name: One of ``WAYS``.
        runs: The number of runs.
        folder: An empty folder for the store, the results and the file of calls.
    """
    way = WAYS[name]
    calls, store = folder / "calls", folder / "run.sqlite"
    result_files = [folder / f"result{number}.json" for number in range(runs)]
    with model_of(way, calls) as model:
        command = [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini", "--no-recheck"]
        command += ["--model", model, "--store", str(store), *way.options]
        commands = [[*command, "--json", str(file)] for file in result_files]
        seconds = run_at_once(commands, folder)
    assert stored(folder) == QUERIES
    assert not Path(f"{store}-claims").exists(), "the file of claims is left"

    evaluated = len(calls.read_text().splitlines())
    if not way.kernel:
        evaluated -= runs  # each run begins with a request that asks which edition is served
    different_results = {result_of(file) for file in result_files}
    return SharedRuns(evaluated, evaluated - QUERIES, seconds, equal=len(different_results) == 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    print("| way | runs | evaluated | repeated | seconds | results equal |")
    print("|---|---|---|---|---|---|")
    for way_name in options.ways:
        for number_of_runs in options.runs:
            with tempfile.TemporaryDirectory() as temporary:
                outcome = share(way_name, number_of_runs, Path(temporary))
            cells = [outcome.evaluated, outcome.repeated, f"{outcome.seconds:.1f}", outcome.equal]
            print("|", " | ".join([way_name, *map(str, [number_of_runs, *cells])]), "|", flush=True)
