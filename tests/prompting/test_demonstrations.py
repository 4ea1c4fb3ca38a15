"""Which rows are in which part, which demonstrations are before which query, and queries without meaning."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable, Sequence
from itertools import chain, islice
from operator import index
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC import ContextualBias, DomainBias
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.table import MemoryTable
from StaICC.errors import ArgumentError
from StaICC.prompting import demonstrations
from StaICC.prompting.demonstrations import check_demonstration_lists, restrict_to_domain, sample_demonstrations
from StaICC.prompting.pseudo_queries import domain_queries, empty_queries, skip_query
from StaICC.prompting.split import split_indexes
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import Label, SubsetView, TripletSplit, split_dataset

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
    assert [value for value in floats if not (0 <= value < 1)] == []
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


# -- the triplet split and the views on its parts


PARTS = st.integers(0, 30)
PART_NAMES = ("calibration", "demonstration", "test")


@given(PARTS, PARTS, st.integers(1, 30), st.integers(0, 40))
def test_the_split_is_one_draw_cut_in_three(calibration: int, demonstration: int, test: int, spare: int) -> None:
    rows = calibration + demonstration + test + spare
    split = split_indexes(rows, SplitSizes(calibration, demonstration, test))
    assert (len(split.calibration), len(split.demonstration), len(split.test)) == (calibration, demonstration, test)
    together = [*split.calibration, *split.demonstration, *split.test]
    assert together == StableRandom().sample_indexes(rows, rows - spare)
    assert len(set(together)) == len(together)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the split needs 12 rows \(4\+4\+4\), but the table has 11"):
        split_indexes(11, SplitSizes(4, 4, 4))


def test_the_parts_of_a_data_set(small: Callable[..., Dataset]) -> None:
    dataset = small(columns=2)
    split = split_dataset(dataset)
    assert [len(part) for part in (split.calibration, split.demonstration, split.test)] == [4, 20, 8]
    assert [getattr(split, name).name for name in PART_NAMES] == [f"small-{name}" for name in PART_NAMES]
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
    for read in (int, float, lambda text: [*numpy.array([text], int)], lambda text: numpy.array([text], float)[0]):
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


# -- which demonstrations stand before which query


LABELS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 20))
def test_lists_come_one_after_the_other_from_one_generator(pool: int, k: int, prompts: int) -> None:
    generator = StableRandom()
    expected = tuple(tuple(generator.sample_indexes(pool, k)) for _ in range(prompts))
    assert sample_demonstrations(pool, k, prompts) == expected


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
        return restrict_to_domain(tuple(labels), k, tuple(queries), inside, "own")

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
    monkeypatch.setattr(demonstrations, "_MOST_REDRAWS", needed)
    (positions,) = restrict_to_domain(tuple(labels), k, (own,), inside, "enough")
    assert (own in [labels[position] for position in positions]) is inside
    monkeypatch.setattr(demonstrations, "_MOST_REDRAWS", needed - 1)
    mode = "in" if inside else "out-of"
    with pytest.raises(ArgumentError, match=f"^{mode}-domain mode on too few: {needed - 1} draws of k = {k} demonstr"):
        restrict_to_domain(tuple(labels), k, (own,), inside, "too few")


# -- demonstrations chosen by hand


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


# -- queries without meaning: empty ones, and random words of the domain


def view(rows: list[list[str]]) -> SubsetView:
    return SubsetView("own", MemoryTable([(texts, 0) for texts in rows]), range(len(rows)), ["only"])


ROWS = st.lists(
    st.lists(st.sampled_from("abc"), min_size=0, max_size=4).map(lambda words: [" ".join(words)]),
    min_size=1,
    max_size=8,
)


@given(ROWS, st.integers(0, 10))
def test_domain_queries_are_the_rule_of_the_reference(rows: list[list[str]], length: int) -> None:
    generator = StableRandom()
    expected = []
    for _ in range(3):
        words = []
        for _ in range(length):
            text = rows[generator.integer(0, len(rows) - 1)][0].split(" ")
            words.append(text[generator.integer(0, len(text) - 1)])
        expected.append((" ".join(words),))
    assert list(islice(domain_queries(view(rows), length), 3)) == expected


@given(st.integers(0, 3), st.integers(0, 10), st.integers(1, 2), st.integers(1, 3))
def test_queries_that_are_passed_over_change_no_other(skipped: int, length: int, columns: int, size: int) -> None:
    rows = view([texts[:columns] for texts in (["a b c", "d e"], ["f g h i", "j"], ["k", "l m"])[:size]])
    queries = domain_queries(rows, length)
    for _ in range(skipped):
        skip_query(queries)
    assert next(queries) == list(islice(domain_queries(rows, length), skipped + 1))[-1]
    others = chain([("own",)], empty_queries(2 * columns))
    skip_query(others)
    assert next(others) == ("",) * 2 * columns


@pytest.mark.parametrize("kind", [ContextualBias, DomainBias])
def test_a_benchmark_that_wrote_its_prompts_is_copied_and_pickled(kind: Any) -> None:
    experimentor = kind(datasets=["mini"], limit=2)[0]
    experimentor.prompt_former.write_prompt([0])
    copies = [copy.deepcopy(experimentor), pickle.loads(pickle.dumps(experimentor)), experimentor]
    written = [made.prompt_former.write_prompt([0]) for made in copies]  # the next query, not the first again
    assert written == written[:1] * 3
    assert (written[0] != kind(datasets=["mini"])[0].prompt_former.write_prompt([0])) is (kind is DomainBias)
