"""Demonstrations with the highest Shapley values (Xie et al. 2024, "DemoShapley: Valuation of Demonstrations").

The value of a demonstration is its mean contribution to the accuracy of prompts that it is added to.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.predicted_labels import accuracy
from StaICC.methods.requests import Request
from StaICC.prompting.stable_random import StableRandom


@dataclass(frozen=True, slots=True)
class ShapleyOptions:
    """Options of the choice by Shapley values."""

    candidates: int = 12
    """Demonstrations that are valued: drawn at random."""
    permutations: int = 4
    """Random orders in which they are added to prompts."""


def demonstration_shapley(data: MethodData) -> Steps:
    """Show all test examples the ``k`` demonstrations with the highest Shapley values, the highest first.

    The accuracy is that on ``calibration_number`` calibration rows.
    """
    data.refuse_several_lists()
    if not data.k:
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    pool = len(data.demonstration_set)
    number = min(validate_integer("candidates", data.options.candidates, data.k), pool)
    permutations = validate_integer("permutations", data.options.permutations, 1)
    if number < data.k:
        raise ArgumentError(f"got {number} demonstrations, expected at least k = {data.k}")

    generator = StableRandom()
    candidates = generator.sample_indexes(pool, number)
    orders = [generator.sample_indexes(number, number) for _ in range(permutations)]
    accuracy_of = yield from accuracies_of_prefixes(data, candidates, orders)
    values = shapley_values(orders, accuracy_of)

    by_value = sorted(range(number), key=lambda candidate: (-values[candidate], candidate))
    best = [candidates[candidate] for candidate in by_value[: data.k]]
    view = data.on(demonstrations=[best for _ in data.demonstrations])
    (rows,) = yield [view.ask()]
    return view.predictions(rows)


def accuracies_of_prefixes(
    data: MethodData, candidates: Sequence[int], orders: Sequence[Sequence[int]]
) -> Generator[Sequence[Request], list[list[Any]], dict[tuple[int, ...], float]]:
    """Return the accuracy of prompts with the first demonstrations of each order, from none to all.

    Args:
        data: The data of the method.
        candidates: Positions of the demonstration set.
        orders: Orders of all candidates.

    Returns:
        The accuracy on calibration rows of the prompts with these candidates, in this order.
    """
    rows = data.calibration_set
    count = min(validate_integer("calibration_number", data.calibration_number, 1), len(rows))
    if not count:
        raise ArgumentError("the calibration set is empty")
    queries = StableRandom().sample_indexes(len(rows), count)
    labels = [rows[position].label for position in queries]

    prefixes: dict[tuple[int, ...], None] = {}  # each once, in their order
    for order in orders:
        for size in range(len(order) + 1):
            prefixes[tuple(order[:size])] = None
    requests = []
    for prefix in prefixes:
        shown = [data.demonstration_set[candidates[candidate]] for candidate in prefix]
        prompts = [data.write(shown, rows[position].texts) for position in queries]
        requests.append(data.ask(prompts=prompts, role="train"))
    answers = yield requests
    return {prefix: accuracy(answer, labels) for prefix, answer in zip(prefixes, answers, strict=True)}


def shapley_values(orders: Sequence[Sequence[int]], value_of: dict[tuple[int, ...], float]) -> list[float]:
    """Return the mean marginal contribution of each candidate over orders.

    With the candidates ``P`` before ``i`` in an order::

        phi[i] = mean over orders of (value(P + i) - value(P))

    Over all orders, this is the Shapley value if the value of a set does not depend on its order.

    Args:
        orders: Orders of all candidates.
        value_of: The value of each beginning of each order.
    """
    contributions = [0.0] * len(orders[0])
    for order in orders:
        for size, candidate in enumerate(order):
            before = value_of[tuple(order[:size])]
            after = value_of[tuple(order[: size + 1])]
            contributions[candidate] += after - before
    return [total / len(orders) for total in contributions]


DEMONSTRATION_SHAPLEY = MethodSpec(
    "demonstration_shapley", "Demonstration Shapley", demonstration_shapley, options=ShapleyOptions
)
