"""Prompts: instruction, label list if asked for, demonstrations, query.

All queries of a round share the text before the query (the *context*), so kernels and servers with prefix caching
compute it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from StaICC.benchmarks.long_icl.data.cards import TaskCard
from StaICC.benchmarks.long_icl.data.items import DialogueItem, Item
from StaICC.errors import ArgumentError, unknown_name

ARRANGEMENTS = ("interleaved", "grouped")
"""``interleaved``: as published; ``grouped``: all demonstrations of a label together, labels in alphabetical order, as
the paper does with TACRED."""


def write_query(card: TaskCard, item: Item) -> str:
    r"""Return the text of a query, up to the position where the model continues.

    Example:
        >>> from StaICC.benchmarks.long_icl.data.cards import card
        >>> from StaICC.benchmarks.long_icl.data.items import TextItem
        >>> write_query(card("banking77"), TextItem(0, "Where is it?", "card_arrival"))
        'service query: Where is it?\nintent category: '
    """
    return card.template.query.format_map(item.query_fields())


def write_answer(card: TaskCard, item: Item) -> str:
    """Return the true answer as demonstrations show it, with a final line feed."""
    return "".join(card.template.answer.format_map(fields) for fields in item.answer_fields())


def write_context(card: TaskCard, demonstrations: Iterable[Item], *, instruct: bool = False) -> str:
    """Return the text before the query.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations, in order.
        instruct: Show the label list.

    Returns:
        Instruction and demonstrations.
    """
    before, after = card.template.instruct
    head = before + ", ".join(card.labels) + after if instruct else card.template.plain
    return head + "".join(write_query(card, item) + write_answer(card, item) for item in demonstrations)


def arrange(card: TaskCard, demonstrations: Sequence[Item], arrangement: str) -> list[Item]:
    """Return demonstrations in an arrangement.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations as selected.
        arrangement: One of :data:`ARRANGEMENTS`.

    Raises:
        UnknownNameError: The arrangement is unknown.
        ArgumentError: Demonstrations have several labels, so they cannot be grouped by label.
    """
    if arrangement not in ARRANGEMENTS:
        raise unknown_name("arrangement", arrangement, ARRANGEMENTS)
    if arrangement == "interleaved":
        return list(demonstrations)
    if card.structured:
        raise ArgumentError(f"{card.title}: a demonstration has several labels, so the arrangement cannot be 'grouped'")
    return sorted(demonstrations, key=lambda item: item.gold)


def merge_dialogues(items: Iterable[DialogueItem]) -> list[DialogueItem]:
    """Put pairs of the same dialogue together, as DialogRE's demonstrations are shown.

    Dialogues come in the order in which they first occur, pairs in the order of the items. So the demonstrations of a
    round are not the beginning of the next round's: a later pair can join an earlier dialogue.
    """
    merged: dict[str, DialogueItem] = {}
    for item in items:
        first = merged.get(item.dialogue)
        if first is not None:
            item = DialogueItem(first.row, item.dialogue, (*first.relations, *item.relations))
        merged[item.dialogue] = item
    return list(merged.values())
