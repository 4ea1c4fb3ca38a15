"""``compare``: type I error, power, coverage, share of untested pairs, and error of non-inferiority.

In an environment that has NumPy::

    python tests/performance/comparison.py [--samples 4000] [--cells equal] [--match TEXT] [--resume FILE]

Simulated runs: a test row has a true label and a score for each label, which both runs and all repeats share; each run
and each repeat adds noise of its own, and the softmax is the prediction. Nulls: "equal" runs are exchangeable;
"similar" ones also copy nine of ten rows; "mirror" runs have the same scores but biases towards opposite labels; runs
of LongICL may have the same F1 with other numbers of predicted labels. "skewed" are the pairs of ``skewed_nulls.py``.
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
from typing import Any

import numpy as np
from records import arguments, record, resumed
from skewed_nulls import NULLS, SLOPE, of_pair

from StaICC.metrics.paired_tests import (
    Contributions,
    PairedDifference,
    detectable_difference,
    difference_interval,
    holm,
    mean_difference,
    of_calibration_error,
    of_divergence,
    of_entropy,
    of_f1,
    of_macro_f1,
    of_mean,
    p_value,
    paired_difference,
    too_few_rows,
    upper_p_value,
)

Array = np.ndarray[Any, Any]
Differences = Mapping[str, PairedDifference]
PRIORS = {2: (0.5, 0.5), 3: (0.28, 0.59, 0.13), 4: (0.87, 0.11, 0.015, 0.005), 6: (0.22, 0.2, 0.2, 0.19, 0.17, 0.02)}
MARGIN = 0.01
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
    scale: float = 1.5
    copied: float = 0.0
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
        for gain, tilt in zip(self.gains, (self.bias, -self.bias), strict=True):
            own = draw.normal(size=(rows, 1, self.labels)) * self.noise
            own = own + draw.normal(size=(rows, self.repeats, self.labels)) * 0.5
            lean = np.zeros(self.labels)
            lean[0], lean[1] = tilt, -tilt
            made.append(softmax(self.scale * (gain * right + shared + own + lean)))
        made[1] = np.where(draw.random((rows, 1, 1)) < self.copied, made[0], made[1])
        return truth, made

    def slope(self, draw: Any, rows: int) -> PairedDifference:
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
        return paired_difference(*found)

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
            "macro F1": of_pair(of_macro_f1(true, guesses[0], guesses[1], place, rows, self.labels)),
            "ECE-1": of_pair([of_calibration_error(true, run, place, rows) for run in lists]),
            "entropy": of_pair([of_entropy(run, place, rows) for run in lists]),
            "contextual bias": of_pair([of_mean(run, place, rows, (-most, 0.0)) for run in entropies]),
            "DL div.": of_pair([of_divergence(true, run, place, rows) for run in lists]),
            "slope": self.slope(draw, rows),
        }
        if self.repeats > 1:
            modes = [[float(np.bincount(one).max() / self.repeats) for one in run.argmax(2)] for run in pair]
            ends = (-(-self.repeats // self.labels) / self.repeats, 1.0)
            found["consistency"] = of_pair([of_mean(run, range(rows), rows, ends) for run in modes])
        return {name: steps for name, steps in found.items() if math.isfinite(steps.difference)}


def long_icl(draw: Any, shape: str, rows: int, rates: Any) -> PairedDifference:
    """The difference of two micro F1 scores; rates: by run how often a label is predicted, and is then correct."""
    gold = draw.integers(1, 5, rows) if shape == "few_nerd" else np.ones(rows, int)
    hard = draw.random((rows, gold.max()))
    parts = []
    for answered, right in rates:
        mask = np.arange(gold.max()) < gold[:, None]
        named = (draw.random((rows, gold.max())) < answered) & mask
        ease = np.where(draw.random((rows, gold.max())) < 0.7, hard, draw.random((rows, gold.max())))
        correct = (named & (ease < right)).sum(1)
        extra = draw.poisson(0.3, rows) if shape == "few_nerd" else 0
        parts.append([(float(c), float(s)) for c, s in zip(correct, gold + named.sum(1) + extra, strict=True)])
    return of_pair(of_f1(parts[0], parts[1], (4.0, 100.0) if shape == "few_nerd" else (1.0, 1.0)))


def tilted(draw: Any, rows: int, shares: dict[float, float], difference: float) -> PairedDifference:
    """Steps of given sizes (by share of the rows) with random signs, and a given true difference."""
    mean = sum(size * share for size, share in shares.items())
    counts = draw.multinomial(rows, [*shares.values(), 1 - sum(shares.values())])
    steps: list[float] = []
    for size, count in zip(shares, counts, strict=False):
        ahead = draw.binomial(count, (1 + difference / mean) / 2)
        steps += [size / rows] * ahead + [-size / rows] * (count - ahead)
    steps += [0.0] * (rows - len(steps))
    return PairedDifference(math.fsum(steps), 0.0, steps, -1 / rows, 1 / rows, 1.0)


# -- cells


def tally(pairs: Iterable[Differences], truth: Mapping[str, float] = {}) -> dict[str, Any]:
    """Shares of rejected and of untested pairs, of intervals that cover, and the mean detectable difference."""
    counts: dict[str, Counter[str]] = {}
    for differences in pairs:
        for name, steps in differences.items():
            count = counts.setdefault(name, Counter())
            untested, stated = too_few_rows(steps) is not None, detectable_difference(steps)
            count.update(n=1, untested=untested, rejected=not untested and p_value(steps) <= 0.05)
            if name in truth:
                interval = difference_interval(steps)
                count["covered"] += interval is None or interval.low <= truth[name] <= interval.high
            if stated is not None:
                count.update(stated=1, detectable=stated)  # type: ignore[call-overload]
    return {
        name: {
            key: round(value / count["stated" if key == "detectable" else "n"], 4)
            for key, value in count.items()
            if key != "n"
        }
        for name, count in counts.items()
    }


Cells = Iterator[tuple[str, Callable[[], dict[str, Any]]]]


def of_models(samples: int, key: Any, pair: Pair, rows: int, with_truth: bool = False) -> dict[str, Any]:
    """A cell of simulated models; the true difference is that of 100,000 rows."""
    draw = seeded(key, rows)
    known = pair.differences(draw, 100_000) if with_truth else {}
    truth = {name: steps.difference for name, steps in known.items()}
    return tally((pair.differences(draw, rows) for _ in range(samples)), truth)


def equal(samples: int) -> Cells:
    """Type I error and coverage where both runs have the same true score."""
    for kind, pair, sizes in (
        ("equal", Pair(2, 1), (20, 128)),
        ("equal", Pair(2), (20, 512)),
        ("equal", Pair(6), (20, 128, 512)),
        ("equal", Pair(4), (20, 128)),
        ("mirror", Pair(2, bias=1.0), (20, 128, 512)),
        ("similar", Pair(4, copied=0.9), (20, 128, 512)),
        ("similar", Pair(3, copied=0.9), (50, 512)),
    ):
        for rows in sizes:
            name = f"{kind}: {pair.labels} labels, {rows} rows x {pair.repeats}"
            yield name, partial(of_models, samples, kind, pair, rows)


def skewed(samples: int) -> Cells:
    """Type I error on pairs whose rare rows are missing in most samples."""

    def cell(name: str, rows: int) -> dict[str, Any]:
        draw = seeded(name, rows)
        return tally({name: NULLS[name](draw, rows)} for _ in range(samples))

    for name in NULLS:
        for rows in SIZES:
            yield f"skewed: {name}, {rows} rows", partial(cell, name, rows)


def ordinary(samples: int) -> Cells:
    """Power on two ordinary models, of which one is better."""
    settings = ((2, 2.0, 50), (2, 2.0, 128), (2, 1.8, 512), (6, 1.9, 50), (6, 1.9, 128), (6, 1.7, 512))
    for labels, better, rows in settings:
        pair = Pair(labels, gains=(better, 1.5), bias=0.3)
        name = f"ordinary: {labels} labels, gains {better} and 1.5, {rows} rows"
        yield name, partial(of_models, samples, "ordinary", pair, rows)


def unequal(samples: int) -> Cells:
    """Coverage where one run is better."""
    for pair in (
        Pair(2, gains=(2.5, 1.5), bias=0.3, scale=1.0),
        Pair(6, gains=(3.5, 1.5), bias=0.3, scale=1.0),
        Pair(2, gains=(5.0, 1.0), bias=0.3, scale=2.0),
        Pair(3, gains=(2.0, 1.0), bias=0.3, scale=3.0),
    ):
        for rows in (20, 128, 512) if pair.labels != 2 else (20, 128):
            name = f"unequal: {pair.labels} labels, {pair.gains}, {rows} rows"
            yield name, partial(of_models, samples, "unequal", pair, rows, with_truth=True)


def shapes(samples: int) -> Cells:
    """Micro F1 of LongICL: the same F1 with other numbers of predicted labels."""

    def cell(shape: str, rates: Any, rows: int) -> dict[str, Any]:
        draw = seeded(shape, rates, rows)
        for _ in range(2 if rates[0] != rates[1] else 0):  # the accuracy at which the second run has the same F1
            large = long_icl(draw, shape, 400_000, rates)
            rates = (rates[0], (rates[1][0], rates[1][1] * large.first / large.second))
        return tally({"micro F1": long_icl(draw, shape, rows, rates)} for _ in range(samples))

    for shape, rates in (
        ("tacred", ((1.0, 0.5), (1.0, 0.5))),
        ("tacred", ((0.5, 2 / 3 * 1.0), (1.0, 0.5))),
        ("tacred", ((1.0, 0.05), (1.0, 0.05))),
        ("few_nerd", ((0.8, 0.6), (0.8, 0.6))),
        ("few_nerd", ((0.5, 0.9), (0.9, 0.6))),
    ):
        for rows in (50, 500):
            yield f"{shape}: {rates}, {rows} rows", partial(cell, shape, rates, rows)


def families(samples: int) -> Cells:
    """Ten data sets: any false alarm among them after Holm's correction, and the mean."""

    def family(draw: Any, rows: int) -> list[PairedDifference]:
        found = []
        for labels in (2, 2, 3, 6, 6, 4, 2, 4, 2, 4):
            latent = draw.random((rows, 1)) < 0.5
            easy = np.where(latent, draw.random((rows, 1)), draw.random((rows, 2)))
            own = (np.where(draw.random((rows, 2)) < 0.6, easy, draw.random((rows, 2))) for _run in (0, 1))
            hits = [(run < 1.2 / labels**0.5).ravel().astype(float).tolist() for run in own]
            found.append(of_pair([of_mean(run, np.repeat(np.arange(rows), 2).tolist(), rows) for run in hits]))
        return found

    def cell(rows: int) -> dict[str, Any]:
        draw = seeded("family", rows)
        drawn = [family(draw, rows) for _ in range(samples)]
        alarms = sum(min(filter(None, holm(list(map(p_value, found))))) <= 0.05 for found in drawn)
        means = tally({"mean": mean_difference(found)} for found in drawn)
        return {"any of ten (Holm)": {"rejected": round(alarms / samples, 4)}, **means}

    for rows in (20, 128, 512):
        yield f"ten data sets, {rows} rows x 2", partial(cell, rows)


def power(samples: int) -> Cells:
    """Power where the true difference is the one that such samples state."""

    def cell(make: Callable[[Any, float], PairedDifference], name: str) -> dict[str, Any]:
        draw, true = seeded(name), 0.0
        for _ in range(5):
            stated = [detectable_difference(make(draw, true)) for _ in range(300)]
            true = float(np.mean([one for one in stated if one is not None]))
        return {**tally(({"power": make(draw, true)} for _ in range(samples)), {"power": true}), "true": round(true, 4)}

    def likelihood(draw: Any, true: float, rows: int) -> PairedDifference:
        steps = (draw.laplace(size=rows) * 0.2 + true) / rows
        return PairedDifference(float(steps.sum()), 0.0, steps.tolist(), -1 / rows, 1 / rows, 1.0)

    def micro_f1(draw: Any, true: float, rows: int) -> PairedDifference:
        return long_icl(draw, "tacred", rows, ((0.7, (2 * 0.7 * 0.5 / 1.7 + true) * 1.7 / 1.4), (0.7, 0.5)))

    def ten(draw: Any, true: float) -> PairedDifference:
        return mean_difference([tilted(draw, 100 + 40 * n, {1.0: 0.1, 0.5: 0.1}, true) for n in range(10)])

    makers: dict[str, Callable[[Any, float], PairedDifference]] = {"mean of ten data sets": ten}
    for rows, share in ((50, 0.6), (128, 0.25), (128, 0.5), (512, 0.06), (512, 0.1), (512, 0.25), (5120, 0.15)):
        for half in (0.0, 0.5):
            sizes = {1.0: share * (1 - half), 0.5: share * half}
            makers[f"accuracy, {rows} rows, {share} differ, {half} of them in one repeat"] = (
                lambda draw, true, rows=rows, sizes=sizes: tilted(draw, rows, sizes, true)
            )
    for rows in (50, 128, 512):
        makers[f"likelihood, {rows} rows"] = partial(likelihood, rows=rows)
    for rows in (128, 500):
        makers[f"micro F1, {rows} rows"] = partial(micro_f1, rows=rows)
    for name, make in makers.items():
        yield f"power: {name}", partial(cell, make, name)


def margins(samples: int) -> Cells:
    """How often a run that is worse by exactly the margin is called not worse."""

    def cell(rows: int, share: float, half: float) -> dict[str, Any]:
        draw, sizes = seeded("margin", rows, share, half), {1.0: share * (1 - half), 0.5: share * half}
        wrong = sum(upper_p_value(tilted(draw, rows, sizes, -MARGIN), -MARGIN) <= 0.025 for _ in range(samples))
        return {"non-inferiority": {"rejected": round(wrong / samples, 4)}}

    sizes = ((50, 0.3), (128, 0.1), (128, 0.4), (512, 0.03), (512, 0.1), (512, 0.4), (5120, 0.05), (5120, 0.2))
    for rows, share in sizes:
        for half in (0.0, 0.5):
            name = f"margin: {rows} rows, {share} differ, {half} of them in one repeat"
            yield name, partial(cell, rows, share, half)


PARTS = {part.__name__: part for part in (skewed, ordinary, equal, unequal, shapes, families, power, margins)}


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 4000, "--cells": list(PARTS), "--match": "", "--resume": Path})
    cells = [cell for part in options.cells for cell in PARTS[part](options.samples)]
    done = resumed(options.resume, [(name, cell) for name, cell in cells if options.match in name])
    record(__file__, done, {"samples": options.samples})
