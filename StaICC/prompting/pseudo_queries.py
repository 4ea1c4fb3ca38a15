"""Queries without meaning, which test prediction bias: without a meaningful query a model should prefer no label.

*Contextual* bias uses an empty text (Zhao et al. 2021, arXiv 2102.09690); *domain* bias uses random words of the domain
(Fei et al. 2023, arXiv 2305.19148).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

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
    return iter(partial(tuple, ("",) * columns), None)


class _DomainQueries(Iterator[tuple[str, ...]]):
    """Queries of random words; unlike a generator, they can be copied and pickled with the writer that has them."""

    def __init__(self, demonstration: SubsetView, length: int) -> None:
        self._demonstration, self._length = demonstration, length
        self._generator = StableRandom()
        self._words: dict[int, list[list[str]]] = {}  # a row is drawn many times; split it once

    def __next__(self) -> tuple[str, ...]:
        last, query, words = len(self._demonstration) - 1, [], self._words
        if last < 0:
            raise ArgumentError(f"{self._demonstration.name} has no rows to take the words of domain queries from")
        for column in range(len(self._demonstration.texts(0))):
            draws = self._generator.floats(2 * self._length)
            drawn = [(int(last * row), word) for row, word in zip(draws, draws, strict=True)]  # one after the other
            for row, _ in drawn:
                if row not in words:
                    words[row] = [text.split(" ") for text in self._demonstration.texts(row)]
            choices = [(words[row][column], word) for row, word in drawn]
            query.append(" ".join([choice[int((len(choice) - 1) * word)] for choice, word in choices]))
        return tuple(query)

    def skip(self) -> None:
        """Pass over a query without writing it."""
        self._generator.skip(2 * self._length * len(self._demonstration.texts(0)))


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
