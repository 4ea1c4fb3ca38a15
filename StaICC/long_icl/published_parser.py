"""The published parsers.

They search for the query text in the response and take its last occurrence as the query. They are reproduced exactly,
with their errors.
"""

from __future__ import annotations

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.prompts import Item

Parsed = str | dict[str, str]
"""A parsed answer: one line of text; for Few-NERD entities and types."""


def read_as_published(card: TaskCard, response: str, item: Item) -> Parsed:
    """Return the answer in a response, as the published code of the data set parses it.

    Args:
        card: Card of the data set.
        response: The generated text, with or without the prompt.
        item: The test item.
    """
    if card.answers.exact_match:
        return _helmet_answer(card, response)
    if item.kind == "entities":
        return _entities(response, item)
    if item.kind == "dialogue":
        return _relations(card, response, item)
    return _one_label(card, response, item)


def text_before(text: str, marker: str | None) -> str:
    """Return the text before the first occurrence of a marker; the complete text if there is no marker."""
    if marker is None:
        return text
    return text.split(marker, 1)[0]


def first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return text.strip().split("\n", 1)[0]


def _after_last(response: str, searched: str) -> str:
    """Return the text after the last occurrence of a text; the complete text if it does not occur, or is empty."""
    if not searched:
        return response
    return response.rpartition(searched)[2]


def _helmet_answer(card: TaskCard, response: str) -> str:
    """Return the first line without the cue, in normal form.

    HELMET writes the cue before the response and reads the line after it.
    """
    line = response.split("\n", 1)[0].strip()
    cue = card.answers.cue
    if line[: len(cue)].lower() == cue:
        line = line[len(cue) :]
    return card.answers.normal(line)


def _one_label(card: TaskCard, response: str, item: Item) -> str:
    """Return the label of a response, in normal form.

    - The response does not repeat the query: its first line is the answer.
    - It repeats the query: the first line after the cue that follows the query is the answer.
    - It repeats the query, but no cue follows: the first line after the query is the answer. The published parser does
      not search for the marker then.

    Args:
        card: Card of the data set, with cue and marker.
        response: The generated text.
        item: The test item, whose ``needle`` is the text of the query.
    """
    cue = card.answers.cue
    marker = card.answers.marker
    repeats_query = item.needle != "" and item.needle in response
    if not repeats_query:
        return card.answers.normal(first_line(text_before(response, marker)))

    after_query = _after_last(response, item.needle).strip()
    if not cue or cue not in after_query:
        return card.answers.normal(first_line(after_query))
    after_cue = after_query.split(cue)[1]  # up to the next cue, which is that of another example
    return card.answers.normal(first_line(text_before(after_cue, marker)))


def _entities(response: str, item: Item) -> dict[str, str]:
    """Return the entities of a response with their types: one to a line, up to the first line that is no entity."""
    types_by_entity: dict[str, str] = {}
    for line in _after_last(response, item.needle).strip().split("\n"):
        is_next_example = line.startswith(("Sentence", "sentence"))
        if ": " not in line or is_next_example:
            break
        # Both parts end at the next ": ", so that an entity or a type with a colon is read wrongly.
        parts = line.split(": ")
        types_by_entity[parts[0]] = parts[1]
    return types_by_entity


def _relations(card: TaskCard, response: str, item: Item) -> str:
    """Return the line with the relations of a dialogue.

    It follows the last cue, and ends at the word "dialogue" or at ``[/INST]``.
    """
    cue = card.answers.cue.format(count=len(item.gold))
    text = _after_last(response, item.needle).strip()
    text = _after_last(text, cue).strip()
    text = text_before(text, "dialogue").strip()
    text = text_before(text, "Dialogue").strip()
    return text_before(first_line(text), "[/INST]").strip()
