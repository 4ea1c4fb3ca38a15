"""The command line as a whole: commands, help, names, exit statuses, completion, what goes to which stream."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.cli import _COMMANDS, main

MINI = ["run", "normal", "--datasets", "mini", "--limit", "2"]
Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", ["", *_COMMANDS])
def test_help(name: str, staicc: Cli) -> None:
    status, shown, _ = staicc(*filter(None, [name]), "--help")
    assert status == 0
    assert shown.startswith(f"usage: python -m StaICC {name}".rstrip())
    if name:
        assert f"python -m StaICC {name}" in shown.partition("examples:")[2]
        if "--model MODEL" in shown:  # `published` names models of published tables, which have no options
            assert ("--model-option" in shown) is (name != "published")
    else:
        assert [command for command in _COMMANDS if not re.search(rf"^ +{command}\b", shown, re.MULTILINE)] == []


def test_a_full_disk_is_said_and_other_faults_are_not_hidden(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    file: str | None = "p.jsonl"

    def write(*given: object) -> None:
        raise OSError(fault, os.strerror(fault), file)

    monkeypatch.setattr("StaICC.cli.files.write_output", write)
    fault = errno.ENOSPC
    status, _, err = staicc("prompts", *MINI[1:], "-o", "p.jsonl")
    assert (status, err) == (2, f"staicc: p.jsonl: {os.strerror(errno.ENOSPC)}\n")
    fault, file = errno.EBADF, None
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        main(["prompts", *MINI[1:], "-o", "p.jsonl"])


# -- as a program


def test_the_module_runs_without_data_and_says_where_it_is_missing(program: Any, tmp_path: Path) -> None:
    home = {"STAICC_HOME": str(tmp_path), "STAICC_OFFLINE": "1"}
    done = program(*MINI, "--no-save", env=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Normal\n")
    assert list(tmp_path.iterdir()) == []
    done = program("run", "normal", "--datasets", "TREC", env=home)
    assert (done.returncode, done.stdout) == (3, "")
    assert "python -m StaICC data install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_console_script_finds_modules_in_the_current_folder(program: Any, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "staicc").write_text("import sys\nfrom StaICC.cli import script\nsys.exit(script())\n")
    (tmp_path / "mine.py").write_text("def my_inference(prompt, label_space):\n    return 0\n")
    done = program(*MINI, "--model=mine:my_inference", start=("bin/staicc",), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "my_inference" in done.stdout
