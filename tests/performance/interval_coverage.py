"""Coverage of the intervals of all scores, and errors of the p-values, by simulation.

    PYTHONPATH=. python tests/performance/interval_coverage.py OUTPUT.jsonl [--samples 4000] [--check] [--table]

Needs NumPy and SciPy. The functions of :mod:`StaICC.metrics.intervals` are repeated here for many samples;
``--check`` compares both on random samples. Each cell is one line of the output, written when its job (a model at a
limit) is finished, and finished jobs are not computed again; ``--table`` prints the summary of an output.

Simulated runs: the true labels of the test rows are drawn with the frequencies of the first rows of a data set, up to
the limit. Whether macro F1 and posterior bias have an interval follows from these rows, not from the drawn ones. A row
has a difficulty (a beta variable around the model's recall of its label), and two, four or eight queries; with
probability ``copy`` a query repeats the prediction that its row shares. Wrong predictions go to any label, or
("leaning") mostly to the most frequent label. The confidence is the probability of being correct ("calibrated"), closer
to 1 ("over"), closer to chance ("under"), 0.9 ("even") or 0.9999 ("certain"); with a ``spread``, each query adds noise
of its own to the logit. Each model runs at error rates of 0.75, 1 and 1.33 times its own, and each of these is a cell.
Cells with a coverage below 0.93 are repeated with four times the samples. The truth is the score of 400,000 queries.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from StaICC.metrics import intervals as library

Array = Any
LEVEL = 0.95
LIMITS = (20, 50, 128, 512)
NEAR = (0.75, 1.0, 1.33)
LOW = 0.93
"""Cells with a lower coverage are repeated."""
MODELS = {
    f"{accuracy} {lean} {kind} copy {copy} spread {spread} x {repeats}, errors x {near}": (
        accuracy,
        lean == "leaning",
        kind,
        copy,
        spread,
        repeats,
        near,
    )
    for accuracy, lean, kind, copy, spread, repeats in [
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
    ]
    for near in NEAR
}
COUNTS = {
    "GLUE-SST2": ((6, 14), (17, 33), (51, 77), (230, 282)),
    "rotten_tomatoes": ((9, 11), (26, 24), (69, 59), (263, 249)),
    "financial_phrasebank": ((0, 14, 6), (3, 36, 11), (10, 89, 29), (63, 335, 114)),
    "SST5": ((2, 8, 4, 3, 3), (7, 16, 7, 12, 8), (12, 37, 22, 40, 17), (71, 147, 82, 131, 81)),
    "TREC": ((0, 3, 4, 8, 3, 2), (0, 10, 10, 17, 8, 5), (0, 34, 29, 35, 17, 13), (5, 122, 115, 131, 72, 67)),
    "AGNews": ((7, 3, 7, 3), (15, 14, 12, 9), (35, 30, 29, 34), (139, 122, 122, 129)),
    "Subjective": ((11, 9), (26, 24), (60, 68), (247, 265)),
    "tweet_eval_emotion": ((10, 4, 2, 4), (19, 14, 5, 12), (49, 33, 21, 25), (199, 129, 59, 125)),
    "tweet_eval_hate": ((14, 6), (25, 25), (71, 57), (289, 223)),
    "hate_speech_18": ((19, 0, 0, 1), (43, 5, 1, 1), (114, 11, 1, 2), (452, 51, 2, 7)),
}
"""Test rows of each label in the ten data sets, at each of the limits."""


def counts_of(dataset: str, limit: int) -> tuple[int, ...]:
    return COUNTS[dataset][LIMITS.index(limit)]


# --- the library's functions, for many samples at once: arrays of samples by rows ---------------------------------


def wilson(share: Array, size: Array, q: float) -> tuple[Array, Array]:
    scale = 1 + q * q / size
    centre = (share + q * q / (2 * size)) / scale
    reach = q / scale * np.sqrt(np.maximum(0, share * (1 - share)) / size + q * q / (4 * size * size))
    rare = -math.log(math.erf(q / math.sqrt(2)))
    low, high = np.maximum(0, centre - reach), np.minimum(1, centre + reach)
    low = np.where(share * size < 1.5, np.minimum(low, share * rare), low)
    high = np.where((1 - share) * size < 1.5, np.maximum(high, 1 - (1 - share) * rare), high)
    return np.where(share > 0, share - low, 0), np.where(share < 1, high - share, 0)


def dot(a: Array, b: Array) -> Array:
    return np.einsum("ij,ij->i", a, b)


def ratio_part(
    numerators: Array, denominators: Array, q: float, continuous: bool = False, moves: bool = True
) -> tuple[Array, ...]:
    """Value, below, above, influence (empty without `moves`), variance."""
    total, size = denominators.sum(1), dot(denominators, denominators)
    empty = total == 0
    total, size = np.where(empty, 1, total), np.where(empty, 1, size)
    mass, squares, cross = numerators.sum(1), dot(numerators, numerators), dot(numerators, denominators)
    value = np.minimum(1, mass / total)
    observed = np.maximum(0, squares - 2 * value * cross + value**2 * size) / total**2
    binomial = value * (1 - value) * size / total**2
    mass, squares = np.where(value < 0.5, (mass, squares), (total - mass, size - 2 * cross + squares))
    events = mass * numerators.shape[1] / total if continuous else mass**2 / np.maximum(squares, 1e-300)
    events = np.where(mass < 1e-12, 0, events)
    ratio = np.where(binomial > 1e-24, np.minimum(2, observed / np.maximum(binomial, 1e-300)), 0)
    effect = (events * ratio + 1) / (events + 1)
    below, above = wilson(value, np.maximum(0.5, total**2 / size / effect), q)
    variance = np.where(empty, 0, np.maximum(observed, effect * binomial))
    influence = (numerators - value[:, None] * denominators) / total[:, None] if moves else numerators[:, :0]
    return value, np.where(empty, 0, below), np.where(empty, 1, above), influence, variance


def combine(parts: list[tuple[Array, ...]], weights: list[float]) -> tuple[Array, ...]:
    value = sum(w * part[0] for w, part in zip(weights, parts, strict=True))
    influence = sum(w * part[3] for w, part in zip(weights, parts, strict=True))
    moves = np.stack([part[3] for part in parts], 1)
    products, rows = moves @ moves.transpose(0, 2, 1), influence.shape[1]
    variance, weight = np.stack([part[4] for part in parts], 1), np.array(weights)
    known = variance > 0
    safe = np.where(known, variance, 1)
    own = np.minimum(1, np.where(known, products.diagonal(0, 1, 2) / safe, 0))
    reaches = []
    for side in (1, -1):
        ends = [part[1 if w * side > 0 else 2] for w, part in zip(weights, parts, strict=True)]
        distance = weight * np.stack(ends, 1)
        scale = np.where(known, distance / np.sqrt(safe), 0)
        lost = np.minimum(np.maximum(0, scale).sum(1), np.maximum(0, -scale).sum(1)) / rows
        shared = np.einsum("ij,ijk,ik->i", scale, products, scale)
        reaches.append(np.sqrt(np.maximum(0, shared) + np.maximum((distance**2 * (1 - own)).sum(1), 2 * lost**2)))
    return value, reaches[0], reaches[1], influence, dot(influence, influence)


def of_difference(part: tuple[Array, ...], q: float) -> tuple[Array, ...]:
    reach = q * np.sqrt(dot(part[3], part[3]))
    return (part[0], np.maximum(part[1], reach), np.maximum(part[2], reach), *part[3:])


def spread(part: tuple[Array, ...], q: float) -> Array:
    return np.maximum(dot(part[3], part[3]), ((part[1] + part[2]) / (2 * q)) ** 2)


def with_spread(part: tuple[Array, ...], q: float) -> tuple[Array, ...]:
    return (*part[:4], spread(part, q))


def macro_part(hits: list[Array], sizes: list[Array], q: float) -> tuple[Array, ...]:
    parts = [ratio_part(a, b, q) for a, b in zip(hits, sizes, strict=True)]
    value, below, above, influence, variance = combine(parts, [1 / len(parts)] * len(parts))
    certain = variance < 1e-12
    size = np.maximum(0.5, value * (1 - value) / np.where(certain, 1, variance))
    less, more = wilson(value, size, q)
    below, above = np.where(certain, below, np.maximum(below, less)), np.where(certain, above, np.maximum(above, more))
    return with_spread((value, below, above, influence), q)


def likelihood_part(lik: Array, correct: Array, of_correct: Array, queries: Array, q: float) -> tuple[Array, ...]:
    total = queries.sum(1)
    repeats = total / queries.shape[1]
    accuracy, mean = ratio_part(correct, queries, q), ratio_part(lik, queries, q, True)
    right, lik_right = correct.sum(1), of_correct.sum(1)
    wrong, lik_wrong = total - right, np.maximum(0, lik.sum(1) - lik_right)
    one = np.where(right > 0, lik_right / np.maximum(right, 1e-300), 1)
    other = np.where(wrong > 0, lik_wrong / np.maximum(wrong, 1e-300), 0)
    gap = (lik_right + repeats) / (right + repeats) - lik_wrong / (wrong + repeats)
    rest = (lik - one[:, None] * correct - other[:, None] * (queries - correct)) / total[:, None]
    share, within = np.clip(mean[0], 0, 1), (rest**2).sum(1)
    usable = (within > 1e-24) & (share > 0) & (share < 1)
    below, above = wilson(share, np.maximum(0.5, share * (1 - share) / np.where(usable, within, 1)), q)
    below, above = np.where(usable, below, 0), np.where(usable, above, 0)
    below, above = np.hypot(gap * accuracy[1], below), np.hypot(gap * accuracy[2], above)
    observed = (mean[3] ** 2).sum(1)
    usable = (observed > 1e-24) & (share > 0) & (share < 1)
    less, more = wilson(share, np.maximum(0.5, share * (1 - share) / np.where(usable, observed, 1)), q)
    below, above = np.where(usable, np.maximum(below, less), below), np.where(usable, np.maximum(above, more), above)
    return with_spread((mean[0], below, above, mean[3]), q)


def calibration_part(
    hits: list[Array], sizes: list[Array], excess: list[Array], queries: Array, q: float, moves: bool = True
) -> Any:
    total = queries.sum(1)
    gaps, upward, downward, influences, occupied = [], [], [], [], []
    for hit, size, over in zip(hits, sizes, excess, strict=True):
        count = size.sum(1)
        used = count > 0
        if not used.any():
            continue
        gap, share = over.sum(1) / total, count / total
        _, below, above, _, _ = ratio_part(hit, size, q, moves=False)
        spread_of = dot(size, size) - 2 * share * dot(size, queries) + share**2 * dot(queries, queries)
        of_size = (gap / np.where(used, share, 1) / total) ** 2 * np.maximum(0, spread_of)
        less, more = (np.where(used, np.sqrt((share * side / q) ** 2 + of_size), 0) for side in (below, above))
        toward, away = np.where(gap <= 0, more, less), np.where(gap <= 0, less, more)
        gaps.append(np.abs(gap))
        upward.append(np.maximum(away, toward - 2 * np.abs(gap) / q))
        downward.append(toward)
        occupied.append(size)
        influences.append(np.where(gap < 0, -1, 1)[:, None] * (over - gap[:, None] * queries) / total[:, None])
    value, gap, sides = sum(gaps), np.stack(gaps, 1), np.stack(influences, 1)
    within = np.stack(occupied, 1)
    down, up = (covariances(np.stack(one, 1), sides, within) for one in (downward, upward))
    plain = np.minimum(value, q * np.sqrt(np.maximum(0, down.sum((1, 2)))))
    below = np.maximum(value - invert(value, gap, down, q, -1), plain)
    above = np.minimum(1, invert(value, gap, up, q, 1)) - value
    of_zero = sum(downward) * math.sqrt(2 / math.pi)
    centre = np.where(value < of_zero, value - of_zero, invert(value, gap, down, 0.0, -1))
    return (*with_spread((value, np.maximum(0, below), np.maximum(0, above), sides.sum(1)), q), centre)


def covariances(deviations: Array, influences: Array, sizes: Array) -> Array:
    observed = (influences**2).sum(2)
    scales = deviations / np.sqrt(np.maximum(np.maximum(deviations**2, observed), 1e-24))
    hidden = np.sqrt(np.maximum(0, deviations**2 - observed) / np.maximum((sizes**2).sum(2), 1e-12))
    found = 0.0
    for scale, rows in ((scales, influences), (hidden, sizes)):
        found = found + scale[:, :, None] * scale[:, None, :] * (rows @ rows.transpose(0, 2, 1))
    places = np.arange(deviations.shape[1])
    found[:, places, places] = deviations**2
    return found


def invert(value: Array, gaps: Array, covariance: Array, q: float, side: float) -> Array:
    direction = np.maximum(0, covariance.sum(2))
    scale = np.sqrt(direction.sum(1))
    safe = np.where(scale < 1e-12, 1, scale)[:, None]
    sd = np.sqrt(covariance.diagonal(0, 1, 2))
    dev = np.maximum(sd, 1e-12)
    low, high = np.zeros_like(value), np.full_like(value, 60.0)
    for _ in range(40):
        middle = (low + high) / 2
        moved = np.maximum(0, gaps + side * middle[:, None] * direction / safe)
        z = moved / dev
        kept = special.erf(z / math.sqrt(2))
        mean = 2 * dev * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) + moved * kept
        mean = np.where(sd < 1e-12, moved, mean)
        own = np.where(sd < 1e-12, 0, np.maximum(0, moved**2 + sd**2 - mean**2))
        both = kept[:, :, None] * kept[:, None, :]
        pairs = both * covariance + (1 - both) * (1 - 2 / math.pi) * np.abs(covariance)
        variance = own.sum(1) + pairs.sum((1, 2)) - pairs.diagonal(0, 1, 2).sum(1)
        far = side * (mean.sum(1) - value) > q * np.sqrt(np.maximum(0, variance))
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    moved = np.maximum(0, gaps + side * high[:, None] * direction / safe)
    return np.where(scale < 1e-12, value, moved.sum(1))


def divergence_interval(
    probabilities: list[Array], counts: list[Array] | None, queries: Array, q: float
) -> tuple[Array, ...]:
    rows, width, total = queries.shape[1], len(probabilities), queries.sum(1)
    parts = [ratio_part(column, queries, q, True) for column in probabilities]
    safe = [(rows * part[0] + 1 / width) / (rows + 1) for part in parts]
    value, bias, extra_linear = 0.0, 0.0, 0.0
    linear: Any = 0.0
    scaled, extra = [], []
    for label, (part, mean) in enumerate(zip(parts, safe, strict=True)):
        if counts is None:
            truth, move = np.full(len(total), 1 / width), np.zeros_like(queries)
        else:
            truth = counts[label].sum(1) / total
            move = (counts[label] - truth[:, None] * queries) / total[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = value + np.where(part[0] > 0, part[0] * np.log(part[0] / truth), 0)
            slope = np.log(mean / truth) + 1
            hidden = np.maximum(0.5 / rows**2, spread(part, q) - dot(part[3], part[3]))
            tied = mean / truth
            scaled.append((part[3] - tied[:, None] * move) / np.sqrt(mean)[:, None])
            linear = linear + slope[:, None] * part[3] - tied[:, None] * move
        extra.append(hidden / mean)
        extra_linear = extra_linear + (slope - 1) ** 2 * hidden
    columns = np.stack(scaled, 1)
    products = columns @ columns.transpose(0, 2, 1)
    for label in range(width):
        products[:, label, label] += extra[label]
    bias, curved = 0.5 * np.trace(products, 0, 1, 2), 0.5 * (products**2).sum((1, 2))
    variance = dot(linear, linear) + extra_linear
    unbiased = np.maximum(0, value - bias)
    tilt = q * q * variance / np.maximum(value, 0.01 * bias) / 2
    reach = np.sqrt(tilt**2 + 2 * tilt * unbiased + q * q * curved)
    high = np.inf if counts is not None else math.log(width)
    centre = np.maximum(value - bias, -q * np.sqrt(curved)) + tilt
    freedom = 2 * bias**2 / np.maximum(curved, 1e-24)
    noise = bias * (1 - 2 / (9 * freedom) + q * np.sqrt(2 / (9 * freedom))) ** 3
    root = np.sqrt(2 * np.maximum(0, value - np.maximum(0, bias - tilt / (2 * q * q)))) - np.sqrt(tilt)
    return (
        np.where(value > noise, np.maximum(0, root) ** 2 / 2, 0),
        np.minimum(high, np.maximum(value, centre + reach)),
        value - bias,
    )


def mean_interval(
    values: list[Array], lows: list[Array], highs: list[Array], centres: list[Array] | None, highest: float
) -> tuple[Array, Array]:
    count, mean = len(values), np.mean(values, 0)
    middle = np.stack(values if centres is None else centres)
    below, above = np.maximum(0, middle - np.stack(lows)), np.maximum(0, np.stack(highs) - middle)
    if centres is not None:
        below = above = np.maximum(below, above)
    slopes, squares = above - below, (above + below) ** 2
    slope = (slopes * squares).sum(0) / np.maximum(squares.sum(0), 1e-24) / count
    inner = (middle > 0) & (middle < 1) & (centres is None)
    share = np.where(inner, below * above / np.where(inner, middle * (1 - middle), 1), 0)
    lost = np.minimum(0.5, np.maximum(np.abs(slopes), share))
    kept = 1 - (lost * squares).sum(0) / np.maximum(squares.sum(0), 1e-24) / count
    reach = np.sqrt((below * above * kept / (1 - lost)).sum(0) / count**2 + slope**2 / 4)
    centre = middle.mean(0)
    bias = mean - centre
    far, near = reach + np.abs(bias), np.hypot(reach, bias)
    low = centre + slope / 2 - np.where(bias > 0, far, near)
    high = centre + slope / 2 + np.where(bias > 0, near, far)
    least, most = (np.mean(lows, 0), np.mean(highs, 0)) if centres is None else (0.0, highest)
    low, high = np.minimum(mean, np.maximum(least, low)), np.maximum(mean, np.minimum(most, high))
    if centres is None:  # scores at both ends of the range
        falling = below > above
        both = ((below == 0) & (above > 0)).any(0) & ((above == 0) & (below > 0)).any(0)
        for place in np.flatnonzero(both):
            less = more = 0.0
            for side in (falling[:, place], ~falling[:, place]):
                own = [[row[place : place + 1] for row in np.stack(each)[side]] for each in (values, lows, highs)]
                down, up = mean_interval(*own, None, highest)
                share = np.mean(own[0]) * side.sum() / count
                less += (share - side.sum() / count * down[0]) ** 2
                more += (side.sum() / count * up[0] - share) ** 2
            low[place], high[place] = mean[place] - np.sqrt(less), mean[place] + np.sqrt(more)
    return low, high


# --- simulated runs -----------------------------------------------------------------------------------------------


def recalls(prior: Array, accuracy: float, leaning: bool) -> Array:
    if not leaning:
        return np.full(len(prior), accuracy)
    top = int(prior.argmax())
    most = min(0.999, max(accuracy, (accuracy - (1 - prior[top]) * 0.25 * accuracy) / prior[top]))
    other = min(0.999, max(0.02, (accuracy - prior[top] * most) / (1 - prior[top])))
    found = np.full(len(prior), other)
    found[top] = most
    return found


def simulate(draw: Any, prior: Array, model: tuple[Any, ...], samples: int, rows: int) -> Any:
    """True labels (samples by rows), predictions and confidences (repeats by samples by rows)."""
    accuracy, leaning, kind, copy, spread, repeats, near = model
    width = len(prior)
    accuracy = 1 / width if accuracy == "chance" else accuracy
    accuracy = min(0.999, max(0.02, 1 - (1 - accuracy) * near)) if accuracy > 0.55 else accuracy
    recall = recalls(prior, accuracy, leaning)
    truth = draw.choice(width, size=(samples, rows), p=prior)
    mean = recall[truth]
    difficulty = draw.beta(np.maximum(4 * mean, 1e-3), np.maximum(4 * (1 - mean), 1e-3))

    def predictions() -> Array:
        wrong = (truth + draw.integers(1, width, size=truth.shape)) % width
        top = int(prior.argmax())
        if leaning:
            wrong = np.where((draw.random(truth.shape) < 0.9) & (truth != top), top, wrong)
        return np.where(draw.random(truth.shape) < difficulty, truth, wrong)

    shared = predictions()
    predicted = [np.where(draw.random(truth.shape) < copy, shared, predictions()) for _ in range(repeats)]
    confidence = {
        "calibrated": difficulty,
        "over": 1 - (1 - difficulty) * 0.3,
        "under": 1 / width + (difficulty - 1 / width) * 0.5,
        "even": np.full_like(difficulty, 0.9),
        "certain": np.full_like(difficulty, 0.9999),
    }[kind]
    confidence = np.clip(confidence, 1 / width + 1e-3, 1 - 1e-9)
    own = [confidence] * repeats
    if spread:
        logit = np.log(confidence / (1 - confidence))
        own = [1 / (1 + np.exp(-logit - spread * draw.normal(size=truth.shape))) for _ in range(repeats)]
    return truth, np.stack(predicted), np.clip(np.stack(own), 1 / width + 1e-3, 1 - 1e-9)


def sums(truth: Array, predicted: Array, confidence: Array, width: int) -> dict[str, Any]:
    """Sums over the queries of each row."""
    right = predicted == truth
    other = (1 - confidence) / max(1, width - 1)
    of_bin = np.minimum((confidence * 10).astype(int), 9)
    inside = [of_bin == place for place in range(10)]
    lik = np.where(right, confidence, other)
    labels = [truth == label for label in range(width)]
    return {
        "queries": np.full(truth.shape, float(len(predicted))),
        "correct": right.sum(0).astype(float),
        "lik": lik.sum(0),
        "of_correct": (lik * right).sum(0),
        "hits": [2.0 * (right & mine).sum(0) for mine in labels],
        "sizes": [
            (predicted == label).sum(0) + len(predicted) * mine.astype(float) for label, mine in enumerate(labels)
        ],
        "bin_hits": [(right & b).sum(0).astype(float) for b in inside],
        "bin_sizes": [b.sum(0).astype(float) for b in inside],
        "excess": [np.where(b, right - confidence, 0).sum(0) for b in inside],
        "probabilities": [np.where(predicted == label, confidence, other).sum(0) for label in range(width)],
        "counts": [len(predicted) * mine.astype(float) for mine in labels],
        "entropy": (
            -confidence * np.log(confidence)
            - np.where(other > 0, (1 - confidence) * np.log(np.maximum(other, 1e-300)), 0)
        ).sum(0)
        / math.log(width),
        "rows of labels": np.stack([mine.sum(1) for mine in labels], 1),
    }


def scored(found: dict[str, Any], q: float) -> dict[str, tuple[Array, ...]]:
    """Value, lower end, upper end and whether the score is defined, by score."""
    queries = found["queries"]
    every = np.ones(len(queries), bool)
    complete = (found["rows of labels"] > 0).all(1)
    parts = {
        "accuracy": ratio_part(found["correct"], queries, q),
        "macro F1": macro_part(found["hits"], found["sizes"], q),
        "likelihood": likelihood_part(found["lik"], found["correct"], found["of_correct"], queries, q),
        "ECE-1": calibration_part(found["bin_hits"], found["bin_sizes"], found["excess"], queries, q, False),
        "mean entropy": ratio_part(found["entropy"], queries, q, True, False),
    }
    result = {
        name: (
            part[0],
            np.maximum(0, part[0] - part[1]),
            np.minimum(1, part[0] + part[2]),
            every,
            part[5] if len(part) > 5 else part[0],
        )
        for name, part in parts.items()
    }
    low, high, centre = divergence_interval(found["probabilities"], None, queries, q)
    width = len(found["counts"])
    means = np.stack([p.sum(1) for p in found["probabilities"]], 1) / queries.sum(1)[:, None]
    truth = np.stack([c.sum(1) for c in found["counts"]], 1) / queries.sum(1)[:, None]
    entropy = -(means * np.log(np.maximum(means, 1e-300))).sum(1)
    top = math.log(width)
    result["entropy of mean"] = (entropy, top - high, top - low, every, top - centre)
    low, high, centre = divergence_interval(found["probabilities"], found["counts"], queries, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (means * np.log(means / truth)).sum(1)
    result["posterior bias"] = (value, low, high, complete, centre)
    return result


@cache
def truths(counts: tuple[int, ...], model: tuple[Any, ...]) -> dict[str, float]:
    """Scores of 400,000 queries at least."""
    total: dict[str, Any] = {}
    prior, draw = np.array(counts) / sum(counts), np.random.default_rng(sum(counts[:1]))
    for _ in range(4):
        found = sums(*simulate(draw, prior, model, 1, 50_000), len(prior))
        for key, value in found.items():
            add = np.array([v.sum() for v in value]) if isinstance(value, list) else value.sum()
            total[key] = total.get(key, 0) + add
    n = total["queries"]
    means, shares = total["probabilities"] / n, total["counts"] / n
    return {
        "accuracy": total["correct"] / n,
        "macro F1": float(np.mean(total["hits"] / np.maximum(total["sizes"], 1))),
        "likelihood": total["lik"] / n,
        "ECE-1": float(np.abs(total["excess"]).sum() / n),
        "mean entropy": total["entropy"] / n,
        "entropy of mean": float(-(means * np.log(means)).sum()),
        "posterior bias": float((means * np.log(means / shares)).sum()) if min(shares) > 0 else math.inf,
    }


# --- cells --------------------------------------------------------------------------------------------------------

SCORES = ("accuracy", "macro F1", "likelihood", "ECE-1", "mean entropy", "entropy of mean", "posterior bias")
NEEDS_LABELS = ("macro F1", "posterior bias")
_CHUNK = 60_000  # rows that are simulated at once


def chunks(samples: int, rows: int) -> Iterator[int]:
    most = max(1, _CHUNK // rows)
    for start in range(0, samples, most):
        yield min(most, samples - start)


def cell(covered: Array, samples: int, **about: Any) -> dict[str, Any]:
    """The record of a cell; `covered` has the samples for which an interval is reported."""
    share = len(covered) / samples
    return {**about, "samples": samples, "reported": share, "coverage": float(covered.mean()) if len(covered) else None}


def classification_cells(limit: int, name: str, samples: int) -> Iterator[dict[str, Any]]:
    """Coverage on each data set, and of the means over all ten."""
    model, q = MODELS[name], library.student_quantile(LEVEL, limit)
    kept: dict[str, list[Any]] = {score: [] for score in SCORES}
    total = 0.0
    for dataset in COUNTS:
        counts = counts_of(dataset, limit)
        prior = np.array(counts) / sum(counts)
        draw = np.random.default_rng([samples, limit, sorted(MODELS).index(name), list(COUNTS).index(dataset)])
        truth = truths(counts, model)
        found: dict[str, Any] = {score: [] for score in SCORES}
        rows_of_labels = []
        for size in chunks(samples, limit * model[5]):
            row_sums = sums(*simulate(draw, prior, model, size, limit), len(prior))
            rows_of_labels.append(row_sums["rows of labels"].min(1))
            for score, values in scored(row_sums, q).items():
                found[score].append(values)
        events = limit * min(truth["accuracy"], 1 - truth["accuracy"])
        total += events
        for score in SCORES:
            value, low, high, reported, centre = (np.concatenate(part) for part in zip(*found[score], strict=True))
            kept[score].append((value, low, high, truth[score], np.concatenate(rows_of_labels) > 0, centre))
            if score in NEEDS_LABELS and min(counts) < library.LEAST_ROWS:
                reported = np.zeros_like(reported)
            inside = (low <= truth[score] + 1e-9) & (truth[score] - 1e-9 <= high)
            yield cell(inside[reported], samples, score=score, dataset=dataset, limit=limit, model=name, events=events)
    for score in SCORES:
        columns: list[Any] = [list(part) for part in zip(*kept[score], strict=True)]
        values, lows, highs, truth_of, present, centres = columns
        usable = np.ones(samples, bool)
        if score in NEEDS_LABELS:
            usable = np.logical_and.reduce(present) & all(min(counts_of(name, limit)) for name in COUNTS)
        truth_mean = float(np.mean(truth_of))
        biased = score in ("ECE-1", "entropy of mean", "posterior bias")
        highest = {
            "entropy of mean": float(np.mean([math.log(len(counts[0])) for counts in COUNTS.values()])),
            "posterior bias": math.inf,
        }.get(score, 1.0)
        start, end = mean_interval(values, lows, highs, centres if biased else None, highest)
        inside = (start <= truth_mean + 1e-9) & (truth_mean - 1e-9 <= end)
        yield cell(inside[usable], samples, score=score, dataset="mean", limit=limit, model=name, events=total)


def consistency_cells(limit: int, name: str, samples: int) -> Iterator[dict[str, Any]]:
    """Consistency over 9 and 8 conditions; row values are the shares of the most frequent prediction."""
    for conditions in (8, 9):
        for target in (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999):
            for near in NEAR:
                draw = np.random.default_rng([samples, limit, conditions, int(1000 * target), int(100 * near)])
                # a row is unstable with probability u; then 1 to 4 conditions differ
                steps = np.array([1, 2, 3, 4])
                chances = np.array([0.5, 0.25, 0.15, 0.1])
                u = min(1.0, (1 - target) * near / ((steps * chances).sum() / conditions))
                off = np.where(
                    draw.random((samples, limit)) < u, draw.choice(steps, p=chances, size=(samples, limit)), 0
                )
                truth = 1 - u * (steps * chances).sum() / conditions
                q = library.student_quantile(LEVEL, limit)
                value, below, above, _, _ = ratio_part(1 - off / conditions, np.ones((samples, limit)), q)
                inside = (value - below <= truth + 1e-9) & (truth - 1e-9 <= value + above)
                about = {"score": "consistency", "dataset": f"{conditions} conditions", "limit": limit}
                yield cell(inside, samples, **about, model=f"{target} x {near}", events=limit * min(u, 1 - u))


def micro_f1_cells(limit: int, name: str, samples: int) -> Iterator[dict[str, Any]]:
    """Micro F1 of items with several gold labels, as in LongICL."""
    for quality in (0.002, 0.02, 0.1, 0.3, 0.6, 0.9, 0.99):
        for near in NEAR:
            draw = np.random.default_rng([samples, limit, int(1000 * quality), int(100 * near)])

            def draw_items(count: int, rate: float, draw: Any = draw) -> tuple[Array, Array]:
                gold = 1 + draw.poisson(1.5, size=(count, limit))
                skill = draw.beta(5 * rate, 5 * (1 - rate), size=(count, limit))
                correct = draw.binomial(gold, skill)
                return 2.0 * correct, gold + correct + draw.binomial(gold - correct, 0.7)

            rate = quality * near if quality < 0.5 else 1 - (1 - quality) * near
            hits, sizes = draw_items(500_000 // limit, rate)
            truth = hits.sum() / sizes.sum()
            q = library.student_quantile(LEVEL, limit)
            value, below, above, _, _ = ratio_part(*draw_items(samples, rate), q)
            inside = (value - below <= truth) & (truth <= value + above)
            about = {"score": "micro F1", "dataset": "items with several labels", "limit": limit}
            yield cell(inside, samples, **about, model=f"{quality} x {near}", events=limit * min(truth, 1 - truth))


def slope_cells(limit: int, name: str, samples: int) -> Iterator[dict[str, Any]]:
    """Slopes of the metrics over five conditions, whose rows share their difficulty."""
    weights = [0.4, 0.2, 0.0, -0.2, -0.4]
    for dataset in ("GLUE-SST2", "financial_phrasebank", "AGNews"):
        counts = counts_of(dataset, limit)
        prior = np.array(counts) / sum(counts)
        for accuracy, drop in ((0.6, 0.02), (0.8, 0.0), (0.95, 0.05), (0.99, 0.005)):
            draw = np.random.default_rng([samples, limit, len(prior), int(1000 * accuracy)])
            q, inside_of = library.student_quantile(LEVEL, limit), {}
            models = [(accuracy - step * drop, False, "over", 0.5, 0, 2, 1.0) for step in range(5)]
            true_parts = [truths(counts, model) for model in models]
            for size in chunks(samples, 2 * limit):
                state = draw.integers(2**31)
                each = []
                for model in models:  # the same stream: rows and difficulties are nearly the same
                    run = simulate(np.random.default_rng(state), prior, model, size, limit)
                    each.append(sums(*run, len(prior)))
                parts = {
                    "accuracy": [ratio_part(one["correct"], one["queries"], q) for one in each],
                    "macro F1": [macro_part(one["hits"], one["sizes"], q) for one in each],
                    "likelihood": [
                        likelihood_part(one["lik"], one["correct"], one["of_correct"], one["queries"], q)
                        for one in each
                    ],
                    "ECE-1": [
                        calibration_part(one["bin_hits"], one["bin_sizes"], one["excess"], one["queries"], q)
                        for one in each
                    ],
                }
                for score, found in parts.items():
                    value, below, above, _, _ = combine([of_difference(part, q) for part in found], weights)
                    truth = sum(w * part[score] for w, part in zip(weights, true_parts, strict=True))
                    inside = (value - below <= truth + 1e-9) & (truth - 1e-9 <= value + above)
                    if score != "macro F1" or min(counts) >= library.LEAST_ROWS:
                        inside_of.setdefault(score, []).append(inside)
            for score in parts:
                inside = np.concatenate(inside_of.get(score, [np.zeros(0, bool)]))
                about = {
                    "score": f"slope of {score}",
                    "dataset": dataset,
                    "limit": limit,
                    "model": f"{accuracy} {drop}",
                }
                yield cell(inside, samples, **about, events=limit * min(accuracy - 4 * drop, 1 - accuracy))


# --- agreement with the library -----------------------------------------------------------------------------------


def check() -> float:
    """Largest difference between the functions above and those of the library, over random samples."""
    worst = 0.0
    for seed, counts in enumerate(limits[-1] for limits in COUNTS.values()):
        prior = np.array(counts) / sum(counts)
        for name, model in list(MODELS.items())[seed % 2 :: 2]:
            draw = np.random.default_rng([seed, len(name)])
            rows = (20, 50)[seed % 2]
            q = library.student_quantile(LEVEL, rows)
            run = sums(*simulate(draw, prior, model, 3, rows), len(prior))
            many = scored(run, q)
            for place in range(3):
                at = lambda values, place=place: [list(map(float, one[place])) for one in values]  # noqa: E731
                queries = list(map(float, run["queries"][place]))
                parts = {
                    "accuracy": library.ratio_part(list(run["correct"][place]), queries, LEVEL),
                    "macro F1": library.macro_part(at(run["hits"]), at(run["sizes"]), LEVEL),
                    "likelihood": library.likelihood_part(
                        list(run["lik"][place]),
                        list(run["correct"][place]),
                        list(run["of_correct"][place]),
                        queries,
                        LEVEL,
                    ),
                    "ECE-1": library.calibration_part(
                        at(run["bin_hits"]), at(run["bin_sizes"]), at(run["excess"]), queries, LEVEL
                    ),
                    "mean entropy": library.ratio_part(list(run["entropy"][place]), queries, LEVEL, continuous=True),
                }
                for score, part in parts.items():
                    interval = part.interval(LEVEL, "")
                    worst = max(
                        worst, abs(interval.low - many[score][1][place]), abs(interval.high - many[score][2][place])
                    )
                probabilities = [list(row) for row in zip(*at(run["probabilities"]), strict=True)]
                one = library.divergence_interval(probabilities, None, queries, LEVEL)
                low, high = (math.log(len(prior)) - many["entropy of mean"][end][place] for end in (2, 1))
                worst = max(worst, abs(one.low - low), abs(one.high - high))
                if run["rows of labels"][place].min() > 0:
                    labels = [list(row) for row in zip(*at(run["counts"]), strict=True)]
                    one = library.divergence_interval(probabilities, labels, queries, LEVEL)
                    worst = max(worst, abs(one.low - many["posterior bias"][1][place]))
                    worst = max(worst, abs(one.high - many["posterior bias"][2][place]))
    return worst


def table(lines: list[dict[str, Any]]) -> str:
    """The lowest and the median coverage of all cells of a score, by limit."""
    cells: dict[str, dict[int, list[float]]] = {}
    for line in lines:
        name = f"mean of {line['score']}" if line["dataset"] == "mean" else line["score"]
        rates = cells.setdefault(name, {limit: [] for limit in LIMITS})[line["limit"]]
        rates += [] if line["coverage"] is None else [line["coverage"]]
    out = ["| score | " + " | ".join(f"{limit} rows" for limit in LIMITS) + " |", "|---" * (1 + len(LIMITS)) + "|"]
    for name, by_limit in sorted(cells.items()):
        shown = [
            f"{min(rates):.3f}, {np.median(rates):.3f} ({len(rates)})" if rates else "-" for rates in by_limit.values()
        ]
        out.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--samples", type=int, default=4000, help="repetitions of a cell")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="number of this process, and of all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.check:
        print(f"largest difference to the library: {check():.2e}")
        return
    lines = [json.loads(line) for line in args.output.read_text().splitlines()] if args.output.exists() else []
    if args.table:
        print(table(lines))
        return
    done = {(line["job"], line["limit"]) for line in lines}
    jobs: list[tuple[str, int, Any]] = []
    for limit in LIMITS:
        jobs += [("consistency", limit, consistency_cells), ("micro F1", limit, micro_f1_cells)]
    jobs += [(name, limit, classification_cells) for limit in LIMITS for name in reversed(MODELS)]
    jobs += [("slopes", limit, slope_cells) for limit in LIMITS]
    for name, limit, function in jobs[args.part[0] :: args.part[1]]:
        if (name, limit) in done:
            continue
        found = list(function(limit, name, args.samples))
        if any(one["coverage"] is not None and one["coverage"] < LOW for one in found):
            again = function(limit, name, 4 * args.samples)
            found = [
                other if one["coverage"] is not None and one["coverage"] < LOW else one
                for one, other in zip(found, again, strict=True)
            ]
        with args.output.open("a") as file:
            file.writelines(json.dumps({"job": name, **one}) + "\n" for one in found)
        worst = min((one["coverage"] for one in found if one["coverage"] is not None), default=None)
        print(name, limit, "lowest coverage", worst, flush=True)


if __name__ == "__main__":
    main()
