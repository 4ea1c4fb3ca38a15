"""Parsing of responses, as the published parsers or the parser of all benchmarks do it.

A response is the continuation of the prompt, or the prompt with its continuation. The published parsers search for the
query text in the response and take its last occurrence as the query. They are reproduced exactly, with their errors.
Of data sets with one label per item, the library's parser is that of all benchmarks
(:mod:`StaICC.inference.reply_parser`). Of the others it corrects these errors:

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

An empty response or an unknown label is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from StaICC.arguments import known_name
from StaICC.errors import ArgumentError
from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import AnswerFormat, TaskCard, task_card
from StaICC.long_icl.listed_labels import list_reader
from StaICC.long_icl.prompts import Item, as_item

_AROUND = ".\"'\u201c\u201d\u2018\u2019`*"
_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")


@functools.lru_cache(maxsize=32)
def labels_by_name(labels: tuple[str, ...], answers: AnswerFormat, fold: bool) -> dict[str, str]:
    """Return the labels by their normal form, in which answers are compared."""
    names = {label: answers.normal(label) for label in labels}
    return {name.casefold() if fold else name: label for label, name in names.items()}


def as_label(own: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Example:
        >>> as_label(task_card("banking77"), '"Reverted_card_payment?".')
        'reverted_card_payment?'
        >>> as_label(task_card("banking77"), "no idea.")
        'no idea'
    """
    labels = labels_by_name(own.labels, own.answers, True)
    for candidate in (text.strip(), text.strip().strip(_AROUND).strip()):
        label = labels.get(own.answers.normal(candidate).casefold())
        if label is not None:
            return label
    return candidate


def _corrected_relations(own: TaskCard, response: str, item: Item) -> str:
    """Return the relations of a reply between commas."""
    answer = response.strip().split(own.answers.cue.format(count=len(item.gold)), 1)[-1].strip()
    line = _before(_before(_first_line(answer.removeprefix("[/INST]")), "Dialogue:"), "[/INST]")
    return ", ".join(as_label(own, part) for part in line.split(","))


def _corrected_entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    """Return the entities of a reply with their types."""
    entities: dict[str, str] = {}
    for line in map(str.strip, response.strip().split("\n")):
        if line.startswith("Sentence: "):
            break
        pieces = line.split(": ")
        if len(pieces) > 1:
            cuts = range(len(pieces) - 1, 0, -1)
            cut = next((cut for cut in cuts if as_label(own, pieces[cut]) in own.labels), cuts[0])
            entity = ": ".join(pieces[:cut]).strip()
            if entity not in item.texts[0]:
                entity = _LIST_MARK.sub("", entity, count=1)
            entities[entity] = as_label(own, pieces[cut])
        elif entities:
            break
    return entities


PARSINGS = ("published", "library")
"""``published``: as the published parser; ``library``: one label with the parser of all benchmarks
(:mod:`StaICC.inference.reply_parser`); lists of labels with the errors of the published parser corrected, after
reasoning, out of code blocks, and as JSON or one to a line too."""


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


def _as_published_list(own: TaskCard, text: str) -> str:
    """Return labels between commas if a reply lists them as JSON, or one to a line; else the text."""
    with contextlib.suppress(ValueError, RecursionError):
        listed = json.loads(text)
        if isinstance(listed, list) and all(isinstance(part, str) for part in listed):
            text = ", ".join(listed)
    lines = [_LIST_MARK.sub("", line.strip()).replace("**", "") for line in text.splitlines() if line.strip()]
    return ", ".join(lines) if len(lines) > 1 and all(as_label(own, line) in own.labels for line in lines) else text


def _exact_match(own: TaskCard, response: str, item: Item) -> str:
    """Return the first line without the cue: HELMET writes the cue before the response and reads the line after it."""
    line, cue = response.split("\n", 1)[0].strip(), own.answers.cue
    return own.answers.normal(line[len(cue) :] if line[: len(cue)].lower() == cue else line)


Parsed = str | dict[str, str]
"""A parsed answer: one line of text; for Few-NERD entities and types."""
_PUBLISHED: Mapping[str, Callable[[TaskCard, str, Item], Parsed]] = {"entities": _entities, "dialogue": _relations}


def parse_response(own: TaskCard, response: str, item: Item, parsing: str, prompt: str | None) -> Parsed:
    """Return the answer in a response; arguments as :func:`parse_answer`."""
    if not isinstance(response, str):
        raise ArgumentError(f"response must be text, not {response!r}")
    if known_name("parsing", parsing, PARSINGS) == "published":
        read = _exact_match if own.answers.exact_match else _PUBLISHED.get(item.kind, _one_label)
        return read(own, response, item)
    if prompt:
        response = response.removeprefix(prompt.rstrip())  # a model may drop its final blank
    if item.kind == "labels":
        return own.answers.separator.join(list_reader(own.labels, own.answers).labels_of(response))
    if not own.structured:
        marker = own.answers.marker
        index = parse_reply(response, own.labels, own.answers.cue, () if marker is None else (marker,)).label
        return "" if index is None else own.labels[index]
    response = reply_text(response)
    if item.kind == "dialogue":
        return _corrected_relations(own, _as_published_list(own, response), item)
    return _corrected_entities(own, response.replace("**", ""), item)


def parse_answer(
    dataset: str,
    response: str,
    item: Item | Mapping[str, Any],
    *,
    parsing: str = "published",
    prompt: str | None = None,
) -> str | list[list[str]]:
    r"""Return the answer in a response, in normal form.

    Args:
        dataset: Such as ``"banking77"``.
        response: The generated text, with or without the prompt.
        item: The test item: a record, or a mapping with the fields of the query: ``text``; ``sentence1`` and
            ``sentence2``; ``sentence``, ``subject_entity``, ``object_entity``; ``sentence``; ``dialogue`` and
            ``relations``. Other keys are ignored.
        parsing: A value of :data:`PARSINGS`.
        prompt: The prompt; the library's parser removes it from the beginning of the response.

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
    own = task_card(dataset)
    answer = parse_response(own, response, as_item(own, item), parsing, prompt)
    return answer if isinstance(answer, str) else [list(pair) for pair in answer.items()]
