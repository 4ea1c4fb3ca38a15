"""The many-shot tasks of HELMET."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from functools import partial

from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import cards
from StaICC.long_icl.contexts import Conditions, Contexts, ShownLabels
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.prompts import write_demonstration
from StaICC.long_icl.reference_tokens import BUDGETS, budget_name, to_bytes
from StaICC.long_icl.selection import SEED, balanced
from StaICC.prompting.demonstrations import rows_by_label
from StaICC.prompting.prompt_text import PromptParts


def helmet_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show as many demonstrations as HELMET does for a length: balanced ones, with numbers as labels.

    Each test item has its own demonstrations and numbers.
    """
    card, template = material.data.card, material.data.card.template
    if not card.shots or material.instruct:
        got, expected = "instruct=True" if card.shots else card.name, ", ".join(cards("HELMET"))
        raise ArgumentError(f"experiment helmet: got {got}, expected {expected}, without a label list")
    train = [row.item() for row in material.data.train]
    labels, index = [item.gold[0] for item in train], {label: place for place, label in enumerate(card.labels)}
    groups = rows_by_label(labels)

    def seed(place: int) -> int:
        return (int(hashlib.sha256(to_bytes(material.items[place].texts[0])).hexdigest(), 16) + SEED) % 2**31

    def numbers(place: int) -> tuple[str, ...]:
        shuffled = [*range(len(card.labels))]
        random.Random(seed(place)).shuffle(shuffled)
        return tuple(map(str, shuffled))

    def context(count: int, place: int) -> PromptParts:
        names = numbers(place)
        shown = []
        for row in balanced(groups, count, seed(place)):
            numbered = replace(train[row], gold=(names[index[labels[row]]],))
            shown.append(write_demonstration(card, numbered))
        return PromptParts(template.plain, tuple(shown), "")

    def shown_to(count: int, place: int) -> ShownLabels:
        return tuple((labels[row],) for row in balanced(groups, count, seed(place)))

    counts, conditions = dict(zip(BUDGETS, card.shots, strict=True)), Conditions()
    for level in options.levels:
        count, name = counts.get(level, 0), budget_name(level)
        conditions[name] = f"HELMET has no such length. Choose from {', '.join(map(budget_name, BUDGETS))}"
        if count:  # each context shows every label that has rows
            shown = tuple((labels[row],) for row in balanced(groups, count, seed(0)))
            of_items = partial(shown_to, count)
            conditions[name] = Contexts(partial(context, count), count, numbers, (shown,), shown_to=of_items)
    return conditions
