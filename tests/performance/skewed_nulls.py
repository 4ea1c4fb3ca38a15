"""Pairs of runs with the same true score whose differences are skewed: common small steps, and rare large ones.

Each function draws a sample of ``n`` test rows and returns the difference of the two runs on it. A test that assumes
symmetric differences rejects most of them, because most samples lack the rare rows.

Many samples of such a pair have the same rows in another order. No score depends on the order, except for ECE-1, which
takes every second row for its signs. So a sample is sorted first (:func:`sorted_rows`), and equal ones are computed
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
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


Query = tuple[Any, ...]
"""The true label of a query, and the prediction of each run."""


def of_score(key: str, truth: Sequence[int], runs: Sequence[Any], rows: Sequence[int], n: int, labels: int = 2) -> Any:
    """The difference of two runs by a score of the library."""
    queries_by_row: list[list[Query]] = [[] for _ in range(n)]
    for row, label, first, second in zip(rows, truth, *map(hashable, runs), strict=True):
        queries_by_row[row].append((label, first, second))
    return of_sorted_rows(key, sorted_rows(queries_by_row), labels)


def hashable(predictions: Sequence[Any]) -> list[Any]:
    """The same predictions, with tuples in the place of lists."""
    return [tuple(prediction) if isinstance(prediction, list) else prediction for prediction in predictions]


def sorted_rows(queries_by_row: Sequence[list[Query]]) -> tuple[tuple[Query, ...], ...]:
    """The test rows in one order for all samples with the same rows; rows 0, 2, 4 and so on stay at such places."""
    rows = [tuple(queries) for queries in queries_by_row]
    rows[0::2] = sorted(rows[0::2])
    rows[1::2] = sorted(rows[1::2])
    return tuple(rows)


@lru_cache(maxsize=2000)
def of_sorted_rows(key: str, rows: tuple[tuple[Query, ...], ...], labels: int) -> paired.PairedDifference:
    """The difference of two runs on these test rows."""
    queries = [query for row in rows for query in row]
    row_of_query = [number for number, row in enumerate(rows) for _ in row]
    truth, first, second = (list(values) for values in zip(*queries, strict=True))
    return of_pair(both(STATISTICS[key], Sample(truth, row_of_query, len(rows), labels), first, second))


def of_mean(
    scores: Sequence[float], rows: Sequence[int], n: int, ends: tuple[float, float] = (0.0, 1.0)
) -> Contributions:
    return Mean(*ends).of_run(Sample([0] * len(scores), rows, n, 0), scores)


def binary(confidence: float) -> list[float]:
    return [confidence, 1.0 - confidence]


def means(first: Any, second: Any, ends: tuple[float, float] = (0.0, 1.0)) -> paired.PairedDifference:
    """The difference of two runs with these scores of the test rows."""
    pairs = zip(map(float, first), map(float, second), strict=True)
    return _means_of_sorted(tuple(sorted(pairs)), ends)


@lru_cache(maxsize=2000)
def _means_of_sorted(pairs: tuple[tuple[float, float], ...], ends: tuple[float, float]) -> paired.PairedDifference:
    n = len(pairs)
    return of_pair([of_mean(list(scores), range(n), n, ends) for scores in zip(*pairs, strict=True)])


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


def unequal(null: Null) -> Null:
    """The mean over three data sets, of which one has four times, and one eight times as many rows as the first."""
    return lambda draw, n: paired.mean_difference([null(draw, size) for size in (n, 4 * n, 8 * n)])


# -- ten further pairs, for each score that has a paired test


def accuracy_of_two_repeats(draw: Any, n: int) -> paired.PairedDifference:
    """One of two queries wrong on 10 % of the rows, or both wrong on 5 % of other rows."""
    kind = draw.random(n)
    return means(np.where(kind < 0.1, 0.5, 1.0), np.where(kind >= 0.95, 0.0, 1.0))


def accuracy_of_one_query(draw: Any, n: int) -> paired.PairedDifference:
    """Accuracies of .9; the runs are wrong on rows of their own."""
    return means(draw.random(n) < 0.9, draw.random(n) < 0.9)


def likelihood_of_a_tail(draw: Any, n: int) -> paired.PairedDifference:
    """Likelihood .9 on every row, or the ninth root of a uniform number, whose mean is .9, too."""
    return means([0.9] * n, draw.random(n) ** (1 / 9))


def brier_score(draw: Any, n: int) -> paired.PairedDifference:
    """Two labels: always .9 for the true one (a score of .02), or certain, with 1 % errors (a score of 2 each)."""
    wrong = draw.random(n) < 0.01
    certain = [binary(0.0 if is_wrong else 1.0) for is_wrong in wrong]
    return of_score("brier", [0] * n, ([binary(0.9)] * n, certain), range(n), n)


def recall_of_a_rare_label(draw: Any, n: int) -> paired.PairedDifference:
    """Balanced accuracy: one run misses 30 % of a label with 10 % of the rows, the other one 30 % of the other."""
    truth = (draw.random(n) < 0.1).astype(int)
    truth[:2] = (0, 1)
    missed = draw.random(n) < 0.3
    first = np.where(missed & (truth == 1), 0, truth)
    second = np.where(missed & (truth == 0), 1, truth)
    return of_score("balanced_accuracy", truth.tolist(), (first.tolist(), second.tolist()), range(n), n)


def confident_errors(draw: Any, n: int) -> paired.PairedDifference:
    """AUROC of confidence .9: a tenth of the errors has the highest confidence, or a tenth of the others the lowest."""
    wrong = draw.random(n) < 0.2
    wrong[:2] = (False, True)
    rare = draw.random(n) < 0.1
    first = np.where(wrong, np.where(rare, 0.95, 0.55), 0.75)
    second = np.where(wrong, 0.75, np.where(rare, 0.55, 0.95))
    return of_confidences("auroc_confidence", wrong, first, second)


def confident_errors_of_few_rows(draw: Any, n: int) -> paired.PairedDifference:
    """AURC .098: so many errors at one confidence, or 2 % errors that have the highest confidence.

    Of the second run, the risk is 1 up to the coverage .02, and ``.02 / coverage`` from there on.
    """
    first_wrong = draw.random(n) < 0.02 - 0.02 * math.log(0.02)
    second_wrong = draw.random(n) < 0.02
    runs = []
    for wrong, sure in ((first_wrong, [0.75] * n), (second_wrong, np.where(second_wrong, 0.95, 0.75))):
        rows = [binary(float(c)) for c in sure]
        runs.append([row[::-1] if is_wrong else row for row, is_wrong in zip(rows, wrong, strict=True)])
    return of_score("aurc", [0] * n, runs, range(n), n)


def of_confidences(key: str, wrong: Any, first: Any, second: Any) -> paired.PairedDifference:
    """Both runs predict the first label of two, and are wrong on the same rows."""
    n = len(wrong)
    runs = [[binary(float(c)) for c in confidences] for confidences in (first, second)]
    return of_score(key, wrong.astype(int).tolist(), runs, range(n), n)


def gaps_of_both_signs(draw: Any, n: int) -> paired.PairedDifference:
    """ECE-1 .03: too confident by .03 everywhere, or by .3 on a tenth of the rows; accuracies .92 and .65."""
    hard = draw.random(n) < 0.1
    wrong = draw.random(n) < np.where(hard, 0.35, 0.08)
    first = np.where(hard, 0.68, 0.95)
    second = np.where(hard, 0.95, 0.92)
    return calibration(wrong, first, second)


def divergence_of_six_labels(draw: Any, n: int) -> paired.PairedDifference:
    """Six labels, true ones with 2 % of the rare kind: 4 % of it in all rows, or certain predictions of it in 4 %."""
    prior = [0.38, 0.2, 0.15, 0.15, 0.1, 0.02]
    mean = np.array([0.36, 0.2, 0.15, 0.15, 0.1, 0.04])
    truth = draw.choice(6, n, p=prior)
    truth[:6] = range(6)
    certain = np.eye(6)[draw.choice(6, n, p=mean)]
    return of_score("DL div.", truth.tolist(), ([mean.tolist()] * n, certain.tolist()), range(n), n, 6)


def consistency_of_three_templates(draw: Any, n: int) -> paired.PairedDifference:
    """Three templates, three labels: one other prediction on 12 % of the rows, or three different ones on 6 %."""
    kind = draw.random(n)
    return means(np.where(kind < 0.12, 2 / 3, 1.0), np.where(kind >= 0.94, 1 / 3, 1.0), (1 / 3, 1.0))


FURTHER_NULLS: dict[str, Null] = {
    "accuracy of one query": accuracy_of_one_query,
    "accuracy of two repeats": accuracy_of_two_repeats,
    "likelihood: .9, or a tail": likelihood_of_a_tail,
    "Brier score: constant, or rare errors": brier_score,
    "balanced accuracy: a rare or a common label missed": recall_of_a_rare_label,
    "AUROC of confidence: confident errors, or doubted correct rows": confident_errors,
    "AURC: errors at one confidence, or few confident ones": confident_errors_of_few_rows,
    "ECE-1: gaps everywhere, or on a tenth of the rows": gaps_of_both_signs,
    "DL div.: six labels, constant or certain": divergence_of_six_labels,
    "consistency of three templates": consistency_of_three_templates,
}

UNEQUAL_NULLS: dict[str, Null] = {
    "unequal sizes, accuracy of one query": unequal(accuracy_of_one_query),
    "unequal sizes, accuracy of two repeats": unequal(accuracy_of_two_repeats),
    "unequal sizes, likelihood: constant, or rare zeros": unequal(rare_zeros),
    "unequal sizes, consistency of nine templates": unequal(consistency_of_nine),
    "unequal sizes, macro F1: a rare label missed or invented": unequal(missed_and_invented_labels),
    "unequal sizes, ECE-1: confidence 1 or .96": unequal(constant_confidences),
}


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
