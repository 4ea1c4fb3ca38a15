"""Metrics of robustness: how far predictions depend on the template, on the demonstrations, and on their labels.

Consistency (template and demonstration sensitivity): the same query is evaluated in several ways; the share of its most
frequent prediction, whether correct or not, is averaged over the queries.

GLER (label noise; Yoo et al. 2022): a metric is measured with more and more falsified labels in the demonstrations, and
regressed on the *share of correct labels*. The slope says how much the metric gains as the labels go from all wrong to
all right. A large slope is a high sensitivity to noise. (On the noise rate itself the slope would have the other sign.)

All arithmetic is exact: fractions inside, one rounding at the end. A metric that falls linearly from a to b has the
slope a - b, not something near it.

Source: Cho and Inoue (2025), section 3.3.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from StaICC.errors import ArgumentError, UndefinedMetricError, validate_integer


class Line(NamedTuple):
    """A straight line: value = slope * share + intercept.

    Attributes:
        slope: Change of the value per unit of the abscissa.
        intercept: Value at the abscissa 0.
    """

    slope: float
    intercept: float


def _fractions(numbers: Sequence[float | Fraction], what: str) -> list[Fraction]:
    exact = []
    for position, number in enumerate(numbers):
        try:
            if isinstance(number, (str, bytes)):
                raise TypeError("text")
            exact.append(number if isinstance(number, Fraction) else Fraction(float(number)))
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError(f"{what} {position} is {number!r}; expected a finite number") from None
    return exact


def consistency(predictions: Sequence[Sequence[int]]) -> float:
    """Average over the queries of the share of the most frequent prediction.

    Args:
        predictions: For each query the label indexes that were predicted in the several runs; as many for every query.

    Returns:
        A number from 1 over the number of runs (a different prediction every time) to 1 (always the same prediction).

    Raises:
        ArgumentError: Some queries have more predictions than others, or a prediction is not a label index.
        UndefinedMetricError: There are no queries, or no runs.

    Example:
        >>> consistency([[0, 0, 1], [2, 2, 2]])
        0.8333333333333334
    """
    if len(predictions) == 0:
        raise UndefinedMetricError("there are no queries, so the consistency of their predictions is undefined")
    runs = len(predictions[0])
    if runs == 0:
        raise UndefinedMetricError("there are no runs, so the consistency of their predictions is undefined")
    agreeing = 0
    for query, predicted in enumerate(predictions):
        if len(predicted) != runs:
            raise ArgumentError(
                f"query {query} has {len(predicted)} predictions, query 0 has {runs}; expected one per run"
            )
        counts: dict[int, int] = {}
        for prediction in predicted:
            try:
                label = operator.index(prediction)
            except TypeError:
                raise ArgumentError(
                    f"a prediction of query {query} is {prediction!r}; expected a label index"
                ) from None
            counts[label] = counts.get(label, 0) + 1
        agreeing += max(counts.values())
    return agreeing / (len(predictions) * runs)


def shares_of_correct_labels(interpolations: int = 5) -> tuple[Fraction, ...]:
    """List the abscissas of GLER: from all labels correct to none, in equal steps.

    Args:
        interpolations: How many, at least 2.

    Returns:
        The shares as fractions, so that thirds are exact too.

    Raises:
        ArgumentError: The number is not an integer of at least 2.

    Example:
        >>> [float(share) for share in shares_of_correct_labels()]
        [1.0, 0.75, 0.5, 0.25, 0.0]
    """
    last = validate_integer("interpolations", interpolations, 2) - 1
    return tuple(Fraction(last - step, last) for step in range(interpolations))


def noisy_label_shares(k: int, conditions: int) -> list[float]:
    """Return the share of demonstrations with their true label, condition by condition, as GLER makes its prompts.

    Args:
        k: Demonstrations per prompt; ``int(k * rate)`` of them have a wrong label.
        conditions: Number of noise rates, from 0 to 1 in equal steps, at least 2.

    Example:
        >>> noisy_label_shares(2, 5)
        [1.0, 1.0, 0.5, 0.5, 0.0]
    """
    return [1 - int(k * (step / max(1, conditions - 1))) / k if k else 1.0 for step in range(conditions)]


def gler(values: Sequence[float | Fraction], shares_of_correct_labels: Sequence[float | Fraction]) -> Line:
    """Regress a metric on the share of correct labels in the demonstrations, by exact least squares.

    Args:
        values: The metric at each share, such as accuracies.
        shares_of_correct_labels: The shares, such as 1, 0.75, 0.5, 0.25, 0; one per value, not all equal.

    Returns:
        The line. Its slope is the paper's GLER if the values are accuracies; slope and intercept are the exact
        least-squares solution for the numbers given, rounded once.

    Raises:
        ArgumentError: The two lists differ in length, or hold what is not a finite number.
        UndefinedMetricError: There are fewer than two different shares, so there is no slope.

    Example:
        >>> gler([0.75, 0.6875, 0.625, 0.5625, 0.5], [1, 0.75, 0.5, 0.25, 0])
        Line(slope=0.25, intercept=0.5)
    """
    if len(values) != len(shares_of_correct_labels):
        raise ArgumentError(
            f"there are {len(values)} values for {len(shares_of_correct_labels)} shares of correct labels; "
            "expected one each"
        )
    ordinates = _fractions(values, "value")
    abscissas = _fractions(shares_of_correct_labels, "share of correct labels")
    if len(set(abscissas)) < 2:
        raise UndefinedMetricError(
            f"the slope needs at least two different shares of correct labels; given: {len(set(abscissas))}"
        )
    count = len(abscissas)
    mean = sum(abscissas, Fraction(0)) / count
    centred = [share - mean for share in abscissas]
    shared = sum(map(operator.mul, centred, ordinates), Fraction(0))
    slope = shared / sum(map(operator.mul, centred, centred), Fraction(0))
    intercept = sum(ordinates, Fraction(0)) / count - slope * mean
    return Line(float(slope), float(intercept))
