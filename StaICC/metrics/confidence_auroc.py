"""AUROC of confidence: how well the confidence of a model separates its correct from its wrong predictions."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.classification import check_truth, valid_probabilities
from StaICC.metrics.intervals import MetricTerm, share_of_rows_part
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic

LEAST_ROWS_OF_A_KIND = 5
"""An interval needs this many test rows with a correct prediction, and as many with a wrong one."""


def auroc_confidence(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Probability that a correct prediction has a higher confidence than a wrong one; equal ones count one half.

    The confidence of a query is the highest probability of its row. This is the area under the ROC curve (AUROC) of the
    confidence as a classifier of correct against wrong predictions.

    Returns:
        A number from 0 to 1; 0.5 if confidence says nothing about correctness.

    Raises:
        UndefinedMetricError: All predictions are correct, or all are wrong.

    Source:
        Hendrycks and Gimpel 2017, "A baseline for detecting misclassified and out-of-distribution examples in neural
        networks", ICLR.

    Example:
        >>> auroc_confidence([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
        0.5
    """
    rows = valid_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    return _wins(truth, rows).area


@dataclass(frozen=True, slots=True)
class _Wins:
    """Which share of the queries of the other kind, correct or wrong, each query wins against.

    A correct query wins against the wrong queries with a lower confidence, a wrong query against the correct queries
    with a higher one. Equal confidences count one half.
    """

    of_correct: Mapping[int, float]
    """The share of each correct query, by the index of the query."""
    of_wrong: Mapping[int, float]
    """The share of each wrong query, by the index of the query."""

    @property
    def area(self) -> float:
        """The area under the ROC curve: the mean share of a correct query."""
        return math.fsum(self.of_correct.values()) / len(self.of_correct)


def _wins(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> _Wins:
    """Return the shares of the queries of the other kind that each query wins against.

    Args:
        truth: True label of each query.
        rows: Probabilities of each query.

    Raises:
        UndefinedMetricError: One of the kinds has no query.
    """
    confidence_of_correct: dict[int, float] = {}
    confidence_of_wrong: dict[int, float] = {}
    for index, (label, row) in enumerate(zip(truth, rows, strict=True)):
        confidence = max(row)
        if row.index(confidence) == label:
            confidence_of_correct[index] = confidence
        else:
            confidence_of_wrong[index] = confidence
    if not confidence_of_wrong:
        raise UndefinedMetricError(f"all {len(rows)} predictions are correct, so that there is no wrong one to compare")
    if not confidence_of_correct:
        raise UndefinedMetricError(f"all {len(rows)} predictions are wrong, so that there is no correct one to compare")

    ordered_correct = sorted(confidence_of_correct.values())
    ordered_wrong = sorted(confidence_of_wrong.values())
    wins_of_correct = {}
    for index, confidence in confidence_of_correct.items():
        wins_of_correct[index] = _share_below(confidence, ordered_wrong)
    wins_of_wrong = {}
    for index, confidence in confidence_of_wrong.items():
        wins_of_wrong[index] = 1.0 - _share_below(confidence, ordered_correct)
    return _Wins(wins_of_correct, wins_of_wrong)


def _share_below(confidence: float, ordered: Sequence[float]) -> float:
    """Return the share of ordered confidences that are below a confidence; equal ones count one half."""
    below = bisect_left(ordered, confidence)
    not_above = bisect_right(ordered, confidence)
    return (below + not_above) / 2.0 / len(ordered)


def _influences(sample: Sample, wins: _Wins) -> list[float]:
    """Return the influence of each test row on the area A under the ROC curve of the confidence.

    A correct query wins against the wrong queries with a lower confidence, a wrong query against the correct queries
    with a higher one. If m queries are correct and n are wrong, the influences are (DeLong, DeLong and Clarke-Pearson
    1988)::

        (v - A) / m   of a correct query that wins against the share v of the wrong queries
        (w - A) / n   of a wrong query that wins against the share w of the correct queries

    The influence of a row is the sum of those of its queries (Obuchowski 1997).

    Args:
        sample: The queries.
        wins: The shares v and w of the queries, by the index of the query.
    """
    area = wins.area
    n_correct = len(wins.of_correct)
    n_wrong = len(wins.of_wrong)
    influence_of_query = [0.0] * len(sample.truth)
    for query_index, share in wins.of_correct.items():
        influence_of_query[query_index] = (share - area) / n_correct
    for query_index, share in wins.of_wrong.items():
        influence_of_query[query_index] = (share - area) / n_wrong
    return sample.sums(influence_of_query)


def _count_rows(sample: Sample, query_indexes: Iterable[int]) -> int:
    """Return the number of test rows that have at least one of some queries."""
    return len({sample.rows[index] for index in query_indexes})


class ConfidenceAuroc(Statistic):
    """The AUROC of confidence."""

    reads = "probabilities"
    method = "score interval, variance of DeLong et al., unit: test row"
    of_classification = True

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the area with the distances to its confidence limits, and the influence of each test row.

        With m rows with a correct and n rows with a wrong prediction, the variance of an area A is at most
        ``A (1 - A) / min(m, n)`` (van Dantzig 1951): that of a share of ``min(m, n)`` rows. So the area has the limits
        of such a share, narrowed by the ratio of its estimated variance to this bound
        (:func:`~StaICC.metrics.intervals.share_of_rows_part`).

        Raises:
            UndefinedMetricError: m or n is below :data:`LEAST_ROWS_OF_A_KIND`.
        """
        wins = _wins(sample.truth, predictions)
        correct_rows = _count_rows(sample, wins.of_correct)
        wrong_rows = _count_rows(sample, wins.of_wrong)
        for kind, count in (("correct", correct_rows), ("wrong", wrong_rows)):
            if count < LEAST_ROWS_OF_A_KIND:
                raise UndefinedMetricError(
                    f"{count} test rows have a {kind} prediction, expected {LEAST_ROWS_OF_A_KIND} for an interval"
                )
        return share_of_rows_part(wins.area, _influences(sample, wins), min(correct_rows, wrong_rows), level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the area of one run, and the contribution of each test row, its influence.

        A *kind* of queries are the correct or the wrong ones. If one more row has q queries of a kind that has k
        queries so far, and these win against the share s of the other kind, the area A becomes
        ``(A k + q s) / (k + q)``. It is lowest with s = 0, highest with s = 1, and changes most if the new queries are
        of the smaller kind.
        """
        wins = _wins(sample.truth, predictions)
        area = wins.area
        new_queries = sample.most_queries_per_row
        smaller_kind = min(len(wins.of_correct), len(wins.of_wrong))
        new_count = smaller_kind + new_queries
        return Contributions(
            value=area,
            rows=_influences(sample, wins),
            lowest_after_row=area * smaller_kind / new_count,
            highest_after_row=(area * smaller_kind + new_queries) / new_count,
            range_width=1.0,
        )
