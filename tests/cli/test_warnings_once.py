"""A terminal shows each warning of a run once; a redirected table has it, too."""

from __future__ import annotations

import io
import sys

import pytest

from StaICC.cli.saving import _without_shown_warnings
from StaICC.layout import Block, Line

TABLE: list[Block] = [Line("In brackets: 95 % intervals."), Line("WARNING: own: 5 rows are equal", "warning")]


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, on_terminal: bool) -> None:
        super().__init__()
        self.on_terminal = on_terminal

    def isatty(self) -> bool:
        return self.on_terminal


def printed_blocks(table_on_terminal: bool, log_on_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    """Return the blocks of :data:`TABLE` that are printed to stdout, while the log with its warning is on stderr."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Stream(table_on_terminal))
        patched.setattr(sys, "stderr", Stream(log_on_terminal))
        return list(_without_shown_warnings(TABLE))


def test_a_warning_of_the_table_is_left_out_if_the_log_is_on_the_same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = printed_blocks(table_on_terminal=True, log_on_terminal=True, monkeypatch=monkeypatch)

    assert blocks == [Line("In brackets: 95 % intervals.")]


def test_a_table_in_a_file_has_its_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed_blocks(table_on_terminal=False, log_on_terminal=True, monkeypatch=monkeypatch) == TABLE


def test_a_table_on_a_terminal_has_its_warnings_if_the_log_is_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed_blocks(table_on_terminal=True, log_on_terminal=False, monkeypatch=monkeypatch) == TABLE
