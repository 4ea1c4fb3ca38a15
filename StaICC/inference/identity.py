"""Who predicts: a digest and a description of an inference function.

A program cannot prove what another program does by reading it. So an identity is *stated* first, and
*tested by behaviour* in each run:

* A kernel states its identity: its method ``identity()`` returns digests of files, tensors and options.
* A plain function is named by its user (``model_name=``, required with a store). Its qualified name and the digest of
  its source are added, so another source never reuses its predictions.
* Every run that reuses predictions computes a sample of them again.

An identity has two parts: ``who`` predicts (weights, tokenizer, number type, device, source) and how scores are
computed (``settings``: label scoring, truncation, prompt format). Predictions are cached under both. The settings also
go into a result's signature, ``who`` into its provenance.

A run records who predicted, when, and how many predictions.
A run that reuses stored predictions computes a random sample of them again: about 30 (all if there are fewer), spread
over the parts of the run, and all 30 before the first new prediction. A run that is complete in the store does so too.
A prediction that differs by more than the tolerance that the kernel declares ends the run: the stored predictions are
not those of this inference function. If one in ten predictions changed, a sample of 30 shows it in 96 of 100 runs.

A kernel without a tolerance (``None``), such as a server, may change its predictions. A difference is then a warning,
and a run that is complete in the store sends no request, unless its identity is unidentified, as by a patched method.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import os
import random
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from StaICC.errors import ArgumentError, IdentityError
from StaICC.inference.contract import Answer, Inference, own_attribute
from StaICC.inference.prompt_key import PromptKey
from StaICC.registry import origin_of
from StaICC.safe_text import logger
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


# -- the name in a store

IDENTITY = "identity/1:"
"""Prefix of the names in a store."""

_NAMED_BY = ("model", "kernel", "class", "function")
_MOST_REASONS = 3


def check_model_name(name: object) -> None:
    """Refuse what is no name of a model.

    Raises:
        ArgumentError: It is neither ``None`` nor a non-empty text.
    """
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ArgumentError(f"the name of a model must be a non-empty text, not {name!r}")


def name_in_store(identity: Identity, model_name: str | None = None) -> str:
    """Return the text under which a store keeps the predictions of an inference function.

    It begins with ``identity/1:`` and the digest of the identity. A readable name follows.

    Args:
        identity: The identity.
        model_name: The name that the user gives it, in addition.

    Raises:
        ArgumentError: The identity is incomplete and no name was given.
    """
    check_model_name(model_name)
    if model_name is not None:
        return f"{IDENTITY}{identity.digest} name:{model_name}"
    shown = next((identity.who[name] for name in _NAMED_BY if name in identity.who), "")
    if not identity.complete:
        reasons = "; ".join(identity.unidentified[:_MOST_REASONS]) or "it is a plain function"
        more = f" (and {n} more)" if (n := len(identity.unidentified) - _MOST_REASONS) > 0 else ""
        raise ArgumentError(
            f"store: the inference function {shown!r} has no complete identity, and no model_name was given: {reasons}"
            f"{more}. Name it (model_name= or --model-name), and change the name whenever its predictions may change"
        )
    return f"{IDENTITY}{identity.digest} {shown}".strip()


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


TOLERANCE = 1e-6
"""Largest difference of a number, relative to numbers above 1, that a recheck accepts by default."""

SAMPLE = 30
"""Reused predictions that a run computes again, at least one in each part with reused ones."""

_DEEPEST = 3  # references that are followed to find a kernel

_RANDOM = random.SystemRandom()

_LOG = logger(__name__)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One inference function in one run."""

    identity: Identity
    """Its identity at the start, verified at the end."""
    model_name: str | None
    """The name that the user gave it."""
    started: str
    """UTC, ISO 8601 with seconds."""
    finished: str
    """UTC, ISO 8601 with seconds."""
    counts: Counter[str]
    """As for :class:`RunCounter`."""
    editions: tuple[str, ...] = ()
    """The editions that served it, where it uses a server; empty if all predictions were reused."""
    replies: bool = False
    """Whether it returned replies, whose labels the parser found."""


def tolerance_of(function: Inference) -> float | None:
    """Return by how much the numbers of an inference function may differ when they are computed again.

    Args:
        function: The inference function.

    Returns:
        The declared tolerance: the attribute ``recheck_tolerance``, or for a :func:`functools.partial` the result of
        ``function.recheck_tolerance_for(**keywords)``. A function that declares none has the largest one of the kernels
        that it refers to (in its closure, globals, defaults, arguments or attributes); without a kernel,
        :data:`TOLERANCE`.
    """
    declared = _declared(function, _DEEPEST)
    return None if None in declared else max((value for value in declared if value is not None), default=TOLERANCE)


def _declared(function: Any, deepest: int) -> list[float | None]:
    """Return the tolerance that a function declares, or those of what it refers to."""
    if issubclass(type(function), functools.partial):
        of_partials = own_attribute(function.func, "recheck_tolerance_for")
        if callable(of_partials) and not function.args:
            return [of_partials(**function.keywords)]
        if hasattr(function.func, "identity_for"):
            return []
    if inspect.getattr_static(function, "recheck_tolerance", function) is not function:  # it may be None
        return [function.recheck_tolerance]
    if hasattr(type(function), "identity") or not deepest:  # do not look into kernels
        return []
    return [tolerance for value in referred(function) for tolerance in _declared(value, deepest - 1)]


def difference(first: object, other: object) -> float:
    """Return by how much two predictions differ: the largest difference of two numbers, relative to numbers above 1.

    Where they name different labels, the distance of these labels' scores counts, too.

    Returns:
        The difference; infinity for different labels, texts or kinds of predictions.
    """
    if not (isinstance(first, list) and isinstance(other, list) and len(first) == len(other)):
        return 0.0 if first == other else math.inf
    largest = max((_distance(a, b) for a, b in zip(first, other, strict=True) if a != b), default=0.0)
    return largest if math.isinf(largest) else max(largest, _gap(first, other), _gap(other, first))


def _gap(first: list[float], other: list[float]) -> float:
    """Return how far the label that one prediction names is below the largest score of another, relative to its range.

    Large numbers may differ little relative to themselves and name other labels all the same. Half of the distance
    counts: two scores that are equal may have moved apart by the accepted difference each.
    """
    below = max(other) - other[max(range(len(first)), key=first.__getitem__)]
    return below / 2 / max(1.0, max(other) - min(other)) if below else 0.0


def _distance(first: float, other: float) -> float:
    return abs(first - other) / max(1.0, abs(first), abs(other)) if math.isfinite(first - other) else math.inf


class RunCounter:
    """Counts the predictions of one inference function over a run.

    Args:
        tolerance: By how much rechecked numbers may differ; ``None``: a difference is only a warning.
        recheck: Whether to recheck reused predictions.
        done: How many this run rechecked before.
        unidentified: Whether a run without a tolerance rechecks also if it is complete in the store.

    Attributes:
        counts: Number of predictions by what became of them: ``computed`` in this run (rechecked ones not counted),
            ``reused`` from the store, ``rechecked``, ``failed``; and ``retried`` requests, where the function counts
            them.
        replies: Whether a prediction is a reply, whose label the parser finds.
        tokens: Tokens that copies of the function read and generated in worker processes, where it counts them.
    """

    def __init__(
        self, tolerance: float | None = TOLERANCE, recheck: bool = True, done: int = 0, unidentified: bool = False
    ) -> None:
        self.counts = Counter[str]()
        self.replies = False
        self.tokens = (0, 0)
        self._tolerance = tolerance
        self._recheck = recheck
        self._done = done
        self._unidentified = unidentified
        self._least = 0
        self._candidates: list[tuple[PromptKey, Answer, str]] = []

    def add(self, retried: int, read: int, generated: int) -> None:
        """Count what a copy of the function counted in a worker process: repeated requests, and tokens."""
        self.counts.update(retried=retried)
        self.tokens = self.tokens[0] + read, self.tokens[1] + generated

    def reuse(self, stored: Mapping[PromptKey, Answer], where: Callable[[PromptKey], str]) -> None:
        """Count predictions that come from the store, and keep a sample of them to recheck.

        Args:
            stored: The predictions.
            where: Names the place of a query.
        """
        self.counts.update(reused=len(stored))
        self._least = min(1, len(stored))
        if self._recheck:
            chosen = _RANDOM.sample(list(stored), min(SAMPLE, len(stored)))
            self._candidates += [(key, stored[key], where(key)) for key in chosen]

    def due(self, parts_left: int, computes: bool) -> list[tuple[PromptKey, Answer, str]]:
        """Return the reused predictions to compute again now, each with its stored value and its place.

        Args:
            parts_left: How many parts of the run come, this one included.
            computes: Whether new predictions of this part will be computed.
        """
        if not self._candidates or (self._tolerance is None and not computes and not self._unidentified):
            return []
        missing = SAMPLE - self._done
        number = max(self._least, missing if computes else math.ceil(missing / max(1, parts_left)))
        start = max(0, len(self._candidates) - number)
        chosen = self._candidates[start:]  # those of this part first
        del self._candidates[start:]
        self._done += len(chosen)
        return chosen

    def compare(self, query: PromptKey, stored: Answer, again: Answer, where: str) -> None:
        """Count a prediction that was computed again.

        Raises:
            IdentityError: It differs from the stored one by more than the tolerance.
        """
        self.counts.update(rechecked=1)
        if difference(stored, again) <= (TOLERANCE if self._tolerance is None else self._tolerance):
            return
        prompt = query[0] if isinstance(query[0], str) else query[0][0]
        message = f"{where}: the store has {stored!r:.300} for the prompt that ends with {prompt[-60:]!r}"
        if self._tolerance is None:
            _LOG.warning("%s, computed again it is %.300r. This kernel's predictions may change.", message, again)
            return
        raise IdentityError(
            f"{message}, but computed again it is {again!r:.300} (accepted difference: {self._tolerance:g}). The "
            "stored predictions are not those of this inference function, or it is not deterministic. Use another "
            "store or model_name, or recheck=False to reuse them without this check"
        )
