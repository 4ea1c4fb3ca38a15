"""Random baselines: time beside the package ``max-random-baseline``, and largest error against mpmath.

Run with the repository on the path, in an environment that has mpmath and, for the comparison, the package::

    pip install max-random-baseline mpmath
    PYTHONPATH=. python tests/performance/random_baselines.py

Prints one line for each measurement. Times are the best of several runs (of one run, for the package at its
slowest).
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable
from functools import partial

from StaICC.metrics import random_baselines
from StaICC.metrics.random_baselines import RandomBaseline, max_random_baseline, max_random_p_value


def seconds(call: Callable[[], object], runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        random_baselines._table.cache_clear()  # what a call costs that finds nothing remembered
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def speed() -> None:
    try:
        package = importlib.import_module("max_random_baseline")
    except ImportError:
        print("the package max-random-baseline is not installed: only our own times")
        package = None
    thousand = [1 / 174 + (1 / 2 - 1 / 174) * i / 999 for i in range(1000)]
    cases = [
        ("n = 100, p = 1/2", 100, 0.5),
        ("n = 1,024, p = 1/6", 1024, 1 / 6),
        ("n = 10,000, p = 1/2", 10_000, 0.5),
        ("n = 10,000, p = 1/174", 10_000, 1 / 174),
        ("n = 1,000, all p different", 1000, thousand),
        ("n = 10,000, 2 to 6 labels", 10_000, {2: 5000, 3: 1000, 4: 2000, 5: 1000, 6: 1000}),
    ]
    for name, n, p in cases:
        acc = round(0.52 * n) / n
        for what, function, arguments in (
            ("baseline", max_random_baseline, (n, p, 10)),
            ("p-value", max_random_p_value, (acc, n, p, 10)),
        ):
            mine = seconds(partial(function, *arguments), 5)
            line = f"{name:28} {what:9} ours {mine * 1e3:9.2f} ms"
            if package is not None:
                theirs = partial(getattr(package, function.__name__), *arguments)
                other = seconds(theirs, 1 if n > 5000 else 3)
                line += f"   package {other * 1e3:10.2f} ms   {other / mine:8.1f} times"
            print(line, flush=True)


def errors() -> None:
    try:
        import mpmath
    except ImportError:
        print("mpmath is not installed: no errors measured")
        return
    digits = mpmath.MPContext()
    digits.dps = 60
    worst_baseline = worst_p = worst_far = 0.0
    sizes, chances = (1, 2, 10, 100, 512, 1000, 1024, 10_000), (1 / 174, 1 / 77, 0.1, 1 / 6, 0.25, 1 / 3, 0.5)
    for n, p in itertools.product(sizes, chances):
        baseline, chance = RandomBaseline(n, p), digits.mpf(p)
        values = [(1 - chance) ** n]
        for k in range(n):
            values.append(values[-1] * (n - k) / (k + 1) * chance / (1 - chance))
        upper = [*itertools.accumulate(reversed(values))][::-1]
        for t in (1, 2, 10, 200, 10_000):
            truth = digits.fsum(-digits.expm1(t * digits.log1p(-min(tail, 1 - digits.eps))) for tail in upper[1:]) / n
            worst_baseline = max(worst_baseline, float(abs(baseline.max_random_baseline(t) / truth - 1)))
            for k in range(1, n + 1, max(1, n // 211)):
                if upper[k] < digits.mpf("1e-307") or upper[k] > 1 - digits.mpf("1e-40"):
                    continue
                truth = -digits.expm1(t * digits.log1p(-upper[k]))
                error = float(abs(baseline.p_value_of_count(k, t) / truth - 1))
                worst_p = max(worst_p, error)
                if upper[k] < digits.mpf("1e-250"):
                    worst_far = max(worst_far, error)
    print(f"largest relative error against mpmath: baseline {worst_baseline:.1e}, p-value {worst_p:.1e}", end="")
    print(f" (of those below 1e-250: {worst_far:.1e})")


if __name__ == "__main__":
    speed()
    errors()
