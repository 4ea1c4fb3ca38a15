"""Outputs of a stated kind (``outputs="logits"``), as methods read or return them.

A method then reads probabilities, whatever the model returns, and what it returns is given the stated kind, because the
benchmark reads it so. Without a stated kind (``"auto"``) each method reads the rows as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from StaICC.methods.features import apply_present, present
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
    return apply_present(rows, lambda numbers: list(map(list, normalise(numbers, outputs).probabilities or ())))


def as_stated(rows: Sequence[Any], outputs: Kind) -> list[Any]:
    """Return a method's predictions as the kind that is stated, as which the benchmark reads them.

    A method returns probabilities. Where logits are stated, these become log-probabilities: their softmax is the same.

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
    kept = present(rows)
    return bool(kept) and all(isinstance(row, (list, tuple)) for row in kept)
