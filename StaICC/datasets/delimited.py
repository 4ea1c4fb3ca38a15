"""Delimited text files (CSV, TSV), read without guessing what a double quote means.

Some files quote texts (``"two<line feed>lines"``), others hold double quotes as ordinary characters. Read by the wrong
rule, a file loses rows without an error: a quote at the beginning of one line and one at the end of a later line make
one text of everything between. So three kinds of files are refused until ``quoting`` says which rule holds:

* a record that spans several lines, of which two or more are rows of the table when they are split without quoting;
* a field that holds a double quote without being quoted, in a file in which another field is quoted;
* a file that is a table only without quoting.

Blanks between a separator and an opening quote (``1, "a text"``) are not part of the field. In a file that has such
fields, blanks at the beginning of fields without quotes are not part of them either.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from StaICC.argument_syntax import argument
from StaICC.arguments import known_name
from StaICC.datasets.row_problems import RowProblem
from StaICC.errors import SchemaError

QUOTING = ("standard", "none")
"""How double quotes are read: ``"standard"``: a field in quotes may hold separators, line ends and doubled quotes;
``"none"``: as ordinary characters, so that every line is a row."""
LEAST_ROWS = 2
"""A record of several lines is refused if at least so many of them are rows of the table."""


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


class DelimitedTable(NamedTuple):
    """The records of a file that have as many fields as the header, and the problem of those that have not."""

    rows: Sequence[DelimitedRow]
    wrong_width: RowProblem | None


class _Dialect(NamedTuple):
    """How the characters of a file are read."""

    separator: str
    quoted: bool
    """Whether a double quote at the beginning of a field opens a quoted text."""
    blanks_before_quotes: bool = False
    """Whether blanks at the beginning of a field are not part of it."""


class _File(NamedTuple):
    """The text of a file, and what is known of its table."""

    name: str
    """The file, for messages."""
    text: str
    separator: str
    """The character between fields."""
    width: int
    """The number of columns."""
    has_header: bool
    """Whether the first record has the names of the columns; it is left out then."""

    def without_quoting(self) -> DelimitedTable:
        """Return the records if double quotes are ordinary characters."""
        return _read_table(self, _Dialect(self.separator, quoted=False))


_field_size_limit = threading.Lock()
"""Held while the limit of :mod:`csv`, which is one for the whole process, is changed."""


@contextlib.contextmanager
def _fields_of_any_length(text: str) -> Iterator[None]:
    """Let the module :mod:`csv` read fields as long as the text; its own limit is 131,072 characters."""
    with _field_size_limit:
        limit_before = csv.field_size_limit()
        csv.field_size_limit(max(limit_before, len(text) + 1))
        try:
            yield
        finally:
            csv.field_size_limit(limit_before)


def _lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text with their ends.

    The text is not copied as a whole, because the callers need its beginning only.
    """
    for match in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text):
        yield match[0]


def read_header(text: str, separator: str) -> list[str]:
    """Return the fields of the first line that is not blank, without quotes and blanks; none for an empty file."""
    # Not strict: this is tried with wrong separators, too, with which a header in quotes is malformed.
    with _fields_of_any_length(text):
        records = csv.reader(_lines_of(text), delimiter=separator, skipinitialspace=True)
        for fields in records:
            names = [field.strip() for field in fields]
            if any(names):
                return names
    return []


def read_delimited(
    name: str,
    text: str,
    separator: str,
    width: int,
    label: int,
    quoting: str | None = None,
    has_header: bool = True,
) -> DelimitedTable:
    """Read the records of a file.

    Args:
        name: The file, for messages.
        text: Its text.
        separator: The character between fields.
        width: The number of columns.
        label: The position of the label column.
        quoting: How double quotes are read; ``None`` refuses files that could be read in two ways.
        has_header: Whether the first record, which is left out then, has the names of the columns.

    Raises:
        SchemaError: A quote is not closed, or the file could be read in two ways.
    """
    file = _File(name, text, separator, width, has_header)
    with _fields_of_any_length(text):
        if quoting == "none":
            return file.without_quoting()
        dialect = _quoted_dialect(text, separator)
        if quoting is not None or '"' not in text:
            return _read_table(file, dialect)
        return _read_unambiguous_table(file, dialect, label)


def _read_unambiguous_table(file: _File, dialect: _Dialect, label: int) -> DelimitedTable:
    """Read the records of a file that has double quotes, with quoting, unless it may be meant without quoting.

    Args:
        file: The file.
        dialect: How the file is read with quoting.
        label: The position of the label column.

    Raises:
        SchemaError: A quote is not closed, or the file could be read in two ways.
    """
    try:
        table = _read_table(file, dialect)
    except SchemaError as error:
        if _is_table_without_quoting(file):
            raise _only_without_quoting(str(error), file.width) from error
        raise
    if table.wrong_width is not None and _is_table_without_quoting(file):
        raise _only_without_quoting(table.wrong_width.message, file.width)
    _refuse_swallowed_rows(file, label, table.rows)
    _refuse_bare_quotes(file.name, file.text, dialect)
    return table


def _only_without_quoting(problem: str, width: int) -> SchemaError:
    """Return the error about a file that is a table only without quoting; the problem is that with quoting."""
    return SchemaError(
        f"{problem}. Without quoting, every line has {width} fields: {argument('quoting', 'none')} reads double quotes "
        "as ordinary characters"
    )


def _read_table(file: _File, dialect: _Dialect) -> DelimitedTable:
    """Read the records, and set those aside whose number of fields is not that of the columns."""
    rows = []
    wrong_rows = []
    for record in _records(file.name, file.text, dialect, file.has_header):
        if len(record.fields) == file.width:
            rows.append(record)
        else:
            wrong_rows.append(record)
    if not wrong_rows:
        return DelimitedTable(rows, wrong_width=None)

    if file.has_header:
        expected = f"the header has {file.width}"
    else:
        expected = f"{argument('columns')} has {file.width} names"
    first = wrong_rows[0]
    message = f"{file.name}, line {first.last_line} has {len(first.fields)} fields, but {expected}"
    advice = _advice_on_width(_widths(wrong_rows), file.width, dialect, all_lines=not rows)
    line_numbers = [record.last_line for record in wrong_rows]
    return DelimitedTable(rows, wrong_width=RowProblem(message, advice, line_numbers))


def _advice_on_width(widths: Sequence[int], expected: int, dialect: _Dialect, all_lines: bool) -> str:
    """Return what to do about lines with another number of fields than there are columns.

    Args:
        widths: The number of fields of each such line.
        expected: The number of columns.
        dialect: How the file is read.
        all_lines: Whether all lines are such lines.
    """
    every_line_has_one_field_more = all_lines and set(widths) == {expected + 1}
    if every_line_has_one_field_more and len(widths) > 1:
        return "Every line has one field more, such as a number of the row: name the first column, too"
    if min(widths) < expected:
        return "Complete these lines or remove them"
    if not dialect.quoted:
        return f"Remove {dialect.separator!r} from their texts, or remove these lines"
    return f"Put a text with {dialect.separator!r} in double quotes"


def _records(name: str, text: str, dialect: _Dialect, has_header: bool) -> Iterator[DelimitedRow]:
    """Yield the records of a file after the header, without empty lines, each with its first and last line.

    Args:
        name: The file, for messages.
        text: Its text.
        dialect: How its characters are read.
        has_header: Whether the first record with a name is the header, which is left out.

    Raises:
        SchemaError: A quote is not closed, or closed within a field.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quoted else csv.QUOTE_NONE
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.separator,
        strict=dialect.quoted,
        quoting=quoting,
        skipinitialspace=dialect.blanks_before_quotes,
    )
    before_rows = has_header
    last_line = 0  # of the record before
    try:
        for fields in reader:
            first_line = last_line + 1
            last_line = reader.line_num
            if before_rows:
                # The header is the first line with a name. Lines of separators and blanks before it are left out.
                is_header = any(field.strip() for field in fields)
                before_rows = not is_header
            elif fields:
                yield DelimitedRow(fields, first_line, last_line)
    except csv.Error as error:
        first_line = last_line + 1
        lines = f"line {reader.line_num}"
        if reader.line_num > first_line:
            lines = f"lines {first_line} to {reader.line_num}"
        raise SchemaError(
            f"{name}, {lines}: {error}. A double quote may not be closed: write quotes within a quoted text twice "
            '(""), or read them as ordinary characters with '
            f"{argument('quoting', 'none')}"
        ) from error


def _quoted_dialect(text: str, separator: str) -> _Dialect:
    """Return how a file with quoted fields is read: whether blanks before an opening quote are a part of the field.

    Most files have no such blanks. One with the field `` "a text"`` is read in both ways. The blanks are removed if the
    file is well formed without them, and if keeping them is wrong: the file is then not well formed, has rows of other
    lengths, or has a field with the quotes around its text.
    """
    keeping_blanks = _Dialect(separator, quoted=True)
    removing_blanks = _Dialect(separator, quoted=True, blanks_before_quotes=True)
    blanks_before_a_quote = rf'(?:^|[{re.escape(separator)}\r\n]) +"'
    if not re.search(blanks_before_a_quote, text):
        return keeping_blanks

    records_if_removed = _records_or_none(text, removing_blanks)
    if records_if_removed is None:
        return keeping_blanks
    records_if_kept = _records_or_none(text, keeping_blanks)
    if records_if_kept is None:
        return removing_blanks
    if _widths(records_if_kept) != _widths(records_if_removed):
        return removing_blanks
    if _has_field_with_its_quotes(records_if_kept, records_if_removed):
        return removing_blanks
    return keeping_blanks


def _widths(records: Sequence[DelimitedRow]) -> list[int]:
    """Return the number of fields of each record."""
    return [len(record.fields) for record in records]


def _has_field_with_its_quotes(
    records_if_kept: Sequence[DelimitedRow], records_if_removed: Sequence[DelimitedRow]
) -> bool:
    """Return whether a field is read with the quotes around its text, because the blanks before them are kept.

    The field `` "a text"`` is read as `` "a text"`` if the blank is kept, and as ``a text`` if it is removed. A text
    that begins with blanks and a quote itself is the same in both readings, and does not count.

    Args:
        records_if_kept: The records of a file, if blanks at the beginning of fields are kept.
        records_if_removed: The same records, if these blanks are removed.
    """
    for record_if_kept, record_if_removed in zip(records_if_kept, records_if_removed, strict=True):
        for field_if_kept, field_if_removed in zip(record_if_kept.fields, record_if_removed.fields, strict=True):
            begins_with_quote = field_if_kept.lstrip(" ").startswith('"')
            if begins_with_quote and field_if_kept != field_if_removed:
                return True
    return False


def _records_or_none(text: str, dialect: _Dialect) -> list[DelimitedRow] | None:
    """Return all records; ``None`` if the file is not well formed."""
    try:
        return list(_records("", text, dialect, has_header=False))
    except SchemaError:
        return None


def _is_table_without_quoting(file: _File) -> bool:
    """Return whether every line has as many fields as there are columns, if double quotes are ordinary characters."""
    table = file.without_quoting()
    return len(table.rows) > 0 and table.wrong_width is None


def _refuse_swallowed_rows(file: _File, label: int, records: Sequence[DelimitedRow]) -> None:
    """Refuse a row of several lines, some of which look like rows themselves if double quotes are ordinary characters.

    So an opening quote may have swallowed the rows up to the next quote. A line looks like a row if it has as many
    fields as there are columns, and a label that other rows have. A label that only other lines of the same row have
    counts, too, in two cases: if all of the lines have a label (in a file that is sorted by label, all rows of a label
    may be within one text), or if the row is most of the file.

    Args:
        file: The file.
        label: The position of the label column.
        records: The rows of the table, read with quoting.

    Raises:
        SchemaError: There is one; the message has its first and last line.
    """
    records_of_several_lines = [record for record in records if record.last_line > record.first_line]
    if not records_of_several_lines:
        return
    rows_with_label = Counter(record.fields[label].strip() for record in records)
    lines_of_file = [line.rstrip("\r\n") for line in io.StringIO(file.text, newline="")]
    for record in records_of_several_lines:
        lines = lines_of_file[record.first_line - 1 : record.last_line]
        labels = _labels_of_lines(lines, file, label)  # of the lines with as many fields as there are columns
        row_count = _lines_with_labels_of_other_rows(labels, rows_with_label, record.fields[label].strip())
        all_lines_have_labels = len(labels) == len(lines)
        is_most_of_the_file = len(lines) > len(lines_of_file) / 2
        if row_count < LEAST_ROWS and (all_lines_have_labels or is_most_of_the_file):
            row_count = _lines_that_share_a_label(labels)
        if row_count >= LEAST_ROWS:
            raise SchemaError(
                f"{file.name}, lines {record.first_line} to {record.last_line} are one row with quoting, but "
                f"{row_count} of these lines are rows of the table without it. {argument('quoting', 'standard')} "
                f"reads a text with line ends, {argument('quoting', 'none')} reads double quotes as ordinary characters"
            )


def _labels_of_lines(lines: Sequence[str], file: _File, label: int) -> list[str]:
    """Return the label of each line that has as many fields as there are columns, if it is split without quoting.

    Blanks around labels are kept, double quotes are removed.

    Args:
        lines: The lines.
        file: The file, with its separator and its number of columns.
        label: The position of the label column.
    """
    labels = []
    for line in lines:
        fields = line.split(file.separator)
        if len(fields) == file.width:
            labels.append(fields[label].strip('"'))
    return labels


def _lines_with_labels_of_other_rows(labels: Sequence[str], rows_with_label: Counter[str], label_of_row: str) -> int:
    """Return how many lines of a row have a label that other rows of the table have, too.

    Args:
        labels: The labels of the lines.
        rows_with_label: How many rows of the table have each label.
        label_of_row: The label of the row that the lines make together.
    """
    line_count = 0
    for label_with_blanks in labels:
        label = label_with_blanks.strip()
        other_rows = rows_with_label[label]
        if label == label_of_row:
            other_rows -= 1
        if other_rows > 0:
            line_count += 1
    return line_count


def _lines_that_share_a_label(labels: Sequence[str]) -> int:
    """Return how many of the labels are also the label of another line.

    The rest of a sentence after a comma, which begins with a blank, is no label.
    """
    lines_with_label: Counter[str] = Counter()
    for label in labels:
        is_rest_of_sentence = label != label.strip()
        if label and not is_rest_of_sentence:
            lines_with_label[label] += 1
    repeated = [line_count for line_count in lines_with_label.values() if line_count > 1]
    return sum(repeated)


def _refuse_bare_quotes(name: str, text: str, dialect: _Dialect) -> None:
    """Refuse a field that holds a double quote without being quoted, where another field is quoted.

    All quoted fields are removed from the text, except for their line ends. A double quote that remains is in a field
    without quotes: of ``"a",b"c``, ``,b"c`` remains.

    Args:
        name: The file, for the message.
        text: Its text.
        dialect: How it is read with quoting.

    Raises:
        SchemaError: There is one; the message has its line.
    """
    begins_field = rf"(?:^|(?<=[{re.escape(dialect.separator)}\r\n]))"
    blanks = " *" if dialect.blanks_before_quotes else ""
    text_in_quotes = r'"[^"]*(?:""[^"]*)*"'
    quoted_field = re.compile(begins_field + blanks + text_in_quotes)

    def line_ends_of(field: re.Match[str]) -> str:
        """Return the line ends in a quoted field, which keep the numbers of the lines after it right."""
        return re.sub(r"[^\r\n]", "", field[0])

    remaining, quoted_field_count = quoted_field.subn(line_ends_of, text)
    if quoted_field_count == 0 or '"' not in remaining:
        return
    text_before_quote, _, _ = remaining.partition('"')
    line = len(re.findall(r"\r\n|\r|\n", text_before_quote)) + 1
    raise SchemaError(
        f"{name}, line {line} has a double quote in a field that is not in quotes, and another field of the file is in "
        f"quotes. {argument('quoting', 'standard')} removes the quotes around fields, {argument('quoting', 'none')} "
        "reads all double quotes as ordinary characters"
    )
