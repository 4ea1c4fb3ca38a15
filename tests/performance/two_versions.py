"""Processor time of two versions of the library, next to each other: what became slower.

Run it from the repository: ``python tests/performance/two_versions.py FOLDER [--rounds 5] [--tasks compare report]``.
``FOLDER`` has the other version (``git archive COMMIT | tar -x -C FOLDER``). Each task is a process of its own. The
versions take turns, and each makes its own result files first. Processor time is that of the child process, so a busy
machine changes little. A first process of each, which compiles, does not count. Data sets must be installed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from records import ROOT, arguments, markdown, record

INSTANT = """
import logging
logging.disable(logging.WARNING)
from StaICC import Normal

def instant(prompt, label_space):
    return [1.0 / (1 + len(label_space) + number) for number in range(len(label_space))]
"""
"""A model that costs next to nothing."""

METRICS = """
import random
from StaICC.metrics.classification import accuracy, averaged_truelabel_likelihood
from StaICC.metrics.classification import expected_calibration_error_1, macro_F1
draw = random.Random(1)
rows = [[draw.random() for _ in range(6)] for _ in range(20_000)]
rows = [[score / sum(row) for score in row] for row in rows]
truth = [draw.randrange(6) for _ in rows]
for _ in range(5):
    for metric in (accuracy, averaged_truelabel_likelihood, expected_calibration_error_1, macro_F1):
        metric(truth, rows)
"""

STORE = """
import hashlib, random
from StaICC.inference.store import PredictionStore, query_key
draw = random.Random(1)
labels = ["negative", "neutral", "positive"]
keys = [query_key(f"{number} ".ljust(1000, "x"), labels) for number in range(50_000)]
items = [(key, [draw.random() for _ in labels]) for key in keys]
with PredictionStore("keys.sqlite") as store:
    for first in range(0, len(items), 64):
        store.put_many("model", items[first : first + 64])
    assert store.get_many("model", keys) == dict(items)
"""

RUN_NORMAL = ["-m", "StaICC", "run", "normal", "--model", "ppm", "--quiet"]

TASKS: dict[str, list[str]] = {
    "import of StaICC": ["-c", "import StaICC"],
    "import of Normal, load_kernel": ["-c", "from StaICC import Normal, load_kernel"],
    "prompts of Normal": ["-m", "StaICC", "prompts", "normal", "--output", "prompts.jsonl"],
    "Normal, instant model": ["-c", f"{INSTANT}\nNormal()(instant, progress=False)"],
    "the same, all in a new store": [
        "-c",
        f"{INSTANT}\nNormal()(instant, progress=False, store='run.sqlite', model_name='instant')",
    ],
    "the same, all from the store": [
        "-c",
        f"{INSTANT}\nNormal()(instant, progress=False, store='full.sqlite', model_name='instant', recheck=False)",
    ],
    "run normal, ppm": [*RUN_NORMAL, "--json", "again.json"],
    "four metrics of 20,000 rows, 5 times": ["-c", METRICS],
    "store, 50,000 keys": ["-c", STORE],
    "load of a result": ["-c", "from StaICC import load\nload('first.json')"],
    "compare, two runs": ["-m", "StaICC", "compare", "first.json", "second.json"],
    "report, two runs": ["-m", "StaICC", "report", "first.json", "second.json", "--output", "page.html"],
    "leaderboard, two runs": ["-m", "StaICC", "leaderboard", "first.json", "second.json", "--output", "site"],
    "verify": ["-m", "StaICC", "verify", "first.json"],
}
"""The arguments of Python for each task."""

NEW_FILES = ("run.sqlite", "keys.sqlite", "again.json", "page.html")
"""Files that a task writes, and that are deleted before the next one."""


def environment_of(version: Path, folder: Path) -> dict[str, str]:
    """Return the environment of a child process that imports one version, with compiled code in a folder."""
    environment = dict(os.environ, PYTHONPATH=str(version), PYTHONPYCACHEPREFIX=str(folder / "compiled"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def processor_seconds(command: Sequence[str], version: Path, folder: Path) -> float:
    """Run Python with a version of the library in a folder, and return the processor time of that process."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=environment_of(version, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3):  # verify ends with 3 where something is left unchecked
        raise RuntimeError(f"{version}: exit status {process.returncode} of {command}")
    return usage.ru_utime + usage.ru_stime


def prepare(version: Path, folder: Path) -> None:
    """Make the result files and the store that the tasks read."""
    folder.mkdir()
    first = [*RUN_NORMAL, "--json", "first.json"]
    second = [*RUN_NORMAL, "--json", "second.json", "--k", "2"]
    full_store = f"{INSTANT}\nNormal()(instant, progress=False, store='full.sqlite', model_name='instant')"
    for command in (first, second, ["-c", full_store]):
        processor_seconds(command, version, folder)


def measured(tasks: Sequence[str], versions: Mapping[str, Path], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return for each task and version the processor time of each round."""
    seconds: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folders = {label: Path(name) / label for label in versions}
        for label, version in versions.items():
            prepare(version, folders[label])
        for task in tasks:
            seconds[task] = {label: [] for label in versions}
            for round_number in range(rounds + 1):
                for label, version in versions.items():
                    for file in NEW_FILES:
                        (folders[label] / file).unlink(missing_ok=True)
                    taken = processor_seconds(TASKS[task], version, folders[label])
                    if round_number > 0:
                        seconds[task][label].append(taken)
            print(task, seconds[task], file=sys.stderr, flush=True)
    return seconds


def table_row(task: str, seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a row: minimum and median of both versions, and the ratios of the new one to the old one."""
    old = seconds["old"]
    new = seconds["new"]
    old_median = statistics.median(old)
    new_median = statistics.median(new)
    return [
        task,
        f"{min(old):.3f} ({old_median:.3f})",
        f"{min(new):.3f} ({new_median:.3f})",
        f"{min(new) / min(old):.2f} ({new_median / old_median:.2f})",
    ]


def main() -> None:
    folder_of_old = Path(sys.argv.pop(1)).resolve()
    options = arguments(__doc__, {"--rounds": 5, "--tasks": list(TASKS), "--new": str(ROOT)})
    versions = {"old": folder_of_old, "new": Path(options.new).resolve()}
    tasks = [task for task in TASKS if any(chosen in task for chosen in options.tasks)]
    seconds = measured(tasks, versions, options.rounds)
    record(__file__, seconds, {"rounds": options.rounds})
    rows = [table_row(task, seconds[task]) for task in tasks]
    print(markdown(["processor seconds, minimum (median)", "old", "new", "ratio"], rows))


if __name__ == "__main__":
    main()
