"""Coverage and width of the library's intervals next to the BCa bootstrap (Efron 1987) over test rows.

Run with the repository on the path, in an environment that has NumPy and SciPy::

    PYTHONPATH=. python tests/performance/bootstrap.py [--samples 1000]

The runs are those of ``interval_coverage.py``. The bootstrap draws test rows with all their queries, 1,000 times.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from interval_coverage import COUNTS, LEVEL, LIMITS, MODELS, library, scored, simulate, sums, truths
from records import record
from scipy import stats

Array = Any
SHOWN = [
    "0.6 leaning calibrated copy 0.3 spread 0.5 x 2, errors x 1.0",
    "0.8 leaning over copy 0.9 spread 0.5 x 2, errors x 1.0",
    "0.95 balanced calibrated copy 0.9 spread 0 x 2, errors x 1.0",
    "0.99 balanced certain copy 0.5 spread 0 x 2, errors x 1.0",
    "0.95 leaning under copy 1.0 spread 0.5 x 8, errors x 1.0",
]
SCORES = ("accuracy", "likelihood", "macro F1", "ECE-1")


def of_sums(totals: Array, labels: int) -> Array:
    """The scores from sums over rows: queries, correct, likelihood, hits and sizes of labels, excesses of bins."""
    queries, correct, lik = totals[:, 0], totals[:, 1], totals[:, 2]
    hits, sizes, excess = np.split(totals[:, 3:], [labels, 2 * labels], axis=1)
    macro = np.where(sizes > 0, hits / np.maximum(sizes, 1), 0).mean(1)
    return np.stack([correct / queries, lik / queries, macro, np.abs(excess).sum(1) / queries], 1)


def bca(rows: Array, labels: int, draw: Any) -> tuple[Array, Array]:
    """Both ends of the intervals of the scores, from the sums of each row."""
    n = len(rows)
    value = of_sums(rows.sum(0)[None], labels)[0]
    samples = of_sums(draw.multinomial(n, np.full(n, 1 / n), 1000) @ rows, labels)
    without = of_sums(rows.sum(0)[None] - rows, labels)
    away = without.mean(0) - without
    spread = (away**2).sum(0) ** 1.5
    slope = (away**3).sum(0) / (6 * np.where(spread > 0, spread, 1))
    below = ((samples < value).mean(0) + (samples <= value).mean(0)) / 2
    centre = stats.norm.ppf(np.clip(below, 0.5 / 1000, 1 - 0.5 / 1000))
    ends = []
    for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        z = centre + stats.norm.ppf(tail)
        place = stats.norm.cdf(centre + z / (1 - slope * z))
        ends.append(np.array([np.quantile(samples[:, score], place[score]) for score in range(len(SCORES))]))
    return ends[0], ends[1]


def compare(limit: int, name: str, dataset: str, samples: int) -> dict[str, tuple[float, float, float, float]]:
    """Coverage and mean width of both intervals, by score."""
    counts = COUNTS[dataset][LIMITS.index(limit)]
    model, prior = MODELS[name], np.array(counts) / sum(counts)
    truth, labels = truths(counts, model), len(counts)
    draw = np.random.default_rng([limit, len(name), len(dataset)])
    run = sums(*simulate(draw, prior, model, samples, limit), labels)
    own = scored(run, library.student_quantile(LEVEL, limit))
    parts = [run["queries"], run["correct"], run["lik"], *run["hits"], *run["sizes"], *run["excess"]]
    rows = np.stack(parts, 2)
    ends = [bca(one, labels, draw) for one in rows]
    found = {}
    for place, score in enumerate(SCORES):
        if score == "macro F1" and min(counts) < library.LEAST_ROWS:
            continue
        _, low, high, _, _ = own[score]
        other = np.array([[low_end[place], high_end[place]] for low_end, high_end in ends])
        true = truth[score]
        found[score] = (
            float(((low <= true + 1e-9) & (true - 1e-9 <= high)).mean()),
            float(((other[:, 0] <= true + 1e-9) & (true - 1e-9 <= other[:, 1])).mean()),
            float((high - low).mean()),
            float((other[:, 1] - other[:, 0]).mean()),
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000)
    args = parser.parse_args()
    cells: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    for limit in LIMITS:
        for name in SHOWN:
            for dataset in ("GLUE-SST2", "financial_phrasebank", "TREC"):
                for score, figures in compare(limit, name, dataset, args.samples).items():
                    cells.setdefault((score, limit), []).append(figures)
    print("| score | limit | cells | coverage | of BCa | width | of BCa |\n|---|---|---|---|---|---|---|")
    table = {}
    for (score, limit), of_cells in sorted(cells.items()):
        own, other, width, its_width = (np.array(column) for column in zip(*of_cells, strict=True))
        shown = f"{own.min():.3f} to {own.max():.3f} | {other.min():.3f} to {other.max():.3f}"
        widths = math.fsum(width) / len(of_cells), math.fsum(its_width) / len(of_cells)
        print(f"| {score} | {limit} | {len(of_cells)} | {shown} | {widths[0]:.3f} | {widths[1]:.3f} |", flush=True)
        table[f"{score}, {limit}"] = [float(own.min()), float(other.min()), *widths]
    record(__file__, table, {"samples": args.samples})


if __name__ == "__main__":
    main()
