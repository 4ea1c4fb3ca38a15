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
    module_of_name = {}
    for module, names in homes.items():
        for name in names.split():
            module_of_name[name] = module
    submodule_names = submodules.split()

    def load(name: str) -> Any:
        """Return an attribute of the package that is not imported yet."""
        if name in submodule_names:
            return importlib.import_module(f"{package}.{name}")
        if name not in module_of_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        home = importlib.import_module(module_of_name[name])
        value = getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It names the clone of the repository that this module is in. For an installation without a clone, the user fills in
    the path. ``pip install StaICC[...]`` would replace this version by 0.1.1, which the package index has.

    Args:
        extra: The extra, such as ``"hf"``.
    """
    import shlex  # this and pathlib: for messages only
    from pathlib import Path

    root = Path(__file__).resolve().parents[1]
    is_clone = (root / "pyproject.toml").is_file()
    if is_clone:
        distribution = shlex.quote(f"{root}[{extra}]")
        return f"pip install -e {distribution}"
    distribution = shlex.quote(f"<path to the clone>[{extra}]")
    return f"pip install {distribution}"


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

        package = module.partition(".")[0]
        raise MissingDependencyError(
            f"{feature} needs the package {package!r}, which could not be imported ({error}). "
            f"Install it with: {install_command(extra)}"
        ) from error


class Package:
    """An optional package that is imported when one of its attributes is first used; arguments as for :func:`require`.

    Example:
        >>> Package("math", "hf", "an example").floor(2.5)
        2
    """

    def __init__(self, module: str, extra: str, feature: str) -> None:
        self._module = module
        self._extra = extra
        self._feature = feature

    def __getattr__(self, name: str) -> Any:
        # Tools that look at all names of a module, such as doctest, ask for special names: they import nothing.
        if name.startswith("__"):
            raise AttributeError(name)
        module = require(self._module, self._extra, self._feature)
        value = getattr(module, name)
        self.__dict__[name] = value  # the next use finds it without this method
        return value
