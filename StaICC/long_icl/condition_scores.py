"""The scores of conditions: their limits, the influence of each test item, missing replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from StaICC.benchmarks.score_intervals import aligned
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.scoring import Tally, scored
from StaICC.metrics.intervals import MetricTerm, ratio_part
from StaICC.metrics.paired_tests import PairedDifference, p_value, upper_p_value

METHOD = "Wilson score, design effect and t, unit: "


def score_part(
    card: TaskCard, tallies: Sequence[Tally | None], level: float, units: Sequence[Hashable]
) -> MetricTerm | None:
    """Return a score with its limits and the influence of each unit; ``None`` with fewer than two units.

    Args:
        card: Card of the data set.
        tallies: One for each test item.
        level: Of the limits.
        units: The unit of each item: what another sample would draw again.
    """
    hits, sizes, accuracy = Counter[Hashable](), Counter[Hashable](), card.scoring.metric == "accuracy"
    for unit, tally in zip(units, scored(card.scoring, tallies), strict=False):
        if tally is not None:
            size = 1 if accuracy else len(tally.gold) + len(tally.predicted)
            hits[unit] += len(tally.correct) if accuracy else min(2 * len(tally.correct), size)
            sizes[unit] += size
    if len(sizes) < 2:
        return None
    return aligned(ratio_part([*hits.values()], [*sizes.values()], level), [*sizes], [*dict.fromkeys(units)])


def lacks_replies(tallies: Sequence[Tally | None]) -> bool:
    """Return whether a condition has a missing reply: one without a label that is excluded."""
    return any(tally is None for tally in tallies)


def complete_tallies(tallies: Sequence[Tally | None], labels: Sequence[str], correct: bool) -> list[Tally]:
    """Return the tallies of a condition with each missing reply as a correct, or as a wrong one.

    Args:
        tallies: One for each test item; ``None`` for a missing reply.
        labels: The true label of each test item.
        correct: Whether the missing replies are correct.
    """
    completed = []
    for tally, label in zip(tallies, labels, strict=True):
        if tally is not None:
            completed.append(tally)
        elif correct:
            completed.append(Tally((label,), (label,), (label,)))
        else:
            completed.append(Tally((label,), ("",), ()))
    return completed


def mcnemar_p_value(first: Sequence[Tally | None], second: Sequence[Tally | None]) -> float:
    """Return the p-value of an exact McNemar test: two-sided, of the items that are correct in one condition only.

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
    first_better = upper_p_value(lowest) if any(lowest.steps) else 1.0
    second_better = upper_p_value(highest.negated) if any(highest.steps) else 1.0
    return min(1.0, 2.0 * min(first_better, second_better))


def _difference_in_correct(
    first: Sequence[Tally | None], second: Sequence[Tally | None], first_correct: bool
) -> PairedDifference:
    """Return the difference in the number of correct items between two conditions.

    Args:
        first: The tallies of the first condition; ``None`` for a missing reply.
        second: Those of the second one.
        first_correct: Whether missing replies of the first condition are correct, and those of the second one wrong, or
            the other way round.
    """
    of_first = [float(first_correct if tally is None else bool(tally.correct)) for tally in first]
    of_second = [float(not first_correct if tally is None else bool(tally.correct)) for tally in second]
    steps = [before - after for before, after in zip(of_first, of_second, strict=True)]
    return PairedDifference(sum(of_first), sum(of_second), steps, lowest_step=-1.0, highest_step=1.0)
