"""Confidence intervals of scores: sums over each test row, for :mod:`StaICC.metrics.intervals`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from StaICC.benchmarks.task import Outcome, Statistics
from StaICC.metrics import entropy, entropy_of_mean, negated_mean_entropy
from StaICC.metrics.classification import confidence_bin
from StaICC.metrics.intervals import (
    Interval,
    Part,
    Withheld,
    calibration_part,
    combine,
    divergence_interval,
    likelihood_part,
    macro_part,
    of_difference,
    ratio_part,
    rows_of_labels,
)
from StaICC.metrics.registry import SCORES

Intervals = Mapping[str, Interval | Withheld]
"""Intervals of scores by key."""


def _parts(outcome: Outcome, level: float) -> dict[str, Part]:
    """Return the classification metrics of an outcome, with the influence of each test row in rising order."""
    groups = outcome.groups
    queries = [float(len(group)) for group in groups]
    truth, predicted = outcome.truth, outcome.answered
    correct = [float(sum(truth[i] == predicted[i] for i in group)) for group in groups]
    parts = {"accuracy": ratio_part(correct, queries, level)}
    width = len(outcome.rows[0])
    hits = [[0.0] * len(groups) for _ in range(width)]
    sizes = [[0.0] * len(groups) for _ in range(width)]
    for row, group in enumerate(groups):
        for i in group:
            sizes[truth[i]][row] += 1.0
            sizes[predicted[i]][row] += 1.0
            hits[truth[i]][row] += 2.0 * (truth[i] == predicted[i])
    parts["macro_F1"] = macro_part(hits, sizes, level)
    probabilities = None if outcome.hard else outcome.normalised.probabilities
    if probabilities is None:
        return parts
    likelihood, of_correct = [0.0] * len(groups), [0.0] * len(groups)
    bins = [[[0.0] * len(groups) for _ in range(10)] for _ in range(3)]  # hits, queries, hits minus confidence
    for row, group in enumerate(groups):
        for i in group:
            confidence = max(probabilities[i])
            hit = probabilities[i].index(confidence) == truth[i]
            likelihood[row] += probabilities[i][truth[i]]
            of_correct[row] += probabilities[i][truth[i]] * (truth[i] == predicted[i])
            place = confidence_bin(confidence)
            for column, value in zip(bins, (float(hit), 1.0, hit - confidence), strict=True):
                column[place][row] += value
    parts["averaged_truelabel_likelihood"] = likelihood_part(likelihood, correct, of_correct, queries, level)
    parts["expected_calibration_error_1"] = calibration_part(bins[0], bins[1], bins[2], queries, level)
    return parts


def _label_rows(outcome: Outcome) -> str | None:
    """Return why labels have too few test rows; None if they have not."""
    label_of = {query.row: query.label for query in outcome.queries}
    return rows_of_labels([list(label_of.values()).count(label) for label in range(len(outcome.rows[0]))])


def classification_intervals(outcome: Outcome, statistics: Statistics) -> dict[str, Interval | Withheld]:
    """Return the intervals of the four classification metrics on one outcome."""
    parts = _parts(outcome, statistics.level)
    return _withhold(
        outcome,
        {name: part.interval(statistics.level, SCORES[name].interval) for name, part in parts.items()},
    )


def _withhold(outcome: Outcome, intervals: Mapping[str, Interval]) -> dict[str, Interval | Withheld]:
    """Withhold the interval of macro F1 if labels have too few test rows."""
    reason = _label_rows(outcome)
    complete = len(set(outcome.truth)) == len(outcome.rows[0])
    return {
        key: Withheld(reason, interval if complete else None) if reason and key.endswith("macro_F1") else interval
        for key, interval in intervals.items()
    }


def bias_intervals(outcome: Outcome, statistics: Statistics, keys: Iterable[str]) -> dict[str, Interval | Withheld]:
    """Return the intervals of entropies or divergences.

    Args:
        outcome: The predictions.
        statistics: Level.
        keys: Keys of the scores.
    """
    probabilities, groups = outcome.normalised.probabilities, outcome.groups
    if probabilities is None:
        return {}
    width, level = len(probabilities[0]), statistics.level
    queries = [float(len(group)) for group in groups]
    sums = [[math.fsum(probabilities[i][label] for i in group) for label in range(width)] for group in groups]
    found: dict[str, Interval | Withheld] = {}
    largest = math.log(width) if width > 1 else 1.0
    for key in keys:
        statistic = SCORES[key].statistic
        if statistic == "mean entropy":
            each = [math.fsum(entropy(probabilities[i]) for i in group) / largest for group in groups]
            one = ratio_part(each, queries, level, continuous=True).interval(level, SCORES[key].interval)
            value = negated_mean_entropy(probabilities)
            found[key] = _around(value, -one.high * largest, -one.low * largest, -largest, 0.0, one)
        elif statistic == "entropy of mean":
            one = divergence_interval(sums, None, queries, level)
            value = entropy_of_mean(probabilities)
            found[key] = _around(value, largest - one.high, largest - one.low, 0.0, largest, one)
        else:
            counts = [
                [float(sum(outcome.truth[i] == label for i in group)) for label in range(width)] for group in groups
            ]
            reason = _label_rows(outcome)
            if reason and not all(map(math.fsum, zip(*counts, strict=True))):
                found[key] = Withheld(reason, None)
                continue
            one = divergence_interval(sums, counts, queries, level)
            found[key] = Withheld(reason, one) if reason else one
    return found


def _around(value: float, low: float, high: float, least: float, most: float, one: Interval) -> Interval:
    """Return the interval of an entropy: in its range and around the estimate, also after rounding."""
    centre = None if one.centre is None else most - one.centre
    value = min(most, max(least, value))
    ends = max(least, min(low, value)) + 0.0, min(most, max(high, value)) + 0.0  # + 0.0: no negative zero
    return Interval(*ends, one.level, one.method, centre=centre)


def slope_intervals(
    outcomes: Sequence[Outcome], shares: Sequence[float], statistics: Statistics
) -> dict[str, Interval | Withheld]:
    """Return intervals of the regression slopes of the classification metrics over conditions.

    Args:
        outcomes: One outcome for each share.
        shares: Share of correct demonstration labels in each condition.
        statistics: Level.
    """
    if len(set(shares)) < 2:
        return {}
    each = [_parts(outcome, statistics.level) for outcome in outcomes]
    middle = math.fsum(shares) / len(shares)
    spread = math.fsum((share - middle) ** 2 for share in shares)
    weights = [(share - middle) / spread for share in shares]  # the slope is a weighted sum of the values
    reach = math.fsum(map(abs, weights)) / 2.0
    rows_of = [sorted({query.row for query in outcome.queries}) for outcome in outcomes]
    rows = sorted(set().union(*rows_of))
    slopes = {
        f"sensitivity.{name}": combine(
            [
                aligned(of_difference(parts[name], statistics.level), own, rows)
                for parts, own in zip(each, rows_of, strict=True)
            ],
            weights,
        ).interval(statistics.level, "variance recovery over conditions, unit: test row", -reach, reach)
        for name in each[0]
        if all(name in parts for parts in each)
    }
    return _withhold(outcomes[0], slopes)


def aligned(part: Part, own: Sequence[Hashable], rows: Sequence[Hashable]) -> Part:
    """Return a part with an influence for each of `rows`: 0 for those that failed in its condition."""
    influence = dict(zip(own, part.influence, strict=True))
    return replace(part, influence=[influence.get(row, 0.0) for row in rows])


def consistency_intervals(outcomes: Sequence[Outcome], statistics: Statistics) -> dict[str, Interval | Withheld]:
    """Return the interval of the consistency over conditions.

    Args:
        outcomes: The conditions, over the same queries.
        statistics: Level.
    """
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    shares: dict[int, list[float]] = {}
    for query, labels in zip(outcomes[0].condition.queries, by_query, strict=True):
        if None not in labels:
            most = max(labels.count(label) for label in set(labels))
            shares.setdefault(query.row, []).append(most / len(labels))
    part = ratio_part(
        list(map(math.fsum, shares.values())), [float(len(found)) for found in shares.values()], statistics.level
    )
    least = 1.0 / len(outcomes)
    return {"sensitivity.consistency": part.interval(statistics.level, SCORES["consistency"].interval, least)}
