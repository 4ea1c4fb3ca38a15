from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import Tally, accuracy_by_position, label_positions
from StaICC.benchmarks.long_icl.data.items import EntityItem, TextItem
from StaICC.errors import ArgumentError, UnknownNameError

orders = st.lists(st.sampled_from("abcd"), min_size=1, max_size=30)


def right(label: str) -> Tally:
    return Tally((label,), (label,), (label,))


def wrong(label: str) -> Tally:
    return Tally((label,), (), ())


@given(orders)
def test_positions_cover_the_context(order: list[str]) -> None:
    positions = label_positions(TextItem(i, "", label) for i, label in enumerate(order))
    assert sorted(place for places in positions.values() for place in places) == [*range(1, len(order) + 1)]


def test_a_demonstration_with_a_label_twice_has_one_place() -> None:
    item = EntityItem(0, "", (("x", "art-film"), ("y", "art-film"), ("z", "other-god")))
    assert label_positions([item, item]) == {"art-film": (1, 2), "other-god": (1, 2)}


@given(orders, st.lists(st.tuples(st.sampled_from("abcde"), st.booleans())), st.data())
def test_against_fractions(order: list[str], answers: list[tuple[str, bool]], data: st.DataObject) -> None:
    """Each item lies in the part of the context where its label's place lies, counted with fractions."""
    from fractions import Fraction

    positions = label_positions(TextItem(i, "", label) for i, label in enumerate(order))
    bins = data.draw(st.integers(1, len(order)))
    place = data.draw(st.sampled_from(["first", "mean", "last"]))
    found = accuracy_by_position(
        [right(label) if good else wrong(label) for label, good in answers], positions, bins=bins, place=place
    )
    gold, correct = [0] * bins, [0] * bins
    for label, good in answers:
        if label in positions:
            places = positions[label]
            own = {
                "first": Fraction(places[0]),
                "last": Fraction(places[-1]),
                "mean": Fraction(sum(places), len(places)),
            }
            part = int((own[place] - Fraction(1, 2)) * bins / len(order))
            gold[part] += 1
            correct[part] += good
    assert [one.gold for one in found] == gold
    assert [one.correct for one in found] == correct
    assert [one.accuracy for one in found] == [c / g if g else None for c, g in zip(correct, gold, strict=True)]
    assert found[0].start == 1
    assert found[-1].end == len(order)
    assert all(before.end + 1 == after.start for before, after in pairwise(found))


@pytest.mark.parametrize("bins", [0, 4, -1, True, 1.5])
def test_bins(bins: Any) -> None:
    with pytest.raises(ArgumentError, match="from 1 to the number of demonstrations, 3"):
        accuracy_by_position([], {"a": (1, 3), "b": (2,)}, bins=bins)


def test_other_refusals() -> None:
    with pytest.raises(ArgumentError, match="the number of demonstrations, 0"):
        accuracy_by_position([], {}, bins=1)
    with pytest.raises(UnknownNameError, match="first, mean, last"):
        accuracy_by_position([], {"a": (1,)}, bins=1, place="median")
