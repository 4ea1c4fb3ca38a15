"""Edits of saved results: every leaf of the JSON values, and another value of the same type for each."""

from __future__ import annotations

import base64
import copy
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]


def members_of(value: Any) -> list[tuple[Any, Any]]:
    """Return the keys and members of a dictionary, or the indexes and members of a list; other values have none."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return list(enumerate(value))
    return []


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each value that is neither a dictionary nor a list, with its path."""
    if not isinstance(value, (dict, list)):
        yield path, value
    for key, member in members_of(value):
        yield from leaves(member, (*path, key))


def kind_of(path: Path) -> Path:
    """Return the keys of a path without the indexes of lists."""
    return tuple(key for key in path if isinstance(key, str))


def changed(path: Path, value: Any, rng: random.Random) -> Any:
    """Return another value of the same type, of which no reader complains."""
    if isinstance(value, bool):
        return not value
    if value is None:
        may_be_a_number = kind_of(path)[-1] not in ("predictions", "scores", "calibration")
        return 0.25 if may_be_a_number else None
    if isinstance(value, int):
        return changed_integer(path, value, rng)
    if isinstance(value, float):
        return value + rng.choice([0.001, 0.01, -0.0625])
    key = path[-1]
    if key == "scores" and path[0] != "digests":
        return with_a_changed_bit(value, rng)
    if key == "kind":
        return None
    return with_a_changed_character(value, rng)


def changed_integer(path: Path, value: int, rng: random.Random) -> int:
    """Return another integer: of two labels the other one, an earlier schema, a greater number of anything else."""
    key = path[-1]
    is_label_of_a_row = isinstance(key, int) and path[-2] in ("truth", "predictions")
    if is_label_of_a_row:
        return (value + 1) % 2
    if key == "schema":
        return value - 1
    return value + rng.choice([1, 2, 7])


def with_a_changed_bit(label_scores: str, rng: random.Random) -> str:
    """Return encoded scores, as ``FORM:BASE64``, with one of the four low bits of one byte changed."""
    form, _, encoded = label_scores.partition(":")
    data = bytearray(base64.b64decode(encoded))
    index = rng.randrange(len(data))
    data[index] ^= 1 << rng.randrange(4)
    return f"{form}:{base64.b64encode(data).decode()}"


def with_a_changed_character(text: str, rng: random.Random) -> str:
    """Return a text with a 0 in place of one character, or a 1 in place of a 0; of an empty text, "0"."""
    if not text:
        return "0"
    index = rng.randrange(len(text))
    other = "1" if text[index] == "0" else "0"
    return text[:index] + other + text[index + 1 :]


def edited(document: Any, path: Path, value: Any) -> Any:
    """Return a copy of a document with another value at a path; what is not on the path is shared."""
    if not path:
        return value
    key, *rest_of_path = path
    document_copy = copy.copy(document)
    document_copy[key] = edited(document[key], tuple(rest_of_path), value)
    return document_copy


def value_at(document: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        document = document[key]
    return document


def every_place(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each value within a document, also dictionaries and lists, with its path."""
    for key, member in members_of(value):
        path_of_member = (*path, key)
        yield path_of_member, member
        yield from every_place(member, path_of_member)
