"""The generator functions of the methods that StaICC 0.1.1 has."""

from __future__ import annotations

from collections.abc import Callable

from StaICC.errors import ArgumentError
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.registry import import_reference

STEPS = {
    "noisy_channel": "StaICC.methods.released.selection:noisy_channel",
    "ppl_icl": "StaICC.methods.released.selection:ppl_icl",
    "topk": "StaICC.methods.released.selection:topk",
    "sa_icl": "StaICC.methods.released.selection:sa_icl",
}
"""The functions of the methods that compute something else in the release, as ``module:function``."""

CALIBRATIONS = frozenset(
    (
        *("contextual_calibration", "domain_calibration", "batch_calibration"),
        *("knn_prompt", "knn_prompt_centroid", "hidden_calibration"),
        *("dc_pmi", "temperature_scaling", "linear_calibration", "prototypical_calibration"),
    )
)
"""The methods that still compute the release's arithmetic themselves."""

SAME = CALIBRATIONS | {"vanilla"}
"""The methods whose own function is the release's."""


def released_steps(spec: MethodSpec) -> Callable[[MethodData], Steps]:
    """Return the generator function of a method as the release computes it.

    Args:
        spec: The method. One that is not built in computes the same in all variants, unless it reads ``data.variant``.

    Raises:
        ArgumentError: The release has no such method.
    """
    is_built_in = METHODS.get(spec.name) == spec
    if not is_built_in or spec.name in SAME:
        return spec.steps
    if spec.name not in STEPS:
        raise ArgumentError("variant '0.1.1': the release has no such method. Use variant 'paper' or 'staicc'")
    steps: Callable[[MethodData], Steps] = import_reference(STEPS[spec.name])
    return steps
