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
        errors of chance add up whatever their sign.
        """
        count = len(predictions)
        new_queries = sample.most_queries_per_row
        contributions = [0.0] * sample.n_rows
        absolute_errors = []
        uncertain_terms = []
        bias = 0.0
        for confidence_bin in self._bins(sample, predictions).values():
            error_sum = confidence_bin.error_sum
            if error_sum >= 0.0:
                terms = [error / count for error in confidence_bin.errors]
            else:
                terms = [-error / count for error in confidence_bin.errors]
            contributions = list(map(add, contributions, terms))

            absolute_error = abs(error_sum)
            absolute_errors.append(absolute_error)
            variance = confidence_bin.variance
            # The true error may have the other sign if the observed one is within two standard deviations of 0. A rare
            # row that the sample lacks may have the error new_queries, the square of which is added to the variance.
            if absolute_error < 2.0 * math.sqrt(variance + new_queries * new_queries):
                uncertain_terms.append(terms)
            bias += _bias_of_absolute_sum(absolute_error, math.sqrt(variance)) / count

        total = math.fsum(absolute_errors)
        return Contributions(
            value=total / count,
            rows=contributions,
            # One more row changes the error of a bin by up to its number of queries, and at best to 0.
            lowest_after_row=(total - min(new_queries, max(absolute_errors))) / (count + new_queries),
            highest_after_row=(total + new_queries) / (count + new_queries),
            range_width=1.0,
            upward_bias=bias,
            uncertain_terms=tuple(uncertain_terms),
        )


def _bias_of_absolute_sum(size: float, deviation: float) -> float:
    """Return the largest plausible bias of the absolute value of a normally distributed sum; it is 0 or positive.

    The absolute value has a folded normal distribution. Its mean is above the true absolute value: the difference is
    the bias. The bias is larger, the nearer the true sum is to 0. So the smallest plausible absolute value is taken as
    the true one: two standard deviations below the observed one, and at least 0.

    Args:
        size: The observed absolute value of the sum.
        deviation: Standard deviation of the sum.
    """
    true_size = max(0.0, size - 2.0 * deviation)
    mean_size, _ = intervals.folded_moments(true_size, deviation)
    return mean_size - true_size
