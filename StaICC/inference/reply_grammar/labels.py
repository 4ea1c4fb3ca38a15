"""The labels of a task in the forms in which replies write them.

A text is compared with the labels in three forms, the exact one first: as written; without case; with one blank for
each hyphen, underscore or run of blanks between two words (``card_arrival`` is ``card arrival``). A form in which two
labels are equal decides nothing. No form drops a character at the edge of a label: ``C#`` is not ``C``.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
_BETWEEN_WORDS = r"(?:[\s_]+|[-\u2010\u2011])"
_JOINED_WORDS = re.compile(rf"(?<=\w){_BETWEEN_WORDS}(?=\w)")
_SCRIPT_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_MAY_TOUCH_A_SYMBOL = (
    r"\s\"'`*()\[\]{}<>.,;:!?\u00ab\u00bb\u201c-\u201f\u3002\uff0c\uff1a\uff1b\uff01\uff1f\u3000-\u3011$"
)


def normalised(text: str) -> str:
    """Return the text in Unicode's form NFC, without invisible characters, with straight apostrophes."""
    text = unicodedata.normalize("NFC", text)
    text = _INVISIBLE.sub("", _VARIATION_SELECTORS.sub("", text))
    return text.replace("\u2019", "'").replace("\u2018", "'")


def _without_case(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


def _with_blanks(text: str) -> str:
    return _JOINED_WORDS.sub(" ", _without_case(text))


_FORMS: tuple[Callable[[str], str], ...] = (str, _without_case, _with_blanks)


@dataclass(frozen=True, slots=True)
class Mention:
    """A place at which a text mentions a label."""

    label: int
    start: int
    end: int


class LabelNames:
    """The labels of one task.

    Args:
        label_space: The label names.
    """

    def __init__(self, label_space: tuple[str, ...]) -> None:
        self.names = [normalised(label).strip() for label in label_space]
        self._indices: list[dict[str, int | None]] = []
        for form in _FORMS:
            indices: dict[str, int | None] = {}
            for index, name in enumerate(self.names):
                key = form(name)
                indices[key] = None if key in indices else index
            self._indices.append(indices)
        self.edge_symbols = frozenset(
            character for name in self.names for character in (name[:1], name[-1:]) if not _is_word(character)
        )
        self._pattern = self._mention_pattern()

    def index_of(self, text: str) -> int | None:
        """Return the label that the text is; ``None`` if it is none, or not a single one."""
        text = text.strip()
        for form, indices in zip(_FORMS, self._indices, strict=True):
            key = form(text)
            if key and key in indices:
                return indices[key]
        return None

    def at(self, text: str, position: int) -> Mention | None:
        """Return the label that the text mentions at a position."""
        match = self._pattern.match(text, position)
        return None if match is None else self._as_mention(match)

    def occur_in(self, text: str) -> bool:
        """Return whether a label occurs in the text, be it as the word "A" of a sentence."""
        return self._pattern.search(text) is not None

    def mentions(self, text: str) -> Iterator[Mention]:
        """Return the labels that the text mentions, the longest at each place, from left to right."""
        for match in self._pattern.finditer(text):
            mention = self._as_mention(match)
            if mention is not None and not _is_article(match):
                yield mention

    def has_words(self, words: frozenset[str]) -> bool:
        """Return whether a label has one of the words."""
        return any(word in words for name in self.names for word in name.casefold().split())

    def _as_mention(self, match: re.Match[str]) -> Mention | None:
        label = self.index_of(match[0])
        if label is None or (len(match[0]) == 1 and match[0] != self.names[label]):
            return None  # within a text, a single letter is a label only with the label's case
        return Mention(label, match.start(), match.end())

    def _mention_pattern(self) -> re.Pattern[str]:
        """Return a pattern of all labels, the longest first, so that "not hate" is not read as "hate"."""
        names = sorted({name for name in self.names if name}, key=len, reverse=True)
        patterns = [self._bounded(name) for name in names]
        return re.compile("|".join(patterns) if patterns else r"(?!)", re.I)

    def _bounded(self, name: str) -> str:
        """Return the pattern of a label, which must not be a part of a longer word, number or symbol."""
        words = [re.escape(word) for word in _JOINED_WORDS.split(name)]
        return self._left_bound(name[0]) + _BETWEEN_WORDS.join(words) + self._right_bound(name[-1])

    def _left_bound(self, first: str) -> str:
        if _SCRIPT_WITHOUT_SPACES.match(first):
            return ""
        if not _is_word(first):
            return rf"(?<![^{_MAY_TOUCH_A_SYMBOL}])"
        if first.isdigit():
            return r"(?<![\w\u2212-])(?<!\d[.,/:])"
        return r"(?<!\w)(?<!\w-)"

    def _right_bound(self, last: str) -> str:
        if _SCRIPT_WITHOUT_SPACES.match(last):
            return ""
        if not _is_word(last):
            return rf"(?![^{_MAY_TOUCH_A_SYMBOL}])"
        own_symbols = "".join(re.escape(symbol) for symbol in sorted(self.edge_symbols - set(_QUOTES)))
        touching = rf"|[{own_symbols}]" if own_symbols else ""
        return rf"(?![\w%]|[.,/:]\d|'\w|-\w{touching})"


_QUOTES = "\"'`*.,;:!?()[]"


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


def _is_article(match: re.Match[str]) -> bool:
    """Return whether a mention is the word "A", "I" or "no" before another word of a sentence."""
    before_word = re.match(r" [a-z]", match.string[match.end() : match.end() + 2]) is not None
    return before_word and (match[0] in ("A", "I") or match[0].casefold() == "no")


@functools.lru_cache(maxsize=64)
def label_names(label_space: tuple[str, ...]) -> LabelNames:
    """Return the labels of one task."""
    return LabelNames(label_space)
