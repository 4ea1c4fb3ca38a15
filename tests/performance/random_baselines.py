"""Random baselines: time compared with the package ``max-random-baseline``; without it, only our own times::

pip install max-random-baseline
python tests/performance/random_baselines.py
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from records import best_seconds, markdown, record

from StaICC.metrics.random_baselines import GuessRates, RandomBaseline

PACKAGE = "max_random_baseline"


def mixture(n: int, count: int) -> list[float]:
    """Chances of guessing: as many different ones as asked for, from 1/174 to 1/2."""
    return [1 / 174 + (1 / 2 - 1 / 174) * (i % count) / (count - 1) for i in range(n)]


CASES: list[tuple[str, int, GuessRates]] = [
    ("n = 100, p = 1/2", 100, 0.5),
    ("n = 1,024, p = 1/6", 1024, 1 / 6),
    ("n = 10,000, p = 1/2", 10_000, 0.5),
    ("n = 10,000, p = 1/174", 10_000, 1 / 174),
    *((f"n = {n:,}, {count} different p", n, mixture(n, count)) for n in (10, 100, 1000) for count in (2, 5, 20, n)),
    ("n = 5,000, 2 to 6 labels", 5000, {2: 2500, 3: 500, 4: 1000, 5: 500, 6: 500}),
    ("n = 20,000, all p different", 20_000, mixture(20_000, 20_000)),
    ("n = 10,000,000, 2 and 5 labels", 10_000_000, {2: 5_000_000, 5: 5_000_000}),
]


def ours(n: int, p: GuessRates, acc: float | None) -> float:
    guessing = RandomBaseline(n, p)
    return guessing.max_random_baseline(10) if acc is None else guessing.p_value(acc, 10)


def theirs(n: int, p: GuessRates, acc: float | None) -> Any:
    package = importlib.import_module(PACKAGE)
    return package.max_random_baseline(n, p, 10) if acc is None else package.max_random_p_value(acc, n, p, 10)


if __name__ == "__main__":
    figures: dict[str, dict[str, float]] = {}
    for name, n, p in CASES:
        for what, acc in (("baseline", None), ("p-value", round(0.52 * n) / n)):
            runs = 1 if n > 20_000 else 5 if n > 500 else 50
            found = {"ours, ms": 1e3 * best_seconds(lambda n=n, p=p, acc=acc: ours(n, p, acc), runs)[0]}
            if n <= 10_000 and importlib.util.find_spec(PACKAGE):
                found["package, ms"] = 1e3 * best_seconds(lambda n=n, p=p, acc=acc: theirs(n, p, acc), min(3, runs))[0]
            figures[f"{what}, {name}"] = found
    print(markdown(["case", "ours, ms", "package, ms"], ([name, *found.values()] for name, found in figures.items())))
    record(__file__, figures)
