"""Prompts, choice of rows, parses and scores of LongICL: letter by letter, by the golden file, and by properties."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.long_icl.cards import task_card
from StaICC.long_icl.parsing import PARSINGS, parse_answer
from StaICC.long_icl.prompts import (
    FIELDS,
    Item,
    as_shown,
    dialogue_item,
    entity_item,
    merge_dialogues,
    write_answer,
    write_context,
    write_query,
)
from StaICC.long_icl.scoring import Tally, guessing_scores, score_tallies, tally_answer, tally_prediction
from StaICC.long_icl.selection import by_pairs, covering, selected
from tests.long_icl.conftest import ALL_DATASETS, SINGLE_LABEL_DATASETS, text_item

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


class PromptCase(NamedTuple):
    """A demonstration and a query, and how the prompt with both is written."""

    demonstration: Item
    query: Item
    instruction: str
    instruction_with_labels: str
    """With ``{}`` in the place of the labels."""
    demonstration_and_query: str


CASES: dict[str, PromptCase] = {
    "banking77": PromptCase(
        text_item("Card {gone}? ", "card_arrival"),
        text_item("Top up\nfailed", "top_up_failed"),
        f"Given a customer service query, please predict the intent of the query. {BY_EXAMPLE}{EXAMPLES}",
        f"Given a customer service query, please predict the intent of the query. {BY_EXAMPLE}You can only make "
        f"prediction from the following categories: {{}}.\n{EXAMPLES}",
        "service query: Card {gone}? \nintent category: card_arrival\nservice query: Top up\nfailed\nintent category: ",
    ),
    "goemotions": PromptCase(
        text_item("hm ", "neutral"),
        text_item("wow", "joy"),
        f"Given a comment, please predict the emotion category of this comment. {BY_EXAMPLE}{EXAMPLES}",
        f"Given a comment, please predict the emotion category of this comment. {BY_EXAMPLE}You can only make "
        f"prediction from the following categories: {{}}.\n{EXAMPLES}",
        "comment: hm \nemotion category: neutral\ncomment: wow\nemotion category: ",
    ),
    "discovery": PromptCase(
        Item("pair", 0, ("a .", "b ."), ("yet,",)),
        Item("pair", 1, ("c .", "d ."), ("and",)),
        "Given two sentence1 and sentence2, please predict the conjunction word between the two sentences. "
        f"{BY_EXAMPLE}{EXAMPLES}",
        "Given two sentence1 and sentence2, please predict the conjunction word between the two sentences. "
        f"{BY_EXAMPLE} You can only select from the following words: {{}}.\n{EXAMPLES}",
        f"a . ( ) b .\n{PAIR}yet,\nc . ( ) d .\n{PAIR}",
    ),
    "tacred": PromptCase(
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
    "few_nerd": PromptCase(
        entity_item(0, "Ann in Rome.", (("Ann", "person-other"), ("Rome", "location-GPE"))),
        entity_item(1, "Ox.", (("Ox", "other-god"),)),
        FEW_NERD.format("as following (Entity: EntityType):\n"),
        FEW_NERD.format("above (Entity: EntityType), please only strictly choose from the following entity types: ")
        + "{}.\n",
        "Sentence: Ann in Rome.\nAnn: person-other\nRome: location-GPE\nSentence: Ox.\n",
    ),
    "dialogre": PromptCase(
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
"""A case of each data set."""


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_is_instruction_demonstrations_and_query(name: str) -> None:
    card, case = task_card(name), CASES[name]

    context = write_context(card, [case.demonstration]).text

    assert context + write_query(card, case.query) == case.instruction + case.demonstration_and_query


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_of_instruction_models_lists_the_labels(name: str) -> None:
    card, case = task_card(name), CASES[name]

    context = write_context(card, [case.demonstration], instruct=True).text

    instruction = case.instruction_with_labels.format(", ".join(card.labels))
    assert context + write_query(card, case.query) == instruction + case.demonstration_and_query


@pytest.mark.parametrize("name", CASES)
def test_a_demonstration_is_a_query_and_its_answer(name: str) -> None:
    card, case = task_card(name), CASES[name]

    demonstration = write_query(card, case.demonstration) + write_answer(card, case.demonstration)

    assert case.demonstration_and_query == demonstration + write_query(card, case.query)


def test_pairs_of_one_dialogue_are_put_together() -> None:
    first, second, third = ("x", "0", "per:age"), ("x", "1", "per:age"), ("x", "2", "per:age")

    merged = merge_dialogues(
        [
            dialogue_item(4, "one dialogue", (first,)),
            dialogue_item(5, "another dialogue", (second,)),
            dialogue_item(9, "one dialogue", (third,)),
        ]
    )

    assert merged == [
        dialogue_item(4, "one dialogue", (first, third)),
        dialogue_item(5, "another dialogue", (second,)),
    ]


# -- the rules against direct transcriptions of the protocol's text


labels_of_rows = st.lists(st.sampled_from("abcde"), max_size=30)
numbers_of_turns = st.integers(0, 6)


def turns_as_written(labels: list[str], number: int) -> list[int]:
    """Each turn has a row for each label; a label without a row left is replaced by one of the labels after it."""
    distinct_labels = list(dict.fromkeys(labels))
    unused_rows = {label: [row for row, other in enumerate(labels) if other == label] for label in distinct_labels}
    taken = []
    for _ in range(number):
        for position in range(len(distinct_labels)):
            for label in distinct_labels[position:]:
                if unused_rows[label]:
                    taken.append(unused_rows[label].pop(0))
                    break
    return taken


def passes_as_written(labels: list[str], number: int) -> list[int]:
    """Each pass over the rows takes the first row of each label that is not taken yet."""
    taken: list[int] = []
    for _ in range(number):
        labels_of_pass: set[str] = set()
        for row, label in enumerate(labels):
            if row not in taken and label not in labels_of_pass:
                labels_of_pass.add(label)
                taken.append(row)
    return taken


def covering_as_written(labels_of_rows: list[list[str]], wanted: set[str], number: int) -> list[list[int]]:
    """Each turn takes rows with a wanted label that it lacks; it ends with the row that completes it."""
    turns: list[list[int]] = []
    missing: set[str] = set()
    for row, labels in enumerate(labels_of_rows):
        if not missing and wanted.intersection(labels):
            missing = set(wanted)
            turns.append([])
        if missing.intersection(labels):
            turns[-1].append(row)
            missing -= set(labels)
    return turns[:number]


@given(labels_of_rows, numbers_of_turns)
def test_the_rule_turns_is_the_one_of_the_protocol(labels: list[str], number: int) -> None:
    assert selected("turns", labels, number) == turns_as_written(labels, number)


@given(labels_of_rows, numbers_of_turns)
def test_the_rule_passes_is_the_one_of_the_protocol(labels: list[str], number: int) -> None:
    assert selected("passes", labels, number) == passes_as_written(labels, number)


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=3), max_size=30), numbers_of_turns)
def test_the_rule_covering_is_the_one_of_the_protocol(labels: list[list[str]], number: int) -> None:
    assert covering(labels, set("abcd"), number) == covering_as_written(labels, set("abcd"), number)


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=30), st.integers(0, 4))
def test_the_rule_at_most_takes_the_first_rows_of_each_label(labels: list[str | None], size: int) -> None:
    """Rows without a label are not taken."""
    rows_of_a = [row for row, label in enumerate(labels) if label == "a"]
    rows_of_b = [row for row, label in enumerate(labels) if label == "b"]

    assert selected("at_most", labels, size) == sorted(rows_of_a[:size] + rows_of_b[:size])


def pairs_of(counts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return each pair as (item, number of the pair) for items with so many pairs each."""
    return [(item, pair) for item, count in counts for pair in range(count)]


@given(st.lists(st.integers(0, 5)), st.integers(1, 20))
def test_a_limit_of_pairs_takes_the_first_pairs(counts: list[int], limit: int) -> None:
    assert pairs_of(by_pairs(counts, limit)) == pairs_of(enumerate(counts))[:limit]


@given(st.lists(st.integers(0, 5)))
def test_no_limit_of_pairs_is_one_above_their_number(counts: list[int]) -> None:
    assert by_pairs(counts, None) == by_pairs(counts, sum(counts) + 1)


def test_only_dialogues_are_merged() -> None:
    """Two pairs of sentences may begin with the same sentence."""
    items = [Item("pair", 0, ("first", "b"), ("b",)), Item("pair", 1, ("first", "a"), ("a",))]

    assert as_shown(task_card("discovery"), items) == items


# -- parses


CARD_QUESTION = "Where is my card? "
QUERY: dict[str, Any] = {
    "text": CARD_QUESTION,
    "sentence1": "a",
    "sentence2": "b",
    "sentence": "c: d",
    "subject_entity": "e",
    "object_entity": "f",
    "dialogue": "g",
    "relations": [{}],
}
"""The fields of a query of any data set; a dialogue has one relation."""


def by_library(name: str, response: str, prompt: str | None = None, **fields: Any) -> str | list[list[str]]:
    """Return what the library's parser reads in a response to a query with these fields."""
    return parse_answer(name, response, QUERY | fields, parsing="library", prompt=prompt)


RELATION_KEYS = ("subject_entity", "object_entity", "relation")


def item_of(name: str, case: dict[str, Any]) -> Item:
    """Return the item of a golden case, with its labels."""
    kind = task_card(name).kind
    if kind == "entities":
        return entity_item(-1, case["sentence"], case.get("entities", {}).items())
    if kind == "dialogue":
        relations = []
        for relation in case["relations"]:
            relations.append([relation.get(key, "") for key in RELATION_KEYS])
        return dialogue_item(-1, case["dialogue"], relations)
    texts = tuple(case[field] for field in FIELDS[kind])
    return Item(kind, -1, texts, (case.get("label", ""),))


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_replies_are_parsed_as_by_the_published_code(golden: dict[str, Any], name: str) -> None:
    """A query is given as an item, or by its fields."""
    cases = golden["parse"][name]
    assert len(cases) == 17
    for case in cases:
        assert parse_answer(name, case["response"], item_of(name, case)) == case["expected"], case
        assert parse_answer(name, case["response"], case) == case["expected"], case


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_the_library_s_parser_reads_the_same_for_items_and_for_fields(golden: dict[str, Any], name: str) -> None:
    for case in golden["parse"][name]:
        of_item = parse_answer(name, case["response"], item_of(name, case), parsing="library")
        of_fields = parse_answer(name, case["response"], case, parsing="library")
        assert of_item == of_fields, case


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_parsed_replies_are_correct_where_the_published_code_says_so(golden: dict[str, Any], name: str) -> None:
    """Some golden cases say whether the reply is correct, and whether it is a label of the data set."""
    for case in golden["parse"][name]:
        tally, _ = tally_prediction(task_card(name), case["response"], item_of(name, case))
        if "correct" in case:
            assert bool(tally.correct) == case["correct"], case
        if "in_label_set" in case:
            assert bool(tally.predicted) == case["in_label_set"], case


ONE_SHOT_PROMPT = f"service query: x\nintent category: top_up_failed\nservice query: {CARD_QUESTION}\nintent category: "


@pytest.mark.parametrize(
    "echo",
    [ONE_SHOT_PROMPT, ONE_SHOT_PROMPT.rstrip(), f"{ONE_SHOT_PROMPT.rstrip()}\n"],
    ids=["the prompt", "without the blank at its end", "with a line end for the blank"],
)
def test_the_library_s_parser_drops_the_prompt_before_a_reply(echo: str) -> None:
    """S6: the published parser loses an echo that drops a blank of the text."""
    assert by_library("banking77", f"{echo}card_arrival\nservice query: y", ONE_SHOT_PROMPT) == "card_arrival"


def test_the_library_s_parser_reads_the_first_reply_where_the_published_one_follows_a_repeated_query() -> None:
    """S6."""
    response = f"{ONE_SHOT_PROMPT}card_arrival\n{ONE_SHOT_PROMPT}pin_blocked"

    assert by_library("banking77", response, ONE_SHOT_PROMPT) == "card_arrival"
    assert parse_answer("banking77", response, QUERY) == "pin_blocked"


@pytest.mark.parametrize(
    ("name", "response", "label"),
    [
        ("banking77", "Card_Arrival.", "card_arrival"),
        ("banking77", "**reverted_card_payment?**", "reverted_card_payment?"),
        ("banking77", "“refund_not_showing_up”", "Refund_not_showing_up"),
        ("goemotions", "'Joy'.\nbecause", "joy"),
        ("discovery", "*Actually,*", "actually,"),
        ("discovery", "[No-Conn].", "[no-conn]"),
        ("tacred", "`ORG:founded`", "org:founded"),
        ("dialogre", '"per:Age", per:boss. , nonsense', "per:age, per:boss, nonsense"),
    ],
)
def test_marks_around_a_label_and_capitals_do_not_matter(name: str, response: str, label: str) -> None:
    """S8, S10."""
    assert by_library(name, response) == label


@settings(max_examples=40)
@pytest.mark.parametrize("name", SINGLE_LABEL_DATASETS)
@given(marks=st.sampled_from(["{}", '"{}"', "**{}**", "`{}`", "“{}”", "{}.", " {} "]), data=st.data())
def test_every_label_is_read_within_marks(name: str, marks: str, data: st.DataObject) -> None:
    label = data.draw(st.sampled_from(task_card(name).labels))
    spelling = data.draw(st.sampled_from([label, label.upper(), label.title()]))

    assert by_library(name, marks.format(spelling)) == label


def entities_read(sentence: str, response: str) -> Any:
    """Return the pairs of entity and type that the library's parser reads in a response to a sentence."""
    return by_library("few_nerd", response, sentence=sentence)


def test_an_entity_of_the_sentence_may_have_colons() -> None:
    """S13: the type of an entity that is not in the sentence is what follows the last colon."""
    sentence = "Zelda II: The Adventure of Link by Bram."
    response = "Zelda II: The Adventure of Link: product-game\nBram: person-other: a sailor\nLink: hero: god"

    assert entities_read(sentence, response) == [
        ["Zelda II: The Adventure of Link", "product-game"],
        ["Bram", "person-other"],
        ["Link: hero", "god"],
    ]


def test_entities_are_read_in_a_list_with_marks_after_an_introduction() -> None:
    """S14."""
    sentence = "1. FC Ox beat Bram at Sentence Hall."
    response = (
        "Sure!\n\nHere they are:\n"
        "- Bram: `Person-Other`\n"
        "* 1. FC Ox: organization-sportsteam\n"
        "2) Sentence Hall: building-other\n"
        "\nLater: art-film"
    )

    assert entities_read(sentence, response) == [
        ["Bram", "person-other"],
        ["1. FC Ox", "organization-sportsteam"],
        ["Sentence Hall", "building-other"],
    ]


def test_a_number_at_the_beginning_of_an_entity_is_no_mark_of_a_list() -> None:
    assert entities_read("1. FC Ox.", "1. FC Ox: other-god") == [["1. FC Ox", "other-god"]]


def test_entities_after_a_next_sentence_are_not_read() -> None:
    response = "Bram: person-other\nSentence: Next: art-film"

    assert entities_read("Bram", response) == [["Bram", "person-other"]]


def test_an_empty_response_has_no_entities() -> None:
    assert entities_read("Bram", "") == []


CUE = "The 2 respective relations between each entity pair are: "
TWO_ANSWERS = f"Sure. {CUE}per:age, per:boss\nDialogue: \nx\n{CUE}per:pet, per:pet"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (f"per:age, per:boss\nDialogue: \nx\n{CUE}per:pet, per:pet", "per:pet, per:pet"),
        (TWO_ANSWERS, "per:age, per:boss"),
        ("[/INST] per:age, per:boss [/INST] x", "per:age, per:boss"),
        ("per:age, per:boss Dialogue: x", "per:age, per:boss"),
        ("per:age, in this dialogue", "per:age, in this dialogue"),
    ],
    ids=["the cue once", "the cue twice", "marks of a prompt", "a next dialogue", "the word dialogue"],
)
def test_the_library_s_parser_reads_the_relations_after_the_first_cue(response: str, answer: str) -> None:
    """S20."""
    assert by_library("dialogre", response, relations=[{}, {}]) == answer


def test_the_published_parser_reads_the_relations_after_the_last_cue() -> None:
    assert parse_answer("dialogre", TWO_ANSWERS, QUERY | {"relations": [{}, {}]}) == "per:pet, per:pet"


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
def test_the_library_parser_reads_lists(response: str) -> None:
    item = dialogue_item(0, "Speaker 1: a", (("a", "b", "per:age"), ("a", "c", "per:friends")))
    assert parse_answer("dialogre", response, item, parsing="library") == "per:age, per:friends"


@settings(max_examples=60)
@given(st.text(), st.sampled_from(ALL_DATASETS), st.sampled_from(PARSINGS))
def test_any_text_can_be_parsed(response: str, name: str, parsing: str) -> None:
    assert isinstance(parse_answer(name, response, QUERY, parsing=parsing), list if name == "few_nerd" else str)


# -- scores


def dialogue_with(*relations: str) -> Item:
    """Return an item with a pair of entities for each relation."""
    return dialogue_item(0, "", tuple(("x", "y", relation) for relation in relations))


def items_and_replies(name: str, case: dict[str, Any]) -> tuple[list[Item], list[Any]]:
    """Return the items of a golden case of a data set, and the replies."""
    if name == "few_nerd":
        return [entity_item(0, "", gold.items()) for gold in case["gold"]], case["predictions"]
    if name == "dialogre":
        items = [dialogue_with(*item["label"].split(", ")) for item in case["items"]]
        return items, [item["pred"] for item in case["items"]]
    items = [Item("relation", 0, ("", "", ""), (item["label"],)) for item in case["items"]]
    return items, [item["response"] for item in case["items"]]


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_replies_have_the_scores_of_the_published_evaluators(golden: dict[str, Any], name: str) -> None:
    """Where the published code divides by zero (``None`` in the golden file), the count or the score is 0."""
    card, cases = task_card(name), golden["evaluate"][name]
    assert len(cases) == 4
    for case in cases:
        items, replies = items_and_replies(name, case)
        tallies = [tally_answer(card, reply, item) for reply, item in zip(replies, items, strict=True)]

        score = score_tallies(card.scoring, tallies)

        expected = {key: case["expected"][key] or 0 for key in ("gold", "predicted", "correct")}
        for key in ("precision", "recall", "f1"):
            expected[key] = pytest.approx(case["expected"][key] or 0.0, abs=1e-15)
        assert score == expected, case["note"]


def test_dialogre_stops_at_500_pairs() -> None:
    """The last of four dialogues is not scored; the second has no reply."""
    dialogue_of_250_pairs = Tally(("per:age",) * 250, (), ())
    tallies = [dialogue_of_250_pairs, None, dialogue_of_250_pairs, dialogue_of_250_pairs]

    score = score_tallies(task_card("dialogre").scoring, tallies)

    assert score is not None
    assert score["gold"] == 500


def test_only_the_published_score_credits_replies_that_contain_the_label() -> None:
    """S18: three times all three relations are right for each of them."""
    item = dialogue_with("per:age", "per:pet", "per:boss")
    all_relations = "per:age per:pet per:boss"
    reply = f"{all_relations}, {all_relations}, {all_relations}"

    assert len(tally_answer(task_card("dialogre"), reply, item).correct) == 3
    assert tally_answer(task_card("dialogre"), reply, item, "library") == Tally(
        gold=item.gold, predicted=(), correct=()
    )


def test_a_reply_with_two_labels_predicts_the_first_label_of_the_data_set() -> None:
    card = task_card("dialogre")
    first, second = sorted(["per:age", "per:pet"], key=card.labels.index)

    assert tally_answer(card, f"{second} {first}", dialogue_with("per:age")).predicted == (first,)


JOY = text_item("ha", "joy")


@pytest.mark.parametrize("response", ["", "happiness", "joyful"])
@pytest.mark.parametrize("parsing", PARSINGS)
def test_replies_that_are_no_label_predict_none(response: str, parsing: str) -> None:
    tally, _ = tally_prediction(task_card("goemotions"), response, JOY, parsing)

    assert tally == Tally(gold=("joy",), predicted=(), correct=())


def test_scores_without_entities_are_zero() -> None:
    """Sentences without entities in which none was found: 0 / 0 is 0."""
    no_entities = Tally(gold=(), predicted=(), correct=())

    score = score_tallies(task_card("few_nerd").scoring, [no_entities])

    assert score == {"gold": 0, "predicted": 0, "correct": 0, "precision": 0, "recall": 0, "f1": 0}


relations = st.sampled_from(["per:age", "per:pet", "per:boss"])


@st.composite
def tallies_of_one_label(draw: st.DrawFn) -> list[Tally]:
    """Draw items with a true label each and one prediction, or none."""
    tallies = []
    for _ in range(draw(st.integers(1, 20))):
        true_label = draw(relations)
        predicted = tuple(draw(st.lists(relations, max_size=1)))
        tallies.append(Tally((true_label,), predicted, predicted if predicted == (true_label,) else ()))
    return tallies


@given(tallies_of_one_label(), st.randoms(use_true_random=False))
def test_the_score_does_not_depend_on_the_order_of_items(tallies: list[Tally], random: Any) -> None:
    score = score_tallies(task_card("tacred").scoring, tallies)

    shuffled = random.sample(tallies, len(tallies))

    assert score_tallies(task_card("tacred").scoring, shuffled) == score


@given(tallies_of_one_label())
def test_f1_is_between_zero_and_the_larger_one_of_precision_and_recall(tallies: list[Tally]) -> None:
    score = score_tallies(task_card("tacred").scoring, tallies)

    assert score is not None
    assert 0 <= score["f1"] <= max(score["precision"], score["recall"]) + 1e-15
    assert score["precision"] <= 1
    assert score["recall"] <= 1


@given(tallies_of_one_label())
def test_accuracy_is_the_share_of_correct_items(tallies: list[Tally]) -> None:
    correct = sum(len(tally.correct) for tally in tallies)

    score = score_tallies(task_card("banking77").scoring, tallies)

    assert score == {"items": len(tallies), "correct": correct, "accuracy": correct / len(tallies)}


def test_baselines_are_the_scores_of_one_label_for_all_items() -> None:
    """Uniform guessing has the mean score of all labels; the majority label has the best score."""
    card = task_card("tacred")
    true_labels = ["per:age", "per:age", "per:age", "per:title", "per:title"]
    items = [Item("relation", 0, ("", "", ""), (label,)) for label in true_labels]

    uniform, majority, majority_label = guessing_scores(card, items)

    f1_of_label = {}
    for label in card.labels:
        score = score_tallies(card.scoring, [tally_answer(card, label, item) for item in items])
        assert score is not None
        f1_of_label[label] = score["f1"]
    assert majority_label == "per:age"
    assert majority == pytest.approx(f1_of_label["per:age"])
    assert uniform == pytest.approx(math.fsum(f1_of_label.values()) / 41)
    assert uniform == 1 / 41


def test_entities_have_no_baseline() -> None:
    item = entity_item(0, "a", (("a", "art-film"),))

    assert guessing_scores(task_card("few_nerd"), [item]) == (None, None, None)


def test_the_majority_label_of_dialogre_is_that_of_the_pairs_that_are_scored() -> None:
    """The published score stops at pair 500, within the second dialogue."""
    items = [
        dialogue_with(*["per:age"] * 300),
        dialogue_with(*["per:pet"] * 250),
        dialogue_with(*["per:pet"] * 900),
    ]

    _, _, majority_label = guessing_scores(task_card("dialogre"), items)

    assert majority_label == "per:age"


def test_a_deeply_nested_reply_is_read_as_a_text() -> None:
    nested = "[" * 100_000
    assert by_library("dialogre", nested) == nested
