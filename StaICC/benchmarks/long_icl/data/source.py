"""Reads text and JSON files with line numbers, so that errors name file and line.

All files of the benchmark are UTF-8 without a byte-order mark. A malformed file raises a
:class:`~StaICC.errors.DataDamagedError` whose message starts with ``PATH, line N:``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from StaICC.datasets.json_reading import unique_keys
from StaICC.errors import DataDamagedError, DataMissingError

_BOM = "\ufeff"
_BLANK = " \t\n\r"


def malformed(path: Path, line: int, problem: str) -> DataDamagedError:
    """Return the error for a malformed line; the caller raises it.

    Example:
        >>> str(malformed(Path("train.csv"), 7, "expected 2 columns, found 3"))
        'train.csv, line 7: expected 2 columns, found 3'
    """
    return DataDamagedError(f"{path}, line {line}: {problem}")


def lines(path: Path, *, windows: bool = False) -> Iterator[str]:
    r"""Yield the lines of a file, each with its line end.

    Args:
        path: The file.
        windows: Lines may end in CR LF.

    Raises:
        DataMissingError: The file does not exist or cannot be read.
        DataDamagedError: The file is empty, starts with a byte-order mark, is not UTF-8, or has unexpected Windows line
            ends or carriage returns.
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


def json_list(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the elements of a JSON list in a file, each with its first line number.

    Objects with duplicate keys are refused, because JSON readers drop one of the two silently.

    Raises:
        DataMissingError: The file does not exist.
        DataDamagedError: The file is malformed (see :func:`lines`), or not a JSON list.
    """
    text = "".join(lines(path))
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
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
        except (RecursionError, ValueError) as error:  # a key twice, nested too deeply, a number of thousands of digits
            raise malformed(path, line, f"the record that begins here cannot be read: {error}") from error
        yield line, value
        line += text.count("\n", place, end)
        place = end
        more = take(",]", "',' or the end of the list, ']'") == ","
    skip()
    if place < len(text):
        raise malformed(path, line, f"the list has ended, but {text[place : place + 20]!r} follows")
