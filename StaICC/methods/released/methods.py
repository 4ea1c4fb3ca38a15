"""The methods of 0.1.1: for each of its names, the steps that variant ``0.1.1`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from StaICC.errors import ArgumentError
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.released import selection

CALIBRATIONS = (
    *("contextual_calibration", "domain_calibration", "batch_calibration"),
    *("knn_prompt", "knn_prompt_centroid", "hidden_calibration"),
    *("dc_pmi", "temperature_scaling", "linear_calibration", "prototypical_calibration"),
)
"""The methods whose own steps still read the variant."""

OTHERS: Mapping[str, Callable[[MethodData], Steps]] = {
    "noisy_channel": selection.noisy_channel,
    "ppl_icl": selection.ppl_icl,
    "topk": selection.topk,
    "sa_icl": selection.sa_icl,
}
"""The other methods of the release."""

SAME = ("vanilla", *CALIBRATIONS)
"""The methods whose own steps are those of the release."""


def steps_of(spec: MethodSpec, variant: str) -> Callable[[MethodData], Steps]:
    """Return the steps of a method in a variant.

    Raises:
        ArgumentError: The variant is ``"0.1.1"``, and the release does not have the method.
    """
    is_builtin = METHODS.get(spec.name) == spec
    if variant != "0.1.1" or not is_builtin or spec.name in SAME:
        return spec.steps
    if spec.name not in OTHERS:
        names = ", ".join(sorted([*OTHERS, *SAME]))
        raise ArgumentError(f"variant '0.1.1': the release has no method {spec.name!r}, only {names}")
    return OTHERS[spec.name]
