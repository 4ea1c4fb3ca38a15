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


def benchmark() -> Normal:
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    return Normal(datasets=[data], limit=30, k=1)


@cache
def run(name: str, lost: bool, right_if_lost: bool | None) -> Result:
    """Return a run that is right on about 70 % of the queries.

    Args:
        name: The name, on which its predictions depend.
        lost: Whether a fifth of its queries are lost.
        right_if_lost: Whether the lost queries are right or wrong; ``None`` if they have no prediction.
    """
    of = benchmark()
    predictions: dict[str, int | None] = {}
    for query in of[0].all_queries():
        prompt = str(query.prompt)
        is_right: bool | None = random.Random(f"{name} {prompt}").random() < 0.7
        if lost and random.Random(f"lost {name} {prompt}").random() < 0.2:
            is_right = right_if_lost
        predictions[prompt] = None
        if is_right is not None:
            predictions[prompt] = query.label if is_right else 1 - query.label
    result: Result = of(lambda prompt, label_space: predictions[str(prompt)], on_error="collect")
    return result


def paired(first: Result, second: Result) -> PairedScores:
    return align({"first": first, "second": second}, "accuracy").pair("first", "second").datasets["own"]


def interaction(results: list[Result]) -> float:
    """Return the interaction of four runs without missing queries, from their accuracies."""
    first, second, first_reference, second_reference = [result.averaged["accuracy"] for result in results]
    return float((first - first_reference) - (second - second_reference))


@pytest.mark.parametrize("lost", list(product([False, True], repeat=4)), ids=str)
def test_the_bounds_are_the_interactions_with_the_worst_predictions(lost: tuple[bool, ...]) -> None:
    """A score that is subtracted makes the interaction lowest if its lost queries are right."""
    partial = [run(name, is_lost, None) for name, is_lost in zip(SCORES, lost, strict=True)]
    found = _difference_of_changes(paired(partial[0], partial[1]), paired(partial[2], partial[3]))
    signs_of_scores = (1, -1, -1, 1)
    bounds: list[float] = []
    for direction in (-1, 1):
        worst: list[Any] = []
        for name, is_lost, sign in zip(SCORES, lost, signs_of_scores, strict=True):
            worst.append(run(name, is_lost, right_if_lost=is_lost and sign == direction))
        bounds.append(interaction(worst))
    assert found.ends == pytest.approx(bounds)
    n_lost = [
        sum(prediction is None for prediction in result.details["own"].conditions[0].predictions) for result in partial
    ]
    assert found.missing == (n_lost[0] + n_lost[2], n_lost[1] + n_lost[3])
    first, second, first_reference, second_reference = [result.averaged["accuracy"] for result in partial]
    assert found.values == pytest.approx((first - first_reference, second - second_reference))
