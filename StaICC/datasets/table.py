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
import os
import struct
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import index as as_index
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from StaICC.datasets.storage import write_beside
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, validate_integer, whole_number

MAGIC = b"\x89StaICC\n"
VERSION = 1
_START = struct.Struct("<8sII")
_LABEL_LIMIT = 1 << 32
_PIECE = 1 << 16

_verified: set[tuple[str, int, int, int, str]] = set()
"""Files found good in this process: path, inode, size, time of change, digest. Each is hashed once."""


class Row(NamedTuple):
    """One row of a table."""

    texts: tuple[str, ...]
    """The input texts, as many as the table has columns."""
    label: int
    """Index into the label space."""


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
    """Digest of rows, the same for every way of storing them.

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
        digest.update(b"," + data if number else data)
    digest.update(b"]")
    return digest.hexdigest()


def _position(number: int, rows: int) -> int:
    """A row number counted from the start (negative numbers count from the end, as in a list)."""
    position = as_index(number)
    if position < 0:
        position += rows
    if not 0 <= position < rows:
        raise IndexError(f"there is no row {number}; the table has {rows} rows")
    return position


def split_pair(number: int, row: object) -> tuple[Any, Any]:
    """Return the texts and the label of a row, unchecked.

    Raises:
        ArgumentError: The row is no such pair.
    """
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 2:
        advice = "For a table with named columns use Dataset.from_file, from_pandas or from_huggingface"
        raise ArgumentError(f"row {number}: expected (text or texts, label index), got {row!r:.80}. {advice}")
    return row[0], row[1]


def _check_row(number: int, row: object, columns: int | None) -> Row:
    given, label = split_pair(number, row)
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
        raise ArgumentError(f"row {number}: expected a text or a sequence of texts, got {given!r}")
    for column, text in enumerate(texts):
        if not isinstance(text, str):
            raise ArgumentError(f"row {number}: text {column} must be a string, not {text!r}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(f"row {number}: text {column} holds a lone surrogate: {text!r}") from error
    if not texts:
        raise ArgumentError(f"row {number}: there is no input text")
    if columns is not None and len(texts) != columns:
        raise ArgumentError(f"row {number}: {len(texts)} input texts, but the rows before it have {columns}")
    place = whole_number(label)
    if place is None:
        raise ArgumentError(f"row {number}: the label must be an index into the label space (0, 1, ...), not {label!r}")
    if not 0 <= place < _LABEL_LIMIT:
        raise ArgumentError(f"row {number}: the label index must be 0 or more, not {label!r}")
    return Row(tuple(texts), place)


class MemoryTable:
    """A user's own rows, checked one by one and kept in memory.

    Args:
        rows: ``(text or sequence of texts, label index)`` pairs, all with the same number of texts.

    Raises:
        ArgumentError: There is no row, or one is not as said (its number is named).

    Example:
        >>> table = MemoryTable([("a fine day", 1), ("rain again", 0)])
        >>> len(table), table.columns, table[1]
        (2, 1, Row(texts=('rain again',), label=0))
    """

    __slots__ = ("_rows", "columns", "digest")

    columns: int
    digest: str

    def __init__(self, rows: Iterable[tuple[str | Sequence[str], int]]) -> None:
        if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
            raise ArgumentError(f"rows: expected (text or texts, label index) pairs, got {rows!r}")
        checked: list[Row] = []
        columns: int | None = None
        for number, row in enumerate(rows):
            checked.append(_check_row(number, row, columns))
            columns = len(checked[0].texts)
        if columns is None:
            raise ArgumentError("rows: there is no row")
        self._rows = tuple(checked)
        self.columns = columns
        self.digest = table_digest(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int, /) -> Row:
        return self._rows[_position(number, len(self._rows))]

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
    offsets, labels, body = array("Q", [0]), array("I"), bytearray()
    checked: list[Row] = []
    for number, row in enumerate(rows):
        checked.append(_check_row(number, row, columns))
        labels.append(checked[-1].label)
        for text in checked[-1].texts:
            body += text.encode()
            offsets.append(len(body))
    facts = {"body": len(body), "columns": columns, "rows": len(labels), "table": table_digest(checked)}
    header = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")
    header += b" " * (-(_START.size + len(header)) % 8)
    parts = (_START.pack(MAGIC, VERSION, len(header)), header, offsets.tobytes(), labels.tobytes(), body)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    actual = digest.hexdigest()
    if sha256 is not None and actual != sha256:
        raise DataDamagedError(f"{path}: the rows give a file with the SHA-256 {actual}, but it must be {sha256}")
    write_beside(Path(path), parts)
    return actual


def _refuse(path: str, reason: str) -> DataDamagedError:
    return DataDamagedError(f"{path} is not a frozen table that can be used: {reason}")


class FrozenTable:
    """A table in a file of our format, read row by row.

    Only the offsets and labels are kept in memory (12 bytes a row); texts are read when their row is used.

    Args:
        path: The file.
        sha256: Digest that the file must have, in hexadecimal. Without it only the file's own structure is checked.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
        DataDamagedError: The file is not a frozen table, or not the one with that digest (both digests are named).
    """

    __slots__ = ("__weakref__", "_base", "_file", "_labels", "_lock", "_offsets", "columns", "digest", "path", "sha256")

    columns: int
    digest: str
    path: str
    sha256: str | None

    def __init__(self, path: str | os.PathLike[str], sha256: str | None = None) -> None:
        self.path = os.path.abspath(path)
        self.sha256 = sha256
        try:
            # Not a Python file object: one number that threads and forked children can read from at any position.
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
            weakref.finalize(self, os.close, self._file)
            self._lock = threading.Lock()
            status = os.fstat(self._file)
            if sha256 is not None:
                self._verify(status, sha256)
            self._load(status.st_size)
        except OSError as error:
            raise DataMissingError(f"the frozen table {self.path} cannot be read: {error.strerror or error}") from error

    def _verify(self, status: os.stat_result, expected: str) -> None:
        """Hash the file, once in this process as long as it does not change."""
        key = (self.path, status.st_ino, status.st_size, status.st_mtime_ns, expected)
        if key in _verified:
            return
        digest, position = hashlib.sha256(), 0
        while data := self._read(position, _PIECE):
            digest.update(data)
            position += len(data)
        if digest.hexdigest() != expected:
            digests = f"its SHA-256 is {digest.hexdigest()}, but it must be {expected}"
            raise DataDamagedError(f"{self.path} is damaged: {digests}")
        _verified.add(key)

    def _load(self, size: int) -> None:
        start = self._read(0, _START.size)
        if len(start) < _START.size or not start.startswith(MAGIC):
            raise _refuse(self.path, "it does not begin as one")
        _, version, header_size = _START.unpack(start)
        if version != VERSION:
            raise _refuse(self.path, f"it has format version {version}, this library reads {VERSION}")
        try:
            facts: Any = json.loads(self._read(_START.size, min(header_size, size)))
            rows, self.columns, body = (facts[key] for key in ("rows", "columns", "body"))
            self.digest = facts["table"]
            whole = all(type(fact) is int and fact >= 0 for fact in (rows, self.columns, body)) and self.columns > 0
        except (ValueError, KeyError, TypeError) as error:
            raise _refuse(self.path, f"its header cannot be read ({error})") from error
        cells = rows * self.columns if whole else 0
        begin = _START.size + header_size
        self._base = begin + 8 * (cells + 1) + 4 * rows if whole else 0
        if not whole or self._base + body != size or not isinstance(self.digest, str):
            raise _refuse(self.path, f"its header does not fit its {size} bytes")
        self._offsets, self._labels = array("Q"), array("I")
        self._offsets.frombytes(self._read(begin, 8 * (cells + 1)))
        self._labels.frombytes(self._read(begin + 8 * (cells + 1), 4 * rows))
        ends = self._offsets
        if ends[0] != 0 or ends[-1] != body:
            raise _refuse(self.path, "its offsets do not cover its text")
        if self.sha256 is None and any(ends[i] > ends[i + 1] for i in range(cells)):
            raise _refuse(self.path, "its offsets go backwards")

    if hasattr(os, "pread"):

        def _read(self, position: int, size: int) -> bytes:
            return os.pread(self._file, size, position)

    else:  # pragma: no cover

        def _read(self, position: int, size: int) -> bytes:
            with self._lock:
                os.lseek(self._file, position, os.SEEK_SET)
                return os.read(self._file, size)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int, /) -> Row:
        position = _position(number, len(self._labels))
        first = position * self.columns
        ends = self._offsets[first : first + self.columns + 1]
        data = self._read(self._base + ends[0], ends[-1] - ends[0])
        if len(data) != ends[-1] - ends[0]:
            raise _refuse(self.path, f"row {position} ends too early; the file changed while it was in use")
        try:
            texts = tuple(data[begin - ends[0] : end - ends[0]].decode() for begin, end in pairwise(ends))
        except UnicodeDecodeError as error:
            raise _refuse(self.path, f"row {position} is not UTF-8 ({error})") from error
        return Row(texts, self._labels[position])

    def __iter__(self) -> Iterator[Row]:
        return map(self.__getitem__, range(len(self)))

    def __reduce__(self) -> tuple[type[FrozenTable], tuple[str, str | None]]:
        return FrozenTable, (self.path, self.sha256)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, <{len(self)} rows, {self.columns} texts each>)"
