"""The command line as a whole: commands, help, exit statuses, what goes to which stream."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import StaICC
import StaICC.cli
from StaICC.cli import main

ROOT = Path(StaICC.__file__).parents[1]
COMMANDS = list(StaICC.cli._COMMANDS)


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "StaICC", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"StaICC {StaICC.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nosuch"], ["run"], ["run", "nosuch"], ["run", "normal", "--nosuch"], ["verify"]]
)
def test_a_wrong_command_line_is_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: python -m StaICC" in captured.err


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert [command for command in COMMANDS if not re.search(rf"^ +{command}\b", text, re.MULTILINE)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: python -m StaICC {command}" in text
    examples = text.partition("examples:")[2]
    assert f"python -m StaICC {command}" in examples


def test_the_module_runs(tmp_path: Path) -> None:
    done = run("run", "normal", "--datasets", "mini", "--limit", "2")
    assert done.returncode == 0
    assert done.stdout.startswith("Normal\n")
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["cite"], ["run", "normal", "--datasets", "mini", "--limit", "2"]])
def test_a_reader_that_went_away_is_no_error(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "StaICC", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_missing_data_is_status_3_and_says_what_to_do(tmp_path: Path) -> None:
    done = run("run", "normal", "--datasets", "TREC", STAICC_HOME=str(tmp_path), STAICC_OFFLINE="1")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "python -m StaICC data install" in done.stderr
    assert "Traceback" not in done.stderr


def test_mini_needs_no_data(tmp_path: Path) -> None:
    done = run("run", "normal", "--datasets", "mini", STAICC_HOME=str(tmp_path), STAICC_OFFLINE="1")
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_other_faults_are_not_hidden(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def save(self: object, path: object) -> None:
        raise OSError(fault, os.strerror(fault), "r.json")

    monkeypatch.setattr(StaICC.Result, "save", save)
    command = ["run", "normal", "--datasets", "mini", "--limit", "2", "--json", "r.json"]
    fault = errno.ENOSPC
    assert main(command) == 2
    shown = capsys.readouterr()
    assert shown.err.endswith(f"staicc: r.json: {os.strerror(errno.ENOSPC)}\n")
    assert "StaICC|benchmark:Normal|" in shown.out  # the scores of a long run are not lost with the file
    fault = errno.EBADF
    with pytest.raises(OSError, match=r"r\.json"):
        main(command)


def test_an_interrupt_is_status_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import StaICC.cli.comparing as module

    def interrupted(*given: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "cite", interrupted)
    assert main(["cite"]) == 130
    assert capsys.readouterr().err.startswith("staicc: interrupted")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "nosuch.json"], "staicc: nosuch.json: No such file or directory\n"),
        (["verify", "."], "staicc: .: this is a folder, expected the file of a saved result\n"),
        (["run", "normal", "--datasets", "TREK"], "staicc: there is no data set 'TREK'; did you mean 'TREC'?"),
    ],
)
def test_errors_are_one_line_without_a_traceback(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1


def test_the_console_script_finds_modules_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "staicc").write_text("import sys\nfrom StaICC.cli import script\nsys.exit(script())\n")
    (tmp_path / "mine.py").write_text("def my_inference(prompt, label_space):\n    return 0\n")
    done = subprocess.run(
        [sys.executable, "bin/staicc", "run", "normal", "--datasets=mini", "--limit=1", "--model=mine:my_inference"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "my_inference" in done.stdout
