"""The file under a prediction store: making it, opening it, refusing what is no store, saying what went wrong.

A new file is written under a temporary name and linked when it is complete, so that a kill leaves a complete store or
none. An existing one is opened only after its header, its tables and its structure have been checked.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from StaICC.datasets.storage import flush_folder
from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference.store_format import (
    APPLICATION_ID,
    PAGE_SIZE,
    SCHEMA,
    TABLES,
    Answer,
    BrokenRowError,
    StoreError,
    decode_answer,
    model_digest,
    seal,
)

_INSERT = "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)"
_ONE = "SELECT answer, seal FROM answers WHERE model = ? AND key = ?"

# What SQLite says when the machine, not the file, is at fault.
_ENVIRONMENT = ("locked", "busy", "full", "readonly", "unable to open", "disk i/o error", "permission", "authoriz")


def sibling(path: Path, suffix: str) -> Path:
    """Return the path of an additional file next to the store."""
    return path.with_name(path.name + suffix)


def size_of(path: Path) -> int:
    """The bytes of a file; 0 if it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to, for finding that it leads to another one now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _damaged(path: Path, reason: object) -> SchemaError:
    return SchemaError(
        f"{path}: this prediction store is damaged ({reason}); nothing of it is used. Save its good rows with "
        f"'python -m StaICC store salvage {path} NEW_PATH' and go on with the new file, or delete it to start anew"
    )


@contextlib.contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn what SQLite or the system says into our errors: the file is damaged, or the machine is at fault."""
    try:
        yield
    except BrokenRowError as error:
        raise _damaged(path, error) from None
    except UnicodeDecodeError as error:  # from Python's sqlite3, over a damaged name or message
        raise _damaged(path, error) from error
    except sqlite3.Error as error:
        reason = str(error)
        if "not a database" in reason:
            raise SchemaError(
                f"{path} is not a prediction store ({reason}); give another path, or save what may be good in it with "
                f"'python -m StaICC store salvage {path} NEW_PATH'"
            ) from error
        if isinstance(error, sqlite3.OperationalError) and any(word in reason.lower() for word in _ENVIRONMENT):
            raise StoreError(
                f"{path}: the prediction store cannot be read or written ({reason}); what was stored before is kept. "
                "Free the disk, check the permissions of file and folder, or wait for the other process; then run again"
            ) from error
        raise _damaged(path, reason) from error


def look_at(path: Path) -> None:
    """Refuse a path that cannot be a store, before SQLite makes files there."""
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder; a prediction store is a file, such as {path / 'run.sqlite'}")
    if not path.parent.is_dir():
        raise ArgumentError(f"the folder {path.parent} is not there; make it first, or give another path for the store")
    if path.exists():
        if not path.is_file():
            raise ArgumentError(f"{path} is not a regular file; a prediction store is one")
        if path.stat().st_size == 0:
            raise SchemaError(f"{path} is empty, which no prediction store is; delete it to start anew")
        return
    for suffix in ("-wal", "-shm", "-journal"):
        base = path.with_name(path.name.removesuffix(suffix))
        if base != path and base.exists():
            raise ArgumentError(f"{path} is a file that SQLite keeps next to {base}; give another path for the store")
    left = [file for file in (sibling(path, suffix) for suffix in ("-wal", "-journal")) if size_of(file)]
    if left and not path.exists():  # checked again: another process may have made the store just now
        raise SchemaError(
            f"{path} is not there, but {left[0]} is, left over from a store that was deleted or moved; SQLite would "
            "mix its rows into a new one. Move the store back next to it, or delete it"
        )


def _copy(fresh: Path, path: Path) -> None:
    """Copy a new store to its place; half a copy is taken away again, one of another process stays."""
    with fresh.open("rb") as source, path.open("xb") as target:
        try:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def create(path: Path) -> None:
    """Create an empty store atomically; if another process creates it first, use that one."""
    fresh = sibling(path, f".{secrets.token_hex(8)}.new")
    try:
        connection = sqlite3.connect(fresh, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            for sql in TABLES.values():
                connection.execute(sql)
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            with contextlib.suppress(FileExistsError):
                _copy(fresh, path)
        flush_folder(path.parent)  # the name is on the disk too
    except OSError as error:
        raise StoreError(f"{path}: the prediction store cannot be made ({error}); give another path") from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):  # on a read-only file system, which the error above is about
                sibling(fresh, suffix).unlink(missing_ok=True)


def connect(path: Path, read_only: bool, timeout: float) -> sqlite3.Connection:
    """Open the file, which must be there; nothing is read of it yet."""
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    mode = "?mode=rw" if writable or not read_only else "?mode=ro"
    if not writable and read_only and not size_of(sibling(path, "-wal")):
        mode += "&immutable=1"  # where no log can be made, a file without one is read as it is
    address = path.as_uri() + mode
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes  # a damaged text must not fail in decoding
    return connection


def until_free(connection: sqlite3.Connection, sql: str, timeout: float) -> None:
    """Run a statement for which SQLite does not wait by itself, when two processes open a new store at once."""
    end = time.monotonic() + timeout
    while True:
        try:
            connection.execute(sql)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)


def check(path: Path, connection: sqlite3.Connection, thorough: bool) -> None:
    """Refuse a database that is no store, is of another schema, or is broken."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise SchemaError(
            f"{path} is an SQLite database, but not a prediction store (its application id is {application:#x}, a "
            f"store's is {APPLICATION_ID:#x}); give another path"
        )
    if version > SCHEMA:
        raise SchemaError(
            f"{path} was written by a newer version of StaICC (store schema {version}; this version knows {SCHEMA}); "
            "upgrade with 'pip install --upgrade staicc', or give another path"
        )
    if version != SCHEMA:
        raise _damaged(path, f"there is no store schema {version}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    if tables != {name.encode(): sql.encode() for name, sql in TABLES.items()}:
        raise _damaged(path, "its tables are not those of a store")
    if thorough:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != b"ok":
            raise _damaged(path, verdict.decode("utf-8", "replace"))


def unseal(model: object, key: object, answer: object, mark: object) -> Answer:
    """Decode a row's answer once its seal has proved it."""
    if not (isinstance(model, bytes) and isinstance(key, bytes) and isinstance(answer, bytes)):
        raise BrokenRowError("a row fails its checksum")
    if seal(model, key, answer) != mark:
        raise BrokenRowError("a row fails its checksum")
    return decode_answer(answer)


def insert_rows(connection: sqlite3.Connection, rows: Sequence[tuple[bytes, ...]]) -> dict[tuple[bytes, bytes], bytes]:
    """Insert rows that are not there; returns, by model and key, the answers there that differ from those given."""
    before = connection.total_changes
    connection.executemany(_INSERT, rows)
    kept: dict[tuple[bytes, bytes], bytes] = {}
    if connection.total_changes - before < len(rows):
        for model, key, answer, _ in rows:
            found = connection.execute(_ONE, (model, key)).fetchone()
            if found is None:
                raise BrokenRowError("a row can neither be written nor found")
            unseal(model, key, *found)
            if found[0] != answer:
                kept[model, key] = found[0]
    return kept


def write_name(connection: sqlite3.Connection, model: bytes, fingerprint: str) -> None:
    """Store the fingerprint of a digest, if it is missing or damaged."""
    data = fingerprint.encode("utf-8", "surrogatepass")
    if connection.execute("SELECT fingerprint FROM models WHERE model = ?", (model,)).fetchone() != (data,):
        connection.execute("INSERT OR REPLACE INTO models VALUES (?, ?)", (model, data))


def read_names(connection: sqlite3.Connection) -> dict[bytes, str]:
    """The fingerprints that prove themselves by their digest."""
    names = {}
    for model, data in connection.execute("SELECT model, fingerprint FROM models"):
        with contextlib.suppress(UnicodeDecodeError, AttributeError, ArgumentError):
            fingerprint = data.decode("utf-8", "surrogatepass")
            if model_digest(fingerprint) == model:
                names[model] = fingerprint
    return names
