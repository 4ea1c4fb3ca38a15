"""The experiment ``retrieval``: a number of demonstrations that are similar to the test item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.long_icl.contexts import Conditions, ItemContexts, ShownLabels, UnavailableCondition
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
        return cls(
            instruction=write_instruction(card, instruct=material.instruct),
            items=items,
            written=[write_demonstration(card, item) for item in items],
        )


@dataclass(frozen=True, slots=True)
class ChosenDemonstrations:
    """The demonstrations that each test item has. A context is put together each time that it is read."""

    pool: DemonstrationPool
    chosen: Sequence[Sequence[int]]
    """For each test item the indexes of its demonstrations in the pool, in the order in which they are shown."""

    def contexts(self, compared: str = "") -> ItemContexts:
        """Return the contexts of the condition.

        Args:
            compared: The condition from which the difference is computed; empty for the first condition.
        """
        return ItemContexts(
            context=self.context,
            demonstrations=self.mean_count(),
            shown=self.shown_labels,
            texts=self.texts,
            compared=compared,
        )

    def context(self, item_index: int) -> PromptParts:
        """Return the context of a test item, with an empty question."""
        demonstrations = tuple(self.pool.written[index] for index in self.chosen[item_index])
        return PromptParts(self.pool.instruction, demonstrations, "")

    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the labels of each demonstration of a test item."""
        return tuple(self.pool.items[index].gold for index in self.chosen[item_index])

    def texts(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration of a test item."""
        return tuple(input_text(self.pool.items[index]) for index in self.chosen[item_index])

    def mean_count(self) -> float:
        """Return the mean number of demonstrations of a context; an integer if all contexts have equally many."""
        counts = [len(indexes) for indexes in self.chosen]
        if len(set(counts)) == 1:
            return counts[0]
        return sum(counts) / len(counts)


def most_similar_first(items: Sequence[Item], pool: Sequence[Item]) -> list[list[int]]:
    """Return for each test item the indexes of all demonstrations, sorted by falling BM25 score.

    Demonstrations with equal scores keep the order of the pool.

    Args:
        items: The test items.
        pool: The demonstrations.
    """
    queries = [input_text(item) for item in items]
    texts = [input_text(item) for item in pool]
    orders = []
    for scores in bm25_scores(queries, texts):
        negated_scores = [-score for score in scores]
        orders.append(sorted(range(len(pool)), key=negated_scores.__getitem__))
    return orders


def retrieval_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return a condition with all demonstrations, and two conditions for each smaller number of demonstrations.

    - ``retrieved``: to each test item the most similar ones by BM25, the most similar one last.
    - ``random``: as many random ones, another choice for each test item. The difference between both conditions is that
      of similarity, because the number of demonstrations is equal.

    Args:
        options: The options of the experiment. Its levels are numbers of retrieved demonstrations.
        material: The training rows and the test items.
    """
    demonstrations = material.shots(options.shots)
    pool = DemonstrationPool.of_items(material, demonstrations)
    similar_orders = most_similar_first(material.items, demonstrations)
    random_orders = []
    for item in material.items:
        random_orders.append(shuffled(range(len(demonstrations)), seed=f"{options.seed} {item.row}"))

    conditions: Conditions = {"full context": material.shared_context(demonstrations)}
    for number in options.levels:
        retrieved_name = f"{number} retrieved"
        random_name = f"{number} random"
        if number >= len(demonstrations):
            refused = UnavailableCondition(f"the full context has {len(demonstrations)} demonstrations")
            conditions[retrieved_name] = refused
            conditions[random_name] = refused
            continue
        retrieved = ChosenDemonstrations(pool, _first_ones_reversed(similar_orders, number))
        randomly_chosen = ChosenDemonstrations(pool, _first_ones_reversed(random_orders, number))
        conditions[retrieved_name] = retrieved.contexts()
        conditions[random_name] = randomly_chosen.contexts(compared=retrieved_name)
    return conditions


def _first_ones_reversed(orders: Sequence[Sequence[int]], number: int) -> list[list[int]]:
    """Return the first indexes of each order in reverse, so that the very first one is next to the query."""
    chosen = []
    for order in orders:
        chosen.append(list(reversed(order[:number])))
    return chosen
