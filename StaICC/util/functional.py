"""``StaICC.util.functional`` of 0.1.1: its functions on lists of numbers, with the values that 0.1.1 computes."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.benchmarks import task
from StaICC.errors import ArgumentError
from StaICC.metrics import released
from StaICC.metrics.released import accuracy as accuracy
from StaICC.metrics.released import averaged_truelabel_likelihood as averaged_truelabel_likelihood
from StaICC.metrics.released import expected_calibration_error_1 as expected_calibration_error_1
from StaICC.metrics.released import macro_F1 as macro_F1
from StaICC.removed import removed_names


def softmax(x: Sequence[float]) -> list[float]:
    """Return the softmax of a list of numbers."""
    return released.softmax(x)


def entropy(x: Sequence[float]) -> float:
    """Return the entropy of a list of probabilities, in nats."""
    return released.entropy(x)


def kl_divergence(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the Kullback-Leibler divergence of ``x`` from ``y``, in nats."""
    return released.kl_divergence(x, y)


def argmax(x: Sequence[float]) -> int:
    """Return the position of the largest value, the first of equals."""
    return task.argmax(x)


def argmin(x: Sequence[float]) -> int:
    """Return the position of the smallest value, the first of equals."""
    return min(range(len(x)), key=x.__getitem__)


def L2_dist(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the Euclidean distance of two vectors, as the root of the sum from left to right.

    Raises:
        ArgumentError: They have different lengths.

    Example:
        >>> L2_dist([0.0, 0.0], [3.0, 4.0])
        5.0
    """
    if len(x) != len(y):
        raise ArgumentError(f"the vectors have {len(x)} and {len(y)} components, expected the same number")
    total = 0.0
    for first, second in zip(x, y, strict=True):
        total += (first - second) ** 2
    return float(total**0.5)


__getattr__ = removed_names(
    __name__,
    {
        "bias_mean_entropy_metric": "StaICC.Contextual_bias(metrics='0.1.1')",
        "bias_mean_metric": "StaICC.Contextual_bias(metrics='0.1.1')",
        "compress_logits_prediction_to_onehot": "[max(range(len(row)), key=row.__getitem__) for row in prediction]",
        "consistency": "StaICC.consistency(runs), with one list of predicted labels for each query",
        "exp_to_list": "[math.exp(value) for value in values]",
        "extend_onehot_prediction_to_logits": "[[float(i == label) for i in range(n_labels)] for label in prediction]",
        "linear_regression": "statistics.linear_regression(x, y), of the standard library",
        "linspace": "[start + (end - start) * i / (num - 1) for i in range(num)]",
        "post_bias_dis_metric": "StaICC.Post_bias(metrics='0.1.1')",
        "post_bias_dl_metric": "StaICC.Post_bias(metrics='0.1.1')",
        "probability_matrix_check": "all(abs(sum(row) - 1) < 1e-9 and min(row) >= 0 for row in matrix)",
        "probability_vector_check": "abs(sum(row) - 1) < 1e-9 and min(row) >= 0",
        "single_consistency": "max(map(prediction.count, prediction)) / len(prediction)",
        "two_dimensional_list_mean": "[sum(column) / len(matrix) for column in zip(*matrix)]",
        "unique_check": "len(set(values)) == len(values)",
    },
)
