"""Processor time and peak memory of commands over many saved results, and how they grow with the number of results.

Run it from the repository: ``python tests/performance/many_runs.py [--runs 10 100 1000] [--commands compare report]``.
Each result is of StaICC-Normal on the data set mini, which is in the library, by a made model of its own: it prefers
the true label more or less, with noise. A command is a process of its own. Its processor time is that of the process,
so a busy machine changes little. ``--library`` names the folder of another version that runs the commands. Not on
Windows.
"""

from __future__ import annotations

import logging
import math
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from records import ROOT, arguments, markdown, record

from StaICC import Normal, load_dataset

COMMANDS = {
    "compare": ["compare", "{results}"],
    "rank": ["rank", "{results}"],
    "report": ["report", "{results}", "--output", "page.html"],
    "leaderboard": ["leaderboard", "{results}", "--output", "site"],
    "leaderboard again": ["leaderboard", "{results}", "--output", "site"],
}
"""The arguments of each command; ``{results}`` is the folder with the results."""
PAGES = {"report": "page.html", "leaderboard": "site/index.html", "leaderboard again": "site/index.html"}
"""The page that a command writes."""


def model(number: int) -> Callable[[str, list[str]], list[float]]:
    """Return a made model: its number says how much it prefers the true label."""
    preference = number % 50 / 25
    label_by_text = {row.texts[0]: row.label for row in load_dataset("mini").table}

    def infer(prompt: str, label_space: list[str]) -> list[float]:
        question = prompt.rpartition("sentence: ")[2]
        text = question.partition(" topic:")[0]
        draw = random.Random(zlib.crc32(f"{number} {prompt}".encode()))
        scores = [draw.gauss(0, 1) for _ in label_space]
        scores[label_by_text[text]] += preference
        total = sum(math.exp(score) for score in scores)
        return [math.exp(score) / total for score in scores]

    return infer


def write_results(folder: Path, runs: int) -> None:
    """Write the results of some runs into a folder."""
    folder.mkdir()
    benchmark = Normal(datasets=["mini"])
    for number in range(runs):
        result = benchmark(model(number), progress=False, model_name=f"model {number}")
        result.save(folder / f"run{number:04d}.json")


def measured(command: str, library: Path, folder: Path) -> dict[str, float]:
    """Return the processor time, the peak memory, and the size of the page of a command in a process of its own."""
    words = [word.format(results="results") for word in COMMANDS[command]]
    environment = dict(os.environ, PYTHONPATH=str(library), STAICC_HOME=str(folder / "home"))
    with (folder / f"{command}.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "StaICC", *words],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # leaderboard ends with 1 where a result is not ranked
        raise RuntimeError(f"exit status {process.returncode} of {words}")
    figures = {"processor seconds": usage.ru_utime + usage.ru_stime, "peak, MiB": usage.ru_maxrss / 1024}
    if command in PAGES:
        figures["page, MB"] = (folder / PAGES[command]).stat().st_size / 1e6
    return figures


def main() -> None:
    options = arguments(
        __doc__, {"--runs": [10, 100, 1000], "--commands": list(COMMANDS), "--library": str(ROOT), "--folder": ""}
    )
    logging.disable(logging.WARNING)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        parent = Path(options.folder or name)
        for runs in options.runs:
            folder = parent / str(runs)
            if not folder.exists():
                folder.mkdir(parents=True)
                write_results(folder / "results", runs)
            for command in COMMANDS:
                if command in options.commands:
                    figures[f"{command}, {runs} runs"] = measured(command, Path(options.library), folder)
                    print(command, runs, figures[f"{command}, {runs} runs"], file=sys.stderr, flush=True)
    record(__file__, figures, {"runs": options.runs})
    rows = []
    for cell, values in figures.items():
        rows.append([cell, values["processor seconds"], values["peak, MiB"], values.get("page, MB", "")])
    print(markdown(["command", "processor seconds", "peak, MiB", "page, MB"], rows))


if __name__ == "__main__":
    main()
