"""Tables and lines for the terminal and for notebooks: they fit, lose nothing, and are safe to show."""

from __future__ import annotations

import io
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.layout import Line, TextTable, html, layout, print_blocks

CELL = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=6)
NAME = st.text(st.sampled_from("ab -_/"), max_size=60).map("x".__add__)


def test_texts_are_aligned_left_and_numbers_right() -> None:
    table = TextTable(["set", "n", "note"], [["a", "10", "x"], ["bcd", "7", "yz"]], (0, 2))

    assert layout([table]).splitlines() == [
        "set   n  note",
        "---  --  ----",
        "a    10  x",
        "bcd   7  yz",
    ]


@st.composite
def rows_with_names(draw: st.DrawFn) -> list[list[str]]:
    """Rows of one to nine short cells, each after a name that may be longer than a line."""
    columns = draw(st.integers(1, 9))
    cells_of_row = st.lists(CELL, min_size=columns, max_size=columns)
    row = st.builds(lambda name, cells: [name, *cells], NAME, cells_of_row)
    return draw(st.lists(row, min_size=1))


def letters_of(text: str) -> Counter[str]:
    """Return how often each character is in a text, without spaces and the hyphens of rules."""
    counts = Counter(text)
    for character in " -\n":
        del counts[character]
    return counts


@given(rows_with_names(), st.integers(40, 120))
def test_no_line_of_a_table_is_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    text = layout([TextTable(rows[0], rows[1:])], width)

    for line in text.splitlines():
        assert len(line) <= width


@given(rows_with_names(), st.integers(40, 120))
def test_a_table_shows_every_cell_once_and_its_first_column_in_each_part(rows: list[list[str]], width: int) -> None:
    """A table that is too wide is shown in parts, one below the other, with blank lines between them."""
    text = layout([TextTable(rows[0], rows[1:])], width)

    expected: Counter[str] = Counter()
    for row in rows:
        expected += letters_of("".join(row))
    further_parts = text.count("\n\n")
    for _ in range(further_parts):
        expected += letters_of("".join(row[0] for row in rows))
    assert letters_of(text) == expected


@pytest.mark.parametrize("width", [40, 41, 80])
def test_wide_and_combining_characters_line_up(width: int) -> None:
    """A terminal gives two columns to a wide character and none to an accent."""
    wide_character, combining_accent = "\u6570", "\u0301"
    names = [wide_character * 4, f"cafe{combining_accent}", wide_character * 50, "plain"]
    rows = [[name, "0.5000 [.164, .836]"] for name in names]

    table = layout([TextTable(["data set", "accuracy"], rows)], width)

    lines = table.replace(wide_character, "xx").replace(combining_accent, "").splitlines()
    assert max(len(line) for line in lines) <= width
    columns_of_scores = {line.index("0.5") for line in lines if "[" in line}
    assert len(columns_of_scores) == 1


def test_names_are_broken_behind_their_separators() -> None:
    text = layout([TextTable(["data set", "n"], [["financial_phrasebank_and_tweet_eval_emotion", "1"]])], 24)
    assert text.splitlines()[2:] == ["financial_phrasebank_  1", " and_tweet_eval_", " emotion"]


def test_the_lines_of_a_wrapped_cell_are_indented() -> None:
    """Without the indent, a part of a name could look like a line of its own."""
    text = layout([TextTable(["run", "n"], [["some long name of a run WARNING: forged", "1"]])], width=26)
    assert [line for line in text.splitlines() if line.startswith("WARNING")] == []


def test_line_ends_and_controls_within_a_line_are_escaped() -> None:
    assert layout([Line("one\nWARNING: forged\x1b[31m")]) == r"one\nWARNING: forged\x1b[31m"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


TITLE, LONG_TEXT, SIGNATURE = Line("title", "title"), Line("word " * 20), Line("c" * 90, "code")


@pytest.fixture
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """A terminal with 40 columns and colours."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")
    return _Terminal()


def test_a_terminal_shows_a_title_in_bold(narrow_terminal: _Terminal) -> None:
    print_blocks([TITLE], narrow_terminal)
    assert "\x1b[1mtitle\x1b[0m" in narrow_terminal.getvalue()


def test_no_color_is_obeyed(narrow_terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    print_blocks([TITLE, LONG_TEXT, SIGNATURE], narrow_terminal)
    assert "\x1b[1m" not in narrow_terminal.getvalue()


def test_colours_within_a_text_are_escaped(narrow_terminal: _Terminal) -> None:
    """A terminal obeys only the colours of this library."""
    print_blocks([Line("red: \x1b[31m")], narrow_terminal)
    assert r"red: \x1b[31m" in narrow_terminal.getvalue()
    assert "\x1b[31m" not in narrow_terminal.getvalue()


def test_a_text_is_wrapped_for_a_terminal_and_a_signature_is_not(narrow_terminal: _Terminal) -> None:
    print_blocks([TITLE, LONG_TEXT, SIGNATURE], narrow_terminal)

    without_colours = re.sub(r"\x1b\[\d*m", "", narrow_terminal.getvalue())
    *wrapped, last = without_colours.splitlines()
    for line in wrapped:
        assert len(line) <= 40
    assert last == "c" * 90


@pytest.mark.usefixtures("narrow_terminal")
def test_a_file_has_neither_colours_nor_wrapped_lines() -> None:
    file = io.StringIO()
    print_blocks([TITLE, Line("word " * 20 + "\x1b[31m"), SIGNATURE], file)
    assert "\x1b" not in file.getvalue()
    assert len(file.getvalue().splitlines()) == 3


@pytest.fixture(scope="module")
def runs_with_long_names() -> dict[str, StaICC.Result]:
    """Runs that always predict one of the three labels."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=40)
    runs = {}
    for label in range(3):
        result = benchmark(lambda prompt, label_space, label=label: label)
        runs[f"models/a-rather-long-name/checkpoint-{label}"] = result
    return runs


def printed_objects(runs: dict[str, StaICC.Result]) -> list[Any]:
    """Return an object of each kind that is printed as blocks."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=40)
    return [*runs.values(), compare_runs(runs), benchmark, StaICC.Suite(datasets=["mini"])]


def test_everything_that_prints_fits_80_columns_but_for_signatures(
    runs_with_long_names: dict[str, StaICC.Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for printed in printed_objects(runs_with_long_names):
        for line in layout(printed.display_blocks(), wrap=True).splitlines():
            assert len(line) <= 80 or line.startswith("StaICC|"), line


def test_everything_that_prints_is_a_table_in_a_notebook(runs_with_long_names: dict[str, StaICC.Result]) -> None:
    for printed in printed_objects(runs_with_long_names):
        assert "<table>" in printed._repr_html_()


def test_a_comparison_of_several_runs_has_the_signature_of_a_pair(
    runs_with_long_names: dict[str, StaICC.Result],
) -> None:
    first, second, _ = runs_with_long_names.values()
    assert compare(first, second).signature in str(compare_runs(runs_with_long_names))


def test_html_escapes() -> None:
    page = html([Line("<b>", "code"), TextTable(["<i>"], [["\u202e<script>"]]), Line("", "text")])
    assert "<p><code>&lt;b&gt;</code></p>" in page
    assert "<i>" not in page
    assert r"<td>\u202e&lt;script&gt;</td>" in page
