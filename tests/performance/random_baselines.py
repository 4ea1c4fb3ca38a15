"""Random baselines: time compared with the package ``max-random-baseline``, and largest error against mpmath.

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
from typing import Any

from records import record

from StaICC.metrics import random_baselines
from StaICC.metrics.random_baselines import GuessRates, RandomBaseline

SIZES = (10, 30, 100, 300, 1000, 2000)


def max_random_baseline(n: int, p: GuessRates, t: int) -> float:
    return RandomBaseline(n, p).max_random_baseline(t)


def max_random_p_value(acc: float, n: int, p: GuessRates, t: int) -> float:
    return RandomBaseline(n, p).p_value(acc, t)


def seconds(call: Callable[[], object], runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        random_baselines._log_tail.cache_clear()  # what a call costs that finds nothing remembered
        random_baselines._distribution.cache_clear()
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def mixture(n: int, count: int) -> list[float]:
    """Chances of guessing: as many different ones as asked for, from 1/174 to 1/2."""
    return [1 / 174 + (1 / 2 - 1 / 174) * (i % count) / (count - 1) for i in range(n)]


def speed() -> None:
    try:
        package = importlib.import_module("max_random_baseline")
    except ImportError:
        print("the package max-random-baseline is not installed: only our own times")
        package = None
    cases: list[tuple[str, int, GuessRates]] = [
        ("n = 100, p = 1/2", 100, 0.5),
        ("n = 1,024, p = 1/6", 1024, 1 / 6),
        ("n = 10,000, p = 1/2", 10_000, 0.5),
        ("n = 10,000, p = 1/174", 10_000, 1 / 174),
        *((f"n = {n:,}, {count} different p", n, mixture(n, count)) for n in SIZES for count in (2, 5, 20, n)),
        ("n = 5,000, 2 to 6 labels", 5000, {2: 2500, 3: 500, 4: 1000, 5: 500, 6: 500}),
        ("n = 20,000, all p different", 20_000, mixture(20_000, 20_000)),
        ("n = 10,000,000, 2 and 5 labels", 10_000_000, {2: 5_000_000, 5: 5_000_000}),
    ]
    figures = {}
    for name, n, p in cases:
        acc = round(0.52 * n) / n
        for what, function, arguments in (
            ("baseline", max_random_baseline, (n, p, 10)),
            ("p-value", max_random_p_value, (acc, n, p, 10)),
        ):
            mine = seconds(partial(function, *arguments), 1 if n > 20_000 else 5 if n > 500 else 50)
            figures[f"{what}, {name}, ms"] = mine * 1e3
            line = f"{name:32} {what:9} ours {mine * 1e3:9.2f} ms"
            if package is not None and n <= 10_000:
                theirs = partial(getattr(package, function.__name__), *arguments)
                other = seconds(theirs, 1 if n > 5000 else 3 if n > 500 else 50)
                line += f"   package {other * 1e3:10.2f} ms   {other / mine:8.1f} times"
            print(line, flush=True)
    record(__file__, figures)


def exact_mixture(digits: Any, p: list[float]) -> list[Any]:
    """P(X >= k) of a mixture, one trial after another."""
    values = [digits.mpf(1)]
    for chance in map(digits.mpf, p):
        values = [
            (values[k] * (1 - chance) if k < len(values) else 0) + (values[k - 1] * chance if k else 0)
            for k in range(len(values) + 1)
        ]
    return [*itertools.accumulate(reversed(values))][::-1]


def errors_of_mixtures(digits: Any) -> None:
    worst_baseline = worst_p = 0.0
    for n in (10, 30, 100, 300, 1000):
        for count in (2, 5, 20, n):
            if count > n:
                continue
            baseline, upper = RandomBaseline(n, mixture(n, count)), exact_mixture(digits, mixture(n, count))
            for t in (1, 10, 10_000):
                tails = [min(tail, 1 - digits.eps) for tail in upper[1:]]
                truth = digits.fsum(-digits.expm1(t * digits.log1p(-tail)) for tail in tails) / n
                worst_baseline = max(worst_baseline, float(abs(baseline.max_random_baseline(t) / truth - 1)))
                for k in range(1, n + 1, max(1, n // 101)):
                    if digits.mpf("1e-290") < upper[k] < 1 - digits.mpf("1e-40"):
                        truth = -digits.expm1(t * digits.log1p(-upper[k]))
                        worst_p = max(worst_p, float(abs(baseline.p_value_of_count(k, t) / truth - 1)))
    print(f"mixtures, largest relative error down to 1e-290: baseline {worst_baseline:.1e}, p-value {worst_p:.1e}")


def errors() -> None:
    try:
        import mpmath
    except ImportError:
        print("mpmath is not installed: no errors measured")
        return
    digits = mpmath.MPContext()
    digits.dps = 60
    errors_of_mixtures(digits)
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
