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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from records import arguments, record, resumed
from skewed_nulls import FURTHER_NULLS, NULLS, SLOPE, UNEQUAL_NULLS, Null, of_mean, of_pair, of_score

from StaICC.metrics import paired_tests as paired
from StaICC.metrics.statistics import Contributions

Array = np.ndarray[Any, Any]
Differences = Mapping[str, paired.PairedDifference]
PRIORS = {2: (0.5, 0.5), 3: (0.28, 0.59, 0.13), 4: (0.87, 0.11, 0.015, 0.005), 6: (0.22, 0.2, 0.2, 0.19, 0.17, 0.02)}
SIZES = (20, 50, 100, 128, 256, 512)


def seeded(*key: Any) -> Any:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


# -- simulated pairs of runs


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


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

    def rows(self, draw: Any, rows: int) -> tuple[Array, Array, Array]:
        """True label of each row, its one-hot row, and the scores that both runs share."""
        prior = np.array(PRIORS[self.labels])
        truth = draw.choice(self.labels, rows, p=prior / prior.sum())
        return truth, np.eye(self.labels)[truth][:, None, :], draw.normal(size=(rows, 1, self.labels))

    def runs(self, draw: Any, rows: int) -> tuple[Array, list[Array]]:
        """True label of each row, and for each run probabilities by row, repeat and label."""
        truth, right, shared = self.rows(draw, rows)
        made = []
        bias_of_second = 0.0 if self.only_first_is_biased else -self.bias
        for gain, tilt in zip(self.gains, (self.bias, bias_of_second), strict=True):
            own = draw.normal(size=(rows, 1, self.labels)) * self.noise
            own = own + draw.normal(size=(rows, self.repeats, self.labels)) * 0.5
            lean = np.zeros(self.labels)
            lean[0], lean[1] = tilt, -tilt
            made.append(softmax(self.scale * (gain * right + shared + own + lean)))
        draw.random((rows, 1, 1))  # the published figures come from these draws
        return truth, made

    def slope(self, draw: Any, rows: int) -> paired.PairedDifference:
        """The difference of two slopes of accuracy over five shares of correct labels, on the same rows."""
        truth, right, shared = self.rows(draw, rows)
        own = [draw.normal(size=(rows, 1, self.labels)) * self.noise for _ in self.gains]
        place = np.repeat(np.arange(rows), self.repeats).tolist()
        found: tuple[list[tuple[float, Contributions]], ...] = ([], [])
        for step, weight in enumerate(SLOPE):
            for gain, mine, parts in zip(self.gains, own, found, strict=True):
                new = draw.normal(size=(rows, self.repeats, self.labels)) * 0.5
                scores = gain * (1 - 0.15 * step) * right + shared + mine + new
                hits = (scores.argmax(2) == truth[:, None]).ravel().astype(float).tolist()
                parts.append((weight, of_mean(hits, place, rows)))
        return paired.paired_difference(*found)

    def differences(self, draw: Any, rows: int) -> Differences:
        """The difference by each metric of Normal, of the bias benchmarks and of GLER; infinite ones are left out."""
        truth, pair = self.runs(draw, rows)
        place = np.repeat(np.arange(rows), self.repeats).tolist()
        true = np.repeat(truth, self.repeats).tolist()
        flat = [run.reshape(-1, self.labels) for run in pair]
        lists = [run.tolist() for run in flat]
        guesses = [run.argmax(1).tolist() for run in flat]
        hits = [[float(a == b) for a, b in zip(run, true, strict=True)] for run in guesses]
        likelihoods = [[row[label] for row, label in zip(run, true, strict=True)] for run in lists]
        entropies, most = [(run * np.log(run)).sum(1).tolist() for run in flat], math.log(self.labels)
        found = {
            "accuracy": of_pair([of_mean(run, place, rows) for run in hits]),
            "likelihood": of_pair([of_mean(run, place, rows) for run in likelihoods]),
            "macro F1": of_score("macro_F1", true, guesses, place, rows, self.labels),
            "ECE-1": of_score("expected_calibration_error_1", true, lists, place, rows),
            "entropy": of_score("entropy", true, lists, place, rows),
            "contextual bias": of_pair([of_mean(run, place, rows, (-most, 0.0)) for run in entropies]),
            "DL div.": of_score("DL div.", true, lists, place, rows),
            "slope": self.slope(draw, rows),
        }
        if self.repeats > 1:
            modes = [[float(np.bincount(one).max() / self.repeats) for one in run.argmax(2)] for run in pair]
            ends = (-(-self.repeats // self.labels) / self.repeats, 1.0)
            found["consistency"] = of_pair([of_mean(run, range(rows), rows, ends) for run in modes])
        return {name: steps for name, steps in found.items() if math.isfinite(steps.difference)}


# -- cells


class Verdict(NamedTuple):
    """What the test says of a pair."""

    untested: bool
    rejected: bool
    detectable: float | None


_VERDICTS: dict[int, tuple[paired.PairedDifference, Verdict]] = {}
"""The verdicts of differences by their identity. The difference is kept, so that no other one gets its identity."""


def verdict(steps: paired.PairedDifference) -> Verdict:
    """Test a pair; a difference that was tested before (:func:`skewed_nulls.of_sorted_rows`) is not tested again."""
    if len(_VERDICTS) > 3000:
        _VERDICTS.clear()
    if id(steps) not in _VERDICTS:
        untested = paired.too_few_rows(steps) is not None
        rejected = not untested and paired.p_value(steps) <= 0.05
        _VERDICTS[id(steps)] = steps, Verdict(untested, rejected, paired.detectable_difference(steps))
    return _VERDICTS[id(steps)][1]


def tally(pairs: Iterable[Differences]) -> dict[str, Any]:
    """Shares of rejected and of untested pairs, and the mean detectable difference."""
    counts: dict[str, Counter[str]] = {}
    for differences in pairs:
        for name, steps in differences.items():
            count = counts.setdefault(name, Counter())
            found = verdict(steps)
            count.update(n=1, untested=found.untested, rejected=found.rejected)
            if found.detectable is not None:
                count.update(stated=1, detectable=found.detectable)  # type: ignore[call-overload]
    return {
        name: {
            key: round(value / count["stated" if key == "detectable" else "n"], 4)
            for key, value in count.items()
            if key != "n"
        }
        for name, count in counts.items()
    }


Cells = Iterator[tuple[str, Callable[[], dict[str, Any]]]]


def of_models(samples: int, key: Any, pair: Pair, rows: int) -> dict[str, Any]:
    """A cell of simulated models."""
    draw = seeded(key, rows)
    return tally(pair.differences(draw, rows) for _ in range(samples))


def skewed(samples: int) -> Cells:
    """Type I error on pairs whose rare rows are missing in most samples."""
    return of_nulls("skewed", NULLS, samples)


def further(samples: int) -> Cells:
    """The same for ten further pairs."""
    return of_nulls("further", FURTHER_NULLS, samples)


def unequal(samples: int) -> Cells:
    """The same for means of data sets of different sizes; the number of rows is that of the smallest one."""
    return of_nulls("unequal", UNEQUAL_NULLS, samples)


def of_nulls(part: str, nulls: Mapping[str, Null], samples: int) -> Cells:
    """A cell for each kind of pairs with the same true score, and each number of rows."""

    def cell(name: str, rows: int) -> dict[str, Any]:
        draw = seeded(name, rows)
        return tally({name: nulls[name](draw, rows)} for _ in range(samples))

    for rows in SIZES:
        for name in nulls:
            yield f"{part}: {name}, {rows} rows", partial(cell, name, rows)


def ordinary(samples: int) -> Cells:
    """Power on two ordinary models, of which one is better."""
    settings = ((2, 2.0, 50), (2, 2.0, 128), (2, 1.8, 512), (6, 1.9, 50), (6, 1.9, 128), (6, 1.7, 512))
    for labels, better, rows in settings:
        pair = Pair(labels, gains=(better, 1.5), bias=0.3)
        name = f"ordinary: {labels} labels, gains {better} and 1.5, {rows} rows"
        yield name, partial(of_models, samples, "ordinary", pair, rows)


PARTS = {part.__name__: part for part in (skewed, further, unequal, ordinary)}


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 4000, "--cells": list(PARTS), "--match": "", "--resume": Path})
    cells = [cell for part in options.cells for cell in PARTS[part](options.samples)]
    done = resumed(options.resume, [(name, cell) for name, cell in cells if options.match in name])
    record(__file__, done, {"samples": options.samples})
