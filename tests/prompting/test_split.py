"""The triplet split and the views on its parts."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.datasets import Dataset, SplitSizes
from StaICC.errors import ArgumentError
from StaICC.prompting import Label, StableRandom, TripletSplit, split_dataset, split_indexes

PARTS = st.integers(0, 30)


@given(PARTS, PARTS, st.integers(1, 30), st.integers(0, 40))
def test_the_split_is_one_draw_cut_in_three(calibration: int, demonstration: int, test: int, spare: int) -> None:
    rows = calibration + demonstration + test + spare
    found = split_indexes(rows, SplitSizes(calibration, demonstration, test))
    assert (len(found.calibration), len(found.demonstration), len(found.test)) == (calibration, demonstration, test)
    together = [*found.calibration, *found.demonstration, *found.test]
    assert together == StableRandom().sample_indexes(rows, rows - spare)
    assert len(set(together)) == len(together)


def test_a_shorter_test_set_is_a_prefix_of_a_longer_one() -> None:
    short, long = split_indexes(100, SplitSizes(10, 20, 5)), split_indexes(100, SplitSizes(10, 20, 50))
    assert long.test[:5] == short.test
    assert (long.calibration, long.demonstration) == (short.calibration, short.demonstration)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the split needs 12 rows \(SplitSizes\(.*\)\), but the table has 11"):
        split_indexes(11, SplitSizes(4, 4, 4))


def test_the_parts_of_a_data_set(small: Callable[..., Dataset]) -> None:
    dataset = small(columns=2)
    split = split_dataset(dataset)
    assert [len(part) for part in (split.calibration, split.demonstration, split.test)] == [4, 20, 8]
    assert [part.name for part in (split.calibration, split.demonstration, split.test)] == [
        "small-calibration",
        "small-demonstration",
        "small-test",
    ]
    part = split.demonstration
    for place, (texts, label) in enumerate(part):
        row = dataset.table[part.indexes[place]]
        assert texts == list(row.texts) == part.get_input_text(place) == list(part.texts(place))
        assert label == row.label == part.label(place)
        assert label == part.get_label(place) == part.label_index_to_text(row.label)
        assert part.row(place) == row
    assert len(list(part)) == len(part)
    assert repr(part) == "<small-demonstration: 20 rows, labels no, yes, maybe>"


def test_what_the_readme_documents_of_a_set(triplet: TripletSplit) -> None:
    part = triplet.test
    texts, label = part[0]
    assert isinstance(texts, list)
    assert isinstance(label, int)
    assert part.label_index_to_text(2) == "maybe"
    assert part.find_index_from_label("yes") == 1
    assert part.get_label_space() == ["no", "yes", "maybe"]
    assert part.get_dataset_name() == "small-test"
    one, other = part.split([[0, 2], [5]])
    assert (len(one), len(other)) == (2, 1)
    assert one[1] == part[2]
    assert other[0] == part[5]
    assert part[-1] == part[len(part) - 1]


def test_changing_what_a_set_returns_does_not_change_the_set(triplet: TripletSplit) -> None:
    texts, _ = triplet.test[0]
    before = list(texts)
    texts.append("more")
    triplet.test.get_label_space().append("more")
    assert triplet.test[0][0] == before
    assert triplet.test.get_label_space() == ["no", "yes", "maybe"]


@pytest.mark.parametrize("index", [-1, 3, 99])
def test_an_index_outside_the_label_space_is_named(triplet: TripletSplit, index: int) -> None:
    with pytest.raises(ArgumentError, match=rf"label index {index} is outside the 3 labels of small-test"):
        triplet.test.label_index_to_text(index)


def test_an_unknown_label_is_named(triplet: TripletSplit) -> None:
    with pytest.raises(ArgumentError, match=r"'perhaps' is no label of small-test; labels: no, yes, maybe"):
        triplet.test.find_index_from_label("perhaps")


def test_a_position_beyond_the_set_ends_iteration_only(triplet: TripletSplit) -> None:
    with pytest.raises(IndexError):
        triplet.test[8]


# -- the label that is both


def test_a_label_is_its_index_and_equals_its_text() -> None:
    label = Label(1, "yes")
    assert label == 1
    assert label == "yes"
    assert label != 0
    assert label != "no"
    assert label != Label(0, "yes")
    assert ["no", "yes"][label] == "yes"
    assert ["no", "yes"].index(label) == 1
    assert (str(label), f"{label}", f"{label:>5}") == ("yes", "yes", "  yes")
    assert json.dumps([label]) == "[1]"
    assert {1: "found"}[label] == "found"
    assert sum([label, label]) == 2


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda label: pickle.loads(pickle.dumps(label))])
def test_a_copied_label_keeps_its_text(copied: Callable[[Label], Label]) -> None:
    label = copied(Label(2, "maybe"))
    assert (int(label), label.text, type(label)) == (2, "maybe", Label)
