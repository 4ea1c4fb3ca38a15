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
from collections.abc import Callable, Iterable
from typing import NamedTuple

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


def counted_coverage(covered: Iterable[bool | None]) -> str:
    """Return the share of the reported intervals that contain the true value; a dash if all are withheld."""
    reported = [covers_truth for covers_truth in covered if covers_truth is not None]
    return f"{sum(reported) / len(reported):.3f}" if reported else "-"


def coverage_of_means(runs: int) -> None:
    """Print the coverage for likelihood and Brier score, by population and number of rows."""
    for name, population in POPULATIONS.items():
        rng = random.Random(name)
        probabilities = [population(rng) for _ in range(200_000)]
        true_means = {
            "averaged_truelabel_likelihood": math.fsum(probabilities) / len(probabilities),
            "brier": math.fsum(map(brier_of, probabilities)) / len(probabilities),
        }
        for metric, truth in true_means.items():
            cells = []
            for size in SIZES:
                sample = Sample([0] * size, list(range(size)), n_rows=size, n_labels=N_LABELS)
                covered = []
                for _ in range(runs):
                    predictions = [prediction_of(population(rng)) for _ in range(size)]
                    covered.append(covers(STATISTICS[metric], sample, predictions, truth))
                cells.append(counted_coverage(covered))
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


class ThreeLabels(NamedTuple):
    """A population of rows with three labels, of which label 0 is rare; and a model."""

    share_of_rare: float
    accuracy: float
    confidence: float

    @property
    def frequencies(self) -> list[float]:
        others = 1 - self.share_of_rare
        return [self.share_of_rare, others * 0.4, others * 0.6]

    def predictions(self) -> list[list[list[float]]]:
        """Return the ten predictions for rows of each label."""
        return [predictions_of_label(label, self.accuracy, self.confidence) for label in range(3)]

    def true_divergence(self) -> float:
        """Return the divergence of the mean prediction, over rows of all labels, from the frequencies."""
        means = []
        for label in range(3):
            terms = []
            for frequency, predictions in zip(self.frequencies, self.predictions(), strict=True):
                mean_for_true_label = math.fsum(row[label] for row in predictions) / len(predictions)
                terms.append(frequency * mean_for_true_label)
            means.append(math.fsum(terms))
        return divergence(means, self.frequencies)


RANGES = {"5-6": 6, "7-9": 9, "10-14": 14, "15-19": 19}
"""The last number of each range of numbers of rows of the rarest label."""


def range_of(count: int) -> str:
    """Return the range of a number of rows."""
    for name, last in RANGES.items():
        if count <= last:
            return name
    return "20-"


def covered_by_range(population: ThreeLabels, size: int, runs: int) -> dict[str, list[bool]]:
    """Return whether each reported interval contains the true value, by the number of rows of the rarest label."""
    rng = random.Random(f"{population.share_of_rare} {population.accuracy} {population.confidence} {size}")
    truth = population.true_divergence()
    predictions_by_label = population.predictions()
    covered: dict[str, list[bool]] = {name: [] for name in (*RANGES, "20-", "all")}
    for _ in range(runs):
        labels = rng.choices(range(3), population.frequencies, k=size)
        predictions = [list(rng.choice(predictions_by_label[label])) for label in labels]
        sample = Sample(labels, list(range(size)), n_rows=size, n_labels=3)
        covers_truth = covers(STATISTICS["DL div."], sample, predictions, truth)
        if covers_truth is not None:
            covered[range_of(labels.count(0))].append(covers_truth)
            covered["all"].append(covers_truth)
    return covered


def coverage_of_divergence(runs: int) -> None:
    """Print the coverage for DL div. by the number of rows of the rarest label."""
    for population in (
        ThreeLabels(0.04, 0.9, 0.98),
        ThreeLabels(0.04, 0.6, 0.98),
        ThreeLabels(0.08, 0.6, 0.98),
        ThreeLabels(0.08, 0.9, 0.6),
        ThreeLabels(0.2, 0.6, 0.98),
    ):
        share_of_rare, accuracy, confidence = population
        for size in (50, 128, 512):
            cells = []
            for name, covered in covered_by_range(population, size, runs).items():
                has_enough_runs = len(covered) > runs / 20
                shown = f"{sum(covered) / len(covered):.3f} ({len(covered)})" if has_enough_runs else "-"
                cells.append(f"{name}: {shown}")
            print(f"DL div. rare {share_of_rare}, accuracy {accuracy}, {confidence}, {size} rows:", *cells, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    coverage_of_means(arguments.runs)
    coverage_of_divergence(arguments.runs)
