"""Options of methods: records, with values that are checked by type."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from StaICC.arguments import whole_number
from StaICC.errors import ArgumentError, unknown_name
from StaICC.kernels.registry import options_of, read_json_or_text


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


class OptionText(str):
    """The value of an option as the command line gives it: read as the type of the option."""


def _accepts(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return (isinstance(value, str) or type(value) in map(type, get_args(hint))) and value in get_args(hint)
    if hint is float and not isinstance(value, bool):
        return isinstance(value, (int, float))
    if hint is int:
        return whole_number(value) is not None
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    return hint is not float and value is not None and not isinstance(value, str)  # the method checks other values


def make_options(owner: str, record: type[Any], given: Mapping[str, Any]) -> Any:
    """Make a record of given values: 3 and 3.0 become one value.

    Args:
        owner: What has the options, for messages.
        record: A frozen dataclass.
        given: Values by name; the others get their defaults.

    Raises:
        ArgumentError: An option is unknown (the nearest is suggested), or a value has another type.
    """
    facts = {fact.name: fact for fact in options_of(record)}
    hints = get_type_hints(record)
    checked = {}
    for name, value in given.items():
        if name not in facts:
            raise ArgumentError(str(unknown_name(f"option of {owner}", name, facts)))
        is_union = get_origin(hints[name]) in (Union, types.UnionType)
        choices = get_args(hints[name]) if is_union else (hints[name],)
        words = {"none": None, "true": True, "false": False}
        readings = [value]
        if isinstance(value, OptionText):
            readings = [words.get(value.casefold(), read_json_or_text(value)), str(value)]
        fitting = [reading for choice in choices for reading in readings if _accepts(choice, reading)]
        if not fitting:
            raise ArgumentError(f"{owner}, option {name!r}: got {value!r:.80}, expected {facts[name].type}")
        whole = whole_number(fitting[0])
        if whole is not None:
            fitting[0] = float(whole) if float in choices and int not in choices else whole
        checked[name] = fitting[0]
    return record(**checked)


def read_options(texts: Iterable[str]) -> dict[str, Any]:
    """Read options as the command line gives them.

    Args:
        texts: Items ``NAME=VALUE``. Lists and mappings are JSON, ``none`` is None.

    Raises:
        ArgumentError: An item has no ``=``, or an option is given twice.

    Example:
        >>> from StaICC.methods.catalogue import METHODS
        >>> make_options("k-NN", METHODS["knn_prompt"].options, read_options(["knn-k=5"])).knn_k
        5
    """
    given: dict[str, Any] = {}
    for item in texts:
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ArgumentError(f"method option: got {item!r}, expected NAME=VALUE")
        if name in given:
            raise ArgumentError(f"the option {name!r} is given twice")
        given[name] = OptionText(text)
    return given
