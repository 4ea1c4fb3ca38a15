"""Prompts, written out letter by letter."""

from __future__ import annotations

from StaICC.benchmarks.long_icl import card
from StaICC.benchmarks.long_icl.prompts import (
    Item,
    dialogue_item,
    entity_item,
    merge_dialogues,
    pair_item,
    relation_item,
    text_item,
    write_answer,
    write_context,
    write_query,
)


def whole(name: str, demonstration: Item, query: Item, *, instruct: bool = False) -> str:
    own = card(name)
    return write_context(own, [demonstration], instruct=instruct) + write_query(own, query)


def test_banking77() -> None:
    shown, asked = text_item(0, "Card {gone}? ", "card_arrival"), text_item(1, "Top up\nfailed", "top_up_failed")
    demonstrations = (
        "service query: Card {gone}? \nintent category: card_arrival\nservice query: Top up\nfailed\nintent category: "
    )
    head = (
        "Given a customer service query, please predict the intent of the query. The predict answer must "
        "come from the "
        "demonstration examples with the exact format."
    )
    assert whole("banking77", shown, asked) == head + " The examples are as follows: \n" + demonstrations
    with_labels = whole("banking77", shown, asked, instruct=True)
    labels = ", ".join(card("banking77").labels)
    assert with_labels == (
        head
        + "You can only make prediction from the following categories: "
        + labels
        + ".\n The examples are as follows: \n"
        + demonstrations
    )


def test_goemotions() -> None:
    text = whole("goemotions", text_item(0, "hm ", "neutral"), text_item(1, "wow", "joy"))
    assert text == (
        "Given a comment, please predict the emotion category of this comment. The predict answer must come from the "
        "demonstration examples with the exact format. The examples are as follows: \n"
        "comment: hm \nemotion category: neutral\ncomment: wow\nemotion category: "
    )


def test_discovery() -> None:
    text = whole("discovery", pair_item(0, "a .", "b .", "yet,"), pair_item(1, "c .", "d .", "and"), instruct=True)
    assert text.startswith(
        "Given two sentence1 and sentence2, please predict the conjunction word between the two sentences. "
        "The predict "
        "answer must come from the demonstration examples with the exact format. You can only select from "
        "the following "
        "words: [no-conn], absolutely,, accordingly, actually,, additionally, "
    )
    assert text.endswith(
        "well,, yet,.\n The examples are as follows: \n"
        "a . ( ) b .\nthe most suitable conjunction word in the previous ( ) is  yet,\n"
        "c . ( ) d .\nthe most suitable conjunction word in the previous ( ) is  "
    )


def test_tacred() -> None:
    shown = relation_item(0, "Ann is 7.", "Ann", "7", "per:age")
    asked = relation_item(1, "Bo runs Ox.", "Bo", "Ox", "per:title")
    assert whole("tacred", shown, asked) == (
        "Given a sentence and a pair of subject and object entities within the sentence, please predict the relation "
        "between the given entities. The examples are as follows: \n"
        "sentence: Ann is 7.\nthe subject is Ann and the object is 7\nthe relation between the two entities "
        "is: per:age\n"
        "sentence: Bo runs Ox.\nthe subject is Bo and the object is Ox\nthe relation between the two entities is: "
    )
    assert ". The predicted relationship must come from these classes: org:founded_by, per:employee_of, " in whole(
        "tacred", shown, asked, instruct=True
    )


def test_few_nerd() -> None:
    shown = entity_item(0, "Ann in Rome.", (("Ann", "person-other"), ("Rome", "location-GPE")))
    asked = entity_item(1, "Ox.", (("Ox", "other-god"),))
    tail = "Sentence: Ann in Rome.\nAnn: person-other\nRome: location-GPE\nSentence: Ox.\n"
    assert whole("few_nerd", shown, asked) == (
        "Given the sentence, please find the name entities in the sentence and their corresponding entity "
        "types in the "
        "strict format of given examples as following (Entity: EntityType):\n" + tail
    )
    assert whole("few_nerd", shown, asked, instruct=True) == (
        "Given the sentence, please find the name entities in the sentence and their corresponding entity "
        "types in the "
        "strict format of given examples above (Entity: EntityType), please only strictly choose from the "
        "following entity "
        "types: " + ", ".join(card("few_nerd").labels) + ".\n" + tail
    )


def test_dialogre() -> None:
    shown = dialogue_item(
        0,
        "S1: a\nS2: b",
        (("S1", "O'Hara", "per:age"), ('"Ed" O\'', "Zoë\\", "per:boss")),
    )
    asked = dialogue_item(1, "S1: c", (("x", "y", "per:pet"),))
    text = whole("dialogre", shown, asked)
    assert text == (
        "Given the dialogue, please find the name pair entities in the dialogue and their corresponding "
        "relation types in "
        "the strict format of given examples as following (note that the number of entities has to strictly "
        "have the same "
        "value as the number of respective relation):\n"
        "Dialogue: \nS1: a\nS2: b\nThe list of 2 entity pairs are ('S1', \"O'Hara\"), ('\"Ed\" O\\'', 'Zoë\\\\')\n"
        "The 2 respective relations between each entity pair are: per:age, per:boss\n"
        "Dialogue: \nS1: c\nThe list of 1 entity pairs are ('x', 'y')\n"
        "The 1 respective relations between each entity pair are: "
    )


def test_an_answer_is_what_a_demonstration_adds_to_its_query() -> None:
    own, item = card("goemotions"), text_item(0, "ha", "joy")
    assert write_context(own, [item]) == write_context(own, []) + write_query(own, item) + write_answer(own, item)


def test_pairs_of_one_dialogue_are_put_together() -> None:
    a, b, c = (("x", str(i), "per:age") for i in range(3))
    merged = merge_dialogues([dialogue_item(4, "d1", (a,)), dialogue_item(5, "d2", (b,)), dialogue_item(9, "d1", (c,))])
    assert merged == [dialogue_item(4, "d1", (a, c)), dialogue_item(5, "d2", (b,))]
    assert merge_dialogues([]) == []
