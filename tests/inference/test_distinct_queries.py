"""Distinct queries: each pair of prompt and label space once, with the last prediction, without listing the prompts."""

from __future__ import annotations

from StaICC.benchmarks.base_experimentor import queries_of_conditions
from StaICC.benchmarks.task import Condition
from StaICC.inference.distinct_queries import DistinctQueries
from StaICC.lazy_sequence import LazySequence
from StaICC.prompting.prompt_writer import Query

LABELS = ("yes", "no")


def query(prompt: str, labels: tuple[str, ...] = LABELS) -> Query:
    return Query(prompt, labels, label=0, row=0, repeat=0)


def test_equal_queries_are_one_with_the_prediction_of_the_last_of_them() -> None:
    queries = [query("a"), query("b"), query("a"), query("a", ("no", "yes"))]
    distinct = DistinctQueries(queries)
    assert list(distinct.keys) == [("a", LABELS), ("b", LABELS), ("a", ("no", "yes"))]
    assert distinct.answers([0, 1, 2, 3]) == [2, 1, 3]


def test_the_prompts_of_a_noisy_channel_are_compared_as_lists_of_texts() -> None:
    queries = [query(("a", "b")), query(("a b",)), query(("a", "b"))]  # type: ignore[arg-type]
    assert DistinctQueries(queries).answers([0, 1, 2]) == [2, 1]


def test_queries_of_conditions_are_in_order_also_next_to_empty_conditions() -> None:
    sizes = [0, 2, 0, 0, 3, 0]
    conditions = []
    expected = []
    for number, size in enumerate(sizes):
        queries = [query(f"{number}, {position}") for position in range(size)]
        conditions.append(Condition(str(number), queries))
        expected += queries
    chained = queries_of_conditions(conditions)
    assert list(chained) == expected
    assert [chained[number] for number in range(len(chained))] == expected
    assert chained[1:4] == expected[1:4]


def test_a_lazy_sequence_makes_an_element_each_time_it_is_read() -> None:
    made = []

    def element_at(position: int) -> int:
        made.append(position)
        return position * position

    squares = LazySequence(element_at, 4)
    assert len(squares) == 4
    assert made == []
    assert squares[2] == 4
    assert squares[-1] == 9
    assert list(squares) == [0, 1, 4, 9]
    assert made == [2, 3, 0, 1, 2, 3]
