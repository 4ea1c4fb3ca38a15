"""The prediction store: processor time of keys, look-ups, commits and of opening it; bytes on the disk.

Run it from the repository: ``python tests/performance/store.py [--queries 300000] [--chunk 1024] [--library FOLDER]``.
It writes to a temporary folder only. ``--library`` names the folder of another version that is measured. ``--chunk``
is the number of predictions that are committed together: up to 1,024 in runs of this version, 64 before.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from records import ROOT, arguments, markdown, peak_memory, record


def processor_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def bytes_written() -> int:
    """Return how many bytes this process has sent to the disk so far; 0 if the system does not say it."""
    try:
        lines = Path("/proc/self/io").read_text("ascii").splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def main() -> None:
    options = arguments(
        __doc__,
        {"--queries": 10_000, "--labels": 6, "--characters": 3000, "--chunk": 1024, "--library": str(ROOT)},
    )
    sys.path.insert(0, options.library)
    from StaICC.inference.store import PredictionStore, query_key

    labels = [f"label {number}" for number in range(options.labels)]
    draw = random.Random(1)
    keys: list[bytes] = []

    def make_keys() -> None:
        for number in range(options.queries):
            keys.append(query_key(f"{number} ".ljust(options.characters, "x"), labels))

    figures = {"key, us a query": processor_seconds(make_keys) / options.queries * 1e6}
    path = Path(tempfile.mkdtemp()) / "run.sqlite"

    def commit() -> None:
        with PredictionStore(path) as store:
            for first in range(0, options.queries, options.chunk):
                chunk = keys[first : first + options.chunk]
                store.put_many("model", [(key, [draw.random() for _ in labels]) for key in chunk])

    written_before = bytes_written()
    figures["commit, us a query"] = processor_seconds(commit) / options.queries * 1e6
    figures["written, bytes a query"] = (bytes_written() - written_before) / options.queries
    figures["file, bytes a query"] = path.stat().st_size / options.queries
    figures["open, s"] = processor_seconds(lambda: PredictionStore(path).close())
    with PredictionStore(path) as store:

        def look_up() -> None:
            assert len(store.get_many("model", keys)) == options.queries

        figures["hit, us a query"] = processor_seconds(look_up) / options.queries * 1e6
    figures["peak, MiB"] = peak_memory()
    shutil.rmtree(path.parent)
    record(__file__, figures, vars(options))
    print(markdown(["what", "figure"], figures.items()))


if __name__ == "__main__":
    main()
