"""Queries without meaning, which test prediction bias: without a meaningful query a model should prefer no label.

*Contextual* bias uses an empty text (Zhao et al. 2021, arXiv 2102.09690); *domain* bias uses random words of the domain
(Fei et al. 2023, arXiv 2305.19148).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import SubsetView

DOMAIN_QUERY_LENGTH = 128
"""Words in a domain query, as published."""


def empty_queries(columns: int) -> Iterator[tuple[str, ...]]:
    """Return empty queries without end.

    Args:
        columns: Input texts per query.
    """
    return itertools.repeat(("",) * columns)


class _DomainQueries(Iterator[tuple[str, ...]]):
    """Queries of random words; unlike a generator, they can be copied and pickled with the writer that has them."""

    def __init__(self, demonstration: SubsetView, length: int) -> None:
        """Begin a new sequence of queries.

        Args:
            demonstration: The demonstration set, whose words are drawn.
            length: The number of words of each input text.
        """
        self._demonstration = demonstration
        self._length = length
        self._generator = StableRandom()
        # The words of each input text of a row. A row is drawn many times, and split once.
        self._words_of_row: dict[int, list[list[str]]] = {}

    def __next__(self) -> tuple[str, ...]:
        """Return the next query: random words for each input text.

        Raises:
            ArgumentError: The demonstration set is empty.
        """
        if len(self._demonstration) == 0:
            raise ArgumentError(f"{self._demonstration.name} has no rows to take the words of domain queries from")
        texts = []
        for column in range(len(self._demonstration.texts(0))):
            texts.append(self._random_text(column))
        return tuple(texts)

    def _random_text(self, column: int) -> str:
        """Return random words of an input text.

        Two floats are drawn for each word: the first one chooses the row, the second one the word of the row. Both are
        multiplied by the highest index and not by the number of items, as published, so the last item is never chosen
        unless it is the only one.
        """
        last_row = len(self._demonstration) - 1
        draws = list(self._generator.floats(2 * self._length))
        row_draws = draws[0::2]
        word_draws = draws[1::2]
        words = []
        for row_draw, word_draw in zip(row_draws, word_draws, strict=True):
            row = int(last_row * row_draw)
            words_of_text = self._words_of(row)[column]
            last_word = len(words_of_text) - 1
            words.append(words_of_text[int(last_word * word_draw)])
        return " ".join(words)

    def _words_of(self, row: int) -> list[list[str]]:
        """Return the words of each input text of a row."""
        words = self._words_of_row.get(row)
        if words is None:
            words = [text.split(" ") for text in self._demonstration.texts(row)]
            self._words_of_row[row] = words
        return words

    def skip(self) -> None:
        """Pass over a query without writing it."""
        column_count = len(self._demonstration.texts(0))
        self._generator.skip(2 * self._length * column_count)


def skip_query(queries: Iterator[Sequence[str]]) -> None:
    """Pass over a query that is not needed."""
    if isinstance(queries, _DomainQueries):
        queries.skip()
    else:
        next(queries)


def domain_queries(demonstration: SubsetView, length: int = DOMAIN_QUERY_LENGTH) -> Iterator[tuple[str, ...]]:
    """Return queries of random words of a set, without end.

    Each word: pick a row, split its text at spaces, pick a word. The published draw excludes the last row of the set,
    and the last word of a row unless it is the only one; that is part of the benchmark's bytes.

    Args:
        demonstration: Where the words come from.
        length: Words per input text.

    Raises:
        ArgumentError: ``length`` is negative, or (for the first query) the set is empty.
    """
    return _DomainQueries(demonstration, validate_integer("length, the number of words of a domain query,", length, 0))
