"""The helpers of 0.1.1, which are gone; docs/migration.md says what to use instead."""

from __future__ import annotations

from StaICC.errors import removed_names

__getattr__ = removed_names(
    "StaICC.util", "__path__ configs dataset_interface experimentor functional hgf_dataset_loader stable_random"
)
