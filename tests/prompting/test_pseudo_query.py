"""Queries without meaning: empty ones, and random words of the domain."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC import ContextualBias, DomainBias
from StaICC.datasets import Dataset, MemoryTable
from StaICC.prompting import StableRandom, SubsetView, domain_queries, empty_queries, skip_query, split_dataset


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


def test_two_streams_of_queries_are_equal_and_apart(small: Callable[..., Dataset]) -> None:
    demonstration = split_dataset(small()).demonstration
    queries = domain_queries(demonstration, 5)
    first = list(islice(queries, 4))
    other = domain_queries(demonstration, 5)
    next(queries)
    assert list(islice(other, 4)) == first
    assert len(set(first)) > 1


@given(st.integers(0, 3), st.integers(0, 10), st.integers(1, 2))
def test_queries_that_are_passed_over_change_no_other(skipped: int, length: int, columns: int) -> None:
    rows = view([["a b c", "d e"][:columns], ["f g h i", "j"][:columns], ["k", "l m"][:columns]])
    queries = domain_queries(rows, length)
    for _ in range(skipped):
        skip_query(queries)
    assert next(queries) == list(islice(domain_queries(rows, length), skipped + 1))[-1]
    empty = empty_queries(columns)
    skip_query(empty)
    assert next(empty) == ("",) * columns


@pytest.mark.parametrize("kind", [ContextualBias, DomainBias])
def test_a_benchmark_that_wrote_its_prompts_is_copied_and_pickled(kind: Any) -> None:
    experimentor = kind(datasets=["mini"], limit=2)[0]
    experimentor.prompt_former.write_prompt([0])
    copies = [copy.deepcopy(experimentor), pickle.loads(pickle.dumps(experimentor)), experimentor]
    written = [made.prompt_former.write_prompt([0]) for made in copies]  # the next query, not the first again
    assert written == written[:1] * 3
    assert (written[0] != kind(datasets=["mini"])[0].prompt_former.write_prompt([0])) is (kind is DomainBias)
