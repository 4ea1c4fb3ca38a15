"""Tables: rows of texts with a label index, in memory or frozen in a file.

Row i of a table is ``Row(texts, label)``. :class:`MemoryTable` holds a user's own rows. :class:`FrozenTable` reads
our file format, row by row, without making Python objects of rows that are not used.

The format can be pinned by a digest: the same rows always have the same bytes. A file is, in order:

1. 8 bytes of magic, then two little-endian 32-bit numbers: format version, bytes of the header that follows;
2. the header: ASCII JSON with ``body`` (bytes of text), ``columns`` (texts of a row), ``rows``, ``table`` (digest of
   the rows), padded with spaces so that what follows is aligned to 8 bytes;
3. rows * columns + 1 little-endian 64-bit offsets into the text, the first 0 and the last ``body``;
4. rows little-endian 32-bit label indexes;
5. the texts, one after the other, in UTF-8.

Guarantees: a file whose digest is not the expected one is refused before a row is read; a file is written under a
temporary name and renamed, so a half-written one never has the right name. Tables may be shared by threads, and go
through ``fork`` and ``pickle`` (by path) to other processes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeGuard

from StaICC.arguments import validate_integer, whole_number
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError
from StaICC.files.output import replacing
from StaICC.safe_text import has_lone_surrogate

MAGIC = b"\x89StaICC\n"
VERSION = 1
_START = struct.Struct("<8sII")
"""The beginning of a file: magic, format version, bytes of the header."""
_LABEL_LIMIT = 1 << 32
"""Label indexes are stored as 32-bit numbers, so they are below this one."""


class Row(NamedTuple):
    """One row of a table."""

    texts: tuple[str, ...]
    """The input texts, as many as the table has columns."""
    label: int
    """Index into the label space."""


class _VerifiedFile(NamedTuple):
    """A file of a frozen table whose digest was found to be the expected one; a changed file is another one."""

    path: str
    inode: int
    size: int
    changed_ns: int
    """When it was changed, in nanoseconds."""
    sha256: str


_rows_of_file: dict[_VerifiedFile, dict[int, Row]] = {}
"""The rows that were used of each verified file, by their number. So a process hashes a file once, and the parts of a
suite read a row once."""


class Table(Protocol):
    """Rows by number. Iteration yields them in order."""

    @property
    def columns(self) -> int:
        """Number of input texts of every row."""

    @property
    def digest(self) -> str:
        """Digest of the rows (see :func:`table_digest`)."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Row: ...

    def __iter__(self) -> Iterator[Row]: ...


def table_digest(rows: Iterable[tuple[Sequence[str], int]]) -> str:
    """Return the digest of rows, the same for every way of storing them.

    Args:
        rows: ``(texts, label index)`` pairs.

    Returns:
        SHA-256, in hexadecimal, of the UTF-8 bytes of the compact JSON ``[[["text", ...], label], ...]``.

    Raises:
        ArgumentError: A text cannot be written as UTF-8 (a lone surrogate).

    Example:
        >>> table_digest([(["good"], 1)])[:16]
        'ac10fd32afc3e805'
    """
    digest = hashlib.sha256(b"[")
    for number, (texts, label) in enumerate(rows):
        try:
            data = json.dumps([list(texts), label], ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(f"a text in row {number} is no Unicode text (a lone surrogate): {error}") from error
        if number > 0:
            digest.update(b",")
        digest.update(data)
    digest.update(b"]")
    return digest.hexdigest()


def is_list_of_values(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a sequence, but no text and no bytes."""
    if isinstance(value, (tuple, list)):  # much faster than the abstract class
        return True
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def split_pair(row: object) -> tuple[Any, Any]:
    """Return the texts and the label of a row, unchecked.

    Raises:
        ArgumentError: The row is no such pair.
    """
    if not is_list_of_values(row) or len(row) != 2:
        advice = "For a table with named columns use Dataset.from_file, from_pandas or from_huggingface"
        raise ArgumentError(f"expected (text or texts, label index), got {row!r:.80}. {advice}")
    return row[0], row[1]


def _check_row(row: object, columns: int | None, names: Sequence[str] = ()) -> Row:
    """Return a row, checked; the caller adds the place of the row to an error.

    Args:
        row: The row, unchecked.
        columns: The number of texts of the rows before it; ``None`` for the first row.
        names: The names of the columns, for messages.

    Raises:
        ArgumentError: It is no pair of texts and label index, or has another number of texts.
    """
    text_or_texts, label = split_pair(row)
    texts = (text_or_texts,) if isinstance(text_or_texts, str) else text_or_texts
    if not is_list_of_values(texts):
        raise ArgumentError(f"expected a text or a sequence of texts, got {text_or_texts!r:.80}")
    for column, text in enumerate(texts):
        if not isinstance(text, str):
            raise ArgumentError(
                f"{_text_name(column, names)} must be a string, not {text!r:.80}. Correct or remove the row"
            )
        if has_lone_surrogate(text):
            raise ArgumentError(f"{_text_name(column, names)} holds a lone surrogate: {text!r:.80}")
    if not texts:
        raise ArgumentError("there is no input text")
    if columns is not None and len(texts) != columns:
        raise ArgumentError(f"{len(texts)} input texts, but the rows before it have {columns}")
    return Row(tuple(texts), _check_label_index(label))


def _check_label_index(label: object) -> int:
    """Return the label of a row as an integer, checked.

    Raises:
        ArgumentError: It is no integer, is negative, or has more than 32 bits (:data:`_LABEL_LIMIT`).
    """
    index = whole_number(label)
    if index is None:
        raise ArgumentError(f"the label must be an index into the label space (0, 1, ...), not {label!r:.80}")
    if not 0 <= index < _LABEL_LIMIT:
        raise ArgumentError(f"the label index must be 0 or more, not {label!r:.80}")
    return index


def _text_name(column: int, names: Sequence[str]) -> str:
    """Return how messages call a text of a row: by its column, or by its number if columns have no names."""
    if names:
        return f"column {names[column]!r}"
    return f"text {column}"


class MemoryTable:
    """A user's own rows, checked one by one and kept in memory.

    Args:
        rows: ``(text or sequence of texts, label index)`` pairs, all with the same number of texts.
        place: Returns where a row is, by its number, for messages.
        names: Names of the columns of the texts, for messages; empty if they have none.

    Raises:
        ArgumentError: There is no row, or one is not as said (its place is named).

    Example:
        >>> table = MemoryTable([("a fine day", 1), ("rain again", 0)])
        >>> len(table), table.columns, table[1]
        (2, 1, Row(texts=('rain again',), label=0))
    """

    __slots__ = ("_rows", "columns", "digest")

    columns: int
    digest: str

    def __init__(
        self,
        rows: Iterable[tuple[str | Sequence[str], int]],
        place: Callable[[int], str] = "row {}".format,
        names: Sequence[str] = (),
    ) -> None:
        """Check the rows, of which the first one says how many texts each row has, and compute their digest."""
        if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
            raise ArgumentError(f"rows: expected (text or texts, label index) pairs, got {rows!r:.80}")
        checked_rows: list[Row] = []
        columns: int | None = None  # unknown before the first row
        for number, row in enumerate(rows):
            try:
                checked_row = _check_row(row, columns, names)
            except ArgumentError as error:
                raise ArgumentError(f"{place(number)}: {error}") from None
            checked_rows.append(checked_row)
            columns = len(checked_row.texts)
        if columns is None:
            raise ArgumentError("rows: there is no row")
        self._rows = tuple(checked_rows)
        self.columns = columns
        self.digest = table_digest(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int, /) -> Row:
        return self._rows[number]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{len(self)} rows, {self.columns} texts each>)"


def write_table(
    path: str | os.PathLike[str], rows: Iterable[tuple[Sequence[str], int]], columns: int, sha256: str | None = None
) -> str:
    """Write rows as a frozen table, atomically.

    Args:
        path: The file; its folder must exist.
        rows: ``(texts, label index)`` pairs.
        columns: Number of texts that every row has.
        sha256: Digest that the file must get, in hexadecimal (default: any).

    Returns:
        SHA-256 of the file, in hexadecimal: what :class:`FrozenTable` is given to refuse any other file.

    Raises:
        ArgumentError: A row is not as said (its number is named).
        DataDamagedError: The file would not have the digest that it must have; nothing is written.
        OSError: The file cannot be written; nothing is left behind.
    """
    columns = validate_integer("columns", columns, 1)
    checked_rows: list[Row] = []
    for number, row in enumerate(rows):
        try:
            checked_rows.append(_check_row(row, columns))
        except ArgumentError as error:
            raise ArgumentError(f"row {number}: {error}") from None
    sections = _sections_of_file(checked_rows, columns)
    digest = hashlib.sha256(b"".join(sections)).hexdigest()
    if sha256 is not None and digest != sha256:
        raise DataDamagedError(f"{path}: the rows give a file with the SHA-256 {digest}, but it must be {sha256}")
    with replacing(Path(path)) as file:
        file.writelines(sections)
    return digest


def _sections_of_file(rows: Sequence[Row], columns: int) -> list[bytes]:
    """Return the sections of a frozen table in the order of the format: start, header, offsets, labels, texts."""
    offsets = array("Q", [0])
    labels = array("I")
    body = bytearray()
    for row in rows:
        labels.append(row.label)
        for text in row.texts:
            body += text.encode()
            offsets.append(len(body))
    facts = {"body": len(body), "columns": columns, "rows": len(rows), "table": table_digest(rows)}
    header = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")
    bytes_over = (_START.size + len(header)) % 8
    if bytes_over > 0:  # what follows is aligned to 8 bytes
        header += b" " * (8 - bytes_over)
    start = _START.pack(MAGIC, VERSION, len(header))
    return [start, header, offsets.tobytes(), labels.tobytes(), bytes(body)]


class FrozenTable:
    """A table in a file of our format, mapped into memory: texts are read when their row is used.

    Args:
        path: The file.
        sha256: Digest that the file must have, in hexadecimal.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
        DataDamagedError: The file is not the one with that digest (both are named).
    """

    __slots__ = ("_body", "_labels", "_offsets", "_rows", "columns", "digest", "path", "sha256")

    columns: int
    digest: str
    path: str
    sha256: str

    def __init__(self, path: str | os.PathLike[str], sha256: str) -> None:
        """Map the file into memory and check its digest, once in a process; no row is read yet."""
        self.path = os.path.abspath(path)
        self.sha256 = sha256
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_size > 0:
                    data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                else:
                    data = memoryview(b"")  # an empty file cannot be mapped
        except OSError as error:
            raise DataMissingError(f"the frozen table {self.path} cannot be read: {error.strerror or error}") from error
        opened = _VerifiedFile(self.path, status.st_ino, status.st_size, status.st_mtime_ns, sha256)
        if opened not in _rows_of_file:
            digest = hashlib.sha256(data).hexdigest()
            if digest != sha256:
                raise DataDamagedError(f"{self.path} is damaged: its SHA-256 is {digest}, but it must be {sha256}")
        self._rows = _rows_of_file.setdefault(opened, {})
        self._find_sections(data)

    def _find_sections(self, data: memoryview) -> None:
        """Set the attributes to the sections of a file: header, offsets, labels and texts, in this order."""
        _, _, header_size = _START.unpack_from(data)
        header_end = _START.size + header_size
        header: Any = json.loads(bytes(data[_START.size : header_end]))
        row_count = header["rows"]
        self.columns = header["columns"]
        self.digest = header["table"]
        offset_count = row_count * self.columns + 1
        offsets_end = header_end + 8 * offset_count
        labels_end = offsets_end + 4 * row_count
        self._offsets = data[header_end:offsets_end].cast("Q")  # 64-bit numbers
        self._labels = data[offsets_end:labels_end].cast("I")  # 32-bit numbers
        self._body = data[labels_end:]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int, /) -> Row:
        """Return a row, which is read from the file once in a process."""
        row = self._rows.get(number)
        if row is None:
            position = range(len(self))[number]  # a negative number counts from the end; IndexError outside
            row = self._read(position)
            self._rows[number] = row
        return row

    def _read(self, position: int) -> Row:
        """Read a row: text ``i`` is between the offsets ``i`` and ``i + 1``, and each row has ``columns`` texts."""
        first_text = position * self.columns
        offsets = self._offsets[first_text : first_text + self.columns + 1].tolist()
        try:
            texts = tuple([str(self._body[begin:end], "utf-8") for begin, end in pairwise(offsets)])
        except UnicodeDecodeError as error:
            raise DataDamagedError(f"{self.path} changed: row {position} is not UTF-8 ({error})") from error
        return Row(texts, self._labels[position])

    def __iter__(self) -> Iterator[Row]:
        return map(self._read, range(len(self)))

    def __reduce__(self) -> tuple[type[FrozenTable], tuple[str, str]]:
        return FrozenTable, (self.path, self.sha256)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, <{len(self)} rows, {self.columns} texts each>)"
