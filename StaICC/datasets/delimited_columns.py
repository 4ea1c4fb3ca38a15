"""Columns of delimited files: which separator a file has, which fields belong to the wanted columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from StaICC.argument_syntax import argument
from StaICC.datasets.delimited import DelimitedTable, read_delimited, read_header
from StaICC.datasets.records import Records, choose
from StaICC.errors import ArgumentError, SchemaError

SEPARATORS = {
    ".csv": (",", ";", "\t", "|", "~"),
    ".tsv": ("\t", ",", ";", "|", "~"),
    ".tab": ("\t", ",", ";", "|", "~"),
}
"""The separators that are tried, in order, by the suffix of the file."""
_LINES_READ = 200
"""How many lines decide the separator of a file without a header."""


class _FirstLine(NamedTuple):
    """The first line of a file, read with the separator of the file."""

    separator: str
    fields: list[str]


def read_delimited_columns(
    name: str,
    text: str,
    columns: Sequence[str],
    suffix: str,
    quoting: str | None,
    header: Sequence[str] | None,
) -> Records:
    """Read columns of a CSV or TSV file.

    Args:
        name: The file, for messages.
        text: Its text.
        columns: The columns to read, that of the label last.
        suffix: The suffix of the format, which says which separators are tried first.
        quoting: How double quotes are read.
        header: The names of all columns of a file without a header. If they are those of the first line, the first
            line is the header all the same.

    Raises:
        ArgumentError: A column is missing or appears twice, or no separator gives the columns of ``header``.
        SchemaError: The file could be read in two ways.
    """
    if header is None:
        first_line = _first_line_with_names(text, SEPARATORS[suffix], columns)
        names = first_line.fields
        has_header = True
    else:
        first_line = _first_line_of_width(name, text, suffix, len(header))
        names = list(header)
        has_header = names == first_line.fields
    positions = choose(names, columns, name, may_lack_header=header is None)
    text_positions = positions[:-1]
    label_position = positions[-1]
    table = read_delimited(
        name,
        text,
        first_line.separator,
        width=len(names),
        label=label_position,
        quoting=quoting,
        has_header=has_header,
    )
    if header is None:
        _refuse_missing_header(name, names, label_position, table)
    if quoting is None:
        _refuse_single_quotes(name, table, positions)
    rows = []
    line_numbers = []
    for record in table.rows:
        texts = tuple([record.fields[position] for position in text_positions])
        rows.append((texts, record.fields[label_position]))
        line_numbers.append(record.last_line)
    return Records(name, rows, line_numbers, malformed=table.wrong_width, untyped=True)


def _first_line_with_names(text: str, separators: Sequence[str], columns: Sequence[str]) -> _FirstLine:
    """Return the header of a file.

    It is read with the first separator that gives all wanted columns. If there is none, the separator that gives the
    most fields is used, so that the message about a missing column shows names.
    """
    for separator in separators:
        first_line = _FirstLine(separator, read_header(text, separator))
        if set(columns) <= set(first_line.fields):
            return first_line
    return _longest_first_line(text, separators)


def _longest_first_line(text: str, separators: Sequence[str]) -> _FirstLine:
    """Return the first line of a file, read with the separator that gives the most fields; the first one of several."""
    longest = _FirstLine(separators[0], read_header(text, separators[0]))
    for separator in separators[1:]:
        first_line = _FirstLine(separator, read_header(text, separator))
        if len(first_line.fields) > len(longest.fields):
            longest = first_line
    return longest


def _first_line_of_width(name: str, text: str, suffix: str, width: int) -> _FirstLine:
    """Return the first line of a file without a header.

    It is read with the separator that splits the most of the first lines into as many fields as there are columns.
    Between tabs and other separators that do equally well, the suffix ``.tsv`` decides.

    Args:
        name: The file, for messages.
        text: Its text.
        suffix: The suffix of its format.
        width: The number of columns.

    Raises:
        ArgumentError: No separator gives lines of ``width`` fields, or several separators do equally well.
    """
    separators = SEPARATORS[suffix]
    first_lines = [line for line in text.splitlines()[:_LINES_READ] if line.strip()]
    fitting_lines = {}
    for separator in separators:
        fitting_lines[separator] = _count_lines_of_width(first_lines, separator, width)
    most_fitting_lines = max(fitting_lines.values())
    fields = _longest_first_line(text, separators).fields
    # A line has one field with each separator that is not in it. But a line of several fields is no single column.
    lacks_names = width == 1 and len(fields) > 1
    if most_fitting_lines == 0 or lacks_names:
        names = "1 name" if width == 1 else f"{width} names"
        raise ArgumentError(
            f"{name}: {argument('columns')} has {names}, but the first line has {len(fields)} fields: "
            f"{fields!r:.120}. Name all columns, or leave {argument('columns')} out if the first line has the names"
        )
    best_separators = [separator for separator in separators if fitting_lines[separator] == most_fitting_lines]
    best = best_separators[0]
    is_stated_by_suffix = best == "\t" and suffix != ".csv"
    # With one column, every separator that no line contains does equally well, and it does not matter which is used.
    if width > 1 and len(best_separators) > 1 and not is_stated_by_suffix:
        shown = " or ".join(repr(separator) for separator in best_separators)
        raise ArgumentError(
            f"{name}: the lines have {width} fields with {shown} between them. Write the names of the columns into a "
            f"first line, with the separator between them, and leave {argument('columns')} out"
        )
    return _FirstLine(best, read_header(text, best))


def _count_lines_of_width(lines: Sequence[str], separator: str, width: int) -> int:
    """Return how many lines have ``width`` fields if they are split at a separator."""
    count = 0
    for line in lines:
        if len(read_header(line, separator)) == width:
            count += 1
    return count


def _refuse_missing_header(name: str, header: Sequence[str], label: int, table: DelimitedTable) -> None:
    """Refuse a file whose label column is named like one of its labels: its first line may be a row that would be lost.

    A row that repeats the whole header, as in files that were put together, is no reason.

    Args:
        name: The file, for messages.
        header: The fields of the first line.
        label: The position of the label column.
        table: The rows after the first line.

    Raises:
        SchemaError: The file may have no header.
    """
    for record in table.rows:
        if record.fields[label].strip() != header[label]:
            continue
        repeats_header = [field.strip() for field in record.fields] == list(header)
        if repeats_header:
            continue
        names_for_a_row = [f"column{number}" for number in range(1, len(header) + 1)]
        raise SchemaError(
            f"{name}: the label column is named {header[label]!r}, which is also a label (line {record.last_line}), so "
            "the first line may be a row and no header. If it is a row, name all columns: "
            f"{argument('columns', names_for_a_row)}, and use these names. If it is the header, say so: "
            f"{argument('columns', list(header))}"
        )


def _refuse_single_quotes(name: str, table: DelimitedTable, columns: Sequence[int]) -> None:
    """Refuse a file that quotes its fields with apostrophes, which would be part of texts and labels.

    Raises:
        SchemaError: All fields of one of the columns (positions) are in apostrophes.
    """
    if not table.rows:
        return
    for column in columns:
        if all(_is_in_apostrophes(record.fields[column]) for record in table.rows):
            first_field = table.rows[0].fields[column].strip()
            raise SchemaError(
                f"{name}: all fields of column {column + 1} are in apostrophes, such as {first_field!r:.60} (line "
                f"{table.rows[0].last_line}). If they are quotes, save the file with double quotes, or without quotes; "
                f"if they are part of the texts, {argument('quoting', 'standard')} reads them so"
            )


def _is_in_apostrophes(field: str) -> bool:
    """Return whether a field begins and ends with an apostrophe, blanks around it left out."""
    stripped = field.strip()
    return len(stripped) > 1 and stripped.startswith("'") and stripped.endswith("'")
