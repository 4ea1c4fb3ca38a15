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
"""The slope over five conditions is the sum of their scores with these weights."""


def difference_of_contributions(contributions: Sequence[Contributions]) -> paired.PairedDifference:
    """Return the difference of two runs, of what each test row contributes to the score of each run."""
    first, second = contributions
    return paired.paired_difference([(1.0, first)], [(1.0, second)])


def contributions_of_two_runs(
    statistic: Statistic, sample: Sample, first: Sequence[Any], second: Sequence[Any]
) -> list[Contributions]:
    """Return what each test row contributes to the score of each of two runs with these predictions."""
    of_first = statistic.of_run(sample, first, OtherRun(sample, second))
    of_second = statistic.of_run(sample, second, OtherRun(sample, first))
    return [of_first, of_second]


Query = tuple[Any, ...]
"""The true label of a query, and the prediction of each run."""


def difference_by_score(
    key: str, truth: Sequence[int], runs: Sequence[Any], rows: Sequence[int], n_rows: int, n_labels: int = 2
) -> paired.PairedDifference:
    """Return the difference of two runs by a score of the library.

    Args:
        key: The name of the score.
        truth: The true label of each query.
        runs: The predictions of both runs, one for each query.
        rows: The test row of each query.
        n_rows: The number of test rows.
        n_labels: The number of labels.
    """
    first_run, second_run = (hashable(predictions) for predictions in runs)
    queries_by_row: list[list[Query]] = [[] for _ in range(n_rows)]
    for row, label, first, second in zip(rows, truth, first_run, second_run, strict=True):
        queries_by_row[row].append((label, first, second))
    return difference_of_sorted_rows(key, sorted_rows(queries_by_row), n_labels)


def hashable(predictions: Sequence[Any]) -> list[Any]:
    """Return the same predictions, with tuples in the place of lists."""
    return [tuple(prediction) if isinstance(prediction, list) else prediction for prediction in predictions]


def sorted_rows(queries_by_row: Sequence[list[Query]]) -> tuple[tuple[Query, ...], ...]:
    """Return the test rows in one order for all samples with the same rows.

    Rows with an even number keep an even number: the lower estimate of ECE-1 depends on these halves.
    """
    rows = [tuple(queries) for queries in queries_by_row]
    rows[0::2] = sorted(rows[0::2])
    rows[1::2] = sorted(rows[1::2])
    return tuple(rows)


@lru_cache(maxsize=2000)
def difference_of_sorted_rows(key: str, rows: tuple[tuple[Query, ...], ...], n_labels: int) -> paired.PairedDifference:
    """Return the difference of two runs on these test rows, each of which has its queries."""
    row_of_query = []
    truth, first_run, second_run = [], [], []
    for number, queries in enumerate(rows):
        for label, first, second in queries:
            row_of_query.append(number)
            truth.append(label)
            first_run.append(first)
            second_run.append(second)
    sample = Sample(truth, row_of_query, len(rows), n_labels)
    return difference_of_contributions(contributions_of_two_runs(STATISTICS[key], sample, first_run, second_run))


def contributions_to_mean(
    scores: Sequence[float], rows: Sequence[int], n_rows: int, score_range: tuple[float, float] = (0.0, 1.0)
) -> Contributions:
    """Return what each test row contributes to the mean of the scores of queries."""
    sample = Sample([0] * len(scores), rows, n_rows, 0)  # a mean reads no labels
    return Mean(*score_range).of_run(sample, scores)


def binary(confidence: float) -> list[float]:
    """Return the probabilities of two labels, of which the first one has the confidence."""
    return [confidence, 1.0 - confidence]


def difference_of_means(
    first: Any, second: Any, score_range: tuple[float, float] = (0.0, 1.0)
) -> paired.PairedDifference:
    """Return the difference of two runs with these scores of the test rows."""
    pairs = zip(map(float, first), map(float, second), strict=True)
    return _difference_of_sorted_means(tuple(sorted(pairs)), score_range)


@lru_cache(maxsize=2000)
def _difference_of_sorted_means(
    pairs: tuple[tuple[float, float], ...], score_range: tuple[float, float]
) -> paired.PairedDifference:
    n = len(pairs)
    first = contributions_to_mean([score for score, _ in pairs], range(n), n, score_range)
    second = contributions_to_mean([score for _, score in pairs], range(n), n, score_range)
    return difference_of_contributions([first, second])


def difference_of_calibration(
    is_wrong: Any, first: Any, second: Any, rows: Sequence[int] | None = None
) -> paired.PairedDifference:
    """Return the difference in ECE-1 of two runs that predict the first of two labels.

    Args:
        is_wrong: Whether the second label is true, for each query.
        first: The confidences of the first run in the first label.
        second: Those of the second run.
        rows: The test row of each query; by default, each query has its own.
    """
    truth = [int(wrong) for wrong in is_wrong]
    if rows is None:
        rows = range(len(truth))
    first_run = [binary(float(confidence)) for confidence in first]
    second_run = [binary(float(confidence)) for confidence in second]
    n_rows = max(rows) + 1
    return difference_by_score("expected_calibration_error_1", truth, [first_run, second_run], rows, n_rows)


# -- calibration error


def constant_confidences(draw: Any, n: int) -> paired.PairedDifference:
    """The accuracy is .98. One run always has the confidence 1, the other one .96: both errors are .02."""
    is_wrong = draw.random(n) < 0.02
    return difference_of_calibration(is_wrong, first=[1.0] * n, second=[0.96] * n)


def continuous_confidences(draw: Any, n: int) -> paired.PairedDifference:
    """The accuracy is .97. The confidences are .985 or .955, with uniform noise of at most .015."""
    is_wrong = draw.random(n) < 0.03
    first = 0.985 + 0.03 * (draw.random(n) - 0.5)
    second = 0.955 + 0.03 * (draw.random(n) - 0.5)
    return difference_of_calibration(is_wrong, first, second)


def repeats_that_share_errors(draw: Any, n: int) -> paired.PairedDifference:
    """Four queries for each row, right or wrong together."""
    is_wrong = np.repeat(draw.random(n) < 0.02, 4)
    rows = np.repeat(np.arange(n), 4).tolist()
    return difference_of_calibration(is_wrong, first=[1.0] * 4 * n, second=[0.96] * 4 * n, rows=rows)


FIVE_CONFIDENCES = [0.55, 0.65, 0.75, 0.85, 0.95]
"""One in each of five bins; their mean is .75."""


def noise_and_one_gap(draw: Any, n: int) -> paired.PairedDifference:
    """Calibrated in five bins, or one confidence that is right on average: no error in either."""
    confidences = draw.choice(FIVE_CONFIDENCES, n)
    is_wrong = draw.random(n) >= confidences
    return difference_of_calibration(is_wrong, first=confidences, second=[0.75] * n)


def noise_and_none(draw: Any, n: int) -> paired.PairedDifference:
    """A calibrated run, and one that is always right and sure: no error in either, but one has noise."""
    confidences = draw.choice(FIVE_CONFIDENCES, n)
    is_right = draw.random(n) < confidences
    calibrated = []
    for confidence, right in zip(confidences, is_right, strict=True):
        probability_of_truth = confidence if right else 1 - confidence
        calibrated.append(binary(float(probability_of_truth)))
    always_right = [[1.0, 0.0]] * n
    return difference_by_score("expected_calibration_error_1", [0] * n, [calibrated, always_right], range(n), n)


# -- entropies and divergences


def entropy_of_flips(draw: Any, n: int, labels: int = 2) -> paired.PairedDifference:
    """The same probabilities on every row, or certain predictions, of which 2 % are other labels: the same mean."""
    flipped = np.where(draw.random(n) < 0.02, draw.integers(1, labels, n), 0)
    certain = np.eye(labels)[flipped].tolist()
    constant = [0.98] + [0.02 / (labels - 1)] * (labels - 1)
    return difference_by_score("entropy", [0] * n, ([constant] * n, certain), range(n), n)


def entropy_of_many_labels(draw: Any, n: int, labels: int, often: float) -> paired.PairedDifference:
    """The same probabilities on every row, or certain predictions with these chances: a sample lacks most labels.

    The first label has the share ``often``, and all labels share the rest.
    """
    mean = np.full(labels, (1.0 - often) / labels)
    mean[0] += often
    certain = np.eye(labels)[draw.choice(labels, n, p=mean)].tolist()
    return difference_by_score("entropy", [0] * n, ([mean.tolist()] * n, certain), range(n), n)


def draw_two_labels(draw: Any, n: int, share_of_second: float) -> list[int]:
    """Draw true labels; the first two rows have one of each, because a divergence needs both."""
    truth = (draw.random(n) < share_of_second).astype(int)
    truth[:2] = (0, 1)
    return truth.tolist()  # type: ignore[no-any-return]


def divergence_of_flips(draw: Any, n: int, share: float = 0.5) -> paired.PairedDifference:
    """The divergence from the label frequencies: always .98 for the first label, or certain, with 2 % of the second."""
    truth = draw_two_labels(draw, n, share)
    is_first = draw.random(n) >= 0.02
    certain = [binary(float(first)) for first in is_first]
    return difference_by_score("DL div.", truth, ([binary(0.98)] * n, certain), range(n), n)


def divergence_of_noise(draw: Any, n: int) -> paired.PairedDifference:
    """Two runs without divergence: a constant row, and certain predictions with the right frequencies."""
    truth = draw_two_labels(draw, n, 0.3)
    is_first = draw.random(n) >= 0.3
    certain = [binary(float(first)) for first in is_first]
    return difference_by_score("DL div.", truth, ([binary(0.7)] * n, certain), range(n), n)


def negated_entropy(draw: Any, n: int) -> paired.PairedDifference:
    """Contextual and domain bias: 3 % of the largest entropy on every row, or all of it on 3 % of the rows."""
    largest = math.log(2)
    rarely_undecided = np.where(draw.random(n) < 0.03, -largest, 0.0)
    return difference_of_means([-0.03 * largest] * n, rarely_undecided, (-largest, 0.0))


# -- F1


CountsOfReply = tuple[float, float]
"""The correct labels of a reply, and the number of its true plus predicted labels."""


def difference_of_micro_f1(first: Sequence[CountsOfReply], second: Sequence[CountsOfReply]) -> paired.PairedDifference:
    n = len(first)
    sample = Sample([0] * n, range(n), n, 0)  # micro F1 reads the counts only
    return difference_of_contributions(contributions_of_two_runs(MicroF1((2.0, 100.0)), sample, first, second))


def runaway_replies(draw: Any, n: int) -> paired.PairedDifference:
    """2 % of the replies name 40 labels too many; the other run has a lower recall.

    There are 2 true labels. With 2 predicted labels and a mean of .8 further ones, the F1 is 2 * (2 * .7) / 4.8.
    """
    sizes = 4.0 + 40.0 * (draw.random(n) < 0.02)
    hits = draw.binomial(2, 0.7, n)
    runaway = [(float(correct), float(size)) for correct, size in zip(hits, sizes, strict=True)]
    hits_of_other = draw.binomial(2, 4 * 0.7 / 4.8, n)
    lower_recall = [(float(correct), 4.0) for correct in hits_of_other]
    return difference_of_micro_f1(lower_recall, runaway)


def runaway_and_constant_replies(draw: Any, n: int) -> paired.PairedDifference:
    """2 % of the replies name 40 labels too many; the other run always names .8 too many."""
    is_runaway = draw.random(n) < 0.02
    runaway = [(2.0, 4.0 + 40.0 * rare) for rare in is_runaway]
    return difference_of_micro_f1([(2.0, 4.8)] * n, runaway)


def _macro_f1(truth: Array, predicted: Array, labels: int) -> float:
    hits = [2 * ((truth == label) & (predicted == label)).sum() for label in range(labels)]
    sizes = [max(1, (truth == label).sum() + (predicted == label).sum()) for label in range(labels)]
    return float(np.mean(np.divide(hits, sizes)))


def _confuse_rare_label(draw: Any, truth: Array, rare: int, missed: float, invented: float) -> Array:
    """Return predictions that miss the rare label (they are label 0 then), or invent it, at these rates."""
    uniform = draw.random(len(truth))
    predicted = np.where((truth == rare) & (uniform < missed), 0, truth)
    return np.where((truth != rare) & (uniform < invented), rare, predicted)


@cache
def _rate_of_inventing(prior: tuple[float, ...]) -> float:
    """Return the rate at which inventing the last label costs as much macro F1 as missing 40 % of it, by bisection."""
    truth = np.random.default_rng(1).choice(len(prior), 1_000_000, p=prior)
    rare = len(prior) - 1

    def macro_f1_with(missed: float, invented: float) -> float:
        predicted = _confuse_rare_label(np.random.default_rng(2), truth, rare, missed, invented)
        return _macro_f1(truth, predicted, len(prior))

    target = macro_f1_with(missed=0.4, invented=0.0)
    low, high = 0.0, 0.5
    for _ in range(20):
        middle = (low + high) / 2
        if macro_f1_with(missed=0.0, invented=middle) > target:
            low = middle
        else:
            high = middle
    return low


def missed_and_invented_labels(draw: Any, n: int, prior: tuple[float, ...] = (0.9, 0.1)) -> paired.PairedDifference:
    """One run misses 40 % of the last label, the other one invents it as often as costs the same macro F1."""
    n_labels = len(prior)
    rare = n_labels - 1
    truth = draw.choice(n_labels, n, p=prior)
    missing = _confuse_rare_label(draw, truth, rare, missed=0.4, invented=0.0)
    inventing = _confuse_rare_label(draw, truth, rare, missed=0.0, invented=_rate_of_inventing(prior))
    return difference_by_score(
        "macro_F1", truth.tolist(), [missing.tolist(), inventing.tolist()], range(n), n, n_labels
    )


def two_rare_labels(draw: Any, n: int) -> paired.PairedDifference:
    """Each run misses 80 % of another rare label."""
    truth = draw.choice(3, n, p=(0.9, 0.05, 0.05))
    first = _confuse_rare_label(draw, truth, rare=1, missed=0.8, invented=0.0)
    second = _confuse_rare_label(draw, truth, rare=2, missed=0.8, invented=0.0)
    return difference_by_score("macro_F1", truth.tolist(), [first.tolist(), second.tolist()], range(n), n, 3)


# -- means


def consistency_of_nine(draw: Any, n: int) -> paired.PairedDifference:
    """Nine templates, two labels: one other prediction on every row, or four on a quarter of the rows."""
    four_others = np.where(draw.random(n) < 0.25, 5 / 9, 1.0)
    return difference_of_means([8 / 9] * n, four_others, (5 / 9, 1.0))


def consistency_of_six_labels(draw: Any, n: int) -> paired.PairedDifference:
    """Nine templates, six labels: one other prediction on 45 % of the rows, or seven on 6 %; the mean is .95."""
    one_other = np.where(draw.random(n) < 0.45, 8 / 9, 1.0)
    seven_others = np.where(draw.random(n) < 0.05 / (7 / 9), 2 / 9, 1.0)
    return difference_of_means(one_other, seven_others, (2 / 9, 1.0))


def rare_zeros(draw: Any, n: int) -> paired.PairedDifference:
    """Likelihood .98 on every row, or 1 with 2 % zeros."""
    return difference_of_means([0.98] * n, draw.random(n) >= 0.02)


def accuracy_of_eight_repeats(draw: Any, n: int) -> paired.PairedDifference:
    """Seven of eight queries right on every row, or an eighth of the rows all wrong."""
    rows = np.repeat(np.arange(n), 8).tolist()
    one_wrong = [0.0, *[1.0] * 7] * n
    all_or_none = np.repeat(draw.random(n) >= 1 / 8, 8).astype(float).tolist()
    return difference_of_contributions(
        [contributions_to_mean(one_wrong, rows, n), contributions_to_mean(all_or_none, rows, n)]
    )


WeightedContributions = list[tuple[float, Contributions]]
"""The weight of each condition in a slope, and what the test rows contribute to its score."""


def slope_of_likelihood(draw: Any, n: int) -> paired.PairedDifference:
    """Label noise costs .03 on every row, or everything on 3 % of the rows."""
    is_sensitive = draw.random(n) < 0.03
    little_on_every_row: WeightedContributions = []
    all_on_few_rows: WeightedContributions = []
    for condition, weight in enumerate(SLOPE):
        noise = condition / 4
        same_loss = [1.0 - 0.03 * noise] * n
        rare_loss = np.where(is_sensitive, 1.0 - noise, 1.0).tolist()
        little_on_every_row.append((weight, contributions_to_mean(same_loss, range(n), n)))
        all_on_few_rows.append((weight, contributions_to_mean(rare_loss, range(n), n)))
    return paired.paired_difference(little_on_every_row, all_on_few_rows)


def slope_of_calibration_error(draw: Any, n: int) -> paired.PairedDifference:
    """The accuracy is .98, as the confidence, but in the first condition this is 1 or .96: both errors are .02."""
    truth = (draw.random(n) < 0.02).astype(int).tolist()
    sample = Sample(truth, range(n), n, 2)
    calibration_error = STATISTICS["expected_calibration_error_1"]

    def weighted_contributions(confidences: Sequence[float]) -> WeightedContributions:
        """Return those of a run with one confidence in each condition."""
        weighted = []
        for weight, confidence in zip(SLOPE, confidences, strict=True):
            weighted.append((weight, calibration_error.of_run(sample, [binary(confidence)] * n)))
        return weighted

    overconfident = weighted_contributions([1.0, 0.98, 0.98, 0.98, 0.98])
    underconfident = weighted_contributions([0.96, 0.98, 0.98, 0.98, 0.98])
    return paired.paired_difference(overconfident, underconfident)


def mean_of_ten(null: Null) -> Null:
    """Return the pair of runs that has the mean over ten data sets, each with a sample of such a pair."""
    return lambda draw, n: paired.mean_difference([null(draw, n) for _ in range(10)])


def mean_of_unequal(null: Null) -> Null:
    """Return the same for three data sets: the second has four times as many rows as the first, the third eight."""
    return lambda draw, n: paired.mean_difference([null(draw, size) for size in (n, 4 * n, 8 * n)])


# -- ten further pairs, for each score that has a paired test


def accuracy_of_two_repeats(draw: Any, n: int) -> paired.PairedDifference:
    """One of two queries wrong on 10 % of the rows, or both wrong on 5 % of other rows."""
    uniform = draw.random(n)
    one_wrong = np.where(uniform < 0.1, 0.5, 1.0)
    both_wrong = np.where(uniform >= 0.95, 0.0, 1.0)
    return difference_of_means(one_wrong, both_wrong)


def accuracy_of_one_query(draw: Any, n: int) -> paired.PairedDifference:
    """Accuracies of .9; the runs are wrong on rows of their own."""
    first = draw.random(n) < 0.9
    second = draw.random(n) < 0.9
    return difference_of_means(first, second)


def likelihood_of_a_tail(draw: Any, n: int) -> paired.PairedDifference:
    """Likelihood .9 on every row, or the ninth root of a uniform number, whose mean is .9, too."""
    return difference_of_means([0.9] * n, draw.random(n) ** (1 / 9))


def brier_score(draw: Any, n: int) -> paired.PairedDifference:
    """Two labels: always .9 for the true one (a score of .02), or certain, with 1 % errors (a score of 2 each)."""
    wrong = draw.random(n) < 0.01
    certain = [binary(0.0 if is_wrong else 1.0) for is_wrong in wrong]
    return difference_by_score("brier", [0] * n, ([binary(0.9)] * n, certain), range(n), n)


def recall_of_a_rare_label(draw: Any, n: int) -> paired.PairedDifference:
    """Balanced accuracy: one run misses 30 % of a label with 10 % of the rows, the other one 30 % of the other."""
    truth = np.array(draw_two_labels(draw, n, 0.1))
    is_missed = draw.random(n) < 0.3
    missing_rare = np.where(is_missed & (truth == 1), 0, truth)
    missing_common = np.where(is_missed & (truth == 0), 1, truth)
    runs = (missing_rare.tolist(), missing_common.tolist())
    return difference_by_score("balanced_accuracy", truth.tolist(), runs, range(n), n)


def confident_errors(draw: Any, n: int) -> paired.PairedDifference:
    """AUROC of confidence .9: a tenth of the errors has the highest confidence, or a tenth of the others the lowest.

    Both runs predict the first label, and are wrong on the same rows.
    """
    is_wrong = draw.random(n) < 0.2
    is_wrong[:2] = (False, True)  # without both kinds, there is no AUROC
    is_rare = draw.random(n) < 0.1
    confidence_of_errors = np.where(is_rare, 0.95, 0.55)
    confidence_of_others = np.where(is_rare, 0.55, 0.95)
    confident_errors_run = np.where(is_wrong, confidence_of_errors, 0.75)
    doubted_others_run = np.where(is_wrong, 0.75, confidence_of_others)
    runs = []
    for confidences in (confident_errors_run, doubted_others_run):
        runs.append([binary(float(confidence)) for confidence in confidences])
    return difference_by_score("auroc_confidence", is_wrong.astype(int).tolist(), runs, range(n), n)


def probabilities_of_truth(confidences: Any, is_wrong: Any) -> list[list[float]]:
    """Return the probabilities of two labels, of which the first is true, of a run with these confidences."""
    rows = []
    for confidence, wrong in zip(confidences, is_wrong, strict=True):
        of_first, of_second = binary(float(confidence))
        rows.append([of_second, of_first] if wrong else [of_first, of_second])
    return rows


def confident_errors_of_few_rows(draw: Any, n: int) -> paired.PairedDifference:
    """AURC .098: so many errors at one confidence, or 2 % errors that have the highest confidence.

    Of the second run, the risk is 1 up to the coverage .02, and ``.02 / coverage`` from there on. Its mean over the
    coverage is ``.02 - .02 * log(.02)``.
    """
    first_wrong = draw.random(n) < 0.02 - 0.02 * math.log(0.02)
    second_wrong = draw.random(n) < 0.02
    first = probabilities_of_truth([0.75] * n, first_wrong)
    second = probabilities_of_truth(np.where(second_wrong, 0.95, 0.75), second_wrong)
    return difference_by_score("aurc", [0] * n, [first, second], range(n), n)


def gaps_of_both_signs(draw: Any, n: int) -> paired.PairedDifference:
    """ECE-1 .03: too confident by .03 everywhere, or by .3 on a tenth of the rows; accuracies .92 and .65."""
    is_hard = draw.random(n) < 0.1
    is_wrong = draw.random(n) < np.where(is_hard, 0.35, 0.08)
    gap_everywhere = np.where(is_hard, 0.68, 0.95)
    gap_on_hard_rows = np.where(is_hard, 0.95, 0.92)
    return difference_of_calibration(is_wrong, gap_everywhere, gap_on_hard_rows)


def divergence_of_six_labels(draw: Any, n: int) -> paired.PairedDifference:
    """Six labels, true ones with 2 % of the last: 4 % of it in all rows, or certain predictions of it in 4 %."""
    prior = [0.38, 0.2, 0.15, 0.15, 0.1, 0.02]
    mean = np.array([0.36, 0.2, 0.15, 0.15, 0.1, 0.04])
    truth = draw.choice(6, n, p=prior)
    truth[:6] = range(6)  # a divergence needs each label
    certain = np.eye(6)[draw.choice(6, n, p=mean)].tolist()
    return difference_by_score("DL div.", truth.tolist(), ([mean.tolist()] * n, certain), range(n), n, 6)


def consistency_of_three_templates(draw: Any, n: int) -> paired.PairedDifference:
    """Three templates, three labels: one other prediction on 12 % of the rows, or three different ones on 6 %."""
    uniform = draw.random(n)
    one_other = np.where(uniform < 0.12, 2 / 3, 1.0)
    three_different = np.where(uniform >= 0.94, 1 / 3, 1.0)
    return difference_of_means(one_other, three_different, (1 / 3, 1.0))


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
    "unequal sizes, accuracy of one query": mean_of_unequal(accuracy_of_one_query),
    "unequal sizes, accuracy of two repeats": mean_of_unequal(accuracy_of_two_repeats),
    "unequal sizes, likelihood: constant, or rare zeros": mean_of_unequal(rare_zeros),
    "unequal sizes, consistency of nine templates": mean_of_unequal(consistency_of_nine),
    "unequal sizes, macro F1: a rare label missed or invented": mean_of_unequal(missed_and_invented_labels),
    "unequal sizes, ECE-1: confidence 1 or .96": mean_of_unequal(constant_confidences),
}


NULLS: dict[str, Null] = {
    "ECE-1: confidence 1 or .96, accuracy .98": constant_confidences,
    "ECE-1: confidences around .985 or .955, accuracy .97": continuous_confidences,
    "ECE-1: four repeats that share errors": repeats_that_share_errors,
    "ECE-1: calibrated in five bins or in one": noise_and_one_gap,
    "ECE-1: calibrated, or always right": noise_and_none,
    "ECE-1: calibrated, or always right, mean of ten": mean_of_ten(noise_and_none),
    "slope of ECE-1": slope_of_calibration_error,
    "entropy: 2 % flips or constant": entropy_of_flips,
    "entropy: 2 % flips or constant, six labels": lambda draw, n: entropy_of_flips(draw, n, 6),
    "entropy: 77 labels at random, or constant": lambda draw, n: entropy_of_many_labels(draw, n, 77, 0.0),
    "entropy: 24 labels, mean of ten": mean_of_ten(lambda draw, n: entropy_of_many_labels(draw, n, 24, 0.3)),
    "entropy: 6 labels, mean of ten": mean_of_ten(lambda draw, n: entropy_of_many_labels(draw, n, 6, 0.88)),
    "DL div.: 2 % flips or constant": divergence_of_flips,
    "DL div.: 2 % flips or constant, labels 9 to 1": lambda draw, n: divergence_of_flips(draw, n, 0.1),
    "DL div.: two runs without divergence": divergence_of_noise,
    "contextual bias: rarely undecided, or always a little": negated_entropy,
    "micro F1: 2 % runaway replies or a lower recall": runaway_replies,
    "micro F1: 2 % runaway replies or constant ones": runaway_and_constant_replies,
    "macro F1: a rare label missed or invented": missed_and_invented_labels,
    "macro F1: the same, four labels": lambda draw, n: missed_and_invented_labels(draw, n, (0.5, 0.3, 0.15, 0.05)),
    "macro F1: each run bad at another rare label": two_rare_labels,
    "macro F1: a rare label missed or invented, mean of ten": mean_of_ten(missed_and_invented_labels),
    "consistency of nine templates, two labels": consistency_of_nine,
    "consistency of nine templates, six labels": consistency_of_six_labels,
    "accuracy of eight repeats": accuracy_of_eight_repeats,
    "likelihood: constant, or rare zeros": rare_zeros,
    "likelihood: the same, mean of ten": mean_of_ten(rare_zeros),
    "slope of likelihood": slope_of_likelihood,
}
