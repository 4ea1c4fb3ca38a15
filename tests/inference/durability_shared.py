"""Runs the same benchmark several times at once on one store, and counts the queries that were evaluated twice.

Run it from the repository: ``python tests/inference/durability_shared.py [--runs 2 4] [--ways plain served ...]``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from durability_kills import QUERIES, environment, result_of, stored  # noqa: E402
from durability_server import MODEL  # noqa: E402

SECONDS = 0.02
SERVED_SECONDS = 0.2
WAYS = {
    "plain": ("Deterministic", []),
    "processes": ("Deterministic", ["--workers", "2"]),
    "batches": ("Batching", ["--chunk-size", "16"]),
    "served": ("served", []),
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


def share(way: str, runs: int, folder: Path) -> SharedRuns:
    """Start so many equal runs at once on one store, and let them end."""
    kernel, settings = WAYS[way]
    calls = folder / "calls"
    server = None
    model = f"durability_kernels:{kernel}:{SECONDS}:{calls}"
    if kernel == "served":
        program = [sys.executable, str(HERE / "durability_server.py"), str(calls), str(SERVED_SECONDS), "0"]
        server = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        model = f"openai:{server.stdout.readline().strip()}#{MODEL};scoring=text"
        settings = ["--unparsed", "wrong"]
    command = [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini", "--no-recheck", "--model", model]
    command += ["--store", str(folder / "run.sqlite"), *settings]
    began = time.monotonic()
    processes = []
    for number in range(runs):
        errors = (folder / f"stderr{number}").open("wb")
        result = ["--json", str(folder / f"result{number}.json")]
        environ = {**environment(), "NO_PROXY": "127.0.0.1"}
        processes.append(subprocess.Popen([*command, *result], env=environ, stdout=subprocess.DEVNULL, stderr=errors))
    for number, process in enumerate(processes):
        assert process.wait(300) == 0, (folder / f"stderr{number}").read_text()
    seconds = time.monotonic() - began
    if server is not None:
        server.kill()
        server.wait()
    marks = Counter(line.split()[-1] for line in calls.read_text().splitlines())
    if server is not None:
        marks.subtract([marks.most_common(1)[0][0]] * runs)  # each run asks for the edition
    assert stored(folder) == QUERIES
    assert not os.path.exists(folder / "run.sqlite-claims")
    results = {result_of(folder / f"result{number}.json") for number in range(runs)}
    evaluated = sum(marks.values())
    return SharedRuns(evaluated, evaluated - QUERIES, seconds, len(results) == 1)


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
