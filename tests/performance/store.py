"""The prediction store: the time that keys, look-ups and commits take, and the size of the file.

Run it from the repository: ``python tests/performance/store.py [--queries 10000] [--labels 6]``. It writes to a
temporary folder only. The aim (30 microseconds a query when everything is a hit) is for key and look-up together.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from records import arguments, markdown, record

from StaICC.inference.store import PredictionStore, query_key


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    options = arguments(__doc__, {"--queries": 10_000, "--labels": 6, "--characters": 3000, "--chunk": 64})
    labels = [f"label {number}" for number in range(options.labels)]
    prompts = [f"{number} ".ljust(options.characters, "x") for number in range(options.queries)]
    draw = random.Random(1)
    items = [(query_key(prompt, labels), [draw.random() for _ in labels]) for prompt in prompts]
    path = Path(tempfile.mkdtemp()) / "run.sqlite"
    with PredictionStore(path) as store:
        chunks = [items[first : first + options.chunk] for first in range(0, len(items), options.chunk)]
        commit = timed(lambda: [store.put_many("model", chunk) for chunk in chunks])
        assert store.get_many("model", [key for key, _ in items]) == dict(items)
        figures = {
            "key, us a query": timed(lambda: [query_key(prompt, labels) for prompt in prompts]) / len(items) * 1e6,
            "hit, us a query": timed(lambda: store.get_many("model", [key for key, _ in items])) / len(items) * 1e6,
            "commit, s": commit,
        }
    figures["file, bytes a query"] = path.stat().st_size / len(items)
    shutil.rmtree(path.parent)
    record(__file__, figures, vars(options))
    print(markdown(["what", "figure"], figures.items()))
