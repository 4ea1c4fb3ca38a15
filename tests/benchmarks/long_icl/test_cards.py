"""The cards of the data sets, and a further task made from one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.long_icl import TaskCard, card, cards
from StaICC.benchmarks.long_icl.data import READERS, FileRow, lines
from StaICC.benchmarks.long_icl.protocol import Item
from StaICC.benchmarks.verify import Recomputed, status_of, verify
from StaICC.datasets.storage import read_value
from tests.benchmarks.long_icl.conftest import make

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
    assert all(len(own.shots) == 6 and sorted(own.shots) == [*own.shots] for own in cards("HELMET").values())
    assert all(own.shots[0] >= len(own.labels) for own in cards("HELMET").values())  # every label is shown
    for own in cards("HELMET").values():
        assert len({own.answers.normal(label) for label in own.labels}) == len(own.labels)


def test_discovery_labels_are_compared_without_punctuation() -> None:
    normal = card("discovery").answers.normal
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
    "scoring": {"metric": "accuracy", "f1_constant": 0.0, "stop_at": None},
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

    for settings, names, shown in (
        ({"rounds": (1, 3)}, ("1R", "3R"), 1.0),
        ({"experiment": "controls"}, ("zero shots", "irrelevant text"), 0.0),
    ):
        benchmark = make(tmp_path, ["rooms"], test_number=48, **settings)
        result = benchmark(copier)
        scores = result.divided["rooms"]
        assert [scores[name] for name in names] == [shown] * len(names)
        assert status_of(verify(result, data_dir=tmp_path)) == Recomputed()
