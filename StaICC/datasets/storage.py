"""Files: written atomically, and read with bounds.

A file is written under a temporary name in the same folder, flushed to the disk, and then renamed: a reader never
sees half a file, and a full disk or a killed process leaves the old state.

Output files are written atomically, and never over an input, a prediction store or a folder. A regular file is
replaced as a whole and keeps its mode; a symlink stays, and its target is replaced; FIFOs, character devices and open
descriptors (``/dev/stdout``, ``/dev/fd/63``) are written to. Every function that writes a file whose path the user
gave goes through :func:`write_output` or :func:`open_output`. A command with inputs calls :func:`check_outputs`
before it starts, so that nothing is computed that cannot be saved.

JSON from files that anybody may have written: read with bounds, refused in one line.

:mod:`json` fails on such files in many ways (``RecursionError``, ``UnicodeDecodeError``, ``ValueError`` for an integer
of thousands of digits) and accepts unintended values (a duplicate key, ``1e999`` as infinity). Whatever is wrong with a
file here is a :class:`~StaICC.errors.SchemaError` that names the file.

:func:`read_value` makes values of annotated types of what was parsed, such as records (dataclasses); everything else is
refused with its place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import os
import re
import stat
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints

from StaICC.errors import ArgumentError, SchemaError
from StaICC.safe_text import logger

PASSING = ".part"
"""How passing names end. A killed process leaves one behind; :func:`remove_leftovers` removes it."""

_CHUNK = 1 << 20
_DAY = 24 * 3600.0

_log = logger(__name__)


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
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(view[:size])
    return digest.hexdigest()


def _passing_name(name: str) -> str:
    return f".{name[:40]}.{os.getpid()}-{os.urandom(6).hex()}{PASSING}"


def write_beside(path: Path, parts: Iterable[bytes | bytearray]) -> None:
    """Write a file under a passing name in the same folder, flush it to the disk, and rename it into place.

    Args:
        path: The file; its folder must exist.
        parts: The content, piece by piece.

    Raises:
        OSError: The file could not be written; whatever stood at the path still does, and nothing else is left.
    """
    with replacing(path) as file:
        for part in parts:
            file.write(part)


@contextlib.contextmanager
def replacing(path: Path, keep: os.stat_result | None = None, fresh: bool = False) -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends without an error.

    Args:
        path: The file's name; its folder must exist. A symlink of that name is replaced.
        keep: The file that is replaced, whose mode is kept.
        fresh: Replace nothing, also if a file of that name appears meanwhile.

    Yields:
        The file, under a passing name in the same folder.

    Raises:
        OSError: As for :func:`write_beside`.
    """
    if not path.parent.is_dir():  # else the message would show the temporary name
        raise FileNotFoundError(errno.ENOENT, "the folder is not there; make it first", str(path.parent))
    # Not tempfile: its files are readable by their owner alone, and a folder of frozen data may be shared.
    passing = path.with_name(_passing_name(path.name))
    try:
        with open(passing, "xb") as file:
            if keep is not None:
                os.chmod(passing, stat.S_IMODE(keep.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        if fresh:  # raises FileExistsError if something has the name
            path.open("xb").close()
        os.replace(passing, path)
    except BaseException:
        with contextlib.suppress(OSError):
            passing.unlink()
        raise
    with contextlib.suppress(OSError):  # the rename outlives a loss of power, where the system lets us
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left under passing names: all that has not changed for a day.

    Args:
        folder: Where to look (not below it).
    """
    import shutil  # with many modules, which few runs need

    for entry in folder.glob(f".*{PASSING}"):
        with contextlib.suppress(OSError):
            if entry.lstat().st_mtime < time.time() - _DAY:
                _log.debug("removing %s, left by a process that was killed", entry)
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink()


StrPath: TypeAlias = "str | os.PathLike[str]"

_STORE_SUFFIXES = ("-wal", "-shm", "-journal")
_MOST_LINKS = 40
_SQLITE = b"SQLite format 3\x00"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")


def _descriptor(given: StrPath) -> int | None:
    """Return the open descriptor of this process that a path names; ``/dev/stdout`` is a symlink to one."""
    path = os.path.abspath(given)
    for _ in range(_MOST_LINKS):
        match = _DESCRIPTOR.fullmatch(path)
        if match is not None or not os.path.islink(path):
            return int(match[1]) if match is not None else None
        path = os.path.abspath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return None


def _is_database(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if path.is_file():
            with open(path, "rb") as file:
                return file.read(len(_SQLITE)) == _SQLITE
    return False


def _resolved(path: StrPath) -> str:
    """Return where a path leads."""
    text = os.fsdecode(path)
    try:
        with contextlib.suppress(OSError):
            os.stat(text)
        return os.path.realpath(text)
    except ValueError:
        raise ArgumentError(f"{text!r} is no path: it has a character that no file name may contain") from None


def _checked(given: StrPath) -> tuple[Path, os.stat_result | None]:
    """Return where a path leads and what is there; refuse what cannot or must not be written."""
    text = os.fsdecode(given)
    status = None
    try:
        path = Path(_resolved(text))
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(text)
    except OSError as error:
        raise ArgumentError(f"{text} cannot be written to: {error.strerror}; give another path") from error
    if status is None and _descriptor(text) is not None:
        raise ArgumentError(f"{text} cannot be written to: the descriptor is not open; give another path")
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise ArgumentError(f"{text} is a folder; give the name of a file")
    if status is not None and not stat.S_ISREG(status.st_mode):
        if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode) or _descriptor(text) is not None):
            raise ArgumentError(f"{text} is neither a file nor a pipe; give another path")
        return path, status
    databases = [path, *(path.with_name(path.name.removesuffix(suffix)) for suffix in _STORE_SUFFIXES)]
    if any(map(_is_database, databases)):
        raise ArgumentError(f"{text} is a file of a prediction store, or of another SQLite database; give another path")
    if _descriptor(text) is not None:
        return path, status
    if not path.parent.is_dir():
        folder = path.parent if os.path.islink(text) else Path(text).parent
        raise ArgumentError(f"the folder {folder} is not there; make it first, or give another path")
    if not os.access(path.parent if status is None else path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"{text} is read-only, or its folder is; give another path, or change the permissions")
    return path, status


def _same(first: StrPath, second: StrPath) -> bool:
    """Tell whether two paths lead to one file, or would once it is made (a file system may fold case and accents)."""
    with contextlib.suppress(OSError, ValueError):
        if os.path.exists(first) and os.path.exists(second):
            return os.path.samefile(first, second)
        if not os.path.exists(first) and not os.path.exists(second):
            paths = [unicodedata.normalize("NFC", os.path.realpath(path)) for path in (first, second)]
            return paths[0].casefold() == paths[1].casefold()
    return False


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
    kept: list[tuple[StrPath, str]] = [(path, "an input of this command") for path in inputs]
    for store in stores:
        files = [f"{_resolved(store)}{suffix}" for suffix in ("", *_STORE_SUFFIXES)]
        kept += [(file, "the prediction store of this command") for file in files]
    targets: list[str] = []
    for output in outputs:
        if output is None:
            continue
        text, (_, status) = os.fsdecode(output), _checked(output)
        if status is not None and stat.S_ISCHR(status.st_mode):
            continue
        for path, what in kept:
            if _same(text, path):
                raise ArgumentError(f"{text} is {what}, which is never overwritten; give another path")
        for other in targets:
            if _same(text, other):
                raise ArgumentError(f"{other} and {text} are the same file; give each output its own")
        targets.append(text)


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
    (target, status), descriptor = _checked(path), _descriptor(path)
    if descriptor is not None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        with open(os.dup(descriptor), "wb") as file:
            yield file
    elif status is not None and not stat.S_ISREG(status.st_mode):
        with open(path, "wb") as file:
            yield file
    else:
        with replacing(target, status, fresh) as file:
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
            for part in parts:
                file.write(part)
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
    decoder = _WITH_CONSTANTS if constants else _BOUNDED
    try:
        value = decoder.decode(text)
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
    try:
        data = Path(path).read_bytes()
    except MemoryError as error:
        raise SchemaError(f"{where}: the file is too large for the memory") from error
    if data.startswith(b"SQLite format 3\0"):
        raise SchemaError(f"{where}: this is a prediction store, expected {expected}")
    return parse_json(data, where)


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
