"""JSON from files that anybody may have written: read with bounds, refused in one line.

:mod:`json` fails on such files in many ways (``RecursionError``, ``UnicodeDecodeError``, ``ValueError`` for an integer
of thousands of digits) and accepts unintended values (a duplicate key, ``1e999`` as infinity). Whatever is wrong with a
file here is a :class:`~StaICC.errors.SchemaError` that names the file.

:func:`read_value` makes values of annotated types of what was parsed, such as records (dataclasses); everything else is
refused with its place.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from StaICC.arguments import validate_path
from StaICC.errors import SchemaError
from StaICC.files.output import is_database

MAX_DEPTH = 100
"""Deepest nesting of lists and objects that is read. The library's own files have less than 20."""

MEGABYTE = 1 << 20
LARGE = 16 * MEGABYTE
"""Bytes of a file from which on its beginning is looked at before all of it is parsed."""
_MAX_DIGITS = 300
"""Digits of an integer; a longer one cannot be converted to a float."""
_BYTE_ORDER_MARK = "\ufeff"


def _refuse_constant(name: str) -> NoReturn:
    """Refuse ``NaN``, ``Infinity`` and ``-Infinity``, which Python's decoder accepts."""
    raise ValueError(f"{name} is not a JSON number")


def _finite_number(text: str) -> float:
    """Return the number that a text is; refuse one that a float cannot hold."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _short_integer(text: str) -> int:
    """Return the integer that a text is; refuse one with more digits than any float."""
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits is too large")
    return int(text)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; the ``object_pairs_hook`` of decoders.

    Raises:
        ValueError: A key appears twice; JSON readers drop one of the two silently.
    """
    record = dict(pairs)
    if len(record) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} appears twice")
            seen.add(key)
    return record


_BOUNDED = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_refuse_constant, parse_float=_finite_number, parse_int=_short_integer
)
_WITH_CONSTANTS = json.JSONDecoder(object_pairs_hook=unique_keys, parse_int=_short_integer)


def _is_too_deep(value: Any) -> bool:
    """Return whether lists and objects in a parsed value are nested more than :data:`MAX_DEPTH` deep."""
    depth = 0
    containers_at_depth = _containers_among([value])
    while containers_at_depth:
        depth += 1
        if depth > MAX_DEPTH:
            return True
        inner_containers = []
        for container in containers_at_depth:
            if isinstance(container, dict):
                inner_containers += _containers_among(container.values())
            else:
                inner_containers += _containers_among(container)
        containers_at_depth = inner_containers
    return False


def _containers_among(values: Iterable[Any]) -> list[list[Any] | dict[str, Any]]:
    """Return the lists and objects among JSON values."""
    return [value for value in values if isinstance(value, (list, dict))]


def parse_json(data: str | bytes | bytearray, where: str, *, constants: bool = False) -> Any:
    """Parse JSON that is not trusted.

    Args:
        data: Text, or UTF-8 bytes; a byte-order mark is skipped.
        where: What the data is, such as a path or ``"path, line 3"``; the start of error messages.
        constants: Accept ``NaN``, ``Infinity`` and numbers beyond the range of a float.

    Returns:
        The value.

    Raises:
        SchemaError: The data is not UTF-8, is not JSON, has a key twice, is nested deeper than :data:`MAX_DEPTH`, or
            has a number that is too large.

    Example:
        >>> parse_json(b'{"k": [1, 2.5]}', "result.json")
        {'k': [1, 2.5]}
    """
    if isinstance(data, str):
        text = data
    else:
        try:
            text = bytes(data).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise SchemaError(f"{where}: this is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if not text.strip():
        raise SchemaError(f"{where}: expected JSON, found nothing")
    decoder = _WITH_CONSTANTS if constants else _BOUNDED
    may_be_deep = text.count("[") + text.count("{") > MAX_DEPTH
    try:
        value = decoder.decode(text)
        if may_be_deep and _is_too_deep(value):
            raise RecursionError  # as the decoder raises for a value that is nested still deeper
    except (RecursionError, MemoryError) as error:
        raise SchemaError(f"{where}: the JSON is nested more than {MAX_DEPTH} deep, or too large") from error
    except json.JSONDecodeError as error:
        position = f"column {error.colno}"
        if "\n" in text.strip():
            position = f"line {error.lineno}, {position}"
        problem = error.msg.removesuffix(" at")
        raise SchemaError(f"{where}: this is not JSON ({problem} at {position})") from error
    except ValueError as error:
        raise SchemaError(f"{where}: this is not JSON ({error})") from error
    return value


def refuse_device(path: str | os.PathLike[str], expected: str = "a file") -> None:
    """Refuse a path that is neither a file nor a pipe, before it is read: a device or a socket may have no end.

    Args:
        path: The file to read.
        expected: What it is to be, for the message.

    Raises:
        SchemaError: It is a folder, a device or a socket, or is no path.
        OSError: It is not there.
    """
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # a null character in the path
        raise SchemaError(f"{os.fspath(path)!r}: this is no path ({error})") from error
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
        raise SchemaError(f"{os.fspath(path)}: this is {kind}, expected {expected}")


def read_json(path: str | os.PathLike[str], expected: str = "a file", begins: re.Pattern[bytes] | None = None) -> Any:
    """Read a JSON file that is not trusted.

    Args:
        path: The file (or a pipe).
        expected: What it is to be, for the message.
        begins: How a file of more than :data:`LARGE` bytes must begin, so that others are refused at once.

    Returns:
        The value.

    Raises:
        SchemaError: As for :func:`parse_json` and :func:`refuse_device`; the message starts with the path.
        OSError: The file cannot be read.
    """
    validate_path("path", path)
    where = os.fspath(path)
    refuse_device(path, expected)
    if is_database(path):
        raise SchemaError(f"{where}: this is a prediction store, expected {expected}")
    data = Path(path).read_bytes()
    if begins is not None and len(data) > LARGE and not begins.match(data):
        size = f"{len(data) // MEGABYTE} MB"
        raise SchemaError(f"{where}: this file of {size} does not begin like {expected}, and is not read")
    return parse_json(data, where)


_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
    object: "a value",
}
_TYPES: Mapping[Any, tuple[type, ...]] = {hint: (hint,) for hint in _WORDS} | {float: (int, float)}
"""The types of parsed values that fit an annotation."""
LEFT_OUT_IF_NONE: Mapping[str, bool] = MappingProxyType({"left out if None": True})
"""The metadata of a field of a record that a file has only where it has a value."""
hints_of: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)
"""Returns the annotations of the fields of a record."""


def _expected_words(hint: Any) -> str:
    """Return what a value of a type is, for messages: "a number or null"."""
    if hint in _WORDS:
        return _WORDS[hint]
    origin = get_origin(hint)
    types = get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_expected_words(alternative) for alternative in types)
    if origin is tuple:
        if types[-1] is Ellipsis:
            return f"a list, each item {_expected_words(types[0])}"
        items = ", ".join(_expected_words(item_type) for item_type in types)
        return f"a list of {len(types)} items ({items})"
    if origin in (Mapping, dict):
        return f"an object, each value {_expected_words(types[1])}"
    is_named_tuple = hasattr(hint, "_fields")
    return "a list" if is_named_tuple else "an object"


def read_value(hint: Any, value: Any, where: str) -> Any:
    """Return a parsed JSON value as the type that an annotation says, after checking that it fits.

    Lists become tuples or named tuples, and objects become dictionaries or dataclasses (records).

    Args:
        hint: An annotation: ``str``, ``int``, ``float``, ``bool``, ``None``, ``object``, ``tuple[...]``,
            ``Mapping[str, ...]`` or ``dict``, a dataclass or a named tuple of such fields, or a union of these.
        value: The value.
        where: What it is, for errors.

    Raises:
        SchemaError: The value, or one in it, has another type, or a record refuses it (its method ``check_saved``). A
            field of a record is missing (those with a default may be, in records without this method) or unknown.

    Example:
        >>> read_value(tuple[float, ...], [1, 2.5], "weights")
        (1, 2.5)
    """
    if hint is object or hint is Any or type(value) in _TYPES.get(hint, ()):
        return value
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _read_union(hint, value, where)
    if origin is tuple:
        return _read_tuple(hint, value, where)
    if origin in (Mapping, dict):
        return _read_mapping(hint, value, where)
    if hasattr(hint, "_fields"):
        return _read_named_tuple(hint, value, where)
    if dataclasses.is_dataclass(hint):
        return _read_record(hint, value, where)
    raise _type_error(hint, value, where)


# The functions below read a value of one kind of annotation; their arguments are those of read_value.


def _type_error(hint: Any, value: Any, where: str) -> SchemaError:
    """Return the error for a value of another type."""
    return SchemaError(f"{where} must be {_expected_words(hint)}, not {value!r:.60}")


def _read_union(hint: Any, value: Any, where: str) -> Any:
    """Read a value of one of several types, such as ``int | None``; at most one is a list, an object or a record."""
    types = get_args(hint)
    for simple_type in types:
        if type(value) in _TYPES.get(simple_type, ()):
            return value
    if value is not None:
        for composite_type in types:
            if composite_type not in _TYPES:
                return read_value(composite_type, value, where)
    raise _type_error(hint, value, where)


def _read_tuple(hint: Any, value: Any, where: str) -> tuple[Any, ...]:
    """Read a list as a tuple: of items of one type, such as ``tuple[int, ...]``, or with a type for each item."""
    item_types = get_args(hint)
    if not isinstance(value, (list, tuple)):
        raise _type_error(hint, value, where)
    has_any_length = item_types[-1] is Ellipsis
    if has_any_length:
        return _read_items(item_types[0], value, where)
    if len(value) != len(item_types):
        raise _type_error(hint, value, where)
    items = []
    for position, (item_type, item) in enumerate(zip(item_types, value, strict=True)):
        items.append(read_value(item_type, item, f"{where}, item {position}"))
    return tuple(items)


def _read_items(hint: Any, values: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Read a list of any length as a tuple, all items of one type."""
    # Simple values are kept as they are. Checking their types all at once is fast for long lists of numbers.
    if _all_are_simple(hint, values):
        return tuple(values)
    items = []
    for position, value in enumerate(values):
        items.append(read_value(hint, value, f"{where}, item {position}"))
    return tuple(items)


def _all_are_simple(hint: Any, values: Sequence[Any]) -> bool:
    """Return whether all values are simple ones that an annotation allows: no lists, objects or records.

    For the annotation ``int | None``, the values 1 and ``None`` are.
    """
    alternatives = (hint,)
    if get_origin(hint) in (Union, UnionType):
        alternatives = get_args(hint)
    allowed_types: set[type] = set()
    for alternative in alternatives:
        allowed_types.update(_TYPES.get(alternative, ()))
    types_of_values = set(map(type, values))
    return types_of_values <= allowed_types


def _read_mapping(hint: Any, value: Any, where: str) -> dict[str, Any]:
    """Read an object whose values have one type, such as ``Mapping[str, float]``."""
    if not isinstance(value, Mapping):
        raise _type_error(hint, value, where)
    _, value_type = get_args(hint)
    return {key: read_value(value_type, item, f"{where}, {key:.60}") for key, item in value.items()}


def _read_named_tuple(kind: Any, value: Any, where: str) -> Any:
    """Read a list as a named tuple, whose fields it has in order."""
    if not isinstance(value, (list, tuple)) or len(value) != len(kind._fields):
        raise _type_error(kind, value, where)
    fields = []
    for (name, hint), item in zip(hints_of(kind).items(), value, strict=True):
        fields.append(read_value(hint, item, f"{where}, {name}"))
    return kind(*fields)


def _read_record(kind: Any, data: Any, where: str) -> Any:
    """Read an object as a dataclass, by the names of its fields; a value of the dataclass is returned unchanged."""
    if isinstance(data, kind):
        return data
    if not isinstance(data, Mapping):
        raise _type_error(kind, data, where)
    _check_field_names(kind, data, where)
    hints = hints_of(kind)
    values = {}
    for name, value in data.items():
        values[name] = read_value(hints[name], value, f"{where}, {name}")
    record = kind(**values)
    if hasattr(kind, "check_saved"):
        record.check_saved(where)
    return record


def _check_field_names(kind: Any, data: Mapping[str, Any], where: str) -> None:
    """Refuse an object that lacks a field of a dataclass, or has another one.

    Raises:
        SchemaError: It does.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name, field in fields.items():
        if name not in data and not is_optional_field(kind, field):
            raise SchemaError(f"{where} cannot be read: the field {name!r} is missing")
    for name in data:
        if name not in fields:
            raise SchemaError(f"{where} cannot be read: there is no field {name!r:.60}")


def is_left_out_if_none(field: dataclasses.Field[Any]) -> bool:
    """Return whether a file has a field of a record only where it has a value (:data:`LEFT_OUT_IF_NONE`)."""
    return field.metadata == LEFT_OUT_IF_NONE


def is_optional_field(kind: Any, field: dataclasses.Field[Any]) -> bool:
    """Return whether a JSON object may lack a field of the record (the dataclass) that it is read as.

    - A field that is written only where it has a value (:data:`LEFT_OUT_IF_NONE`) may be missing.
    - Other fields with a default may be missing, too, but not in a class with the method ``check_saved``. Such a class
      reads files that StaICC wrote with every field.
    - A field without a default must be there.

    Args:
        kind: The class of the record.
        field: Its field.
    """
    if is_left_out_if_none(field):
        return True
    has_check_of_saved_values = hasattr(kind, "check_saved")
    if has_check_of_saved_values:
        return False
    return _has_default(field)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field has a default value, or a function that makes one."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
