"""Measure the prediction store: what a look-up, a commit, an opening and a key cost.

Run it from the repository: ``python tests/performance/store.py [--queries 10000] [--labels 6]``. It writes to a
temporary folder only. The aim (30 microseconds a query when everything is a hit) is for key and look-up together.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from records import arguments, markdown, record

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
    keys = [query_key(prompt, label_space) for prompt in prompts]
    other = [query_key(prompt, []) for prompt in prompts]
    items = [(key, [draw.random() for _ in label_space]) for key in keys]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        with PredictionStore(path) as store:
            start = time.perf_counter()
            for first in range(0, queries, chunk):
                store.put_many("model", items[first : first + chunk])
            commit = time.perf_counter() - start
            assert store.get_many("model", keys) == dict(items)
            seconds = {
                "key": timed(lambda: [query_key(p, label_space) for p in prompts]),
                "hit": timed(lambda: store.get_many("model", keys)),
                "miss": timed(lambda: store.get_many("model", other)),
                "key and hit": timed(lambda: store.get_many("model", [query_key(p, label_space) for p in prompts])),
            }
            single = timed(lambda: [store.get_many("model", [key]) for key in keys[:200]]) / 200
        size = path.stat().st_size
        opening = timed(lambda: PredictionStore(path).close())
    return {f"{name}, us a query": 1e6 * value / queries for name, value in seconds.items()} | {
        "hit, one key a call, us": single * 1e6,
        f"commit, ms a chunk of {chunk}": commit / -(-queries // chunk) * 1e3,
        "file, bytes a query": size / queries,
        "opening, ms": opening * 1e3,
    }


if __name__ == "__main__":
    options = arguments(__doc__, {"--queries": 10_000, "--labels": 6, "--characters": 3000, "--chunk": 64})
    figures = measure(**vars(options))
    record(__file__, figures, vars(options))
    print(markdown(["what", "figure"], figures.items()))
