"""Distances between the vectors of prompts, with what is nearest by them.

A vector is the last hidden state of a prompt or the logits of the full vocabulary after it. NumPy is imported when a
function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.errors import ArgumentError, OutputError, TooFewRowsError
from StaICC.methods.packed_features import numpy


def finite_matrix(rows: Any, what: str) -> Any:
    """Return rows of numbers as a matrix, or say which row cannot be read.

    Args:
        rows: Rows of equal length; arrays and tensors too.
        what: What a row is, for the message, such as ``"hidden state"``.

    Returns:
        An array of shape (rows, width), double precision.

    Raises:
        OutputError: The rows have different lengths, or one has NaN or an infinity.
    """
    try:
        plain = rows if hasattr(rows, "shape") else [numpy.asarray(row, dtype=numpy.float64) for row in rows]
        matrix = numpy.asarray(plain, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise OutputError(f"the {what}s cannot be read as rows of numbers of equal length: {error}") from error
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise OutputError(f"a {what} must be a row of numbers; got an array of shape {matrix.shape} for {len(rows)}")
    not_finite = ~numpy.isfinite(matrix).all(axis=1)
    if not_finite.any():
        first = int(not_finite.argmax())
        raise OutputError(
            f"{what} {first} has NaN or an infinity, so nothing is near to it; use a wider number type of the model, "
            "such as float32"
        )
    return matrix


def check_width(rows: Any, anchors: Any) -> None:
    """Refuse rows that are not as long as the anchors that they are compared with."""
    if rows.shape[1] != anchors.shape[1]:
        raise ArgumentError(
            f"got rows of {rows.shape[1]} numbers, expected {anchors.shape[1]} as in the anchors. Was it trained on "
            "another model?"
        )


def euclidean(queries: Any, anchors: Any) -> Any:
    r"""Return the Euclidean distance of each query to each anchor.

    :math:`\lVert q - a \rVert = \sqrt{q \cdot q + a \cdot a - 2 q \cdot a}`, which is one matrix product for all.

    Args:
        queries: Array (n, d).
        anchors: Array (m, d).

    Returns:
        Array (n, m).
    """
    of_queries = (queries**2).sum(1)[:, None]
    of_anchors = (anchors**2).sum(1)[None, :]
    squared = of_queries + of_anchors - 2 * (queries @ anchors.T)
    return numpy.sqrt(numpy.maximum(squared, 0.0))  # rounding can make it negative


def log_softmax_rows(logits: Any) -> Any:
    """Return the logarithm of the softmax of each row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))


def softmax_rows(scores: Any) -> Any:
    """Return the softmax of each row."""
    return numpy.exp(log_softmax_rows(scores))


def _refuse_probabilities(rows: Any) -> None:
    """Refuse a matrix whose rows are all probabilities: not negative, with a sum of 1 up to rounding."""
    sums = rows.sum(axis=1)
    if (rows >= 0).all() and (abs(sums - 1.0) < 1e-3).all():
        raise ArgumentError("got probabilities, expected logits or log-probabilities of the full vocabulary")


def distributions(logits: Any) -> Any:
    """Return the probabilities of each row of logits (or log-probabilities).

    Raises:
        ArgumentError: The rows are probabilities already: their softmax would be something else.
    """
    _refuse_probabilities(logits)
    return softmax_rows(logits)


def kullback_leibler(logits: Any, anchors: Any) -> Any:
    r"""Return the divergence of each query's distribution :math:`q` from each anchor :math:`a`, in nats.

    :math:`D_{KL}(a \Vert q) = \sum_v a_v \log a_v - \sum_v a_v \log q_v`, with :math:`0 \log 0 = 0`.

    Args:
        logits: Logits or log-probabilities of the queries (n, d).
        anchors: Probabilities (m, d).

    Returns:
        Array (n, m).

    Raises:
        ArgumentError: The queries are probabilities.
    """
    _refuse_probabilities(logits)
    anchor_logs = numpy.zeros_like(anchors)
    numpy.log(anchors, out=anchor_logs, where=anchors > 0)  # 0 remains where an anchor is 0: 0 log 0 = 0
    negative_entropies = (anchors * anchor_logs).sum(1)
    cross_terms = log_softmax_rows(logits) @ anchors.T
    return numpy.maximum(negative_entropies[None, :] - cross_terms, 0.0)  # rounding can make it negative


def centroids(rows: Any, labels: Sequence[int], label_space: Sequence[str]) -> Any:
    """Return the mean of the rows of each label.

    Args:
        rows: Array (m, d).
        labels: Label index of each row.
        label_space: The labels.

    Returns:
        Array (labels, d).

    Raises:
        TooFewRowsError: A label has no row, so it has no centroid.
    """
    missing = labels_without_rows(labels, label_space)
    if missing:
        names = ", ".join(map(repr, missing))
        raise TooFewRowsError(
            f"none of the {len(labels)} calibration samples has the label {names}; use a larger calibration_number, or "
            "a calibration set that has every label"
        )
    label_of_row = numpy.asarray(labels)
    means = [rows[label_of_row == label].mean(axis=0) for label in range(len(label_space))]
    return numpy.stack(means)


def labels_without_rows(labels: Sequence[int], label_space: Sequence[str]) -> list[str]:
    """Return the labels that no row has."""
    present = set(labels)
    return [name for label, name in enumerate(label_space) if label not in present]


def nearest(distances: Any, count: int) -> Any:
    """Return the nearest anchors of each query, nearest first, the first of equals first.

    Args:
        distances: Array (n, m).
        count: How many; m at most.

    Returns:
        Integer array (n, count).
    """
    return numpy.argsort(distances, axis=1, kind="stable")[:, :count]
