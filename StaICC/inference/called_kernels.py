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
from collections.abc import Callable, Iterable
from typing import Any

from StaICC.inference.contract import own_attribute
from StaICC.inference.identity import referred

_DEEPEST_REFERENCE = 3
"""References that are followed to find a kernel."""
_MOST_ITEMS = 1000
"""Items of a container in which a kernel is searched: a function may refer to the answers of all prompts."""
_CONTAINERS = (dict, list, tuple, set, frozenset)
_CONSTANTS = (bool, int, float, complex, str, bytes, types.NoneType, types.ModuleType)
_MISSING = object()


def declarations(function: object, name: str) -> list[Any]:
    """Return the values of an attribute of an inference function, or else of the kernels that it calls.

    Args:
        function: An inference function.
        name: The attribute, such as ``"recheck_tolerance"``.

    Returns:
        One value, if the function has the attribute. Else the value of each kernel that the function refers to: in its
        closure, globals, defaults, arguments or attributes, and within other kernels (their attribute ``kernel``).
        Classes are among them if their attribute is a plain value. Each kernel counts once.
    """
    declaring = _declaring_values(function, name, references_left=_DEEPEST_REFERENCE, outer_kernels=())
    declaring_by_id = {id(value): value for value in declaring}  # so that each object is in it once
    return [_declared_value(value, name) for value in declaring_by_id.values()]


def _declared_value(value: Any, name: str) -> Any:
    """Return the value of an attribute of a kernel, or of a partial, whose function declares it for its arguments."""
    value_for_arguments = _declaration_for_partials(value, name)
    if value_for_arguments is None:
        return getattr(value, name)
    return value_for_arguments(**value.keywords)


def _declaration_for_partials(function: Any, name: str) -> Callable[..., Any] | None:
    """Return the function that says what a partial declares under a name, for the arguments that the partial binds.

    For a partial of ``infer`` and the name ``"recheck_tolerance"``, it is the attribute ``recheck_tolerance_for`` of
    ``infer``. The functions that 0.1.1 documents have such attributes.

    Args:
        function: Any value.
        name: The name.

    Returns:
        ``None`` if the value is no partial, binds arguments by position, or its function has no such attribute.
    """
    is_partial = issubclass(type(function), functools.partial)
    if not is_partial or function.args:
        return None
    value_for_arguments: Callable[..., Any] | None = own_attribute(function.func, f"{name}_for")
    return value_for_arguments


def _declaring_values(value: Any, name: str, references_left: int, outer_kernels: tuple[object, ...]) -> list[Any]:
    """Return the objects that declare an attribute: the value itself, or else the kernels to which it leads.

    The first of these that declares the attribute counts: the value, the kernel in its attribute ``kernel``, and last
    all that it refers to (closure, globals, arguments, attributes). Of a container, all items are searched.

    Args:
        value: Any value, at first the inference function.
        name: The attribute.
        references_left: How many more references are followed.
        outer_kernels: The kernels whose attribute ``kernel`` led here, so that a circle ends.
    """
    # issubclass() of the type, here and below, since isinstance() would run code of a proxy.
    if issubclass(type(value), _CONSTANTS):
        return []
    if type(value) in _CONTAINERS:
        if references_left == 0:
            return []
        items = itertools.islice(referred(value), _MOST_ITEMS)
        return _declaring_values_among(items, name, references_left - 1)
    if _declaration_for_partials(value, name) is not None or _declares(value, name):
        return [value]

    is_partial = issubclass(type(value), functools.partial)
    if is_partial and hasattr(value.func, "identity_for"):  # of a function that 0.1.1 documents
        kernel = kernel_of_partial(value)
        if kernel is None:
            return []
        return _declaring_values(kernel, name, references_left, outer_kernels)

    inner_kernel = own_attribute(value, "kernel")
    visited = (value, *outer_kernels)
    is_visited = any(inner_kernel is known for known in visited)
    if inner_kernel is not None and not is_visited:
        declaring = _declaring_values(inner_kernel, name, references_left, outer_kernels=visited)
        if declaring:
            return declaring

    # What a kernel itself refers to, such as its model, is no kernel that the function calls.
    is_kernel = hasattr(type(value), "identity")
    if is_kernel or references_left == 0:
        return []
    references = list(referred(value))
    if issubclass(type(value), types.FunctionType):
        references += _globals_of_inner_code(value.__code__, value.__globals__)
    return _declaring_values_among(references, name, references_left - 1)


def _declaring_values_among(values: Iterable[Any], name: str, references_left: int) -> list[Any]:
    """Return what declares an attribute: the values themselves, or else the kernels that they refer to."""
    declaring: list[Any] = []
    for value in values:
        declaring += _declaring_values(value, name, references_left, outer_kernels=())
    return declaring


def _globals_of_inner_code(code: types.CodeType, variables: dict[str, Any]) -> list[Any]:
    """Return the global variables that code within a function refers to, such as a comprehension or an inner function.

    Args:
        code: The code of the function.
        variables: Its global variables.
    """
    values: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            values += [variables[name] for name in constant.co_names if name in variables]
            values += _globals_of_inner_code(constant, variables)
    return values


def _declares(value: Any, name: str) -> bool:
    """Return whether a value itself declares an attribute.

    A wrapper of :func:`functools.wraps` does not, if it only has a copy of the attribute of what it wraps. A class does
    only if the attribute is a number or ``None``: its methods and properties need an object of the class.
    """
    static_value = inspect.getattr_static(value, name, _MISSING)  # runs no code of the value
    if static_value is _MISSING:
        return False
    is_class = issubclass(type(value), type)
    if is_class:
        return static_value is None or isinstance(static_value, (int, float))
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is None:
        return True
    is_copied = getattr(value, name) is getattr(wrapped, name, _MISSING)
    return not is_copied


def kernel_of_partial(function: functools.partial[Any]) -> Any:
    """Return the kernel that computes the predictions of a partial such as ``partial(infer, model=m, tokenizer=t)``.

    0.1.1 documents functions that are used like this. In this library, such a function has an attribute ``kernel_for``,
    which returns the kernel for the model and the tokenizer that the partial binds.

    Args:
        function: Any partial.

    Returns:
        ``None`` if the function has no such attribute, or the partial does not bind model and tokenizer by name.
    """
    kernel_for = own_attribute(function.func, "kernel_for")
    binds_model = "model" in function.keywords and "tokenizer" in function.keywords
    if kernel_for is None or not binds_model:
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
