"""Queries without meaning: empty ones, and random words of the domain."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.datasets import Dataset, MemoryTable
from StaICC.errors import ArgumentError
from StaICC.prompting import DOMAIN_QUERY_LENGTH, StableRandom, SubsetView, domain_queries, empty_queries, split_dataset


def view(rows: list[list[str]]) -> SubsetView:
    return SubsetView("own", MemoryTable([(texts, 0) for texts in rows]), range(len(rows)), ["only"])


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_empty_queries_have_one_empty_text_for_each_column(columns: int) -> None:
    assert list(islice(empty_queries(columns), 3)) == [("",) * columns] * 3


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


def test_the_last_row_and_the_last_word_are_never_drawn() -> None:
    rows = [["a b c last"], ["d e last"], ["alone"], ["never never"]]
    (query,) = islice(domain_queries(view(rows), 500), 1)
    assert set(query[0].split(" ")) == {"a", "b", "c", "d", "e", "alone"}


def test_every_column_has_words_of_its_own(small: Callable[..., Dataset]) -> None:
    demonstration = split_dataset(small(columns=2)).demonstration
    (query,) = islice(domain_queries(demonstration, 50), 1)
    for column, text in enumerate(query):
        assert len(text.split(" ")) == 50
        own = {word for row in range(len(demonstration)) for word in demonstration.texts(row)[column].split(" ")}
        assert set(text.split(" ")) <= own


def test_two_streams_of_queries_are_equal_and_apart(small: Callable[..., Dataset]) -> None:
    demonstration = split_dataset(small()).demonstration
    queries = domain_queries(demonstration, 5)
    first = list(islice(queries, 4))
    other = domain_queries(demonstration, 5)
    next(queries)
    assert list(islice(other, 4)) == first
    assert len(set(first)) > 1


def test_a_set_of_one_row_and_a_length_of_zero() -> None:
    (query,) = islice(domain_queries(view([["x y"]]), 3), 1)
    assert query == ("x x x",)
    assert list(islice(domain_queries(view([["x"]]), 0), 1)) == [("",)]
    assert DOMAIN_QUERY_LENGTH == 128


def test_no_words_to_draw_from() -> None:
    empty = view([["a"]]).split([[]])[0]
    with pytest.raises(ArgumentError, match=r"^own has no rows to take the words of domain queries from$"):
        next(domain_queries(empty, 3))


@pytest.mark.parametrize("length", [-1, 2.0, "128", None, True])
def test_a_length_that_is_none(length: Any) -> None:
    message = f"length, the number of words of a domain query, must be an integer of at least 0, not {length!r}"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        next(domain_queries(view([["a"]]), length))
