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


def test_every_kind_of_figure_is_named() -> None:
    from StaICC.results.report.figures import KINDS

    table = PAGE.split("| kind | figure |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == {*KINDS, "run_all", "k"}


def test_exit_statuses_are_those_of_the_help() -> None:
    reported = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    for status, meaning in reported:
        assert re.search(rf"^  {status} +{re.escape(meaning)}$", StaICC.cli._EPILOG, re.MULTILINE), status
    assert len(reported) == 6
