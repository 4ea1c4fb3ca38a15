"""Coverage of the intervals of likelihood, Brier score and DL div. in populations with a rare kind of row.

    python tests/performance/interval_tails.py [--runs 1000]

Likelihood, Brier score: most rows have a high probability of the true label, a rare kind has a low one. DL div.: one of
three labels is rare; coverage is by the number of its rows in the sample, because the rule of withholding is about this
number. The tables are in docs/error_rates.md.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.classification import brier_of_query
from StaICC.metrics.intervals import Interval, NoInterval
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Sample, Statistic

LEVEL = 0.95
SIZES = (10, 20, 50, 128)

Population = Callable[[random.Random], float]
"""Draws the probability of the true label of a row."""


def rare_errors(share: float, common: float, rare: float) -> Population:
    """Return a population in which a share of the rows has another probability of the true label."""
    return lambda rng: rare if rng.random() < share else common


def heavy_tail(rng: random.Random) -> float:
    """Return exp(-x), with x of a Pareto distribution without a variance, minus 1."""
    return math.exp(-(rng.paretovariate(1.2) - 1.0))


POPULATIONS: dict[str, Population] = {
    "3 % are 0.02, others 0.98": rare_errors(0.03, 0.98, 0.02),
    "10 % are 0.02, others 0.98": rare_errors(0.1, 0.98, 0.02),
    "20 % are 0.02, others 0.9": rare_errors(0.2, 0.9, 0.02),
    "10 % are 0.52, others 0.98": rare_errors(0.1, 0.98, 0.52),
    "heavy tail": heavy_tail,
    "uniform": lambda rng: rng.random(),
    "10 % are 0.95, others 0.1": rare_errors(0.1, 0.1, 0.95),
    "3 % are 0.95, others 0.1": rare_errors(0.03, 0.1, 0.95),
    "10 % are 0.98, others 0.52": rare_errors(0.1, 0.52, 0.98),
}
N_LABELS = 20
"""Number of labels: with many, the true label can have the largest probability although that is small."""


def covers(statistic: Statistic, sample: Sample, predictions: list[list[float]], truth: float) -> bool | None:
    """Return whether an interval contains the true value; ``None`` if it is withheld."""
    try:
        interval = statistic.interval(sample, predictions, LEVEL)
    except UndefinedMetricError:
        return None
    if isinstance(interval, NoInterval):
        return None
    assert isinstance(interval, Interval)
    return interval.low <= truth <= interval.high


def prediction_of(probability: float) -> list[float]:
    """Return a prediction with a probability of the true label 0; the other labels share the rest."""
    return [probability, *[(1.0 - probability) / (N_LABELS - 1)] * (N_LABELS - 1)]


def brier_of(probability: float) -> float:
    """Return the Brier score of such a prediction."""
    return brier_of_query(0, prediction_of(probability))


def coverage_of_means(runs: int) -> None:
    """Print the coverage for likelihood and Brier score, by population and number of rows."""
    for name, population in POPULATIONS.items():
        rng = random.Random(name)
        draws = [population(rng) for _ in range(200_000)]
        expected = {
            "averaged_truelabel_likelihood": math.fsum(draws) / len(draws),
            "brier": math.fsum(map(brier_of, draws)) / len(draws),
        }
        for metric, truth in expected.items():
            cells = []
            for size in SIZES:
                found: Counter[bool | None] = Counter()
                for _ in range(runs):
                    predictions = [prediction_of(population(rng)) for _ in range(size)]
                    sample = Sample([0] * size, list(range(size)), n_rows=size, n_labels=N_LABELS)
                    found[covers(STATISTICS[metric], sample, predictions, truth)] += 1
                shown = found[True] + found[False]
                cells.append(f"{found[True] / shown:.3f}" if shown else "-")
            print(f"{metric:32}{name:30}", *cells, flush=True)


def divergence(means: list[float], frequencies: list[float]) -> float:
    """Return the Kullback-Leibler divergence of a mean prediction from label frequencies."""
    return math.fsum(m * math.log(m / f) for m, f in zip(means, frequencies, strict=True))


def predictions_of_label(true_label: int, accuracy: float, confidence: float) -> list[list[float]]:
    """Return ten equally probable predictions for rows of a label: right ones, then wrong ones for label 1 or 2."""
    right = round(10 * accuracy)
    wrong_label = 2 if true_label == 1 else 1
    predictions = []
    for number in range(10):
        predicted = true_label if number < right else wrong_label
        predictions.append([confidence if label == predicted else (1.0 - confidence) / 2 for label in range(3)])
    return predictions


def coverage_of_divergence(runs: int) -> None:
    """Print the coverage for DL div. by the number of rows of the rarest label."""
    for share_of_rare, accuracy, confidence in (
        (0.04, 0.9, 0.98),
        (0.04, 0.6, 0.98),
        (0.08, 0.6, 0.98),
        (0.08, 0.9, 0.6),
        (0.2, 0.6, 0.98),
    ):
        frequencies = [share_of_rare, (1 - share_of_rare) * 0.4, (1 - share_of_rare) * 0.6]
        kinds = {label: predictions_of_label(label, accuracy, confidence) for label in range(3)}
        means = []
        for label in range(3):
            terms = []
            for true_label, frequency in enumerate(frequencies):
                mean = math.fsum(kind[label] for kind in kinds[true_label]) / len(kinds[true_label])
                terms.append(frequency * mean)
            means.append(math.fsum(terms))
        truth = divergence(means, frequencies)
        for size in (50, 128, 512):
            rng = random.Random(f"{share_of_rare} {accuracy} {confidence} {size}")
            found: Counter[tuple[str, bool]] = Counter()
            for _ in range(runs):
                labels = rng.choices(range(3), frequencies, k=size)
                predictions = [list(rng.choice(kinds[label])) for label in labels]
                sample = Sample(labels, list(range(size)), n_rows=size, n_labels=3)
                covered = covers(STATISTICS["DL div."], sample, predictions, truth)
                if covered is not None:
                    found[_range_of(labels.count(0)), covered] += 1
                    found["all", covered] += 1
            cells = []
            for name in ("5-6", "7-9", "10-14", "15-19", "20-", "all"):
                shown = found[name, True] + found[name, False]
                cells.append(
                    f"{name}: {found[name, True] / shown:.3f} ({shown})" if shown > runs / 20 else f"{name}: -"
                )
            print(f"DL div. rare {share_of_rare}, accuracy {accuracy}, {confidence}, {size} rows:", *cells, flush=True)


def _range_of(count: int) -> str:
    """Return the group of a number of rows."""
    for last, name in ((6, "5-6"), (9, "7-9"), (14, "10-14"), (19, "15-19")):
        if count <= last:
            return name
    return "20-"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    coverage_of_means(arguments.runs)
    coverage_of_divergence(arguments.runs)
