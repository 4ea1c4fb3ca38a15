"""Files as other people write them: headers or none, separators, shapes of JSON, lines of another width."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, FileSource, Normal
from StaICC.benchmarks.verify import verify_file
from StaICC.errors import ArgumentError, SchemaError, StaICCError

ROWS = [(f"film {number} was fine", "bad" if number % 3 else "good") for number in range(30)]


def rows_of(dataset: Dataset) -> list[tuple[str, str]]:
    """Return the text and the label name of each row."""
    return [(row.texts[0], dataset.card.label_space[row.label]) for row in dataset.table]


def read(path: Path, content: str | bytes, **options: Any) -> Dataset:
    """Write a file and return the data set of its columns ``text`` and ``label``."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Dataset.from_file(path, **{"texts": ["text"], "label": "label", **options})


def separated(separator: str) -> str:
    """Return the content of a file with a header and the rows."""
    lines = [f"{text}{separator}{label}" for text, label in [("text", "label"), *ROWS]]
    return "\n".join(lines) + "\n"


# -- separators and headers


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "~"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_the_header_tells_the_separator(tmp_path: Path, separator: str, suffix: str) -> None:
    assert rows_of(read(tmp_path / f"data{suffix}", separated(separator))) == ROWS


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "~"])
def test_without_a_header_all_lines_tell_the_separator(tmp_path: Path, separator: str) -> None:
    """The first text has another separator, which the other lines do not have."""
    other_separator = ":" if separator == "," else ","
    rows = [(f"film 0{other_separator} was fine", "good"), *ROWS[1:]]
    content = "\n".join(f"{text}{separator}{label}" for text, label in rows)

    assert rows_of(read(tmp_path / "data.csv", content, columns=["text", "label"])) == rows


COMMA_IN_EACH_TEXT = "ham\tWell, ok\nspam\tFree entry, win\nham\tWell, no\nspam\tNow, win\n" * 5
"""Lines that a comma or a tab divides into two fields."""


def test_two_possible_separators_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"2 fields with ',' or '\\t' between them"):
        read(tmp_path / "data.csv", COMMA_IN_EACH_TEXT, columns=["label", "text"])


def test_the_suffix_decides_between_two_possible_separators(tmp_path: Path) -> None:
    dataset = read(tmp_path / "data.tsv", COMMA_IN_EACH_TEXT, columns=["label", "text"])

    assert rows_of(dataset)[0] == ("Well, ok", "ham")


def test_the_header_decides_between_two_possible_separators(tmp_path: Path) -> None:
    dataset = read(tmp_path / "data.csv", "label\ttext\n" + COMMA_IN_EACH_TEXT)

    assert rows_of(dataset)[0] == ("Well, ok", "ham")


LABEL_COLUMN_HATE = "comments\thate\n" + "a b\thate\nc d\tnone\ne f\toffensive\n" * 5
"""The column ``hate`` has the labels hate, none and offensive: the first line may be a header or a row."""


def test_a_label_column_that_is_named_like_a_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"If it is the header, say so: columns=\['comments', 'hate'\]"):
        read(tmp_path / "data.tsv", LABEL_COLUMN_HATE, texts=["comments"], label="hate")


def test_columns_say_that_the_first_line_is_the_header(tmp_path: Path) -> None:
    options: dict[str, Any] = {"texts": ["comments"], "label": "hate", "columns": ["comments", "hate"]}

    dataset = read(tmp_path / "data.tsv", LABEL_COLUMN_HATE, **options)

    assert len(dataset.table) == 15
    record = dataset.file_record()
    assert record is not None
    assert Dataset.reopen(record, [tmp_path]).table.digest == dataset.table.digest


def test_other_columns_say_that_the_first_line_is_a_row(tmp_path: Path) -> None:
    dataset = read(tmp_path / "data.tsv", LABEL_COLUMN_HATE, columns=["text", "label"])

    assert rows_of(dataset)[0] == ("comments", "hate")
    assert len(dataset.table) == 16


def test_a_compressed_csv_file_is_read(tmp_path: Path) -> None:
    dataset = read(tmp_path / "data.csv.gz", gzip.compress(separated(",").encode("utf-8")))

    assert rows_of(dataset) == ROWS
    assert dataset.card.name == "data"


def test_compressed_json_lines_are_read(tmp_path: Path) -> None:
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]

    dataset = read(tmp_path / "data.jsonl.gz", gzip.compress("\n".join(lines).encode("utf-8")))

    assert rows_of(dataset) == ROWS
    assert dataset.card.name == "data"


# -- lines of another width


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("text,label\na,b\nc\n", {}, "line 3 has 1 fields, but the header has 2 .*Complete these lines"),
        ("text,label\na,b\nc, d,b\n", {}, "Put a text with ',' in double quotes"),
        ('text,label\n"a" x,b\nc, d,b\n', {"quoting": "none"}, "line 3 .*Remove ',' from their texts, or remove"),
        ("text,label\n1,a,b\n2,c,d\n", {}, "Every line has one field more, .*name the first column"),
        ("a,b\nc\n", {"columns": ["text", "label"]}, r"but columns has 2 names"),
        ('text,label\na,b\n"never\nclosed,b\nx,b\n', {}, "lines 3 to 5"),
    ],
    ids=["too few", "comma in a text", "no quoting", "index column", "no header", "open quote"],
)
def test_lines_of_another_width_are_refused_with_a_remedy(
    tmp_path: Path, content: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StaICCError, match=message):
        read(tmp_path / "data.csv", content, **options)


# -- shapes of JSON

RECORDS = [{"text": text, "label": label, "id": number} for number, (text, label) in enumerate(ROWS)]
COLUMNS = {key: {str(number): record[key] for number, record in enumerate(RECORDS)} for key in RECORDS[0]}
LISTS = {key: [record[key] for record in RECORDS] for key in RECORDS[0]}
SHAPES: dict[str, Any] = {
    "list": RECORDS,
    "columns": COLUMNS,
    "lists of columns": LISTS,
    "rows by index": {str(number): record for number, record in enumerate(RECORDS)},
    "split": {"columns": [*RECORDS[0]], "index": [*range(30)], "data": [[*record.values()] for record in RECORDS]},
    "table": {"schema": {"fields": []}, "data": RECORDS},
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_json(tmp_path: Path, shape: str, indent: int | None) -> None:
    assert rows_of(read(tmp_path / "data.json", json.dumps(SHAPES[shape], indent=indent))) == ROWS


@pytest.mark.parametrize("orient", ["columns", "index", "records", "split", "table"])
def test_what_pandas_writes(tmp_path: Path, orient: Any) -> None:
    pandas = pytest.importorskip("pandas")
    content = pandas.DataFrame(RECORDS).to_json(orient=orient)
    assert rows_of(read(tmp_path / "data.json", content)) == ROWS


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"data": RECORDS, "version": 1}, "keys 'data', 'version'; .*The rows seem to be the list 'data'"),
        ({"required": ["text"], "title": "schema"}, "keys 'required', 'title'; expected a list of objects"),
        ({"text": ["a", "b"], "label": ["x"]}, "the list 'label' has 1 values, the list 'text' has 2"),
    ],
)
def test_other_objects_are_refused_with_their_keys(
    tmp_path: Path, table: Any, indent: int | None, message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        read(tmp_path / "data.json", json.dumps(table, indent=indent))


def test_a_list_that_has_no_rows_is_not_proposed(tmp_path: Path) -> None:
    schema = {"required": ["text"], "title": "schema"}

    with pytest.raises(SchemaError) as caught:
        read(tmp_path / "data.json", json.dumps(schema))

    assert "save that list as the file" not in str(caught.value)


# -- names of labels


@pytest.mark.parametrize(
    ("in_csv", "in_json", "names"),
    [
        (["0.05", "1.05", "10.005"], [0.05, 1.05, 10.005], ("0.05", "1.05", "10.005")),
        (["0.5", "1.0", "0.0"], [0.5, 1.0, 0.0], ("0", "0.5", "1")),
        (["TRUE", "false"], [True, False], ("False", "True")),
        (["1", "2"], [1, 2], ("1", "2")),
    ],
    ids=["fractions", "whole fractions", "truth values", "integers"],
)
def test_labels_that_are_numbers_or_booleans_have_one_name_in_every_format(
    tmp_path: Path, in_csv: list[str], in_json: list[Any], names: tuple[str, ...]
) -> None:
    csv_lines = ["text,label"]
    json_lines = []
    for number in range(30):
        text = f"a film of some words {number}"
        label = number % len(names)
        csv_lines.append(f"{text},{in_csv[label]}")
        json_lines.append(json.dumps({"text": text, "label": in_json[label]}))

    from_csv = read(tmp_path / "data.csv", "\n".join(csv_lines))
    from_json = read(tmp_path / "data.jsonl", "\n".join(json_lines))

    assert from_csv.card.label_space == names
    assert from_json.card.label_space == names
    assert from_csv.table.digest == from_json.table.digest


def rows_with_labels(labels: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return 30 rows with these labels in turn."""
    return [(f"a film of some words {number}", labels[number % len(labels)]) for number in range(30)]


SPELLINGS = [
    ["3.9", "3.10", "3.11"],  # versions
    ["250.50", "004.60", "007.0"],
    ["+1.5", "2.5"],
    ["9007199254740993.0", "1.5"],  # no float has the first value
    ["0.12345678901234567891", "2.0"],
    ["9" * 400 + ".5", "1.5"],
    ["01", "02"],
]


@pytest.mark.parametrize("labels", SPELLINGS)
def test_other_labels_with_digits_keep_their_spelling_in_csv(tmp_path: Path, labels: list[str]) -> None:
    rows = rows_with_labels(labels)
    lines = [f"{text},{label}" for text, label in rows]

    assert rows_of(read(tmp_path / "data.csv", "\n".join(["text,label", *lines]))) == rows


@pytest.mark.parametrize("labels", SPELLINGS)
def test_other_labels_with_digits_keep_their_spelling_in_json(tmp_path: Path, labels: list[str]) -> None:
    rows = rows_with_labels(labels)
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]

    assert rows_of(read(tmp_path / "data.jsonl", "\n".join(lines))) == rows


@pytest.mark.parametrize("labels", [["true", "false"], ["1.0", "0.0"]])
def test_texts_of_python_are_neither_booleans_nor_numbers(labels: list[str]) -> None:
    rows = rows_with_labels(labels)

    assert rows_of(Dataset.from_rows(rows, name="x")) == rows


def test_scalars_of_numpy_are_labels() -> None:
    numpy = pytest.importorskip("numpy")
    for labels, names in (
        ([numpy.float64(0), numpy.float64(0.5)], ("0", "0.5")),
        ([numpy.bool_(False), numpy.bool_(True)], ("False", "True")),
        ([numpy.int64(0), numpy.int64(1)], ("0", "1")),
    ):
        assert Dataset.from_rows(rows_with_labels(labels), name="x").card.label_space == names


def test_a_number_in_csv_that_is_an_index_and_a_name_is_refused(tmp_path: Path) -> None:
    lines = [f"film {number} of words,{number % 3}" for number in range(30)]

    with pytest.raises(ArgumentError, match="may be the index of '2' or the name '1'"):
        read(tmp_path / "data.csv", "\n".join(["text,label", *lines]), labels=["1", "2", "3"])


@pytest.mark.parametrize(("labels", "rows_of_label"), [(77, 4), (4, 40), (30, 6)])
def test_rows_of_a_file_that_is_sorted_by_label_are_not_swallowed(
    tmp_path: Path, labels: int, rows_of_label: int
) -> None:
    """A quote begins in the first row of the second label, and ends in the last row of the last label but one."""
    texts = [f"sentence {number} of words" for number in range(labels * rows_of_label)]
    texts[rows_of_label] = '"It begins well'
    texts[-rows_of_label - 1] = 'and it ends."'
    lines = [f"{text}\tintent_{number // rows_of_label:02d}" for number, text in enumerate(texts)]
    content = "\n".join(["text\tlabel", *lines])

    with pytest.raises(SchemaError, match="quoting="):
        read(tmp_path / "data.tsv", content)
    assert len(read(tmp_path / "data.tsv", content, quoting="none").table) == len(texts)


def test_label_names_that_look_like_indexes_are_names_in_a_pinned_file(tmp_path: Path) -> None:
    """The label "0" has the index 1."""
    path = tmp_path / "data.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows_with_labels(["0", "1"])]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    source = FileSource(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    dataset = Dataset.from_rows(source, name="x", label_space=["1", "0"])

    assert rows_of(dataset)[0] == ("a film of some words 0", "0")


def test_a_result_on_a_file_with_remarks_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{text},{label}" for text, label in rows_with_labels(["NA", "0", "1", "0", "1"])]
    dataset = read(tmp_path / "data.csv", "\n".join(["text,label", *lines]))
    assert dataset.remarks, "the label NA may mark rows without a label"
    Normal(datasets=[dataset], limit=5)(lambda prompt, label_space: [-1.0, -2.0, -1.5]).save("result.json")

    for finding in verify_file("result.json"):
        assert finding.same is not False, finding


# -- what is suspicious


def remarks(labels: list[str]) -> str:
    """Return the remarks on a data set whose rows have these labels."""
    rows = [(f"a text of some words {number}", label) for number, label in enumerate(labels)]
    return " | ".join(Dataset.from_rows(rows, name="x").remarks)


def test_a_few_rows_with_shifted_columns_are_remarked() -> None:
    """Texts in the label column are labels with one row each."""
    good = ["positive", "negative", "neutral"] * 100
    shifted = ["so true!", "http", "lol", "12"]

    assert "4 labels have one row each: 'so true!' (row 300)" in remarks(good + shifted)


def test_many_rare_labels_are_no_mistake() -> None:
    assert "have one row each" not in remarks(["a", "b"] * 50 + [f"rare {number}" for number in range(20)])


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (["favor", "against", "NA"], "'NA'"),
        (["favor", "against", "None"], "'None'"),
        (["0", "1", "-1"], "'-1'"),
        (["no", "True"], "'True'"),
    ],
)
def test_a_label_that_may_mark_rows_without_a_label_is_remarked(labels: list[str], word: str) -> None:
    assert f"labels that may mark rows without a label: {word}" in remarks(labels * 10)


@pytest.mark.parametrize("labels", [["racism", "sexism", "none"], ["-2", "-1", "0", "1", "2"], ["True", "False"]])
def test_a_class_that_looks_like_a_missing_label_is_not_remarked(labels: list[str]) -> None:
    assert "may mark rows without a label" not in remarks(labels * 10)


@pytest.mark.parametrize("separator", [";", "|", "; "])
def test_labels_that_are_several_labels_are_remarked(separator: str) -> None:
    single = ["late", "lost", "refund"]
    several = [f"late{separator}lost", f"late{separator}refund", f"lost{separator}refund"]

    found = remarks((single + several) * 10)

    assert f"3 labels have the character {separator.strip()!r}, such as 'late{separator}lost'" in found
    assert f"--label-separator {separator.strip()!r}" in found


def test_a_separator_between_words_that_are_no_labels_is_not_remarked() -> None:
    labels = ["late", "lost", "refund", "red;green", "blue"]

    assert "label-separator" not in remarks(labels * 10)


def test_the_advice_on_columns_fits_their_number(tmp_path: Path) -> None:
    """Two names for a file of three columns are refused, so they must not be advised."""
    with pytest.raises(ArgumentError, match=r"name all 3 columns with columns"):
        read(tmp_path / "data.csv", "text,label,page\nIt rains.,wet,1\nIt is dry.,dry,2\n", texts=None, label=None)


def test_two_text_columns_of_one_name_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="2 columns are called 'text'"):
        read(tmp_path / "data.csv", "text,text,label\nIt,rains.,wet\nIt,is dry.,dry\n", texts=None, label=None)


def test_a_nul_character_is_explained_by_another_encoding(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes("text,label\ngood,yes\n".encode("utf-16-le"))

    with pytest.raises(SchemaError, match="line 1 has a NUL character") as raised:
        Dataset.from_file(file, texts=["text"], label="label")

    assert "name its encoding, such as encoding='utf-16-le'" in str(raised.value)
