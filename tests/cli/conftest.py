"""What the tests of the command line share: the program in this process, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def staicc(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A function that runs a command in this process, and returns its status, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main(list(words))
        except SystemExit as end:
            status = int(end.code or 0)
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for data, without a network."""
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    return tmp_path / "home"


@pytest.fixture(scope="session")
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs a command in a process of its own, with the buffers of a user's Python."""

    def run(*words: str, start: tuple[str, ...] = ("-m", "StaICC"), **settings: Any) -> Any:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", **settings.pop("env", {})}
        if "stdout" not in settings:
            settings["capture_output"] = True
        command = [sys.executable, *start, *words]
        return subprocess.run(command, env=environment, text=True, check=False, timeout=120, **settings)

    return run


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder for each test: runs save their results in it."""
    monkeypatch.chdir(tmp_path)
