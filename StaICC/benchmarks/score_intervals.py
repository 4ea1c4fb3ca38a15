"""Confidence intervals of the scores of one data set."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from StaICC.benchmarks.task import Outcome
from StaICC.metrics.intervals import Interval, MetricTerm, NoInterval, combine, of_difference
from StaICC.metrics.scores import CONSISTENCY
from StaICC.metrics.statistics import Sample, Statistic

Intervals = Mapping[str, Interval | NoInterval]
"""Intervals of scores by key."""


def score_intervals(outcome: Outcome, statistics: Mapping[str, Statistic], level: float) -> Intervals:
    """Return the intervals of scores of one outcome, without those that need probabilities which it lacks.

    Args:
        outcome: The predictions.
        statistics: The statistic of each score.
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
    """Return intervals of the regression slopes of the classification metrics over conditions.

    Args:
        outcomes: One outcome for each share.
        shares: Share of correct demonstration labels in each condition.
        statistics: The statistic of each score.
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
            interval = partial(_slope_interval, outcomes, predictions, shares, statistic, level)
            intervals[f"sensitivity.{key}"] = statistic.withheld(outcomes[0].sample, interval)
    return intervals


def _read_all(outcomes: Sequence[Outcome], statistic: Statistic) -> list[Sequence[Any]] | None:
    """Return what a statistic reads of each outcome; ``None`` if one of them has no probabilities."""
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
    """Return the interval of the regression slope of a score over the shares.

    With ``x`` the shares, ``m`` their mean and ``y`` the scores of the conditions, the slope is the weighted sum of the
    scores ``sum(w * y)`` with the weights ``w = (x - m) / sum((x - m) ** 2)``.

    Args:
        outcomes: One outcome for each share.
        predictions: What the statistic reads of each outcome.
        shares: Share of correct demonstration labels in each condition.
        statistic: The statistic of the score, whose values are from 0 to 1.
        level: Nominal coverage.
    """
    mean_share = math.fsum(shares) / len(shares)
    squares = math.fsum((share - mean_share) ** 2 for share in shares)
    weights = [(share - mean_share) / squares for share in shares]
    # The weights sum to 0: the slope is steepest if the score is 1 under all positive weights and 0 under the others.
    steepest = math.fsum(map(abs, weights)) / 2.0

    rows_of_conditions = [sorted({query.row for query in outcome.queries}) for outcome in outcomes]
    all_rows = sorted(set().union(*rows_of_conditions))
    terms = []
    for outcome, predictions_of_outcome, rows in zip(outcomes, predictions, rows_of_conditions, strict=True):
        term = of_difference(statistic.part(outcome.sample, predictions_of_outcome, level), level)
        terms.append(aligned(term, rows, all_rows))
    method = "variance recovery over conditions, unit: test row"
    return combine(terms, weights).interval(level, method, -steepest, steepest)


def aligned(part: MetricTerm, own: Sequence[Hashable], rows: Sequence[Hashable]) -> MetricTerm:
    """Return a term with an influence for each of ``rows``: 0 for those that failed in its condition.

    Args:
        part: The term.
        own: The rows of its influences.
        rows: The rows of all conditions.
    """
    influence_of_row = dict(zip(own, part.influence, strict=True))
    return replace(part, influence=[influence_of_row.get(row, 0.0) for row in rows])


def consistency_intervals(outcomes: Sequence[Outcome], level: float) -> Intervals:
    """Return the interval of the consistency over conditions.

    Args:
        outcomes: The conditions, over the same queries.
        level: Nominal coverage.
    """
    queries = []
    labels_of_queries = []
    predictions_by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    for query, predictions in zip(outcomes[0].condition.queries, predictions_by_query, strict=True):
        if None not in predictions:
            queries.append(query)
            labels_of_queries.append(predictions)
    number_of_row: dict[int, int] = {}
    for query in queries:
        number_of_row.setdefault(query.row, len(number_of_row))
    sample = Sample(
        truth=[query.label for query in queries],
        rows=[number_of_row[query.row] for query in queries],
        n_rows=len(number_of_row),
        n_labels=0,  # not known, and not read
    )
    return {"sensitivity.consistency": CONSISTENCY.interval(sample, labels_of_queries, level)}
