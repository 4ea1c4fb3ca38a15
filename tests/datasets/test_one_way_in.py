"""The same rows are the same data set, wherever they are from: rows, files, pandas, Hugging Face, the command line."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Normal, Suite, load, load_kernel
from StaICC.cli import main
from StaICC.datasets.catalogue import Card, SplitSizes
from StaICC.datasets.source import FileSource
from StaICC.prompting.split import split_indexes
from StaICC.prompting.views import SubsetView, split_dataset

LABELS = ["complaint", "praise", "question"]
SHARE_OF_LABEL = (0.6, 0.3, 0.1)
LABELS_OF_TEN_ROWS = ["complaint"] * 6 + ["praise"] * 3 + ["question"]
ROWS = [(f"message {i}, with a comma", LABELS_OF_TEN_ROWS[i % 10]) for i in range(300)]
PAIRS = [((text, f"answer {len(text)} to {text}"), label) for text, label in ROWS]
NAMES = ("what they wrote", "kind_of_text")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_files(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> None:
    """Write rows with these names of columns into the files ``t.csv``, ``t.tsv``, ``t.jsonl`` and ``t.json``."""
    for name, separator in (("t.csv", ","), ("t.tsv", "\t")):
        with open(name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=separator).writerows([names, *rows])
    records = [dict(zip(names, row, strict=True)) for row in rows]
    Path("t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    Path("t.json").write_text(json.dumps(records), "utf-8")


def datasets_of_rows(rows: list[tuple[Any, str]], **facts: Any) -> Iterator[tuple[str, Dataset]]:
    """Yield the data set of rows that are passed in Python, in each way, with the name of the way."""
    yield "rows", Dataset.from_rows(rows, name="t", **facts)
    yield "rows, label space", Dataset.from_rows(rows, name="t", label_space=LABELS, **facts)
    indexes = [(texts, LABELS.index(label)) for texts, label in rows]
    yield "rows, label indexes", Dataset.from_rows(indexes, name="t", label_space=LABELS, **facts)
    content = "".join(json.dumps({"text": texts, "label": label}) + "\n" for texts, label in rows).encode()
    Path("pinned.jsonl").write_bytes(content)
    source = FileSource("pinned.jsonl", hashlib.sha256(content).hexdigest())
    yield "pinned file", Dataset.from_rows(source, name="t", **facts)
    yield "pinned file, label space", Dataset.from_rows(source, name="t", label_space=LABELS, **facts)


def datasets_of_tables(
    rows: list[tuple[str, ...]], names: tuple[str, ...], **facts: Any
) -> Iterator[tuple[str, Dataset]]:
    """Yield the data set of a table with these columns, the last one the label, in each format, with its name."""
    *columns, label = names
    write_files(rows, names)
    for file in ("t.csv", "t.tsv", "t.json", "t.jsonl"):
        yield file, Dataset.from_file(file, columns, label, **facts)

    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=list(names))
    yield "pandas", Dataset.from_pandas(frame, columns, label, name="t", **facts)
    with_indexes = frame.assign(**{label: frame[label].map(LABELS.index).astype("int32")})
    yield "pandas, indexes", Dataset.from_pandas(with_indexes, columns, label, name="t", labels=LABELS, **facts)
    pytest.importorskip("pyarrow")
    frame.to_parquet("t.parquet")
    yield "t.parquet", Dataset.from_file("t.parquet", columns, label, **facts)

    library = pytest.importorskip("datasets")
    plain = library.Dataset.from_pandas(frame)
    yield "hugging face", Dataset.from_huggingface(plain, columns, label, name="t", **facts)
    types = {column: library.Value("string") for column in columns}
    types[label] = library.ClassLabel(names=LABELS)
    values = {column: list(with_indexes[column]) for column in names}
    classes = library.Dataset.from_dict(values, features=library.Features(types))
    yield "hugging face, classes", Dataset.from_huggingface(classes, columns, label, name="t", **facts)


def prompts_of(dataset: Dataset) -> list[Any]:
    """Return the prompts of all benchmarks on a data set."""
    suite = Suite(datasets=[dataset])
    prompts = []
    for part in suite:
        for experimentor in suite[part]:
            prompts.append(experimentor.prompt_set())
    return prompts


def assert_same_dataset(dataset: Dataset, expected: Dataset, way: str) -> None:
    """Fail if two data sets differ, naming the way in which the first one was made."""
    assert dataset.card == expected.card, way
    assert dataset.table.digest == expected.table.digest, way
    assert dataset.remarks == expected.remarks, way
    assert split_dataset(dataset).test.indexes == split_dataset(expected).test.indexes, way
    assert str(Normal(datasets=[dataset]).signature()) == str(Normal(datasets=[expected]).signature()), way


def test_rows_with_one_text_are_one_data_set_in_every_format() -> None:
    expected = Dataset.from_rows(ROWS, name="t")

    for way, dataset in datasets_of_rows(ROWS):
        assert_same_dataset(dataset, expected, way)
    for way, dataset in datasets_of_tables(ROWS, ("what they wrote", "kind_of_text")):
        assert_same_dataset(dataset, expected, way)


def test_rows_with_two_texts_are_one_data_set_in_every_format() -> None:
    facts: dict[str, Any] = {"split": SplitSizes(50, 150, 100), "template": {"instruction": "Sort. "}}
    expected = Dataset.from_rows(PAIRS, name="t", **facts)
    flat = [(first, second, label) for (first, second), label in PAIRS]

    for way, dataset in datasets_of_rows(PAIRS, **facts):
        assert_same_dataset(dataset, expected, way)
    for way, dataset in datasets_of_tables(flat, ("what_they_wrote", "reply", "kind"), **facts):
        assert_same_dataset(dataset, expected, way)


@pytest.mark.parametrize("file", ["t.csv", "t.json"])
def test_a_file_has_the_prompts_of_its_rows(file: str) -> None:
    write_files(ROWS, NAMES)

    dataset = Dataset.from_file(file, NAMES[0], NAMES[1])

    assert prompts_of(dataset) == prompts_of(Dataset.from_rows(ROWS, name="t"))


def test_a_run_on_the_command_line_is_that_of_python() -> None:
    write_files(ROWS, NAMES)
    data = ["--data", "t.csv", "--text", NAMES[0], "--label", NAMES[1]]

    assert main(["run", "normal", *data, "--limit", "3", "--json", "r.json", "--quiet"]) == 0

    result = Normal(datasets=[Dataset.from_rows(ROWS, name="t")], limit=3)(load_kernel("ppm"))
    assert str(load("r.json").signature) == str(result.signature)
    assert load("r.json")["Divided results"] == result["Divided results"]


def test_the_prompts_on_the_command_line_are_those_of_python() -> None:
    write_files(ROWS, NAMES)
    data = ["--data", "t.csv", "--text", NAMES[0], "--label", NAMES[1]]

    assert main(["prompts", "normal", *data, "--output", "p.jsonl"]) == 0

    prompts = [json.loads(line)["prompt"] for line in Path("p.jsonl").read_text("utf-8").splitlines()]
    assert prompts == Normal(datasets=[Dataset.from_rows(ROWS, name="t")])[0].prompt_set()


def labels_of(part: SubsetView) -> list[int]:
    """Return the label of each row of a part."""
    return [part.label(row) for row in range(len(part))]


def test_the_default_split_is_stratified() -> None:
    """Of the labels, 60 %, 30 % and 10 % of the rows have each."""
    split = split_dataset(Dataset.from_rows(ROWS, name="t"))

    assert Counter(labels_of(split.calibration)) == {0: 36, 1: 18, 2: 6}
    assert Counter(labels_of(split.demonstration)) == {0: 72, 1: 36, 2: 12}
    assert Counter(labels_of(split.test)) == {0: 72, 1: 36, 2: 12}


def test_the_default_split_has_every_row_once() -> None:
    split = split_dataset(Dataset.from_rows(ROWS, name="t"))

    rows = [*split.calibration.indexes, *split.demonstration.indexes, *split.test.indexes]
    assert sorted(rows) == list(range(300))


def test_the_rows_of_a_part_are_in_random_order() -> None:
    test = split_dataset(Dataset.from_rows(ROWS, name="t")).test

    assert list(test.indexes) != sorted(test.indexes)


def test_the_first_rows_of_a_part_are_stratified() -> None:
    """A limit leaves about the same share of each label."""
    test = split_dataset(Dataset.from_rows(ROWS, name="t")).test

    for limit in range(1, 120):
        counts = Counter(labels_of(test)[:limit])
        for label, share in enumerate(SHARE_OF_LABEL):
            assert abs(counts[label] - limit * share) < 2, f"label {label} in the first {limit} rows"


def test_a_label_with_two_rows_is_demonstrated_and_tested() -> None:
    rows = [(f"text {i}", "frequent") for i in range(96)]
    rows += [("a", "first rare"), ("b", "first rare"), ("c", "second rare"), ("d", "second rare")]

    split = split_dataset(Dataset.from_rows(rows, name="t"))

    assert set(labels_of(split.demonstration)) == {0, 1, 2}
    assert set(labels_of(split.test)) == {0, 1, 2}


def test_a_given_split_is_drawn_as_that_of_the_benchmark() -> None:
    """Data sets with such a split keep the prompts that they had before splits were stratified."""
    dataset = Dataset.from_rows(ROWS, name="t", split=SplitSizes(60, 120, 120))

    assert split_dataset(dataset).test.indexes == split_indexes(300, SplitSizes(60, 120, 120)).test
    assert Normal(datasets=[dataset]).signature().fields["split"] == "60+120+120"


def test_a_split_with_one_given_size_has_the_default_for_the_others() -> None:
    dataset = Dataset.from_rows(ROWS, name="t", split={"test": 120})

    assert dataset.card.split == SplitSizes(60, 120, 120)


def test_a_given_split_can_be_stratified() -> None:
    dataset = Dataset.from_rows(ROWS, name="t", split=SplitSizes(60, 120, 120, stratified=True))

    assert dataset.card == Dataset.from_rows(ROWS, name="t").card
    assert Normal(datasets=[dataset]).signature().fields["split"] == "stratified-60+120+120"


def test_a_card_of_version_1_0_0_has_the_split_that_it_had() -> None:
    """The record of the card does not name the field, which means that the split is not stratified."""
    card = Dataset.from_rows(ROWS, name="t", split=SplitSizes(60, 120, 120)).card

    assert "stratified" not in card.to_dict()["split"]
    assert Card.from_dict(card.to_dict()) == card


def test_a_card_with_the_default_split_is_read_back() -> None:
    card = Dataset.from_rows(ROWS, name="t").card

    assert card.split.stratified
    assert Card.from_dict(json.loads(json.dumps(card.to_dict()))) == card
