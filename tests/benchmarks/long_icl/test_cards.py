from __future__ import annotations

import dataclasses
import json

import pytest

from StaICC.benchmarks.long_icl import TaskCard, card, cards
from StaICC.benchmarks.long_icl.data import READERS
from StaICC.datasets.storage import read_value
from StaICC.errors import SchemaError, UnknownNameError

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


@pytest.mark.parametrize("name", OVERVIEW)
def test_a_card_is_complete(name: str) -> None:
    own = card(name)
    assert not set(own.labels) & set(own.other_labels)
    for text in (own.title, own.task, own.source, own.licence, own.terms, own.citation, own.obtain):
        assert text.strip() == text != ""
    assert own.licence in own.notice()
    assert own.source in own.notice()
    assert "data install long-icl" in own.instructions()
    for split in ("train", "test"):
        assert own.files[split].format in READERS
        assert all(split in path for path in (*own.files[split].names, *own.files[split].made_up))
    if name == "dialogre":  # its published score looks for the names in the answer
        assert not [(a, b) for a in own.labels for b in own.labels if a != b and a in b]
    else:
        assert len({own.answers.normal(label) for label in own.labels}) == len(own.labels)


def test_discovery_labels_are_compared_without_punctuation() -> None:
    normal = card("discovery").answers.normal
    assert [normal(text) for text in ("as_a_result,", "[no-conn]", ' “Yet,". ')] == ["as_a_result", "[no-conn]", "yet"]


@pytest.mark.parametrize(
    ("given", "near"), [("Banking77", "'banking77'"), ("fewnerd", "'few_nerd'"), (7, "data set 7")]
)
def test_an_unknown_name_suggests_the_nearest(given: object, near: str) -> None:
    with pytest.raises(UnknownNameError, match=near):
        card(given)


def test_types_and_keys_of_the_file_are_those_of_the_records() -> None:
    plain = json.loads(json.dumps(dataclasses.asdict(card("tacred"))))
    assert read_value(TaskCard, plain, "tacred") == card("tacred")
    for wrong in ({"colour": "red"}, {"template": {**plain["template"], "cue": ""}}):
        with pytest.raises(SchemaError, match=r"colour|template.*cue"):
            read_value(TaskCard, {**plain, **wrong}, "tacred")
