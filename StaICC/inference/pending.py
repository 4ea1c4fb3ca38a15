"""The queries of a part that are still to be evaluated, in the chunks in which a run takes them.

A chunk is what one call evaluates before its predictions are stored: about half a second of work. What determines it
depends on the inference function:

- For a function of one prompt and for a served model, predictions depend on nothing but the prompt. So the measured
  speed decides how many queries a chunk has (:class:`Pace`), and a chunk may come back in parts.
- A kernel with a batched form may compute other digits in another batch. So its chunks are fixed: they are formed of
  all distinct queries, stored or not, and never depend on the clock. A resumed run has those of an uninterrupted one.

Several runs may share a store. A run claims the queries of a chunk (:mod:`StaICC.inference.claims`), then looks up
what others stored of it meanwhile. A chunk with a query that another run has claimed is postponed until that is stored
or the claim ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from StaICC.inference.claims import Claims
from StaICC.inference.contract import Answer
from StaICC.inference.prompt_key import PromptKey, characters
from StaICC.safe_text import logger

_LOG = logger(__name__)

CHUNK_SECONDS = 0.5
"""About how long the evaluation of a chunk takes, if it has more than one query. A kill loses chunks in flight."""
MOST_CHARACTERS = 1 << 24
"""Characters of the prompts of a chunk, at most: 4 of a million tokens each, 256 of 16,000."""
_PATIENCE_SECONDS = 30.0
"""How long a run waits for chunks of another run that stores nothing; then it evaluates them, too."""
_WAIT_SECONDS = 0.1


class SharedStore(Protocol):
    """A store of predictions that other runs may use at the same time."""

    def get_many(self, keys: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the stored predictions."""

    def version(self) -> object:
        """Return a value that changes when another run stores predictions."""

    def claims(self) -> Claims:
        """Return the claims of a run on queries, none at first."""


class Pace:
    """How many queries of a function make a chunk of about :data:`CHUNK_SECONDS`, by the speed of this run.

    Args:
        most: The most queries of a chunk.
        least: The fewest, also if they take longer.
    """

    def __init__(self, most: int, least: int = 1) -> None:
        """Begin with the smallest chunk, since the speed is not known; :meth:`note` makes the next ones larger.

        Args:
            most: The most queries of a chunk.
            least: The fewest queries of a chunk, if it is not above ``most``.
        """
        self._most_queries = most
        self._fewest_queries = min(least, most)
        self.size = self._fewest_queries
        """Number of queries of the next chunk."""

    def note(self, queries: int, seconds: float) -> None:
        """Set the size of the next chunk by the time that a chunk took: as many queries as take half a second.

        It is at most twice the size of a chunk that was evaluated.

        Args:
            queries: The number of queries of the chunk.
            seconds: The time of its evaluation.
        """
        queries_in_time = self._most_queries
        if seconds > 0:
            queries_in_time = int(queries * CHUNK_SECONDS / seconds)
        # A chunk may be small because no more queries were left. That does not make the next one smaller than before.
        largest_size = min(self._most_queries, max(self.size, 2 * queries))
        self.size = max(self._fewest_queries, min(queries_in_time, largest_size))


class PendingQueries:
    """The queries that are still to be evaluated, from which a run takes chunk after chunk (:meth:`take`).

    Each query is a pair of prompt and label space. Other runs that share the store may evaluate some of the same
    queries: a run claims those that it takes, and passes over those that another run has claimed.
    """

    def __init__(
        self,
        blocks: Iterable[Sequence[PromptKey]],
        fixed: bool,
        store: SharedStore | None = None,
        claims: Claims | None = None,
        stored_version: object = None,
        take_stored: Callable[[Mapping[PromptKey, Answer]], None] | None = None,
        most_characters: float = MOST_CHARACTERS,
    ) -> None:
        """Begin with all queries pending.

        Args:
            blocks: The queries without those that are stored. A chunk never has queries of two blocks.
            fixed: Whether each block is a chunk, whatever its size.
            store: The store, if there is one; other runs may use it.
            claims: This run's claims on the queries; ``None`` if no other run can know of them.
            stored_version: The version of the store when the blocks were formed. Another version means that a run has
                stored something since then.
            take_stored: Called with predictions of pending queries that another run stored since then.
            most_characters: The most characters of the prompts of a chunk that is not fixed.
        """
        self._blocks = deque(block for block in blocks if block)
        self._taken_of_first_block = 0
        """Number of queries of the first block that were taken."""
        self._left = sum(map(len, self._blocks))
        """Number of queries that no one has taken to evaluate."""
        self._returned: deque[Sequence[PromptKey]] = deque()
        """Chunks that came back, or were postponed: they are taken first."""
        self._fixed = fixed
        self._store = store
        self._claims = claims
        self._ignores_claims = claims is None
        """Whether queries are taken that other runs have claimed."""
        self._stored_version = stored_version
        self._take_stored = take_stored
        self._most_characters = most_characters
        self._postponed: list[Sequence[PromptKey]] = []
        """Chunks with queries that another run has claimed."""
        self._finished: list[Sequence[PromptKey]] = []
        """Evaluated chunks whose predictions are not stored yet."""
        self._last_version: object = None
        """The version of the store at the last look, while this run waits for others."""
        self._waiting_since: float | None = None
        """Since when it waits without a new prediction of others."""

    def __len__(self) -> int:
        """Return how many queries are left, with those that another run has claimed."""
        return self._left

    def take(self, most_queries: int) -> Sequence[PromptKey] | None:
        """Return the next chunk to evaluate, and claim its queries, so that no other run evaluates them.

        A chunk with a query that another run has claimed is postponed. Queries whose predictions another run has
        stored in the meantime are left out.

        Args:
            most_queries: The most queries of the chunk, unless chunks are fixed.

        Returns:
            The chunk; ``None`` if no queries are left, or other runs have claimed all chunks that are left.
        """
        while self._returned or self._blocks:
            chunk = self._next_chunk(most_queries)
            if not self._ignores_claims and not self._claim(chunk):
                self._postponed.append(chunk)
                continue
            stored_by_others = self._newly_stored(chunk)
            self._left -= len(chunk)
            if stored_by_others:
                self._release(list(stored_by_others))
                chunk = [key for key in chunk if key not in stored_by_others]
            if chunk:
                self._waiting_since = None
                return chunk
        return None

    def _next_chunk(self, most_queries: int) -> Sequence[PromptKey]:
        """Remove the next chunk from the pending queries, and return it.

        Queries that were taken before and came back without a prediction are first. Then come those of the first block
        that were not taken yet. There must be some of these.

        Args:
            most_queries: The most queries of the chunk, unless chunks are fixed.
        """
        if self._returned:
            chunk = self._returned.popleft()
            if self._fixed or len(chunk) <= most_queries:
                return chunk
            self._returned.appendleft(chunk[most_queries:])
            return chunk[:most_queries]

        block = self._blocks[0]
        start = self._taken_of_first_block
        end = len(block) if self._fixed else self._end_of_chunk(block, start, most_queries)
        if end == len(block):
            self._blocks.popleft()
            self._taken_of_first_block = 0
        else:
            self._taken_of_first_block = end
        return block[start:end]

    def _end_of_chunk(self, block: Sequence[PromptKey], start: int, most_queries: int) -> int:
        """Return the index behind the last query of a chunk, which has one query at least.

        The chunk ends where one more query would make its prompts longer than the maximum number of characters.

        Args:
            block: The queries, from which the chunk is taken.
            start: The index of the first query of the chunk.
            most_queries: The most queries of the chunk.
        """
        last_end = min(start + most_queries, len(block))
        total_characters = 0
        for index in range(start, last_end):
            prompt, _ = block[index]
            total_characters += characters(prompt)
            if index > start and total_characters > self._most_characters:
                return index
        return last_end

    def _newly_stored(self, chunk: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the predictions of a chunk that other runs stored since this one read the store.

        This run uses them, too: they are passed to ``take_stored``.
        """
        if self._store is None or self._store.version() == self._stored_version:
            return {}
        stored = self._store.get_many(chunk)
        if stored and self._take_stored is not None:
            self._take_stored(stored)
        return stored

    def give_back(self, chunk: Sequence[PromptKey]) -> None:
        """Put queries that were taken and not evaluated in front of the others."""
        self._release(chunk)
        self._returned.appendleft(chunk)
        self._left += len(chunk)

    def finish(self, chunk: Sequence[PromptKey]) -> None:
        """Note that queries were evaluated; their claims end when their predictions are stored."""
        self._finished.append(chunk)

    def release_finished(self) -> None:
        """Give up this run's claims on evaluated queries, once their predictions are stored.

        Until then, another run that shares the store would evaluate them again.
        """
        for chunk in self._finished:
            self._release(chunk)
        self._finished.clear()

    def wait_for_others(self) -> bool:
        """Wait a moment if other runs have claimed chunks, and let :meth:`take` try these chunks again.

        If the other runs store nothing for :data:`_PATIENCE_SECONDS`, their claims are ignored from then on.

        Returns:
            Whether chunks are left, so that :meth:`take` may return one now.
        """
        if not self._postponed:
            return bool(self._returned or self._blocks)
        version = None if self._store is None else self._store.version()
        others_stored_something = version != self._last_version
        self._last_version = version
        now = time.monotonic()
        if self._waiting_since is None or others_stored_something:
            self._waiting_since = now
        if now - self._waiting_since > _PATIENCE_SECONDS:
            _LOG.warning("another run has claimed queries and stores nothing; they are evaluated here, too")
            self._ignores_claims = True
        else:
            time.sleep(_WAIT_SECONDS)
        self._returned.extend(self._postponed)
        self._postponed.clear()
        return True

    def close(self) -> None:
        """Give up all claims."""
        if self._claims is not None:
            self._claims.close()

    def _claim(self, chunk: Sequence[PromptKey]) -> bool:
        """Claim the queries of a chunk; return whether no other run has claimed one of them."""
        return self._claims is None or self._claims.take(chunk)

    def _release(self, chunk: Sequence[PromptKey]) -> None:
        if self._claims is not None and not self._ignores_claims:
            self._claims.release(chunk)


def blocks_of(groups: Iterable[Sequence[PromptKey]], cached: Mapping[PromptKey, Answer]) -> list[Sequence[PromptKey]]:
    """Return blocks of queries without those that are cached.

    Args:
        groups: All distinct queries, in order, divided into blocks.
        cached: The stored predictions.
    """
    if not cached:
        return list(groups)
    return [[key for key in group if key not in cached] for group in groups]


def divide_into_chunks(keys: Sequence[PromptKey], most_queries: float, most_characters: float) -> list[list[PromptKey]]:
    """Divide queries, in order, into chunks of limited size.

    Args:
        keys: The queries.
        most_queries: The most queries of a chunk.
        most_characters: The most characters that the prompts of a chunk have together; a chunk of a single query may
            have more.
    """
    chunks: list[list[PromptKey]] = []
    chunk: list[PromptKey] = []
    chunk_characters = 0
    for key in keys:
        prompt, _ = key
        prompt_characters = characters(prompt)
        is_full = len(chunk) == most_queries or chunk_characters + prompt_characters > most_characters
        if chunk and is_full:
            chunks.append(chunk)
            chunk = []
            chunk_characters = 0
        chunk.append(key)
        chunk_characters += prompt_characters
    if chunk:
        chunks.append(chunk)
    return chunks


def by_label_space(keys: Iterable[PromptKey]) -> list[list[PromptKey]]:
    """Return queries in groups of one label space, both in the order of their first appearance."""
    groups: dict[tuple[str, ...], list[PromptKey]] = {}
    for key in keys:
        _, label_space = key
        groups.setdefault(label_space, []).append(key)
    return list(groups.values())
