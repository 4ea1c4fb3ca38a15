"""Which token positions to compute, in which rows: every shared prefix once.

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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

CALL_COST = 48
"""Cost of one more call of the model over a cached prefix, in positions."""

CACHE_COPY_COST = 1 / 40
"""Cost of handing one cached position to one more call, in positions."""
Picks = Mapping[int, tuple[int, ...]]
"""By the number of a sequence, the indexes of its wanted positions among those of a row or of a batch, in order."""


@dataclass(frozen=True, slots=True)
class TrieRow:
    """A part of the trie, laid out depth first.

    Attributes:
        tokens: The token at each position of the row.
        depths: Position number of each token in its sequence, from 0.
        picks: By the number of a sequence, the indexes in this row of its wanted positions, in order.
        prefix: Tokens before the row, whose keys and values are cached; empty for rows that start at the beginning.
    """

    tokens: Sequence[int]
    depths: Sequence[int]
    picks: Picks
    prefix: tuple[int, ...] = ()

    @property
    def chain(self) -> int:
        """Number of positions at the beginning that are one plain sequence, for which causal attention is right."""
        plain = enumerate(self.depths, start=len(self.prefix))
        return next((index for index, (place, depth) in enumerate(plain) if depth != place), len(self.depths))

    @property
    def is_chain(self) -> bool:
        """Whether the row is one plain sequence."""
        return self.chain == len(self.tokens)

    def subtree_ends(self) -> list[int]:
        """For each index, the first index after its subtree: ``j`` is ``i`` or above it iff ``j <= i < end[j]``."""
        ends, path = [len(self.depths)] * len(self.depths), list[int]()
        for index, depth in enumerate(self.depths):
            while path and self.depths[path[-1]] >= depth:
                ends[path.pop()] = index
            path.append(index)
        return ends


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


def without_last(sequences: Sequence[tuple[int, ...]], wanted_from: Sequence[int]) -> list[tuple[int, ...]]:
    """Return sequences without their last tokens, of which no state is wanted unless it is the first wanted one."""
    return [row[: max(len(row) - 1, start + 1)] for row, start in zip(sequences, wanted_from, strict=True)]


def distinct_positions(sequences: Sequence[Any]) -> int:
    """Number of distinct non-empty prefixes (of tuples or texts): what any exact computation must do at least.

    Example:
        >>> distinct_positions([(1, 2, 3), (1, 2, 4), (1, 2, 3)])
        4
    """
    ordered = sorted(set(sequences))
    total = sum(len(sequence) for sequence in ordered)
    return total - sum(shared_length(a, b) for a, b in pairwise(ordered))


def lay_out(
    sequences: Sequence[tuple[int, ...]],
    numbers: Mapping[tuple[int, ...], Sequence[int]],
    wanted_from: Sequence[int],
    prefix: tuple[int, ...],
) -> TrieRow:
    """One row of sequences, which are sorted and distinct, after their prefix; ``numbers``: those of each sequence."""
    tokens, depths, path, before = list[int](), list[int](), list[int](), prefix
    picks: dict[int, tuple[int, ...]] = {}
    for sequence in sequences:
        kept = shared_length(before, sequence)
        path[kept - len(prefix) :] = range(len(tokens), len(tokens) + len(sequence) - kept)
        tokens += sequence[kept:]
        depths += range(kept, len(sequence))
        picks |= {number: tuple(path[wanted_from[number] - len(prefix) :]) for number in numbers[sequence]}
        before = sequence
    return TrieRow(tokens, depths, picks, prefix)


def joined(
    sequences: Sequence[tuple[int, ...]], base: int, row_tokens: int, attention_weight: float, call_cost: float
) -> list[Sequence[tuple[int, ...]]]:
    """Which neighbours of a sorted pool go into one row."""
    sizes = [len(sequence) - base for sequence in sequences]
    left = list(range(len(sequences)))  # row that begins at i: where it ends; a cut-down union-find on a path
    right = list(range(len(sequences)))
    shares = [(shared_length(a, b) - base, i + 1) for i, (a, b) in enumerate(pairwise(sequences))]
    call = call_cost + (CALL_COST + base * CACHE_COPY_COST if base else 0.0)
    for shared, boundary in sorted(shares, key=lambda pair: (-pair[0], pair[1])):
        if shared <= 0 and not call:
            break
        first, last = left[boundary - 1], right[boundary]
        size, other_size = sizes[first], sizes[boundary]
        both = size + other_size - shared
        # Attention to the prefix is the same for every position, so only the saved positions count there.
        gain = shared + call + attention_weight * (size * size + other_size * other_size - both * both + shared * base)
        if both <= row_tokens and gain > 0:
            sizes[first] = both
            right[first] = last
            left[last] = first
    # Only the ends of a row are kept up to date: a row begins where the end's row begins.
    return [sequences[index : end + 1] for index, end in enumerate(right) if left[end] == index]
