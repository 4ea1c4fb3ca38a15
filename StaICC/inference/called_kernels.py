"""The kernels that an inference function calls: what they declare counts for the function.

A function of the user's own often calls a kernel: a closure, a bound method, a :func:`functools.partial`, a wrapper
made with :func:`functools.wraps`, an object with the kernel in an attribute. The kernel's warnings, tolerance and price
are then those of the function, too. It is found by what the function refers to; nothing is called to find it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable
from typing import Any

from StaICC.inference.contract import own_attribute
from StaICC.inference.identity import referred

_DEEPEST_REFERENCE = 3
"""References that are followed to find a kernel."""
_MOST_ITEMS = 1000
"""Items of a container in which a kernel is searched: a function may refer to the answers of all prompts."""
_CONTAINERS = (dict, list, tuple, set, frozenset)
_CONSTANTS = (bool, int, float, complex, str, bytes, types.NoneType, types.ModuleType)
_NOTHING = object()


def declarations(function: object, name: str) -> list[Any]:
    """Return what is declared about an inference function: by itself, or else by the kernels that it calls.

    Args:
        function: An inference function.
        name: The attribute that declares it, such as ``"recheck_tolerance"``.

    Returns:
        The value of the attribute of the function, if it has it. Else those of the kernels that it refers to: in its
        closure, globals, defaults, arguments or attributes, and within other kernels (their attribute ``kernel``).
        Classes are among them if their attribute is a plain value. Each kernel counts once.
    """
    found = _search(function, name, _DEEPEST_REFERENCE, ())
    return [_value(kernel, name) for kernel in {id(kernel): kernel for kernel in found}.values()]


def _value(kernel: Any, name: str) -> Any:
    """Return what a kernel, or a partial of an inference function that 0.1.1 documents, declares."""
    value_for = _of_partials(kernel, name)
    return getattr(kernel, name) if value_for is None else value_for(**kernel.keywords)


def _of_partials(function: Any, name: str) -> Callable[..., Any] | None:
    """Return the function by which partials of a function declare something, such as ``recheck_tolerance_for``.

    Returns:
        ``None`` if the function is no partial, has positional arguments, or declares nothing by this name.
    """
    if not issubclass(type(function), functools.partial) or function.args:
        return None
    value_for: Callable[..., Any] | None = own_attribute(function.func, f"{name}_for")
    return value_for


def _search(value: Any, name: str, deepest: int, outer: tuple[object, ...]) -> list[Any]:
    """Return what declares a name: a value, or else what it refers to.

    Args:
        value: Any value.
        name: The attribute.
        deepest: How many more references are followed.
        outer: The kernels whose attribute ``kernel`` led here, so that a circle ends.
    """
    if issubclass(type(value), _CONSTANTS):  # isinstance() would run code of a proxy
        return []
    if type(value) in _CONTAINERS:
        items = itertools.islice(referred(value), _MOST_ITEMS if deepest else 0)
        return [kernel for item in items for kernel in _search(item, name, deepest - 1, ())]
    if _of_partials(value, name) is not None or _declares(value, name):
        return [value]
    if issubclass(type(value), functools.partial) and hasattr(value.func, "identity_for"):
        kernel = kernel_of_partial(value)  # of an inference function that 0.1.1 documents
        return [] if kernel is None else _search(kernel, name, deepest, outer)
    kernel = own_attribute(value, "kernel")
    if kernel is not None and not any(kernel is other for other in (value, *outer)):
        found = _search(kernel, name, deepest, (*outer, value))
        if found:
            return found
    if hasattr(type(value), "identity") or not deepest:  # do not look into kernels
        return []
    references = [*referred(value)]
    if issubclass(type(value), types.FunctionType):
        references += _globals_of_inner_code(value.__code__, value.__globals__)
    return [kernel for inner in references for kernel in _search(inner, name, deepest - 1, ())]


def _globals_of_inner_code(code: types.CodeType, variables: dict[str, Any]) -> list[Any]:
    """Return the global variables that code within a function refers to, such as a comprehension or an inner function.

    Args:
        code: The code of the function.
        variables: Its global variables.
    """
    values = []
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            values += [variables[name] for name in inner.co_names if name in variables]
            values += _globals_of_inner_code(inner, variables)
    return values


def _declares(value: Any, name: str) -> bool:
    """Return whether a value itself has an attribute, and not only as a copy of the one of what it wraps."""
    static = inspect.getattr_static(value, name, _NOTHING)
    if static is _NOTHING:
        return False
    if issubclass(type(value), type):  # its methods and properties need an object
        return static is None or isinstance(static, (int, float))
    wrapped = getattr(value, "__wrapped__", None)
    return wrapped is None or getattr(value, name) is not getattr(wrapped, name, _NOTHING)


def kernel_of_partial(function: functools.partial[Any]) -> Any:
    """Return the kernel of a partial of an inference function that 0.1.1 documents; ``None`` for any other partial."""
    kernel_for = own_attribute(function.func, "kernel_for")
    if kernel_for is None or not {"model", "tokenizer"} <= function.keywords.keys():
        return None
    return kernel_for(**function.keywords)


def warning_methods(function: object, name: str) -> list[Callable[..., list[str]]]:
    """Return the methods that make warnings about an inference function: its own, or those of the kernels it calls.

    Args:
        function: An inference function.
        name: ``"prompt_warnings"`` (called with prompts and a label space) or ``"answer_warnings"`` (called with
            predictions).
    """
    return [method for method in declarations(function, name) if callable(method)]
