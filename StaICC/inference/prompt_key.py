"""The key of a prediction: a prompt with its label space.

Two queries with equal keys are predicted once. The prediction store, the runner, the recheck of stored predictions,
forecasts and features of methods all use this key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from StaICC.errors import ArgumentError
from StaICC.prompting.prompt_text import Prompt, PromptText

if TYPE_CHECKING:  # results import this module, and need nothing of the writer
    from StaICC.prompting.prompt_writer import Query

PromptKey = tuple[Prompt, tuple[str, ...]]
"""A prompt (for the noisy channel, one text for each label) and the label names that its prediction is about."""


def structured_key(key: PromptKey) -> PromptKey:
    """Return the key of a prediction of a model that reads the parts of a prompt, and not only its text.

    Such a model may predict differently for two prompts with one text, if they divide it into other parts (instruction,
    demonstrations, question). So the key has the parts of each text in place of the text, written as JSON.
    """
    prompt, label_space = key
    if isinstance(prompt, str):
        return _parts_as_json(prompt), label_space
    # A prompt of the noisy channel has one text for each label.
    parts_of_texts = tuple(_parts_as_json(text) for text in prompt)
    return parts_of_texts, label_space


def _parts_as_json(text: str) -> str:
    """Return the parts of a text as JSON; a text that does not know its parts is one part."""
    if not isinstance(text, PromptText):
        return json.dumps([text])
    parts = text.parts
    demonstrations = []
    for demonstration in parts.demonstrations:
        demonstrations.append([demonstration.before, demonstration.label, demonstration.after])
    return json.dumps([parts.instruction, demonstrations, parts.question])


def refuse_other_parts(queries: Iterable[Query]) -> None:
    """Refuse queries whose texts are equal and whose parts are not: they would get one prediction.

    Args:
        queries: The queries of a model that reads the parts of prompts.

    Raises:
        ArgumentError: There are two such queries.
    """
    # The parts of the first query with each text and label space.
    parts_by_key: dict[PromptKey, PromptKey] = {}
    for query_index, query in enumerate(queries):
        key = (query.prompt, query.label_space)
        parts = structured_key(key)
        parts_of_first = parts_by_key.setdefault(key, parts)
        if parts != parts_of_first:
            raise ArgumentError(
                f"query {query_index} has the same text as an earlier one, divided into other parts. A kernel that "
                "reads the parts would need two predictions; change the template so that the texts differ"
            )


LONE_SURROGATES = "surrogatepass"
"""The error handler with which texts are encoded. A text may have lone surrogates (halves of a character in UTF-16),
which UTF-8 refuses by default."""


def prompt_digest(prompt: Prompt) -> bytes:
    """Return the SHA-256 of a prompt. In the noisy channel, it is that of the texts of all labels with separators."""
    text = prompt
    if not isinstance(text, str):
        text = "\x1e".join(text)
    return hashlib.sha256(text.encode("utf-8", LONE_SURROGATES)).digest()


def characters(prompt: Prompt) -> int:
    """Return the length of a prompt, in the noisy channel of the texts of all labels."""
    if isinstance(prompt, str):
        return len(prompt)
    return sum(len(text) for text in prompt)
