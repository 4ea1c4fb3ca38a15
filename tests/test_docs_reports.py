"""docs/reports.md promises only what runs here: its Python runs, its commands and names exist."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import StaICC.cli

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = re.findall(r"^python -m StaICC (.+)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python_runs(number: int, tmp_path: Path) -> None:
    if "StaICC.results.report" in BLOCKS[number]:
        pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BLOCKS[number]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "STAICC_OFFLINE": "1", "STAICC_HOME": str(tmp_path / "home"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_is_something_to_run() -> None:
    assert len(BLOCKS) == 2
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command: str) -> None:
    words = shlex.split(command)
    assert StaICC.cli._parser(words[0]).parse_args(words).command == words[0]


def test_the_table_s_commands_and_functions_exist() -> None:
    table = "\n".join(line for line in PAGE.split("## Reports")[0].splitlines() if line.startswith("|"))
    for command in re.findall(r"`([a-z]+(?: [^`]*)?)`", table):
        assert command.split()[0] in StaICC.cli._COMMANDS, command
    for name in re.findall(r"`(StaICC\.[\w.]+)`", table):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name


def test_every_figure_function_is_named() -> None:
    from StaICC.results import report

    for name in report.__all__:
        if name != "report_html":
            assert name in PAGE, name


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_exit_statuses_are_those_of_the_help() -> None:
    told = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    for status, meaning in told:
        assert re.search(rf"^  {status} +{re.escape(meaning)}$", StaICC.cli._EPILOG, re.MULTILINE), status
    assert len(told) == 5


def test_extras_exist() -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    for extra in re.findall(r"staicc\[(\w+)\]", PAGE):
        assert re.search(rf"^{extra} = \[", declared, re.MULTILINE), extra
