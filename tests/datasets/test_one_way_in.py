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
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.defaults import default_split
from StaICC.datasets.source import FileSource
from StaICC.prompting.split import split_indexes
from StaICC.prompting.views import split_dataset

LABELS = ["complaint", "praise", "question"]
ROWS = [(f"message {i}, with a comma", LABELS[0 if i % 10 < 6 else 1 if i % 10 < 9 else 2]) for i in range(300)]
PAIRS = [((text, f"answer {len(text)} to {text}"), label) for text, label in ROWS]
NAMES = ("what they wrote", "kind_of_text")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_files(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> None:
    for name, separator in (("t.csv", ","), ("t.tsv", "\t")):
        with open(name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=separator).writerows([names, *rows])
    records = [dict(zip(names, row, strict=True)) for row in rows]
    Path("t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    Path("t.json").write_text(json.dumps(records), "utf-8")


def doors(rows: list[tuple[Any, str]], names: tuple[str, ...], **facts: Any) -> Iterator[tuple[str, Dataset]]:
    """The data set of some rows through every door."""
    flat = [(*([texts] if isinstance(texts, str) else texts), label) for texts, label in rows]
    columns, label = list(names[:-1]), names[-1]
    write_files(flat, names)
    yield "rows", Dataset.from_rows(rows, name="t", **facts)
    yield "rows, label space", Dataset.from_rows(rows, name="t", label_space=LABELS, **facts)
    indexes = [(texts, LABELS.index(own)) for texts, own in rows]
    yield "rows, label indexes", Dataset.from_rows(indexes, name="t", label_space=LABELS, **facts)
    pinned = "".join(json.dumps({"text": texts, "label": own}) + "\n" for texts, own in rows).encode()
    Path("pinned.jsonl").write_bytes(pinned)
    source = FileSource("pinned.jsonl", hashlib.sha256(pinned).hexdigest())
    yield "pinned file", Dataset.from_rows(source, name="t", **facts)
    yield "pinned file, label space", Dataset.from_rows(source, name="t", label_space=LABELS, **facts)
    for file in ("t.csv", "t.tsv", "t.json", "t.jsonl"):
        yield file, Dataset.from_file(file, columns, label, **facts)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(flat, columns=list(names))
    yield "pandas", Dataset.from_pandas(frame, columns, label, name="t", **facts)
    coded = frame.assign(**{label: frame[label].map(LABELS.index).astype("int32")})
    yield "pandas, indexes", Dataset.from_pandas(coded, columns, label, name="t", labels=LABELS, **facts)
    pytest.importorskip("pyarrow")
    frame.to_parquet("t.parquet")
    yield "t.parquet", Dataset.from_file("t.parquet", columns, label, **facts)
    library = pytest.importorskip("datasets")
    plain = library.Dataset.from_pandas(frame)
    yield "hugging face", Dataset.from_huggingface(plain, columns, label, name="t", **facts)
    features = library.Features(
        {**{column: library.Value("string") for column in columns}, label: library.ClassLabel(names=LABELS)}
    )
    classes = library.Dataset.from_dict({column: list(coded[column]) for column in names}, features=features)
    yield "hugging face, classes", Dataset.from_huggingface(classes, columns, label, name="t", **facts)


def prompts_of(dataset: Dataset) -> list[Any]:
    """The test rows and the prompts of all benchmarks."""
    suite = Suite(datasets=[dataset])
    return [
        (part, experimentor.triplet_dataset.test.indexes, experimentor.prompt_set())
        for part in suite
        for experimentor in suite[part]
    ]


@pytest.mark.parametrize(
    ("rows", "facts"),
    [(ROWS, {}), (PAIRS, {"split": SplitSizes(50, 150, 100), "template": {"instruction": "Sort. "}})],
    ids=["one text", "two texts"],
)
def test_every_door_leads_to_one_data_set(rows: list[Any], facts: dict[str, Any]) -> None:
    names = NAMES if rows is ROWS else ("what_they_wrote", "reply", "kind")
    made_by = dict(doors(rows, names, **facts))
    assert len(made_by) >= 7
    first = made_by["rows"]
    expected = prompts_of(first)
    for door, made in made_by.items():
        assert (made.card, made.table.digest, made.remarks) == (first.card, first.table.digest, first.remarks), door
        assert split_dataset(made).test.indexes == split_dataset(first).test.indexes
        assert str(Normal(datasets=[made]).signature()) == str(Normal(datasets=[first]).signature())
    for door in ("rows, label indexes", "t.csv", "t.json"):
        assert prompts_of(made_by[door]) == expected


def test_the_command_line_is_a_door_too(capsys: pytest.CaptureFixture[str]) -> None:
    write_files(ROWS, NAMES)
    own = ["--data", "t.csv", "--text", NAMES[0], "--label", NAMES[1]]
    assert main(["run", "normal", *own, "--limit", "3", "--json", "r.json", "--quiet"]) == 0
    benchmark = Normal(datasets=[Dataset.from_rows(ROWS, name="t")], limit=3)
    result = benchmark(load_kernel("ppm"))
    assert str(load("r.json").signature) == str(result.signature)
    assert load("r.json")["Divided results"] == result["Divided results"]
    assert main(["prompts", "normal", *own, "--output", "p.jsonl"]) == 0
    prompts = [json.loads(line)["prompt"] for line in Path("p.jsonl").read_text("utf-8").splitlines()]
    assert prompts == Normal(datasets=[Dataset.from_rows(ROWS, name="t")])[0].prompt_set()
    capsys.readouterr()


def test_the_default_split_is_stratified() -> None:
    split = split_dataset(Dataset.from_rows(ROWS, name="t"))
    for part, size in ((split.calibration, 60), (split.demonstration, 120), (split.test, 120)):
        counts = Counter(part.label(row) for row in range(len(part)))
        assert [counts[label] for label in range(3)] == [size * 6 // 10, size * 3 // 10, size // 10]
    parts = (split.calibration.indexes, split.demonstration.indexes, split.test.indexes)
    assert sorted(row for part in parts for row in part) == list(range(300))
    for limit in range(1, 120):  # so are the first rows of a set
        counts = Counter(split.test.label(row) for row in range(limit))
        assert [
            (label, share) for label, share in enumerate((0.6, 0.3, 0.1)) if abs(counts[label] - limit * share) >= 2
        ] == []
    assert list(split.test.indexes) != sorted(split.test.indexes), "the order is random"


def test_rare_labels_are_tested_and_shown() -> None:
    rows = [(f"text {i}", "frequent") for i in range(96)] + [(f"rare {i}", f"rare {i // 2}") for i in range(4)]
    split = split_dataset(Dataset.from_rows(rows, name="t"))
    for part in (split.demonstration, split.test):
        assert {part.label(row) for row in range(len(part))} == {0, 1, 2}


def test_a_split_that_is_named_is_drawn_as_the_benchmarks() -> None:
    """Such data sets keep their prompts; the flag chooses."""
    sizes = SplitSizes(60, 120, 120)
    plain, other = (Dataset.from_rows(ROWS, name="t", split=split) for split in (sizes, {"test": 120}))
    assert plain.card.split == other.card.split == sizes
    assert split_dataset(plain).test.indexes == split_indexes(300, sizes).test
    stratified = Dataset.from_rows(ROWS, name="t", split=SplitSizes(60, 120, 120, stratified=True))
    assert stratified.card == Dataset.from_rows(ROWS, name="t").card
    signatures = [Normal(datasets=[dataset]).signature().fields["split"] for dataset in (plain, stratified)]
    assert signatures == ["60+120+120", "stratified-60+120+120"]


def test_a_card_of_version_1_0_0_has_the_split_that_it_had() -> None:
    card = Dataset.from_rows(ROWS, name="t", split=SplitSizes(60, 120, 120)).card
    assert "stratified" not in card.to_dict()["split"]
    assert type(card).from_dict(card.to_dict()) == card
    now = Dataset.from_rows(ROWS, name="t").card
    assert type(now).from_dict(json.loads(json.dumps(now.to_dict()))) == now
    assert default_split(300).stratified
