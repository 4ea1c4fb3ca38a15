"""What a run keeps of its scored queries: columns of numbers, which read as the queries and the scores did."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from typing import Any

import pytest

from StaICC import Dataset, Normal
from StaICC.benchmarks.scored_columns import ScoredQueries, score_rows
from StaICC.inference.contract import ScoredLabels
from StaICC.inference.replies import Failure
from StaICC.prompting.prompt_text import PromptText
from StaICC.prompting.prompt_writer import Query

LABELS = ("no", "yes")


def scored_query(prompt: str) -> Query:
    """Return a query of row 7 in the first repeat, whose true label is "yes"."""
    return Query(prompt, LABELS, label=1, row=7, repeat=0, last_label=0)


def other_scored_query(prompt: str) -> Query:
    """Return a query of row 300 in the second repeat, whose true label is "no"."""
    return Query(prompt, LABELS, label=0, row=300, repeat=1, last_label=None)


def test_queries_are_kept_without_their_prompts() -> None:
    kept = ScoredQueries([scored_query("a ->"), other_scored_query("b ->")])

    assert list(kept) == [scored_query(""), other_scored_query("")]


def test_kept_queries_can_be_counted_indexed_and_sliced() -> None:
    kept = ScoredQueries([scored_query("a ->"), other_scored_query("b ->")])

    assert len(kept) == 2
    assert kept[-1] == other_scored_query("")
    assert kept[1:] == [other_scored_query("")]


def test_scores_are_kept_bit_for_bit() -> None:
    rows = [[0.1, -0.0], [-math.inf, 5e-324], ScoredLabels([1.0, 2.0], label_mass=0.5)]

    kept = score_rows(rows)

    assert kept is not None
    assert list(kept) == rows
    minus_zero = kept[0][1]
    assert math.copysign(1, minus_zero) == -1


def test_kept_scores_can_be_indexed_and_sliced() -> None:
    kept = score_rows([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]])

    assert kept is not None
    assert kept[-1] == [0.3, 0.7]
    assert list(kept[1:2]) == [[0.2, 0.8]]
    assert len(kept[1:3]) == 2
    with pytest.raises(IndexError):
        kept[3]


@pytest.mark.parametrize("step", [2, -1])
def test_kept_scores_have_slices_of_successive_rows_only(step: int) -> None:
    kept = score_rows([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]])

    assert kept is not None
    with pytest.raises(ValueError, match="successive rows only"):
        kept[::step]


@pytest.mark.parametrize(
    "other",
    [1, Failure("lost"), [0.5], [0.5, 0.25, 0.25]],
    ids=["label", "failure", "fewer scores", "more scores"],
)
def test_predictions_that_are_not_all_rows_of_one_length_have_no_columns(other: Any) -> None:
    """``None`` says that the predictions are kept as they are."""
    assert score_rows([[0.5, 0.5], other]) is None
    assert score_rows([other, [0.5, 0.5]]) is None


def test_no_predictions_have_no_columns() -> None:
    assert score_rows([]) is None


def dataset_with_fifty_test_rows(name: str) -> Dataset:
    """Return a data set whose 80 texts begin with its name."""
    rows = [(f"{name} text {number}", LABELS[number % 2]) for number in range(80)]
    return Dataset.from_rows(rows, name=name, split={"calibration": 5, "demonstration": 25, "test": 50})


def scores_by_length(prompt: str, label_space: list[str]) -> list[float]:
    return [len(prompt) % 7 / 7, 0.5]


def prompts_in_memory(dataset_name: str) -> int:
    """Return how many prompts with the name of a data set this process holds."""
    count = 0
    for value in gc.get_objects():
        if isinstance(value, PromptText) and dataset_name in value:
            count += 1
    return count


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Memory is freed only where nothing refers to it: what is in a circle of references stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_run_keeps_no_prompts_of_the_data_sets_that_it_has_scored() -> None:
    """The first data set has 100 prompts: 50 rows in two repeats.

    Its name is in no other prompt of the process, since other tests may keep theirs.
    """
    first, second = "counted here", "second"
    prompts_of_first_in_memory: dict[str, int] = {}

    def model(prompt: str, label_space: list[str]) -> list[float]:
        """Count the prompts of the first data set when a data set begins."""
        dataset_name = first if first in prompt else second
        if dataset_name not in prompts_of_first_in_memory:
            prompts_of_first_in_memory[dataset_name] = prompts_in_memory(first)
        return scores_by_length(prompt, label_space)

    datasets = [dataset_with_fifty_test_rows(first), dataset_with_fifty_test_rows(second)]
    Normal(datasets=datasets, k=1)(model)

    assert prompts_of_first_in_memory == {first: 100, second: 0}


def test_outputs_of_a_data_set_are_those_of_a_run_on_it_alone() -> None:
    first, second = dataset_with_fifty_test_rows("first"), dataset_with_fifty_test_rows("second")

    together = Normal(datasets=[first, second], k=1)(scores_by_length, return_outputs=True)
    alone = Normal(datasets=[first], k=1)(scores_by_length, return_outputs=True)

    assert together.outputs["first"] == alone.outputs["first"]


def test_the_last_record_of_the_outputs_is_of_the_last_row_in_the_second_repeat() -> None:
    result = Normal(datasets=[dataset_with_fifty_test_rows("first")], k=1)(scores_by_length, return_outputs=True)

    last_record = result.outputs["first"][-1]
    assert last_record["predicted_probabilities"][1] == 0.5
    assert last_record["row"] == 49
    assert last_record["repeat"] == 1
