"""The library's parser of replies of LongICL.

Of data sets with one label per item, it is that of all benchmarks (:mod:`StaICC.inference.reply_parser`). Of the
others, it corrects these errors of the published parsers:

* S6. The query's text is not searched for in the response. If the response begins with the prompt, the prompt is
  dropped.
* S8. Full stops, quotation marks, backticks and asterisks around a label are dropped, unless a label has them itself.
* S10. Labels are compared without case. Entity texts are compared with case, because they are quotations.
* S13. Few-NERD: a line is split at the last ``": "`` before a type of the list (else at the last one),
  and both sides are stripped, so that entities with a colon can be correct.
* S14. Few-NERD: lines without an entity are skipped before the first entity; a bullet or number before an entity is
  dropped, unless it is in the sentence (``1. FC Koeln``); only ``Sentence:`` ends the list, not an entity that
  begins with the word.
* S18. DialogRE: a part of the answer counts only if it is a relation's name, not if it contains one.
* S20. DialogRE: the first cue counts, not the last one; the answer ends at ``Dialogue:``, not at the word
  ``dialogue``; an end mark ``[/INST]`` at its beginning is dropped.
"""

from __future__ import annotations

import json
import re

from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.label_names import as_label
from StaICC.long_icl.listed_labels import list_reader
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.published_parser import Parsed, first_line, text_before

_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")
"""A bullet or number at the beginning of a line."""


def read_by_library(card: TaskCard, response: str, item: Item, prompt: str | None) -> Parsed:
    """Return the answer in a response, as the library parses it.

    Args:
        card: Card of the data set.
        response: The generated text, with or without the prompt.
        item: The test item.
        prompt: The prompt, which is removed from the beginning of the response; ``None`` if it is unknown.
    """
    if prompt:
        response = response.removeprefix(prompt.rstrip())  # a model may drop its final blank
    if item.kind == "labels":
        labels = list_reader(card.labels, card.answers).labels_of(response)
        return card.answers.separator.join(labels)
    if item.kind == "dialogue":
        return _relations(card, _list_on_one_line(card, reply_text(response)), item)
    if item.kind == "entities":
        return _entities(card, reply_text(response).replace("**", ""), item)
    return _one_label(card, response)


def _one_label(card: TaskCard, response: str) -> str:
    """Return the label that a response asserts; empty if it asserts none."""
    beginnings_of_texts: tuple[str, ...] = ()
    if card.answers.marker is not None:
        beginnings_of_texts = (card.answers.marker,)
    label_index = parse_reply(response, card.labels, card.answers.cue, beginnings_of_texts).label
    if label_index is None:
        return ""
    return card.labels[label_index]


def _relations(card: TaskCard, response: str, item: Item) -> str:
    """Return the relations that a response lists for the pairs of a dialogue, with commas between them.

    They are in the first line after the first cue, up to ``Dialogue:`` or ``[/INST]``. A part that is no name of a
    relation keeps its place, because relations are compared place by place.
    """
    cue = card.answers.cue.format(count=len(item.gold))
    after_cue = response.strip().split(cue, 1)[-1].strip()
    line = first_line(after_cue.removeprefix("[/INST]"))
    line = text_before(line, "Dialogue:")
    line = text_before(line, "[/INST]")
    return ", ".join(as_label(card, part) for part in line.split(","))


def _list_on_one_line(card: TaskCard, text: str) -> str:
    """Return labels between commas if a response lists them as JSON, or one to a line; else the text."""
    texts_in_json = _texts_of_json_list(text)
    if texts_in_json is not None:
        text = ", ".join(texts_in_json)

    items = []
    for line in text.splitlines():
        if line.strip():
            items.append(_LIST_MARK.sub("", line.strip()).replace("**", ""))
    names_labels_only = all(as_label(card, item) in card.labels for item in items)
    if len(items) > 1 and names_labels_only:
        return ", ".join(items)
    return text


def _texts_of_json_list(text: str) -> list[str] | None:
    """Return the texts of a list in JSON; ``None`` for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
        return None
    return value


def _entities(card: TaskCard, response: str, item: Item) -> dict[str, str]:
    """Return the entities that a response lists with their types, one to a line.

    Lines before the first entity are skipped. The list ends at the first line after it that is no entity.
    """
    types_by_entity: dict[str, str] = {}
    for response_line in response.strip().split("\n"):
        line = response_line.strip()
        if line.startswith("Sentence: "):
            break
        if ": " in line:
            entity, entity_type = _entity_and_type(card, line)
            if entity not in item.texts[0]:
                entity = _LIST_MARK.sub("", entity, count=1)
            types_by_entity[entity] = entity_type
        elif types_by_entity:
            break
    return types_by_entity


def _entity_and_type(card: TaskCard, line: str) -> tuple[str, str]:
    """Return the entity and the type of a line with a colon.

    The line is split at the last colon before the name of a type; without such a name, at the last colon.
    """
    parts = line.split(": ")
    type_index = len(parts) - 1
    for index in range(len(parts) - 1, 0, -1):
        if as_label(card, parts[index]) in card.labels:
            type_index = index
            break
    entity = ": ".join(parts[:type_index]).strip()
    return entity, as_label(card, parts[type_index])
