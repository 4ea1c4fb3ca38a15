"""Labels in JSON: the value of a key that asks for the label. A key is never a label.

Keys that ask for the label are those whose words all name an answer (``label``, ``predicted_class``, ``Stimmung``).
Every other key is unknown: ``{"not_hate": "yes"}`` and ``{"rejected": "sports"}`` name no label.

The values next to a label count, too. Three kinds are known: a certainty of at least one half, an explanation that
takes nothing back, and texts that are copied from the prompt. Any other truth value, number, null or word of denial
(``{"label": "hate", "present": false}``) makes the reply unclear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from StaICC.inference.reply_grammar.assertions import Reading, StatementReader
from StaICC.inference.reply_grammar.labels import LabelNames, normalised
from StaICC.inference.reply_grammar.statements import statements_of

_PLACES_TRIED = 8
_BEGINNING = re.compile(r"(?:^|:)[ \t]*([{\[])", re.M)
_WORDS_OF_KEY = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_NEXT_TO_ANSWER = frozenset({"the", "final", "predicted", "my", "best", "correct", "text", "name", "value"})
_DENIES = frozenset(
    {"not", "no", "wrong", "non", "incorrect", "rejected", "excluded", "false", "never", "unlikely", "retracted"}
)
_CERTAINTIES = frozenset({"confidence", "score", "probability", "certainty", "prob"})
_TEXTS = frozenset({"reason", "reasoning", "explanation", "rationale", "justification", "text", "sentence", "input"})


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


def read_json(value: Any, reader: StatementReader) -> Reading:
    """Return what a JSON value says of the labels.

    It asserts a label if each of its keys that ask for the label has this label, and no other value makes it unclear.
    A label under an unknown key is mentioned.
    """
    asserted: set[int] = set()
    mentioned: set[int] = set()
    try:
        leaves = list(_leaves(value, ()))
    except RecursionError:  # deeply nested lists
        return Reading(rule="no label in JSON")
    for keys, leaf in leaves:
        label = _label_of(leaf, reader.labels)
        asks_for_label = all(_asks_for_label(key, reader) for key in keys)
        if label is not None and asks_for_label:
            asserted.add(label)
        elif label is not None and not _is_certainty(keys, leaf):
            mentioned.add(label)
        elif _makes_unclear(keys, leaf, asks_for_label, reader):
            return Reading(rule="no label in JSON")
        if any(_words_of(key) & _DENIES for key in keys):
            return Reading(rule="no label in JSON")
    if not asserted:
        return Reading(others=frozenset(mentioned), rule="json")
    label = asserted.pop()
    if asserted:
        return Reading(rule="no label in JSON")
    explained = _labels_of_explanations(leaves, reader)
    return Reading(label, others=frozenset(mentioned | explained), rule="json")


def _label_of(leaf: Any, labels: LabelNames) -> int | None:
    """Return the label that a text or an integer is."""
    is_integer = isinstance(leaf, int) and not isinstance(leaf, bool)
    return labels.index_of(normalised(str(leaf))) if is_integer or isinstance(leaf, str) else None


def _makes_unclear(keys: tuple[str, ...], leaf: Any, asks_for_label: bool, reader: StatementReader) -> bool:
    """Return whether a value that is no label makes unclear what the labels next to it mean."""
    if _is_certainty(keys, leaf):
        return False
    if not isinstance(leaf, str) or _names_certainty(keys):
        return True
    if _is_text(keys):
        return any(reader.read(statement.text).takes_back for statement in statements_of(normalised(leaf), reader))
    return asks_for_label or reader.is_doubt(normalised(leaf))


def _is_certainty(keys: tuple[str, ...], leaf: Any) -> bool:
    """Return whether a value is a probability of at least one half, as a share, in per cent, or the word "high"."""
    if not _names_certainty(keys) or isinstance(leaf, bool):
        return False
    text = str(leaf).strip().casefold()
    if text in ("high", "very high"):
        return True
    try:
        certainty = float(text.removesuffix("%"))
    except ValueError:
        return False
    if text.endswith("%") or certainty > 1:
        certainty /= 100
    return 0.5 <= certainty <= 1


def _names_certainty(keys: tuple[str, ...]) -> bool:
    return bool(keys) and bool(_words_of(keys[-1]) & _CERTAINTIES)


def _is_text(keys: tuple[str, ...]) -> bool:
    return bool(keys) and bool(_words_of(keys[-1]) & _TEXTS)


def _labels_of_explanations(leaves: list[tuple[tuple[str, ...], Any]], reader: StatementReader) -> set[int]:
    """Return the labels that the explanations assert."""
    labels: set[int] = set()
    for keys, leaf in leaves:
        if _is_text(keys) and isinstance(leaf, str):
            readings = [reader.read(statement.text) for statement in statements_of(normalised(leaf), reader)]
            labels.update(reading.asserted for reading in readings if reading.asserted is not None)
    return labels


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


def _asks_for_label(key: str, reader: StatementReader) -> bool:
    """Return whether a key asks for the label: its words name an answer, and it is no label itself."""
    if reader.labels.index_of(normalised(key)) is not None:
        return False
    if reader.is_name_of_answer(" ".join(re.split(r"[\s_-]+", normalised(key)))):
        return True
    words = _words_of(key)
    answers = {word for word in words if reader.is_name_of_answer(word) or _is_plural_of_answer(word, reader)}
    return bool(answers) and words <= answers | _NEXT_TO_ANSWER


def _is_plural_of_answer(word: str, reader: StatementReader) -> bool:
    return word.endswith("s") and reader.is_name_of_answer(word.removesuffix("s"))
