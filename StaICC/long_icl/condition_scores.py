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
"""The level of limits that are computed, but not shown, if no intervals are asked for."""

Tallies = Sequence[Tally | None]
"""The tally of each test item in one condition; ``None`` for a missing reply. Empty if a query of the condition
failed."""


def score_part(card: TaskCard, tallies: Tallies, level: float, units: Sequence[Hashable]) -> MetricTerm | None:
    """Return a score with its limits and the influence of each unit; ``None`` with fewer than two units.

    Both accuracy and micro F1 are ratios of sums over items. Accuracy is the number of correct items, divided by the
    number of items. Micro F1 is twice the number of correct labels, divided by that of true and predicted labels.

    Args:
        card: Card of the data set.
        tallies: One for each test item.
        level: Level of the limits.
        units: The unit of each item: what another sample would draw again.
    """
    is_accuracy = card.scoring.metric == "accuracy"
    numerators: dict[Hashable, int] = {}
    denominators: dict[Hashable, int] = {}
    for unit, tally in zip(units, scored(card.scoring, tallies), strict=False):
        if tally is None:
            continue
        if is_accuracy:
            numerator = len(tally.correct)
            denominator = 1
        else:
            denominator = len(tally.gold) + len(tally.predicted)
            numerator = min(2 * len(tally.correct), denominator)
        numerators[unit] = numerators.get(unit, 0) + numerator
        denominators[unit] = denominators.get(unit, 0) + denominator
    if len(denominators) < 2:
        return None
    part = ratio_part(list(numerators.values()), list(denominators.values()), level)
    all_units = list(dict.fromkeys(units))
    return aligned(part, list(denominators), all_units)


def lacks_replies(tallies: Tallies) -> bool:
    """Return whether a condition has a missing reply: one without a label that is excluded."""
    return any(tally is None for tally in tallies)


def complete_tallies(
    tallies: Tallies, gold: Sequence[tuple[str, ...]], correct: bool, most_labels: int = 1
) -> list[Tally]:
    """Return the tallies of a condition with each missing reply as a correct, or as a wrong one.

    Args:
        tallies: One for each test item; ``None`` for a missing reply.
        gold: The true labels of each test item.
        correct: Whether the missing replies are correct.
        most_labels: How many wrong labels a wrong reply has at most: it has so many, which gives the lowest F1.
    """
    complete = []
    for tally, labels in zip(tallies, gold, strict=True):
        if tally is not None:
            complete.append(tally)
        elif correct:
            complete.append(Tally(labels, labels, labels))
        else:
            complete.append(Tally(labels, ("",) * most_labels, ()))
    return complete


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """The test items of an experiment, as all of its conditions score them."""

    card: TaskCard
    gold: Sequence[tuple[str, ...]]
    """The true labels of each test item."""
    units: Sequence[Hashable]
    """The unit of each test item: what another sample would draw again."""

    def score(self, tallies: Tallies) -> float | None:
        """Return the score of a condition, or of some of its items; ``None`` without a reply."""
        return value_of(score_tallies(self.card.scoring, tallies))

    def term(self, tallies: Tallies, level: float) -> MetricTerm | None:
        """Return the score of a condition with its limits; ``None`` if it failed, or has fewer than two units."""
        if not tallies:
            return None
        return score_part(self.card, tallies, level, self.units)

    def term_of_items(self, tallies: Tallies, item_indexes: Sequence[int], level: float) -> MetricTerm | None:
        """Return the score of some items of a condition with its limits; ``None`` with fewer than two units."""
        chosen = [tallies[index] for index in item_indexes]
        return score_part(self.card, chosen, level, [self.units[index] for index in item_indexes])

    def weighted_sum(self, conditions: Sequence[Tallies], weights: Sequence[float], level: float) -> MetricTerm | None:
        """Return a weighted sum of the scores of conditions with its limits; ``None`` if a score is undefined.

        Args:
            conditions: The tallies of each condition.
            weights: The weight of each condition; a difference of two has 1 and -1.
            level: Level of the limits.
        """
        terms = []
        for tallies in conditions:
            term = self.term(tallies, level)
            if term is None:
                return None
            terms.append(of_difference(term, level))
        if not terms:
            return None
        return combine(terms, weights)

    def lowest_sum(self, conditions: Sequence[Tallies], weights: Sequence[float], level: float) -> MetricTerm | None:
        """Return the weighted sum with missing replies as they make it lowest: wrong where the weight is positive."""
        return self._sum_with_missing(conditions, weights, level, correct_if_positive=False)

    def highest_sum(self, conditions: Sequence[Tallies], weights: Sequence[float], level: float) -> MetricTerm | None:
        """Return the weighted sum with missing replies as they make it highest: right where the weight is positive."""
        return self._sum_with_missing(conditions, weights, level, correct_if_positive=True)

    def _sum_with_missing(
        self, conditions: Sequence[Tallies], weights: Sequence[float], level: float, *, correct_if_positive: bool
    ) -> MetricTerm | None:
        if not any(lacks_replies(tallies) for tallies in conditions):
            return self.weighted_sum(conditions, weights, level)
        complete = []
        for tallies, weight in zip(conditions, weights, strict=True):
            is_positive = weight > 0.0
            correct = correct_if_positive if is_positive else not correct_if_positive
            # A reply about one label has one; one about several labels could name all labels.
            most_labels = len(self.card.labels) if self.card.structured else 1
            complete.append(complete_tallies(tallies, self.gold, correct, most_labels))
        return self.weighted_sum(complete, weights, level)


# -- the test of a difference between two conditions


def mcnemar_p_value(first: Tallies, second: Tallies) -> float:
    """Return the p-value of a McNemar test: two-sided, of the items that are correct in one condition only.

    Missing replies count at their worst for each direction: that the first condition is better is tested with those of
    the first as wrong and those of the second as correct, that the second one is better the other way round.

    Example:
        >>> right, wrong = Tally(("a",), ("a",), ("a",)), Tally(("a",), ("b",), ())
        >>> round(mcnemar_p_value([right] * 6, [wrong] * 5 + [right]), 12)
        0.0625
    """
    lowest = _difference_in_correct(first, second, first_correct=False)
    if not lacks_replies(first) and not lacks_replies(second):
        return p_value(lowest)
    highest = _difference_in_correct(first, second, first_correct=True)
    first_better = _one_sided_p_value(lowest)
    second_better = _one_sided_p_value(highest.negated)
    return min(1.0, 2.0 * min(first_better, second_better))


def _one_sided_p_value(difference: PairedDifference) -> float:
    """Return the p-value of "the true difference is at most 0"; 1 if no item differs."""
    if not any(difference.steps):
        return 1.0
    return upper_p_value(difference)


def _difference_in_correct(first: Tallies, second: Tallies, first_correct: bool) -> PairedDifference:
    """Return the difference in the number of correct items between two conditions.

    Args:
        first: The tallies of the first condition; ``None`` for a missing reply.
        second: Those of the second one.
        first_correct: Whether missing replies of the first condition are correct, and those of the second one wrong, or
            the other way round.
    """
    in_first = _correct_items(first, missing=first_correct)
    in_second = _correct_items(second, missing=not first_correct)
    steps = [a - b for a, b in zip(in_first, in_second, strict=True)]
    return PairedDifference(sum(in_first), sum(in_second), steps, lowest_step=-1.0, highest_step=1.0)


def _correct_items(tallies: Tallies, missing: bool) -> list[float]:
    """Return 1 for each correct item and 0 for each wrong one.

    Args:
        tallies: The tallies of the items.
        missing: Whether missing replies are correct.
    """
    correct = []
    for tally in tallies:
        is_correct = missing if tally is None else bool(tally.correct)
        correct.append(float(is_correct))
    return correct
