"""AUROC of confidence: how well the confidence of a model separates its correct from its wrong predictions."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.classification import check_probabilities, check_truth
from StaICC.metrics.intervals import Interval, MetricTerm, NoInterval, share_of_rows_part
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
    rows = check_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    return _area(_wins(truth, rows))


def _wins(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> tuple[dict[int, float], dict[int, float]]:
    """Return for each correct query, and for each wrong one, the share of the queries of the other kind that it wins.

    A correct query wins against the wrong queries with a lower confidence, a wrong query against the correct queries
    with a higher one. Equal confidences count one half.

    Args:
        truth: True label of each query.
        rows: Probabilities of each query.

    Returns:
        The shares by the index of the query: those of the correct queries, and those of the wrong ones.

    Raises:
        UndefinedMetricError: One of the kinds has no query.
    """
    correct: dict[int, float] = {}
    wrong: dict[int, float] = {}
    for index, (label, row) in enumerate(zip(truth, rows, strict=True)):
        confidence = max(row)
        if row.index(confidence) == label:
            correct[index] = confidence
        else:
            wrong[index] = confidence
    if not wrong:
        raise UndefinedMetricError(f"all {len(rows)} predictions are correct, so that there is no wrong one to compare")
    if not correct:
        raise UndefinedMetricError(f"all {len(rows)} predictions are wrong, so that there is no correct one to compare")

    confidences_of_correct = sorted(correct.values())
    confidences_of_wrong = sorted(wrong.values())
    wins_of_correct = {}
    for index, confidence in correct.items():
        wins_of_correct[index] = _share_below(confidence, confidences_of_wrong)
    wins_of_wrong = {}
    for index, confidence in wrong.items():
        wins_of_wrong[index] = 1.0 - _share_below(confidence, confidences_of_correct)
    return wins_of_correct, wins_of_wrong


def _share_below(confidence: float, ordered: Sequence[float]) -> float:
    """Return the share of ordered confidences that are below a confidence; equal ones count one half."""
    below = bisect_left(ordered, confidence)
    not_above = bisect_right(ordered, confidence)
    return (below + not_above) / 2.0 / len(ordered)


def _area(wins: tuple[dict[int, float], dict[int, float]]) -> float:
    """Return the mean share of wrong queries that a correct query wins against."""
    wins_of_correct, _ = wins
    return math.fsum(wins_of_correct.values()) / len(wins_of_correct)


def _influences(sample: Sample, wins: tuple[dict[int, float], dict[int, float]]) -> list[float]:
    """Return the influence of each test row on the area A (DeLong, DeLong and Clarke-Pearson 1988).

    With m correct and n wrong queries, a correct query that wins against the share v of the wrong ones has the
    influence ``(v - A) / m``, and a wrong query that wins against the share w of the correct ones ``(w - A) / n``.
    Those of the queries of a row are added up (Obuchowski 1997).
    """
    area = _area(wins)
    influences = [0.0] * len(sample.truth)
    for wins_of_kind in wins:
        for index, share in wins_of_kind.items():
            influences[index] = (share - area) / len(wins_of_kind)
    return sample.sums(influences)


class ConfidenceAuroc(Statistic):
    """The AUROC of confidence."""

    reads = "probabilities"
    method = "score interval, variance of DeLong et al., unit: test row"
    of_classification = True

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the area with the distances to its confidence limits, and the influence of each test row.

        The variance of an area A is at most that of a share of the smaller kind of rows, correct or wrong:
        ``A (1 - A) / min(m, n)`` (van Dantzig 1951). So it has the limits of a share of this number of rows.

        Raises:
            UndefinedMetricError: A kind has fewer test rows than an interval needs.
        """
        wins = _wins(sample.truth, predictions)
        rows_by_kind = [len({sample.rows[index] for index in wins_of_kind}) for wins_of_kind in wins]
        for kind, count in zip(("correct", "wrong"), rows_by_kind, strict=True):
            if count < LEAST_ROWS_OF_A_KIND:
                raise UndefinedMetricError(
                    f"{count} test rows have a {kind} prediction, expected {LEAST_ROWS_OF_A_KIND} for an interval"
                )
        return share_of_rows_part(_area(wins), _influences(sample, wins), min(rows_by_kind), level)

    def withheld(self, sample: Sample, interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return an interval, or the reason why it is withheld: a kind of predictions has too few test rows."""
        try:
            return super().withheld(sample, interval)
        except UndefinedMetricError as error:
            return NoInterval(str(error), approximate=None)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the area of one run, and the contribution of each test row, its influence.

        One more row lowers the area most if its queries are correct with the lowest confidence, or wrong with the
        highest one, and raises it most the other way round. With k queries of a kind and q new ones that win against
        the share s of the other kind, the area becomes ``(A k + s q) / (k + q)``.
        """
        wins = _wins(sample.truth, predictions)
        area = _area(wins)
        new_queries = sample.most_queries_per_row
        smaller_kind = min(map(len, wins))
        new_count = smaller_kind + new_queries
        return Contributions(
            value=area,
            rows=_influences(sample, wins),
            lowest_after_row=area * smaller_kind / new_count,
            highest_after_row=(area * smaller_kind + new_queries) / new_count,
            range_width=1.0,
        )
