"""Percentages and votes: how often percentages are missed, and other non-negative scores are taken for them.

Run with the repository on the path (needs NumPy; two minutes)::

    PYTHONPATH=. python tests/performance/percentages.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from StaICC.metrics.normalisation import constant_sum, normalise

REPETITIONS = 300
RNG = np.random.default_rng(0)


def softplus(mean: float, deviation: float, shape: tuple[int, int]) -> Any:
    return np.logaddexp(0, RNG.normal(mean, deviation, shape))


SCORES: dict[str, Callable[[int, int], Any]] = {
    "normal": lambda n, labels: abs(RNG.normal(12, 2, (n, labels))),
    "absolute normal": lambda n, labels: abs(RNG.normal(0, 3, (n, labels))),
    "relu": lambda n, labels: np.maximum(RNG.normal(1, 2, (n, labels)), 0),
    "softplus": lambda n, labels: softplus(0, 2, (n, labels)),
    "softplus, one decimal": lambda n, labels: softplus(0, 2, (n, labels)).round(1),
    "softplus, mean sum 100, one decimal": lambda n, labels: softplus(100 / labels, 3, (n, labels)).round(1),
    "softplus, integers": lambda n, labels: softplus(3, 2, (n, labels)).round(0),
    "mean sum 100, one decimal": lambda n, labels: abs(RNG.normal(100 / labels, 2, (n, labels))).round(1),
    "mean sum 100": lambda n, labels: abs(RNG.normal(100 / labels, 1, (n, labels))),
    "half precision": lambda n, labels: abs(RNG.normal(12, 2, (n, labels))).astype(np.float16).astype(float),
    "counts": lambda n, labels: RNG.poisson(3, (n, labels)).astype(float),
    "counts, mean sum 100": lambda n, labels: RNG.poisson(100 / labels, (n, labels)).astype(float),
    "ratings 0 to 10": lambda n, labels: RNG.integers(0, 11, (n, labels)).astype(float),
    "ratings 1 to 5": lambda n, labels: RNG.integers(1, 6, (n, labels)).astype(float),
    "ratings 0 to 100": lambda n, labels: RNG.integers(0, 101, (n, labels)).astype(float),
    "ratings 0 to 100 in tens": lambda n, labels: 10.0 * RNG.integers(0, 11, (n, labels)),
    "around 5000": lambda n, labels: RNG.normal(5000, 0.3, (n, labels)),
}
LABELS = (2, 3, 4, 5, 6, 10, 15, 20)


def false_alarms() -> None:
    """Print how many matrices of other scores are taken for percentages or votes."""
    for n in (2, 3, 4, 6, 10, 20, 40, 100):
        found = Counter(
            name
            for name, scores in SCORES.items()
            for labels in LABELS
            for _ in range(REPETITIONS)
            if constant_sum(scores(n, labels).tolist()) is not None
        )
        total = len(SCORES) * len(LABELS) * REPETITIONS
        print(f"{n} predictions: {found.total()} of {total} matrices {dict(found)}", flush=True)


def missed() -> None:
    """Print how many matrices of percentages are not recognised."""
    missed, total = Counter[int](), Counter[int]()
    for labels in range(2, 21):
        for decimals in range(5):
            for n in (2, 5, 20, 100):
                for deviation in (0.3, 0.5, 1.0, 3.0):
                    powers = np.exp(RNG.normal(0, deviation, (n, labels)))
                    exact = 100 * powers / powers.sum(axis=1, keepdims=True)
                    rounded = exact.round(decimals)
                    cut = np.floor(exact * 10**decimals) / 10**decimals
                    for rows in (rounded, cut, rounded.astype(np.float32).astype(float)):
                        if len(set(map(tuple, rows.tolist()))) > 1:
                            total[n] += 1
                            missed[n] += normalise(rows.tolist()).kind != "ambiguous"
    print({n: f"{missed[n]} of {total[n]} missed" for n in total})


if __name__ == "__main__":
    missed()
    false_alarms()
