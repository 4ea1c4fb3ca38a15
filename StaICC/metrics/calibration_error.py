"""The expected calibration error as a statistic of a sample of rows."""

from __future__ import annotations

import math
from bisect import bisect_right
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

        The error E of a confidence bin is the sum over its queries of 1 (correct) or 0 (wrong) minus the confidence.
        With n queries, the calibration error is ``sum over bins of |E| / n``. The contribution of a row is the part of
        this sum that its queries have (:func:`_terms_of_absolute_error`).

        Two estimates serve the paired tests. Chance raises the calibration error on average, because absolute values
        add up whatever the signs of E. So the value is its own upper estimate, with the bins whose sign is uncertain
        as ``uncertain_terms``. The lower estimate is that of :func:`_lower_rows`.
        """
        n_queries = len(predictions)
        new_queries = sample.most_queries_per_row
        bins = _bins_by_number(sample, predictions)
        errors = {number: math.fsum(bin_rows.errors) for number, bin_rows in bins.items()}

        total_error = 0.0
        contributions = [0.0] * sample.n_rows
        uncertain_terms = []
        for number, bin_rows in bins.items():
            total_error += abs(errors[number])
            terms = _terms_of_absolute_error(bin_rows, errors[number], n_queries)
            contributions = list(map(add, contributions, terms))
            if _may_have_other_sign(bin_rows, errors[number], new_queries):
                uncertain_terms.append(terms)

        # One more test row has at most `new_queries` queries. Each of them raises the total by at most 1, the largest
        # error of a query, and lowers it by at most what one query can take from the error of a bin.
        largest_reduction = max(_reduction_by_query(number, error) for number, error in errors.items())
        lowest_total_error = max(0.0, total_error - new_queries * largest_reduction)
        highest_total_error = total_error + new_queries
        new_count = n_queries + new_queries
        return Contributions(
            value=total_error / n_queries,
            rows=contributions,
            lowest_after_row=lowest_total_error / new_count,
            highest_after_row=highest_total_error / new_count,
            range_width=1.0,  # a calibration error is from 0 to 1
            lower_rows=_lower_rows(list(bins.values()), sample.n_rows, n_queries),
            uncertain_terms=tuple(uncertain_terms),
        )


def _bins_by_number(sample: Sample, predictions: Sequence[Any]) -> dict[int, BinRows]:
    """Return the confidence bins that have queries, by their numbers from 0 to 9.

    A bin has three numbers for each test row: its correct predictions, its queries, and the sum of their errors (1 or 0
    minus the confidence). The bins are in the order of their first queries.

    Args:
        sample: The queries.
        predictions: The probabilities of each query.
    """
    edges = classification.inner_edges()
    bins: dict[int, BinRows] = {}
    for row, label, distribution in zip(sample.rows, sample.truth, predictions, strict=True):
        confidence = max(distribution)
        hit = float(distribution.index(confidence) == label)
        number = bisect_right(edges, confidence)  # as confidence_bin() does it
        if number not in bins:
            bins[number] = BinRows(
                hits=[0.0] * sample.n_rows, queries=[0.0] * sample.n_rows, errors=[0.0] * sample.n_rows
            )
        bin_rows = bins[number]
        bin_rows.hits[row] += hit
        bin_rows.queries[row] += 1.0
        bin_rows.errors[row] += hit - confidence
    return bins


def _terms_of_absolute_error(bin_rows: BinRows, error: float, n_queries: int) -> list[float]:
    """Return what each test row adds to ``|E| / n``, the part of one bin in the calibration error.

    The error E of the bin is the sum of the errors of the rows. So ``|E| = sign(E) * E`` is the sum of the errors of
    the rows times the sign of E.

    Args:
        bin_rows: The queries of the bin.
        error: The error E of the bin.
        n_queries: The number n of queries in all bins.
    """
    if error >= 0.0:
        return [row_error / n_queries for row_error in bin_rows.errors]
    return [-row_error / n_queries for row_error in bin_rows.errors]


def _may_have_other_sign(bin_rows: BinRows, error: float, new_queries: int) -> bool:
    """Return whether the expected error of a bin may have another sign than the observed error E.

    It may if E is within two standard deviations of 0. The variance of E, a sum over n independent rows with the errors
    x, is estimated by ``sum(x^2) - E^2 / n``. To be cautious, the square of ``new_queries`` is added: the sample may
    lack a rare row, all queries of which are in this bin and have an error of 1.

    Args:
        bin_rows: The queries of the bin.
        error: The error E of the bin.
        new_queries: The largest number of queries of a row.
    """
    n_rows = len(bin_rows.errors)
    sum_of_squares = math.fsum(map(mul, bin_rows.errors, bin_rows.errors))
    variance = max(0.0, sum_of_squares - error**2 / n_rows)
    cautious_variance = variance + new_queries * new_queries
    return abs(error) < 2.0 * math.sqrt(cautious_variance)


def _reduction_by_query(number: int, error: float) -> float:
    """Return by how much one more query can bring the error E of a confidence bin nearer to 0.

    A query with the confidence c changes E by -c if it is wrong, and by 1 - c if it is correct. So it lowers a positive
    E by at most the upper edge of the bin, and raises a negative E by at most 1 minus the lower edge. The result is at
    most ``|E|``, because a query that takes E past 0 enlarges it again.

    Args:
        number: The number of the bin: it has confidences from ``number / 10`` to ``(number + 1) / 10``.
        error: The error E of the bin: the sum over its queries of 1 (correct) or 0 (wrong) minus the confidence.
    """
    if error > 0.0:
        largest_change = (number + 1) / _BINS
    else:
        largest_change = 1.0 - number / _BINS
    return min(abs(error), largest_change)


def _lower_rows(bins: Sequence[BinRows], n_rows: int, n_queries: int) -> list[float]:
    """Return for each test row its contribution to a lower estimate of the calibration error.

    The error of a bin is the sum over its queries of 1 (correct) or 0 (wrong) minus the confidence, so it has a sign.
    The true calibration error is ``sum over bins of |expected error| / n``. With a sign s (1 or -1) for each bin, the
    estimate is ``sum over bins of s * error / n``. Its expected value is ``sum over bins of s * expected error / n``
    if the signs are chosen without the errors that they are multiplied by. This is at most the true calibration error,
    whatever the signs are.

    So the signs come from other rows. The rows are divided into two halves, every second row into each. The errors of
    each half get the signs that the other half shows (:func:`_signs`).

    Args:
        bins: The confidence bins that have queries.
        n_rows: Number of test rows.
        n_queries: The number n of queries.
    """
    contributions = [0.0] * n_rows
    for half in (0, 1):
        rows = range(half, n_rows, 2)
        other_rows = range(1 - half, n_rows, 2)
        errors_of_other_rows = []
        for bin_rows in bins:
            errors_of_other_rows.append([bin_rows.errors[row] for row in other_rows])
        signs = _signs(errors_of_other_rows)  # one for each bin
        for sign, bin_rows in zip(signs, bins, strict=True):
            for row in rows:
                contributions[row] += sign * bin_rows.errors[row] / n_queries
    return contributions


def _signs(errors_by_bin: Sequence[Sequence[float]]) -> list[float]:
    """Return the presumed sign of the true error of each confidence bin, 1 or -1, as some test rows show it.

    A bin whose observed error is more than two standard deviations from 0 has the sign of that error. All other bins
    have one common sign, because most models are too confident in all bins, or in none. It is -1 (too confident),
    unless the sum of the errors of all bins is more than one standard deviation above 0.

    Why not the sign of each observed error, or that of their sum? The errors of each half of the rows would then decide
    on the signs of the other half (:func:`_lower_rows`), so that the sum of both halves would vary more than its rows
    do. In simulations (normal errors, many bins or data sets), the test would call a calibrated model worse than one
    that is always right and certain with a probability of up to 0.064, and with the rule above at most 0.041.

    Args:
        errors_by_bin: For each bin the error of each row: the sum over its queries in the bin of 1 (correct) or 0
            (wrong) minus the confidence.
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
    """Return the sum T of the errors x of n independent test rows, and its standard deviation.

    The variance of T is estimated by the sum of the squared deviations from the mean: ``sum(x^2) - T^2 / n``.
    """
    total = math.fsum(errors)
    variance = math.fsum(map(mul, errors, errors)) - total * total / max(1, len(errors))
    return total, math.sqrt(max(0.0, variance))
