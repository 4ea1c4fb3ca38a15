"""Output files: written atomically, and never over an input, a prediction store or a folder.

A regular file is replaced as a whole and keeps its mode; a symlink stays, and its target is replaced; FIFOs, character
devices and open descriptors (``/dev/stdout``, ``/dev/fd/63``) are written to. Every function that writes a file whose
path the user gave goes through :func:`write_output` or :func:`open_output`. A command with inputs calls
:func:`check_outputs` before it starts, so that nothing is computed that cannot be saved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from StaICC.datasets.storage import replacing
from StaICC.errors import ArgumentError

StrPath: TypeAlias = "str | os.PathLike[str]"

_STORE_SUFFIXES = ("-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\x00"
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|[0-9]+(?:/task/[0-9]+)?))/fd/([0-9]+)")
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class _Target:
    """What a path leads to once all symlinks are followed."""

    given: str
    path: Path
    descriptor: int | None
    found: os.stat_result | None
    """None if nothing is there yet."""

    @property
    def regular(self) -> bool:
        return self.found is None or stat.S_ISREG(self.found.st_mode)

    def same(self, other: _Target) -> bool:
        """Whether both lead to one file, or would once it is made."""
        if self.found is not None and other.found is not None:
            return os.path.samestat(self.found, other.found)
        if self.found is not None or other.found is not None:
            return False
        with contextlib.suppress(OSError):  # a file system may fold case and accents
            return _folded(self.path) == _folded(other.path) and os.path.samefile(self.path.parent, other.path.parent)
        return False


def _folded(path: Path) -> str:
    return unicodedata.normalize("NFC", path.name).casefold()


def _resolve(given: StrPath) -> _Target:
    """Follow a path to its end; an open descriptor of this process is such an end."""
    text = os.fsdecode(given)
    try:
        named = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise ArgumentError(f"{text!r} is no path: it contains a character that no file name may contain")
    path = Path(os.path.abspath(text))
    for _ in range(_MOST_LINKS):
        path = Path(os.path.realpath(path.parent), path.name)
        match = _DESCRIPTOR.fullmatch(str(path))
        descriptor = _STANDARD.get(str(path), int(match[1]) if match else None)
        if descriptor is not None and not _foreign(path):
            try:
                return _Target(text, path, descriptor, os.fstat(descriptor))
            except OSError as error:
                raise ArgumentError(f"{text} cannot be written to: {error.strerror}; give another path") from error
        if not os.path.islink(path):
            break
        path = path.parent / os.readlink(path)
    else:
        raise ArgumentError(f"{text} is a symlink that leads to itself; give another path")
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    except NotADirectoryError as error:
        raise ArgumentError(f"the folder {path.parent} is not there; make it first, or give another path") from error
    except OSError as error:
        raise ArgumentError(f"{text} cannot be written to: {error.strerror}; give another path") from error
    return _Target(text, path, None, found)


def _foreign(path: Path) -> bool:
    """Whether the path of a descriptor names another process."""
    process = path.parts[2]
    return process.isdigit() and int(process) != os.getpid()


def store_files(store: StrPath) -> list[Path]:
    """The files of a prediction store: the database, and what SQLite keeps next to it.

    Args:
        store: The store's path.
    """
    ways = dict.fromkeys([Path(os.path.abspath(store)), Path(os.path.realpath(store))])
    return [path.with_name(path.name + suffix) for path in ways for suffix in ("", *_STORE_SUFFIXES)]


def _is_database(path: Path) -> bool:
    """Whether a regular file is an SQLite database."""
    with contextlib.suppress(OSError):
        if path.is_file():
            with open(path, "rb") as file:
                return file.read(len(_SQLITE)) == _SQLITE
    return False


def _belongs_to_database(path: Path) -> bool:
    return any(
        path.name.endswith(suffix) and _is_database(path.with_name(path.name.removesuffix(suffix)))
        for suffix in _STORE_SUFFIXES
    )


def _check_target(target: _Target) -> None:
    """Refuse a target that cannot or must not be written, whatever the inputs are."""
    text, path = target.given, target.path
    if target.found is not None:
        mode = target.found.st_mode
        if stat.S_ISDIR(mode):
            raise ArgumentError(f"{text} is a folder; give the name of a file")
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or target.descriptor is not None):
            raise ArgumentError(f"{text} is neither a file nor a pipe; give another path")
        if not target.regular:
            return
        if _is_database(path):
            raise ArgumentError(f"{text} is a prediction store, or another SQLite database; give another path")
        if target.descriptor is not None:
            return
        if not os.access(path, os.W_OK):
            raise ArgumentError(f"{text} is read-only; give another path, or change its permissions")
    if _belongs_to_database(path):
        raise ArgumentError(f"{text} belongs to a prediction store, or another SQLite database; give another path")
    if not path.parent.is_dir():
        shown = Path(text).parent if not os.path.islink(text) else path.parent
        raise ArgumentError(f"the folder {shown} is not there; make it first, or give another path")
    if not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"the folder {Path(text).parent} cannot be written to; give another path")


def _input(path: StrPath) -> _Target | None:
    """Follow the path of an input; None if it leads nowhere, which is for its reader to say."""
    with contextlib.suppress(ArgumentError):
        return _resolve(path)
    return None


def check_outputs(
    outputs: Iterable[StrPath | None], inputs: Iterable[StrPath] = (), stores: Iterable[StrPath] = ()
) -> None:
    """Refuse outputs that cannot be written, or that would destroy what a command reads.

    Call it before a run starts, and again before its outputs are written.

    Args:
        outputs: The files to write; ``None`` is left out.
        inputs: The files that the command reads, whether they are there or not.
        stores: The prediction stores that the command uses.

    Raises:
        ArgumentError: An output is an input, a store or a file of one, a folder or a block device; its folder is not
            there or is read-only; or two outputs are the same file.
    """
    targets = [_resolve(one) for one in outputs if one is not None]
    kept = [(one, "an input of this command") for one in inputs]
    kept += [(one, "the prediction store of this command") for store in stores for one in store_files(store)]
    known = [(end, what) for one, what in kept if (end := _input(one)) is not None]
    for number, target in enumerate(targets):
        _check_target(target)
        if target.found is not None and stat.S_ISCHR(target.found.st_mode):
            continue
        for end, what in known:
            if target.same(end):
                raise ArgumentError(f"{target.given} is {what}, which is never overwritten; give another path")
        for other in targets[:number]:
            if target.same(other):
                raise ArgumentError(f"{other.given} and {target.given} are the same file; give each output its own")


@contextlib.contextmanager
def open_output(path: StrPath, fresh: bool = False) -> Iterator[BinaryIO]:
    """Open an output file for the time of the block.

    Args:
        path: Where the file is to be. Its folder must exist.
        fresh: Refuse a regular file that is there already.

    Yields:
        The file, in binary. A regular file appears under its name when the block ends without an error.

    Raises:
        ArgumentError: As for :func:`check_outputs`.
        OSError: The file could not be written, or is there already; a regular file is then as it was.
    """
    target = _resolve(path)
    _check_target(target)
    if fresh and target.descriptor is None and target.regular and target.found is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.given)
    if target.descriptor is not None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        with open(os.dup(target.descriptor), "wb") as file:
            yield file
    elif not target.regular:
        with open(os.open(target.path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), "wb") as file:
            yield file
    else:
        with replacing(target.path, target.found) as file:
            yield file


def write_output(path: StrPath, parts: Iterable[bytes | bytearray]) -> None:
    """Write an output file.

    Args:
        path: Where the file is to be. Its folder must exist.
        parts: The content, piece by piece.

    Raises:
        ArgumentError: As for :func:`check_outputs`.
        OSError: The file could not be written; a regular file is then as it was.
    """
    try:
        with open_output(path) as file:
            for part in parts:
                file.write(part)
    except OSError as error:  # a full disk names no file
        error.filename = error.filename or os.fspath(path)
        raise
