"""Measure the prediction store: what a look-up, a commit, an opening and a key cost.

Run it from the repository: ``python tests/performance/store.py [--queries 10000] [--labels 6] [--json]``. It writes to
a temporary folder only. The aim (30 microseconds a query when everything is a hit) is for key and look-up together.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from records import record

from StaICC.inference.store import PredictionStore, query_key


def timed(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the median of some runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def measure(queries: int, labels: int, characters: int, chunk: int) -> dict[str, float]:
    """Fill a store and measure it; microseconds a query, milliseconds a chunk or opening."""
    label_space = [f"label {number}" for number in range(labels)]
    prompts = [f"{number} ".ljust(characters, "x") for number in range(queries)]
    draw = random.Random(1)
    figures = {}
    keys = [query_key(prompt, label_space) for prompt in prompts]
    figures["key, us a query"] = timed(lambda: [query_key(p, label_space) for p in prompts]) / queries * 1e6
    items = [(key, [draw.random() for _ in label_space]) for key in keys]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        with PredictionStore(path) as store:
            start = time.perf_counter()
            for first in range(0, queries, chunk):
                store.put_many("model", items[first : first + chunk])
            figures[f"commit, ms a chunk of {chunk}"] = (time.perf_counter() - start) / -(-queries // chunk) * 1e3
            assert store.get_many("model", keys) == dict(items)
            figures["hit, us a query"] = timed(lambda: store.get_many("model", keys)) / queries * 1e6
            other = [query_key(prompt, []) for prompt in prompts]
            figures["miss, us a query"] = timed(lambda: store.get_many("model", other)) / queries * 1e6
            single = timed(lambda: [store.get_many("model", [key]) for key in keys[:200]]) / 200
            figures["hit, one key a call, us"] = single * 1e6

            def whole() -> None:
                store.get_many("model", [query_key(prompt, label_space) for prompt in prompts])

            figures["key and hit, us a query"] = timed(whole) / queries * 1e6
            figures["bytes a query"] = store.info().size_bytes / queries
        figures["file, bytes a query"] = path.stat().st_size / queries
        figures["opening, ms"] = timed(lambda: PredictionStore(path).close()) * 1e3
    return figures


def main() -> int:
    """Parse the arguments and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--labels", type=int, default=6)
    parser.add_argument("--characters", type=int, default=3000, help="length of a prompt")
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure(args.queries, args.labels, args.characters, args.chunk)
    record(__file__, figures, vars(args))
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {args.queries} queries")
        for name, figure in figures.items():
            print(f"{figure:12.2f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
