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
    if content[:2] == b"PK":  # a ZIP file begins so
        with numpy.load(io.BytesIO(content), allow_pickle=False) as packed:
            head = parse_json(str(packed["head"][()]), "its head")
            arrays = {name: packed[name] for name in packed.files if name != "head"}
        values = head["values"] | arrays
    else:
        head = parse_json(content, "its text")
        values = head["values"]
    number = head["format"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"got the format {number!r:.60}, expected a number from 1")
    if number > FORMAT:
        raise SchemaError(f"it has format {number}, this version reads up to {FORMAT}; upgrade staicc")
    if head["state"] not in classes:
        raise SchemaError(f"it holds a {head['state']}, expected {' or '.join(classes)}")
    label_space = head["label_space"]
    if not isinstance(label_space, list) or not label_space or not all(isinstance(label, str) for label in label_space):
        raise ValueError(f"got the label space {label_space!r:.60}, expected a list of texts")
    state = _checked_state(classes[head["state"]], values, len(label_space))
    return SavedState(state, list(label_space), head["facts"])


def parts_of_state(state: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plain values and the arrays of a state by their names."""
    if isinstance(state, type) or not is_dataclass(state):
        raise ArgumentError(f"state: got {state!r:.60}, expected a frozen dataclass")
    plain = {}
    arrays = {}
    for fact in fields(state):
        value = getattr(state, fact.name)
        if fact.metadata.get("array"):
            arrays[fact.name] = value
        else:
            plain[fact.name] = value
    return plain, arrays


def state_digest(state: Any, facts: Mapping[str, Any]) -> str:
    """Return a digest of everything in a state, with facts that belong to it."""
    plain, arrays = parts_of_state(state)
    digest = hashlib.sha256(json.dumps([dict(facts), type(state).__name__, plain], sort_keys=True).encode())
    for name in sorted(arrays):
        exact = arrays[name].astype("float64")  # a JSON file keeps the values, not the number type
        digest.update(f"{name}{exact.shape}".encode() + exact.tobytes())
    return digest.hexdigest()


# -- checks of what is read


def _checked_state(state_class: type[Any], values: Mapping[str, Any], label_count: int) -> Any:
    """Return the state with these values; ValueError where one does not fit its field."""
    hints = get_type_hints(state_class)
    names = {fact.name for fact in fields(state_class)}
    if set(values) != names:
        raise ValueError(f"got the values {sorted(values)}, expected {sorted(names)}")
    checked = {}
    for fact in fields(state_class):
        value = values[fact.name]
        if fact.metadata.get("array"):
            if numpy.asarray(value).dtype.kind not in "iuf":
                raise ValueError(f"{fact.name}: expected real numbers")
            value = numpy.asarray(value, float)
            if not numpy.isfinite(value).all():
                raise ValueError(f"{fact.name}: not all numbers are finite")
            sizes = value.shape
        else:
            value = _checked_value(value, hints[fact.name], fact.name)
            sizes = _sizes(value)
        shape = fact.metadata.get("shape")
        if shape is not None and not _fits(sizes, shape, label_count):
            raise ValueError(f"{fact.name}: got {value!r:.60}, which does not fit the label space")
        checked[fact.name] = value
    return state_class(**checked)


def _checked_value(value: Any, hint: Any, name: str) -> Any:
    """Return a value as its annotation says: lists of JSON are tuples."""
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
            inner = get_args(hint)[0]
            return tuple(_checked_value(member, inner, name) for member in value)
    elif hint is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
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
    """Return the size of each dimension of a tuple of tuples; ``None`` if its members differ in size."""
    if not isinstance(value, tuple):
        return ()
    inner = {_sizes(member) for member in value}
    if not inner:
        return (0,)
    only = inner.pop()
    if inner or only is None:
        return None
    return (len(value), *only)


def _fits(sizes: tuple[int, ...] | None, shape: Sequence[int | str], label_count: int) -> bool:
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
