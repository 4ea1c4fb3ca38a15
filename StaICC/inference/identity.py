"""The identity of an inference function: a digest of it, with a description.

A program cannot prove what another program does by reading it. So an identity is *stated* first, and
*tested by behaviour* in each run:

* A kernel states its identity: its method ``identity()`` returns digests of files, tensors and options.
* A plain function is named by its user (``model_name=``, required with a store). Its qualified name and the digest of
  its source are added, so another source never reuses its predictions.
* Every run that reuses predictions computes a sample of them again (:mod:`StaICC.inference.recheck`).

An identity has two parts: ``who`` predicts (weights, tokenizer, number type, device, source) and how scores are
computed (``settings``: label scoring, truncation, prompt format). Predictions are cached under both. The settings also
go into a result's signature, ``who`` into its provenance.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.contract import own_attribute
from StaICC.registry import origin_of
from StaICC.version import __version__

_CONSTANTS = (bool, int, float, complex, str, bytes)
_CONTAINERS: tuple[Any, ...] = (tuple, list, set, frozenset)
_MOST = 500  # functions and values that a digest of source looks at
_NO_SOURCE = "no source"
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


@dataclass(frozen=True)
class Identity:
    """What is known of the predictions of an inference function.

    Args:
        who: Readable facts about the model by name: ``weights``, ``tokenizer``, ``dtype``, ``device``, ``source``, ...
        settings: How scores are computed, by option name, such as ``label_scoring``.
        unidentified: Reasons why the identity is incomplete; empty if it is complete.
        plain: Whether a plain function is part of it, whose name and source do not determine its predictions.
    """

    who: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    unidentified: tuple[str, ...] = ()
    plain: bool = False

    @property
    def complete(self) -> bool:
        """Whether equal digests mean equal predictions; otherwise a store needs a ``model_name``."""
        return not self.plain and not self.unidentified

    @property
    def digest(self) -> str:
        """SHA-256 over ``who`` and ``settings``, as 64 hexadecimal digits."""
        text = json.dumps([dict(self.who), dict(self.settings)], sort_keys=True, ensure_ascii=False)
        return _sha256(text)

    def differences(self, other: Identity) -> dict[str, tuple[str | None, str | None]]:
        """Return the entries in which two identities differ, each with both values (``None`` where absent)."""
        pairs = ((self.who, other.who), (self.settings, other.settings))
        return {
            name: (mine.get(name), theirs.get(name))
            for mine, theirs in pairs
            for name in sorted({*mine, *theirs})
            if mine.get(name) != theirs.get(name)
        }


def identity_of(function: Any) -> Identity:
    """Return the identity of an inference function as it is now.

    An object whose class defines ``identity() -> Identity`` states it. A subclass without an ``identity()`` of its own,
    a method replaced on the object, and a replaced method of a class of this library make it incomplete. A
    :func:`functools.partial` of a function with an attribute ``identity_for`` is identified by
    ``function.identity_for(**keywords)``. Every other function or object has its qualified name and the digest of its
    source (see :func:`source_digest`).

    Args:
        function: The inference function.

    Raises:
        ArgumentError: The function has a method ``identity`` that returns something else.
    """
    stated = _stated(function)
    if stated is not None:
        origin = origin_of(function)  # what a plug-in states need not name its version
        return replace(stated, who={**stated.who, "distribution": origin}) if origin else stated
    if _owner(function) is not None:
        raise ArgumentError(f"{type(function).__name__}.identity() must return an Identity, or have another name")
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    try:
        name = inner.__qualname__
    except Exception:  # of an object's own __getattr__
        name = None
    named = {"function": name} if isinstance(name, str) else {"class": type(inner).__qualname__}
    return Identity({**named, "source": source_digest(function)[:32]}, plain=True)


def display_name(function: Any) -> str | None:
    """Return the name of the model of a kernel, of what has one, or of a partial of a function with ``model=``.

    Args:
        function: The inference function.

    Returns:
        Its attribute ``display_name``; for a model of transformers that was loaded from the hub or from a folder, that
        name, as the command line writes it; else ``None``.

    Example:
        >>> from types import SimpleNamespace
        >>> model = SimpleNamespace(config=SimpleNamespace(_name_or_path="EleutherAI/pythia-70m"))
        >>> display_name(functools.partial(print, model=model))
        'hf:EleutherAI/pythia-70m'
    """
    if isinstance(function, functools.partial):
        model = function.keywords.get("model")
        return display_name(function.func) if model is None else hub_name(model)
    name, kernel = own_attribute(function, "display_name"), own_attribute(function, "kernel")
    return name if isinstance(name, str) else None if kernel is None or kernel is function else display_name(kernel)


def hub_name(model: Any) -> str | None:
    """Return the name under which a model of transformers was loaded, without the folders above it."""
    name = getattr(getattr(model, "config", None), "_name_or_path", None)
    if not isinstance(name, str) or not name:
        return None
    path = PurePath(name)
    if path.parent.name == "snapshots":  # of the cache of the hub
        return f"hf:{path.parents[1].name.removeprefix('models--').replace('--', '/')}"
    return f"hf:{path.name if path.is_absolute() or name.startswith('.') or os.path.isdir(name) else name}"


def combined(base: Identity, name: str, added: Identity) -> Identity:
    """Return the identity of something that builds on another, such as a kernel with a trained calibration.

    Args:
        base: The identity of what it builds on.
        name: What is added; its facts and settings get this in front of their names.
        added: The identity of what is added.
    """

    def named(facts: Mapping[str, str]) -> dict[str, str]:
        return {f"{name} {key}": value for key, value in facts.items()}

    unidentified = (*base.unidentified, *(f"{name}: {reason}" for reason in added.unidentified))
    who, settings = {**base.who, **named(added.who)}, {**base.settings, **named(added.settings)}
    return Identity(who, settings, unidentified, base.plain or added.plain)


def in_library(thing: Any) -> bool:
    """Tell whether a class or function is defined in this library."""
    return str(getattr(thing, "__module__", None)).partition(".")[0] == "StaICC"


def replaced_methods(value: object) -> list[str]:
    """Name the methods of a class that an attribute of this object replaces."""
    names = []
    for name in getattr(value, "__dict__", {}):
        member = next((vars(base)[name] for base in type(value).__mro__ if name in vars(base)), None)
        if isinstance(member, (staticmethod, classmethod)) or (callable(member) and not isinstance(member, type)):
            names.append(name)
    return sorted(names)


def _patched(cls: type) -> list[str]:
    """Name the methods of a class of this library that other code replaced."""
    names = []
    for name, member in vars(cls).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        while (plain := type(function) is types.FunctionType) and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        top = function.__globals__["__name__"].partition(".")[0] if plain else ""
        is_method = callable(function) and not isinstance(function, (type, types.BuiltinFunctionType))
        if is_method and top != "StaICC" and top not in sys.stdlib_module_names:
            names.append(f"{cls.__qualname__}.{name}")
    return names


def _owner(value: Any) -> type | None:
    """Return the class that defines the method ``identity`` of an object; ``None`` if it has no such method."""
    owner = next((base for base in type(value).__mro__ if "identity" in vars(base)), None)
    return None if owner is None or isinstance(value, type) or not callable(value.identity) else owner


def _stated(value: Any) -> Identity | None:
    """Return the identity that an object states; ``None`` if it states none."""
    if issubclass(type(value), functools.partial):
        identity_for = own_attribute(value.func, "identity_for")
        alone = type(value) is functools.partial and not value.args and "batch" not in vars(value)
        stated = identity_for(**value.keywords) if callable(identity_for) and alone else None
        return stated if isinstance(stated, Identity) else None
    owner = _owner(value)
    stated = None if owner is None else value.identity()
    if owner is None or not isinstance(stated, Identity):
        return None
    classes, cls = type(value).__mro__, type(value).__qualname__
    below = [base for base in classes[: classes.index(owner)] if not in_library(base)]
    reasons = [f"attribute {name!r} replaces a method of {cls}" for name in replaced_methods(value)]
    reasons += [f"replaced method {name}" for base in classes if in_library(base) for name in _patched(base)]
    reasons += [f"the class {base.__qualname__} has no identity() of its own" for base in below]
    who = dict(stated.who)
    if below:
        who |= {"subclass": below[0].__qualname__, "subclass source": source_digest(below[0])[:32]}
    return replace(stated, who=who, unidentified=tuple(dict.fromkeys((*stated.unidentified, *reasons))))


# -- source


def source_digest(value: Any) -> str:
    """Return a digest of the source of a function, class or object.

    It covers the functions and classes that the source refers to, what it wraps, its attribute ``batch``, and the
    constants among the arguments of a :func:`functools.partial`; of kernels it has the identity, of installed packages
    the names. Values that may change while a function runs (closures, globals, attributes) are no part of it.
    """
    return _sha256(_text(value, False, {}))


def code_mark(value: Any) -> str:
    """Return 12 digits of a digest of source and values, as signatures have it.

    Other than in :func:`source_digest`, the values that a function refers to and that an object has are part of it: a
    metric or a task has no state that changes. ``-unidentified`` follows where a source is not available.

    Args:
        value: A function, or an object of a class of the user's own.
    """
    text = _text(value, True, {})
    return f"{_sha256(text)[:12]}{'-unidentified' if _NO_SOURCE in text else ''}"


def referred(value: Any) -> Iterator[object]:
    """Yield what a function, a partial, a container or an object refers to directly.

    No code of the value runs, so that a lazy or a dead object may be among what a function refers to.
    """
    kind = type(value)
    if issubclass(kind, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values(), *_attributes(value).values())
    elif issubclass(kind, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif issubclass(kind, types.FunctionType):
        try:
            names = inspect.getclosurevars(value)
            yield from (*names.nonlocals.values(), *names.globals.values())
        except ValueError:  # a closure variable without a value yet
            pass
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values())
    elif issubclass(kind, dict):
        yield from dict.values(value)
    elif base := next((base for base in _CONTAINERS if issubclass(kind, base)), None):
        yield from base.__iter__(value)
    elif not issubclass(kind, (type, types.ModuleType)):
        yield from _attributes(value).values()


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes that an object itself has; none if its class hides them."""
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except Exception:  # of a property of the class
        return {}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_installed(file: str) -> bool:
    return file.startswith(("<frozen", _STANDARD_LIBRARY)) or bool(
        {"site-packages", "dist-packages"} & set(file.replace("\\", "/").split("/"))
    )


@functools.lru_cache(1024)
def _source(value: Any) -> str:
    """Return the source of a class or of code, read once: its file may be edited while it runs."""
    try:
        return inspect.getsource(value)
    except Exception:  # also of a module's own __getattr__
        return _NO_SOURCE


def _text(value: Any, values: bool, seen: dict[int, object]) -> str:
    """Return the source of a value and of what it refers to; with ``values`` also the values among it."""
    if value is None or type(value) in _CONSTANTS:
        return f"{type(value).__name__} {value!r}"
    if id(value) in seen or len(seen) > _MOST:
        return "seen"
    is_root, kind = not seen, type(value)
    seen[id(value)] = value  # kept, so that no other object gets its id

    def text(name: str, *parts: object, given: bool = False) -> str:
        kept = [part for part in parts if values or _is_code(part) or (given and callable(part))]
        return f"({name}: {', '.join([_text(part, values, seen) for part in kept])})"

    if issubclass(kind, (list, tuple)):
        return text("list", *referred(value))
    if issubclass(kind, (set, frozenset)):
        return f"(set: {sorted(_text(item, values, seen) for item in referred(value))})"
    if issubclass(kind, dict):
        return text("mapping", *_flat(dict(value)))
    if issubclass(kind, types.ModuleType):
        file = vars(value).get("__file__")
        return f"module {value.__name__} {'' if file is None or _is_installed(file) else _source(value)}"
    named = issubclass(kind, (type, types.FunctionType)) or "__qualname__" in _attributes(value)
    if named and in_library(value):
        return f"{value.__module__}.{value.__qualname__} {__version__}"
    if kind is types.FunctionType:
        name = f"function {value.__module__}.{value.__qualname__}"
        if _is_installed(value.__code__.co_filename):
            return text(name, getattr(value, "__wrapped__", None))
        return text(f"function {value.__qualname__} {_source(value.__code__)}", *referred(value))
    if issubclass(kind, type):
        own = [base for base in value.__mro__ if not _is_installed(_file(base))]
        source = " ".join([value.__qualname__, *map(_source, own)])
        return text(
            f"class {source}", *[used for base in own for member in vars(base).values() for used in _used(member)]
        )
    stated = _stated(value)
    if stated is not None:
        return stated.digest
    if issubclass(kind, functools.partial):
        parts = [value.func, *value.args, *_flat(value.keywords), vars(value).get("batch")]
        return text(f"partial {[part for part in parts if type(part) in _CONSTANTS]}", *parts, given=True)
    if issubclass(kind, types.MethodType):
        return text("method", value.__func__, value.__self__, given=True)
    if values and not is_root and _is_installed(_file(kind)):
        return f"object {kind.__qualname__} {_NO_SOURCE}"  # its content is not known
    attributes = _attributes(value)
    return text("object", kind, *(_flat(attributes) if values else [attributes.get("__wrapped__")]))


def _is_code(value: object) -> bool:
    """Tell code from values, which may be made in the first call: a model that is loaded when it is needed."""
    if issubclass(type(value), types.ModuleType):
        return not _is_installed(vars(value).get("__file__") or "<frozen")
    code = (types.FunctionType, types.MethodType, type, functools.partial)
    return issubclass(type(value), code) or "__wrapped__" in _attributes(value)


def _flat(pairs: Mapping[Any, Any]) -> list[object]:
    return [item for pair in sorted(pairs.items(), key=lambda pair: repr(pair[0])) for item in pair]


def _file(cls: type) -> str:
    return str(getattr(sys.modules.get(cls.__module__), "__file__", None) or "<frozen")


def _used(member: object) -> Iterator[object]:
    """Yield what a method refers to."""
    function = getattr(member, "__func__", member)
    return referred(function) if type(function) is types.FunctionType else iter(())
