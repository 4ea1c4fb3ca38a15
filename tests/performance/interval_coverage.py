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
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from records import arguments, markdown, resumed

from StaICC import Normal
from StaICC.metrics import intervals as library
from StaICC.metrics.intervals import Interval

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
    data.triplet_dataset.dataset_name: [
        tuple(Counter(map(data.test_set().label, range(limit)))[label] for label in range(len(data.get_label_space())))
        for limit in LIMITS
    ]
    for data in Normal()
}
"""Test rows of each label in the ten data sets, at each of the limits."""


def counts_of(dataset: str, limit: int) -> tuple[int, ...]:
    return COUNTS[dataset][LIMITS.index(limit)]


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


# --- intervals of the library -------------------------------------------------------------------------------------

SCORES = ("accuracy", "macro F1", "likelihood", "ECE-1", "mean entropy", "entropy of mean", "posterior bias")
NEEDS_LABELS = ("macro F1", "posterior bias")


def parts_of(run: dict[str, Any], sample: int) -> dict[str, library.MetricTerm]:
    """The scores of a simulated run that are parts of sums, by the library."""
    row = {name: value[sample].tolist() for name, value in run.items() if not isinstance(value, list)}
    of = {name: [one[sample].tolist() for one in value] for name, value in run.items() if isinstance(value, list)}
    queries = row["queries"]
    bins = []
    for hits, bin_queries, errors in zip(of["bin_hits"], of["bin_sizes"], of["excess"], strict=True):
        if any(bin_queries):
            bins.append(library.BinRows(hits, bin_queries, errors))
    return {
        "accuracy": library.ratio_part(row["correct"], queries, LEVEL),
        "macro F1": library.macro_part(of["hits"], of["sizes"], LEVEL),
        "likelihood": library.likelihood_part(row["lik"], row["correct"], row["of_correct"], queries, LEVEL),
        "ECE-1": library.calibration_part(bins, queries, LEVEL),
        "mean entropy": library.ratio_part(row["entropy"], queries, LEVEL, continuous=True),
    }


def intervals_of(run: dict[str, Any], sample: int) -> dict[str, tuple[float, Interval]]:
    """Value and interval of each score of a simulated run; posterior bias only if each label has a row."""
    found = {name: (part.value, part.interval(LEVEL, "")) for name, part in parts_of(run, sample).items()}
    queries, width = run["queries"][sample].tolist(), len(run["counts"])
    probabilities, counts = (np.stack([one[sample] for one in run[key]]) for key in ("probabilities", "counts"))
    means, shares, top = probabilities.sum(1) / sum(queries), counts.sum(1) / sum(queries), math.log(width)
    uniform = library.divergence_interval(probabilities.tolist(), None, queries, LEVEL)
    ends = top - uniform.high, top - uniform.low
    found["entropy of mean"] = (
        float(-(means * np.log(means)).sum()),
        Interval(*ends, LEVEL, "", top - (uniform.centre or 0.0)),
    )
    if shares.min() > 0:
        divergence = library.divergence_interval(probabilities.tolist(), counts.tolist(), queries, LEVEL)
        found["posterior bias"] = float((means * np.log(means / shares)).sum()), divergence
    return found


def covers(interval: Interval, truth: float) -> bool:
    return bool(interval.low - 1e-9 <= truth <= interval.high + 1e-9)


# --- cells --------------------------------------------------------------------------------------------------------


def cell(covered: list[bool], samples: int, **about: Any) -> dict[str, Any]:
    """The record of a cell; `covered` has the samples for which an interval is reported."""
    coverage = sum(covered) / len(covered) if covered else None
    return {**about, "samples": samples, "reported": len(covered) / samples, "coverage": coverage}


def relative_width(found: list[tuple[float, Interval]]) -> float | None:
    """The median width of intervals over that of an interval with the true variance."""
    spread = float(np.std([value for value, _ in found])) if found else 0.0
    widths = [interval.high - interval.low for _, interval in found]
    return float(np.median(widths)) / (3.92 * spread) if spread > 1e-9 else None


def classification_cells(limit: int, samples: int, name: str) -> Iterator[dict[str, Any]]:
    """Coverage on each data set, and of the means over all ten."""
    model, truth_of, runs_of = MODELS[name], {}, {}
    for place, dataset in enumerate(COUNTS):
        counts = counts_of(dataset, limit)
        prior = np.array(counts) / sum(counts)
        draw = np.random.default_rng([samples, limit, sorted(MODELS).index(name), place])
        truth = truth_of[dataset] = truths(counts, model)
        runs = (sums(*simulate(draw, prior, model, 1, limit), len(prior)) for _ in range(samples))
        found = runs_of[dataset] = [intervals_of(run, 0) for run in runs]
        about = {"dataset": dataset, "limit": limit, "model": name}
        about["events"] = limit * min(truth["accuracy"], 1 - truth["accuracy"])
        for score in SCORES:
            reported = score not in NEEDS_LABELS or min(counts) >= library.LEAST_ROWS
            own = [scores[score] for scores in found if reported and score in scores]
            covered = [covers(interval, truth[score]) for _, interval in own]
            yield cell(covered, samples, score=score, width=relative_width(own), **about)
    for score in SCORES:
        highest = math.inf if score == "posterior bias" else 1.0
        if score == "entropy of mean":
            highest = float(np.mean([math.log(len(counts[0])) for counts in COUNTS.values()]))
        means, truth_mean = [], float(np.mean([truth[score] for truth in truth_of.values()]))
        for scores in zip(*runs_of.values(), strict=True):
            if score not in NEEDS_LABELS or all("posterior bias" in one for one in scores):
                values, intervals = zip(*(one[score] for one in scores), strict=True)
                ranges = [(0.0, highest)] * len(values)
                means.append((float(np.mean(values)), library.mean_interval(values, intervals, ranges)))
        if score in NEEDS_LABELS and not all(min(counts_of(dataset, limit)) for dataset in COUNTS):
            means = []
        about = {"score": score, "dataset": "mean", "limit": limit, "model": name, "width": relative_width(means)}
        yield cell([covers(interval, truth_mean) for _, interval in means], samples, **about, events=0.0)


def conditions(draw: Any, count: int, limit: int, target: float, near: float, of: int) -> tuple[Array, Array]:
    """Shares of the most frequent prediction of unstable rows, in which 1 to 4 conditions differ."""
    chances = np.array([0.5, 0.25, 0.15, 0.1])
    unstable = draw.random((count, limit)) < (1 - target) * near / ((np.arange(1, 5) * chances).sum() / of)
    off = np.where(unstable, draw.choice(4, p=chances, size=(count, limit)) + 1, 0)
    return 1 - off / of, np.ones((count, limit))


def items(draw: Any, count: int, limit: int, quality: float, near: float, rate: float) -> tuple[Array, Array]:
    """Correct labels of items with several gold labels, as in LongICL, and true plus predicted ones."""
    gold = 1 + draw.poisson(rate, size=(count, limit))
    own = quality * near if quality < 0.5 else 1 - (1 - quality) * near
    correct = draw.binomial(gold, draw.beta(5 * own, 5 * (1 - own), size=(count, limit)))
    return 2.0 * correct, gold + correct + draw.binomial(gold - correct, 0.7)


RATIOS: dict[str, tuple[Callable[..., tuple[Array, Array]], tuple[float, ...], tuple[float, ...]]] = {
    "consistency": (conditions, (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999), (8, 9)),
    "micro F1": (items, (0.002, 0.02, 0.1, 0.3, 0.6, 0.9, 0.99), (1.5,)),
}
"""Scores that are ratios of sums: how their rows are drawn, for which true scores, and in which settings."""


def ratio_cells(limit: int, samples: int, score: str) -> Iterator[dict[str, Any]]:
    """Coverage of a ratio of sums over rows; the truth is that of half a million rows."""
    draw_rows, targets, settings = RATIOS[score]
    for setting in settings:
        for target in targets:
            for near in NEAR:
                draw = np.random.default_rng([samples, limit, int(setting), int(1000 * target), int(100 * near)])
                hits, sizes = draw_rows(draw, 500_000 // limit, limit, target, near, setting)
                truth = float(hits.sum() / sizes.sum())
                rows = zip(*draw_rows(draw, samples, limit, target, near, setting), strict=True)
                parts = [library.ratio_part(list(own), list(size), LEVEL) for own, size in rows]
                about = {"score": score, "dataset": str(setting), "limit": limit, "model": f"{target} x {near}"}
                covered = [covers(part.interval(LEVEL, ""), truth) for part in parts]
                yield cell(covered, samples, **about, events=limit * min(truth, 1 - truth))


WEIGHTS = [0.4, 0.2, 0.0, -0.2, -0.4]


def slope(parts: list[library.MetricTerm]) -> Interval:
    """The interval of the slope over five conditions."""
    line = library.combine([library.of_difference(part, LEVEL) for part in parts], WEIGHTS)
    return Interval(line.value - line.below, line.value + line.above, LEVEL, "")


def slope_cells(limit: int, samples: int) -> Iterator[dict[str, Any]]:
    """Slopes of the metrics over five conditions, whose rows share their difficulty."""
    for dataset in ("GLUE-SST2", "financial_phrasebank", "AGNews"):
        counts = counts_of(dataset, limit)
        prior = np.array(counts) / sum(counts)
        for accuracy, drop in ((0.6, 0.02), (0.8, 0.0), (0.95, 0.05), (0.99, 0.005)):
            models = [(accuracy - step * drop, False, "over", 0.5, 0, 2, 1.0) for step in range(5)]
            true_parts = [truths(counts, model) for model in models]
            covered: dict[str, list[bool]] = {score: [] for score in SCORES[:4]}
            for sample in range(samples):
                seed = [sample, limit, len(prior), int(1000 * accuracy)]
                runs = [simulate(np.random.default_rng(seed), prior, model, 1, limit) for model in models]
                parts = [parts_of(sums(*run, len(prior)), 0) for run in runs]
                for score, inside in covered.items():
                    if score not in NEEDS_LABELS or min(counts) >= library.LEAST_ROWS:
                        truth = sum(w * part[score] for w, part in zip(WEIGHTS, true_parts, strict=True))
                        inside.append(covers(slope([of_run[score] for of_run in parts]), truth))
            for score, inside in covered.items():
                about = {"score": f"slope of {score}", "dataset": dataset, "limit": limit}
                events = limit * min(accuracy - 4 * drop, 1 - accuracy)
                yield cell(inside, samples, **about, model=f"{accuracy} {drop}", events=events)


def repeated(cells: Callable[..., Iterator[dict[str, Any]]], limit: int, samples: int, *more: str) -> list[Any]:
    """The cells of a job; those with a low coverage have four times the samples."""

    def low(of_cell: dict[str, Any]) -> bool:
        return of_cell["coverage"] is not None and of_cell["coverage"] < LOW

    found = list(cells(limit, samples, *more))
    again = cells(limit, 4 * samples, *more) if any(map(low, found)) else found
    return [other if low(one) else one for one, other in zip(found, again, strict=True)]


def table(lines: list[dict[str, Any]]) -> str:
    """The lowest and the median coverage of all cells of a score, and the median width, by limit."""
    widths: dict[tuple[str, int], list[float]] = {}
    cells: dict[str, dict[int, list[float]]] = {}
    for line in lines:
        name = f"mean of {line['score']}" if line["dataset"] == "mean" else line["score"]
        rates = cells.setdefault(name, {limit: [] for limit in LIMITS})[line["limit"]]
        rates += [] if line["coverage"] is None else [line["coverage"]]
        widths.setdefault((name, line["limit"]), []).extend([line["width"]] if line.get("width") else [])
    shown = []
    for name, by_limit in sorted(cells.items()):
        row = [f"{min(r):.3f}, {np.median(r):.3f} ({len(r)})" if r else "-" for r in by_limit.values()]
        medians = [np.median(own) if (own := widths.get((name, limit))) else math.nan for limit in by_limit]
        shown.append([name, *(f"{cell}, {width:.2f}" for cell, width in zip(row, medians, strict=True))])
    return markdown(["score", *(f"{limit} rows" for limit in LIMITS)], shown)


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 1000, "--part": [0, 1], "--resume": Path})
    jobs: list[tuple[str, Any]] = []
    for limit in LIMITS:
        at = (limit, options.samples)
        jobs += [(f"{score}, {limit}", partial(repeated, ratio_cells, *at, score)) for score in RATIOS]
        jobs += [(f"{name}, {limit}", partial(repeated, classification_cells, *at, name)) for name in reversed(MODELS)]
        jobs.append((f"slopes, {limit}", partial(repeated, slope_cells, *at)))
    done = resumed(options.resume, jobs[options.part[0] :: options.part[1]])
    print(table([line for lines in done.values() for line in lines]))
