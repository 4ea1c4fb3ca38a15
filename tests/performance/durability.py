"""Measure what makes runs durable: kills at random moments, and what the store costs a run.

Run it from the repository: ``python tests/performance/durability.py [--kills 100] [--model smollm2 --limit 16]``. It
writes to a temporary folder only. Kills are spread over six ways to run (one by one, in batches, threads, processes,
the command line, the command line with processes). The aims: 100 of 100 resumed results equal, at most one chunk for
each worker computed again, under 30 microseconds a query when everything is a hit, under 3 % of a run of SmolLM2-135M.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from durability_kernels import Deterministic
from durability_kills import WAYS, kill_and_resume
from records import record

from StaICC import Normal
from StaICC.benchmarks import Statistics
from StaICC.inference.store import BoundStore, PredictionStore
from StaICC.kernels.registry import load_kernel


class Stopwatch:
    """Seconds spent in methods, by name, while the block lasts."""

    def __init__(self, *methods: tuple[type, str]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._methods = {(kind, name): getattr(kind, name) for kind, name in methods}

    def __enter__(self) -> Stopwatch:
        for (kind, name), method in self._methods.items():
            setattr(kind, name, self._timed(f"{kind.__name__}.{name}", method))
        return self

    def __exit__(self, *_: object) -> None:
        for (kind, name), method in self._methods.items():
            setattr(kind, name, method)

    def _timed(self, label: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*arguments, **keywords)
            finally:
                self.seconds[label] += time.perf_counter() - start
                self.calls[label] += 1

        return timed


STORE = ((PredictionStore, "__init__"), (BoundStore, "get_many"), (BoundStore, "put_many"), (PredictionStore, "close"))


def measure_kills(kills: int) -> dict[str, Any]:
    """Kill runs and resume them."""
    figures: dict[str, Any] = {}
    for number, way in enumerate(WAYS):
        share = kills // len(WAYS) + (number < kills % len(WAYS))
        with tempfile.TemporaryDirectory() as folder:
            toll = kill_and_resume(way, Path(folder), share, seed=3) if share else None
        if toll is not None:
            figures[f"kills, {way.name}"] = (
                f"{toll.kills} kills of {toll.resumed} runs, {toll.equal} results equal; computed again by one kill: "
                f"{toll.most_lost} of at most {way.workers * way.chunk}"
            )
    return figures


def measure_hits(datasets: list[str] | None) -> dict[str, Any]:
    """Run a benchmark all of whose answers are stored."""
    benchmark = Normal(datasets=datasets, statistics=Statistics(intervals=False))
    kernel = Deterministic()
    best = None
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.sqlite"
        benchmark(kernel, store=store)
        for _ in range(5):
            start = time.perf_counter()
            with Stopwatch(*STORE) as watch:
                result = benchmark(kernel, store=store)
            whole = time.perf_counter() - start
            best = min(best or (whole, watch), (whole, watch), key=lambda pair: pair[1].seconds["BoundStore.get_many"])
    assert best is not None
    whole, watch = best
    queries = sum(details.distinct for details in result.details.values())
    return {
        "hits, queries": queries,
        "hits, us a query": watch.seconds["BoundStore.get_many"] / queries * 1e6,
        "hits, us a query with opening and closing": sum(watch.seconds.values()) / queries * 1e6,
        "hits, whole run, us a query": whole / queries * 1e6,
    }


def measure_share(model: str, limit: int, dataset: str) -> dict[str, Any]:
    """Run a model with a store, and see which share of the time the store takes."""
    kernel = load_kernel(model)
    benchmark = Normal(datasets=[dataset], limit=limit, statistics=Statistics(intervals=False))
    Normal(datasets=[dataset], limit=1)(kernel)  # loads the weights
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in (("without", {}), ("with", {"store": Path(folder) / "run.sqlite"})):
            start = time.perf_counter()
            with Stopwatch(*STORE) as watch:
                result = benchmark(kernel, **settings)
            seconds[name] = time.perf_counter() - start
        again = benchmark(kernel, store=Path(folder) / "run.sqlite")
    return {
        f"{model}, queries": 2 * limit,
        f"{model}, seconds without and with a store": (round(seconds["without"], 2), round(seconds["with"], 2)),
        f"{model}, seconds in the store": sum(watch.seconds.values()),
        f"{model}, share of the store, %": 100 * sum(watch.seconds.values()) / seconds["with"],
        f"{model}, all hits equal the run": again == result,
    }


def main() -> int:
    """Parse the arguments and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=0, help="how many; 100 take some minutes")
    parser.add_argument("--datasets", nargs="+", default=["mini"], help="for the hits; 'all' for the ten")
    parser.add_argument("--model", help="measure the store's share of a run of this model, such as smollm2")
    parser.add_argument("--limit", type=int, default=16, help="test rows of that run")
    parser.add_argument("--dataset", default="mini", help="data set of that run")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure_kills(args.kills)
    figures |= measure_hits(None if args.datasets == ["all"] else args.datasets)
    if args.model is not None:
        figures |= measure_share(args.model, args.limit, args.dataset)
    record(__file__, figures, vars(args))
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, figure in figures.items():
            print(f"{name}: {figure:.4g}" if isinstance(figure, float) else f"{name}: {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
