"""Outputs of a stated kind (``outputs="logits"``), as methods read or return them.

A method then reads probabilities, whatever the model returns, and its results are converted back to the stated kind,
which is what the benchmark expects. Without a stated kind (``"auto"``) each method reads the rows as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from StaICC.methods.present_rows import apply_present, present
from StaICC.metrics.classification import Kind, normalise


def as_probabilities(rows: Sequence[Any], outputs: Kind) -> list[Any]:
    """Return what a method reads of the model's predictions.

    Args:
        rows: A prediction or a failure for each prompt.
        outputs: How rows of numbers are read.

    Raises:
        OutputError: A row cannot be read as the kind that is stated.
    """
    if outputs == "auto" or not _are_numbers(rows):
        return list(rows)

    def probabilities_of(numbers: list[Any]) -> list[list[float]]:
        read = normalise(numbers, outputs).probabilities or ()  # not None: the kind is stated
        return [list(row) for row in read]

    return apply_present(rows, probabilities_of)


def as_stated(rows: Sequence[Any], outputs: Kind) -> list[Any]:
    """Return a method's predictions for a benchmark that reads outputs of the stated kind.

    A method returns probabilities. If logits are stated, the benchmark takes the softmax of what it gets, so that
    probabilities become log-probabilities.

    Args:
        rows: A prediction or a failure for each query.
        outputs: How rows of numbers are read.
    """
    if outputs != "logits" or not _are_numbers(rows):
        return list(rows)
    read = normalise(present(rows))
    if read.kind != "probabilities" or read.probabilities is None:
        return list(rows)
    logarithms = [[math.log(value) if value > 0 else -math.inf for value in row] for row in read.probabilities]
    return apply_present(rows, lambda _: logarithms)


def _are_numbers(rows: Sequence[Any]) -> bool:
    """Return whether there are predictions, and all are rows of numbers: not labels, not texts."""
    predictions = present(rows)
    return bool(predictions) and all(isinstance(row, (list, tuple)) for row in predictions)
