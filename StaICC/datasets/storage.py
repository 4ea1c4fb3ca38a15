"""Atomic writing of files.

A file is written under a temporary name in the same folder, flushed to the disk, and then renamed: a reader never
sees half a file, and a full disk or a killed process leaves the old state. A lock between processes spares double work;
nothing depends on it for safety.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

PASSING = ".part"
"""How passing names end. A killed process leaves one behind; :func:`remove_leftovers` removes it."""

_CHUNK = 1 << 20
_POLL = 0.1

_log = logging.getLogger(__name__)


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


def flush_folder(folder: Path) -> None:
    """Make a rename in this folder outlive a loss of power, where the system lets us."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
def replacing(path: Path, keep: os.stat_result | None = None) -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends without an error.

    Args:
        path: The file's name; its folder must exist. A symlink of that name is replaced.
        keep: The file that is replaced, whose mode and owner are kept.

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
                if hasattr(os, "chown"):
                    with contextlib.suppress(OSError):
                        os.chown(passing, keep.st_uid, keep.st_gid)
                os.chmod(passing, stat.S_IMODE(keep.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(passing, path)
    except BaseException:
        with contextlib.suppress(OSError):
            passing.unlink()
        raise
    flush_folder(path.parent)


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
    folder = parent / _passing_name("fetch")
    folder.mkdir()
    try:
        yield folder
    finally:
        _remove_folder(folder)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left under passing names. Call it under the lock only.

    Args:
        folder: Where to look (not below it).
    """
    for entry in folder.glob(f".*{PASSING}"):
        _log.debug("removing %s, left by a process that was killed", entry)
        if entry.is_dir() and not entry.is_symlink():
            _remove_folder(entry)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()


def _remove_folder(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _try_lock(handle: int) -> bool:
    """Take the system's lock on an open file; False if another process has it."""
    try:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - Windows
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


@contextlib.contextmanager
def exclusive(path: Path, patience: float) -> Iterator[bool]:
    """Hold a lock between processes (and threads) for the time of the block.

    The system frees the lock when its holder ends, however it ends, so there are no stale locks. Where there are no
    locks (some network file systems) or the other holder does not finish, the block runs without: what it writes must
    be safe anyway.

    Args:
        path: File to lock; made if it is not there, and left there.
        patience: Seconds to wait for another holder.

    Yields:
        Whether the lock is held.

    Raises:
        OSError: The file cannot be made.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        held, end, logged = False, time.monotonic() + patience, False
        try:
            while not (held := _try_lock(handle)) and time.monotonic() < end:
                if not logged:
                    _log.info("waiting for another process that holds %s", path)
                    logged = True
                time.sleep(_POLL)
        except OSError as error:
            _log.debug("no lock on %s: %s", path, error)
        yield held
    finally:
        os.close(handle)
