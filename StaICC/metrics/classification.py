"""Metrics of classification: accuracy, averaged true-label likelihood, macro F1 and expected calibration error.

Each metric has the shape ``metric(ground_truth, prediction) -> float``: one true label index per query, and one row per
query with one number per label. The width of the rows is the size of the label space, whatever labels occur. The
prediction of a row is its *first* maximum (:func:`predicted_labels`).

Accuracy and macro F1 depend on the order within a row only, so probabilities, logits and one-hot rows are all valid.
Likelihood and calibration error need probabilities (:func:`StaICC.metrics.normalisation`) and are undefined for bare
labels.

Arguments of all metrics: ``ground_truth`` is one label index per query; ``prediction`` is one row per query with one
number per label, which for likelihood and calibration error must be a probability distribution. Errors of all:
``ArgumentError`` if the true labels do not fit the rows, ``OutputError`` if a row is invalid, and
``UndefinedMetricError`` if there are no predictions.

All sums are exact (integers, `math.fsum`), so the result does not depend on the order of the queries. Definitions:
Cho and Inoue (2025), section 3.2.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError, validate_integer, whole_number
from StaICC.metrics.normalisation import SUM_TOLERANCE, numeric_rows


class ConfidenceBin(NamedTuple):
    """Sums over the queries whose confidence falls into one bin: enough for ECE-1 and for a reliability diagram."""

    queries: int
    """Queries in the bin."""
    confidence: float
    """Their confidences, summed."""
    correct: int
    """How many of them were answered right."""


def check_labels(ground_truth: Sequence[int], queries: int, labels: int) -> list[int]:
    """Check true label indexes against the predictions that they belong to.

    Args:
        ground_truth: One label index per query.
        queries: How many queries were predicted.
        labels: The size of the label space.

    Returns:
        The indexes as integers.

    Raises:
        ArgumentError: An entry is not an integer or not an index of the label space, or their number is not that of the
            queries.

    Example:
        >>> check_labels((0, 1), queries=2, labels=2)
        [0, 1]
    """
    if len(ground_truth) != queries:
        raise ArgumentError(
            f"there are {len(ground_truth)} true labels for {queries} rows of predictions; expected one label per row"
        )
    checked = []
    for number, label in enumerate(ground_truth):
        index = whole_number(label)
        if index is None:
            raise ArgumentError(
                f"true label {number} is {label!r}; expected a label index, an integer from 0 to {labels - 1}"
            )
        if not 0 <= index < labels:
            raise ArgumentError(
                f"true label {number} is {index}, but the rows have {labels} columns; expected 0 to {labels - 1}"
            )
        checked.append(index)
    return checked


def check_probabilities(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Check that each row is a probability distribution.

    Args:
        rows: One row per query, one probability per label.

    Returns:
        The rows as lists of floats.

    Raises:
        OutputError: A row is not readable as numbers, or is not a distribution to within the tolerance of
            :mod:`StaICC.metrics.normalisation`.

    Example:
        >>> check_probabilities([(0.5, 0.5)])
        [[0.5, 0.5]]
    """
    checked = numeric_rows(rows)
    for number, row in enumerate(checked):
        if min(row) < 0 or abs(math.fsum(row) - 1.0) > SUM_TOLERANCE:
            raise OutputError(
                f"row {number} of the predictions is no probability distribution (lowest value {min(row):.6g}, sum "
                f"{math.fsum(row):.6g}); expected numbers from 0 to 1 that sum to 1, as normalise() of "
                "StaICC.metrics makes them"
            )
    return checked


def _scored(ground_truth: Sequence[int], rows: list[list[float]]) -> list[int]:
    """Check true labels against rows, of which there must be at least one."""
    if not rows and len(ground_truth) == 0:
        raise UndefinedMetricError("there are no predictions to score; a metric of nothing is undefined")
    return check_labels(ground_truth, len(rows), len(rows[0]) if rows else 0)


def _first_maxima(rows: list[list[float]]) -> list[int]:
    return [row.index(max(row)) for row in rows]


def predicted_labels(prediction: Sequence[Sequence[float]]) -> list[int]:
    """Take the predicted label of each row: the index of its first maximum.

    Args:
        prediction: One row per query, one number per label: probabilities or logits.

    Returns:
        One label index per row. Of tied labels the first in the label space wins, as in NumPy and in StaICC 0.1.1.

    Raises:
        OutputError: A row cannot be read as numbers.

    Example:
        >>> predicted_labels([[0.2, 0.8], [0.5, 0.5]])
        [1, 0]
    """
    return _first_maxima(numeric_rows(prediction))


def accuracy(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Share of the queries whose predicted label is the true one.

    Returns:
        A number from 0 to 1.

    Example:
        >>> accuracy([0, 1], [[0.9, 0.1], [0.6, 0.4]])
        0.5
    """
    rows = numeric_rows(prediction)
    truth = _scored(ground_truth, rows)
    return sum(true == guess for true, guess in zip(truth, _first_maxima(rows), strict=True)) / len(rows)


def averaged_truelabel_likelihood(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean probability that the predictions assign to the true label (the paper's TLP, or ATL).

    Returns:
        A number from 0 to 1.

    Example:
        >>> averaged_truelabel_likelihood([0, 1], [[0.75, 0.25], [0.5, 0.5]])
        0.625
    """
    rows = check_probabilities(prediction)
    truth = _scored(ground_truth, rows)
    return math.fsum([row[true] for row, true in zip(rows, truth, strict=True)]) / len(rows)


def macro_F1(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean over all labels of the harmonic mean of precision and recall.

    A label that is neither predicted nor true has F1 = 0/0. It counts as 0: the paper divides by the size of the label
    space, and so do StaICC 0.1.1 and scikit-learn's ``f1_score(average="macro", labels=range(L), zero_division=0)``.
    The mean is thus over the same number of labels for every model and every part of the data.

    Returns:
        A number from 0 to 1.

    Example:
        >>> macro_F1([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        0.6666666666666666
    """
    rows = numeric_rows(prediction)
    truth = _scored(ground_truth, rows)
    width = len(rows[0])
    hits, true_count, predicted_count = [0] * width, [0] * width, [0] * width
    for true, predicted in zip(truth, _first_maxima(rows), strict=True):
        true_count[true] += 1
        predicted_count[predicted] += 1
        hits[true] += true == predicted
    # 2 PR / (P + R) = 2 TP / (predicted + true): one division, and 0/0 only where the label does not occur at all.
    scores = [
        2 * hit / (true + predicted) if true + predicted else 0.0
        for hit, true, predicted in zip(hits, true_count, predicted_count, strict=True)
    ]
    return math.fsum(scores) / width


@lru_cache(maxsize=16)
def _edges(bins: int) -> list[float]:
    return [number / bins for number in range(1, bins)]  # inner edges only: the first bin and the last take the rest


def confidence_bin(confidence: float, bins: int = 10) -> int:
    """Return the number of the bin of a confidence, see :func:`confidence_bins`.

    Args:
        confidence: Highest probability of a row.
        bins: The number of bins.
    """
    return bisect_right(_edges(bins), confidence)


def confidence_bins(
    ground_truth: Sequence[int], prediction: Sequence[Sequence[float]], bins: int = 10
) -> tuple[ConfidenceBin, ...]:
    """Sort the queries into bins of equal width by confidence, the highest probability of their row.

    Bin b of B holds the confidences from b/B to (b + 1)/B, without the upper end; the last bin is closed, so that
    certainty counts.

    Args:
        ground_truth: One label index per query.
        prediction: One probability distribution over the labels per query.
        bins: The number of bins; the benchmark has 10.

    Returns:
        The bins, from no confidence to certainty.

    Raises:
        ArgumentError: ``bins`` is not a positive integer.

    Example:
        >>> confidence_bins([1, 0], [[0.25, 0.75], [0.0, 1.0]], bins=2)[1]
        ConfidenceBin(queries=2, confidence=1.75, correct=1)
    """
    bins = validate_integer("bins", bins, 1)
    rows = check_probabilities(prediction)
    truth = _scored(ground_truth, rows)
    hits = [0] * bins
    confidences: list[list[float]] = [[] for _ in range(bins)]
    for true, row in zip(truth, rows, strict=True):
        confidence = max(row)
        number = confidence_bin(confidence, bins)
        confidences[number].append(confidence)
        hits[number] += row.index(confidence) == true
    return tuple(
        ConfidenceBin(len(inside), math.fsum(inside), hit) for inside, hit in zip(confidences, hits, strict=True)
    )


def expected_calibration_error_1(
    ground_truth: Sequence[int], prediction: Sequence[Sequence[float]], bins: int = 10
) -> float:
    """Mean gap between confidence and accuracy over bins of equal width (ECE-1; see :func:`confidence_bins`).

    Each bin weighs as many queries as it holds.

    Args:
        ground_truth: One label index per query.
        prediction: One probability distribution over the labels per query.
        bins: The number of bins; the benchmark has 10.

    Returns:
        A number from 0 (calibrated) to 1 (certain and always wrong).

    Raises:
        ArgumentError: ``bins`` is not a positive integer.

    Example:
        >>> expected_calibration_error_1([1, 1], [[1.0, 0.0], [1.0, 0.0]])
        1.0
        >>> expected_calibration_error_1([0, 1], [[0.75, 0.25], [0.75, 0.25]])
        0.25
    """
    bins_of_rows = confidence_bins(ground_truth, prediction, bins)
    return math.fsum(abs(inside.correct - inside.confidence) for inside in bins_of_rows) / len(prediction)
