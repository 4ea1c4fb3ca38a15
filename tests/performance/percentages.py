"""Non-negative numbers: how often percentages are read as logits, and how often logits without a sign are ambiguous.

Run with the repository on the path (needs NumPy; two minutes)::

    PYTHONPATH=. python tests/performance/percentages.py
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from StaICC.metrics.normalisation import normalise

REPETITIONS = 300
RNG = np.random.default_rng(0)


def softplus(mean: float, deviation: float, shape: tuple[int, int]) -> Any:
    return np.logaddexp(0, RNG.normal(mean, deviation, shape))


LOGITS: dict[str, Callable[[int, int], Any]] = {
    "normal": lambda n, labels: abs(RNG.normal(12, 2, (n, labels))),
    "absolute normal": lambda n, labels: abs(RNG.normal(0, 3, (n, labels))),
    "relu": lambda n, labels: np.maximum(RNG.normal(3, 2, (n, labels)), 0),
    "softplus": lambda n, labels: softplus(3, 2, (n, labels)),
    "softplus, one decimal": lambda n, labels: softplus(3, 2, (n, labels)).round(1),
    "mean sum 100, one decimal": lambda n, labels: abs(RNG.normal(100 / labels, 2, (n, labels))).round(1),
    "mean sum 100": lambda n, labels: abs(RNG.normal(100 / labels, 1, (n, labels))),
    "half precision": lambda n, labels: abs(RNG.normal(12, 2, (n, labels))).astype(np.float16).astype(float),
    "uniform from 0 to 4": lambda n, labels: RNG.uniform(0, 4, (n, labels)),
}
LABELS = (2, 3, 4, 5, 6, 10, 15, 20)


def false_alarms() -> None:
    """Print how many matrices of logits without a sign are ambiguous."""
    for n in (1, 2, 3, 4, 6, 10, 20, 40, 100):
        found = Counter(
            name
            for name, scores in LOGITS.items()
            for labels in LABELS
            for _ in range(REPETITIONS)
            if normalise(scores(n, labels).tolist()).kind != "logits"
        )
        total = len(LOGITS) * len(LABELS) * REPETITIONS
        print(f"{n} predictions: {found.total()} of {total} matrices {dict(found)}", flush=True)


def missed() -> None:
    """Print how many matrices of percentages, and of shares of another total, are read as logits."""
    missed, total = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for labels in range(2, 21):
        for decimals in range(5):
            for n in (1, 2, 5, 20, 100):
                for deviation, of in itertools.product((0.3, 0.5, 1.0, 3.0), (10, 100)):
                    powers = np.exp(RNG.normal(0, deviation, (n, labels)))
                    exact = of * powers / powers.sum(axis=1, keepdims=True)
                    rounded = exact.round(decimals)
                    cut = np.floor(exact * 10**decimals) / 10**decimals
                    for rows in (rounded, cut, rounded.astype(np.float32).astype(float)):
                        total[of, n] += 1
                        missed[of, n] += normalise(rows.tolist()).kind == "logits"
    for (of, n), number in total.items():
        print(f"{n} predictions that sum to {of}: {missed[of, n]} of {number} matrices are read as logits")


if __name__ == "__main__":
    missed()
    false_alarms()
