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
"""Cost of one more call of the model over a cached prefix, in positions. Used for planning only."""
CACHE_COPY_COST = 1 / 40
"""Cost of handing one cached position to one more call, in positions. Used for planning only."""

Picks = Mapping[int, tuple[int, ...]]
"""By the number of a sequence, the indexes of its wanted positions among those of a row or of a batch, in order."""


@dataclass(frozen=True, slots=True)
class _Boundary:
    """The boundary between a sequence and the one before.

    Attributes:
        index: The index of the sequence.
        shared: How many tokens after the cached prefix the two share.
    """

    index: int
    shared: int


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
        """The number of positions before a second branch begins: up to there, the row is one plain sequence.

        In a plain sequence, each position is one deeper than the one before, and attends to all before it.
        """
        for index, depth in enumerate(self.depths):
            depth_in_chain = len(self.prefix) + index
            if depth != depth_in_chain:
                return index
        return len(self.depths)

    @property
    def is_chain(self) -> bool:
        """Whether the row is one plain sequence."""
        return self.chain == len(self.tokens)

    def subtree_ends(self) -> list[int]:
        """Return for each position of the row the index that follows the last position of its subtree.

        The subtree of a position is the position itself and all that continue it. So ``j`` is an ancestor of ``i``, or
        ``i`` itself, if and only if ``j <= i < ends[j]``.

        Example:
            >>> TrieRow(tokens=(5, 6, 7, 8), depths=(0, 1, 2, 1), picks={}).subtree_ends()
            [4, 3, 3, 4]
        """
        position_count = len(self.depths)
        ends = [position_count] * position_count  # of subtrees that reach the end of the row
        # The row is laid out depth first: a position ends the subtrees of all positions before it that are as deep, or
        # deeper. The subtrees that are open then are those of its ancestors.
        open_positions: list[int] = []
        for position, depth in enumerate(self.depths):
            while open_positions and self.depths[open_positions[-1]] >= depth:
                ended_position = open_positions.pop()
                ends[ended_position] = position
            open_positions.append(position)
        return ends


def shared_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences.

    Example:
        >>> shared_length((1, 2, 3), (1, 2, 4, 5))
        2
    """
    low = 0
    high = min(len(left), len(right))
    if left[:high] == right[:high]:
        return high  # one is a prefix of the other
    # Bisection: the first ``low`` tokens are equal, the first ``high`` are not, until ``high`` is ``low + 1``. Slices
    # are compared in C, so this is faster than a loop over thousands of tokens.
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def without_last(sequences: Sequence[tuple[int, ...]], wanted_from: Sequence[int]) -> list[tuple[int, ...]]:
    """Return sequences without their last token, whose hidden state predicts nothing that is scored.

    A sequence keeps its last token if that is the first position whose state is wanted.

    Args:
        sequences: Token sequences.
        wanted_from: For each sequence, the first position whose hidden state is wanted.
    """
    shortened = []
    for sequence, first_wanted in zip(sequences, wanted_from, strict=True):
        length = max(len(sequence) - 1, first_wanted + 1)
        shortened.append(sequence[:length])
    return shortened


def distinct_positions(sequences: Sequence[Any]) -> int:
    """Return the number of distinct non-empty prefixes of sequences: the nodes of their trie.

    An exact computation has to compute each of them at least once.

    Args:
        sequences: Tuples of tokens, or texts.

    Example:
        >>> distinct_positions([(1, 2, 3), (1, 2, 4), (1, 2, 3)])
        4
    """
    ordered = sorted(set(sequences))
    total = sum(len(sequence) for sequence in ordered)
    # In sorted order, a sequence shares most with the one before it.
    shared_total = sum(shared_length(first, second) for first, second in pairwise(ordered))
    return total - shared_total


def lay_out(
    sequences: Sequence[tuple[int, ...]],
    numbers: Mapping[tuple[int, ...], Sequence[int]],
    wanted_from: Sequence[int],
    prefix: tuple[int, ...],
) -> TrieRow:
    """Return one row with the positions of sequences after a prefix that they share, each distinct position once.

    Args:
        sequences: Token sequences, sorted and distinct. All of them begin with the prefix.
        numbers: By sequence, its numbers: equal sequences are computed once.
        wanted_from: By number, the first position whose hidden state is wanted, which is not in the prefix.
        prefix: The tokens before the row.

    Example:
        >>> lay_out([(1, 2, 3), (1, 2, 4)], {(1, 2, 3): [0], (1, 2, 4): [1]}, [1, 2], ())
        TrieRow(tokens=[1, 2, 3, 4], depths=[0, 1, 2, 2], picks={0: (1, 2), 1: (3,)}, prefix=())
    """
    tokens: list[int] = []
    depths: list[int] = []
    picks: dict[int, tuple[int, ...]] = {}
    # For each token of the current sequence after the prefix, its index in the row.
    indexes_of_sequence: list[int] = []
    previous_sequence = prefix
    for sequence in sequences:
        # In sorted order, a sequence shares its beginning with the one before, whose tokens are in the row already.
        shared = shared_length(previous_sequence, sequence)
        shared_after_prefix = shared - len(prefix)
        del indexes_of_sequence[shared_after_prefix:]
        # The tokens that follow are new: they are added at the end of the row.
        new_tokens = sequence[shared:]
        first_new_index = len(tokens)
        tokens += new_tokens
        depths += range(shared, len(sequence))
        indexes_of_sequence += range(first_new_index, len(tokens))
        for number in numbers[sequence]:
            first_wanted = wanted_from[number] - len(prefix)
            picks[number] = tuple(indexes_of_sequence[first_wanted:])
        previous_sequence = sequence
    return TrieRow(tokens, depths, picks, prefix)


def joined(
    sequences: Sequence[tuple[int, ...]], base: int, row_tokens: int, attention_weight: float, call_cost: float
) -> list[Sequence[tuple[int, ...]]]:
    """Divide sorted sequences into rows so that the cost of computing them is small, and return those of each row.

    At first, each sequence is a row. A greedy search visits the boundaries between neighbours, first the one where they
    share most, and joins the two rows on its sides if the joined row fits and costs less.

    A row of N positions after a prefix of P positions costs ``N + w N (N + P)``, where w is the weight of attention. If
    rows of L and R positions that share S are joined, the new row has N = L + R - S positions, and this much is
    gained::

        S + (cost of one call) + w (L L + R R + S P - N N)

    Args:
        sequences: Token sequences, sorted and distinct.
        base: Length of the cached prefix with which all of them begin; its positions are in no row.
        row_tokens: Most positions of a row.
        attention_weight: Cost of one attended pair of positions, in units of one position outside attention.
        call_cost: Cost of one more row, in positions, where rows cannot be batched.
    """
    cost_of_call = call_cost
    if base > 0:
        cost_of_call += CALL_COST + base * CACHE_COPY_COST

    # A row is a range of neighbours, from its first to its last sequence. Entries of these lists are right, and read,
    # where a sequence is now the first (or the last) one of a row.
    last_of_row = list(range(len(sequences)))  # by the first sequence of a row
    first_of_row = list(range(len(sequences)))  # by the last sequence of a row
    size_of_row = [len(sequence) - base for sequence in sequences]  # in positions, by the first sequence of a row
    for boundary in _boundaries(sequences, base):
        if boundary.shared <= 0 and cost_of_call == 0:
            break  # nothing is gained here, nor at the boundaries that follow
        left_first = first_of_row[boundary.index - 1]
        right_first = boundary.index
        right_last = last_of_row[right_first]
        # The gain by the formula above: L is left_size, R right_size, S boundary.shared, P base, N joined_size.
        left_size = size_of_row[left_first]
        right_size = size_of_row[right_first]
        joined_size = left_size + right_size - boundary.shared
        pairs_apart = left_size * left_size + right_size * right_size + boundary.shared * base  # L L + R R + S P
        saved_pairs = pairs_apart - joined_size * joined_size
        gain = boundary.shared + cost_of_call + attention_weight * saved_pairs
        if joined_size <= row_tokens and gain > 0:
            size_of_row[left_first] = joined_size
            last_of_row[left_first] = right_last
            first_of_row[right_last] = left_first

    rows = []
    row_first = 0
    while row_first < len(sequences):
        row_last = last_of_row[row_first]
        rows.append(sequences[row_first : row_last + 1])
        row_first = row_last + 1
    return rows


def _boundaries(sequences: Sequence[tuple[int, ...]], base: int) -> list[_Boundary]:
    """Return the boundaries between neighbouring sequences, those first where the neighbours share most.

    Args:
        sequences: Token sequences, sorted and distinct.
        base: Length of the prefix with which all of them begin.
    """
    boundaries = []
    for index, (left, right) in enumerate(pairwise(sequences), start=1):
        boundaries.append(_Boundary(index, shared=shared_length(left, right) - base))
    boundaries.sort(key=lambda boundary: (-boundary.shared, boundary.index))
    return boundaries
