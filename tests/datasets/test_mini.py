"""The small data set that ships with the library: what its users may rely on, read straight from the JSON."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

LABEL_SPACE = ["food", "travel", "weather"]
PATH = Path(__file__).resolve().parents[2] / "StaICC" / "datasets" / "mini.json"


@pytest.fixture(scope="module")
def text():
    return PATH.read_bytes().decode("utf-8")


@pytest.fixture(scope="module")
def rows(text):
    return json.loads(text)["rows"]


def test_shape_and_balance(text, rows):
    data = json.loads(text)
    assert list(data) == ["label_space", "rows"]
    assert data["label_space"] == LABEL_SPACE
    assert all([type(value) for value in row] == [str, int] for row in rows)
    assert Counter(label for _, label in rows) == {0: 120, 1: 120, 2: 120}
    assert max(len(list(run)) for _, run in groupby(label for _, label in rows)) <= 8


def test_sentences_are_distinct_clean_and_keep_their_label_to_themselves(rows):
    # Case and punctuation do not make a new sentence.
    bare = Counter(" ".join("".join(c if c.isalnum() else " " for c in s.casefold()).split()) for s, _ in rows)
    assert max(bare.values()) == 1
    for sentence, _ in rows:  # one line, single spaces, composed characters
        assert 4 <= len(sentence.split()) <= 16
        assert sentence == " ".join(sentence.split()) == unicodedata.normalize("NFC", sentence)
        assert sentence.isprintable()
        assert not any(label in sentence.casefold() for label in LABEL_SPACE)


def test_punctuation_digits_and_letters_are_varied(rows):
    for mark in "\"',?!":
        assert {label for sentence, label in rows if mark in sentence} == {0, 1, 2}
    for kind in (str.isdigit, lambda letter: letter.isalpha() and not letter.isascii()):
        assert {label for sentence, label in rows if any(map(kind, sentence))} == {0, 1, 2}


def test_one_readable_row_per_line(text, rows):
    lines = text.splitlines()
    assert "\\u" not in text
    assert lines[3:-2] == [
        json.dumps(row, ensure_ascii=False) + ("," if i < len(rows) - 1 else "") for i, row in enumerate(rows)
    ]
