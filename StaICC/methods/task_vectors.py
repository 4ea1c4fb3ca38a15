"""Task vectors (Hendel et al. 2023, "In-Context Learning Creates Task Vectors").

The state of a layer at the last position of a prompt with demonstrations holds what the demonstrations are about. Put
in the place of the same state of a prompt without demonstrations, it lets the model do the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle
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
    patched_models: list[PatchedState] = []  # one for each template
    for templated in data.templates():
        patched_model = yield from learned_model(templated)
        patched_models.append(patched_model)

    zero_shot = data.on(demonstrations=[[] for _ in data.demonstrations])
    requests = []
    # Each condition of the benchmark has its template. If all have the same one, cycle repeats the only model.
    for condition, patched_model in zip(zero_shot.conditions, cycle(patched_models), strict=False):
        requests.append(zero_shot.ask(patched_model, condition.queries))
    rows_of_conditions = yield requests
    return zero_shot.predictions(list(chain.from_iterable(rows_of_conditions)))


def learned_model(data: MethodData) -> Generator[Sequence[Request], list[list[Any]], PatchedState]:
    """Return the model with a task vector in one layer: the mean state of prompts with demonstrations.

    The first half of the calibration prompts gives the vector of each layer. If no layer is given, the other half
    chooses it: the layer whose vector gives these prompts, without their demonstrations, the highest accuracy.

    Args:
        data: The data with the template of the prompts.
    """
    prompt_count = validate_integer("calibration_number", data.calibration_number, 2)
    layer = data.options.layer
    if layer is not None:
        layer = validate_integer("layer", layer, 0)
    prompts, labels = labelled_prompts(data)
    zero_shot_prompts, _ = labelled_prompts(SameDemonstrations(data, []))  # about the same rows, in the same order
    half = prompt_count // 2

    (states,) = yield [data.ask("layers", prompts[:half], role="train")]
    (states,) = without_failures(states)
    mean_states = sum(states) / len(states)  # array (layers, width)
    models_by_layer = []
    for layer_index, vector in enumerate(mean_states):
        models_by_layer.append(PatchedState(layer_index, tuple(vector.tolist())))

    if layer is None:
        predictions = yield [data.ask(model, zero_shot_prompts[half:], role="train") for model in models_by_layer]
        accuracies = [accuracy(rows, labels[half:]) for rows in predictions]
        layer = accuracies.index(max(accuracies))
    layer = validate_integer("layer", layer, 0, len(models_by_layer) - 1)
    return models_by_layer[layer]


@dataclass(frozen=True)
class PatchedState(KernelFunction):
    """Predictions of the model with a vector in the place of a layer's state at the last position of the prompt."""

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
