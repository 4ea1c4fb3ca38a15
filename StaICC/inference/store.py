"""The prediction store: one SQLite file that caches the predictions of all models.

The cache key is the name of the model (:func:`StaICC.inference.model_name.name_in_store`) and the digest of prompt and
label space (:func:`query_key`). Several models, and several processes of one machine, may share a file.

Guarantees
    - :meth:`PredictionStore.put_many` is atomic and durable: when it returns, all its predictions are on the disk; if
      the process is killed before, none is. (One transaction, write-ahead log, ``synchronous = FULL``.)
    - After :meth:`PredictionStore.checkpoint`, which runs call at the end of each part, and after
      :meth:`PredictionStore.close`, the file alone has all predictions. Between the two, newer ones are in the log.
    - A prediction is returned bit for bit, for the model and the query that it was stored for.
    - The first prediction that was stored for a query stays. A different later one is not written.

Errors
    A file that is damaged, is no store, or has another schema: :class:`~StaICC.errors.SchemaError` says which and what
    to do. A store that cannot be read or written (disk full, no permission, locked by another process for too long) is
    a :class:`StoreError`, and loses nothing. A run waits for a locked store (:class:`BoundStore`).

Several threads may use one store object; another process opens the file by itself. SQLite's log needs shared memory, so
the processes must be on one machine: on a cluster the process that collects the predictions writes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from StaICC.errors import ArgumentError, EditionError, OutputError, SchemaError, StaICCError
from StaICC.files.output import is_database
from StaICC.inference.claims import Claims
from StaICC.inference.contract import Answer, Features, ScoredLabels, Served, Text, check_answer
from StaICC.inference.prompt_key import PromptKey, structured_key
from StaICC.safe_text import logger

if TYPE_CHECKING:
    import sqlite3

_LOG = logger(__name__)

SCHEMA = 2
"""Schema number of the file (SQLite's ``user_version``)."""
APPLICATION_ID = 0x53744943
"""Says in the header of an SQLite file that it is a prediction store (the letters "StIC")."""

_TABLES = [
    "CREATE TABLE models (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, editions TEXT NOT NULL DEFAULT '[]')",
    "CREATE TABLE predictions (model INTEGER NOT NULL, query BLOB NOT NULL, prediction NOT NULL, "
    "PRIMARY KEY (model, query)) WITHOUT ROWID",
]
_NO_EDITIONS = "[]"
"""The editions of a model that is not served, as the table has them."""
_KEYS_PER_SELECT = 400
_PAGES_IN_LOG = 8000
"""Pages of 4 KiB in the write-ahead log after which they are moved into the file. SQLite's default, 1000, moves pages
more often that change again soon: nearly each new prediction changes another page, since keys are digests."""
_FRAMED_LABEL_SPACES = 1024
"""The label spaces whose encoding is kept: a run has few, and encodes the one of each query several times."""
_ROWS_PER_MERGE = 10_000
_HEARD_AFTER = 0.2
"""Seconds of one attempt to write to a locked store: Ctrl-C is heard between two attempts."""
_LAST_ATTEMPT = 2.0
"""Seconds for which a run that was interrupted waits for a locked store, before it ends."""
_UNNAMED = "an edition without a name"
_CHANGING = "editions that were allowed to change during a run"
# SQLite's messages when the machine, not the file, is at fault.
_ENVIRONMENT = ("locked", "busy", "full", "readonly", "unable to open", "disk i/o error", "permission", "authoriz")

_Row = tuple[bytes, bytes | str]
_T = TypeVar("_T")


class StoreError(StaICCError, OSError):
    """A store could not be read or written just now (disk full, no permission, locked); what it holds is unharmed."""


class StoreLockedError(StoreError):
    """Another process has locked a store for longer than the timeout."""


def query_key(prompt: str | Sequence[str], label_space: Sequence[str]) -> bytes:
    """Return the digest of a prompt and its label space, by which the predictions of a model are stored.

    Args:
        prompt: The prompt, or for a noisy channel the list of prompts (one per label). A list of one prompt is
            not the same query as that prompt.
        label_space: The labels in order.

    Returns:
        32 bytes. Different queries have different keys: the digest includes the length of each text.

    Raises:
        ArgumentError: The prompt or a label is not a text.

    Example:
        >>> query_key("good film ->", ["yes", "no"]) == query_key("good film ->", ("yes", "no"))
        True
        >>> query_key("good film ->", ["yes", "no"]) == query_key(["good film ->"], ["yes", "no"])
        False
    """
    if isinstance(label_space, str):
        raise ArgumentError(f"the label space must be a sequence of texts, not the single text {label_space!r}")
    try:
        if isinstance(prompt, str):
            message = b"staicc-query-1 one" + _framed(prompt)
        else:
            message = b"staicc-query-1 all" + _framed_list(prompt)
        message += _framed_label_space(tuple(label_space))
    except (AttributeError, TypeError) as error:
        expected = "a prompt (a text, or a list of texts) and a list of labels"
        raise ArgumentError(f"a query: got {prompt!r:.80} and {label_space!r:.80}, expected {expected}") from error
    return hashlib.sha256(message).digest()


def can_be_written(path: str | os.PathLike[str]) -> bool:
    """Return whether the file of a store and its folder can be written, or the file is still to be made."""
    file = Path(path)
    if not file.exists():
        return True
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def refuse_stray_log(path: str | os.PathLike[str]) -> None:
    """Refuse a store that was moved or deleted without its log, which has the newest predictions after a kill.

    Raises:
        SchemaError: There is a log, but no store.
    """
    store = Path(path)
    log = _log_of(store)
    log_has_content = log.exists() and log.stat().st_size > 0
    # Whether the store exists is asked last: another process may have made both files just now.
    if log_has_content and not store.exists():
        raise SchemaError(f"{store} is not there, but its log {log} is. Move the store back, or delete the log")


def _log_of(path: Path) -> Path:
    """Return the write-ahead log that SQLite keeps next to a store in use."""
    return path.with_name(f"{path.name}-wal")


def _framed(text: str) -> bytes:
    """Encode a text with its length in front, so that different lists of texts have different bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data


def _framed_list(texts: Sequence[str]) -> bytes:
    """Encode texts with their number in front."""
    return len(texts).to_bytes(8, "big") + b"".join([_framed(text) for text in texts])


@lru_cache(_FRAMED_LABEL_SPACES)
def _framed_label_space(label_space: tuple[str, ...]) -> bytes:
    """Encode a label space, as :func:`_framed_list` does."""
    return _framed_list(label_space)


# How a row of the table holds label scores: 8 bytes for each score, then one of two groups of facts about the prompt,
# or none. The groups have 12 and 21 bytes, which leave different remainders when divided by 8 (4 and 5). So the size of
# a row says which group it has.
_SIZE_OF_SCORE = 8
_FACTS = struct.Struct("<dI")
"""The label mass (NaN if unknown), and the number of dropped demonstrations."""
_FACTS_OF_SERVER = struct.Struct("<ddI?")
"""The label mass, the mass of tokens without visible text (NaN if unknown), the number of dropped demonstrations, and
whether the prompt is unmeasured."""


def _encode(prediction: Answer) -> bytes | str:
    """Return a prediction as a row of the table holds it.

    Label scores, which are a list of floats, are bytes: those of each score, and then those of what is known of the
    prompt, if the scores are :class:`ScoredLabels`. A reply, a label index and features are a text, their JSON.
    """
    if isinstance(prediction, list):
        encoded_scores = struct.pack(f"<{len(prediction)}d", *prediction)
        if isinstance(prediction, ScoredLabels):
            return encoded_scores + _encode_facts_about_prompt(prediction)
        return encoded_scores
    if isinstance(prediction, Text):
        return _encode_reply(prediction)
    return json.dumps(prediction)


def _encode_facts_about_prompt(scored: ScoredLabels) -> bytes:
    """Return what label scores say of their prompt, such as the label mass, as bytes.

    The shorter form (:data:`_FACTS`) is used unless there is a fact that only scores of a server have.
    """
    label_mass = _nan_if_unknown(scored.label_mass)
    has_facts_of_server = scored.mass_without_text is not None or scored.unmeasured
    if not has_facts_of_server:
        return _FACTS.pack(label_mass, scored.dropped)
    mass_without_text = _nan_if_unknown(scored.mass_without_text)
    return _FACTS_OF_SERVER.pack(label_mass, mass_without_text, scored.dropped, scored.unmeasured)


def _encode_reply(reply: Text) -> str:
    """Return a reply as JSON: its text, or a list of the arguments of :class:`Text` without defaults at the end."""
    if reply.unmeasured:
        return json.dumps([reply, reply.finish_reason, reply.dropped, True])
    if reply.dropped:
        return json.dumps([reply, reply.finish_reason, reply.dropped])
    if reply.finish_reason is not None:
        return json.dumps([reply, reply.finish_reason])
    return json.dumps(reply)


def _decode(stored: bytes | str) -> Answer:
    """Return the prediction of a row of the table.

    Bytes are label scores. A text is JSON: of a text or a list for a reply (the arguments of :class:`Text`), of an
    object for features, and of a number for a label index.
    """
    if isinstance(stored, bytes):
        return _decode_scores(stored)
    value: Any = json.loads(stored)
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, list):
        return Text(*value)
    if isinstance(value, dict):
        return Features(value)
    label_index: int = value
    return label_index


def _decode_scores(stored: bytes) -> list[float]:
    """Return the label scores of a row of the table, with the facts about the prompt that follow them in the row.

    Scores have 8 bytes each, and facts have a size that is no multiple of 8. So what is left after division by 8 says
    which facts there are: none, those of a local model, or those of a server.
    """
    bytes_after_scores = len(stored) % _SIZE_OF_SCORE
    if bytes_after_scores == 0:
        return _numbers(stored)
    if bytes_after_scores == _FACTS_OF_SERVER.size % _SIZE_OF_SCORE:
        scores, facts = stored[: -_FACTS_OF_SERVER.size], stored[-_FACTS_OF_SERVER.size :]
        label_mass, mass_without_text, dropped, unmeasured = _FACTS_OF_SERVER.unpack(facts)
        return ScoredLabels(
            _numbers(scores),
            label_mass=_none_if_unknown(label_mass),
            dropped=dropped,
            mass_without_text=_none_if_unknown(mass_without_text),
            unmeasured=unmeasured,
        )
    scores, facts = stored[: -_FACTS.size], stored[-_FACTS.size :]
    label_mass, dropped = _FACTS.unpack(facts)
    return ScoredLabels(_numbers(scores), label_mass=_none_if_unknown(label_mass), dropped=dropped)


def _numbers(stored: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(stored) // _SIZE_OF_SCORE}d", stored))


def _nan_if_unknown(mass: float | None) -> float:
    return math.nan if mass is None else mass


def _none_if_unknown(mass: float) -> float | None:
    return None if math.isnan(mass) else mass


def _refuse_other_key(key: object) -> None:
    """Refuse a key of the table that is no digest: the file is damaged.

    Raises:
        TypeError: It is of another type.
    """
    if not isinstance(key, bytes):
        raise TypeError(f"a key is of type {type(key).__name__}, expected bytes")


def _encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store holds."""

    path: Path
    """The file."""
    schema: int
    """The schema number of the file."""
    size_bytes: int
    """Bytes on the disk, the write-ahead log included."""
    models: Mapping[str, int]
    """Number of predictions by model name."""

    @property
    def answers(self) -> int:
        """Number of predictions of all models."""
        return sum(self.models.values())


def _single_value(connection: sqlite3.Connection, query: str) -> Any:
    """Return the value of a query that has one row with one value."""
    (value,) = connection.execute(query).fetchone()
    return value


def _table_definitions(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that created the tables, indexes, views and triggers of a database, sorted."""
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    return sorted(statement for (statement,) in rows)


def _is_locked(error: Exception) -> bool:
    """Return whether SQLite could not get a lock, since another process or connection has it."""
    reason = str(error).lower()
    return "locked" in reason or "busy" in reason


def _set_busy_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    """Set how long SQLite itself waits for a lock."""
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")


class _StoredModel(NamedTuple):
    """A model in the table of models."""

    number: int
    """Its number, by which predictions name it."""
    editions: str
    """A JSON list of the editions that served it."""


class _Insertion(NamedTuple):
    """What came of inserting rows into the table."""

    kept: dict[bytes, Answer]
    """By key, the stored predictions that differ from those of the rows, or are the same reply with another ending."""
    added: int
    """Rows that were inserted."""
    present: int
    """Rows whose key had an equal prediction."""
    different: int
    """Rows whose key had a different prediction."""


class MergeReport(NamedTuple):
    """What came of merging another store into this one."""

    added: int
    """Predictions that this store did not have."""
    present: int
    """Predictions that both had, and that were equal."""
    different: int
    """Predictions that both had, and that differed: this store kept its own."""


class PredictionStore(contextlib.AbstractContextManager["PredictionStore"]):
    """A store of predictions, opened or created.

    Args:
        path: The file. Its folder must exist.
        read_only: Open an existing store without changing anything on the disk.
        timeout: Seconds to wait for another process that is writing.

    Attributes:
        timeout: Seconds to wait for another process that is writing.

    Raises:
        ArgumentError: The path is a folder, or its folder does not exist, or a read-only store does not exist.
        SchemaError: The file is not a store, is damaged, or was written by another version.
        StoreError: The file cannot be opened or written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> key = query_key("good film ->", ["yes", "no"])
        >>> with PredictionStore(folder.name + "/run.sqlite") as store:
        ...     _ = store.put_many("model A", [(key, [0.75, 0.25])])
        ...     store.get_many("model A", [key])[key], store.get_many("model B", [key])
        ([0.75, 0.25], {})
        >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False, timeout: float = 60.0) -> None:
        """Open the file, create its tables if it is new, and check what it holds."""
        self.path = Path(os.path.abspath(path))
        self._log = _log_of(self.path)
        self.read_only = read_only
        self.timeout = timeout
        self._lock = threading.RLock()
        """Held by the thread that uses the connection."""
        self._process = os.getpid()
        """The process that opened the store: a connection of SQLite must not be used in a forked one."""
        self._has_warned = False
        """Whether the log says that predictions differ from the stored ones."""
        self._commits = 0
        """Number of commits through this object."""
        self._may_have_log = False
        """Whether something may be in the log, which this process wrote, or one that was killed."""
        self._connection: sqlite3.Connection | None = None
        self._check_path()
        with self._explained_errors():
            import sqlite3

            self._connection = sqlite3.connect(
                self._address(), timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
            )
            try:
                self._prepare(self._connection)
            except BaseException:
                self.close()
                raise
        self._may_have_log = not read_only
        self._file = self._file_id()
        """Which file the path led to, so that a file that replaces it is noticed."""

    def _check_path(self) -> None:
        """Refuse a path that cannot be a store, before SQLite creates files."""
        path = self.path
        if path.is_dir():
            raise ArgumentError(f"store: got the folder {path}, expected a file in it, such as {path / 'run.sqlite'}")
        if not path.parent.is_dir():
            raise ArgumentError(
                f"store: got {path}, but there is no folder {path.parent}. Make it, or name another one"
            )
        if path.name.endswith(("-wal", "-shm", "-journal", "-claims")):
            raise ArgumentError(f"{path} has the name of a file that is kept next to a store; give another path")
        if not path.exists():
            refuse_stray_log(path)
            if self.read_only:
                raise ArgumentError(f"there is no prediction store at {path}")
            return
        if not path.is_file():
            raise ArgumentError(f"{path} is not a regular file; a prediction store is one")
        is_empty = path.stat().st_size == 0
        if not is_empty and not is_database(path):  # SQLite would overwrite a file of one character
            raise SchemaError(f"{path} is not a prediction store; give another path")

    def _address(self) -> str:
        """Return the URI of the file, with the mode in which SQLite opens it."""
        address = self.path.as_uri()
        if not self.read_only:
            return f"{address}?mode=rwc"
        if can_be_written(self.path):
            return f"{address}?mode=rw"
        if self._log.exists():
            return f"{address}?mode=ro"
        # SQLite would make a log, which it cannot here.
        return f"{address}?mode=ro&immutable=1"

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables of a new file; refuse a file that is no store, has another schema, or is damaged."""
        with connection:
            connection.execute("BEGIN")  # another process may be creating the tables
            application = _single_value(connection, "PRAGMA application_id")
            schema = _single_value(connection, "PRAGMA user_version")
            tables = _table_definitions(connection)
        if application == 0 and schema == 0 and not tables:
            self._create_tables(connection)
        elif application != APPLICATION_ID:
            raise SchemaError(f"{self.path} is an SQLite database, but not a prediction store; give another path")
        elif schema != SCHEMA:
            raise self._other_schema(schema)
        connection.execute("PRAGMA trusted_schema = OFF")
        self._check_content(connection)
        if self.read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            self._use_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_IN_LOG}")

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        """Make a store of an empty file.

        Raises:
            SchemaError: The store is read-only.
        """
        if self.read_only:
            raise SchemaError(f"{self.path} is empty; run again to make the store, or delete it")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if not _table_definitions(connection):  # else another process was faster
                for statement in _TABLES:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _other_schema(self, schema: int) -> SchemaError:
        """Return the error that says which version wrote the file, and what to do."""
        if schema < SCHEMA:
            writer = "an earlier state of 1.0.0"
            remedy = "Run again with another path"
        else:
            writer = "a newer version of StaICC"
            remedy = "Use that version, or give another path"
        schemas = f"(store schema {schema}; this version reads {SCHEMA})"
        return SchemaError(f"{self.path} was written by {writer} {schemas}. {remedy}")

    def _check_content(self, connection: sqlite3.Connection) -> None:
        """Refuse a damaged file: other tables, damaged pages, or names and editions that no store has."""
        if _table_definitions(connection) != sorted(_TABLES):
            raise self._damaged("its tables, indexes, views or triggers are not those of a store")
        verdict = _single_value(connection, "PRAGMA quick_check(1)")
        if verdict != "ok":
            raise self._damaged(verdict)
        try:
            for name, editions in connection.execute("SELECT name, editions FROM models"):
                _decode_name(name)
                json.loads(editions)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"no model is stored like this: {error}") from error

    def _use_log(self, connection: sqlite3.Connection) -> None:
        """Set the file to write-ahead logging, after waiting for a process that does the same.

        Other than elsewhere, SQLite does not wait by itself here when two processes open a new store at once.
        """
        import sqlite3

        end = time.monotonic() + self.timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _damaged(self, reason: object) -> SchemaError:
        advice = f"Recover its rows (sqlite3 {self.path} .recover | sqlite3 NEW_PATH), or delete it"
        return SchemaError(f"{self.path}: this prediction store is damaged ({reason}); nothing of it is used. {advice}")

    @contextlib.contextmanager
    def _explained_errors(self) -> Iterator[None]:
        """Raise an error of SQLite as one of this library: the file is damaged, or the machine is at fault."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            reason = str(error)
            names_the_machine = any(word in reason.lower() for word in _ENVIRONMENT)
            machine_is_at_fault = isinstance(error, sqlite3.OperationalError) and names_the_machine
            if not machine_is_at_fault:
                raise self._damaged(reason) from error
            error_type = StoreLockedError if _is_locked(error) else StoreError
            raise error_type(
                f"{self.path}: the prediction store cannot be read or written ({reason}); what was stored before is "
                "kept. Check disk, permissions and other processes, then run again"
            ) from error

    def _file_id(self) -> tuple[int, int] | None:
        """Return which file the path leads to now."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextlib.contextmanager
    def _exclusive_connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection to the file, which one thread at a time may use: others wait for the end of the block.

        Raises:
            ArgumentError: The store was closed, or was opened by another process.
            SchemaError: SQLite says within the block that the file is damaged.
            StoreError: SQLite cannot read or write the file within the block.
        """
        if self._process != os.getpid():
            raise ArgumentError(f"{self.path}: this store was opened by another process; open it again in this one")
        with self._lock:
            if self._connection is None:
                raise ArgumentError(f"{self.path}: this store was closed; open it again with PredictionStore(path)")
            with self._explained_errors():
                yield self._connection

    @contextlib.contextmanager
    def _transaction(self, timeout: float | None = None) -> Iterator[sqlite3.Connection]:
        """Yield the connection for a transaction: what is written in the block is committed at its end, all or nothing.

        Args:
            timeout: Seconds to wait for another process that is writing; by default, those of the store.

        Raises:
            ArgumentError: The store is read-only.
            StoreError: The file was replaced since it was opened, or cannot be written.
        """
        if self.read_only:
            raise ArgumentError(f"{self.path}: this store was opened read-only; open it without read_only to write")
        with self._exclusive_connection() as connection:
            if self._file_id() != self._file:
                raise StoreError(f"{self.path} was deleted, moved or replaced while it was in use; bring it back")
            if timeout is None:
                timeout = self.timeout
            # Commits or rolls back, also after an interrupt while it waited for another process.
            with connection:
                self._begin_transaction(connection, timeout)
                self._may_have_log = True
                yield connection

    def _begin_transaction(self, connection: sqlite3.Connection, timeout: float) -> None:
        """Begin a transaction that writes, after waiting for another process that is writing.

        It waits in short attempts, since SQLite does not hear Ctrl-C while it waits by itself.

        Args:
            connection: The connection to the file.
            timeout: The most seconds to wait.

        Raises:
            sqlite3.OperationalError: The other process still writes.
        """
        import sqlite3

        end = time.monotonic() + timeout
        _set_busy_timeout(connection, min(_HEARD_AFTER, timeout))
        try:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not _is_locked(error) or time.monotonic() >= end:
                        raise
        finally:
            _set_busy_timeout(connection, self.timeout)

    def checkpoint(self) -> None:
        """Move what was written from the log into the file, so that the file alone has it.

        Nothing depends on it: the log is read together with the file. So other processes that read or write are not
        waited for, and an error, such as a full disk, is none of the caller's. What stays in the log is moved by the
        next checkpoint, of this process or another.
        """
        import sqlite3

        if self._connection is None or not self._may_have_log:
            return
        with self._exclusive_connection() as connection:
            _set_busy_timeout(connection, 0)
            try:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._may_have_log = bool(busy)
            except sqlite3.Error as error:
                _LOG.debug("%s: no checkpoint (%s)", self.path, error)
            finally:
                _set_busy_timeout(connection, self.timeout)

    def refuse_read_only(self) -> None:
        """Refuse to store predictions that are still to be computed, before they are.

        Raises:
            ArgumentError: The store is read-only.
        """
        if self.read_only:
            raise ArgumentError(
                f"{self.path} lacks predictions of this run, and it is read-only. Copy the store to a folder that can "
                "be written, and give the path of the copy"
            )

    def version(self) -> tuple[int, int]:
        """Return numbers that change when predictions are stored: by others, and through this object."""
        with self._exclusive_connection() as connection:
            (by_others,) = connection.execute("PRAGMA data_version").fetchone()
        return by_others, self._commits

    def _model(self, connection: sqlite3.Connection, name: bytes) -> _StoredModel:
        """Return a model of the table; it is added if it is new."""
        connection.execute("INSERT OR IGNORE INTO models (name) VALUES (?)", (name,))
        number, editions = connection.execute("SELECT id, editions FROM models WHERE name = ?", (name,)).fetchone()
        return _StoredModel(number, editions)

    def get_many(self, name: str, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Look up predictions of one model.

        Args:
            name: The name of the model (:func:`StaICC.inference.model_name.name_in_store`).
            keys: Keys made by :func:`query_key`, in any order and number.

        Returns:
            The stored predictions by key, without the keys that have none.

        Raises:
            ArgumentError: The store is closed.
            SchemaError: The file is damaged.
            StoreError: The file cannot be read.
        """
        predictions: dict[bytes, Answer] = {}
        select = "SELECT query, prediction FROM predictions WHERE model = (SELECT id FROM models WHERE name = ?)"
        stored_name = _encode_name(name)
        with self._exclusive_connection() as connection:
            for first in range(0, len(keys), _KEYS_PER_SELECT):
                selected_keys = keys[first : first + _KEYS_PER_SELECT]
                placeholders = ", ".join("?" * len(selected_keys))
                rows = connection.execute(f"{select} AND query IN ({placeholders})", (stored_name, *selected_keys))
                predictions.update(self._decoded(rows))
        return predictions

    def _decoded(self, rows: Iterable[_Row]) -> Iterator[tuple[bytes, Answer]]:
        """Yield the key and the prediction of each row of the table."""
        for key, stored in rows:
            try:
                _refuse_other_key(key)
                yield key, _decode(stored)
            except (ValueError, TypeError, RecursionError, struct.error) as error:
                raise self._damaged(f"no prediction is stored like this: {error}") from error

    def put_many(
        self, name: str, items: Iterable[tuple[bytes, Answer]], timeout: float | None = None
    ) -> dict[bytes, Answer]:
        """Store predictions of one model, all of them or none.

        Args:
            name: The name of the model (:func:`StaICC.inference.model_name.name_in_store`).
            items: Keys made by :func:`query_key`, each with its prediction.
            timeout: Seconds to wait for another process that is writing; by default, those of the store.

        Returns:
            For the keys that had a different prediction already, or the same reply with another ending: what was
            kept. Nearly always empty.

        Raises:
            ArgumentError: The store is closed or read-only. Nothing is stored.
            SchemaError: The file is damaged. Nothing is stored.
            StoreError: The file cannot be written (disk full, locked, ...). Nothing is stored.
        """
        rows = [(key, _encode(prediction)) for key, prediction in items]
        with self._transaction(timeout) as connection:
            model = self._model(connection, _encode_name(name))
            insertion = self._insert(connection, model.number, rows)
            self._commits += 1
        if insertion.different and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                f"{self.path}: the model {name!r} predicted {insertion.different} queries differently before; the "
                "first predictions are kept. Either it is not deterministic, or two models have one name. (Said once.)"
            )
        return insertion.kept

    def _insert(self, connection: sqlite3.Connection, model: int, rows: Sequence[_Row]) -> _Insertion:
        """Insert rows of a model whose keys have no prediction yet, and compare the others with what is stored.

        Args:
            connection: The store, open for writing.
            model: The number of the model.
            rows: Keys and encoded predictions.
        """
        changes_before = connection.total_changes
        connection.executemany(f"INSERT OR IGNORE INTO predictions VALUES ({model}, ?, ?)", rows)
        added = connection.total_changes - changes_before
        if added == len(rows):
            return _Insertion({}, added, present=0, different=0)

        # Some keys were stored before. Each row is compared with what is stored now.
        kept: dict[bytes, Answer] = {}
        different_keys = set()
        select = f"SELECT query, prediction FROM predictions WHERE model = {model} AND query = ?"
        for new_row in rows:
            key, _ = new_row
            stored_row = connection.execute(select, (key,)).fetchone()
            if stored_row == new_row:
                continue
            (_, stored_prediction), (_, new_prediction) = self._decoded([stored_row, new_row])
            kept[key] = stored_prediction
            # Equal replies may differ in how they ended.
            if stored_prediction != new_prediction:
                different_keys.add(key)
        different = len(different_keys)
        present = len(rows) - added - different
        return _Insertion(kept, added, present, different)

    def remove(self, name: str, keys: Iterable[bytes], timeout: float | None = None) -> int:
        """Remove predictions of one model; return how many of the keys were stored. Arguments as for put_many."""
        rows = [(_encode_name(name), key) for key in keys]
        with self._transaction(timeout) as connection:
            before = connection.total_changes
            connection.executemany(
                "DELETE FROM predictions WHERE model = (SELECT id FROM models WHERE name = ?) AND query = ?", rows
            )
            return connection.total_changes - before

    def add_edition(self, name: str, edition: str, allowed: bool) -> list[str]:
        """Record an edition of a served model: the version of the model that its server names in its responses.

        It is the edition that makes the next predictions. If other editions made the stored ones, it is recorded only
        if that is allowed.

        Args:
            name: The name of the model.
            edition: The edition that its server names now.
            allowed: Whether it is recorded even if other editions are.

        Returns:
            The other editions that were recorded before.
        """
        if self.read_only:
            recorded = self._editions(name)
            if edition in recorded:  # there is nothing to write
                return [other for other in recorded if other != edition]
        with self._transaction() as connection:
            model = self._model(connection, _encode_name(name))
            editions: list[str] = json.loads(model.editions)
            others = [other for other in editions if other != edition]
            may_be_added = allowed or not others
            if edition not in editions and may_be_added:
                editions.append(edition)
                connection.execute("UPDATE models SET editions = ? WHERE id = ?", (json.dumps(editions), model.number))
        return others

    def _editions(self, name: str) -> list[str]:
        """Return the editions that :meth:`add_edition` recorded for a model; none if the store lacks the model."""
        with self._exclusive_connection() as connection:
            rows = connection.execute("SELECT editions FROM models WHERE name = ?", (_encode_name(name),)).fetchall()
        editions: list[str] = []
        for (text,) in rows:
            editions += json.loads(text)
        return editions

    def info(self) -> StoreInfo:
        """Count what is in the store.

        Raises:
            SchemaError: The file is damaged.
            StoreError: The file cannot be read.
        """
        with self._exclusive_connection() as connection:
            counts = connection.execute(
                "SELECT name, COUNT(query) FROM models LEFT JOIN predictions ON model = id GROUP BY id ORDER BY name"
            ).fetchall()
        files = [file for file in (self.path, self._log) if file.exists()]
        return StoreInfo(
            self.path,
            schema=SCHEMA,
            size_bytes=sum(file.stat().st_size for file in files),
            models={_decode_name(name): count for name, count in counts},
        )

    def export(self, stream: TextIO) -> int:
        """Write all predictions as JSON Lines, in the order of models and keys.

        Each line is an object with ``fingerprint`` (the name of the model), ``key`` and ``answer``, for a reply also
        ``finish_reason`` (null: unknown). Floats are written with the shortest text that reads back as the same 64
        bits, minus infinity as the text ``"-inf"``.

        Returns:
            The number of lines.

        Raises:
            SchemaError: The file is damaged.
            StoreError: The file cannot be read.
        """
        line_count = 0
        with self._exclusive_connection() as connection:
            for model, name in connection.execute("SELECT id, name FROM models ORDER BY name"):
                rows = connection.execute(f"SELECT query, prediction FROM predictions WHERE model = {model}")
                for key, prediction in self._decoded(rows):
                    line = _exported(_decode_name(name), key, prediction)
                    stream.write(json.dumps(line, allow_nan=False) + "\n")
                    line_count += 1
        return line_count

    def merge(self, other: str | os.PathLike[str]) -> MergeReport:
        """Copy into this store what another one holds, all of it or nothing.

        Args:
            other: Path of the other store, which is only read.

        Raises:
            ArgumentError: The other does not exist, or is this store itself.
            SchemaError: One of the two is damaged, no store, or has another schema.
            StoreError: The other cannot be read, or this one not be written, or both have predictions of one served
                model in different editions.
        """
        with contextlib.suppress(OSError):
            if os.path.samefile(other, self.path):
                raise ArgumentError(f"{self.path}: a store cannot be merged into itself; give the path of another one")
        added = 0
        present = 0
        different = 0
        source = PredictionStore(other, read_only=True, timeout=self.timeout)
        with source, source._exclusive_connection() as reading, self._transaction() as connection:
            for source_model, name, editions in reading.execute("SELECT id, name, editions FROM models"):
                model = self._merge_model(connection, name, editions)
                cursor = reading.execute(f"SELECT query, prediction FROM predictions WHERE model = {source_model}")
                while rows := cursor.fetchmany(_ROWS_PER_MERGE):
                    insertion = self._insert(connection, model, rows)
                    added += insertion.added
                    present += insertion.present
                    different += insertion.different
        return MergeReport(added, present, different)

    def _merge_model(self, connection: sqlite3.Connection, name: bytes, editions: str) -> int:
        """Add a model of another store to this one, if it is new here, and return its number here.

        Its editions (the versions that its server named) are those of the store that has some.

        Args:
            connection: This store, open for writing.
            name: The name of the model.
            editions: Its editions in the other store, as the JSON list of the table.

        Raises:
            StoreError: Both stores have editions of the model, and not the same ones.
        """
        model = self._model(connection, name)
        has_editions_here = model.editions != _NO_EDITIONS
        has_editions_there = editions != _NO_EDITIONS
        if not has_editions_here:
            connection.execute("UPDATE models SET editions = ? WHERE id = ?", (editions, model.number))
        elif has_editions_there and editions != model.editions:
            raise StoreError(
                f"{self.path}: this store has predictions of {_decode_name(name)!r} in the editions {model.editions}, "
                f"the other in {editions}. Keep the stores apart"
            )
        return model.number

    def close(self) -> None:
        """Close the file. A closed store cannot be used again; closing twice is no error."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                # SQLite does it only where no other process has the store open.
                self.checkpoint()
                self._connection.close()
                self._connection = None

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PredictionStore({str(self.path)!r})"


def _exported(name: str, key: bytes, prediction: Answer) -> dict[str, Any]:
    """Return a line of :meth:`PredictionStore.export` as a dictionary: a prediction with its model and its key.

    Args:
        name: The name of the model.
        key: The digest of the query.
        prediction: The prediction.
    """
    line: dict[str, Any] = {"answer": prediction, "fingerprint": name, "key": key.hex()}
    if isinstance(prediction, list):
        line["answer"] = _without_infinity(prediction)
    if isinstance(prediction, Text):
        line["finish_reason"] = prediction.finish_reason
    return line


def _without_infinity(scores: Sequence[float]) -> list[float | str]:
    """Return label scores as JSON can hold them: with the text ``"-inf"`` in place of minus infinity."""
    written: list[float | str] = []
    for score in scores:
        written.append("-inf" if score == -math.inf else score)
    return written


def _is_handling_interrupt() -> bool:
    """Return whether this is called in a ``finally`` clause after Ctrl-C, in which a run stores what it has."""
    return isinstance(sys.exc_info()[1], KeyboardInterrupt)


class BoundStore:
    """One inference function's predictions in a store, by query.

    A run does not lose predictions because another process has locked the store: writing is tried until the lock ends
    or the user ends the run, with a message in the log each time that the timeout of the store is over.

    Args:
        store: The store.
        name: See :func:`~StaICC.inference.model_name.name_in_store`.
        with_parts: Whether the function reads the parts of prompts, which are part of the cache key then.
    """

    def __init__(self, store: PredictionStore, name: str, with_parts: bool = False) -> None:
        """Bind the store to one inference function; nothing is read or written yet."""
        self.store = store
        self.name = name
        self._with_parts = with_parts
        self._written: set[bytes] = set()
        """Keys of the predictions that were stored through this object."""
        self._commits = 0
        """Number of commits through this object."""
        self._was_interrupted = False
        """Whether the user interrupted the run (Ctrl-C): it waits for a lock for a short time only."""
        self._reported_loss = 0
        """The number of predictions of which the log says that they were not stored."""

    def version(self) -> object:
        """Return a value that changes when another run, or another model of this run, stores predictions."""
        by_others, commits = self.store.version()
        return by_others, commits - self._commits

    def claims(self) -> Claims:
        """Return the claims of a new run on queries of this model, without any claim yet.

        A claim says that a run computes the prediction for a query now. Other runs on this store see it, and wait for
        the prediction instead of computing it, too. It is about a query and a model, since a store has many models.
        """
        digest_of_model = hashlib.sha256(_encode_name(self.name)).digest()

        def digest_of_query(query: PromptKey) -> bytes:
            return hashlib.sha256(digest_of_model + self._key(query)).digest()

        # Several paths may lead to the store. The resolved one gives all of them one file of claims.
        store_file = self.store.path.resolve()
        claims_file = store_file.with_name(f"{store_file.name}-claims")
        return Claims(claims_file, digest_of_query)

    def get_many(self, queries: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the cached predictions."""
        query_by_key = {self._key(query): query for query in queries}
        stored = self.store.get_many(self.name, list(query_by_key))
        return self._checked(query_by_key, stored)

    def put_many(self, predictions: Iterable[tuple[PromptKey, Answer]]) -> dict[PromptKey, Answer]:
        """Store predictions; they are on the disk when this returns.

        Returns:
            Predictions that another process stored earlier and that differ. They stay in the store, and the run uses
            them, so that its result equals that of the next run.
        """
        query_by_key: dict[bytes, PromptKey] = {}
        prediction_by_key: dict[bytes, Answer] = {}
        for query, prediction in predictions:
            key = self._key(query)
            query_by_key[key] = query
            prediction_by_key[key] = prediction
        # Noted before they are written, since an interrupt may come right after they are on the disk.
        self._written.update(prediction_by_key)
        write = partial(self.store.put_many, self.name, prediction_by_key.items())
        stored_by_others = self._write_when_unlocked(write, count=len(prediction_by_key))
        self._commits += 1
        self._written.difference_update(stored_by_others)
        return self._checked(query_by_key, stored_by_others)

    def refuse_read_only(self) -> None:
        """Refuse a store that cannot be written, before predictions are computed for it."""
        self.store.refuse_read_only()

    def _key(self, query: PromptKey) -> bytes:
        """Return the cache key of a query."""
        if self._with_parts:
            query = structured_key(query)
        prompt, label_space = query
        return query_key(prompt, label_space)

    def remove_written(self) -> int:
        """Remove the predictions that were stored through this object; return their number."""
        if not self._written:
            return 0
        remove = partial(self.store.remove, self.name, self._written)
        removed = self._write_when_unlocked(remove, count=len(self._written))
        self.store.checkpoint()  # a copy of the file alone must not have them either
        return removed

    def _write_when_unlocked(self, write: Callable[[float], _T], count: int) -> _T:
        """Call a function that writes to the store until the store is not locked, and return what it returns.

        Ctrl-C ends the waiting. The function is then called once more, with a short timeout, so that an interrupted run
        loses no predictions where the lock has just ended.

        Args:
            write: Writes predictions, or removes some, all or none. Its argument is the number of seconds for which it
                waits for a locked store, before it raises :class:`StoreLockedError`.
            count: The number of predictions, for messages.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl-C here, or before and the store is still locked. If the predictions
                were not written, the log says so.
        """
        if _is_handling_interrupt():
            self._was_interrupted = True
        interrupt: KeyboardInterrupt | None = None
        while not self._was_interrupted:
            try:
                return write(self.store.timeout)
            except StoreLockedError:
                _LOG.warning(
                    f"{self.store.path}: another process has locked this prediction store for more than "
                    f"{self.store.timeout:g} s. The run waits, with {count} predictions that are still to be written; "
                    "Ctrl-C ends it without them"
                )
            except KeyboardInterrupt as error:
                self._was_interrupted = True
                interrupt = error

        if interrupt is None:  # the interrupt came before this call, and is raised when the call ends
            return self._write_after_interrupt(write, count, KeyboardInterrupt())
        self._write_after_interrupt(write, count, interrupt)
        raise interrupt

    def _write_after_interrupt(self, write: Callable[[float], _T], count: int, interrupt: KeyboardInterrupt) -> _T:
        """Call a function that writes to the store once, with a short timeout, and return what it returns.

        Args:
            write: As for :meth:`_write_when_unlocked`.
            count: The number of predictions, for messages.
            interrupt: What is raised if the predictions cannot be written: the user's interrupt, which ends the run.

        Raises:
            KeyboardInterrupt: The store is locked, or the user interrupted again. The log says that the predictions are
                not written, if it has not yet said this of so many.
        """
        try:
            return write(_LAST_ATTEMPT)
        except (StoreLockedError, KeyboardInterrupt) as error:
            if count > self._reported_loss:
                self._reported_loss = count
                _LOG.error(f"{self.store.path}: {count} predictions could not be written, since the store is locked")
            raise interrupt from error

    def pin_edition(self, function: Served) -> None:
        """Ask a server for the edition of its model, and record it in the store, before the first prediction.

        An edition is the version of the model that the server names in its responses. From here on, the function
        refuses responses of another edition, unless ``allow_edition_change`` is set.

        Args:
            function: The inference function of the served model.

        Raises:
            EditionError: The store has predictions of another edition, and the function does not allow that.
            OutputError: The server failed.
        """
        edition = function.pin_edition() or _UNNAMED
        allowed = function.allow_edition_change
        others = self.store.add_edition(self.name, edition, allowed)
        if others and not allowed:
            raise EditionError(
                f"the served edition changed: the store has predictions of {', '.join(others)}, the server now serves "
                f"{edition}. Use a new store, or allow_edition_change=True"
            )
        if allowed:
            # The edition may change during this run. Without this entry, a later run that does not allow that would
            # reuse predictions of unknown editions.
            self.store.add_edition(self.name, _CHANGING, allowed)

    def _checked(
        self, query_by_key: Mapping[bytes, PromptKey], stored: Mapping[bytes, Answer]
    ) -> dict[PromptKey, Answer]:
        """Return stored predictions by their queries, after checking that each is a prediction for its query.

        Args:
            query_by_key: The query of each cache key.
            stored: The stored predictions by cache key.

        Raises:
            OutputError: A prediction is none for its query: the store was written with other labels.
        """
        checked: dict[PromptKey, Answer] = {}
        for key, prediction in stored.items():
            query = query_by_key[key]
            _, label_space = query
            try:
                checked[query] = check_answer(prediction, label_space, free_text=True)
            except OutputError as error:
                raise OutputError(f"a cached prediction does not fit its query: {error}") from error
        return checked
