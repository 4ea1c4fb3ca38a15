"""Errors of the first kind, and power, of the test against a fixed label, for two data sets of other sizes.

In each data set a row is a gain (the run is right, the baseline wrong), a loss, or neither. The hardest null hypothesis
has gains in the large data set and losses in the small one, at the same rate: the mean difference is 0, but the small
data set, whose rows count more, often shows no loss. Its error is exact: numbers of gains and losses are binomial, so
the probability of a significant outcome is a sum over all of them. The errors with gains and losses in both at the same
rate, and the power with more gains than losses, are those of random samples. Next to the test is that by random signs
of the observed differences, which is not valid here.

    python tests/performance/fixed_baselines.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np

from StaICC.metrics.paired_tests import PairedDifference, upper_p_value

LEVEL = 0.05
SIZES = (
    (20, 512),
    (50, 512),
    (96, 512),
    (128, 512),
    (256, 512),
    (512, 512),
    (20, 128),
    (50, 128),
    (20, 2048),
    (128, 2048),
)
RATES = (0.005, 0.01, 0.02, 0.05)
SHARES = ((0.02, 0.02), (0.1, 0.1), (0.03, 0.01), (0.1, 0.05), (0.3, 0.22))
"""Of gains and of losses; the first two are null hypotheses."""
SAMPLES = 1000
NEGLIGIBLE = 1e-9

Counts = tuple[int, int, int, int]
"""Gains and losses in the small data set, gains and losses in the large one."""
Test = Callable[[tuple[int, int], Counts], float]


def binomial(n: int, rate: float) -> dict[int, float]:
    """Return the probabilities of numbers of successes that are not negligible."""
    logs = (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(rate)
        + (n - k) * math.log1p(-rate)
        for k in range(n + 1)
    )
    return {k: p for k, value in enumerate(logs) if (p := math.exp(value)) > NEGLIGIBLE}


@cache
def paired(sizes: tuple[int, int], counts: Counts) -> float:
    """Return the p-value of the paired test."""
    steps: list[float] = []
    for size, gains, losses in zip(sizes, counts[::2], counts[1::2], strict=True):
        unit = 0.5 / size
        steps += [unit] * gains + [-unit] * losses + [0.0] * (size - gains - losses)
    largest = 0.5 / min(sizes)
    total = math.fsum(steps)
    return upper_p_value(PairedDifference(total, 0.0, steps, -largest, largest, strata=sizes))


@cache
def signs(sizes: tuple[int, int], counts: Counts) -> float:
    """Return the p-value by random signs of the observed differences."""
    numbers = counts[0] + counts[1], counts[2] + counts[3]
    observed = sum(
        (gains - losses) / size for size, gains, losses in zip(sizes, counts[::2], counts[1::2], strict=True)
    )
    p_value = 0.0
    for up_small, up_large in product(range(numbers[0] + 1), range(numbers[1] + 1)):
        total = (2 * up_small - numbers[0]) / sizes[0] + (2 * up_large - numbers[1]) / sizes[1]
        if total >= observed - 1e-12:
            p_value += math.comb(numbers[0], up_small) * math.comb(numbers[1], up_large) / 2 ** sum(numbers)
    return p_value


def exact_error(test: Test, sizes: tuple[int, int], rate: float) -> float:
    """Return the probability of a significant outcome with losses in the small data set, gains in the large one."""
    total = 0.0
    for (losses, p), (gains, q) in product(binomial(sizes[0], rate).items(), binomial(sizes[1], rate).items()):
        if test(sizes, (0, losses, gains, 0)) <= LEVEL:
            total += p * q
    return total


def simulated(test: Test, sizes: tuple[int, int], gains: float, losses: float) -> float:
    """Return the share of significant outcomes with gains and losses at these rates in both data sets."""
    draw = np.random.default_rng(1)
    small, large = (draw.multinomial(size, [gains, losses, 1.0 - gains - losses], SAMPLES) for size in sizes)
    outcomes = (
        test(sizes, (*map(int, ours[:2]), *map(int, others[:2]))) for ours, others in zip(small, large, strict=True)
    )
    return sum(p_value <= LEVEL for p_value in outcomes) / SAMPLES


def main() -> None:
    """Print the errors of each pair of sizes and each rate, then the power."""
    print("losses in the small, gains in the large data set (exact): paired, signs")
    for sizes, rate in product(SIZES, RATES):
        cells = [f"{exact_error(test, sizes, rate):.4f}" for test in (paired, signs)]
        print(f"{sizes[0]:4} + {sizes[1]:4}  {rate:5}  ", *cells, flush=True)
    print(f"gains and losses in both ({SAMPLES} samples): paired, signs")
    for sizes, (gains, losses) in product(SIZES, SHARES):
        cells = [f"{simulated(test, sizes, gains, losses):.3f}" for test in (paired, signs)]
        print(f"{sizes[0]:4} + {sizes[1]:4}  {gains:5} {losses:5}  ", *cells, flush=True)


if __name__ == "__main__":
    main()
