"""Delimited files: no row is lost without an error, and what a writer of CSV wrote is read back."""

from __future__ import annotations

import contextlib
import csv
import io
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.datasets.dataset import Dataset
from StaICC.datasets.table_files import read_records
from StaICC.errors import SchemaError, UnknownNameError

LABELS = ["a", "b", "c"]
SEPARATORS = {"\t": ".tsv", ",": ".csv", ";": ".csv"}


def write(folder: Path, text: str, suffix: str = ".tsv") -> Path:
    """Write a text into a file, unchanged, and return the path."""
    path = folder / f"data{suffix}"
    path.write_bytes(text.encode())
    return path


def rows_of(path: Path, **options: Any) -> list[tuple[str, str]]:
    """Return the text and the label of each row of a file."""
    return [(texts[0], label) for texts, label in read_records(path, ["text", "label"], None, **options).rows]


def good_lines(count: int) -> list[str]:
    """Return lines ``text<tab>label`` without quotes."""
    return [f"a film number {number}\t{LABELS[number % 3]}" for number in range(count)]


def lines_with_stray_quotes(first: int, last: int) -> list[str]:
    """Return 400 lines, of which the first begins with a quote that only the last one ends."""
    lines = good_lines(400)
    lines[first] = '"It begins well\ta'
    lines[last] = 'and it ends well."\tb'
    return lines


@pytest.mark.parametrize(("first", "last"), [(10, 330), (10, 11), (1, 399)])
def test_a_quote_that_swallows_rows_is_refused_with_their_lines(tmp_path: Path, first: int, last: int) -> None:
    """The header is line 1, so row 0 is line 2."""
    lines = lines_with_stray_quotes(first, last)
    path = write(tmp_path, "\n".join(["text\tlabel", *lines]))

    with pytest.raises(SchemaError, match=f"lines {first + 2} to {last + 2} are one row with quoting.*quoting='none'"):
        rows_of(path)


@pytest.mark.parametrize("quoted_line", ['"a quoted text"\tb', '"two ""quotes"""\tc', 'a "word" within\ta'])
def test_a_quote_that_swallows_rows_is_refused_although_another_line_is_quoted_well(
    tmp_path: Path, quoted_line: str
) -> None:
    lines = lines_with_stray_quotes(first=10, last=330)
    path = write(tmp_path, "\n".join(["text\tlabel", *lines, quoted_line]))

    with pytest.raises(SchemaError, match="quoting='none'"):
        rows_of(path)


def test_without_quoting_no_row_is_swallowed(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(["text\tlabel", *lines_with_stray_quotes(first=10, last=330)]))

    rows = rows_of(path, quoting="none")

    assert len(rows) == 400
    assert rows[10] == ('"It begins well', "a")
    assert rows[330] == ('and it ends well."', "b")


@pytest.mark.parametrize("order", [["label", "text"], ["id", "text", "label"], ["text", "id", "label"]])
def test_a_quote_that_swallows_rows_is_refused_wherever_the_text_is(tmp_path: Path, order: list[str]) -> None:
    lines = ["\t".join(order)]
    for number in range(60):
        row = {"id": str(number), "text": f"a film number {number}", "label": LABELS[number % 3]}
        if number == 10:
            row["text"] = '"It begins well'
        if number == 40:
            row["text"] = 'and it ends well."'
        lines.append("\t".join(row[column] for column in order))
    path = write(tmp_path, "\n".join(lines))

    with pytest.raises(SchemaError):
        rows_of(path)
    assert len(rows_of(path, quoting="none")) == 60


def test_a_quote_in_a_bare_field_next_to_quoted_fields_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 'text\tlabel\n"Yes!"\ta\nHe said "no"\tb\nplain\ta\n')

    with pytest.raises(SchemaError, match="line 3 has a double quote in a field that is not in quotes"):
        rows_of(path)


def test_the_option_decides_whether_quotes_belong_to_a_text(tmp_path: Path) -> None:
    path = write(tmp_path, 'text\tlabel\n"Yes!"\ta\nHe said "no"\tb\nplain\ta\n')

    assert rows_of(path, quoting="standard")[0] == ("Yes!", "a")
    assert rows_of(path, quoting="none")[0] == ('"Yes!"', "a")


def test_a_quote_in_a_bare_field_is_read_if_no_field_is_in_quotes(tmp_path: Path) -> None:
    """There is one reading only."""
    path = write(tmp_path, 'text\tlabel\nHe said "no"\tb\nplain\ta\n')

    assert rows_of(path) == [('He said "no"', "b"), ("plain", "a")]


def test_a_file_that_is_a_table_only_without_quoting_names_the_option(tmp_path: Path) -> None:
    path = write(tmp_path, 'text\tlabel\n"unclosed\ta\nplain\tb\n')
    with pytest.raises(SchemaError, match=r"every line has 2 fields: quoting='none' reads"):
        rows_of(path)
    assert rows_of(path, quoting="none") == [('"unclosed', "a"), ("plain", "b")]


@pytest.fixture
def ambiguous_file(tmp_path: Path) -> Path:
    """A file that is read with an option only: some texts are in quotes, others have quotes within."""
    return write(tmp_path, "text\tlabel\n" + '"Yes!"\ta\nHe said "no"\tb\n' * 10)


def test_the_record_of_a_file_has_the_quoting(ambiguous_file: Path) -> None:
    dataset = Dataset.from_file(ambiguous_file, quoting="none")

    record = dataset.file_record()

    assert record is not None
    assert record["quoting"] == "none"
    assert Dataset.reopen(record, [ambiguous_file]).table.digest == dataset.table.digest


def test_a_card_states_the_quoting(ambiguous_file: Path) -> None:
    expected = Dataset.from_file(ambiguous_file, quoting="standard").table.digest
    ambiguous_file.with_name("data.card.json").write_text('{"quoting": "standard"}')

    assert Dataset.from_file(ambiguous_file).table.digest == expected


def test_an_unknown_quoting_is_refused(ambiguous_file: Path) -> None:
    with pytest.raises(UnknownNameError, match="value of quoting"):
        Dataset.from_file(ambiguous_file, quoting="other")


CELL = st.text(st.sampled_from("ab\" ,;\t\n'é"), max_size=12)


ROWS = st.lists(st.tuples(CELL, st.sampled_from(LABELS)), min_size=4, max_size=30)
WRITERS = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(list(SEPARATORS)),
        "lineterminator": st.sampled_from(["\n", "\r\n"]),
        "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    }
)
"""Options of Python's writer of CSV."""


def written_by_csv(folder: Path, rows: Sequence[tuple[str, str]], **options: Any) -> Path:
    """Write rows with Python's writer of CSV, and return the path of the file."""
    stream = io.StringIO()
    csv.writer(stream, **options).writerows([("text", "label"), *rows])
    return write(folder, stream.getvalue(), SEPARATORS[options["delimiter"]])


@settings(max_examples=500)
@given(ROWS, WRITERS)
def test_with_standard_quoting_what_a_writer_of_csv_wrote_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], options: dict[str, Any]
) -> None:
    path = written_by_csv(tmp_path_factory.mktemp("csv"), rows, **options)

    assert rows_of(path, quoting="standard") == rows


@settings(max_examples=500)
@given(ROWS, WRITERS)
def test_what_a_writer_of_csv_wrote_is_read_back_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], options: dict[str, Any]
) -> None:
    """Refused are texts of several lines that look like rows, and texts that seem to be in apostrophes."""
    path = written_by_csv(tmp_path_factory.mktemp("csv"), rows, **options)
    try:
        assert rows_of(path) == rows
    except SchemaError as error:
        assert re.search("are one row with quoting|are in apostrophes", str(error))  # noqa: PT017


def lines_with_random_quotes(draw: random.Random, separator: str) -> list[str]:
    """Return lines of which one to four have a quote before or after their text; some files have a quoted text."""
    lines = [f"film {number} was fine{separator}{draw.choice(LABELS)}" for number in range(draw.randrange(20, 200))]
    for number in draw.sample(range(len(lines)), draw.randrange(1, 5)):
        text, label = lines[number].split(separator)
        before = draw.choice(['"', '"x ', ""])
        after = draw.choice(['"', ' "y" ', ""])
        lines[number] = before + text + after + separator + label
    if draw.random() < 0.5:
        lines.insert(draw.randrange(len(lines)), f'"a ""quoted"" text"{separator}a')
    return lines


@pytest.mark.parametrize("seed", range(200))
def test_stray_quotes_never_lose_rows(tmp_path: Path, seed: int) -> None:
    """A file with stray quotes is refused, or all of its rows are read."""
    draw = random.Random(seed)
    separator = draw.choice(list(SEPARATORS))
    lines = lines_with_random_quotes(draw, separator)
    path = write(tmp_path, "\n".join([f"text{separator}label", *lines]), SEPARATORS[separator])

    with contextlib.suppress(SchemaError):
        assert len(rows_of(path)) == len(lines)


def random_text(draw: random.Random) -> str:
    """Return a text of one to three lines, with separators, quotes and names of labels among its words."""
    words = ["the", "film, again,", 'a "great" one', "is; was", "No!", "positive", "a", "1"]
    lines = []
    for _ in range(draw.randrange(1, 4)):
        lines.append(" ".join(draw.choices(words, k=draw.randrange(1, 9))))
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(100))
def test_texts_of_several_lines_are_read(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    separator = draw.choice(list(SEPARATORS))
    rows = [(random_text(draw), draw.choice(["negative", "positive"])) for _ in range(60)]

    path = written_by_csv(tmp_path, rows, delimiter=separator)

    assert rows_of(path) == rows
