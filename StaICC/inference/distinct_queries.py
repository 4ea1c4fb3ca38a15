"""The distinct queries among the queries of a run, found with one prompt at a time in memory.

A prompt of a million tokens takes 4 MiB, and a run has hundreds. So the benchmarks with long contexts write a query
each time it is read, and queries are compared by the digests of their prompts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.inference.contract import Answer
from StaICC.inference.prompt_key import PromptKey, prompt_digest
from StaICC.inference.replies import Failure
from StaICC.lazy_sequence import LazySequence
from StaICC.prompting.prompt_writer import Query


@dataclass(frozen=True, slots=True)
class _Positions:
    """Where a distinct query is among all queries."""

    first: int
    last: int


class DistinctQueries:
    """The distinct queries, in the order in which they come first: each pair of prompt and label space once.

    Args:
        queries: All queries. They are read when the distinct ones are needed first.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        self._queries = queries

    @functools.cached_property
    def _positions(self) -> list[_Positions]:
        """The first and the last position of each distinct query, in the order of the first positions."""
        positions: dict[tuple[bytes, tuple[str, ...]], _Positions] = {}
        for position, query in enumerate(self._queries):
            key = (prompt_digest(query.prompt), query.label_space)
            first = position
            if key in positions:
                first = positions[key].first
            positions[key] = _Positions(first, last=position)
        return list(positions.values())

    @property
    def keys(self) -> Sequence[PromptKey]:
        """Prompt and label space of each distinct query; a prompt is written when its key is read."""
        return LazySequence(self._key, len(self._positions))

    def _key(self, number: int) -> PromptKey:
        """Return prompt and label space of a distinct query."""
        query = self._queries[self._positions[number].first]
        return query.prompt, query.label_space

    def answers(self, answers: Sequence[Answer | Failure]) -> list[Answer | Failure]:
        """Return the prediction of each distinct query.

        Args:
            answers: The prediction of each query. If equal queries have different ones, the last one counts.
        """
        return [answers[positions.last] for positions in self._positions]
