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


def write_parquet(path: Path, records: list[dict[str, Any]], features: dict[str, Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(records)
    if features is not None:
        about = json.dumps({"info": {"features": features}}).encode()
        table = table.replace_schema_metadata({b"huggingface": about})
    parquet.write_table(table, path)
    return path


def class_label(name: str) -> dict[str, Any]:
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


def put(folder: Path, name: str, split: str, parts: list[list[dict[str, Any]]], features: Any = None) -> None:
    source = task_card(name).hub
    assert source is not None
    for number, records in enumerate(parts):
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
    return install(None, datasets=names, announce=lambda notice: None)


def test_discovery(hub: FakeHub, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    notices: list[str] = []
    done = install(None, announce=notices.append)
    assert (done.datasets, done.folder) == (("discovery",), home)
    assert notices == [task_card(name).notice() for name in ("banking77", "goemotions", "discovery")]
    lines = (home / "discovery_train.tsv").read_bytes().decode().split("\n")
    assert lines[0] == "sentence1\tsentence2\tlabel"
    assert lines[1] == f'"One 0\ttwo, "0" é .\t{task_card("discovery").labels[0]}'
    assert len(lines) == 202
    assert [row.label for row in load("discovery", home, verify=False).train][:174] == list(
        task_card("discovery").labels
    )
    assert sorted(path.name for path in home.iterdir()) == ["discovery_test.tsv", "discovery_train.tsv"]
    reasons = {one.dataset: one.reason for one in done.skipped}
    assert set(reasons) == {"banking77", "goemotions", "tacred", "few_nerd", "dialogre"}
    assert reasons["tacred"] == "TACRED is not fetched from the hub"
    assert "has no default/train/*.parquet" in reasons["banking77"]
    assert "GoEmotions is not installed" in caplog.text
    assert {one for one in hub.asked if "sileod/discovery" in one} == {
        ("list", "sileod/discovery", "dataset", "refs/convert/parquet"),
        *(
            ("download", "sileod/discovery", f"discovery/{name}.parquet", "dataset", "refs/convert/parquet")
            for name in ("train/0000", "train/0001", "test/0000")
        ),
    }


def test_helmet(hub: FakeHub, home: Path) -> None:
    for name, column, splits in (
        ("helmet_clinc150", "intent", ("train", "validation")),
        ("helmet_nlu", "label", ("train",)),
        ("helmet_trec_fine", "fine_label", ("train", "test")),
    ):
        labels = task_card(name).labels
        for split in splits:
            rows = [{"text": f"{split}\n{i}, {{x}} ", column: i % len(labels)} for i in range(200)]
            put(hub.folder, name, split, [rows], {column: class_label(name)})
        assert fetch(name).datasets == (name,)
        data = load(name, home, verify=False, announce=lambda notice: None)
        every = [row.item() for row in (*data.train, *data.test)]
        assert len(every) == 200 * len(splits)
        for item in every:
            assert item.gold == (labels[int(item.texts[0].split("\n")[1].split(",")[0]) % len(labels)],)
        assert {item.texts[0].split("\n")[0] for item in every} == set(splits)
    assert len(load("helmet_nlu", home, verify=False).test) == 20


def banking_rows(published: Path, split: str) -> list[dict[str, Any]]:
    with open(published / f"banking77_{split}.csv", encoding="utf-8", newline="") as file:
        labels = task_card("banking77").labels
        return [{"text": row["text"], "label": labels.index(row["category"])} for row in csv.DictReader(file)]


def goemotions_rows(published: Path, split: str) -> list[dict[str, Any]]:
    with open(published / f"goemotions_{split}.tsv", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        return [{"text": text, "labels": [int(one) for one in ids.split(",")], "id": key} for text, ids, key in rows]


@pytest.mark.parametrize(
    ("name", "rows", "features"),
    [
        ("banking77", banking_rows, {"label": class_label("banking77")}),
        ("goemotions", goemotions_rows, {"labels": {"feature": class_label("goemotions"), "_type": "Sequence"}}),
    ],
)
def test_the_published_bytes_come_out(
    published: Path, hub: FakeHub, home: Path, name: str, rows: Callable[..., Any], features: Any
) -> None:
    test = rows(published, "test")
    put(hub.folder, name, "train", [rows(published, "train")], features)
    put(hub.folder, name, "test", [[test[1], test[0], *test[2:]]], features)
    with pytest.raises(DataMissingError, match="not the published file"):
        fetch(name)  # another order is another data set
    assert list(home.iterdir()) == []
    put(hub.folder, name, "test", [test], features)
    fetch(name)
    for path in (home / spec.names[0] for spec in task_card(name).files.values()):
        assert path.read_bytes() == (published / path.name).read_bytes()


@pytest.mark.parametrize(
    ("records", "features", "said"),
    [
        ([*discovery_rows(2), {"sentence1": "a", "sentence2": "b", "label": 174}], None, "has the label 174"),
        ([{"sentence1": "a\tb", "sentence2": "b", "label": 1}], None, "holds a tab or a line end"),
        ([{"sentence1": "a", "sentence2": "b\nc", "label": 1}], None, "holds a tab or a line end"),
        ([{"sentence1": "a", "label": 1}], None, "no text 'sentence2' in a row; it has"),
        ([{"sentence1": "a", "sentence2": None, "label": 1}], None, "no text 'sentence2'"),
        ([{"sentence1": "a", "sentence2": "b", "label": "so,"}], None, "has the label 'so,', expected 0 to 173"),
        (discovery_rows(3), {"label": {"names": ["yes", "no"]}}, r"its labels are \['yes', 'no'\], which are not"),
    ],
)
def test_rows_are_checked(hub: FakeHub, home: Path, records: Any, features: Any, said: str) -> None:
    put(hub.folder, "discovery", "test", [records], features)
    with pytest.raises(DataMissingError, match=said):
        fetch("discovery")
    assert list(home.iterdir()) == []  # nothing half-done is left
