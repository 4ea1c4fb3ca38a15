"""Methods without a correction: vanilla inference, the noisy channel, ensembles.

The noisy channel (Min et al. 2022) takes the probability of the text given each label.

The ensembles are over demonstration lists and templates (Khalifa et al. 2023), and over orders of the demonstrations.

Predictions depend on the order of demonstrations (Lu et al. 2022, "Fantastically Ordered Prompts"); the mean over
orders depends on it less (Tang et al. 2024, "Found in the Middle: Permutation Self-Consistency", for rankings).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivityTask
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.calibration.base import label_rows, mean_row, read_probabilities
from StaICC.methods.features import KernelCall, apply_present, present
from StaICC.methods.retrieval import views_of_orders
from StaICC.prompting.demonstrations import sample_demonstrations


def vanilla(data: spec.MethodData) -> spec.Steps:
    """Predict what the model predicts."""
    (rows,) = yield [data.ask()]
    return data.predictions(rows)


VANILLA = spec.MethodSpec("vanilla", "Vanilla", vanilla, frozenset())


def noisy_channel(data: spec.MethodData) -> spec.Steps:
    """Predict with prompts that begin with the label; a kernel without variants computes those of the benchmark."""
    feature: Any = "probabilities"
    if "noisy_channel" in data.provides:
        variant = "0.1.1" if data.variant == "0.1.1" else "paper"
        feature = KernelCall("noisy channel", "noisy_channel", (variant,), Identity({}, {"variant": variant}))
    elif data.variant == "0.1.1":
        got = "the kernel has no method noisy_channel (or overrides what it calls)"
        raise ArgumentError(f"variant '0.1.1': {got}. Use variant 'paper', or a local model, such as hf:NAME")
    data.experimentor = spec.clean_copy(data.experimentor, noisy_channel=True)
    (rows,) = yield [data.queries(feature)]
    return rows


NOISY_CHANNEL = spec.MethodSpec("noisy_channel", "Noisy channel", noisy_channel, frozenset({Capability.NOISY_CHANNEL}))


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """Options of the ensemble."""

    sets: int = 4
    """Demonstration lists for each test example."""
    templates: int = 1
    """Templates: the first of the nine of template sensitivity; 1: the benchmark's own."""


def ensemble(data: spec.MethodData) -> spec.Steps:
    """Average the predictions over demonstration lists and templates."""
    experimentor = data.experimentor
    sets = validate_integer("sets", data.options.sets, 1)
    templates = validate_integer("templates", data.options.templates, 1, len(L9))
    spec.refuse_several_lists(experimentor)
    if sets > 1 and not experimentor.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to vary. Use sets=1")
    if templates > 1 and isinstance(experimentor.task, TemplateSensitivityTask):
        raise ArgumentError(f"{experimentor.task.name} sets the template itself. Use templates=1")
    size = len(experimentor.test_set())
    lists = sample_demonstrations(len(experimentor.demonstration_set()), experimentor.get_k(), size * sets)
    views = [
        spec.with_demonstrations(experimentor, lists[start : start + size]) for start in range(0, size * sets, size)
    ]
    if templates > 1:
        views = [spec.with_template(view, levels) for levels in L9[:templates] for view in views]
    return (yield from mean_of_views(data, views))


def mean_of_views(data: spec.MethodData, views: Sequence[Experimentor]) -> spec.Steps:
    """Average the predictions for several prompts of each query; the result has the prompts of the first view."""
    width, data.experimentor = len(data.experimentor.get_label_space()), views[0]
    answers = yield [data.queries(view=view) for view in views]
    flat = [row for rows in answers for row in rows]
    rows = apply_present(flat, lambda rows: read_probabilities(label_rows(rows, width, "prediction"), "auto")[0])
    members = [rows[number :: len(answers[0])] for number in range(len(answers[0]))]
    incomplete = sum(0 < len(present(predictions)) < len(predictions) for predictions in members)
    if incomplete:
        data.warnings.append(
            f"{incomplete} of {len(members)} predictions are means over fewer than {len(views)} prompts, because "
            "others have no prediction"
        )
    return [mean_row(present(predictions)) if present(predictions) else predictions[0] for predictions in members]


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


ENSEMBLE = spec.MethodSpec("ensemble", "Ensemble", ensemble, options=EnsembleOptions)
PERMUTATION_ENSEMBLE = spec.MethodSpec(
    "permutation_ensemble", "Permutation ensemble", permutation_ensemble, options=PermutationOptions
)
