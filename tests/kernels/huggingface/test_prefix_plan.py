"""The plan covers every sequence exactly once, shares what it may, and is what a brute-force trie says."""

from __future__ import annotations

import math
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.token_trie import distinct_positions

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=14)


def path_to(row, index):
    """Return the indexes of a position of a row and of its ancestors, from the first one on.

    The parent of a position is the last one before it that is less deep.
    """
    path = [index]
    for earlier in reversed(range(index)):
        if row.depths[earlier] < row.depths[path[0]]:
            path.insert(0, earlier)
    return path


def assert_rows_have_every_sequence_once(sequences, rows, first_wanted):
    """Check that a row has each sequence on one path, and picks its positions from the first wanted one on."""
    numbers = []
    for row in rows:
        cached = len(row.prefix)
        for number, picked in row.wanted_positions.items():
            sequence = sequences[number]
            path = path_to(row, picked[-1])
            assert row.prefix + tuple(row.tokens[index] for index in path) == sequence
            assert [row.depths[index] for index in path] == list(range(cached, len(sequence)))
            assert cached <= first_wanted[number]
            assert list(picked) == path[first_wanted[number] - cached :]
            numbers.append(number)
    assert sorted(numbers) == list(range(len(sequences)))


@st.composite
def planned_rows(draw):
    """Draw sequences, the first wanted position of each, the size of rows, and the rows of any plan for them."""
    sequences = draw(SEQUENCES)
    first_wanted = [draw(st.integers(0, len(sequence) - 1)) for sequence in sequences]
    row_tokens = draw(st.sampled_from([0, 1, 4, 9, 100]))
    capabilities = SimpleNamespace(attention_weight=draw(st.sampled_from([0.0, 0.01, 1.0])))
    runner = BatchRunner(SimpleNamespace(capabilities=capabilities), row_tokens)
    runner.cache_from = draw(st.sampled_from([math.inf, 1, 2, 5]))
    runner.prefix_in_cache = draw(st.sampled_from([(), sequences[0], (0, 1, 0, 1, 1, 0)]))
    rows = runner.plan_rows(sequences, first_wanted, range(len(sequences)), True, draw(st.sampled_from([0.0, 50.0])))
    return sequences, first_wanted, row_tokens, rows


@settings(max_examples=300)
@given(planned_rows())
def test_rows_have_every_sequence_once_and_whole(plan):
    sequences, first_wanted, _, rows = plan
    assert_rows_have_every_sequence_once(sequences, rows, first_wanted)


@settings(max_examples=300)
@given(planned_rows())
def test_a_row_is_longer_than_its_limit_only_for_a_single_sequence(plan):
    """Equal sequences count as one."""
    _, _, row_tokens, rows = plan
    for row in rows:
        last_positions = {picked[-1] for picked in row.wanted_positions.values()}
        assert len(last_positions) == 1 or len(row.tokens) <= row_tokens


def plan_with_free_attention(sequences):
    """Return the rows of sequences where pairs of positions that are masked out cost nothing."""
    runner = BatchRunner(SimpleNamespace(capabilities=SimpleNamespace(attention_weight=0.0)), 10_000)
    return runner.plan_rows(sequences, [0] * len(sequences), range(len(sequences)), True)


@given(SEQUENCES)
def test_free_attention_computes_every_prefix_once(sequences):
    rows = plan_with_free_attention(sequences)
    prefixes = {sequence[:end] for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert sum(len(row.tokens) for row in rows) == len(prefixes)
    assert distinct_positions(sequences) == len(prefixes)


@given(SEQUENCES)
def test_a_row_is_a_chain_if_each_position_is_deeper_by_one(sequences):
    for row in plan_with_free_attention(sequences):
        one_sequence = range(len(row.prefix), len(row.prefix) + len(row.tokens))
        assert row.is_unbranched is (list(row.depths) == list(one_sequence))


@given(SEQUENCES)
def test_the_ancestors_of_a_position_are_those_in_whose_subtree_it_is(sequences):
    for row in plan_with_free_attention(sequences):
        ends = row.subtree_ends()
        for index in range(len(row.tokens)):
            in_subtree_of = [ancestor for ancestor in range(index + 1) if index < ends[ancestor]]
            assert path_to(row, index) == in_subtree_of
