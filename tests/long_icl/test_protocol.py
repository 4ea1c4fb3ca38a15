"""Prompts, choice of rows, parses and scores of LongICL: letter by letter, by the golden file, and by properties."""

from __future__ import annotations

import math
from typing import Any

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
from tests.long_icl.conftest import SETS, SINGLE, text_item

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
    own, (shown, asked, plain, instruct, rest) = task_card(name), CASES[name]
    assert write_context(own, [shown]).text + write_query(own, asked) == plain + rest
    labels = ", ".join(own.labels)
    assert write_context(own, [shown], instruct=True).text + write_query(own, asked) == instruct.format(labels) + rest
    assert plain + rest.removesuffix(write_query(own, asked)) == plain + write_query(own, shown) + write_answer(
        own, shown
    )


def test_pairs_of_one_dialogue_are_put_together() -> None:
    a, b, c = (("x", str(i), "per:age") for i in range(3))
    merged = merge_dialogues([dialogue_item(4, "d1", (a,)), dialogue_item(5, "d2", (b,)), dialogue_item(9, "d1", (c,))])
    assert merged == [dialogue_item(4, "d1", (a, c)), dialogue_item(5, "d2", (b,))]


# -- the rules against direct transcriptions of the protocol's text


rows = st.lists(st.sampled_from("abcde"), max_size=30)
turns = st.integers(0, 6)


def turns_as_written(labels: list[str], number: int) -> list[int]:
    order = list(dict.fromkeys(labels))
    groups = {label: [i for i, own in enumerate(labels) if own == label] for label in order}
    used = dict.fromkeys(order, 0)
    taken = []
    for _ in range(number):
        for place in range(len(order)):
            for label in order[place:]:
                if used[label] < len(groups[label]):
                    taken.append(groups[label][used[label]])
                    used[label] += 1
                    break
    return taken


def passes_as_written(labels: list[str], number: int) -> list[int]:
    taken: list[int] = []
    for _ in range(number):
        seen: set[str] = set()
        for i, label in enumerate(labels):
            if i not in taken and label not in seen:
                seen.add(label)
                taken.append(i)
    return taken


@given(rows, turns)
def test_turns_and_passes(labels: list[str], number: int) -> None:
    assert selected("turns", labels, number) == turns_as_written(labels, number)
    assert selected("passes", labels, number) == passes_as_written(labels, number)


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=3), max_size=30), turns)
def test_covering(labels: list[list[str]], number: int) -> None:
    wanted = set("abcd")
    chosen = covering(labels, wanted, number)
    as_written: list[list[int]] = []
    missing: set[str] = set()
    for place, own in enumerate(labels):  # a turn ends with the row that completes it
        if not missing and set(own) & wanted:
            missing = set(wanted)
            as_written.append([])
        if set(own) & missing:
            as_written[-1].append(place)
            missing -= set(own)
    assert chosen == as_written[:number]


@given(rows, st.integers(0, 4))
def test_at_most(labels: list[str], size: int) -> None:
    chosen = selected("at_most", [label if label in "ab" else None for label in labels], size)
    assert chosen == sorted(chosen)
    for label in "abcde":
        own = [i for i in chosen if labels[i] == label]
        assert own == [i for i, given in enumerate(labels) if given == label][: size if label in "ab" else 0]


@given(st.lists(st.integers(0, 5)), st.integers(1, 20))
def test_by_pairs(counts: list[int], size: int) -> None:
    pairs = [(i, pair) for i, count in enumerate(counts) for pair in range(count)]
    assert [(i, pair) for i, count in by_pairs(counts, size) for pair in range(count)] == pairs[:size]
    assert by_pairs(counts, None) == by_pairs(counts, sum(counts) + 1)


def test_only_dialogues_are_merged() -> None:
    """Two pairs of sentences may begin with the same sentence."""
    items = [Item("pair", row, ("first", text), (text,)) for row, text in enumerate("ba")]
    assert as_shown(task_card("discovery"), items) == items


# -- parses


CARD = "Where is my card? "
QUERY = {
    **{"text": CARD, "sentence1": "a", "sentence2": "b", "sentence": "c: d"},
    **{"subject_entity": "e", "object_entity": "f", "dialogue": "g", "relations": [{}]},
}


def by_library(name: str, response: str, prompt: str | None = None, **fields: Any) -> str | list[list[str]]:
    return parse_answer(name, response, QUERY | fields, parsing="library", prompt=prompt)


def item_of(name: str, case: dict[str, Any]) -> Item:
    """The item of a golden case, with its labels."""
    kind = task_card(name).kind
    if kind == "entities":
        return entity_item(-1, case["sentence"], case.get("entities", {}).items())
    if kind == "dialogue":
        names = ("subject_entity", "object_entity", "relation")
        relations = [[relation.get(key, "") for key in names] for relation in case["relations"]]
        return dialogue_item(-1, case["dialogue"], relations)
    return Item(kind, -1, tuple(case[field] for field in FIELDS[kind]), (case.get("label", ""),))


@pytest.mark.parametrize("name", SETS)
def test_published_parses(golden: dict[str, Any], name: str) -> None:
    cases = golden["parse"][name]
    assert len(cases) == 17
    for case in cases:
        item, response = item_of(name, case), case["response"]
        assert parse_answer(name, response, case) == parse_answer(name, response, item) == case["expected"], case
        assert len({str(parse_answer(name, response, one, parsing="library")) for one in (case, item)}) == 1
        tally, _ = tally_prediction(task_card(name), response, item)
        assert bool(tally.correct) == case.get("correct", bool(tally.correct)), case
        assert bool(tally.predicted) == case.get("in_label_set", bool(tally.predicted)), case


def test_the_prompt_is_dropped_by_its_length() -> None:
    """S6: the published parser follows a repeated query, and loses an echo that drops a blank of the text."""
    prompt = f"service query: x\nintent category: top_up_failed\nservice query: {CARD}\nintent category: "
    for echo in (prompt, prompt.rstrip(), prompt.rstrip() + "\n"):
        assert by_library("banking77", echo + "card_arrival\nservice query: y", prompt) == "card_arrival"
    repeated = prompt + "card_arrival\n" + prompt + "pin_blocked"
    assert by_library("banking77", repeated, prompt) == "card_arrival"
    assert parse_answer("banking77", repeated, QUERY) == "pin_blocked"


@pytest.mark.parametrize(
    ("name", "response", "label"),
    [
        ("banking77", "Card_Arrival.", "card_arrival"),
        ("banking77", "**reverted_card_payment?**", "reverted_card_payment?"),
        ("banking77", "“refund_not_showing_up”", "Refund_not_showing_up"),
        ("goemotions", "'Joy'.\nbecause", "joy"),
        *(("discovery", "*Actually,*", "actually,"), ("discovery", "[No-Conn].", "[no-conn]")),
        ("tacred", "`ORG:founded`", "org:founded"),
        ("dialogre", '"per:Age", per:boss. , nonsense', "per:age, per:boss, nonsense"),
    ],
)
def test_wrapping_and_case(name: str, response: str, label: str) -> None:
    """S8, S10."""
    assert by_library(name, response) == label


@settings(max_examples=40)
@pytest.mark.parametrize("name", SINGLE)
@given(form=st.sampled_from(["{}", '"{}"', "**{}**", "`{}`", "“{}”", "{}.", " {} "]), data=st.data())
def test_every_label_survives_its_wrapping(name: str, form: str, data: st.DataObject) -> None:
    label = data.draw(st.sampled_from(task_card(name).labels))
    text = form.format(data.draw(st.sampled_from([label, label.upper(), label.title()])))
    assert by_library(name, text) == label


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
            [["Bram", "person-other"], ["1. FC Ox", "organization-sportsteam"], ["Sentence Hall", "building-other"]],
        ),
        ("1. FC Ox.", "1. FC Ox: other-god", [["1. FC Ox", "other-god"]]),
        ("Bram", "Bram: person-other\nSentence: Next: art-film", [["Bram", "person-other"]]),
        ("Bram", "", []),
    ],
)
def test_corrected_entities(sentence: str, response: str, entities: list[list[str]]) -> None:
    assert by_library("few_nerd", response, sentence=sentence) == entities


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
        assert by_library("dialogre", response, **two) == answer
    assert parse_answer("dialogre", first, QUERY | two) == "per:pet, per:pet"


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
@given(st.text(), st.sampled_from(SETS), st.sampled_from(PARSINGS))
def test_any_text_can_be_parsed(response: str, name: str, parsing: str) -> None:
    assert isinstance(parse_answer(name, response, QUERY, parsing=parsing), list if name == "few_nerd" else str)


# -- scores


def asked(*relations: str) -> Item:
    return dialogue_item(0, "", tuple(("x", "y", relation) for relation in relations))


def tallies_of(name: str, case: dict[str, Any]) -> list[Tally]:
    if name == "few_nerd":
        items = [entity_item(0, "", gold.items()) for gold in case["gold"]]
        answers = case["predictions"]
    elif name == "dialogre":
        items = [asked(*item["label"].split(", ")) for item in case["items"]]
        answers = [item["pred"] for item in case["items"]]
    else:
        items = [Item("relation", 0, ("", "", ""), (item["label"],)) for item in case["items"]]
        answers = [item["response"] for item in case["items"]]
    return [tally_answer(task_card(name), answer, item) for answer, item in zip(answers, items, strict=True)]


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_replies_have_the_scores_of_the_published_evaluators(golden: dict[str, Any], name: str) -> None:
    """Where the published code divides by zero (``None`` in the golden file), the count or the score is 0."""
    rule = task_card(name).scoring
    cases = golden["evaluate"][name]
    assert len(cases) == 4
    for case in cases:
        expected: dict[str, Any] = {}
        for count in ("gold", "predicted", "correct"):
            expected[count] = case["expected"][count] or 0
        for share in ("precision", "recall", "f1"):
            expected[share] = pytest.approx(case["expected"][share] or 0.0, abs=1e-15)
        assert score_tallies(rule, tallies_of(name, case)) == expected, case["note"]


def test_dialogre_stops_at_500_pairs() -> None:
    tallies = [Tally(("per:age",) * 250, (), ()), None, *[Tally(("per:age",) * 250, (), ())] * 2]
    score = score_tallies(task_card("dialogre").scoring, tallies)
    assert score is not None
    assert score["gold"] == 500


def test_credit_for_containing_a_name() -> None:
    """S18: the published score can be gamed, that of the library's parser cannot."""
    greedy, item = ", ".join(["per:age per:pet per:boss"] * 3), asked("per:age", "per:pet", "per:boss")
    assert len(tally_answer(task_card("dialogre"), greedy, item).correct) == 3
    assert tally_answer(task_card("dialogre"), greedy, item, "library") == Tally(item.gold, (), ())
    two = [label for label in task_card("dialogre").labels if label in ("per:age", "per:pet")]
    assert tally_answer(task_card("dialogre"), " ".join(two[::-1]), asked("per:age")).predicted == (two[0],)


JOY = text_item("ha", "joy")


@pytest.mark.parametrize("parsing", PARSINGS)
def test_foreign_and_empty_answers_are_wrong(parsing: str) -> None:
    for response in ("", "happiness", "joyful"):
        tally, _ = tally_prediction(task_card("goemotions"), response, JOY, parsing)
        assert tally == Tally(("joy",), (), ())
    # 0 / 0 is 0: sentences without entities, and none found.
    score = score_tallies(task_card("few_nerd").scoring, [Tally((), (), ())])
    assert score == dict.fromkeys(("gold", "predicted", "correct", "precision", "recall", "f1"), 0)


labels = st.sampled_from(["per:age", "per:pet", "per:boss"])
some_tallies = st.lists(
    st.builds(
        lambda gold, predicted: Tally((gold,), predicted, (gold,) if predicted == (gold,) else ()),
        labels,
        st.lists(labels, max_size=1).map(tuple),
    ),
    min_size=1,
)


@given(some_tallies, st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(tallies: list[Tally], random: Any) -> None:
    score = score_tallies(task_card("tacred").scoring, tallies)
    random.shuffle(tallies)
    assert score is not None
    assert score_tallies(task_card("tacred").scoring, tallies) == score
    assert 0 <= score["f1"] <= max(score["precision"], score["recall"]) + 1e-15 <= 1 + 1e-15
    accuracy = score_tallies(task_card("banking77").scoring, tallies)
    right = sum(bool(tally.correct) for tally in tallies)
    assert accuracy == {"items": len(tallies), "correct": right, "accuracy": right / len(tallies)}


def test_baselines_are_the_scores_of_guessing() -> None:
    own = task_card("tacred")
    items = [Item("relation", 0, ("", "", ""), (label,)) for label in ["per:age"] * 3 + ["per:title"] * 2]
    uniform, majority, label = guessing_scores(own, items)
    scores = {
        guess: score_tallies(own.scoring, [tally_answer(own, guess, item) for item in items]) for guess in own.labels
    }
    assert (label, uniform, majority) == ("per:age", 1 / 41, pytest.approx(scores["per:age"]["f1"]))
    assert uniform == pytest.approx(math.fsum(score["f1"] for score in scores.values()) / 41)


def test_baselines_of_structured_tasks() -> None:
    assert guessing_scores(task_card("few_nerd"), [entity_item(0, "a", (("a", "art-film"),))]) == (None, None, None)
    pairs = [asked(*["per:age"] * 300), asked(*["per:pet"] * 250), asked(*["per:pet"] * 900)]
    assert guessing_scores(task_card("dialogre"), pairs)[2] == "per:age"  # the published score stops before the last


def test_a_deeply_nested_reply_is_read_as_a_text() -> None:
    nested = "[" * 100_000
    assert by_library("dialogre", nested) == nested
