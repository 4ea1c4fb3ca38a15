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

UNFINISHED = ".part"
"""How the temporary names of unfinished files and folders end. A killed process leaves one behind."""

_CHUNK = 1 << 20
"""How many bytes are read at once for a digest."""


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, in hexadecimal; the file is read piece by piece.

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
    """Open a new file under a temporary name, and rename it to its own when the block ends without an error.

    Args:
        path: Where the file is to be; the folder must exist. A file that is there is replaced, and its mode is kept.
        fresh: Replace nothing, also if a file appears there meanwhile.

    Yields:
        The new file, in the same folder.

    Raises:
        OSError: The file could not be written. A file that was there is unchanged, and the new one is removed.
    """
    if not path.parent.is_dir():  # else the message would show the temporary name
        raise FileNotFoundError(errno.ENOENT, "the folder is not there; make it first", str(path.parent))
    # Not tempfile: its files are readable by their owner alone, and a folder of frozen data may be shared.
    temporary_path = path.with_name(f".{path.name[:40]}.{os.getpid()}-{os.urandom(6).hex()}{UNFINISHED}")
    try:
        with open(temporary_path, "xb") as file:
            with contextlib.suppress(FileNotFoundError):  # no file is replaced
                mode_of_replaced_file = stat.S_IMODE(os.stat(path).st_mode)
                os.chmod(temporary_path, mode_of_replaced_file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if fresh:
            _rename_without_replacing(temporary_path, path)
        else:
            os.replace(temporary_path, path)
    finally:
        with contextlib.suppress(OSError):  # after a success, it has its own name
            temporary_path.unlink()


def _rename_without_replacing(temporary_path: Path, path: Path) -> None:
    """Give a file its own name, unless another file has this name.

    Args:
        temporary_path: The file under its temporary name. It may keep this name, too.
        path: Its own name.

    Raises:
        FileExistsError: Another file has the name.
    """
    try:
        os.link(temporary_path, path)  # at once: a process that is killed leaves no empty file
    except OSError:
        # Either another file has the name, and "x" (exclusive creation) raises the error. Or the file system has no
        # hard links; then the empty file reserves the name until it is replaced.
        path.open("xb").close()
        os.replace(temporary_path, path)


@contextlib.contextmanager
def temporary_folder_in(parent: Path) -> Iterator[Path]:
    """Make a temporary folder, which is removed with all its content when the block ends.

    Args:
        parent: The parent folder; must exist.

    Yields:
        The folder.

    Raises:
        OSError: It cannot be made.
    """
    import tempfile  # with many modules, which few runs need

    with tempfile.TemporaryDirectory(UNFINISHED, ".", parent, ignore_cleanup_errors=True) as folder:
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


def _standard_stream(path: StrPath) -> int | None:
    """Return the file descriptor of stdout (1) or stderr (2), if a path leads to the same file; else ``None``."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
    return None


def _checked_target(output: StrPath) -> Path | None:
    """Refuse an output that cannot be written; return the regular file that it makes or replaces.

    Args:
        output: The path that the user gave.

    Returns:
        The file, without symbolic links. ``None`` for a stream or a pipe, which is not replaced but written to.

    Raises:
        ArgumentError: The path is that of a folder, a block device, a socket or a file of a prediction store, its
            folder does not exist, or the file or its folder is read-only.
    """
    text = os.fsdecode(output)
    try:
        path = Path(os.path.realpath(text))
        mode = _mode_of_file(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"{text!r} cannot be written to ({reason}); give another path") from error
    if path.is_dir():  # also that of an empty path
        raise ArgumentError(f"{text!r} is a folder; give the name of a file")

    exists = mode is not None
    is_stream = text.startswith(_STREAMS) or _standard_stream(text) is not None
    is_pipe_or_device = mode is not None and not stat.S_ISREG(mode)
    if is_stream or is_pipe_or_device:
        if mode is None or not _can_be_written_to(mode):
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


def _mode_of_file(path: str) -> int | None:
    """Return the mode of a file (``st_mode``), which says of what kind it is; ``None`` if there is no file."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _can_be_written_to(mode: int) -> bool:
    """Return whether a file of this mode is a regular file, a pipe or a character device, such as a terminal."""
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


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
    """Return a key by which paths are compared: it is equal for two paths if they lead to one file.

    The key of a file that exists is the file's number on its device. The key of one that does not exist yet is its path
    without case and with one form of accents, because a file system may ignore both.
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
        replaced_file = _checked_target(path)
        # A stream may be a regular file, too: stdout may be redirected to an input.
        if replaced_file is not None or os.path.isfile(path):
            output_files.append(path)
    if not output_files:
        return

    use_of_file = _uses_of_files(inputs, stores)
    for path in output_files:
        key = _file_key(path)
        if key in use_of_file:
            raise ArgumentError(f"{path} is {use_of_file[key]}, which is never overwritten; give another path")
        use_of_file[key] = "another output of this command"


def _uses_of_files(inputs: Iterable[StrPath], stores: Iterable[StrPath]) -> dict[object, str]:
    """Return for each file that a command must not overwrite what it is, by the key of the file (:func:`_file_key`).

    Args:
        inputs: The files that the command reads.
        stores: The prediction stores that it uses. The files that SQLite keeps next to one belong to it.
    """
    use_of_file = {}
    for path in inputs:
        use_of_file[_file_key(path)] = "an input of this command"
    for store in stores:
        for suffix in ("", *_STORE_SUFFIXES):
            path_of_store = os.path.realpath(store) + suffix
            use_of_file[_file_key(path_of_store)] = "the prediction store of this command"
    return use_of_file


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
    target = _checked_target(path)
    if target is not None:
        with replacing(target, fresh) as file:
            yield file
        return

    if sys.stdout is not None:
        sys.stdout.flush()  # what was printed before the output comes before it
    descriptor = _standard_stream(path)
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
