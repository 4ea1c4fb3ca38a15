"""The baseline ``nearest``: the label of the demonstration that is most similar to the query."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.material import input_text
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.scoring import Tally, score_tallies, value_of
from StaICC.prompting.bm25 import BM25Index


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
        self._most_similar_texts: dict[tuple[str, ...], list[frozenset[str]]] = {}

    def score(self, contexts: Contexts) -> float | None:
        """Return the score of the baseline in a condition.

        Of equally similar demonstrations, the first one of the context counts.

        Args:
            contexts: The contexts of the condition.

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

        first_index_by_text: dict[str, int] = {}
        for index, text in enumerate(texts):
            first_index_by_text.setdefault(text, index)
        shown_labels = contexts.shown_labels(0)
        tallies = []
        for item, similar_texts in zip(self._items, self._texts_most_similar_in(texts), strict=True):
            nearest = min(first_index_by_text[text] for text in similar_texts)
            predicted = shown_labels[nearest]
            correct = tuple(label for label in item.gold if label in predicted)
            tallies.append(Tally(item.gold, predicted, correct))
        return value_of(score_tallies(self._card.scoring, tallies))

    def _texts_most_similar_in(self, texts: Sequence[str]) -> list[frozenset[str]]:
        """Return for each test item the texts of a context with the highest score: several if they are equal.

        They do not depend on the order of the context, so that conditions with the same demonstrations share them.
        """
        sorted_texts = tuple(sorted(texts))
        if sorted_texts not in self._most_similar_texts:
            index = BM25Index(sorted_texts)
            texts_of_items = []
            for item in self._items:
                similar = index.most_similar(input_text(item))
                texts_of_items.append(frozenset(sorted_texts[text_index] for text_index in similar))
            self._most_similar_texts[sorted_texts] = texts_of_items
        return self._most_similar_texts[sorted_texts]
