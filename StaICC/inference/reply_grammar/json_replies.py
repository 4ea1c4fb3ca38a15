"""Labels in JSON: the value of a key that asks for the label. A key is never a label.

Keys that ask for the label are those whose words all name an answer (``label``, ``predicted_class``, ``Stimmung``).
Every other key is unknown: ``{"not_hate": "yes"}`` and ``{"rejected": "sports"}`` name no label.

The values next to a label count, too. Three kinds are known: a certainty of at least one half, an explanation that
takes nothing back, and texts that are copied from the prompt. Any other truth value, number, null or word of denial
(``{"label": "hate", "present": false}``) makes the reply unclear.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from StaICC.inference.reply_grammar.assertions import Reading, StatementReader
from StaICC.inference.reply_grammar.labels import LabelNames, normalised
from StaICC.inference.reply_grammar.statements import statements_of

_MOST_BEGINNINGS = 8
"""Brackets at the beginning of a line, or after a colon, at which JSON may begin; later ones are not tried."""
_BEGINNING = re.compile(r"(?:^|:)[ \t]*([{\[])", re.M)

_WORDS_OF_KEY = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
"""The words of a key, which are joined as in ``predicted_class`` or ``predictedClass``."""
_NEXT_TO_ANSWER = frozenset({"the", "final", "predicted", "my", "best", "correct", "text", "name", "value"})
"""Words that a key may have with one that names an answer."""
_DENIES = frozenset(
    {"not", "no", "wrong", "non", "incorrect", "rejected", "excluded", "false", "never", "unlikely", "retracted"}
)
"""Words of a key whose value is no answer."""
_CERTAINTIES = frozenset({"confidence", "score", "probability", "certainty", "prob"})
"""Words of a key whose value is how certain the label is."""
_TEXTS = frozenset({"reason", "reasoning", "explanation", "rationale", "justification", "text", "sentence", "input"})
"""Words of a key whose value is an explanation or a text of the prompt."""

_UNCLEAR = Reading(rule="no label in JSON")


class JsonObject(list[tuple[str, Any]]):
    """The pairs of a JSON object; a key may occur twice."""


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A JSON object or list in a reply."""

    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A text, a number or a constant of a JSON value."""

    keys: tuple[str, ...]
    """The keys that lead to it, the outermost first; empty if it is in no object."""
    value: Any


def json_part(text: str) -> JsonPart | None:
    """Return the first JSON object or list that begins a line of the text; ``None`` if there is none."""
    if '"' not in text:
        # Python writes a dictionary with single quotes.
        text = text.replace("'", '"')
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=JsonObject)
    for beginning in itertools.islice(_BEGINNING.finditer(text), _MOST_BEGINNINGS):
        start = beginning.start(1)
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        # "[ ]" is an empty box of a list, no value.
        if value:
            return JsonPart(start, end, value)
    return None


def read_json(value: Any, reader: StatementReader) -> Reading:
    """Return what a JSON value says of the labels.

    It asserts a label if each of its keys that ask for the label has this label, and no other value makes it unclear.
    A label under an unknown key is mentioned.

    Args:
        value: The value, whose objects are :class:`JsonObject`.
        reader: Knows the labels and the names of answers, and reads explanations.
    """
    try:
        leaves = list(_leaves(value, ()))
    except RecursionError:  # deeply nested lists
        return _UNCLEAR

    asserted: set[int] = set()
    mentioned: set[int] = set()
    for leaf in leaves:
        label = _label_of(leaf.value, reader.labels)
        asks_for_label = all(_asks_for_label(key, reader) for key in leaf.keys)
        if label is None:
            if _makes_unclear(leaf, asks_for_label, reader):
                return _UNCLEAR
        elif asks_for_label:
            asserted.add(label)
        elif not _is_high_certainty(leaf):
            mentioned.add(label)
        if any(_words_of(key) & _DENIES for key in leaf.keys):
            return _UNCLEAR

    if not asserted:
        return Reading(others=frozenset(mentioned), rule="json")
    if len(asserted) > 1:
        return _UNCLEAR
    explained = _labels_of_explanations(leaves, reader)
    return Reading(asserted.pop(), others=frozenset(mentioned | explained), rule="json")


# -- values


def _leaves(value: Any, keys: tuple[str, ...]) -> Iterator[_Leaf]:
    """Yield the texts, numbers and constants of a JSON value.

    Args:
        value: A value of JSON.
        keys: The keys that lead to it.
    """
    if isinstance(value, JsonObject):
        for key, inner in value:
            yield from _leaves(inner, (*keys, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, keys)
    else:
        yield _Leaf(keys, value)


def _label_of(value: Any, labels: LabelNames) -> int | None:
    """Return the label that a text or an integer is; ``None`` for all other values."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer and not isinstance(value, str):
        return None
    return labels.index_of(normalised(str(value)))


def _makes_unclear(leaf: _Leaf, asks_for_label: bool, reader: StatementReader) -> bool:
    """Return whether a value of JSON that is no label makes unclear what the labels next to it mean.

    Values that leave it clear: ``"confidence": 0.9``, and an explanation that takes nothing back. Values that do not:
    ``"confidence": 0.1``, and any other number, truth value or null, as in ``{"label": "hate", "present": false}``.

    Args:
        leaf: The value with its keys.
        asks_for_label: Whether its keys ask for the label, such as ``"label": "unknown"``.
        reader: Reads statements about the labels.
    """
    if _is_high_certainty(leaf):
        return False
    is_low_certainty = _has_key_with(leaf, _CERTAINTIES)
    if is_low_certainty or not isinstance(leaf.value, str):
        return True
    text = normalised(leaf.value)
    is_explanation = _has_key_with(leaf, _TEXTS)
    if not is_explanation:
        return asks_for_label or reader.is_doubt(text)
    return any(reader.read(statement.text).takes_back for statement in statements_of(text, reader))


def _is_high_certainty(leaf: _Leaf) -> bool:
    """Return whether a value is a probability of at least one half, as a share, in per cent, or the word "high"."""
    if not _has_key_with(leaf, _CERTAINTIES) or isinstance(leaf.value, bool):
        return False
    text = str(leaf.value).strip().casefold()
    if text in ("high", "very high"):
        return True
    try:
        certainty = float(text.removesuffix("%"))
    except ValueError:
        return False
    if text.endswith("%") or certainty > 1:
        certainty /= 100
    return 0.5 <= certainty <= 1


def _labels_of_explanations(leaves: list[_Leaf], reader: StatementReader) -> set[int]:
    """Return the labels that the explanations and texts among the values assert."""
    labels: set[int] = set()
    for leaf in leaves:
        if not isinstance(leaf.value, str) or not _has_key_with(leaf, _TEXTS):
            continue
        for statement in statements_of(normalised(leaf.value), reader):
            reading = reader.read(statement.text)
            if reading.asserted is not None:
                labels.add(reading.asserted)
    return labels


# -- keys


def _has_key_with(leaf: _Leaf, words: frozenset[str]) -> bool:
    """Return whether the innermost key of a value has one of the words."""
    if not leaf.keys:
        return False
    return not words.isdisjoint(_words_of(leaf.keys[-1]))


def _words_of(key: str) -> set[str]:
    """Return the words of a key without case: "predicted" and "class" of ``predictedClass``."""
    return {word.casefold() for word in _WORDS_OF_KEY.findall(key)}


def _asks_for_label(key: str, reader: StatementReader) -> bool:
    """Return whether a key asks for the label: its words name an answer, and it is no label itself.

    Such a key is a name of an answer ("label"), or has one with words such as "final" and "predicted" only.
    """
    key_text = normalised(key)
    is_label = reader.labels.index_of(key_text) is not None
    if is_label:
        return False
    key_with_blanks = " ".join(re.split(r"[\s_-]+", key_text))
    if reader.is_name_of_answer(key_with_blanks):
        return True
    words = _words_of(key)
    answer_words = {word for word in words if _names_answer(word, reader)}
    other_words = words - answer_words
    return bool(answer_words) and other_words <= _NEXT_TO_ANSWER


def _names_answer(word: str, reader: StatementReader) -> bool:
    """Return whether a word names an answer, in the singular or the plural: "label", "labels"."""
    singular = word.removesuffix("s")
    return reader.is_name_of_answer(word) or reader.is_name_of_answer(singular)
