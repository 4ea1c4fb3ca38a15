"""Peak memory and processor time of a run of many predictions, and of its verification.

Run it from the repository: ``python tests/performance/memory.py [--predictions 1000000] [--datasets 10]``. The data are
made: sentences of six words with three labels. The inference function costs nothing. Run and verification are processes
of their own; the peak is that of all memory of the process, with Python, the library and the data. Not on Windows.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from records import arguments, markdown, peak_memory, record

from StaICC import Dataset, Normal
from StaICC.benchmarks.verify import verify_file

WORDS = ["sun", "rain", "film", "good", "bad", "plot", "actor", "scene", "music", "story", "ending"]
LABELS = ["negative", "neutral", "positive"]
REPEATS = 2
"""Predictions of each test row in StaICC-Normal."""


def write_data(folder: Path, datasets: int, test_rows: int) -> None:
    for number in range(datasets):
        draw = random.Random(number)
        with (folder / f"data{number}.csv").open("w", encoding="utf-8") as file:
            file.write("text,label\n")
            for row in range(test_rows + 1050):
                file.write(f"{row} {' '.join(draw.choices(WORDS, k=6))},{draw.choice(LABELS)}\n")


def infer(prompt: str, label_space: list[str]) -> list[float]:
    first = zlib.crc32(prompt.encode()) % 1000 / 1000
    return [first, (1 - first) / 4, (1 - first) * 3 / 4]


def run(folder: Path, datasets: int, test_rows: int) -> None:
    split = {"calibration": 50, "demonstration": 1000, "test": test_rows}
    data = [Dataset.from_file(folder / f"data{number}.csv", split=split) for number in range(datasets)]
    Normal(datasets=data)(infer, progress=False).save(folder / "result.json")


def measured(work: str, folder: Path, datasets: int, test_rows: int) -> dict[str, float]:
    """Return what a process of its own measured, which runs or verifies."""
    command = [sys.executable, __file__, work, str(folder), str(datasets), str(test_rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def work_in_this_process(work: str, folder: Path, datasets: int, test_rows: int) -> None:
    logging.disable(logging.WARNING)
    if work == "run":
        run(folder, datasets, test_rows)
    else:
        verify_file(folder / "result.json")
    print(json.dumps({"processor seconds": time.process_time(), "peak, MiB": peak_memory()}))


def main() -> None:
    options = arguments(__doc__, {"--predictions": 1_000_000, "--datasets": 10})
    test_rows = options.predictions // options.datasets // REPEATS
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, options.datasets, test_rows)
        for work in ("run", "verify"):
            figures[work] = measured(work, folder, options.datasets, test_rows)
    record(__file__, figures, vars(options))
    print(markdown(["what", *figures["run"]], [[work, *values.values()] for work, values in figures.items()]))


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in ("run", "verify"):
        work_in_this_process(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
