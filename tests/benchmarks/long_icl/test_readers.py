"""Malformed files: every complaint names the file, and the line or the record. Tokens as text."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card
from StaICC.benchmarks.long_icl.data import READERS, FileRow, detokenise
from StaICC.errors import DataDamagedError, DataMissingError

Write = Callable[["str | bytes"], Path]

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
    return list(READERS[FORMATS.get(name, name)](path, card(name if name in FORMATS else "few_nerd")))


def refused(name: str, path: Path, place: int | str, *said: str) -> None:
    with pytest.raises(DataDamagedError) as caught:
        read(name, path)
    message = str(caught.value)
    assert message.startswith(f"{path}, {place if isinstance(place, str) else f'line {place}'}: "), message
    for part in said:
        assert part in message


@pytest.mark.parametrize("name", GOOD)
def test_every_format(write: Write, name: str, tmp_path: Path) -> None:
    good = GOOD[name].encode()
    assert read(name, write(good))
    refused(name, write(""), 1, "empty")
    refused(name, write(b"\xef\xbb\xbf" + good), 1, "byte-order mark")
    head, _, tail = good.rpartition(b"\n")
    refused(name, write(head.partition(b"\n")[0] + b"\n\xff\n" + tail), 2, "not UTF-8")
    windows = good.replace(b"\r", b"").replace(b"\n", b"\r\n")
    if name == "banking77":  # that is how it is published
        assert len({str([row.form for row in read(name, write(text))]) for text in (windows, GOOD[name])}) == 1
    else:
        refused(name, write(windows if b"\r\n" in windows else windows + b"\r\n"), 1, "Windows line end")
    with pytest.raises(DataMissingError, match=r"none cannot be read: .*No such file"):
        read(name, tmp_path / "none")


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=50)
@given(data=st.data())
def test_damage_is_a_clear_error_or_other_rows(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
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


PAIR = {"token": ["a", "b"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1, "relation": "per:age"}


@pytest.mark.parametrize(
    ("name", "text", "place", "said"),
    [
        ("banking77", "text,category\r\na,card_arrival\r\nb,card_arrival,x\r\n", 3, "expected 2 columns"),
        ("banking77", 'text,category\r\n"a\r\nb",card_arrival\r\n', 2, "holds a Windows line end"),
        ("banking77", "a,card_arrival\n", 1, "expected the header text,category"),
        ("banking77", 'text,category\na,card_arrival\n"open,card_arrival\nb,card_arrival\n', 3, "found 1"),
        ("goemotions", "a\t1\tc\n" + "b" * 200000, 2, "not a row of fields"),
        ("goemotions", "a\t1\tc\nb\t1\n", 2, "expected 3 columns (text, label ids, comment id), found 2"),
        ("goemotions", "a\t1\tc\nb\t28\tc\n", 2, "'28' is not a label id, 0 to 27"),
        ("goemotions", "a\tjoy\tc\n", 1, "unknown label: 'joy'"),
        ("discovery", "a\tb\tyet,\n", 1, "expected the header"),
        ("discovery", "sentence1\tsentence2\tlabel\na\tb\n", 2, "expected 3 columns"),
        ("discovery", "sentence1\tsentence2\tlabel\na\tb\t174\n", 2, "there is no Discovery label '174'"),
        ("tacred", "{}", 1, "expected a JSON list"),
        ("tacred", '[\n{"token": ["a"]}\n]', "record 1", "lacks 'subj_start'"),
        ("tacred", '[{"token": "a b"}]', "record 1", "'token' must be a list of strings, found str"),
        ("few_nerd", '[{"sentence": "a", "entities": {}}, {"sentence": "b"}]', "record 2", "lacks 'entities'"),
        ("few_nerd", '[{"sentence": "a", "entities": {"a": "art-fim"}}]', "record 1", "did you mean 'art-film'?"),
        ("few_nerd", '[{"sentence": "a", "entities": {"a": "art-film", "a": "art-music"}}]', 1, "'a' appears twice"),
        ("few_nerd", '[{"sentence": "a",\n "entities": {"a": tru}}]', 2, "not JSON"),
        ("few_nerd", "[\n" + "[" * 100000, 1, "cannot be read"),
        *([] if LONG_NUMBERS else [("few_nerd", "[\n" + "7" * 10000 + "]", 1, "cannot be read")]),
        ("dialogre", '[[["a"], []], [["a"]]]', "record 2", "expected a pair"),
        ("dialogre", '[[["a"], [{"x": "b", "y": "c", "r": []}]]]', "record 1", "has no relation"),
        ("dialogre", '[[["a"], [{"x": "b", "y": "c", "r": ["per:aeg"]}]]]', "record 1", "did you mean 'per:age'?"),
        *(
            ("tacred", json.dumps([{**PAIR, "subj_start": first, "subj_end": last}]), "record 1", "subj_start")
            for first, last in ((-1, 0), (1, 0), (0, 2), (True, 1))
        ),
    ],
)
def test_bad_rows(write: Write, name: str, text: str, place: int | str, said: str) -> None:
    refused(name, write(text), place, said)


def test_only_the_first_relation_of_a_pair_counts(write: Write) -> None:
    pairs = [
        {"x": "a", "y": "b", "r": ["per:age", "per:boss"]},
        {"x": "a", "y": "c", "r": ["unanswerable"]},
        {"x": "a", "y": "d", "r": ["gpe:births_in_place", "per:age"]},
        {"x": "e", "y": "f", "r": ["per:pet"]},
    ]
    path = write(json.dumps([[["S1: x", "S2: y"], pairs], [["S1: z"], pairs[1:2]]]))
    train = [row.item() for row in read("dialogre", path)]
    assert [(item.gold, item.row) for item in train] == [(("per:age",), 0), (("per:pet",), 1)]
    assert train[0].needle == "S1: x\nS2: y"
    test = [row.item().gold for row in READERS["dialogre_test_json"](path, card("dialogre"))]
    assert test == [("per:age", "per:pet"), ()]


# -- tokens as text


# The Perl program of mosestokenizer 1.2.1, which LongICLBench uses, wrote these expectations (Perl 5.36, Unicode 14).
ALPHABETS = (
    *("abcsnt'", "ABZ019x", "'\"`", ",.?!:;\\%}])", "([{$€£¿¡", "„“”`'\"", "<>&-@/", "½²ⅷ٣०éß", "中文ハ한ｱ￠"),
    "e\u0301\u093e\u00a0\u2028\t",
)
WORDS = (
    *("@-@", "``", "''", "'s", "n't", "-LRB-", "&apos;", "&quot;", "&lt;", "&gt;", "&amp;", "&#91;", "&#93;", "&#124;"),
    *("&bar;", "&bra;", "&ket;", "&amp;lt;", "'", "s'", "<s>", ""),
)


def fuzzed_lines(number: int) -> list[str]:
    """Return lines of words that the rules treat differently; they follow from the numbers of one seed."""
    uniform = random.Random(18).random  # the documented generator: the same in all versions of Python

    def one(choices: Any) -> Any:
        return choices[int(uniform() * len(choices))]

    def word() -> str:
        alphabet = ALPHABETS[0] if uniform() < 0.3 else one(ALPHABETS)
        return str(one(WORDS)) if uniform() < 0.2 else "".join(one(alphabet) for _ in range(1 + int(uniform() * 3)))

    return [" ".join(word() for _ in range(1 + int(uniform() * 12))) for _ in range(number)]


def test_6000_fuzzed_lines_are_those_of_the_perl_program() -> None:
    fuzzed = fuzzed_lines(6000)
    texts = ("\n".join(fuzzed), "\n".join(detokenise(line.split(" ")) for line in fuzzed))
    assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == [
        "dab9800bf3ebba5b859298e6bf61e32a5cf29c6eeca119a538433dccc535d997",
        "f7ce31f16d09093382a7e14e6e34eb999fed1ddfe98215d4d2fb2f8db7a4f7f4",  # by the Perl program
    ]
