"""Edits of saved results: every leaf of the JSON values, and another value of the same type for each."""

from __future__ import annotations

import base64
import copy
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that holds no others, with its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def kind_of(path: Path) -> Path:
    """The kind of field that a path leads to: without names of parts and data sets, and without numbers."""
    return tuple(key for key in path if isinstance(key, str))


def changed(path: Path, value: Any, rng: random.Random) -> Any:
    """Another value of the same type, of which no reader complains."""
    key = path[-1]
    if isinstance(value, bool):
        return not value
    if value is None:
        return 0.25 if kind_of(path)[-1] not in ("predictions", "scores", "calibration") else None
    if isinstance(value, int):
        if isinstance(key, int) and path[-2] in ("truth", "predictions"):
            return (value + 1) % 2
        return value - 1 if key == "schema" else value + rng.choice([1, 2, 7])
    if isinstance(value, float):
        return value + rng.choice([0.001, 0.01, -0.0625])
    if key == "scores" and path[0] != "digests":
        kind, _, coded = value.partition(":")
        data = bytearray(base64.b64decode(coded))  # of a label score
        place = rng.randrange(len(data))
        data[place] ^= 1 << rng.randrange(4)
        return f"{kind}:{base64.b64encode(data).decode()}"
    if key in ("kind",):
        return None
    place = rng.randrange(len(value)) if value else 0
    return value[:place] + ("0" if value[place : place + 1] != "0" else "1") + value[place + 1 :]


def edited(document: Any, path: Path, value: Any) -> Any:
    """A copy of a document with another value at a path; what is not on the path is shared."""
    if not path:
        return value
    twin = copy.copy(document)
    twin[path[0]] = edited(document[path[0]], path[1:], value)
    return twin


def value_at(document: Any, path: Path) -> Any:
    """The value at a path."""
    for key in path:
        document = document[key]
    return document


def every_place(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value but the whole, with its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key), item
        yield from every_place(item, (*path, key))
