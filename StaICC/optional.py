"""Imports at first use: the names of packages, and optional packages with one wording of what is missing.

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


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; a name is imported once, at its first use.

    Args:
        package: The package, ``__name__``.
        homes: The names, separated by blanks, by the module that defines them.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        value = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation, from where it was installed.

    The index has the release 0.1.1 under the same name, so the name alone would replace this version by that one.

    Args:
        extra: The extra, such as ``"hf"``.
    """
    import contextlib  # this and more: slow to import, and needed for messages only
    import json
    import shlex
    from importlib import metadata
    from pathlib import Path

    from StaICC.version import __version__

    root = Path(__file__).resolve().parents[1]
    clone = (root / "pyproject.toml").is_file()
    target, tool, kept = f"{root if clone else '<path to the clone>'}[{extra}]", "pip install", ""
    with contextlib.suppress(
        metadata.PackageNotFoundError, OSError, ValueError, LookupError, TypeError, AttributeError
    ):
        distribution = metadata.distribution("staicc")
        if distribution.version == __version__:  # else it is another installation than the one that runs
            if (distribution.read_text("INSTALLER") or "").strip() == "uv":
                tool = "uv pip install"
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
            if clone:
                kept = " -e" if origin.get("dir_info", {}).get("editable") else ""
            else:
                target = _target(origin, extra) if origin else f"staicc[{extra}]=={__version__}"
    return f"{tool}{kept} {shlex.quote(target)}"


def _target(origin: dict[str, Any], extra: str) -> str:
    """Return what to install, from the record of the installer (PEP 610)."""
    from urllib.parse import urlsplit, urlunsplit
    from urllib.request import url2pathname

    url = urlsplit(origin["url"])
    if url.scheme == "file" and "dir_info" in origin:
        return f"{url2pathname(url.path)}[{extra}]"
    address = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))  # without credentials
    info = origin.get("vcs_info")
    if info:
        address = f"{info['vcs']}+{address}@{info['commit_id']}"
    return f"staicc[{extra}] @ {address}"


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
