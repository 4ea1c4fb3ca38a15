"""Scores by how near the demonstrations of the true label are to the query, in the context or in words.

A *gold demonstration* is one with the true label of the test item. Three distances are measured for each test item
whose label the context shows:

- ``demonstrations``: the number of demonstrations between the last gold demonstration and the query;
- ``reference_tokens``: the reference tokens between them;
- ``overlap``: the largest share of the distinct words of the query that a gold demonstration has.

The test items of a condition are divided into bins with about equally many items, by each distance. The bins depend on
the prompts alone, so they are the same for all models.

Sources:
    Liu et al. 2024, "Lost in the Middle: How Language Models Use Long Contexts" (the place of the relevant text);
    Modarressi et al. 2025, "NoLiMa: Long-Context Evaluation Beyond Literal Matching", arXiv:2502.05167 (the overlap).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.long_icl.condition_scores import METHOD, ScoredItems, Tallies
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.material import input_text
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.reference_tokens import byte_size, tokens_of_bytes
from StaICC.prompting.prompt_text import PromptParts
from StaICC.prompting.words import words_of

BIN_COUNT = 4
"""Bins of each distance: with the usual 100 test items, a bin has 25."""
DISTANCES = ("demonstrations", "reference_tokens", "overlap")


@dataclass(frozen=True, slots=True)
class _GoldDistances:
    """How near the gold demonstrations of a test item are to its query."""

    demonstrations: int
    reference_tokens: int
    overlap: float


def nearest_gold_bins(
    scored_items: ScoredItems, items: Sequence[Item], contexts: Contexts, tallies: Tallies, level: float | None
) -> dict[str, list[dict[str, Any]]]:
    """Return the scores of a condition by each distance of the gold demonstrations.

    Args:
        scored_items: The test items, as conditions score them.
        items: The test items.
        contexts: The contexts of the condition.
        tallies: The tallies of the condition; empty if a query failed.
        level: Level of the intervals, each for its bin alone; ``None`` for none.

    Returns:
        For each of :data:`DISTANCES` the bins, the nearest first: ``lowest`` and ``highest`` distance, ``items``,
        ``score``, ``score_low`` and ``score_high``. There are no bins if the condition failed, or if no label of a test
        item is shown.
    """
    if not tallies:
        return {}
    distances = _gold_distances(items, contexts)
    bins = {}
    for name in DISTANCES:
        values = {index: getattr(of_item, name) for index, of_item in distances.items()}
        records = []
        for indexes in _equal_bins(values):
            records.append(_bin_record(scored_items, tallies, indexes, values, level))
        if records:
            bins[name] = records
    return bins


def _bin_record(
    scored_items: ScoredItems,
    tallies: Tallies,
    indexes: Sequence[int],
    values: Mapping[int, float],
    level: float | None,
) -> dict[str, Any]:
    """Return the score of the items of a bin with its interval."""
    chosen = [tallies[index] for index in indexes]
    low = None
    high = None
    if level is not None:
        term = scored_items.term_of_items(tallies, indexes, level)
        if term is not None:
            interval = term.interval(level, METHOD)
            low = interval.low
            high = interval.high
    return {
        "lowest": min(values[index] for index in indexes),
        "highest": max(values[index] for index in indexes),
        "items": sum(tally is not None for tally in chosen),
        "score": scored_items.score(chosen),
        "score_low": low,
        "score_high": high,
    }


def _equal_bins(values: Mapping[int, float]) -> list[list[int]]:
    """Return the indexes of items in bins with about equally many items, the lowest values first.

    Items with the same value are in the same bin. So there are fewer bins if many values are the same.

    Args:
        values: The value of each item, by its index.
    """
    in_order = sorted(values, key=lambda index: (values[index], index))
    bins: list[list[int]] = []
    rank = 0
    for number in range(1, BIN_COUNT + 1):
        end = len(in_order) * number // BIN_COUNT
        while 0 < end < len(in_order) and values[in_order[end]] == values[in_order[end - 1]]:
            end += 1
        if end > rank:
            bins.append(in_order[rank:end])
            rank = end
    return bins


# -- distances


def _gold_distances(items: Sequence[Item], contexts: Contexts) -> dict[int, _GoldDistances]:
    """Return the distances of the gold demonstrations by the index of the test item.

    Test items whose label the context does not show are left out.
    """
    shared = _SearchedContext(contexts, 0) if contexts.shared else None
    distances = {}
    for index, item in enumerate(items):
        searched = shared or _SearchedContext(contexts, index)
        found = searched.distances(item)
        if found is not None:
            distances[index] = found
    return distances


class _SearchedContext:
    """A context in which gold demonstrations are searched.

    Args:
        contexts: The contexts of the condition.
        item_index: The test item that has the context.
    """

    def __init__(self, contexts: Contexts, item_index: int) -> None:
        self._parts: PromptParts = contexts.context_of(item_index)
        self._texts = contexts.texts_of(item_index)
        self._indexes_of_label: dict[str, list[int]] = {}
        for index, labels in enumerate(contexts.shown_labels(item_index)):
            for label in labels:
                self._indexes_of_label.setdefault(label, []).append(index)
        self._words: dict[int, set[str]] = {}  # of demonstrations, each read when it is needed
        self._bytes_after: dict[int, int] = {}  # by the number of the demonstration

    def distances(self, item: Item) -> _GoldDistances | None:
        """Return the distances of the gold demonstrations of a test item; ``None`` if its label is not shown."""
        gold_indexes = self._gold_indexes(item.gold)
        if not gold_indexes:
            return None
        query_words = set(words_of(input_text(item)))
        overlap = 0.0
        for index in gold_indexes:
            common = query_words & self._words_at(index)
            overlap = max(overlap, len(common) / max(1, len(query_words)))
        last = gold_indexes[-1]
        return _GoldDistances(
            demonstrations=len(self._parts.demonstrations) - 1 - last,
            reference_tokens=tokens_of_bytes(self._bytes_behind(last)),
            overlap=overlap,
        )

    def _gold_indexes(self, gold: tuple[str, ...]) -> list[int]:
        """Return the indexes of the demonstrations that have one of the true labels of an item, in order."""
        indexes: set[int] = set()
        for label in gold:
            indexes.update(self._indexes_of_label.get(label, ()))
        return sorted(indexes)

    def _words_at(self, index: int) -> set[str]:
        """Return the distinct words of a demonstration."""
        if index not in self._words:
            self._words[index] = set(words_of(self._texts[index]))
        return self._words[index]

    def _bytes_behind(self, index: int) -> int:
        """Return the bytes of the demonstrations after a demonstration."""
        if index not in self._bytes_after:
            after = self._parts.demonstrations[index + 1 :]
            self._bytes_after[index] = sum(byte_size(demonstration.text) for demonstration in after)
        return self._bytes_after[index]
