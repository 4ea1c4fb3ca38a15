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


Rows = list[tuple[list[str], int]]


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    """Rows with the same number of texts, one to five, and a label each."""
    columns = draw(st.integers(1, 5))
    row = st.tuples(st.lists(TEXT, min_size=columns, max_size=columns), LABEL)
    return draw(st.lists(row, min_size=1, max_size=12))


def naive_digest(rows: Rows) -> str:
    """Return the digest by the convention of the golden file, word for word."""
    plain = [[list(texts), label] for texts, label in rows]
    return hashlib.sha256(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def parse(data: bytes) -> tuple[dict[str, Any], Rows]:
    """Return the facts and the rows of a file in the format, as its documentation has it.

    A file has 16 bytes with the size of the facts, the facts as JSON, the boundaries of the texts as integers of
    8 bytes, the labels as integers of 4 bytes, and the texts one after the other, row by row.
    """
    magic, version, size_of_facts = struct.unpack("<8sII", data[:16])
    assert (magic, version) == (b"\x89StaICC\n", 1)
    facts = json.loads(data[16 : 16 + size_of_facts].decode("ascii"))
    row_count, columns = facts["rows"], facts["columns"]

    start_of_boundaries = 16 + size_of_facts
    assert start_of_boundaries % 8 == 0
    boundaries = struct.unpack_from(f"<{row_count * columns + 1}Q", data, start_of_boundaries)
    start_of_labels = start_of_boundaries + 8 * len(boundaries)
    labels = struct.unpack_from(f"<{row_count}I", data, start_of_labels)
    body = data[start_of_labels + 4 * row_count :]
    assert len(body) == facts["body"] == boundaries[-1]

    texts = iter([body[begin:end].decode() for begin, end in pairwise(boundaries)])
    rows = []
    for label in labels:
        rows.append(([next(texts) for _ in range(columns)], label))
    return facts, rows


@given(tables())
@settings(max_examples=60, deadline=None)
def test_a_written_file_has_the_documented_format(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    path = tmp_path_factory.mktemp("table") / "a"

    digest = write_table(path, rows, len(rows[0][0]))

    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    facts, parsed = parse(path.read_bytes())
    assert parsed == rows
    assert (facts["rows"], facts["columns"], facts["table"]) == (len(rows), len(rows[0][0]), naive_digest(rows))
    assert sorted(facts) == ["body", "columns", "rows", "table"]


@given(tables())
@settings(max_examples=60, deadline=None)
def test_the_same_rows_give_the_same_file(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    folder = tmp_path_factory.mktemp("table")

    write_table(folder / "a", rows, len(rows[0][0]))
    write_table(folder / "b", iter(rows), len(rows[0][0]))

    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()


def frozen_table(folder: Path, rows: Rows) -> FrozenTable:
    """Return a table that is read from a file with these rows."""
    digest = write_table(folder / "table", rows, len(rows[0][0]))
    return FrozenTable(folder / "table", digest)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_a_table_has_the_rows_it_was_made_of(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    for table in (MemoryTable(rows), frozen_table(tmp_path_factory.mktemp("table"), rows)):
        assert list(table) == [Row(tuple(texts), label) for texts, label in rows]
        assert (len(table), table.columns) == (len(rows), len(rows[0][0]))
        assert table.digest == table_digest(rows) == naive_digest(rows)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_a_row_of_a_table_is_found_by_its_number(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    for table in (MemoryTable(rows), frozen_table(tmp_path_factory.mktemp("table"), rows)):
        for number, (texts, label) in enumerate(rows):
            assert table[number] == table[number - len(rows)] == Row(tuple(texts), label)
        assert type(table[0].label) is int


def test_the_path_of_a_table_can_be_a_text(tmp_path: Path) -> None:
    digest = write_table(tmp_path / "table", [(["a"], 0)], 1)

    assert FrozenTable(str(tmp_path / "table"), digest)[0] == Row(("a",), 0)


def test_a_table_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=r"nowhere\.table cannot be read: No such file"):
        FrozenTable(tmp_path / "nowhere.table", "")


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=r"cannot be read: (Is a directory|Permission denied)"):
        FrozenTable(tmp_path, "")


def test_a_table_that_must_not_be_read_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_bad_row_is_refused_with_its_number(row: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"row 1: .*{message}|row 1: {message}"):
        MemoryTable([("good", 0), row])


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
def test_no_file_is_written_of_a_bad_row(row: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=message):
        write_table(tmp_path / "bad", [("good", 0), row], 1)

    assert list(tmp_path.iterdir()) == []
