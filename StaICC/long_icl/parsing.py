"""Parsing of responses, as the published parsers or the parser of all benchmarks do it.

A response is the continuation of the prompt, or the prompt with its continuation. An empty response or an unknown label
is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from StaICC.arguments import known_name
from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard, task_card
from StaICC.long_icl.library_parser import read_by_library
from StaICC.long_icl.prompts import Item, as_item
from StaICC.long_icl.published_parser import Parsed, read_as_published

PARSINGS = ("published", "library")
"""``published``: as the published parser; ``library``: one label with the parser of all benchmarks
(:mod:`StaICC.inference.reply_parser`); lists of labels with the errors of the published parser corrected, after
reasoning, out of code blocks, and as JSON or one to a line too."""


def parse_response(card: TaskCard, response: str, item: Item, parsing: str, prompt: str | None) -> Parsed:
    """Return the answer in a response; for Few-NERD, the type of each entity.

    Args:
        card: Card of the data set.
        response: The generated text, with or without the prompt.
        item: The test item.
        parsing: A value of :data:`PARSINGS`.
        prompt: The prompt; the library's parser removes it from the beginning of the response.

    Raises:
        ArgumentError: The response is not text.
        UnknownNameError: The parsing is unknown.
    """
    if not isinstance(response, str):
        raise ArgumentError(f"response must be text, not {response!r}")
    if known_name("parsing", parsing, PARSINGS) == "published":
        return read_as_published(card, response, item)
    return read_by_library(card, response, item, prompt)


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
    card = task_card(dataset)
    answer = parse_response(card, response, as_item(card, item), parsing, prompt)
    if isinstance(answer, str):
        return answer
    return [[entity, entity_type] for entity, entity_type in answer.items()]
