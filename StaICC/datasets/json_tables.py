"""Tables in JSON: JSON Lines, a list of objects, or the objects of columns that pandas writes.

========================== ==========================================================================
shape                      example
========================== ==========================================================================
one object in each line    ``{"text": "a", "label": "b"}``
a list of objects          ``[{"text": "a", "label": "b"}]``
columns                    ``{"text": {"0": "a"}, "label": {"0": "b"}}`` (``DataFrame.to_json``)
columns as lists           ``{"text": ["a"], "label": ["b"]}``
rows by index              ``{"0": {"text": "a", "label": "b"}}`` (``orient="index"``)
split                      ``{"columns": ["text", "label"], "index": [0], "data": [["a", "b"]]}``
table                      ``{"schema": ..., "data": [{"text": "a", "label": "b"}]}``
========================== ==========================================================================

The names of the wanted columns tell columns and rows by index apart. Any other object is refused, and the message names
its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from StaICC.errors import SchemaError
from StaICC.files.json_reading import parse_json

_EXAMPLE = '{"text": ..., "label": ...}'


class JsonRow(NamedTuple):
    """A row, and its number in messages: of its line, or of its place in the list from 0."""

    number: int
    values: Mapping[str, Any]


class JsonTable(NamedTuple):
    """The rows of a file."""

    rows: Sequence[JsonRow]
    unit: str
    """What the numbers count: ``"line"`` or ``"row"``."""


def read_json_table(name: str, text: str, wanted: Sequence[str]) -> JsonTable:
    """Read the rows of a file in one of the shapes above.

    Args:
        name: The file, for messages.
        text: Its text.
        wanted: The columns that are looked for.

    Raises:
        SchemaError: It is not JSON, or has another shape.
    """
    start = text.lstrip()[:1]
    if start == "[":
        return _rows_of_list(name, parse_json(text, name))
    if start == "{" and not _first_line_ends_an_object(text):
        place = f"{name}: an object of several lines, which must be the only one of the file"
        return _rows_of_object(name, parse_json(text, place), wanted)
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    values = [(number, parse_json(line, f"{name}, line {number}")) for number, line in numbered]
    if len(values) == 1:
        ((_, only_value),) = values  # a table on one line, or a file of one row
        if isinstance(only_value, Mapping) and not _is_row(only_value, wanted):
            return _rows_of_object(name, only_value, wanted)
    rows = []
    for number, value in values:
        rows.append(JsonRow(number, _checked_object(value, f"{name}, line {number}")))
    return JsonTable(rows, "line")


def _first_line_ends_an_object(text: str) -> bool:
    """Return whether the first line ends like an object: in JSON Lines and in a table on one line, not if indented."""
    first = text.lstrip().partition("\n")[0].rstrip()
    return first.endswith("}")


def _checked_object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SchemaError(f"{place}: got {value!r:.60}, expected an object such as {_EXAMPLE}")
    return value


def _rows_of_list(name: str, values: Sequence[Any]) -> JsonTable:
    rows = []
    for number, value in enumerate(values):
        rows.append(JsonRow(number, _checked_object(value, f"{name}, row {number}")))
    return JsonTable(rows, "row")


def _is_row(value: Mapping[str, Any], wanted: Sequence[str]) -> bool:
    """Return whether the only object of a file is a row: it has the wanted columns, and texts or numbers in them."""
    return set(wanted) <= value.keys() and not any(isinstance(value[column], (list, dict)) for column in wanted)


def _rows_of_object(name: str, table: Mapping[str, Any], wanted: Sequence[str]) -> JsonTable:
    read = _reader_of(table, wanted)
    if read is not None:
        return read(name, table)
    keys = ", ".join(map(repr, list(table)[:10]))
    advice = f"expected a list of objects such as {_EXAMPLE}, or one object in each line"
    for key, value in table.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping) and set(wanted) <= value[0].keys():
            advice += f". The rows seem to be the list {key!r}: save that list as the file"
    raise SchemaError(f"{name} is one object with the keys {keys}; {advice}")


def _reader_of(table: Mapping[str, Any], wanted: Sequence[str]) -> Callable[[str, Mapping[str, Any]], JsonTable] | None:
    """Return the reader of an object that is a table; ``None`` if it is not."""
    if {"columns", "data"} <= table.keys() <= {"columns", "index", "data"}:
        is_split = isinstance(table["columns"], list) and isinstance(table["data"], list)
        return _rows_of_split if is_split else None
    if table.keys() == {"schema", "data"} and isinstance(table["data"], list):
        return _rows_of_table_schema
    values = list(table.values())
    if values and all(isinstance(value, list) for value in values) and set(wanted) <= table.keys():
        return _rows_of_lists
    if values and all(isinstance(value, Mapping) for value in values):
        all_are_rows = all(set(wanted) <= value.keys() for value in values)
        return _rows_by_index if all_are_rows else _rows_of_columns
    return None


def _rows_by_index(name: str, table: Mapping[str, Any]) -> JsonTable:
    return _rows_of_list(name, list(table.values()))


def _rows_of_lists(name: str, table: Mapping[str, Any]) -> JsonTable:
    first, *_ = table
    for column, cells in table.items():
        if len(cells) != len(table[first]):
            lengths = f"{len(cells)} values, the list {first!r} has {len(table[first])}"
            raise SchemaError(f"{name}: the list {column!r} has {lengths}; expected one value for each row")
    rows = []
    for number, cells in enumerate(zip(*table.values(), strict=True)):
        rows.append(JsonRow(number, dict(zip(table, cells, strict=True))))
    return JsonTable(rows, "row")


def _rows_of_columns(name: str, table: Mapping[str, Any]) -> JsonTable:
    indexes = list(next(iter(table.values())))
    for column, cells in table.items():
        if list(cells) != indexes:
            raise SchemaError(f"{name}: the column {column!r} has other rows than the first one, {next(iter(table))!r}")
    rows = []
    for number, index in enumerate(indexes):
        rows.append(JsonRow(number, {column: cells[index] for column, cells in table.items()}))
    return JsonTable(rows, "row")


def _rows_of_split(name: str, table: Mapping[str, Any]) -> JsonTable:
    columns = table["columns"]
    if len(set(map(str, columns))) < len(columns):
        raise SchemaError(f"{name}: a column appears twice in {columns!r:.120}. Rename all but one")
    rows = []
    for number, cells in enumerate(table["data"]):
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise SchemaError(f"{name}, row {number}: got {cells!r:.60}, expected a list of {len(columns)} values")
        rows.append(JsonRow(number, dict(zip(map(str, columns), cells, strict=True))))
    return JsonTable(rows, "row")


def _rows_of_table_schema(name: str, table: Mapping[str, Any]) -> JsonTable:
    return _rows_of_list(name, table["data"])
