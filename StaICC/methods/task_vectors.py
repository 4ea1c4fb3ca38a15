"""Task vectors (Hendel et al. 2023, "In-Context Learning Creates Task Vectors").

The state of a layer at the last position of a prompt with demonstrations holds what the demonstrations are about. Put
in the place of the same state of a prompt without demonstrations, it lets the model do the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.features import KernelCall, Request, without_failures
from StaICC.methods.training_prompts import GivenSource, SameDemonstrations, labelled_prompts


@dataclass(frozen=True, slots=True)
class TaskVectorOptions:
    """Options of task vectors."""

    layer: int | None = None
    """The layer, from 0; none: that of the highest accuracy on calibration rows."""


def patched_kernel(layer: int, state: tuple[float, ...]) -> KernelCall:
    """Return the feature: predictions with a vector in the place of a layer's state at the last position."""
    digest = hashlib.sha256(repr(state).encode()).hexdigest()  # each data set has its own vector
    return KernelCall("task vector", "patched", (layer, state), Identity({"layer": str(layer), "state": digest}))


def task_vectors(data: spec.MethodData) -> spec.Steps:
    """Predict without demonstrations, with the mean state of prompts with demonstrations in one layer.

    The paper has a vector for each query, from its own demonstrations and two other queries; the mean over many prompts
    is ``multi_context`` in the authors' code.
    """
    experimentor = data.experimentor
    spec.refuse_several_lists(experimentor)
    if not experimentor.get_k() or experimentor.prompt_former.settings.noisy_channel:
        raise ArgumentError("task vectors need demonstrations (k > 0), and no noisy channel")
    if "patched" not in data.provides:
        method = "patched(prompts, label_space, layer, state)"
        why = f"got no method {method}, or a class that overrides other methods, which patched might not use"
        raise ArgumentError(f"the kernel cannot replace the state of a layer: {why}. Define patched in that class")
    patched: list[KernelCall] = []
    for maker in spec.prompt_makers(experimentor, data.variant):
        patched.append((yield from _learned(data, maker)))
    data.experimentor = spec.with_demonstrations(experimentor, [[] for _ in data.demonstrations])
    parts = yield [Request(kernel, keys) for kernel, keys in zip(cycle(patched), data.queries().conditions)]
    return [row for rows in parts for row in rows]


def _learned(data: spec.MethodData, maker: spec.PromptMaker) -> Generator[Any, Any, KernelCall]:
    """Return the kernel with the vector of one template: half of the rows make it, the others choose the layer."""
    number = validate_integer("calibration_number", data.calibration_number, 2)
    experimentor, half = data.experimentor, number // 2
    source = GivenSource(maker, experimentor.calibration_set(), data.label_space, number, data.k)
    prompts, labels = labelled_prompts(source)
    bare, _ = labelled_prompts(SameDemonstrations(source, []))
    layer: int | None = data.options.layer
    if layer is not None:
        layer = validate_integer("layer", layer, 0)
    (states,) = yield [data.training("layers", prompts[:half])]
    (states,) = without_failures(states)
    patched = [patched_kernel(layer, tuple(vector.tolist())) for layer, vector in enumerate(sum(states) / len(states))]
    if layer is None:
        predictions = yield [data.training(kernel, bare[half:]) for kernel in patched]
        accuracies = [_accuracy(*without_failures(rows, labels[half:])) for rows in predictions]
        layer = accuracies.index(max(accuracies))
    return patched[validate_integer("layer", layer, 0, len(patched) - 1)]


def _accuracy(rows: Sequence[Any], labels: Sequence[int]) -> float:
    correct = [isinstance(row, list) and row.index(max(row)) == label for row, label in zip(rows, labels, strict=True)]
    return sum(correct) / len(correct)


_STATES = frozenset({Capability.LAYER_STATES})
TASK_VECTORS = spec.MethodSpec("task_vectors", "Task vectors", task_vectors, _STATES, True, TaskVectorOptions)
