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

import ast
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
from StaICC.inference.contract import inner_kernel, own_attribute
from StaICC.registry import origin_of
from StaICC.version import __version__

_CONSTANTS = (bool, int, float, complex, str, bytes)
_CONTAINERS: tuple[Any, ...] = (tuple, list, set, frozenset)
_MOST_VALUES = 500
"""Functions and values that a digest of source looks at; the text has "seen" in place of further ones."""
_NO_SOURCE = "no source"
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})


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
        differences: dict[str, tuple[str | None, str | None]] = {}
        for own_entries, other_entries in ((self.who, other.who), (self.settings, other.settings)):
            for name in sorted(own_entries.keys() | other_entries.keys()):
                own_value = own_entries.get(name)
                other_value = other_entries.get(name)
                if own_value != other_value:
                    differences[name] = (own_value, other_value)
        return differences


def identity_of(function: Any) -> Identity:
    """Return the identity of an inference function as it is now: a description of what determines its predictions.

    Cached predictions are reused for functions with the same identity.

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
        # What a plug-in states need not name its version.
        distribution = origin_of(function)
        if not distribution:
            return stated
        return replace(stated, who={**stated.who, "distribution": distribution})
    if _identity_class(function) is not None:
        raise ArgumentError(f"{type(function).__name__}.identity() must return an Identity, or have another name")
    return _identity_of_plain(function)


def _identity_of_plain(function: Any) -> Identity:
    """Return the identity of a function or object that states none: its qualified name, and a digest of its source."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    try:
        name = inner.__qualname__
    except Exception:  # of an object's own __getattr__
        name = None
    source = source_digest(function)[:32]
    if isinstance(name, str):
        return Identity({"function": name, "source": source}, plain=True)
    return Identity({"class": type(inner).__qualname__, "source": source}, plain=True)


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
        if model is None:
            return display_name(function.func)
        return hub_name(model)
    name = own_attribute(function, "display_name")
    if isinstance(name, str):
        return name
    kernel = inner_kernel(function)
    if kernel is None:
        return None
    return display_name(kernel)


def hub_name(model: Any) -> str | None:
    """Return the name under which a model of transformers was loaded, without the folders above it."""
    name = getattr(getattr(model, "config", None), "_name_or_path", None)
    if not isinstance(name, str) or not name:
        return None
    path = PurePath(name)
    # The cache of the hub has a model's files in models--OWNER--NAME/snapshots/REVISION.
    if path.parent.name == "snapshots":
        cached_name = path.parents[1].name.removeprefix("models--").replace("--", "/")
        return f"hf:{cached_name}"
    is_folder = path.is_absolute() or name.startswith(".") or os.path.isdir(name)
    if is_folder:
        return f"hf:{path.name}"
    return f"hf:{name}"


def combined(base: Identity, name: str, added: Identity) -> Identity:
    """Return the identity of something that builds on another, such as a kernel with a trained calibration.

    Args:
        base: The identity of what it builds on.
        name: What is added; its facts and settings get this in front of their names.
        added: The identity of what is added.
    """
    who = dict(base.who)
    for fact, value in added.who.items():
        who[f"{name} {fact}"] = value
    settings = dict(base.settings)
    for option, value in added.settings.items():
        settings[f"{name} {option}"] = value
    reasons_of_added = [f"{name}: {reason}" for reason in added.unidentified]
    return Identity(who, settings, (*base.unidentified, *reasons_of_added), plain=base.plain or added.plain)


# -- stated identities


def in_library(thing: Any) -> bool:
    """Return whether a class or function is defined in this library."""
    return str(getattr(thing, "__module__", None)).partition(".")[0] == "StaICC"


def replaced_methods(value: object) -> list[str]:
    """Return the names of the methods of a class that an attribute of this object replaces."""
    names = []
    for name in getattr(value, "__dict__", {}):
        member = _class_member(type(value), name)
        is_static_or_class_method = isinstance(member, (staticmethod, classmethod))
        is_method = callable(member) and not isinstance(member, type)
        if is_static_or_class_method or is_method:
            names.append(name)
    return sorted(names)


def _class_member(cls: type, name: str) -> object:
    """Return what a class defines under a name, or else the nearest of its bases; ``None`` if none defines it."""
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None


def _patched_methods(cls: type) -> list[str]:
    """Return the names of the methods of a class of this library that other code replaced.

    A method is taken for a replaced one if it is neither of this library nor of the standard library, of which a
    dataclass has methods: a function of another package, or an object that can be called.
    """
    names = []
    for name, member in vars(cls).items():
        function = _unwrapped_function(member)
        if not callable(function) or isinstance(function, (type, types.BuiltinFunctionType)):
            continue
        package = ""
        if type(function) is types.FunctionType:
            module_name = function.__globals__["__name__"]
            package = module_name.partition(".")[0]
        is_original = package == "StaICC" or package in sys.stdlib_module_names
        if not is_original:
            names.append(f"{cls.__qualname__}.{name}")
    return names


def _unwrapped_function(member: Any) -> Any:
    """Return the function behind a property, a class method or a static method, and within wrappers.

    Args:
        member: What a class defines under a name; all else is returned unchanged.
    """
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    while type(function) is types.FunctionType and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _identity_class(value: Any) -> type | None:
    """Return the class that defines the method ``identity`` of an object: that of the object, or the nearest base.

    Returns:
        ``None`` if there is no such method, or the value is a class itself.
    """
    for base in type(value).__mro__:
        if "identity" in vars(base):
            is_method_of_object = not isinstance(value, type) and callable(value.identity)
            return base if is_method_of_object else None
    return None


def _stated(value: Any) -> Identity | None:
    """Return the identity that an object states by its method ``identity()``; ``None`` if it states none.

    The identity is made incomplete if the object may behave in another way than its class. A partial states one through
    the attribute ``identity_for`` of its function.
    """
    if issubclass(type(value), functools.partial):
        return _stated_for_partial(value)
    identity_class = _identity_class(value)
    if identity_class is None:
        return None
    identity = value.identity()
    if not isinstance(identity, Identity):
        return None
    return _with_overrides(identity, value, identity_class)


def _stated_for_partial(function: functools.partial[Any]) -> Identity | None:
    """Return the identity that the function within a partial states for its keywords; ``None`` if it states none."""
    identity_for = own_attribute(function.func, "identity_for")
    # A subclass, positional arguments and a batched form of its own may change the predictions.
    has_only_keywords = type(function) is functools.partial and not function.args and "batch" not in vars(function)
    if not callable(identity_for) or not has_only_keywords:
        return None
    stated = identity_for(**function.keywords)
    return stated if isinstance(stated, Identity) else None


def _with_overrides(stated: Identity, value: Any, identity_class: type) -> Identity:
    """Return the identity that an object states, made incomplete if the object may behave in another way.

    It may do so if a method was replaced on the object or in a class of this library, or if a class of the user
    inherits the method ``identity``. Each of these is a reason in ``unidentified``. The first of the user's classes is
    named in ``who``, with the digest of its source.

    Args:
        stated: What the object states.
        value: The object.
        identity_class: The class that defines its method ``identity``.
    """
    classes = type(value).__mro__
    # The class of the object comes first among these, and the one that defines identity() after its subclasses.
    subclasses = classes[: classes.index(identity_class)]
    user_classes = [cls for cls in subclasses if not in_library(cls)]

    reasons = list(stated.unidentified)
    for name in replaced_methods(value):
        reasons.append(f"attribute {name!r} replaces a method of {type(value).__qualname__}")
    for cls in classes:
        if in_library(cls):
            reasons += [f"replaced method {name}" for name in _patched_methods(cls)]
    for cls in user_classes:
        reasons.append(f"the class {cls.__qualname__} has no identity() of its own")
    reasons_without_duplicates = tuple(dict.fromkeys(reasons))

    who = dict(stated.who)
    if user_classes:
        who["subclass"] = user_classes[0].__qualname__
        who["subclass source"] = source_digest(user_classes[0])[:32]
    return replace(stated, who=who, unidentified=reasons_without_duplicates)


# -- source


def source_digest(value: Any) -> str:
    """Return a digest of the source of a function, class or object.

    It covers the functions and classes that the source refers to, what it wraps, its attribute ``batch``, and the
    constants among the arguments of a :func:`functools.partial`; of kernels it has the identity, of installed packages
    the names. Values that may change while a function runs (closures, globals, attributes) are no part of it.
    """
    return _sha256(_SourceText(with_values=False).describe(value))


def code_mark(value: Any) -> str:
    """Return 12 digits of a digest of source and values, as signatures have it.

    Other than in :func:`source_digest`, the values that a function refers to and that an object has are part of it: a
    metric or a task has no state that changes. ``-unidentified`` follows where a source is not available.

    Args:
        value: A function, or an object of a class of the user's own.
    """
    text = _SourceText(with_values=True).describe(value)
    mark = _sha256(text)[:12]
    if _NO_SOURCE in text:
        return f"{mark}-unidentified"
    return mark


def referred(value: Any) -> Iterator[object]:
    """Yield what a function, a partial, a container or an object refers to directly.

    No code of the value runs, so that a lazy or a dead object may be among what a function refers to.
    """
    # issubclass() of the type, since isinstance() may run code of a proxy.
    kind = type(value)
    if issubclass(kind, functools.partial):
        yield from [value.func, *value.args, *value.keywords.values(), *_attributes(value).values()]
    elif issubclass(kind, types.MethodType):
        yield from [value.__func__, value.__self__]
    elif issubclass(kind, types.FunctionType):
        yield from _closure_and_globals(value)
        defaults = value.__defaults__ or ()
        keyword_defaults = value.__kwdefaults__ or {}
        yield from [*defaults, *keyword_defaults.values(), *vars(value).values()]
    elif issubclass(kind, dict):
        yield from dict.values(value)
    elif issubclass(kind, _CONTAINERS):
        yield from _items(value)
    elif not issubclass(kind, (type, types.ModuleType)):
        yield from _attributes(value).values()


def _closure_and_globals(function: types.FunctionType) -> list[object]:
    """Return the values of the closure and of the globals that a function refers to."""
    try:
        variables = inspect.getclosurevars(function)
    except ValueError:  # a closure variable without a value yet
        return []
    return [*variables.nonlocals.values(), *variables.globals.values()]


def _items(container: Any) -> Iterator[object]:
    """Return the items of a tuple, list or set.

    They are read by the method of the built-in type: that of a subclass may run code of the user's own.
    """
    for built_in_type in _CONTAINERS:
        if issubclass(type(container), built_in_type):
            return built_in_type.__iter__(container)  # type: ignore[no-any-return]
    raise TypeError(f"{type(container)} is no container")


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes that an object itself has; none if its class hides them."""
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except Exception:  # of a property of the class
        return {}


def _sha256(text: str) -> str:
    """Return the SHA-256 of a text, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_installed(file: str) -> bool:
    """Return whether a file belongs to Python or to an installed package, which a digest names without its source."""
    if file.startswith(("<frozen", _STANDARD_LIBRARY)):
        return True
    folders = file.replace("\\", "/").split("/")
    return not _INSTALLED_FOLDERS.isdisjoint(folders)


@functools.lru_cache(1024)
def _source(value: Any) -> str:
    """Return the source of a class or of code, read once: its file may be edited while it runs."""
    try:
        source = inspect.getsource(value)
    except Exception:  # also of a module's own __getattr__
        return _NO_SOURCE
    if isinstance(value, type) and not _defines_class(source, value.__name__):
        return _NO_SOURCE
    return source


def _defines_class(source: str, name: str) -> bool:
    """Return whether the source that Python gives for a class is that of the class.

    For a class whose text was executed, Python 3.13 gives the lines of the module that have the same numbers.

    Args:
        source: The source. It is indented if the class is within another one, or within a function.
        name: The name of the class.
    """
    is_indented = source[:1].isspace()
    try:
        if is_indented:
            # Python parses no text that begins with blanks, so it becomes the body of a statement.
            (enclosing,) = ast.parse(f"if True:\n{source}").body
            statements: list[ast.stmt] = enclosing.body  # type: ignore[attr-defined]
        else:
            statements = ast.parse(source).body
    except SyntaxError:
        return False
    if not statements:
        return False
    first = statements[0]
    return isinstance(first, ast.ClassDef) and first.name == name


class _SourceText:
    """Describes a value by the source of its code and by what it refers to, as one text, of which a digest is made.

    For example, a function ``f`` that calls ``g`` is described by ``(function f SOURCE: (function g SOURCE: ))``.
    """

    def __init__(self, with_values: bool) -> None:
        """Begin a description in which no value occurs yet.

        Args:
            with_values: Whether the text has all that the value refers to, such as the numbers in its closure and the
                attributes of an object. Otherwise it has only the code among these: functions and classes.
        """
        self._with_values = with_values
        self._described: dict[int, object] = {}
        """The values that are described so far, by their id. Python reuses the id of an object that no longer exists,
        so the values themselves are kept, too."""

    def describe(self, value: Any) -> str:
        """Return the description of a value, which includes those of the values that it refers to.

        Each value is described once, so that a circle of references ends: where it occurs again, the text has only the
        word "seen". After :data:`_MOST_VALUES` values, it has this word for new values, too.
        """
        if value is None or type(value) in _CONSTANTS:
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._described or len(self._described) > _MOST_VALUES:
            return "seen"
        is_root = not self._described  # the first value is that of which the digest is made
        self._described[id(value)] = value
        return self._describe_new(value, is_root)

    def _describe_new(self, value: Any, is_root: bool) -> str:
        """Return the description of a value that is no constant and was not described before.

        The kinds of values are tried from the most special one on: containers, modules, what this library defines,
        functions, classes, what states its identity (such as a kernel: its digest is the description), and last all
        other objects.

        Args:
            value: The value.
            is_root: Whether it is the value of which the digest is made.
        """
        # issubclass() of the type, since isinstance() may run code of a proxy.
        kind = type(value)
        if issubclass(kind, (list, tuple)):
            return self._describe_all("list", list(referred(value)))
        if issubclass(kind, (set, frozenset)):
            return f"(set: {sorted(self.describe(item) for item in referred(value))})"
        if issubclass(kind, dict):
            return self._describe_all("mapping", _keys_and_values(dict(value)))
        if issubclass(kind, types.ModuleType):
            return _module_text(value)
        is_named = issubclass(kind, (type, types.FunctionType)) or "__qualname__" in _attributes(value)
        if is_named and in_library(value):
            return f"{value.__module__}.{value.__qualname__} {__version__}"
        if kind is types.FunctionType:
            return self._describe_function(value)
        if issubclass(kind, type):
            return self._describe_class(value)
        stated_identity = _stated(value)
        if stated_identity is not None:
            return stated_identity.digest
        if issubclass(kind, functools.partial):
            return self._describe_partial(value)
        if issubclass(kind, types.MethodType):
            return self._describe_all("method", [value.__func__, value.__self__], with_callables=True)
        return self._describe_object(value, is_root)

    def _describe_all(self, name: str, values: list[Any], with_callables: bool = False) -> str:
        """Return the descriptions of several values with a name in front of them: "(list: int 1, int 2)".

        Values that are no code, such as numbers, are left out unless the text was begun with ``with_values=True``.

        Args:
            name: The name.
            values: The values.
            with_callables: Whether all objects that can be called count as code, not only functions and classes.
        """
        described = []
        for value in values:
            is_code = _is_code(value) or (with_callables and callable(value))
            if self._with_values or is_code:
                described.append(self.describe(value))
        return f"({name}: {', '.join(described)})"

    def _describe_function(self, function: types.FunctionType) -> str:
        """Return the description of a function: its source and what it refers to; of an installed one, its name."""
        if _is_installed(function.__code__.co_filename):
            name = f"function {function.__module__}.{function.__qualname__}"
            return self._describe_all(name, [getattr(function, "__wrapped__", None)])
        name = f"function {function.__qualname__} {_source(function.__code__)}"
        return self._describe_all(name, list(referred(function)))

    def _describe_class(self, cls: type) -> str:
        """Return the description of a class: the sources of it and its bases, and what their methods refer to.

        Classes of installed packages and of Python are left out.
        """
        user_classes = [base for base in cls.__mro__ if not _is_installed(_file(base))]
        sources = [_source(user_class) for user_class in user_classes]
        references: list[object] = []
        for user_class in user_classes:
            for member in vars(user_class).values():
                references += _references_of_method(member)
        name_and_sources = " ".join([cls.__qualname__, *sources])
        return self._describe_all(f"class {name_and_sources}", references)

    def _describe_partial(self, function: functools.partial[Any]) -> str:
        """Return the description of a :func:`functools.partial`: the constants among its arguments, and its code.

        Its code is the function within it, the functions among its arguments, and the attribute ``batch`` that a user
        may have set on it (the batched form of the function).
        """
        keywords = _keys_and_values(function.keywords)
        batched_form = vars(function).get("batch")
        values = [function.func, *function.args, *keywords, batched_form]
        constants = [value for value in values if type(value) in _CONSTANTS]
        return self._describe_all(f"partial {constants}", values, with_callables=True)

    def _describe_object(self, value: Any, is_root: bool) -> str:
        """Return the description of an object: its class, and the function that it wraps or all its attributes.

        With ``with_values=True`` it is all its attributes. But an object of an installed class, such as an open file,
        is only described as one without source, unless it is the value of which the digest is made.
        """
        cls = type(value)
        attributes = _attributes(value)
        if not self._with_values:
            return self._describe_all("object", [cls, attributes.get("__wrapped__")])
        if not is_root and _is_installed(_file(cls)):
            return f"object {cls.__qualname__} {_NO_SOURCE}"
        return self._describe_all("object", [cls, *_keys_and_values(attributes)])


def _module_text(module: types.ModuleType) -> str:
    """Return the name of a module, with its source if it is not installed."""
    file = vars(module).get("__file__")
    source = "" if file is None or _is_installed(file) else _source(module)
    return f"module {module.__name__} {source}"


def _is_code(value: object) -> bool:
    """Return whether a value is code, which is described in every digest: a function, a class, a partial or a wrapper.

    A module is code if it is of the user's own. Other values are not: they may change while a function runs, such as a
    model that is loaded in the first call.
    """
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        file = vars(value).get("__file__")
        if not file:
            return False
        return not _is_installed(file)
    if issubclass(kind, (types.FunctionType, types.MethodType, type, functools.partial)):
        return True
    return "__wrapped__" in _attributes(value)


def _keys_and_values(mapping: Mapping[Any, Any]) -> list[object]:
    """Return the keys of a mapping, each with its value behind it, in the order of their texts."""
    keys_and_values: list[object] = []
    for key, value in sorted(mapping.items(), key=lambda pair: repr(pair[0])):
        keys_and_values += [key, value]
    return keys_and_values


def _file(cls: type) -> str:
    """Return the file of the module of a class."""
    module = sys.modules.get(cls.__module__)
    return str(getattr(module, "__file__", None) or "<frozen")


def _references_of_method(member: object) -> list[object]:
    """Return the functions and values that a method of a class refers to, which its source names but does not show.

    Args:
        member: What a class defines under a name. Of what is no method there are none.
    """
    function = getattr(member, "__func__", member)  # of a class method or static method
    if type(function) is not types.FunctionType:
        return []
    innermost = vars(function).get("__wrapped__", function)
    if type(innermost) is types.FunctionType:
        file = innermost.__code__.co_filename
        # A dataclass generates methods from its fields, which are in the source of the class. Since Python 3.13 it also
        # has a method of the standard library, "__replace__".
        is_generated = file == "<string>"
        if is_generated or _is_installed(file):
            return []
    return list(referred(function))
