"""Tokenization of many texts at once, of which the shared beginning is tokenized once.

Prompts with long contexts begin with the same thousands of tokens; scoring whole labels repeats
them for each label. They are tokenized once. Tokenizers are not made to be cut, so a cut is made only

* after a line feed before a character that is no white space, where the tokenizer's own pre-tokenizer splits too (no
  token spans such a place), well inside of what all texts share;
* if two of the texts, the first and the last in order, give the same tokens whole and in two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

from StaICC.kernels.huggingface.label_rules import Tokens

LEAST_SAVING = 100_000
"""Characters that must be saved before texts are looked at for a common beginning."""
WHOLE = 3
"""Texts that are tokenized whole in any case: two to compare with, and the shared beginning."""
MARGIN = 32
"""Characters that must follow a cut within what all texts share."""
WINDOW = 400
"""Characters on each side of a cut that are shown to the pre-tokenizer."""


def _whole(tokenizer: Any, texts: Sequence[str], special: bool) -> list[Tokens]:
    return [tuple(row) for row in tokenizer(list(texts), add_special_tokens=special)["input_ids"]]


def _splits_at(tokenizer: Any, text: str, place: int) -> bool:
    """Whether the tokenizer's pre-tokenizer ends a piece at this place."""
    splitter = getattr(getattr(tokenizer, "backend_tokenizer", None), "pre_tokenizer", None)
    start = max(0, place - WINDOW)
    pieces = splitter.pre_tokenize_str(text[start : place + WINDOW]) if splitter is not None else ()
    return any(start + begin == place for _, (begin, _) in pieces)


def _cut(tokenizer: Any, shared: str) -> int:
    """The last place of a shared beginning at which it may be cut; 0 if there is none."""
    place = len(shared) - MARGIN
    while (place := shared.rfind("\n", 0, max(place, 0)) + 1) > 0:
        if not shared[place].isspace():
            return place if _splits_at(tokenizer, shared, place) else 0
        place -= 1
    return 0


def encode(tokenizer: Any, texts: Sequence[str], special: bool = True) -> list[Tokens]:
    """Tokenize texts, what they all begin with once.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        texts: The texts.
        special: Whether the tokenizer adds its special tokens.

    Returns:
        Token ids of each text, equal to those of the complete text.
    """
    if len(texts) <= WHOLE:
        return _whole(tokenizer, texts, special) if texts else []
    ends = [min(texts), max(texts)]  # what these two share, all share
    shared = commonprefix(ends)  # noqa: RUF071 - characters are meant
    place = _cut(tokenizer, shared) if (len(texts) - WHOLE) * len(shared) >= LEAST_SAVING else 0
    if place:
        *expected, head = _whole(tokenizer, [*ends, shared[:place]], special)
        rows = [head + tail for tail in _whole(tokenizer, [text[place:] for text in texts], False)]
        if [rows[texts.index(end)] for end in ends] == expected:
            return rows
    return _whole(tokenizer, texts, special)
