"""Cards, files and installation of LongICL's data; a further task; malformed files, whose errors name file and line."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import LongICL
from StaICC.benchmarks.findings import Recomputed, status_of
from StaICC.benchmarks.verify import verify
from StaICC.cli.output import check_output
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, UnknownNameError
from StaICC.files.json_reading import read_value
from StaICC.long_icl import loading as loading_module
from StaICC.long_icl.available import load_available
from StaICC.long_icl.cards import TaskCard, cards, task_card
from StaICC.long_icl.detokeniser import detokenise
from StaICC.long_icl.install import default_folder, install
from StaICC.long_icl.loading import load
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.readers import READERS, FileRow, lines
from tests.long_icl.conftest import ALL_DATASETS, SINGLE_LABEL_DATASETS, long_icl_on

OVERVIEW = {
    "banking77": (77, [77, 154, 231, 308, 385], "accuracy"),
    "goemotions": (28, [28, 56, 84, 112, 140], "accuracy"),
    "discovery": (174, [174, 348, 522, 696, 870], "accuracy"),
    "tacred": (41, [41, 82, 123, 164, 205], "micro_f1"),
    "few_nerd": (66, [57, 114, 170, 224, 281], "micro_f1"),
    "dialogre": (34, [34, 67, 99, 131, 163], "micro_f1"),
}
"""Labels, demonstrations of the rounds, metric."""


@pytest.mark.parametrize("name", OVERVIEW)
def test_a_card_has_the_labels_demonstrations_and_metric_of_the_protocol(name: str) -> None:
    card = task_card(name)

    label_count, demonstrations_of_rounds, metric = OVERVIEW[name]
    assert len(set(card.labels)) == label_count
    assert list(card.demonstrations.expected) == demonstrations_of_rounds
    assert card.scoring.metric == metric


def test_data_sets_are_in_the_order_of_the_protocol() -> None:
    kinds = {name: card.kind for name, card in cards().items()}

    assert list(kinds.items()) == [
        ("banking77", "text"),
        ("goemotions", "text"),
        ("discovery", "pair"),
        ("tacred", "relation"),
        ("few_nerd", "entities"),
        ("dialogre", "dialogue"),
    ]


def test_three_data_sets_may_not_be_shipped() -> None:
    assert [name for name, card in cards().items() if card.restricted] == ["discovery", "tacred", "dialogre"]


HELMET = {
    "helmet_banking77": (77, 5900),
    "helmet_trec_coarse": (6, 6600),
    "helmet_trec_fine": (50, 6400),
    "helmet_nlu": (68, 8296),
    "helmet_clinc150": (151, 7050),
}
"""HELMET's data sets: labels, and demonstrations for 128K tokens, as in its configs/icl.yaml."""


@pytest.mark.parametrize("name", HELMET)
def test_a_card_of_helmet_has_its_labels_and_demonstrations(name: str) -> None:
    card = task_card(name)

    label_count, demonstrations_for_128k_tokens = HELMET[name]
    assert len(set(card.labels)) == label_count
    assert card.shots[-1] == demonstrations_for_128k_tokens
    assert len(card.shots) == 6  # 4K, 8K, 16K, 32K, 64K, 128K tokens
    assert list(card.shots) == sorted(card.shots)
    assert card.shots[0] >= label_count, "every label is shown"


@pytest.mark.parametrize("name", HELMET)
def test_labels_of_helmet_differ_also_as_they_are_compared(name: str) -> None:
    card = task_card(name)

    compared_labels = {card.answers.normal(label) for label in card.labels}

    assert len(compared_labels) == len(card.labels)


def test_all_cards_are_those_of_long_icl_bench_and_of_helmet() -> None:
    assert cards("HELMET").keys() == HELMET.keys()
    assert list(cards(None)) == [*OVERVIEW, *cards("HELMET")]
    assert {card.suite for card in cards(None).values()} == {"LongICLBench", "HELMET"}


def test_discovery_labels_are_compared_without_punctuation() -> None:
    normal = task_card("discovery").answers.normal
    assert [normal(text) for text in ("as_a_result,", "[no-conn]", ' “Yet,". ')] == ["as_a_result", "[no-conn]", "yet"]


# -- a further task: a record, and a reader of its file format

RECORD: dict[str, Any] = {
    "name": "rooms",
    "title": "Rooms",
    "task": "room of a thing",
    "kind": "text",
    "source": "made up",
    "licence": "CC0",
    "citation": "",
    "labels": [f"room {number}" for number in range(24)],
    "files": {
        "train": {"format": "rooms_jsonl", "names": ["rooms_train.jsonl"], "rows": 72},
        "test": {"format": "rooms_jsonl", "names": ["rooms_test.jsonl"], "rows": 72},
    },
    "demonstrations": {"rule": "turns", "expected": [24, 48, 72, 72, 72]},
    "test": {"rule": "first"},
    "template": {
        "plain": "Where is it?\n",
        "instruct": ["Where is it, of ", "?\n"],
        "query": "thing: {text}\nroom: ",
        "answer": "{label}\n",
    },
    "answers": {"cue": "room:", "marker": "thing:", "lower": True, "delete": ""},
    "scoring": {"metric": "accuracy"},
}


def read_rooms(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Read lines such as {"thing": "test 0 of room 3", "room": "room 3"}."""
    for number, line in enumerate(lines(path)):
        record = json.loads(line)
        item = Item("text", number, (record["thing"],), (record["room"],))
        yield FileRow(record["room"], None, lambda item=item: item)


def write_rooms(path: Path, split: str) -> None:
    """Write three rows of each of the 24 rooms."""
    rows = []
    for number in range(3):
        for room in RECORD["labels"]:
            rows.append(json.dumps({"thing": f"{split} {number} of {room}", "room": room}))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="")


def reads_shown_rooms(prompt: str, label_space: list[str]) -> str:
    """Reply with the room of the query, if a demonstration shows this room."""
    query = prompt.rsplit("thing: ", 1)[1]
    room = query.split(" of ")[1].split("\n")[0]
    return room if f"room: {room}\n" in prompt else "nowhere"


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data of a further task, which is known in this test."""
    monkeypatch.setitem(cards(None), "rooms", read_value(TaskCard, RECORD, "rooms"))  # type: ignore[arg-type]
    monkeypatch.setitem(READERS, "rooms_jsonl", read_rooms)  # type: ignore[arg-type]
    write_rooms(tmp_path / "rooms_train.jsonl", "train")
    write_rooms(tmp_path / "rooms_test.jsonl", "test")
    return tmp_path


def test_a_further_task_is_a_record_and_a_reader(rooms: Path) -> None:
    result = long_icl_on(rooms, ["rooms"], rounds=(1, 3), limit=48)(reads_shown_rooms)

    assert result.divided["rooms"]["1R"] == 1.0
    assert result.divided["rooms"]["3R"] == 1.0
    assert status_of(verify(result, data_dir=rooms)) == Recomputed()


def test_a_further_task_has_experiments(rooms: Path) -> None:
    result = long_icl_on(rooms, ["rooms"], experiment="controls", limit=48)(reads_shown_rooms)

    assert result.divided["rooms"]["zero shots"] == 0.0
    assert result.divided["rooms"]["irrelevant text"] == 0.0
    assert status_of(verify(result, data_dir=rooms)) == Recomputed()


# -- loading


UNKNOWN_DIGEST = ("discovery", "tacred")
"""The data sets of which the digests of the published files are not known, so that other files are read, too."""


def files_of(name: str) -> list[str]:
    """Return the names of the files of a data set."""
    return [task_card(name).files[split].names[0] for split in ("train", "test")]


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_loading_data_shows_their_licence(data_folder: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    data = load(name, data_folder, verify=False)

    assert data.card == task_card(name)
    assert not data.verified
    assert task_card(name).notice() in caplog.text


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_later_rounds_have_as_many_demonstrations_or_more(data_folder: Path, name: str) -> None:
    data = load(name, data_folder, verify=False)

    counts = [len(data.demonstration_rows(number)) for number in (1, 2, 3, 4, 5)]

    assert counts == sorted(counts)


@pytest.mark.parametrize("name", SINGLE_LABEL_DATASETS)
def test_rounds_of_items_with_one_label_show_every_label(data_folder: Path, name: str) -> None:
    data = load(name, data_folder, verify=False)

    counts = [len(data.demonstration_rows(number)) for number in (1, 2, 3, 4, 5)]
    shown_labels = {item.gold[0] for item in data.demonstration_rows(1)}

    assert tuple(counts) == data.card.demonstrations.expected
    assert shown_labels == set(data.card.labels)


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_a_limit_takes_the_first_items(data_folder: Path, name: str) -> None:
    """The limit is of labels; the one of Few-NERD is of sentences, which have two labels here."""
    data = load(name, data_folder, verify=False)
    all_items = data.test_items(None)

    limited = data.test_items(10)

    assert [item.row for item in limited] == [item.row for item in all_items[: len(limited)]]
    all_labels = []
    for item in all_items:
        all_labels += item.gold
    limited_labels = []
    for item in limited:
        limited_labels += item.gold
    limit_of_labels = 10 * 2 if name == "few_nerd" else 10
    assert limited_labels == all_labels[:limit_of_labels]


@pytest.mark.parametrize("name", sorted(set(ALL_DATASETS) - set(UNKNOWN_DIGEST)))
def test_files_that_are_not_the_published_ones_are_refused(data_folder: Path, name: str) -> None:
    train_file, _ = files_of(name)

    with pytest.raises(DataDamagedError, match="not the published file") as caught:
        load(name, data_folder)

    message = str(caught.value)
    assert train_file in message
    assert "verify=False" in message
    for published_digest in task_card(name).files["train"].sha256:
        assert published_digest in message


@pytest.mark.parametrize("name", UNKNOWN_DIGEST)
def test_files_with_unknown_digests_are_read_with_a_warning_of_their_number_of_rows(
    data_folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    load(name, data_folder)

    published_rows = task_card(name).files["train"].rows
    assert f"the published file {published_rows}; the results will not be comparable" in caplog.text


def test_that_all_data_are_missing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataMissingError) as caught:
        LongICL(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.count("banking77") == 2  # in the list, and in the command that installs it
    assert "--hub --datasets banking77 goemotions discovery." in message
    assert caplog.text == ""


@pytest.fixture
def without_tacred_and_dialogre(data_folder_copy: Path) -> Path:
    """A folder that lacks a file of TACRED and both files of DialogRE."""
    for name in ("tacred_test.json", "dialogre_train.json", "dialogre_test.json"):
        (data_folder_copy / name).unlink()
    return data_folder_copy


def test_missing_data_are_skipped_with_instructions(
    without_tacred_and_dialogre: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = without_tacred_and_dialogre

    loaded, (tacred, dialogre) = load_available(folder, verify=False)

    assert [data.card.name for data in loaded] == ["banking77", "goemotions", "discovery", "few_nerd"]
    assert (tacred.dataset, tacred.reason) == ("tacred", f"tacred_test.json not found in {folder}")
    assert tacred.instructions == task_card("tacred").instructions()
    assert dialogre.dataset == "dialogre"
    assert dialogre.reason == f"dialogre_train.json and dialogre_test.json not found in {folder}"
    assert dialogre.instructions == task_card("dialogre").instructions()
    assert str(tacred) in caplog.text
    assert str(dialogre) in caplog.text


def test_only_the_named_data_set_is_loaded(without_tacred_and_dialogre: Path) -> None:
    (loaded,), skipped = load_available(without_tacred_and_dialogre, "goemotions", verify=False)

    assert loaded.card.name == "goemotions"
    assert list(skipped) == []


def test_loading_a_missing_data_set_is_an_error_that_names_its_licence(without_tacred_and_dialogre: Path) -> None:
    with pytest.raises(DataMissingError, match=r"dialogre_train\.json .*non-commercial"):
        load("dialogre", without_tacred_and_dialogre)


def test_damaged_data_are_not_skipped_and_licences_come_first(data_folder_copy: Path) -> None:
    (data_folder_copy / "tacred_test.json").write_text("[")
    notices: list[str] = []
    with pytest.raises(DataDamagedError, match=r"tacred_test\.json, its text.* at column 2"):
        load_available(data_folder_copy, ["banking77", "tacred"], verify=False, announce=notices.append)
    assert notices == [task_card("banking77").notice(), task_card("tacred").notice()]


def test_no_more_rows_of_a_label_are_kept_than_rounds_and_experiments_need(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading_module, "MOST_TURNS", 2)

    assert len(load("banking77", data_folder, verify=False).train) == 2 * 77
    assert len(load("tacred", data_folder, verify=False).train) == 6 * 41  # its rule needs all rows


# -- installation


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of StaICC's data in this test."""
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_data_of_long_icl_are_in_a_folder_of_the_home(home: Path) -> None:
    assert default_folder() == home / "long_icl"
    assert default_folder(home) == home / "long_icl"


def test_installing_copies_the_files(data_folder_copy: Path, home: Path) -> None:
    done = install(data_folder_copy, datasets=["discovery", "tacred"])

    assert done.folder == home / "long_icl"
    assert done.datasets == ("discovery", "tacred")
    assert done.skipped == ()
    copies = sorted(done.folder.iterdir())
    names = ["discovery_test.tsv", "discovery_train.tsv", "tacred_test.json", "tacred_train.json"]
    assert [path.name for path in copies] == names
    for path in copies:
        assert path.read_bytes() == (data_folder_copy / path.name).read_bytes(), path.name


def test_installing_again_writes_nothing(data_folder_copy: Path, home: Path) -> None:
    first = install(data_folder_copy, datasets=["tacred"])
    times = [path.stat().st_mtime_ns for path in sorted(first.folder.iterdir())]

    second = install(data_folder_copy, datasets=["tacred"])

    assert second == first
    assert [path.stat().st_mtime_ns for path in sorted(first.folder.iterdir())] == times


def test_installing_again_replaces_a_damaged_file(data_folder_copy: Path, home: Path) -> None:
    install(data_folder_copy, datasets=["tacred"])
    path = home / "long_icl" / "tacred_test.json"
    path.write_bytes(b"damaged")

    install(data_folder_copy, datasets=["tacred"])

    assert path.read_bytes() == (data_folder_copy / "tacred_test.json").read_bytes()


def test_no_command_overwrites_installed_data(data_folder_copy: Path, home: Path) -> None:
    install(data_folder_copy, datasets=["tacred"])

    with pytest.raises(ArgumentError):
        check_output(home / "long_icl" / "tacred_test.json")


def test_wrong_data_are_not_installed(data_folder_copy: Path, tmp_path: Path) -> None:
    (data_folder_copy / "discovery_test.tsv").write_text("sentence1\tsentence2\tlabel\nx\n")

    done = install(data_folder_copy, tmp_path, ["banking77", "discovery", "tacred"])

    assert done.datasets == ("tacred",)
    assert sorted(path.name for path in done.folder.iterdir()) == ["tacred_test.json", "tacred_train.json"]
    banking77, discovery = done.skipped
    assert "not the published file" in banking77.reason
    assert "line 2: expected 3 columns" in discovery.reason


def test_installing_nothing_is_an_error(data_folder_copy: Path, home: Path) -> None:
    with pytest.raises(DataMissingError, match=r"banking77: .*not the published file"):
        install(data_folder_copy, home, ["banking77"])


def test_installing_from_a_folder_that_does_not_exist_is_an_error(home: Path, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="there is no folder"):
        install(tmp_path / "none", home)


def test_installing_a_misspelt_data_set_is_an_error(data_folder_copy: Path, home: Path) -> None:
    with pytest.raises(UnknownNameError):
        install(data_folder_copy, home, ["tacrd"])


# -- malformed files: every complaint names the file, and the line or the record


Write = Callable[["str | bytes"], Path]

FORMATS = {name: task_card(name).files["train"].format for name in ALL_DATASETS}
GOOD: dict[str, str] = {
    "banking77": "text,category\r\nWhere is it?,card_arrival\r\n",
    "goemotions": "Oh no\t3\tc1\nYes\t17,2\tc2\n",
    "discovery": "sentence1\tsentence2\tlabel\na\tb\tyet,\nc\td\t0\n",
    "tacred": json.dumps(
        [{"token": ["a", "b"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1, "relation": "per:age"}]
    ),
    "few_nerd": '[\n{"sentence": "Ox.", "entities": {"Ox": "other-god"}}\n]\n',
    "dialogre": '[\n[["S1: hi"], [{"x": "a", "y": "b", "r": ["per:age"]}]]\n]\n',
}


def read(name: str, path: Path) -> list[FileRow]:
    """Return the rows of a training file of a data set."""
    return list(READERS[FORMATS[name]](path, task_card(name)))


def refused(name: str, path: Path, place: int | str, message: str) -> None:
    """Check that a file is refused, with its path, the line (or the record) and a message."""
    where = f"line {place}" if isinstance(place, int) else place

    with pytest.raises(DataDamagedError) as caught:
        read(name, path)

    assert str(caught.value).startswith(f"{path}, {where}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_is_read(write_file: Write, name: str) -> None:
    assert read(name, write_file(GOOD[name]))


@pytest.mark.parametrize("name", GOOD)
def test_an_empty_file_is_refused(write_file: Write, name: str) -> None:
    refused(name, write_file(""), 1, "empty")


@pytest.mark.parametrize("name", GOOD)
def test_a_file_with_a_byte_order_mark_is_refused(write_file: Write, name: str) -> None:
    refused(name, write_file(b"\xef\xbb\xbf" + GOOD[name].encode()), 1, "byte-order mark")


@pytest.mark.parametrize("name", GOOD)
def test_a_line_that_is_not_utf_8_is_refused(write_file: Write, name: str) -> None:
    first_line = GOOD[name].encode().split(b"\n")[0]

    refused(name, write_file(first_line + b"\n\xff\n"), 2, "not UTF-8")


@pytest.mark.parametrize("name", [name for name in GOOD if name != "banking77"])
def test_line_ends_of_windows_are_refused(write_file: Write, name: str) -> None:
    with_line_end = GOOD[name].removesuffix("\n") + "\n"

    refused(name, write_file(with_line_end.replace("\n", "\r\n")), 1, "Windows line end")


def test_line_ends_of_windows_change_nothing_in_banking77(write_file: Write) -> None:
    """The published files of BANKING77 have them."""
    windows = "text,category\r\nWhere is it?,card_arrival\r\n"

    rows_of_windows = [row.form for row in read("banking77", write_file(windows))]
    rows_of_unix = [row.form for row in read("banking77", write_file(windows.replace("\r\n", "\n")))]

    assert rows_of_windows == rows_of_unix


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_file_is_an_error_with_the_reason(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=r"none cannot be read: .*No such file"):
        read(name, tmp_path / "none")


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw the content with one byte changed, or with up to nine bytes cut out."""
    place = draw(st.integers(0, len(content) - 1))
    if draw(st.booleans()):
        new_byte = draw(st.integers(0, 255))
        return content[:place] + bytes([new_byte]) + content[place + 1 :]
    cut = draw(st.integers(1, 9))
    return content[:place] + content[place + cut :]


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=50)
@given(data=st.data())
def test_damage_is_a_clear_error_or_other_rows(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Damage is never another kind of exception."""
    path = tmp_path_factory.mktemp("damage") / "file"
    path.write_bytes(data.draw(damaged(GOOD[name].encode())))

    try:
        rows = read(name, path)
        items = [row.item() for row in rows]
    except DataDamagedError as error:
        message = str(error)
    else:
        assert all(items), items
        return
    assert message.startswith(f"{path}, ")


PAIR = {"token": ["a", "b"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1, "relation": "per:age"}


BAD_ROWS = {
    "a row with too many columns": (
        "banking77",
        "text,category\r\na,card_arrival\r\nb,card_arrival,x\r\n",
        3,
        "expected 2 columns",
    ),
    "a text with a line end of Windows": (
        "banking77",
        'text,category\r\n"a\r\nb",card_arrival\r\n',
        2,
        "holds a Windows line end",
    ),
    "no header": ("banking77", "a,card_arrival\n", 1, "expected the header text,category"),
    "a quotation mark that nothing closes": (
        "banking77",
        'text,category\na,card_arrival\n"open,card_arrival\nb,card_arrival\n',
        3,
        "found 1",
    ),
    "a field of 200,000 characters": ("goemotions", "a\t1\tc\n" + "b" * 200000, 2, "not a row of fields"),
    "a row with too few columns": (
        "goemotions",
        "a\t1\tc\nb\t1\n",
        2,
        "expected 3 columns (text, label ids, comment id), found 2",
    ),
    "a label number above the last": ("goemotions", "a\t1\tc\nb\t28\tc\n", 2, "there is no GoEmotions label '28'"),
    "a label name for its number": ("goemotions", "a\tjoy\tc\n", 1, "there is no GoEmotions label 'joy'"),
    "no header of Discovery": ("discovery", "a\tb\tyet,\n", 1, "expected the header"),
    "a row of Discovery without a label": ("discovery", "sentence1\tsentence2\tlabel\na\tb\n", 2, "expected 3 columns"),
    "a label number of Discovery above the last": (
        "discovery",
        "sentence1\tsentence2\tlabel\na\tb\t174\n",
        2,
        "there is no Discovery label '174'",
    ),
    "an object for a list": ("tacred", "{}", "its text", "must be a list"),
    "a record without positions": (
        "tacred",
        '[\n{"token": ["a"]}\n]',
        "record 1",
        "'subj_start' must be a whole number",
    ),
    "a text for a list of tokens": (
        "tacred",
        '[{"token": "a b"}]',
        "record 1",
        "'token' must be a list, each item a text",
    ),
    "a record without entities": (
        "few_nerd",
        '[{"sentence": "a", "entities": {}}, {"sentence": "b"}]',
        "record 2",
        "'entities' must be an object, each value a text",
    ),
    "a misspelt label": (
        "few_nerd",
        '[{"sentence": "a", "entities": {"a": "art-fim"}}]',
        "record 1",
        "did you mean 'art-film'?",
    ),
    "an entity with two labels": (
        "few_nerd",
        '[{"sentence": "a", "entities": {"a": "art-film", "a": "art-music"}}]',
        "its text",
        "'a' appears twice",
    ),
    "a misspelt constant": (
        "few_nerd",
        '[{"sentence": "a",\n "entities": {"a": tru}}]',
        "its text",
        "Expecting value at line 2",
    ),
    "lists in 100,000 lists": ("few_nerd", "[\n" + "[" * 100000, "its text", "nested"),
    "a number of 10,000 digits": ("few_nerd", "[\n" + "7" * 10000 + "]", "its text", "too large"),
    "a dialogue without relations": ("dialogre", '[[["a"], []], [["a"]]]', "record 2", "expected a pair"),
    "a pair without a relation": (
        "dialogre",
        '[[["a"], [{"x": "b", "y": "c", "r": []}]]]',
        "record 1",
        "has no relation",
    ),
    "a misspelt relation": (
        "dialogre",
        '[[["a"], [{"x": "b", "y": "c", "r": ["per:aeg"]}]]]',
        "record 1",
        "did you mean 'per:age'?",
    ),
}
"""By what is wrong: the data set, the content of its file, the place that the message names, and what it says."""


@pytest.mark.parametrize(("name", "text", "place", "said"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_bad_rows(write_file: Write, name: str, text: str, place: int | str, said: str) -> None:
    refused(name, write_file(text), place, said)


@pytest.mark.parametrize(
    ("first", "last"),
    [(-1, 0), (1, 0), (0, 2), (True, 1)],
    ids=["before the first token", "last before first", "after the last token", "no number"],
)
def test_a_subject_that_is_not_in_its_sentence(write_file: Write, first: int, last: int) -> None:
    record = {**PAIR, "subj_start": first, "subj_end": last}
    refused("tacred", write_file(json.dumps([record])), "record 1", "subj_start")


DIALOGUES = [
    [
        ["S1: x", "S2: y"],
        [
            {"x": "a", "y": "b", "r": ["per:age", "per:boss"]},
            {"x": "a", "y": "c", "r": ["unanswerable"]},
            {"x": "a", "y": "d", "r": ["gpe:births_in_place", "per:age"]},
            {"x": "e", "y": "f", "r": ["per:pet"]},
        ],
    ],
    [["S1: z"], [{"x": "a", "y": "c", "r": ["unanswerable"]}]],
]
"""Two dialogues with their pairs of entities; of the relations of a pair, the first one counts."""


def test_each_pair_of_a_training_dialogue_with_a_relation_is_an_item(write_file: Write) -> None:
    """Pairs without a relation, and with one that the test data do not have, are left out."""
    first, second = (row.item() for row in read("dialogre", write_file(json.dumps(DIALOGUES))))

    assert first.gold == ("per:age",)
    assert second.gold == ("per:pet",)
    assert (first.row, second.row) == (0, 1)
    assert first.needle == "S1: x\nS2: y"


def test_each_test_dialogue_is_an_item_with_the_relations_of_its_pairs(write_file: Write) -> None:
    path = write_file(json.dumps(DIALOGUES))

    first, second = (row.item() for row in READERS["dialogre_test_json"](path, task_card("dialogre")))

    assert first.gold == ("per:age", "per:pet")
    assert second.gold == ()


# -- tokens as text


# The Perl program of mosestokenizer 1.2.1, which LongICLBench uses, wrote these expectations (Perl 5.36, Unicode 14).
ALPHABETS = (
    *("abcsnt'", "ABZ019x", "'\"`", ",.?!:;\\%}])", "([{$€£¿¡", "„“”`'\"", "<>&-@/", "½²ⅷ٣०éß", "中文ハ한ｱ￠"),
    "e\u0301\u093e\u00a0\u2028\t",
)
WORDS = (
    *("@-@", "``", "''", "'s", "n't", "-LRB-", "&apos;", "&quot;", "&lt;", "&gt;", "&amp;", "&#91;", "&#93;", "&#124;"),
    *("&bar;", "&bra;", "&ket;", "&amp;lt;", "'", "s'", "<s>", ""),
)


def fuzzed_lines(number: int) -> list[str]:
    """Return lines of words that the rules treat differently; they follow from the numbers of one seed."""
    uniform = random.Random(18).random  # the documented generator: the same in all versions of Python

    def drawn_number(most: int) -> int:
        return 1 + int(uniform() * most)

    def drawn_from(choices: Any) -> Any:
        return choices[int(uniform() * len(choices))]

    def drawn_word() -> str:
        alphabet = ALPHABETS[0] if uniform() < 0.3 else drawn_from(ALPHABETS)
        if uniform() < 0.2:
            return str(drawn_from(WORDS))
        return "".join(drawn_from(alphabet) for _ in range(drawn_number(3)))

    return [" ".join(drawn_word() for _ in range(drawn_number(12))) for _ in range(number)]


def sha256_of_lines(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_6000_fuzzed_lines_are_those_of_the_perl_program() -> None:
    fuzzed = fuzzed_lines(6000)
    detokenised = [detokenise(line.split(" ")) for line in fuzzed]

    digest_of_input = "dab9800bf3ebba5b859298e6bf61e32a5cf29c6eeca119a538433dccc535d997"
    digest_of_the_perl_program = "f7ce31f16d09093382a7e14e6e34eb999fed1ddfe98215d4d2fb2f8db7a4f7f4"
    assert sha256_of_lines(fuzzed) == digest_of_input
    assert sha256_of_lines(detokenised) == digest_of_the_perl_program


def test_data_sets_that_are_missing_are_listed_once(tmp_path: Path) -> None:
    """The reasons are in the warnings, one for each data set; the error of several repeats none of them."""
    empty = tmp_path / "empty"
    empty.mkdir()

    with pytest.raises(DataMissingError) as raised:
        install(empty, tmp_path / "home", ["tacred", "banking77"])

    expected = f"nothing could be installed from {empty}: tacred, banking77. The warnings say why for each"
    assert str(raised.value) == expected
