"""The triplet split and the views on its parts."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from operator import index

import numpy
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
    split = split_indexes(rows, SplitSizes(calibration, demonstration, test))
    assert (len(split.calibration), len(split.demonstration), len(split.test)) == (calibration, demonstration, test)
    together = [*split.calibration, *split.demonstration, *split.test]
    assert together == StableRandom().sample_indexes(rows, rows - spare)
    assert len(set(together)) == len(together)


def test_a_shorter_test_set_is_a_prefix_of_a_longer_one() -> None:
    short, long = split_indexes(100, SplitSizes(10, 20, 5)), split_indexes(100, SplitSizes(10, 20, 50))
    assert long.test[:5] == short.test
    assert (long.calibration, long.demonstration) == (short.calibration, short.demonstration)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the split needs 12 rows \(4\+4\+4\), but the table has 11"):
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
        assert index(label) == row.label == part.label(place)
        assert label == part.get_label(place) == part.label_index_to_text(row.label)
        assert part.row(place) == row
    assert len(list(part)) == len(part)
    assert repr(part) == "<small-demonstration: 20 rows, labels no, yes, maybe>"


# -- the label of a row: its text, with its index


def test_a_label_is_its_text() -> None:
    """As in 0.1.1, whose rows have labels of type str."""
    label = Label("person", 3)
    assert isinstance(label, str)
    assert {text: place for place, text in enumerate(["entity", "person"])}[label] == 1
    assert (str(label), type(str(label)), repr(label), f"{label:>8}") == ("person", str, "'person'", "  person")
    assert (json.dumps([label]), json.dumps({label: 1})) == ('["person"]', '{"person": 1}')


@pytest.mark.parametrize("text", ["1", "5", " 7 ", "-3", "0", "person", "", "1.5"])
def test_a_label_is_read_as_a_number_by_its_text(text: str) -> None:
    """As in 0.1.1: the names "1" to "5" are numbers, and none of them is its own index."""
    for read in (
        int,
        float,
        lambda text: list(numpy.array([text], dtype=int)),
        lambda text: numpy.array([text], float)[0],
    ):
        try:
            expected = read(text)
        except ValueError:
            with pytest.raises(ValueError, match=r"invalid literal|could not convert"):
                read(Label(text, 4))
        else:
            assert read(Label(text, 4)) == expected


def test_the_texts_of_a_row_are_read_as_a_list_and_refuse_a_change(triplet: TripletSplit) -> None:
    """0.1.1 writes prompts with changed texts; here the table is frozen, and no change is silently ignored."""
    texts, _ = triplet.test[0]
    assert texts == list(triplet.test.texts(0)) == triplet.test.get_input_text(0)
    assert isinstance(texts, list)
    assert json.dumps(texts) == json.dumps(list(texts))
    assert [*texts, "more"] == texts + ["more"]  # noqa: RUF005 - the operator is meant
    for row in (texts, triplet.test.get_input_text(0)):
        with pytest.raises(TypeError, match="this list is a copy, so changing it would have no effect"):
            row[0] = "XXX"
        with pytest.raises(TypeError, match="this list is a copy"):
            row.append("XXX")
    assert "XXX" not in triplet.test[0][0]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, *(lambda label, p=p: pickle.loads(pickle.dumps(label, p)) for p in range(6))]
)
def test_a_copied_label_keeps_its_index(copied: Callable[[Label], Label]) -> None:
    label = copied(Label("maybe", 2))
    assert (index(label), label, type(label)) == (2, "maybe", Label)


def test_a_stratified_split_rounds_half_up() -> None:
    labels = (0,) * 8 + (1,)
    split = split_indexes(9, SplitSizes(4, 1, 4, stratified=True), labels)
    assert [labels[row] for row in split.demonstration] == [1]
