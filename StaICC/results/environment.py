"""Versions and machine of a run: enough to explain a difference, nothing about the user."""

from __future__ import annotations

import contextlib
import sys

from StaICC.version import __version__

_MATTERING = {
    "torch": ("torch",),
    "transformers": ("torch",),
    "numpy": ("numpy", "torch"),
    "openai": ("StaICC.kernels.endpoint.kernel",),
}
"""Packages that compute predictions, and the modules whose loading shows that a run uses them. These are not always
modules of the package: some kernels import it at the first query, and a run from the store alone must give an equal
result."""


def describe_environment() -> dict[str, str]:
    """Return versions of this library, of Python, and of the loaded packages that compute predictions."""
    import platform  # only when a result is made

    found = {
        "staicc": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    for name, signs in _MATTERING.items():
        if any(sign in sys.modules for sign in signs):
            import importlib.metadata  # slow to import, and rarely needed

            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(name)
    return found
