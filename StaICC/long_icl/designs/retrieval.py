"""The experiment ``retrieval``: a number of demonstrations that are similar to the test item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.long_icl.contexts import Conditions, Contexts, ShownLabels
from StaICC.long_icl.material import DesignOptions, Material, input_text
from StaICC.long_icl.prompts import Item, write_demonstration, write_instruction
from StaICC.long_icl.shuffling import shuffled
from StaICC.prompting.bm25 import bm25_scores
from StaICC.prompting.prompt_text import Demonstration, PromptParts


@dataclass(frozen=True, slots=True)
class DemonstrationPool:
    """The demonstrations to choose from, each written once for all contexts that show it."""

    instruction: str
    """The text before the demonstrations."""
    items: Sequence[Item]
    written: Sequence[Demonstration]
    """Each item as a demonstration."""

    @classmethod
    def of_items(cls, material: Material, items: Sequence[Item]) -> DemonstrationPool:
        """Return the pool of some training items."""
        card = material.data.card
        instruction = write_instruction(card, instruct=material.instruct)
        return cls(instruction, items, [write_demonstration(card, item) for item in items])


@dataclass(frozen=True, slots=True)
class ChosenDemonstrations:
    """Demonstrations that are chosen for each test item; contexts are put together when they are read."""

    pool: DemonstrationPool
    chosen: Sequence[Sequence[int]]
    """For each test item the indexes of its demonstrations in the pool, in the order in which they are shown."""

    def context(self, item_index: int) -> PromptParts:
        """Return what is before the query of a test item."""
        demonstrations = tuple(self.pool.written[index] for index in self.chosen[item_index])
        return PromptParts(self.pool.instruction, demonstrations, "")

    def texts(self, item_index: int) -> tuple[str, ...]:
        """Return the input texts of the demonstrations of a test item."""
        return tuple(input_text(self.pool.items[index]) for index in self.chosen[item_index])

    def contexts(self, compared: str) -> Contexts:
        """Return the contexts of the condition.

        Args:
            compared: The condition from which the difference is computed; empty: the first one.
        """
        shown: list[ShownLabels] = []
        for indexes in self.chosen:
            shown.append(tuple(self.pool.items[index].gold for index in indexes))
        counts = [len(indexes) for indexes in self.chosen]
        demonstration_count: float = counts[0]
        if len(set(counts)) > 1:
            demonstration_count = sum(counts) / len(counts)
        return Contexts(
            context=self.context,
            demonstrations=demonstration_count,
            shown=tuple(shown),
            compared=compared,
            texts=self.texts,
        )


def most_similar_first(items: Sequence[Item], pool: Sequence[Item]) -> list[list[int]]:
    """Return for each test item the indexes of all demonstrations, the most similar one first (BM25).

    Of equally similar ones, the first one of the pool comes first.
    """
    queries = [input_text(item) for item in items]
    orders = []
    for scores in bm25_scores(queries, [input_text(item) for item in pool]):
        negated = [-score for score in scores]
        orders.append(sorted(range(len(pool)), key=negated.__getitem__))
    return orders


def retrieval_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show all demonstrations; to each test item the most similar ones by BM25, the most similar one last; random ones.

    As many random demonstrations tell similarity from the number of demonstrations.
    """
    demonstrations = material.shots(options.shots)
    pool = DemonstrationPool.of_items(material, demonstrations)
    similar_orders = most_similar_first(material.items, demonstrations)
    random_orders = [shuffled(range(len(demonstrations)), f"{options.seed} {item.row}") for item in material.items]

    conditions: Conditions = {"full context": material.contexts(demonstrations)}
    for number in options.levels:
        retrieved_name = f"{number} retrieved"
        random_name = f"{number} random"
        if number >= len(demonstrations):
            reason = f"the full context has {len(demonstrations)} demonstrations"
            conditions[retrieved_name] = reason
            conditions[random_name] = reason
            continue
        retrieved = ChosenDemonstrations(pool, _last_ones(similar_orders, number))
        drawn = ChosenDemonstrations(pool, _last_ones(random_orders, number))
        conditions[retrieved_name] = retrieved.contexts(compared="")
        conditions[random_name] = drawn.contexts(compared=retrieved_name)
    return conditions


def _last_ones(orders: Sequence[Sequence[int]], number: int) -> list[list[int]]:
    """Return the first indexes of each order, reversed, so that the first one is next to the query."""
    return [list(reversed(order[:number])) for order in orders]
