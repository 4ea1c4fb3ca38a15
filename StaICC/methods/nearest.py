"""Distances between hidden states or distributions: to anchors, centroids or demonstrations.

All distances of a list of queries come from one matrix product. They are computed in double precision: the states of a
model have entries of some hundreds, and ``|a|^2 - 2ab + |b|^2`` cancels.

Shapes, for ``n`` queries, ``m`` anchors, ``d`` features, ``L`` labels: features ``(n, d)``, anchors ``(m, d)``,
centroids ``(L, d)``, distances ``(n, m)`` or ``(n, L)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.errors import ArgumentError, OutputError
from StaICC.optional import require


def _numpy() -> Any:
    return require("numpy", "hf", "nearest neighbours among a model's states")


def finite_matrix(rows: Any, what: str) -> Any:
    """Read rows of numbers as a matrix, or say which row cannot be read.

    Args:
        rows: Rows of equal length; arrays and tensors too.
        what: What a row is, for the message, such as ``"hidden state"``.

    Returns:
        An array of shape (rows, width), double precision.

    Raises:
        OutputError: The rows have different lengths, or one has NaN or an infinity.
    """
    numpy = _numpy()
    try:
        plain = rows if hasattr(rows, "shape") else [numpy.asarray(row, dtype=numpy.float64) for row in rows]
        matrix = numpy.asarray(plain, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise OutputError(f"the {what}s cannot be read as rows of numbers of equal length: {error}") from error
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise OutputError(f"a {what} must be a row of numbers; got an array of shape {matrix.shape} for {len(rows)}")
    bad = ~numpy.isfinite(matrix).all(axis=1)
    if bad.any():
        raise OutputError(
            f"{what} {int(bad.argmax())} has NaN or an infinity, so nothing is near to it; use a wider number type "
            "of the model, such as float32"
        )
    return matrix


def euclidean(queries: Any, anchors: Any) -> Any:
    """Euclidean distance of each query to each anchor.

    Args:
        queries: Array (n, d).
        anchors: Array (m, d).

    Returns:
        Array (n, m).
    """
    numpy = _numpy()
    _same_width(queries, anchors)
    squared = (queries**2).sum(1)[:, None] + (anchors**2).sum(1)[None, :] - 2 * (queries @ anchors.T)
    return numpy.sqrt(numpy.maximum(squared, 0.0))


def _log_softmax(logits: Any) -> Any:
    numpy = _numpy()
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))


def _refuse_probabilities(rows: Any) -> None:
    if (rows >= 0).all() and (abs(rows.sum(axis=1) - 1.0) < 1e-3).all():
        raise ArgumentError("got probabilities, expected logits or log-probabilities of the full vocabulary")


def distributions(logits: Any) -> Any:
    """Probabilities of each row of logits (or log-probabilities).

    Raises:
        ArgumentError: The rows are probabilities already: their softmax would be something else.
    """
    _refuse_probabilities(logits)
    return _numpy().exp(_log_softmax(logits))


def kullback_leibler(logits: Any, anchors: Any) -> Any:
    """Divergence ``KL(anchor || query) = sum_v anchor_v (log anchor_v - log query_v)``, in nats; 0 log 0 = 0.

    Args:
        logits: Logits or log-probabilities of the queries (n, d).
        anchors: Probabilities (m, d).

    Returns:
        Array (n, m).

    Raises:
        ArgumentError: The queries are probabilities, or of another width than the anchors.
    """
    numpy = _numpy()
    _same_width(logits, anchors)
    _refuse_probabilities(logits)
    logarithms = numpy.log(anchors, out=numpy.zeros_like(anchors), where=anchors > 0)
    negative_entropy = (anchors * logarithms).sum(1)
    return numpy.maximum(negative_entropy[None, :] - _log_softmax(logits) @ anchors.T, 0.0)


def centroids(rows: Any, labels: Sequence[int], label_space: Sequence[str]) -> Any:
    """Mean of the rows of each label.

    Args:
        rows: Array (m, d).
        labels: Label index of each row.
        label_space: The labels.

    Returns:
        Array (L, d).

    Raises:
        ArgumentError: A label has no row, so it has no centroid.
    """
    numpy = _numpy()
    missing = [text for label, text in enumerate(label_space) if label not in set(labels)]
    if missing:
        raise ArgumentError(
            f"none of the {len(labels)} calibration samples has the label {', '.join(map(repr, missing))}, so there is "
            "no centroid to be near to; use a larger calibration_number, or a calibration set that has every label"
        )
    numbers = numpy.asarray(labels)
    return numpy.stack([rows[numbers == label].mean(axis=0) for label in range(len(label_space))])


def nearest(distances: Any, count: int) -> Any:
    """The nearest anchors of each query, nearest first, the first of equals first.

    Args:
        distances: Array (n, m).
        count: How many; m at most.

    Returns:
        Integer array (n, count).
    """
    return _numpy().argsort(distances, axis=1, kind="stable")[:, :count]


def count_votes(chosen: Any, labels: Sequence[int], width: int) -> Any:
    """How many of the chosen anchors of each query have each label.

    Args:
        chosen: Indexes of anchors (n, count).
        labels: Label index of each anchor.
        width: How many labels there are.

    Returns:
        Array (n, width) of whole numbers, as floats.
    """
    numpy = _numpy()
    return numpy.eye(width)[numpy.asarray(labels)[chosen]].sum(axis=1)


def softmax(scores: Any) -> Any:
    """Softmax of each row."""
    return _numpy().exp(_log_softmax(scores))


def _same_width(queries: Any, anchors: Any) -> None:
    if queries.shape[1] != anchors.shape[1]:
        raise ArgumentError(
            f"got rows of {queries.shape[1]} numbers, expected {anchors.shape[1]} as in the anchors. Was the "
            "calibration trained on another model?"
        )
