"""Rows of label scores, as calibrations read them.

A row has one number for each label: probabilities, or logits. Calibrations compute with probabilities. A trained
calibration reads every later row as it read its training rows, because a single row of logits such as ``(0.2, 0.8)``
could be either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from StaICC.errors import OutputError
from StaICC.methods.present_rows import check_answered
from StaICC.metrics.classification import Kind, normalise, numeric_rows

ReadAs = Literal["probabilities", "logits"]
"""What rows of numbers are."""

FLOOR = 1e-300
"""Smallest probability whose logarithm is taken: the logarithm of 0 is not finite, and softmax makes 0 of this one."""


def label_rows(answers: Sequence[Any], width: int | None, what: str) -> list[list[float]]:
    """Return predictions as rows of numbers.

    Args:
        answers: The model's prediction for each prompt.
        width: The number of labels; ``None`` if that is not known.
        what: What a prompt is, for the message, such as ``"calibration prompt"``.

    Raises:
        OutputError: A prediction is an exception, a label, of another length, or not finite.
    """
    rows = numeric_rows(check_answered(answers, what))
    if rows and width is not None and len(rows[0]) != width:
        raise OutputError(f"{what} 0: got {len(rows[0])} scores, expected {width}, one for each label")
    return rows


def read_probabilities(rows: Sequence[Sequence[float]], kind: Kind) -> tuple[list[list[float]], ReadAs]:
    """Return rows as probabilities, and what they were read as.

    Args:
        rows: Rows of numbers.
        kind: ``"probabilities"``, ``"logits"``, or ``"auto"`` to find it out from all rows together.

    Raises:
        OutputError: The rows are neither, or could be both.
    """
    normalised = normalise(rows, kind)
    if normalised.probabilities is None or normalised.kind == "ambiguous":
        raise OutputError(f"the predictions are neither probabilities nor logits: {normalised.reason}")
    probabilities = [list(row) for row in normalised.probabilities]
    return probabilities, normalised.kind


def training_probabilities(answers: Sequence[Any], width: int) -> tuple[list[list[float]], ReadAs]:
    """Return the predictions for calibration prompts as probabilities, and what they were read as."""
    rows = label_rows(answers, width, "calibration prompt")
    return read_probabilities(rows, "auto")


def probabilities_as(answers: Sequence[Any], width: int, read_as: ReadAs) -> list[list[float]]:
    """Return predictions as probabilities, read as the training rows were."""
    rows = label_rows(answers, width, "prompt")
    probabilities, _ = read_probabilities(rows, read_as)
    return probabilities


def mean_row(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of some rows."""
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


def logarithms(row: Sequence[float]) -> list[float]:
    """Return the logarithms of probabilities, those below :data:`FLOOR` as that of :data:`FLOOR`."""
    return [math.log(max(value, FLOOR)) for value in row]


def divided(row: Sequence[float], prior: Sequence[float]) -> list[float]:
    """Return probabilities that are proportional to ``row / prior``; a label whose prior is 0 gets 0."""
    ratios = []
    for value, label_prior in zip(row, prior, strict=True):
        ratio = value / label_prior if label_prior else 0.0
        ratios.append(ratio)
    total = math.fsum(ratios)
    return [ratio / total for ratio in ratios]
