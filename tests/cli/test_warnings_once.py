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


@pytest.mark.parametrize(
    ("table_on_terminal", "log_on_terminal", "lines"), [(True, True, 1), (False, True, 2), (True, False, 2)]
)
def test_the_table_leaves_out_what_the_same_screen_has(
    table_on_terminal: bool, log_on_terminal: bool, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Stream(table_on_terminal))
        patched.setattr(sys, "stderr", Stream(log_on_terminal))
        shown = list(_without_shown_warnings(TABLE))
    assert shown == TABLE[:lines]
