"""The ensemble over orders of the demonstrations.

Predictions depend on the order of demonstrations (Lu et al. 2022, "Fantastically Ordered Prompts"); the mean over
orders depends on it less (Tang et al. 2024, "Found in the Middle: Permutation Self-Consistency", for rankings).
"""

from __future__ import annotations

from dataclasses import dataclass

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.demonstration_orders import in_each_order, random_orders
from StaICC.methods.mean_over_views import mean_of_views


@dataclass(frozen=True, slots=True)
class PermutationOptions:
    """Options of the ensemble over orders."""

    orders: int = 4
    """Different orders of the demonstrations of each test example, drawn at random."""


def permutation_ensemble(data: MethodData) -> Steps:
    """Average the predictions over orders of the same demonstrations."""
    number = validate_integer("orders", data.options.orders, 1)
    data.refuse_several_lists()
    if data.k < 2:
        raise ArgumentError(f"got k = {data.k}, expected at least 2: there is one order of the demonstrations only")
    demonstrations = data.demonstrations
    orders = random_orders(len(demonstrations), data.k, data.k, number)
    return (yield from mean_of_views(in_each_order(data, demonstrations, orders)))


PERMUTATION_ENSEMBLE = MethodSpec(
    "permutation_ensemble", "Permutation ensemble", permutation_ensemble, options=PermutationOptions
)
