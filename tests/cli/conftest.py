"""What the tests of the command line share: the program in this process, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC.cli import main

ROOT = Path(__file__).parents[2]


class Printed(NamedTuple):
    """The exit status of a command, and what it printed."""

    status: int
    stdout: str
    stderr: str


Cli = Callable[..., Printed]
"""Runs a command of the given words."""


@pytest.fixture
def staicc(capsys: pytest.CaptureFixture[str]) -> Cli:
    """A function that runs a command in this process, and returns its status, stdout and stderr."""

    def run_command(*words: str) -> Printed:
        """Run a command in this process, and return its status, stdout and stderr."""
        capsys.readouterr()  # forget what was printed before
        try:
            status = main(list(words))
        except SystemExit as stop:
            status = int(stop.code or 0)
        stdout, stderr = capsys.readouterr()
        return Printed(status, stdout, stderr)

    return run_command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for data, without a network."""
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    return tmp_path / "home"


@pytest.fixture(scope="session")
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs a command in a process of its own, with the buffers of a user's Python."""

    def run_in_process(*words: str, start: tuple[str, ...] = ("-m", "StaICC"), **settings: Any) -> Any:
        """Run Python with the words, by default as a command of StaICC.

        Args:
            words: The words of the command.
            start: What Python runs instead of the package.
            settings: Arguments of ``subprocess.run``; the variables ``env`` are added to those of this process.
        """
        variables = dict(os.environ)
        variables["PYTHONPATH"] = str(ROOT)
        variables["PYTHONUNBUFFERED"] = ""
        variables.update(settings.pop("env", {}))
        if "stdout" not in settings:
            settings["capture_output"] = True
        command = [sys.executable, *start, *words]
        return subprocess.run(command, env=variables, text=True, check=False, timeout=120, **settings)

    return run_in_process


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder for each test: runs save their results in it."""
    monkeypatch.chdir(tmp_path)
