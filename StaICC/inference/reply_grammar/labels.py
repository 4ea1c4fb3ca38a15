"""The labels of a task in the forms in which replies write them.

A text is compared with the labels in three forms, the exact one first: as written; without case; with one blank for
each hyphen, underscore or run of blanks between two words (``card_arrival`` is ``card arrival``). A form in which two
labels are equal decides nothing. No form drops a character at the edge of a label: ``C#`` is not ``C``.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
_BETWEEN_WORDS = r"(?:[\s_]+|[-\u2010\u2011])"
_JOINED_WORDS = re.compile(rf"(?<=\w){_BETWEEN_WORDS}(?=\w)")
_SCRIPT_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""A character of Thai, Lao, Burmese, Japanese or Chinese, where the next word follows without a space."""
_MAY_TOUCH_A_SYMBOL = (
    r"\s\"'`*()\[\]{}<>.,;:!?\u00ab\u00bb\u201c-\u201f\u3002\uff0c\uff1a\uff1b\uff01\uff1f\u3000-\u3011$"
)
"""The characters, as in brackets of a pattern, that may be next to a label with a symbol at this edge, such as C#."""
_PUNCTUATION = frozenset("\"'`*.,;:!?()[]")
"""Symbols that may follow a label, even if another label has one of them at its edge."""


def normalised(text: str) -> str:
    """Return the text in Unicode's form NFC, without invisible characters, with straight apostrophes."""
    text = unicodedata.normalize("NFC", text)
    text = _VARIATION_SELECTORS.sub("", text)
    text = _INVISIBLE.sub("", text)
    return text.replace("\u2019", "'").replace("\u2018", "'")


def _without_case(text: str) -> str:
    """Return the text without case, in the form NFC, which case folding may leave."""
    return unicodedata.normalize("NFC", text.casefold())


def _with_blanks(text: str) -> str:
    """Return the text without case, with one blank for each hyphen, underscore or run of blanks between two words."""
    return _JOINED_WORDS.sub(" ", _without_case(text))


_FORMS: tuple[Callable[[str], str], ...] = (str, _without_case, _with_blanks)
"""The forms in which a text is compared with the labels, the exact one first."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A label in a text."""

    label: int
    """The index of the label."""
    start: int
    """Where it begins in the text."""
    end: int
    """Where it ends, exclusive."""


class LabelNames:
    """The labels of one task.

    Args:
        label_space: The label names.

    Attributes:
        names: The label names without invisible characters and blanks at their edges.
        edge_symbols: The characters that are no letters, digits or underscores and that begin or end a label.
    """

    def __init__(self, label_space: tuple[str, ...]) -> None:
        """Make the pattern that finds labels in a text, and the names by which a whole text is a label."""
        self.names = [normalised(label).strip() for label in label_space]
        self._index_by_form = [_index_by_name(self.names, form) for form in _FORMS]
        """For each form in which texts are compared, the exact one first: the index of each label by its name."""
        edge_characters = {name[:1] for name in self.names} | {name[-1:] for name in self.names}
        self.edge_symbols = frozenset(character for character in edge_characters if not _is_word(character))
        self._pattern = self._mention_pattern()

    def index_of(self, text: str) -> int | None:
        """Return the index of the label that equals a whole text.

        The texts are compared as they are, then without case, and then with one blank for each hyphen, underscore or
        run of blanks between two words (:data:`_FORMS`). The first form in which a label equals the text decides.

        Returns:
            The index; ``None`` if no label equals the text, or several labels do in the first form in which one does.
        """
        text = text.strip()
        for form, index_by_name in zip(_FORMS, self._index_by_form, strict=True):
            name = form(text)
            if name and name in index_by_name:
                return index_by_name[name]
        return None

    def at(self, text: str, position: int) -> Mention | None:
        """Return the label that the text mentions at a position; ``None`` if it mentions none there."""
        match = self._pattern.match(text, position)
        if match is None:
            return None
        return self._as_mention(match)

    def occur_in(self, text: str) -> bool:
        """Return whether a label occurs in the text, be it as the word "A" of a sentence."""
        return self._pattern.search(text) is not None

    def mentions(self, text: str) -> Iterator[Mention]:
        """Yield the labels that the text mentions, the longest at each position, from left to right."""
        for match in self._pattern.finditer(text):
            mention = self._as_mention(match)
            if mention is not None and not _is_article(match):
                yield mention

    def has_words(self, words: frozenset[str]) -> bool:
        """Return whether a label has one of the words."""
        label_words: set[str] = set()
        for name in self.names:
            label_words.update(name.casefold().split())
        return not words.isdisjoint(label_words)

    def _as_mention(self, match: re.Match[str]) -> Mention | None:
        """Return a match of the pattern as a mention of a label.

        Returns:
            ``None`` if the text of the match is several labels, which differ in case only, or a single letter in
            another case than the label: "a" in a text is the article, and not the label "A".
        """
        text = match[0]
        label = self.index_of(text)  # it finds labels in another case, too
        if label is None:
            return None
        if len(text) == 1 and text != self.names[label]:
            return None
        return Mention(label, match.start(), match.end())

    # -- the pattern of all labels

    def _mention_pattern(self) -> re.Pattern[str]:
        """Return a pattern of all labels, the longest first, so that "not hate" is not read as "hate"."""
        longest_first = sorted({name for name in self.names if name}, key=len, reverse=True)
        if not longest_first:
            return re.compile(r"(?!)")  # matches nothing
        return re.compile("|".join(self._bounded(name) for name in longest_first), re.I)

    def _bounded(self, name: str) -> str:
        """Return the pattern of a label, which must not be a part of a longer word, number or symbol."""
        words = [re.escape(word) for word in _JOINED_WORDS.split(name)]
        return self._left_bound(name[0]) + _BETWEEN_WORDS.join(words) + self._right_bound(name[-1])

    def _left_bound(self, first: str) -> str:
        """Return the pattern of what must not be directly before a label in a text.

        Args:
            first: The first character of the label.
        """
        if _SCRIPT_WITHOUT_SPACES.match(first):
            return ""  # any character may be there
        if not _is_word(first):  # a symbol, such as that of "#tag"
            return rf"(?<![^{_MAY_TOUCH_A_SYMBOL}])"
        if first.isdigit():
            # No part of a word, of a negative number, or of a decimal, a fraction or a time.
            return r"(?<![\w\u2212-])(?<!\d[.,/:])"
        return r"(?<!\w)(?<!\w-)"  # no part of a word, or of words with a hyphen

    def _right_bound(self, last: str) -> str:
        """Return the pattern of what must not be directly after a label in a text.

        That is a further part of a word, of a number or of words with a hyphen, and the symbol of another label: "C" is
        not mentioned by "C#" where this is a label.

        Args:
            last: The last character of the label.
        """
        if _SCRIPT_WITHOUT_SPACES.match(last):
            return ""  # any character may be there
        if not _is_word(last):
            return rf"(?![^{_MAY_TOUCH_A_SYMBOL}])"
        rest_of_word_or_number = r"[\w%]|[.,/:]\d|'\w|-\w"
        label_symbols = sorted(self.edge_symbols - _PUNCTUATION)
        if not label_symbols:
            return rf"(?!{rest_of_word_or_number})"
        symbols = "".join(re.escape(symbol) for symbol in label_symbols)
        return rf"(?!{rest_of_word_or_number}|[{symbols}])"


def _index_by_name(names: Sequence[str], form: Callable[[str], str]) -> dict[str, int | None]:
    """Return the index of each label by its name in a form; ``None`` for a name that several labels have there."""
    index_by_name: dict[str, int | None] = {}
    for index, name in enumerate(names):
        key = form(name)
        if key in index_by_name:
            index_by_name[key] = None
        else:
            index_by_name[key] = index
    return index_by_name


def _is_word(character: str) -> bool:
    """Return whether a character is a letter, a digit or an underscore."""
    return character == "_" or character.isalnum()


def _is_article(match: re.Match[str]) -> bool:
    """Return whether a mention is the word "A", "I" or "no" before another word of a sentence."""
    is_before_word = re.match(r" [a-z]", match.string[match.end() : match.end() + 2]) is not None
    is_article = match[0] in ("A", "I") or match[0].casefold() == "no"
    return is_article and is_before_word


@functools.lru_cache(maxsize=64)
def label_names(label_space: tuple[str, ...]) -> LabelNames:
    """Return the labels of one task, whose patterns are made once."""
    return LabelNames(label_space)
