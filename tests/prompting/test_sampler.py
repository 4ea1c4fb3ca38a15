"""Which demonstrations stand before which query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC.prompting.sampling
from StaICC.errors import ArgumentError
from StaICC.prompting import StableRandom, check_demonstration_lists, restrict_to_domain, sample_demonstrations

LABELS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 20))
def test_lists_come_one_after_the_other_from_one_generator(pool: int, k: int, prompts: int) -> None:
    generator = StableRandom()
    expected = tuple(tuple(generator.sample_indexes(pool, k)) for _ in range(prompts))
    assert sample_demonstrations(pool, k, prompts) == expected


def test_a_shorter_run_has_the_first_lists_of_a_longer_one() -> None:
    assert sample_demonstrations(100, 4, 50) == sample_demonstrations(100, 4, 200)[:50]


def test_more_demonstrations_than_there_are_repeat_instead_of_vanishing() -> None:
    """The release returns zeros as if measured there (defect 13)."""
    (positions,) = sample_demonstrations(3, 8, 1)
    assert len(positions) == 8
    assert set(positions) <= {0, 1, 2}


def naive_restricted(
    k: int, queries: Sequence[int], labels: Sequence[int], inside: bool
) -> tuple[tuple[int, ...], ...]:
    """The rule as the reference words it: mark what does not fit, then redraw each, in order, until it fits."""
    generator = StableRandom()
    drawn = [generator.sample_indexes(len(labels), k) for _ in queries]
    for number, own in enumerate(queries):
        while (own in [labels[position] for position in drawn[number]]) != inside:
            drawn[number] = generator.sample_indexes(len(labels), k)
    return tuple(map(tuple, drawn))


def feasible(k: int, queries: Sequence[int], labels: Sequence[int], inside: bool) -> bool:
    for own in set(queries):
        others = [label for label in labels if label != own]
        if inside and (own not in labels or k == 0):
            return False
        if not inside and (not others if k > len(labels) else len(others) < k):
            return False
    return True


@given(st.integers(0, 4), LABELS, LABELS, st.booleans())
def test_domain_modes_are_the_rule_of_the_reference(
    k: int, labels: list[int], queries: list[int], inside: bool
) -> None:
    def draw() -> Any:
        return restrict_to_domain(len(labels), k, queries, labels.__getitem__, inside, "own")

    if feasible(k, queries, labels, inside):
        lists = draw()
        assert lists == naive_restricted(k, queries, labels, inside)
        for own, positions in zip(queries, lists, strict=True):
            assert (own in [labels[position] for position in positions]) == inside
    else:
        mode = "in" if inside else "out-of"
        with pytest.raises(ArgumentError, match=f"{mode}-domain mode cannot succeed on own"):
            draw()


@pytest.mark.parametrize("inside", [True, False])
def test_the_last_draw_that_is_allowed_counts(inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [0] * 12 + [1] * 2 if inside else [0] * 3 + [1] * 9
    own, k = (1, 1) if inside else (1, 2)
    generator = StableRandom()
    needed = 0
    while (own in [labels[position] for position in generator.sample_indexes(len(labels), k)]) is not inside:
        needed += 1
    assert needed > 3
    monkeypatch.setattr(StaICC.prompting.sampling, "_MOST_REDRAWS", needed)
    (positions,) = restrict_to_domain(len(labels), k, [own], labels.__getitem__, inside, "enough")
    assert (own in [labels[position] for position in positions]) is inside
    monkeypatch.setattr(StaICC.prompting.sampling, "_MOST_REDRAWS", needed - 1)
    mode = "in" if inside else "out-of"
    with pytest.raises(ArgumentError, match=f"^{mode}-domain mode on too few: {needed - 1} draws of k = {k} demonstr"):
        restrict_to_domain(len(labels), k, [own], labels.__getitem__, inside, "too few")


# -- demonstrations chosen by hand


def test_lists_by_hand_are_taken_as_they_are() -> None:
    assert check_demonstration_lists([[0, 1], (2, 2)], 2, 2, 3) == ((0, 1), (2, 2))
    assert check_demonstration_lists([[]], 1, 0, 3) == ((),)


NO_LIST = "must be a list of lists"
BAD = [
    *((None, NO_LIST), (iter([[0, 1]]), NO_LIST), ({(0, 1), (1, 2)}, NO_LIST), ([[0, 1], 7], NO_LIST)),
    ("ab", "row 0 of the sampler has 1 positions"),
    ([[0, 1]], "the sampler has 1 rows, expected one for each of the 2 test rows"),
    ([[0, 1]] * 3, "the sampler has 3 rows"),
    ([[0, 1], [0]], "row 1 of the sampler has 1 positions, expected k = 2 (set_k changes k)"),
    ([[0, 1, 2], [0, 1]], "row 0 of the sampler has 3 positions"),
    ([[0, 1], [0, 3]], "row 1 of the sampler: a demonstration must be an integer from 0 to 2, not 3"),
    ([[0, 1], [True, 1]], "row 1 of the sampler: a demonstration must be an integer from 0 to 2, not True"),
    *(
        ([[bad, 1], [0, 1]], f"row 0 of the sampler: a demonstration must be an integer from 0 to 2, not {bad!r}")
        for bad in (-1, 0.0, "0", None)
    ),
    (["ab", [0, 1]], "not 'a'"),
]


@pytest.mark.parametrize(("sampler", "message"), BAD)
def test_bad_lists_are_refused_naming_the_first_bad_row(sampler: Any, message: str) -> None:
    """The release accepts ragged lists (defect 11)."""
    with pytest.raises(ArgumentError, match=re.escape(message)):
        check_demonstration_lists(sampler, 2, 2, 3)
