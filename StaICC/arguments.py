"""Checks of arguments: each returns the checked value, or raises an error that names the argument."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, TypeVar, cast

from StaICC.errors import ArgumentError, unknown_name

_T = TypeVar("_T")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def whole_number(value: object) -> int | None:
    """Return an integer of any type, such as NumPy's, as ``int``; ``None`` for other values and for truth values.

    Example:
        >>> whole_number(4), whole_number(4.0), whole_number(True)
        (4, None, None)
    """
    if not isinstance(value, int) and isinstance(value, SupportsIndex):
        try:
            value = value.__index__()
        except TypeError:  # an array of several numbers, for instance
            return None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    # The sum is a plain integer where the value is one of a class derived from int.
    return int.__add__(value, 0)


def validate_integer(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """Return an integer as ``int`` after checking that it is one (see :func:`whole_number`), and within a range.

    Args:
        name: Name of the argument, for the message.
        value: The argument.
        minimum: The smallest legal value.
        maximum: The largest legal value; ``None`` for no limit.

    Raises:
        ArgumentError: The value is not an integer, or is out of range.

    Example:
        >>> validate_integer("k", 4, 0)
        4
    """
    number = whole_number(value)
    largest = math.inf if maximum is None else maximum
    if number is None or number < minimum or number > largest:
        if maximum is None:
            legal_range = f"of at least {minimum}"
        else:
            legal_range = f"from {minimum} to {maximum}"
        raise ArgumentError(
            f"{name} must be an integer {legal_range}, not {value!r}{_integer_advice(value, minimum, largest)}"
        )
    return number


def _integer_advice(value: object, minimum: int, largest: float) -> str:
    """Return how to write a legal value that has another type, such as a text; an empty text for other values."""
    if not isinstance(value, (str, float)):
        return ""
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return ""
    is_same_number = isinstance(value, str) or number == value
    if is_same_number and minimum <= number <= largest:
        return f". Write {number}"
    return ""


def validate_path(name: str, value: object) -> None:
    """Raise an error unless a value is a path: a text, or an object such as ``pathlib.Path``.

    Args:
        name: The argument.
        value: What the caller passed.

    Raises:
        ArgumentError: It is something else, such as a number, which Python may read as an open file.

    Example:
        >>> validate_path("path", "result.json")
    """
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise ArgumentError(f"{name}: got {value!r:.60}, expected the path of a file, as a text or a pathlib.Path")


def known_name(kind: str, value: _T, legal: Iterable[object], hint: str = "") -> _T:
    """Return a name after checking that it is a legal one; arguments as for :func:`unknown_name`.

    Raises:
        UnknownNameError: It is none of the legal values.
    """
    legal_names = list(legal)
    if value not in legal_names:
        raise unknown_name(kind, value, legal_names, hint)
    return value


def set_integers(record: object, **minima: int) -> None:
    """Check integer fields of a frozen record, and replace their values by ``int`` (see :func:`validate_integer`).

    Args:
        record: The record.
        **minima: The smallest legal value of each field.
    """
    for name, minimum in minima.items():
        number = validate_integer(name, getattr(record, name), minimum)
        object.__setattr__(record, name, number)


def keywords_of_release(**today_by_released: str) -> Callable[[_Function], _Function]:
    """Return a decorator: the function also accepts arguments by their names in the code of 0.1.1.

    Args:
        **today_by_released: The name of each argument, by its name in 0.1.1.

    Example:
        >>> @keywords_of_release(metric_name="name")
        ... def add(name):
        ...     return name
        >>> add(metric_name="mine")
        'mine'
    """

    def decorate(function: _Function) -> _Function:
        """Return a function that renames arguments of 0.1.1, and calls the given one."""

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            """Call the function, with the names that its arguments have today."""
            for released, today in today_by_released.items():
                if released not in keywords:
                    continue
                if today in keywords:
                    raise ArgumentError(f"{function.__name__}: got {today} and {released}, its name in 0.1.1; pass one")
                keywords[today] = keywords.pop(released)
            return function(*arguments, **keywords)

        return cast(_Function, call)

    return decorate
