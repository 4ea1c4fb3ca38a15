"""Files as other people write them: headers or none, separators, shapes of JSON, lines of another width."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, FileSource, Normal
from StaICC.benchmarks.verify import verify_file
from StaICC.errors import ArgumentError, SchemaError, StaICCError

ROWS = [(f"film {number} was fine", "bad" if number % 3 else "good") for number in range(30)]


def rows_of(dataset: Dataset) -> list[tuple[str, str]]:
    return [(row.texts[0], dataset.card.label_space[row.label]) for row in dataset.table]


def read(path: Path, content: str | bytes, **options: Any) -> Dataset:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Dataset.from_file(path, **{"texts": ["text"], "label": "label", **options})


def separated(separator: str, header: bool = True) -> str:
    lines = [f"{text}{separator}{label}" for text, label in ROWS]
    return "\n".join([f"text{separator}label"] * header + lines) + "\n"


# -- separators and headers


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "~"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_the_header_tells_the_separator(tmp_path: Path, separator: str, suffix: str) -> None:
    assert rows_of(read(tmp_path / f"data{suffix}", separated(separator))) == ROWS


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "~"])
def test_without_a_header_all_lines_tell_the_separator(tmp_path: Path, separator: str) -> None:
    content = separated(separator, header=False).replace(
        "film 0 was", "film 0: was" if separator == "," else "film 0, was"
    )
    read_rows = rows_of(read(tmp_path / "data.csv", content, columns=["text", "label"]))
    assert read_rows[1:] == ROWS[1:]


def test_two_possible_separators_are_refused_unless_the_suffix_decides(tmp_path: Path) -> None:
    content = "ham\tWell, ok\nspam\tFree entry, win\nham\tWell, no\nspam\tNow, win\n" * 5
    columns = ["label", "text"]
    with pytest.raises(ArgumentError, match=r"2 fields with ',' or '\\t' between them"):
        read(tmp_path / "data.csv", content, columns=columns)
    assert rows_of(read(tmp_path / "data.tsv", content, columns=columns))[0] == ("Well, ok", "ham")
    assert rows_of(read(tmp_path / "data.csv", "label\ttext\n" + content))[0] == ("Well, ok", "ham")


def test_a_label_column_that_is_named_like_a_label(tmp_path: Path) -> None:
    """In one data set the column ``hate`` has the labels hate, none and offensive; in another the header is missing."""
    content = "comments\thate\n" + "a b\thate\nc d\tnone\ne f\toffensive\n" * 5
    with pytest.raises(SchemaError, match=r"If it is the header, say so: columns=\['comments', 'hate'\]"):
        read(tmp_path / "data.tsv", content, texts=["comments"], label="hate")
    said = read(tmp_path / "data.tsv", content, texts=["comments"], label="hate", columns=["comments", "hate"])
    assert len(said.table) == 15
    row = read(tmp_path / "data.tsv", content, columns=["text", "label"])
    assert len(row.table) == 16
    record = said.file_record()
    assert record is not None
    assert Dataset.reopen(record, [tmp_path]).table.digest == said.table.digest


@pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.gz"])
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    content = separated(",") if "csv" in suffix else "\n".join(lines)
    dataset = read(tmp_path / f"data{suffix}", gzip.compress(content.encode("utf-8")))
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
)
def test_lines_of_another_width(tmp_path: Path, content: str, options: dict[str, Any], message: str) -> None:
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
    with pytest.raises(SchemaError, match=message) as caught:
        read(tmp_path / "data.json", json.dumps(table, indent=indent))
    assert "save that list as the file" not in str(caught.value) or "data" in table


# -- names of labels


@pytest.mark.parametrize(
    ("written", "value", "name"),
    [
        (["0.05", "1.05", "10.005"], [0.05, 1.05, 10.005], ["0.05", "1.05", "10.005"]),
        (["0.5", "1.0", "0.0"], [0.5, 1.0, 0.0], ["0", "0.5", "1"]),
        (["TRUE", "false"], [True, False], ["False", "True"]),
        (["1", "2"], [1, 2], ["1", "2"]),
    ],
)
def test_labels_that_are_numbers_or_booleans_have_one_name_in_every_format(
    tmp_path: Path, written: list[str], value: list[Any], name: list[str]
) -> None:
    texts = [f"a film of some words {number}" for number in range(30)]
    lines = [f"{text},{written[number % len(written)]}" for number, text in enumerate(texts)]
    records = [{"text": text, "label": value[number % len(value)]} for number, text in enumerate(texts)]
    from_csv = read(tmp_path / "data.csv", "\n".join(["text,label", *lines]))
    from_json = read(tmp_path / "data.jsonl", "\n".join(map(json.dumps, records)))
    assert list(from_csv.card.label_space) == list(from_json.card.label_space) == name
    assert from_csv.table.digest == from_json.table.digest


@pytest.mark.parametrize(
    "labels",
    [
        ["3.9", "3.10", "3.11"],  # versions
        ["250.50", "004.60", "007.0"],
        ["+1.5", "2.5"],
        ["9007199254740993.0", "1.5"],  # no float has the first value
        ["0.12345678901234567891", "2.0"],
        ["9" * 400 + ".5", "1.5"],
        ["01", "02"],
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_other_labels_with_digits_keep_their_spelling(tmp_path: Path, labels: list[str], suffix: str) -> None:
    rows = [(f"a film of some words {number}", labels[number % len(labels)]) for number in range(30)]
    content = "\n".join(["text,label", *map(",".join, rows)])
    if suffix == ".jsonl":
        content = "\n".join(json.dumps({"text": text, "label": label}) for text, label in rows)
    assert rows_of(read(tmp_path / f"data{suffix}", content)) == rows


def test_texts_of_typed_formats_are_no_booleans_or_numbers() -> None:
    for labels in (["true", "false"], ["1.0", "0.0"]):
        rows = [(f"a film of some words {number}", labels[number % 2]) for number in range(30)]
        assert rows_of(Dataset.from_rows(rows, name="x")) == rows


def test_scalars_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    for scalar, names in ((numpy.float64, ("0", "0.5")), (numpy.bool_, ("False", "True")), (numpy.int64, ("0", "1"))):
        values = [scalar(0), scalar(0.5 if scalar is numpy.float64 else 1)]
        rows = [(f"a film of some words {number}", values[number % 2]) for number in range(30)]
        assert Dataset.from_rows(rows, name="x").card.label_space == names


def test_a_number_in_csv_that_is_an_index_and_a_name_is_refused(tmp_path: Path) -> None:
    content = "text,label\n" + "".join(f"film {number} of words,{number % 3}\n" for number in range(30))
    with pytest.raises(ArgumentError, match="may be the index of '2' or the name '1'"):
        read(tmp_path / "data.csv", content, labels=["1", "2", "3"])


@pytest.mark.parametrize(("classes", "rows_of_class"), [(77, 4), (4, 40), (30, 6)])
def test_rows_of_a_file_that_is_sorted_by_label_are_not_swallowed(
    tmp_path: Path, classes: int, rows_of_class: int
) -> None:
    rows = [
        [f"sentence {number} of {label} here", f"intent_{label:02d}"]
        for label in range(classes)
        for number in range(rows_of_class)
    ]
    rows[rows_of_class][0] = '"It begins well'
    rows[-rows_of_class - 1][0] = 'and it ends."'
    content = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)
    with pytest.raises(SchemaError, match="quoting="):
        read(tmp_path / "data.tsv", content)
    assert len(read(tmp_path / "data.tsv", content, quoting="none").table) == len(rows)


def test_a_pinned_file_with_names_that_look_like_indexes(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    lines = [json.dumps({"text": f"film {number} of words", "label": str(number % 2)}) for number in range(30)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    source = FileSource(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    dataset = Dataset.from_rows(source, name="x", label_space=["1", "0"])
    assert rows_of(dataset)[0] == ("film 0 of words", "0")


def test_a_result_on_a_remarkable_file_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(f"a film of some words {number}", "NA" if number % 5 == 0 else f"{number % 2}") for number in range(60)]
    dataset = read(tmp_path / "data.csv", "\n".join(["text,label", *map(",".join, rows)]))
    assert dataset.remarks
    result = Normal(datasets=[dataset], limit=20)(lambda prompt, label_space: [-1.0, -2.0, -1.5])
    result.save("result.json")
    assert [finding for finding in verify_file("result.json") if finding.same is False] == []


# -- what is suspicious


def remarks(labels: list[str]) -> str:
    rows = [(f"a text of some words {number}", label) for number, label in enumerate(labels)]
    return " | ".join(Dataset.from_rows(rows, name="x").remarks)


def test_a_few_rows_with_shifted_columns_are_remarked() -> None:
    found = remarks(["positive", "negative", "neutral"] * 100 + ["so true!", "http", "lol", "12"])
    assert "4 labels have one row each: 'so true!' (row 300)" in found


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
def test_words_for_missing_labels(labels: list[str], word: str) -> None:
    assert f"labels that may mark rows without a label: {word}" in remarks(labels * 10)


@pytest.mark.parametrize("labels", [["racism", "sexism", "none"], ["-2", "-1", "0", "1", "2"], ["True", "False"]])
def test_labels_that_are_classes_although_they_look_missing(labels: list[str]) -> None:
    assert "may mark rows without a label" not in remarks(labels * 10)


@pytest.mark.parametrize("separator", [";", "|", "; "])
def test_labels_that_are_several_labels_are_remarked(separator: str) -> None:
    names = ["late", "refund", "damaged", "lost"]
    combinations = [separator.join([first, second]) for first in names for second in names if first < second]
    found = remarks((names + combinations) * 10)
    assert f"6 labels have the character {separator.strip()!r}, such as 'damaged{separator}late'" in found
    assert f"--label-separator {separator.strip()!r}" in found
    assert "label-separator" not in remarks([*names, f"red{separator}green", "blue"] * 10)
