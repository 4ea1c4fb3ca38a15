"""Imports at first use.

The core needs nothing but the standard library. Code that needs a package (torch, transformers, ...) imports it with
this module, inside the function that uses it, so that importing the library never does. This module itself imports
nothing that takes time.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str], submodules: str = "") -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; a name is imported once, at its first use.

    Args:
        package: The package, ``__name__``.
        homes: The names, separated by blanks, by the module that defines them.
        submodules: The modules of the package that are attributes, too, separated by blanks.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name in submodules.split():
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        value = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation: to the clone that runs, else to one to be named.

    The index has the release 0.1.1 under the same name, so the name alone would replace this version by that one.

    Args:
        extra: The extra, such as ``"hf"``.
    """
    import shlex  # this and pathlib: for messages only
    from pathlib import Path

    root = Path(__file__).resolve().parents[1]
    kept, place = ("-e ", root) if (root / "pyproject.toml").is_file() else ("", "<path to the clone>")
    return f"pip install {kept}{shlex.quote(f'{place}[{extra}]')}"


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
        from StaICC.errors import MissingDependencyError

        raise MissingDependencyError(
            f"{feature} needs the package {module!r}, which could not be imported ({error}). "
            f"Install it with: {install_command(extra)}"
        ) from error


class Package:
    """An optional package that is imported when one of its attributes is first used; arguments as for :func:`require`.

    Example:
        >>> Package("math", "hf", "an example").floor(2.5)
        2
    """

    def __init__(self, module: str, extra: str, feature: str) -> None:
        self._needed = module, extra, feature

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of tools that look at all names of a module, such as doctest
            raise AttributeError(name)
        value = self.__dict__[name] = getattr(require(*self._needed), name)
        return value
