"""Prompts, written out letter by letter."""

from __future__ import annotations

import pytest

from StaICC.benchmarks.long_icl import card
from StaICC.benchmarks.long_icl.protocol import (
    Item,
    dialogue_item,
    entity_item,
    merge_dialogues,
    write_answer,
    write_context,
    write_query,
)
from tests.benchmarks.long_icl.conftest import text_item

PAIR = "the most suitable conjunction word in the previous ( ) is  "
BY_EXAMPLE = "The predict answer must come from the demonstration examples with the exact format."
EXAMPLES = " The examples are as follows: \n"
FEW_NERD = (
    "Given the sentence, please find the name entities in the sentence and their corresponding entity types in the "
    "strict format of given examples {}"
)
DIALOGRE = (
    "Given the dialogue, please find the name pair entities in the dialogue and their corresponding relation types in "
    "the strict format of given examples {}(note that the number of entities has to strictly have the same value as "
    "the number of respective relation)"
)
CASES: dict[str, tuple[Item, Item, str, str, str]] = {
    "banking77": (
        text_item("Card {gone}? ", "card_arrival"),
        text_item("Top up\nfailed", "top_up_failed"),
        f"Given a customer service query, please predict the intent of the query. {BY_EXAMPLE}{EXAMPLES}",
        f"Given a customer service query, please predict the intent of the query. {BY_EXAMPLE}You can only make "
        f"prediction from the following categories: {{}}.\n{EXAMPLES}",
        "service query: Card {gone}? \nintent category: card_arrival\nservice query: Top up\nfailed\nintent category: ",
    ),
    "goemotions": (
        text_item("hm ", "neutral"),
        text_item("wow", "joy"),
        f"Given a comment, please predict the emotion category of this comment. {BY_EXAMPLE}{EXAMPLES}",
        f"Given a comment, please predict the emotion category of this comment. {BY_EXAMPLE}You can only make "
        f"prediction from the following categories: {{}}.\n{EXAMPLES}",
        "comment: hm \nemotion category: neutral\ncomment: wow\nemotion category: ",
    ),
    "discovery": (
        Item("pair", 0, ("a .", "b ."), ("yet,",)),
        Item("pair", 1, ("c .", "d ."), ("and",)),
        "Given two sentence1 and sentence2, please predict the conjunction word between the two sentences. "
        f"{BY_EXAMPLE}{EXAMPLES}",
        "Given two sentence1 and sentence2, please predict the conjunction word between the two sentences. "
        f"{BY_EXAMPLE} You can only select from the following words: {{}}.\n{EXAMPLES}",
        f"a . ( ) b .\n{PAIR}yet,\nc . ( ) d .\n{PAIR}",
    ),
    "tacred": (
        Item("relation", 0, ("Ann is 7.", "Ann", "7"), ("per:age",)),
        Item("relation", 1, ("Bo runs Ox.", "Bo", "Ox"), ("per:title",)),
        "Given a sentence and a pair of subject and object entities within the sentence, please predict the relation "
        f"between the given entities.{EXAMPLES}",
        "Given a sentence and a pair of subject and object entities within the sentence, please predict the relation "
        "between the given entities. The predicted relationship must come from these classes: {}.\n" + EXAMPLES,
        "sentence: Ann is 7.\nthe subject is Ann and the object is 7\nthe relation between the two entities is: "
        "per:age\nsentence: Bo runs Ox.\nthe subject is Bo and the object is Ox\nthe relation between the two entities "
        "is: ",
    ),
    "few_nerd": (
        entity_item(0, "Ann in Rome.", (("Ann", "person-other"), ("Rome", "location-GPE"))),
        entity_item(1, "Ox.", (("Ox", "other-god"),)),
        FEW_NERD.format("as following (Entity: EntityType):\n"),
        FEW_NERD.format("above (Entity: EntityType), please only strictly choose from the following entity types: ")
        + "{}.\n",
        "Sentence: Ann in Rome.\nAnn: person-other\nRome: location-GPE\nSentence: Ox.\n",
    ),
    "dialogre": (
        dialogue_item(0, "S1: a\nS2: b", (("S1", "O'Hara", "per:age"), ('"Ed" O\'', "Zoë\\", "per:boss"))),
        dialogue_item(1, "S1: c", (("x", "y", "per:pet"),)),
        DIALOGRE.format("as following ") + ":\n",
        DIALOGRE.format("above, please only strictly choose from the following relation types ") + ": {}.\n",
        "Dialogue: \nS1: a\nS2: b\nThe list of 2 entity pairs are ('S1', \"O'Hara\"), ('\"Ed\" O\\'', 'Zoë\\\\')\n"
        "The 2 respective relations between each entity pair are: per:age, per:boss\n"
        "Dialogue: \nS1: c\nThe list of 1 entity pairs are ('x', 'y')\n"
        "The 1 respective relations between each entity pair are: ",
    ),
}
"""Demonstration, query, beginning of the prompt without and with labels, and the rest."""


@pytest.mark.parametrize("name", CASES)
def test_prompts(name: str) -> None:
    own, (shown, asked, plain, instruct, rest) = card(name), CASES[name]
    assert write_context(own, [shown]) + write_query(own, asked) == plain + rest
    labels = ", ".join(own.labels)
    assert write_context(own, [shown], instruct=True) + write_query(own, asked) == instruct.format(labels) + rest
    assert plain + rest.removesuffix(write_query(own, asked)) == plain + write_query(own, shown) + write_answer(
        own, shown
    )


def test_pairs_of_one_dialogue_are_put_together() -> None:
    a, b, c = (("x", str(i), "per:age") for i in range(3))
    merged = merge_dialogues([dialogue_item(4, "d1", (a,)), dialogue_item(5, "d2", (b,)), dialogue_item(9, "d1", (c,))])
    assert merged == [dialogue_item(4, "d1", (a, c)), dialogue_item(5, "d2", (b,))]
