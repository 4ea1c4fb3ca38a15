"""Files that are damaged, of another kind, or no files, to every command that reads one: one line, status 2."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import StaICC
from StaICC.cli import main
from StaICC.inference.store import PredictionStore, query_key
from tests.cli.conftest import Cli

LIMITS = ["--datasets", "mini", "--limit", "2"]
NESTED = b"[" * 200_000 + b"]" * 200_000

TEXTS: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\n",
    "mark": b"\xef\xbb\xbf",
    "utf-16": '{"id": "a"}'.encode("utf-16"),
    "not utf-8": b'{"id": "\xff"}',
    "NUL": b"\x00" * 100,
    "NUL in a key": b'{"id\x00": 1}',
    "half": b'{"id": "a", ',
    "number": b"1",
    "huge integer in an object": b'{"schema": ' + b"9" * 10_000 + b"}",
    "infinite": b'{"schema": 1e999, "index": 1e999}',
    "nan": b'{"kind": NaN, "logits": [NaN, NaN]}',
    "list": b"[]",
    "null": b"null",
    "text": b'"text"',
    "deep": NESTED,
    "deep, not closed": b"[" * 200_000,
    "deep inside": b'{"kind": "result", "schema": 2, "details": ' + b"[" * 900 + b"]" * 900 + b"}",
    "escape": b"\x1b[2J\x07",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "zip": b"PK\x03\x04" + bytes(100),
    "database": b"SQLite format 3\x00" + bytes(200),
    "pickle": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "lone surrogate": b'{"kind": "\\ud800", "id": "\xed\xa0\x80"}',
    "twice": b'{"kind": "group", "schema": 2, "name": "a", "parts": {}, "parts": {}}',
    "carriage returns": b"id,index\ra,1\rb,2\r",
    "csv": b"id,index\na,1\n",
    "wide cell": b"id,label\n" + b"a" * 300_000 + b",b\n",
    "open quote": b'id,label\n"a,b\n',
    "kind only": b'{"kind": "result"}',
    "kind is a list": b'{"kind": ["result"], "schema": 1}',
    "schema is true": b'{"kind": "result", "schema": true}',
    "newer": b'{"kind": "result", "schema": 99999}',
}
COMMANDS: dict[str, list[str]] = {
    "compare": ["compare", "good.json", "FILE"],
    "report": ["report", "FILE", "-o", "out.html"],
    "export scores": ["export", "scores", "FILE"],
    "export queries": ["export", "queries", "FILE", "-o", "out.csv"],
    "verify": ["verify", "FILE"],
    "published": ["published", "--result", "FILE"],
    "score": ["score", "normal", "FILE", *LIMITS],
    "score csv": ["score", "normal", "FILE.csv", *LIMITS],
    "score partial": ["score", "normal", "FILE", *LIMITS, "--partial", "--json", "out.json"],
    "run store": ["run", "normal", *LIMITS, "--store", "FILE"],
    "store info": ["store", "info", "FILE"],
    "store export": ["store", "export", "FILE", "-o", "out.jsonl"],
    "store merge into": ["store", "merge", "FILE", "good.sqlite"],
    "store merge from": ["store", "merge", "out.sqlite", "FILE"],
}
MAKES = ("run store", "store merge into")
"""Commands that make the file if it is not there."""


@pytest.fixture(scope="module")
def folder_of_good_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a result, a store and prompts."""
    folder = tmp_path_factory.mktemp("good")
    StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0).save(folder / "good.json")
    with PredictionStore(folder / "good.sqlite") as store:
        store.put_many("model", [(query_key("p", ["a", "b"]), 1)])
    main(["prompts", "normal", *LIMITS, "-o", str(folder / "prompts.jsonl")])
    return folder


@pytest.fixture(autouse=True)
def folder(folder_of_good_files: Path, tmp_path: Path) -> Path:
    """A copy of the folder of good files, which is the working folder."""
    shutil.copytree(folder_of_good_files, tmp_path, dirs_exist_ok=True)
    return tmp_path


def is_made_from_an_empty_file(command: str, content: str) -> bool:
    """Return whether a command continues: a run that was killed while it made a store may leave an empty file."""
    return command in MAKES and content == "empty"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_file_is_refused_in_one_line_and_stays(folder: Path, staicc: Cli, command: str) -> None:
    words = [word.replace("FILE", "bad") for word in COMMANDS[command]]
    for content, data in TEXTS.items():
        if is_made_from_an_empty_file(command, content):
            continue
        (folder / "bad").write_bytes(data)
        (folder / "bad.csv").write_bytes(data)

        status, out, err = staicc(*words)

        assert (status, out) == (2, ""), f"{content}: {err}"
        assert err.startswith("staicc: "), f"{content}: {err}"
        assert err.count("\n") == 1, f"{content}: {err}"
        assert len(err) < 2000, f"{content}: the message has {len(err)} characters"
        assert "\x1b" not in err, f"{content}: the message controls the terminal"
        assert not list(folder.glob("out*")), f"{content}: an output was written"
        assert (folder / "bad").read_bytes() == data, f"{content}: the file was changed"


@pytest.mark.parametrize("command", MAKES)
def test_an_empty_file_becomes_a_store(folder: Path, staicc: Cli, command: str) -> None:
    (folder / "bad").write_bytes(b"")
    words = [word.replace("FILE", "bad") for word in COMMANDS[command]]

    assert staicc(*words).status == 0


COMMANDS_ON_RESULTS = ("compare", "report", "export scores", "export queries", "verify", "published")
"""The commands above that read saved results; the others below read them too."""
FURTHER_COMMANDS_ON_RESULTS = (
    ["rank", "FILE", "good.json"],
    ["leaderboard", "FILE", "-o", "out"],
    ["export", "paper", "FILE"],
    ["components", "FILE"],
    ["show", "run", "FILE"],
    ["cite", "FILE"],
)
COMMANDS_THAT_READ_RESULTS = [*(COMMANDS[name] for name in COMMANDS_ON_RESULTS), *FURTHER_COMMANDS_ON_RESULTS]
NO_RESULTS = ("empty", "not utf-8", "half", "list", "null", "picture", "kind only", "NUL in a key")


@pytest.mark.parametrize("words", COMMANDS_THAT_READ_RESULTS, ids=lambda words: " ".join(words))
def test_a_file_that_is_no_result_is_named_with_what_to_give_instead(
    folder: Path, staicc: Cli, words: list[str]
) -> None:
    for content in NO_RESULTS:
        (folder / "bad.json").write_bytes(TEXTS[content])

        status, _, err = staicc(*[word.replace("FILE", "bad.json") for word in words])

        assert status == 2, f"{content}: {err}"
        assert "bad.json: " in err, f"{content}: {err}"
        assert "Give a file that run saved" in err, f"{content}: {err}"


@pytest.mark.parametrize("words", COMMANDS_THAT_READ_RESULTS, ids=lambda words: " ".join(words))
def test_a_result_that_is_missing_is_named_with_the_nearest_file(staicc: Cli, words: list[str]) -> None:
    status, _, err = staicc(*[word.replace("FILE", "god.json") for word in words])

    assert status in (2, 3), err
    assert "there is no file god.json. Did you mean 'good.json'?" in err
