"""The version numbers that can move a result, each with its own life.

``__version__`` is the library's. The others are part of signatures and files: a number that was measured with one
sampler or one file format says so.
"""

from __future__ import annotations

__all__ = ["RESULT_SCHEMA", "SAMPLER_VERSION", "__version__"]  # the last begins with an underscore

__version__ = "1.0.0.dev0"

SAMPLER_VERSION = "lcg42"
"""The published generator: linear congruential, seed 42 (see :mod:`StaICC.prompting.demonstrations`)."""

RESULT_SCHEMA = 2
"""Schema number of saved results (see :mod:`StaICC.results.result`)."""
