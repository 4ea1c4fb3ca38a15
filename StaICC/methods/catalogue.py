"""The methods by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodSpec
from StaICC.registry import Registry


def _check_record(name: str, value: Any) -> MethodSpec:
    """Return what is registered as a method; refuse what is not the record of one. The name is not needed."""
    if not isinstance(value, MethodSpec):
        raise ArgumentError(f"got {value!r:.80}, expected a MethodSpec")
    return value


TABLE_2 = (
    *("vanilla", "noisy_channel", "contextual_calibration", "domain_calibration", "batch_calibration"),
    *("ppl_icl", "topk", "sa_icl", "knn_prompt", "hidden_calibration"),
)
"""The methods of Table 2, in its order. Its k-NN is ``knn_prompt_centroid``."""
_MODULES: Mapping[str, Sequence[str]] = {
    "vanilla": ("vanilla",),
    "noisy_channel": ("noisy_channel",),
    "ensemble": ("ensemble",),
    "permutation_ensemble": ("permutation_ensemble",),
    "contextual_calibration": ("contextual_calibration",),
    "domain_calibration": ("domain_calibration",),
    "batch_calibration": ("batch_calibration",),
    "dc_pmi": ("dc_pmi",),
    "temperature_scaling": ("temperature_scaling",),
    "linear_calibration": ("linear_calibration",),
    "ppl_icl": ("ppl_icl",),
    "topk": ("topk",),
    "sa_icl": ("sa_icl",),
    "knn_prompt": ("knn_prompt",),
    "knn_prompt_centroid": ("knn_prompt_centroid",),
    "hidden_calibration": ("hidden_calibration",),
    "prototypical_calibration": ("prototypical_calibration",),
    "generate": ("generate",),
    "generation_calibration": ("generation_calibration",),
    "task_vectors": ("task_vectors",),
    "demonstration_shapley": ("demonstration_shapley",),
    "self_icl": ("self_icl",),
    "in_context_vectors": ("in_context_vectors",),
}
"""The built-in methods by module, which has the record of each under its name in capitals. To add a method, add it."""

METHODS: Registry[MethodSpec] = Registry(
    "method",
    "staicc.methods",
    {name: f"StaICC.methods.{module}:{name.upper()}" for module, names in _MODULES.items() for name in names},
    _check_record,
    "List them with: python -m StaICC show methods. 'all' runs the ten of Table 2.",
    named=lambda spec: spec.name,
)
"""The methods by name."""
