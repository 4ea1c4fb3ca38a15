from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card, parse_answer
from StaICC.benchmarks.long_icl.protocol import as_item, dialogue_item, tally_prediction
from tests.benchmarks.long_icl.conftest import SETS, SINGLE

CARD = "Where is my card? "
FIELDS = {
    "text": CARD,
    "sentence1": "a",
    "sentence2": "b",
    "sentence": "c: d",
    "subject_entity": "e",
    "object_entity": "f",
    "dialogue": "g",
    "relations": [{}],
}


def strict(name: str, response: str, prompt: str | None = None, **fields: Any) -> str | list[list[str]]:
    return parse_answer(name, response, FIELDS | fields, variant="strict", prompt=prompt)


@pytest.mark.parametrize("name", SETS)
def test_published_parses(golden: dict[str, Any], name: str) -> None:
    cases = golden["parse"][name]
    assert len(cases) == 17
    for case in cases:
        item, response = as_item(name, case), case["response"]
        assert parse_answer(name, response, case) == parse_answer(name, response, item) == case["expected"], case
        assert len({str(parse_answer(name, response, one, variant="strict")) for one in (case, item)}) == 1
        tally, _ = tally_prediction(card(name), response, item)
        assert bool(tally.correct) == case.get("correct", bool(tally.correct)), case
        assert bool(tally.predicted) == case.get("in_label_set", bool(tally.predicted)), case


def test_the_prompt_is_dropped_by_its_length() -> None:
    """S6: the published parser follows a repeated query, and loses an echo that drops a blank of the text."""
    prompt = f"service query: x\nintent category: top_up_failed\nservice query: {CARD}\nintent category: "
    for echo in (prompt, prompt.rstrip(), prompt.rstrip() + "\n"):
        assert strict("banking77", echo + "card_arrival\nservice query: y", prompt) == "card_arrival"
    repeated = prompt + "card_arrival\n" + prompt + "pin_blocked"
    assert strict("banking77", repeated, prompt) == "card_arrival"
    assert parse_answer("banking77", repeated, FIELDS) == "pin_blocked"
    assert strict("banking77", f"{CARD}card_arrival", prompt) == f"{CARD}card_arrival"


@pytest.mark.parametrize(
    ("name", "cue", "label"),
    [
        ("banking77", "intent category:", "card_arrival"),
        ("goemotions", "Emotion category: ", "joy"),
        ("discovery", "the most suitable conjunction word in the previous ( ) is  ", "yet,"),
        ("tacred", "the relation between the two entities is: ", "per:age"),
        ("dialogre", "The 1 respective relations between each entity pair are: ", "per:age"),
    ],
)
def test_one_cue_at_the_beginning_is_dropped(name: str, cue: str, label: str) -> None:
    """S7."""
    assert strict(name, cue + label) == strict(name, label) == label
    assert name == "dialogre" or strict(name, cue + cue + label) != label


@pytest.mark.parametrize(
    ("name", "response", "label"),
    [
        ("banking77", "Card_Arrival.", "card_arrival"),
        ("banking77", "**reverted_card_payment?**", "reverted_card_payment?"),
        ("banking77", "“refund_not_showing_up”", "Refund_not_showing_up"),
        ("banking77", "reverted_card_payment", "reverted_card_payment"),
        ("goemotions", "'Joy'.\nbecause", "joy"),
        ("goemotions", "joy comment: next", "joy"),
        ("goemotions", "joy comment: \nnext", "joy"),
        ("discovery", "*Actually,*", "actually,"),
        ("discovery", "[No-Conn].", "[no-conn]"),
        ("tacred", "`ORG:founded`", "org:founded"),
        ("tacred", "no_relation.", "no_relation"),
        ("dialogre", '"per:Age", per:boss. , nonsense', "per:age, per:boss, nonsense"),
    ],
)
def test_wrapping_and_case(name: str, response: str, label: str) -> None:
    """S8, S10."""
    assert strict(name, response) == label


@settings(max_examples=40)
@pytest.mark.parametrize("name", SINGLE)
@given(around=st.sampled_from(["", '"', "**", "`", "“”", ".", " "]), data=st.data())
def test_every_label_survives_its_wrapping(name: str, around: str, data: st.DataObject) -> None:
    label = data.draw(st.sampled_from(card(name).labels))
    text = around[:1] + data.draw(st.sampled_from([label, label.upper(), label.title()])) + around[-1:]
    assert strict(name, text) == label


@pytest.mark.parametrize(
    ("sentence", "response", "entities"),
    [
        (  # S13
            "Zelda II: The Adventure of Link by Bram.",
            "Zelda II: The Adventure of Link: product-game\nBram: person-other: a sailor\nLink: hero: god",
            [["Zelda II: The Adventure of Link", "product-game"], ["Bram", "person-other"], ["Link: hero", "god"]],
        ),
        (  # S14
            "1. FC Ox beat Bram at Sentence Hall.",
            "Sure!\n\nHere they are:\n- Bram: `Person-Other`\n* 1. FC Ox: organization-sportsteam\n2) Sentence Hall: "
            "building-other\n\nLater: art-film",
            [
                ["Bram", "person-other"],
                ["1. FC Ox", "organization-sportsteam"],
                ["Sentence Hall", "building-other"],
            ],
        ),
        ("1. FC Ox.", "1. FC Ox: other-god", [["1. FC Ox", "other-god"]]),
        ("Bram", "Bram: person-other\nSentence: Next: art-film", [["Bram", "person-other"]]),
        ("Bram", "", []),
    ],
)
def test_strict_entities(sentence: str, response: str, entities: list[list[str]]) -> None:
    assert strict("few_nerd", response, sentence=sentence) == entities


def test_dialogues() -> None:
    """S20."""
    cue, two = "The 2 respective relations between each entity pair are: ", {"relations": [{}, {}]}
    first = f"Sure. {cue}per:age, per:boss\nDialogue: \nx\n{cue}per:pet, per:pet"
    for response, answer in (
        (f"per:age, per:boss\nDialogue: \nx\n{cue}per:pet, per:pet", "per:pet, per:pet"),
        (first, "per:age, per:boss"),
        ("[/INST] per:age, per:boss [/INST] x", "per:age, per:boss"),
        ("per:age, per:boss Dialogue: x", "per:age, per:boss"),
        ("per:age, in this dialogue", "per:age, in this dialogue"),
    ):
        assert strict("dialogre", response, **two) == answer
    assert parse_answer("dialogre", first, FIELDS | two) == "per:pet, per:pet"


@pytest.mark.parametrize(
    "response",
    [
        "per:age, per:friends",
        "<think>per:pet?</think>per:age, per:friends",
        '["per:age", "per:friends"]',
        "1. per:age\n2. per:friends",
        "- **per:age**\n- **per:friends**",
        "```\nper:age, per:friends\n```",
    ],
)
def test_tolerant_lists(response: str) -> None:
    item = dialogue_item(0, "Speaker 1: a", (("a", "b", "per:age"), ("a", "c", "per:friends")))
    assert parse_answer("dialogre", response, item, variant="tolerant") == "per:age, per:friends"


@settings(max_examples=60)
@given(st.text(), st.sampled_from(SETS), st.sampled_from(["published", "strict", "tolerant"]))
def test_any_text_can_be_parsed(response: str, name: str, variant: str) -> None:
    assert isinstance(parse_answer(name, response, FIELDS, variant=variant), list if name == "few_nerd" else str)
