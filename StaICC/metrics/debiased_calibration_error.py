"""The calibration error in squares, without the bias of its bins (Kumar et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.classification import ConfidenceBin, confidence_bins
from StaICC.metrics.statistics import Sample, ValueOnly


def debiased_calibration_error(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Root of the mean squared gap between confidence and accuracy over the ten bins of ECE-1, with the bias removed.

    Chance makes the accuracy of a bin differ from its confidence, also for a calibrated model, and raises the mean of
    absolute or squared gaps. The expected squared error of chance is subtracted here from the squared gap of each bin.
    The sum can be negative; it then counts as 0.

    Returns:
        A number from 0 (calibrated) to 1 (certain and always wrong).

    Raises:
        UndefinedMetricError: Each bin has one query at most, so that no error of chance can be estimated.

    Source:
        Kumar, Liang and Ma 2019, "Verified uncertainty calibration", NeurIPS, the debiased estimator of section 5.

    Example:
        >>> debiased_calibration_error([1, 1], [[1.0, 0.0], [1.0, 0.0]])
        1.0
        >>> debiased_calibration_error([0, 1], [[0.5, 0.5], [0.5, 0.5]])
        0.0
    """
    bins = confidence_bins(ground_truth, prediction)
    n_queries = sum(confidence_bin.queries for confidence_bin in bins)
    # The error of chance is not known for a bin with one query, which is left out of the sum (it counts as calibrated).
    known_bins = [confidence_bin for confidence_bin in bins if confidence_bin.queries > 1]
    if not known_bins:
        raise UndefinedMetricError(f"no confidence bin has two queries (there are {n_queries}): its bias is not known")
    terms = [confidence_bin.queries / n_queries * _debiased_square(confidence_bin) for confidence_bin in known_bins]
    return math.sqrt(max(0.0, math.fsum(terms)))


def _debiased_square(confidence_bin: ConfidenceBin) -> float:
    """Return an estimate without bias of the squared gap between the confidence and the accuracy of a bin.

    With n queries, the accuracy a and the mean confidence c, the expected value of ``(c - a)^2`` is the true squared
    gap plus the variance of a. This variance is estimated by ``a (1 - a) / (n - 1)``, which is subtracted.

    Args:
        confidence_bin: The sums over its queries; two at least.
    """
    n = confidence_bin.queries
    accuracy = confidence_bin.correct / n
    confidence = confidence_bin.confidence / n
    variance_of_accuracy = accuracy * (1.0 - accuracy) / (n - 1)
    return (confidence - accuracy) ** 2 - variance_of_accuracy


class DebiasedCalibrationError(ValueOnly):
    """The debiased calibration error."""

    reads = "probabilities"
    of_classification = True
    reason = (
        "it is cut off at 0, where many samples of calibrated models are, so that it is no sum over test rows; "
        "the calibration error (ECE-1) has intervals and tests"
    )

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the debiased calibration error."""
        return debiased_calibration_error(sample.truth, predictions)
