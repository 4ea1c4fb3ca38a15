"""SA-ICL: the order of near demonstrations with the surest prediction.

Wu et al. 2023, "Self-Adaptive In-Context Learning".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC import numerics
from StaICC.arguments import validate_integer
from StaICC.errors import OutputError
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.methods.batches import in_batches
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.demonstration_orders import in_each_order, random_orders
from StaICC.methods.label_scores import label_rows, read_probabilities
from StaICC.methods.nearest_demonstrations import SelectionOptions, nearest_demonstrations
from StaICC.methods.present_rows import apply_present, present

CANDIDATES = 30
"""Nearest demonstrations from which the authors draw orders."""


@dataclass(frozen=True, slots=True)
class OrderOptions(SelectionOptions):
    """Options of SA-ICL."""

    orders: int = 10
    """Orders of the demonstrations that are tried."""
    candidates: int | None = None
    """Nearest demonstrations for orders; none: 30, in other variants k + 1."""


def sa_icl(data: MethodData) -> Steps:
    """Predict with several orders of near demonstrations, and keep the prediction of the lowest entropy.

    ``"paper"``: nine random orders of ``k`` out of the 30 nearest, and the order of TopK (in the authors' code, random
    orders can be equal). ``"staicc"``: ten random orders of ``k`` of the ``k + 1`` nearest.
    """
    is_paper = data.variant == "paper"
    n_orders = validate_integer("orders", data.options.orders, 1)
    if data.options.candidates is not None:
        n_candidates = validate_integer("candidates", data.options.candidates, data.k)
        least_candidates = n_candidates
    elif is_paper:
        n_candidates = CANDIDATES
        least_candidates = data.k  # a small demonstration set has fewer than 30
    else:
        n_candidates = data.k + 1
        least_candidates = n_candidates

    near = yield from nearest_demonstrations(data, n_candidates, data.options, at_least=least_candidates)
    orders = random_orders(len(near), len(near[0]), data.k, n_orders, nearest_last=is_paper)
    views = in_each_order(data, near, orders)
    answers = yield [view.ask() for view in views]
    probabilities = probabilities_of_orders(answers, len(data.label_space))
    return views[0].predictions(surest_predictions(probabilities))


def surest_predictions(
    answers: Sequence[Sequence[Answer | Failure]], entropy: Callable[[Sequence[float]], float] = numerics.entropy
) -> list[Answer | Failure]:
    """Return for each query the prediction with the lowest entropy, the first of equals.

    Args:
        answers: For each order, the prediction of each query: a row of label probabilities, or a failure.
        entropy: Returns the entropy of a row of label probabilities.

    Returns:
        The predictions; a failure where no order has a prediction.

    Raises:
        OutputError: A prediction is no row of label probabilities.
    """
    surest: list[Answer | Failure] = []
    for predictions in zip(*answers, strict=True):
        rows = present(predictions)
        if not all(isinstance(row, list) for row in rows):
            raise OutputError("SA-ICL: the kernel returned labels, expected label probabilities")
        if rows:
            surest.append(rows[lowest_entropy(rows, entropy)])
        else:
            surest.append(predictions[0])  # a failure
    return surest


def probabilities_of_orders(answers: Sequence[Sequence[Any]], n_labels: int) -> list[list[Any]]:
    """Return the predictions of all orders as probabilities, of which the entropy can be computed.

    A model may return logits. All predictions are read together, so that all are probabilities or all are logits.

    Args:
        answers: For each order, the prediction of each query.
        n_labels: How many labels there are.

    Returns:
        Rows in the same form; failures keep their places.

    Raises:
        OutputError: A prediction is no row of label scores.
    """

    def as_probabilities(rows: list[Any]) -> list[Any]:
        """Return the probabilities of predictions that did not fail; all are read as the same kind."""
        probabilities, read_as = read_probabilities(label_rows(rows, n_labels, "prediction"), "auto")
        if read_as == "logits":
            return probabilities
        return rows  # unchanged to the last digit

    all_predictions: list[Any] = []  # order by order
    for predictions in answers:
        all_predictions += predictions
    all_probabilities = apply_present(all_predictions, as_probabilities)
    n_queries = len(answers[0])
    return [list(batch) for batch in in_batches(all_probabilities, n_queries)]


def lowest_entropy(
    rows: Sequence[Sequence[float]], entropy: Callable[[Sequence[float]], float] = numerics.entropy
) -> int:
    """Return the position of the distribution with the lowest entropy, the first of equals.

    Args:
        rows: Distributions over the labels.
        entropy: The entropy of a distribution.

    Example:
        >>> lowest_entropy([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
        1
    """
    entropies = [entropy(row) for row in rows]
    return entropies.index(min(entropies))


SA_ICL = MethodSpec(
    "sa_icl",
    "SA-ICL",
    sa_icl,
    frozenset({Capability.HIDDEN_STATES, Capability.LABEL_SCORES}),
    options=OrderOptions,
)
