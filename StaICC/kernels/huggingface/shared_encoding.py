"""Tokenize a beginning that many texts share once.

In a benchmark with long contexts, hundreds of prompts begin with the same tens of thousands of tokens. A kernel that
computes a shared prefix once still pays for tokenizing it with every prompt; scoring whole labels even pays for each
label. This is where that time goes.

Tokenizers are not made to be cut: a text's tokens need not be those of its parts. So a cut is made only

* after a line feed before a character that is no white space, where the tokenizer's own pre-tokenizer splits too (no
  token spans such a place), well inside of what all texts share, so that the surroundings of the cut are the same in
  all of them;
* if two of the texts, the first and the last in order, give the same tokens whole and in two parts.

Otherwise (no pre-tokenizer, a tokenizer that puts a space before every text or a token behind it, nothing long in
common) every text is tokenized whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

LEAST_SAVING = 100_000
"""Characters that must be saved before texts are looked at for a common beginning."""
WHOLE = 3
"""Texts that are tokenized whole in any case: two to compare with, and the shared beginning."""
MARGIN = 32
"""Characters that must follow a cut within what all texts share."""
WINDOW = 400
"""Characters on each side of a cut that are shown to the pre-tokenizer."""


def _whole(tokenizer: Any, texts: Sequence[str], special: bool) -> list[tuple[int, ...]]:
    ids = tokenizer(list(texts), add_special_tokens=special)["input_ids"]
    return [tuple(row) for row in ids]


def _splits_at(tokenizer: Any, text: str, place: int) -> bool:
    """Whether the tokenizer's pre-tokenizer ends a piece at this place."""
    splitter = getattr(getattr(tokenizer, "backend_tokenizer", None), "pre_tokenizer", None)
    if splitter is None:
        return False
    start = max(0, place - WINDOW)
    pieces = splitter.pre_tokenize_str(text[start : place + WINDOW])
    return any(start + begin == place for _, (begin, _) in pieces)


def _cut(tokenizer: Any, shared: str) -> int:
    """The last place of a shared beginning at which it may be cut; 0 if there is none."""
    place = len(shared) - MARGIN
    while (place := shared.rfind("\n", 0, max(place, 0)) + 1) > 0:
        if not shared[place].isspace():
            return place if _splits_at(tokenizer, shared, place) else 0
        place -= 1
    return 0


def encode_shared(tokenizer: Any, texts: Sequence[str], special: bool = True) -> list[tuple[int, ...]]:
    """Tokenize texts, what they all begin with once.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        texts: The texts.
        special: Whether the tokenizer adds its special tokens.

    Returns:
        Token ids of each text, equal to those of the complete text.
    """
    if len(texts) <= WHOLE or (len(texts) - WHOLE) * max(map(len, texts)) < LEAST_SAVING:
        return _whole(tokenizer, texts, special) if texts else []
    ends = [min(texts), max(texts)]  # what these two share, all share
    shared = commonprefix(ends)  # noqa: RUF071 - characters are meant
    place = _cut(tokenizer, shared) if (len(texts) - WHOLE) * len(shared) >= LEAST_SAVING else 0
    if not place:
        return _whole(tokenizer, texts, special)
    *expected, head = _whole(tokenizer, [*ends, shared[:place]], special)
    found = [head + tail for tail in _whole(tokenizer, [text[place:] for text in texts], False)]
    if [found[texts.index(end)] for end in ends] != expected:
        return _whole(tokenizer, texts, special)
    return found
