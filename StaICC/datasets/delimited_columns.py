"""Columns of delimited files: which separator a file has, which fields belong to the wanted columns."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.datasets.delimited import DelimitedTable, read_delimited, read_header
from StaICC.datasets.records import Records, choose
from StaICC.errors import ArgumentError, SchemaError

SEPARATORS = {
    ".csv": (",", ";", "\t", "|", "~"),
    ".tsv": ("\t", ",", ";", "|", "~"),
    ".tab": ("\t", ",", ";", "|", "~"),
}
"""The separators that are tried, in order, by the suffix of the file."""


def read_delimited_columns(
    name: str,
    text: str,
    columns: Sequence[str],
    suffix: str,
    quoting: str | None,
    header: Sequence[str] | None,
) -> Records:
    """Read CSV or TSV.

    Who names the columns (``header``) as the first line does says that the first line is the header all the same.

    Args:
        name: The file, for messages.
        text: Its text.
        columns: The columns to read, that of the label last.
        suffix: The suffix of the format, which says which separators are tried first.
        quoting: How double quotes are read.
        header: The names of all columns of a file without a header.
    """
    if header is None:
        separator, names = _separator_of_header(text, SEPARATORS[suffix], columns)
        has_header = True
    else:
        separator, first_line = _separator_of_rows(name, text, suffix, len(header))
        names = list(header)
        has_header = names == first_line
    *text_positions, label_position = choose(names, columns, name)
    table = read_delimited(name, text, separator, len(names), label_position, quoting, has_header)
    if header is None:
        _refuse_missing_header(name, names, label_position, table)
    if quoting is None:
        _refuse_single_quotes(name, table, [*text_positions, label_position])
    rows, numbers = [], []
    for record in table.rows:
        rows.append((tuple(record.fields[position] for position in text_positions), record.fields[label_position]))
        numbers.append(record.last_line)
    return Records(name, rows, numbers, malformed=table.wrong_width, untyped=True)


def _separator_of_header(text: str, separators: Sequence[str], columns: Sequence[str]) -> tuple[str, list[str]]:
    """Return the separator of a file with a header, and the fields of the header.

    It is the first separator with which the header has all columns; otherwise the one that makes the most fields.
    """
    first_lines = {separator: read_header(text, separator) for separator in separators}
    for separator, fields in first_lines.items():
        if set(columns) <= set(fields):
            return separator, fields
    separator = max(first_lines, key=lambda separator: len(first_lines[separator]))
    return separator, first_lines[separator]


_LINES_READ = 200
"""How many lines decide the separator of a file without a header."""


def _separator_of_rows(name: str, text: str, suffix: str, width: int) -> tuple[str, list[str]]:
    """Return the separator of a file without a header, and the fields of its first line.

    It is the separator with which the most of the first lines have as many fields as there are columns. Between tabs
    and others, the suffix ``.tsv`` decides.

    Raises:
        ArgumentError: No separator gives lines of ``width`` fields, or several separators do equally well.
    """
    separators = SEPARATORS[suffix]
    lines = [line for line in text.splitlines()[:_LINES_READ] if line.strip()]
    fitting: dict[str, int] = {}
    for separator in separators:
        fitting[separator] = sum(len(read_header(line, separator)) == width for line in lines)
    best = max(separators, key=lambda separator: fitting[separator])
    if fitting[best] == 0:
        fields = max((read_header(text, separator) for separator in separators), key=len)
        raise ArgumentError(
            f"{name}: columns= names {width} columns, but the first line has {len(fields)} fields: {fields!r:.120}"
        )
    others = [separator for separator in separators if separator != best and fitting[separator] == fitting[best]]
    is_stated_by_suffix = best == "\t" and suffix != ".csv"
    if width > 1 and others and not is_stated_by_suffix:
        shown = " or ".join(repr(separator) for separator in (best, *others))
        raise ArgumentError(
            f"{name}: the lines have {width} fields with {shown} between them. Write the names of the columns into a "
            "first line, with the separator between them, and leave columns= out"
        )
    return best, read_header(text, best)


def _refuse_missing_header(name: str, header: Sequence[str], label: int, table: DelimitedTable) -> None:
    """Refuse a file whose label column is named like one of its labels: its first line may be a row that would be lost.

    A row that repeats the whole header, as in files that were put together, is no reason.

    Raises:
        SchemaError: The file may have no header.
    """
    for record in table.rows:
        has_name_of_column = record.fields[label].strip() == header[label]
        if has_name_of_column and [field.strip() for field in record.fields] != list(header):
            columns = ", ".join(repr(f"column{number}") for number in range(1, len(header) + 1))
            as_they_are = ", ".join(map(repr, header))
            raise SchemaError(
                f"{name}: the label column is named {header[label]!r}, which is also a label (line "
                f"{record.last_line}), so the first line may be a row and no header. If it is a row, name all columns: "
                f"columns=[{columns}], and use these names. If it is the header, say so: columns=[{as_they_are}]"
            )


def _refuse_single_quotes(name: str, table: DelimitedTable, columns: Sequence[int]) -> None:
    """Refuse a file that quotes its fields with apostrophes, which would be part of texts and labels.

    Raises:
        SchemaError: All fields of a column are in apostrophes.
    """
    for column in columns:
        fields = [record.fields[column].strip() for record in table.rows]
        if fields and all(len(field) > 1 and field[0] == field[-1] == "'" for field in fields):
            raise SchemaError(
                f"{name}: all fields of column {column + 1} are in apostrophes, such as {fields[0]!r:.60} (line "
                f"{table.rows[0].last_line}). If they are quotes, save the file with double quotes, or without quotes; "
                "if they are part of the texts, quoting='standard' reads them so"
            )
