"""A store that another process has locked for long: the run waits for it, and says so; it loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
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
def lock(path: Path) -> Iterator[Callable[[], None]]:
    """Let another process lock a store, and yield the function that ends the lock (else it ends with the block)."""
    command = [sys.executable, "-c", LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.stdin.close


def run(store: PredictionStore, prompts: list[str]) -> Any:
    """Run a benchmark with a store, note the prompts that the model gets, and return the result."""

    def infer(prompt: str, label_space: list[str]) -> int:
        prompts.append(prompt)
        return 0

    return Normal(datasets=["mini"], limit=20)(infer, store=store, model_name="zero")


def when_the_run_waits(caplog: pytest.LogCaptureFixture, action: Callable[[], None]) -> threading.Thread:
    """Do something in another thread as soon as the log says that the run waits for the lock."""

    def wait() -> None:
        end = time.monotonic() + 60
        while "The run waits, with" not in caplog.text and time.monotonic() < end:
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_run_waits_for_a_lock_that_is_longer_than_the_timeout(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompts: list[str] = []
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path) as unlock:
            unlocking = when_the_run_waits(caplog, unlock)
            result = run(store, prompts)
            unlocking.join()
        assert store.info().answers == len(prompts) > 0
    assert dict(result) == dict(Normal(datasets=["mini"], limit=20)(lambda prompt, label_space: 0))


def test_ctrl_c_ends_a_run_that_waits_and_says_what_is_not_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompts: list[str] = []
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path):
            interrupting = when_the_run_waits(caplog, press_ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                run(store, prompts)
            interrupting.join()
        assert store.info().answers == 0
    assert caplog.text.count(f"{len(prompts)} predictions could not be written, since the store is locked") == 1


def test_ctrl_c_while_the_model_predicts_ends_the_run_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The eighth prompt is interrupted; the run does not wait for the 60 seconds of the store's default timeout."""
    prompts: list[str] = []

    def infer(prompt: str, label_space: list[str]) -> int:
        if len(prompts) == 7:
            press_ctrl_c()
        prompts.append(prompt)
        return 0

    with PredictionStore(tmp_path / "run.sqlite") as store, lock(store.path):
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            Normal(datasets=["mini"], limit=20)(infer, store=store, model_name="zero")
        assert time.monotonic() - began < 30
    assert "7 predictions could not be written, since the store is locked" in caplog.text


def test_ctrl_c_stores_the_predictions_if_the_lock_ends_then(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prompts: list[str] = []
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path) as unlock:

            def interrupt_and_unlock() -> None:
                press_ctrl_c()
                unlock()

            interrupting = when_the_run_waits(caplog, interrupt_and_unlock)
            with pytest.raises(KeyboardInterrupt):
                run(store, prompts)
            interrupting.join()
        assert store.info().answers == len(prompts) > 0
    assert "could not be written" not in caplog.text


def test_writing_without_a_run_ends_after_the_timeout(tmp_path: Path) -> None:
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        with lock(store.path):
            began = time.monotonic()
            with pytest.raises(StoreLockedError, match="locked"):
                store.put_many("model", [(b"a" * 32, 1)])
            assert TIMEOUT <= time.monotonic() - began < 20
        assert store.put_many("model", [(b"a" * 32, 1)]) == {}  # without a lock, it is written


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    digest = b"a" * 32
    with PredictionStore(tmp_path / "run.sqlite", timeout=TIMEOUT) as store:
        store.put_many("model", [(digest, 1)])
        with lock(store.path):
            assert store.get_many("model", [digest]) == {digest: 1}
            assert store.info().answers == 1
