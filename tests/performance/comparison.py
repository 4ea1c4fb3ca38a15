"""``compare``: type I error, power, coverage, share of untested pairs, and error of non-inferiority.

Run with the repository on the path, in an environment that has NumPy::

    PYTHONPATH=. python tests/performance/comparison.py [--samples 4000] [--cells equal] [--resume FILE]

Simulated runs: a test row has a true label and a score for each label, which both runs and all repeats share; each run
and each repeat adds noise of its own, and the softmax is the prediction. Nulls: "equal" runs are exchangeable;
"similar" ones also copy nine of ten rows; "mirror" runs have the same scores but biases towards opposite labels; runs
of LongICL may have the same F1 with other numbers of predicted labels. "skewed" are the pairs of ``skewed_nulls.py``.
The interval has the differences that the test does not reject, so its coverage is one minus the type I error. A line is
written for each cell, as JSON; with ``--resume`` cells that the file has are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import record
from skewed_nulls import NULLS, SLOPE

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
PRIORS = {2: (0.5, 0.5), 3: (0.28, 0.59, 0.13), 4: (0.87, 0.11, 0.015, 0.005), 6: (0.22, 0.2, 0.2, 0.19, 0.17, 0.02)}
MARGIN = 0.01
SIZES = (20, 50, 100, 128, 256, 512)


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def runs(
    draw: Any,
    rows: int,
    labels: int,
    repeats: int,
    gains: tuple[float, float],
    bias: float,
    noise: float,
    scale: float,
    copied: float = 0.0,
) -> tuple[Array, list[Array]]:
    """True label of each row, and for each run probabilities by row, repeat and label."""
    truth = draw.choice(labels, rows, p=np.array(PRIORS[labels]) / sum(PRIORS[labels]))
    right = np.eye(labels)[truth][:, None, :]
    shared = draw.normal(size=(rows, 1, labels))
    made = []
    for gain, tilt in zip(gains, (bias, -bias), strict=True):
        own = draw.normal(size=(rows, 1, labels)) * noise + draw.normal(size=(rows, repeats, labels)) * 0.5
        lean = np.zeros(labels)
        lean[0], lean[1] = tilt, -tilt
        made.append(softmax(scale * (gain * right + shared + own + lean)))
    made[1] = np.where(draw.random((rows, 1, 1)) < copied, made[0], made[1])
    return truth, made


def both(parts: Any) -> PairedDifference:
    return paired_difference([(1.0, parts[0])], [(1.0, parts[1])])


def differences(truth: Array, pair: list[Array]) -> dict[str, PairedDifference]:
    """The difference by each metric of Normal and of the bias benchmarks."""
    rows, repeats, labels = pair[0].shape
    place = np.repeat(np.arange(rows), repeats).tolist()
    true = np.repeat(truth, repeats).tolist()
    flat = [run.reshape(-1, labels) for run in pair]
    lists = [run.tolist() for run in flat]
    guesses = [run.argmax(1).tolist() for run in flat]
    hits = [[float(a == b) for a, b in zip(run, true, strict=True)] for run in guesses]
    likelihoods = [[row[label] for row, label in zip(run, true, strict=True)] for run in lists]
    entropies, most = [(run * np.log(run)).sum(1).tolist() for run in flat], float(np.log(labels))
    modes = [[float(np.bincount(one).max() / repeats) for one in run.argmax(2)] for run in pair]
    least = -(-repeats // labels) / repeats
    return {
        "accuracy": both([of_mean(run, place, rows) for run in hits]),
        "likelihood": both([of_mean(run, place, rows) for run in likelihoods]),
        "macro F1": both(of_macro_f1(true, guesses[0], guesses[1], place, rows, labels)),
        "ECE-1": both([of_calibration_error(true, run, place, rows) for run in lists]),
        "entropy": both([of_entropy(run, place, rows) for run in lists]),
        "contextual bias": both([of_mean(run, place, rows, (-most, 0.0)) for run in entropies]),
        "DL div.": both([of_divergence(true, run, place, rows) for run in lists]),
        "consistency": both([of_mean(run, range(rows), rows, (least, 1.0)) for run in modes]),
    }


def slope(
    draw: Any, rows: int, labels: int, repeats: int, gains: tuple[float, float], noise: float
) -> PairedDifference:
    """The difference of two slopes of accuracy over five shares of correct labels, on the same rows."""
    truth = draw.choice(labels, rows, p=np.array(PRIORS[labels]) / sum(PRIORS[labels]))
    right = np.eye(labels)[truth][:, None, :]
    shared = draw.normal(size=(rows, 1, labels))
    own = [draw.normal(size=(rows, 1, labels)) * noise for _ in gains]
    place = np.repeat(np.arange(rows), repeats).tolist()
    found: tuple[list[tuple[float, Contributions]], list[tuple[float, Contributions]]] = ([], [])
    for step, weight in enumerate(SLOPE):
        for gain, mine, parts in zip(gains, own, found, strict=True):
            scores = gain * (1 - 0.15 * step) * right + shared + mine + draw.normal(size=(rows, repeats, labels)) * 0.5
            hits = (scores.argmax(2) == truth[:, None]).ravel().astype(float).tolist()
            parts.append((weight, of_mean(hits, place, rows)))
    return paired_difference(*found)


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
    return both(of_f1(parts[0], parts[1], (4.0, 100.0) if shape == "few_nerd" else (1.0, 1.0)))


class Tally:
    """Counts of rejections, of intervals that cover, and of stated differences."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, name: str, steps: PairedDifference, true: float | None = 0.0) -> None:
        one = self.counts[name]
        one["n"] += 1
        if too_few_rows(steps):
            one["untested"] += 1
        else:
            one["rejected"] += p_value(steps) <= 0.05
        if true:
            interval = difference_interval(steps)
            one["covered"] += interval is None or interval.low <= true <= interval.high
        stated = detectable_difference(steps)
        if stated is not None:
            one["stated"] += 1
            one["detectable"] += stated

    def summary(self) -> dict[str, dict[str, float]]:
        return {
            name: {
                key: round(value / (one["stated"] if key == "detectable" else one["n"]), 4)
                for key, value in one.items()
                if key != "n"
            }
            for name, one in self.counts.items()
        }


def equal(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Type I error and coverage where both runs have the same true score."""
    grid = {
        ("equal", 2, 1): (20, 128),
        ("equal", 2, 2): (20, 512),
        ("equal", 6, 2): (20, 128, 512),
        ("equal", 4, 2): (20, 128),
        ("mirror", 2, 2): (20, 128, 512),
        ("similar", 4, 2): (20, 128, 512),
        ("similar", 3, 2): (50, 512),
    }
    for (kind, labels, repeats), sizes in grid.items():
        for rows in sizes:
            bias = 1.0 if kind == "mirror" else 0.0
            copied = 0.9 if kind == "similar" else 0.0

            def cell(
                kind: str = kind,
                labels: int = labels,
                rows: int = rows,
                repeats: int = repeats,
                bias: float = bias,
                copied: float = copied,
            ) -> dict[str, Any]:
                draw = seeded(kind, labels, rows, repeats)
                tally = Tally()
                for _ in range(samples):
                    truth, pair = runs(draw, rows, labels, repeats, (1.5, 1.5), bias, 0.7, 1.5, copied)
                    for name, steps in differences(truth, pair).items():
                        if abs(steps.difference) < float("inf") and not (name == "consistency" and repeats < 2):
                            tally.add(name, steps)
                    tally.add("slope", slope(draw, rows, labels, repeats, (1.5, 1.5), 0.7))
                return tally.summary()

            yield f"{kind}: {labels} labels, {rows} rows x {repeats}", cell


def skewed(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Type I error on pairs whose rare rows are missing in most samples."""
    for name, null in NULLS.items():
        for rows in SIZES:

            def cell(name: str = name, null: Any = null, rows: int = rows) -> dict[str, Any]:
                draw, tally = seeded(name, rows), Tally()
                for _ in range(samples):
                    tally.add(name, null(draw, rows))
                return tally.summary()

            yield f"skewed: {name}, {rows} rows", cell


def ordinary(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Power on two ordinary models, of which one is better."""
    cells = ((2, 2.0, 50), (2, 2.0, 128), (2, 1.8, 512), (6, 1.9, 50), (6, 1.9, 128), (6, 1.7, 512))
    for labels, better, rows in cells:

        def cell(labels: int = labels, better: float = better, rows: int = rows) -> dict[str, Any]:
            draw, tally = seeded("ordinary", labels, rows), Tally()
            for _ in range(samples):
                truth, pair = runs(draw, rows, labels, 2, (better, 1.5), 0.3, 0.7, 1.5)
                for name, steps in differences(truth, pair).items():
                    if abs(steps.difference) < float("inf"):
                        tally.add(name, steps)
                tally.add("slope", slope(draw, rows, labels, 2, (1.9, 1.5), 0.7))
            return tally.summary()

        yield f"ordinary: {labels} labels, gains {better} and 1.5, {rows} rows", cell


def unequal(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Coverage where one run is better; the true difference is that of 200,000 rows."""
    for labels, gains, scale in (
        (2, (2.5, 1.5), 1.0),
        (6, (3.5, 1.5), 1.0),
        (2, (5.0, 1.0), 2.0),
        (3, (2.0, 1.0), 3.0),
    ):
        for rows in (20, 128, 512) if labels != 2 else (20, 128):

            def cell(
                labels: int = labels, gains: tuple[float, float] = gains, rows: int = rows, scale: float = scale
            ) -> dict[str, Any]:
                draw = seeded("unequal", labels, rows, gains)
                true: dict[str, float] = {}
                for name, steps in differences(*runs(draw, 100_000, labels, 2, gains, 0.3, 0.7, scale)).items():
                    true[name] = steps.difference
                tally = Tally()
                for _ in range(samples):
                    truth, pair = runs(draw, rows, labels, 2, gains, 0.3, 0.7, scale)
                    for name, steps in differences(truth, pair).items():
                        if abs(steps.difference) < float("inf"):
                            tally.add(name, steps, true[name])
                return tally.summary()

            yield f"unequal: {labels} labels, {gains}, {rows} rows", cell


def shapes(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Micro F1 of LongICL: the same F1 with other numbers of predicted labels."""
    for shape, rates in (
        ("tacred", ((1.0, 0.5), (1.0, 0.5))),
        ("tacred", ((0.5, 2 / 3 * 1.0), (1.0, 0.5))),
        ("tacred", ((1.0, 0.05), (1.0, 0.05))),
        ("few_nerd", ((0.8, 0.6), (0.8, 0.6))),
        ("few_nerd", ((0.5, 0.9), (0.9, 0.6))),
    ):
        for rows in (50, 500):

            def cell(shape: str = shape, rates: Any = rates, rows: int = rows) -> dict[str, Any]:
                draw = seeded(shape, rates, rows)
                if rates[0] != rates[1]:  # the accuracy at which the second run has the same F1
                    large = long_icl(draw, shape, 400_000, rates)
                    rates = (rates[0], (rates[1][0], rates[1][1] * large.first / large.second))
                    large = long_icl(draw, shape, 400_000, rates)
                    rates = (rates[0], (rates[1][0], rates[1][1] * large.first / large.second))
                tally = Tally()
                for _ in range(samples):
                    tally.add("micro F1", long_icl(draw, shape, rows, rates))
                return tally.summary()

            yield f"{shape}: {rates}, {rows} rows", cell


def families(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Ten data sets: any false alarm among them after Holm's correction, and the mean."""
    for rows in (20, 128, 512):

        def cell(rows: int = rows) -> dict[str, Any]:
            draw = seeded("family", rows)
            tally, alarms = Tally(), 0
            for _ in range(samples):
                found = []
                for labels in (2, 2, 3, 6, 6, 4, 2, 4, 2, 4):
                    latent = draw.random((rows, 1)) < 0.5
                    easy = np.where(latent, draw.random((rows, 1)), draw.random((rows, 2)))
                    place = np.repeat(np.arange(rows), 2).tolist()
                    parts = []
                    for _run in (0, 1):
                        own = np.where(draw.random((rows, 2)) < 0.6, easy, draw.random((rows, 2)))
                        hits = (own < 1.2 / labels**0.5).ravel().astype(float).tolist()
                        parts.append(of_mean(hits, place, rows))
                    found.append(both(parts))
                corrected = holm([p_value(steps) for steps in found])
                alarms += min(p for p in corrected if p is not None) <= 0.05
                tally.add("mean", mean_difference(found))
            return {"any of ten (Holm)": {"rejected": round(alarms / samples, 4)}, **tally.summary()}

        yield f"ten data sets, {rows} rows x 2", cell


def tilted(draw: Any, rows: int, shares: dict[float, float], difference: float) -> PairedDifference:
    """Steps of given sizes (by share of the rows) with random signs, and a given true difference."""
    mean = sum(size * share for size, share in shares.items())
    counts = draw.multinomial(rows, [*shares.values(), 1 - sum(shares.values())])
    steps: list[float] = []
    for size, count in zip(shares, counts, strict=False):
        ahead = draw.binomial(count, (1 + difference / mean) / 2)
        steps += [size / rows] * ahead + [-size / rows] * (count - ahead)
    steps += [0.0] * (rows - len(steps))
    return PairedDifference(float(np.sum(steps)), 0.0, steps, -1 / rows, 1 / rows, 1.0)


def power(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Power where the true difference is the one that such samples state."""
    for rows, share in ((50, 0.6), (128, 0.25), (128, 0.5), (512, 0.06), (512, 0.1), (512, 0.25), (5120, 0.15)):
        for half in (0.0, 0.5):

            def cell(rows: int = rows, share: float = share, half: float = half) -> dict[str, Any]:
                sizes = {1.0: share * (1 - half), 0.5: share * half}
                return at_stated(lambda draw, true: tilted(draw, rows, sizes, true), samples, (rows, share, half))

            yield f"power: accuracy, {rows} rows, {share} differ, {half} of them in one repeat", cell
    for rows in (50, 128, 512):

        def shift(rows: int = rows) -> dict[str, Any]:
            def make(draw: Any, true: float) -> PairedDifference:
                steps = (draw.laplace(size=rows) * 0.2 + true) / rows
                return PairedDifference(float(steps.sum()), 0.0, steps.tolist(), -1 / rows, 1 / rows, 1.0)

            return at_stated(make, samples, ("shift", rows))

        yield f"power: likelihood, {rows} rows", shift
    for rows in (128, 500):

        def f1(rows: int = rows) -> dict[str, Any]:
            def make(draw: Any, true: float) -> PairedDifference:
                rate = 0.5
                own = 2 * 0.7 * rate / 1.7
                return long_icl(draw, "tacred", rows, ((0.7, (own + true) * 1.7 / 1.4), (0.7, rate)))

            return at_stated(make, samples, ("f1", rows))

        yield f"power: micro F1, {rows} rows", f1

    def ten() -> dict[str, Any]:
        sizes = {1.0: 0.1, 0.5: 0.1}
        return at_stated(
            lambda draw, true: mean_difference([tilted(draw, 100 + 40 * n, sizes, true) for n in range(10)]),
            samples,
            ("ten",),
        )

    yield "power: mean of ten data sets", ten


def at_stated(make: Callable[[Any, float], PairedDifference], samples: int, key: Any) -> dict[str, Any]:
    draw = seeded("power", key)
    true = 0.0
    for _ in range(5):
        stated = [detectable_difference(make(draw, true)) for _ in range(300)]
        true = float(np.mean([one for one in stated if one is not None]))
    tally = Tally()
    for _ in range(samples):
        tally.add("power", make(draw, true), true)
    return {"power": {**tally.summary()["power"], "true": round(true, 4)}}


def margins(samples: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """How often a run that is worse by exactly the margin is called not worse."""
    for rows, share in (
        (50, 0.3),
        (128, 0.1),
        (128, 0.4),
        (512, 0.03),
        (512, 0.1),
        (512, 0.4),
        (5120, 0.05),
        (5120, 0.2),
    ):
        for half in (0.0, 0.5):

            def cell(rows: int = rows, share: float = share, half: float = half) -> dict[str, Any]:
                draw = seeded("margin", rows, share, half)
                sizes = {1.0: share * (1 - half), 0.5: share * half}
                wrong = sum(upper_p_value(tilted(draw, rows, sizes, -MARGIN), -MARGIN) <= 0.025 for _ in range(samples))
                return {"non-inferiority": {"rejected": round(wrong / samples, 4)}}

            yield f"margin: {rows} rows, {share} differ, {half} of them in one repeat", cell


def seeded(*key: Any) -> Any:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


PARTS = {one.__name__: one for one in (skewed, ordinary, equal, unequal, shapes, families, power, margins)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--cells", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--match", default="", help="only cells whose name has this text")
    parser.add_argument("--resume", type=Path, help="file of finished cells, one JSON line each")
    args = parser.parse_args()
    done = {}
    if args.resume and args.resume.exists():
        done = dict(json.loads(line) for line in args.resume.read_text("utf-8").splitlines())
    started = time.monotonic()
    for part in args.cells:
        for name, cell in PARTS[part](args.samples):
            if args.match not in name:
                continue
            if name not in done:
                done[name] = cell()
                if args.resume:
                    with args.resume.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([name, done[name]]) + "\n")
            print(name, json.dumps(done[name]), f"{time.monotonic() - started:.0f} s", flush=True)
    record(__file__, done, {"samples": args.samples})


if __name__ == "__main__":
    main()
