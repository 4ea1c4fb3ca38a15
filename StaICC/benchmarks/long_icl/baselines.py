"""What guessing gets: the figures that a score must beat.

* Uniform guessing: the expected score of an answer that is drawn evenly from the labels. With one guess for each gold
  label, precision, recall and F1 are all equal to the share of right guesses, and so is the accuracy: 1 / labels.
* Majority: the score of always answering the test items' most frequent label.

DialogRE names the pairs, so a guess is one relation for each. Few-NERD asks for the entities too; what a guess of
entities would be is not defined, so it has no such baselines (None, with the reason).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from StaICC.benchmarks.long_icl.cards import TaskCard
from StaICC.benchmarks.long_icl.items import EntityItem, Item
from StaICC.benchmarks.long_icl.scoring import Tally, scored
from StaICC.errors import UndefinedMetricError

__all__ = ["Baselines", "baselines"]


@dataclass(frozen=True, slots=True)
class Baselines:
    """Scores of answers that know nothing of the query."""

    uniform: float | None
    """Expected score of uniform guessing."""
    majority: float | None
    """Score of the most frequent gold label."""
    majority_label: str | None
    note: str
    """Why a figure is missing."""


def baselines(card: TaskCard, items: Iterable[Item], variant: str = "published") -> Baselines:
    """The baselines of a data set's test items.

    Args:
        card: Of the data set.
        items: The test items.
        variant: ``published`` or ``strict`` (DialogRE's published score leaves out what follows its 500th pair).

    Raises:
        UndefinedMetricError: There are no items.

    Example:
        >>> from StaICC.benchmarks.long_icl.cards import card
        >>> from StaICC.benchmarks.long_icl.items import TextItem
        >>> texts = [TextItem(0, "ha", "joy"), TextItem(1, "oh", "fear"), TextItem(2, "yes", "joy")]
        >>> baselines(card("goemotions"), texts).majority_label
        'joy'
    """
    items = list(items)
    if not items:
        raise UndefinedMetricError("baselines need at least one item")
    if any(isinstance(item, EntityItem) for item in items):
        note = "a guess would have to find the entities first, and what that means is not defined"
        return Baselines(None, None, None, note)
    gold = Counter(
        label
        for tally in scored(card.scoring, (Tally(item.gold, (), ()) for item in items), variant)
        for label in tally.gold
    )
    label, count = gold.most_common(1)[0]
    return Baselines(1 / len(card.labels), count / gold.total(), label, "")
