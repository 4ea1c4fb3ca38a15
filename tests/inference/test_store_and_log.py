"""After a kill the newest predictions are in the log of the store: it is read with the store, never left unnoticed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import StaICC.inference.store
from StaICC import Normal
from StaICC.cli import main
from StaICC.errors import SchemaError
from StaICC.inference.store import PredictionStore

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
