"""Irrelevant text that fills a context.

The filler of the published data sets is English sentences about no task. The filler of a user's data set has the
language, the script and the usual words of the data, because a change of language would be a second factor of an
experiment: it is the words of training texts in random order. Words of label names are left out, and so are words that
occur with one label only, which would point to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from StaICC.long_icl.readers import FileRow
from StaICC.long_icl.reference_tokens import byte_size, to_bytes
from StaICC.long_icl.shuffling import shuffled
from StaICC.prompting.words import join_pieces, pieces_of

_SENTENCES = (
    "The lamp in the harbour office was lit before the first boat came in.",
    "A cat slept on the folded nets, and nobody wanted to wake it.",
    "By noon the clouds had moved behind the hills, and the stones were dry again.",
    "Two children counted the steps of the lighthouse and found a different number each time.",
    "The baker closed early, because the flour had not arrived.",
    "Someone had painted the old gate green and left the brush beside it.",
    "In the evening the wind turned, and the flags pointed to the sea.",
    "A letter lay under the door, without a stamp and without a name.",
)
"""Sentences about no task, in ASCII: each character is one byte."""
_LEAST_WORDS = 20
"""If fewer distinct words than these occur with several labels, words that occur with one label are used, too."""
_LEAST_LETTERS = 4
"""The filler has no word that contains a word of a label name with at least so many letters, such as "refunds" if there
is a label "refund kind". Shorter words are part of too many other words."""
_MOST_ROWS = 1000
"""Maximum number of training rows whose words are used. More rows add hardly any usual words."""


def irrelevant_text(size: int) -> str:
    """Return text about no task that has a number of bytes and ends with a line feed.

    The sentences are repeated, each time in another order, and the last one is cut.
    """
    cycle_size = sum(len(sentence) + 1 for sentence in _SENTENCES)
    pieces = []
    for cycle in range(size // cycle_size + 1):
        for sentence in shuffled(_SENTENCES, seed=cycle * len(_SENTENCES)):
            pieces.append(f"{sentence} ")
    return "".join(pieces)[: size - 1] + "\n"


class WordFiller:
    """Writes the filler of a user's data set.

    Args:
        rows: The training rows. The first 1,000 are used.
        names: Texts that the filler must not contain: label names, and the words of the template before text and label.
    """

    def __init__(self, rows: Sequence[FileRow], names: Iterable[str]) -> None:
        self._rows = rows[:_MOST_ROWS]
        self._names = [name.casefold() for name in names]

    def __call__(self, size: int) -> str:
        """Return text with a number of bytes, which ends with a line feed.

        Its lines are about as long as the training texts. If all words of the training texts are those of label names,
        it is the filler of the published data sets.
        """
        words = self._words
        if not words:
            return irrelevant_text(size)
        words_per_line = max(1, round(len(words) / len(self._rows)))
        lines: list[str] = []
        lines_size = 0
        cycle = 0
        while lines_size < size:
            shuffled_words = shuffled(words, seed=f"filler {cycle}")
            for start in range(0, len(words), words_per_line):
                line = join_pieces(shuffled_words[start : start + words_per_line])
                lines.append(line)
                lines_size += byte_size(line) + 1
            cycle += 1
        return _cut("\n".join(lines), size - 1) + "\n"

    @cached_property
    def _words(self) -> list[str]:
        """The words of the training texts that the filler can have; a frequent word is there several times."""
        words: list[str] = []
        labels_of_word: dict[str, set[str]] = {}  # by the word in lower case
        contains_name: dict[str, bool] = {}
        for row in self._rows:
            item = row.item()
            for word in pieces_of(item.texts[0]):
                lower_case = word.casefold()
                if lower_case not in contains_name:
                    contains_name[lower_case] = self._contains_name(lower_case)
                    labels_of_word[lower_case] = set()
                if not contains_name[lower_case]:
                    words.append(word)
                    labels_of_word[lower_case].update(item.gold)
        words_of_several_labels = {word for word, labels in labels_of_word.items() if len(labels) > 1}
        if len(words_of_several_labels) < _LEAST_WORDS:
            return words
        return [word for word in words if word.casefold() in words_of_several_labels]

    @cached_property
    def _words_of_names(self) -> set[str]:
        """The names, and the words (or characters of scripts without blanks) that they consist of."""
        words = set(self._names)
        for name in self._names:
            words.update(pieces_of(name.replace("_", " ").replace("-", " ")))
        return words

    def _contains_name(self, word: str) -> bool:
        """Return whether a word in lower case is a word of a name, or contains a long word of a name."""
        if word in self._words_of_names:
            return True
        return any(name in word for name in self._words_of_names if len(name) >= _LEAST_LETTERS)


def _cut(text: str, size: int) -> str:
    """Return the beginning of a text that has a number of bytes.

    A character of several bytes that would be cut is left out. Full stops take the place of its bytes.
    """
    cut_text = to_bytes(text)[:size].decode("utf-8", "ignore")
    missing_bytes = size - byte_size(cut_text)
    return cut_text + "." * missing_bytes
