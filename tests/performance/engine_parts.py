r"""What each part of the torch kernel gains: runs with it and without it take turns, and the fastest of each counts.

A part is switched off by replacing one function, constant or capability of the kernel. Runs: Normal on three data sets,
the suite on TREC, the noisy channel on TREC, and one long context in front of many queries. As for the figures of the
page, on a busy machine::

    OMP_NUM_THREADS=1 python tests/performance/engine_parts.py --dtype bfloat16 --clock cpu --limit 1 --long-count 15 \
        --characters 6000
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

from kernels import long_prompts
from records import arguments, markdown, record

from StaICC import Normal, Suite, load_kernel
from StaICC.kernels.huggingface import batching, shared_encoding


def parts(kernel: Any) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    """Contexts in which a part of the kernel is off, by its name."""

    def without(capability: str, value: Any = False) -> AbstractContextManager[Any]:
        return mock.patch.object(kernel.runner().forward.capabilities, capability, value)

    return {
        "all parts": nullcontext,
        "segmented attention": lambda: without("flat"),
        "oneDNN": lambda: without("onednn"),
        "packed rows": lambda: mock.patch.object(
            batching, "grouped_into_rows", lambda pool, *_: [[one] for one in pool]
        ),
        "cached prefixes": lambda: mock.patch.object(kernel.runner(), "cache_from", math.inf),
        "costs of attention": lambda: without("attention_weight", 0.0),
        "shared encoding": lambda: mock.patch.object(shared_encoding, "LEAST_SAVING", 1 << 60),
    }


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--dtype": "float32",
            "--limit": 3,  # queries of each data set; a third in the suite and the channel
            "--long-count": 25,
            "--characters": 24000,  # the long context
            "--rounds": 2,
            "--compile": False,
            "--clock": "wall",
        },
    )
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    kernel = load_kernel("smollm2", dtype=options.dtype, max_length=16384)
    (trec,) = Normal(datasets=["TREC"])
    normal = Normal(datasets=["TREC", "GLUE-SST2", "AGNews"], limit=options.limit)
    suite = Suite(datasets=["TREC"], limit=max(1, options.limit // 3))
    channel = Normal(datasets=["TREC"], limit=max(1, options.limit // 3), noisy_channel=True)
    context = long_prompts(trec.prompt_set(), options.characters, options.long_count)

    def long(kernel: Any, progress: bool) -> None:
        kernel.release()
        kernel.batch(context, trec.get_label_space())

    runs = {"Normal": normal, "suite": suite, "noisy channel": channel, "long": long}
    ways = {name: (kernel, part) for name, part in parts(kernel).items()}
    if options.compile:
        compiled = load_kernel("smollm2", dtype=options.dtype, max_length=16384, compile=True)
        ways["compile"] = compiled, nullcontext
    seconds: dict[str, dict[str, float]] = {name: {} for name in ways}
    Normal(datasets=["TREC"], limit=1)(kernel, progress=False)  # what runs once only
    for number in range(options.rounds + options.compile):
        for name, run in runs.items():
            for way in list(ways) if number % 2 else [*ways][::-1]:
                model, off = ways[way]
                with off():
                    began = clock()
                    run(model, progress=False)
                    taken = clock() - began
                seconds[way][name] = min(taken, seconds[way].get(name, taken))
    usual = seconds["all parts"]
    rows = ([way, *(f"{taken[name] / usual[name] - 1:+.0%}" for name in runs)] for way, taken in seconds.items())
    print(markdown(["without", *runs], rows))
    record(__file__, seconds, vars(options))
