"""The scores of conditions: their limits, the influence of each test item, missing replies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from StaICC.benchmarks.score_intervals import aligned
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.scoring import Tally, score_tallies, scored, value_of
from StaICC.metrics.intervals import MetricTerm, combine, of_difference, ratio_part
from StaICC.metrics.paired_tests import PairedDifference, p_value, upper_p_value

METHOD = "Wilson score, design effect and t, unit: "
"""How the limits of a score are computed; the unit follows."""
DEFAULT_LEVEL = 0.95
"""The level of limits that no result shows, where a score is computed with limits and no intervals are wanted."""

Tallies = Sequence[Tally | None]
"""The tally of each test item in one condition; ``None`` for a missing reply. Empty if a query of the condition
failed."""


def score_part(card: TaskCard, tallies: Tallies, level: float, units: Sequence[Hashable]) -> MetricTerm | None:
    """Return a score with its limits and the influence of each unit; ``None`` with fewer than two units.

    Both accuracy and micro F1 are ratios of sums over items::

        accuracy = sum of correct items / number of items
        micro F1 = sum of 2 * correct labels / sum of (true labels + predicted labels)

    Args:
        card: Card of the data set.
        tallies: One for each test item. Items without a reply are left out.
        level: Level of the limits.
        units: The unit of each item. Another sample of test items would draw other units.
    """
    numerators: dict[Hashable, int] = {}  # sums of the items of each unit
    denominators: dict[Hashable, int] = {}
    for unit, tally in zip(units, scored(card.scoring, tallies), strict=False):
        if tally is None:
            continue
        if card.scoring.metric == "accuracy":
            numerator = len(tally.correct)
            denominator = 1
        else:
            denominator = len(tally.gold) + len(tally.predicted)
            numerator = min(2 * len(tally.correct), denominator)
        numerators[unit] = numerators.get(unit, 0) + numerator
        denominators[unit] = denominators.get(unit, 0) + denominator
    if len(denominators) < 2:
        return None
    term = ratio_part(list(numerators.values()), list(denominators.values()), level)
    # Scores can be combined if they have influences of the same units. Units without a scored item get the influence 0.
    all_units = list(dict.fromkeys(units))
    return aligned(term, list(denominators), all_units)


def lacks_replies(tallies: Tallies) -> bool:
    """Return whether a condition has a missing reply: one without a label, with ``unparsed="excluded"``."""
    return any(tally is None for tally in tallies)


def _with_missing_correct(tallies: Tallies, gold: Sequence[tuple[str, ...]]) -> list[Tally]:
    """Return the tallies of a condition in which each missing reply has all true labels.

    Args:
        tallies: One for each test item; ``None`` for a missing reply.
        gold: The true labels of each test item.
    """
    complete = []
    for tally, labels in zip(tallies, gold, strict=True):
        if tally is None:
            complete.append(Tally(gold=labels, predicted=labels, correct=labels))
        else:
            complete.append(tally)
    return complete


def _with_missing_wrong(tallies: Tallies, gold: Sequence[tuple[str, ...]], wrong_label_count: int) -> list[Tally]:
    """Return the tallies of a condition in which each missing reply has wrong labels only.

    Args:
        tallies: One for each test item; ``None`` for a missing reply.
        gold: The true labels of each test item.
        wrong_label_count: Number of wrong labels of each missing reply. F1 is lowest with the largest possible number.
    """
    wrong_labels = ("",) * wrong_label_count
    complete = []
    for tally, labels in zip(tallies, gold, strict=True):
        if tally is None:
            complete.append(Tally(gold=labels, predicted=wrong_labels, correct=()))
        else:
            complete.append(tally)
    return complete


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """The test items of an experiment, which are the same in all conditions.

    A score with limits is a :class:`~StaICC.metrics.intervals.MetricTerm`. It has the influence of each unit, so that
    scores of the same items can be combined.
    """

    card: TaskCard
    gold: Sequence[tuple[str, ...]]
    """The true labels of each test item."""
    units: Sequence[Hashable]
    """The unit of each test item: what another sample would draw again."""

    def score(self, tallies: Tallies) -> float | None:
        """Return the score of a condition, or of some of its items; ``None`` without a reply."""
        return value_of(score_tallies(self.card.scoring, tallies))

    def score_with_limits(self, tallies: Tallies, level: float) -> MetricTerm | None:
        """Return the score of a condition with its limits; ``None`` if it failed, or has fewer than two units."""
        if not tallies:
            return None
        return score_part(self.card, tallies, level, self.units)

    def lowest_score_with_limits(self, tallies: Tallies, level: float) -> MetricTerm | None:
        """Return the score of a condition with its limits, with missing replies as wrong; ``None`` if it failed."""
        return self.score_with_limits(self._scored_lowest(tallies), level)

    def score_of_items_with_limits(
        self, tallies: Tallies, item_indexes: Sequence[int], level: float
    ) -> MetricTerm | None:
        """Return the score of some items of a condition with its limits; ``None`` with fewer than two units."""
        tallies_of_items = [tallies[index] for index in item_indexes]
        units_of_items = [self.units[index] for index in item_indexes]
        return score_part(self.card, tallies_of_items, level, units_of_items)

    def weighted_sum(self, conditions: Sequence[Tallies], weights: Sequence[float], level: float) -> MetricTerm | None:
        """Return a weighted sum of the scores of conditions with its limits; ``None`` if a score is undefined.

        Args:
            conditions: The tallies of each condition.
            weights: The weight of each condition; a difference of two has 1 and -1.
            level: Level of the limits.
        """
        terms = []
        for tallies in conditions:
            term = self.score_with_limits(tallies, level)
            if term is None:
                return None
            terms.append(of_difference(term, level))
        if not terms:
            return None
        return combine(terms, weights)

    def lowest_sum(self, conditions: Sequence[Tallies], weights: Sequence[float], level: float) -> MetricTerm | None:
        """Return the lowest weighted sum that missing replies allow; arguments as for :meth:`weighted_sum`.

        Missing replies are wrong in conditions with a positive weight, and correct in conditions with a negative one.
        """
        completed = []
        for tallies, weight in zip(conditions, weights, strict=True):
            if weight > 0.0:
                completed.append(self._scored_lowest(tallies))
            else:
                completed.append(self._scored_highest(tallies))
        return self.weighted_sum(completed, weights, level)

    def highest_sum(self, conditions: Sequence[Tallies], weights: Sequence[float], level: float) -> MetricTerm | None:
        """Return the highest weighted sum that missing replies allow; arguments as for :meth:`weighted_sum`.

        Missing replies are correct in conditions with a positive weight, and wrong in conditions with a negative one.
        """
        completed = []
        for tallies, weight in zip(conditions, weights, strict=True):
            if weight > 0.0:
                completed.append(self._scored_highest(tallies))
            else:
                completed.append(self._scored_lowest(tallies))
        return self.weighted_sum(completed, weights, level)

    def _scored_highest(self, tallies: Tallies) -> Tallies:
        """Return the tallies of a condition with missing replies as correct; none if the condition failed."""
        if not tallies:
            return tallies
        return _with_missing_correct(tallies, self.gold)

    def _scored_lowest(self, tallies: Tallies) -> Tallies:
        """Return the tallies of a condition with missing replies as wrong; none if the condition failed."""
        if not tallies:
            return tallies
        wrong_label_count = 1
        if self.card.structured:  # a reply about several labels could name all labels
            wrong_label_count = len(self.card.labels)
        return _with_missing_wrong(tallies, self.gold, wrong_label_count)


# -- the test of a difference between two conditions


def mcnemar_p_value(first: Tallies, second: Tallies) -> float:
    """Return the two-sided p-value of McNemar's test, of the items that are correct in one of two conditions only.

    Missing replies count at their worst for each direction. The test of "the first condition is better" takes those of
    the first condition as wrong and those of the second as correct. The test of "the second condition is better" takes
    them the other way round. The p-value is twice the smaller one of both.

    Args:
        first: The tallies of the first condition; ``None`` for a missing reply.
        second: Those of the second condition, for the same items.

    Example:
        >>> right, wrong = Tally(("a",), ("a",), ("a",)), Tally(("a",), ("b",), ())
        >>> round(mcnemar_p_value([right] * 6, [wrong] * 5 + [right]), 6)
        0.059224
    """
    lowest = _paired_difference(_with_missing_as(first, 0.0), _with_missing_as(second, 1.0))
    if not lacks_replies(first) and not lacks_replies(second):
        return p_value(lowest)
    highest = _paired_difference(_with_missing_as(first, 1.0), _with_missing_as(second, 0.0))
    first_better = _one_sided_p_value(lowest)
    second_better = _one_sided_p_value(highest.negated)
    return min(1.0, 2.0 * min(first_better, second_better))


def _with_missing_as(tallies: Tallies, missing_score: float) -> list[float]:
    """Return the score of each item: 1 if it is correct, 0 if it is wrong, ``missing_score`` without a reply."""
    item_scores = []
    for tally in tallies:
        if tally is None:
            item_scores.append(missing_score)
        elif tally.correct:
            item_scores.append(1.0)
        else:
            item_scores.append(0.0)
    return item_scores


def _paired_difference(first_scores: Sequence[float], second_scores: Sequence[float]) -> PairedDifference:
    """Return the difference in the number of correct items between two conditions.

    Args:
        first_scores: The score of each item in the first condition, 0 or 1.
        second_scores: The score of each item in the second condition.
    """
    steps = []
    for first_score, second_score in zip(first_scores, second_scores, strict=True):
        steps.append(first_score - second_score)
    return PairedDifference(sum(first_scores), sum(second_scores), steps, lowest_step=-1.0, highest_step=1.0)


def _one_sided_p_value(difference: PairedDifference) -> float:
    """Return the p-value of the hypothesis that the true difference is at most 0; 1 if no item differs."""
    if not any(difference.steps):
        return 1.0
    return upper_p_value(difference)
