"""The many-shot tasks of HELMET."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace

from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import cards
from StaICC.long_icl.contexts import Conditions, ItemContexts, ShownLabels, UnavailableCondition
from StaICC.long_icl.material import DesignOptions, Material, input_text
from StaICC.long_icl.prompts import Item, write_demonstration
from StaICC.long_icl.reference_tokens import BUDGETS, budget_name, to_bytes
from StaICC.long_icl.selection import SEED, balanced
from StaICC.prompting.demonstrations import rows_by_label
from StaICC.prompting.prompt_text import PromptParts


def helmet_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show as many demonstrations as HELMET does for a length: balanced ones, with numbers as labels.

    Each test item has its own demonstrations and numbers.

    Source:
        Yen et al. 2025, "HELMET: How to Evaluate Long-Context Language Models Effectively and Thoroughly".

    Raises:
        ArgumentError: The data set is none of HELMET's, or prompts would show a label list.
    """
    card = material.data.card
    if not card.shots or material.instruct:
        got = "instruct=True" if card.shots else card.name
        expected = ", ".join(cards("HELMET"))
        raise ArgumentError(f"experiment helmet: got {got}, expected {expected}, without a label list")

    count_of_length = dict(zip(BUDGETS, card.shots, strict=True))
    pool = _Pool.of_material(material)
    conditions: Conditions = {}
    for length in options.levels:
        if length in count_of_length:
            prompts = _HelmetContexts(material, pool, count_of_length[length])
            conditions[budget_name(length)] = prompts.contexts()
        else:
            lengths = ", ".join(budget_name(budget) for budget in BUDGETS)
            reason = f"HELMET has no such length. Choose from {lengths}"
            conditions[budget_name(length)] = UnavailableCondition(reason)
    return conditions


@dataclass(frozen=True, slots=True)
class _Pool:
    """The training rows of a data set, which all lengths choose from."""

    items: list[Item]
    rows_of_labels: list[list[int]]
    """The rows of each label, labels in the order in which they first occur."""
    label_indexes: list[int]
    """The index of the label of each row, in the order of the card."""

    @classmethod
    def of_material(cls, material: Material) -> _Pool:
        """Return the pool of a data set."""
        items = [row.item() for row in material.data.train]
        labels = [item.gold[0] for item in items]
        index_of_label = {label: index for index, label in enumerate(material.data.card.labels)}
        return cls(items, rows_by_label(labels), [index_of_label[label] for label in labels])


@dataclass(frozen=True, slots=True)
class _HelmetContexts:
    """The contexts of a length, each written when it is read."""

    material: Material
    pool: _Pool
    count: int
    """Number of demonstrations."""

    def contexts(self) -> ItemContexts:
        """Return the contexts of the condition. All of them show every label that has rows."""
        return ItemContexts(
            context=self.context,
            demonstrations=self.count,
            shown=self.shown_labels,
            texts=self.texts,
            label_names=self.label_numbers,
            shows_equal_labels=True,
        )

    def context(self, item_index: int) -> PromptParts:
        """Return what is before the query of a test item."""
        card = self.material.data.card
        numbers = self.label_numbers(item_index)
        demonstrations = []
        for row in self._rows(item_index):
            number = numbers[self.pool.label_indexes[row]]
            demonstrations.append(write_demonstration(card, replace(self.pool.items[row], gold=(number,))))
        return PromptParts(card.template.plain, tuple(demonstrations), "")

    def label_numbers(self, item_index: int) -> tuple[str, ...]:
        """Return the number that stands for each label in the prompt of a test item, in the order of the card."""
        numbers = list(range(len(self.material.data.card.labels)))
        random.Random(self._seed(item_index)).shuffle(numbers)
        return tuple(str(number) for number in numbers)

    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the true label of each demonstration of a test item."""
        return tuple(self.pool.items[row].gold for row in self._rows(item_index))

    def texts(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration of a test item."""
        return tuple(input_text(self.pool.items[row]) for row in self._rows(item_index))

    def _rows(self, item_index: int) -> list[int]:
        return balanced(self.pool.rows_of_labels, self.count, self._seed(item_index))

    def _seed(self, item_index: int) -> int:
        """Return HELMET's seed for a test item, which it computes from the digest of the text."""
        text = self.material.items[item_index].texts[0]
        digest = hashlib.sha256(to_bytes(text)).hexdigest()
        return (int(digest, 16) + SEED) % 2**31
