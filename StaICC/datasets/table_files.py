"""Table files of users: CSV, TSV, JSON Lines, JSON, Parquet, each pinned by its SHA-256.

Anybody may have written such a file. It is read as bytes, decoded as UTF-8 (or UTF-16 with a byte-order mark, or the
given encoding), and parsed strictly: what cannot be read without guessing is refused with the place and a way out.
"""

from __future__ import annotations

import codecs
import dataclasses
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from StaICC.argument_syntax import argument
from StaICC.datasets.delimited import check_quoting
from StaICC.datasets.delimited_columns import SEPARATORS, read_delimited_columns
from StaICC.datasets.further_columns import columns_to_read, with_further_columns
from StaICC.datasets.json_tables import JsonTable, read_json_table
from StaICC.datasets.label_values import label_text
from StaICC.datasets.records import Records, TableFile, choose, of_columns, shortened_name
from StaICC.errors import ArgumentError, DataMissingError, SchemaError, UnknownNameError
from StaICC.files.expansion import ALWAYS_ALLOWED_SIZE, MAX_EXPANSION
from StaICC.files.json_reading import refuse_device
from StaICC.files.missing import message_about_missing_file
from StaICC.optional import require

_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_PARQUET_SUFFIXES = (".parquet", ".pq")
_COMPRESSED = ".gz"
"""The suffix of a compressed file; it follows that of the format."""
_FORMATS = "CSV (.csv), TSV (.tsv), JSON Lines (.jsonl), JSON (.json) or Parquet (.parquet), each also with .gz"
"""The formats that are read, for messages."""
_GZIP_START = b"\x1f\x8b"
_ZIP_START = b"PK\x03\x04"
"""How ZIP archives begin; Excel files are such archives."""
_NO_COLUMN = "\0"
"""A name that no column has: a NUL character is refused in every format of text."""
_MOST_LISTED_COLUMNS = 30


def format_suffix(path: Path) -> str:
    """Return the suffix that names the format of a file, in lower case, without that of its compression.

    Example:
        >>> format_suffix(Path("tickets.CSV.gz")), format_suffix(Path("tickets.jsonl"))
        ('.csv', '.jsonl')
    """
    return uncompressed_name(path).suffix.lower()


def uncompressed_name(path: Path) -> Path:
    """Return the name that a file has without the suffix of its compression."""
    if path.suffix.lower() == _COMPRESSED:
        return path.with_suffix("")
    return path


def read_records(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    encoding: str | None,
    suffix: str | None = None,
    quoting: str | None = None,
    header: Sequence[str] | None = None,
) -> Records:
    """Read columns of a file.

    Args:
        path: The file.
        columns: Names of the columns to read, that of the label last.
        encoding: Of a text file; ``None`` for UTF-8, or UTF-16 with a byte-order mark.
        suffix: The suffix that names the format; ``None`` for that of the file.
        quoting: How double quotes of a delimited file are read; ``None`` refuses files that could be read in two ways.
        header: The names of all columns of a delimited file without a header; ``None`` if its first line has them.

    Returns:
        The rows, with the file and its SHA-256.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
        ArgumentError: The format is not known, has no such setting, or a column is missing or appears twice.
        SchemaError: The file cannot be read without guessing; the message names the place.
        MissingDependencyError: The file is Parquet, and pyarrow is not installed.
    """
    check_quoting(quoting)
    file = Path(path)
    data = _read_bytes(file)
    content = _uncompressed(file, data)
    if not suffix:
        suffix = format_suffix(file)
    _refuse_settings_of_other_formats(file.name, suffix, encoding, quoting, header)

    if suffix in _PARQUET_SUFFIXES:
        records = _read_parquet(file, content, columns)
    elif suffix in SEPARATORS:
        text = _decode(file, content, encoding)
        records = read_delimited_columns(file.name, text, columns, suffix, quoting, header)
    elif suffix in _JSON_SUFFIXES:
        text = _decode(file, content, encoding)
        records = _read_json(file.name, text, columns)
    else:
        raise ArgumentError(
            f"{file.name}: the format {suffix or 'without a suffix'} is not known. Save it as {_FORMATS}"
        )
    if not records.rows and records.malformed is None:
        raise SchemaError(f"{file.name} has no rows")

    pinned = TableFile(
        path=os.fspath(path),
        sha256=hashlib.sha256(data).hexdigest(),
        texts=tuple(columns[:-1]),
        label=columns[-1],
        values={},
        encoding=encoding,
        quoting=quoting,
        columns=None if header is None else tuple(header),
    )
    return dataclasses.replace(records, columns=columns, file=pinned)


def _refuse_settings_of_other_formats(
    name: str, suffix: str, encoding: str | None, quoting: str | None, header: Sequence[str] | None
) -> None:
    """Refuse settings that the format of a file does not have.

    Args:
        name: The file, for messages.
        suffix: The suffix that names its format.
        encoding: The encoding that the user named, of text files only.
        quoting: How double quotes are read, of delimited files only.
        header: The names of all columns, of delimited files only.

    Raises:
        ArgumentError: There is such a setting.
    """
    is_delimited = suffix in SEPARATORS
    if header is not None and not is_delimited:
        raise ArgumentError(f"{name}: {argument('columns')} names the columns of a CSV or TSV file without a header")
    if encoding is not None and suffix in _PARQUET_SUFFIXES:
        raise ArgumentError(
            f"{name}: got {argument('encoding', encoding)}, but a Parquet file has no encoding. Leave it out"
        )
    if quoting is not None and not is_delimited:
        given = argument("quoting", quoting)
        raise ArgumentError(f"{name}: got {given}, which is about CSV and TSV files. Leave it out")


class LabelledRecords(NamedTuple):
    """Rows as they were read, with the label index of each."""

    records: Records
    label_indexes: list[int]


def labelled_records(source: TableFile, labels: Sequence[str]) -> LabelledRecords:
    """Read a pinned file again, with the label index of each row.

    Args:
        source: The file, with its digest and the label name of each value.
        labels: The label names, in the order of the label space.

    Raises:
        DataMissingError: The file cannot be read.
        SchemaError: The file is not the pinned one, or has another label.
    """
    columns = columns_to_read(source.texts, source.label, source.further_columns)
    records = read_records(
        source.path,
        columns=columns,
        encoding=source.encoding,
        suffix=source.suffix,
        quoting=source.quoting,
        header=source.columns,
    )
    records = with_further_columns(records, source.texts, source.label, source.further_columns)
    digest = records.file.sha256 if records.file else None
    if digest != source.sha256:
        raise SchemaError(f"{source.path} has changed: its SHA-256 is {digest}, expected {source.sha256}")

    index_of_name = {name: index for index, name in enumerate(labels)}
    label_indexes = []
    for _, label in records.rows:
        value = label_text(label, source.values)
        name = source.values.get(value)
        if name is None:
            raise SchemaError(f"{source.path}: the label {value!r} is not among the recorded ones")
        if name not in index_of_name:
            raise SchemaError(f"{source.path}: the label {name!r} is not among the recorded ones")
        label_indexes.append(index_of_name[name])
    return LabelledRecords(records, label_indexes)


def data_file_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
    """
    return hashlib.sha256(_read_bytes(Path(path))).hexdigest()


def _read_bytes(file: Path) -> bytes:
    """Return the content of a file that may be a table.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
        ArgumentError: The path is that of a folder.
        SchemaError: The file is empty, or an archive.
    """
    try:
        if file.is_dir():
            message = f"{file} is a folder, expected a file. {_about_folder(file)}"
            raise ArgumentError(message.rstrip(". "))
        refuse_device(file)
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise DataMissingError(message_about_missing_file(file)) from error
    except ArgumentError:  # it is a ValueError, too, and has its message
        raise
    except (OSError, ValueError) as error:
        # OSError says the reason without the number of the error and the path.
        reason = getattr(error, "strerror", None) or error
        raise DataMissingError(f"{str(file)!r} cannot be read: {reason}") from error
    if not data.strip():
        raise SchemaError(f"{file.name} is empty")
    if data.startswith(_ZIP_START):
        raise SchemaError(f"{file.name} is a compressed file or an Excel file. Save it as {_FORMATS}")
    return data


def _about_folder(folder: Path) -> str:
    """Return what to do with a folder that was given in the place of a file; empty if nothing is known."""
    names = {path.name for path in folder.iterdir()}
    has_several_splits = "dataset_dict.json" in names
    has_one_split = "dataset_info.json" in names and "state.json" in names
    if has_several_splits or has_one_split:
        return (
            "It was written by save_to_disk of the library datasets: pass datasets.load_from_disk(FOLDER), or one of "
            "its splits, to Dataset.from_huggingface"
        )
    table_suffixes = (*SEPARATORS, *_JSON_SUFFIXES, *_PARQUET_SUFFIXES)
    table_files = [name for name in sorted(names) if format_suffix(Path(name)) in table_suffixes]
    if not table_files:
        return ""
    return f"It contains {', '.join(table_files[:5])}"


def _uncompressed(file: Path, data: bytes) -> bytes:
    """Return the content of a file, which may be compressed with gzip.

    Raises:
        SchemaError: It is not what gzip writes, ends too early, or expands too far: a file of some kilobytes can have
            gigabytes of blanks.
    """
    if not data.startswith(_GZIP_START):
        return data
    largest_size = max(MAX_EXPANSION * len(data), ALWAYS_ALLOWED_SIZE)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as compressed:
            content = compressed.read(largest_size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SchemaError(f"{file.name} cannot be decompressed: {error}. Copy it again") from error
    if len(content) > largest_size:
        raise SchemaError(
            f"{file.name} has {len(data)} bytes and expands to more than {largest_size}, which is no table. "
            "If it is one, decompress it first"
        )
    return content


def _decode(file: Path, data: bytes, encoding: str | None) -> str:
    """Return the text of a file, without its byte-order mark.

    Args:
        file: The file, for messages.
        data: Its content.
        encoding: Its encoding; ``None`` for UTF-8, or UTF-16 with a byte-order mark.

    Raises:
        ArgumentError: Python does not know the encoding.
        SchemaError: The content is not text in the encoding, or holds a NUL character.
    """
    if encoding:
        used_encoding = encoding
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        used_encoding = "utf-16"
    else:
        used_encoding = "utf-8-sig"
    try:
        text = data.decode(used_encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        raise SchemaError(_message_about_encoding(file, used_encoding, error, is_stated=bool(encoding))) from error
    except (LookupError, TypeError, ValueError) as error:  # ValueError: a NUL in the name
        raise ArgumentError(f"encoding: got {encoding!r}, unknown to Python. Use a name such as 'cp1252'") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SchemaError(
            f"{file.name}, line {line} has a NUL character: no text in {used_encoding.removesuffix('-sig')}. "
            f"Save it as UTF-8, or name its encoding, such as {argument('encoding', 'utf-16-le')}"
        )
    return text


def _message_about_encoding(file: Path, encoding: str, error: UnicodeError, is_stated: bool) -> str:
    """Return the message about a file that is not text in an encoding.

    Args:
        file: The file.
        encoding: The encoding in which it was read.
        error: The error of Python.
        is_stated: Whether the user stated the encoding.
    """
    position = ""
    if isinstance(error, UnicodeDecodeError):
        position = f" at byte {error.start}"
    if is_stated:
        other_encoding = f"{argument('encoding', 'latin-1')} (every byte is a letter)"
    else:
        other_encoding = f"{argument('encoding', 'cp1252')} for files of Western Windows"
    return (
        f"{file.name} is not text in {encoding.removesuffix('-sig')} (error{position}). Save it as UTF-8, or name its "
        f"encoding, such as {other_encoding}"
    )


def _read_json(name: str, text: str, columns: Sequence[str]) -> Records:
    """Return the rows of JSON Lines, or of JSON with one table.

    Args:
        name: The file, for messages.
        text: Its text.
        columns: The columns to read, that of the label last.
    """
    table = read_json_table(name, text, columns)
    for column in columns:
        _check_key(name, table, column)
    rows = []
    for _, values in table.rows:
        texts = tuple([values[column] for column in columns[:-1]])
        rows.append((texts, values[columns[-1]]))
    return Records(name, rows, numbers=[row.number for row in table.rows], unit=table.unit)


def _check_key(name: str, table: JsonTable, column: str) -> None:
    """Check that each row of a table in JSON has a column.

    Args:
        name: The file, for messages.
        table: The rows.
        column: The column.

    Raises:
        UnknownNameError: No row has it; the nearest name is suggested.
        SchemaError: Some rows do not have it.
    """
    without_column = [row for row in table.rows if column not in row.values]
    if not without_column:
        return
    first = without_column[0]
    if len(without_column) == len(table.rows):
        choose(list(first.values), [column], name)  # raises, because the first row has no such column
    columns_there = ", ".join([shortened_name(str(key)) for key in first.values]) or "nothing"
    raise SchemaError(
        f"{name}: {table.unit} {first.number} has no {column!r}, it has: {columns_there} (missing in "
        f"{len(without_column)} of {len(table.rows)} rows). Add it, or remove the row"
    )


def _read_parquet(file: Path, data: bytes, columns: Sequence[str]) -> Records:
    """Return the rows of a Parquet file.

    Args:
        file: The file, for messages.
        data: Its content.
        columns: The columns to read, that of the label last.
    """
    arrow = require("pyarrow", "data", "a Parquet file")
    parquet = require("pyarrow.parquet", "data", "a Parquet file")
    try:
        parquet_file = parquet.ParquetFile(io.BytesIO(data))
        choose(parquet_file.schema_arrow.names, columns, file.name)  # raises if a column is missing
        table = parquet_file.read(columns=list(columns))
        values_by_column = [table.column(column).to_pylist() for column in columns]
    except (arrow.ArrowException, OSError) as error:
        raise SchemaError(f"{file.name} cannot be read as Parquet: {error}") from error
    return of_columns(file.name, values_by_column, columns)


def column_header(columns: object, where: str) -> list[str] | None:
    """Return the names of all columns of a file without a header, checked; ``None`` if the file has a header.

    Raises:
        ArgumentError: They are no sequence of at least one text.
    """
    if columns is None:
        return None
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        names = list(columns)
        if names and all(isinstance(name, str) for name in names):
            return names
    raise ArgumentError(f"{where}: columns: got {columns!r:.60}, expected the names of all columns of the file")


def naming_advice(file: Path, columns: Sequence[str], header: Sequence[str] | None) -> str:
    """Return the end of a message that asks to name the columns of a file: which columns it has.

    What looks like names of columns may be the first row of a file without a header. So the message also says how to
    name all columns of such a file.

    Args:
        file: The file.
        columns: The columns that there are; empty if they are not known.
        header: The names of all columns that the user gave for a file without a header.
    """
    if not columns:
        return ""
    not_empty = [column for column in columns if column]
    shown = ", ".join(not_empty[:_MOST_LISTED_COLUMNS])
    if len(not_empty) > _MOST_LISTED_COLUMNS:
        shown += ", ..."
    advice = f". There are: {shown}"
    has_columns_option = format_suffix(file) in SEPARATORS
    if header is None and has_columns_option:
        naming = f"name all {len(columns)} columns with {argument('columns')}"
        if len(columns) == 1:
            naming = f"name the column with {argument('columns')}"
        elif len(columns) == 2:
            naming = f"name all columns, as {argument('columns', ['text', 'label'])}"
        advice += f". If these are a row and no names, {naming}"
    return advice


def listed_columns(
    file: Path, encoding: str | None, quoting: str | None = None, header: Sequence[str] | None = None
) -> Sequence[str]:
    """Return the names of the columns of a file.

    The file is read as if the column :data:`_NO_COLUMN` were wanted, which files do not have: the error about the
    missing column lists those that there are. If a file has even this column, the names are not known, and the list is
    empty.

    Raises:
        StaICCError: The file cannot be read, whatever its columns are.
    """
    try:
        read_records(file, [_NO_COLUMN], encoding, quoting=quoting, header=header)
    except UnknownNameError as error:
        return error.legal
    return ()
