"""Files read with their line numbers, so that every complaint names file and line.

All files of the benchmark are UTF-8 without a byte-order mark. Where a file is not what it should be, the error is a
:class:`~StaICC.errors.DataDamagedError` whose message starts with ``PATH, line N:``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from StaICC.errors import DataDamagedError, DataMissingError

__all__ = ["json_list", "lines", "malformed"]

_BOM = "\ufeff"
_BLANK = " \t\n\r"


def malformed(path: Path, line: int, problem: str) -> DataDamagedError:
    """The error for a bad place in a file, for the caller to raise.

    Example:
        >>> str(malformed(Path("train.csv"), 7, "expected 2 columns, found 3"))
        'train.csv, line 7: expected 2 columns, found 3'
    """
    return DataDamagedError(f"{path}, line {line}: {problem}")


def lines(path: Path, *, windows: bool = False) -> Iterator[str]:
    r"""The lines of a file, each with its end.

    Args:
        path: The file.
        windows: Lines may end in CR LF.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
        DataDamagedError: The file is empty, starts with a byte-order mark, is not UTF-8, or has Windows line ends (or
            stray carriage returns) where there must be none.
    """
    number = 0
    try:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise malformed(path, number, f"not UTF-8 text ({error.reason} at byte {error.start})") from error
                if number == 1 and line.startswith(_BOM):
                    raise malformed(
                        path, 1, "the file starts with a byte-order mark; save it as UTF-8 without one, or get it again"
                    )
                if "\r" in line and not (windows and line.count("\r") == 1 and line.endswith("\r\n")):
                    what = "a Windows line end (CR LF)" if line.endswith("\r\n") else "a stray carriage return"
                    raise malformed(
                        path, number, f"{what}, which the published file does not have; copy it without conversion"
                    )
                yield line
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    if number == 0:
        raise malformed(path, 1, "the file is empty")


class _RepeatedKey(ValueError):
    """A JSON object names a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKey(next(key for i, key in enumerate(keys) if key in keys[:i]))
    return found


def json_list(path: Path) -> Iterator[tuple[int, Any]]:
    """The elements of a JSON file that holds one list, each with the line where it begins.

    Objects with a key twice are refused: JSON readers keep one of the two without a word.

    Raises:
        DataMissingError: There is no such file.
        DataDamagedError: The file is not text as it should be (see :func:`lines`), or not a JSON list.
    """
    text = "".join(lines(path))
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    place, line = 0, 1

    def skip() -> None:
        nonlocal place, line
        while place < len(text) and text[place] in _BLANK:
            line += text[place] == "\n"
            place += 1

    def take(expected: str, wanted: str) -> str:
        nonlocal place
        skip()
        found = text[place : place + 1]
        if not found or found not in expected:
            raise malformed(path, line, f"expected {wanted}, found {found!r}" if found else f"ends before {wanted}")
        place += 1
        return found

    take("[", "a JSON list, '['")
    skip()
    more = text[place : place + 1] != "]"
    if not more:
        place += 1
    while more:
        skip()
        try:
            value, end = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise malformed(path, error.lineno, f"not JSON: {error.msg} (column {error.colno})") from error
        except _RepeatedKey as error:
            raise malformed(path, line, f"the record that begins here has the key {str(error)!r} twice") from error
        except (RecursionError, ValueError) as error:  # nested too deeply, or a number with thousands of digits
            raise malformed(path, line, f"the record that begins here cannot be read: {error}") from error
        yield line, value
        line += text.count("\n", place, end)
        place = end
        more = take(",]", "',' or the end of the list, ']'") == ","
    skip()
    if place < len(text):
        raise malformed(path, line, f"the list has ended, but {text[place : place + 20]!r} follows")
