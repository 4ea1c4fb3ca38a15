"""A store that another process has locked for long: the run waits for it, and says so; it loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.inference.store import PredictionStore, StoreLockedError

LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""
TIMEOUT = 0.3


@contextmanager
def lock(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock of a store; it ends with the standard input of the process."""
    command = [sys.executable, "-c", LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process


def run(store: PredictionStore, calls: list[str]) -> Any:
    def infer(prompt: str, label_space: list[str]) -> int:
        calls.append(prompt)
        return 0

    return Normal(datasets=["mini"], limit=20)(infer, store=store, model_name="zero")


def when_logged(text: str, caplog: pytest.LogCaptureFixture, action: Any) -> threading.Thread:
    """Do something in another thread as soon as the log has a text."""

    def wait() -> None:
        end = time.monotonic() + 60
        while text not in caplog.text and time.monotonic() < end:
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_run_waits_for_a_lock_that_is_longer_than_the_timeout(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path) as locking:
            assert locking.stdin is not None
            unlock = when_logged("The run waits, with", caplog, locking.stdin.close)
            result = run(store, calls)
            unlock.join()
        assert store.info().answers == len(calls) > 0
    assert dict(result) == dict(Normal(datasets=["mini"], limit=20)(lambda prompt, label_space: 0))


def test_ctrl_c_ends_a_run_that_waits_and_says_what_is_not_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path) as locking:
            ctrl_c = when_logged("The run waits, with", caplog, lambda: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                run(store, calls)
            ctrl_c.join()
            assert locking.stdin is not None
            locking.stdin.close()
        assert store.info().answers == 0
    assert caplog.text.count(f"{len(calls)} predictions could not be written, since the store is locked") == 1


def test_ctrl_c_while_the_model_predicts_ends_the_run_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def infer(prompt: str, label_space: list[str]) -> int:
        if len(calls) == 7:
            signal.raise_signal(signal.SIGINT)
        calls.append(prompt)
        return 0

    with PredictionStore(tmp_path / "run.sqlite") as store, lock(store.path) as locking:
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            Normal(datasets=["mini"], limit=20)(infer, store=store, model_name="zero")
        assert time.monotonic() - began < 30  # the timeout of the store is 60
        assert locking.stdin is not None
        locking.stdin.close()
    assert "7 predictions could not be written, since the store is locked" in caplog.text


def test_ctrl_c_stores_the_predictions_if_the_lock_ends_then(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path) as locking:
            assert locking.stdin is not None

            def interrupt_and_unlock() -> None:
                signal.raise_signal(signal.SIGINT)
                locking.stdin.close()

            ctrl_c = when_logged("The run waits, with", caplog, interrupt_and_unlock)
            with pytest.raises(KeyboardInterrupt):
                run(store, calls)
            ctrl_c.join()
        assert store.info().answers == len(calls) > 0
    assert "could not be written" not in caplog.text


def test_writing_without_a_run_ends_after_the_timeout(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path) as locking:
            began = time.monotonic()
            with pytest.raises(StoreLockedError, match="locked"):
                store.put_many("model", [(b"a" * 32, 1)])
            assert TIMEOUT <= time.monotonic() - began < 20
            assert locking.stdin is not None
            locking.stdin.close()
        assert store.put_many("model", [(b"a" * 32, 1)]) == {}


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        store.put_many("model", [(b"a" * 32, 1)])
        with lock(store.path):
            assert store.get_many("model", [b"a" * 32]) == {b"a" * 32: 1}
            assert store.info().answers == 1
