"""Facts about Python code: what an inference function does, as digests that are equal in every process.

The facts about a function are its code, its defaults, its closure, the globals that it refers to (recursively) and its
attributes; those about an object are the code of its class and its attributes. Neither names of files, line numbers,
memory addresses nor the order of sets go into a digest.

What can change without a trace, or is read from outside the program, has no digest. It is left out, and a reason says
so: lists, dictionaries and sets, objects as globals, modules that are not known to be pure, ``open``, ``eval``, names
that the function rebinds itself (counters), and classes of extension modules.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from StaICC.version import __version__


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PURE_MODULES = _words(
    "abc array base64 binascii bisect cmath collections collections_abc contextlib copy dataclasses difflib "
    "enum fractions functools hashlib heapq html itertools json keyword math numbers operator re reprlib statistics "
    "string struct textwrap typing unicodedata zlib"
)
"""Modules of the standard library whose functions depend on their arguments only."""

PURE_BUILTINS = _words(
    "abs all any ascii bin callable chr delattr divmod format getattr hasattr hex isinstance issubclass iter len max "
    "min next oct ord pow print repr round setattr sorted sum"
)
"""Built-in functions that depend on their arguments only. (Built-in types all do.)"""

REBOUND = "is rebound by the function itself"
"""The reason for leaving out a variable or an attribute that the function assigns when it is called."""

_LARGEST = 3000  # objects that one fact may refer to
_MUTABLE = (list, dict, set, bytearray, types.MappingProxyType)
_IMMUTABLE_MODULES = frozenset({"datetime", "fractions"})
_BEFORE_USE = frozenset({"__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__", "__set_name__"})
_OF_THE_CLASS = _words(
    "__module__ __dict__ __weakref__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotate__ __annotate_func__ __annotations_cache__ __dataclass_fields__ __dataclass_params__ "
    "__abstractmethods__ _abc_impl __orig_bases__ __parameters__ __hash__ _field_defaults __protocol_attrs__ "
    "_is_protocol _is_runtime_protocol __non_callable_proto_members__ __final__ __subclasshook__ __slotnames__"
)
_OF_A_PARTIAL = frozenset({*vars(functools.partial), *functools.WRAPPER_ASSIGNMENTS, "__wrapped__"})
_OF_A_MEMBER = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})
_REBINDING = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
_HEAP_TYPE = 1 << 9
_NOT_IDENTIFIED = "not identified"
_VISIBLE = (object, str, bytes, int, float, complex, tuple, frozenset, BaseException, Exception)
"""Built-in classes whose instances show all that they hold; every other class that is not written in Python may not."""
_REACHES_EVERYTHING = frozenset(
    {"__annotations__", "__globals__", "__builtins__", "__subclasses__", "f_globals", "f_locals", "gi_frame"}
)
"""Attributes through which code reaches what its names do not show."""

StatedIdentity = Callable[[object], "tuple[str, tuple[str, ...]] | None"]
"""Returns the digest of an object that states its identity and what it leaves out; ``None`` if it states none."""


class _TooLargeError(Exception):
    """A value refers to more than is worth digesting."""


@dataclass
class Facts:
    """Facts about an inference function, by name, and what could not be identified."""

    known: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Names:
    """The names that some code refers to, those in it included."""

    loaded: frozenset[str]
    imported: frozenset[str]
    attributes: frozenset[str]
    rebound: frozenset[str]
    stored_attributes: frozenset[str]


def _hash(*parts: str) -> str:
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "big") + data)
    return f"sha256:{found.hexdigest()[:32]}"


def in_library(thing: Any) -> bool:
    """Tell whether a class or function is defined in this library."""
    module = getattr(thing, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == "StaICC"


_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


@functools.lru_cache(1024)
def _is_of_standard_library(name: str) -> bool:
    """Return whether a module is Python's own, and not a user's module with such a name."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name in sys.builtin_module_names or getattr(sys.modules.get(name), "__spec__", None) is not None
    path = os.path.abspath(file)
    return path.startswith(_STANDARD_LIBRARY) and "site-packages" not in path and "dist-packages" not in path


def _is_pure(module: str | None) -> bool:
    if module is None:
        return False
    top = module.partition(".")[0]
    return (top in PURE_MODULES or (top[1:] in PURE_MODULES and top[0] == "_")) and _is_of_standard_library(module)


def _is_at_its_place(thing: Any) -> bool:
    """Tell whether a class or function is what its module has under its name."""
    found: Any = sys.modules.get(thing.__module__)
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@functools.lru_cache(1024)
def _names(code: types.CodeType) -> _Names:
    loaded, imported, attributes, rebound, stored = set(), set(), set(), set(), set()
    for inner in _codes(code):
        local: set[str] = set()
        for step in dis.get_instructions(inner):
            if step.opname == "LOAD_GLOBAL":
                loaded.add(step.argval)
            elif step.opname in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):  # in the body of a class
                if step.argval not in local and step.argval != "__name__":
                    loaded.add(step.argval)
            elif step.opname == "STORE_NAME":
                local.add(step.argval)
            elif step.opname in _REBINDING and (step.opname.endswith("GLOBAL") or step.argval in code.co_freevars):
                rebound.add(step.argval)
            elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                stored.add(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
                attributes.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                imported.add(step.argval)
    return _Names(*map(frozenset, (loaded, imported, attributes, rebound, stored)))


def _constant(value: object) -> str | None:
    """A text for an immutable built-in value, different for different values and types; ``None`` for others."""
    if value is None or value is Ellipsis or value is NotImplemented or type(value) in (bool, float, complex, bytes):
        return repr(value)
    if type(value) is str:
        return _hash("str", value)  # not verbatim: it may be a password
    if type(value) is int:
        return repr(value) if value.bit_length() < 256 else hex(value)
    return None


def is_constant(value: object) -> bool:
    """Tell whether a value is an immutable built-in one that contains no other values."""
    return _constant(value) is not None


def _state(value: object) -> dict[str, Any]:
    """The attributes that an object itself has, in ``__dict__`` and slots."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        found = {}
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value)
                except AttributeError:
                    continue
    return found


def replaced_methods(value: object) -> list[str]:
    """Name the methods of a class that an attribute of this object replaces."""
    own = getattr(value, "__dict__", {})
    methods = (types.FunctionType, staticmethod, classmethod)
    return sorted(
        name
        for name in own
        if isinstance(next((vars(base)[name] for base in type(value).__mro__ if name in vars(base)), None), methods)
    )


def own_of_partial(value: functools.partial[Any]) -> bool:
    """Tell whether a partial has code or attributes of its own; what `functools.update_wrapper` copies is none."""
    return type(value) is not functools.partial or not vars(value).keys() <= _OF_A_PARTIAL


def _is_native(cls: type) -> bool:
    """Tell whether a class is not written in Python, so that its instances may hold more than their attributes."""
    native = (types.MethodDescriptorType, types.WrapperDescriptorType)
    return not cls.__flags__ & _HEAP_TYPE or any(
        isinstance(member, native) and member.__objclass__ is cls for member in vars(cls).values()
    )


def stored_attributes(classes: Iterable[type]) -> set[str]:
    """Name the attributes that the methods of these classes assign, and those that the classes declare."""
    found: set[str] = set()
    for one in classes:
        found.update(vars(one).get("__annotations__", ()))
        for name, member in vars(one).items():
            if isinstance(member, (types.MemberDescriptorType, functools.cached_property)):
                found.add(name)
            for function in _functions(member):
                found |= _names(function.__code__).stored_attributes
    return found


def _functions(member: object) -> list[types.FunctionType]:
    """The functions that an entry of a class runs; a property's setter only sets."""
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    elif isinstance(member, functools.cached_property):
        member = member.func
    elif isinstance(member, property):
        member = member.fget
    return [member] if isinstance(member, types.FunctionType) else []


class _Digester:
    """Digests values and all that they refer to.

    Args:
        stated: Digests objects that state their identity.
        rebound: Names of variables and attributes that the code itself rebinds, found by an earlier pass.
    """

    def __init__(self, stated: StatedIdentity, rebound: frozenset[str] = frozenset()) -> None:
        self.reasons: list[str] = []
        self._stated = stated
        self._rebound = rebound
        self._loaded: set[str] = set()
        self._stores: list[tuple[str, frozenset[str]]] = []
        self._methods: dict[int, str] = {}
        self._depths: dict[int, int] = {}
        self._done: dict[int, tuple[str, bool, object]] = {}
        self._lowest = sys.maxsize
        self._left_out = 0
        self._size = 0

    def rebinds(self) -> frozenset[str]:
        """Name what the code that was seen rebinds while it predicts; methods that nothing calls are left out."""
        return frozenset(
            name
            for method, stored in self._stores
            if not method
            or (method in self._loaded and method not in _BEFORE_USE)
            or (method.startswith("__") and method not in _BEFORE_USE)
            for name in stored
        )

    def fact(self, value: object, where: str, is_global: bool = False) -> str:
        """Digest one value for a fact of its own; of several reasons to leave something out the first is kept."""
        if self._depths:
            return self._digest(value, where, is_global)
        self._size, self._lowest, before = 0, sys.maxsize, len(self.reasons)
        try:
            found = self._digest(value, where, is_global)
        except (_TooLargeError, RecursionError):
            self._depths.clear()
            found = self._leave_out(where, "refers to too much code to be identified")
        except Exception as error:  # of what the value's own class does when it is looked at
            self._depths.clear()
            found = self._leave_out(where, f"cannot be looked at ({type(error).__name__})")
        more = len(self.reasons) - before - 1
        if more > 0:
            del self.reasons[before + 1 :]
            self.reasons[before] += f" (and {more} more)"
        return found

    def function_facts(self, function: types.FunctionType, where: str) -> dict[str, str]:
        """Return what a function does, by name."""
        code = function.__code__
        names = _names(code)
        self._loaded |= names.attributes
        self._stores.append((self._methods.get(id(function), ""), names.rebound | names.stored_attributes))
        facts = {"code": self._code(code)}
        for name in sorted(names.attributes & _REACHES_EVERYTHING):
            self._leave_out(f"{where}attribute {name!r}".strip(), "reaches values that no name shows")
        positional = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        given = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        for name, value in sorted({**given, **(function.__kwdefaults__ or {})}.items()):
            facts[f"default {name}"] = self.fact(value, f"{where}default {name!r}")
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if not self._is_rebound(name, f"{where}closure variable {name!r}"):
                try:
                    facts[f"closure {name}"] = self.fact(cell.cell_contents, f"{where}closure variable {name!r}")
                except ValueError:
                    facts[f"closure {name}"] = "unset"
        for name in sorted(names.loaded):
            if not self._is_rebound(name, f"{where}global {name!r}"):
                found = self._global(function, name, names.attributes, where)
                if found is not None:
                    facts[f"global {name}"] = found
        for name in sorted(names.imported):
            self._module(name, sys.modules.get(name), names.attributes, f"{where}import of {name}")
        for name, value in sorted(vars(function).items()):
            facts[f"attribute {name}"] = self.fact(value, f"{where}attribute {name!r}")
        return facts

    def state_facts(self, value: object, where: str, left_out: Iterable[str] = ()) -> dict[str, str]:
        """Return the attributes of an object, by name."""
        facts = {}
        for name in replaced_methods(value):
            self._leave_out(f"{where}attribute {name!r}", "replaces a method of its class")
        cached = {
            name
            for base in type(value).__mro__
            for name, member in vars(base).items()
            if isinstance(member, functools.cached_property)
        }
        for name in sorted(cached - set(left_out)):
            self._leave_out(f"{where}cached property {name!r}", "keeps a value of earlier")
        for name, content in sorted(_state(value).items()):
            if name not in cached and name not in left_out and not self._is_rebound(name, f"{where}attribute {name!r}"):
                facts[f"attribute {name}"] = self.fact(content, f"{where}attribute {name!r}")
        return facts

    def class_code(self, classes: Iterable[type], where: str) -> str:
        """Digest the code of classes, without their bases."""
        return _hash("classes", *(self._own_code(one, where) for one in classes))

    # -- one value

    def _leave_out(self, where: str, why: str) -> str:
        self._left_out += 1
        reason = f"{where} {why}".strip()
        if reason not in self.reasons:
            self.reasons.append(reason)
        return _NOT_IDENTIFIED

    def _is_rebound(self, name: str, where: str) -> bool:
        if name in self._rebound:
            self._leave_out(where, REBOUND)
        return name in self._rebound

    def _digest(self, value: object, where: str, is_global: bool = False) -> str:
        constant = _constant(value)
        if constant is not None:
            return constant
        if id(value) in self._done:
            found, complete, _ = self._done[id(value)]
            self._left_out += not complete
            return found
        depth = len(self._depths)
        if id(value) in self._depths:
            self._lowest = min(self._lowest, self._depths[id(value)])
            return _hash("cycle", str(depth - self._depths[id(value)]))
        self._size += 1
        if self._size > _LARGEST:
            raise _TooLargeError
        outer, before, self._lowest = self._lowest, self._left_out, sys.maxsize
        self._depths[id(value)] = depth
        try:
            found = self._compound(value, where, is_global)
        finally:
            self._depths.pop(id(value), None)
        if self._lowest >= depth:  # what is part of a larger cycle depends on where the cycle was entered
            self._done[id(value)] = (found, self._left_out == before, value)
            self._lowest = outer
        else:
            self._lowest = min(outer, self._lowest)
        return found

    def _all(self, kind: str, values: Iterable[object], where: str) -> str:
        return _hash(kind, *(self._digest(value, where) for value in values))

    def _compound(self, value: Any, where: str, is_global: bool) -> str:
        kind = type(value)
        if kind is tuple:
            return self._all("tuple", value, where)
        if kind is frozenset:
            return _hash("frozenset", *sorted(self._digest(one, where) for one in value))
        if kind in (range, slice) or (kind.__module__ in _IMMUTABLE_MODULES and _is_at_its_place(kind)):
            return _hash(kind.__name__, repr(value))
        if isinstance(value, type):
            return self._class(value, where)
        if kind is types.FunctionType:
            return self._function(value, where)
        if kind in (types.BuiltinFunctionType, types.MethodWrapperType):
            return self._builtin(value, where)
        if kind is types.MethodType:
            self._loaded.add(getattr(value.__func__, "__name__", ""))
            return self._all("method", (value.__func__, value.__self__), where)
        if kind is types.ModuleType:
            return self._module(value.__name__, value, (), where)
        if kind is functools.partial and not own_of_partial(value) and self._stated(value) is None:
            keywords = [part for pair in sorted(value.keywords.items()) for part in pair]
            arguments = (self._all("arguments", value.args, where), self._all("keywords", keywords, where))
            return _hash("partial", self._digest(value.func, where), *arguments)
        if kind is types.CodeType:
            return self._code(value)
        if isinstance(value, functools._lru_cache_wrapper):
            if in_library(value.__wrapped__):
                return self._all("cache", (value.__wrapped__,), where)
            return self._leave_out(where, "keeps results of earlier calls (functools.cache or lru_cache)")
        if isinstance(value, (staticmethod, classmethod)):
            return self._all(kind.__name__, (value.__func__,), where)
        if kind is property:
            return self._all("property", (value.fget, value.fset, value.fdel), where)
        if kind is functools.cached_property:
            return self._all("cached_property", (value.func,), where)
        if isinstance(value, re.Pattern):
            return _hash("pattern", repr(value.pattern), str(value.flags))
        if kind.__qualname__ == "_tuplegetter":  # a field of a named tuple
            return _hash("field", str(value.__reduce__()[1][0]))
        if kind.__module__ in ("typing", "types", "operator"):
            return self._described(value, where)
        return self._instance(value, where, is_global)

    def _described(self, value: object, where: str) -> str:
        text = repr(value)
        if isinstance(value, types.SimpleNamespace) or " at 0x" in text:
            return self._leave_out(where, f"is a {type(value).__name__}, which can change")
        return _hash("described", text)

    def _builtin(self, value: Any, where: str) -> str:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            module = value.__module__ or ""
            if _is_pure(module) or (module == "builtins" and value.__name__ in PURE_BUILTINS):
                return _hash("builtin", value.__qualname__)
            return self._leave_out(where, f"is {module}.{value.__name__}, which is not known to be pure")
        return _hash("builtin", value.__qualname__, self._digest(owner, where))

    def _module(self, name: str, module: Any, attributes: Iterable[str], where: str) -> str:
        if not _is_pure(name):
            return self._leave_out(where, f"is the module {name}, which is not known to be pure")
        for attribute in sorted(attributes):
            found = getattr(module, attribute, None)
            if isinstance(found, types.ModuleType) and not _is_pure(found.__name__):
                self._leave_out(where, f"leads to the module {found.__name__}, which is not known to be pure")
            if isinstance(found, types.FunctionType) and found.__module__.partition(".")[0] not in (
                sys.stdlib_module_names
            ):
                self._leave_out(where, f"has another function {attribute!r} than that of the standard library")
        return _hash("module", name)

    def _global(self, function: types.FunctionType, name: str, attributes: frozenset[str], where: str) -> str | None:
        """Digest a global; ``None`` for built-ins as they are, whose names are in the code."""
        where = f"{where}global {name!r}"
        if name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, types.ModuleType):
                return self._module(value.__name__, value, attributes, where)
            return self.fact(value, where, is_global=True)
        value = getattr(builtins, name, None)
        if isinstance(value, types.FunctionType):
            return self.fact(value, where)
        if value is not None and value is not NotImplemented and not isinstance(value, type):
            if not isinstance(value, types.BuiltinFunctionType):
                return self._leave_out(where, "is not known to be pure")
            self.fact(value, where)
        return "undefined" if value is None else None

    def _code(self, code: types.CodeType) -> str:
        table = getattr(code, "co_exceptiontable", b"")
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        constants = (self._literal(constant) for constant in code.co_consts)
        return _hash("code", repr(counts), code.co_code.hex(), table.hex(), repr(names), *constants)

    def _literal(self, value: object) -> str:
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, tuple):
            return _hash("tuple", *map(self._literal, value))
        if isinstance(value, frozenset):
            return _hash("frozenset", *sorted(map(self._literal, value)))
        return _constant(value) or repr(value)

    # -- functions, classes, objects

    def _function(self, function: types.FunctionType, where: str) -> str:
        if _is_at_its_place(function):
            if in_library(function):
                return _hash("library", function.__module__, function.__qualname__, __version__)
            if _is_pure(function.__module__):
                return _hash("standard", function.__module__, function.__qualname__)
        if function.__globals__.get("__name__") in ("dataclasses", "reprlib") and hasattr(function, "__wrapped__"):
            return self._digest(function.__wrapped__, where)  # a generated __repr__, which remembers what it is at
        facts = self.function_facts(function, f"{where}: " if where else "")
        return _hash("function", *(part for pair in facts.items() for part in pair))

    def _class(self, cls: type, where: str) -> str:
        if cls.__module__ == "builtins" and not cls.__flags__ & _HEAP_TYPE:
            return _hash("type", cls.__qualname__)
        if _is_at_its_place(cls):
            if in_library(cls):
                for name, member in (pair for base in cls.__mro__ if in_library(base) for pair in vars(base).items()):
                    self._stores += [(name, _names(one.__code__).stored_attributes) for one in _functions(member)]
                return _hash("library", cls.__module__, cls.__qualname__, __version__)
            if _is_pure(cls.__module__):
                return _hash("standard", cls.__module__, cls.__qualname__)
        bases = [base for base in cls.__mro__ if base is not cls]
        meta = [] if type(cls).__module__ in ("builtins", "abc", "enum", "typing") else [type(cls)]
        parts = [self._own_code(cls, where), *(self._digest(base, where) for base in [*bases, *meta])]
        return _hash("class", *parts)

    def _own_code(self, cls: type, where: str) -> str:
        """Digest the code of one class, without its bases."""
        inside = f"{where}: " if where else ""
        if _is_native(cls):
            return self._leave_out(where, f"needs {cls.__module__}.{cls.__qualname__}, which is not written in Python")
        parts = [cls.__qualname__]
        if isinstance(cls, enum.EnumMeta):
            parts += cls.__members__  # their order
        for name, one in vars(cls).get("__dataclass_fields__", {}).items():
            parts += [name, self._all("metadata", (part for pair in one.metadata.items() for part in pair), inside)]
        for name, member in sorted(vars(cls).items()):
            if name in _OF_THE_CLASS:
                continue
            at = f"{inside}{cls.__qualname__}.{name}"
            for function in _functions(member):
                self._methods[id(function)] = name
            if isinstance(member, types.MemberDescriptorType):
                parts += [name, "slot"]
            elif isinstance(member, types.GetSetDescriptorType):
                continue
            elif isinstance(member, _MUTABLE) and not member:
                parts += [name, "empty"]
            elif isinstance(member, _MUTABLE) and issubclass(cls, enum.Enum) and name[0] == name[-1] == "_":
                continue  # tables that enum keeps of its members
            else:
                parts += [name, self._digest(member, at)]
        return _hash("own code", *parts)

    def _instance(self, value: Any, where: str, is_global: bool) -> str:
        stated = self._stated(value)
        if stated is not None:
            digest, reasons = stated
            for reason in reasons:
                self._leave_out(where, f"is not identified: {reason}")
            return _hash("identity", digest)
        cls = type(value)
        if isinstance(value, _MUTABLE):
            return self._leave_out(where, f"is a {cls.__name__}, which can change")
        if isinstance(value, enum.Enum):
            added = {name: one for name, one in _state(value).items() if name not in _OF_A_MEMBER}
            more = [self.fact(one, f"{where} attribute {name!r}") for name, one in sorted(added.items())]
            return _hash(
                "member", value.name, self._digest(value.value, where), self._digest(cls, where), *sorted(added), *more
            )
        hidden = next((base for base in cls.__mro__ if base not in _VISIBLE and _is_native(base)), None)
        if hidden is not None:
            name = f"{hidden.__module__}.{hidden.__qualname__}"
            return self._leave_out(where, f"holds a {name}, whose content has no digest")
        frozen = getattr(getattr(cls, "__dataclass_params__", None), "frozen", False)
        plain = next((base for base in (str, bytes, int, float, complex) if isinstance(value, base)), None)
        if is_global and not (frozen or plain or isinstance(value, (tuple, frozenset))):
            return self._leave_out(where, f"is an object of type {cls.__qualname__}, which can change")
        before = self._left_out
        parts = [self._digest(cls, where)]
        if self._left_out > before:  # the attributes of what is not known may change at any time
            return _hash("object", cls.__qualname__)
        if plain is not None:
            parts.append(repr(plain(value)) if plain is not str else str.__str__(value))
        elif isinstance(value, tuple):
            parts += [self._digest(one, where) for one in tuple.__iter__(value)]
        elif isinstance(value, frozenset):
            parts += sorted(self._digest(one, where) for one in frozenset.__iter__(value))
        facts = self.state_facts(value, f"{where}: ")
        return _hash("object", *parts, *(part for pair in facts.items() for part in pair))


def _interpreter() -> str:
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def _root(digester: _Digester, function: Any) -> dict[str, str]:
    facts: dict[str, str] = {}
    if isinstance(function, functools.partial):
        facts = _root(digester, function.func)
        for number, value in enumerate(function.args):
            facts[f"argument {number}"] = digester.fact(value, f"argument {number}")
        for name, value in sorted(function.keywords.items()):
            facts[f"argument {name}"] = digester.fact(value, f"argument {name!r}")
        added = [base for base in type(function).__mro__ if base not in functools.partial.__mro__]
        if added:
            facts |= {"subclass": type(function).__qualname__, "subclass code": digester.class_code(added, "")}
        return {**facts, **digester.state_facts(function, "", _OF_A_PARTIAL)}
    if isinstance(function, types.FunctionType):
        return {"function": function.__qualname__, **digester.function_facts(function, "")}
    if isinstance(function, types.MethodType):
        facts = {"function": getattr(function.__func__, "__qualname__", "method")}
        digester._loaded.add(getattr(function.__func__, "__name__", ""))
        facts["code"] = digester.fact(function.__func__, "")
        function = function.__self__
    name = function.__qualname__ if isinstance(function, type) else type(function).__qualname__
    if isinstance(function, type) or digester._stated(function) is not None:
        return {"class": name, **facts, "object": digester.fact(function, name)}
    if type(function).__module__ == "builtins":
        return {"function": getattr(function, "__qualname__", name), **facts, "object": digester.fact(function, name)}
    facts = {"class": name, **facts, "class code": digester.fact(type(function), "")}
    if isinstance(function, (*_MUTABLE, str, tuple, frozenset, int, float)):
        facts["object"] = digester.fact(function, name)
    return {**facts, **digester.state_facts(function, "")}


def _collect(stated: StatedIdentity, facts_from: Callable[[_Digester], Mapping[str, str]]) -> Facts:
    first = _Digester(stated)
    facts_from(first)
    second = _Digester(stated, first.rebinds())
    found = facts_from(second)
    known = {name: value for name, value in found.items() if value != _NOT_IDENTIFIED}
    return Facts({**known, "python": _interpreter()}, second.reasons)


def facts_of(function: Any, stated: StatedIdentity) -> Facts:
    """Return the facts about a function, a callable object or a partial that states no identity.

    Args:
        function: The inference function.
        stated: Digests objects that state their identity.
    """
    return _collect(stated, lambda digester: _root(digester, function))


def class_facts(value: object, classes: Iterable[type], inherited: Iterable[str], stated: StatedIdentity) -> Facts:
    """Return the facts that subclasses add to an object that states the identity of its base class.

    Args:
        value: The object.
        classes: Its classes below the one that states the identity.
        inherited: Attributes that belong to the base class.
        stated: Digests objects that state their identity.
    """
    layers, left_out = list(classes), set(inherited)

    def facts_from(digester: _Digester) -> dict[str, str]:
        code = digester.class_code(layers, "")
        return {
            "subclass": type(value).__qualname__,
            "subclass code": code,
            **digester.state_facts(value, "", left_out),
        }

    return _collect(stated, facts_from)
