"""Fetching from the hub: a fake package with real Parquet files."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.long_icl import card, install_from_hub, load
from StaICC.benchmarks.long_icl.installing import read_parquet
from StaICC.errors import ArgumentError, DataMissingError, MissingDependencyError, UnknownNameError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAICC_OFFLINE", raising=False)


def write_parquet(path: Path, records: list[dict[str, Any]], features: dict[str, Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(records)
    if features is not None:
        about = json.dumps({"info": {"features": features}}).encode()
        table = table.replace_schema_metadata({b"huggingface": about})
    parquet.write_table(table, path)
    return path


def class_label(name: str) -> dict[str, Any]:
    return {"names": list(card(name).labels), "_type": "ClassLabel"}


class FakeHub:
    """Repositories in a folder; the package reads the one that was made last."""

    latest: FakeHub

    def __init__(self, folder: Path) -> None:
        FakeHub.latest = self
        self.folder = folder
        self.fetched: list[str] = []
        self.asked: list[tuple[Any, ...]] = []

    def files(self, repository: str) -> Iterable[str]:
        base = self.folder / repository
        return [str(path.relative_to(base).as_posix()) for path in base.rglob("*") if path.is_file()]

    def fetch(self, repository: str, name: str) -> Path:
        self.fetched.append(f"{repository}/{name}")
        return self.folder / repository / name


class HfApi:
    def list_repo_files(self, repo_id: str, *, repo_type: str, revision: str) -> list[str]:
        FakeHub.latest.asked.append(("list", repo_id, repo_type, revision))
        return list(FakeHub.latest.files(repo_id))


def hf_hub_download(repo_id: str, filename: str, *, repo_type: str, revision: str) -> str:
    FakeHub.latest.asked.append(("download", repo_id, filename, repo_type, revision))
    return str(FakeHub.latest.fetch(repo_id, filename))


def put(folder: Path, name: str, split: str, parts: list[list[dict[str, Any]]], features: Any = None) -> None:
    source = card(name).hub
    assert source is not None
    for number, records in enumerate(parts):
        write_parquet(folder / source.repository / source.config / split / f"{number:04}.parquet", records, features)


def discovery_rows(count: int) -> list[dict[str, Any]]:
    return [
        {"sentence1": f'"One {i}', "sentence2": f'two, "{i}" é .', "label": i % 174, "idx": i} for i in range(count)
    ]


@pytest.fixture
def hub(tmp_path: Path) -> FakeHub:
    folder = tmp_path / "hub"
    rows = discovery_rows(700)
    put(folder, "discovery", "train", [rows[:300], rows[300:]], {"label": class_label("discovery")})
    put(folder, "discovery", "test", [rows[:400]])
    write_parquet(folder / "sileod/discovery" / "discoverysmall" / "train" / "0000.parquet", rows[:1])
    return FakeHub(folder)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of the hub, as far as it is used: names and arguments as its documentation has them."""
    package = types.SimpleNamespace(HfApi=HfApi, hf_hub_download=hf_hub_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_discovery(hub: FakeHub, home: Path) -> None:
    notices: list[str] = []
    done = install_from_hub(["discovery"], announce=notices.append)
    assert notices == [card("discovery").notice()]
    assert (done.datasets, done.skipped, done.folder) == (("discovery",), (), home / "long_icl")
    lines = (home / "long_icl" / "discovery_train.tsv").read_bytes().decode().split("\n")
    assert lines[0] == "sentence1\tsentence2\tlabel"
    assert lines[1] == f'"One 0\ttwo, "0" é .\t{card("discovery").labels[0]}'
    assert len(lines) == 702
    data = load("discovery", done.folder, verify=False)
    assert [row.label for row in data.train][:174] == list(card("discovery").labels)
    assert not any("small" in name for name in hub.fetched)
    assert sorted(path.name for path in done.folder.iterdir()) == ["discovery_test.tsv", "discovery_train.tsv"]


def banking_rows(published: Path, split: str) -> list[dict[str, Any]]:
    import csv

    with open(published / f"banking77_{split}.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = card("banking77").labels
    return [{"text": row["text"], "label": labels.index(row["category"])} for row in rows]


def goemotions_rows(published: Path, split: str) -> list[dict[str, Any]]:
    import csv

    with open(published / f"goemotions_{split}.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    return [{"text": text, "labels": [int(one) for one in ids.split(",")], "id": key} for text, ids, key in rows]


@pytest.mark.parametrize(
    ("name", "rows", "features"),
    [
        ("banking77", banking_rows, {"label": class_label("banking77")}),
        ("goemotions", goemotions_rows, {"labels": {"feature": class_label("goemotions"), "_type": "Sequence"}}),
    ],
)
def test_the_published_bytes_come_out(
    published: Path, tmp_path: Path, home: Path, name: str, rows: Callable[..., Any], features: Any
) -> None:
    hub = FakeHub(tmp_path / "hub")
    for split in ("train", "test"):
        put(hub.folder, name, split, [rows(published, split)], features)
    done = install_from_hub([name], announce=lambda notice: None)
    assert [path.name for path in done.files] == [card(name).files[split][0].names[0] for split in ("train", "test")]
    for path in done.files:
        assert path.read_bytes() == (published / path.name).read_bytes()
    assert load(name, done.folder).train_file.verified

    # Another order is another data set: refused.
    swapped = rows(published, "test")
    swapped[0], swapped[1] = swapped[1], swapped[0]
    put(hub.folder, name, "test", [swapped], features)
    other = tmp_path / "other"
    with pytest.raises(DataMissingError, match="not the published file"):
        install_from_hub([name], other, announce=lambda notice: None)
    assert list((other / "long_icl").iterdir()) == []


def test_all_six(hub: FakeHub, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    notices: list[str] = []
    done = install_from_hub(announce=notices.append)
    assert done.datasets == ("discovery",)
    reasons = {one.dataset: one.reason for one in done.skipped}
    assert set(reasons) == {"banking77", "goemotions", "tacred", "few_nerd", "dialogre"}
    assert reasons["tacred"] == "TACRED is not fetched from the hub"
    assert "has no default/train/*.parquet" in reasons["banking77"]
    assert {one.dataset: one.instructions for one in done.skipped}["tacred"] == card("tacred").instructions()
    assert notices == [card(name).notice() for name in ("banking77", "goemotions", "discovery")]
    assert "GoEmotions is not installed" in caplog.text


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
        install_from_hub(["discovery"], announce=lambda notice: None)
    assert list((home / "long_icl").iterdir()) == []  # nothing half-done is left


def test_goemotions_without_labels(tmp_path: Path, home: Path) -> None:
    hub = FakeHub(tmp_path / "hub")
    put(
        hub.folder,
        "goemotions",
        "train",
        [[{"text": "x", "labels": [1], "id": "a"}, {"text": "y", "labels": [], "id": "b"}]],
    )
    with pytest.raises(DataMissingError, match="the label"):
        install_from_hub(["goemotions"], announce=lambda notice: None)


def test_a_network_error_names_what_failed(hub: FakeHub, home: Path) -> None:
    class Broken(FakeHub):
        def fetch(self, repository: str, name: str) -> Path:
            raise OSError("connection refused")

    Broken(hub.folder)
    with pytest.raises(
        DataMissingError, match=r"could not be fetched from the hub \(sileod/discovery\): OSError: connec"
    ):
        install_from_hub(["discovery"], announce=lambda notice: None)


def test_a_damaged_file(hub: FakeHub, home: Path) -> None:
    (hub.folder / "sileod/discovery/discovery/test/0000.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataMissingError, match="Discovery could not be fetched from the hub"):
        install_from_hub(["discovery"], announce=lambda notice: None)


def test_offline_and_names(hub: FakeHub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'discovery'"):
        install_from_hub(["discovry"])
    with pytest.raises(ArgumentError, match="at least one data set"):
        install_from_hub([])
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    with pytest.raises(DataMissingError, match="STAICC_OFFLINE forbids fetching"):
        install_from_hub(["discovery"])
    assert hub.fetched == []


def test_the_package_is_asked_for_the_converted_files(hub: FakeHub, home: Path) -> None:
    assert install_from_hub(["discovery"], announce=lambda notice: None).datasets == ("discovery",)
    assert set(hub.asked) == {
        ("list", "sileod/discovery", "dataset", "refs/convert/parquet"),
        ("download", "sileod/discovery", "discovery/train/0000.parquet", "dataset", "refs/convert/parquet"),
        ("download", "sileod/discovery", "discovery/train/0001.parquet", "dataset", "refs/convert/parquet"),
        ("download", "sileod/discovery", "discovery/test/0000.parquet", "dataset", "refs/convert/parquet"),
    }


def test_the_real_package_takes_these_arguments() -> None:
    hub = pytest.importorskip("huggingface_hub")
    import inspect

    inspect.signature(hub.HfApi.list_repo_files).bind(None, "a/b", repo_type="dataset", revision="r")
    inspect.signature(hub.hf_hub_download).bind("a/b", "c", repo_type="dataset", revision="r")


def test_without_the_extra(hub: FakeHub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[hub\]"):
        install_from_hub(["discovery"])


def test_reading_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", discovery_rows(5), {"label": class_label("discovery")})
    names, records = read_parquet(path, "label")
    assert names == list(card("discovery").labels)
    assert list(records) == discovery_rows(5)
    names, records = read_parquet(write_parquet(tmp_path / "b.parquet", discovery_rows(2)), "label")
    assert names is None
