from __future__ import annotations

from pathlib import Path

import pytest

from StaICC.benchmarks.long_icl import card, default_folder, install, load, load_available
from StaICC.benchmarks.long_icl import data as loading_module
from StaICC.cli.files import check_output
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, UnknownNameError
from tests.benchmarks.long_icl.conftest import SETS, SINGLE

UNKNOWN_DIGEST = ("discovery", "tacred")


def files_of(name: str) -> list[str]:
    return [card(name).files[split].names[0] for split in ("train", "test")]


@pytest.mark.parametrize("name", SETS)
def test_small_data_are_read(small_files: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    data = load(name, small_files, verify=False)
    assert card(name).notice() in caplog.text
    assert (data.card, data.made_up, data.train_file.verified) == (card(name), False, False)
    shown = [len(data.demonstration_rows(number)) for number in range(1, 6)]
    assert shown == sorted(shown)
    if name in SINGLE:
        assert tuple(shown) == data.card.demonstrations.expected
        assert {item.gold for item in data.demonstration_rows(1)} == {(label,) for label in data.card.labels}
    few, every = data.test_items(10), data.test_items(None)
    assert [item.row for item in few] == [item.row for item in every][: len(few)]
    gold = [label for item in every for label in item.gold]
    assert [label for item in few for label in item.gold] == gold[: 20 if name == "few_nerd" else 10]


@pytest.mark.parametrize("name", SETS)
def test_files_that_are_not_the_published_ones(small_files: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    spec = card(name).files["train"]
    if name in UNKNOWN_DIGEST:
        load(name, small_files)
        assert f"the published file {spec.rows}; the results will not be comparable" in caplog.text
        return
    with pytest.raises(DataDamagedError, match="not the published file") as caught:
        load(name, small_files)
    for part in (files_of(name)[0], *spec.sha256, "verify=False"):
        assert part in str(caught.value)


def test_missing_data_are_skipped_with_instructions(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("tacred_test.json", "dialogre_train.json", "dialogre_test.json"):
        (small / name).unlink()
    assert [data.card.name for data in load_available(small, "goemotions", verify=False)[0]] == ["goemotions"]
    loaded, skipped = load_available(small, verify=False)
    assert [data.card.name for data in loaded] == ["banking77", "goemotions", "discovery", "few_nerd"]
    assert [(one.dataset, one.reason) for one in skipped] == [
        ("tacred", f"tacred_test.json not found in {small}"),
        ("dialogre", f"dialogre_train.json and dialogre_test.json not found in {small}"),
    ]
    for one in skipped:
        assert one.instructions == card(one.dataset).instructions()
        assert str(one) in caplog.text
    with pytest.raises(DataMissingError, match=r"dialogre_train\.json .*non-commercial"):
        load("dialogre", small)


def test_damaged_data_are_not_skipped_and_licences_come_first(small: Path) -> None:
    (small / "tacred_test.json").write_text("[")
    notices: list[str] = []
    with pytest.raises(DataDamagedError, match=r"tacred_test\.json, line 1"):
        load_available(small, ["banking77", "tacred"], verify=False, announce=notices.append)
    assert notices == [card("banking77").notice(), card("tacred").notice()]


def test_memory_is_bounded(small_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_module, "MOST_TURNS", 2)
    assert len(load("banking77", small_files, verify=False).train) == 2 * 77
    assert len(load("tacred", small_files, verify=False).train) == 6 * 41  # its rule needs all rows


# -- installation


def test_data_are_copied_and_found(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    done = install(small, datasets=UNKNOWN_DIGEST)
    assert (done.folder, done.datasets, done.skipped) == (default_folder(), UNKNOWN_DIGEST, ())
    assert default_folder() == default_folder(tmp_path / "home") == tmp_path / "home" / "long_icl"
    files = sorted(done.folder.iterdir())
    assert [path.name for path in files] == sorted(name for one in UNKNOWN_DIGEST for name in files_of(one))
    for path in files:
        assert path.read_bytes() == (small / path.name).read_bytes()
    before = [path.stat().st_mtime_ns for path in files]
    assert install(small, datasets=UNKNOWN_DIGEST) == done
    assert [path.stat().st_mtime_ns for path in files] == before  # nothing is written twice
    files[0].write_bytes(b"damaged")
    install(small, datasets=UNKNOWN_DIGEST)
    assert files[0].read_bytes() == (small / files[0].name).read_bytes()
    with pytest.raises(ArgumentError):  # no command overwrites it
        check_output(files[0])


def test_wrong_data_are_not_installed(small: Path, tmp_path: Path) -> None:
    (small / "discovery_test.tsv").write_text("sentence1\tsentence2\tlabel\nx\n")
    done = install(small, tmp_path, ["banking77", "discovery", "tacred"])
    assert done.datasets == ("tacred",)
    assert "not the published file" in done.skipped[0].reason
    assert "line 2: expected 3 columns" in done.skipped[1].reason
    assert sorted(path.name for path in done.folder.iterdir()) == ["tacred_test.json", "tacred_train.json"]
    with pytest.raises(DataMissingError, match=r"banking77: .*not the published file"):
        install(small, tmp_path / "home", ["banking77"])
    with pytest.raises(DataMissingError, match="there is no folder"):
        install(tmp_path / "none", tmp_path / "home")
    with pytest.raises(UnknownNameError):
        install(small, tmp_path / "home", ["tacrd"])
