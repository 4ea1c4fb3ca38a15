"""The plan covers every sequence exactly once, shares what it may, and is what a brute-force trie says."""

from __future__ import annotations

import math
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.token_trie import distinct_positions

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=14)


def path_of(row, place):
    """The place of a row and those above it: each is the last one before that is less deep."""
    path = [place]
    for before in reversed(range(place)):
        if row.depths[before] < row.depths[path[0]]:
            path.insert(0, before)
    return path


def check(sequences, rows, wanted):
    seen = []
    for row in rows:
        base = len(row.prefix)
        for number, places in row.picks.items():
            seen.append(number)
            path = path_of(row, places[-1])
            assert row.prefix + tuple(row.tokens[i] for i in path) == sequences[number]
            assert [row.depths[i] for i in path] == list(range(base, len(sequences[number])))
            assert base <= wanted[number]
            assert list(places) == path[wanted[number] - base :]
    assert sorted(seen) == list(range(len(sequences)))


@settings(max_examples=300)
@given(SEQUENCES, st.data())
def test_every_sequence_is_answered_once_and_whole(sequences, data):
    wanted = [data.draw(st.integers(0, len(sequence) - 1)) for sequence in sequences]
    row_tokens = data.draw(st.sampled_from([0, 1, 4, 9, 100]))
    can = SimpleNamespace(attention_weight=data.draw(st.sampled_from([0.0, 0.01, 1.0])))
    runner = BatchRunner(SimpleNamespace(can=can), row_tokens)
    runner.cache_from = data.draw(st.sampled_from([math.inf, 1, 2, 5]))
    runner.prefix_in_cache = data.draw(st.sampled_from([(), sequences[0], (0, 1, 0, 1, 1, 0)]))
    rows = runner.plan(sequences, wanted, range(len(sequences)), True, data.draw(st.sampled_from([0.0, 50.0])))
    check(sequences, rows, wanted)
    for row in rows:
        assert len({places[-1] for places in row.picks.values()}) == 1 or len(row.tokens) <= row_tokens


@given(SEQUENCES)
def test_free_attention_computes_every_prefix_once_and_subtrees_are_what_the_depths_say(sequences):
    runner = BatchRunner(SimpleNamespace(can=SimpleNamespace(attention_weight=0.0)), 10_000)
    rows = runner.plan(sequences, [0] * len(sequences), range(len(sequences)), True)
    computed = sum(len(row.tokens) for row in rows)
    prefixes = {sequence[:end] for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert computed == distinct_positions(sequences) == len(prefixes)
    for row in rows:
        assert row.is_chain is (list(row.depths) == list(range(len(row.prefix), len(row.prefix) + len(row.tokens))))
        ends = row.subtree_ends()
        for i in range(len(row.tokens)):
            assert path_of(row, i) == [j for j in range(len(row.tokens)) if j <= i < ends[j]]
