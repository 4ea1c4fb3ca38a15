"""Fetching from the hub: a fake package with real Parquet files."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.errors import DataMissingError
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.install import install
from StaICC.long_icl.loading import load

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write_parquet(path: Path, records: list[dict[str, Any]], features: dict[str, Any] | None = None) -> None:
    """Write records as Parquet; the features of the hub's data sets are in its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(records)
    if features is not None:
        metadata = json.dumps({"info": {"features": features}}).encode()
        table = table.replace_schema_metadata({b"huggingface": metadata})
    parquet.write_table(table, path)


def class_label(name: str) -> dict[str, Any]:
    """Return the feature "label" of a data set of the hub, whose values are numbers of label names."""
    return {"names": list(task_card(name).labels), "_type": "ClassLabel"}


class FakeHub:
    """The package of the hub, as far as it is used: names and arguments as its documentation has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[Any, ...]] = []

    def HfApi(self) -> FakeHub:
        return self

    def list_repo_files(self, repo_id: str, *, repo_type: str, revision: str) -> list[str]:
        self.asked.append(("list", repo_id, repo_type, revision))
        base = self.folder / repo_id
        return [path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file()]

    def hf_hub_download(self, repo_id: str, filename: str, *, repo_type: str, revision: str) -> str:
        self.asked.append(("download", repo_id, filename, repo_type, revision))
        return str(self.folder / repo_id / filename)


def put(folder: Path, name: str, split: str, files: list[list[dict[str, Any]]], features: Any = None) -> None:
    """Write the records of each file of a split where the card of a data set says that the hub has them."""
    source = task_card(name).hub
    assert source is not None
    for number, records in enumerate(files):
        write_parquet(folder / source.repository / source.config / split / f"{number:04}.parquet", records, features)


def discovery_rows(count: int) -> list[dict[str, Any]]:
    return [
        {"sentence1": f'"One {i}', "sentence2": f'two, "{i}" é .', "label": i % 174, "idx": i} for i in range(count)
    ]


@pytest.fixture(scope="module")
def discovery_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rows = tmp_path_factory.mktemp("hub"), discovery_rows(200)
    put(folder, "discovery", "train", [rows[:120], rows[120:]], {"label": class_label("discovery")})
    put(folder, "discovery", "test", [rows[:180]])
    write_parquet(folder / "sileod/discovery" / "discoverysmall" / "train" / "0000.parquet", rows[:1])
    return folder


@pytest.fixture
def hub(discovery_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    package = FakeHub(Path(shutil.copytree(discovery_files, tmp_path / "hub")))
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("STAICC_OFFLINE", raising=False)
    return package


@pytest.fixture
def home(hub: FakeHub, tmp_path: Path) -> Path:
    return tmp_path / "home" / "long_icl"


def fetch(*names: str) -> Any:
    """Install data sets from the hub, without notices."""
    return install(None, datasets=names, announce=lambda notice: None)


def test_data_of_the_hub_are_installed_as_published_files(hub: FakeHub, home: Path) -> None:
    done = fetch("discovery")

    assert (done.datasets, done.folder) == (("discovery",), home)
    assert sorted(path.name for path in home.iterdir()) == ["discovery_test.tsv", "discovery_train.tsv"]
    header, first_row, *_ = lines = (home / "discovery_train.tsv").read_bytes().decode().split("\n")
    first_label = task_card("discovery").labels[0]
    assert header == "sentence1\tsentence2\tlabel"
    assert first_row == f'"One 0\ttwo, "0" é .\t{first_label}'
    assert len(lines) == 1 + 200 + 1  # header, rows, and nothing after the last line end
    training_labels = [row.label for row in load("discovery", home, verify=False).train]
    assert training_labels[:174] == list(task_card("discovery").labels)


def test_the_hub_is_asked_for_the_files_of_the_configuration_only(hub: FakeHub, home: Path) -> None:
    fetch("discovery")

    repository, revision = "sileod/discovery", "refs/convert/parquet"
    assert set(hub.asked) == {
        ("list", repository, "dataset", revision),
        ("download", repository, "discovery/train/0000.parquet", "dataset", revision),
        ("download", repository, "discovery/train/0001.parquet", "dataset", revision),
        ("download", repository, "discovery/test/0000.parquet", "dataset", revision),
    }


def test_without_names_all_data_sets_of_the_hub_are_tried_and_licences_shown(
    hub: FakeHub, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The hub of these tests has Discovery only."""
    notices: list[str] = []

    done = install(None, announce=notices.append)

    assert notices == [task_card(name).notice() for name in ("banking77", "goemotions", "discovery")]
    assert done.datasets == ("discovery",)
    reasons = {skipped.dataset: skipped.reason for skipped in done.skipped}
    assert reasons.keys() == {"banking77", "goemotions", "tacred", "few_nerd", "dialogre"}
    assert reasons["tacred"] == "TACRED is not fetched from the hub"
    assert "has no default/train/*.parquet" in reasons["banking77"]
    assert "GoEmotions is not installed" in caplog.text


@pytest.mark.parametrize(
    ("name", "label_column", "splits"),
    [
        ("helmet_clinc150", "intent", ["train", "validation"]),
        ("helmet_nlu", "label", ["train"]),
        ("helmet_trec_fine", "fine_label", ["train", "test"]),
    ],
)
def test_all_rows_of_the_splits_of_helmet_keep_their_text_and_label(
    hub: FakeHub, home: Path, name: str, label_column: str, splits: list[str]
) -> None:
    labels = task_card(name).labels
    expected = []
    for split in splits:
        records = []
        for number in range(200):
            label_index = number % len(labels)
            text = f"{split}\n{number}, {{x}} "
            records.append({"text": text, label_column: label_index})
            expected.append((text, labels[label_index]))
        put(hub.folder, name, split, [records], {label_column: class_label(name)})

    assert fetch(name).datasets == (name,)

    data = load(name, home, verify=False, announce=lambda notice: None)
    items = [row.item() for row in (*data.train, *data.test)]
    assert sorted((item.texts[0], item.gold[0]) for item in items) == sorted(expected)
    if name == "helmet_nlu":  # it has no test set; a tenth of its rows is tested
        assert len(data.test) == 20


def banking_rows(published_folder: Path, split: str) -> list[dict[str, Any]]:
    with open(published_folder / f"banking77_{split}.csv", encoding="utf-8", newline="") as file:
        labels = task_card("banking77").labels
        return [{"text": row["text"], "label": labels.index(row["category"])} for row in csv.DictReader(file)]


def goemotions_rows(published_folder: Path, split: str) -> list[dict[str, Any]]:
    with open(published_folder / f"goemotions_{split}.tsv", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        return [{"text": text, "labels": [int(one) for one in ids.split(",")], "id": key} for text, ids, key in rows]


PUBLISHED_ROWS = pytest.mark.parametrize(
    ("name", "rows_of_split", "features"),
    [
        ("banking77", banking_rows, {"label": class_label("banking77")}),
        ("goemotions", goemotions_rows, {"labels": {"feature": class_label("goemotions"), "_type": "Sequence"}}),
    ],
    ids=["banking77", "goemotions"],
)


@PUBLISHED_ROWS
def test_rows_of_the_hub_become_the_published_bytes(
    published_folder: Path, hub: FakeHub, home: Path, name: str, rows_of_split: Callable[..., Any], features: Any
) -> None:
    put(hub.folder, name, "train", [rows_of_split(published_folder, "train")], features)
    put(hub.folder, name, "test", [rows_of_split(published_folder, "test")], features)

    fetch(name)

    for file in task_card(name).files.values():
        assert (home / file.names[0]).read_bytes() == (published_folder / file.names[0]).read_bytes()


@PUBLISHED_ROWS
def test_rows_of_the_hub_in_another_order_are_refused(
    published_folder: Path, hub: FakeHub, home: Path, name: str, rows_of_split: Callable[..., Any], features: Any
) -> None:
    first, second, *others = rows_of_split(published_folder, "test")
    put(hub.folder, name, "train", [rows_of_split(published_folder, "train")], features)
    put(hub.folder, name, "test", [[second, first, *others]], features)

    with pytest.raises(DataMissingError, match="not the published file"):
        fetch(name)
    assert list(home.iterdir()) == []


GOOD_ROW = {"sentence1": "a", "sentence2": "b", "label": 1}


@pytest.mark.parametrize(
    ("records", "features", "message"),
    [
        ([*discovery_rows(2), {**GOOD_ROW, "label": 174}], None, "has the label 174"),
        ([{**GOOD_ROW, "sentence1": "a\tb"}], None, "holds a tab or a line end"),
        ([{**GOOD_ROW, "sentence2": "b\nc"}], None, "holds a tab or a line end"),
        ([{"sentence1": "a", "label": 1}], None, "no text 'sentence2' in a row; it has"),
        ([{**GOOD_ROW, "sentence2": None}], None, "no text 'sentence2'"),
        ([{**GOOD_ROW, "label": "so,"}], None, "has the label 'so,', expected 0 to 173"),
        (discovery_rows(3), {"label": {"names": ["yes", "no"]}}, r"its labels are \['yes', 'no'\], which are not"),
    ],
    ids=["label above the last", "tab", "line end", "no column", "no text", "label name", "other label names"],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_installed(
    hub: FakeHub, home: Path, records: Any, features: Any, message: str
) -> None:
    put(hub.folder, "discovery", "test", [records], features)

    with pytest.raises(DataMissingError, match=message):
        fetch("discovery")
    assert list(home.iterdir()) == []
