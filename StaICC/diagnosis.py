"""A module of 0.1.1 that is gone: its classes are in :mod:`StaICC`; docs/migration.md says what to use instead."""

from __future__ import annotations

from StaICC.errors import removed_names

__getattr__ = removed_names(
    "StaICC.diagnosis", "__path__ Contextual_bias Demo_sens Domain_bias GLER Post_bias Template_sens Triplet_bias"
)
