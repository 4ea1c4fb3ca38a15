"""What methods learn, in files: one function saves a state of any class, one reads it.

A state is a frozen dataclass of plain numbers, texts, tuples and arrays::

    @dataclass(frozen=True)
    class TemperatureState:
        temperature: float

    save_state("temperature.json", TemperatureState(1.5), label_space)
    state = load_state("temperature.json", TemperatureState).state

Files are JSON, or NPZ where the name ends so, which is smaller for arrays. Nothing in them is executed when they are
read. What is read is checked against the dataclass: each value has the annotated type, all numbers are finite, and the
dimensions are those that :func:`learned` declares.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import types
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from StaICC.errors import ArgumentError, SchemaError
from StaICC.files.json_reading import parse_json, refuse_device
from StaICC.files.output import write_output
from StaICC.methods.packed_features import numpy

FORMAT = 1
"""Number of the format of these files."""

LABELS = "labels"
"""A dimension that is the number of labels."""

ANY = "any"
"""A dimension of any size of at least 1."""

_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error),
    *(RuntimeError, MemoryError),  # an encrypted file, an unknown compression; an array of an impossible size
)
"""What reading a damaged or forged file raises."""

Array = Any
"""Annotation of a field that is a NumPy array of double precision."""


def learned(*shape: int | str, array: bool = False) -> Any:
    """Declare a field of a state: the size of each dimension, which is checked when a file is read.

    Args:
        *shape: The sizes: numbers, :data:`LABELS` or :data:`ANY`.
        array: Whether the value is a NumPy array; else it is a tuple (of tuples).
    """
    return field(metadata={"shape": shape, "array": array})


@dataclass(frozen=True)
class SavedState:
    """What a file contains."""

    state: Any
    label_space: list[str]
    facts: Mapping[str, Any]
    """What the writer added, such as the name of the calibration."""


def save_state(
    path: str | os.PathLike[str], state: Any, label_space: Sequence[str], facts: Mapping[str, Any] | None = None
) -> None:
    """Write a state.

    Args:
        path: The file, written atomically: NPZ if the name ends so, else JSON.
        state: A frozen dataclass.
        label_space: The labels that it was learned for.
        facts: JSON values that :func:`load_state` returns with it.

    Raises:
        ArgumentError: The state is no dataclass.
    """
    plain, arrays = parts_of_state(state)
    head = {
        "format": FORMAT,
        "state": type(state).__name__,
        "label_space": list(label_space),
        "facts": dict(facts or {}),
    }
    if Path(path).suffix == ".npz":
        packed = io.BytesIO()
        text = json.dumps({**head, "values": plain}, allow_nan=False)
        numpy.savez(packed, head=numpy.array(text), **arrays)
        content = packed.getvalue()
    else:
        values = plain | {name: array.tolist() for name, array in arrays.items()}
        text = json.dumps({**head, "values": values}, ensure_ascii=False, allow_nan=False) + "\n"
        content = text.encode("utf-8", "surrogatepass")
    write_output(path, [content])


def load_state(path: str | os.PathLike[str], *state_classes: type[Any]) -> SavedState:
    """Read a state.

    Args:
        path: What :func:`save_state` wrote.
        *state_classes: The classes that it may be of.

    Raises:
        SchemaError: The file is none, damaged, of a newer format, of another class, or a value does not fit its field.
    """
    refuse_device(path)
    content = Path(path).read_bytes()
    try:
        return _read_state(content, {state_class.__name__: state_class for state_class in state_classes})
    except SchemaError as error:
        raise SchemaError(f"{os.fspath(path)}: {error}") from error
    except _DAMAGE as error:
        raise SchemaError(f"{os.fspath(path)}: the saved state cannot be read: {error!r}") from error


def _read_state(content: bytes, classes: Mapping[str, type[Any]]) -> SavedState:
    """Return the state that a file contains, after checking its values.

    Args:
        content: The content of the file: NPZ, which is a ZIP file, or JSON.
        classes: The classes that the state may be of, by name.

    Raises:
        SchemaError: The format is newer, or the state is of another class.
        ValueError: A value does not fit its field. Other errors are possible if the file is damaged.
    """
    is_npz = content.startswith(b"PK")  # as every ZIP file
    if is_npz:
        with numpy.load(io.BytesIO(content), allow_pickle=False) as packed:
            head = parse_json(str(packed["head"][()]), "its head")
            arrays = {name: packed[name] for name in packed.files if name != "head"}
        values = head["values"] | arrays
    else:
        head = parse_json(content, "its text")
        values = head["values"]

    _check_format(head["format"])
    class_name = head["state"]
    if class_name not in classes:
        raise SchemaError(f"it holds a {class_name}, expected {' or '.join(classes)}")
    label_space = _checked_label_space(head["label_space"])
    state = _checked_state(classes[class_name], values, len(label_space))
    return SavedState(state, label_space, head["facts"])


def parts_of_state(state: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plain values and the arrays of a state by their names."""
    if isinstance(state, type) or not is_dataclass(state):
        raise ArgumentError(f"state: got {state!r:.60}, expected a frozen dataclass")
    plain = {}
    arrays = {}
    for declared in fields(state):
        value = getattr(state, declared.name)
        if declared.metadata.get("array"):
            arrays[declared.name] = value
        else:
            plain[declared.name] = value
    return plain, arrays


def state_digest(state: Any, facts: Mapping[str, Any]) -> str:
    """Return a digest of the values of a state and of facts that belong to it.

    Args:
        state: A frozen dataclass.
        facts: JSON values.
    """
    plain, arrays = parts_of_state(state)
    described = json.dumps([dict(facts), type(state).__name__, plain], sort_keys=True)
    digest = hashlib.sha256(described.encode())
    for name in sorted(arrays):
        exact = arrays[name].astype("float64")  # a JSON file keeps the values, not the number type
        digest.update(f"{name}{exact.shape}".encode() + exact.tobytes())
    return digest.hexdigest()


# -- checks of what is read


def _check_format(number: Any) -> None:
    """Refuse a format that this version cannot read."""
    is_integer = isinstance(number, int) and not isinstance(number, bool)
    if not is_integer or number < 1:
        raise ValueError(f"got the format {number!r:.60}, expected a number from 1")
    if number > FORMAT:
        raise SchemaError(f"it has format {number}, this version reads up to {FORMAT}; upgrade staicc")


def _checked_label_space(label_space: Any) -> list[str]:
    """Return the labels; ValueError unless there is a list of at least one text."""
    is_filled_list = isinstance(label_space, list) and len(label_space) > 0
    if not is_filled_list or not all(isinstance(label, str) for label in label_space):
        raise ValueError(f"got the label space {label_space!r:.60}, expected a list of texts")
    return list(label_space)


def _checked_state(state_class: type[Any], values: Mapping[str, Any], label_count: int) -> Any:
    """Return a state with the values of a file.

    Args:
        state_class: The class of the state, whose fields say which values fit (:func:`learned`).
        values: The value of each field, by its name.
        label_count: Number of labels, which is the size of some dimensions.

    Raises:
        ValueError: A value does not fit its field, is missing, or has no field.
    """
    hints = get_type_hints(state_class)
    names = {declared.name for declared in fields(state_class)}
    if set(values) != names:
        raise ValueError(f"got the values {sorted(values)}, expected {sorted(names)}")
    checked = {}
    for declared in fields(state_class):
        name = declared.name
        if declared.metadata.get("array"):
            value = _checked_array(values[name], name)
            sizes = value.shape
        else:
            value = _checked_value(values[name], hints[name], name)
            sizes = _sizes(value)
        shape = declared.metadata.get("shape")  # a field that is not declared by learned() has none, and any size fits
        if shape is not None and not _fits(sizes, shape, label_count):
            raise ValueError(f"{name}: got {value!r:.60}, which does not fit the label space")
        checked[name] = value
    return state_class(**checked)


def _checked_array(value: Any, name: str) -> Any:
    """Return a value as an array of finite real numbers; ValueError if it is none."""
    if numpy.asarray(value).dtype.kind not in "iuf":
        raise ValueError(f"{name}: expected real numbers")
    array = numpy.asarray(value, float)
    if not numpy.isfinite(array).all():
        raise ValueError(f"{name}: not all numbers are finite")
    return array


def _checked_value(value: Any, hint: Any, name: str) -> Any:
    """Return a value of a file in the type of its field; a list of JSON becomes a tuple.

    Args:
        value: The value.
        hint: The annotation of the field, such as ``tuple[float, ...]``.
        name: The name of the field, for messages.

    Raises:
        ValueError: The value has another type, or is a number that is not finite.
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for choice in get_args(hint):
            try:
                return _checked_value(value, choice, name)
            except ValueError:
                continue
    elif origin is Literal:
        if value in get_args(hint):
            return value
    elif origin is tuple:
        if isinstance(value, (list, tuple)):
            type_of_members = get_args(hint)[0]
            return tuple(_checked_value(member, type_of_members, name) for member in value)
    elif hint is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and math.isfinite(value):
            return float(value)
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif hint in (bool, str, type(None)):
        if isinstance(value, hint):
            return value
    else:
        raise ValueError(f"{name}: states cannot hold {hint!r}")
    raise ValueError(f"{name}: got {value!r:.60}, expected {hint}")


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return the size of each dimension of nested tuples; ``None`` if members of a tuple differ in size.

    Example:
        >>> _sizes(((1, 2, 3), (4, 5, 6)))
        (2, 3)
    """
    if not isinstance(value, tuple):
        return ()
    if not value:
        return (0,)
    sizes_of_members = [_sizes(member) for member in value]
    sizes_of_first = sizes_of_members[0]
    for sizes in sizes_of_members:
        if sizes is None or sizes != sizes_of_first:
            return None
    assert sizes_of_first is not None  # the loop has refused it
    return (len(value), *sizes_of_first)


def _fits(sizes: tuple[int, ...] | None, shape: Sequence[int | str], label_count: int) -> bool:
    """Return whether the dimensions of a value are those that :func:`learned` declares for its field.

    Args:
        sizes: The size of each dimension of the value; ``None`` if members of a tuple differ in size.
        shape: The declared dimensions: numbers, :data:`LABELS` or :data:`ANY`.
        label_count: Number of labels.
    """
    if sizes is None or len(sizes) != len(shape):
        return False
    for size, expected in zip(sizes, shape, strict=True):
        if expected == ANY:
            fits = size >= 1
        elif expected == LABELS:
            fits = size == label_count
        else:
            fits = size == expected
        if not fits:
            return False
    return True
