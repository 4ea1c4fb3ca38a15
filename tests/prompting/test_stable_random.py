"""The frozen generator, against the release's numbers and against a naive implementation of the same words."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from StaICC.prompting import StableRandom

SEEDS = st.integers(0, 2**32 - 1)


def naive_states(seed: int, n: int) -> list[int]:
    states = []
    for _ in range(n):
        seed = (1664525 * seed + 1013904223) % 2**32
        states.append(seed)
    return states


def naive_sample(seed: int, population: list[Any], n: int) -> list[Any]:
    """The rule as the reference words it: take position int(float * len(rest)), remove it, keep the order."""
    rest = list(population)
    drawn = []
    for state in naive_states(seed, n):
        position = int(state / 2**32 * len(rest))
        drawn.append(rest[position])
        if n <= len(population):
            del rest[position]
    return drawn


def test_first_numbers_of_the_release(golden: dict[str, Any]) -> None:
    generator = StableRandom()
    assert [generator.random() * 2**32 for _ in range(20)] == golden["lcg_first_20"]
    assert StableRandom().sample_indexes(50, 50) == golden["shuffle_of_range_50"]
    assert StableRandom().sample_indexes(10, 12) == golden["sample_12_of_range_10_with_repetition"]


@given(SEEDS, st.integers(0, 50))
def test_states_and_floats(seed: int, n: int) -> None:
    states = naive_states(seed, n)
    other, third = StableRandom(seed), StableRandom(seed)
    floats = [other.random() for _ in range(n)]
    assert floats == [state / 2**32 for state in states]
    assert all(0 <= value < 1 for value in floats)
    assert list(third.floats(n)) == floats
    assert other.state == third.state == (states or [seed])[-1]


@given(SEEDS, st.integers(1, 200), st.integers(0, 250))
def test_sampling_is_the_rule_of_the_reference(seed: int, size: int, n: int) -> None:
    generator = StableRandom(seed)
    drawn = generator.sample_indexes(size, n)
    assert drawn == naive_sample(seed, list(range(size)), n)
    assert generator.state == [seed, *naive_states(seed, n)][-1]
    if n <= size:
        assert len(set(drawn)) == n


@given(SEEDS, st.integers(0, 50), st.integers(0, 100))
def test_integers_lie_in_the_half_open_range(seed: int, low: int, width: int) -> None:
    drawn = StableRandom(seed).integer(low, low + width)
    assert low <= drawn < low + width or (width == 0 and drawn == low)
    assert drawn == low + naive_states(seed, 1)[0] * width // 2**32


@given(SEEDS, st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 30))
def test_skipping_samples_draws_what_drawing_them_would(seed: int, refused: list[bool], n: int, most: int) -> None:
    fast, plain = StableRandom(seed), StableRandom(seed)
    passed = fast.skip_samples(refused, n, most)
    for _ in range(passed):
        assert refused[plain.sample_indexes(len(refused), n)[0]]
    assert fast.state == plain.state
    assert passed == most or not refused[plain.sample_indexes(len(refused), n)[0]]
