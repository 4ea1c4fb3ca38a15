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

SPACE = ("no", "yes")


def test_queries_are_the_same_without_their_prompts() -> None:
    queries = [Query("a ->", SPACE, 1, 7, 0, last_label=0), Query("b ->", SPACE, 0, 300, 1, last_label=None)]
    without_prompts = [Query("", SPACE, 1, 7, 0, last_label=0), Query("", SPACE, 0, 300, 1, last_label=None)]
    kept = ScoredQueries(queries)
    assert list(kept) == without_prompts
    assert (len(kept), kept[-1], kept[1:]) == (2, without_prompts[1], without_prompts[1:])


def test_scores_are_the_same_bit_for_bit() -> None:
    rows = [[0.1, -0.0], [-math.inf, 5e-324], ScoredLabels([1.0, 2.0], label_mass=0.5)]
    kept = score_rows(rows)
    assert kept is not None
    assert list(kept) == rows
    assert math.copysign(1, kept[0][1]) == -1
    assert (kept[-1], list(kept[1:2]), len(kept[1:3])) == ([1.0, 2.0], [rows[1]], 2)
    with pytest.raises(IndexError):
        kept[3]
    for other_order in (slice(None, None, 2), slice(None, None, -1)):
        with pytest.raises(ValueError, match="successive rows only"):
            kept[other_order]


@pytest.mark.parametrize("other", [1, Failure("lost"), [0.5], [0.5, 0.25, 0.25]])
def test_other_predictions_stay_as_they_are(other: Any) -> None:
    assert score_rows([[0.5, 0.5], other]) is None
    assert score_rows([other, [0.5, 0.5]]) is None
    assert score_rows([]) is None


def own_dataset(name: str) -> Dataset:
    rows = [(f"{name} text {number}", SPACE[number % 2]) for number in range(80)]
    return Dataset.from_rows(rows, name=name, split={"calibration": 5, "demonstration": 25, "test": 50})


def scores_of(prompt: str, label_space: list[str]) -> list[float]:
    return [len(prompt) % 7 / 7, 0.5]


def prompts_in_memory(dataset: str) -> int:
    return sum(isinstance(value, PromptText) and dataset in value for value in gc.get_objects())


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Memory is freed only where nothing refers to it: what is in a circle of references stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_run_keeps_no_prompts_of_the_data_sets_that_it_has_scored() -> None:
    """The first name is in no other prompt of the process, since other tests may keep theirs."""
    first, second = "counted here", "second"
    counted_when_a_data_set_begins: dict[str, int] = {}

    def infer(prompt: str, label_space: list[str]) -> list[float]:
        dataset = first if first in prompt else second
        if dataset not in counted_when_a_data_set_begins:
            counted_when_a_data_set_begins[dataset] = prompts_in_memory(first)
        return scores_of(prompt, label_space)

    Normal(datasets=[own_dataset(first), own_dataset(second)], k=1)(infer)
    assert counted_when_a_data_set_begins == {first: 100, second: 0}


def test_outputs_are_those_of_a_run_of_one_data_set() -> None:
    together = Normal(datasets=[own_dataset("first"), own_dataset("second")], k=1)(scores_of, return_outputs=True)
    alone = Normal(datasets=[own_dataset("first")], k=1)(scores_of, return_outputs=True)
    assert together.outputs["first"] == alone.outputs["first"]
    record = alone.outputs["first"][-1]
    assert record["predicted_probabilities"][1] == 0.5
    assert (record["row"], record["repeat"]) == (49, 1)
