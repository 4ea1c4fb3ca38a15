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

IndexesBySequence = Mapping[int, tuple[int, ...]]
"""By the index of a sequence in the run, the indexes of its wanted positions in a row or batch, in order."""


@dataclass(frozen=True, slots=True)
class _Boundary:
    """The boundary between a sequence and the one before.

    Attributes:
        index: The index of the sequence.
        shared: How many tokens after the cached prefix the two share.
    """

    index: int
    shared: int


@dataclass(slots=True)
class _RowRange:
    """A row of sequences that are neighbours in sorted order.

    Attributes:
        first: The index of the first sequence.
        end: The index after the last one.
        size: The number of positions of the row, without the cached prefix.
    """

    first: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class TrieRow:
    """A part of the trie, laid out depth first.

    Attributes:
        tokens: The token at each position of the row.
        depths: Position number of each token in its sequence, from 0.
        wanted_positions: By the index of a sequence in the run, its positions in this row whose states are wanted.
        prefix: Tokens before the row, whose keys and values are cached; empty for rows that start at the beginning.
    """

    tokens: Sequence[int]
    depths: Sequence[int]
    wanted_positions: IndexesBySequence
    prefix: tuple[int, ...] = ()

    @property
    def unbranched_length(self) -> int:
        """The number of positions before a second branch begins: up to there, the row is one plain sequence.

        In a plain sequence, each position is one deeper than the one before, and attends to all before it.
        """
        for index, depth in enumerate(self.depths):
            depth_in_plain_sequence = len(self.prefix) + index
            if depth != depth_in_plain_sequence:
                return index
        return len(self.depths)

    @property
    def is_unbranched(self) -> bool:
        """Whether the row is one plain sequence."""
        return self.unbranched_length == len(self.tokens)

    def subtree_ends(self) -> list[int]:
        """Return for each position of the row the index that follows the last position of its subtree.

        The subtree of a position is the position itself and all that continue it. So ``j`` is an ancestor of ``i``, or
        ``i`` itself, if and only if ``j <= i < ends[j]``.

        Example:
            >>> TrieRow(tokens=(5, 6, 7, 8), depths=(0, 1, 2, 1), wanted_positions={}).subtree_ends()
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


def without_last(sequences: Sequence[tuple[int, ...]], first_wanted: Sequence[int]) -> list[tuple[int, ...]]:
    """Return token sequences without their last token, whose hidden state predicts no token of the sequence.

    A sequence keeps its last token if that is the first position whose state is wanted.

    Args:
        sequences: Token sequences.
        first_wanted: For each sequence, the first position whose hidden state is wanted.
    """
    shortened = []
    for sequence, first_position in zip(sequences, first_wanted, strict=True):
        length = max(len(sequence) - 1, first_position + 1)
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
    indexes_by_sequence: Mapping[tuple[int, ...], Sequence[int]],
    first_wanted: Sequence[int],
    prefix: tuple[int, ...],
) -> TrieRow:
    """Return one row with the positions of token sequences after a common prefix, each distinct position once.

    Args:
        sequences: Token sequences, sorted and distinct. All of them begin with the prefix.
        indexes_by_sequence: The indexes of each sequence in the run, several where equal sequences are computed once.
        first_wanted: By index in the run, the first position whose hidden state is wanted, which is not in the prefix.
        prefix: The tokens before the row.

    Example:
        >>> lay_out([(1, 2, 3), (1, 2, 4)], {(1, 2, 3): [0], (1, 2, 4): [1]}, [1, 2], ())
        TrieRow(tokens=[1, 2, 3, 4], depths=[0, 1, 2, 2], wanted_positions={0: (1, 2), 1: (3,)}, prefix=())
    """
    tokens: list[int] = []
    depths: list[int] = []
    wanted_positions: dict[int, tuple[int, ...]] = {}
    # For each token of the current sequence after the prefix, its position in the row.
    positions_in_row: list[int] = []
    previous_sequence = prefix
    for sequence in sequences:
        # In sorted order, a sequence shares its beginning with the one before, whose tokens are in the row already.
        shared = shared_length(previous_sequence, sequence)
        shared_after_prefix = shared - len(prefix)
        del positions_in_row[shared_after_prefix:]
        # The tokens that follow are new: they are added at the end of the row.
        first_new_position = len(tokens)
        tokens += sequence[shared:]
        depths += range(shared, len(sequence))
        positions_in_row += range(first_new_position, len(tokens))
        for index in indexes_by_sequence[sequence]:
            first_wanted_after_prefix = first_wanted[index] - len(prefix)
            wanted_positions[index] = tuple(positions_in_row[first_wanted_after_prefix:])
        previous_sequence = sequence
    return TrieRow(tokens, depths, wanted_positions, prefix)


def grouped_into_rows(
    sequences: Sequence[tuple[int, ...]],
    prefix_length: int,
    row_tokens: int,
    attention_weight: float,
    row_cost: float,
) -> list[Sequence[tuple[int, ...]]]:
    """Divide sorted token sequences into rows that cost little to compute, and return the sequences of each row.

    At first, each sequence is a row. A greedy search visits the boundaries between neighbours, first the one where they
    share most, and joins the two rows on its sides if the joined row fits and costs less.

    Args:
        sequences: Token sequences, sorted and distinct.
        prefix_length: Length of the cached prefix with which all of them begin; its positions are in no row.
        row_tokens: Maximum number of positions of a row.
        attention_weight: Cost of one attended pair of positions, in units of one position outside attention.
        row_cost: Cost of one more row, in positions, where rows cannot be batched.
    """
    cost_of_call = row_cost
    if prefix_length > 0:
        cost_of_call += CALL_COST + prefix_length * CACHE_COPY_COST

    row_by_first: dict[int, _RowRange] = {}  # by the index of the first sequence, in ascending order
    row_by_end: dict[int, _RowRange] = {}  # by the index after the last sequence
    for index, sequence in enumerate(sequences):
        row = _RowRange(first=index, end=index + 1, size=len(sequence) - prefix_length)
        row_by_first[row.first] = row
        row_by_end[row.end] = row

    for boundary in _boundaries(sequences, prefix_length):
        if boundary.shared <= 0 and cost_of_call == 0:
            break  # nothing is gained here, nor at the boundaries that follow
        left = row_by_end[boundary.index]
        right = row_by_first[boundary.index]
        joined_size = left.size + right.size - boundary.shared
        saved_pairs = _saved_pairs(left.size, right.size, boundary.shared, prefix_length)
        # Two rows cost more than the joined one by the positions that they share, a call, and attended pairs.
        gain = boundary.shared + cost_of_call + attention_weight * saved_pairs
        if joined_size <= row_tokens and gain > 0:
            del row_by_end[left.end], row_by_first[right.first]
            left.end = right.end
            left.size = joined_size
            row_by_end[left.end] = left
    return [sequences[row.first : row.end] for row in row_by_first.values()]


def _saved_pairs(left: int, right: int, shared: int, prefix_length: int) -> int:
    """Return how many attended pairs of positions fewer there are if two rows are joined to one.

    A row of N positions after a prefix of P positions has ``N (N + P)`` pairs. With L and R positions that share S, the
    joined row has ``N = L + R - S`` positions, so that::

        L (L + P) + R (R + P) - N (N + P)  =  L L + R R + S P - N N

    Args:
        left: The number of positions L of the first row.
        right: The number of positions R of the second row.
        shared: The number of positions S that are in both.
        prefix_length: The length P of the cached prefix.
    """
    joined = left + right - shared
    return left * left + right * right + shared * prefix_length - joined * joined


def _boundaries(sequences: Sequence[tuple[int, ...]], prefix_length: int) -> list[_Boundary]:
    """Return the boundaries between neighbouring sequences, those first where the neighbours share most.

    Args:
        sequences: Token sequences, sorted and distinct.
        prefix_length: Length of the prefix with which all of them begin.
    """
    boundaries = []
    for index, (left, right) in enumerate(pairwise(sequences), start=1):
        boundaries.append(_Boundary(index, shared=shared_length(left, right) - prefix_length))
    boundaries.sort(key=lambda boundary: (-boundary.shared, boundary.index))
    return boundaries
