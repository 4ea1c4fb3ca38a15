"""No command lets names, labels, file names or messages control the terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.cli import main
from StaICC.datasets.dataset import Dataset
from StaICC.inference.store import PredictionStore

EVIL = "x\x1b]0;owned\x07\x9b31m\u202egnp\u2066\u200b\ud800\x7f\r"
HIDDEN = ("\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200b", "\ud800", "\udcff", "\x7f", "\r", "\nnext")
WORD = EVIL.replace("\ud800", "\udcff")
"""As a word of a command line, which may hold bytes that are not text."""
SHOWN = "x\\x1b]0;owned\\x07\\x9b31m\\u202egnp\\u2066\\u200b\\ud800\\x7f\\r"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """Results of a data set whose name and labels are hostile, and a store of such a model."""
    name = EVIL.replace("\ud800", "")  # data sets refuse lone surrogates
    rows = [(f"text {i} {name}", i % 2) for i in range(60)]
    data = Dataset.from_rows(rows, name=name, label_space=[f"={name}", "@plain"])
    for run in (0, 1):
        result = StaICC.Normal(datasets=[data], limit=4)(lambda prompt, label_space, run=run: run)
        result.environment["model"] = name
        result.save(f"r{run}.json")
    cells = [f'"{name} {row}","{name} {row % 2}"' for row in range(60)]
    Path("own.csv").write_text("\n".join(["text,label", *cells]), "utf-8", newline="")
    with PredictionStore("run.sqlite") as store:
        store.put_many(EVIL, [(b"k" * 32, [0.5, 0.5])])
    return tmp_path


OWN = ["--data", "own.csv", "--text", "text", "--label"]
COMMANDS = [
    ["run", "normal", *OWN, "label", "--limit", "3"],
    ["run", "normal", *OWN, WORD],
    ["prompts", "normal", *OWN, "label", "--limit", "2"],
    ["export", "latex", "r0.json"],
    ["show", WORD],
    ["compare", "r0.json", "r1.json"],
    ["compare", "r0.json", "r1.json", "--format", "markdown"],
    ["compare", "r0.json", "r1.json", "--format", "latex"],
    ["compare", "r0.json", "r1.json", "--json"],
    ["export", "scores", "r0.json", "--json"],
    ["export", "queries", "r0.json", "--json"],
    ["verify", "r0.json"],
    ["verify", "r0.json", "--json"],
    ["published", "--result", "r0.json"],
    ["published", "--result", "r0.json", "--json"],
    ["published", "--model", WORD],
    ["store", "info", "run.sqlite"],
    ["store", "info", "run.sqlite", "--json"],
    ["store", "export", "run.sqlite"],
    ["store", "merge", "new.sqlite", "run.sqlite", "--json"],
    ["store", "info", f"{WORD}\nnext line"],
    ["cite", WORD],
    ["score", "normal", WORD, "--datasets", "mini"],
    ["run", "normal", "--datasets", WORD],
    ["run", "normal", "--datasets", "mini", "--limit", "2", "--model", WORD],
    ["run", "normal", "--datasets", "mini", "--limit", "2", "--model-name", WORD, "--json"],
    ["run", "normal", "--datasets", "mini", "--limit", "2", "--json", f"{WORD}/none"],
    ["run", "normal", f"--{WORD}"],
    [WORD],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: " ".join(words).encode("ascii", "replace").decode())
def test_nothing_controls_the_terminal(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = int(str(stop.code))
    out, err = capsys.readouterr()

    assert status in (0, 1, 2, 3)
    assert out + err != ""
    for character in HIDDEN:
        assert character not in out + err


COMMANDS_THAT_PRINT_JSON = [words for words in COMMANDS if words[-1] == "--json"]


@pytest.mark.parametrize("arguments", COMMANDS_THAT_PRINT_JSON, ids=lambda words: ascii(" ".join(words)))
def test_json_with_escaped_characters_can_be_parsed(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """The command ``export`` prints JSON Lines, the others print one document."""
    assert main(arguments) in (0, 3), "3: the data of these results cannot be verified"

    out = capsys.readouterr().out
    documents = out.splitlines() if arguments[0] == "export" else [out]
    for document in documents:
        json.loads(document)


def test_a_traceback_is_escaped_too(program: Any) -> None:
    code = (
        "import sys, StaICC.cli, StaICC.cli.cite as module\n"
        "def fail(args): raise RuntimeError('reply \\x1b[2J\\u202e')\n"
        "module.cite = fail; sys.argv = ['staicc', 'cite']\n"
        "StaICC.cli.main()\n"
    )
    done = program(code, start=("-c",))

    assert done.returncode == 1
    assert "reply \\x1b[2J\\u202e" in done.stderr.splitlines()[-1]
    assert "\x1b" not in done.stderr


def bytes_on_stdout(arguments: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return what a command writes to a standard output with this encoding."""
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    assert main(arguments) == 0
    sys.stdout.flush()
    return written.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_printed_in_any_encoding_of_stdout(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = bytes_on_stdout(["compare", "r0.json", "r1.json", "--json"], encoding, monkeypatch)
    json.loads(written.decode(encoding))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_csv_is_printed_in_any_encoding_of_stdout(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = bytes_on_stdout(["export", "scores", "r0.json"], encoding, monkeypatch)

    assert written.decode(encoding) != ""
