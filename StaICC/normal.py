"""A module of 0.1.1 that is gone: its class is in :mod:`StaICC`; docs/migration.md says what to use instead."""

from __future__ import annotations

from StaICC.errors import removed_names

__getattr__ = removed_names("StaICC.normal", "__path__ Normal")
