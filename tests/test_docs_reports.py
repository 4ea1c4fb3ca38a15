"""docs/reports.md names all that there is (its blocks are run by test_docs_blocks.py)."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import StaICC.cli

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")


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


def test_exit_statuses_are_those_of_the_help() -> None:
    told = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    for status, meaning in told:
        assert re.search(rf"^  {status} +{re.escape(meaning)}$", StaICC.cli._EPILOG, re.MULTILINE), status
    assert len(told) == 5
