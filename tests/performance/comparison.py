"""``compare``: type I error, power and share of untested pairs.

In an environment that has NumPy::

    python tests/performance/comparison.py [--samples 4000] [--cells ordinary] [--match TEXT] [--resume FILE]

Simulated runs: a test row has a true label and a score for each label, which both runs and all repeats share; each run
and each repeat adds noise of its own, and the softmax is the prediction. "skewed" are the pairs of
``skewed_nulls.py``, which have the same true score; "further" and "unequal" are others of this kind.
The interval has the differences that the test does not reject, so its coverage is one minus the type I error. A line is
written for each cell, as JSON; with ``--resume`` cells that the file has are not repeated.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from records import arguments, record, resumed
from skewed_nulls import (
    FURTHER_NULLS,
    NULLS,
    SLOPE,
    UNEQUAL_NULLS,
    Null,
    contributions_to_mean,
    difference_by_score,
    difference_of_contributions,
)

from StaICC.metrics import paired_tests as paired
from StaICC.metrics.statistics import Contributions

Array = np.ndarray[Any, Any]
Differences = Mapping[str, paired.PairedDifference]
PRIORS = {2: (0.5, 0.5), 3: (0.28, 0.59, 0.13), 4: (0.87, 0.11, 0.015, 0.005), 6: (0.22, 0.2, 0.2, 0.19, 0.17, 0.02)}
SIZES = (20, 50, 100, 128, 256, 512)


def seeded(*key: Any) -> Any:
    """Return a generator of random numbers that the key decides."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


# -- simulated pairs of runs


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class Rows(NamedTuple):
    """Test rows as both runs have them."""

    truth: Array
    """True label of each row."""
    one_hot: Array
    """Rows x 1 x labels: 1 at the true label."""
    shared: Array
    """Rows x 1 x labels: the part of the scores that the runs share."""


@dataclass(frozen=True)
class Pair:
    """Two models, which differ in how far they raise the score of the true label."""

    labels: int
    repeats: int = 2
    gains: tuple[float, float] = (1.5, 1.5)
    bias: float = 0.0
    """How much the first run prefers the first label to the second one; the second run prefers the second label."""
    only_first_is_biased: bool = False
    scale: float = 1.5
    noise: float = 0.7

    def draw_rows(self, draw: Any, n_rows: int) -> Rows:
        prior = np.array(PRIORS[self.labels])
        truth = draw.choice(self.labels, n_rows, p=prior / prior.sum())
        one_hot = np.eye(self.labels)[truth][:, np.newaxis, :]
        return Rows(truth, one_hot, shared=draw.normal(size=(n_rows, 1, self.labels)))

    def draw_noise_of_rows(self, draw: Any, n_rows: int) -> Array:
        """Draw the part of the scores that the repeats of a row share, but not the other run."""
        return draw.normal(size=(n_rows, 1, self.labels)) * self.noise

    def draw_noise_of_queries(self, draw: Any, n_rows: int) -> Array:
        return draw.normal(size=(n_rows, self.repeats, self.labels)) * 0.5

    def draw_runs(self, draw: Any, n_rows: int) -> tuple[Array, list[Array]]:
        """Draw the true label of each row, and for each run the probabilities by row, repeat and label."""
        rows = self.draw_rows(draw, n_rows)
        bias_of_second = 0.0 if self.only_first_is_biased else -self.bias
        runs = []
        for gain, bias in zip(self.gains, (self.bias, bias_of_second), strict=True):
            own = self.draw_noise_of_rows(draw, n_rows) + self.draw_noise_of_queries(draw, n_rows)
            bias_of_labels = np.zeros(self.labels)
            bias_of_labels[0] = bias
            bias_of_labels[1] = -bias
            runs.append(softmax(self.scale * (gain * rows.one_hot + rows.shared + own + bias_of_labels)))
        draw.random((n_rows, 1, 1))  # the published figures come from these draws
        return rows.truth, runs

    def slope(self, draw: Any, n_rows: int) -> paired.PairedDifference:
        """Return the difference of two slopes of accuracy over five shares of correct labels, on the same rows."""
        rows = self.draw_rows(draw, n_rows)
        noise_of_runs = [self.draw_noise_of_rows(draw, n_rows) for _ in self.gains]
        row_of_query = np.repeat(np.arange(n_rows), self.repeats).tolist()
        contributions: tuple[list[tuple[float, Contributions]], ...] = ([], [])
        for condition, weight in enumerate(SLOPE):
            remaining_gain = 1 - 0.15 * condition
            for run, gain in enumerate(self.gains):
                own = self.draw_noise_of_queries(draw, n_rows)
                scores = gain * remaining_gain * rows.one_hot + rows.shared + noise_of_runs[run] + own
                is_correct = scores.argmax(2) == rows.truth[:, np.newaxis]
                hits = is_correct.ravel().astype(float).tolist()
                contributions[run].append((weight, contributions_to_mean(hits, row_of_query, n_rows)))
        return paired.paired_difference(*contributions)

    def differences(self, draw: Any, n_rows: int) -> Differences:
        """Return the difference by each metric of Normal, of the bias benchmarks and of GLER.

        Infinite ones are left out.
        """
        truth_of_rows, runs = self.draw_runs(draw, n_rows)
        row_of_query = np.repeat(np.arange(n_rows), self.repeats).tolist()
        truth = np.repeat(truth_of_rows, self.repeats)
        queries = np.arange(len(truth))
        hits, likelihoods, entropies = [], [], []
        labels, probabilities = [], []
        for run in runs:
            of_queries = run.reshape(-1, self.labels)
            predicted = of_queries.argmax(1)
            labels.append(predicted.tolist())
            probabilities.append(of_queries.tolist())
            hits.append((predicted == truth).astype(float).tolist())
            likelihoods.append(of_queries[queries, truth].tolist())
            entropies.append((of_queries * np.log(of_queries)).sum(1).tolist())  # negated, as in contextual bias

        def by_mean(scores: list[Any], score_range: tuple[float, float] = (0.0, 1.0)) -> paired.PairedDifference:
            of_runs = [contributions_to_mean(of_run, row_of_query, n_rows, score_range) for of_run in scores]
            return difference_of_contributions(of_runs)

        def by_score(key: str, predictions: list[Any], n_labels: int = 2) -> paired.PairedDifference:
            return difference_by_score(key, truth.tolist(), predictions, row_of_query, n_rows, n_labels)

        differences = {
            "accuracy": by_mean(hits),
            "likelihood": by_mean(likelihoods),
            "macro F1": by_score("macro_F1", labels, self.labels),
            "ECE-1": by_score("expected_calibration_error_1", probabilities),
            "entropy": by_score("entropy", probabilities),
            "contextual bias": by_mean(entropies, (-math.log(self.labels), 0.0)),
            "DL div.": by_score("DL div.", probabilities),
            "slope": self.slope(draw, n_rows),
        }
        if self.repeats > 1:
            differences["consistency"] = self.consistency(runs, n_rows)
        return {name: found for name, found in differences.items() if math.isfinite(found.difference)}

    def consistency(self, runs: list[Array], n_rows: int) -> paired.PairedDifference:
        """Return the difference by the share of the repeats of a row that have its most frequent prediction."""
        least_count = math.ceil(self.repeats / self.labels)
        score_range = (least_count / self.repeats, 1.0)
        contributions = []
        for run in runs:
            shares = [float(np.bincount(labels).max() / self.repeats) for labels in run.argmax(2)]
            contributions.append(contributions_to_mean(shares, range(n_rows), n_rows, score_range))
        return difference_of_contributions(contributions)


# -- cells


class Verdict(NamedTuple):
    """What the test says of a pair."""

    is_untested: bool
    is_rejected: bool
    detectable: float | None
    """The detectable difference."""


_VERDICTS: dict[int, tuple[paired.PairedDifference, Verdict]] = {}
"""The verdicts of differences by their identity. The difference is kept, so that no other one gets its identity."""


def verdict_of(difference: paired.PairedDifference) -> Verdict:
    """Test a pair. An object that was tested before is not tested again: see the caches of ``skewed_nulls.py``."""
    if len(_VERDICTS) > 3000:
        _VERDICTS.clear()
    if id(difference) not in _VERDICTS:
        is_untested = paired.too_few_rows(difference) is not None
        is_rejected = not is_untested and paired.p_value(difference) <= 0.05
        verdict = Verdict(is_untested, is_rejected, paired.detectable_difference(difference))
        _VERDICTS[id(difference)] = difference, verdict
    _, verdict = _VERDICTS[id(difference)]
    return verdict


def shares_of(verdicts: list[Verdict]) -> dict[str, float]:
    """Return the shares of untested and of rejected pairs, and the mean of the detectable differences."""
    shares = {
        "untested": round(sum(verdict.is_untested for verdict in verdicts) / len(verdicts), 4),
        "rejected": round(sum(verdict.is_rejected for verdict in verdicts) / len(verdicts), 4),
    }
    detectable = [verdict.detectable for verdict in verdicts if verdict.detectable is not None]
    if detectable:
        shares["stated"] = round(len(detectable) / len(verdicts), 4)
        shares["detectable"] = round(sum(detectable) / len(detectable), 4)
    return shares


def tally(pairs: Iterable[Differences]) -> dict[str, Any]:
    """Test the differences of all pairs, and return the shares of verdicts for each metric."""
    verdicts: dict[str, list[Verdict]] = {}
    for differences in pairs:
        for metric, difference in differences.items():
            verdicts.setdefault(metric, []).append(verdict_of(difference))
    return {metric: shares_of(of_metric) for metric, of_metric in verdicts.items()}


Cells = Iterator[tuple[str, Callable[[], dict[str, Any]]]]


def cell_of_models(samples: int, key: Any, pair: Pair, n_rows: int) -> dict[str, Any]:
    draw = seeded(key, n_rows)
    return tally(pair.differences(draw, n_rows) for _ in range(samples))


def cell_of_null(samples: int, name: str, null: Null, n_rows: int) -> dict[str, Any]:
    draw = seeded(name, n_rows)
    return tally({name: null(draw, n_rows)} for _ in range(samples))


def cells_of_nulls(part: str, nulls: Mapping[str, Null], samples: int) -> Cells:
    """Yield a cell for each number of rows, and each kind of pairs with the same true score."""
    for n_rows in SIZES:
        for name, null in nulls.items():
            yield f"{part}: {name}, {n_rows} rows", partial(cell_of_null, samples, name, null, n_rows)


def skewed(samples: int) -> Cells:
    """Yield the type I errors on pairs whose rare rows are missing in most samples."""
    return cells_of_nulls("skewed", NULLS, samples)


def further(samples: int) -> Cells:
    """Yield the same for ten further pairs."""
    return cells_of_nulls("further", FURTHER_NULLS, samples)


def unequal(samples: int) -> Cells:
    """Yield the same for means of data sets of different sizes; the number of rows is that of the smallest one."""
    return cells_of_nulls("unequal", UNEQUAL_NULLS, samples)


def ordinary(samples: int) -> Cells:
    """Yield the power on two ordinary models, of which one is better."""
    settings = ((2, 2.0, 50), (2, 2.0, 128), (2, 1.8, 512), (6, 1.9, 50), (6, 1.9, 128), (6, 1.7, 512))
    for labels, better_gain, n_rows in settings:
        pair = Pair(labels, gains=(better_gain, 1.5), bias=0.3)
        name = f"ordinary: {labels} labels, gains {better_gain} and 1.5, {n_rows} rows"
        yield name, partial(cell_of_models, samples, "ordinary", pair, n_rows)


PARTS = {part.__name__: part for part in (skewed, further, unequal, ordinary)}


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 4000, "--cells": list(PARTS), "--match": "", "--resume": Path})
    cells = [cell for part in options.cells for cell in PARTS[part](options.samples)]
    done = resumed(options.resume, [(name, cell) for name, cell in cells if options.match in name])
    record(__file__, done, {"samples": options.samples})
