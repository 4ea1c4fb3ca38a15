"""A metric: the Brier score."""

from __future__ import annotations

import math

from StaICC import Metric


def brier_score(ground_truth: list[int], prediction: list[list[float]]) -> float:
    """Return the mean squared distance between the probabilities and the true label's one-hot row."""
    errors = [
        math.fsum((value - (place == label)) ** 2 for place, value in enumerate(row))
        for label, row in zip(ground_truth, prediction, strict=True)
    ]
    return math.fsum(errors) / len(errors)


BRIER_SCORE = Metric(
    "brier_score",
    brier_score,
    requires_probabilities=True,
    higher_is_better=False,
    range=(0.0, 2.0),
)
