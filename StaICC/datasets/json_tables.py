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
"""A row, for messages."""
_MOST_KEYS = 10
"""How many keys of an object a message names."""


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
    first_character = text.lstrip()[:1]
    if first_character == "[":
        return _rows_of_list(name, parse_json(text, name))
    if first_character == "{" and not _first_line_ends_an_object(text):
        where = f"{name}: an object of several lines, which must be the only one of the file"
        return _rows_of_object(name, parse_json(text, where), wanted)

    value_of_line = _values_of_lines(name, text)
    if len(value_of_line) == 1:
        (only_value,) = value_of_line.values()
        is_table_on_one_line = isinstance(only_value, Mapping) and not _is_row(only_value, wanted)
        if is_table_on_one_line:
            return _rows_of_object(name, only_value, wanted)
    rows = []
    for line_number, value in value_of_line.items():
        rows.append(JsonRow(line_number, _checked_object(value, f"{name}, line {line_number}")))
    return JsonTable(rows, "line")


def _values_of_lines(name: str, text: str) -> dict[int, Any]:
    """Return the JSON value of each line that is not blank, by the number of the line from 1."""
    value_of_line = {}
    for line_number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value_of_line[line_number] = parse_json(line, f"{name}, line {line_number}")
    return value_of_line


def _first_line_ends_an_object(text: str) -> bool:
    """Return whether the first line ends like an object: in JSON Lines and in a table on one line, not if indented."""
    first_line, _, _ = text.lstrip().partition("\n")
    return first_line.rstrip().endswith("}")


def _checked_object(value: Any, place: str) -> Mapping[str, Any]:
    """Return a parsed JSON value unchanged if it is an object, as every row must be.

    Raises:
        SchemaError: It is a list, a text, a number or another value.
    """
    if not isinstance(value, Mapping):
        raise SchemaError(f"{place}: got {value!r:.60}, expected an object such as {_EXAMPLE}")
    return value


def _rows_of_list(name: str, values: Sequence[Any]) -> JsonTable:
    """Return the rows of a list of objects."""
    rows = []
    for number, value in enumerate(values):
        rows.append(JsonRow(number, _checked_object(value, f"{name}, row {number}")))
    return JsonTable(rows, "row")


def _is_row(value: Mapping[str, Any], wanted: Sequence[str]) -> bool:
    """Return whether the only object of a file is a row: it has the wanted columns, and texts or numbers in them."""
    has_wanted_columns = set(wanted) <= value.keys()
    if not has_wanted_columns:
        return False
    wanted_values = [value[column] for column in wanted]
    return not any(isinstance(wanted_value, (list, dict)) for wanted_value in wanted_values)


def _rows_of_object(name: str, table: Mapping[str, Any], wanted: Sequence[str]) -> JsonTable:
    """Return the rows of an object that is a whole table.

    Args:
        name: The file, for messages.
        table: The object.
        wanted: The columns that are looked for.

    Raises:
        SchemaError: It is no table of a known shape.
    """
    read_rows = _reader_of(table, wanted)
    if read_rows is not None:
        return read_rows(name, table)
    keys = ", ".join(map(repr, list(table)[:_MOST_KEYS]))
    advice = f"expected a list of objects such as {_EXAMPLE}, or one object in each line"
    for key, value in table.items():
        if _is_list_of_rows(value, wanted):
            advice += f". The rows seem to be the list {key!r}: save that list as the file"
    raise SchemaError(f"{name} is one object with the keys {keys}; {advice}")


def _is_list_of_rows(value: Any, wanted: Sequence[str]) -> bool:
    """Return whether a value is a list whose first item is a row."""
    if not isinstance(value, list) or not value:
        return False
    first_item = value[0]
    return isinstance(first_item, Mapping) and set(wanted) <= first_item.keys()


def _reader_of(table: Mapping[str, Any], wanted: Sequence[str]) -> Callable[[str, Mapping[str, Any]], JsonTable] | None:
    """Return the function that reads the rows of an object in its shape; ``None`` if the object is no table."""
    has_keys_of_split = {"columns", "data"} <= table.keys() <= {"columns", "index", "data"}
    if has_keys_of_split:
        if isinstance(table["columns"], list) and isinstance(table["data"], list):
            return _rows_of_split
        return None
    if table.keys() == {"schema", "data"} and isinstance(table["data"], list):
        return _rows_of_table_schema
    if not table:
        return None

    values = list(table.values())
    wanted_columns = set(wanted)
    if all(isinstance(value, list) for value in values) and wanted_columns <= table.keys():
        return _rows_of_lists
    if not all(isinstance(value, Mapping) for value in values):
        return None
    # Both shapes that are left are objects of objects: of rows by index, or of columns.
    if all(wanted_columns <= value.keys() for value in values):
        return _rows_by_index
    return _rows_of_columns


def _rows_by_index(name: str, table: Mapping[str, Any]) -> JsonTable:
    """Return the rows of an object of rows; their order counts, not their keys."""
    return _rows_of_list(name, list(table.values()))


def _rows_of_lists(name: str, table: Mapping[str, Any]) -> JsonTable:
    """Return the rows of an object of columns, each a list of values."""
    columns = list(table)
    first_column = columns[0]
    row_count = len(table[first_column])
    for column, values in table.items():
        if len(values) != row_count:
            raise SchemaError(
                f"{name}: the list {column!r} has {len(values)} values, the list {first_column!r} has {row_count}; "
                "expected one value for each row"
            )
    rows = []
    for row_number in range(row_count):
        rows.append(JsonRow(row_number, {column: table[column][row_number] for column in columns}))
    return JsonTable(rows, "row")


def _rows_of_columns(name: str, table: Mapping[str, Any]) -> JsonTable:
    """Return the rows of an object of columns, each an object of values by the index of their row."""
    columns = list(table)
    first_column = columns[0]
    indexes = list(table[first_column])
    for column, values in table.items():
        if list(values) != indexes:
            raise SchemaError(f"{name}: the column {column!r} has other rows than the first one, {first_column!r}")
    rows = []
    for row_number, index in enumerate(indexes):
        rows.append(JsonRow(row_number, {column: values[index] for column, values in table.items()}))
    return JsonTable(rows, "row")


def _rows_of_split(name: str, table: Mapping[str, Any]) -> JsonTable:
    """Return the rows of an object with the names of the columns, and a list of values for each row."""
    columns = [str(column) for column in table["columns"]]
    if len(set(columns)) < len(columns):
        raise SchemaError(f"{name}: a column appears twice in {table['columns']!r:.120}. Rename all but one")
    rows = []
    for row_number, values in enumerate(table["data"]):
        if not isinstance(values, list) or len(values) != len(columns):
            raise SchemaError(f"{name}, row {row_number}: got {values!r:.60}, expected a list of {len(columns)} values")
        rows.append(JsonRow(row_number, dict(zip(columns, values, strict=True))))
    return JsonTable(rows, "row")


def _rows_of_table_schema(name: str, table: Mapping[str, Any]) -> JsonTable:
    """Return the rows of an object with a schema, which is not read, and a list of objects."""
    return _rows_of_list(name, table["data"])
