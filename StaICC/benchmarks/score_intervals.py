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
    return {
        key: statistic.interval(outcome.sample, predictions, level)
        for key, statistic in statistics.items()
        if (predictions := outcome.read(statistic)) is not None
    }


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
    middle = math.fsum(shares) / len(shares)
    spread = math.fsum((share - middle) ** 2 for share in shares)
    weights = [(share - middle) / spread for share in shares]  # the slope is a weighted sum of the values
    reach = math.fsum(map(abs, weights)) / 2.0
    rows_of = [sorted({query.row for query in outcome.queries}) for outcome in outcomes]
    rows = sorted(set().union(*rows_of))

    def slope(statistic: Statistic, predictions: Sequence[Sequence[Any]]) -> Interval:
        parts = [
            aligned(of_difference(statistic.part(outcome.sample, read, level), level), own, rows)
            for outcome, read, own in zip(outcomes, predictions, rows_of, strict=True)
        ]
        method = "variance recovery over conditions, unit: test row"
        return combine(parts, weights).interval(level, method, -reach, reach)

    slopes: dict[str, Interval | NoInterval] = {}
    for key, statistic in statistics.items():
        read = [predictions for outcome in outcomes if (predictions := outcome.read(statistic)) is not None]
        if statistic.of_classification and len(read) == len(outcomes):
            slopes[f"sensitivity.{key}"] = statistic.withheld(outcomes[0].sample, partial(slope, statistic, read))
    return slopes


def aligned(part: MetricTerm, own: Sequence[Hashable], rows: Sequence[Hashable]) -> MetricTerm:
    """Return a part with an influence for each of `rows`: 0 for those that failed in its condition."""
    influence = dict(zip(own, part.influence, strict=True))
    return replace(part, influence=[influence.get(row, 0.0) for row in rows])


def consistency_intervals(outcomes: Sequence[Outcome], level: float) -> Intervals:
    """Return the interval of the consistency over conditions.

    Args:
        outcomes: The conditions, over the same queries.
        level: Nominal coverage.
    """
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    queries = zip(outcomes[0].condition.queries, by_query, strict=True)
    complete = [(query.row, query.label, labels) for query, labels in queries if None not in labels]
    places = {row: place for place, row in enumerate(dict.fromkeys(row for row, _, _ in complete))}
    sample = Sample([label for _, label, _ in complete], [places[row] for row, _, _ in complete], len(places), 0)
    return {"sensitivity.consistency": CONSISTENCY.interval(sample, [labels for _, _, labels in complete], level)}
