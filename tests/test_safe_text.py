"""Sanitisers: nothing that a terminal obeys or hides, nothing that a spreadsheet runs, and nothing else changed."""

from __future__ import annotations

import csv
import io
import json
import logging
import sys
import unicodedata
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from StaICC.benchmarks.exchange import csv_lines
from StaICC.cli.files import TerminalStream, safe_streams
from StaICC.errors import ArgumentError
from StaICC.safe_text import csv_cell, json_escaped, one_line, visible

NASTY = st.text(
    st.characters(categories=("Cc", "Cf", "Zl", "Zp", "Cs"))
    | st.sampled_from("\x1b\x07\x9b\r\n\t\x7f\u202e\u2066\u2069\u200e\u061c\u2028\ufeff\ud800\U000e0041\\'=+-@")
    | st.characters(),
)
_SIGNS = "\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
VISIBLE_FORMAT = {*map(chr, range(0x600, 0x606)), *_SIGNS, *map(chr, range(0x13430, 0x13440))}
"""Format characters that have a glyph: Arabic and Kaithi number signs, joiners of hieroglyphs."""


def harmless(character: str) -> bool:
    """By the Unicode database, independent of the pattern that is tested."""
    if character in VISIBLE_FORMAT:
        return True
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


@given(NASTY)
@example("".join(map(chr, range(0x110000))))
def test_what_is_shown_is_harmless(text: str) -> None:
    assert all(harmless(letter) or letter in "\n\t" for letter in visible(text))
    assert all(map(harmless, one_line(text)))


@given(NASTY)
def test_nothing_harmless_changes(text: str) -> None:
    kept = "".join(letter for letter in text if harmless(letter) and not 0xE0000 <= ord(letter) < 0xE1000)
    fillers = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    kept = "".join(letter for letter in kept if letter not in fillers)
    kept = "".join(
        letter for letter in kept if not 0x2060 <= ord(letter) < 0x2070 and not 0xFFF0 <= ord(letter) < 0xFFFC
    )
    assert visible(kept) == kept
    assert one_line(kept) == kept


@given(NASTY)
def test_once_is_enough_and_parts_may_be_written_one_by_one(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible(text) == "".join(map(visible, text))
    assert eval(f'"{visible(text.translate({34: None, 92: None, 10: None}))}"') == text.translate(
        {34: None, 92: None, 10: None}
    )


@given(st.recursive(NASTY, lambda inner: st.lists(inner) | st.dictionaries(NASTY, inner)), st.booleans())
def test_json_keeps_its_value(value: object, only_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    shown = json_escaped(text, only_ascii)
    assert json.loads(shown) == json.loads(json.dumps(value))
    assert all(harmless(letter) or letter == "\n" for letter in shown)
    assert not only_ascii or shown.isascii()


@given(st.lists(NASTY, min_size=1), st.sampled_from(["utf-8", "ascii", "cp1252", "utf-16"]), st.booleans())
def test_a_stream_never_fails_nor_obeys(texts: list[str], encoding: str, bars: bool) -> None:
    buffer = io.BytesIO()
    stream = TerminalStream(io.TextIOWrapper(buffer, encoding=encoding, newline=""), bars)
    for text in texts:
        assert stream.write(text) == len(text)
    stream.writelines(texts)
    stream.flush()
    shown = buffer.getvalue().decode(encoding)
    allowed = "\n\t\r" if bars else "\n\t"
    assert all(harmless(letter) or letter in allowed for letter in shown.replace("\x1b[A", "") if bars) or not bars
    assert bars or all(harmless(letter) or letter in allowed for letter in shown)


def test_prints_warnings_and_log_messages_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with safe_streams():
        print("\x1b]0;title\x07")
        print("\u202e", file=sys.stderr)
        sys.stderr.write(warnings.formatwarning("\x9b31m", UserWarning, "x\x1b.py", 1))
        handler = logging.StreamHandler()
        handler.emit(logging.makeLogRecord({"msg": "label %s", "args": ("\x1b[2J",)}))
    assert (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == "\\x1b]0;title\\x07\n"
    assert all(harmless(letter) or letter == "\n" for letter in err)
    for shown in ("\\u202e", "\\x9b31m", "label \\x1b[2J"):
        assert shown in err


# -- cells of CSV

FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@example("-1+1")  # begins as a number does
@given(NASTY | st.builds(lambda first, rest: first + rest, st.sampled_from([*FORMULA, "'", "''="]), NASTY))
def test_no_cell_is_a_formula(text: str) -> None:
    shown = csv_cell(text)
    if shown.startswith(FORMULA):
        float(shown)
        assert shown == text
    assert shown in (text, f"'{text}")


@given(NUMBERS)
def test_numbers_stay_numbers(number: float) -> None:
    assert csv_cell(number) is number
    for text in (str(number), f"{number:+}", repr(number)):
        assert csv_cell(text) == text


@given(st.lists(st.tuples(NASTY, NUMBERS, st.lists(NASTY)), min_size=1))
@example([("a\rb", 1, []), ("\n", -0.5, ["\r"])])
def test_csv_files_hold_no_formula(drawn: list[tuple[object, ...]]) -> None:
    records = [dict(zip(("=key", "value", "list"), row, strict=True)) for row in drawn]
    if sys.version_info < (3, 11) and any("\0" in str(record["=key"]) for record in records):
        with pytest.raises(
            ArgumentError, match="write JSON Lines instead"
        ):  # csv of Python 3.10 refuses null characters
            "".join(csv_lines(iter(records)))
        return
    text = "".join(csv_lines(iter(records)))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["'=key", "value", "list"]
    for row, record in zip(rows[1:], records, strict=True):
        value = record["value"]
        assert (int if isinstance(value, int) else float)(row[1]) == value
        assert not row[0].startswith(FORMULA) or row[0] == record["=key"]


def test_prompts_are_never_changed() -> None:
    records = [{"id": "a", "prompt": "plain"}, {"id": "b", "prompt": "=1"}]
    with pytest.raises(ArgumentError, match=r"record 1: its prompt begins with '=', .* write JSON Lines instead"):
        list(csv_lines(iter(records), verbatim=True))
    assert "".join(csv_lines(iter(records[:1]), verbatim=True)) == "id,prompt\na,plain\n"
