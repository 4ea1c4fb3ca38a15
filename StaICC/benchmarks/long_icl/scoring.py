"""Scores: accuracy, and micro-averaged precision, recall and F1.

Each item has a :class:`Tally`: its gold labels, the predicted labels, and the correct ones. Scores are ratios of sums
over tallies, so they do not depend on the order of the items and can be resampled without parsing again. One published
exception: the score of DialogRE leaves out the items after the one with the 500th gold label.

The published F1 adds 1e-8 to its denominators, so a perfect score is 0.99999999. The published evaluator of Few-NERD
divides by zero if no prediction is correct; this library returns 0.0, as the paper reports. This is the only difference
between the published variant and the published code. The strict variant adds no constant and scores all items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from StaICC.benchmarks.long_icl.data.cards import ScoringRule, TaskCard
from StaICC.benchmarks.long_icl.data.items import DialogueItem, EntityItem, Item
from StaICC.benchmarks.long_icl.protocol.parsing import parse_entities, parse_text
from StaICC.benchmarks.long_icl.protocol.strict import as_label
from StaICC.errors import OutputError, UndefinedMetricError
from StaICC.inference.contract import check_answer

SMALL = 1e-8
"""The published precision and recall add this constant to their denominators."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Gold, predicted and correct labels of one item."""

    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    """Predicted labels (for items with one label: the answer if it is a label)."""
    correct: tuple[str, ...]
    """Gold labels that are predicted correctly."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Share of correct predictions; an empty response or an unknown label is a wrong prediction."""

    items: int
    correct: int
    accuracy: float

    @property
    def value(self) -> float:
        """The score."""
        return self.accuracy


@dataclass(frozen=True, slots=True)
class MicroF1:
    """Precision, recall and F1 over all labels of all items."""

    gold: int
    predicted: int
    correct: int
    precision: float
    recall: float
    f1: float

    @property
    def value(self) -> float:
        """The score."""
        return self.f1


Score = Accuracy | MicroF1


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Gold, predicted and correct counts of one label."""

    label: str
    gold: int
    predicted: int
    correct: int


def tally_label(card: TaskCard, answer: str, item: Item, variant: str = "published") -> Tally:
    """Compare the answer to the label of an item (all data sets except Few-NERD and DialogRE).

    Args:
        card: Card of the data set.
        answer: The parsed answer.
        item: The test item.
        variant: ``published`` or ``strict``.
    """
    (gold,) = item.gold
    named: str | None
    if variant != "published":
        named = as_label(card, answer)
        named = named if named in card.labels else None
    else:
        named = next((label for label in card.labels if card.answers.normal(label) == answer), None)
    return Tally((gold,), () if named is None else (named,), (gold,) if named == gold else ())


def tally_entities(card: TaskCard, answer: dict[str, str], item: EntityItem, variant: str = "published") -> Tally:
    """Compare entities and types; an entity is correct if the sentence has it (same text) with the same type."""
    strict = variant != "published"
    gold = {entity.strip(): kind for entity, kind in item.entities} if strict else dict(item.entities)
    correct = tuple(kind for entity, kind in answer.items() if gold.get(entity) == kind)
    return Tally(tuple(gold.values()), tuple(answer.values()), correct)


def tally_relations(card: TaskCard, answer: str, item: DialogueItem, variant: str = "published") -> Tally:
    """Compare relations position by position.

    Published: a part of the answer is a prediction if it contains the name of a relation, and correct if it contains
    the gold one. Strict: it must equal the name.
    """
    parts = [part.strip() for part in answer.split(",")]
    gold = item.gold
    if variant != "published":
        named: list[str | None] = [part if part in card.labels else None for part in parts]
        correct = tuple(label for label, part in zip(gold, parts, strict=False) if part == label)
    else:
        named = [next((label for label in card.labels if label in part), None) for part in parts]
        correct = tuple(label for label, part in zip(gold, parts, strict=False) if label in part)
    return Tally(gold, tuple(label for label in named if label is not None), correct)


def _choice(card: TaskCard, prediction: object, where: str) -> str:
    """Return the label of an index, or the label with the highest score."""
    if card.structured:
        raise OutputError(
            f"{where}: items of {card.title} have several labels, so the prediction must be text, not "
            f"{type(prediction).__name__}"
        )
    try:
        answer = check_answer(prediction, card.labels)
    except OutputError as error:
        raise OutputError(f"{where}: {error}") from error
    assert not isinstance(answer, str)  # check_answer accepts no text here
    return card.labels[answer if isinstance(answer, int) else answer.index(max(answer))]


def tally_prediction(
    card: TaskCard,
    prediction: object,
    item: Item,
    *,
    variant: str = "published",
    prompt: str | None = None,
    where: str = "the prediction",
) -> tuple[Tally, str]:
    """Score one prediction of any kind.

    Args:
        card: Card of the data set.
        prediction: Text; or, for data sets with one label per item, a label index or one score per label (the first
            label with the highest score is predicted).
        item: The test item.
        variant: How text is parsed: ``published``, ``strict`` or ``tolerant``.
        prompt: The prompt; the strict and the tolerant parser remove it from the beginning of a response.
        where: Name of the query for error messages.

    Returns:
        The tally, and the parsed answer as text.

    Raises:
        OutputError: The prediction has another type.
    """
    if not isinstance(prediction, str):
        label = _choice(card, prediction, where)
        return Tally(item.gold, (label,), (label,) if (label,) == item.gold else ()), label
    if isinstance(item, EntityItem):
        found = parse_entities(card, prediction, item, variant=variant, prompt=prompt)
        answer = "\n".join(f"{entity}: {kind}" for entity, kind in found.items())
        return tally_entities(card, found, item, variant), answer
    answer = parse_text(card, prediction, item, variant=variant, prompt=prompt)
    if isinstance(item, DialogueItem):
        return tally_relations(card, answer, item, variant), answer
    return tally_label(card, answer, item, variant), answer


def _ratio(numerator: float, denominator: float) -> float:
    """Return the ratio, 0 if the denominator is 0."""
    return numerator / denominator if denominator else 0.0


def scored(rule: ScoringRule, tallies: Iterable[Tally], variant: str = "published") -> list[Tally]:
    """Return the tallies that are scored: all, except that the published DialogRE score stops at 500 gold labels."""
    counted, gold = [], 0
    for tally in tallies:
        counted.append(tally)
        gold += len(tally.gold)
        if variant != "strict" and rule.stop_at is not None and gold >= rule.stop_at:
            break
    return counted


def score_tallies(rule: ScoringRule, tallies: Iterable[Tally], variant: str = "published") -> Score:
    """Return the score of tallies.

    Args:
        rule: Scoring rule of the data set.
        tallies: One tally per item, in order.
        variant: ``published`` or ``strict``.

    Returns:
        :class:`Accuracy` or :class:`MicroF1`, depending on the data set.

    Raises:
        UndefinedMetricError: There are no items.
    """
    counted = scored(rule, tallies, variant)
    if not counted:
        raise UndefinedMetricError("a score needs at least one item")
    gold, predicted, correct = (
        sum(len(getattr(tally, part)) for tally in counted) for part in ("gold", "predicted", "correct")
    )
    if rule.metric == "accuracy":
        return Accuracy(gold, correct, correct / gold)
    return micro_f1(rule, gold, predicted, correct, variant)


def micro_f1(rule: ScoringRule, gold: int, predicted: int, correct: int, variant: str = "published") -> MicroF1:
    """Return precision, recall and F1 from counts.

    Args:
        rule: Scoring rule of the data set.
        gold: Number of gold labels.
        predicted: Number of predicted labels.
        correct: Number of correct labels.
        variant: ``published`` or ``strict``.
    """
    if variant == "strict":
        precision, recall = _ratio(correct, predicted), _ratio(correct, gold)
        f1 = _ratio(2 * correct, predicted + gold)  # the harmonic mean of the two, without rounding them first
    else:
        precision, recall = _ratio(correct, predicted + SMALL), _ratio(correct, gold + SMALL)
        f1 = _ratio(2 * precision * recall, precision + recall + rule.f1_constant)
    return MicroF1(gold, predicted, correct, precision, recall, f1)


def label_counts(card: TaskCard, tallies: Sequence[Tally]) -> tuple[LabelCounts, ...]:
    """Return gold, predicted and correct counts for each label, in the order of the card.

    Predictions that are not labels (Few-NERD accepts any type) are not counted.
    """
    gold, predicted, correct = (
        Counter(label for tally in tallies for label in getattr(tally, part))
        for part in ("gold", "predicted", "correct")
    )
    return tuple(LabelCounts(label, gold[label], predicted[label], correct[label]) for label in card.labels)
