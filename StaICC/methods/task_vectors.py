"""Task vectors (Hendel et al. 2023, "In-Context Learning Creates Task Vectors").

The state of a layer at the last position of a prompt with demonstrations holds what the demonstrations are about. Put
in the place of the same state of a prompt without demonstrations, it lets the model do the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.kernel_functions import KernelFunction
from StaICC.methods.predicted_labels import accuracy
from StaICC.methods.present_rows import without_failures
from StaICC.methods.requests import Request
from StaICC.methods.training_prompts import SameDemonstrations, labelled_prompts


@dataclass(frozen=True, slots=True)
class TaskVectorOptions:
    """Options of task vectors."""

    layer: int | None = None
    """The layer, from 0; none: that of the highest accuracy on calibration rows."""


def task_vectors(data: MethodData) -> Steps:
    """Predict without demonstrations, with the mean state of prompts with demonstrations in one layer.

    The paper has a vector for each query, from its own demonstrations and two other queries; the mean over many prompts
    is ``multi_context`` in the authors' code.
    """
    data.refuse_several_lists()
    if not data.k or data.is_noisy:
        raise ArgumentError("task vectors need demonstrations (k > 0), and no noisy channel")
    if "patched" not in data.provides:
        method = "patched(prompts, label_space, layer, state)"
        why = f"got no method {method}, or a class that overrides other methods, which patched might not use"
        raise ArgumentError(f"the kernel cannot replace the state of a layer: {why}. Define patched in that class")
    kernels: list[PatchedState] = []
    for with_template in data.templates():
        kernels.append((yield from learned_kernel(with_template)))

    bare = data.on(demonstrations=[[] for _ in data.demonstrations])
    requests = []
    # One kernel for each condition, or one for all of them if their templates do not differ.
    for condition, kernel in zip(bare.conditions, cycle(kernels), strict=False):
        requests.append(bare.ask(kernel, condition.queries))
    answers = yield requests
    return bare.predictions([row for rows in answers for row in rows])


def learned_kernel(data: MethodData) -> Generator[Sequence[Request], list[list[Any]], PatchedState]:
    """Return the kernel with the vector of one template: half of the rows make it, the others choose the layer.

    Args:
        data: The data with this template.

    Returns:
        The feature with the mean state of one layer: the layer of the option, or the one whose vector has the highest
        accuracy on the other half of the rows.
    """
    number = validate_integer("calibration_number", data.calibration_number, 2)
    layer = data.options.layer
    if layer is not None:
        layer = validate_integer("layer", layer, 0)
    prompts, labels = labelled_prompts(data)
    bare_prompts, _ = labelled_prompts(SameDemonstrations(data, []))  # about the same rows
    half = number // 2

    (states,) = yield [data.ask("layers", prompts[:half], role="train")]
    (states,) = without_failures(states)
    mean_states = sum(states) / len(states)  # array (layers, width)
    kernels = []
    for number_of_layer, vector in enumerate(mean_states):
        kernels.append(PatchedState(number_of_layer, tuple(vector.tolist())))

    if layer is None:
        predictions = yield [data.ask(kernel, bare_prompts[half:], role="train") for kernel in kernels]
        accuracies = [accuracy(rows, labels[half:]) for rows in predictions]
        layer = accuracies.index(max(accuracies))
    layer = validate_integer("layer", layer, 0, len(kernels) - 1)
    return kernels[layer]


@dataclass(frozen=True)
class PatchedState(KernelFunction):
    """The feature: predictions with a vector in the place of a layer's state at the last position."""

    layer: int
    """The layer, from 0."""
    state: tuple[float, ...] = field(hash=False)  # it is long
    """The vector."""
    kernel: Any = None

    def added_identity(self) -> tuple[str, Identity]:
        """Return the name of the feature, the layer and a digest of the vector: each data set has its own."""
        digest = hashlib.sha256(repr(self.state).encode()).hexdigest()
        return "task vector", Identity({"layer": str(self.layer), "state": digest})

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt."""
        return self.kernel.patched(prompts, label_space, self.layer, self.state)


TASK_VECTORS = MethodSpec(
    "task_vectors", "Task vectors", task_vectors, frozenset({Capability.LAYER_STATES}), options=TaskVectorOptions
)
