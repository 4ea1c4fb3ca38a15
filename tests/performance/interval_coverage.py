"""Coverage of the intervals of all scores, by simulation.

    python tests/performance/interval_coverage.py [--samples 1000] [--resume OUTPUT.jsonl] [--part 0 2]

Needs NumPy and the frozen data. Each job (a model at a limit) is one line of the output, and finished jobs are not
computed again; the table is that of all finished jobs. ``--part`` is the number of this process, and that of all
processes.

Simulated runs: the true labels of the test rows are drawn with the frequencies of the first rows of a data set, up to
the limit. Whether macro F1 and posterior bias have an interval follows from these rows, not from the drawn ones. A row
has a difficulty (a beta variable around the model's recall of its label), and two, four or eight queries; with
probability ``copy`` a query repeats the prediction that its row shares. Wrong predictions go to any label, or
("leaning") mostly to the most frequent label. The confidence is the probability of being correct ("calibrated"), closer
to 1 ("over"), closer to chance ("under"), 0.9 ("even") or 0.9999 ("certain"); with a ``spread``, each query adds noise
of its own to the logit. Each model runs at error rates of 0.75, 1 and 1.33 times its own, and each of these is a cell.
Cells with a coverage below 0.93 are repeated with four times the samples. The truth is the score of 400,000 queries.
The last number of an entry is the median width over that of an interval with the true variance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from records import arguments, markdown, resumed

from StaICC import Normal
from StaICC.metrics import intervals as library
from StaICC.metrics.intervals import Interval

Array = Any
LEVEL = 0.95
LIMITS = (20, 50, 128, 512)
ERROR_FACTORS = (0.75, 1.0, 1.33)
"""Factors of the error rate of a model; each is a cell."""
LOW = 0.93
"""Cells with a lower coverage are repeated."""
ROUNDING = 1e-9


class Model(NamedTuple):
    """A simulated model: the docstring of this file says what its fields mean."""

    accuracy: float | Literal["chance"]
    leaning: bool
    confidence: str
    copy: float
    spread: float
    repeats: int
    error_factor: float


def all_models() -> dict[str, Model]:
    """Return the models by name: each with all error factors."""
    models = {}
    for accuracy, lean, confidence, copy, spread, repeats in [
        ("chance", "balanced", "calibrated", 0.3, 0, 2),
        ("chance", "leaning", "over", 0.9, 0, 2),
        (0.6, "balanced", "over", 0.5, 0, 2),
        (0.6, "leaning", "calibrated", 0.3, 0.5, 2),
        (0.8, "balanced", "under", 0.3, 0, 2),
        (0.8, "leaning", "over", 0.9, 0.5, 2),
        (0.95, "balanced", "calibrated", 0.9, 0, 2),
        (0.95, "leaning", "certain", 0.3, 0, 2),
        (0.99, "balanced", "certain", 0.5, 0, 2),
        (0.99, "leaning", "calibrated", 0.9, 0.5, 2),
        (0.8, "balanced", "even", 1.0, 0.5, 4),
        (0.95, "leaning", "under", 1.0, 0.5, 8),
        (0.98, "balanced", "under", 1.0, 1.5, 4),
        (0.8, "leaning", "over", 0.5, 1.5, 8),
    ]:
        for factor in ERROR_FACTORS:
            name = f"{accuracy} {lean} {confidence} copy {copy} spread {spread} x {repeats}, errors x {factor}"
            models[name] = Model(accuracy, lean == "leaning", confidence, copy, spread, repeats, factor)  # type: ignore[arg-type]
    return models


MODELS = all_models()


def label_counts(data: Any, limit: int) -> tuple[int, ...]:
    """Return how many of the first test rows of a data set have each label."""
    counts = Counter(data.test_set().label(row) for row in range(limit))
    return tuple(counts[label] for label in range(len(data.get_label_space())))


COUNTS = {data.triplet_dataset.dataset_name: [label_counts(data, limit) for limit in LIMITS] for data in Normal()}
"""Test rows of each label in the ten data sets, at each of the limits."""


def counts_of(dataset: str, limit: int) -> tuple[int, ...]:
    return COUNTS[dataset][LIMITS.index(limit)]


# --- simulated runs -----------------------------------------------------------------------------------------------


def accuracy_of(model: Model, n_labels: int) -> float:
    """Return the accuracy after its error is multiplied with the error factor; of a model near chance, unchanged."""
    accuracy = 1 / n_labels if model.accuracy == "chance" else model.accuracy
    if accuracy <= 0.55:
        return accuracy
    return min(0.999, max(0.02, 1 - (1 - accuracy) * model.error_factor))


def recalls(prior: Array, accuracy: float, leaning: bool) -> Array:
    """Return the recall of each label: that of the accuracy, or, if the model leans, a high one of the frequent label.

    The other recall of a leaning model follows from: accuracy = sum of prior * recall.
    """
    if not leaning:
        return np.full(len(prior), accuracy)
    frequent = int(prior.argmax())
    share_of_others = 1 - prior[frequent]
    if_others_have_a_quarter = (accuracy - share_of_others * 0.25 * accuracy) / prior[frequent]
    recall_of_frequent = min(0.999, max(accuracy, if_others_have_a_quarter))
    recall_of_others = (accuracy - prior[frequent] * recall_of_frequent) / share_of_others
    recall = np.full(len(prior), min(0.999, max(0.02, recall_of_others)))
    recall[frequent] = recall_of_frequent
    return recall


class Queries(NamedTuple):
    """Simulated samples of test rows, with several queries for each row."""

    truth: Array
    """True labels: samples x rows."""
    predicted: Array
    """Predicted labels: repeats x samples x rows."""
    confidence: Array
    """Probability of the predicted label: repeats x samples x rows. The other labels share the rest equally."""


def draw_predictions(draw: Any, truth: Array, difficulty: Array, prior: Array, leaning: bool) -> Array:
    """Draw a prediction for each row, which is right with the probability ``difficulty``."""
    n_labels = len(prior)
    wrong = (truth + draw.integers(1, n_labels, size=truth.shape)) % n_labels
    if leaning:
        frequent = int(prior.argmax())
        wrong = np.where((draw.random(truth.shape) < 0.9) & (truth != frequent), frequent, wrong)
    return np.where(draw.random(truth.shape) < difficulty, truth, wrong)


def confidence_of(kind: str, difficulty: Array, n_labels: int) -> Array:
    """Return the confidence of each row, for the probability ``difficulty`` that it is right."""
    chance = 1 / n_labels
    confidence = {
        "calibrated": difficulty,
        "over": 1 - (1 - difficulty) * 0.3,
        "under": chance + (difficulty - chance) * 0.5,
        "even": np.full_like(difficulty, 0.9),
        "certain": np.full_like(difficulty, 0.9999),
    }[kind]
    return np.clip(confidence, chance + 1e-3, 1 - 1e-9)


def simulate(draw: Any, prior: Array, model: Model, samples: int, rows: int) -> Queries:
    """Draw samples of so many rows, and the queries of a model on them."""
    n_labels = len(prior)
    truth = draw.choice(n_labels, size=(samples, rows), p=prior)
    recall = recalls(prior, accuracy_of(model, n_labels), model.leaning)[truth]
    # The sum of the parameters of the beta variable is 4, and its mean is the recall.
    difficulty = draw.beta(np.maximum(4 * recall, 1e-3), np.maximum(4 * (1 - recall), 1e-3))

    shared = draw_predictions(draw, truth, difficulty, prior, model.leaning)
    predicted = []
    for _ in range(model.repeats):
        is_copy = draw.random(truth.shape) < model.copy
        own = draw_predictions(draw, truth, difficulty, prior, model.leaning)
        predicted.append(np.where(is_copy, shared, own))

    confidence_of_row = confidence_of(model.confidence, difficulty, n_labels)
    confidence = [confidence_of_row] * model.repeats
    if model.spread:
        logit = np.log(confidence_of_row / (1 - confidence_of_row))
        confidence = []
        for _ in range(model.repeats):
            noise = model.spread * draw.normal(size=truth.shape)
            confidence.append(1 / (1 + np.exp(-logit - noise)))
    clipped = np.clip(np.stack(confidence), 1 / n_labels + 1e-3, 1 - 1e-9)
    return Queries(truth, np.stack(predicted), clipped)


class RowSums(NamedTuple):
    """Sums over the queries of each row: arrays of samples x rows, or a list of such arrays by label or by bin."""

    queries: Array
    correct: Array
    likelihood: Array
    """Of the probabilities of the true label."""
    likelihood_of_correct: Array
    """The same of correct predictions only."""
    entropy: Array
    """Of the distributions, each over log(number of labels)."""
    hits_by_label: list[Array]
    """Twice the correct predictions of a label: the numerator of its F1."""
    sizes_by_label: list[Array]
    """The predictions of a label plus its true labels: the denominator of its F1."""
    probabilities_by_label: list[Array]
    truths_by_label: list[Array]
    hits_by_bin: list[Array]
    queries_by_bin: list[Array]
    errors_by_bin: list[Array]
    """Of 1 (correct) or 0 (wrong) minus the confidence."""


def sum_over_queries(queries: Queries, n_labels: int) -> RowSums:
    """Return the sums that the scores are made of; the calibration error has ten bins."""
    truth, predicted, confidence = queries
    repeats = len(predicted)
    correct = predicted == truth
    # One label would have no other one, which would share the rest.
    probability_of_other = (1 - confidence) / max(1, n_labels - 1)
    likelihood = np.where(correct, confidence, probability_of_other)
    log_of_other = np.log(np.maximum(probability_of_other, 1e-300))
    entropy_of_others = np.where(probability_of_other > 0, (1 - confidence) * log_of_other, 0)
    entropy = -confidence * np.log(confidence) - entropy_of_others
    sums = RowSums(
        queries=np.full(truth.shape, float(repeats)),
        correct=correct.sum(0).astype(float),
        likelihood=likelihood.sum(0),
        likelihood_of_correct=(likelihood * correct).sum(0),
        entropy=entropy.sum(0) / math.log(n_labels),
        hits_by_label=[],
        sizes_by_label=[],
        probabilities_by_label=[],
        truths_by_label=[],
        hits_by_bin=[],
        queries_by_bin=[],
        errors_by_bin=[],
    )
    for label in range(n_labels):
        is_true = truth == label
        is_predicted = predicted == label
        truths = repeats * is_true.astype(float)
        sums.hits_by_label.append(2.0 * (correct & is_true).sum(0))
        sums.sizes_by_label.append(is_predicted.sum(0) + truths)
        sums.probabilities_by_label.append(np.where(is_predicted, confidence, probability_of_other).sum(0))
        sums.truths_by_label.append(truths)
    bin_of_query = np.minimum((confidence * 10).astype(int), 9)
    for number in range(10):
        in_bin = bin_of_query == number
        sums.hits_by_bin.append((correct & in_bin).sum(0).astype(float))
        sums.queries_by_bin.append(in_bin.sum(0).astype(float))
        sums.errors_by_bin.append(np.where(in_bin, correct - confidence, 0).sum(0))
    return sums


def total_over_rows(sums: Array | list[Array]) -> Any:
    """Return the sum over all rows, or an array of the sums by label or by bin."""
    if isinstance(sums, list):
        return np.array([array.sum() for array in sums])
    return sums.sum()


def entropy_of_distribution(means: Array) -> float:
    return float(-(means * np.log(means)).sum())


def divergence_of(means: Array, frequencies: Array) -> float:
    return float((means * np.log(means / frequencies)).sum())


@cache
def truths(counts: tuple[int, ...], model: Model) -> dict[str, float]:
    """Return the true scores of a model: those of 4 x 50,000 rows with at least two queries."""
    prior = np.array(counts) / sum(counts)
    draw = np.random.default_rng(counts[0])
    totals: dict[str, Any] = dict.fromkeys(RowSums._fields, 0)
    for _ in range(4):
        sums = sum_over_queries(simulate(draw, prior, model, samples=1, rows=50_000), len(prior))
        for name, of_rows in sums._asdict().items():
            totals[name] = totals[name] + total_over_rows(of_rows)
    n_queries = totals["queries"]
    f1_by_label = totals["hits_by_label"] / np.maximum(totals["sizes_by_label"], 1)
    means = totals["probabilities_by_label"] / n_queries
    frequencies = totals["truths_by_label"] / n_queries
    return {
        "accuracy": totals["correct"] / n_queries,
        "macro F1": float(np.mean(f1_by_label)),
        "likelihood": totals["likelihood"] / n_queries,
        "ECE-1": float(np.abs(totals["errors_by_bin"]).sum() / n_queries),
        "mean entropy": totals["entropy"] / n_queries,
        "entropy of mean": entropy_of_distribution(means),
        "posterior bias": divergence_of(means, frequencies) if min(frequencies) > 0 else math.inf,
    }


# --- intervals of the library -------------------------------------------------------------------------------------

SCORES = ("accuracy", "macro F1", "likelihood", "ECE-1", "mean entropy", "entropy of mean", "posterior bias")
NEEDS_LABELS = ("macro F1", "posterior bias")
"""Scores that have an interval only if each label has enough rows."""


class ScoreInterval(NamedTuple):
    value: float
    interval: Interval


def lists_of_sample(arrays: Sequence[Array], sample: int) -> list[list[float]]:
    """Return the sums of the rows of a sample, by label or by bin."""
    return [array[sample].tolist() for array in arrays]


def parts_of(sums: RowSums, sample: int) -> dict[str, library.MetricTerm]:
    """Return the terms of the library for the scores of a sample that are sums over rows, by the name of the score."""
    queries = sums.queries[sample].tolist()
    correct = sums.correct[sample].tolist()
    likelihood = sums.likelihood[sample].tolist()
    likelihood_of_correct = sums.likelihood_of_correct[sample].tolist()
    hits_by_label = lists_of_sample(sums.hits_by_label, sample)
    sizes_by_label = lists_of_sample(sums.sizes_by_label, sample)
    bins = []
    for number in range(10):
        hits = sums.hits_by_bin[number][sample].tolist()
        queries_of_bin = sums.queries_by_bin[number][sample].tolist()
        errors = sums.errors_by_bin[number][sample].tolist()
        if sum(queries_of_bin) > 0:
            bins.append(library.BinRows(hits, queries_of_bin, errors))
    return {
        "accuracy": library.ratio_part(correct, queries, LEVEL),
        "macro F1": library.macro_part(hits_by_label, sizes_by_label, LEVEL),
        "likelihood": library.likelihood_part(likelihood, correct, likelihood_of_correct, queries, LEVEL),
        "ECE-1": library.calibration_part(bins, queries, LEVEL),
        "mean entropy": library.ratio_part(sums.entropy[sample].tolist(), queries, LEVEL, continuous=True),
    }


def intervals_of(sums: RowSums, sample: int) -> dict[str, ScoreInterval]:
    """Return value and interval of each score of a sample; posterior bias only if each label has a row."""
    scores = {
        name: ScoreInterval(part.value, part.interval(LEVEL, "")) for name, part in parts_of(sums, sample).items()
    }
    queries = sums.queries[sample].tolist()
    probabilities = np.stack([array[sample] for array in sums.probabilities_by_label])
    true_counts = np.stack([array[sample] for array in sums.truths_by_label])
    means = probabilities.sum(1) / sum(queries)
    frequencies = true_counts.sum(1) / sum(queries)

    # The entropy of the mean is log(number of labels) minus the divergence from the uniform distribution.
    largest_entropy = math.log(len(probabilities))
    from_uniform = library.divergence_interval(probabilities.tolist(), None, queries, LEVEL)
    low, high = largest_entropy - from_uniform.high, largest_entropy - from_uniform.low
    centre = largest_entropy - (from_uniform.centre or 0.0)
    of_entropy = Interval(low, high, LEVEL, "", centre)
    scores["entropy of mean"] = ScoreInterval(entropy_of_distribution(means), of_entropy)
    if frequencies.min() > 0:
        of_bias = library.divergence_interval(probabilities.tolist(), true_counts.tolist(), queries, LEVEL)
        scores["posterior bias"] = ScoreInterval(divergence_of(means, frequencies), of_bias)
    return scores


def covers(interval: Interval, truth: float) -> bool:
    return bool(interval.low - ROUNDING <= truth <= interval.high + ROUNDING)


# --- cells --------------------------------------------------------------------------------------------------------


def cell(covered: list[bool], samples: int, **about: Any) -> dict[str, Any]:
    """Return the record of a cell; ``covered`` has the samples for which an interval is reported."""
    coverage = sum(covered) / len(covered) if covered else None
    return {**about, "samples": samples, "reported": len(covered) / samples, "coverage": coverage}


def relative_width(scores: Sequence[ScoreInterval]) -> float | None:
    """Return the median width of intervals over that of an interval with the true variance; ``None`` without one."""
    if not scores:
        return None
    standard_deviation = float(np.std([score.value for score in scores]))
    if standard_deviation <= ROUNDING:
        return None
    median_width = float(np.median([score.interval.high - score.interval.low for score in scores]))
    return median_width / (2 * 1.96 * standard_deviation)


class SimulatedRuns(NamedTuple):
    """The true scores of a model on a data set, and the scores of its simulated runs."""

    truth: dict[str, float]
    runs: list[dict[str, ScoreInterval]]


def simulate_runs(dataset: str, limit: int, samples: int, name: str) -> SimulatedRuns:
    """Simulate runs of a model on the first rows of a data set."""
    counts = counts_of(dataset, limit)
    prior = np.array(counts) / sum(counts)
    draw = np.random.default_rng([samples, limit, sorted(MODELS).index(name), list(COUNTS).index(dataset)])
    runs = []
    for _ in range(samples):
        queries = simulate(draw, prior, MODELS[name], samples=1, rows=limit)
        runs.append(intervals_of(sum_over_queries(queries, len(prior)), sample=0))
    return SimulatedRuns(truths(counts, MODELS[name]), runs)


def cells_of_dataset(dataset: str, limit: int, name: str, simulated: SimulatedRuns) -> Iterator[dict[str, Any]]:
    """Yield the coverage of each score on a data set."""
    accuracy = simulated.truth["accuracy"]
    events = limit * min(accuracy, 1 - accuracy)
    labels_suffice = min(counts_of(dataset, limit)) >= library.LEAST_ROWS
    for score in SCORES:
        reported: list[ScoreInterval] = []
        if labels_suffice or score not in NEEDS_LABELS:
            reported = [run[score] for run in simulated.runs if score in run]
        covered = [covers(found.interval, simulated.truth[score]) for found in reported]
        about = {"score": score, "width": relative_width(reported), "dataset": dataset, "limit": limit, "model": name}
        yield cell(covered, len(simulated.runs), **about, events=events)


def largest_mean(score: str) -> float:
    """Return the largest possible mean of a score over the data sets."""
    if score == "posterior bias":
        return math.inf
    if score == "entropy of mean":
        return float(np.mean([math.log(len(counts[0])) for counts in COUNTS.values()]))
    return 1.0


def mean_over_datasets(score: str, runs: Sequence[dict[str, ScoreInterval]]) -> ScoreInterval:
    """Return the mean of a score over one run on each data set."""
    values = [run[score].value for run in runs]
    intervals = [run[score].interval for run in runs]
    ranges = [(0.0, largest_mean(score))] * len(values)
    return ScoreInterval(float(np.mean(values)), library.mean_interval(values, intervals, ranges))


def cells_of_means(limit: int, name: str, simulated: Sequence[SimulatedRuns]) -> Iterator[dict[str, Any]]:
    """Yield the coverage of the mean of each score over all data sets."""
    samples = len(simulated[0].runs)
    every_label_has_rows = all(min(counts_of(dataset, limit)) > 0 for dataset in COUNTS)
    for score in SCORES:
        true_mean = float(np.mean([of_dataset.truth[score] for of_dataset in simulated]))
        means = []
        for runs in zip(*(of_dataset.runs for of_dataset in simulated), strict=True):
            # A run has a posterior bias if each label is true in some row of it.
            run_has_labels = every_label_has_rows and all("posterior bias" in run for run in runs)
            if run_has_labels or score not in NEEDS_LABELS:
                means.append(mean_over_datasets(score, runs))
        covered = [covers(mean.interval, true_mean) for mean in means]
        about = {"score": score, "dataset": "mean", "limit": limit, "model": name, "width": relative_width(means)}
        yield cell(covered, samples, **about, events=0.0)


def classification_cells(limit: int, samples: int, name: str) -> Iterator[dict[str, Any]]:
    """Yield the coverage of each score of a model on each data set, then of the means over all of them."""
    simulated = []
    for dataset in COUNTS:
        of_dataset = simulate_runs(dataset, limit, samples, name)
        simulated.append(of_dataset)
        yield from cells_of_dataset(dataset, limit, name, of_dataset)
    yield from cells_of_means(limit, name, simulated)


class RatioRows(NamedTuple):
    """What each row adds to the two sums whose ratio is the score: samples x rows."""

    numerators: Array
    denominators: Array


def rows_of_consistency(
    draw: Any, samples: int, rows: int, consistency: float, error_factor: float, n_conditions: int
) -> RatioRows:
    """Draw the share of the most frequent prediction of each row; in unstable rows, 1 to 4 conditions differ."""
    differing_conditions = np.arange(1, 5)
    chances = np.array([0.5, 0.25, 0.15, 0.1])
    mean_loss_of_unstable = (differing_conditions * chances).sum() / n_conditions
    # The mean consistency is 1 - share of unstable rows * their mean loss.
    share_of_unstable = (1 - consistency) * error_factor / mean_loss_of_unstable
    is_unstable = draw.random((samples, rows)) < share_of_unstable
    differing = np.where(is_unstable, draw.choice(4, p=chances, size=(samples, rows)) + 1, 0)
    return RatioRows(1 - differing / n_conditions, np.ones((samples, rows)))


def rows_of_micro_f1(
    draw: Any, samples: int, rows: int, quality: float, error_factor: float, more_labels: float
) -> RatioRows:
    """Draw items with several true labels, as in LongICL: F1 is 2 * correct / (true + predicted labels).

    Args:
        draw: The generator of random numbers.
        samples: The number of samples.
        rows: The number of items of a sample.
        quality: The mean share of the true labels that are predicted.
        error_factor: A factor of the errors, or of a quality below 0.5.
        more_labels: The mean number of true labels after the first one.
    """
    true = 1 + draw.poisson(more_labels, size=(samples, rows))
    recall = quality * error_factor if quality < 0.5 else 1 - (1 - quality) * error_factor
    correct = draw.binomial(true, draw.beta(5 * recall, 5 * (1 - recall), size=(samples, rows)))
    wrong = draw.binomial(true - correct, 0.7)
    return RatioRows(2.0 * correct, true + correct + wrong)


class RatioScore(NamedTuple):
    """A score that is a ratio of sums: how its rows are drawn, for which true scores, and in which settings."""

    draw_rows: Callable[..., RatioRows]
    targets: tuple[float, ...]
    settings: tuple[float, ...]
    """Numbers of conditions, or mean numbers of further labels."""


RATIOS = {
    "consistency": RatioScore(rows_of_consistency, (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999), (8, 9)),
    "micro F1": RatioScore(rows_of_micro_f1, (0.002, 0.02, 0.1, 0.3, 0.6, 0.9, 0.99), (1.5,)),
}


def ratio_cells(limit: int, samples: int, score: str) -> Iterator[dict[str, Any]]:
    """Yield the coverage of a ratio of sums over rows; the truth is that of half a million rows."""
    ratio = RATIOS[score]
    for setting, target, factor in product(ratio.settings, ratio.targets, ERROR_FACTORS):
        draw = np.random.default_rng([samples, limit, int(setting), int(1000 * target), int(100 * factor)])
        population = ratio.draw_rows(draw, 500_000 // limit, limit, target, factor, setting)
        truth = float(population.numerators.sum() / population.denominators.sum())
        sampled = ratio.draw_rows(draw, samples, limit, target, factor, setting)
        covered = []
        for numerators, denominators in zip(*sampled, strict=True):
            part = library.ratio_part(list(numerators), list(denominators), LEVEL)
            covered.append(covers(part.interval(LEVEL, ""), truth))
        about = {"score": score, "dataset": str(setting), "limit": limit, "model": f"{target} x {factor}"}
        yield cell(covered, samples, **about, events=limit * min(truth, 1 - truth))


WEIGHTS = [0.4, 0.2, 0.0, -0.2, -0.4]
"""The slope over five conditions is the sum of their scores with these weights."""
SCORES_WITH_SLOPE = SCORES[:4]


def slope(parts: list[library.MetricTerm]) -> Interval:
    """Return the interval of the slope over five conditions."""
    line = library.combine([library.of_difference(part, LEVEL) for part in parts], WEIGHTS)
    return Interval(line.value - line.below, line.value + line.above, LEVEL, "")


def true_slope(score: str, scores_of_conditions: Sequence[dict[str, float]]) -> float:
    terms = [weight * scores[score] for weight, scores in zip(WEIGHTS, scores_of_conditions, strict=True)]
    return sum(terms)


def slope_cells(limit: int, samples: int) -> Iterator[dict[str, Any]]:
    """Yield the coverage of slopes over five conditions, in which the accuracy drops step by step.

    The conditions of a sample have the same seed, so that their rows share true labels and random numbers.
    """
    datasets = ("GLUE-SST2", "financial_phrasebank", "AGNews")
    accuracies_and_drops = ((0.6, 0.02), (0.8, 0.0), (0.95, 0.05), (0.99, 0.005))
    for dataset, (accuracy, drop) in product(datasets, accuracies_and_drops):
        counts = counts_of(dataset, limit)
        prior = np.array(counts) / sum(counts)
        models = [Model(accuracy - step * drop, False, "over", 0.5, 0, 2, 1.0) for step in range(5)]
        true_scores = [truths(counts, model) for model in models]
        scores = [score for score in SCORES_WITH_SLOPE if score not in NEEDS_LABELS]
        if min(counts) >= library.LEAST_ROWS:
            scores = list(SCORES_WITH_SLOPE)
        covered: dict[str, list[bool]] = {score: [] for score in SCORES_WITH_SLOPE}
        for sample in range(samples):
            parts_of_conditions = []
            for model in models:
                draw = np.random.default_rng([sample, limit, len(prior), int(1000 * accuracy)])
                queries = simulate(draw, prior, model, samples=1, rows=limit)
                parts_of_conditions.append(parts_of(sum_over_queries(queries, len(prior)), sample=0))
            for score in scores:
                interval = slope([parts[score] for parts in parts_of_conditions])
                covered[score].append(covers(interval, true_slope(score, true_scores)))
        events = limit * min(accuracy - 4 * drop, 1 - accuracy)
        for score in SCORES_WITH_SLOPE:
            about = {"score": f"slope of {score}", "dataset": dataset, "limit": limit, "model": f"{accuracy} {drop}"}
            yield cell(covered[score], samples, **about, events=events)


def is_low(of_cell: dict[str, Any]) -> bool:
    return of_cell["coverage"] is not None and of_cell["coverage"] < LOW


def with_low_cells_repeated(
    cells_of: Callable[..., Iterator[dict[str, Any]]], limit: int, samples: int, *name: str
) -> list[dict[str, Any]]:
    """Return the cells of a job; those with a low coverage are replaced by cells with four times the samples."""
    cells = list(cells_of(limit, samples, *name))
    if not any(is_low(of_cell) for of_cell in cells):
        return cells
    repeated = list(cells_of(limit, 4 * samples, *name))
    return [repeated[index] if is_low(of_cell) else of_cell for index, of_cell in enumerate(cells)]


def summary(cells: Sequence[dict[str, Any]]) -> str:
    """Return the entry of a score at a limit: lowest and median coverage, number of cells, median relative width."""
    rates = [of_cell["coverage"] for of_cell in cells if of_cell["coverage"] is not None]
    widths = [of_cell["width"] for of_cell in cells if of_cell.get("width")]
    median_width = np.median(widths) if widths else math.nan
    if not rates:
        return f"-, {median_width:.2f}"
    return f"{min(rates):.3f}, {np.median(rates):.3f} ({len(rates)}), {median_width:.2f}"


def table(cells: Sequence[dict[str, Any]]) -> str:
    """Return a row for each score, with the summary of its cells at each limit."""
    by_score: dict[str, list[dict[str, Any]]] = {}
    for of_cell in cells:
        name = f"mean of {of_cell['score']}" if of_cell["dataset"] == "mean" else of_cell["score"]
        by_score.setdefault(name, []).append(of_cell)
    rows = []
    for name, cells_of_score in sorted(by_score.items()):
        row = [name]
        for limit in LIMITS:
            row.append(summary([of_cell for of_cell in cells_of_score if of_cell["limit"] == limit]))
        rows.append(row)
    return markdown(["score", *(f"{limit} rows" for limit in LIMITS)], rows)


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 1000, "--part": [0, 1], "--resume": Path})
    jobs: list[tuple[str, Any]] = []
    for limit in LIMITS:
        for score in RATIOS:
            jobs.append(
                (f"{score}, {limit}", partial(with_low_cells_repeated, ratio_cells, limit, options.samples, score))
            )
        for name in reversed(MODELS):
            job = partial(with_low_cells_repeated, classification_cells, limit, options.samples, name)
            jobs.append((f"{name}, {limit}", job))
        jobs.append((f"slopes, {limit}", partial(with_low_cells_repeated, slope_cells, limit, options.samples)))
    number_of_this_process, processes = options.part
    done = resumed(options.resume, jobs[number_of_this_process::processes])
    print(table([of_cell for cells in done.values() for of_cell in cells]))
