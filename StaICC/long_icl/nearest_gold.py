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
        scored_items: The test items with their true labels and units, which scores are computed of.
        items: The same test items with their texts.
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
        distance_of_item = {index: getattr(of_item, name) for index, of_item in distances.items()}
        records = []
        for indexes in _equal_bins(distance_of_item):
            records.append(_bin_record(scored_items, tallies, indexes, distance_of_item, level))
        if records:
            bins[name] = records
    return bins


def _bin_record(
    scored_items: ScoredItems,
    tallies: Tallies,
    indexes: Sequence[int],
    distance_of_item: Mapping[int, float],
    level: float | None,
) -> dict[str, Any]:
    """Return the score of the items of a bin with its interval.

    Args:
        scored_items: The test items.
        tallies: The tallies of the condition.
        indexes: The indexes of the items of the bin.
        distance_of_item: The distance of each item, by its index.
        level: Level of the interval; ``None`` for none.
    """
    tallies_of_bin = [tallies[index] for index in indexes]
    distances = [distance_of_item[index] for index in indexes]
    record: dict[str, Any] = {
        "lowest": min(distances),
        "highest": max(distances),
        "items": sum(tally is not None for tally in tallies_of_bin),
        "score": scored_items.score(tallies_of_bin),
        "score_low": None,
        "score_high": None,
    }
    if level is None:
        return record
    term = scored_items.score_of_items_with_limits(tallies, indexes, level)
    if term is not None:
        interval = term.interval(level, METHOD)
        record["score_low"] = interval.low
        record["score_high"] = interval.high
    return record


def _equal_bins(values: Mapping[int, float]) -> list[list[int]]:
    """Return the indexes of items in bins with about equally many items, the lowest values first.

    Items with the same value are in the same bin. So there are fewer bins if many values are the same.

    Args:
        values: The value of each item, by its index.
    """
    sorted_indexes = sorted(values, key=lambda index: (values[index], index))
    item_count = len(sorted_indexes)
    bins: list[list[int]] = []
    start = 0
    for number in range(1, BIN_COUNT + 1):
        end = item_count * number // BIN_COUNT
        # Further items with the same value as the last item of the bin belong to this bin, too.
        while 0 < end < item_count and values[sorted_indexes[end]] == values[sorted_indexes[end - 1]]:
            end += 1
        if end > start:
            bins.append(sorted_indexes[start:end])
            start = end
    return bins


# -- distances


def _gold_distances(items: Sequence[Item], contexts: Contexts) -> dict[int, _GoldDistances]:
    """Return the distances of the gold demonstrations by the index of the test item.

    Test items whose label the context does not show are left out.

    Args:
        items: The test items.
        contexts: The contexts of the condition.
    """
    searched_context = _SearchedContext(contexts, 0)
    distances = {}
    for index, item in enumerate(items):
        if not contexts.shared:
            searched_context = _SearchedContext(contexts, index)
        distances_of_item = searched_context.distances(item)
        if distances_of_item is not None:
            distances[index] = distances_of_item
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
        # Both are computed when they are needed, by the index of the demonstration.
        self._words_of_demonstration: dict[int, set[str]] = {}
        self._bytes_after_demonstration: dict[int, int] = {}

    def distances(self, item: Item) -> _GoldDistances | None:
        """Return the distances of the gold demonstrations of a test item; ``None`` if its label is not shown."""
        gold_indexes = self._gold_indexes(item.gold)
        if not gold_indexes:
            return None
        query_words = set(words_of(input_text(item)))
        largest_overlap = 0.0
        for index in gold_indexes:
            common_words = query_words & self._words_of(index)
            overlap = len(common_words) / max(1, len(query_words))  # 0 for a query without words
            largest_overlap = max(largest_overlap, overlap)
        last_gold_index = gold_indexes[-1]
        last_index = len(self._parts.demonstrations) - 1
        return _GoldDistances(
            demonstrations=last_index - last_gold_index,
            reference_tokens=tokens_of_bytes(self._bytes_after(last_gold_index)),
            overlap=largest_overlap,
        )

    def _gold_indexes(self, gold: tuple[str, ...]) -> list[int]:
        """Return the indexes of the demonstrations that have one of the true labels of an item, in order."""
        indexes: set[int] = set()
        for label in gold:
            indexes.update(self._indexes_of_label.get(label, ()))
        return sorted(indexes)

    def _words_of(self, index: int) -> set[str]:
        """Return the distinct words of a demonstration."""
        if index not in self._words_of_demonstration:
            self._words_of_demonstration[index] = set(words_of(self._texts[index]))
        return self._words_of_demonstration[index]

    def _bytes_after(self, index: int) -> int:
        """Return the bytes of all demonstrations after a demonstration together."""
        if index not in self._bytes_after_demonstration:
            following = self._parts.demonstrations[index + 1 :]
            self._bytes_after_demonstration[index] = sum(byte_size(demonstration.text) for demonstration in following)
        return self._bytes_after_demonstration[index]
