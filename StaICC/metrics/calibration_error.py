"""The expected calibration error as a statistic of a sample of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import add, mul
from typing import Any

from StaICC.metrics import classification, intervals
from StaICC.metrics.intervals import BinRows, MetricTerm
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic

_BINS = 10
"""Number of bins (:func:`~StaICC.metrics.classification.confidence_bin`)."""


class CalibrationError(Statistic):
    """The expected calibration error in bins of equal width (ECE-1)."""

    reads = "probabilities"
    method = "inverted test of the folded normal, unit: test row"
    of_classification = True

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the calibration error with the distances to its confidence limits, and the influence of each row."""
        bins = _bins_by_number(sample, predictions)
        bins_by_confidence = [bins[number] for number in sorted(bins)]
        return intervals.calibration_part(bins_by_confidence, sample.sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the calibration error of one run, and the contribution of each test row.

        The value is the sum over the bins of ``abs(error of the bin) / queries``. Chance raises it on average, because
        errors of chance add up whatever their sign. So it is its own upper estimate; :func:`_lower_rows` has the lower
        one.
        """
        count = len(predictions)
        new_queries = sample.most_queries_per_row
        bins = _bins_by_number(sample, predictions)
        contributions = [0.0] * sample.n_rows
        uncertain_terms = []
        total_error = 0.0
        largest_reduction = 0.0
        for number, bin_rows in bins.items():
            error = math.fsum(bin_rows.errors)
            total_error += abs(error)
            terms = _terms_of_absolute_error(bin_rows, error, count)
            contributions = list(map(add, contributions, terms))
            if _may_have_other_sign(bin_rows, error, new_queries):
                uncertain_terms.append(terms)
            largest_reduction = max(largest_reduction, _reduction_by_query(number, error))

        lowest_total_error = max(0.0, total_error - new_queries * largest_reduction)
        highest_total_error = total_error + new_queries
        new_count = count + new_queries
        return Contributions(
            value=total_error / count,
            rows=contributions,
            lowest_after_row=lowest_total_error / new_count,
            highest_after_row=highest_total_error / new_count,
            range_width=1.0,
            lower_rows=_lower_rows(list(bins.values()), sample.n_rows, count),
            uncertain_terms=tuple(uncertain_terms),
        )


def _bins_by_number(sample: Sample, predictions: Sequence[Any]) -> dict[int, BinRows]:
    """Return the bins that have queries, by their numbers. They are in the order of their first queries."""
    bins: dict[int, BinRows] = {}
    for row, label, distribution in zip(sample.rows, sample.truth, predictions, strict=True):
        confidence = max(distribution)
        hit = float(distribution.index(confidence) == label)
        number = classification.confidence_bin(confidence)
        if number not in bins:
            bins[number] = BinRows(
                hits=[0.0] * sample.n_rows, queries=[0.0] * sample.n_rows, errors=[0.0] * sample.n_rows
            )
        bin_rows = bins[number]
        bin_rows.hits[row] += hit
        bin_rows.queries[row] += 1.0
        bin_rows.errors[row] += hit - confidence
    return bins


def _terms_of_absolute_error(bin_rows: BinRows, error: float, count: int) -> list[float]:
    """Return for each test row its term in ``abs(error of the bin) / queries``, which is the sum of the terms.

    Args:
        bin_rows: The queries of the bin.
        error: The error of the bin, the sum over its rows.
        count: Number of queries of all bins.
    """
    if error >= 0.0:
        return [row_error / count for row_error in bin_rows.errors]
    return [-row_error / count for row_error in bin_rows.errors]


def _may_have_other_sign(bin_rows: BinRows, error: float, new_queries: int) -> bool:
    """Return whether the true error of a bin may have another sign than the observed error.

    It may if the observed error is within two standard deviations of 0. A rare row that the sample lacks may have the
    error ``new_queries``, the square of which is added to the variance.

    Args:
        bin_rows: The queries of the bin.
        error: The error of the bin, the sum over its rows.
        new_queries: The largest number of queries of a row.
    """
    sum_of_squares = math.fsum(map(mul, bin_rows.errors, bin_rows.errors))
    variance = max(0.0, sum_of_squares - error**2 / len(bin_rows.errors))
    return abs(error) < 2.0 * math.sqrt(variance + new_queries * new_queries)


def _reduction_by_query(number: int, error: float) -> float:
    """Return by how much one more query can bring the error of a bin nearer to 0.

    A query with the confidence c changes the error by -c if it is wrong, and by 1 - c if it is correct. So it reduces a
    positive error by at most the upper edge of the bin, and a negative one by at most 1 minus the lower edge.

    Args:
        number: The number of the bin: it has confidences from ``number / 10`` to ``(number + 1) / 10``.
        error: The error of the bin.
    """
    largest_change = (number + 1) / _BINS if error > 0.0 else 1.0 - number / _BINS
    return min(abs(error), largest_change)


def _lower_rows(bins: Sequence[BinRows], n_rows: int, count: int) -> list[float]:
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
    contributions = [0.0] * n_rows
    for half in (0, 1):
        rows = range(half, n_rows, 2)
        other_rows = range(1 - half, n_rows, 2)
        errors_of_other_rows = []
        for bin_rows in bins:
            errors_of_other_rows.append([bin_rows.errors[row] for row in other_rows])
        signs = _signs(errors_of_other_rows)
        for sign, bin_rows in zip(signs, bins, strict=True):
            for row in rows:
                contributions[row] += sign * bin_rows.errors[row] / count
    return contributions


def _signs(errors_by_bin: Sequence[Sequence[float]]) -> list[float]:
    """Return the sign of the error of each bin, as some rows show it: 1 or -1.

    A bin whose error is more than two standard deviations from 0 has its own sign. All other bins have one common sign,
    because most models are too confident in all bins, or in none. It is -1, too confident, unless the sum of all errors
    is more than one standard deviation above 0.

    The default keeps the level of the test. If signs of chance decided, as the signs of the sums would, the errors of
    each half would decide on the signs of the other one, and the sum of both would vary more than its rows do. Then the
    test would call a calibrated model worse than one that is always right and sure with a probability of up to 0.064
    (normal errors, many bins or data sets), and with this rule at most 0.041.

    Args:
        errors_by_bin: For each bin the error of each row.
    """
    errors_by_row = zip(*errors_by_bin, strict=True)
    total_of_rows = [math.fsum(errors) for errors in errors_by_row]
    total_error, total_deviation = _sum_with_deviation(total_of_rows)
    common_sign = 1.0 if total_error > total_deviation else -1.0
    signs = []
    for errors in errors_by_bin:
        bin_error, bin_deviation = _sum_with_deviation(errors)
        if abs(bin_error) > 2.0 * bin_deviation:
            signs.append(math.copysign(1.0, bin_error))
        else:
            signs.append(common_sign)
    return signs


def _sum_with_deviation(errors: Sequence[float]) -> tuple[float, float]:
    """Return the sum of the errors of independent rows, and its standard deviation."""
    total = math.fsum(errors)
    variance = math.fsum(map(mul, errors, errors)) - total * total / max(1, len(errors))
    return total, math.sqrt(max(0.0, variance))
