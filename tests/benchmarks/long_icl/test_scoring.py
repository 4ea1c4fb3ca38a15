from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card
from StaICC.benchmarks.long_icl.protocol import (
    Item,
    Tally,
    dialogue_item,
    entity_item,
    guessing_scores,
    score_tallies,
    tally_answer,
    tally_prediction,
)
from tests.benchmarks.long_icl.conftest import text_item


def asked(*relations: str) -> Item:
    return dialogue_item(0, "", tuple(("x", "y", relation) for relation in relations))


def tallies_of(name: str, case: dict[str, Any], variant: str) -> list[Tally]:
    if name == "few_nerd":
        items = [entity_item(0, "", gold.items()) for gold in case["gold"]]
        answers = case["predictions"]
    elif name == "dialogre":
        items = [asked(*item["label"].split(", ")) for item in case["items"]]
        answers = [item["pred"] for item in case["items"]]
    else:
        items = [Item("relation", 0, ("", "", ""), (item["label"],)) for item in case["items"]]
        answers = [item["response"] for item in case["items"]]
    return [tally_answer(card(name), answer, item, variant) for answer, item in zip(answers, items, strict=True)]


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_published_evaluators(golden: dict[str, Any], name: str) -> None:
    """The strict scores (S17, S21) are plain divisions."""
    rule = card(name).scoring
    assert len(golden["evaluate"][name]) == 4
    for case in golden["evaluate"][name]:
        expected = {part: case["expected"][part] or 0 for part in ("gold", "predicted", "correct")}
        expected |= {part: pytest.approx(case["expected"][part] or 0.0, abs=1e-15) for part in ("precision", "recall")}
        # Where the original divides by zero, the score is 0.
        expected["f1"] = pytest.approx(case["expected"]["f1"] or 0.0, abs=1e-15)
        assert score_tallies(rule, tallies_of(name, case, "published")) == expected, case["note"]
        tallies = tallies_of(name, case, "strict")
        gold = sum(len(one.gold) for one in tallies)
        predicted = sum(len(one.predicted) for one in tallies)
        correct = sum(len(one.correct) for one in tallies)
        assert score_tallies(rule, tallies, "strict") == {
            "gold": gold,
            "predicted": predicted,
            "correct": correct,
            "precision": correct / predicted if predicted else 0,
            "recall": correct / gold,
            "f1": 2 * correct / (gold + predicted),
        }


def test_dialogre_stops_at_500_pairs_only_if_published() -> None:
    tallies = [Tally(("per:age",) * 250, (), ()), None, *[Tally(("per:age",) * 250, (), ())] * 2]
    for variant, gold in (("published", 500), ("strict", 750)):
        score = score_tallies(card("dialogre").scoring, tallies, variant)
        assert score is not None
        assert score["gold"] == gold


def test_credit_for_containing_a_name() -> None:
    """S18: the published score can be gamed, the strict one cannot."""
    greedy, item = ", ".join(["per:age per:pet per:boss"] * 3), asked("per:age", "per:pet", "per:boss")
    assert len(tally_answer(card("dialogre"), greedy, item).correct) == 3
    assert tally_answer(card("dialogre"), greedy, item, "strict") == Tally(item.gold, (), ())
    two = [label for label in card("dialogre").labels if label in ("per:age", "per:pet")]
    assert tally_answer(card("dialogre"), " ".join(two[::-1]), asked("per:age")).predicted == (two[0],)


JOY = text_item("ha", "joy")


@pytest.mark.parametrize("variant", ["published", "strict"])
def test_foreign_and_empty_answers_are_wrong(variant: str) -> None:
    for response in ("", "happiness", "joyful"):
        tally, _ = tally_prediction(card("goemotions"), response, JOY, variant)
        assert tally == Tally(("joy",), (), ())
    # 0 / 0 is 0: sentences without entities, and none found.
    score = score_tallies(card("few_nerd").scoring, [Tally((), (), ())], variant)
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


@given(some_tallies, st.randoms(use_true_random=False), st.sampled_from(["published", "strict"]))
def test_the_order_of_items_does_not_matter(tallies: list[Tally], random: Any, variant: str) -> None:
    score = score_tallies(card("tacred").scoring, tallies, variant)
    random.shuffle(tallies)
    assert score is not None
    assert score_tallies(card("tacred").scoring, tallies, variant) == score
    assert 0 <= score["f1"] <= max(score["precision"], score["recall"]) + 1e-15 <= 1 + 1e-15
    accuracy = score_tallies(card("banking77").scoring, tallies, variant)
    right = sum(bool(tally.correct) for tally in tallies)
    assert accuracy == {"items": len(tallies), "correct": right, "accuracy": right / len(tallies)}


def test_baselines_are_the_scores_of_guessing() -> None:
    own = card("tacred")
    items = [Item("relation", 0, ("", "", ""), (label,)) for label in ["per:age"] * 3 + ["per:title"] * 2]
    uniform, majority, label = guessing_scores(own, items)
    scores = {
        guess: score_tallies(own.scoring, [tally_answer(own, guess, item) for item in items], "strict")
        for guess in own.labels
    }
    assert (label, uniform, majority) == ("per:age", 1 / 41, pytest.approx(scores["per:age"]["f1"]))
    assert uniform == pytest.approx(math.fsum(score["f1"] for score in scores.values()) / 41)


def test_baselines_of_structured_tasks() -> None:
    assert guessing_scores(card("few_nerd"), [entity_item(0, "a", (("a", "art-film"),))]) == (None, None, None)
    pairs = [asked(*["per:age"] * 300), asked(*["per:pet"] * 250), asked(*["per:pet"] * 900)]
    assert guessing_scores(card("dialogre"), pairs)[2] == "per:age"  # the published score stops before the last
    assert guessing_scores(card("dialogre"), pairs, "strict")[2] == "per:pet"
