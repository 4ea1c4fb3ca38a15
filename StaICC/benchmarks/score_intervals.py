"""Confidence intervals of the scores of one data set."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from StaICC.benchmarks.task import Outcome, sample_of
from StaICC.metrics.intervals import Interval, MetricTerm, NoInterval, combine, of_difference
from StaICC.metrics.statistics import Statistic

Intervals = Mapping[str, Interval | NoInterval]
"""Intervals of scores by key."""


def score_intervals(outcome: Outcome, statistics: Mapping[str, Statistic], level: float) -> Intervals:
    """Return the confidence interval of each score of a condition, by the key of the score.

    A score that needs probabilities is left out if the predictions have none: they are labels, or it is not clear
    whether their numbers are probabilities or logits. :meth:`Outcome.read` returns ``None`` then.

    Args:
        outcome: The condition with its predictions.
        statistics: The statistic of each score, by key.
        level: Nominal coverage.
    """
    intervals = {}
    for key, statistic in statistics.items():
        predictions = outcome.read(statistic)
        if predictions is not None:
            intervals[key] = statistic.interval(outcome.sample, predictions, level)
    return intervals


def slope_intervals(
    outcomes: Sequence[Outcome], shares: Sequence[float], statistics: Mapping[str, Statistic], level: float
) -> Intervals:
    """Return the interval of the regression slope of each classification metric over conditions.

    The key of a slope is ``sensitivity.`` and the key of its metric. A metric that needs probabilities is left out if
    a condition has no probabilities.

    Args:
        outcomes: The outcome of each condition.
        shares: Share of correct demonstration labels in each condition. If all are equal, there are no slopes, and no
            intervals.
        statistics: The statistic of each score, by key.
        level: Nominal coverage.
    """
    if len(set(shares)) < 2:
        return {}
    intervals: dict[str, Interval | NoInterval] = {}
    for key, statistic in statistics.items():
        if not statistic.of_classification:
            continue
        predictions = _read_all(outcomes, statistic)
        if predictions is not None:
            compute_interval = partial(_slope_interval, outcomes, predictions, shares, statistic, level)
            units = outcomes[0].sample.by_cluster()
            intervals[f"sensitivity.{key}"] = statistic.withheld(units, compute_interval)
    return intervals


def _read_all(outcomes: Sequence[Outcome], statistic: Statistic) -> list[Sequence[Any]] | None:
    """Return the predictions of each outcome in the form that a statistic reads: labels, rows or probabilities.

    ``None`` means that the statistic reads probabilities, and :meth:`Outcome.read` returned ``None`` for an outcome,
    because it has no probabilities.
    """
    predictions = []
    for outcome in outcomes:
        predictions_of_outcome = outcome.read(statistic)
        if predictions_of_outcome is None:
            return None
        predictions.append(predictions_of_outcome)
    return predictions


def _slope_interval(
    outcomes: Sequence[Outcome],
    predictions: Sequence[Sequence[Any]],
    shares: Sequence[float],
    statistic: Statistic,
    level: float,
) -> Interval:
    """Return the confidence interval of the regression slope of a score over the shares of the conditions.

    The slope of least squares is a weighted sum of the scores of the conditions::

        slope = sum(w * score)    with  w = (share - mean share) / sum((share - mean share) ** 2)

    Variance recovery (Zou's MOVER) computes the limits of such a sum from the limits of the scores. It also needs the
    influence of each independent unit on each score, because the scores are about the same units: test rows, or
    clusters of rows. The computation is done for scores that are divided by the width of their range, the highest minus
    the lowest possible value. The limits of their slope are multiplied by this width at the end. Where the range begins
    makes no difference: a constant that is added to all scores does not change a slope.

    Args:
        outcomes: The outcome of each condition.
        predictions: The predictions of each outcome, in the form that the statistic reads.
        shares: Share of correct demonstration labels in each condition.
        statistic: The statistic of the score. Its range has two ends.
        level: Nominal coverage.
    """
    weights = _weights_of_slope(shares)
    units_by_condition = [_units_of(outcome) for outcome in outcomes]
    all_units: list[Any] = sorted(set(chain.from_iterable(units_by_condition)))
    lowest_score, highest_score = statistic.range(outcomes[0].sample.n_labels)
    width = highest_score - lowest_score

    divided_scores = []
    for outcome, predictions_of_outcome, units in zip(outcomes, predictions, units_by_condition, strict=True):
        score = _divided_score(outcome, predictions_of_outcome, statistic, width, level)
        divided_scores.append(aligned(score, units, all_units))
    slope = combine(divided_scores, weights)

    lowest_slope, highest_slope = slope_range((0.0, 1.0), shares)
    method = "variance recovery over conditions, unit: test row"
    interval = slope.interval(level, method, low=lowest_slope, high=highest_slope)
    return replace(interval, low=width * interval.low, high=width * interval.high)


def slope_range(range_of_score: tuple[float, float], shares: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest possible regression slope of a score over the shares of the conditions.

    The slope is a weighted sum of the scores (:func:`_slope_interval`). It is highest if the score is highest where the
    weight is positive, and lowest elsewhere. As all weights sum to 0, it is then the width of the range times the sum
    of the positive weights, which is half the sum of all absolute weights. The lowest slope is minus the highest.

    Args:
        range_of_score: The lowest and the highest possible score.
        shares: Share of correct demonstration labels in each condition; at least two different ones.

    Example:
        >>> slope_range((0.0, 1.0), [0.0, 1.0])
        (-1.0, 1.0)
    """
    lowest_score, highest_score = range_of_score
    sum_of_positive_weights = math.fsum(map(abs, _weights_of_slope(shares))) / 2.0
    highest_slope = (highest_score - lowest_score) * sum_of_positive_weights
    return -highest_slope, highest_slope


def _divided_score(
    outcome: Outcome, predictions: Sequence[Any], statistic: Statistic, width: float, level: float
) -> MetricTerm:
    """Return the score of a condition, divided by the width of its range, for use in a weighted sum of conditions.

    The returned record has the divided score, the distances to its confidence limits, and the influence of each unit.

    Args:
        outcome: The condition with its predictions.
        predictions: Its predictions in the form that the statistic reads.
        statistic: The statistic of the score.
        width: The highest minus the lowest possible value of the score.
        level: Nominal coverage of the limits.
    """
    sample = outcome.sample.by_cluster()
    # If clusters differ in size, the formulas of the limits reach the nominal coverage only at a higher level.
    level_of_formulas = sample.level_of_formulas(level)
    score = statistic.part(sample, predictions, level_of_formulas)
    # Weights may be negative, so the limits must also be valid for the difference of two scores.
    return of_difference(score.scaled(1.0 / width), level_of_formulas)


def _weights_of_slope(shares: Sequence[float]) -> list[float]:
    """Return the weight of each condition in the slope of least squares, which is a weighted sum of the scores.

    Args:
        shares: Share of correct demonstration labels in each condition; at least two different ones.
    """
    mean_share = math.fsum(shares) / len(shares)
    sum_of_squares = math.fsum((share - mean_share) ** 2 for share in shares)
    return [(share - mean_share) / sum_of_squares for share in shares]


def _units_of(outcome: Outcome) -> Sequence[Hashable]:
    """Return the names of the independent units of a condition, in order: its clusters of test rows, or its test rows.

    Args:
        outcome: The queries and predictions of the condition.
    """
    if outcome.clusters is not None:
        by_cluster = outcome.sample.by_cluster()
        return by_cluster.row_names  # Each row of this sample is a cluster.
    return sorted({query.row for query in outcome.queries})


def aligned(term: MetricTerm, rows: Sequence[Hashable], all_rows: Sequence[Hashable]) -> MetricTerm:
    """Return the estimate of a condition with one influence for each test row of all conditions.

    The influence of a row is its contribution to estimate minus truth. Estimates can be combined only if their
    influences are about the same rows. A row without a prediction in this condition has the influence 0. For example,
    the influences 0.1 and -0.1 of the rows 2 and 5 become 0.1, 0 and -0.1 for the rows 2, 3 and 5.

    Args:
        term: The estimate with its influences.
        rows: The test rows of this condition, in the order of the influences.
        all_rows: The test rows of all conditions.
    """
    influence_by_row = dict(zip(rows, term.influence, strict=True))
    return replace(term, influence=[influence_by_row.get(row, 0.0) for row in all_rows])


def interval_over_conditions(outcomes: Sequence[Outcome], statistic: Statistic, level: float) -> Interval | NoInterval:
    """Return the interval of a score that compares the predictions of a query in all conditions, as consistency does.

    Queries without a prediction in some condition are left out.

    Args:
        outcomes: The outcomes of the conditions, which have the same queries.
        statistic: The score (:attr:`~StaICC.metrics.statistics.Statistic.compares_conditions`).
        level: Nominal coverage.
    """
    predictions_by_condition = [outcome.predictions for outcome in outcomes]
    predictions_by_query = zip(*predictions_by_condition, strict=True)
    queries = []
    labels_by_query = []
    for query, predictions in zip(outcomes[0].condition.queries, predictions_by_query, strict=True):
        if None not in predictions:
            queries.append(query)
            labels_by_query.append(predictions)
    # Whether labels are the same does not depend on the number of labels.
    sample = sample_of(queries, n_labels=0, clusters=outcomes[0].clusters)
    return statistic.interval(sample, labels_by_query, level)
