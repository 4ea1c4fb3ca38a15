"""The difference of the changes of two runs, where queries are missing: against runs with the worst predictions."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from typing import Any

import pytest

from StaICC import Dataset, Normal
from StaICC.comparing.alignment import align
from StaICC.comparing.interactions import _difference_of_changes
from StaICC.comparing.pairing import PairedScores
from StaICC.results.result import Result

ROWS = [(f"text {number}", number % 2) for number in range(200)]
SCORES = ("first in the condition", "second in the condition", "first in the reference", "second in the reference")
"""The four scores of an interaction: two runs in two conditions."""


@cache
def run(name: str, lost: bool, right_if_lost: bool | None) -> Result:
    """Return a run that is right on about 70 % of 60 queries.

    Args:
        name: The name, on which its predictions depend.
        lost: Whether a fifth of its queries are lost.
        right_if_lost: Whether the lost queries are right or wrong; ``None`` if they have no prediction.
    """
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    benchmark = Normal(datasets=[data], limit=30, k=1)
    predictions: dict[str, int | None] = {}
    for query in benchmark[0].all_queries():
        prompt = str(query.prompt)
        is_right: bool | None = random.Random(f"{name} {prompt}").random() < 0.7
        is_lost = lost and random.Random(f"lost {name} {prompt}").random() < 0.2
        if is_lost:
            is_right = right_if_lost
        if is_right is None:
            predictions[prompt] = None
        else:
            predictions[prompt] = query.label if is_right else 1 - query.label
    result: Result = benchmark(lambda prompt, label_space: predictions[str(prompt)], on_error="collect")
    return result


def paired(first: Result, second: Result) -> PairedScores:
    return align({"first": first, "second": second}, "accuracy").pair("first", "second").datasets["own"]


def interaction_of_complete(results: list[Result]) -> float:
    """Return the interaction of four runs without missing queries, from their accuracies."""
    first, second, first_reference, second_reference = [result.averaged["accuracy"] for result in results]
    return float((first - first_reference) - (second - second_reference))


@pytest.mark.parametrize("lost", list(product([False, True], repeat=4)), ids=str)
def test_the_bounds_are_the_interactions_with_the_worst_predictions(lost: tuple[bool, ...]) -> None:
    """The interaction is (first - second) - (first reference - second reference).

    A score that is subtracted makes it lowest if its lost queries are right.
    """
    first, second, first_reference, second_reference = runs_with_lost_queries(lost)

    interaction = _difference_of_changes(paired(first, second), paired(first_reference, second_reference))

    is_added = {SCORES[0]: True, SCORES[1]: False, SCORES[2]: False, SCORES[3]: True}
    runs_with_lowest, runs_with_highest = [], []
    for name, is_lost in zip(SCORES, lost, strict=True):
        runs_with_lowest.append(run(name, is_lost, right_if_lost=not is_added[name]))
        runs_with_highest.append(run(name, is_lost, right_if_lost=is_added[name]))
    lowest, highest = interaction_of_complete(runs_with_lowest), interaction_of_complete(runs_with_highest)
    assert interaction.ends == pytest.approx((lowest, highest))


def runs_with_lost_queries(lost: tuple[bool, ...]) -> list[Result]:
    """Return the runs of the four scores, of which some have lost queries."""
    return [run(name, is_lost, right_if_lost=None) for name, is_lost in zip(SCORES, lost, strict=True)]


def number_of_lost(result: Result) -> int:
    (condition,) = result.details["own"].conditions
    return list(condition.predictions).count(None)


@pytest.mark.parametrize("lost", list(product([False, True], repeat=4)), ids=str)
def test_the_lost_queries_of_a_run_are_counted_in_both_conditions(lost: tuple[bool, ...]) -> None:
    first, second, first_reference, second_reference = runs_with_lost_queries(lost)

    interaction = _difference_of_changes(paired(first, second), paired(first_reference, second_reference))

    lost_by_first = number_of_lost(first) + number_of_lost(first_reference)
    lost_by_second = number_of_lost(second) + number_of_lost(second_reference)
    assert interaction.missing == (lost_by_first, lost_by_second)


@pytest.mark.parametrize("lost", list(product([False, True], repeat=4)), ids=str)
def test_the_values_are_the_changes_of_both_runs(lost: tuple[bool, ...]) -> None:
    first, second, first_reference, second_reference = runs_with_lost_queries(lost)

    interaction = _difference_of_changes(paired(first, second), paired(first_reference, second_reference))

    change_of_first: Any = first.averaged["accuracy"] - first_reference.averaged["accuracy"]  # type: ignore[operator]
    change_of_second: Any = second.averaged["accuracy"] - second_reference.averaged["accuracy"]  # type: ignore[operator]
    assert interaction.values == pytest.approx((change_of_first, change_of_second))
