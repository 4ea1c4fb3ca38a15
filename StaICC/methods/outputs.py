"""Outputs of a stated kind (``outputs="logits"``), as methods read or return them.

A method then reads probabilities, whatever the model returns, and its results are converted back to the stated kind,
which is what the benchmark expects. Without a stated kind (``"auto"``) each method reads the rows as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from StaICC.metrics.classification import Kind, normalise


def as_probabilities(rows: Sequence[Any], outputs: Kind) -> list[Any]:
    """Return the predictions of a model with probabilities in the place of other scores, as methods need them.

    Args:
        rows: For each prompt a prediction (one score for each label, a label or a text) or a failure.
        outputs: What the user states that the scores are: ``"probabilities"``, ``"logits"``, or ``"auto"`` for nothing.

    Returns:
        For each prompt its prediction. Scores of a stated kind become probabilities; those of kind ``"auto"``, labels,
        texts and failures are unchanged.

    Raises:
        OutputError: A row cannot be read as the kind that is stated.
    """
    if outputs == "auto":
        return list(rows)

    def probabilities_of(numbers: list[list[float]]) -> list[list[float]]:
        """Return the probabilities of rows of scores."""
        probabilities = normalise(numbers, outputs).probabilities
        assert probabilities is not None  # they are None only for an ambiguous kind, and this kind is stated
        return [list(row) for row in probabilities]

    return _apply_to_numbers(rows, probabilities_of)


def as_stated(rows: Sequence[Any], outputs: Kind) -> list[Any]:
    """Return the predictions of a method in the form in which the benchmark reads them.

    A method returns probabilities ``p``. A benchmark for which logits are stated takes their softmax, so it gets
    ``log p``: ``softmax(log p) = p``.

    Args:
        rows: For each query a prediction (one score for each label, a label or a text) or a failure.
        outputs: What the benchmark expects: ``"probabilities"``, ``"logits"`` or ``"auto"``.

    Returns:
        For each query its prediction. Labels, texts and failures are unchanged.
    """
    if outputs != "logits":
        return list(rows)

    def logarithms_of(numbers: list[list[float]]) -> list[list[float]]:
        """Return the logarithms of rows of probabilities; other rows, such as logits, are unchanged."""
        read = normalise(numbers)
        if read.kind != "probabilities" or read.probabilities is None:
            return numbers
        return [[math.log(value) if value > 0 else -math.inf for value in row] for row in read.probabilities]

    return _apply_to_numbers(rows, logarithms_of)


def _apply_to_numbers(rows: Sequence[Any], apply: Callable[[list[list[float]]], list[list[float]]]) -> list[Any]:
    """Return what a function makes of all rows of numbers together; labels, texts and failures keep their places.

    Args:
        rows: Predictions: rows of numbers, labels, texts or failures.
        apply: Gets all rows of numbers, and returns a new row for each.
    """
    converted = list(rows)
    positions = []
    rows_of_numbers = []
    for position, row in enumerate(rows):
        plain = row.tolist() if hasattr(row, "tolist") else row  # an array is a row of numbers, too
        if isinstance(plain, (list, tuple)):
            positions.append(position)
            rows_of_numbers.append(list(plain))
    if rows_of_numbers:
        for position, row in zip(positions, apply(rows_of_numbers), strict=True):
            converted[position] = row
    return converted
