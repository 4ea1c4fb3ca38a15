"""Matthews correlation coefficient of predicted with true labels, for any number of labels (Gorodkin 2004)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.classification import check_truth, numeric_rows, predicted_labels
from StaICC.metrics.statistics import Sample, ValueOnly


def matthews(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Matthews correlation coefficient (MCC): the correlation of the true and the predicted labels.

    Returns:
        A number from -1 to 1; 0 for predictions that are independent of the true labels.

    Raises:
        UndefinedMetricError: All true labels or all predicted labels are the same, so that the coefficient is 0/0.
            (scikit-learn's ``matthews_corrcoef`` returns 0 then.)

    Source:
        Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient", Computational
        Biology and Chemistry 28.

    Example:
        >>> matthews([0, 0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
        0.5773502691896258
    """
    rows = numeric_rows(prediction)
    truth = check_truth(ground_truth, rows)
    return _correlation(truth, predicted_labels(rows))


def _correlation(truth: Sequence[int], predictions: Sequence[int]) -> float:
    """Return the Matthews correlation coefficient of true and predicted labels.

    With n queries, c of them correct, and for each label k the number t of its queries and p of its predictions,

        MCC = (n c - sum(t p)) / sqrt((n^2 - sum(t^2)) (n^2 - sum(p^2)))

    All of these numbers are integers.
    """
    n = len(truth)
    correct = sum(1 for label, guess in zip(truth, predictions, strict=True) if label == guess)
    true_counts = Counter(truth)
    predicted_counts = Counter(predictions)
    covariance = n * correct - sum(count * predicted_counts[label] for label, count in true_counts.items())
    true_variance = n * n - sum(count * count for count in true_counts.values())
    predicted_variance = n * n - sum(count * count for count in predicted_counts.values())
    if not true_variance:
        raise UndefinedMetricError(f"all {n} queries have the same true label, so that there is no correlation")
    if not predicted_variance:
        raise UndefinedMetricError(f"all {n} predictions are the same label, so that there is no correlation")
    return covariance / math.sqrt(true_variance * predicted_variance)


class Matthews(ValueOnly):
    """The Matthews correlation coefficient."""

    of_classification = True
    reason = "the coverage of its intervals and the size of its tests are not measured; macro F1 has both"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return -1.0, 1.0

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the coefficient."""
        return _correlation(sample.truth, predictions)
