"""Tables: the file format against an independent reading of it, and every kind of damage."""

from __future__ import annotations

import hashlib
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.datasets import table as module
from StaICC.datasets.table import FrozenTable, MemoryTable, Row, table_digest, write_table
from StaICC.errors import ArgumentError, DataMissingError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
LABEL = st.integers(0, 2**32 - 1)


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, list[tuple[list[str], int]]]:
    columns = draw(st.integers(1, 5))
    row = st.tuples(st.lists(TEXT, min_size=columns, max_size=columns), LABEL)
    return columns, draw(st.lists(row, min_size=1, max_size=12))


def naive_digest(rows: list[tuple[list[str], int]]) -> str:
    """The golden file's convention, word for word."""
    plain = [[list(texts), label] for texts, label in rows]
    return hashlib.sha256(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def parse(data: bytes) -> tuple[dict[str, Any], list[tuple[list[str], int]]]:
    """The format as its documentation has it, read all at once."""
    magic, version, size = struct.unpack("<8sII", data[:16])
    assert (magic, version) == (b"\x89StaICC\n", 1)
    facts = json.loads(data[16 : 16 + size].decode("ascii"))
    rows, columns, at = facts["rows"], facts["columns"], 16 + size
    assert at % 8 == 0
    ends = struct.unpack_from(f"<{rows * columns + 1}Q", data, at)
    labels = struct.unpack_from(f"<{rows}I", data, at + 8 * len(ends))
    body = data[at + 8 * len(ends) + 4 * rows :]
    assert len(body) == facts["body"] == ends[-1]
    cells = [body[a:b].decode() for a, b in pairwise(ends)]
    return facts, [(cells[i * columns : (i + 1) * columns], labels[i]) for i in range(rows)]


@given(tables())
@settings(max_examples=60, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, case: tuple[int, list[tuple[list[str], int]]]) -> None:
    columns, rows = case
    folder = tmp_path_factory.mktemp("table")
    digest = write_table(folder / "a", rows, columns)
    data = (folder / "a").read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest
    facts, parsed = parse(data)
    assert parsed == rows
    memory = MemoryTable(rows)
    assert facts == {"rows": len(rows), "columns": columns, "body": facts["body"], "table": naive_digest(rows)}
    assert memory.digest == table_digest(rows) == naive_digest(rows)
    wanted = [Row(tuple(texts), label) for texts, label in rows]
    for table in (FrozenTable(folder / "a", digest), FrozenTable(str(folder / "a"), digest), memory):
        assert (len(table), table.columns, table.digest) == (len(rows), columns, naive_digest(rows))
        assert list(table) == wanted
        assert [table[i] for i in reversed(range(len(rows)))] == wanted[::-1]
        assert [table[-i] for i in range(1, len(rows) + 1)] == wanted[::-1]
        assert type(table[0].label) is int
    assert write_table(folder / "b", iter(wanted), columns) == digest, "the same rows give the same bytes"
    assert (folder / "b").read_bytes() == data


def test_missing_and_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataMissingError, match=r"nowhere\.table cannot be read: No such file"):
        FrozenTable(tmp_path / "nowhere.table", "")
    with pytest.raises(DataMissingError, match=r"cannot be read: (Is a directory|Permission denied)"):
        FrozenTable(tmp_path, "")

    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "open", refuse, raising=False)
    with pytest.raises(DataMissingError, match="cannot be read: Permission denied"):
        FrozenTable(tmp_path / "locked.table", "")


BAD_ROWS: list[tuple[Any, str]] = [
    *((row, r"expected \(text or texts, label index\)") for row in ("text", ("text",), ("text", 0, 1), None, {"t": 0})),
    *(((text, 0), "expected a text or a sequence of texts") for text in (7, b"text", {"a"})),
    (([b"a"], 0), "text 0 must be a string, not b'a'"),
    ((["a", None], 0), "text 1 must be a string, not None"),
    (([], 0), "there is no input text"),
    ((["a", "b"], 0), "2 input texts, but the rows before it have 1"),
    (("a\ud800", 0), "text 0 holds a lone surrogate"),
    *((("a", label), "the label index must be 0 or more") for label in (-1, 2**32)),
    *((("a", label), "the label must be an index into the label space") for label in (True, 1.0, "positive", None)),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
def test_bad_rows_are_named(row: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"row 1: .*{message}|row 1: {message}"):
        MemoryTable([("good", 0), row])
    with pytest.raises(ArgumentError, match=message):
        write_table(tmp_path / "bad", [("good", 0), row], 1)
    assert list(tmp_path.iterdir()) == []
