"""Familywise error and power of the intervals of ranks, with simulated runs on the same rows.

The accuracies are those of thresholds of correlated normal variables; the likelihoods are beta variables, of which a
share of rows is raised so that all runs have the same mean and skewed differences. Prints for each design the share of
samples in which any pair of runs is ordered wrongly, or ordered although it is equal (error), in which any interval of
ranks misses the true rank (missed), and the share of the different pairs that are found (power), next to Holm's method
for two-sided tests, which proves no directions.

    python tests/performance/ranking.py --samples 1000
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    """Return likelihoods with a mean of about 0.489, plus the difference of the mean of a run from that of the first.

    One row of fifty has the likelihood 1, so that few rows outweigh the others. The others are lower by as much as
    keeps the mean that of the beta variables.
    """
    is_rare = generator.random((len(means), rows)) < 0.02
    common = generator.beta(40, 50, (len(means), rows)) * 0.2 + 0.4
    mean_of_common = 0.4 + 0.2 * 40 / 90
    reduction = 0.02 * (1.0 - mean_of_common) / 0.98
    return np.where(is_rare, 1.0, common - reduction) + (means - means[0])[:, np.newaxis]


class PairTests(NamedTuple):
    """Of each pair of runs (the first with the second, with the third, and so on): two-sided p-value, sign of the
    difference."""

    p_values: Any
    signs: Any


def mcnemar_of_pairs(correct: Any) -> PairTests:
    """Test all pairs by McNemar's exact test. The argument has 1 for correct predictions: runs x rows."""
    first, second = np.triu_indices(len(correct), 1)
    n_correct = correct.sum(1)
    both_correct = (correct @ correct.T)[first, second]
    wins = n_correct[first] - both_correct
    losses = n_correct[second] - both_correct
    upper_tail = binom.sf(np.maximum(wins, losses) - 1, wins + losses, 0.5)
    p_values = np.where(wins + losses > 0, np.minimum(1.0, 2.0 * upper_tail), 1.0)
    return PairTests(p_values, np.sign(n_correct[first] - n_correct[second]))


def paired_tests_of_pairs(scores: Any) -> PairTests:
    """Test all pairs by the paired test of the library. The argument has scores between 0 and 1: runs x rows."""
    first, second = np.triu_indices(len(scores), 1)
    rows = scores.shape[1]
    sums = scores.sum(1)
    signs = np.sign(sums[first] - sums[second])
    p_values = np.ones(len(first))
    for pair in range(len(first)):
        steps = (scores[first[pair]] - scores[second[pair]]) * signs[pair] / rows
        may_be_significant = steps.sum() > 2.2 * np.sqrt(rows * steps.var())
        if may_be_significant:
            difference = PairedDifference(steps.sum(), 0.0, steps.tolist(), -1.0 / rows, 1.0 / rows)
            p_values[pair] = min(1.0, 2.0 * upper_p_value(difference))
    return PairTests(p_values, signs)


class Evaluation(NamedTuple):
    """What a correction gets right and wrong in a sample."""

    has_error: bool
    """Whether a pair of runs is ordered wrongly, or ordered although it is equal."""
    interval_misses: bool
    """Whether an interval of ranks does not contain the ranks that a run has by the true means."""
    power: float
    """Share of the different pairs that are ordered; NaN if all runs are equal."""


def evaluate(corrected: Sequence[float | None], signs: Any, means: Any) -> Evaluation:
    """Compare the pairs that are significant after a correction, and the intervals of ranks, with the true means."""
    first, second = np.triu_indices(len(means), 1)
    is_significant = np.array(corrected) <= SIGNIFICANCE_LEVEL
    true_signs = np.sign(means[first] - means[second])
    is_wrong = is_significant & (signs != true_signs)

    shown_better = np.zeros((len(means), len(means)), bool)  # [i, j]: run i is shown to be better than run j
    shown_better[first, second] = is_significant & (signs > 0)
    shown_better[second, first] = is_significant & (signs < 0)
    best_rank = 1 + shown_better.sum(0)
    worst_rank = len(means) - shown_better.sum(1)
    true_best_rank = 1 + (means[np.newaxis] > means[:, np.newaxis]).sum(1)
    equal_runs = (means[np.newaxis] == means[:, np.newaxis]).sum(1)
    true_worst_rank = true_best_rank + equal_runs - 1
    misses = (best_rank > true_best_rank) | (worst_rank < true_worst_rank)

    are_different = true_signs != 0
    power = float(is_significant[are_different].mean()) if are_different.any() else float("nan")
    return Evaluation(bool(is_wrong.any()), bool(misses.any()), power)


class Design(NamedTuple):
    """Simulated runs: how their scores are drawn and tested, and their true means."""

    metric: str
    name: str
    means: Any
    correlation: float

    @property
    def draw(self) -> Callable[..., Any]:
        return accuracies if self.metric == "accuracy" else likelihoods

    @property
    def test(self) -> Callable[[Any], PairTests]:
        return mcnemar_of_pairs if self.metric == "accuracy" else paired_tests_of_pairs


def designs_of(n_runs: int) -> list[Design]:
    """Return the designs with so many runs."""
    return [
        Design("accuracy", "equal", np.full(n_runs, 0.7), 0.5),
        Design("accuracy", "equal", np.full(n_runs, 0.95), 0.9),
        Design("accuracy", "groups of 5", np.repeat(np.linspace(0.5, 0.9, n_runs // 5), 5), 0.7),
        Design("accuracy", "all differ", np.linspace(0.5, 0.9, n_runs), 0.7),
        Design("likelihood", "equal", np.full(n_runs, 0.5), 0.0),
    ]


def samples_of(design: Design, usual_samples: int) -> int:
    """Return the number of samples: fewer for likelihoods, whose tests take longer."""
    if design.metric == "accuracy":
        return usual_samples
    return usual_samples // (5 if len(design.means) < 100 else 50)


def mean_outcomes(generator: np.random.Generator, design: Design, rows: int, samples: int) -> list[float]:
    """Return the means over samples: error, missed and power of the directional method, error and power of Holm's."""
    outcomes = []
    for _ in range(samples):
        tests = design.test(design.draw(generator, design.means, rows, design.correlation))
        p_values = tests.p_values.tolist()
        directional = evaluate(directional_holm(p_values), tests.signs, design.means)
        two_sided = evaluate(holm(p_values), tests.signs, design.means)
        outcomes.append((*directional, two_sided.has_error, two_sided.power))
    return np.mean(outcomes, axis=0).tolist()  # type: ignore[no-any-return]


def main() -> None:
    options = arguments(__doc__, {"--samples": 1000, "--seed": 0, "--runs": [30, 200]})
    generator = np.random.default_rng(options.seed)
    lines: list[list[Any]] = []
    for n_runs in options.runs:
        for rows in (128, 512):
            for design in designs_of(n_runs):
                samples = samples_of(design, options.samples)
                shown = [n_runs, rows, design.metric, design.name, design.correlation, samples]
                lines.append([*shown, *mean_outcomes(generator, design, rows, samples)])
                print(*lines[-1], flush=True)
    heads = ["runs", "rows", "metric", "means", "corr.", "samples", "error", "missed", "power"]
    print(markdown([*heads, "error (Holm)", "power (Holm)"], lines))


if __name__ == "__main__":
    main()
