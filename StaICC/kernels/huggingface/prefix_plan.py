"""Which token positions to compute, and in which rows: every shared prefix once.

A causal language model computes the same hidden states for the same prefix, whatever follows. The token sequences of a
run therefore form a *trie* (a prefix tree) with one node per distinct prefix, and a node needs to be computed only
once. Two ways of sharing are used, both of them exact:

- **Packing.** A part of the trie is laid out depth first in one row. Position ``i`` may attend to itself and to its
  ancestors only (a tree-shaped attention mask), and its position number is its depth. Prompts that differ in their ends
  (the labels of a noisy channel; Normal, contextual and domain queries over the same demonstrations) thus cost one row
  of distinct positions.
- **Caching.** A long prefix in front of more than fits in one row (a LongICL context in front of 500 queries) is a
  *stage*: its keys and values are computed once and kept, and the rows of the stage continue from there.

Packing makes attention look at pairs of positions that are masked out, so it pays only where enough positions are
shared. With ``N`` positions in a row and ``w`` for the cost of one attended pair (in units of the cost of one position
outside attention), a row costs ``N + w N (N + prefix)``. Rows are joined while that makes the sum of the costs
smaller, beginning with those that share most.

This module knows nothing of models: it maps tuples of integers to rows of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

CALL_COST = 48
"""Cost of one more call of the model over a cached prefix, in positions."""

CACHE_COPY_COST = 1 / 40
"""Cost of handing one cached position to one more call, in positions."""


@dataclass(frozen=True, slots=True)
class Row:
    """A part of the trie, laid out depth first.

    Attributes:
        tokens: The token at each position of the row.
        parents: Index in this row of the token before; -1 means the end of the stage's prefix.
        ends: Pairs (number of a sequence, index in this row of its last token); equal sequences share an index.
        base: Number of tokens of the sequences before the row, in the stage's prefix.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]
    base: int

    @property
    def chain(self) -> int:
        """Number of positions at the beginning that are one plain sequence."""
        return next((index for index, parent in enumerate(self.parents) if parent != index - 1), len(self.parents))

    @property
    def is_chain(self) -> bool:
        """Whether the row is one plain sequence, for which causal attention is the right mask."""
        return self.chain == len(self.tokens)

    def depths(self) -> list[int]:
        """Position number of each token in its sequence, from 0."""
        chain = self.chain
        depths = list(range(self.base, self.base + chain))
        for parent in self.parents[chain:]:
            depths.append(self.base if parent < 0 else depths[parent] + 1)
        return depths

    def subtree_ends(self) -> list[int]:
        """For each index, the first index after its subtree: ``j`` is ``i`` or above it iff ``j <= i < end[j]``."""
        ends = list(range(1, len(self.tokens) + 1))
        for index in range(len(self.tokens) - 1, -1, -1):
            parent = self.parents[index]
            if parent >= 0:
                ends[parent] = max(ends[parent], ends[index])
        return ends

    def path(self, end: int, start: int) -> list[int]:
        """Row indexes of the positions ``start, start + 1, ...`` of the sequence that ends at index ``end``.

        Args:
            end: Index in the row of the last token.
            start: Position number in the sequence; not before ``base``.
        """
        path: list[int] = []
        index = end
        while index >= 0:
            path.append(index)
            index = self.parents[index]
        path.reverse()
        return path[start - self.base :]


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows that continue from the same prefix.

    Attributes:
        prefix: Tokens whose keys and values are computed once for the stage; empty for rows that start at the
            beginning.
        rows: The rows.
    """

    prefix: tuple[int, ...]
    rows: tuple[Row, ...]


def shared_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix of two sequences.

    Example:
        >>> shared_length((1, 2, 3), (1, 2, 4, 5))
        2
    """
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    # Slices compare in C, so halving beats a loop over thousands of tokens.
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def distinct_positions(sequences: Sequence[Any]) -> int:
    """Number of distinct non-empty prefixes (of tuples or texts): what any exact computation must do at least.

    Example:
        >>> distinct_positions([(1, 2, 3), (1, 2, 4), (1, 2, 3)])
        4
    """
    ordered = sorted(set(sequences))
    total = sum(len(sequence) for sequence in ordered)
    return total - sum(shared_length(a, b) for a, b in pairwise(ordered))


def _lay_out(sequences: Sequence[tuple[tuple[int, ...], Sequence[int]]], base: int) -> Row:
    """One row of the sequences (sorted, distinct, each with the numbers that it answers) from position ``base`` on."""
    tokens: list[int] = []
    parents: list[int] = []
    ends: list[tuple[int, int]] = []
    path: list[int] = []
    before: tuple[int, ...] = ()
    for sequence, numbers in sequences:
        kept = max(0, shared_length(before, sequence) - base) if path else 0
        del path[kept:]
        for token in sequence[base + kept :]:
            parents.append(path[-1] if path else -1)
            path.append(len(tokens))
            tokens.append(token)
        ends.extend((number, path[-1]) for number in numbers)
        before = sequence
    return Row(tuple(tokens), tuple(parents), tuple(ends), base)


def _joined(
    sequences: Sequence[tuple[int, ...]], base: int, row_tokens: int, attention_weight: float, call_cost: float
) -> list[list[int]]:
    """Which neighbours of a sorted pool go into one row: lists of indexes into the pool."""
    sizes = [len(sequence) - base for sequence in sequences]
    left = list(range(len(sequences)))  # row that begins at i: where it ends; a cut-down union-find on a path
    right = list(range(len(sequences)))
    shares = [(shared_length(a, b) - base, i + 1) for i, (a, b) in enumerate(pairwise(sequences))]
    call = call_cost + (CALL_COST + base * CACHE_COPY_COST if base else 0.0)
    for shared, boundary in sorted(shares, key=lambda pair: (-pair[0], pair[1])):
        if shared <= 0 and not call:
            break
        first = left[boundary - 1]
        last = right[boundary]
        size, other_size = sizes[first], sizes[boundary]
        both = size + other_size - shared
        # Attention to the prefix is the same for every position, so only the saved positions count there.
        gain = shared + call + attention_weight * (size * size + other_size * other_size - both * both + shared * base)
        if both <= row_tokens and gain > 0:
            sizes[first] = both
            right[first] = last
            left[last] = first
    # Only the ends of a row are kept up to date: a row begins where the end's row begins.
    return [list(range(index, right[index] + 1)) for index in range(len(sequences)) if left[right[index]] == index]


def plan(
    sequences: Sequence[tuple[int, ...]],
    wanted_from: Sequence[int],
    *,
    row_tokens: int,
    attention_weight: float,
    share: bool = True,
    cache_from: int | None = None,
    resident: tuple[int, ...] = (),
    call_cost: float = 0.0,
) -> tuple[Stage, ...]:
    """Lay out sequences in rows and stages.

    Args:
        sequences: Token sequences, none empty; equal ones are computed once.
        wanted_from: For each sequence, the first position whose hidden state is wanted. A cached prefix ends before
            it.
        row_tokens: Most positions in a row of more than one sequence.
        attention_weight: Cost of an attended pair in units of a position (``w`` above).
        share: Whether rows may hold more than one sequence.
        cache_from: Shortest prefix that is worth a stage of its own; None forbids stages.
        resident: Prefix whose keys and values are cached already, from an earlier plan.
        call_cost: Cost of one more row, in positions, where rows cannot be batched.

    Returns:
        Stages in the order in which they should run, so that a prefix extends the one before where possible. Every
        sequence number occurs in exactly one row.

    Example:
        >>> stages = plan([(1, 2, 3), (1, 2, 4)], [2, 2], row_tokens=64, attention_weight=1e-3)
        >>> stages[0].rows[0]
        Row(tokens=(1, 2, 3, 4), parents=(-1, 0, 1, 1), ends=((0, 2), (1, 3)), base=0)
    """
    numbers: dict[tuple[int, ...], list[int]] = {}
    for number, sequence in enumerate(sequences):
        numbers.setdefault(sequence, []).append(number)
    ordered = sorted(numbers)
    if not share:
        return (Stage((), tuple(_lay_out([(sequence, numbers[sequence])], 0) for sequence in ordered)),)
    limits = [min(wanted_from[number] for number in numbers[sequence]) for sequence in ordered]
    shared = [0] + [shared_length(a, b) for a, b in pairwise(ordered)]

    pools: dict[tuple[int, ...], list[int]] = {(): []}  # prefix -> indexes into ordered, in order
    todo: list[tuple[int, int, tuple[int, ...]]] = [(0, len(ordered), ())] if ordered else []
    while todo:
        low, high, prefix = todo.pop()
        base = len(prefix)
        size = sum(len(ordered[i]) - base for i in range(low, high)) - sum(
            shared[i] - base for i in range(low + 1, high)
        )
        common = min(min(shared[low + 1 : high], default=len(ordered[low])), min(limits[low:high]))
        cached = min(shared_length(resident, ordered[low]), common) if resident else 0
        if cache_from is not None:
            longer = common if size > row_tokens and high - low > 1 else 0
            # A cached prefix saves computing it even where all would fit in one row.
            longer = longer if longer - base >= cache_from else cached
            if longer - base >= cache_from:
                prefix = ordered[low][:longer]
                pools.setdefault(prefix, [])
                todo.append((low, high, prefix))
                continue
        if cache_from is None or size <= row_tokens or high - low == 1:
            pools[prefix].extend(range(low, high))
            continue
        # Nothing long is shared by all: go down to the parts that share more.
        least = min(shared[low + 1 : high])
        cuts = [low, *(i for i in range(low + 1, high) if shared[i] == least), high]
        todo.extend((a, b, prefix) for a, b in reversed(list(pairwise(cuts))))

    stages: list[Stage] = []
    for prefix, pool in sorted(pools.items()):
        if not pool:
            continue
        pool.sort()
        members = [ordered[i] for i in pool]
        rows = [
            _lay_out([(members[i], numbers[members[i]]) for i in indexes], len(prefix))
            for indexes in _joined(members, len(prefix), row_tokens, attention_weight, call_cost)
        ]
        stages.append(Stage(prefix, tuple(rows)))
    return tuple(stages)
