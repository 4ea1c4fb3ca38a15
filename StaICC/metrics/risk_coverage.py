"""Area under the risk-coverage curve (AURC) of selective prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from StaICC.metrics.classification import check_truth, valid_probabilities
from StaICC.metrics.intervals import MetricTerm, share_of_rows_part
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic


def aurc(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Area under the risk-coverage curve: mean over k of the error rate of the k queries with the highest confidence.

    A model that may decline answers its most confident queries only. The share that it answers is the coverage, and
    its error rate on them the risk. The confidence of a query is the highest probability of its row.

    **Ties.** Queries with the same confidence are accepted in random order. The area is the expected one, so that the
    order of the queries does not change it.

    Returns:
        A number from 0 (all predictions are correct) to 1 (all are wrong); lower is better. If confidence says nothing
        about correctness, it is the error rate.

    Source:
        Geifman and El-Yaniv 2017, "Selective classification for deep neural networks", NeurIPS; the area: Geifman,
        Uziel and El-Yaniv 2019, "Bias-reduced uncertainty estimation for deep neural classifiers", ICLR.

    Example:
        >>> area = aurc([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.75, 0.25]])  # risks: 0, 1/2, 1/3
        >>> round(area, 6)
        0.277778
    """
    rows = valid_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    return risk_coverage_curve(truth, rows).area


@dataclass(frozen=True, slots=True)
class RiskCoverageCurve:
    """The risks of a run at all coverages."""

    wrong: Sequence[bool]
    """Whether the prediction of each query is wrong."""
    ties: Sequence[Sequence[int]]
    """The indexes of the queries, from the highest confidence to the lowest; those with the same one are together."""
    wrong_counts: Sequence[float]
    """The expected number of wrong predictions among the first 1, 2, 3 and so on queries."""

    @property
    def risks(self) -> list[float]:
        """The expected share of wrong predictions among the first 1, 2, 3 and so on queries."""
        return [wrong_count / accepted for accepted, wrong_count in enumerate(self.wrong_counts, start=1)]

    @property
    def area(self) -> float:
        """The mean risk."""
        return math.fsum(self.risks) / len(self.wrong_counts)


def risk_coverage_curve(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> RiskCoverageCurve:
    """Return the risks of predictions at all coverages.

    Args:
        truth: True label of each query.
        rows: Probabilities of each query.
    """
    confidences = [max(row) for row in rows]
    wrong = []
    for label, row, confidence in zip(truth, rows, confidences, strict=True):
        wrong.append(row.index(confidence) != label)

    ties = _ties(confidences)
    wrong_counts: list[float] = []
    wrong_before = 0
    for indexes in ties:
        wrong_in_tie = sum(wrong[index] for index in indexes)
        # Of the first j queries of a tie in random order, the share j / size of the wrong ones is expected.
        for accepted in range(1, len(indexes) + 1):
            wrong_counts.append(wrong_before + wrong_in_tie * accepted / len(indexes))
        wrong_before += wrong_in_tie
    return RiskCoverageCurve(wrong, ties, wrong_counts)


def _ties(confidences: Sequence[float]) -> list[list[int]]:
    """Return the indexes of queries from the highest confidence to the lowest, in a list for each confidence.

    >>> _ties([0.5, 0.9, 0.5])
    [[1], [0, 2]]
    """
    indexes_by_confidence: dict[float, list[int]] = {}
    for index, confidence in enumerate(confidences):
        indexes_by_confidence.setdefault(confidence, []).append(index)
    return [indexes_by_confidence[confidence] for confidence in sorted(indexes_by_confidence, reverse=True)]


def _influences(curve: RiskCoverageCurve) -> list[float]:
    """Return the influence of each query on the area under the risk-coverage curve.

    The area is the mean of the risks ``r(k)``: the shares of wrong predictions among the k of n queries with the
    highest confidence. One more query that comes at position i adds its risk ``r(i)`` to the mean. It also changes each
    risk from this position on by ``(wrong - r(k)) / k``, where wrong is 1 for a wrong prediction and 0 for a correct
    one. So its influence is::

        (r(i) - area + sum over k >= i of (wrong - r(k)) / k) / n

    The sum is computed as ``wrong * (sum of 1 / k) - (sum of r(k) / k)``. Queries of a tie have the same confidence and
    no order, so each has the mean influence over the positions of the tie.
    """
    risks = curve.risks
    n_queries = len(risks)
    inverses = [1.0 / k for k in range(1, n_queries + 1)]
    inverses_from = _sums_from(inverses)
    risks_from = _sums_from([risk * inverse for risk, inverse in zip(risks, inverses, strict=True)])

    influences = [0.0] * n_queries
    area = curve.area
    first_position = 0
    for indexes in curve.ties:
        size = len(indexes)
        positions = slice(first_position, first_position + size)
        first_position += size
        mean_risk = math.fsum(risks[positions]) / size
        mean_inverses_from = math.fsum(inverses_from[positions]) / size
        mean_risks_from = math.fsum(risks_from[positions]) / size
        for index in indexes:
            wrong = float(curve.wrong[index])
            influences[index] = (mean_risk - area + wrong * mean_inverses_from - mean_risks_from) / n_queries
    return influences


def _sums_from(values: Sequence[float]) -> list[float]:
    """Return for each position the sum of the values from this position to the end.

    >>> _sums_from([1.0, 2.0, 3.0])
    [6.0, 5.0, 3.0]
    """
    sums = list(accumulate(reversed(values)))
    sums.reverse()
    return sums


class RiskCoverage(Statistic):
    """The area under the risk-coverage curve."""

    reads = "probabilities"
    method = "score interval, variance of the influences, unit: test row"
    of_classification = True

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the area with the distances to its confidence limits, and the influence of each test row."""
        curve = risk_coverage_curve(sample.truth, predictions)
        return share_of_rows_part(curve.area, sample.sums(_influences(curve)), sample.n_rows, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the area of one run, and the contribution of each test row, its influence.

        One more row raises the area most if its queries are wrong with the highest confidence, and lowers it most if
        they are correct with the highest confidence. The new queries are then accepted first.
        """
        curve = risk_coverage_curve(sample.truth, predictions)
        new_queries = sample.most_queries_per_row
        new_count = len(sample.truth) + new_queries
        # While only the new queries are accepted, the risk is 0 if they are correct, and 1 if they are wrong.
        risks_if_correct = [0.0] * new_queries
        risks_if_wrong = [1.0] * new_queries
        for accepted, wrong_count in enumerate(curve.wrong_counts, start=1):
            risks_if_correct.append(wrong_count / (accepted + new_queries))
            risks_if_wrong.append((wrong_count + new_queries) / (accepted + new_queries))
        return Contributions(
            value=curve.area,
            rows=sample.sums(_influences(curve)),
            lowest_after_row=math.fsum(risks_if_correct) / new_count,
            highest_after_row=math.fsum(risks_if_wrong) / new_count,
            range_width=1.0,
        )
