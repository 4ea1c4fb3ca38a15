"""Coverage and width of the library's intervals next to the BCa bootstrap (Efron 1987) over test rows.

In an environment that has NumPy and SciPy::

    python tests/performance/bootstrap.py [--samples 1000]

The runs are those of ``interval_coverage.py``. The bootstrap draws test rows with all their queries, 1,000 times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from interval_coverage import LEVEL, LIMITS, MODELS, counts_of, covers, intervals_of, library, simulate, sums, truths
from records import arguments, markdown, record
from scipy import stats

from StaICC.metrics.intervals import Interval

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


def compare(limit: int, name: str, dataset: str, samples: int) -> dict[str, list[float]]:
    """Coverage and mean width of both intervals, by score."""
    counts = counts_of(dataset, limit)
    model, prior = MODELS[name], np.array(counts) / sum(counts)
    truth, labels = truths(counts, model), len(counts)
    draw = np.random.default_rng([limit, len(name), len(dataset)])
    run = sums(*simulate(draw, prior, model, samples, limit), labels)
    parts = [run["queries"], run["correct"], run["lik"], *run["hits"], *run["sizes"], *run["excess"]]
    ends = [bca(one, labels, draw) for one in np.stack(parts, 2)]
    ours = [intervals_of(run, sample) for sample in range(samples)]
    found = {}
    for place, score in enumerate(SCORES):
        if score != "macro F1" or min(counts) >= library.LEAST_ROWS:
            both = [
                [scores[score][1] for scores in ours],
                [Interval(float(low[place]), float(high[place]), LEVEL, "BCa") for low, high in ends],
            ]
            rates = [sum(covers(interval, truth[score]) for interval in kind) / samples for kind in both]
            widths = [sum(interval.high - interval.low for interval in kind) / samples for kind in both]
            found[score] = [*rates, *widths]
    return found


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 1000})
    cells: dict[str, list[list[float]]] = {}
    for limit in LIMITS:
        for name in SHOWN:
            for dataset in ("GLUE-SST2", "financial_phrasebank", "TREC"):
                for score, figures in compare(limit, name, dataset, options.samples).items():
                    cells.setdefault(f"{score}, {limit} rows", []).append(figures)
    rows = {}
    for name, of_cells in sorted(cells.items()):
        rates, widths = np.array(of_cells)[:, :2], np.array(of_cells)[:, 2:]
        rows[name] = [len(of_cells), *rates.min(0).tolist(), *rates.max(0).tolist(), *widths.mean(0).tolist()]
    heads = ["cells", "lowest", "of BCa", "highest", "of BCa", "width", "of BCa"]
    print(markdown(["score", *heads], ([name, *row] for name, row in rows.items())))
    record(__file__, rows, vars(options))
