"""In-context vectors: one direction in the states of all layers takes the place of the demonstrations.

Liu, Ye, Xing and Zou (2024), "In-context Vectors: Making In Context Learning More Effective and Controllable Through
Latent Space Steering", and the authors' code (``shengliu66/ICV``). For each labelled example, the states at the end of
its answer minus those at the end of its input are a step from inputs to answers. Their main direction steers the model
while it reads queries without demonstrations.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.kernel_functions import KernelFunction
from StaICC.methods.options import option
from StaICC.methods.present_rows import without_failures
from StaICC.methods.training_prompts import SameDemonstrations, labelled_prompts
from StaICC.optional import Package
from StaICC.prompting.prompt_text import question_only

numpy = Package("numpy", "hf", "in-context vectors")


@dataclass(frozen=True, slots=True)
class InContextVectorOptions:
    """Options of in-context vectors."""

    strength: float = option(0.1, "How far the states are turned in each layer; the authors use .08 to .12.")


def in_context_vectors(data: MethodData) -> Steps:
    """Predict without demonstrations, with all layers steered from inputs to answers."""
    strength = data.options.strength
    if not strength >= 0:
        raise ArgumentError(f"strength: got {strength}, expected a number that is not negative")
    data.refuse_several_lists()
    if data.is_noisy:
        raise ArgumentError("in-context vectors have no noisy channel: labels are scored after the prompt")
    if "steered" not in data.provides:
        method = "steered(prompts, label_space, vectors, strength)"
        raise ArgumentError(
            f"the kernel cannot steer its layers: got no method {method}, or a class that overrides other methods, "
            "which steered might not use. Use a local model, such as hf:NAME"
        )
    steered_models = []  # one for each template
    for templated in data.templates():
        vectors = yield from learn_vectors(templated)
        vectors_of_layers = tuple(tuple(vector) for vector in vectors.tolist())
        steered_models.append(SteeredModel(vectors_of_layers, strength))

    zero_shot = data.on(demonstrations=[[] for _ in data.demonstrations])
    requests = []
    # Each condition of the benchmark has its template. If all have the same one, cycle repeats the only model.
    for condition, model in zip(zero_shot.conditions, itertools.cycle(steered_models)):
        requests.append(zero_shot.ask(model, prompts=condition.queries))
    rows_of_conditions = yield requests
    return zero_shot.predictions(list(itertools.chain.from_iterable(rows_of_conditions)))


def learn_vectors(data: MethodData) -> Generator[Any, Any, Any]:
    """Return a vector for each layer that points from the states of inputs to those of their answers.

    Each calibration row gives two prompts: its input, and its label alone. The vectors are the main direction of the
    differences between the states of both.

    Args:
        data: The data with the template of the prompts.

    Returns:
        An array (layers, width).
    """
    if data.calibration_number < 2:
        raise ArgumentError(f"calibration_number: got {data.calibration_number}, expected at least 2, for a direction")
    inputs, labels = labelled_prompts(SameDemonstrations(data, []))
    label_prefix = data.settings.template.label_prefix
    answers = [question_only(f"{label_prefix}{data.label_space[label]}") for label in labels]
    input_states, answer_states = yield [
        data.ask("layers", prompts=inputs, role="train"),
        data.ask("layers", prompts=answers, role="train"),
    ]
    # Rows are left out if the prompt of the input failed, then if that of the answer did.
    input_states, answer_states = without_failures(input_states, answer_states)
    answer_states, input_states = without_failures(answer_states, input_states)
    return main_direction(numpy.stack(answer_states) - numpy.stack(input_states))


def main_direction(differences: Any) -> Any:
    """Return the main direction of differences between the states of answers and inputs, of all layers together.

    It is the mean difference plus the unit vector of the first principal component, as in the authors' code. A
    principal component has no sign of its own. It gets the one with which the score of largest size is positive
    (scikit-learn's ``svd_flip``); a score is the coordinate of an example on the component.

    Args:
        differences: An array (examples, layers, width).

    Returns:
        An array (layers, width).
    """
    rows = differences.reshape(len(differences), -1)  # the layers of an example one after the other
    mean = rows.mean(0)
    scores, _, components = numpy.linalg.svd(rows - mean, full_matrices=False)
    component = components[0]
    largest_score = max(scores[:, 0], key=abs)
    if largest_score < 0:
        component = -component
    return (mean + component).reshape(differences.shape[1:])


@dataclass(frozen=True)
class SteeredModel(KernelFunction):
    """Label probabilities of the model while its layers are steered towards vectors."""

    vectors: tuple[tuple[float, ...], ...] = field(hash=False)
    """One for each layer."""
    strength: float
    kernel: Any = None

    def added_identity(self) -> tuple[str, Identity]:
        """Return a name, and a digest of the vectors with the strength: each data set has its own vectors."""
        digest = hashlib.sha256(repr(self.vectors).encode()).hexdigest()
        return "in-context vectors", Identity({"vectors": digest, "strength": repr(self.strength)})

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt."""
        return self.kernel.steered(prompts, label_space, self.vectors, self.strength)


IN_CONTEXT_VECTORS = MethodSpec(
    "in_context_vectors",
    "In-context vectors",
    in_context_vectors,
    requires=frozenset({Capability.LAYER_STATES}),
    options=InContextVectorOptions,
)
