"""The ensemble over orders of the demonstrations.

Predictions depend on the order of demonstrations (Lu et al. 2022, "Fantastically Ordered Prompts"); the mean over
orders depends on it less (Tang et al. 2024, "Found in the Middle: Permutation Self-Consistency", for rankings).
"""

from __future__ import annotations

from dataclasses import dataclass

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.methods import specification as spec
from StaICC.methods.demonstration_orders import views_of_orders
from StaICC.methods.mean_over_views import mean_of_views


@dataclass(frozen=True, slots=True)
class PermutationOptions:
    """Options of the ensemble over orders."""

    orders: int = 4
    """Different orders of the demonstrations of each test example, drawn at random."""


def permutation_ensemble(data: spec.MethodData) -> spec.Steps:
    """Average the predictions over orders of the same demonstrations."""
    experimentor, k = data.experimentor, data.experimentor.get_k()
    orders = validate_integer("orders", data.options.orders, 1)
    spec.refuse_several_lists(experimentor)
    if k < 2:
        raise ArgumentError(f"got k = {k}, expected at least 2: there is one order of the demonstrations only")
    return (yield from mean_of_views(data, views_of_orders(experimentor, data.demonstrations, orders, "staicc")))


PERMUTATION_ENSEMBLE = spec.MethodSpec(
    "permutation_ensemble", "Permutation ensemble", permutation_ensemble, options=PermutationOptions
)
