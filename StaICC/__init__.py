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
from StaICC.version import __version__ as __version__

if TYPE_CHECKING:
    from StaICC.benchmarks import GLER as GLER
    from StaICC.benchmarks import ContextualBias as ContextualBias
    from StaICC.benchmarks import DemonstrationSensitivity as DemonstrationSensitivity
    from StaICC.benchmarks import Diagnosis as Diagnosis
    from StaICC.benchmarks import DomainBias as DomainBias
    from StaICC.benchmarks import Experimentor as Experimentor
    from StaICC.benchmarks import Generalisation as Generalisation
    from StaICC.benchmarks import Normal as Normal
    from StaICC.benchmarks import PosteriorBias as PosteriorBias
    from StaICC.benchmarks import Suite as Suite
    from StaICC.benchmarks import TemplateSensitivity as TemplateSensitivity
    from StaICC.benchmarks import TripletBias as TripletBias
    from StaICC.benchmarks.long_icl import LongICL as LongICL
    from StaICC.benchmarks.task import Statistics as Statistics
    from StaICC.compat import Contextual_bias as Contextual_bias
    from StaICC.compat import Demo_sens as Demo_sens
    from StaICC.compat import Domain_bias as Domain_bias
    from StaICC.compat import Post_bias as Post_bias
    from StaICC.compat import Template_sens as Template_sens
    from StaICC.compat import Triplet_bias as Triplet_bias
    from StaICC.datasets import Card as Card
    from StaICC.datasets import Dataset as Dataset
    from StaICC.datasets import load_dataset as load_dataset
    from StaICC.errors import StaICCError as StaICCError
    from StaICC.kernels.registry import load_kernel as load_kernel
    from StaICC.results import Result as Result
    from StaICC.results import ResultGroup as ResultGroup
    from StaICC.results import load as load


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

__all__ = sorted([*" ".join(_HOMES.values()).split(), "__version__"])
__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations", "lazy_names"})
