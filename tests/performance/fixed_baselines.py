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
from typing import NamedTuple

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


class Counts(NamedTuple):
    """The numbers of rows with a gain and with a loss in each data set."""

    gains_in_small: int
    losses_in_small: int
    gains_in_large: int
    losses_in_large: int


Sizes = tuple[int, int]
"""Numbers of rows of the small and of the large data set."""
Test = Callable[[Sizes, Counts], float]
"""Returns the p-value."""


def binomial(n: int, rate: float) -> dict[int, float]:
    """Return the probabilities of numbers of successes that are not negligible."""
    probabilities = {}
    for k in range(n + 1):
        log_of_choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        probability = math.exp(log_of_choices + k * math.log(rate) + (n - k) * math.log1p(-rate))
        if probability > NEGLIGIBLE:
            probabilities[k] = probability
    return probabilities


def steps_of_dataset(size: int, gains: int, losses: int) -> list[float]:
    """Return what each row of one of two data sets adds to the difference of the means."""
    step = 0.5 / size
    return [step] * gains + [-step] * losses + [0.0] * (size - gains - losses)


@cache
def paired(sizes: Sizes, counts: Counts) -> float:
    """Return the p-value of the paired test."""
    steps = steps_of_dataset(sizes[0], counts.gains_in_small, counts.losses_in_small)
    steps += steps_of_dataset(sizes[1], counts.gains_in_large, counts.losses_in_large)
    largest = 0.5 / min(sizes)
    total = math.fsum(steps)
    return upper_p_value(PairedDifference(total, 0.0, steps, -largest, largest, strata=sizes))


@cache
def signs(sizes: Sizes, counts: Counts) -> float:
    """Return the p-value by random signs of the observed differences.

    Of the n rows of a data set that differ, u have a positive sign with the probability C(n, u) / 2^n. Then the
    difference is (u - (n - u)) / size.
    """
    differing_small = counts.gains_in_small + counts.losses_in_small
    differing_large = counts.gains_in_large + counts.losses_in_large
    observed = (counts.gains_in_small - counts.losses_in_small) / sizes[0]
    observed += (counts.gains_in_large - counts.losses_in_large) / sizes[1]
    rounding = 1e-12
    p_value = 0.0
    for positive_small, positive_large in product(range(differing_small + 1), range(differing_large + 1)):
        difference = (2 * positive_small - differing_small) / sizes[0]
        difference += (2 * positive_large - differing_large) / sizes[1]
        if difference >= observed - rounding:
            choices = math.comb(differing_small, positive_small) * math.comb(differing_large, positive_large)
            p_value += choices / 2 ** (differing_small + differing_large)
    return p_value


def exact_error(test: Test, sizes: Sizes, rate: float) -> float:
    """Return the probability of a significant outcome with losses in the small data set, gains in the large one."""
    error = 0.0
    for losses, probability_of_losses in binomial(sizes[0], rate).items():
        for gains, probability_of_gains in binomial(sizes[1], rate).items():
            if test(sizes, Counts(0, losses, gains, 0)) <= LEVEL:
                error += probability_of_losses * probability_of_gains
    return error


def simulated(test: Test, sizes: Sizes, gain_rate: float, loss_rate: float) -> float:
    """Return the share of significant outcomes with gains and losses at these rates in both data sets."""
    draw = np.random.default_rng(1)
    rates = [gain_rate, loss_rate, 1.0 - gain_rate - loss_rate]
    small_samples = draw.multinomial(sizes[0], rates, SAMPLES).tolist()
    large_samples = draw.multinomial(sizes[1], rates, SAMPLES).tolist()
    significant = 0
    for small, large in zip(small_samples, large_samples, strict=True):
        gains_in_small, losses_in_small, _ = small
        gains_in_large, losses_in_large, _ = large
        if test(sizes, Counts(gains_in_small, losses_in_small, gains_in_large, losses_in_large)) <= LEVEL:
            significant += 1
    return significant / SAMPLES


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
