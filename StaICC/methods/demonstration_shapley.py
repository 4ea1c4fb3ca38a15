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

    Random candidates are added to prompts one after the other, in several random orders. The value of a candidate is
    the mean change of the accuracy when it is added, on ``calibration_number`` calibration rows.
    """
    data.refuse_several_lists()
    if not data.k:
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    set_size = len(data.demonstration_set)
    candidate_count = min(validate_integer("candidates", data.options.candidates, data.k), set_size)
    order_count = validate_integer("permutations", data.options.permutations, 1)
    if candidate_count < data.k:
        raise ArgumentError(f"got {candidate_count} demonstrations, expected at least k = {data.k}")

    generator = StableRandom()
    positions = generator.sample_indexes(set_size, candidate_count)  # of the candidates, in the demonstration set
    orders = [generator.sample_indexes(candidate_count, candidate_count) for _ in range(order_count)]
    accuracy_of_prefix = yield from accuracies_of_prefixes(data, positions, orders)
    values = shapley_values(orders, accuracy_of_prefix)

    highest_first = sorted(range(candidate_count), key=lambda candidate: (-values[candidate], candidate))
    chosen_positions = [positions[candidate] for candidate in highest_first[: data.k]]
    view = data.on(demonstrations=[chosen_positions for _ in data.demonstrations])
    (rows,) = yield [view.ask()]
    return view.predictions(rows)


def accuracies_of_prefixes(
    data: MethodData, candidates: Sequence[int], orders: Sequence[Sequence[int]]
) -> Generator[Sequence[Request], list[list[Any]], dict[tuple[int, ...], float]]:
    """Return the accuracy of prompts with the first demonstrations of each order (a prefix), from none to all.

    Args:
        data: The data of the method.
        candidates: The position of each candidate in the demonstration set.
        orders: Orders of the candidates, which are numbered from 0.

    Returns:
        For each prefix the accuracy on calibration rows of prompts that show these candidates in this order.
    """
    rows = data.calibration_set
    query_count = min(validate_integer("calibration_number", data.calibration_number, 1), len(rows))
    if not query_count:
        raise ArgumentError("the calibration set is empty")
    query_positions = StableRandom().sample_indexes(len(rows), query_count)
    labels = [rows[position].label for position in query_positions]

    prefixes: dict[tuple[int, ...], None] = {}  # each once, in their order
    for order in orders:
        for size in range(len(order) + 1):
            prefixes[tuple(order[:size])] = None
    requests = []
    for prefix in prefixes:
        demonstrations = [data.demonstration_set[candidates[candidate]] for candidate in prefix]
        prompts = [data.write(demonstrations, rows[position].texts) for position in query_positions]
        requests.append(data.ask(prompts=prompts, role="train"))
    predictions_of_prefixes = yield requests
    accuracy_of_prefix = {}
    for prefix, predictions in zip(prefixes, predictions_of_prefixes, strict=True):
        accuracy_of_prefix[prefix] = accuracy(predictions, labels)
    return accuracy_of_prefix


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
