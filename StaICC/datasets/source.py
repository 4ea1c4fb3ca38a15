"""Sources: where the rows of a data set come from, each pinned so that the same rows come back.

=================== ==================================================== =============================================
kind                where the rows are                                   pinned by
=================== ==================================================== =============================================
``built in``        a file of this library                               the card's digest of the rows
``released wheel``  a table of the wheel that StaICC 0.1.1 published     digests of the wheel, the file and the rows
``file``            a JSON Lines file                                    its SHA-256
``hub``             a JSON Lines file of a repository on the Hugging     a revision and its SHA-256
                    Face hub
``table file``      a user's file with named columns                     its SHA-256
=================== ==================================================== =============================================

A line of a JSON Lines file is ``{"text": "...", "label": "..."}``. ``text`` is a string or a list of strings, ``label``
a label name or an index into the label space.

Users' tables are CSV, TSV, JSON Lines, JSON and Parquet files that anybody may have written. Such a file is read as
bytes, decoded as UTF-8 (or UTF-16 with a byte-order mark, or the given encoding), and parsed strictly: what cannot be
read without guessing is refused with the place and a way out. A *card file* next to the data (``tickets.card.toml`` or
``tickets.card.json`` for ``tickets.csv``) states facts for :meth:`StaICC.datasets.dataset.Dataset.from_rows`.
"""

from __future__ import annotations

import codecs
import dataclasses
import gzip
import hashlib
import importlib
import io
import json
import os
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from StaICC.arguments import whole_number
from StaICC.datasets.delimited import DelimitedTable, check_quoting, read_delimited, read_header
from StaICC.datasets.json_tables import read_json_table
from StaICC.datasets.label_values import Labels, label_text, refuse_numbers_with_two_meanings
from StaICC.datasets.row_problems import RowProblem
from StaICC.datasets.table import split_pair
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, SchemaError, UnknownNameError, unknown_name
from StaICC.files.json_reading import read_json, refuse_device
from StaICC.files.output import StrPath
from StaICC.optional import require

_CARD_SUFFIXES = (".card.toml", ".card.json")
CARD_KEYS = (
    *("name", "texts", "label", "labels", "encoding", "quoting", "columns", "template", "alternatives", "split"),
    *("task", "source", "licence", "citation", "offensive", "notes"),
)
"""What a card file may state."""

RowsOfSource = Iterable[tuple[str | Sequence[str], int]]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Rows in a JSON file of this library."""

    kind: ClassVar[str] = "built in"
    file: str
    """The name of the file, next to ``catalogue.json``."""

    def rows(self, labels: Sequence[str]) -> RowsOfSource:
        """Return the rows."""
        return [(text, label) for text, label in shipped(self.file)["rows"]]


@dataclass(frozen=True, slots=True)
class ReleasedWheel:
    """A table of the wheel that StaICC 0.1.1 published; :mod:`StaICC.datasets.pack` installs it."""

    kind: ClassVar[str] = "released wheel"
    member: str
    """The file inside the wheel."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A JSON Lines file.

    Raises:
        ArgumentError: The digest is not 64 lower-case hexadecimal digits.
    """

    kind: ClassVar[str] = "file"
    path: str | os.PathLike[str]
    sha256: str

    def __post_init__(self) -> None:
        _check_digest(self.sha256)

    def rows(self, labels: Sequence[str]) -> RowsOfSource:
        """Read the rows; any other file than the pinned one is refused."""
        digest = data_file_digest(self.path)
        if digest != self.sha256:
            raise DataDamagedError(
                f"{self.path} is not the pinned file: its SHA-256 is {digest}, expected {self.sha256}"
            )
        records = read_records(self.path, ("text", "label"), None, ".jsonl")
        for number, ((text,), label) in enumerate(records.rows):
            if isinstance(label, str) and labels:
                if label not in labels:
                    raise SchemaError(f"{records.place(number)}: {label!r} is no label of {', '.join(labels)}")
                label = list(labels).index(label)
            yield text, label


@dataclass(frozen=True, slots=True)
class HubSource:
    """A JSON Lines file of a data set repository on the Hugging Face hub.

    Raises:
        ArgumentError: The digest or the revision is not hexadecimal digits of the right number. A branch or a tag can
            move, so it does not pin the rows.
    """

    kind: ClassVar[str] = "hub"
    repository: str
    revision: str
    """The commit, as 40 hexadecimal digits."""
    path: str
    """The file in the repository."""
    sha256: str

    def __post_init__(self) -> None:
        _check_digest(self.sha256)
        if not is_hexadecimal(self.revision, 40):
            expected = "the 40 hexadecimal digits of a commit"
            raise ArgumentError(f"hub source: got the revision {self.revision!r}, expected {expected}")

    def rows(self, labels: Sequence[str]) -> RowsOfSource:
        """Download the file (once: it is cached by ``huggingface_hub``) and read the rows."""
        hub = require("huggingface_hub", "hub", "a data set of the hub")
        path = hub.hf_hub_download(self.repository, self.path, repo_type="dataset", revision=self.revision)
        return FileSource(path, self.sha256).rows(labels)


KINDS: Mapping[str, type[Any]] = {source.kind: source for source in (BuiltIn, ReleasedWheel, FileSource, HubSource)}
"""The sources that a record of ``catalogue.json`` can name."""


def shipped(file: str) -> Any:
    """Read a JSON file of this package.

    Args:
        file: Its name, next to this module.

    Returns:
        Its content as plain values.
    """
    import pkgutil  # not importlib.resources, which costs ten times as much to import

    return json.loads(pkgutil.get_data(__package__, file) or b"")


def is_hexadecimal(text: object, length: int) -> bool:
    """Return whether a value is a text of so many lower-case hexadecimal digits."""
    return isinstance(text, str) and len(text) == length and set(text) <= set("0123456789abcdef")


def _check_digest(digest: object) -> None:
    if not is_hexadecimal(digest, 64):
        raise ArgumentError(f"source: got the SHA-256 {digest!r}, expected 64 lower-case hexadecimal digits")


_SEPARATORS = {
    ".csv": (",", ";", "\t", "|", "~"),
    ".tsv": ("\t", ",", ";", "|", "~"),
    ".tab": ("\t", ",", ";", "|", "~"),
}
"""The separators that are tried, in order, by the suffix of the file."""
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


@dataclass(frozen=True, slots=True)
class TableFile:
    """A user's file with named columns, pinned by its SHA-256."""

    kind: ClassVar[str] = "table file"
    path: str
    sha256: str
    texts: tuple[str, ...]
    """The columns of the input texts."""
    label: str
    """The column of the labels."""
    values: Mapping[str, str]
    """The label name of each value of the label column."""
    encoding: str | None = None
    suffix: str | None = None
    """The suffix that names the format, if the path has another."""
    quoting: str | None = None
    """How double quotes were read, if the user stated it."""
    columns: tuple[str, ...] | None = None
    """The names of all columns of a file without a header."""

    def rows(self, labels: Sequence[str]) -> list[tuple[tuple[Any, ...], int]]:
        """Read the rows; any other file than the pinned one is refused; errors as for :meth:`labelled_records`."""
        records, indexes = self.labelled_records(labels)
        return [(texts, index) for (texts, _), index in zip(records.rows, indexes, strict=True)]

    def labelled_records(self, labels: Sequence[str]) -> tuple[Records, list[int]]:
        """Read the rows with their label indexes; any other file than the pinned one is refused.

        Raises:
            DataMissingError: The file cannot be read.
            SchemaError: The file is not the pinned one, or has another label.
        """
        wanted = (*self.texts, self.label)
        records = read_records(self.path, wanted, self.encoding, self.suffix, self.quoting, self.columns)
        digest = records.file.sha256 if records.file else None
        if digest != self.sha256:
            raise SchemaError(f"{self.path} has changed: its SHA-256 is {digest}, expected {self.sha256}")
        names, positions = self.values, {name: number for number, name in enumerate(labels)}
        try:
            return records, [positions[names[label_text(label, names)]] for _, label in records.rows]
        except KeyError as error:
            raise SchemaError(f"{self.path}: the label {error.args[0]!r} is not among the recorded ones") from error


@dataclass(frozen=True, slots=True)
class Records:
    """Rows as they were read: input texts and a label, which may be missing or a number."""

    source: str
    """The file or the object, for messages; empty for rows of a program."""
    rows: Sequence[tuple[Any, Any]]
    numbers: Sequence[int]
    """The number of each row: its last line in a text file, otherwise its position from 0."""
    unit: str = "line"
    file: TableFile | None = None
    """The file that they are from, without the names of the labels."""
    columns: Sequence[str] = ()
    """Names of the columns, that of the label last; none for rows of a program."""
    malformed: RowProblem | None = None
    """The rows that could not be read."""
    untyped: bool = False
    """Whether the format has texts only, so that a text may be a number or a Boolean."""

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        position = f"{self.unit} {self.numbers[row]}"
        return f"{self.source}, {position}" if self.source else position


def choose(names: Sequence[object], wanted: Sequence[str], source: str) -> list[int]:
    """Return the positions of columns by name.

    Args:
        names: The columns that there are.
        wanted: The columns to find.
        source: Where, for messages.

    Raises:
        UnknownNameError: A column is missing; the nearest name is suggested.
        ArgumentError: A column appears twice.
    """
    positions = []
    for name in wanted:
        if names.count(name) > 1:
            raise ArgumentError(
                f"{source}: {names.count(name)} columns are called {name!r}. Rename all but one, or, if these are no "
                "names but a row, name all columns with columns=[...]"
            )
        if name not in names:
            shown = [text if len(text) <= 40 else text[:37] + "..." for text in map(str, names)]
            if not shown:
                raise ArgumentError(f"{source} has no columns, expected {', '.join(wanted)}")
            raise unknown_name(f"column of {source}", name, shown)
        positions.append(names.index(name))
    return positions


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
    if header is not None and suffix not in _SEPARATORS:
        raise ArgumentError(f"{file.name}: columns= names the columns of a CSV or TSV file without a header")
    if suffix in _PARQUET:
        records = _parquet(file, content, columns)
    elif suffix in _SEPARATORS:
        records = _separated(file.name, _decode(file, content, encoding), columns, suffix, quoting, header)
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
    known = (*_SEPARATORS, *_LINES, *_PARQUET)
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


def _separated(
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
        separator, names = _separator_of_header(text, _SEPARATORS[suffix], columns)
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
    separators = _SEPARATORS[suffix]
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


def of_columns(source: str, columns: Sequence[Sequence[object]], names: Sequence[str]) -> Records:
    """Return the rows of columns, of which the last has the labels."""
    rows = list(zip(zip(*columns[:-1], strict=True), columns[-1], strict=True))
    return Records(source, rows, range(len(rows)), "row", columns=names)


# -- users' data


def read_card(data: Path, given: StrPath | None) -> dict[str, Any]:
    """Return the facts of the card file of a data file; its keys are checked, its values are checked by their users.

    Args:
        data: The data file.
        given: The card file (default: next to the data, if there is one).

    Raises:
        ArgumentError: There are two cards, or its format is unknown.
        SchemaError: It cannot be read.
    """
    stem = uncompressed_name(data).stem
    cards = [data.with_name(stem + suffix) for suffix in _CARD_SUFFIXES] if data.name else []  # not of a folder
    cards = [card for card in cards if card.is_file()] if given is None else [Path(given)]
    if len(cards) > 1:
        raise ArgumentError(f"{data.name} has two cards: {cards[0].name} and {cards[1].name}. Remove one")
    if not cards:
        return {}
    (path,) = cards
    if path.suffix.lower() == ".json":
        card = read_json(path)
    elif path.suffix.lower() != ".toml":
        raise ArgumentError(f"card: got {path.name}, expected a .toml or .json file")
    elif sys.version_info < (3, 11):
        advice = f"Write the card as JSON ({path.with_suffix('.json').name}, with the same keys)"
        raise ArgumentError(f"{path.name}: Python 3.{sys.version_info[1]} cannot read TOML. {advice}")
    else:
        toml = importlib.import_module("tomllib")  # by name: type checkers for Python 3.10 do not know it
        try:
            card = toml.loads(path.read_text("utf-8-sig"))
        except ValueError as error:  # also what is not UTF-8
            raise SchemaError(f"{path.name} is not TOML: {error}") from error
    check_keys(path.name, card, CARD_KEYS)
    return dict(card)


def check_keys(where: str, record: object, known: Sequence[str]) -> None:
    """Refuse a record with other keys than the known ones.

    Raises:
        SchemaError: It is no mapping, or has an unknown key.
    """
    if not isinstance(record, Mapping):
        raise SchemaError(f"{where}: got {record!r:.60}, expected a table with keys such as {known[0]!r}")
    for key in record:
        if key not in known:
            raise SchemaError(f"{where}: {unknown_name('key', key, known)}")


def column_names(texts: object, label: object, where: str) -> tuple[list[str], str]:
    """Return the names of the columns, checked."""
    chosen = [texts] if isinstance(texts, str) else texts
    if not isinstance(chosen, Sequence) or not chosen or not all(isinstance(name, str) for name in chosen):
        raise ArgumentError(f"{where}: texts: got {texts!r:.60}, expected names of text columns, such as ['text']")
    if not isinstance(label, str):
        raise ArgumentError(f"{where}: label: got {label!r:.60}, expected the name of the label column")
    if label in chosen or len(set(chosen)) < len(chosen):
        raise ArgumentError(f"{where}: a column is used twice: got texts {', '.join(chosen)} and label {label}")
    return list(chosen), label


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
    has_columns_option = format_suffix(file) in _SEPARATORS
    if header is None and has_columns_option:
        advice += ". If these are a row and no names, name all columns, as columns=['text', 'label']"
    return advice


def given_rows(rows: Any, labels: Labels, name: str) -> Records:
    """Return the rows of a program.

    Args:
        rows: Pairs of a text (or several) and a label: a label name, or an index into the label names.
        labels: The label names.
        name: Of the data set, for messages.

    Raises:
        ArgumentError: They are no pairs, or an index is not one of the label names.
    """
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise ArgumentError(f"rows: expected (text or texts, label) pairs, got {rows!r:.80}")
    pairs = []
    for number, row in enumerate(rows):
        try:
            texts, label = split_pair(row)
            pairs.append((texts, _named_label(label, labels, name)))
        except ArgumentError as error:
            raise ArgumentError(f"row {number}: {error}") from None
    return Records("", pairs, range(len(pairs)), "row")


def _named_label(label: object, labels: Labels, name: str) -> object:
    """Return the label of a row of a program; the name of an index into a list of label names.

    Raises:
        ArgumentError: An index is not one of the list, or may be another label's name.
    """
    if not isinstance(labels, Sequence) or isinstance(label, str):
        return label
    refuse_numbers_with_two_meanings(label, labels)
    index = whole_number(label)
    if index is None:
        return label
    if not 0 <= index < len(labels):
        known = f"the label space of {name!r} has {len(labels)} labels (indexes 0 to {len(labels) - 1})"
        raise ArgumentError(f"the label index is {index}, but {known}")
    return labels[index]


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


def pandas_records(frame: Any, texts: Sequence[str] | str, label: str) -> Records:
    """Return the rows of a data frame; see :meth:`StaICC.datasets.dataset.Dataset.from_pandas`."""
    pandas = require("pandas", "data", "Dataset.from_pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise ArgumentError(f"from_pandas: got {type(frame).__name__}, expected a pandas.DataFrame")
    texts, label = column_names(texts, label, "the data frame")
    positions = choose(list(map(str, frame.columns)), [*texts, label], "the data frame")
    columns = [frame.iloc[:, position].astype(object) for position in positions]
    # pandas has several values for a missing cell; all become None.
    values = [column.where(column.notna(), None).tolist() for column in columns]
    return of_columns("the data frame", values, [*texts, label])


def huggingface_records(data: Any, texts: Sequence[str] | str, label: str) -> tuple[Records, list[str] | None]:
    """Return the rows and the label names; see :meth:`StaICC.datasets.dataset.Dataset.from_huggingface`."""
    library = require("datasets", "data", "Dataset.from_huggingface")
    if isinstance(data, library.DatasetDict):
        splits = ", ".join(map(str, data))
        raise ArgumentError(f"from_huggingface: got a DatasetDict. Choose one of its splits: {splits}")
    if isinstance(data, library.IterableDataset | library.IterableDatasetDict):
        advice = "Load it without streaming=True, or pass datasets.Dataset.from_list(list(data)) of a split"
        raise ArgumentError(f"from_huggingface: got {type(data).__name__}, which has no number of rows. {advice}")
    if not isinstance(data, library.Dataset):
        raise ArgumentError(f"from_huggingface: got {type(data).__name__}, expected a datasets.Dataset")
    texts, label = column_names(texts, label, "the data set")
    choose(data.column_names, [*texts, label], "the data set")
    columns = [list(data[column]) for column in (*texts, label)]
    feature, names = data.features[label], None
    if isinstance(feature, library.ClassLabel):
        names = list(feature.names)
        known = range(len(names))  # -1 marks a row without a label
        columns[-1] = [names[index] if index in known else None for index in columns[-1]]
    return of_columns("the data set", columns, [*texts, label]), names


Source = BuiltIn | ReleasedWheel | FileSource | HubSource | TableFile
"""Where the rows of a data set come from; ``None`` for rows that a program made."""
