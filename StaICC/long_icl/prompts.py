"""Prompts of the published protocol.

Prompt strings are exact: no blank is added between two parts.

Items are the rows of the data sets as records. There are six kinds: a text with a label (BANKING77, GoEmotions), two
sentences with a label (Discovery), a sentence with two entities and their relation (TACRED), a sentence with its
entities and their types (Few-NERD), a dialogue with pairs of entities and their relations (DialogRE), a text with
several labels (data sets of users).

All queries of a round share the text before the query (the *context*: instruction, label list if asked for, and
demonstrations), so kernels and servers with prefix caching compute it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard
from StaICC.prompting.prompt_text import Demonstration, PromptParts

FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "pair": ("sentence1", "sentence2"),
    "relation": ("sentence", "subject_entity", "object_entity"),
    "entities": ("sentence",),
    "dialogue": ("dialogue",),
    "labels": ("text",),
}
"""The fields of the query template for each kind of item."""


@dataclass(frozen=True, slots=True)
class Item:
    """A row of a data set."""

    kind: str
    """A key of :data:`FIELDS`."""
    row: int
    """0-based row in the file (for DialogRE demonstrations: among the kept rows)."""
    texts: tuple[str, ...]
    """One for each field of the query template."""
    gold: tuple[str, ...]
    """The true labels, in order."""
    arguments: tuple[tuple[str, ...], ...] = ()
    """What each true label is about: an entity, or two; empty for texts with one or several labels."""
    searched: str = ""
    """The text that the parsers search for, if it is not one of the texts."""

    @property
    def needle(self) -> str:
        """The text that the published parsers search for in a response, to skip a repeated prompt."""
        return self.searched or self.texts[self.kind == "pair"]


def entity_item(row: int, sentence: str, entities: Iterable[Sequence[str]]) -> Item:
    """Return a sentence and its entities, in prompt order and each once, with their types."""
    pairs = list(entities)
    return Item("entities", row, (sentence,), tuple(kind for _, kind in pairs), tuple((text,) for text, _ in pairs))


def dialogue_item(row: int, dialogue: str, relations: Iterable[Sequence[str]]) -> Item:
    """Return a dialogue and the queried pairs of entities, each with its relation."""
    known = list(relations)
    labels, pairs = (relation for _, _, relation in known), ((first, second) for first, second, _ in known)
    return Item("dialogue", row, (dialogue,), tuple(labels), tuple(pairs))


def as_item(own: TaskCard, item: Item | Mapping[str, Any]) -> Item:
    """Return an item; that of a mapping with the fields of the query has no labels."""
    if isinstance(item, Item) and item.kind == own.kind:
        return item
    needed = [*FIELDS[own.kind], *["relations"] * (own.kind == "dialogue")]
    if not isinstance(item, Mapping) or not item.keys() >= {*needed}:
        expected = f"an item of {own.name}, or a mapping with {', '.join(needed)}"
        raise ArgumentError(f"item: got {item!r:.200}, expected {expected}")
    count = len(item["relations"]) if own.kind == "dialogue" else 1
    return Item(own.kind, -1, tuple(str(item[name]) for name in FIELDS[own.kind]), ("",) * count)


def write_query(card: TaskCard, item: Item) -> str:
    r"""Return the text of a query, up to the position where the model continues.

    Example:
        >>> from StaICC.long_icl.cards import task_card
        >>> write_query(task_card("banking77"), Item("text", 0, ("Where is it?",), ("card_arrival",)))
        'service query: Where is it?\nintent category: '
    """
    pairs = ", ".join(map(repr, item.arguments))  # as Python tuples of strings
    fields = dict(zip(FIELDS[item.kind], item.texts, strict=True), count=str(len(item.gold)), pairs=pairs)
    return card.template.query.format_map(fields)


def write_answer(card: TaskCard, item: Item) -> str:
    """Return the true answer as demonstrations show it, with a final line feed."""
    if item.kind == "entities":
        entities = zip(item.arguments, item.gold, strict=True)
        return "".join(card.template.answer.format_map({"entity": text, "type": kind}) for (text,), kind in entities)
    labels = card.answers.separator.join(item.gold)
    return card.template.answer.format_map({"label": labels, "relations": labels})


def write_instruction(card: TaskCard, *, instruct: bool = False) -> str:
    """Return the text before the demonstrations.

    Args:
        card: Card of the data set.
        instruct: Show the label list.
    """
    if not instruct:
        return card.template.plain
    before, after = card.template.instruct
    return before + ", ".join(card.labels) + after


def write_demonstration(card: TaskCard, item: Item) -> Demonstration:
    """Return a demonstration; white space around its answer belongs to what is before and after it."""
    text = write_answer(card, item)
    answer = text.strip()
    before, after = text.split(answer, 1) if answer else (text, "")
    return Demonstration(write_query(card, item) + before, answer, after)


def write_context(card: TaskCard, demonstrations: Iterable[Item], *, instruct: bool = False) -> PromptParts:
    """Return what is before the query: instruction and demonstrations, with an empty question.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations, in order.
        instruct: Show the label list.
    """
    shown = tuple(write_demonstration(card, item) for item in demonstrations)
    return PromptParts(write_instruction(card, instruct=instruct), shown, "")


def as_shown(card: TaskCard, demonstrations: Sequence[Item]) -> list[Item]:
    """Return demonstrations as the prompt shows them: those of DialogRE are merged by dialogue.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations as selected.
    """
    return merge_dialogues(demonstrations) if card.kind == "dialogue" else list(demonstrations)


def merge_dialogues(items: Iterable[Item]) -> list[Item]:
    """Put pairs of the same dialogue together, as DialogRE's demonstrations are shown.

    Dialogues come in the order in which they first occur, pairs in the order of the items. So the demonstrations of a
    round are not the beginning of the next round's: a later pair can join an earlier dialogue.
    """
    merged: dict[str, Item] = {}
    for item in items:
        first = merged.setdefault(item.texts[0], item)
        if first is not item:
            gold, arguments = first.gold + item.gold, first.arguments + item.arguments
            merged[item.texts[0]] = replace(first, gold=gold, arguments=arguments)
    return list(merged.values())
