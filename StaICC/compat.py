"""The spellings of StaICC 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.benchmarks.tasks.bias import ContextualBias as Contextual_bias
from StaICC.benchmarks.tasks.bias import DomainBias as Domain_bias
from StaICC.benchmarks.tasks.bias import PosteriorBias as Post_bias
from StaICC.benchmarks.tasks.bias import TripletBias as Triplet_bias
from StaICC.benchmarks.tasks.label_noise import GLER
from StaICC.benchmarks.tasks.normal import Normal
from StaICC.benchmarks.tasks.sensitivity import DemonstrationSensitivity as Demo_sens
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivity as Template_sens

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
