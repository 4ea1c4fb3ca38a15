"""What differs between operating systems and versions of Python: encodings, line ends, paths, classifiers."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from StaICC import Normal, load_kernel
from StaICC.cli import main

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
SOURCES = [path for folder in ("StaICC", "examples", "docs/hooks") for path in (ROOT / folder).rglob("*.py")]


def opens_text_without_encoding(call: ast.Call) -> bool:
    """Whether a call opens, reads or writes a text file in the encoding of the system."""
    names_encoding = any(keyword.arg in ("encoding", None) for keyword in call.keywords)
    if names_encoding:
        return False
    texts = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if isinstance(call.func, ast.Name) and call.func.id == "open":
        mode = texts[-1] if len(call.args) > 1 and texts else "r"
        return isinstance(mode, str) and "b" not in mode
    match call.func:
        case ast.Attribute(attr="read_text"):
            return not call.args
        case ast.Attribute(attr="write_text", value=ast.Name(id="output")):
            return False  # StaICC.cli.output, which writes UTF-8
        case ast.Attribute(attr="write_text"):
            return len(call.args) == 1
    return False


def calls_in(path: Path) -> Iterator[ast.Call]:
    """Yield the calls of functions in a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield node


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("open(path)", True),
        ("open(path, 'w')", True),
        ("open(path, 'rb')", False),
        ("open(path, 'w', encoding='utf-8')", False),
        ("path.read_text()", True),
        ("path.read_text('utf-8')", False),
        ("path.write_text('text')", True),
        ("path.write_text('text', 'utf-8')", False),
        ("output.write_text(args.output, lines)", False),
    ],
)
def test_calls_without_an_encoding_are_found(code: str, expected: bool) -> None:
    (call,) = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    assert opens_text_without_encoding(call) is expected


def test_every_text_file_is_opened_with_an_encoding() -> None:
    """Without one, Windows takes that of its language, in which other texts cannot be written."""
    places = []
    for path in SOURCES:
        places += [f"{path}:{call.lineno}" for call in calls_in(path) if opens_text_without_encoding(call)]
    assert places == []


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_commands_print_in_any_encoding_of_the_terminal(encoding: str, tmp_path: Path) -> None:
    """With the encodings that files would have by default as errors."""
    flags = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    arguments = ["run", "normal", "--datasets", "mini", "--limit", "4"]
    environment = {"PYTHONIOENCODING": f"{encoding}:strict", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "0"}
    command = [sys.executable, *flags, "-m", "StaICC", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(encoding)
    assert b"accuracy" in done.stdout


def test_lines_on_standard_output_end_as_those_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows writes a line feed as two characters. A text that had both already would get three."""
    Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0).save(tmp_path / "result.json")
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="utf-8", newline="\r\n"))

    assert main(["export", "queries", str(tmp_path / "result.json")]) == 0

    sys.stdout.flush()
    *lines, after_last_line = written.getvalue().split(b"\r\n")
    assert len(lines) == 1 + 4 * 2, "the headings, and a line for each of four rows with two draws of demonstrations"
    assert after_last_line == b""
    for line in lines:
        assert b"\r" not in line
        assert b"\n" not in line


def test_a_path_with_a_drive_is_a_folder_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="there is no GGUF file"):
        load_kernel(r"C:\models\m.gguf")
    with pytest.raises(Exception, match="there is no such folder"):
        load_kernel(r"D:\models\folder;dtype=bfloat16")


def test_the_oldest_python_is_the_same_everywhere() -> None:
    """In the requirement, the classifiers, the workflow of the tests and the page about systems; so is the newest."""
    oldest, *_, newest = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    page = (ROOT / "docs" / "systems.md").read_text("utf-8")

    assert re.findall(r'^requires-python = ">=(3\.\d+)"$', PYPROJECT, re.MULTILINE) == [oldest]
    assert re.findall(r'python: \["(3\.\d+)", "(3\.\d+)"\]', workflow) == [(oldest, newest)]
    assert f"| {oldest} to {newest} | supported" in page
