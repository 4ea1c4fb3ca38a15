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

from StaICC.datasets.delimited import check_quoting
from StaICC.datasets.delimited_columns import SEPARATORS, read_delimited_columns
from StaICC.datasets.json_tables import read_json_table
from StaICC.datasets.label_values import label_text
from StaICC.datasets.records import Records, TableFile, choose, of_columns
from StaICC.errors import ArgumentError, DataMissingError, SchemaError, UnknownNameError
from StaICC.files.json_reading import refuse_device
from StaICC.optional import require

_LINES = (".jsonl", ".ndjson", ".json")


_PARQUET = (".parquet", ".pq")


_COMPRESSED = ".gz"
"""A suffix after that of the format."""


_KINDS = "CSV (.csv), TSV (.tsv), JSON Lines (.jsonl), JSON (.json) or Parquet (.parquet), each also with .gz"


def format_suffix(path: Path) -> str:
    """Return the suffix that names the format of a file, in lower case, without that of its compression.

    Example:
        >>> format_suffix(Path("tickets.CSV.gz")), format_suffix(Path("tickets.jsonl"))
        ('.csv', '.jsonl')
    """
    return uncompressed_name(path).suffix.lower()


def uncompressed_name(path: Path) -> Path:
    """Return the name that a file has without the suffix of its compression."""
    return path.with_suffix("") if path.suffix.lower() == _COMPRESSED else path


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
        ArgumentError: The format is not known, or a column is missing or appears twice.
        SchemaError: The file cannot be read without guessing; the message names the place.
        MissingDependencyError: The file is Parquet, and pyarrow is not installed.
    """
    check_quoting(quoting)
    file = Path(path)
    data = _bytes(file)
    content = _uncompressed(file, data)
    suffix = suffix or format_suffix(file)
    if header is not None and suffix not in SEPARATORS:
        raise ArgumentError(f"{file.name}: columns= names the columns of a CSV or TSV file without a header")
    if suffix in _PARQUET:
        records = _parquet(file, content, columns)
    elif suffix in SEPARATORS:
        records = read_delimited_columns(file.name, _decode(file, content, encoding), columns, suffix, quoting, header)
    elif suffix in _LINES:
        records = _json(file.name, _decode(file, content, encoding), columns)
    else:
        raise ArgumentError(f"{file.name}: the format {suffix or 'without a suffix'} is not known. Save it as {_KINDS}")
    if not records.rows and records.malformed is None:
        raise SchemaError(f"{file.name} has no rows")
    pinned = TableFile(
        os.fspath(path),
        hashlib.sha256(data).hexdigest(),
        tuple(columns[:-1]),
        columns[-1],
        {},
        encoding,
        quoting=quoting,
        columns=None if header is None else tuple(header),
    )
    return dataclasses.replace(records, columns=columns, file=pinned)


def labelled_records(source: TableFile, labels: Sequence[str]) -> tuple[Records, list[int]]:
    """Read the rows with their label indexes; any other file than the pinned one is refused.

    Raises:
        DataMissingError: The file cannot be read.
        SchemaError: The file is not the pinned one, or has another label.
    """
    wanted = (*source.texts, source.label)
    records = read_records(source.path, wanted, source.encoding, source.suffix, source.quoting, source.columns)
    digest = records.file.sha256 if records.file else None
    if digest != source.sha256:
        raise SchemaError(f"{source.path} has changed: its SHA-256 is {digest}, expected {source.sha256}")
    names, positions = source.values, {name: number for number, name in enumerate(labels)}
    try:
        return records, [positions[names[label_text(label, names)]] for _, label in records.rows]
    except KeyError as error:
        raise SchemaError(f"{source.path}: the label {error.args[0]!r} is not among the recorded ones") from error


def data_file_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
    """
    return hashlib.sha256(_bytes(Path(path))).hexdigest()


def _bytes(file: Path) -> bytes:
    try:
        if file.is_dir():
            raise ArgumentError(f"{file} is a folder, expected a file. {_about_folder(file)}".rstrip(". "))
        refuse_device(file)
        data = file.read_bytes()
    except FileNotFoundError as error:
        import difflib

        there = [neighbour.name for neighbour in file.parent.iterdir()] if file.parent.is_dir() else []
        near = difflib.get_close_matches(file.name, there, n=1)
        raise DataMissingError(f"there is no file {file}" + (f". Did you mean {near[0]!r}?" if near else "")) from error
    except ArgumentError:
        raise
    except (OSError, ValueError) as error:
        raise DataMissingError(f"{str(file)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not data.strip():
        raise SchemaError(f"{file.name} is empty")
    if data.startswith(b"PK\x03\x04"):
        raise SchemaError(f"{file.name} is a compressed file or an Excel file. Save it as {_KINDS}")
    return data


def _about_folder(folder: Path) -> str:
    """Return what to do with a folder that was given in the place of a file; empty if nothing is known."""
    names = {path.name for path in folder.iterdir()}
    if "dataset_dict.json" in names or {"dataset_info.json", "state.json"} <= names:
        return (
            "It was written by save_to_disk of the library datasets: pass datasets.load_from_disk(FOLDER), or one of "
            "its splits, to Dataset.from_huggingface"
        )
    known = (*SEPARATORS, *_LINES, *_PARQUET)
    inside = sorted(name for name in names if format_suffix(Path(name)) in known)
    return f"It contains {', '.join(inside[:5])}" if inside else ""


def _uncompressed(file: Path, data: bytes) -> bytes:
    """Return the content of a file, which may be compressed with gzip.

    Raises:
        SchemaError: It is not what gzip writes, or it ends too early.
    """
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise SchemaError(f"{file.name} cannot be decompressed: {error}. Copy it again") from error


def _decode(file: Path, data: bytes, encoding: str | None) -> str:
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    used = encoding or ("utf-16" if marked else "utf-8-sig")
    try:
        text = data.decode(used).removeprefix("\ufeff")
    except (LookupError, TypeError) as error:
        raise ArgumentError(f"encoding: got {encoding!r}, unknown to Python. Use a name such as 'cp1252'") from error
    except UnicodeError as error:
        where = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        other = "'latin-1' (every byte is a letter)" if encoding else "'cp1252' for files of Western Windows"
        advice = f"Save it as UTF-8, or name its encoding, such as encoding={other}"
        raise SchemaError(f"{file.name} is not text in {used.removesuffix('-sig')} (error{where}). {advice}") from error
    except ValueError as error:  # such as a NUL in the name
        raise ArgumentError(f"encoding: got {encoding!r}, unknown to Python. Use a name such as 'cp1252'") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SchemaError(f"{file.name}, line {line} has a NUL character; the file is binary, or in another encoding")
    return text


def _json(name: str, text: str, columns: Sequence[str]) -> Records:
    """Read JSON Lines, or JSON of one table."""
    table = read_json_table(name, text, columns)
    rows = []
    for number, record in table.rows:
        choose(list(record), columns, f"{name}, {table.unit} {number}")  # raises if a column is missing
        *texts, label = (record[column] for column in columns)
        rows.append((tuple(texts), label))
    return Records(name, rows, [row.number for row in table.rows], table.unit)


def _parquet(file: Path, data: bytes, columns: Sequence[str]) -> Records:
    arrow = require("pyarrow", "data", "a Parquet file")
    parquet = require("pyarrow.parquet", "data", "a Parquet file")
    try:
        opened = parquet.ParquetFile(io.BytesIO(data))
        choose(opened.schema_arrow.names, columns, file.name)
        table = opened.read(columns=list(columns))
        values = [table.column(column).to_pylist() for column in columns]
    except (arrow.ArrowException, OSError) as error:
        raise SchemaError(f"{file.name} cannot be read as Parquet: {error}") from error
    return of_columns(file.name, values, columns)


def column_header(columns: object, where: str) -> list[str] | None:
    """Return the names of all columns of a file without a header, checked; ``None`` if the file has a header.

    Raises:
        ArgumentError: They are no list of different names.
    """
    if columns is None:
        return None
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        names = list(columns)
        if names and all(isinstance(name, str) for name in names):
            return names
    raise ArgumentError(f"{where}: columns: got {columns!r:.60}, expected the names of all columns of the file")


def naming_advice(file: Path, columns: Sequence[str], header: Sequence[str] | None) -> str:
    """Return which columns a file has, and what to do if these are no names, as the end of a message."""
    if not columns:
        return ""
    named = [column for column in columns if column]
    more = ", ..." if len(named) > 30 else ""
    advice = f". There are: {', '.join(named[:30])}{more}"
    has_columns_option = format_suffix(file) in SEPARATORS
    if header is None and has_columns_option:
        advice += ". If these are a row and no names, name all columns, as columns=['text', 'label']"
    return advice


def listed_columns(
    file: Path, encoding: str | None, quoting: str | None = None, header: Sequence[str] | None = None
) -> Sequence[str]:
    """Return the columns of a file, which the error about a column that no file has lists; none if it has another.

    Raises:
        StaICCError: The file cannot be read, whatever its columns are.
    """
    try:
        read_records(file, ["\0"], encoding, quoting=quoting, header=header)
    except UnknownNameError as error:
        return error.legal
    return ()
