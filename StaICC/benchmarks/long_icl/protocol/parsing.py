"""Parses responses to answers, as the published parsers do.

A response is the continuation of the prompt, or the prompt with its continuation. The published parsers search for the
query text in the response and take its last occurrence as the query. They are reproduced exactly, with their errors,
which :mod:`~StaICC.benchmarks.long_icl.protocol.strict` corrects.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

from StaICC.benchmarks.long_icl.data.cards import TaskCard, card
from StaICC.benchmarks.long_icl.data.items import DialogueItem, EntityItem, Item, as_item
from StaICC.benchmarks.long_icl.protocol import strict
from StaICC.errors import ArgumentError, unknown_name
from StaICC.inference.reply_parser import parse_reply, reply_text

VARIANTS = ("published", "strict")
"""``published``: as the published code; ``strict``: with its errors corrected."""

PARSINGS = (*VARIANTS, "tolerant")
"""``tolerant``: with the parser of all benchmarks (:mod:`StaICC.inference.reply_parser`); lists of labels as in
``strict``, after reasoning, out of code blocks, and as JSON or one to a line too."""


def _after_last(response: str, needle: str) -> str | None:
    """Return the text after the last occurrence; None if there is none."""
    place = response.rfind(needle) if needle else -1
    return None if place < 0 else response[place + len(needle) :]


def _before(text: str, marker: str | None) -> str:
    return text if marker is None else text.split(marker, 1)[0]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()


def _one_label(own: TaskCard, response: str, item: Item) -> str:
    rest = _after_last(response, item.needle)
    if rest is None:
        answer = _before(response, own.answers.marker)
    else:
        parts = rest.strip().split(own.answers.cue) if own.answers.cue else [rest.strip()]
        answer = _before(parts[1], own.answers.marker) if len(parts) > 1 else parts[0]
    return own.answers.normal(_first_line(answer))


def _entities(response: str, item: Item) -> dict[str, str]:
    rest = _after_last(response, item.needle)
    found: dict[str, str] = {}
    for line in (response if rest is None else rest).strip().split("\n"):
        if ": " not in line or line.startswith(("Sentence", "sentence")):
            break
        entity, kind = line.split(": ")[:2]
        found[entity] = kind
    return found


def _relations(own: TaskCard, response: str, item: DialogueItem) -> str:
    cue = own.answers.cue.format(count=len(item.relations))
    for needle in (item.needle, cue):
        rest = _after_last(response, needle)
        response = (response if rest is None else rest).strip()
    for marker in ("dialogue", "Dialogue"):
        response = _before(response, marker).strip()
    return _before(_first_line(response), "[/INST]").strip()


def _checked(response: str, variant: str) -> None:
    if not isinstance(response, str):
        raise ArgumentError(f"response must be text, not {response!r}")
    if variant not in PARSINGS:
        raise unknown_name("parsing", variant, PARSINGS)


_ITEM = re.compile(r"^(?:[-*\u2022]|\d{1,3}[.)])\s+")


def _tolerant(own: TaskCard, response: str, item: Item, prompt: str | None) -> str:
    response = response.removeprefix(prompt.rstrip()) if prompt else response
    if not isinstance(item, DialogueItem):
        found = parse_reply(response, own.labels).label
        return "" if found is None else own.labels[found]
    text = reply_text(response)
    with contextlib.suppress(ValueError):
        listed = json.loads(text)
        if isinstance(listed, list) and all(isinstance(part, str) for part in listed):
            text = ", ".join(listed)
    lines = [_ITEM.sub("", line.strip()).replace("**", "") for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(strict.as_label(own, line) in own.labels for line in lines):
        text = ", ".join(lines)
    return strict.parse_text(own, text, item, None)


def parse_text(
    own: TaskCard, response: str, item: Item, *, variant: str = "published", prompt: str | None = None
) -> str:
    """Return the answer as one line of text (all data sets except Few-NERD); arguments as :func:`parse_answer`."""
    _checked(response, variant)
    if variant == "tolerant":
        return _tolerant(own, response, item, prompt)
    if variant == "strict":
        return strict.parse_text(own, response, item, prompt)
    return _relations(own, response, item) if isinstance(item, DialogueItem) else _one_label(own, response, item)


def parse_entities(
    own: TaskCard, response: str, item: EntityItem, *, variant: str = "published", prompt: str | None = None
) -> dict[str, str]:
    """Return entities and types, in order (Few-NERD); arguments as :func:`parse_answer`."""
    _checked(response, variant)
    if variant == "tolerant":
        response = reply_text(response).replace("**", "")
    return _entities(response, item) if variant == "published" else strict.parse_entities(own, response, item, prompt)


def parse_answer(
    dataset: str,
    response: str,
    item: Item | Mapping[str, Any],
    *,
    variant: str = "published",
    prompt: str | None = None,
) -> str | list[list[str]]:
    r"""Return the answer in a response, in normal form.

    Args:
        dataset: Such as ``"banking77"``.
        response: The generated text, with or without the prompt.
        item: The test item: a record, or a mapping with its fields (see
            :func:`~StaICC.benchmarks.long_icl.data.items.as_item`).
        variant: ``published``, ``strict`` or ``tolerant``.
        prompt: The prompt; the other variants remove it from the beginning of the response.

    Returns:
        The label as text (in lower case for BANKING77, GoEmotions and Discovery); for DialogRE the list of relations
        as one text; for Few-NERD ``[entity, type]`` lists, in order.

    Raises:
        UnknownNameError: The data set or parsing is unknown.
        ArgumentError: The response is not text, or the item lacks a field.

    Example:
        >>> parse_answer("banking77", "Card_Arrival\nservice query: another", {"text": "Where is it?"})
        'card_arrival'
        >>> parse_answer("few_nerd", "Calder Bay: location-GPE", {"sentence": "Off to Calder Bay."})
        [['Calder Bay', 'location-GPE']]
    """
    own, query = card(dataset), as_item(dataset, item)
    if isinstance(query, EntityItem):
        found = parse_entities(own, response, query, variant=variant, prompt=prompt)
        return [list(pair) for pair in found.items()]
    return parse_text(own, response, query, variant=variant, prompt=prompt)
