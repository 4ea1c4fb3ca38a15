"""Labels in JSON: the value of a key that asks for the label. A key is never a label.

Keys that ask for the label are those whose words all name an answer (``label``, ``predicted_class``, ``Stimmung``).
Every other key is unknown: ``{"not_hate": "yes"}`` and ``{"rejected": "sports"}`` name no label.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from StaICC.inference.reply_grammar.assertions import Reading
from StaICC.inference.reply_grammar.labels import LabelNames, normalised
from StaICC.inference.reply_grammar.phrases import Phrases

_PLACES_TRIED = 8
_BEGINNING = re.compile(r"(?:^|:)[ \t]*([{\[])", re.M)
_WORDS_OF_KEY = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_NEXT_TO_ANSWER = frozenset({"the", "final", "predicted", "my", "best", "correct", "text", "name", "value"})
_DENIES = frozenset(
    {"not", "no", "wrong", "non", "incorrect", "rejected", "excluded", "false", "never", "unlikely", "retracted"}
)


class JsonObject(list[tuple[str, Any]]):
    """The pairs of a JSON object; a key may occur twice."""


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A JSON object or list in a reply."""

    start: int
    end: int
    value: Any


def json_part(text: str) -> JsonPart | None:
    """Return the first JSON object or list that begins a line of the text."""
    if '"' not in text:
        text = text.replace("'", '"')  # as Python writes it
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=JsonObject)
    for place, beginning in enumerate(_BEGINNING.finditer(text)):
        if place == _PLACES_TRIED:
            return None
        try:
            value, end = decoder.raw_decode(text, beginning.start(1))
        except (ValueError, RecursionError):
            continue
        if value:  # "[ ]" is an empty box of a list
            return JsonPart(beginning.start(1), end, value)
    return None


def read_json(value: Any, labels: LabelNames, phrases: Phrases) -> Reading:
    """Return what a JSON value says of the labels.

    It asserts a label if each of its keys that ask for the label has this label. A key with a word of denial, such as
    ``not_hate``, makes it unclear. A label under an unknown key is mentioned.
    """
    asserted: set[int | None] = set()
    mentioned: set[int] = set()
    try:
        leaves = list(_leaves(value, ()))
    except RecursionError:  # deeply nested lists
        return Reading(rule="no label in JSON")
    for keys, leaf in leaves:
        if any(_words_of(key) & _DENIES for key in keys):
            return Reading(rule="no label in JSON")
        is_integer = isinstance(leaf, int) and not isinstance(leaf, bool)
        label = labels.index_of(normalised(str(leaf))) if is_integer or isinstance(leaf, str) else None
        asks_for_label = all(_asks_for_label(key, labels, phrases) for key in keys)
        if asks_for_label and (label is not None or isinstance(leaf, str)):
            asserted.add(label)
        elif label is not None:
            mentioned.add(label)
    if not asserted:
        return Reading(others=frozenset(mentioned), rule="json")
    label = asserted.pop()
    if asserted or label is None:
        return Reading(rule="no label in JSON")
    return Reading(label, others=frozenset(mentioned), rule="json")


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return the texts, numbers and constants of a JSON value, each with the keys that lead to it."""
    if isinstance(value, JsonObject):
        for key, inner in value:
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


def _words_of(key: str) -> set[str]:
    return {word.casefold() for word in _WORDS_OF_KEY.findall(key)}


def _asks_for_label(key: str, labels: LabelNames, phrases: Phrases) -> bool:
    """Return whether a key asks for the label: its words name an answer, and it is no label itself."""
    if labels.index_of(normalised(key)) is not None:
        return False
    name = " ".join(re.split(r"[\s_-]+", normalised(key))).casefold()
    if name in phrases.answer_names:
        return True
    words = _words_of(key)
    answers = {word for word in words if {word, word.removesuffix("s")} & phrases.answer_names}
    return bool(answers) and words <= answers | _NEXT_TO_ANSWER
