"""Pairs of runs with the same true score whose differences are skewed: common small steps, and rare large ones.

Each function draws a sample of ``n`` test rows and returns the difference of the two runs on it. A test that assumes
symmetric differences rejects most of them, because most samples lack the rare rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from StaICC.metrics import paired_tests as paired
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Contributions, Mean, MicroF1, OtherRun, Sample, Statistic

Array = np.ndarray[Any, Any]
Null = Callable[[Any, int], paired.PairedDifference]
SLOPE = (0.4, 0.2, 0.0, -0.2, -0.4)


def of_pair(parts: Sequence[Contributions]) -> paired.PairedDifference:
    return paired.paired_difference([(1.0, parts[0])], [(1.0, parts[1])])


def both(statistic: Statistic, sample: Sample, first: Sequence[Any], second: Sequence[Any]) -> list[Contributions]:
    of_first = statistic.of_run(sample, first, OtherRun(sample, second))
    of_second = statistic.of_run(sample, second, OtherRun(sample, first))
    return [of_first, of_second]


def of_score(key: str, truth: Sequence[int], runs: Sequence[Any], rows: Sequence[int], n: int, labels: int = 2) -> Any:
    """The difference of two runs by a score of the library."""
    return of_pair(both(STATISTICS[key], Sample(truth, rows, n, labels), *runs))


def of_mean(
    scores: Sequence[float], rows: Sequence[int], n: int, ends: tuple[float, float] = (0.0, 1.0)
) -> Contributions:
    return Mean(*ends).of_run(Sample([0] * len(scores), rows, n, 0), scores)


def binary(confidence: float) -> list[float]:
    return [confidence, 1.0 - confidence]


def means(first: Any, second: Any, ends: tuple[float, float] = (0.0, 1.0)) -> paired.PairedDifference:
    n = len(first)
    return of_pair([of_mean([float(x) for x in run], range(n), n, ends) for run in (first, second)])


def calibration(
    truth: Any, first: Any, second: Any, rows: Sequence[int] | None = None, n: int | None = None
) -> paired.PairedDifference:
    """Both runs predict the first label with these confidences."""
    places, count = (range(len(truth)), len(truth)) if rows is None else (rows, n or 0)
    true = [int(one) for one in truth]
    runs = [[binary(float(c)) for c in run] for run in (first, second)]
    return of_score("expected_calibration_error_1", true, runs, places, count)


# -- calibration error


def constant_confidences(draw: Any, n: int) -> paired.PairedDifference:
    """Accuracy .98; confidence 1 or .96: both errors are .02."""
    return calibration(draw.random(n) < 0.02, [1.0] * n, [0.96] * n)


def continuous_confidences(draw: Any, n: int) -> paired.PairedDifference:
    """Accuracy .97; confidences around .985 or .955."""
    wrong = draw.random(n) < 0.03
    return calibration(wrong, 0.985 + 0.03 * (draw.random(n) - 0.5), 0.955 + 0.03 * (draw.random(n) - 0.5))


def repeats_that_share_errors(draw: Any, n: int) -> paired.PairedDifference:
    """Four queries for each row, right or wrong together."""
    wrong = np.repeat(draw.random(n) < 0.02, 4)
    return calibration(wrong, [1.0] * 4 * n, [0.96] * 4 * n, np.repeat(np.arange(n), 4).tolist(), n)


def noise_and_one_gap(draw: Any, n: int) -> paired.PairedDifference:
    """Calibrated in five bins, or one confidence that is right on average: no error in either."""
    confidences = draw.choice([0.55, 0.65, 0.75, 0.85, 0.95], n)
    return calibration(draw.random(n) >= confidences, confidences, [0.75] * n)


def noise_and_none(draw: Any, n: int) -> paired.PairedDifference:
    """A calibrated run, and one that is always right and sure: no error in either, but one has noise."""
    confidences = draw.choice([0.55, 0.65, 0.75, 0.85, 0.95], n)
    right = draw.random(n) < confidences
    runs = [
        [binary(float(c) if r else float(1 - c)) for c, r in zip(confidences, right, strict=True)],
        [[1.0, 0.0]] * n,
    ]
    return of_score("expected_calibration_error_1", [0] * n, runs, range(n), n)


# -- entropies and divergences


def entropy_of_flips(draw: Any, n: int, labels: int = 2) -> paired.PairedDifference:
    """2 % other labels, or a constant row with the same mean."""
    flipped = np.where(draw.random(n) < 0.02, draw.integers(1, labels, n), 0)
    constant = [0.98] + [0.02 / (labels - 1)] * (labels - 1)
    return of_score("entropy", [0] * n, ([constant] * n, np.eye(labels)[flipped].tolist()), range(n), n)


def entropy_of_many_labels(draw: Any, n: int, labels: int, often: float) -> paired.PairedDifference:
    """A constant row, and certain predictions of one label, or else of any label: a sample lacks most of the labels."""
    mean = np.full(labels, (1.0 - often) / labels)
    mean[0] += often
    certain = np.eye(labels)[draw.choice(labels, n, p=mean)]
    return of_score("entropy", [0] * n, ([mean.tolist()] * n, certain.tolist()), range(n), n)


def divergence_of_flips(draw: Any, n: int, share: float = 0.5) -> paired.PairedDifference:
    """The same for the divergence from the frequencies of two labels."""
    truth = (draw.random(n) < share).astype(int)
    truth[:2] = (0, 1)
    flips = [binary(float(one)) for one in draw.random(n) >= 0.02]
    return of_score("DL div.", truth.tolist(), ([binary(0.98)] * n, flips), range(n), n)


def divergence_of_noise(draw: Any, n: int) -> paired.PairedDifference:
    """Two runs without divergence: a constant row, and certain predictions with the right frequencies."""
    truth = (draw.random(n) < 0.3).astype(int)
    truth[:2] = (0, 1)
    noisy = [binary(float(one)) for one in draw.random(n) >= 0.3]
    return of_score("DL div.", truth.tolist(), ([binary(0.7)] * n, noisy), range(n), n)


def negated_entropy(draw: Any, n: int) -> paired.PairedDifference:
    """Contextual and domain bias: rarely undecided, or always a little."""
    most = math.log(2)
    return means([-0.03 * most] * n, np.where(draw.random(n) < 0.03, -most, 0.0), (-most, 0.0))


# -- F1


def of_f1(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> paired.PairedDifference:
    n = len(first)
    return of_pair(both(MicroF1((2.0, 100.0)), Sample([0] * n, range(n), n, 0), first, second))


def runaway_replies(draw: Any, n: int) -> paired.PairedDifference:
    """2 % of the replies name 40 labels too many; the other run has a lower recall."""
    sizes = 4.0 + 40.0 * (draw.random(n) < 0.02)
    second = [(float(hits), float(size)) for hits, size in zip(draw.binomial(2, 0.7, n), sizes, strict=True)]
    first = [(float(hits), 4.0) for hits in draw.binomial(2, 4 * 0.7 / 4.8, n)]
    return of_f1(first, second)


def runaway_and_constant_replies(draw: Any, n: int) -> paired.PairedDifference:
    """2 % of the replies name 40 labels too many; the other run always names .8 too many."""
    second = [(2.0, 4.0 + 40.0 * rare) for rare in draw.random(n) < 0.02]
    return of_f1([(2.0, 4.8)] * n, second)


def _macro_f1(truth: Array, predicted: Array, labels: int) -> float:
    hits = [2 * ((truth == label) & (predicted == label)).sum() for label in range(labels)]
    sizes = [max(1, (truth == label).sum() + (predicted == label).sum()) for label in range(labels)]
    return float(np.mean(np.divide(hits, sizes)))


def _confused(draw: Any, truth: Array, rare: int, missed: float, invented: float) -> Array:
    """Predictions that miss the rare label, or invent it, at these rates."""
    chance = draw.random(len(truth))
    predicted = np.where((truth == rare) & (chance < missed), 0, truth)
    return np.where((truth != rare) & (chance < invented), rare, predicted)


@cache
def _rate_of_inventing(prior: tuple[float, ...]) -> float:
    """The rate at which inventing the last label costs as much macro F1 as missing 40 % of it."""
    truth = np.random.default_rng(1).choice(len(prior), 1_000_000, p=prior)
    rare = len(prior) - 1
    aim = _macro_f1(truth, _confused(np.random.default_rng(2), truth, rare, 0.4, 0.0), len(prior))
    low, high = 0.0, 0.5
    for _ in range(20):
        middle = (low + high) / 2
        found = _macro_f1(truth, _confused(np.random.default_rng(2), truth, rare, 0.0, middle), len(prior))
        low, high = (middle, high) if found > aim else (low, middle)
    return low


def missed_and_invented_labels(draw: Any, n: int, prior: tuple[float, ...] = (0.9, 0.1)) -> paired.PairedDifference:
    """One run misses a rare label, the other invents it."""
    truth, rare = draw.choice(len(prior), n, p=prior), len(prior) - 1
    runs = [_confused(draw, truth, rare, *rates).tolist() for rates in ((0.4, 0.0), (0.0, _rate_of_inventing(prior)))]
    return of_score("macro_F1", truth.tolist(), runs, range(n), n, len(prior))


def two_rare_labels(draw: Any, n: int) -> paired.PairedDifference:
    """Each run is bad at another rare label."""
    truth = draw.choice(3, n, p=(0.9, 0.05, 0.05))
    runs = [_confused(draw, truth, label, 0.8, 0.0).tolist() for label in (1, 2)]
    return of_score("macro_F1", truth.tolist(), runs, range(n), n, 3)


# -- means


def consistency_of_nine(draw: Any, n: int) -> paired.PairedDifference:
    """Nine templates, two labels: one other prediction on every row, or four on a quarter of the rows."""
    return means([8 / 9] * n, np.where(draw.random(n) < 0.25, 5 / 9, 1.0), (5 / 9, 1.0))


def consistency_of_six_labels(draw: Any, n: int) -> paired.PairedDifference:
    """Nine templates, six labels: one other prediction on 45 % of the rows, or a complete change on 6 %."""
    often = np.where(draw.random(n) < 0.45, 8 / 9, 1.0)
    return means(often, np.where(draw.random(n) < 0.05 / (7 / 9), 2 / 9, 1.0), (2 / 9, 1.0))


def rare_zeros(draw: Any, n: int) -> paired.PairedDifference:
    """Likelihood .98 on every row, or 1 with 2 % zeros."""
    return means([0.98] * n, draw.random(n) >= 0.02)


def accuracy_of_eight_repeats(draw: Any, n: int) -> paired.PairedDifference:
    """Seven of eight queries right on every row, or an eighth of the rows all wrong."""
    rows = np.repeat(np.arange(n), 8).tolist()
    runs = ([0.0, *[1.0] * 7] * n, np.repeat(draw.random(n) >= 1 / 8, 8).astype(float).tolist())
    return of_pair([of_mean(run, rows, n) for run in runs])


def slope_of_likelihood(draw: Any, n: int) -> paired.PairedDifference:
    """Label noise costs .03 on every row, or everything on 3 % of the rows."""
    rare = draw.random(n) < 0.03
    runs: tuple[list[tuple[float, Contributions]], ...] = ([], [])
    for step, weight in enumerate(SLOPE):
        runs[0].append((weight, of_mean([1.0 - 0.03 * step / 4] * n, range(n), n)))
        runs[1].append((weight, of_mean(np.where(rare, 1.0 - step / 4, 1.0).tolist(), range(n), n)))
    return paired.paired_difference(*runs)


def slope_of_calibration_error(draw: Any, n: int) -> paired.PairedDifference:
    truth = (draw.random(n) < 0.02).astype(int).tolist()
    runs: tuple[list[tuple[float, Contributions]], ...] = ([], [])
    for step, weight in enumerate(SLOPE):
        for run, confidence in zip(runs, (0.98, 0.98) if step else (1.0, 0.96), strict=True):
            calibration_error = STATISTICS["expected_calibration_error_1"]
            sample = Sample(truth, range(n), n, 2)
            run.append((weight, calibration_error.of_run(sample, [binary(confidence)] * n)))
    return paired.paired_difference(*runs)


def ten(null: Null) -> Null:
    """The mean over ten data sets."""
    return lambda draw, n: paired.mean_difference([null(draw, n) for _ in range(10)])


NULLS: dict[str, Null] = {
    "ECE-1: confidence 1 or .96, accuracy .98": constant_confidences,
    "ECE-1: confidences around .985 or .955, accuracy .97": continuous_confidences,
    "ECE-1: four repeats that share errors": repeats_that_share_errors,
    "ECE-1: calibrated in five bins or in one": noise_and_one_gap,
    "ECE-1: calibrated, or always right": noise_and_none,
    "ECE-1: calibrated, or always right, mean of ten": ten(noise_and_none),
    "slope of ECE-1": slope_of_calibration_error,
    "entropy: 2 % flips or constant": entropy_of_flips,
    "entropy: 2 % flips or constant, six labels": lambda draw, n: entropy_of_flips(draw, n, 6),
    "entropy: 77 labels at random, or constant": lambda draw, n: entropy_of_many_labels(draw, n, 77, 0.0),
    "entropy: 24 labels, mean of ten": ten(lambda draw, n: entropy_of_many_labels(draw, n, 24, 0.3)),
    "entropy: 6 labels, mean of ten": ten(lambda draw, n: entropy_of_many_labels(draw, n, 6, 0.88)),
    "DL div.: 2 % flips or constant": divergence_of_flips,
    "DL div.: 2 % flips or constant, labels 9 to 1": lambda draw, n: divergence_of_flips(draw, n, 0.1),
    "DL div.: two runs without divergence": divergence_of_noise,
    "contextual bias: rarely undecided, or always a little": negated_entropy,
    "micro F1: 2 % runaway replies or a lower recall": runaway_replies,
    "micro F1: 2 % runaway replies or constant ones": runaway_and_constant_replies,
    "macro F1: a rare label missed or invented": missed_and_invented_labels,
    "macro F1: the same, four labels": lambda draw, n: missed_and_invented_labels(draw, n, (0.5, 0.3, 0.15, 0.05)),
    "macro F1: each run bad at another rare label": two_rare_labels,
    "macro F1: a rare label missed or invented, mean of ten": ten(missed_and_invented_labels),
    "consistency of nine templates, two labels": consistency_of_nine,
    "consistency of nine templates, six labels": consistency_of_six_labels,
    "accuracy of eight repeats": accuracy_of_eight_repeats,
    "likelihood: constant, or rare zeros": rare_zeros,
    "likelihood: the same, mean of ten": ten(rare_zeros),
    "slope of likelihood": slope_of_likelihood,
}
