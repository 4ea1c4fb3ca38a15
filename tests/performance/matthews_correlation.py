"""Coverage of the interval of the Matthews correlation, and type I error of its paired test.

In an environment that has NumPy::

    python tests/performance/matthews_correlation.py [--samples 1000] [--rows 50 128] [--resume FILE]

A model has a matrix with the probability of each prediction for each true label (:data:`CONFUSIONS`). Pairs of models
have the same correlation and other matrices: the accuracy of each is the one with which it has this correlation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from records import arguments, record, resumed

from StaICC.errors import UndefinedMetricError
from StaICC.metrics import paired_tests as paired
from StaICC.metrics.intervals import NoInterval
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Sample

Array = np.ndarray[Any, Any]
MATTHEWS = STATISTICS["matthews"]
PRIORS: dict[str, tuple[float, ...]] = {
    "two equal": (0.5, 0.5),
    "two, 9 to 1": (0.9, 0.1),
    "two, 97 to 3": (0.97, 0.03),
    "three": (0.28, 0.59, 0.13),
    "four": (0.87, 0.11, 0.015, 0.005),
    "six": (0.22, 0.2, 0.2, 0.19, 0.17, 0.02),
    "twenty equal": (0.05,) * 20,
}


def spread(labels: int, accuracy: float) -> Array:
    """Wrong predictions are all other labels, equally often."""
    error = (1.0 - accuracy) / (labels - 1)
    return np.full((labels, labels), error) + np.eye(labels) * (accuracy - error)


def towards_the_first(labels: int, accuracy: float) -> Array:
    """Wrong predictions are the first label, or the second where the first is true."""
    matrix = np.eye(labels) * accuracy
    matrix[1:, 0] += 1.0 - accuracy
    matrix[0, 1] += 1.0 - accuracy
    return matrix


def last_missed(labels: int, accuracy: float) -> Array:
    """The last label is sometimes predicted as the first one."""
    matrix = np.eye(labels)
    matrix[-1, -1] = accuracy
    matrix[-1, 0] = 1.0 - accuracy
    return matrix


def last_invented(labels: int, accuracy: float) -> Array:
    """Other labels are sometimes predicted as the last one."""
    matrix = np.eye(labels) * accuracy
    matrix[:, -1] += 1.0 - accuracy
    return matrix


CONFUSIONS = {function.__name__: function for function in (spread, towards_the_first, last_missed, last_invented)}


def correlation_of(prior: Array, matrix: Array) -> float:
    """The true correlation of a model."""
    joint = prior[:, None] * matrix
    true, predicted = joint.sum(1), joint.sum(0)
    variances = (1.0 - true @ true) * (1.0 - predicted @ predicted)
    return float((np.trace(joint) - true @ predicted) / math.sqrt(variances)) if variances > 1e-12 else 0.0


def with_correlation(prior: Array, matrix_of: Callable[[int, float], Array], correlation: float) -> Array | None:
    """The matrix with which a model has this correlation; ``None`` if no accuracy leads to it."""
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if correlation_of(prior, matrix_of(len(prior), middle)) < correlation:
            low = middle
        else:
            high = middle
    matrix = matrix_of(len(prior), high)
    return matrix if abs(correlation_of(prior, matrix) - correlation) < 1e-6 else None


def predictions_of(draw: Any, truth: Array, matrix: Array) -> list[int]:
    """A prediction for each true label."""
    above = draw.random(len(truth))[:, None] > np.cumsum(matrix, axis=1)[truth]
    return np.minimum(above.sum(axis=1), len(matrix) - 1).tolist()  # type: ignore[no-any-return]


def cell(samples: int, prior: Array, matrices: tuple[Array, Array], rows: int) -> dict[str, Any]:
    """How often the interval covers the correlation, and how often the two models are called different."""
    draw = np.random.default_rng(rows)
    truth_of_first = correlation_of(prior, matrices[0])
    intervals = covered = pairs = rejected = 0
    for _ in range(samples):
        truth = draw.choice(len(prior), rows, p=prior)
        sample = Sample(truth.tolist(), range(rows), rows, len(prior))
        first, second = (predictions_of(draw, truth, matrix) for matrix in matrices)
        try:
            interval = MATTHEWS.interval(sample, first, 0.95)
            contributions = [MATTHEWS.of_run(sample, predictions) for predictions in (first, second)]
        except UndefinedMetricError:
            continue
        if not isinstance(interval, NoInterval):
            intervals += 1
            covered += interval.low <= truth_of_first <= interval.high
        difference = paired.paired_difference([(1.0, contributions[0])], [(1.0, contributions[1])])
        pairs += 1
        rejected += paired.too_few_rows(difference) is None and paired.p_value(difference) <= 0.05
    return {"intervals": intervals, "covered": covered / max(1, intervals), "rejected": rejected / max(1, pairs)}


if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 1000, "--rows": [50, 128], "--resume": Path})
    cells = []
    for rows in options.rows:
        for prior_name, shares in PRIORS.items():
            prior = np.array(shares) / sum(shares)
            for first_name, second_name in (
                ("spread", "spread"),
                ("spread", "towards_the_first"),
                ("last_missed", "last_invented"),
            ):
                for correlation in (0.3, 0.7, 0.92):
                    first = with_correlation(prior, CONFUSIONS[first_name], correlation)
                    second = with_correlation(prior, CONFUSIONS[second_name], correlation)
                    if first is None or second is None:
                        continue
                    name = f"{prior_name}, {first_name} and {second_name}, {correlation}, {rows} rows"
                    cells.append((name, partial(cell, options.samples, prior, (first, second), rows)))
    record(__file__, resumed(options.resume, cells), {"samples": options.samples})
