"""The newest predictions are in the log of the store: until the end of a part, and after a kill of its last part.

The log is read with the store, and a log without its store is never left unnoticed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC.inference.store
from StaICC import Dataset, Normal
from StaICC.cli import main
from StaICC.errors import SchemaError
from StaICC.inference.store import PredictionStore
from StaICC.progress import Progress

ROOT = Path(StaICC.inference.store.__file__).parents[2]
KILLED = """
import os, signal, sys
from StaICC.inference.store import PredictionStore, query_key
store = PredictionStore(sys.argv[1])
for number in range(50):
    store.put_many("model", [(query_key(f"prompt {number}", ["a", "b"]), 1)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return the store of a run with 50 predictions that was killed."""
    path = tmp_path / "run.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.with_name("run.sqlite-wal").exists()
    return path


def predictions(path: Path) -> int:
    with PredictionStore(path) as store:
        return store.info().answers


@pytest.mark.posix
def test_a_merge_copies_the_log_too(killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.sqlite"
    assert main(["store", "merge", str(copy), str(killed)]) == 0
    assert "50 answers added" in capsys.readouterr().out
    assert not copy.with_name("copy.sqlite-wal").exists()
    assert predictions(copy) == 50


def test_a_merge_during_a_run_copies_what_is_stored(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "run.sqlite") as running:
        running.put_many("model", [(b"k" * 32, 1)])
        assert main(["store", "merge", str(tmp_path / "copy.sqlite"), str(running.path)]) == 0
        running.put_many("model", [(b"l" * 32, 1)])
    assert predictions(tmp_path / "copy.sqlite") == 1


@pytest.mark.posix
def test_both_files_are_moved(killed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("run.sqlite", "run.sqlite-wal"):
        shutil.move(killed.with_name(name), elsewhere / name)
    assert predictions(elsewhere / "run.sqlite") == 50


def run(path: Path) -> None:
    Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0, store=path, model_name="zero")


def forecast(path: Path) -> None:
    Normal(datasets=["mini"], limit=2).forecast(lambda prompt, label_space: 0, store=path, model_name="zero")


def read(path: Path) -> None:
    PredictionStore(path, read_only=True)


def merge_from(path: Path) -> None:
    with PredictionStore(path.with_name("all.sqlite")) as store:
        store.merge(path)


@pytest.mark.posix
@pytest.mark.parametrize("reader", [run, forecast, read, predictions, merge_from])
def test_a_store_that_was_moved_without_its_log_is_noticed(reader: Callable[[Path], object], killed: Path) -> None:
    killed.rename(killed.with_name("moved.sqlite"))
    with pytest.raises(SchemaError, match=r"run\.sqlite is not there, but its log .*run\.sqlite-wal is\. Move"):
        reader(killed)


# -- the file alone


def file_alone(path: Path) -> int:
    """Return how many predictions a copy of the file has, without its log."""
    copy = path.with_name("file_alone.sqlite")
    shutil.copy(path, copy)
    count = predictions(copy)
    copy.unlink()
    return count


def own_dataset(name: str) -> Dataset:
    rows = [(f"{name} text {number}", ("no", "yes")[number % 2]) for number in range(40)]
    return Dataset.from_rows(rows, name=name, split={"calibration": 5, "demonstration": 20, "test": 10})


def test_the_file_alone_has_all_parts_that_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    counts_at_start = []

    def count_at_the_start_of_a_part(progress: Progress) -> None:
        if progress.done == 0 and path.exists():
            counts_at_start.append(file_alone(path))

    benchmark = Normal(datasets=[own_dataset("first"), own_dataset("second"), own_dataset("third")], k=1)
    benchmark(lambda prompt, label_space: 0, store=path, model_name="zero", progress=count_at_the_start_of_a_part)
    part = file_alone(path) / 3
    assert part > 0
    assert counts_at_start[-2:] == [part, 2 * part]


@pytest.mark.parametrize("ends", ["normally", "by Ctrl-C"])
def test_the_file_alone_has_all_predictions_when_a_run_ends_and_the_store_stays_open(ends: str, tmp_path: Path) -> None:
    calls = []

    def infer(prompt: str, label_space: list[str]) -> int:
        if ends == "by Ctrl-C" and len(calls) == 7:
            raise KeyboardInterrupt
        calls.append(prompt)
        return 0

    with PredictionStore(tmp_path / "run.sqlite") as store:
        try:
            Normal(datasets=["mini"], limit=10)(infer, store=store, model_name="zero")
        except KeyboardInterrupt:
            assert len(calls) == 7
        assert file_alone(store.path) == store.info().answers == len(calls)


def test_a_checkpoint_does_not_wait_for_a_process_that_reads(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model", [(b"a" * 32, 1)])
        reader = sqlite3.connect(store.path, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT COUNT(*) FROM predictions").fetchone() == (1,)
        store.put_many("model", [(b"b" * 32, 1)])
        began = time.monotonic()
        store.checkpoint()
        assert time.monotonic() - began < 30, "it waited for the timeout of the store, a minute"
        assert store.info().answers == 2
        reader.close()
        store.checkpoint()
        assert file_alone(store.path) == 2


class FailingCheckpoint:
    """A connection on whose disk there is no space for a checkpoint."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        if "wal_checkpoint" in statement:
            raise sqlite3.OperationalError("database or disk is full")
        return self.connection.execute(statement, *arguments)

    def close(self) -> None:
        self.connection.close()


def test_a_checkpoint_that_fails_is_no_error(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model", [(b"a" * 32, 1)])
        assert store._connection is not None
        store._connection = FailingCheckpoint(store._connection)  # type: ignore[assignment]
        store.checkpoint()
        assert store.info().answers == 1
    assert predictions(tmp_path / "run.sqlite") == 1
