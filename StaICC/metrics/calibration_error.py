"""The expected calibration error as a statistic of a sample of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, mul
from typing import Any

from StaICC.metrics import classification, intervals
from StaICC.metrics.intervals import MetricTerm
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic


@dataclass(slots=True)
class _ConfidenceBin:
    """The queries of one confidence bin, as sums over the queries of each test row."""

    hits: list[float]
    """Number of correct predictions."""
    queries: list[float]
    """Number of queries."""
    errors: list[float]
    """Sum of the errors of the queries: 1 for a correct prediction or 0 for a wrong one, minus the confidence."""

    @property
    def error_sum(self) -> float:
        """The error of the bin. Its absolute value is the bin's part of the calibration error, times all queries."""
        return math.fsum(self.errors)

    @property
    def variance(self) -> float:
        """The variance of the error of the bin, for independent test rows."""
        sum_of_squares = math.fsum(map(mul, self.errors, self.errors))
        return max(0.0, sum_of_squares - self.error_sum**2 / len(self.errors))


_BINS = 10
"""Number of bins (:func:`~StaICC.metrics.classification.confidence_bin`)."""


class CalibrationError(Statistic):
    """The expected calibration error in bins of equal width (ECE-1)."""

    reads = "probabilities"
    method = "inverted test of the folded normal, unit: test row"
    of_classification = True

    def _bins(self, sample: Sample, predictions: Sequence[Any]) -> dict[int, _ConfidenceBin]:
        """Return the bins that have queries, by their numbers. They are in the order of their first queries."""
        bins: dict[int, _ConfidenceBin] = {}
        for row, label, distribution in zip(sample.rows, sample.truth, predictions, strict=True):
            confidence = max(distribution)
            hit = float(distribution.index(confidence) == label)
            number = classification.confidence_bin(confidence)
            if number not in bins:
                bins[number] = _ConfidenceBin(
                    hits=[0.0] * sample.n_rows, queries=[0.0] * sample.n_rows, errors=[0.0] * sample.n_rows
                )
            confidence_bin = bins[number]
            confidence_bin.hits[row] += hit
            confidence_bin.queries[row] += 1.0
            confidence_bin.errors[row] += hit - confidence
        return bins

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the calibration error with the distances to its confidence limits, and the influence of each row."""
        bins = self._bins(sample, predictions)
        columns = []
        for number in sorted(bins):
            columns.append((bins[number].hits, bins[number].queries, bins[number].errors))
        return intervals.calibration_part(columns, sample.sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the calibration error of one run, and the contribution of each test row.

        The value is the sum over the bins of ``abs(error of the bin) / queries``. Chance raises it on average, because
        errors of chance add up whatever their sign. So it is its own upper estimate; :func:`_lower_rows` has the lower
        one.
        """
        count = len(predictions)
        new_queries = sample.most_queries_per_row
        bins = self._bins(sample, predictions)
        contributions = [0.0] * sample.n_rows
        uncertain_terms = []
        largest_reduction = 0.0
        total = 0.0
        for number, confidence_bin in bins.items():
            error_sum = confidence_bin.error_sum
            if error_sum >= 0.0:
                terms = [error / count for error in confidence_bin.errors]
            else:
                terms = [-error / count for error in confidence_bin.errors]
            contributions = list(map(add, contributions, terms))

            absolute_error = abs(error_sum)
            total += absolute_error
            # The true error may have the other sign if the observed one is within two standard deviations of 0. A rare
            # row that the sample lacks may have the error new_queries, the square of which is added to the variance.
            if absolute_error < 2.0 * math.sqrt(confidence_bin.variance + new_queries * new_queries):
                uncertain_terms.append(terms)

            # One more query with the confidence c changes the error of its bin by -c if it is wrong, by 1 - c if it is
            # correct. So it brings a positive error nearer to 0 by at most the upper edge of the bin, and a negative
            # one by at most 1 minus the lower edge.
            largest_change = (number + 1) / _BINS if error_sum > 0.0 else 1.0 - number / _BINS
            largest_reduction = max(largest_reduction, min(absolute_error, largest_change))

        lowest_total = max(0.0, total - new_queries * largest_reduction)
        return Contributions(
            value=total / count,
            rows=contributions,
            lowest_after_row=lowest_total / (count + new_queries),
            highest_after_row=(total + new_queries) / (count + new_queries),
            range_width=1.0,
            lower_rows=_lower_rows(list(bins.values()), sample.n_rows, count),
            uncertain_terms=tuple(uncertain_terms),
        )


def _lower_rows(bins: Sequence[_ConfidenceBin], n_rows: int, count: int) -> list[float]:
    """Return for each test row its contribution to a lower estimate of the calibration error.

    With any signs s of the bins, ``sum(s * error of the bin)`` is at most the sum of the absolute errors. This is true
    of the expected values as well, if the signs do not depend on the rows that are added up. So the rows are divided
    into two halves, every second row into each, and the errors of each half get the signs of the other one
    (:func:`_signs`). Chance then makes the estimate too small, but never too large.

    Args:
        bins: The bins.
        n_rows: Number of test rows.
        count: Number of queries.
    """
    rows_by_half = [range(0, n_rows, 2), range(1, n_rows, 2)]
    contributions = [0.0] * n_rows
    for half, rows in enumerate(rows_by_half):
        other_rows = rows_by_half[1 - half]
        signs = _signs([[confidence_bin.errors[row] for row in other_rows] for confidence_bin in bins])
        for sign, confidence_bin in zip(signs, bins, strict=True):
            for row in rows:
                contributions[row] += sign * confidence_bin.errors[row] / count
    return contributions


def _signs(errors_by_bin: Sequence[Sequence[float]]) -> list[float]:
    """Return the sign of each bin, as these rows show it: 1 or -1.

    A bin whose error is more than two standard deviations from 0 has its own sign. All other bins have one common sign,
    because most models are too confident in all bins, or in none. It is -1, too confident, unless the sum of all errors
    is more than one standard deviation above 0.

    The default keeps the level of the test. If signs of chance decided, as the signs of the sums would, the errors of
    each half would decide on the signs of the other one, and the sum of both would vary more than its rows do. Then the
    test would call a calibrated model worse than one that is always right and sure with a probability of up to 0.064
    (normal errors, many bins or data sets), and with this rule at most 0.041.
    """
    error_of_rows = [math.fsum(errors) for errors in zip(*errors_by_bin, strict=True)]
    total, deviation = _sum_with_deviation(error_of_rows)
    common_sign = 1.0 if total > deviation else -1.0
    signs = []
    for errors in errors_by_bin:
        error_sum, deviation = _sum_with_deviation(errors)
        if abs(error_sum) > 2.0 * deviation:
            signs.append(math.copysign(1.0, error_sum))
        else:
            signs.append(common_sign)
    return signs


def _sum_with_deviation(errors: Sequence[float]) -> tuple[float, float]:
    """Return the sum of the errors of independent rows, and its standard deviation."""
    total = math.fsum(errors)
    variance = math.fsum(map(mul, errors, errors)) - total * total / max(1, len(errors))
    return total, math.sqrt(max(0.0, variance))
