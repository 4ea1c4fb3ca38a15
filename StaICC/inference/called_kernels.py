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
    owners = _owners(function, name, references_left=_DEEPEST_REFERENCE, outer_kernels=())
    owner_by_id = {id(owner): owner for owner in owners}  # so that each object is in it once
    return [_attribute_of_owner(owner, name) for owner in owner_by_id.values()]


def _attribute_of_owner(owner: Any, name: str) -> Any:
    """Return the value of an attribute of a kernel, or of a :func:`functools.partial`.

    A partial ``partial(infer, model=m)`` has no attributes of its own: if there is a function ``infer.NAME_for``, the
    value is what this function returns for the arguments of the partial, ``infer.NAME_for(model=m)``.
    """
    value_for_arguments = _function_for_partials(owner, name)
    if value_for_arguments is None:
        return getattr(owner, name)
    return value_for_arguments(**owner.keywords)


def _function_for_partials(value: Any, name: str) -> Callable[..., Any] | None:
    """Return the function that computes an attribute of a partial from the arguments that the partial binds.

    For a partial of ``infer`` and the name ``"recheck_tolerance"``, it is the attribute ``recheck_tolerance_for`` of
    ``infer``. The functions that 0.1.1 documents have such attributes.

    Args:
        value: Any value.
        name: The name of the attribute.

    Returns:
        ``None`` if the value is no partial, binds arguments by position, or its function has no such attribute.
    """
    is_partial = issubclass(type(value), functools.partial)
    if not is_partial or value.args:
        return None
    value_for_arguments: Callable[..., Any] | None = own_attribute(value.func, f"{name}_for")
    return value_for_arguments


def _owners(value: Any, name: str, references_left: int, outer_kernels: tuple[object, ...]) -> list[Any]:
    """Return the objects that have an attribute: a value itself, or else the kernels to which the value leads.

    The search goes from the value to the kernel in its attribute ``kernel``, and then to all that it refers to
    (closure, globals, arguments, attributes). It ends at the first of these steps that finds an object.

    Args:
        value: Any value, at first the inference function. A container leads to its items.
        name: The attribute.
        references_left: How many more references are followed.
        outer_kernels: The kernels whose attribute ``kernel`` led to this value. None is searched again, so that a
            circle of kernels ends.
    """
    # issubclass() of the type, here and below, since isinstance() would run code of a proxy.
    if issubclass(type(value), _CONSTANTS):
        return []
    if type(value) in _CONTAINERS:
        if references_left == 0:
            return []
        items = itertools.islice(referred(value), _MOST_ITEMS)
        return _owners_among(items, name, references_left - 1)
    if _function_for_partials(value, name) is not None or _has_own(value, name):
        return [value]

    is_partial = issubclass(type(value), functools.partial)
    if is_partial and hasattr(value.func, "identity_for"):  # of a function that 0.1.1 documents
        kernel = kernel_of_partial(value)
        if kernel is None:
            return []
        return _owners(kernel, name, references_left, outer_kernels)

    inner_kernel = own_attribute(value, "kernel")
    visited = (value, *outer_kernels)
    is_visited = any(inner_kernel is known for known in visited)
    if inner_kernel is not None and not is_visited:
        owners = _owners(inner_kernel, name, references_left, outer_kernels=visited)
        if owners:
            return owners

    # What a kernel itself refers to, such as its model, is no kernel that the function calls.
    is_kernel = hasattr(type(value), "identity")
    if is_kernel or references_left == 0:
        return []
    references = list(referred(value))
    if issubclass(type(value), types.FunctionType):
        references += _globals_of_inner_code(value.__code__, value.__globals__)
    return _owners_among(references, name, references_left - 1)


def _owners_among(values: Iterable[Any], name: str, references_left: int) -> list[Any]:
    """Return the objects that have an attribute: of each value itself, or else the kernels that it refers to."""
    owners: list[Any] = []
    for value in values:
        owners += _owners(value, name, references_left, outer_kernels=())
    return owners


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


def _has_own(value: Any, name: str) -> bool:
    """Return whether a value itself has an attribute, which is not only a copy of one that it wraps.

    A wrapper made with :func:`functools.wraps` has copies of the attributes of the function that it wraps. Of a class,
    only numbers and ``None`` count: its methods and properties need an object of the class.
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
