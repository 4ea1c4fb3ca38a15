"""Which label a next token begins: the spellings of a label in a server's list of the most probable next tokens.

A list may have several spellings of one label: ``food``, `` food``, ``▁food`` and ``Food``. :func:`begun_labels` is the
one rule that says which of them count for a label. All that count are added up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from StaICC.numerics import log_sum_exp

# With another mark, scores of earlier runs may change: raise _VERSION in endpoint.py, which is part of the identity.
_BLANK_MARKS = "▁Ġ"
"""What SentencePiece and byte-level BPE write for a blank."""
_LINE_MARKS = "Ċĉč"
"""What byte-level BPE writes for a line feed, a tab, a carriage return."""
_WITHOUT_TEXT = re.compile(rf"[\s{_BLANK_MARKS}{_LINE_MARKS}\u200b-\u200f\u2060\ufeff]*")


def has_visible_text(token: str) -> bool:
    r"""Return whether a token has more than blanks, line breaks, marks of them, and characters without width.

    Example:
        >>> [has_visible_text(token) for token in ("food", " food", " ", "\n", "▁", "")]
        [True, True, False, False, False, False]
    """
    return _WITHOUT_TEXT.fullmatch(token) is None


class BegunLabels(NamedTuple):
    """The labels that a token may begin."""

    indexes: list[int]
    """Their indexes in the label space, ascending."""

    certain: bool
    """Whether the token begins a label, and cannot as well be a word of its own."""

    @property
    def only_label(self) -> int | None:
        """The index of the label that the token counts for; ``None`` if it begins none, or may begin several."""
        if self.certain and len(self.indexes) == 1:
            return self.indexes[0]
        return None


def begun_labels(token: str, label_space: Sequence[str]) -> BegunLabels:
    """Return the labels that a token begins.

    A token begins a label if the label starts with the token's text, or is equal to it. Three things are ignored:

    * Blanks and tabs in front of either. A line break is not ignored, since it ends a reply.
    * The marks that tokenizers write for blanks, ``▁`` and ``Ġ``, in front of the token. Where a label itself starts
      with such a letter, the token is read both ways, and may begin two labels.
    * Upper and lower case, unless the token is exactly a label. So ``no`` is the label ``no`` and not the beginning of
      ``North``, while ``No`` may be either.

    One letter in the other case, such as ``A`` for the label ``animal``, may be a word of its own or the letter of an
    option. It is not certain, unless it is the complete label.

    Example:
        >>> [begun_labels(token, ["food", "travel"]).only_label for token in ("food", "▁food", " Food", "tra", "foods")]
        [0, 0, 0, 1, None]
        >>> begun_labels("us", ["US", "us"]).indexes, begun_labels("Us", ["US", "us"]).indexes
        ([1], [0, 1])
    """
    labels = [label.lstrip() for label in label_space]
    # The two ways to read the token, which are mostly one. (A set: the order has no influence.)
    verbatim = token.lstrip(" \t")
    without_marks = token.lstrip(" \t" + _BLANK_MARKS)
    token_texts = {verbatim, without_marks} - {""}

    begun: set[int] = set()
    certain = True
    for text in token_texts:
        is_exactly_a_label = text in labels
        for index, label in enumerate(labels):
            if label.startswith(text):
                begun.add(index)
                continue
            begins_in_other_case = label.casefold().startswith(text.casefold())
            if begins_in_other_case and not is_exactly_a_label:
                begun.add(index)
                is_complete_label = label.casefold() == text.casefold()
                is_one_letter = len(text) == 1
                if is_one_letter and not is_complete_label:
                    certain = False
    return BegunLabels(sorted(begun), certain)


@dataclass(frozen=True, slots=True)
class ListedTokens:
    """The log-probabilities of the listed tokens that may begin a label.

    Attributes:
        unambiguous: Of the tokens that begin this label and nothing else.
        ambiguous: Of the tokens that may begin it, but also another label or a word of its own.
    """

    unambiguous: list[float] = field(default_factory=list)
    ambiguous: list[float] = field(default_factory=list)


def listed_tokens_of_labels(tokens: Mapping[str, float], label_space: Sequence[str]) -> list[ListedTokens]:
    """Return for each label the listed tokens that may begin it, without those that have no visible text.

    Args:
        tokens: Log-probabilities of the listed tokens.
        label_space: The labels.

    Example:
        >>> listed_tokens_of_labels({"yes": -0.1, " ": -3.0, "n": -4.0}, ["no", "none", "yes"])[1:]
        [ListedTokens(unambiguous=[], ambiguous=[-4.0]), ListedTokens(unambiguous=[-0.1], ambiguous=[])]
    """
    tokens_by_label = [ListedTokens() for _ in label_space]
    for token, log_probability in tokens.items():
        if not has_visible_text(token):
            continue
        begun = begun_labels(token, label_space)
        if begun.only_label is not None:
            tokens_by_label[begun.only_label].unambiguous.append(log_probability)
            continue
        for label_index in begun.indexes:
            tokens_by_label[label_index].ambiguous.append(log_probability)
    return tokens_by_label


def unknown_mark(tokens: Iterable[str], label_space: Sequence[str]) -> str | None:
    """Return a symbol in front of labels that may be a server's mark of a blank, but is not known as one.

    A letter in front of a label makes another word, and punctuation may be what the model writes before the label.

    Args:
        tokens: The listed tokens.
        label_space: The labels.

    Example:
        >>> unknown_mark(["␣food", "the"], ["food", "travel"]), unknown_mark(["«food", "▁food"], ["food", "travel"])
        ('␣', None)
    """
    labels = {label.casefold() for label in label_space}
    for token in tokens:
        mark = token[:1]
        if mark.isascii() or mark in _BLANK_MARKS:
            continue
        is_symbol = unicodedata.category(mark).startswith("S")
        if is_symbol and token[1:].casefold() in labels:
            return mark
    return None


def mass_without_text(tokens: Mapping[str, float]) -> float:
    r"""Return the log-probability that the next token has no visible text; minus infinity if none is listed.

    Example:
        >>> mass_without_text({" ": -1.0, "food": -2.0})
        -1.0
    """
    values = [value for token, value in tokens.items() if not has_visible_text(token)]
    if not values:
        return float("-inf")
    return log_sum_exp(values)
