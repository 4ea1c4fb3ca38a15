from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card, cards, parse_answer
from StaICC.benchmarks.long_icl.prompts import as_item, entity_item, text_item
from StaICC.benchmarks.long_icl.scoring import tally_prediction
from StaICC.errors import ArgumentError, UnknownNameError

SETS = ("banking77", "goemotions", "discovery", "tacred", "few_nerd", "dialogre")


@pytest.mark.parametrize("name", SETS)
def test_published_parses(golden: dict[str, Any], name: str) -> None:
    cases = golden["parse"][name]
    assert len(cases) == 17
    for case in cases:
        assert parse_answer(name, case["response"], case) == case["expected"], case
        tally, _ = tally_prediction(card(name), case["response"], as_item(name, case))
        if "correct" in case:
            assert bool(tally.correct) == case["correct"], case
        if "in_label_set" in case:
            assert bool(tally.predicted) == case["in_label_set"], case


@pytest.mark.parametrize("name", SETS)
def test_a_record_and_a_mapping_are_parsed_alike(golden: dict[str, Any], name: str) -> None:
    for case in golden["parse"][name]:
        for variant in ("published", "strict"):
            record = parse_answer(name, case["response"], as_item(name, case), variant=variant)
            assert record == parse_answer(name, case["response"], case, variant=variant)


def strict(name: str, response: str, prompt: str | None = None, **fields: Any) -> str | list[list[str]]:
    return parse_answer(name, response, fields, variant="strict", prompt=prompt)


TEXT = {"text": "Where is my card? "}


def test_the_prompt_is_dropped_by_its_length() -> None:
    """S6: the published parser follows a repeated query, and loses an echo that drops a blank of the text."""
    prompt = "service query: x\nintent category: top_up_failed\nservice query: Where is my card? \nintent category: "
    for echo in (prompt, prompt.rstrip(), prompt.rstrip() + "\n"):
        assert strict("banking77", echo + "card_arrival\nservice query: y", prompt, **TEXT) == "card_arrival"
    repeated = prompt + "card_arrival\n" + prompt + "pin_blocked"
    assert strict("banking77", repeated, prompt, **TEXT) == "card_arrival"
    assert parse_answer("banking77", repeated, TEXT) == "pin_blocked"
    assert strict("banking77", "Where is my card? card_arrival", prompt, **TEXT) == "Where is my card? card_arrival"


@pytest.mark.parametrize(
    ("name", "fields", "cue", "label"),
    [
        ("banking77", TEXT, "intent category:", "card_arrival"),
        ("goemotions", TEXT, "Emotion category: ", "joy"),
        (
            "discovery",
            {"sentence1": "a", "sentence2": "b"},
            "the most suitable conjunction word in the previous ( ) is  ",
            "yet,",
        ),
        (
            "tacred",
            {"sentence": "a", "subject_entity": "b", "object_entity": "c"},
            "the relation between the two entities is: ",
            "per:age",
        ),
        (
            "dialogre",
            {"dialogue": "a", "relations": [{}]},
            "The 1 respective relations between each entity pair are: ",
            "per:age",
        ),
    ],
)
def test_one_cue_at_the_beginning_is_dropped(name: str, fields: dict[str, Any], cue: str, label: str) -> None:
    """S7."""
    assert strict(name, cue + label, **fields) == label
    assert strict(name, label, **fields) == label
    if name != "dialogre":
        assert strict(name, cue + cue + label, **fields) != label


@pytest.mark.parametrize(
    ("name", "response", "label"),
    [
        ("banking77", "Card_Arrival.", "card_arrival"),
        ("banking77", "`card_arrival`", "card_arrival"),
        ("banking77", "**reverted_card_payment?**", "reverted_card_payment?"),
        ("banking77", "“refund_not_showing_up”", "Refund_not_showing_up"),
        ("banking77", "reverted_card_payment", "reverted_card_payment"),
        ("goemotions", "'Joy'.\nbecause", "joy"),
        ("goemotions", "joy comment: next", "joy"),
    ],
)
def test_wrapping_and_case(name: str, response: str, label: str) -> None:
    """S8, S10."""
    assert strict(name, response, **TEXT) == label


def test_wrapping_of_other_labels() -> None:
    assert strict("discovery", "*Actually,*", sentence1="a", sentence2="b") == "actually,"
    assert strict("discovery", "[No-Conn].", sentence1="a", sentence2="b") == "[no-conn]"
    entities = {"sentence": "a", "subject_entity": "b", "object_entity": "c"}
    assert strict("tacred", "`ORG:founded`", **entities) == "org:founded"
    assert strict("tacred", "no_relation.", **entities) == "no_relation"
    three = {"dialogue": "a", "relations": [{}, {}, {}]}
    assert strict("dialogre", '"per:Age", per:boss. , nonsense', **three) == "per:age, per:boss, nonsense"


@pytest.mark.parametrize("name", ["banking77", "goemotions", "discovery", "tacred"])
@given(around=st.sampled_from(["", '"', "**", "`", "“”", ".", " "]), data=st.data())
def test_every_label_survives_its_wrapping(name: str, around: str, data: st.DataObject) -> None:
    label = data.draw(st.sampled_from(card(name).labels))
    fields = {
        "text": "q",
        "sentence1": "q",
        "sentence2": "q",
        "sentence": "q",
        "subject_entity": "",
        "object_entity": "",
    }
    given_text = around[:1] + data.draw(st.sampled_from([label, label.upper(), label.title()])) + around[-1:]
    assert strict(name, given_text, **fields) == label


def test_entities_with_colons() -> None:
    """S13."""
    fields = {"sentence": "Zelda II: The Adventure of Link by Bram."}
    response = "Zelda II: The Adventure of Link: product-game\nBram: person-other: a sailor\nLink: hero: god"
    assert strict("few_nerd", response, **fields) == [
        ["Zelda II: The Adventure of Link", "product-game"],
        ["Bram", "person-other"],
        ["Link: hero", "god"],
    ]


def test_introductions_and_bullets() -> None:
    """S14."""
    fields = {"sentence": "1. FC Ox beat Bram at Sentence Hall."}
    response = (
        "Sure!\n\nHere they are:\n- Bram: `Person-Other`\n* 1. FC Ox: organization-sportsteam\n"
        "2) Sentence Hall: building-other\n\nLater: art-film"
    )
    assert strict("few_nerd", response, **fields) == [
        ["Bram", "person-other"],
        ["1. FC Ox", "organization-sportsteam"],
        ["Sentence Hall", "building-other"],
    ]
    assert strict("few_nerd", "1. FC Ox: other-god", **fields) == [["1. FC Ox", "other-god"]]
    assert strict("few_nerd", "Bram: person-other\nSentence: Next: art-film", **fields) == [["Bram", "person-other"]]
    assert strict("few_nerd", "", **fields) == []


def test_dialogues() -> None:
    """S20."""
    two = {"dialogue": "S1: hi", "relations": [{}, {}]}
    cue = "The 2 respective relations between each entity pair are: "
    assert strict("dialogre", f"per:age, per:boss\nDialogue: \nx\n{cue}per:pet, per:pet", **two) == "per:pet, per:pet"
    first = f"Sure. {cue}per:age, per:boss\nDialogue: \nx\n{cue}per:pet, per:pet"
    assert strict("dialogre", first, **two) == "per:age, per:boss"
    assert parse_answer("dialogre", first, two) == "per:pet, per:pet"
    assert strict("dialogre", "[/INST] per:age, per:boss [/INST] x", **two) == "per:age, per:boss"
    assert strict("dialogre", "per:age, per:boss Dialogue: x", **two) == "per:age, per:boss"
    assert strict("dialogre", "per:age, in this dialogue", **two) == "per:age, in this dialogue"


@given(st.text(), st.sampled_from(SETS), st.sampled_from(["published", "strict"]))
def test_any_text_can_be_parsed(response: str, name: str, variant: str) -> None:
    fields = {
        "text": "a",
        "sentence1": "a",
        "sentence2": "b",
        "sentence": "c: d",
        "subject_entity": "e",
        "object_entity": "f",
        "dialogue": "g",
        "relations": [{}, {}],
    }
    answer = parse_answer(name, response, fields, variant=variant)
    assert isinstance(answer, list if name == "few_nerd" else str)


def test_an_empty_query_text_is_not_looked_for() -> None:
    assert parse_answer("goemotions", "joy", {"text": ""}) == "joy"


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="response must be text, not 3"):
        parse_answer("banking77", 3, TEXT)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="did you mean 'strict'"):
        parse_answer("banking77", "x", TEXT, variant="Strict")
    with pytest.raises(UnknownNameError, match="did you mean 'few_nerd'"):
        parse_answer("few-nerd", "x", TEXT)
    with pytest.raises(ArgumentError, match="lacks the text 'sentence'; it has 'text'"):
        parse_answer("few_nerd", "x", TEXT)
    with pytest.raises(ArgumentError, match="needs 'relations'"):
        parse_answer("dialogre", "x", {"dialogue": "a"})
    with pytest.raises(ArgumentError, match="an item of tacred is of the kind 'relation'"):
        parse_answer("tacred", "x", text_item(0, "a", "b"))
    with pytest.raises(ArgumentError, match="lacks the text 'text'; it has nothing"):
        parse_answer("goemotions", "x", {})


def test_items_know_their_kind() -> None:
    assert {own.name: own.kind for own in cards().values()} == {
        "banking77": "text",
        "goemotions": "text",
        "discovery": "pair",
        "tacred": "relation",
        "few_nerd": "entities",
        "dialogre": "dialogue",
    }
    entities = as_item("few_nerd", {"sentence": "a", "entities": {"a": "art-film"}, "row": 7})
    assert entities == entity_item(7, "a", (("a", "art-film"),))
    assert as_item("dialogre", {"dialogue": "a", "relations": []}).kind == "dialogue"
