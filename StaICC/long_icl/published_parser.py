"""The published parsers.

They search for the query text in the response and take its last occurrence as the query. They are reproduced exactly,
with their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.prompts import Item

Parsed = str | dict[str, str]
"""A parsed answer: one line of text; for Few-NERD entities and types."""


def _after_last(response: str, needle: str) -> str:
    """Return the text after the last occurrence; without any, the complete text."""
    return response.rpartition(needle)[2] if needle else response


def _before(text: str, marker: str | None) -> str:
    return text if marker is None else text.split(marker, 1)[0]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def _one_label(own: TaskCard, response: str, item: Item) -> str:
    cue, marker = own.answers.cue, own.answers.marker
    if not item.needle or item.needle not in response:
        return own.answers.normal(_first_line(_before(response, marker)))
    rest = _after_last(response, item.needle).strip()
    parts = rest.split(cue) if cue else [rest]
    return own.answers.normal(_first_line(_before(parts[1], marker) if len(parts) > 1 else rest))


def _entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    entities: dict[str, str] = {}
    for line in _after_last(response, item.needle).strip().split("\n"):
        if ": " not in line or line.startswith(("Sentence", "sentence")):
            break
        entity, kind = line.split(": ")[:2]
        entities[entity] = kind
    return entities


def _relations(own: TaskCard, response: str, item: Item) -> str:
    for needle in (item.needle, own.answers.cue.format(count=len(item.gold))):
        response = _after_last(response, needle).strip()
    for marker in ("dialogue", "Dialogue"):
        response = _before(response, marker).strip()
    return _before(_first_line(response), "[/INST]").strip()


def _exact_match(own: TaskCard, response: str, item: Item) -> str:
    """Return the first line without the cue: HELMET writes the cue before the response and reads the line after it."""
    line, cue = response.split("\n", 1)[0].strip(), own.answers.cue
    return own.answers.normal(line[len(cue) :] if line[: len(cue)].lower() == cue else line)


_PUBLISHED: Mapping[str, Callable[[TaskCard, str, Item], Parsed]] = {"entities": _entities, "dialogue": _relations}
