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
from tests.long_icl.conftest import SETS, SINGLE, make

PARTS = ("train", "test")

OVERVIEW = {
    "banking77": (77, [77, 154, 231, 308, 385], "accuracy"),
    "goemotions": (28, [28, 56, 84, 112, 140], "accuracy"),
    "discovery": (174, [174, 348, 522, 696, 870], "accuracy"),
    "tacred": (41, [41, 82, 123, 164, 205], "micro_f1"),
    "few_nerd": (66, [57, 114, 170, 224, 281], "micro_f1"),
    "dialogre": (34, [34, 67, 99, 131, 163], "micro_f1"),
}
"""Labels, demonstrations of the rounds, metric."""


def test_cards_are_those_of_the_protocol() -> None:
    found = {
        own.name: (len(set(own.labels)), [*own.demonstrations.expected], own.scoring.metric) for own in cards().values()
    }
    assert found == OVERVIEW
    assert list(found) == list(OVERVIEW)
    assert [name for name, own in cards().items() if own.restricted] == ["discovery", "tacred", "dialogre"]
    kinds = ["text", "text", "pair", "relation", "entities", "dialogue"]
    assert [own.kind for own in cards().values()] == kinds


HELMET = {"banking77": (77, 5900), "trec_coarse": (6, 6600), "trec_fine": (50, 6400), "nlu": (68, 8296)}
HELMET["clinc150"] = (151, 7050)
"""HELMET's data sets: labels, and demonstrations for 128K tokens, as in its configs/icl.yaml."""


def test_cards_of_helmet() -> None:
    found = {own.name: (len(set(own.labels)), own.shots[-1]) for own in cards("HELMET").values()}
    assert found == {f"helmet_{name}": numbers for name, numbers in HELMET.items()}
    assert {own.suite for own in cards(None).values()} == {"LongICLBench", "HELMET"}
    assert list(cards(None)) == [*cards(), *cards("HELMET")]
    assert [
        own for own in cards("HELMET").values() if not (len(own.shots) == 6 and sorted(own.shots) == [*own.shots])
    ] == []
    assert [own for own in cards("HELMET").values() if own.shots[0] < len(own.labels)] == []  # every label is shown
    for own in cards("HELMET").values():
        assert len({own.answers.normal(label) for label in own.labels}) == len(own.labels)


def test_discovery_labels_are_compared_without_punctuation() -> None:
    normal = task_card("discovery").answers.normal
    assert [normal(text) for text in ("as_a_result,", "[no-conn]", ' “Yet,". ')] == ["as_a_result", "[no-conn]", "yet"]


# -- a further task: a record, and a reader of its file format

RECORD: dict[str, Any] = {
    **{"name": "rooms", "title": "Rooms", "task": "room of a thing", "kind": "text"},
    **{"source": "made up", "licence": "CC0", "citation": ""},
    "labels": [f"room {number}" for number in range(24)],
    "files": {split: {"format": "rooms_jsonl", "names": [f"rooms_{split}.jsonl"], "rows": 72} for split in PARTS},
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
    for number, line in enumerate(lines(path)):
        record = json.loads(line)
        item = Item("text", number, (record["thing"],), (record["room"],))
        yield FileRow(record["room"], None, lambda item=item: item)


def test_a_further_task_is_a_record_and_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cards(None), "rooms", read_value(TaskCard, RECORD, "rooms"))  # type: ignore[arg-type]
    monkeypatch.setitem(READERS, "rooms_jsonl", read_rooms)  # type: ignore[arg-type]
    for split in PARTS:
        rows = [{"thing": f"{split} {turn} of {name}", "room": name} for turn in range(3) for name in RECORD["labels"]]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"rooms_{split}.jsonl").write_text(text, encoding="utf-8", newline="")

    def copier(prompt: str, label_space: list[str]) -> str:
        name = prompt.rsplit("thing: ", 1)[1].split(" of ")[1].split("\n")[0]
        return name if f"room: {name}\n" in prompt else "nowhere"

    for options, names, shown in (
        ({"rounds": (1, 3)}, ("1R", "3R"), 1.0),
        ({"experiment": "controls"}, ("zero shots", "irrelevant text"), 0.0),
    ):
        benchmark = make(tmp_path, ["rooms"], limit=48, **options)
        result = benchmark(copier)
        scores = result.divided["rooms"]
        assert [scores[name] for name in names] == [shown] * len(names)
        assert status_of(verify(result, data_dir=tmp_path)) == Recomputed()


# -- loading


UNKNOWN_DIGEST = ("discovery", "tacred")


def files_of(name: str) -> list[str]:
    return [task_card(name).files[split].names[0] for split in ("train", "test")]


@pytest.mark.parametrize("name", SETS)
def test_small_data_are_read(small_files: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    data = load(name, small_files, verify=False)
    assert task_card(name).notice() in caplog.text
    assert (data.card, data.verified) == (task_card(name), False)
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
    spec = task_card(name).files["train"]
    if name in UNKNOWN_DIGEST:
        load(name, small_files)
        assert f"the published file {spec.rows}; the results will not be comparable" in caplog.text
        return
    with pytest.raises(DataDamagedError, match="not the published file") as caught:
        load(name, small_files)
    for part in (files_of(name)[0], *spec.sha256, "verify=False"):
        assert part in str(caught.value)


def test_that_all_data_are_missing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataMissingError) as caught:
        LongICL(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.count("banking77") == 2  # in the list, and in the command that installs it
    assert "--hub --datasets banking77 goemotions discovery." in message
    assert caplog.text == ""


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
        assert one.instructions == task_card(one.dataset).instructions()
        assert str(one) in caplog.text
    with pytest.raises(DataMissingError, match=r"dialogre_train\.json .*non-commercial"):
        load("dialogre", small)


def test_damaged_data_are_not_skipped_and_licences_come_first(small: Path) -> None:
    (small / "tacred_test.json").write_text("[")
    notices: list[str] = []
    with pytest.raises(DataDamagedError, match=r"tacred_test\.json, its text.* at column 2"):
        load_available(small, ["banking77", "tacred"], verify=False, announce=notices.append)
    assert notices == [task_card("banking77").notice(), task_card("tacred").notice()]


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


# -- malformed files: every complaint names the file, and the line or the record


Write = Callable[["str | bytes"], Path]

FORMATS = {name: task_card(name).files["train"].format for name in SETS}
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
    return list(READERS[FORMATS.get(name, name)](path, task_card(name if name in FORMATS else "few_nerd")))


def refused(name: str, path: Path, place: int | str, *said: str) -> None:
    with pytest.raises(DataDamagedError) as caught:
        read(name, path)
    message = str(caught.value)
    assert message.startswith(f"{path}, {place if isinstance(place, str) else f'line {place}'}: "), message
    for part in said:
        assert part in message


@pytest.mark.parametrize("name", GOOD)
def test_every_format(write: Write, name: str, tmp_path: Path) -> None:
    good = GOOD[name].encode()
    assert read(name, write(good))
    refused(name, write(""), 1, "empty")
    refused(name, write(b"\xef\xbb\xbf" + good), 1, "byte-order mark")
    head, _, tail = good.rpartition(b"\n")
    refused(name, write(head.partition(b"\n")[0] + b"\n\xff\n" + tail), 2, "not UTF-8")
    windows = good.replace(b"\r", b"").replace(b"\n", b"\r\n")
    if name == "banking77":  # that is how it is published
        assert len({str([row.form for row in read(name, write(text))]) for text in (windows, GOOD[name])}) == 1
    else:
        refused(name, write(windows if b"\r\n" in windows else windows + b"\r\n"), 1, "Windows line end")
    with pytest.raises(DataMissingError, match=r"none cannot be read: .*No such file"):
        read(name, tmp_path / "none")


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=50)
@given(data=st.data())
def test_damage_is_a_clear_error_or_other_rows(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """One byte changed, one piece cut out: never another kind of exception."""
    raw = bytearray(GOOD[name].encode())
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[place] = data.draw(st.integers(0, 255))
    else:
        del raw[place : place + data.draw(st.integers(1, 9))]
    path = tmp_path_factory.mktemp("damage") / "file"
    path.write_bytes(bytes(raw))
    try:
        assert [row for row in read(name, path) if not row.item()] == []
    except DataDamagedError as error:
        problem = str(error)
    else:
        return
    assert problem.startswith(f"{path}, ")


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
def test_bad_rows(write: Write, name: str, text: str, place: int | str, said: str) -> None:
    refused(name, write(text), place, said)


@pytest.mark.parametrize(
    ("first", "last"),
    [(-1, 0), (1, 0), (0, 2), (True, 1)],
    ids=["before the first token", "last before first", "after the last token", "no number"],
)
def test_a_subject_that_is_not_in_its_sentence(write: Write, first: int, last: int) -> None:
    record = {**PAIR, "subj_start": first, "subj_end": last}
    refused("tacred", write(json.dumps([record])), "record 1", "subj_start")


def test_only_the_first_relation_of_a_pair_counts(write: Write) -> None:
    pairs = [
        {"x": "a", "y": "b", "r": ["per:age", "per:boss"]},
        {"x": "a", "y": "c", "r": ["unanswerable"]},
        {"x": "a", "y": "d", "r": ["gpe:births_in_place", "per:age"]},
        {"x": "e", "y": "f", "r": ["per:pet"]},
    ]
    path = write(json.dumps([[["S1: x", "S2: y"], pairs], [["S1: z"], pairs[1:2]]]))
    train = [row.item() for row in read("dialogre", path)]
    assert [(item.gold, item.row) for item in train] == [(("per:age",), 0), (("per:pet",), 1)]
    assert train[0].needle == "S1: x\nS2: y"
    test = [row.item().gold for row in READERS["dialogre_test_json"](path, task_card("dialogre"))]
    assert test == [("per:age", "per:pet"), ()]


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

    def one(choices: Any) -> Any:
        return choices[int(uniform() * len(choices))]

    def word() -> str:
        alphabet = ALPHABETS[0] if uniform() < 0.3 else one(ALPHABETS)
        return str(one(WORDS)) if uniform() < 0.2 else "".join(one(alphabet) for _ in range(1 + int(uniform() * 3)))

    return [" ".join(word() for _ in range(1 + int(uniform() * 12))) for _ in range(number)]


def test_6000_fuzzed_lines_are_those_of_the_perl_program() -> None:
    fuzzed = fuzzed_lines(6000)
    texts = ("\n".join(fuzzed), "\n".join(detokenise(line.split(" ")) for line in fuzzed))
    assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == [
        "dab9800bf3ebba5b859298e6bf61e32a5cf29c6eeca119a538433dccc535d997",
        "f7ce31f16d09093382a7e14e6e34eb999fed1ddfe98215d4d2fb2f8db7a4f7f4",  # by the Perl program
    ]


def test_data_sets_that_are_missing_are_listed_once(tmp_path: Path) -> None:
    """The reasons are in the warnings, one for each data set; the error of several repeats none of them."""
    empty = tmp_path / "empty"
    empty.mkdir()

    with pytest.raises(DataMissingError) as raised:
        install(empty, tmp_path / "home", ["tacred", "banking77"])

    expected = f"nothing could be installed from {empty}: tacred, banking77. The warnings say why for each"
    assert str(raised.value) == expected
