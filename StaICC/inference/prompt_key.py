"""The key of a prediction: a prompt with its label space.

Two queries with equal keys are predicted once. The prediction store, the runner, the recheck of stored predictions,
forecasts and features of methods all use this key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from StaICC.errors import ArgumentError
from StaICC.prompting.prompt_text import PromptText
from StaICC.prompting.prompt_writer import Prompt, Query

PromptKey = tuple[Prompt, tuple[str, ...]]
"""A prompt (for the noisy channel, one text for each label) and the label names that its prediction is about."""


def structured_key(key: PromptKey) -> PromptKey:
    """Return the key of a prediction that depends on the parts of a prompt: it contains where each part ends."""
    prompt, label_space = key
    if isinstance(prompt, str):
        return _structured(prompt), label_space
    return tuple(_structured(text) for text in prompt), label_space


def _structured(text: str) -> str:
    if not isinstance(text, PromptText):
        return json.dumps([text])
    parts = text.parts
    shown = [[own.before, own.label, own.after] for own in parts.demonstrations]
    return json.dumps([parts.instruction, shown, parts.question])


def refuse_other_parts(queries: Iterable[Query]) -> None:
    """Refuse queries whose texts are equal and whose parts are not: they would get one prediction.

    Raises:
        ArgumentError: There are two such queries.
    """
    known: dict[PromptKey, PromptKey] = {}
    for number, query in enumerate(queries):
        key = query.prompt, query.label_space
        structured = structured_key(key)
        if known.setdefault(key, structured) != structured:
            raise ArgumentError(
                f"query {number} has the same text as an earlier one, divided into other parts. A kernel that reads "
                "the parts would need two predictions; change the template so that the texts differ"
            )


def characters(prompt: Prompt) -> int:
    """Return the length of a prompt, in the noisy channel of the texts of all labels."""
    return len(prompt) if isinstance(prompt, str) else sum(map(len, prompt))
