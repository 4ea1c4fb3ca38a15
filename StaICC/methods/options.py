"""Options of methods: each method declares a frozen record, with a type, a default and a help text for each option.

The record checks what Python gives (:func:`make_options`) and reads what the command line gives (:func:`read_options`).
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from StaICC.errors import ArgumentError, unknown_name
from StaICC.kernels.option_text import options_of


def option(default: Any, help_text: str) -> Any:
    """Declare a field of an options record: its default, and what a listing says about it.

    Args:
        default: The value if none is given.
        help_text: One sentence, for the listing of methods.
    """
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The record of a method without options."""


def _choices(hint: Any) -> Iterator[Any]:
    """Return the alternatives of a union, or the type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _choices(part)
    else:
        yield hint


def _accepts(hint: Any, value: Any) -> bool:
    if hint is type(None):
        return value is None
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (bool, str):
        return isinstance(value, hint)
    return value is not None  # sequences and mappings: the method checks what they hold


def _exact(hint: Any, value: Any) -> Any:
    """Return a whole number as a float where only floats are expected, so that 3 and 3.0 have one signature."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and float in _choices(hint) and int not in _choices(hint) else value


def _parse(hint: Any, text: str) -> Any:
    """Read one alternative of a type.

    Raises:
        ValueError: The text is none.
    """
    if get_origin(hint) is Literal:
        return {str(one): one for one in get_args(hint)}[text]
    if hint in (type(None), bool):
        return ({"none": None} if hint is not bool else {"true": True, "false": False})[text.casefold()]
    return hint(text) if hint in (int, float, str) else json.loads(text)


def _unknown(owner: str, name: str, known: Iterable[str]) -> ArgumentError:
    names = list(known)
    if not names:
        return ArgumentError(f"{owner} has no option {name!r}; it has no options at all")
    return ArgumentError(str(unknown_name(f"option of {owner}", name, names)))


def make_options(owner: str, record: type[Any], given: Mapping[str, Any]) -> Any:
    """Make a record of given values.

    Args:
        owner: What has the options, for messages.
        record: A frozen dataclass.
        given: Values by name; the others get their defaults.

    Raises:
        ArgumentError: An option is unknown (the nearest is suggested), or a value has another type.
    """
    hints = get_type_hints(record)
    facts = {fact.name: fact for fact in options_of(record)}
    for name, value in given.items():
        if name not in facts:
            raise _unknown(owner, name, facts)
        if not any(_accepts(hint, value) for hint in _choices(hints[name])):
            raise ArgumentError(f"{owner}, option {name!r}: got {value!r:.80}, expected {facts[name].type}")
    return record(**{name: _exact(hints[name], value) for name, value in given.items()})


def read_options(owner: str, records: Iterable[type[Any]], texts: Iterable[str]) -> dict[str, Any]:
    """Read options as the command line gives them.

    Args:
        owner: What has the options, for messages.
        records: The records of the methods that will run; an option must be in one of them.
        texts: Items ``NAME=VALUE``. Lists and mappings are JSON, ``none`` is None.

    Raises:
        ArgumentError: An item has no ``=``, an option is unknown or given twice, or a value cannot be read.

    Example:
        >>> from StaICC.methods.catalogue import METHODS
        >>> read_options("knn_prompt", [METHODS["knn_prompt"].options], ["knn_k=5"])
        {'knn_k': 5}
    """
    records = list(records)
    hints = {name: hint for record in records for name, hint in get_type_hints(record).items()}
    facts = {fact.name: fact for record in records for fact in options_of(record)}
    found: dict[str, Any] = {}
    for item in texts:
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ArgumentError(f"method option: got {item!r}, expected NAME=VALUE")
        if name not in facts:
            raise _unknown(owner, name, facts)
        if name in found:
            raise ArgumentError(f"the option {name!r} is given twice")
        for hint in _choices(hints[name]):
            try:
                found[name] = _parse(hint, text)
                break
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        else:
            raise ArgumentError(f"{owner}, option {name!r}: got {text!r:.80}, expected {facts[name].type}")
    return found
