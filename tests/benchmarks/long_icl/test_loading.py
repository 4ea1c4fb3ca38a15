from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.long_icl import card, cards, default_folder, install, load, load_available
from StaICC.benchmarks.long_icl import data as loading_module
from StaICC.benchmarks.long_icl import installing as installing_module
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, UnknownNameError

SETS = list(cards())
UNKNOWN_DIGEST = ("discovery", "tacred")


def files_of(name: str) -> list[str]:
    return [card(name).files[split][0].names[0] for split in ("train", "test")]


@pytest.mark.parametrize("name", SETS)
def test_small_data_are_read(small: Path, name: str) -> None:
    data = load(name, small, verify=False)
    assert data.card is card(name)
    assert not data.made_up
    assert not data.train_file.verified
    shown = [len(data.demonstration_rows(number)) for number in range(1, 6)]
    assert shown == sorted(shown)
    if name in ("banking77", "goemotions", "discovery", "tacred"):
        assert tuple(shown) == data.card.demonstrations.expected
        assert {item.gold for item in data.demonstrations(1)} == {(label,) for label in data.card.labels}
    few, every = data.test_items(10), data.test_items(None)
    assert [item.row for item in few] == [item.row for item in every][: len(few)]
    gold = [label for item in every for label in item.gold]
    assert [label for item in few for label in item.gold] == gold[: 20 if name == "few_nerd" else 10]


@pytest.mark.parametrize("name", sorted(set(SETS) - set(UNKNOWN_DIGEST)))
def test_files_that_are_not_the_published_ones_are_refused(small: Path, name: str) -> None:
    with pytest.raises(DataDamagedError, match="not the published file") as caught:
        load(name, small)
    for part in (files_of(name)[0], *card(name).files["train"][0].sha256, "verify=False"):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", UNKNOWN_DIGEST)
def test_without_a_known_digest_the_count_is_compared(small: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    load(name, small)
    assert f"the published file {card(name).files['train'][0].rows}; the results will not be comparable" in caplog.text


def test_the_rows_count_not_how_they_are_written(published: Path, tmp_path: Path) -> None:
    """Other line ends outside the texts are the same data; another text is not."""
    for split in ("train", "test"):
        raw = (published / f"banking77_{split}.csv").read_bytes().replace(b"\r\n", b"\n")
        (tmp_path / f"banking77_{split}.csv").write_bytes(raw)
    data = load("banking77", tmp_path)
    assert data.train_file.verified
    assert data.train_file.sha256 not in card("banking77").files["train"][0].sha256
    path = tmp_path / "banking77_test.csv"
    path.write_bytes(path.read_bytes().replace(b"card", b"Card", 1))
    with pytest.raises(DataDamagedError, match=r"banking77_test\.csv: not the published file.*its rows differ too"):
        load("banking77", tmp_path)


def test_rows_that_are_missing_are_counted(published: Path, tmp_path: Path) -> None:
    for split in ("train", "test"):
        lines = (published / f"goemotions_{split}.tsv").read_bytes().split(b"\n")
        (tmp_path / f"goemotions_{split}.tsv").write_bytes(b"\n".join(lines[1:]))
    with pytest.raises(DataDamagedError, match="It has 43409 rows, the published one 43410"):
        load("goemotions", tmp_path)


def test_what_is_missing_is_skipped_with_instructions(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    (small / "tacred_test.json").unlink()
    (small / "dialogre_train.json").unlink()
    (small / "dialogre_test.json").unlink()
    loaded, skipped = load_available(small, verify=False)
    assert [data.card.name for data in loaded] == ["banking77", "goemotions", "discovery", "few_nerd"]
    assert [one.dataset for one in skipped] == ["tacred", "dialogre"]
    assert skipped[0].reason == f"tacred_test.json not found in {small}"
    assert skipped[1].reason == f"dialogre_train.json and dialogre_test.json not found in {small}"
    assert "LDC2018T24" in skipped[0].instructions
    assert "non-commercial" in skipped[1].instructions
    for one in skipped:
        assert one.reason in caplog.text
        assert one.instructions in caplog.text
    with pytest.raises(DataMissingError, match=r"there is no dialogre_train\.json or .*non-commercial"):
        load("dialogre", small)


def test_damaged_data_are_not_skipped(small: Path) -> None:
    (small / "tacred_test.json").write_text("[")
    with pytest.raises(DataDamagedError, match=r"tacred_test\.json, line 1"):
        load_available(small, verify=False)


def test_licences_are_shown_before_files_are_opened(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    (small / "banking77_train.csv").write_text("")
    notices: list[str] = []
    with pytest.raises(DataDamagedError):
        load_available(small, ["tacred", "banking77"], verify=False, announce=notices.append)
    assert notices == [card("tacred").notice(), card("banking77").notice()]
    caplog.set_level(logging.INFO)
    load("tacred", small)
    assert card("tacred").notice() in caplog.text


@pytest.mark.parametrize(
    ("datasets", "error", "said"),
    [
        ([], ArgumentError, "at least one"),
        (["tacred", "tacred"], ArgumentError, "each data set once"),
        ("tacred", ArgumentError, r"write \['tacred'\]"),
        (["tacrd"], UnknownNameError, "did you mean 'tacred'"),
    ],
)
def test_names(small: Path, datasets: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        load_available(small, datasets)


def test_names_in_folders_and_made_up_rows(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    for split in ("train", "test"):
        (small / "tacred").mkdir(exist_ok=True)
        (small / f"tacred_{split}.json").rename(small / "tacred" / f"{split}.json")
        (small / f"dialogre_{split}.json").rename(small / f"dialogre_shape_{split}.json")
    assert load("tacred", small).train_file.path == small / "tacred" / "train.json"
    data = load("dialogre", small)
    assert data.made_up
    assert "made-up rows" in caplog.text


def test_short_training_files_are_reported(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The published code says nothing where a round is incomplete."""
    path = small / "tacred_train.json"
    rows = path.read_text(encoding="utf-8").split(",\n")
    path.write_text(",\n".join(rows[:100]) + "\n]", encoding="utf-8")
    data = load("tacred", small)
    caplog.clear()
    assert len(data.demonstrations(2)) == 82
    assert not caplog.text
    assert len(data.demonstrations(3)) == 82 + 100 - 84
    assert "TACRED, round 3: 98 demonstrations instead of 123" in caplog.text


def test_files_that_cannot_be_read(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(loading_module, "file_digest", forbidden)
    with pytest.raises(DataMissingError, match=r"banking77_train\.csv cannot be read: .*Permission denied"):
        load("banking77", small)


def test_files_without_usable_rows(small: Path) -> None:
    (small / "banking77_test.csv").write_text("text,category\n")
    with pytest.raises(DataDamagedError, match="has no rows"):
        load("banking77", small, verify=False)
    (small / "tacred_train.json").write_text("[]")
    with pytest.raises(DataDamagedError, match="has no rows"):
        load("tacred", small)


def test_dialogues_without_pairs_are_left_out(small: Path) -> None:
    text = '[[["a"], []], [["b"], [{"x": "1", "y": "2", "r": ["per:age"]}, {"x": "1", "y": "3", "r": ["per:pet"]}]]]'
    (small / "dialogre_test.json").write_text(text)
    data = load("dialogre", small, verify=False)
    assert [item.row for item in data.test_items(3)] == [1]
    assert [item.gold for item in data.test_items(1, strict=True)] == [("per:age",)]
    with pytest.raises(ArgumentError, match="can be a test item"):
        data.test_items(1)  # the published code also cuts the dialogues to that number


class TestInstall:
    def test_data_are_copied_and_found(self, small: Path, tmp_path: Path) -> None:
        home = tmp_path / "home"
        done = install(small, home, UNKNOWN_DIGEST)
        assert done.folder == default_folder(home) == home / "long_icl"
        assert done.datasets == UNKNOWN_DIGEST
        assert done.skipped == ()
        assert sorted(path.name for path in done.folder.iterdir()) == sorted(
            name for one in UNKNOWN_DIGEST for name in files_of(one)
        )
        for path in done.files:
            assert path.read_bytes() == (small / path.name).read_bytes()
        assert load("tacred", done.folder).test_items() == load("tacred", small).test_items()
        before = [path.stat().st_mtime_ns for path in done.files]
        assert install(small, home, UNKNOWN_DIGEST).files == done.files
        assert [path.stat().st_mtime_ns for path in done.files] == before  # nothing is written twice

    def test_published_data(self, published: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        notices: list[str] = []
        done = install(published, tmp_path, announce=notices.append)
        assert done.datasets == ("banking77", "goemotions", "few_nerd")
        assert [one.dataset for one in done.skipped] == ["discovery", "tacred", "dialogre"]
        assert notices == [own.notice() for own in cards().values()]
        assert "TACRED is not installed" in caplog.text
        for name in done.datasets:
            assert load(name, done.folder).train_file.verified

    def test_other_names_are_installed_under_the_first(self, published: Path, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.mkdir()
        shutil.copy(published / "fewnerd_train.json", source / "fewnerd_train_10turns.json")
        shutil.copy(published / "fewnerd_test.json", source / "fewnerd_test_1800.json")
        done = install(source, tmp_path / "home", ["few_nerd"])
        assert [path.name for path in done.files] == ["fewnerd_train.json", "fewnerd_test.json"]

    def test_what_is_not_right_is_not_installed(self, small: Path, tmp_path: Path) -> None:
        (small / "discovery_test.tsv").write_text("sentence1\tsentence2\tlabel\nx\n")
        done = install(small, tmp_path, ["banking77", "discovery", "tacred"])
        assert done.datasets == ("tacred",)
        assert "not the published file" in done.skipped[0].reason
        assert "line 2: expected 3 columns" in done.skipped[1].reason
        assert sorted(path.name for path in done.folder.iterdir()) == ["tacred_test.json", "tacred_train.json"]

    def test_nothing_to_install(self, small: Path, tmp_path: Path) -> None:
        with pytest.raises(DataMissingError, match=r"could be installed: banking77: .*not the published file"):
            install(small, tmp_path / "home", ["banking77"])
        with pytest.raises(DataMissingError, match="there is no folder"):
            install(tmp_path / "none", tmp_path / "home")
        with pytest.raises(UnknownNameError):
            install(small, tmp_path / "home", ["tacrd"])

    def test_made_up_rows_are_not_installed(self, small: Path, tmp_path: Path) -> None:
        for split in ("train", "test"):
            (small / f"tacred_{split}.json").rename(small / f"tacred_shape_{split}.json")
        with pytest.raises(DataMissingError, match="made-up rows"):
            install(small, tmp_path / "home", ["tacred"])

    def test_a_full_disk_leaves_nothing(self, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DataMissingError, match=r"TACRED cannot be installed in .*No space left"):
            install(small, tmp_path / "home", ["tacred"])
        assert list((tmp_path / "home" / "long_icl").iterdir()) == []

    def test_a_file_that_changes_meanwhile_is_refused(
        self, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = installing_module.load

        def change(*args: Any, **options: Any) -> Any:
            data = real(*args, **options)
            with open(small / "tacred_train.json", "a", encoding="utf-8") as file:
                file.write(" ")
            return data

        monkeypatch.setattr(installing_module, "load", change)
        with pytest.raises(DataMissingError, match="changed while it was being copied"):
            install(small, tmp_path / "home", ["tacred"])
        assert list((tmp_path / "home" / "long_icl").iterdir()) == []

    def test_the_default_folder_follows_the_data_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STAICC_HOME", str(tmp_path))
        assert default_folder() == tmp_path / "long_icl"
