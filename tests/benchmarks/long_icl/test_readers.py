"""Malformed files: every complaint names the file, and the line or the record."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card, load
from StaICC.benchmarks.long_icl.files import READERS, FileRow, lines
from StaICC.benchmarks.long_icl.prompts import entity_item
from StaICC.errors import DataDamagedError, DataMissingError

Write = Callable[[str, "str | bytes"], Path]

LONG_NUMBERS = not hasattr(sys, "set_int_max_str_digits")

FORMATS = {
    "banking77": "banking_csv",
    "goemotions": "goemotions_tsv",
    "discovery": "discovery_tsv",
    "tacred": "tacred_json",
    "few_nerd": "entities_json",
    "dialogre": "dialogre_train_json",
}
GOOD: dict[str, str] = {
    "banking77": "text,category\r\nWhere is it?,card_arrival\r\n",
    "goemotions": "Oh no\t3\tc1\nYes\t17,2\tc2\n",
    "discovery": "sentence1\tsentence2\tlabel\na\tb\tyet,\nc\td\t0\n",
    "tacred": json.dumps(
        [{"token": ["a", "b"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1, "relation": "per:age"}]
    ),
    "few_nerd": '[\n{"sentence": "Ox.", "entities": {"Ox": "other-god"}}\n]\n',
    "dialogre": '[\n[["S1: hi"], [{"x": "a", "y": "b", "r": ["per:age"]}]]\n]\n',
}


def read(name: str, path: Path) -> list[FileRow]:
    return list(READERS[FORMATS[name]](path, card(name)))


def refused(name: str, path: Path, place: int | str, *said: str) -> None:
    with pytest.raises(DataDamagedError) as caught:
        read(name, path)
    message = str(caught.value)
    assert message.startswith(f"{path}, {place if isinstance(place, str) else f'line {place}'}: "), message
    for part in said:
        assert part in message


@pytest.mark.parametrize("name", GOOD)
def test_good_files_are_read(write: Write, name: str) -> None:
    assert read(name, write("good", GOOD[name]))


@pytest.mark.parametrize("name", GOOD)
class TestEveryFormat:
    def test_empty(self, write: Write, name: str) -> None:
        refused(name, write("file", ""), 1, "empty")

    def test_byte_order_mark(self, write: Write, name: str) -> None:
        refused(name, write("file", b"\xef\xbb\xbf" + GOOD[name].encode()), 1, "byte-order mark")

    def test_windows_line_ends(self, write: Write, name: str) -> None:
        text = GOOD[name].replace("\r", "").replace("\n", "\r\n")
        if name == "banking77":  # that is how it is published
            assert [row.form for row in read(name, write("file", text))] == [
                row.form for row in read(name, write("other", text.replace("\r", "")))
            ]
            return
        refused(name, write("file", text if "\r\n" in text else text + "\r\n"), 1, "Windows line end")

    def test_not_utf_8(self, write: Write, name: str) -> None:
        head, tail = GOOD[name].encode().split(b"\n", 1) if b"\n" in GOOD[name].encode() else (b"", b"")
        refused(name, write("file", head + b"\n" + b"\xff\n" + tail), 2, "not UTF-8")

    def test_missing(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(DataMissingError, match=r"none cannot be read: .*No such file"):
            read(name, tmp_path / "none")

    @settings(max_examples=60)
    @given(data=st.data())
    def test_damage_is_a_clear_error_or_other_rows(
        self, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
    ) -> None:
        """One byte changed, one piece cut out: never another kind of exception."""
        raw = bytearray(GOOD[name].encode())
        place = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[place] = data.draw(st.integers(0, 255))
        else:
            del raw[place : place + data.draw(st.integers(1, 9))]
        path = tmp_path_factory.mktemp("damage") / "file"
        path.write_bytes(bytes(raw))
        try:
            assert all(row.item() for row in read(name, path))
        except DataDamagedError as error:
            problem = str(error)
        else:
            return
        assert problem.startswith(f"{path}, ")


@pytest.mark.parametrize(
    ("name", "text", "place", "said"),
    [
        ("banking77", "text,category\r\na,card_arrival\r\nb,card_arrival,x\r\n", 3, "expected 2 columns"),
        ("banking77", "text,category\r\n\r\na,card_arrival\r\n", 2, "found 0"),
        ("banking77", 'text,category\n"a\nb",card_arrival\nc,card_arival\n', 4, "did you mean 'card_arrival'?"),
        ("banking77", 'text,category\r\n"a\r\nb",card_arrival\r\n', 2, "holds a Windows line end"),
        ("banking77", "text,category\r\r\na,card_arrival\r\n", 1, "a Windows line end"),
        ("banking77", "text,category\na\rb,card_arrival\n", 2, "a stray carriage return"),
        ("banking77", "a,card_arrival\n", 1, "expected the header text,category"),
        ("banking77", 'text,category\na,card_arrival\n"open,card_arrival\nb,card_arrival\n', 3, "found 1"),
        ("goemotions", "a\t1\tc\n" + "b" * 200000, 2, "not a row of quoted fields"),
        ("goemotions", "a\t1\tc\nb\t1\n", 2, "expected 3 columns (text, label ids, comment id), found 2"),
        ("goemotions", "a\t1\tc\nb\t28\tc\n", 2, "'28' is not a label id, 0 to 27"),
        ("goemotions", "a\tjoy\tc\n", 1, "unknown label: 'joy'"),
        ("goemotions", "a\t1,\tc\n", 1, "unknown label: ''"),
        ("goemotions", "a\t-1\tc\n", 1, "unknown label: '-1'"),
        ("goemotions", "a\t²\tc\n", 1, "unknown label: '²'"),
        ("goemotions", "a\t" + "1" * 5000 + "\tc\n", 1, "unknown label: "),
        ("discovery", "a\tb\tyet,\n", 1, "expected a header"),
        ("discovery", "sentence1\tsentence2\tlabel\na\tb\n", 2, "expected 3 columns"),
        ("discovery", "sentence1\tsentence2\tlabel\tidx\na\tb\tyet,\n", 2, "expected 4 columns"),
        ("discovery", "sentence1\tsentence2\tlabel\na\tb\tyet\n", 2, "did you mean 'yet,'?"),
        ("discovery", "sentence1\tsentence2\tlabel\na\tb\t174\n", 2, "there is no Discovery label '174'"),
        ("discovery", "sentence1\tsentence2\tlabel\n\n", 2, "found 1"),
        ("tacred", "{}", 1, "expected a JSON list"),
        ("tacred", '[\n{"token": ["a"]}\n]', "record 1", "lacks 'subj_start'"),
        ("tacred", "[\n7]", "record 1", "expected a record"),
        ("tacred", '[{"token": "a b"}]', "record 1", "'token' must be list"),
        ("tacred", '[{"token": [1]}]', "record 1", "list of strings"),
        ("few_nerd", '[{"sentence": "a", "entities": {}}, {"sentence": "b"}]', "record 2", "lacks 'entities'"),
        ("few_nerd", '[{"sentence": "a", "entities": {"a": "art-fim"}}]', "record 1", "did you mean 'art-film'?"),
        ("few_nerd", '[{"sentence": "a", "entities": {"a": 3}}]', "record 1", "found 3"),
        ("few_nerd", '[{"sentence": "a", "entities": {"a": "art-film", "a": "art-music"}}]', 1, "'a' appears twice"),
        ("few_nerd", '[{"sentence": "a",\n "entities": {"a": tru}}]', 2, "not JSON"),
        ("few_nerd", '[{"sentence": "a", "entities": {}}\n', 2, "not JSON"),
        ("few_nerd", "[]\n\nx", 3, "not JSON"),
        ("few_nerd", "[\n" + "[" * 100000, 1, "cannot be read"),
        *([] if LONG_NUMBERS else [("few_nerd", "[\n" + "7" * 10000 + "]", 1, "cannot be read")]),
        ("dialogre", '[[["a"], []], [["a"]]]', "record 2", "expected a pair"),
        ("dialogre", '[[["a"], {}]]', "record 1", "must be a list of records"),
        ("dialogre", '[["a", []]]', "record 1", "'turns' must be a list of strings"),
        ("dialogre", '[[["a"], [{"x": "b", "y": "c", "r": []}]]]', "record 1", "has no relation"),
        ("dialogre", '[[["a"], [{"x": "b", "y": "c", "r": ["per:aeg"]}]]]', "record 1", "did you mean 'per:age'?"),
        ("dialogre", '[[["a"], [{"x": "b", "r": ["per:age"]}]]]', "record 1", "lacks 'y'"),
    ],
)
def test_bad_rows(write: Write, name: str, text: str, place: int | str, said: str) -> None:
    refused(name, write("file", text), place, said)


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (1, 0), (0, 2), (True, 1)])
def test_positions_outside_the_sentence(write: Write, first: Any, last: int) -> None:
    row = {"token": ["a", "b"], "subj_start": first, "subj_end": last, "obj_start": 1, "obj_end": 1}
    refused("tacred", write("file", json.dumps([{**row, "relation": "per:age"}])), "record 1", "subj_start")


def test_unknown_relation(write: Write) -> None:
    row = {"token": ["a", "b"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1, "relation": "per:agge"}
    refused("tacred", write("file", json.dumps([row])), "record 1", "did you mean 'per:age'?")
    row["relation"] = "no_relation"
    assert [one.label for one in read("tacred", write("file", json.dumps([row])))] == ["no_relation"]


def test_only_the_first_relation_of_a_pair_counts(write: Write) -> None:
    pairs = [
        {"x": "a", "y": "b", "r": ["per:age", "per:boss"]},
        {"x": "a", "y": "c", "r": ["unanswerable"]},
        {"x": "a", "y": "d", "r": ["gpe:births_in_place", "per:age"]},
        {"x": "e", "y": "f", "r": ["per:pet"]},
    ]
    path = write("file", json.dumps([[["S1: x", "S2: y"], pairs], [["S1: z"], pairs[1:2]]]))
    train = [row.item() for row in read("dialogre", path)]
    assert [item.gold for item in train] == [("per:age",), ("per:pet",)]
    assert [item.row for item in train] == [0, 1]
    assert train[0].needle == "S1: x\nS2: y"
    test = [row.item().gold for row in READERS["dialogre_test_json"](path, card("dialogre"))]
    assert test == [("per:age", "per:pet"), ()]


def test_quotes_and_blanks_are_kept(write: Write) -> None:
    rows = read("goemotions", write("a", '"She said ""hm"" "\t27\tx\n he \'did\' \t0,1\ty\n'))
    assert [row.form[0] for row in rows] == ['She said "hm" ', " he 'did' "]
    assert [row.label for row in rows] == ["neutral", None]
    rows = read("discovery", write("b", 'sentence1\tsentence2\tlabel\n"a\tb " c\tyet,\n'))
    assert rows[0].form == ['"a', 'b " c', 173]


def test_few_nerd_tokens(write: Write) -> None:
    text = (
        "Zoë\tperson-other\n's\tO\nBlue\tproduct-ship\nHeron\tproduct-ship\n.\tO\n\n\nOx\tother-god\nRome\tlocation-GPE"
    )
    rows = list(READERS["entities_tokens"](write("file", text), card("few_nerd")))
    assert [row.item().row for row in rows] == [0, 1]
    assert [row.item() for row in rows] == [
        entity_item(0, "Zoë's Blue Heron.", (("Zoë", "person-other"), ("Blue Heron", "product-ship"))),
        entity_item(1, "Ox Rome", (("Ox", "other-god"), ("Rome", "location-GPE"))),
    ]
    for bad, line, said in (
        ("a\tO\nb\n", 2, "expected 2 columns"),
        ("a\tO\n\nb\tart\n", 3, "there is no Few-NERD label"),
        ("a\tO\r\n", 1, "Windows line end"),
    ):
        path = write("bad", bad)
        with pytest.raises(DataDamagedError) as caught:
            list(READERS["entities_tokens"](path, card("few_nerd")))
        assert str(caught.value).startswith(f"{path}, line {line}: ")
        assert said in str(caught.value)


def test_few_nerd_in_its_own_format_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    labels = card("few_nerd").labels
    text = "".join(f"Ox{i}\t{label}\n.\tO\n\n" for i, label in enumerate(labels * 2))
    for split in ("train", "test"):
        (tmp_path / f"fewnerd_{split}.txt").write_text(text, encoding="utf-8")
    data = load("few_nerd", tmp_path)
    assert "the benchmark did not choose" in caplog.text
    assert [len(data.demonstrations(number)) for number in (1, 2, 3)] == [66, 132, 132]
    assert not data.train_file.verified


def test_lines_keep_their_ends(write: Write) -> None:
    assert list(lines(write("file", "a\n\x0b\u2028b\nc"))) == ["a\n", "\x0b\u2028b\n", "c"]
