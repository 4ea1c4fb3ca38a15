"""Parsing of responses, as the published parsers or the parser of all benchmarks do it.

A response is the continuation of the prompt, or the prompt with its continuation. An empty response or an unknown label
is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from StaICC.arguments import known_name
from StaICC.errors import ArgumentError
from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import TaskCard, task_card
from StaICC.long_icl.library_parser import _as_published_list, _corrected_entities, _corrected_relations
from StaICC.long_icl.listed_labels import list_reader
from StaICC.long_icl.prompts import Item, as_item
from StaICC.long_icl.published_parser import _PUBLISHED, Parsed, _exact_match, _one_label

PARSINGS = ("published", "library")
"""``published``: as the published parser; ``library``: one label with the parser of all benchmarks
(:mod:`StaICC.inference.reply_parser`); lists of labels with the errors of the published parser corrected, after
reasoning, out of code blocks, and as JSON or one to a line too."""


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
