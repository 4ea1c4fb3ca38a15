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
        if self.searched:
            return self.searched
        if self.kind == "pair":
            return self.texts[1]
        return self.texts[0]


def entity_item(row: int, sentence: str, entities: Iterable[Sequence[str]]) -> Item:
    """Return a sentence and its entities, in prompt order and each once, with their types."""
    entity_types = []
    arguments = []
    for entity, entity_type in entities:
        arguments.append((entity,))
        entity_types.append(entity_type)
    return Item("entities", row, (sentence,), tuple(entity_types), tuple(arguments))


def dialogue_item(row: int, dialogue: str, relations: Iterable[Sequence[str]]) -> Item:
    """Return a dialogue and the queried pairs of entities, each with its relation.

    Args:
        row: The row of the dialogue.
        dialogue: The text of the dialogue.
        relations: For each pair the first entity, the second entity, and their relation.
    """
    labels = []
    arguments = []
    for first_entity, second_entity, relation in relations:
        arguments.append((first_entity, second_entity))
        labels.append(relation)
    return Item("dialogue", row, (dialogue,), tuple(labels), tuple(arguments))


def as_item(card: TaskCard, item: Item | Mapping[str, Any]) -> Item:
    """Return an item; that of a mapping with the fields of the query has empty labels.

    Args:
        card: Card of the data set.
        item: An item, which is returned unchanged; or a mapping with the fields of the query, of a dialogue also with
            its ``relations``, which are counted only.

    Raises:
        ArgumentError: It is an item of another kind, or a field is missing.
    """
    if isinstance(item, Item) and item.kind == card.kind:
        return item
    fields = list(FIELDS[card.kind])
    if card.kind == "dialogue":
        fields.append("relations")
    if not isinstance(item, Mapping) or not item.keys() >= set(fields):
        expected = f"an item of {card.name}, or a mapping with {', '.join(fields)}"
        raise ArgumentError(f"item: got {item!r:.200}, expected {expected}")
    label_count = 1
    if card.kind == "dialogue":
        label_count = len(item["relations"])
    texts = tuple(str(item[name]) for name in FIELDS[card.kind])
    return Item(card.kind, row=-1, texts=texts, gold=("",) * label_count)


def write_query(card: TaskCard, item: Item) -> str:
    r"""Return the text of a query, up to the position where the model continues.

    Example:
        >>> from StaICC.long_icl.cards import task_card
        >>> write_query(task_card("banking77"), Item("text", 0, ("Where is it?",), ("card_arrival",)))
        'service query: Where is it?\nintent category: '
    """
    fields = dict(zip(FIELDS[item.kind], item.texts, strict=True))
    # The published prompts of DialogRE show how many pairs there are, and the pairs as Python tuples of strings.
    fields["count"] = str(len(item.gold))
    fields["pairs"] = ", ".join(repr(pair) for pair in item.arguments)
    return card.template.query.format_map(fields)


def write_answer(card: TaskCard, item: Item) -> str:
    """Return the true answer as demonstrations show it, with a final line feed."""
    if item.kind == "entities":
        lines = []
        for arguments, entity_type in zip(item.arguments, item.gold, strict=True):
            fields = {"entity": arguments[0], "type": entity_type}
            lines.append(card.template.answer.format_map(fields))
        return "".join(lines)
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
    query = write_query(card, item)
    text = write_answer(card, item)
    answer = text.strip()
    if not answer:
        return Demonstration(query + text, answer, "")
    space_before, space_after = text.split(answer, 1)
    return Demonstration(query + space_before, answer, space_after)


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
    if card.kind == "dialogue":
        return merge_dialogues(demonstrations)
    return list(demonstrations)


def merge_dialogues(items: Iterable[Item]) -> list[Item]:
    """Put pairs of the same dialogue together, as DialogRE's demonstrations are shown.

    Dialogues come in the order in which they first occur, pairs in the order of the items. So the demonstrations of a
    round are not the beginning of the next round's: a later pair can join an earlier dialogue.
    """
    item_by_dialogue: dict[str, Item] = {}
    for item in items:
        dialogue = item.texts[0]
        if dialogue not in item_by_dialogue:
            item_by_dialogue[dialogue] = item
            continue
        merged = item_by_dialogue[dialogue]
        item_by_dialogue[dialogue] = replace(
            merged, gold=merged.gold + item.gold, arguments=merged.arguments + item.arguments
        )
    return list(item_by_dialogue.values())
