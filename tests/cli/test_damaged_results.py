"""Every command that reads results meets damaged files with one line and status 2, or reads them; never otherwise."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import StaICC
from StaICC.cli import main
from StaICC.methods.run import run_all
from StaICC.results.result import with_digests

TESTS = Path(__file__).parents[1]

COMMANDS = [
    ["verify", "f.json"],
    ["compare", "f.json", "whole.json"],
    ["report", "f.json", "-o", "r.html"],
    ["published", "--result", "f.json"],
    ["export", "scores", "f.json"],
    ["export", "queries", "f.json"],
]
METHODS = ["vanilla", "contextual_calibration", "batch_calibration"]


def _edits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("result_edits", TESTS / "result_edits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["result_edits"] = module
    spec.loader.exec_module(module)
    return module


edits = _edits()


def model(prompt: str, label_space: list[str]) -> list[float]:
    return [len(prompt) % (7 + place) - 3.5 for place in range(len(label_space))]


def unsure(prompt: str, label_space: list[str]) -> Any:
    return None if len(prompt) % 5 == 0 else model(prompt, label_space)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def documents() -> list[Any]:
    suite = StaICC.Suite(datasets=["mini"], limit=4)(model)
    suite.save("whole.json")
    partial = StaICC.GLER(datasets=["mini"], limit=4)(unsure, on_error="collect")
    Path("own.csv").write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(90)), "utf-8")
    own = StaICC.Normal(datasets=[StaICC.Dataset.from_file("own.csv", "text", "label")], limit=4)(model)
    stopped = StaICC.Normal(datasets=["mini"])(model, precision=0.3)
    methods = run_all(
        StaICC.load_kernel("ppm"), StaICC.Normal(datasets=["mini"], limit=2), "staicc", 4, methods=METHODS
    )
    results = (suite, partial, suite["Normal"], own, stopped, methods)
    plain = [with_digests(one.to_dict()) for one in results]
    return list(json.loads(json.dumps(plain)))


def run(command: list[str]) -> tuple[int, str]:
    """Run a command as a terminal of UTF-8 sees it; its status and what it says on stderr."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(command)
        out.flush()
    err.flush()
    return status, err.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


FILES = int(os.environ.get("STAICC_FUZZED_FILES", "2000"))
"""Damaged files of the slow test; a tenth of them goes through all commands, the others through ``verify``."""


@pytest.mark.parametrize("number", [20, pytest.param(FILES, marks=pytest.mark.slow)])
def test_damaged_files_give_no_traceback(number: int) -> None:
    rng = random.Random(number)
    originals = documents()
    statuses = []
    for place in range(number):
        Path("f.json").write_bytes(edits.damaged(rng.choice(originals), rng))
        for command in COMMANDS if number < 100 or place % 10 == 0 else COMMANDS[:1]:
            started = time.process_time()
            status, said = run(command)
            assert time.process_time() - started < 5, command
            assert status in (0, 1, 2, 3), command
            warned = said.count("the file was changed after it was written")  # before it cannot be compared
            assert status != 2 or said.count("\n") == 1 + warned, (command, said)
            statuses.append((command[0], status))
    assert ("verify", 1) in statuses
    assert statuses.count(("verify", 2)) > number / 3


def test_prompt_digests_that_are_no_base64_are_named() -> None:
    whole = json.loads(json.dumps(StaICC.Normal(datasets=["mini"], limit=4)(model).to_dict()))
    edited = edits.edited(whole, ("details", "mini", "query_digests"), "A")
    for document in (edited, edits.edited(edited, ("signature", "datasets"), "own")):
        Path("f.json").write_text(json.dumps(with_digests(document)), "utf-8")
        assert run(["verify", "f.json"])[0] == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"kind": "result", "schema": 2, "details": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"kind": "group", "schema": 2, "name": "a", "parts": {}, "parts": {}}',
        b'{"schema": ' + b"9" * 10_000 + b"}",
        b'{"schema": 1e999}',
        b'{"kind": NaN}',
        b'{"kind": "\\ud800"}',
        b"\xff\xfe{}",
        b'{"kind": "result", "schema": true}',
        b'{"kind": ["result"], "schema": 2}',
        b"\x00" * 1000,
        b"null",
    ],
)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
def test_what_is_no_result_is_one_line(content: bytes, command: list[str]) -> None:
    StaICC.Normal(datasets=["mini"], limit=1)(model).save("whole.json")
    Path("f.json").write_bytes(content)
    status, said = run(command)
    assert status == 2
    assert said.startswith("staicc: f.json: ")
    assert said.count("\n") == 1
    assert len(said) < 400


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
@pytest.mark.parametrize("kind", ["folder", "socket", "device", "loop", "missing"])
def test_what_is_no_file_is_one_line(kind: str, command: list[str]) -> None:
    StaICC.Normal(datasets=["mini"], limit=1)(model).save("whole.json")
    if kind == "folder":
        os.mkdir("f.json")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("f.json")
    elif kind == "device":
        os.symlink("/dev/zero", "f.json")
    elif kind == "loop":
        os.symlink("f.json", "f.json")
    status, said = run(command)
    assert status == 2
    assert said.startswith("staicc: f.json: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
def test_a_result_is_read_from_a_pipe(command: list[str]) -> None:
    StaICC.Normal(datasets=["mini"], limit=2)(model).save("whole.json")
    os.mkfifo("f.json")
    writer = threading.Thread(target=lambda: Path("f.json").write_bytes(Path("whole.json").read_bytes()), daemon=True)
    writer.start()
    assert run(command)[0] == 0
    writer.join()


def test_a_path_with_a_null_character_is_one_line() -> None:
    status, said = run(["verify", "a\0b"])
    assert (status, said.count("\n")) == (2, 1)


def test_nested_groups_are_read() -> None:
    part: Any = StaICC.Normal(datasets=["mini"], limit=1)(model).to_dict()
    for depth in range(60):
        part = {"schema": 2, "kind": "group", "name": str(depth), "parts": {"inner": part}}
    Path("f.json").write_text(json.dumps(part), "utf-8")
    status, said = run(["verify", "f.json"])
    assert status == 2
    assert "nested more than 100 deep" in said
