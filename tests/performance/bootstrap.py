"""Bootstrap and paired tests: time, coverage of the intervals, and p-values where there is no difference.

Run with the repository on the path; only the standard library is needed::

    PYTHONPATH=. python tests/performance/bootstrap.py [--samples 400] [--parts speed]

Simulated runs: a test row has a true label and a score for each label that its repeats share; each repeat adds noise of
its own, and the softmax of the sum is the prediction. Kinds: "good" and "weak" models, an "overconfident" one, and a
"calibrated" one, whose true labels are drawn from its own predictions. The truth is the metric on 100,000 rows.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate

from StaICC.metrics.classification_sums import ClassificationSums
from StaICC.metrics.intervals import bootstrap_metrics, design_effect, wilson
from StaICC.metrics.metric_comparison import compare_metrics
from StaICC.metrics.resampling import generator
from StaICC.metrics.significance import mcnemar_exact

PRIOR = (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)
GAIN = {"good": 2.0, "weak": 0.5, "overconfident": 1.0, "calibrated": 1.0}
SCALE = {"good": 1.0, "weak": 0.3, "overconfident": 3.0, "calibrated": 1.0}

Run = tuple[list[int], list[list[float]], list[int]]


def softmax(scores: list[float]) -> list[float]:
    weights = [math.exp(score) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def simulate(draw: random.Random, labels: int, rows: int, repeats: int, kind: str, runs: int = 1) -> list[Run]:
    """Simulate runs of exchangeable models on the same queries."""
    made: list[Run] = [([], [], []) for _ in range(runs)]
    for row in range(rows):
        true = draw.choices(range(labels), PRIOR[:labels])[0]
        shared = [draw.gauss(GAIN[kind] * (label == true), 1.0) for label in range(labels)]
        for truths, predictions, places in made:
            point = draw.random()  # a calibrated model's label is where its own prediction puts this point
            for _ in range(repeats):
                prediction = softmax([SCALE[kind] * (score + draw.gauss(0.0, 0.7)) for score in shared])
                label = true
                if kind == "calibrated":
                    label = min(bisect_right(list(accumulate(prediction)), point), labels - 1)
                truths.append(label)
                predictions.append(prediction)
                places.append(row)
    return made


def speed(seed: str) -> None:
    draw = generator(seed, "speed")
    bootstrap = comparison = 0.0
    for labels in (2, 2, 3, 5, 6, 4, 2, 4, 2, 4):  # the label spaces of the ten data sets
        (truth, first, rows), (_, second, _) = simulate(draw, labels, 512, 2, "good", runs=2)
        start = time.process_time()
        bootstrap_metrics(truth, first, rows, labels, seed=seed)
        bootstrap += time.process_time() - start
        start = time.process_time()
        compare_metrics(truth, first, second, rows, labels, seed=seed)
        comparison += time.process_time() - start
    print(f"ten data sets, 512 rows x 2: intervals {bootstrap:.2f} s, comparison of two runs {comparison:.2f} s")


def coverage(seed: str, samples: int) -> None:
    print(f"\ncoverage of 95 % intervals, {samples} samples each, 1,000 resamples (sampling error of a rate: ", end="")
    print(f"{math.sqrt(0.95 * 0.05 / samples):.3f})")
    for labels, rows, repeats, kind in (
        (2, 512, 2, "good"),
        (2, 512, 2, "weak"),
        (2, 512, 2, "calibrated"),
        (4, 100, 1, "overconfident"),
        (6, 512, 2, "good"),
        (6, 512, 2, "calibrated"),
        (6, 512, 2, "overconfident"),
    ):
        draw = generator(seed, f"coverage {labels} {rows} {repeats} {kind}")
        sums = ClassificationSums(labels)
        large = sums.of_rows(*simulate(draw, labels, 100_000, repeats, kind)[0])
        truth = sums.metrics([math.fsum(column) for column in zip(*large, strict=True)])
        covered: dict[str, int] = defaultdict(int)
        width: dict[str, float] = defaultdict(float)
        for sample in range(samples):
            ((labels_true, predictions, places),) = simulate(draw, labels, rows, repeats, kind)
            found = bootstrap_metrics(labels_true, predictions, places, labels, seed=f"{seed} {sample}")
            right = [row.index(max(row)) == true for row, true in zip(predictions, labels_true, strict=True)]
            found["accuracy: Wilson"] = wilson(sum(right), len(right))
            effect = design_effect(right, places)
            found["accuracy: Wilson, design effect"] = wilson(sum(right), len(right), design_effect=effect)
            for name, interval in found.items():
                covered[name] += interval.low <= truth[name.split(":")[0]] <= interval.high
                width[name] += interval.high - interval.low
        print(f"{labels} labels, {rows} rows x {repeats}, {kind}")
        for name in sorted(covered):
            value = truth[name.split(":")[0]]
            print(f"  {name:32} truth {value:.4f}  covered {covered[name] / samples:.3f}", end="")
            print(f"  mean width {width[name] / samples:.4f}", flush=True)


def null_p_values(seed: str, samples: int) -> None:
    print(f"\np-values of {samples} pairs of equally good runs: share at or below 0.01, 0.05, 0.1, 0.5")
    for labels, rows, repeats, kind in ((2, 512, 1, "weak"), (2, 512, 2, "good"), (6, 100, 2, "overconfident")):
        draw = generator(seed, f"null {labels} {rows} {repeats} {kind}")
        p_values: dict[str, list[float]] = defaultdict(list)
        covered: dict[str, int] = defaultdict(int)
        for sample in range(samples):
            (truth, first, places), (_, second, _) = simulate(draw, labels, rows, repeats, kind, runs=2)
            a, b = (
                [row.index(max(row)) == true for row, true in zip(run, truth, strict=True)] for run in (first, second)
            )
            only_a = sum(x and not y for x, y in zip(a, b, strict=True))
            only_b = sum(y and not x for x, y in zip(a, b, strict=True))
            p_values["accuracy: McNemar over queries"].append(mcnemar_exact(only_a, only_b).p_value)
            own = f"{seed} {sample}"
            compared = compare_metrics(truth, first, second, places, labels, seed=own, permutations=1000)
            for name, comparison in compared.items():
                p_values[f"{name}: permutation"].append(comparison.permutation.p_value)
                p_values[f"{name}: bootstrap"].append(comparison.bootstrap.p_value)
                covered[name] += comparison.bootstrap.interval.low <= 0.0 <= comparison.bootstrap.interval.high
        print(f"{labels} labels, {rows} rows x {repeats}, {kind}")
        for name, values in sorted(p_values.items()):
            shares = "  ".join(f"{sum(p <= level for p in values) / samples:.3f}" for level in (0.01, 0.05, 0.1, 0.5))
            print(f"  {name:45} {shares}", flush=True)
        for name, hits in covered.items():
            print(f"  {name:45} interval of the difference covers 0: {hits / samples:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seed", default="simulation")
    parser.add_argument(
        "--parts", nargs="+", default=["speed", "coverage", "null"], choices=["speed", "coverage", "null"]
    )
    args = parser.parse_args()
    if "speed" in args.parts:
        speed(args.seed)
    if "coverage" in args.parts:
        coverage(args.seed, args.samples)
    if "null" in args.parts:
        null_p_values(args.seed, args.samples)


if __name__ == "__main__":
    main()
