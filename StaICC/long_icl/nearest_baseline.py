"""The baseline ``nearest``: the label of the demonstration that is most similar to the query."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.material import input_text
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.scoring import Tally, score_tallies, value_of
from StaICC.prompting.bm25 import BM25Index

_Comparison = tuple[tuple[str, ...], tuple[int, ...]]
"""The sorted texts of demonstrations, and the indices of the test items that are compared with them."""


class NearestBaseline:
    """Predicts the label of the most similar demonstration in the context (BM25, one neighbour).

    Its score is what a copy of the nearest demonstration reaches. A model whose score is not higher may do no more than
    compare words.

    Args:
        card: Card of the data set.
        items: The test items.
    """

    def __init__(self, card: TaskCard, items: Sequence[Item]) -> None:
        self._card = card
        self._items = items
        self._most_similar_texts: dict[_Comparison, list[frozenset[str]]] = {}

    def score(self, contexts: Contexts, dropped: Sequence[int]) -> float | None:
        """Return the score of the baseline in a condition.

        Of equally similar demonstrations, the first one of the context counts. Demonstrations that a prompt lost are
        not compared; a prompt that lost all of them has no prediction.

        Args:
            contexts: The contexts of the condition, with all demonstrations.
            dropped: For each test item, how many demonstrations its prompt lost from the front.

        Returns:
            The score; ``None`` if the contexts show no demonstrations, if each test item has its own context, or if
            labels are those of entities.
        """
        has_labels_of_texts = not self._card.structured or self._card.kind == "labels"
        if not has_labels_of_texts or not contexts.shared:
            return None
        texts = contexts.texts_of(0)
        if not texts:
            return None

        # Test items whose prompts lost equally many demonstrations are compared with the same texts.
        item_indices_by_dropped: dict[int, list[int]] = {}
        for item_index, dropped_count in enumerate(dropped):
            item_indices_by_dropped.setdefault(dropped_count, []).append(item_index)
        shown_labels = contexts.shown_labels(0)
        predicted_labels: dict[int, tuple[str, ...]] = {}  # by test item
        for dropped_count, item_indices in item_indices_by_dropped.items():
            remaining_texts = texts[dropped_count:]
            remaining_labels = shown_labels[dropped_count:]
            nearest = self._nearest(remaining_texts, item_indices)
            for item_index, demonstration_index in nearest.items():
                predicted_labels[item_index] = remaining_labels[demonstration_index]

        tallies = []
        for item_index, item in enumerate(self._items):
            predicted = predicted_labels.get(item_index, ())
            correct = tuple(label for label in item.gold if label in predicted)
            tallies.append(Tally(item.gold, predicted, correct))
        return value_of(score_tallies(self._card.scoring, tallies))

    def _nearest(self, texts: Sequence[str], item_indices: Sequence[int]) -> dict[int, int]:
        """Return the index of the most similar text for each of some test items; empty if there are no texts.

        Args:
            texts: The texts of the demonstrations that the prompts of these items have.
            item_indices: The indices of the items.
        """
        if not texts:
            return {}
        first_index_by_text: dict[str, int] = {}
        for index, text in enumerate(texts):
            first_index_by_text.setdefault(text, index)
        nearest = {}
        similar_texts_of_items = self._texts_most_similar_in(texts, item_indices)
        for item_index, similar_texts in zip(item_indices, similar_texts_of_items, strict=True):
            nearest[item_index] = min(first_index_by_text[text] for text in similar_texts)
        return nearest

    def _texts_most_similar_in(self, texts: Sequence[str], item_indices: Sequence[int]) -> list[frozenset[str]]:
        """Return for each of some test items the texts with the highest score: several if they are equal.

        They do not depend on the order of the texts, so that conditions with the same demonstrations share them.

        Args:
            texts: The texts of demonstrations.
            item_indices: The indices of the test items.
        """
        comparison = (tuple(sorted(texts)), tuple(item_indices))
        if comparison not in self._most_similar_texts:
            sorted_texts = comparison[0]
            index = BM25Index(sorted_texts)
            texts_of_items = []
            for item_index in item_indices:
                similar = index.most_similar(input_text(self._items[item_index]))
                texts_of_items.append(frozenset(sorted_texts[text_index] for text_index in similar))
            self._most_similar_texts[comparison] = texts_of_items
        return self._most_similar_texts[comparison]
