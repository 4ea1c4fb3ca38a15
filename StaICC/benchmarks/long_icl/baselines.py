"""Baselines: the scores of uniform guessing and of the most frequent label.

* Uniform: the expected score of a label drawn uniformly. With one guess per gold label, accuracy, precision, recall and
  F1 all equal 1 / labels.
* Majority: the score of always predicting the most frequent label of the test items.

In DialogRE, a guess is one relation per pair. Few-NERD asks for the entities too, and a random guess of entities is not
defined, so its baselines are undefined (None, with the reason).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from StaICC.benchmarks.long_icl.data.cards import TaskCard
from StaICC.benchmarks.long_icl.data.items import EntityItem, Item
from StaICC.benchmarks.long_icl.scoring import Tally, scored
from StaICC.errors import UndefinedMetricError


@dataclass(frozen=True, slots=True)
class LongICLBaselines:
    """Scores of predictions that do not depend on the query."""

    uniform: float | None
    """Expected score of uniform guessing."""
    majority: float | None
    """Score of the most frequent gold label."""
    majority_label: str | None
    note: str
    """Why a baseline is undefined; empty if both are defined."""


def compute_baselines(card: TaskCard, items: Iterable[Item], variant: str = "published") -> LongICLBaselines:
    """Return the baselines of a data set's test items.

    Args:
        card: Card of the data set.
        items: The test items.
        variant: ``published`` or ``strict`` (the published score of DialogRE leaves out items after the 500th pair).

    Raises:
        UndefinedMetricError: There are no items.

    Example:
        >>> from StaICC.benchmarks.long_icl.data.cards import card
        >>> from StaICC.benchmarks.long_icl.data.items import TextItem
        >>> texts = [TextItem(0, "ha", "joy"), TextItem(1, "oh", "fear"), TextItem(2, "yes", "joy")]
        >>> compute_baselines(card("goemotions"), texts).majority_label
        'joy'
    """
    items = list(items)
    if not items:
        raise UndefinedMetricError("baselines need at least one item")
    if any(isinstance(item, EntityItem) for item in items):
        note = "a random guess of entities is not defined"
        return LongICLBaselines(None, None, None, note)
    gold = Counter(
        label
        for tally in scored(card.scoring, (Tally(item.gold, (), ()) for item in items), variant)
        for label in tally.gold
    )
    label, count = gold.most_common(1)[0]
    return LongICLBaselines(1 / len(card.labels), count / gold.total(), label, "")
