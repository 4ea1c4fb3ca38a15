"""Size of the paired test if one run has two queries for each test row, and the other one.

All three queries of a row have the same distribution, given the row (exchangeable nulls), so no run is better. The
script prints the share of the pairs that are called different at level 0.05, and the number of pairs in which the 95 %
interval and p disagree. Usage::

    python tests/performance/other_repeats.py [--pairs 2000] [--rows 20 50 128] [--kinds accuracy]
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from records import arguments, markdown, record

from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import PairedDifference
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import OtherRun, Sample

Predictions = list[list[list[float]]]
"""The distribution over the labels for each query: by test row, then by query; each row has three queries."""
LEVEL = 0.05
INTERVALS = 200
"""Pairs of a cell whose interval is compared with p."""


class Drawn(NamedTuple):
    """True labels of test rows, and the predictions of their three queries."""

    truth: list[int]
    predictions: Predictions


def draw_queries(draw: Any, n_rows: int, labels: int, skill: float, spread: float, together: float) -> Drawn:
    """Draw true labels, and predictions whose logits are sums of normal variables of the row and of the query.

    Args:
        draw: The generator of random numbers.
        n_rows: Number of test rows.
        labels: Number of labels; the first ones are more frequent.
        skill: Mean logit of the true label.
        spread: Standard deviation of the logits between rows.
        together: Probability that all queries of a row have the same prediction.
    """
    frequencies = np.arange(labels, 0, -1) / np.arange(labels + 1).sum()
    truth = draw.choice(labels, n_rows, p=frequencies)
    logits_of_rows = spread * draw.standard_normal((n_rows, 1, labels))
    logits_of_queries = draw.standard_normal((n_rows, 3, labels))
    is_same = draw.random(n_rows) < together
    logits_of_queries[is_same] = logits_of_queries[is_same, :1]
    logits = logits_of_rows + logits_of_queries
    logits[np.arange(n_rows), :, truth] += skill
    odds = np.exp(logits)
    probabilities = odds / odds.sum(axis=2, keepdims=True)
    return Drawn(truth.tolist(), probabilities.tolist())


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


def as_metric_reads(metric: str, probabilities: list[list[float]]) -> list[Any]:
    """Return labels where the metric reads labels, else the probabilities."""
    if STATISTICS[metric].reads == "labels":
        return [row.index(max(row)) for row in probabilities]
    return probabilities


def difference_by_metric(metric: str, n_labels: int, drawn: Drawn) -> PairedDifference:
    """Return the difference of the run with the first two queries of each row and the run with the third one."""
    n_rows = len(drawn.truth)
    two_queries, rows_of_two_queries, third_query = [], [], []
    for row, (first, second, third) in enumerate(drawn.predictions):
        two_queries += [first, second]
        rows_of_two_queries += [row, row]
        third_query.append(third)
    truth_of_two_queries = [drawn.truth[row] for row in rows_of_two_queries]
    sample_of_two = Sample(truth_of_two_queries, rows_of_two_queries, n_rows, n_labels)
    sample_of_one = Sample(drawn.truth, range(n_rows), n_rows, n_labels)
    run_of_two = OtherRun(sample_of_two, as_metric_reads(metric, two_queries))
    run_of_one = OtherRun(sample_of_one, as_metric_reads(metric, third_query))
    of_two = STATISTICS[metric].of_run(*run_of_two, run_of_one)
    of_one = STATISTICS[metric].of_run(*run_of_one, run_of_two)
    return paired_tests.paired_difference([(1.0, of_two)], [(1.0, of_one)])


def interval_and_p_disagree(difference: PairedDifference, is_significant: bool) -> bool:
    """Return whether a difference is significant and its interval contains zero, or neither."""
    interval = paired_tests.difference_interval(difference, 1.0 - LEVEL)
    if interval is None:
        return False
    contains_zero = interval.low <= 0.0 <= interval.high
    return is_significant is contains_zero


def cell(metric: str, setting: str, n_rows: int, pairs: int) -> dict[str, Any]:
    """Return the share of pairs that are called different, and how often interval and p disagree."""
    draw = np.random.default_rng([n_rows, *metric.encode(), *setting.encode()])
    different = 0
    disagree = 0
    for number in range(pairs):
        drawn = draw_queries(draw, n_rows, **SETTINGS[setting])
        difference = difference_by_metric(metric, SETTINGS[setting]["labels"], drawn)
        if math.isinf(difference.first) or math.isinf(difference.second):  # such runs are not compared
            continue
        if paired_tests.too_few_rows(difference) is not None:
            continue
        is_significant = paired_tests.p_value(difference) <= LEVEL
        different += is_significant
        if number < INTERVALS:
            disagree += interval_and_p_disagree(difference, is_significant)
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
