"""StaICC: standardised evaluation of in-context classification.

>>> from StaICC import Normal
>>> result = Normal(datasets=["mini"])(lambda prompt, label_space: 0)
>>> sorted(result["Averaged results"])
['accuracy', 'averaged_truelabel_likelihood', 'expected_calibration_error_1', 'macro_F1']

The names below are imported when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from StaICC.version import __version__

if TYPE_CHECKING:
    from StaICC.benchmarks import (
        GLER,
        ContextualBias,
        DemonstrationSensitivity,
        Diagnosis,
        DomainBias,
        Experimentor,
        Normal,
        PosteriorBias,
        Suite,
        TemplateSensitivity,
        TripletBias,
    )
    from StaICC.benchmarks.long_icl import LongICL
    from StaICC.benchmarks.statistics import Statistics
    from StaICC.compat import Contextual_bias, Demo_sens, Domain_bias, Post_bias, Template_sens, Triplet_bias
    from StaICC.datasets import Card, Dataset, load_dataset
    from StaICC.errors import StaICCError
    from StaICC.prefabricate_inference.models import load_kernel
    from StaICC.results import Result, ResultGroup, load

__all__ = [
    "GLER",
    "Card",
    "ContextualBias",
    "Contextual_bias",
    "Dataset",
    "Demo_sens",
    "DemonstrationSensitivity",
    "Diagnosis",
    "DomainBias",
    "Domain_bias",
    "Experimentor",
    "LongICL",
    "Normal",
    "Post_bias",
    "PosteriorBias",
    "Result",
    "ResultGroup",
    "StaICCError",
    "Statistics",
    "Suite",
    "TemplateSensitivity",
    "Template_sens",
    "TripletBias",
    "Triplet_bias",
    "__version__",
    "load",
    "load_dataset",
    "load_kernel",
]

_HOMES = {
    "StaICC.benchmarks": (
        "GLER ContextualBias DemonstrationSensitivity Diagnosis DomainBias Experimentor Normal PosteriorBias Suite "
        "TemplateSensitivity TripletBias"
    ),
    "StaICC.benchmarks.long_icl": "LongICL",
    "StaICC.benchmarks.statistics": "Statistics",
    "StaICC.compat": "Contextual_bias Demo_sens Domain_bias Post_bias Template_sens Triplet_bias",
    "StaICC.datasets": "Card Dataset load_dataset",
    "StaICC.errors": "StaICCError",
    "StaICC.prefabricate_inference.models": "load_kernel",
    "StaICC.results": "Result ResultGroup load",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME} - {"Any", "TYPE_CHECKING", "annotations", "importlib"})
