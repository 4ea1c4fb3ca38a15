"""Edits of saved results: every leaf of the JSON values, and another value of the same type for each."""

from __future__ import annotations

import base64
import copy
import json
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


OTHER_VALUES: list[Any] = [
    *(None, 0, -1, 3, 10**18, 10**400, 0.5, -0.0, 1e308, "", "x", "\x1b[31m", "\udce4", "=1+1", True, False),
    *([], {}, [[]], [None], {"": None}, [0, 1], "mixed-0123456789ab", "99999999", "9" * 5000, "²"),
]


def damaged(document: Any, rng: random.Random) -> bytes:
    """The bytes of a file that is damaged somehow: in its text, in its types, in its structure."""
    way = rng.randrange(8)
    paths = [path for path, _ in every_place(document)]
    path = paths[rng.randrange(len(paths))]
    if way < 3:  # another value of any type
        document = edited(document, path, rng.choice(OTHER_VALUES))
    elif way == 3:  # a key or an item is missing
        inner = value_at(document, path[:-1])
        kept = (
            {key: value for key, value in inner.items() if key != path[-1]}
            if isinstance(inner, dict)
            else [value for place, value in enumerate(inner) if place != path[-1]]
        )
        document = edited(document, path[:-1], kept)
    elif way == 4:  # a part of the document in another place
        document = edited(document, path, value_at(document, rng.choice(paths)))
    data = bytearray(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if way == 5:  # bytes are others
        for _ in range(rng.choice([1, 3, 50])):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif way == 6:  # cut short, or something is put in
        start = rng.randrange(len(data))
        inside = rng.choice([b"", b"[" * 100_000, b'{"a":' * 5_000, b"NaN", b"1e999", b"9" * 5_000, b"\xff", b"\x00"])
        data = data[:start] + inside + (data[start:] if rng.random() < 0.5 else b"")
    elif way == 7:  # a piece is there twice, or missing
        start, end = sorted(rng.randrange(len(data)) for _ in range(2))
        data = data[:end] + data[start:] if rng.random() < 0.5 else data[:start] + data[end:]
    return bytes(data)


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
