from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card
from StaICC.benchmarks.long_icl.prompts import Item, dialogue_item, entity_item, relation_item, text_item
from StaICC.benchmarks.long_icl.scoring import (
    Tally,
    guessing_scores,
    score_tallies,
    tally_entities,
    tally_label,
    tally_prediction,
    tally_relations,
    value_of,
)
from StaICC.errors import OutputError


def asked(*relations: str) -> Item:
    return dialogue_item(0, "", tuple(("x", "y", relation) for relation in relations))


def tallies_of(name: str, case: dict[str, Any], variant: str = "published") -> list[Tally]:
    own = card(name)
    if name == "few_nerd":
        pairs = zip(case["gold"], case["predictions"], strict=True)
        return [tally_entities(own, given, entity_item(0, "", tuple(gold.items())), variant) for gold, given in pairs]
    if name == "dialogre":
        return [
            tally_relations(own, item["pred"], asked(*item["label"].split(", ")), variant) for item in case["items"]
        ]
    items = case["items"]
    return [tally_label(own, item["response"], relation_item(0, "", "", "", item["label"]), variant) for item in items]


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_published_evaluators(golden: dict[str, Any], name: str) -> None:
    assert len(golden["evaluate"][name]) == 4
    for case in golden["evaluate"][name]:
        expected = case["expected"]
        score = score_tallies(card(name).scoring, tallies_of(name, case))
        for part in ("gold", "predicted", "correct"):
            assert score[part] == expected[part], case["note"]
        assert score["precision"] == pytest.approx(expected["precision"], abs=1e-15)
        assert score["recall"] == pytest.approx(expected["recall"], abs=1e-15)
        # Where the original divides by zero, the score is 0.
        assert score["f1"] == pytest.approx(expected["f1"] or 0.0, abs=1e-15)
        assert value_of(score) == score["f1"]


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_strict_scores_are_plain_divisions(golden: dict[str, Any], name: str) -> None:
    """S17, S21."""
    for case in golden["evaluate"][name]:
        tallies = tallies_of(name, case, "strict")
        score = score_tallies(card(name).scoring, tallies, "strict")
        gold, predicted, correct = (
            sum(len(part) for part in parts)
            for parts in zip(*((one.gold, one.predicted, one.correct) for one in tallies), strict=True)
        )
        assert (score["gold"], score["predicted"], score["correct"]) == (gold, predicted, correct)
        assert score["precision"] == (correct / predicted if predicted else 0)
        assert score["recall"] == correct / gold
        assert score["f1"] == 2 * correct / (gold + predicted)


def test_dialogre_stops_at_500_pairs_only_if_published() -> None:
    tallies = [Tally(("per:age",) * 300, (), ())] * 3
    for variant, gold in (("published", 600), ("strict", 900)):
        score = score_tallies(card("dialogre").scoring, tallies, variant)
        assert score["gold"] == gold


def test_credit_for_containing_a_name() -> None:
    """S18: the published score can be gamed, the strict one cannot."""
    greedy = ", ".join(["per:age per:pet per:boss"] * 3)
    item = asked("per:age", "per:pet", "per:boss")
    own = card("dialogre")
    assert len(tally_relations(own, greedy, item).correct) == 3
    assert tally_relations(own, greedy, item, "strict") == Tally(item.gold, (), ())


def test_strict_keeps_blanks_around_an_entity_out() -> None:
    item = entity_item(0, "", ((" Ox ", "other-god"),))
    assert tally_entities(card("few_nerd"), {"Ox": "other-god"}, item, "strict").correct == ("other-god",)
    assert tally_entities(card("few_nerd"), {"Ox": "other-god"}, item).correct == ()


JOY = text_item(0, "ha", "joy")
NUMBERS = [0.0] * 28


class Array:
    """As NumPy and torch have it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("prediction", "label"),
    [
        (17, "joy"),
        ("Joy\n", "joy"),
        ([*NUMBERS[:17], 0.5, *NUMBERS[18:]], "joy"),
        ((*NUMBERS[:17], 3, *NUMBERS[18:]), "joy"),
        (Array([*NUMBERS[:17], 0.5, *NUMBERS[18:]]), "joy"),
        (Array(17), "joy"),
        (NUMBERS, "admiration"),  # the first of equals
        ([-5.0] * 27 + [-4.0], "neutral"),
        (0, "admiration"),
    ],
)
def test_predictions_of_every_kind(prediction: Any, label: str) -> None:
    tally, answer = tally_prediction(card("goemotions"), prediction, JOY)
    assert answer == label
    assert tally == Tally(("joy",), (label,), ("joy",) if label == "joy" else ())


@pytest.mark.parametrize(
    "prediction",
    [None, True, -1, 28, 1.5, [0.0] * 27, [0.0] * 29, [math.nan] * 28, ["joy"] * 28, {}, {"joy": 1.0}, b"joy"],
)
def test_predictions_that_cannot_be_scored(prediction: Any) -> None:
    with pytest.raises(OutputError, match="query 3: "):
        tally_prediction(card("goemotions"), prediction, JOY, where="query 3")


def test_foreign_and_empty_answers_are_wrong() -> None:
    for response in ("", "happiness", "joyful"):
        for variant in ("published", "strict"):
            tally, _ = tally_prediction(card("goemotions"), response, JOY, variant=variant)
            assert tally == Tally(("joy",), (), ())


labels = st.sampled_from(["per:age", "per:pet", "per:boss"])
some_tallies = st.lists(
    st.builds(
        lambda gold, predicted: Tally((gold,), predicted, (gold,) if predicted == (gold,) else ()),
        labels,
        st.lists(labels, max_size=1).map(tuple),
    ),
    min_size=1,
)


@given(some_tallies, st.randoms(use_true_random=False), st.sampled_from(["published", "strict"]))
def test_the_order_of_items_does_not_matter(tallies: list[Tally], random: Any, variant: str) -> None:
    rule = card("tacred").scoring
    score = score_tallies(rule, tallies, variant)
    random.shuffle(tallies)
    assert score_tallies(rule, tallies, variant) == score
    assert 0 <= score["f1"] <= max(score["precision"], score["recall"]) + 1e-15 <= 1 + 1e-15


@given(st.lists(st.booleans(), min_size=1))
def test_accuracy(right: list[bool]) -> None:
    score = score_tallies(card("banking77").scoring, [Tally(("a",), (), ("a",) if one else ()) for one in right])
    assert score == {"items": len(right), "correct": sum(right), "accuracy": sum(right) / len(right)}
    assert value_of(score) == score["accuracy"]


def test_nothing_asked_and_nothing_found() -> None:
    """0 / 0 is 0: sentences without entities, and none found."""
    for variant in ("published", "strict"):
        score = score_tallies(card("few_nerd").scoring, [Tally((), (), ())], variant)
        assert score == dict.fromkeys(("gold", "predicted", "correct", "precision", "recall", "f1"), 0)


def test_baselines_are_the_scores_of_guessing() -> None:
    own = card("tacred")
    items = [relation_item(0, "", "", "", label) for label in ["per:age"] * 3 + ["per:title"] * 2]
    uniform, majority, label = guessing_scores(own, items)
    always = score_tallies(own.scoring, [tally_label(own, "per:age", item) for item in items], "strict")
    assert majority == pytest.approx(value_of(always))
    assert (label, uniform) == ("per:age", 1 / 41)
    scores = [
        value_of(score_tallies(own.scoring, [tally_label(own, guess, item) for item in items], "strict"))
        for guess in own.labels
    ]
    assert uniform == pytest.approx(math.fsum(scores) / 41)


def test_baselines_of_structured_tasks() -> None:
    assert guessing_scores(card("few_nerd"), [entity_item(0, "a", (("a", "art-film"),))]) == (None, None, None)
    pairs = [asked(*["per:age"] * 300), asked(*["per:pet"] * 250), asked(*["per:pet"] * 900)]
    assert guessing_scores(card("dialogre"), pairs)[2] == "per:age"  # the published score stops before the last
    assert guessing_scores(card("dialogre"), pairs, "strict")[2] == "per:pet"
