"""Where a result was computed: enough to explain a difference, nothing about the user."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import sys

from StaICC.version import __version__

__all__ = ["describe_environment"]

_MATTERING = {
    "torch": ("torch",),
    "transformers": ("torch",),
    "numpy": ("numpy", "torch"),
    "openai": ("StaICC.prefabricate_inference.endpoint_kernel",),
}
"""Packages that compute predictions, and the modules that are loaded when a run uses them. Not always their own: a
kernel imports some when it is first asked, and a run that the store answers alone must give an equal result."""


def describe_environment() -> dict[str, str]:
    """Return versions of this library, of Python, and of the loaded packages that compute predictions."""
    found = {
        "staicc": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    for name, signs in _MATTERING.items():
        if any(sign in sys.modules for sign in signs):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(name)
    return found
