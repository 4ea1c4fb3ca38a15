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


def test_shape(text):
    data = json.loads(text)
    assert list(data) == ["label_space", "rows"]
    assert data["label_space"] == LABEL_SPACE
    for row in data["rows"]:
        assert [type(value) for value in row] == [str, int]


def test_row_count(rows):
    assert len(rows) == 360


def test_labels_are_balanced(rows):
    assert Counter(label for _, label in rows) == {0: 120, 1: 120, 2: 120}


def test_sentences_are_distinct(rows):
    # Case and punctuation do not make a new sentence.
    bare = Counter(
        " ".join("".join(c if c.isalnum() else " " for c in sentence.casefold()).split()) for sentence, _ in rows
    )
    assert [sentence for sentence, count in bare.items() if count > 1] == []


def test_sentences_have_4_to_16_words(rows):
    assert [sentence for sentence, _ in rows if not 4 <= len(sentence.split()) <= 16] == []


def test_sentences_are_clean(rows):
    # One line, single spaces, composed characters: a prompt shows each sentence exactly as it is written.
    for sentence, _ in rows:
        assert sentence == " ".join(sentence.split())
        assert sentence.isprintable()
        assert sentence == unicodedata.normalize("NFC", sentence)


def test_label_words_are_absent(rows):
    # Not even inside a longer word: a sentence must not give its label away.
    assert [s for s, _ in rows if any(label in s.casefold() for label in LABEL_SPACE)] == []


def test_labels_are_well_mixed(rows):
    assert max(len(list(run)) for _, run in groupby(label for _, label in rows)) <= 8


@pytest.mark.parametrize("mark", ['"', "'", ",", "?", "!"])
def test_punctuation_is_varied(rows, mark):
    assert {label for sentence, label in rows if mark in sentence} == {0, 1, 2}


def _is_non_ascii_letter(c):
    return c.isalpha() and not c.isascii()


@pytest.mark.parametrize("kind", [str.isdigit, _is_non_ascii_letter], ids=["digit", "non-ASCII letter"])
def test_digits_and_non_ascii_letters_occur_under_every_label(rows, kind):
    assert {label for sentence, label in rows if any(kind(c) for c in sentence)} == {0, 1, 2}


def test_one_readable_row_per_line(text, rows):
    lines = text.splitlines()
    assert "\\u" not in text
    assert lines[3:-2] == [
        json.dumps(row, ensure_ascii=False) + ("," if i < len(rows) - 1 else "") for i, row in enumerate(rows)
    ]
