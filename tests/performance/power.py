"""``compare``: power next to that of tests that are not valid for every score, on the same pairs of runs.

In an environment that has NumPy and SciPy::

    python tests/performance/power.py [--samples 200] [--resume FILE]

In the first pairs, one run is better. In the second ones ("biased"), it prefers one label. For each score there are the
shares of pairs that are called different at level 0.05 by:

- ``now``: the paired test of the library;
- ``cautious``: the same with the least favourable pseudo-row only, the test before the pseudo-row was split;
- ``t``: Student's t of the steps of the rows, without a pseudo-row. It is not valid for skewed differences;
- ``signs``: random signs of the steps, 199 draws. It is valid if the differences of equal runs are symmetric;
- ``mid-p``: McNemar's mid-p-value, for accuracies with one query per row.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from comparison import Pair, seeded
from records import arguments, record, resumed
from scipy import stats

from StaICC.metrics import paired_tests as paired

SETTINGS = ((2, 2.0, 50), (2, 2.0, 128), (2, 1.8, 512), (6, 1.9, 50), (6, 1.9, 128), (6, 1.7, 512))
"""Number of labels, gain of the better run, and number of rows; as in ``comparison.py``."""
SIGN_DRAWS = 199


def p_values(difference: paired.PairedDifference, draw: Any) -> dict[str, float]:
    """Return the p-value of each test but McNemar's; 1 for a pair that the library does not test."""
    steps = np.asarray(difference.steps)
    with mock.patch.object(paired, "favourable_weight", return_value=0.0):
        cautious = p_value_of_library(difference)
    found = {"now": p_value_of_library(difference), "cautious": cautious, "t": 1.0, "signs": 1.0}
    if steps.std() > 0.0:
        found["t"] = float(stats.ttest_1samp(steps, 0.0).pvalue)
        found["signs"] = p_value_by_random_signs(steps, draw)
    return found


def p_value_of_library(difference: paired.PairedDifference) -> float:
    if paired.too_few_rows(difference) is not None:
        return 1.0
    return paired.p_value(difference)


def p_value_by_random_signs(steps: Any, draw: Any) -> float:
    """Return (1 + m) / (1 + n), if the sum of the steps is as large with m of n draws of random signs."""
    signs = draw.choice((-1.0, 1.0), (SIGN_DRAWS, len(steps)))
    rounding = 1e-12
    is_as_large = np.abs(signs @ steps) >= abs(steps.sum()) - rounding
    return float((1 + is_as_large.sum()) / (SIGN_DRAWS + 1))


def mid_p_value(steps: Any) -> float:
    """Return McNemar's mid-p-value of the rows on which one run is right and the other one wrong."""
    gains = int((np.asarray(steps) > 0).sum())
    losses = int((np.asarray(steps) < 0).sum())
    if gains == losses:
        return 1.0
    fewer = min(gains, losses)
    tail = 2.0 * stats.binom.cdf(fewer, gains + losses, 0.5)
    return float(tail - stats.binom.pmf(fewer, gains + losses, 0.5))


def cell(samples: int, pair: Pair, rows: int) -> dict[str, Any]:
    """Return by score and test the share of the samples with a p-value of at most 0.05."""
    draw = seeded("power", pair, rows)
    p_values_by_score: dict[str, list[dict[str, float]]] = {}
    for _ in range(samples):
        for score, difference in pair.differences(draw, rows).items():
            of_sample = p_values(difference, draw)
            if score == "accuracy" and pair.repeats == 1:
                of_sample["mid-p"] = mid_p_value(difference.steps)
            p_values_by_score.setdefault(score, []).append(of_sample)
    powers: dict[str, dict[str, float]] = {}
    for score, of_samples in p_values_by_score.items():
        powers[score] = {}
        for test in of_samples[0]:
            rejected = sum(of_sample[test] <= 0.05 for of_sample in of_samples)
            powers[score][test] = round(rejected / len(of_samples), 3)
    return powers


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 200, "--resume": Path})
    cells = []
    for labels, better, rows in SETTINGS:
        for repeats in (1, 2):
            name = f"{labels} labels, {rows} rows, {repeats} queries"
            one_is_better = Pair(labels, repeats=repeats, gains=(better, 1.5), bias=0.3)
            one_is_biased = Pair(labels, repeats=repeats, bias=0.5, only_first_is_biased=True)
            cells.append((name, partial(cell, options.samples, one_is_better, rows)))
            cells.append((f"biased: {name}", partial(cell, options.samples, one_is_biased, rows)))
    record(__file__, resumed(options.resume, cells), {"samples": options.samples})
