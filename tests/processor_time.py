"""Bounds of processor time that hold on a busy machine: a measurement counts if one of several repetitions keeps it.

Other processes and slow phases of a machine make some repetitions longer, and none shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable

REPETITIONS = 8


def processor_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def check_seconds(work: Callable[[], object], below: float) -> None:
    """Check that some work takes less processor time than a bound, in one of several repetitions."""
    seconds = []
    for _ in range(REPETITIONS):
        seconds.append(processor_seconds(work))
        if min(seconds) < below:
            return
    raise AssertionError(f"{REPETITIONS} repetitions took {min(seconds):.3f} s or more; it must be below {below} s")


def check_growth(small: Callable[[], object], large: Callable[[], object], below: float) -> None:
    """Check that a larger work takes less than a bound times as long as a smaller one.

    Both are repeated in turns, so that a slow phase of the machine meets both; the least time of each counts.
    """
    small()  # what only the first call does, such as compiling patterns, is not measured
    small_seconds, large_seconds = [], []
    for _ in range(REPETITIONS):
        small_seconds.append(processor_seconds(small))
        large_seconds.append(processor_seconds(large))
        growth = min(large_seconds) / min(small_seconds)
        if growth < below:
            return
    raise AssertionError(
        f"the larger work takes {growth:.1f} times as long as the smaller one ({min(small_seconds):.3f} s); "
        f"it must be below {below} times"
    )
