"""SA-ICL: the order of near demonstrations with the surest prediction.

Wu et al. 2023, "Self-Adaptive In-Context Learning".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from StaICC import numerics
from StaICC.arguments import validate_integer
from StaICC.errors import OutputError
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.demonstration_orders import views_of_orders
from StaICC.methods.features import present
from StaICC.methods.nearest_demonstrations import HIDDEN_STATES, RetrievalOptions, near_demonstrations
from StaICC.metrics import released

CANDIDATES = 30
"""Nearest demonstrations from which the authors of SA-ICL draw orders."""


@dataclass(frozen=True, slots=True)
class OrderOptions(RetrievalOptions):
    """Options of SA-ICL."""

    orders: int = 10
    """Orders of the demonstrations that are tried."""
    candidates: int | None = None
    """Nearest demonstrations for orders; none: 30, in other variants k + 1."""


def surest_order(data: spec.MethodData) -> spec.Steps:
    """Predict with several orders of near demonstrations, and keep the prediction of the lowest entropy."""
    experimentor, k, given = data.experimentor, data.experimentor.get_k(), data.options.candidates
    number = validate_integer("orders", data.options.orders, 1)
    default = CANDIDATES if data.variant == "paper" else k + 1  # 5 for 4, as released
    count = default if given is None else validate_integer("candidates", given, k)
    optional = given is None and data.variant == "paper"
    near = yield from near_demonstrations(data, count, k if optional else count)
    views = views_of_orders(experimentor, near, number, data.variant)
    data.experimentor = views[0]
    answers = yield [data.queries(view=view) for view in views]
    return [_surest(candidates, data.variant) for candidates in zip(*answers, strict=True)]


SA_ICL = spec.MethodSpec(
    "sa_icl", "SA-ICL", surest_order, HIDDEN_STATES | {Capability.LABEL_SCORES}, options=OrderOptions
)


def _surest(candidates: Sequence[Answer | Failure], variant: str) -> Answer | Failure:
    rows = present(candidates)
    if not all(isinstance(row, list) for row in rows):
        raise OutputError("SA-ICL: the kernel returned labels, expected label probabilities")
    return rows[lowest_entropy(rows, variant)] if rows else candidates[0]


def lowest_entropy(rows: Sequence[Sequence[float]], variant: str = "paper") -> int:
    """Return the position of the distribution with the lowest entropy, the first of equals.

    Args:
        rows: Distributions over the labels.
        variant: ``"0.1.1"`` takes the release's entropy: that of the softmax where a row, added from left to right,
            misses 1.0 by an ulp. Which rows do is a matter of the last bit, so its choice does not survive another
            order of additions inside the model.

    Example:
        >>> lowest_entropy([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
        1
    """
    entropy = released.entropy if spec.check_variant(variant) == "0.1.1" else numerics.entropy
    entropies = [entropy(row) for row in rows]
    return entropies.index(min(entropies))
