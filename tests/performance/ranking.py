"""Familywise error and power of the intervals of ranks, with simulated runs on the same rows.

The accuracies are those of thresholds of correlated normal variables; the likelihoods are beta variables, of which a
share of rows is raised so that all runs have the same mean and skewed differences. Prints for each design the share of
samples in which any pair of runs is ordered wrongly, or ordered although it is equal (error), in which any interval of
ranks misses the true rank (missed), and the share of the different pairs that are found (power), next to Holm's method
for two-sided tests, which proves no directions.

    python tests/performance/ranking.py --samples 1000
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from records import arguments, markdown
from scipy.stats import binom, norm

from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL, PairedDifference, directional_holm, holm, upper_p_value


def accuracies(generator: np.random.Generator, means: Any, rows: int, correlation: float) -> Any:
    """Return whether each run is correct on each row."""
    shared = np.sqrt(correlation) * generator.normal(size=rows)
    own = np.sqrt(1.0 - correlation) * generator.normal(size=(len(means), rows))
    return (shared + own < norm.ppf(means)[:, None]).astype(float)


def likelihoods(generator: np.random.Generator, means: Any, rows: int, correlation: float) -> Any:
    """Return likelihoods near 0.45, raised on one row of fifty, so that few rows outweigh the others."""
    rare = generator.random((len(means), rows)) < 0.02
    common = generator.beta(40, 50, (len(means), rows)) * 0.2 + 0.4
    mean = 0.4 + 0.2 * 40 / 90
    return np.where(rare, 1.0, common - (0.02 * (1.0 - mean) / 0.98)) + (means - means[0])[:, None]


def p_values(values: Any, binary: bool) -> tuple[Any, Any]:
    """Return the two-sided p-value of each pair, and the sign of its difference."""
    first, second = np.triu_indices(len(values), 1)
    rows = values.shape[1]
    sums = values.sum(1)
    difference = sums[first] - sums[second]
    if binary:
        both = (values @ values.T)[first, second]
        wins, losses = sums[first] - both, sums[second] - both
        one_sided = binom.sf(np.maximum(wins, losses) - 1, wins + losses, 0.5)
        return np.where(wins + losses > 0, np.minimum(1.0, 2.0 * one_sided), 1.0), np.sign(difference)
    found = np.ones(len(first))
    for pair, (a, b) in enumerate(zip(first, second, strict=True)):
        steps = (values[a] - values[b]) * np.sign(difference[pair]) / rows
        if steps.sum() > 2.2 * np.sqrt(rows * steps.var()):  # below it no p-value is small enough
            tested = PairedDifference(steps.sum(), 0.0, steps.tolist(), -1.0 / rows, 1.0 / rows)
            found[pair] = min(1.0, 2.0 * upper_p_value(tested))
    return found, np.sign(difference)


def evaluate(corrected: Sequence[float | None], signs: Any, means: Any) -> tuple[bool, bool, float]:
    """Return whether a pair is ordered wrongly, whether an interval of ranks misses, and the share of found pairs."""
    first, second = np.triu_indices(len(means), 1)
    found = np.array(corrected) <= SIGNIFICANCE_LEVEL
    truth = np.sign(means[first] - means[second])
    wrong = found & (signs != truth)
    better = np.zeros((len(means), len(means)), bool)
    better[first, second], better[second, first] = found & (signs > 0), found & (signs < 0)
    least, most = 1 + better.sum(0), len(means) - better.sum(1)
    low = 1 + (means[None] > means[:, None]).sum(1)
    high = low + (means[None] == means[:, None]).sum(1) - 1
    power = float(found[truth != 0].mean()) if truth.any() else float("nan")
    return bool(wrong.any()), bool(((least > low) | (most < high)).any()), power


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 1000, "--seed": 0, "--runs": [30, 200]})
    generator, lines = np.random.default_rng(options.seed), []
    for runs in options.runs:
        designs: list[tuple[str, str, Any, float]] = [
            ("accuracy", "equal", np.full(runs, 0.7), 0.5),
            ("accuracy", "equal", np.full(runs, 0.95), 0.9),
            ("accuracy", "groups of 5", np.repeat(np.linspace(0.5, 0.9, runs // 5), 5), 0.7),
            ("accuracy", "all differ", np.linspace(0.5, 0.9, runs), 0.7),
            ("likelihood", "equal", np.full(runs, 0.5), 0.0),
        ]
        for rows in (128, 512):
            for metric, name, means, correlation in designs:
                make = accuracies if metric == "accuracy" else likelihoods
                samples = options.samples if metric == "accuracy" else options.samples // (5 if runs < 100 else 50)
                outcomes = []
                for _ in range(samples):
                    p, signs = p_values(make(generator, means, rows, correlation), metric == "accuracy")
                    plain = evaluate(holm(p.tolist()), signs, means)
                    outcomes.append((*evaluate(directional_holm(p.tolist()), signs, means), plain[0], plain[2]))
                lines.append([runs, rows, metric, name, correlation, samples, *np.mean(outcomes, 0).tolist()])
                print(*lines[-1], flush=True)
    heads = ["runs", "rows", "metric", "means", "corr.", "samples", "error", "missed", "power"]
    print(markdown([*heads, "error (Holm)", "power (Holm)"], lines))
