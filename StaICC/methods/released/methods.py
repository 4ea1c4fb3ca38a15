"""The methods of 0.1.1: for each of its names, the steps that variant ``0.1.1`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.knn_prompt import calibrate_with_anchors
from StaICC.methods.label_scores import label_rows
from StaICC.methods.present_rows import apply_present
from StaICC.methods.released import calibration_arithmetic as arithmetic
from StaICC.methods.released import selection
from StaICC.methods.released.training_prompts import refuse_rows_of_each_label
from StaICC.methods.trained_calibration import calibrate


def contextual_calibration(data: MethodData) -> Steps:
    """Correct all predictions by one prior of empty texts."""
    return (yield from calibrate(data, arithmetic.CONTEXTUAL, [data]))  # one for all templates: that of the first


def domain_calibration(data: MethodData) -> Steps:
    """Correct all predictions by one prior of random words."""
    length = data.options.sample_length
    calibration = arithmetic.domain() if length is None else arithmetic.domain(length)
    return (yield from calibrate(data, calibration, [data]))


def batch_calibration(data: MethodData) -> Steps:
    """Subtract the mean prediction of a batch from each prediction, each condition of the benchmark alone."""
    (rows,) = yield [data.ask()]

    def calibrate(known_rows: list[Any]) -> list[list[float]]:
        """Return the calibrated predictions of the queries of one condition that did not fail."""
        scores = label_rows(known_rows, None, "prediction")
        return arithmetic.batch_calibration(scores, data.options.batch_size)

    calibrated: list[Any] = []
    for rows_of_condition in data.rows_by_condition(rows):
        calibrated += apply_present(rows_of_condition, calibrate)  # failures keep their places
    return data.predictions(calibrated)


def hidden_calibration(data: MethodData) -> Steps:
    """Predict the label whose centroid of hidden states is nearest."""
    refuse_rows_of_each_label("samples_per_label", data.options.samples_per_label)
    return (yield from calibrate(data, arithmetic.HIDDEN, [data]))


def knn_prompt(data: MethodData) -> Steps:
    """Predict by the labels of the nearest logits."""
    refuse_rows_of_each_label("samples_per_label", data.options.samples_per_label)
    calibration = arithmetic.nearest_anchors(data.options.knn_k)
    template_of_anchors = [data]  # one for all templates of the benchmark: the first, which the data has
    return (yield from calibrate_with_anchors(data, calibration, template_of_anchors))


def knn_prompt_centroid(data: MethodData) -> Steps:
    """Predict the label whose mean logits are nearest."""
    refuse_rows_of_each_label("samples_per_label", data.options.samples_per_label)
    template_of_anchors = [data]  # one for all templates of the benchmark: the first, which the data has
    return (yield from calibrate_with_anchors(data, arithmetic.CENTROID, template_of_anchors))


CALIBRATIONS: Mapping[str, Callable[[MethodData], Steps]] = {
    "contextual_calibration": contextual_calibration,
    "domain_calibration": domain_calibration,
    "batch_calibration": batch_calibration,
    "hidden_calibration": hidden_calibration,
    "knn_prompt": knn_prompt,
    "knn_prompt_centroid": knn_prompt_centroid,
}

OTHERS: Mapping[str, Callable[[MethodData], Steps]] = {
    "noisy_channel": selection.noisy_channel,
    "ppl_icl": selection.ppl_icl,
    "topk": selection.topk,
    "sa_icl": selection.sa_icl,
}
"""The methods of the release that change the prompts."""

SAME = ("vanilla",)
"""The methods whose own steps are those of the release."""

RELEASED = (*CALIBRATIONS, *OTHERS, *SAME)
"""All methods of the release."""


def steps_of(spec: MethodSpec, variant: str) -> Callable[[MethodData], Steps]:
    """Return the generator function of a method in a variant.

    Variant ``"0.1.1"`` has functions of its own. The other variants share one, which reads ``data.variant``.

    Args:
        spec: The method.
        variant: The variant.

    Raises:
        ArgumentError: The variant is ``"0.1.1"``, and the release does not have the method.
    """
    is_builtin = METHODS.get(spec.name) == spec
    if variant != "0.1.1" or not is_builtin or spec.name in SAME:
        return spec.steps
    if spec.name in CALIBRATIONS:
        return CALIBRATIONS[spec.name]
    if spec.name in OTHERS:
        return OTHERS[spec.name]
    names = ", ".join(sorted(RELEASED))
    raise ArgumentError(f"variant '0.1.1': the release has no method {spec.name!r}, only {names}")
