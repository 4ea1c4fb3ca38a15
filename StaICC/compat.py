"""The spellings of StaICC 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.benchmarks import GLER, Normal
from StaICC.benchmarks import ContextualBias as Contextual_bias
from StaICC.benchmarks import DemonstrationSensitivity as Demo_sens
from StaICC.benchmarks import DomainBias as Domain_bias
from StaICC.benchmarks import PosteriorBias as Post_bias
from StaICC.benchmarks import TemplateSensitivity as Template_sens
from StaICC.benchmarks import TripletBias as Triplet_bias

__all__ = [
    "GLER",
    "Contextual_bias",
    "Demo_sens",
    "Domain_bias",
    "Normal",
    "Post_bias",
    "Template_sens",
    "Triplet_bias",
]
