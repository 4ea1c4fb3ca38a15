"""The prediction store: one SQLite file that caches the predictions of all models.

The cache key is the name of the model (:func:`StaICC.inference.model_name.name_in_store`) and the digest of prompt and
label space (:func:`query_key`). Several models, and several processes of one machine, may share a file.

Guarantees
    - :meth:`PredictionStore.put_many` is atomic and durable: when it returns, all its predictions are on the disk; if
      the process is killed before, none is. (One transaction, write-ahead log, ``synchronous = FULL``.)
    - A prediction is returned bit for bit, for the model and the query that it was stored for.
    - The first prediction that was stored for a query stays. A different later one is not written.

Errors
    A file that is damaged, is no store, or has another schema: :class:`~StaICC.errors.SchemaError` says which and what
    to do. A store that cannot be read or written (disk full, no permission, locked by another process for too long) is
    a :class:`StoreError`, and loses nothing.

Several threads may use one store object; another process opens the file by itself. SQLite's log needs shared memory, so
the processes must be on one machine: on a cluster the process that collects the predictions writes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import operator
import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

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
_KEYS_PER_SELECT = 400
_ROWS_PER_MERGE = 10_000
_UNNAMED = "an edition without a name"
_CHANGING = "editions that were allowed to change during a run"
# SQLite's messages when the machine, not the file, is at fault.
_ENVIRONMENT = ("locked", "busy", "full", "readonly", "unable to open", "disk i/o error", "permission", "authoriz")

_Row = tuple[bytes, bytes | str]


class StoreError(StaICCError, OSError):
    """A store could not be read or written just now (disk full, no permission, locked); what it holds is unharmed."""


def query_key(prompt: str | Sequence[str], label_space: Sequence[str]) -> bytes:
    """Digest a prompt and its label space: what a stored prediction belongs to.

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
            parts = [b"staicc-query-1 one", _framed(prompt)]
        else:
            parts = [b"staicc-query-1 all", len(prompt).to_bytes(8, "big"), *map(_framed, prompt)]
        parts += [len(label_space).to_bytes(8, "big"), *map(_framed, label_space)]
    except (AttributeError, TypeError) as error:
        expected = "a prompt (a text, or a list of texts) and a list of labels"
        raise ArgumentError(f"a query: got {prompt!r:.80} and {label_space!r:.80}, expected {expected}") from error
    return hashlib.sha256(b"".join(parts)).digest()


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
    store, log = Path(path), _log_of(Path(path))
    stray = log.exists() and log.stat().st_size > 0
    if stray and not store.exists():  # asked last: another process may have made both just now
        raise SchemaError(f"{store} is not there, but its log {log} is. Move the store back, or delete the log")


def _log_of(path: Path) -> Path:
    """Return the write-ahead log that SQLite keeps next to a store in use."""
    return path.with_name(f"{path.name}-wal")


def _framed(text: str) -> bytes:
    """Encode a text with its length in front, so that different lists of texts have different bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data


_KNOWN = struct.Struct("<dI")
"""What is known of a prompt, after its label scores: the label mass (NaN if unknown), and dropped demonstrations. Its
size is no multiple of that of a score, so that a row says by its size whether it has it."""
_KNOWN_OF_SERVER = struct.Struct("<ddI?")
"""The label mass, the mass of tokens without visible text (NaN if unknown), dropped demonstrations, and whether the
prompt is unmeasured. Its size differs from that of :data:`_KNOWN` by no multiple of the size of a score."""
_SIZE_OF_SCORE = 8


def _encode(prediction: Answer) -> bytes | str:
    """Return what a row holds: numbers as their 64 bits each, with what is known of the prompt; else JSON.

    A reply is a text, or a list of the text, how it ended, the number of dropped demonstrations, and whether its prompt
    is unmeasured; what says nothing is left out at the end of the list.
    """
    if isinstance(prediction, list):
        numbers = struct.pack(f"<{len(prediction)}d", *prediction)
        if not isinstance(prediction, ScoredLabels):
            return numbers
        mass = math.nan if prediction.label_mass is None else prediction.label_mass
        if prediction.mass_without_text is None and not prediction.unmeasured:
            return numbers + _KNOWN.pack(mass, prediction.dropped)
        without_text = math.nan if prediction.mass_without_text is None else prediction.mass_without_text
        return numbers + _KNOWN_OF_SERVER.pack(mass, without_text, prediction.dropped, prediction.unmeasured)
    if not isinstance(prediction, Text):
        return json.dumps(prediction)
    if prediction.unmeasured:
        return json.dumps([prediction, prediction.finish_reason, prediction.dropped, True])
    if prediction.dropped:
        return json.dumps([prediction, prediction.finish_reason, prediction.dropped])
    if prediction.finish_reason is not None:
        return json.dumps([prediction, prediction.finish_reason])
    return json.dumps(prediction)


def _decode(stored: bytes | str) -> Answer:
    if isinstance(stored, bytes):
        rest = len(stored) % _SIZE_OF_SCORE
        if rest == 0:
            return _numbers(stored)
        if rest == _KNOWN_OF_SERVER.size % _SIZE_OF_SCORE:
            numbers = _numbers(stored[: -_KNOWN_OF_SERVER.size])
            mass, without_text, dropped, unmeasured = _KNOWN_OF_SERVER.unpack(stored[-_KNOWN_OF_SERVER.size :])
            return ScoredLabels(numbers, _known_mass(mass), dropped, _known_mass(without_text), unmeasured)
        numbers = _numbers(stored[: -_KNOWN.size])
        mass, dropped = _KNOWN.unpack(stored[-_KNOWN.size :])
        return ScoredLabels(numbers, _known_mass(mass), dropped)
    prediction: Any = json.loads(stored)
    if isinstance(prediction, (str, list)):
        return Text(*([prediction] if isinstance(prediction, str) else prediction))
    index: int | Features = Features(prediction) if isinstance(prediction, dict) else prediction
    return index


def _numbers(stored: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(stored) // _SIZE_OF_SCORE}d", stored))


def _known_mass(mass: float) -> float | None:
    return None if math.isnan(mass) else mass


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
        self.path = Path(os.path.abspath(path))
        self._log = _log_of(self.path)
        self.read_only = read_only
        self._timeout = timeout
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._warned = False
        self._commits = 0
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
        self._file = self._file_id()

    def _check_path(self) -> None:
        """Refuse a path that cannot be a store, before SQLite creates files."""
        path = self.path
        if path.is_dir() or not path.parent.is_dir():
            raise ArgumentError(f"{path} cannot be a prediction store, which is a file in a folder that exists")
        if path.name.endswith(("-wal", "-shm", "-journal", "-claims")):
            raise ArgumentError(f"{path} has the name of a file that is kept next to a store; give another path")
        if path.exists():
            if not path.is_file():
                raise ArgumentError(f"{path} is not a regular file; a prediction store is one")
            if path.stat().st_size and not is_database(path):  # SQLite would overwrite a file of one character
                raise SchemaError(f"{path} is not a prediction store; give another path")
        else:
            refuse_stray_log(path)
            if self.read_only:
                raise ArgumentError(f"there is no prediction store at {path}")

    def _address(self) -> str:
        """Return the URI of the file, without a log where none can be made and there is none."""
        if not self.read_only:
            return f"{self.path.as_uri()}?mode=rwc"
        if can_be_written(self.path):
            return f"{self.path.as_uri()}?mode=rw"
        return f"{self.path.as_uri()}?mode=ro" + ("" if self._log.exists() else "&immutable=1")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables of a new file; refuse a file that is no store, has another schema, or is damaged."""

        def read(query: str) -> list[Any]:
            return sorted(row[0] for row in connection.execute(query))

        schema = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        with connection:
            connection.execute("BEGIN")  # another process may be creating the tables
            facts = *read("PRAGMA application_id"), *read("PRAGMA user_version"), *read(schema)
        if facts == (0, 0):
            if self.read_only:
                raise SchemaError(f"{self.path} is empty; run again to make the store, or delete it")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in [] if read(schema) else _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
        elif facts[0] != APPLICATION_ID:
            raise SchemaError(f"{self.path} is an SQLite database, but not a prediction store; give another path")
        elif facts[1] != SCHEMA:
            schemas = f"(store schema {facts[1]}; this version reads {SCHEMA})"
            if facts[1] < SCHEMA:
                by, remedy = "an earlier state of 1.0.0", "Run again with another path"
            else:
                by, remedy = "a newer version of StaICC", "Use that version, or give another path"
            raise SchemaError(f"{self.path} was written by {by} {schemas}. {remedy}")
        connection.execute("PRAGMA trusted_schema = OFF")
        if read(schema) != sorted(_TABLES):
            raise self._damaged("its tables, indexes, views or triggers are not those of a store")
        (verdict,) = read("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise self._damaged(verdict)
        try:
            for name, editions in connection.execute("SELECT name, editions FROM models"):
                _decode_name(name)
                json.loads(editions)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"no model is stored like this: {error}") from error
        if self.read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            self._use_log(connection)
            connection.execute("PRAGMA synchronous = FULL")

    def _use_log(self, connection: sqlite3.Connection) -> None:
        """Use a write-ahead log. SQLite does not wait by itself when two processes open a new store at once."""
        import sqlite3

        end = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _damaged(self, reason: object) -> SchemaError:
        advice = f"Recover its rows (sqlite3 {self.path} .recover | sqlite3 NEW_PATH), or delete it"
        return SchemaError(f"{self.path}: this prediction store is damaged ({reason}); nothing of it is used. {advice}")

    @contextlib.contextmanager
    def _explained_errors(self) -> Iterator[None]:
        """Turn an error of SQLite into one of ours: the file is damaged, or the machine is at fault."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            reason = str(error)
            if isinstance(error, sqlite3.OperationalError) and any(word in reason.lower() for word in _ENVIRONMENT):
                raise StoreError(
                    f"{self.path}: the prediction store cannot be read or written ({reason}); what was stored before "
                    "is kept. Check disk, permissions and other processes, then run again"
                ) from error
            raise self._damaged(reason) from error

    def _file_id(self) -> tuple[int, int] | None:
        """Return which file the path leads to now."""
        with contextlib.suppress(OSError):
            return (status := self.path.stat()).st_dev, status.st_ino
        return None

    @contextlib.contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to one thread at a time."""
        if self._process != os.getpid():
            raise ArgumentError(f"{self.path}: this store was opened by another process; open it again in this one")
        with self._lock:
            if self._connection is None:
                raise ArgumentError(f"{self.path}: this store was closed; open it again with PredictionStore(path)")
            with self._explained_errors():
                yield self._connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Commit what is written inside, or nothing of it."""
        if self.read_only:
            raise ArgumentError(f"{self.path}: this store was opened read-only; open it without read_only to write")
        with self._using() as connection:
            if self._file_id() != self._file:
                raise StoreError(f"{self.path} was deleted, moved or replaced while it was in use; bring it back")
            with connection:  # commits or rolls back, also after an interrupt while it waited for another process
                connection.execute("BEGIN IMMEDIATE")
                yield connection

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
        with self._using() as connection:
            (by_others,) = connection.execute("PRAGMA data_version").fetchone()
        return by_others, self._commits

    def _model(self, connection: sqlite3.Connection, name: bytes) -> tuple[int, str]:
        """Return the number of a model, and its editions; it is added if it is new."""
        connection.execute("INSERT OR IGNORE INTO models (name) VALUES (?)", (name,))
        number, editions = connection.execute("SELECT id, editions FROM models WHERE name = ?", (name,)).fetchone()
        return number, editions

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
        with self._using() as connection:
            for first in range(0, len(keys), _KEYS_PER_SELECT):
                part = keys[first : first + _KEYS_PER_SELECT]
                rows = connection.execute(f"{select} AND query IN ({', '.join('?' * len(part))})", (stored_name, *part))
                predictions.update(self._decoded(rows))
        return predictions

    def _decoded(self, rows: Iterable[_Row]) -> Iterator[tuple[bytes, Answer]]:
        for key, stored in rows:
            try:
                yield b"" + key, _decode(stored)  # a key of another type is damage, too
            except (ValueError, TypeError, RecursionError, struct.error) as error:
                raise self._damaged(f"no prediction is stored like this: {error}") from error

    def put_many(self, name: str, items: Iterable[tuple[bytes, Answer]]) -> dict[bytes, Answer]:
        """Store predictions of one model, all of them or none.

        Args:
            name: The name of the model (:func:`StaICC.inference.model_name.name_in_store`).
            items: Keys made by :func:`query_key`, each with its prediction.

        Returns:
            For the keys that had a different prediction already, or the same reply with another ending: what was
            kept. Nearly always empty.

        Raises:
            ArgumentError: The store is closed or read-only. Nothing is stored.
            SchemaError: The file is damaged. Nothing is stored.
            StoreError: The file cannot be written (disk full, locked, ...). Nothing is stored.
        """
        rows = [(key, _encode(prediction)) for key, prediction in items]
        with self._writing() as connection:
            kept, report = self._insert(connection, self._model(connection, _encode_name(name))[0], rows)
            self._commits += 1
        if report.different and not self._warned:
            self._warned = True
            _LOG.warning(
                f"{self.path}: the model {name!r} predicted {report.different} queries differently before; the "
                "first predictions are kept. Either it is not deterministic, or two models have one name. (Said once.)"
            )
        return kept

    def _insert(
        self, connection: sqlite3.Connection, model: int, rows: Sequence[_Row]
    ) -> tuple[dict[bytes, Answer], MergeReport]:
        """Insert rows of a model; return the other predictions that are kept for their keys."""
        before, stored = connection.total_changes, list[_Row]()
        connection.executemany(f"INSERT OR IGNORE INTO predictions VALUES ({model}, ?, ?)", rows)
        added = connection.total_changes - before
        if added < len(rows):
            select = f"SELECT query, prediction FROM predictions WHERE model = {model} AND query = ?"
            stored = [connection.execute(select, (key,)).fetchone() for key, _ in rows]
        others = [(there, row) for there, row in zip(stored, rows, strict=False) if there[1] != row[1]]
        kept = dict(self._decoded(there for there, _ in others))
        given = dict(self._decoded(row for _, row in others))
        different = sum(prediction != given[key] for key, prediction in kept.items())  # not only in their endings
        return kept, MergeReport(added, len(rows) - added - different, different)

    def remove(self, name: str, keys: Iterable[bytes]) -> int:
        """Remove predictions of one model; return how many of the keys were stored."""
        with self._writing() as connection:
            before, model = connection.total_changes, "(SELECT id FROM models WHERE name = ?)"
            rows = [(_encode_name(name), key) for key in keys]
            connection.executemany(f"DELETE FROM predictions WHERE model = {model} AND query = ?", rows)
            return connection.total_changes - before

    def add_edition(self, name: str, edition: str, allowed: bool) -> list[str]:
        """Record an edition that serves a model, unless the model has predictions of others and that is not allowed.

        Returns:
            The other editions that were recorded before.
        """
        if self.read_only and edition in self._editions(name):
            return [other for other in self._editions(name) if other != edition]
        with self._writing() as connection:
            model, text = self._model(connection, _encode_name(name))
            editions: list[str] = json.loads(text)
            others = [other for other in editions if other != edition]
            if edition not in editions and (allowed or not others):
                row = json.dumps([*editions, edition]), model
                connection.execute("UPDATE models SET editions = ? WHERE id = ?", row)
        return others

    def _editions(self, name: str) -> list[str]:
        """Return the recorded editions of a model; none if the store does not have it."""
        with self._using() as connection:
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
        with self._using() as connection:
            counts = connection.execute(
                "SELECT name, COUNT(query) FROM models LEFT JOIN predictions ON model = id GROUP BY id ORDER BY name"
            ).fetchall()
        size = sum(file.stat().st_size for file in (self.path, self._log) if file.exists())
        return StoreInfo(self.path, SCHEMA, size, {_decode_name(name): count for name, count in counts})

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
        lines = 0
        with self._using() as connection:
            for model, name in connection.execute("SELECT id, name FROM models ORDER BY name"):
                rows = connection.execute(f"SELECT query, prediction FROM predictions WHERE model = {model}")
                for key, value in self._decoded(rows):
                    line: dict[str, Any] = {"answer": value, "fingerprint": _decode_name(name), "key": key.hex()}
                    if isinstance(value, list):
                        line["answer"] = ["-inf" if number == -math.inf else number for number in value]
                    if isinstance(value, Text):
                        line["finish_reason"] = value.finish_reason
                    stream.write(json.dumps(line, allow_nan=False) + "\n")
                    lines += 1
        return lines

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
        total = MergeReport(0, 0, 0)
        source = PredictionStore(other, read_only=True, timeout=self._timeout)
        with source, source._using() as reading, self._writing() as connection:
            for theirs, name, editions in reading.execute("SELECT id, name, editions FROM models"):
                model, own = self._model(connection, name)
                if own == "[]":
                    connection.execute("UPDATE models SET editions = ? WHERE id = ?", (editions, model))
                elif editions not in ("[]", own):
                    of = f"predictions of {_decode_name(name)!r} in the editions {own}"
                    raise StoreError(
                        f"{self.path}: this store has {of}, the other in {editions}. Keep the stores apart"
                    )
                cursor = reading.execute(f"SELECT query, prediction FROM predictions WHERE model = {theirs}")
                while rows := cursor.fetchmany(_ROWS_PER_MERGE):
                    _, report = self._insert(connection, model, rows)
                    total = MergeReport(*map(operator.add, total, report))
        return total

    def close(self) -> None:
        """Close the file. A closed store cannot be used again; closing twice is no error."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
                self._connection = None

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PredictionStore({str(self.path)!r})"


class BoundStore:
    """One inference function's predictions in a store, by query.

    Args:
        store: The store.
        name: See :func:`~StaICC.inference.model_name.name_in_store`.
        with_parts: Whether the function reads the parts of prompts, which are part of the cache key then.
    """

    def __init__(self, store: PredictionStore, name: str, with_parts: bool = False) -> None:
        self.store = store
        self.name = name
        self._with_parts = with_parts
        self._written: set[bytes] = set()
        self._commits = 0

    def version(self) -> object:
        """Return a value that changes when another run, or another model of this run, stores predictions."""
        by_others, commits = self.store.version()
        return by_others, commits - self._commits

    def claims(self) -> Claims:
        """Return the claims of a run on queries of this model, which all runs on this store see."""
        model = hashlib.sha256(_encode_name(self.name)).digest()

        def digest(query: PromptKey) -> bytes:
            return hashlib.sha256(model + self._key(query)).digest()

        file = self.store.path.resolve()  # one file of claims for all paths that lead to the store
        return Claims(file.with_name(f"{file.name}-claims"), digest)

    def get_many(self, queries: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the cached predictions."""
        keys = {self._key(query): query for query in queries}
        return self._checked(keys, self.store.get_many(self.name, list(keys)))

    def put_many(self, predictions: Iterable[tuple[PromptKey, Answer]]) -> dict[PromptKey, Answer]:
        """Store predictions; they are on the disk when this returns.

        Returns:
            Predictions that another process stored earlier and that differ. They stay in the store, and the run uses
            them, so that its result equals that of the next run.
        """
        items = {self._key(query): (query, prediction) for query, prediction in predictions}
        self._written.update(items)  # before: an interruption may come right after they are on the disk
        kept = self.store.put_many(self.name, [(key, prediction) for key, (_, prediction) in items.items()])
        self._commits += 1
        self._written.difference_update(kept)
        return self._checked({key: query for key, (query, _) in items.items()}, kept)

    def refuse_read_only(self) -> None:
        """Refuse a store that cannot be written, before predictions are computed for it."""
        self.store.refuse_read_only()

    def _key(self, query: PromptKey) -> bytes:
        return query_key(*(structured_key(query) if self._with_parts else query))

    def remove_written(self) -> int:
        """Remove the predictions that were stored through this object; return their number."""
        return self.store.remove(self.name, self._written) if self._written else 0

    def pin_edition(self, function: Served) -> None:
        """Hold a served model to the edition that it has now, and record it, before its first prediction is computed.

        Raises:
            EditionError: The store has predictions of another edition, and the function does not allow that.
            OutputError: The server failed.
        """
        served, allowed = function.pin_edition() or _UNNAMED, function.allow_edition_change
        others = self.store.add_edition(self.name, served, allowed)
        if others and not allowed:
            raise EditionError(
                f"the served edition changed: the store has predictions of {', '.join(others)}, the server now serves "
                f"{served}. Use a new store, or allow_edition_change=True"
            )
        if allowed:
            self.store.add_edition(self.name, _CHANGING, allowed)

    def _checked(self, queries: Mapping[bytes, PromptKey], stored: Mapping[bytes, Answer]) -> dict[PromptKey, Answer]:
        checked: dict[PromptKey, Answer] = {}
        for key, prediction in stored.items():
            try:
                checked[queries[key]] = check_answer(prediction, queries[key][1], free_text=True)
            except OutputError as error:
                raise OutputError(f"a cached prediction does not fit its query: {error}") from error
        return checked
