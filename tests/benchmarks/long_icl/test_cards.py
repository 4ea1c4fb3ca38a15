from __future__ import annotations

import dataclasses
import json

import pytest

from StaICC.benchmarks.long_icl import TaskCard, card, cards
from StaICC.benchmarks.long_icl.files import READERS
from StaICC.datasets.json_reading import read_value
from StaICC.errors import SchemaError, UnknownNameError

# The overview of the protocol: labels, demonstrations of the rounds, metric.
OVERVIEW = {
    "banking77": (77, [77, 154, 231, 308, 385], "accuracy"),
    "goemotions": (28, [28, 56, 84, 112, 140], "accuracy"),
    "discovery": (174, [174, 348, 522, 696, 870], "accuracy"),
    "tacred": (41, [41, 82, 123, 164, 205], "micro_f1"),
    "few_nerd": (66, [57, 114, 170, 224, 281], "micro_f1"),
    "dialogre": (34, [34, 67, 99, 131, 163], "micro_f1"),
}


def test_there_are_six_cards() -> None:
    assert list(cards()) == list(OVERVIEW)


@pytest.mark.parametrize("name", OVERVIEW)
def test_a_card_is_complete(name: str) -> None:
    own = card(name)
    labels, expected, metric = OVERVIEW[name]
    assert len(own.labels) == len(set(own.labels)) == labels
    assert list(own.demonstrations.expected) == expected
    assert own.scoring.metric == metric
    assert not set(own.labels) & set(own.other_labels)
    for text in (own.title, own.task, own.source, own.licence, own.terms, own.citation, own.obtain):
        assert text.strip() == text != ""
    assert own.licence in own.notice()
    assert own.source in own.notice()
    assert "data install long-icl" in own.instructions()
    for split in ("train", "test"):
        for spec in own.files[split]:
            assert spec.format in READERS
            assert all(split in path for path in (*spec.names, *spec.made_up))


@pytest.mark.parametrize("name", ["banking77", "goemotions", "discovery", "tacred"])
def test_labels_differ_in_the_form_in_which_they_are_compared(name: str) -> None:
    own = card(name)
    assert len({own.answers.normal(label) for label in own.labels}) == len(own.labels)


def test_discovery_labels_are_compared_without_punctuation() -> None:
    normal = card("discovery").answers.normal
    assert normal("as_a_result,") == "as_a_result"
    assert normal("[no-conn]") == "[no-conn]"
    assert normal(' “Yet,". ') == "yet"


def test_no_dialogre_label_contains_another() -> None:
    labels = card("dialogre").labels
    assert not [(a, b) for a in labels for b in labels if a != b and a in b]


def test_restricted_data_sets_are_marked() -> None:
    assert [name for name, own in cards().items() if own.restricted] == ["discovery", "tacred", "dialogre"]


@pytest.mark.parametrize(("given", "near"), [("Banking77", "banking77"), ("fewnerd", "few_nerd"), (7, None)])
def test_an_unknown_name_suggests_the_nearest(given: object, near: str | None) -> None:
    with pytest.raises(UnknownNameError, match=repr(near) if near else "there is no LongICL data set 7"):
        card(given)  # type: ignore[arg-type]


def test_types_and_keys_of_the_file_are_those_of_the_records() -> None:
    plain = json.loads(json.dumps(dataclasses.asdict(card("tacred"))))
    assert read_value(TaskCard, plain, "tacred") == card("tacred")
    with pytest.raises(SchemaError, match="colour"):
        read_value(TaskCard, {**plain, "colour": "red"}, "tacred")
    plain["template"]["cue"] = ""
    with pytest.raises(SchemaError, match=r"template.*cue"):
        read_value(TaskCard, plain, "tacred")
