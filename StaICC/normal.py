"""``StaICC.normal`` of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.benchmarks.tasks.normal import Normal as Normal
from StaICC.removed import removed_names

__getattr__ = removed_names(__name__, {"ORIGINAL_DATA_LOADER_NORMAL": "Normal(datasets=['TREC', ...])"})
