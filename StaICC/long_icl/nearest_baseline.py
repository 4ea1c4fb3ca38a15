"""The baseline ``nearest``: the label of the demonstration that is most similar to the query."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.material import input_text
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.scoring import Tally, score_tallies, value_of
from StaICC.prompting.bm25 import nearest_texts


def nearest_score(card: TaskCard, items: Sequence[Item], contexts: Contexts) -> float | None:
    """Return the score of predicting the label of the most similar demonstration in the context (BM25, one neighbour).

    It says what a copy of the nearest demonstration reaches. A model whose score is not higher may do no more than
    compare words. Of equally similar demonstrations, the first one of the context counts.

    Args:
        card: Card of the data set.
        items: The test items.
        contexts: The contexts of a condition.

    Returns:
        The score; ``None`` if the contexts show no demonstrations, if each test item has its own context, or if labels
        are those of entities.
    """
    has_labels_of_texts = not card.structured or card.kind == "labels"
    if not has_labels_of_texts or not contexts.shared:
        return None
    texts = contexts.texts_of(0)
    if not texts:
        return None
    shown_labels = contexts.shown_labels(0)
    tallies = []
    for item, nearest in zip(items, nearest_texts([input_text(item) for item in items], texts), strict=True):
        predicted = shown_labels[nearest]
        correct = tuple(label for label in item.gold if label in predicted)
        tallies.append(Tally(item.gold, predicted, correct))
    return value_of(score_tallies(card.scoring, tallies))
