"""Output files: written atomically, never over an input.

A file is written under a temporary name in the same folder, flushed to the disk, and then renamed: a reader never
sees half a file, and a full disk or a killed process leaves the old state.

Output files are never written over an input, a prediction store or a folder. A regular file is replaced as a whole and
keeps its mode; a symlink stays, and its target is replaced; FIFOs, character devices and ``/dev/stdout`` are written
to. Every function that writes a file whose path the user gave goes through :func:`write_output` or
:func:`open_output`. A command with inputs calls :func:`check_outputs` before it starts, so that nothing is computed
that cannot be saved.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

from StaICC.errors import ArgumentError

PASSING = ".part"
"""How passing names end. A killed process leaves one behind."""

_CHUNK = 1 << 20
"""How many bytes are read at once for a digest."""


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
        data = file.read(_CHUNK)
        while data:
            digest.update(data)
            data = file.read(_CHUNK)
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
            _name_fresh_file(passing, path)
        else:
            os.replace(passing, path)
    finally:
        with contextlib.suppress(OSError):  # it has another name now
            passing.unlink()


def _name_fresh_file(passing: Path, path: Path) -> None:
    """Give a file its name, if no other file has it.

    Args:
        passing: The file under its passing name.
        path: Its name.

    Raises:
        FileExistsError: Another file has the name.
    """
    try:
        os.link(passing, path)  # at once: a process that is killed leaves no empty file
    except OSError:
        # Either another file has the name, and the next line is an error that names it, or the file system has no hard
        # links.
        path.open("xb").close()
        os.replace(passing, path)


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
"""The files that SQLite keeps next to a database have its name with these suffixes."""
_SQLITE = b"SQLite format 3\x00"
"""How a database of SQLite begins."""
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
"""How paths of open files begin. They may lead to a regular file, and are written to all the same."""


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
    """Return the file that an output replaces; ``None`` for a stream or a pipe, which is opened and written to.

    Raises:
        ArgumentError: The path is that of a folder, a device or a file of a prediction store, or cannot be written.
    """
    text = os.fsdecode(given)
    mode = 0  # of a file that does not exist
    try:
        path = Path(os.path.realpath(text))
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(text).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"{text!r} cannot be written to ({reason}); give another path") from error
    if path.is_dir():  # also that of an empty path
        raise ArgumentError(f"{text!r} is a folder; give the name of a file")

    exists = mode != 0
    is_stream = text.startswith(_STREAMS) or _stream(text) is not None
    is_pipe_or_device = exists and not stat.S_ISREG(mode)
    if is_stream or is_pipe_or_device:
        can_be_written_to = stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
        if not can_be_written_to:
            raise ArgumentError(f"{text} is neither a file nor a pipe; give another path")
        return None

    _refuse_file_of_store(path, text)
    if not path.parent.is_dir():
        folder = path.parent if os.path.islink(text) else Path(text).parent
        raise ArgumentError(f"the folder {folder} is not there; make it first, or give another path")
    is_read_only = exists and not os.access(path, os.W_OK)
    if is_read_only or not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"{text} is read-only, or its folder is; give another path, or change the permissions")
    return path


def _refuse_file_of_store(path: Path, text: str) -> None:
    """Refuse a database of SQLite, and the files that SQLite keeps next to one, whether they exist or not.

    Args:
        path: The file to write.
        text: Its path as it was given, for the message.

    Raises:
        ArgumentError: It is such a file.
    """
    for suffix in ("", *_STORE_SUFFIXES):
        database = path.with_name(path.name.removesuffix(suffix))
        if is_database(database):
            raise ArgumentError(
                f"{text} is a file of a prediction store, or of another SQLite database; give another path"
            )


def _file_key(path: StrPath) -> object:
    """Return a key that two paths have in common if they lead to one file.

    Paths of a file that does not exist yet are compared without case, because a file system may ignore case and the
    form of accents.
    """
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
    output_files = []
    for output in outputs:
        if output is None:
            continue
        path = os.fsdecode(output)
        is_replaced = _target(path) is not None
        if is_replaced or os.path.isfile(path):  # not a pipe or a device
            output_files.append(path)
    if not output_files:
        return

    use_of_file = {}  # of each file that must not be overwritten, by its key
    for path_of_input in inputs:
        use_of_file[_file_key(path_of_input)] = "an input of this command"
    for store in stores:
        for suffix in ("", *_STORE_SUFFIXES):
            path_of_store = os.path.realpath(store) + suffix
            use_of_file[_file_key(path_of_store)] = "the prediction store of this command"
    for path in output_files:
        key = _file_key(path)
        if key in use_of_file:
            raise ArgumentError(f"{path} is {use_of_file[key]}, which is never overwritten; give another path")
        use_of_file[key] = "another output of this command"


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
    target = _target(path)
    if target is not None:
        with replacing(target, fresh) as file:
            yield file
        return

    if sys.stdout is not None:
        sys.stdout.flush()
    descriptor = _stream(path)
    if descriptor is None:
        with open(path, "ab") as file:
            yield file
    else:
        # By its descriptor: opened by its path, a file of stdout would be written at a position of its own.
        with open(os.dup(descriptor), "ab") as file:
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
