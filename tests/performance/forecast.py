"""Forecasts against the runs that they are about: time and positions, for SmolLM2 or another model.

Each case is forecast and then run, in one process, with fresh caches. Both times are processor seconds of this process,
because other processes disturb the wall clock; set ``OMP_NUM_THREADS=1``. The goal is a ratio from 1/1.5 to 1.5.
Usage::

    OMP_NUM_THREADS=1 python tests/performance/forecast.py --data DIR [--dtypes float32 bfloat16] [--cases Normal ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from records import record

import StaICC.benchmarks.forecast as forecasting
from StaICC import LongICL, Normal, load_kernel
from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.text_inference import text_inference
from StaICC.methods.forecast import forecast_method
from StaICC.methods.run import run_method

METHODS = ("contextual-calibration", "topk", "hidden-calibration")
Case = tuple[Callable[[], Any], Callable[[], object]]


def cases(kernel: Any, data: str | None, limit: int, items: int) -> dict[str, Case]:
    """The forecast and the run of each case."""
    found: dict[str, Case] = {}

    def add(name: str, benchmark: Any, function: Any) -> None:
        found[name] = (lambda: benchmark.forecast(function), lambda: benchmark(function, progress=False))

    normal = Normal(datasets=["TREC", "GLUE-SST2"], limit=limit)
    add("Normal", normal, kernel)
    for method in METHODS:
        small = Normal(datasets=["TREC"], limit=limit // 2)
        found[method] = (
            lambda method=method, small=small: forecast_method(method, kernel, [small], calibration_number=16),
            lambda method=method, small=small: run_method(
                method, kernel, lambda: small, calibration_number=16, progress=False
            ),
        )
    add("text, 20 tokens", Normal(datasets=["TREC"], limit=limit // 2, unparsed="wrong"), text_inference(kernel, 20))
    for rounds in ((1,), (1, 2)) if data else ():
        name = f"LongICL, {len(rounds)} round" + "s" * (len(rounds) > 1)
        long = LongICL(data, ["banking77"], rounds, items, announce=lambda _: None)
        add(f"{name}, labels", long, kernel)
        add(f"{name}, text", long, text_inference(kernel, 10, ("\n",)))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--data", help="folder with the files of LongICL")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--items", type=int, default=20, help="test items of LongICL")
    parser.add_argument("--cases", nargs="+", help="beginnings of the names of cases; all by default")
    options = parser.parse_args()
    computed = 0

    def counting(self: Any, count: int, attempt: Any, counts: Any) -> None:
        nonlocal computed
        before = counts.computed
        persist(self, count, attempt, counts)
        computed += counts.computed - before

    persist = BatchRunner._persist
    BatchRunner._persist = counting  # type: ignore[method-assign]
    forecasting.CLOCK = time.process_time
    figures: dict[str, dict[str, float]] = {}
    for dtype in options.dtypes:
        kernel = load_kernel(options.model, dtype=dtype)
        for name, (forecast, run) in cases(kernel, options.data, options.limit, options.items).items():
            if options.cases and not name.startswith(tuple(options.cases)):
                continue
            kernel.release()
            began = time.process_time()
            found = forecast()
            took = time.process_time() - began
            kernel.release()
            began, computed = time.process_time(), 0
            run()
            seconds = time.process_time() - began
            print(
                f"{dtype:9} {name:24} forecast {found.seconds:6.1f} s, run {seconds:6.1f} s, ratio "
                f"{found.seconds / seconds:.2f}; {found.positions} positions forecast, {computed} computed, tokens "
                f"generated at most {found.output_tokens}; the forecast took {took:.1f} s",
                flush=True,
            )
            figures[f"{name}, {dtype}"] = {
                "forecast seconds": found.seconds,
                "run seconds": seconds,
                "ratio": found.seconds / seconds,
                "forecast positions": found.positions,
                "computed positions": computed,
            }
        del kernel
    record(__file__, figures, {name: value for name, value in vars(options).items() if name != "data"})


if __name__ == "__main__":
    main()
