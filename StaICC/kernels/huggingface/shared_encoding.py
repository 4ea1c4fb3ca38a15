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


def encode(tokenizer: Any, texts: Sequence[str], special: bool = True) -> list[Tokens]:
    """Tokenize texts; what they all begin with is tokenized once.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        texts: The texts.
        special: Whether the tokenizer adds its special tokens, such as one that begins a text.

    Returns:
        Token ids of each text, equal to those of the complete text.
    """
    if not texts:
        return []
    cut = _cut_of_texts(tokenizer, texts)
    if cut > 0:
        rows = _encoded_in_two_parts(tokenizer, texts, cut, special)
        if rows is not None:
            return rows
    return _encoded_whole(tokenizer, texts, special)


def _encoded_whole(tokenizer: Any, texts: Sequence[str], special: bool) -> list[Tokens]:
    """Return the tokens of texts, all tokenized from their beginning to their end."""
    return [tuple(row) for row in tokenizer(list(texts), add_special_tokens=special)["input_ids"]]


def _encoded_in_two_parts(tokenizer: Any, texts: Sequence[str], cut: int, special: bool) -> list[Tokens] | None:
    """Return the tokens of texts with the same beginning, which is tokenized once.

    At the cut, the tokenizer splits every text (:func:`_splits_at`), so the tokens of the beginning and those of the
    rest are the tokens of the text. As a check, two texts are also tokenized whole: the first and the last one in
    alphabetical order, which share least.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        cut: The number of characters of their common beginning.
        special: Whether the tokenizer adds its special tokens, such as one that begins a text.

    Returns:
        The tokens of each text; ``None`` if those of a checked text are not its tokens as a whole.
    """
    checked_texts = [min(texts), max(texts)]
    beginning = texts[0][:cut]
    *tokens_of_checked_texts, tokens_of_beginning = _encoded_whole(tokenizer, [*checked_texts, beginning], special)

    rests = [text[cut:] for text in texts]
    rows = []
    for tokens_of_rest in _encoded_whole(tokenizer, rests, special=False):
        rows.append(tokens_of_beginning + tokens_of_rest)
    for text, tokens_as_whole in zip(checked_texts, tokens_of_checked_texts, strict=True):
        if rows[texts.index(text)] != tokens_as_whole:
            return None
    return rows


def _cut_of_texts(tokenizer: Any, texts: Sequence[str]) -> int:
    """Return the number of characters of the shared beginning that may be tokenized alone; 0 if it is not worth it."""
    if len(texts) <= WHOLE:
        return 0
    # What the first and the last text in alphabetical order share, all texts share.
    shared = commonprefix([min(texts), max(texts)])  # noqa: RUF071 - characters are meant
    saved_characters = (len(texts) - WHOLE) * len(shared)
    if saved_characters < LEAST_SAVING:
        return 0
    return _last_cut(tokenizer, shared)


def _last_cut(tokenizer: Any, shared: str) -> int:
    """Return how many characters of a shared beginning come before the last place where it may be cut; 0 for no place.

    That place is between a line feed and a character that is no white space, if the tokenizer splits there, too.
    """
    search_end = len(shared) - MARGIN
    while search_end > 0:
        line_feed = shared.rfind("\n", 0, search_end)
        if line_feed < 0:
            return 0
        cut = line_feed + 1
        if not shared[cut].isspace():
            return cut if _splits_at(tokenizer, shared, cut) else 0
        search_end = line_feed
    return 0


def _splits_at(tokenizer: Any, text: str, position: int) -> bool:
    """Return whether a piece of the tokenizer's pre-tokenizer begins at a position, so that no token spans it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    pre_tokenizer = getattr(backend, "pre_tokenizer", None)
    if pre_tokenizer is None:
        return False
    start = max(0, position - WINDOW)
    pieces = pre_tokenizer.pre_tokenize_str(text[start : position + WINDOW])
    return any(start + piece_start == position for _, (piece_start, _) in pieces)
