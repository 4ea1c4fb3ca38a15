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
    """Return what a method reads of the model's predictions.

    Args:
        rows: A prediction or a failure for each prompt. Labels and texts are kept as they are.
        outputs: How rows of numbers are read.

    Raises:
        OutputError: A row cannot be read as the kind that is stated.
    """
    if outputs == "auto":
        return list(rows)

    def probabilities_of(numbers: list[list[float]]) -> list[list[float]]:
        read = normalise(numbers, outputs).probabilities or ()  # not None: the kind is stated
        return [list(row) for row in read]

    return _apply_to_numbers(rows, probabilities_of)


def as_stated(rows: Sequence[Any], outputs: Kind) -> list[Any]:
    """Return a method's predictions for a benchmark that reads outputs of the stated kind.

    A method returns probabilities. If logits are stated, the benchmark takes the softmax of what it gets, so that
    probabilities become log-probabilities.

    Args:
        rows: A prediction or a failure for each query. Labels and texts are kept as they are, such as replies without
            a label among the shares of generated ones.
        outputs: How rows of numbers are read.
    """
    if outputs != "logits":
        return list(rows)

    def logarithms_of(numbers: list[list[float]]) -> list[list[float]]:
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
