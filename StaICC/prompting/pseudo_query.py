"""Queries without meaning, for the tests of prediction bias.

Without a meaningful query a model should prefer no label. *Contextual* bias uses an empty text (Zhao et al.
2021, arXiv 2102.09690); *domain* bias uses random words of the domain (Fei et al. 2023, arXiv 2305.19148).
"""

from __future__ import annotations

from collections.abc import Iterator

from StaICC.errors import ArgumentError, validate_integer
from StaICC.prompting.split import SubsetView
from StaICC.prompting.stable_random import StableRandom

DOMAIN_QUERY_LENGTH = 128
"""Words in a domain query, as published."""


def empty_queries(columns: int) -> Iterator[tuple[str, ...]]:
    """Yield empty queries without end.

    Args:
        columns: Input texts per query.
    """
    query = ("",) * columns
    while True:
        yield query


def domain_queries(demonstration: SubsetView, length: int = DOMAIN_QUERY_LENGTH) -> Iterator[tuple[str, ...]]:
    """Yield queries of random words of a set, without end.

    Each word: pick a row, split its text at spaces, pick a word. The published draw excludes the last row of the set,
    and the last word of a row unless it is the only one; that is part of the benchmark's bytes.

    Args:
        demonstration: Where the words come from.
        length: Words per input text.

    Raises:
        ArgumentError: ``length`` is negative, or the set is empty.
    """
    validate_integer("length, the number of words of a domain query,", length, 0)
    if not len(demonstration):
        raise ArgumentError(f"{demonstration.name} has no rows to take the words of domain queries from")
    generator = StableRandom()
    columns = len(demonstration.texts(0))
    words: list[list[list[str]] | None] = [None] * len(demonstration)  # a row is drawn many times; split it once
    last = len(demonstration) - 1
    while True:
        query = []
        for column in range(columns):
            text = []
            draws = generator.floats(2 * length)
            for row_float, word_float in zip(draws, draws, strict=True):  # the two draws of a word, one after the other
                row = int(last * row_float)
                split = words[row]
                if split is None:
                    split = words[row] = [given.split(" ") for given in demonstration.texts(row)]
                choice = split[column]
                text.append(choice[int((len(choice) - 1) * word_float)])
            query.append(" ".join(text))
        yield tuple(query)
