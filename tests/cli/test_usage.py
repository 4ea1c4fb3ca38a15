"""Mistakes on the command line: a sentence, and one line of usage."""

from __future__ import annotations

import pytest

from StaICC.argument_syntax import argument, command_line_syntax
from StaICC.cli import _COMMANDS, main


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_usage_mistake_prints_two_lines(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--no-such-option"])
    usage, error = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert usage.startswith(f"usage: python -m StaICC {command}")
    assert f"python -m StaICC {command}" in usage.partition("all options:")[2]
    assert error.startswith(f"python -m StaICC {command}")
    assert ": error: " in error


def test_the_usage_names_the_arguments_that_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run"])
    usage, error = capsys.readouterr().err.splitlines()
    assert usage == "usage: python -m StaICC run [options] BENCHMARK (all options: python -m StaICC run --help)"
    assert "are required: BENCHMARK" in error


@pytest.mark.parametrize(
    ("name", "value", "in_python", "on_the_command_line"),
    [
        ("unparsed", "wrong", "unparsed='wrong'", "--unparsed wrong"),
        ("texts", ["a", "b c"], "texts=['a', 'b c']", "--text a 'b c'"),
        ("recheck", True, "recheck=True", "--recheck"),
        ("limit", 5, "limit=5", "--limit 5"),
        ("label_separator", None, "label_separator", "--label-separator"),
    ],
)
def test_a_message_has_the_syntax_of_its_reader(
    name: str, value: object, in_python: str, on_the_command_line: str
) -> None:
    assert argument(name, value) == in_python
    with command_line_syntax():
        assert argument(name, value) == on_the_command_line
    assert argument(name, value) == in_python


def test_the_syntax_of_commands_ends_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "all", "--no-save"]) == 2
    assert "leave --datasets out" in capsys.readouterr().err
    assert argument("datasets") == "datasets"
