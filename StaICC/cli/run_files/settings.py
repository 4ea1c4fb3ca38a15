"""The settings of a run as values of a run file, with remarks for its reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Settings:
    """Values of a run file, and comments at its beginning."""

    values: dict[str, Any] = field(default_factory=dict)
    """The values by key, in the types of TOML."""
    remarks: list[str] = field(default_factory=list)
    """What the user should know or fill in; a sentence each."""

    def without_defaults(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that are not the default of their key, and no empty tables."""
        values = {}
        for name, value in self.values.items():
            is_default = name in defaults and defaults[name] == value
            if value is not None and value != {} and not is_default:
                values[name] = value
        return values
