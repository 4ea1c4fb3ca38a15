"""Distinct queries: each pair of prompt and label space once, with the last prediction, without listing the prompts."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC.benchmarks.base_experimentor import queries_of_conditions
from StaICC.benchmarks.task import Condition
from StaICC.inference.distinct_queries import DistinctQueries
from StaICC.lazy_sequence import LazySequence
from StaICC.prompting.prompt_writer import Query

LABELS = ("yes", "no")


def query(prompt: Any, labels: tuple[str, ...] = LABELS) -> Query:
    """Return a query with this prompt."""
    return Query(prompt, labels, label=0, row=0, repeat=0)


def test_queries_with_the_same_prompt_and_labels_are_one() -> None:
    distinct = DistinctQueries([query("a"), query("b"), query("a"), query("a", ("no", "yes"))])
    assert list(distinct.keys) == [("a", ("yes", "no")), ("b", ("yes", "no")), ("a", ("no", "yes"))]


def test_equal_queries_have_the_prediction_of_the_last_of_them() -> None:
    distinct = DistinctQueries([query("a"), query("b"), query("a")])
    assert distinct.answers(["first a", "b", "last a"]) == ["last a", "b"]


def test_the_prompts_of_a_noisy_channel_are_compared_as_lists_of_texts() -> None:
    distinct = DistinctQueries([query(("a", "b")), query(("a b",)), query(("a", "b"))])
    assert distinct.answers(["first of two", "single", "last of two"]) == ["last of two", "single"]


@pytest.fixture
def conditions() -> list[Condition]:
    """Return conditions with two and three queries, and empty ones before, between and after them."""
    two, three = [query("a"), query("b")], [query("c"), query("d"), query("e")]
    sizes: list[list[Query]] = [[], two, [], [], three, []]
    return [Condition(str(number), queries) for number, queries in enumerate(sizes)]


def prompts_of(queries: Any) -> list[Any]:
    return [query.prompt for query in queries]


def test_queries_of_conditions_are_in_order(conditions: list[Condition]) -> None:
    assert prompts_of(queries_of_conditions(conditions)) == ["a", "b", "c", "d", "e"]


def test_queries_of_conditions_can_be_indexed_and_sliced(conditions: list[Condition]) -> None:
    queries = queries_of_conditions(conditions)
    assert len(queries) == 5
    assert queries[0].prompt == "a"
    assert queries[2].prompt == "c"
    assert prompts_of(queries[1:4]) == ["b", "c", "d"]


def test_a_lazy_sequence_has_the_elements_of_its_function() -> None:
    squares = LazySequence(lambda position: position * position, 4)
    assert len(squares) == 4
    assert squares[2] == 4
    assert squares[-1] == 9
    assert list(squares) == [0, 1, 4, 9]


def test_a_lazy_sequence_makes_an_element_each_time_it_is_read() -> None:
    positions = []
    sequence = LazySequence(positions.append, 4)
    assert positions == []
    sequence[2]
    sequence[2]
    assert positions == [2, 2]
