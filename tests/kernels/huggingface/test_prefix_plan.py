"""The plan covers every sequence exactly once, shares what it may, and is what a brute-force trie says."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.token_trie import distinct_positions

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=14)


class PlannedSequence(NamedTuple):
    """A sequence of tokens, and where a plan computes it.

    Attributes:
        tokens: The tokens of the sequence.
        first_wanted: Its first position whose output is wanted.
        row: The row of the plan that has the sequence.
        wanted_positions: The positions in this row whose outputs belong to the sequence.
        path: The positions in this row from the root of its tree to the last token of the sequence.
    """

    tokens: tuple
    first_wanted: int
    row: Any
    wanted_positions: list
    path: list


def positions_from_root_to(row, position):
    """Return the positions of a row that are on the path of its tree from the root to a position.

    The parent of a position is the last one before it that is less deep.
    """
    path = [position]
    for earlier in reversed(range(position)):
        first_of_path = path[0]
        if row.depths[earlier] < row.depths[first_of_path]:
            path.insert(0, earlier)
    return path


class Plan(NamedTuple):
    """Sequences of tokens, and the rows in which a kernel computes them.

    Attributes:
        sequences: The tokens of each sequence.
        first_wanted: The first position of each sequence whose output is wanted.
        row_tokens: How many tokens a row may have, if it has several sequences.
        rows: The rows of the plan.
    """

    sequences: list
    first_wanted: list
    row_tokens: int
    rows: list

    def planned_sequences(self):
        """Return each sequence with its place in a row."""
        planned = []
        for row in self.rows:
            for index, wanted_positions in row.wanted_positions.items():
                path = positions_from_root_to(row, wanted_positions[-1])
                place = (row, list(wanted_positions), path)
                planned.append(PlannedSequence(self.sequences[index], self.first_wanted[index], *place))
        return planned


@st.composite
def plans(draw):
    """Draw sequences and options of a kernel, and return the plan that it makes for them."""
    sequences = draw(SEQUENCES)
    first_wanted = [draw(st.integers(0, len(sequence) - 1)) for sequence in sequences]
    row_tokens = draw(st.sampled_from([0, 1, 4, 9, 100]))
    attention_weight = draw(st.sampled_from([0.0, 0.01, 1.0]))
    cost_of_a_row = draw(st.sampled_from([0.0, 50.0]))

    runner = BatchRunner(SimpleNamespace(capabilities=SimpleNamespace(attention_weight=attention_weight)), row_tokens)
    runner.cache_from = draw(st.sampled_from([math.inf, 1, 2, 5]))
    runner.prefix_in_cache = draw(st.sampled_from([(), sequences[0], (0, 1, 0, 1, 1, 0)]))
    rows = runner.plan_rows(sequences, first_wanted, range(len(sequences)), True, cost_of_a_row)
    return Plan(sequences, first_wanted, row_tokens, list(rows))


@settings(max_examples=300)
@given(plans())
def test_every_sequence_is_in_one_row(plan):
    """The keys of ``wanted_positions`` are the indexes of the sequences of a row."""
    indexes_in_rows = []
    for row in plan.rows:
        indexes_in_rows += row.wanted_positions.keys()
    assert sorted(indexes_in_rows) == list(range(len(plan.sequences)))


@settings(max_examples=300)
@given(plans())
def test_a_sequence_is_the_cached_prefix_of_its_row_and_the_tokens_of_one_path(plan):
    """A row is a tree of tokens; a sequence continues the cached prefix on the path that ends at its last position."""
    for planned in plan.planned_sequences():
        tokens_of_path = tuple(planned.row.tokens[position] for position in planned.path)
        assert planned.row.prefix + tokens_of_path == planned.tokens


@settings(max_examples=300)
@given(plans())
def test_the_depth_of_a_token_in_its_row_is_its_index_in_the_sequence(plan):
    for planned in plan.planned_sequences():
        depths_of_path = [planned.row.depths[position] for position in planned.path]
        first_depth = len(planned.row.prefix)
        assert depths_of_path == list(range(first_depth, len(planned.tokens)))


@settings(max_examples=300)
@given(plans())
def test_the_positions_of_a_sequence_are_wanted_from_the_first_wanted_one_on(plan):
    for planned in plan.planned_sequences():
        n_cached = len(planned.row.prefix)
        assert n_cached <= planned.first_wanted, "the outputs of cached positions are gone"
        assert planned.wanted_positions == planned.path[planned.first_wanted - n_cached :]


@settings(max_examples=300)
@given(plans())
def test_a_row_of_several_sequences_is_within_the_limit(plan):
    """Equal sequences count as one: they end at the same position."""
    for row in plan.rows:
        ends_of_sequences = {wanted_positions[-1] for wanted_positions in row.wanted_positions.values()}
        if len(ends_of_sequences) > 1:
            assert len(row.tokens) <= plan.row_tokens


def rows_with_free_attention(sequences):
    """Return the rows of sequences where pairs of positions that are masked out cost nothing."""
    runner = BatchRunner(SimpleNamespace(capabilities=SimpleNamespace(attention_weight=0.0)), 10_000)
    return runner.plan_rows(sequences, [0] * len(sequences), range(len(sequences)), True)


@given(SEQUENCES)
def test_free_attention_computes_every_prefix_once(sequences):
    computed_tokens = sum(len(row.tokens) for row in rows_with_free_attention(sequences))

    assert computed_tokens == len(prefixes_of(sequences))


@given(SEQUENCES)
def test_distinct_positions_are_the_prefixes_of_all_sequences(sequences):
    assert distinct_positions(sequences) == len(prefixes_of(sequences))


def prefixes_of(sequences):
    """Return all prefixes of sequences; the sequences themselves are among them."""
    prefixes = set()
    for sequence in sequences:
        for end in range(1, len(sequence) + 1):
            prefixes.add(sequence[:end])
    return prefixes


@given(SEQUENCES)
def test_a_row_is_unbranched_if_each_position_is_deeper_by_one(sequences):
    for row in rows_with_free_attention(sequences):
        first_depth = len(row.prefix)
        is_deeper_by_one = list(row.depths) == list(range(first_depth, first_depth + len(row.tokens)))
        assert row.is_unbranched is is_deeper_by_one


@given(SEQUENCES)
def test_the_ancestors_of_a_position_are_those_in_whose_subtree_it_is(sequences):
    for row in rows_with_free_attention(sequences):
        ends = row.subtree_ends()
        for position in range(len(row.tokens)):
            ancestors = [earlier for earlier in range(position + 1) if position < ends[earlier]]
            assert positions_from_root_to(row, position) == ancestors
