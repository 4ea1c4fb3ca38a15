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

from collections import Counter
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
    """The p-value of each test; 1 for a pair that the library does not test."""
    found = {"now": 1.0, "cautious": 1.0}
    if paired.too_few_rows(difference) is None:
        found["now"] = paired.p_value(difference)
    with mock.patch.object(paired, "favourable_weight", return_value=0.0):
        if paired.too_few_rows(difference) is None:
            found["cautious"] = paired.p_value(difference)
    steps = np.asarray(difference.steps)
    found["t"] = 1.0
    found["signs"] = 1.0
    if steps.std() > 0.0:
        found["t"] = float(stats.ttest_1samp(steps, 0.0).pvalue)
        signs = draw.choice((-1.0, 1.0), (SIGN_DRAWS, len(steps)))
        as_large = np.abs(signs @ steps) >= abs(steps.sum()) - 1e-12
        found["signs"] = float((1 + as_large.sum()) / (SIGN_DRAWS + 1))
    return found


def mid_p_value(steps: Any) -> float:
    """McNemar's mid-p-value of the rows on which one run is right and the other one wrong."""
    gains = int((np.asarray(steps) > 0).sum())
    losses = int((np.asarray(steps) < 0).sum())
    if gains == losses:
        return 1.0
    fewer = min(gains, losses)
    tail = 2.0 * stats.binom.cdf(fewer, gains + losses, 0.5)
    return float(tail - stats.binom.pmf(fewer, gains + losses, 0.5))


def cell(samples: int, pair: Pair, rows: int) -> dict[str, Any]:
    """The power of each test by each score."""
    draw = seeded("power", pair, rows)
    rejected: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    for _ in range(samples):
        for name, difference in pair.differences(draw, rows).items():
            found = p_values(difference, draw)
            if name == "accuracy" and pair.repeats == 1:
                found["mid-p"] = mid_p_value(difference.steps)
            counts[name] += 1
            rejected.setdefault(name, Counter()).update({test: p <= 0.05 for test, p in found.items()})
    return {
        name: {test: round(count / counts[name], 3) for test, count in tests.items()}
        for name, tests in rejected.items()
    }


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
