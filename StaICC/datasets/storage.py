"""Files: written atomically, read with bounds, and those of frozen tables.

A file is written under a temporary name in the same folder, flushed to the disk, and then renamed: a reader never
sees half a file, and a full disk or a killed process leaves the old state.

Output files are written atomically, and never over an input, a prediction store or a folder. A regular file is
replaced as a whole and keeps its mode; a symlink stays, and its target is replaced; FIFOs, character devices and
``/dev/stdout`` are written to. Every function that writes a file whose path the user gave goes through
:func:`write_output` or :func:`open_output`. A command with inputs calls :func:`check_outputs` before it starts, so
that nothing is computed that cannot be saved.

JSON from files that anybody may have written: read with bounds, refused in one line.

:mod:`json` fails on such files in many ways (``RecursionError``, ``UnicodeDecodeError``, ``ValueError`` for an integer
of thousands of digits) and accepts unintended values (a duplicate key, ``1e999`` as infinity). Whatever is wrong with a
file here is a :class:`~StaICC.errors.SchemaError` that names the file.

:func:`read_value` makes values of annotated types of what was parsed, such as records (dataclasses); everything else is
refused with its place.

Tables: rows of texts with a label index, in memory or frozen in a file.

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

import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import mmap
import os
import stat
import struct
import sys
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol, TypeAlias, Union, get_args, get_origin, get_type_hints

from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, SchemaError, validate_integer, whole_number
from StaICC.safe_text import has_lone_surrogate

PASSING = ".part"
"""How passing names end. A killed process leaves one behind."""

_CHUNK = 1 << 20


def file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file, in hexadecimal, read piece by piece.

    Args:
        path: The file.

    Returns:
        64 hexadecimal digits.

    Raises:
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()


@contextlib.contextmanager
def replacing(path: Path, fresh: bool = False) -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends without an error.

    Args:
        path: The file's name; its folder must exist. A file of that name is replaced, and its mode is kept.
        fresh: Replace nothing, also if a file of that name appears meanwhile.

    Yields:
        The file, under a passing name in the same folder.

    Raises:
        OSError: The file could not be written; whatever had the name still has it, and nothing else is left.
    """
    if not path.parent.is_dir():  # else the message would show the passing name
        raise FileNotFoundError(errno.ENOENT, "the folder is not there; make it first", str(path.parent))
    # Not tempfile: its files are readable by their owner alone, and a folder of frozen data may be shared.
    passing = path.with_name(f".{path.name[:40]}.{os.getpid()}-{os.urandom(6).hex()}{PASSING}")
    try:
        with open(passing, "xb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(passing, stat.S_IMODE(os.stat(path).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        if fresh:
            try:
                os.link(passing, path)  # at once: a process that is killed leaves no empty file
                return
            except OSError:  # a file system without hard links; or there is the file: this names it
                path.open("xb").close()
        os.replace(passing, path)
    finally:
        with contextlib.suppress(OSError):  # it has another name now
            passing.unlink()


@contextlib.contextmanager
def passing_folder(parent: Path) -> Iterator[Path]:
    """A folder for the time of the block.

    Args:
        parent: The parent folder; must exist.

    Yields:
        The folder, removed with all its content at the end.

    Raises:
        OSError: It cannot be made.
    """
    import tempfile  # with many modules, which few runs need

    with tempfile.TemporaryDirectory(PASSING, ".", parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


StrPath: TypeAlias = "str | os.PathLike[str]"

_STORE_SUFFIXES = ("-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\x00"
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")  # they may lead to a regular file


def is_database(path: StrPath) -> bool:
    """Return whether a path is a file of SQLite."""
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(len(_SQLITE)) == _SQLITE
    return False


def _stream(path: StrPath) -> int | None:
    """Return the descriptor of stdout or stderr, if a path leads to the same file."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
    return None


def _target(given: StrPath) -> Path | None:
    """Return the file to replace; ``None`` if the path is opened and written to. Refuse what must not be written."""
    text, mode = os.fsdecode(given), 0
    try:
        path = Path(os.path.realpath(text))
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(text).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"{text!r} cannot be written to ({reason}); give another path") from error
    if path.is_dir():  # also that of an empty path
        raise ArgumentError(f"{text!r} is a folder; give the name of a file")
    if text.startswith(_STREAMS) or _stream(text) is not None or (mode and not stat.S_ISREG(mode)):
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            raise ArgumentError(f"{text} is neither a file nor a pipe; give another path")
        return None
    if any(is_database(path.with_name(path.name.removesuffix(suffix))) for suffix in ("", *_STORE_SUFFIXES)):
        raise ArgumentError(f"{text} is a file of a prediction store, or of another SQLite database; give another path")
    if not path.parent.is_dir():
        folder = path.parent if os.path.islink(text) else Path(text).parent
        raise ArgumentError(f"the folder {folder} is not there; make it first, or give another path")
    if not os.access(path if mode else path.parent, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"{text} is read-only, or its folder is; give another path, or change the permissions")
    return path


def _file_key(path: StrPath) -> object:
    """What two paths to one file share, or to one that is not made yet (a file system may fold case and accents)."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()
    return status.st_dev, status.st_ino


def check_outputs(
    outputs: Iterable[StrPath | None], inputs: Iterable[StrPath] = (), stores: Iterable[StrPath] = ()
) -> None:
    """Refuse outputs that cannot be written, or that would destroy what a command reads.

    Call it before a run starts, and again before its outputs are written.

    Args:
        outputs: The files to write; ``None`` is left out.
        inputs: The files that the command reads, whether they exist or not.
        stores: The prediction stores that the command uses.

    Raises:
        ArgumentError: An output is an input, a store or a file of one, a folder or a block device; its folder does not
            exist or is read-only; or two outputs are the same file.
    """
    written = [os.fsdecode(path) for path in outputs if path is not None]
    written = [path for path in written if _target(path) is not None or os.path.isfile(path)]
    if not written:
        return
    kept = {_file_key(path): "an input of this command" for path in inputs}
    for store in stores:
        files = [os.path.realpath(store) + suffix for suffix in ("", *_STORE_SUFFIXES)]
        kept |= {_file_key(file): "the prediction store of this command" for file in files}
    for path in written:
        key = _file_key(path)
        if key in kept:
            raise ArgumentError(f"{path} is {kept[key]}, which is never overwritten; give another path")
        kept[key] = "another output of this command"


@contextlib.contextmanager
def open_output(path: StrPath, fresh: bool = False) -> Iterator[BinaryIO]:
    """Open an output file for the time of the block.

    Args:
        path: Where the file is to be. Its folder must exist.
        fresh: Refuse a regular file that exists already.

    Yields:
        The file, in binary. A regular file appears under its name when the block ends without an error.

    Raises:
        ArgumentError: As for :func:`check_outputs`.
        OSError: The file could not be written, or exists already; a regular file is then as it was.
    """
    target, stream = _target(path), _stream(path)
    if target is not None:
        with replacing(target, fresh) as file:
            yield file
    else:  # opened by its path, a file of stdout would be written at a position of its own
        if sys.stdout is not None:
            sys.stdout.flush()
        with open(path if stream is None else os.dup(stream), "ab") as file:
            yield file


def write_output(path: StrPath, parts: Iterable[bytes | bytearray], fresh: bool = False) -> None:
    """Write an output file.

    Args:
        path: Where the file is to be. Its folder must exist.
        parts: The content, piece by piece.
        fresh: Refuse a regular file that exists already.

    Raises:
        ArgumentError: As for :func:`check_outputs`.
        OSError: The file could not be written; a regular file is then as it was.
    """
    try:
        with open_output(path, fresh) as file:
            file.writelines(parts)
    except OSError as error:  # a full disk names no file
        error.filename = error.filename or os.fspath(path)
        raise


MAX_DEPTH = 100
"""Deepest nesting of lists and objects that is read. The library's own files have less than 20."""

_MAX_DIGITS = 300  # a longer integer cannot be converted to a float
_BOM = "\ufeff"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _short(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits is too large")
    return int(text)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; the ``object_pairs_hook`` of decoders.

    Raises:
        ValueError: A key appears twice; JSON readers drop one of the two silently.
    """
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for i, key in enumerate(keys) if key in keys[:i])!r} appears twice")
    return record


_BOUNDED = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_short
)
_WITH_CONSTANTS = json.JSONDecoder(object_pairs_hook=unique_keys, parse_int=_short)


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, (list, dict))]:
        depth += 1
        if depth > MAX_DEPTH:
            raise RecursionError
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]


def parse_json(data: str | bytes | bytearray, where: str, *, constants: bool = False) -> Any:
    """Parse JSON that is not trusted.

    Args:
        data: Text, or UTF-8 bytes; a byte-order mark is skipped.
        where: What the data is, such as a path or ``"path, line 3"``; the start of error messages.
        constants: Accept ``NaN``, ``Infinity`` and numbers beyond the range of a float.

    Returns:
        The value.

    Raises:
        SchemaError: The data is not UTF-8, is not JSON, has a key twice, is nested deeper than :data:`MAX_DEPTH`, or
            has a number that is too large.

    Example:
        >>> parse_json(b'{"k": [1, 2.5]}', "result.json")
        {'k': [1, 2.5]}
    """
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise SchemaError(f"{where}: this is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    text = text.removeprefix(_BOM)
    if not text.strip():
        raise SchemaError(f"{where}: expected JSON, found nothing")
    try:
        value = (_WITH_CONSTANTS if constants else _BOUNDED).decode(text)
        if text.count("[") + text.count("{") > MAX_DEPTH:
            _check_depth(value)
    except (RecursionError, MemoryError) as error:
        raise SchemaError(f"{where}: the JSON is nested more than {MAX_DEPTH} deep, or too large") from error
    except ValueError as error:
        raise SchemaError(f"{where}: this is not JSON ({error})") from error
    return value


def refuse_device(path: str | os.PathLike[str], expected: str = "a file") -> None:
    """Refuse a folder, and a device or socket, which may have no end, before it is read; pipes may be read.

    Args:
        path: The file to read.
        expected: What it is to be, for the message.

    Raises:
        SchemaError: It is neither a file nor a pipe, or is no path.
        OSError: It is not there.
    """
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # a null character in the path
        raise SchemaError(f"{os.fspath(path)!r}: this is no path ({error})") from error
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
        raise SchemaError(f"{os.fspath(path)}: this is {kind}, expected {expected}")


def read_json(path: str | os.PathLike[str], expected: str = "a file") -> Any:
    """Read a JSON file that is not trusted.

    Args:
        path: The file (or a pipe).
        expected: What it is to be, for the message.

    Returns:
        The value.

    Raises:
        SchemaError: As for :func:`parse_json` and :func:`refuse_device`; the message starts with the path.
        OSError: The file cannot be read.
    """
    where = os.fspath(path)
    refuse_device(path, expected)
    if is_database(path):
        raise SchemaError(f"{where}: this is a prediction store, expected {expected}")
    return parse_json(Path(path).read_bytes(), where)


_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
    object: "a value",
}
_TYPES: Mapping[Any, tuple[type, ...]] = {hint: (hint,) for hint in _WORDS} | {float: (int, float)}
"""The types of parsed values that fit an annotation."""
hints_of: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)
"""Returns the annotations of the fields of a record."""


def _words(hint: Any) -> str:
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_words, parts))
    if get_origin(hint) is tuple:
        return f"a list, each item {_words(parts[0])}"
    if get_origin(hint) in (Mapping, dict):
        return f"an object, each value {_words(parts[1])}"
    return _WORDS.get(hint, "a list" if hasattr(hint, "_fields") else "an object")


def read_value(hint: Any, value: Any, where: str) -> Any:
    """Return a parsed JSON value as a type says: lists become tuples, objects become the records that are named.

    Args:
        hint: An annotation: ``str``, ``int``, ``float``, ``bool``, ``None``, ``object``, ``tuple[...]``,
            ``Mapping[str, ...]`` or ``dict``, a dataclass or a named tuple of such fields, or a union of these.
        value: The value.
        where: What it is, for errors.

    Raises:
        SchemaError: The value, or one in it, has another type, or a record refuses it (its method ``check_saved``). A
            field of a record is missing (those with a default may be, in records without this method) or unknown.

    Example:
        >>> read_value(tuple[float, ...], [1, 2.5], "weights")
        (1, 2.5)
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is object or hint is Any or type(value) in _TYPES.get(hint, ()):
        return value
    if origin in (Union, UnionType):
        for part in parts:
            if type(value) in _TYPES.get(part, ()):
                return value
        others = [part for part in parts if part not in _TYPES]
        if others and value is not None:
            return read_value(others[0], value, where)
    elif origin is tuple and isinstance(value, (list, tuple)) and (parts[1] is Ellipsis or len(value) == len(parts)):
        kinds = get_args(parts[0]) if get_origin(parts[0]) in (Union, UnionType) else (parts[0],)
        if set(map(type, value)) <= {kind for part in kinds for kind in _TYPES.get(part, ())}:  # long lists of numbers
            return tuple(value)
        return tuple(read_value(parts[0], item, f"{where}, item {place}") for place, item in enumerate(value))
    elif origin in (Mapping, dict) and isinstance(value, Mapping):
        return {key: read_value(parts[1], item, f"{where}, {key:.60}") for key, item in value.items()}
    elif hasattr(hint, "_fields") and isinstance(value, (list, tuple)) and len(value) == len(hint._fields):
        return hint(*map(read_value, hints_of(hint).values(), value, (f"{where}, {name}" for name in hint._fields)))
    elif dataclasses.is_dataclass(hint) and isinstance(value, (Mapping, hint)):  # type: ignore[arg-type]
        return _read_record(hint, value, where) if isinstance(value, Mapping) else value
    raise SchemaError(f"{where} must be {_words(hint)}, not {value!r:.60}")


def _read_record(kind: Any, data: Mapping[str, Any], where: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name, field in fields.items():
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory
        if name not in data and (default is dataclasses.MISSING or hasattr(kind, "check_saved")):
            raise SchemaError(f"{where} cannot be read: the field {name!r} is missing")
    for name in data:
        if name not in fields:
            raise SchemaError(f"{where} cannot be read: there is no field {name!r:.60}")
    hints = hints_of(kind)
    record = kind(**{name: read_value(hints[name], value, f"{where}, {name}") for name, value in data.items()})
    if check := getattr(record, "check_saved", None):
        check(where)
    return record


MAGIC = b"\x89StaICC\n"
VERSION = 1
_START = struct.Struct("<8sII")
_LABEL_LIMIT = 1 << 32


class Row(NamedTuple):
    """One row of a table."""

    texts: tuple[str, ...]
    """The input texts, as many as the table has columns."""
    label: int
    """Index into the label space."""


_verified: dict[tuple[str, int, int, int, str], dict[int, Row]] = {}
"""Files found good in this process (path, inode, size, time of change, digest), with the rows that were used. Each is
hashed once, and the parts of a suite read a row once."""


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


def split_pair(place: str, row: object) -> tuple[Any, Any]:
    """Return the texts and the label of a row, unchecked.

    Raises:
        ArgumentError: The row is no such pair.
    """
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 2:
        advice = "For a table with named columns use Dataset.from_file, from_pandas or from_huggingface"
        raise ArgumentError(f"{place}: expected (text or texts, label index), got {row!r:.80}. {advice}")
    return row[0], row[1]


def _check_row(place: str, row: object, columns: int | None, names: Sequence[str] = ()) -> Row:
    given, label = split_pair(place, row)
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
        raise ArgumentError(f"{place}: expected a text or a sequence of texts, got {given!r:.80}")
    for column, text in enumerate(texts):
        name = f"column {names[column]!r}" if names else f"text {column}"
        if not isinstance(text, str):
            raise ArgumentError(f"{place}: {name} must be a string, not {text!r:.80}. Correct or remove the row")
        if has_lone_surrogate(text):
            raise ArgumentError(f"{place}: {name} holds a lone surrogate: {text!r:.80}")
    if not texts:
        raise ArgumentError(f"{place}: there is no input text")
    if columns is not None and len(texts) != columns:
        raise ArgumentError(f"{place}: {len(texts)} input texts, but the rows before it have {columns}")
    index = whole_number(label)
    if index is None:
        raise ArgumentError(f"{place}: the label must be an index into the label space (0, 1, ...), not {label!r:.80}")
    if not 0 <= index < _LABEL_LIMIT:
        raise ArgumentError(f"{place}: the label index must be 0 or more, not {label!r:.80}")
    return Row(tuple(texts), index)


class MemoryTable:
    """A user's own rows, checked one by one and kept in memory.

    Args:
        rows: ``(text or sequence of texts, label index)`` pairs, all with the same number of texts.
        place: Names a row by its number, for messages.
        names: Names of the texts' columns, for messages.

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
        if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
            raise ArgumentError(f"rows: expected (text or texts, label index) pairs, got {rows!r:.80}")
        checked: list[Row] = []
        for number, row in enumerate(rows):
            checked.append(_check_row(place(number), row, len(checked[0].texts) if checked else None, names))
        if not checked:
            raise ArgumentError("rows: there is no row")
        self._rows = tuple(checked)
        self.columns = len(checked[0].texts)
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
    offsets, labels, body = array("Q", [0]), array("I"), bytearray()
    checked: list[Row] = []
    for number, row in enumerate(rows):
        checked.append(_check_row(f"row {number}", row, columns))
        labels.append(checked[-1].label)
        for text in checked[-1].texts:
            body += text.encode()
            offsets.append(len(body))
    facts = {"body": len(body), "columns": columns, "rows": len(labels), "table": table_digest(checked)}
    header = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")
    header += b" " * (-(_START.size + len(header)) % 8)
    parts = (_START.pack(MAGIC, VERSION, len(header)), header, offsets.tobytes(), labels.tobytes(), body)
    actual = hashlib.sha256(b"".join(parts)).hexdigest()
    if sha256 is not None and actual != sha256:
        raise DataDamagedError(f"{path}: the rows give a file with the SHA-256 {actual}, but it must be {sha256}")
    with replacing(Path(path)) as file:
        file.writelines(parts)
    return actual


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
        self.path = os.path.abspath(path)
        self.sha256 = sha256
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if status.st_size else b"")
        except OSError as error:
            raise DataMissingError(f"the frozen table {self.path} cannot be read: {error.strerror or error}") from error
        key = (self.path, status.st_ino, status.st_size, status.st_mtime_ns, sha256)
        if key not in _verified and (actual := hashlib.sha256(data).hexdigest()) != sha256:
            raise DataDamagedError(f"{self.path} is damaged: its SHA-256 is {actual}, but it must be {sha256}")
        self._rows = _verified.setdefault(key, {})
        _, _, size = _START.unpack_from(data)
        begin = _START.size + size
        facts: Any = json.loads(bytes(data[_START.size : begin]))
        rows, self.columns, self.digest = (facts[name] for name in ("rows", "columns", "table"))
        labels = begin + 8 * (rows * self.columns + 1)
        self._offsets = data[begin:labels].cast("Q")
        self._labels = data[labels : labels + 4 * rows].cast("I")
        self._body = data[labels + 4 * rows :]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int, /) -> Row:
        row = self._rows.get(number)
        if row is None:
            row = self._rows[number] = self._read(range(len(self))[number])
        return row

    def _read(self, position: int) -> Row:
        first = position * self.columns
        ends, body = self._offsets[first : first + self.columns + 1].tolist(), self._body
        try:
            texts = tuple([str(body[begin:end], "utf-8") for begin, end in pairwise(ends)])
        except UnicodeDecodeError as error:
            raise DataDamagedError(f"{self.path} changed: row {position} is not UTF-8 ({error})") from error
        return Row(texts, self._labels[position])

    def __iter__(self) -> Iterator[Row]:
        return map(self._read, range(len(self)))

    def __reduce__(self) -> tuple[type[FrozenTable], tuple[str, str]]:
        return FrozenTable, (self.path, self.sha256)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, <{len(self)} rows, {self.columns} texts each>)"
