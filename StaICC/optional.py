"""Import of optional packages: one helper, one wording.

The core needs nothing but the standard library. What does need a package (torch, matplotlib, ...) asks for it here,
inside the function that uses it, so that importing the library never does.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from StaICC.errors import MissingDependencyError

__all__ = ["require"]


def require(module: str, extra: str, feature: str) -> ModuleType:
    """Import an optional package, or say how to install it.

    Args:
        module: Import name, such as ``"torch"``.
        extra: The extra of this distribution that brings it, such as ``"hf"``.
        feature: What needs it, for the message, such as ``"the causal language model kernel"``.

    Returns:
        The module.

    Raises:
        MissingDependencyError: The package is not installed (chained to the original error).
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{feature} needs the package {module!r}, which could not be imported ({error}); "
            f"install it with: pip install 'staicc[{extra}]'"
        ) from error
