"""Size of the paired test if one run has two queries for each test row, and the other one.

All three queries of a row have the same distribution, given the row (exchangeable nulls), so no run is better. The
script prints the share of the pairs that are called different at level 0.05, and the number of pairs in which the 95 %
interval and p disagree. Usage::

    python tests/performance/other_repeats.py [--pairs 2000] [--rows 20 50 128] [--kinds accuracy]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from records import arguments, markdown, record

from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import PairedDifference
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Contributions, OtherRun, Sample

Predictions = list[list[list[float]]]
"""The distribution over the labels for each query: by test row, then by query; each row has three queries."""
LEVEL = 0.05
INTERVALS = 200
"""Pairs of a cell whose interval is compared with p."""


def drawn(
    draw: Any, n: int, labels: int, skill: float, spread: float, together: float
) -> tuple[list[int], Predictions]:
    """Return true labels and predictions of the three queries of each test row.

    Args:
        draw: The generator of random numbers.
        n: Number of test rows.
        labels: Number of labels; the first ones are more frequent.
        skill: Mean logit of the true label.
        spread: Standard deviation of the logits between rows.
        together: Probability that all queries of a row have the same prediction.
    """
    frequencies = np.arange(labels, 0, -1) / np.arange(labels + 1).sum()
    truth = draw.choice(labels, n, p=frequencies)
    of_rows = spread * draw.standard_normal((n, 1, labels))
    of_queries = draw.standard_normal((n, 3, labels))
    same = draw.random(n) < together
    of_queries[same] = of_queries[same, :1]
    logits = of_rows + of_queries
    logits[np.arange(n), :, truth] += skill
    odds = np.exp(logits)
    return truth.tolist(), (odds / odds.sum(axis=2, keepdims=True)).tolist()


SETTINGS: dict[str, dict[str, Any]] = {
    "two labels": {"labels": 2, "skill": 1.0, "spread": 0.5, "together": 0.0},
    "two labels, few errors": {"labels": 2, "skill": 4.0, "spread": 1.0, "together": 0.0},
    "six labels": {"labels": 6, "skill": 1.0, "spread": 1.0, "together": 0.3},
    "mostly together": {"labels": 3, "skill": 1.0, "spread": 1.0, "together": 0.8},
}
METRICS = (
    "accuracy",
    "averaged_truelabel_likelihood",
    "macro_F1",
    "expected_calibration_error_1",
    "entropy",
    "empirical_bias",
)


def inputs(metric: str, predictions: list[list[float]]) -> list[Any]:
    """Return predictions in the form that the metric reads."""
    if STATISTICS[metric].reads == "labels":
        return [row.index(max(row)) for row in predictions]
    return predictions


def difference(metric: str, labels: int, truth: list[int], predictions: Predictions) -> PairedDifference:
    """Return the difference of the run with the first two queries of each row and the run with the third one."""
    n = len(truth)
    statistic = STATISTICS[metric]
    twice = [row for row in range(n) for _ in range(2)]
    first = OtherRun(
        Sample([truth[row] for row in twice], twice, n, labels),
        inputs(metric, [query for row in predictions for query in row[:2]]),
    )
    second = OtherRun(Sample(truth, range(n), n, labels), inputs(metric, [row[2] for row in predictions]))
    parts: list[Contributions] = [statistic.of_run(*first, second), statistic.of_run(*second, first)]
    return paired_tests.paired_difference([(1.0, parts[0])], [(1.0, parts[1])])


def cell(metric: str, setting: str, n: int, pairs: int) -> dict[str, Any]:
    """Return the share of pairs that are called different, and how often interval and p disagree."""
    draw = np.random.default_rng([n, *metric.encode(), *setting.encode()])
    different = disagree = 0
    for number in range(pairs):
        setting_of_rows = SETTINGS[setting]
        truth, predictions = drawn(draw, n, **setting_of_rows)
        found = difference(metric, setting_of_rows["labels"], truth, predictions)
        if math.isinf(found.first) or math.isinf(found.second):  # such runs are not compared
            continue
        is_tested = paired_tests.too_few_rows(found) is None
        significant = is_tested and paired_tests.p_value(found) <= LEVEL
        different += significant
        if number < INTERVALS and is_tested:
            interval = paired_tests.difference_interval(found, 1.0 - LEVEL)
            if interval is not None:
                disagree += significant is (interval.low <= 0.0 <= interval.high)
    return {"share": different / pairs, "disagree": disagree}


def main() -> None:
    options = arguments(__doc__, {"--pairs": 2000, "--rows": [20, 50, 128], "--metrics": list(METRICS)})
    figures: dict[str, Any] = {}
    lines = []
    for metric in options.metrics:
        for setting in SETTINGS:
            cells = [cell(metric, setting, n, options.pairs) for n in options.rows]
            figures[f"{metric}, {setting}"] = cells
            lines.append([metric, setting, *(own["share"] for own in cells), sum(own["disagree"] for own in cells)])
            print(lines[-1], flush=True)
    heads = ["metric", "rows", *(f"{n} rows" for n in options.rows), "interval and p disagree"]
    print(markdown(heads, lines))
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()
