"""StaICC: standardised evaluation of in-context classification.

>>> from StaICC import Normal
>>> result = Normal(datasets=["mini"])(lambda prompt, label_space: 0)
>>> sorted(result["Averaged results"])
['accuracy', 'averaged_truelabel_likelihood', 'expected_calibration_error_1', 'macro_F1']

The names below are imported when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.optional import lazy_names
from StaICC.version import __version__

if TYPE_CHECKING:
    from StaICC.benchmarks import (
        GLER,
        ContextualBias,
        DemonstrationSensitivity,
        Diagnosis,
        DomainBias,
        Experimentor,
        Generalisation,
        Normal,
        PosteriorBias,
        Suite,
        TemplateSensitivity,
        TripletBias,
    )
    from StaICC.benchmarks.long_icl import LongICL
    from StaICC.benchmarks.task import Statistics
    from StaICC.compat import Contextual_bias, Demo_sens, Domain_bias, Post_bias, Template_sens, Triplet_bias
    from StaICC.datasets import Card, Dataset, load_dataset
    from StaICC.errors import StaICCError
    from StaICC.kernels.registry import load_kernel
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
    "Generalisation",
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
        "GLER ContextualBias DemonstrationSensitivity Diagnosis DomainBias Experimentor Generalisation Normal "
        "PosteriorBias Suite TemplateSensitivity TripletBias"
    ),
    "StaICC.benchmarks.long_icl": "LongICL",
    "StaICC.benchmarks.task": "Statistics",
    "StaICC.compat": "Contextual_bias Demo_sens Domain_bias Post_bias Template_sens Triplet_bias",
    "StaICC.datasets": "Card Dataset load_dataset",
    "StaICC.errors": "StaICCError",
    "StaICC.kernels.registry": "load_kernel",
    "StaICC.results": "Result ResultGroup load",
}

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *" ".join(_HOMES.values()).split()} - {"TYPE_CHECKING", "annotations", "lazy_names"})
