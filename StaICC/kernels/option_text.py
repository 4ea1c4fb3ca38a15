"""Options in the name of a model: ``KIND:NAME;option=value;option=value``.

A value is read by the type of its option. Where a kernel passes options on to another library, whose types it does not
know, JSON numbers, ``true``, ``false`` and ``null`` are read as such, and everything else is a text.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints, runtime_checkable

from StaICC.errors import ArgumentError, unknown_name


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.casefold()]


def _texts(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text.startswith("[") else (text,)


_READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "tuple[str, ...]": (_texts, "a text, or a JSON list of texts"),
    "bool": (_truth, "true or false"),
    "float": (float, "a number"),
    "int": (int, "an integer"),
}


@dataclass(frozen=True, slots=True)
class OptionFact:
    """An option as a listing shows it."""

    name: str
    type: str
    default: Any
    help: str


@runtime_checkable
class DeclaresOptions(Protocol):
    """A class of kernels that declares its options, for listings."""

    @classmethod
    def declared_options(cls) -> Sequence[OptionFact]:
        """Return the options that may follow the name of the model."""


def options_of(record: type[Any], *left_out: str) -> list[OptionFact]:
    """Return the options that a dataclass declares, without those left out.

    An option's help is the ``help`` of its field's metadata, or else the first sentence of the docstring below the
    field.

    Args:
        record: The dataclass.
        *left_out: Names of fields that are no options.
    """
    hints = get_type_hints(record, localns={"KW_ONLY": Any})  # Python 3.10 refuses this mark as a type
    texts = dict(pair for one in reversed(record.__mro__[:-1]) for pair in _docstrings(one))
    return [
        OptionFact(
            one.name,
            _type_text(hints[one.name], str(one.type)),
            one.default,
            one.metadata.get("help") or texts.get(one.name, ""),
        )
        for one in fields(record)
        if one.name not in left_out
    ]


def _type_text(hint: Any, annotation: str) -> str:
    """Return a type as a listing shows it: the legal values where these are named."""
    parts = [hint, *get_args(hint)]
    values = [str(value) for part in parts if get_origin(part) is Literal for value in get_args(part)]
    return " | ".join(values + ["none"] * (type(None) in parts)) if values else annotation


def _docstrings(record: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the first sentence of the docstring of each attribute, where the source code is available."""
    try:
        (written,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    except (OSError, SyntaxError):
        return
    assert isinstance(written, ast.ClassDef)
    for field, text in itertools.pairwise(written.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(text.value.value).split()).partition(". ")[0].rstrip(".")


def option_types(record: type, *left_out: str) -> dict[str, str]:
    """Return the annotated type of each field of a dataclass, without those left out."""
    return {field.name: str(field.type) for field in fields(record) if field.name not in left_out}


def read_json_or_text(text: str) -> Any:
    """Return the JSON value that a text is, or the text.

    Example:
        >>> [read_json_or_text(text) for text in ("2", "0.5", "true", "null", "auto")]
        [2, 0.5, True, None, 'auto']
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def names_option(text: str, option: str) -> bool:
    """Return whether the name of a model is followed by an option.

    Example:
        >>> names_option("hf:gpt2; order = 3", "order"), names_option("hf:order=3", "order")
        (True, False)
    """
    return any(setting.partition("=")[0].strip() == option for setting in text.split(";")[1:])


def split_options(
    text: str,
    types: Mapping[str, str],
    other: Callable[[str], Any] | None = None,
    model: str = "",
    given: Mapping[str, Any] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Split the name of a model from its options.

    Args:
        text: Such as ``"hf:gpt2;label_scoring=full;token_budget=512"``.
        types: The annotated type of each option.
        other: Reads the values of all other options; ``None`` refuses them.
        model: What to call the model in messages; its name by default.
        given: Options with their values that are given next to the text.

    Returns:
        The name, and the options of both with their values.

    Raises:
        ArgumentError: An option is not of the form ``name=value``, is given twice, or its value has another type.
        UnknownNameError: No option has this name.

    Example:
        >>> split_options("hf:gpt2;order=3", {"order": "int"})
        ('hf:gpt2', {'order': 3})
    """
    name, *settings = text.split(";")
    model = model or name
    options = dict(given or {})
    for option in options:
        if option not in types and other is None:
            raise unknown_name(f"option of {model}", option, types)
    for setting in settings:
        option, equals, value = (part.strip() for part in setting.partition("="))
        if not option or not equals:
            raise ArgumentError(f"option of {model}: got {setting!r}, expected name=value")
        if option not in types and other is None:
            raise unknown_name(f"option of {model}", option, types)
        if option in options:
            raise ArgumentError(f"option {option} of {model}: given twice, expected once")
        annotated = types.get(option, "")
        if "None" in annotated and value.casefold() in ("none", "null"):
            options[option] = None
            continue
        read, expected = _READERS.get(annotated.removesuffix(" | None"), (str, "a text"))
        try:
            options[option] = read(value) if option in types or other is None else other(value)
        except (KeyError, ValueError):
            raise ArgumentError(f"option {option} of {model}: got {value!r}, expected {expected}") from None
    return name, options
