"""Which rows are in which part, which demonstrations are before which query, and queries without meaning."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import index
from typing import Any

import numpy
import pytest
from hypothesis import assume, given
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
    """Return the next ``n`` states of the generator after a seed, from its recurrence."""
    states = []
    for _ in range(n):
        seed = (1664525 * seed + 1013904223) % 2**32
        states.append(seed)
    return states


def naive_sample(seed: int, population: list[Any], n: int) -> list[Any]:
    """Return a sample by the rule of the reference: take item int(float * len(rest)), remove it, keep the order."""
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
def test_floats_are_the_states_over_their_modulus(seed: int, n: int) -> None:
    generator = StableRandom(seed)

    floats = [generator.random() for _ in range(n)]

    assert floats == [state / 2**32 for state in naive_states(seed, n)]
    assert generator.state == [seed, *naive_states(seed, n)][-1]


@given(SEEDS, st.integers(0, 50))
def test_many_floats_are_those_drawn_one_by_one(seed: int, n: int) -> None:
    at_once = StableRandom(seed)
    one_by_one = StableRandom(seed)

    assert list(at_once.floats(n)) == [one_by_one.random() for _ in range(n)]
    assert at_once.state == one_by_one.state


@given(SEEDS, st.integers(1, 200), st.integers(0, 250))
def test_sampling_is_the_rule_of_the_reference(seed: int, size: int, n: int) -> None:
    generator = StableRandom(seed)

    drawn = generator.sample_indexes(size, n)

    assert drawn == naive_sample(seed, list(range(size)), n)
    assert generator.state == [seed, *naive_states(seed, n)][-1]


@given(SEEDS, st.integers(0, 200))
def test_a_sample_of_everything_is_a_permutation(seed: int, size: int) -> None:
    drawn = StableRandom(seed).sample_indexes(size, size)

    assert sorted(drawn) == list(range(size))


@given(SEEDS, st.integers(0, 50), st.integers(1, 100))
def test_integers_are_in_the_half_open_range(seed: int, low: int, width: int) -> None:
    drawn = StableRandom(seed).integer(low, low + width)

    assert low <= drawn < low + width
    assert drawn == low + naive_states(seed, 1)[0] * width // 2**32


def test_an_integer_of_an_empty_range_is_its_lower_bound() -> None:
    assert StableRandom().integer(7, 7) == 7


@given(SEEDS, st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 30))
def test_skipping_samples_moves_the_generator_as_drawing_them_would(
    seed: int, refused: list[bool], sample_size: int, most: int
) -> None:
    skipping = StableRandom(seed)
    drawing = StableRandom(seed)

    skipped = skipping.skip_samples(refused, sample_size, most)

    for _ in range(skipped):
        drawing.sample_indexes(len(refused), sample_size)
    assert skipping.state == drawing.state


@given(SEEDS, st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 30))
def test_samples_are_skipped_up_to_the_first_that_is_not_refused(
    seed: int, refused: list[bool], sample_size: int, most: int
) -> None:
    skipped = StableRandom(seed).skip_samples(refused, sample_size, most)

    generator = StableRandom(seed)
    samples = [generator.sample_indexes(len(refused), sample_size) for _ in range(most)]
    is_refused = [refused[sample[0]] for sample in samples]
    assert is_refused[:skipped] == [True] * skipped
    assert is_refused[skipped : skipped + 1] in ([], [False])


# -- the triplet split and the views on its parts


PARTS = st.integers(0, 30)


@given(PARTS, PARTS, st.integers(1, 30), st.integers(0, 40))
def test_the_split_is_one_draw_cut_in_three(calibration: int, demonstration: int, test: int, spare: int) -> None:
    used = calibration + demonstration + test
    sizes = SplitSizes(calibration, demonstration, test)

    split = split_indexes(used + spare, sizes)

    drawn = StableRandom().sample_indexes(used + spare, used)
    assert list(split.calibration) == drawn[:calibration]
    assert list(split.demonstration) == drawn[calibration : calibration + demonstration]
    assert list(split.test) == drawn[calibration + demonstration :]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the split needs 12 rows \(4\+4\+4\), but the table has 11"):
        split_indexes(11, SplitSizes(4, 4, 4))


def test_each_part_of_a_data_set_has_its_name_and_size(small: Callable[..., Dataset]) -> None:
    split = split_dataset(small())

    assert (split.calibration.name, len(split.calibration)) == ("small-calibration", 4)
    assert (split.demonstration.name, len(split.demonstration)) == ("small-demonstration", 20)
    assert (split.test.name, len(split.test)) == ("small-test", 8)
    assert repr(split.demonstration) == "<small-demonstration: 20 rows, labels no, yes, maybe>"


def test_a_part_has_the_rows_of_the_table_at_its_indexes(small: Callable[..., Dataset]) -> None:
    dataset = small(columns=2)

    part = split_dataset(dataset).demonstration

    rows_of_table = [dataset.table[index] for index in part.indexes]
    assert [part.row(position) for position in range(20)] == rows_of_table
    assert [texts for texts, _ in part] == [list(row.texts) for row in rows_of_table]
    assert [index(label) for _, label in part] == [row.label for row in rows_of_table]


def test_the_getters_of_a_part_return_the_texts_and_the_label_of_a_row(triplet: TripletSplit) -> None:
    part = triplet.demonstration
    for position, (texts, label) in enumerate(part):
        assert part.get_input_text(position) == texts
        assert list(part.texts(position)) == texts
        assert part.get_label(position) == label
        assert part.label(position) == index(label)
        assert part.label_index_to_text(index(label)) == label


# -- the label of a row: its text, with its index


def test_a_label_is_its_text() -> None:
    """As in 0.1.1, whose rows have labels of type str."""
    label = Label("person", 3)

    assert isinstance(label, str)
    assert label == "person"
    assert {"entity": 0, "person": 1}[label] == 1
    assert type(str(label)) is str


def test_a_label_is_written_as_its_text() -> None:
    label = Label("person", 3)

    assert repr(label) == "'person'"
    assert f"{label:>8}" == "  person"
    assert json.dumps([label]) == '["person"]'
    assert json.dumps({label: 1}) == '{"person": 1}'


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("5", 5), (" 7 ", 7), ("-3", -3), ("0", 0)])
def test_a_label_with_the_name_of_a_number_is_read_as_that_number(text: str, number: int) -> None:
    """As in 0.1.1: what counts is the name, and not the index, which is 4 here."""
    label = Label(text, 4)

    assert int(label) == number
    assert float(label) == number
    assert numpy.array([label], int).tolist() == [number]
    assert numpy.array([label], float).tolist() == [number]


@pytest.mark.parametrize("text", ["person", ""])
def test_a_label_with_another_name_is_no_number(text: str) -> None:
    label = Label(text, 4)

    with pytest.raises(ValueError, match="invalid literal for int"):
        int(label)
    with pytest.raises(ValueError, match="could not convert"):
        float(label)
    with pytest.raises(ValueError, match="invalid literal for int"):
        numpy.array([label], int)


def test_a_label_with_the_name_of_a_fraction_is_no_integer() -> None:
    label = Label("1.5", 4)

    assert float(label) == 1.5
    with pytest.raises(ValueError, match="invalid literal for int"):
        int(label)


def test_the_texts_of_a_row_are_a_list(triplet: TripletSplit) -> None:
    texts, _ = triplet.test[0]

    assert isinstance(texts, list)
    assert texts == list(triplet.test.texts(0))
    assert json.loads(json.dumps(texts)) == texts
    assert texts + ["more"] == [*triplet.test.texts(0), "more"]  # noqa: RUF005 - the operator is meant


def test_the_texts_of_a_row_cannot_be_changed(triplet: TripletSplit) -> None:
    """0.1.1 writes prompts with changed texts; here the table is frozen, and no change is silently ignored."""
    for texts in (triplet.test[0][0], triplet.test.get_input_text(0)):
        with pytest.raises(TypeError, match="this list is a copy, so changing it would have no effect"):
            texts[0] = "XXX"
        with pytest.raises(TypeError, match="this list is a copy, so changing it would have no effect"):
            texts.append("XXX")
        assert "XXX" not in texts


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copied_label_keeps_its_index(copied: Callable[[Label], Label]) -> None:
    label = copied(Label("maybe", 2))

    assert type(label) is Label
    assert label == "maybe"
    assert index(label) == 2


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_label_keeps_its_index(protocol: int) -> None:
    label = pickle.loads(pickle.dumps(Label("maybe", 2), protocol))

    assert type(label) is Label
    assert label == "maybe"
    assert index(label) == 2


def test_a_stratified_split_rounds_half_up() -> None:
    """Label 1 has 1 of 9 rows."""
    labels = (0, 0, 0, 0, 0, 0, 0, 0, 1)

    split = split_indexes(9, SplitSizes(4, 1, 4, stratified=True), labels)

    assert [labels[row] for row in split.demonstration] == [1]


# -- which demonstrations are before which query


LABELS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 20))
def test_lists_come_one_after_the_other_from_one_generator(pool_size: int, k: int, n_prompts: int) -> None:
    lists = sample_demonstrations(pool_size, k, n_prompts)

    generator = StableRandom()
    assert len(lists) == n_prompts
    for positions in lists:
        assert list(positions) == generator.sample_indexes(pool_size, k)


def contains_label(positions: Sequence[int], labels: Sequence[int], label: int) -> bool:
    """Return whether a demonstration at one of these positions has the label."""
    return label in [labels[position] for position in positions]


def naive_restricted(
    k: int, query_labels: Sequence[int], labels: Sequence[int], inside: bool
) -> tuple[tuple[int, ...], ...]:
    """Return lists by the rule of the reference: draw all, then redraw each that does not fit, in order, until it fits.

    Args:
        k: Demonstrations per query.
        query_labels: The label of each query.
        labels: The label of each demonstration.
        inside: Whether the label of the query must be (``True``) or must not be among those of its demonstrations.
    """
    generator = StableRandom()
    drawn = [generator.sample_indexes(len(labels), k) for _ in query_labels]
    for number, query_label in enumerate(query_labels):
        while contains_label(drawn[number], labels, query_label) != inside:
            drawn[number] = generator.sample_indexes(len(labels), k)
    return tuple(map(tuple, drawn))


def is_feasible(k: int, query_label: int, labels: Sequence[int], inside: bool) -> bool:
    """Return whether ``k`` demonstrations can be drawn that contain (inside), or do not contain, the label of a query.

    If ``k`` is larger than the number of demonstrations, they are drawn with repetition.
    """
    with_label = labels.count(query_label)
    without_label = len(labels) - with_label
    if inside:
        return k > 0 and with_label > 0
    if k > len(labels):
        return without_label > 0
    return without_label >= k


@given(st.integers(0, 4), LABELS, LABELS, st.booleans())
def test_domain_modes_are_the_rule_of_the_reference(
    k: int, labels: list[int], candidates: list[int], inside: bool
) -> None:
    query_labels = [label for label in candidates if is_feasible(k, label, labels, inside)]

    lists = restrict_to_domain(tuple(labels), k, tuple(query_labels), inside, "own")

    assert lists == naive_restricted(k, query_labels, labels, inside)


@given(st.integers(0, 4), LABELS, st.integers(0, 2), st.booleans())
def test_a_domain_mode_that_cannot_succeed_is_refused(
    k: int, labels: list[int], query_label: int, inside: bool
) -> None:
    assume(not is_feasible(k, query_label, labels, inside))

    mode = "in" if inside else "out-of"
    with pytest.raises(ArgumentError, match=f"{mode}-domain mode cannot succeed on own"):
        restrict_to_domain(tuple(labels), k, (query_label,), inside, "own")


@dataclass(frozen=True)
class RareFit:
    """A query with label 1, for which the first draws of demonstrations do not fit.

    Attributes:
        inside: Whether its label must be among those of its demonstrations.
        labels: The label of each demonstration of the pool.
        k: How many demonstrations it gets.
    """

    inside: bool
    labels: tuple[int, ...]
    k: int

    def redraws_needed(self) -> int:
        """Return how many lists are drawn after the first until one fits."""
        generator = StableRandom()
        redraws = 0
        positions = generator.sample_indexes(len(self.labels), self.k)
        while contains_label(positions, self.labels, 1) != self.inside:
            positions = generator.sample_indexes(len(self.labels), self.k)
            redraws += 1
        return redraws

    def draw(self) -> tuple[int, ...]:
        """Return the demonstrations of the query."""
        (positions,) = restrict_to_domain(self.labels, self.k, query_labels=(1,), inside=self.inside, where="own")
        return positions


RARE_FITS = [
    RareFit(inside=True, labels=(0,) * 12 + (1,) * 2, k=1),
    RareFit(inside=False, labels=(0,) * 3 + (1,) * 9, k=2),
]


@pytest.fixture
def empty_cache_of_draws() -> Iterator[None]:
    """Demonstrations that were drawn with another limit are not returned from the cache."""
    restrict_to_domain.cache_clear()
    yield
    restrict_to_domain.cache_clear()


@pytest.mark.usefixtures("empty_cache_of_draws")
@pytest.mark.parametrize("rare", RARE_FITS, ids=["in-domain", "out-of-domain"])
def test_a_list_that_fits_after_all_redraws_that_are_allowed_is_returned(
    rare: RareFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = rare.redraws_needed()
    assert limit > 3
    monkeypatch.setattr(demonstrations, "_MOST_REDRAWS", limit)

    positions = rare.draw()

    assert contains_label(positions, rare.labels, 1) is rare.inside


@pytest.mark.usefixtures("empty_cache_of_draws")
@pytest.mark.parametrize("rare", RARE_FITS, ids=["in-domain", "out-of-domain"])
def test_a_list_that_needs_one_redraw_more_than_allowed_is_refused(
    rare: RareFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = rare.redraws_needed() - 1
    monkeypatch.setattr(demonstrations, "_MOST_REDRAWS", limit)

    with pytest.raises(ArgumentError, match=f"-domain mode on own: {limit} draws of k = {rare.k} demonstrations"):
        rare.draw()


# -- demonstrations chosen by hand


NO_POSITION = "a demonstration must be an integer from 0 to 2, not"


@pytest.mark.parametrize(
    ("lists", "refusal"),
    [
        (None, "must be a list of lists"),
        (iter([[0, 1]]), "must be a list of lists"),
        ({(0, 1), (1, 2)}, "must be a list of lists"),
        ([[0, 1], 7], "must be a list of lists"),
        ("ab", "row 0 of the sampler has 1 positions"),
        ([[0, 1]], "the sampler has 1 rows, expected one for each of the 2 test rows"),
        ([[0, 1], [0, 1], [0, 1]], "the sampler has 3 rows"),
        ([[0, 1], [0]], "row 1 of the sampler has 1 positions, expected k = 2 (set_k changes k)"),
        ([[0, 1, 2], [0, 1]], "row 0 of the sampler has 3 positions"),
        ([[0, 1], [0, 3]], f"row 1 of the sampler: {NO_POSITION} 3"),
        ([[0, 1], [True, 1]], f"row 1 of the sampler: {NO_POSITION} True"),
        ([[-1, 1], [0, 1]], f"row 0 of the sampler: {NO_POSITION} -1"),
        ([[0.0, 1], [0, 1]], f"row 0 of the sampler: {NO_POSITION} 0.0"),
        ([["0", 1], [0, 1]], f"row 0 of the sampler: {NO_POSITION} '0'"),
        ([[None, 1], [0, 1]], f"row 0 of the sampler: {NO_POSITION} None"),
        (["ab", [0, 1]], "not 'a'"),
    ],
)
def test_bad_lists_are_refused_with_the_first_bad_row(lists: Any, refusal: str) -> None:
    """Of two test rows, each has two of three demonstrations. The release accepts ragged lists (defect 11)."""
    with pytest.raises(ArgumentError, match=re.escape(refusal)):
        check_demonstration_lists(lists, queries=2, k=2, pool=3)


# -- queries without meaning: empty ones, and random words of the domain


def part_with_texts(rows: list[list[str]]) -> SubsetView:
    """Return a part of a data set with these input texts of each row."""
    return SubsetView("own", MemoryTable([(texts, 0) for texts in rows]), range(len(rows)), ["only"])


ROWS = st.lists(
    st.lists(st.sampled_from("abc"), min_size=0, max_size=4).map(lambda words: [" ".join(words)]),
    min_size=1,
    max_size=8,
)


@given(ROWS, st.integers(0, 10))
def test_domain_queries_are_the_rule_of_the_reference(rows: list[list[str]], length: int) -> None:
    """Of each word, first the row is drawn, then the word of the row."""
    generator = StableRandom()
    expected = []
    for _ in range(3):
        drawn_words = []
        for _ in range(length):
            words_of_row = rows[generator.integer(0, len(rows) - 1)][0].split(" ")
            drawn_words.append(words_of_row[generator.integer(0, len(words_of_row) - 1)])
        expected.append((" ".join(drawn_words),))

    assert list(islice(domain_queries(part_with_texts(rows), length), 3)) == expected


TWO_COLUMNS = [["a b c", "d e"], ["f g h i", "j"], ["k", "l m"]]


@given(st.integers(0, 3), st.integers(0, 10))
def test_the_query_after_skipped_domain_queries_is_the_one_that_would_follow_them(skipped: int, length: int) -> None:
    queries = domain_queries(part_with_texts(TWO_COLUMNS), length)

    for _ in range(skipped):
        skip_query(queries)

    all_queries = list(islice(domain_queries(part_with_texts(TWO_COLUMNS), length), skipped + 1))
    assert next(queries) == all_queries[-1]


def test_any_iterator_of_queries_can_be_skipped() -> None:
    queries = chain([("own",)], empty_queries(2))

    skip_query(queries)

    assert next(queries) == ("", "")


@pytest.mark.parametrize("kind", [ContextualBias, DomainBias])
def test_a_copied_benchmark_continues_with_the_next_pseudo_query(kind: Any) -> None:
    experimentor = kind(datasets=["mini"], limit=2)[0]
    experimentor.prompt_former.write_prompt([0])

    copied = copy.deepcopy(experimentor)
    unpickled = pickle.loads(pickle.dumps(experimentor))

    second_prompt = experimentor.prompt_former.write_prompt([0])
    assert copied.prompt_former.write_prompt([0]) == second_prompt
    assert unpickled.prompt_former.write_prompt([0]) == second_prompt


def test_the_pseudo_queries_of_domain_bias_differ() -> None:
    writer = DomainBias(datasets=["mini"], limit=2)[0].prompt_former

    assert writer.write_prompt([0]) != writer.write_prompt([0])
