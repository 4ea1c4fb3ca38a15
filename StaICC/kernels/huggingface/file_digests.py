"""SHA-256 of files, remembered until the file changes.

A digest is remembered by path, size, modification time, change time, inode and device, in this process and in a file
of the library's cache folder. A file that changed within the last two seconds is hashed again: another change may fall
into the same tick of the clock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from StaICC.datasets.pack import data_home
from StaICC.datasets.storage import file_digest, write_beside
from StaICC.errors import StaICCError

SETTLED = 2_000_000_000
"""Nanoseconds without a change after which a digest is remembered."""
REMEMBERED = 1000
"""Most digests kept in the cache file; the oldest are dropped."""
LEAST_REMEMBERED = 1 << 20
"""Smaller files are remembered in this process only."""

_known: dict[str, list[int | str]] = {}
_lock = threading.Lock()


def _cache_file() -> Path:
    return data_home() / "models" / "digests.json"


def _read_cache() -> dict[str, list[int | str]]:
    try:
        found = json.loads(_cache_file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError, StaICCError):
        return {}
    return found if isinstance(found, dict) else {}


def _stamp(path: Path) -> list[int | str]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]


def _remembered(name: str, stamp: list[int | str]) -> str | None:
    with _lock:
        if name not in _known and stamp[0] >= LEAST_REMEMBERED:  # type: ignore[operator]
            entry = _read_cache().get(name)
            if isinstance(entry, list) and len(entry) == len(stamp) + 1:
                _known[name] = entry
        entry = _known.get(name)
    return str(entry[-1]) if entry is not None and entry[:-1] == stamp else None


def _remember(name: str, stamp: list[int | str], digest: str) -> None:
    with _lock:
        _known[name] = [*stamp, digest]
        if stamp[0] < LEAST_REMEMBERED:  # type: ignore[operator]
            return
        with contextlib.suppress(OSError, StaICCError):  # without the file, the next process hashes again
            found = _read_cache()
            found.pop(name, None)
            found[name] = _known[name]
            path = _cache_file()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_beside(path, [json.dumps(dict(list(found.items())[-REMEMBERED:])).encode("utf-8", "surrogatepass")])


def digest_of_file(path: Path | str) -> str:
    """SHA-256 of all bytes of a file, in hexadecimal; remembered while the file is unchanged.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read.
    """
    path = Path(path).resolve()
    name, stamp = str(path), _stamp(path)
    if (known := _remembered(name, stamp)) is not None:
        return known
    began = time.time_ns()
    digest = file_digest(path)
    if _stamp(path) == stamp and began - max(int(stamp[1]), int(stamp[2])) > SETTLED:
        _remember(name, stamp, digest)
    return digest


def digest_of_files(files: Sequence[Path], folder: Path) -> str:
    """SHA-256 over the names and contents of files, in hexadecimal.

    Args:
        files: The files.
        folder: Where they are; names are relative to it, and the folder's own does not matter.
    """
    ordered = sorted(files)
    with ThreadPoolExecutor(min(len(ordered), os.cpu_count() or 1) or 1) as pool:
        digests = list(pool.map(digest_of_file, ordered))
    lines = [f"{path.relative_to(folder).as_posix()} {digest}\n" for path, digest in zip(ordered, digests, strict=True)]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
