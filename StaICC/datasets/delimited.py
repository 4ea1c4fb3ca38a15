"""Delimited text files (CSV, TSV), read without guessing what a double quote means.

Some files quote texts (``"two<line feed>lines"``), others hold double quotes as ordinary characters. Read by the wrong
rule, a file loses rows without an error: a quote at the beginning of one line and one at the end of a later line make
one text of everything between. So three kinds of files are refused until ``quoting`` says which rule holds:

* a record that spans several lines, of which two or more are rows of the table when they are split without quoting;
* a field that holds a double quote without being quoted, in a file in which another field is quoted;
* a file that is a table only without quoting.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from StaICC.arguments import known_name
from StaICC.errors import SchemaError

QUOTING = ("standard", "none")
"""How double quotes are read: ``"standard"``: a field in quotes may hold separators, line ends and doubled quotes;
``"none"``: as ordinary characters, so that every line is a row."""
LEAST_ROWS = 2
"""Lines of one record that must be rows of the table, so that the record is refused."""


def check_quoting(quoting: object) -> None:
    """Refuse a value that is neither ``None`` nor one of :data:`QUOTING`.

    Raises:
        UnknownNameError: It is another one.
    """
    if quoting is not None:
        known_name("value of quoting", quoting, QUOTING)


class DelimitedRow(NamedTuple):
    """One record of a file."""

    fields: Sequence[str]
    first_line: int
    last_line: int


def read_header(text: str, separator: str) -> list[str]:
    """Return the names of the columns, in quotes or not; none for an empty file."""
    # Not strict: in quotes, the header is an error for every separator but its own.
    first = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
    return [column.strip() for column in first]


def read_delimited(
    name: str, text: str, separator: str, header: Sequence[str], label: int, quoting: str | None
) -> list[DelimitedRow]:
    """Read the records after the header.

    Args:
        name: The file, for messages.
        text: Its text.
        separator: The character between fields.
        header: The names of the columns.
        label: The position of the label column.
        quoting: How double quotes are read; ``None`` refuses files that could be read in two ways.

    Raises:
        SchemaError: A record has another number of fields than the header, a quote is not closed, or the file could be
            read in two ways.
    """
    if quoting == "none":
        return list(_records(name, text, separator, len(header), quoted=False))
    try:
        records = list(_records(name, text, separator, len(header), quoted=True))
    except SchemaError as error:
        if quoting is None and '"' in text and _is_table_without_quoting(name, text, separator, len(header)):
            raise SchemaError(
                f"{error}. Without quoting, every line has {len(header)} fields: quoting='none' reads double quotes as "
                "ordinary characters"
            ) from error
        raise
    if quoting is None and '"' in text:
        _refuse_swallowed_rows(name, text, separator, len(header), label, records)
        _refuse_bare_quotes(name, text, separator)
    return records


def _records(name: str, text: str, separator: str, width: int, quoted: bool) -> Iterator[DelimitedRow]:
    """Yield the records after the header, without blank lines."""
    rule: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=quoted, quoting=rule)
    try:
        next(lines, None)
        before = lines.line_num
        for fields in lines:
            first, before = before + 1, lines.line_num
            if not fields:
                continue
            if len(fields) != width:
                raise SchemaError(
                    f"{name}, line {lines.line_num} has {len(fields)} fields, but the header has {width}. Put a text "
                    f"with {separator!r} in double quotes"
                )
            yield DelimitedRow(fields, first, lines.line_num)
    except csv.Error as error:
        advice = 'A double quote may not be closed: write quotes within a quoted text twice ("")'
        raise SchemaError(f"{name}, up to line {lines.line_num}: {error}. {advice}") from error


def _is_table_without_quoting(name: str, text: str, separator: str, width: int) -> bool:
    try:
        return sum(1 for _ in _records(name, text, separator, width, quoted=False)) > 0
    except SchemaError:
        return False


def _refuse_swallowed_rows(
    name: str, text: str, separator: str, width: int, label: int, records: Sequence[DelimitedRow]
) -> None:
    """Refuse a record of several lines that are rows of the table when they are split without quoting.

    Raises:
        SchemaError: There is one; the message has its first and last line.
    """
    several = [record for record in records if record.last_line > record.first_line]
    if not several:
        return
    counts = Counter(record.fields[label].strip() for record in records)
    lines = [line.rstrip("\r\n") for line in io.StringIO(text, newline="")]
    for record in several:
        own = record.fields[label].strip()
        rows = 0
        for line in lines[record.first_line - 1 : record.last_line]:
            fields = line.split(separator)
            if len(fields) != width:
                continue
            found = fields[label].strip().strip('"')
            known = counts[found] - (found == own)  # labels of other records
            if known > 0:
                rows += 1
        if rows >= LEAST_ROWS:
            raise SchemaError(
                f"{name}, lines {record.first_line} to {record.last_line} are one row with quoting, but {rows} of "
                "these lines are rows of the table without it. quoting='standard' reads a text with line ends, "
                "quoting='none' reads double quotes as ordinary characters"
            )


def _refuse_bare_quotes(name: str, text: str, separator: str) -> None:
    """Refuse a field that holds a double quote without being quoted, where another field is quoted.

    Raises:
        SchemaError: There is one.
    """
    quoted_field = re.compile(rf'(?:^|(?<=[{re.escape(separator)}\r\n]))"[^"]*(?:""[^"]*)*"')
    rest, quoted = quoted_field.subn("", text)
    if not quoted or '"' not in rest:
        return
    without_fields = quoted_field.sub(lambda match: "\n" * match[0].count("\n"), text)  # with the same lines
    bare = without_fields.count("\n", 0, without_fields.index('"')) + 1
    raise SchemaError(
        f"{name}, line {bare} has a double quote in a field that is not in quotes, and another field of the file is in "
        "quotes. quoting='standard' removes the quotes around fields, quoting='none' reads all double quotes as "
        "ordinary characters"
    )
