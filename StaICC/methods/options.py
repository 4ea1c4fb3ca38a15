"""Options of methods: records, with values that are checked by type."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from StaICC.arguments import whole_number
from StaICC.errors import ArgumentError, unknown_name
from StaICC.kernels.registry import options_of, read_json_or_text


def option(default: Any, help_text: str, signature: Callable[[Any], str | None] | None = None) -> Any:
    """Declare a field of an options record: its default, and what a listing says about it.

    Args:
        default: The value if none is given.
        help_text: One sentence, for the listing of methods.
        signature: Returns what the signature of a result says of a value, such as the digest of a file that it names;
            ``None`` for the value itself.
    """
    return field(default=default, metadata={"help": help_text, "signature": signature})


def signature_texts(options: Any) -> dict[str, str]:
    """Return what the signature of a result says of options in the place of their values, by name.

    Args:
        options: A record of options.
    """
    texts: dict[str, str] = {}
    for fact in fields(options):
        text_of = fact.metadata.get("signature")
        text = None if text_of is None else text_of(getattr(options, fact.name))
        if text is not None:
            texts[fact.name] = text
    return texts


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The record of a method without options."""


class OptionText(str):
    """The value of an option as the command line gives it: read as the type of the option."""


def _accepts(hint: Any, value: Any) -> bool:
    """Return whether a value has the type of an option.

    A value of another type than those of JSON is accepted unless it is a text. The method checks it.

    Args:
        hint: The type, such as ``int`` or ``Literal["nearest", "diverse"]``; no union.
        value: The value.
    """
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        types_of_choices = [type(choice) for choice in choices]  # 1.0 and True equal the choice 1
        return (isinstance(value, str) or type(value) in types_of_choices) and value in choices
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return whole_number(value) is not None
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    return value is not None and not isinstance(value, str)


def make_options(owner: str, record: type[Any], given: Mapping[str, Any]) -> Any:
    """Return the record of the options of a method with given values.

    Whole numbers such as 3 and 3.0 become one value, so that equal settings have equal signatures.

    Args:
        owner: What has the options, for messages.
        record: The class of the record: a frozen dataclass.
        given: Values by name; the others get their defaults.

    Raises:
        ArgumentError: An option is unknown (the nearest is suggested), or a value has another type.
    """
    facts = {fact.name: fact for fact in options_of(record)}
    hints = get_type_hints(record)
    values = {}
    for name, value in given.items():
        if not facts:
            raise ArgumentError(f"{owner} has no options; got {name!r}")
        if name not in facts:
            raise ArgumentError(str(unknown_name(f"option of {owner}", name, facts)))
        types_of_option = _types_in(hints[name])
        fitting = _fitting_readings(value, types_of_option)
        if not fitting:
            raise ArgumentError(f"{owner}, option {name!r}: got {value!r:.80}, expected {facts[name].type}")
        values[name] = _one_value(fitting[0], types_of_option)
    return record(**values)


def _types_in(hint: Any) -> Sequence[Any]:
    """Return the types of an annotation: those of a union, or the only one."""
    if get_origin(hint) in (Union, types.UnionType):
        return get_args(hint)
    return (hint,)


def _fitting_readings(value: Any, types_of_option: Sequence[Any]) -> list[Any]:
    """Return the values that a given value can mean and that have a type of an option.

    Args:
        value: The given value.
        types_of_option: The types of the option. Values of the first type come first.
    """
    readings = _readings(value)
    fitting = []
    for type_of_option in types_of_option:
        fitting += [reading for reading in readings if _accepts(type_of_option, reading)]
    return fitting


def _readings(value: Any) -> list[Any]:
    """Return the values that a given value can mean, the most likely one first.

    A text of the command line can mean None, true, false, a JSON value such as a number, or the text itself. Any other
    value means itself only.
    """
    if not isinstance(value, OptionText):
        return [value]
    text = str(value)
    words = {"none": None, "true": True, "false": False}
    word = text.casefold()
    if word in words:
        return [words[word], text]
    return [read_json_or_text(value), text]


def _one_value(value: Any, types_of_option: Sequence[Any]) -> Any:
    """Return the value of an option, with one type for equal numbers.

    Results have a signature, the text of the settings with which they can be compared. There, 3 and 3.0 must be the
    same text. So a whole number becomes an integer; or a float if the option takes floats, but no integers. Other
    values are returned unchanged.
    """
    whole = whole_number(value)
    if whole is None:
        return value
    if float in types_of_option and int not in types_of_option:
        return float(whole)
    return whole


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
