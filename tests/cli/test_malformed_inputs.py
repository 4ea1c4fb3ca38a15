"""Malformed files, to every command that reads one: one line on stderr, exit status 2, never a traceback."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.cli import main
from StaICC.datasets.json_reading import parse_json
from StaICC.inference.store import PredictionStore, query_key

LIMITS = ["--datasets", "mini", "--limit", "2"]
DEEP = 200_000
NESTED = "[" * DEEP + "]" * DEEP

TEXTS: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\n",
    "mark": b"\xef\xbb\xbf",
    "utf-16": '{"id": "a"}'.encode("utf-16"),
    "not utf-8": b'{"id": "\xff"}',
    "NUL": b"\x00" * 100,
    "NUL in a key": b'{"id\x00": 1}',
    "half": b'{"id": "a", ',
    "one brace": b"{",
    "number": b"1",
    "huge integer": b"1" * 5000,
    "huge integer in an object": b'{"id": ' + b"9" * 10_000 + b"}",
    "infinite": b'{"id": "a", "index": 1e999}',
    "nan": b'{"id": "a", "logits": [NaN, NaN]}',
    "list": b"[]",
    "null": b"null",
    "text": b'"text"',
    "deep": NESTED.encode(),
    "deep, not closed": b"[" * DEEP,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep inside": b'{"id": ' + NESTED.encode() + b"}",
    "deep, 500": b'{"kind": "result", "schema": 1, "x": ' + b"[" * 500 + b"]" * 500 + b"}",
    "escape": b"\x1b[2J\x07",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "zip": b"PK\x03\x04" + bytes(100),
    "database": b"SQLite format 3\x00" + bytes(200),
    "pickle": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "lone surrogate": b'{"id": "\xed\xa0\x80"}',
    "twice": b'{"id": "a", "id": "b"}',
    "carriage returns": b"id,index\ra,1\rb,2\r",
    "csv": b"id,index\na,1\n",
    "wide cell": b"id,label\n" + b"a" * 300_000 + b",b\n",
    "open quote": b'id,label\n"a,b\n',
    "kind only": b'{"kind": "result"}',
    "kind is a list": b'{"kind": ["result"], "schema": 1}',
    "newer": b'{"kind": "result", "schema": 99999}',
    "schema is huge": b'{"kind": "group", "schema": ' + b"1" * 400 + b"}",
}
NO_JSON = {
    "empty",
    "blank",
    "mark",
    "utf-16",
    "NUL",
    "half",
    "one brace",
    "escape",
    "picture",
    "zip",
    "database",
    "pickle",
}

RESULTS: dict[str, list[str]] = {
    "compare": ["compare", "good.json", "FILE"],
    "report": ["report", "FILE", "-o", "out.html"],
    "export scores": ["export", "scores", "FILE"],
    "export queries": ["export", "queries", "FILE", "-o", "out.csv"],
    "verify": ["verify", "FILE"],
    "published": ["published", "--result", "FILE"],
}
OTHERS: dict[str, list[str]] = {
    "score": ["score", "normal", "FILE", *LIMITS],
    "score csv": ["score", "normal", "FILE.csv", *LIMITS],
    "score partial": ["score", "normal", "FILE", *LIMITS, "--partial", "--json", "out.json"],
    "run store": ["run", "normal", *LIMITS, "--store", "FILE"],
    "store info": ["store", "info", "FILE"],
    "store export": ["store", "export", "FILE", "-o", "out.jsonl"],
    "store merge into": ["store", "merge", "FILE", "good.sqlite"],
    "store merge from": ["store", "merge", "out.sqlite", "FILE"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0).save("good.json")
    with PredictionStore("good.sqlite") as store:
        store.put_many("model", [(query_key("p", ["a", "b"]), 1)])
    return tmp_path


def run(arguments: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main([word.replace("FILE", name) for word in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def refused(found: tuple[int, str, str]) -> None:
    status, out, err = found
    assert status == 2, (out, err)
    assert out == ""
    assert err.startswith("staicc: ")
    assert err.count("\n") == 1
    assert len(err) < 2000
    assert "\x1b" not in err


@pytest.mark.parametrize("command", OTHERS)
@pytest.mark.parametrize("content", TEXTS)
def test_texts(folder: Path, capsys: pytest.CaptureFixture[str], command: str, content: str) -> None:
    for name in ("bad", "bad.csv"):
        (folder / name).write_bytes(TEXTS[content])
    found = run(OTHERS[command], "bad", capsys)
    if content == "empty" and command in ("run store", "store merge into"):
        assert found[0] == 0  # a run that was killed while it made the store may leave an empty file
        return
    refused(found)
    assert not list(folder.glob("out*"))
    assert (folder / "bad").read_bytes() == TEXTS[content]


@pytest.mark.parametrize("command", RESULTS)
@pytest.mark.parametrize("content", sorted(NO_JSON))
def test_texts_that_are_no_results(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, content: str
) -> None:
    (folder / "bad").write_bytes(TEXTS[content])
    refused(run(RESULTS[command], "bad", capsys))
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize("command", [*RESULTS, *OTHERS])
def test_what_is_no_file(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    arguments = {**RESULTS, **OTHERS}[command]
    (folder / "a folder").mkdir()
    os.symlink("loop", "loop")
    makes = command in ("run store", "store merge into")
    for name in ("a folder", "good.json/x", "loop", "x" * 300, *([] if makes else ["not there", "new\nline\x1b"])):
        if command == "score csv" and name in ("a folder", "loop"):
            continue
        refused(run(arguments, name, capsys))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs endless devices")
@pytest.mark.parametrize("command", [one for one in OTHERS if one != "score csv"])
def test_endless_devices(capsys: pytest.CaptureFixture[str], command: str) -> None:
    refused(run(OTHERS[command], "/dev/zero", capsys))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", [*RESULTS, *OTHERS])
def test_no_permission(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    for name in ("bad", "bad.csv"):
        (folder / name).write_bytes(b"{}")
        (folder / name).chmod(0)
    refused(run({**RESULTS, **OTHERS}[command], "bad", capsys))


# -- predictions of any type


def values(draw: random.Random, depth: int = 0) -> Any:
    """A value of any JSON type; seldom one that fits."""
    kinds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: draw.choice([True, False]),
        lambda: draw.choice([0, 1, -1, 10**400, -(2**70), 7]),
        lambda: draw.choice([0.5, float("nan"), float("inf"), -1e308, 1e-320]),
        lambda: draw.choice(["", "a", "food", "\x1b[2J", "\u202e", "\ud800", "\x00", "9" * 5000, "=1", "a\nb"]),
    ]
    if depth < 3:
        kinds += [
            lambda: [values(draw, depth + 1) for _ in range(draw.randrange(5))],
            lambda: {str(values(draw, 3))[:20]: values(draw, depth + 1) for _ in range(draw.randrange(4))},
        ]
    return draw.choice(kinds)()


@pytest.mark.parametrize("seed", range(150))
def test_predictions_of_any_type(folder: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    draw = random.Random(seed)
    main(["prompts", "normal", *LIMITS, "-o", "prompts.jsonl"])
    asked = [parse_json(line, "line") for line in Path("prompts.jsonl").read_bytes().splitlines()]
    records = [{"id": one["id"], "index": 0} for one in asked]
    place = draw.randrange(len(records))
    if draw.random() < 0.3:
        records[place]["id"] = values(draw)
    else:
        del records[place]["index"]
        records[place][draw.choice(["probabilities", "logits", "index", "label"])] = values(draw)
    if draw.random() < 0.3:  # as lm_eval logs it
        doc = draw.choice([values(draw), {"id": values(draw), "label_space": values(draw), "prompt": values(draw)}])
        records[0] = {"doc": doc, "resps": values(draw), "filtered_resps": values(draw), "arguments": values(draw)}
    Path("bad").write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    found = run(OTHERS["score"], "bad", capsys)
    if found[0] == 0:  # the value happened to fit
        assert found[1].startswith("Normal")
    else:
        refused(found)


@pytest.mark.parametrize("seed", range(150))
def test_damaged_files(folder: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    """Valid files with bytes changed, cut out or put in: right, or refused in one line."""
    draw = random.Random(seed)
    main(["prompts", "normal", *LIMITS, "-o", "prompts.jsonl"])
    asked = [parse_json(line, "line") for line in Path("prompts.jsonl").read_bytes().splitlines()]
    lines = [
        {"id": one["id"], "probabilities": [1 / len(one["label_space"])] * len(one["label_space"])} for one in asked
    ]
    contents = {
        "bad": "".join(json.dumps(one) + "\n" for one in lines).encode(),
        "bad.csv": ("id,label\n" + "".join(f"{one['id']},{one['label_space'][0]}\n" for one in asked)).encode(),
        "bad.sqlite": Path("good.sqlite").read_bytes(),
    }
    for name, content in contents.items():
        data = bytearray(content)
        for _ in range(draw.choice([1, 1, 3, 20])):
            place = draw.randrange(len(data))
            piece = draw.choice([bytes([draw.randrange(256)]), b"\x00", b"[", b'"', b"\xff\xfe", b"9" * 400, b"\r"])
            kind = draw.randrange(3)
            data[place : place + (0 if kind == 0 else len(piece) if kind == 1 else draw.randrange(100))] = piece
        Path(name).write_bytes(data)
    for command, name in (("score", "bad"), ("score", "bad.csv"), ("store info", "bad.sqlite")):
        found = run(OTHERS[command], name, capsys)
        if found[0] == 2:
            refused(found)
        else:
            assert found[0] in (0, 1)
    for command in ("store export", "store merge from"):
        for left in folder.glob("out*"):
            left.unlink()
        found = run(OTHERS[command], "bad.sqlite", capsys)
        if found[0] == 2:
            refused(found)
        else:
            assert found[0] == 0


def test_an_sqlite_database_of_another_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = sqlite3.connect("bad")
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    before = Path("bad").read_bytes()
    for command in OTHERS:
        if command != "score csv":
            refused(run(OTHERS[command], "bad", capsys))
    assert Path("bad").read_bytes() == before
