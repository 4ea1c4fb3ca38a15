"""Claims of runs on queries, by which several runs on one store share them: none evaluates what another one does.

A run claims a range of its queries while it evaluates them, until their predictions are stored. Another run of the same
queries, in this process or another one, takes others meanwhile. Claims change nothing but who evaluates a query.

A claim is a lock of the operating system on bytes of the file ``STORE-claims``, which has no content. So a claim ends
with its process, however that ends, and needs no clock. The file is removed when the last run on the store ends.

Where the system has no such locks (Windows, some file systems), nothing is claimed: two runs then may evaluate the same
queries, and the store keeps the first prediction.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _locks: ModuleType | None = None
else:
    _locks = _fcntl

_LARGEST_PART = 1 << 22
"""Bytes that each list of queries has in the file: as many queries may be claimed one by one."""
_PRESENCE = 1 << 62
"""The byte that each process locks, together with others, while it has the file open."""
_ATTEMPTS = 10


class _ClaimsFile:
    """The file of one store in this process. Locks exclude other processes only, so it lists those of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self.ranges: list[tuple[int, int, object]] = []
        """First byte, last byte + 1 and owner of the claims of this process."""
        self._file: int | None = None
        if _locks is not None:
            with contextlib.suppress(OSError):  # such as a file system without locks
                self._file = _opened(path)

    def take(self, start: int, stop: int, owner: object) -> bool:
        """Lock a range of bytes; return whether it was free."""
        for other_start, other_stop, _ in self.ranges:
            if start < other_stop and other_start < stop:
                return False
        if _locks is not None and self._file is not None:
            try:
                _locks.lockf(self._file, _locks.LOCK_EX | _locks.LOCK_NB, stop - start, start)
            except (BlockingIOError, PermissionError):
                return False
            except OSError:  # no locks here: nobody can claim anything
                return True
        self.ranges.append((start, stop, owner))
        return True

    def release(self, start: int, stop: int, owner: object) -> None:
        """Unlock a range of bytes, which may be the beginning or the end of a claim."""
        remaining: list[tuple[int, int, object]] = []
        for claimed_start, claimed_stop, claimed_by in self.ranges:
            if claimed_by is not owner or stop <= claimed_start or claimed_stop <= start:
                remaining.append((claimed_start, claimed_stop, claimed_by))
                continue
            if claimed_start < start:
                remaining.append((claimed_start, start, claimed_by))
            if stop < claimed_stop:
                remaining.append((stop, claimed_stop, claimed_by))
        self.ranges = remaining
        if _locks is not None and self._file is not None:
            with contextlib.suppress(OSError):
                _locks.lockf(self._file, _locks.LOCK_UN, stop - start, start)

    def close(self) -> None:
        """Close the file, and remove it if no other process has it open."""
        if _locks is None or self._file is None:
            return
        with contextlib.suppress(OSError):  # another process has it open
            _locks.lockf(self._file, _locks.LOCK_EX | _locks.LOCK_NB, 1, _PRESENCE)
            self.path.unlink()
        os.close(self._file)


def _opened(path: Path) -> int:
    """Open the file and show that this process has it open; again if another process removed it in between.

    Raises:
        OSError: It cannot be opened or locked.
    """
    assert _locks is not None
    for _ in range(_ATTEMPTS):
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            _locks.lockf(file, _locks.LOCK_SH | _locks.LOCK_NB, 1, _PRESENCE)
            if os.fstat(file).st_nlink > 0:
                return file
        except (BlockingIOError, PermissionError):  # another process removes it just now
            pass
        except OSError:
            os.close(file)
            raise
        os.close(file)
    raise OSError(f"{path} is removed again and again")


_FILES: dict[Path, _ClaimsFile] = {}
"""The open files of this process, by path. Closing one would release all locks of the process on it."""
_CHANGING = threading.Lock()


class Claims:
    """The claims of one run on queries of one list.

    Args:
        path: The file of the claims, next to the store.
        origin: Digest of the list of queries and their model. Runs with another list do not see these claims.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name, "run.sqlite-claims")
        >>> with Claims(path, b"Normal") as first_run, Claims(path, b"Normal") as second_run:
        ...     first_run.take(0, 64), second_run.take(63, 80), second_run.take(64, 80)
        (True, False, True)
        >>> folder.cleanup()
    """

    def __init__(self, path: Path, origin: bytes) -> None:
        self._path = path
        self._origin = int.from_bytes(origin[:4], "big") * _LARGEST_PART
        self._closed = False
        with _CHANGING:
            if path not in _FILES:
                _FILES[path] = _ClaimsFile(path)
            self._file = _FILES[path]
            self._file.users += 1

    def take(self, first: int, stop: int) -> bool:
        """Claim queries of the list, from the number ``first`` to before ``stop``.

        Returns:
            Whether they are claimed now; ``False`` if another run has a claim on one of them.
        """
        with _CHANGING:
            return self._file.take(self._origin + first, self._origin + stop, self)

    def release(self, first: int, stop: int) -> None:
        """Give up the claim on queries, so that other runs may evaluate them."""
        with _CHANGING:
            self._file.release(self._origin + first, self._origin + stop, self)

    def close(self) -> None:
        """Give up all claims. Closing twice is no error."""
        with _CHANGING:
            if self._closed:
                return
            self._closed = True
            for start, stop, owner in list(self._file.ranges):
                if owner is self:
                    self._file.release(start, stop, self)
            self._file.users -= 1
            if self._file.users == 0:
                del _FILES[self._path]
                self._file.close()

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
