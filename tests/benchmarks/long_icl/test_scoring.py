from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl import card
from StaICC.benchmarks.long_icl.baselines import compute_baselines
from StaICC.benchmarks.long_icl.data.items import DialogueItem, EntityItem, Relation, RelationItem, TextItem
from StaICC.benchmarks.long_icl.scoring import (
    Accuracy,
    MicroF1,
    Tally,
    label_counts,
    score_tallies,
    tally_entities,
    tally_label,
    tally_prediction,
    tally_relations,
)
from StaICC.errors import OutputError, UndefinedMetricError


def asked(*relations: str) -> DialogueItem:
    return DialogueItem(0, "", tuple(Relation("x", "y", relation) for relation in relations))


def tallies_of(name: str, case: dict[str, Any], variant: str = "published") -> list[Tally]:
    own = card(name)
    if name == "few_nerd":
        pairs = zip(case["gold"], case["predictions"], strict=True)
        return [tally_entities(own, given, EntityItem(0, "", tuple(gold.items())), variant) for gold, given in pairs]
    if name == "dialogre":
        return [
            tally_relations(own, item["pred"], asked(*item["label"].split(", ")), variant) for item in case["items"]
        ]
    items = case["items"]
    return [tally_label(own, item["response"], RelationItem(0, "", "", "", item["label"]), variant) for item in items]


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_published_evaluators(golden: dict[str, Any], name: str) -> None:
    assert len(golden["evaluate"][name]) == 4
    for case in golden["evaluate"][name]:
        expected = case["expected"]
        score = score_tallies(card(name).scoring, tallies_of(name, case))
        assert isinstance(score, MicroF1)
        for part in ("gold", "predicted", "correct"):
            assert getattr(score, part) == expected[part], case["note"]
        assert score.precision == pytest.approx(expected["precision"], abs=1e-15)
        assert score.recall == pytest.approx(expected["recall"], abs=1e-15)
        # Where the original divides by zero, the score is 0.
        assert score.f1 == pytest.approx(expected["f1"] or 0.0, abs=1e-15)
        assert score.value == score.f1


@pytest.mark.parametrize("name", ["few_nerd", "dialogre", "tacred"])
def test_strict_scores_are_plain_divisions(golden: dict[str, Any], name: str) -> None:
    """S17, S21."""
    for case in golden["evaluate"][name]:
        tallies = tallies_of(name, case, "strict")
        score = score_tallies(card(name).scoring, tallies, "strict")
        assert isinstance(score, MicroF1)
        gold, predicted, correct = (
            sum(len(part) for part in parts)
            for parts in zip(*((one.gold, one.predicted, one.correct) for one in tallies), strict=True)
        )
        assert (score.gold, score.predicted, score.correct) == (gold, predicted, correct)
        assert score.precision == (correct / predicted if predicted else 0)
        assert score.recall == correct / gold
        assert score.f1 == 2 * correct / (gold + predicted)


def test_dialogre_stops_at_500_pairs_only_if_published() -> None:
    tallies = [Tally(("per:age",) * 300, (), ())] * 3
    for variant, gold in (("published", 600), ("strict", 900)):
        score = score_tallies(card("dialogre").scoring, tallies, variant)
        assert isinstance(score, MicroF1)
        assert score.gold == gold


def test_credit_for_containing_a_name() -> None:
    """S18: the published score can be gamed, the strict one cannot."""
    greedy = ", ".join(["per:age per:pet per:boss"] * 3)
    item = asked("per:age", "per:pet", "per:boss")
    own = card("dialogre")
    assert len(tally_relations(own, greedy, item).correct) == 3
    assert tally_relations(own, greedy, item, "strict") == Tally(item.gold, (), ())


def test_strict_keeps_blanks_around_an_entity_out() -> None:
    item = EntityItem(0, "", ((" Ox ", "other-god"),))
    assert tally_entities(card("few_nerd"), {"Ox": "other-god"}, item, "strict").correct == ("other-god",)
    assert tally_entities(card("few_nerd"), {"Ox": "other-god"}, item).correct == ()


JOY = TextItem(0, "ha", "joy")
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


@pytest.mark.parametrize("prediction", [0, [0.0] * 66, None])
@pytest.mark.parametrize(("name", "item"), [("few_nerd", EntityItem(0, "", ())), ("dialogre", asked("per:age"))])
def test_structured_tasks_need_text(name: str, item: Any, prediction: Any) -> None:
    with pytest.raises(OutputError, match="the prediction must be text"):
        tally_prediction(card(name), prediction, item)


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
    assert isinstance(score, MicroF1)
    random.shuffle(tallies)
    assert score_tallies(rule, tallies, variant) == score
    assert 0 <= score.f1 <= max(score.precision, score.recall) + 1e-15 <= 1 + 1e-15


@given(some_tallies)
def test_label_counts_add_up(tallies: list[Tally]) -> None:
    counts = label_counts(card("dialogre"), tallies)
    assert [one.label for one in counts] == list(card("dialogre").labels)
    for part in ("gold", "predicted", "correct"):
        assert sum(getattr(one, part) for one in counts) == sum(len(getattr(tally, part)) for tally in tallies)


@given(st.lists(st.booleans(), min_size=1))
def test_accuracy(right: list[bool]) -> None:
    score = score_tallies(card("banking77").scoring, [Tally(("a",), (), ("a",) if one else ()) for one in right])
    assert score == Accuracy(len(right), sum(right), sum(right) / len(right))
    assert score.value == score.accuracy


@pytest.mark.parametrize("name", ["banking77", "tacred", "few_nerd"])
def test_no_items_no_score(name: str) -> None:
    with pytest.raises(UndefinedMetricError, match="at least one item"):
        score_tallies(card(name).scoring, [])
    with pytest.raises(UndefinedMetricError, match="at least one item"):
        compute_baselines(card(name), [])


def test_nothing_asked_and_nothing_found() -> None:
    """0 / 0 is 0: sentences without entities, and none found."""
    for variant in ("published", "strict"):
        score = score_tallies(card("few_nerd").scoring, [Tally((), (), ())], variant)
        assert score == MicroF1(0, 0, 0, 0.0, 0.0, 0.0)


def test_baselines_are_the_scores_of_guessing() -> None:
    own = card("tacred")
    items = [RelationItem(0, "", "", "", label) for label in ["per:age"] * 3 + ["per:title"] * 2]
    found = compute_baselines(own, items)
    always = score_tallies(own.scoring, [tally_label(own, "per:age", item) for item in items], "strict")
    assert found.majority == pytest.approx(always.value)
    assert (found.majority_label, found.uniform) == ("per:age", 1 / 41)
    each = [
        score_tallies(own.scoring, [tally_label(own, guess, item) for item in items], "strict").value
        for guess in own.labels
    ]
    assert found.uniform == pytest.approx(math.fsum(each) / 41)


def test_baselines_of_structured_tasks() -> None:
    entities = compute_baselines(card("few_nerd"), [EntityItem(0, "a", (("a", "art-film"),))])
    assert entities.uniform is None
    assert entities.majority is None
    assert "entities" in entities.note
    pairs = [asked(*["per:age"] * 300), asked(*["per:pet"] * 250), asked(*["per:pet"] * 900)]
    found = compute_baselines(card("dialogre"), pairs)
    assert found.majority_label == "per:age"  # the published score stops before the last
    assert compute_baselines(card("dialogre"), pairs, "strict").majority_label == "per:pet"
