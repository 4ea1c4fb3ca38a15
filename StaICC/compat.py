"""The spellings of StaICC 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC import benchmarks
from StaICC.benchmarks import GLER as GLER
from StaICC.benchmarks import Normal as Normal

Contextual_bias = benchmarks.ContextualBias
Demo_sens = benchmarks.DemonstrationSensitivity
Domain_bias = benchmarks.DomainBias
Post_bias = benchmarks.PosteriorBias
Template_sens = benchmarks.TemplateSensitivity
Triplet_bias = benchmarks.TripletBias
