"""Claims of runs on queries, by which several runs on one store share them: none evaluates what another one does.

A run claims the queries that it evaluates, until their predictions are stored. Another run that needs some of them, in
this process or another one, takes others meanwhile. Claims change nothing but who evaluates a query.

A claim is a lock of the operating system on one byte of the file ``STORE-claims``, which has no content. The digest of
the query and of the model says which byte. So a claim ends with its process, however that ends, and needs no clock. The
file is removed when the last run on the store ends.

Where the system has no such locks (Windows, some file systems), nothing is claimed between processes: two runs then may
evaluate the same queries, and the store keeps the first prediction.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from StaICC.inference.prompt_key import PromptKey

try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _locks: ModuleType | None = None
else:
    _locks = _fcntl

_BYTES_OF_DIGEST = 7
"""Bytes of a digest that say which byte of the file is that of a query. Two queries of one byte exclude each other."""
_PRESENCE = 1 << 62
"""The byte that each process locks, together with others, while it has the file open."""
_ATTEMPTS = 10


class _ClaimsFile:
    """The file of claims of one store, which this process has open. Several runs of the process may lock bytes of it.

    Each query has one byte of the file, and a run that evaluates the query has locked this byte. The locks of the
    operating system exclude other processes only. So this object also notes which run of this process has locked which
    byte.
    """

    def __init__(self, path: Path) -> None:
        """Open the file. If that fails, the claims of this process exclude each other, but no other process."""
        self.path = path
        self.users = 0
        """The number of runs that use this object."""
        self.owners: dict[int, object] = {}
        """The positions of the bytes that this process has locked, each with the :class:`Claims` of its run."""
        self._file: int | None = None
        if _locks is not None:
            with contextlib.suppress(OSError):  # such as a file system without locks
                self._file = _open_and_lock_presence(path)

    def take(self, positions: Iterable[int], owner: object) -> bool:
        """Lock the bytes of some queries for a run: all of them, or none if another run has locked one.

        Args:
            positions: The position of each query's byte in the file. Bytes that the run has locked before stay locked.
            owner: The :class:`Claims` of the run, by which the runs of this process are distinguished.

        Returns:
            Whether the run has locked them all.
        """
        newly_locked: list[int] = []
        for position in sorted(positions):  # in one order, so that of two runs one gets all
            owner_in_this_process = self.owners.get(position)
            if owner_in_this_process is owner:
                continue
            is_free = owner_in_this_process is None and self._lock(position)
            if not is_free:
                self.release(newly_locked, owner)
                return False
            self.owners[position] = owner
            newly_locked.append(position)
        return True

    def release(self, positions: Iterable[int], owner: object) -> None:
        """Unlock the bytes of some queries, if they were locked for this run; arguments as for :meth:`take`."""
        for position in positions:
            if self.owners.get(position) is not owner:
                continue
            del self.owners[position]
            if _locks is not None and self._file is not None:
                with contextlib.suppress(OSError):
                    _locks.lockf(self._file, _locks.LOCK_UN, 1, position)

    def _lock(self, position: int) -> bool:
        """Lock the byte at a position against other processes; return whether none of them has locked it before."""
        if _locks is None or self._file is None:
            return True
        try:
            _locks.lockf(self._file, _locks.LOCK_EX | _locks.LOCK_NB, 1, position)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # no locks here: other processes cannot claim anything, either
            return True
        return True

    def close(self) -> None:
        """Close the file, and remove it if no other process has it open."""
        if _locks is None or self._file is None:
            return
        with contextlib.suppress(OSError):  # another process has it open
            _locks.lockf(self._file, _locks.LOCK_EX | _locks.LOCK_NB, 1, _PRESENCE)
            self.path.unlink()
        os.close(self._file)


def _open_and_lock_presence(path: Path) -> int:
    """Open the file of claims, and return its descriptor.

    Each process that has the file open shares a lock of one byte, which says so (:data:`_PRESENCE`). A process that is
    the only one left locks this byte for itself, and removes the file. If that happens while the file is opened here,
    it is made and opened again.

    Args:
        path: The file; it is made if it is not there.

    Raises:
        OSError: It cannot be opened or locked.
    """
    assert _locks is not None
    for _ in range(_ATTEMPTS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            _locks.lockf(descriptor, _locks.LOCK_SH | _locks.LOCK_NB, 1, _PRESENCE)
            was_removed = os.fstat(descriptor).st_nlink == 0
            if not was_removed:
                return descriptor
        except (BlockingIOError, PermissionError):  # another process removes it just now
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(f"{path} is removed again and again")


_FILES: dict[Path, _ClaimsFile] = {}
"""The open files of this process, by path. Closing one would release all locks of the process on it."""
_CHANGING = threading.Lock()


def _forget_claims_of_parent() -> None:
    """Begin without claims in a forked process: those of its parent are the parent's, as the system's locks are."""
    global _CHANGING
    _CHANGING = threading.Lock()  # another thread of the parent may have held it
    _FILES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_claims_of_parent)


class Claims:
    """The claims of one run on queries.

    Args:
        path: The file of the claims, next to the store.
        digest: Returns the digest of a query and its model.

    Example:
        >>> import hashlib, tempfile
        >>> def digest(query):
        ...     return hashlib.sha256(query[0].encode()).digest()
        >>> queries = [(f"prompt {number}", ("no", "yes")) for number in range(3)]
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name, "run.sqlite-claims")
        >>> with Claims(path, digest) as first_run, Claims(path, digest) as second_run:
        ...     first_run.take(queries[:2]), second_run.take(queries[1:]), second_run.take(queries[2:])
        (True, False, True)
        >>> folder.cleanup()
    """

    def __init__(self, path: Path, digest: Callable[[PromptKey], bytes]) -> None:
        """Begin without claims. All runs of this process on one store share one open file."""
        self._path = path
        self._digest = digest
        self._closed = False
        with _CHANGING:
            if path not in _FILES:
                _FILES[path] = _ClaimsFile(path)
            self._file = _FILES[path]
            self._file.users += 1

    def take(self, queries: Sequence[PromptKey]) -> bool:
        """Claim queries.

        Returns:
            Whether they are claimed now; ``False`` if another run has a claim on one of them, and then none is.
        """
        positions = {self._position(query) for query in queries}
        with _CHANGING:
            return self._file.take(positions, self)

    def release(self, queries: Sequence[PromptKey]) -> None:
        """Give up the claims on queries, so that other runs may evaluate them."""
        positions = {self._position(query) for query in queries}
        with _CHANGING:
            self._file.release(positions, self)

    def _position(self, query: PromptKey) -> int:
        """Return the position of a query's byte in the file of claims."""
        return int.from_bytes(self._digest(query)[:_BYTES_OF_DIGEST], "big")

    def close(self) -> None:
        """Give up all claims. Closing twice is no error."""
        with _CHANGING:
            if self._closed:
                return
            self._closed = True
            self._file.release(list(self._file.owners), self)
            self._file.users -= 1
            if self._file.users == 0:
                del _FILES[self._path]
                self._file.close()

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
