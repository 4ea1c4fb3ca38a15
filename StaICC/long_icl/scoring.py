"""Scores of responses: accuracy, or micro-averaged precision, recall, F1.

Each item has a :class:`Tally`: its gold labels, the predicted labels, and the correct ones. Scores are ratios of sums
over tallies, so they do not depend on the order of the items and can be resampled without parsing again. One published
exception: the score of DialogRE leaves out the items after the one with the 500th gold label.

The published F1 adds 1e-8 to its denominators, so a perfect score is 0.99999999. The published evaluator of Few-NERD
divides by zero if no prediction is correct; this library returns 0.0, as the paper reports. This is the only difference
from the published code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from StaICC.errors import OutputError
from StaICC.inference.contract import check_answer
from StaICC.long_icl.cards import ScoringRule, TaskCard
from StaICC.long_icl.label_names import as_label, labels_by_name
from StaICC.long_icl.parsing import parse_response
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.published_parser import Parsed


class Tally(NamedTuple):
    """Gold, predicted and correct labels of one item."""

    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    """Predicted labels (for items with one label: the answer if it is a label)."""
    correct: tuple[str, ...]
    """Gold labels that are predicted correctly."""


def tally_answer(
    card: TaskCard, answer: Parsed, item: Item, parsing: str = "published", names: tuple[str, ...] = ()
) -> Tally:
    """Compare a parsed answer to the true labels of an item.

    An entity is correct if the sentence has it (same text) with the same type. Relations of a dialogue are compared
    place by place. With the published parser, a part of the answer is a prediction if it contains the name of a
    relation, and correct if it contains the true one. With the library's parser, it must equal the name.

    Args:
        card: Card of the data set.
        answer: The parsed answer.
        item: The test item.
        parsing: How the answer was parsed, a value of :data:`~StaICC.long_icl.parsing.PARSINGS`.
        names: As for :func:`tally_prediction`.
    """
    exact, gold, own = parsing != "published", item.gold, replace(card, labels=names) if names else card
    if not isinstance(answer, str):
        known = {text.strip() if exact else text: kind for (text,), kind in zip(item.arguments, gold, strict=True)}
        correct = tuple(kind for entity, kind in answer.items() if known.get(entity) == kind)
        return Tally(tuple(known.values()), tuple(answer.values()), correct)
    if item.kind == "labels":
        return _tally_labels(card, own, answer, item)
    if item.kind != "dialogue":
        label = as_label(own, answer) if exact else labels_by_name(own.labels, own.answers, False).get(answer, "")
        predicted: tuple[str, ...] = (card.labels[own.labels.index(label)],) if label in own.labels else ()
        return Tally(gold, predicted, gold * (predicted == gold))
    parts = [part.strip() for part in answer.split(",")]

    def named(part: str, label: str) -> bool:
        return part == label if exact else label in part

    predicted = tuple(label for part in parts for label in [*filter(partial(named, part), card.labels)][:1])
    return Tally(gold, predicted, tuple(label for label, part in zip(gold, parts, strict=False) if named(part, label)))


def _tally_labels(card: TaskCard, named: TaskCard, answer: str, item: Item) -> Tally:
    """Compare a parsed list of labels to the true labels of a text, as sets.

    Args:
        card: Card of the data set.
        named: The card with the names that the prompt has for the labels.
        answer: The labels, with the card's separator between them. Parts that are no labels are not counted.
        item: The test item.
    """
    predicted = []
    for part in answer.split(card.answers.separator.strip()):
        name = as_label(named, part)
        if name in named.labels:
            label = card.labels[named.labels.index(name)]
            if label not in predicted:
                predicted.append(label)
    correct = tuple(label for label in item.gold if label in predicted)
    return Tally(item.gold, tuple(predicted), correct)


def tally_prediction(
    card: TaskCard,
    prediction: object,
    item: Item,
    parsing: str = "published",
    prompt: str | None = None,
    names: tuple[str, ...] = (),
) -> tuple[Tally, str]:
    """Score one prediction of any kind.

    Args:
        card: Card of the data set.
        prediction: Text; or, for data sets with one label per item, a label index or one score per label (the first
            label with the highest score is predicted).
        item: The test item.
        parsing: How text is parsed, a value of :data:`~StaICC.long_icl.parsing.PARSINGS`.
        prompt: The prompt; the library's parser removes it from the beginning of a response.
        names: What the prompt calls the labels, in their order; by default, the card's names.

    Returns:
        The tally with the card's names, and the parsed answer as text.

    Raises:
        OutputError: The prediction has another type.
    """
    if isinstance(prediction, str):
        answer = parse_response(replace(card, labels=names) if names else card, prediction, item, parsing, prompt)
        text = answer if isinstance(answer, str) else "\n".join(map(": ".join, answer.items()))
        return tally_answer(card, answer, item, parsing, names), text
    if card.structured:
        raise OutputError(f"{card.needs_text}, not {type(prediction).__name__}")
    scores = check_answer(prediction, card.labels)
    assert isinstance(scores, (int, list))  # check_answer accepts no text here
    place = scores if isinstance(scores, int) else scores.index(max(scores))
    predicted = (card.labels[place],)
    return Tally(item.gold, predicted, item.gold * (predicted == item.gold)), (names or card.labels)[place]


def _ratio(numerator: float, denominator: float) -> float:
    """Return the ratio, 0 if the denominator is 0."""
    return numerator / denominator if denominator else 0.0


def scored(rule: ScoringRule, tallies: Iterable[Tally | None]) -> list[Tally | None]:
    """Return the tallies that are scored: all, except that the published DialogRE score stops at 500 gold labels."""
    counted, gold = [], 0
    for tally in tallies:
        counted.append(tally)
        gold += len(tally.gold) if tally is not None else 0
        if rule.stop_at is not None and gold >= rule.stop_at:
            break
    return counted


def score_tallies(rule: ScoringRule, tallies: Iterable[Tally | None]) -> dict[str, float] | None:
    """Return the score of tallies, with the counts that it is computed from; ``None`` without items.

    Args:
        rule: Scoring rule of the data set.
        tallies: One tally per item, in order; ``None`` for an item that is left out.

    Returns:
        ``items``, ``correct`` and ``accuracy``; or ``gold``, ``predicted``, ``correct``, ``precision``, ``recall`` and
        ``f1``.
    """
    counted = [tally for tally in scored(rule, tallies) if tally is not None]
    if not counted:
        return None
    gold, predicted, correct = (sum(map(len, labels)) for labels in zip(*counted, strict=True))
    if rule.metric == "accuracy":
        return {"items": gold, "correct": correct, "accuracy": correct / gold}
    precision = _ratio(correct, predicted + rule.ratio_constant)
    recall = _ratio(correct, gold + rule.ratio_constant)
    f1 = _ratio(2 * precision * recall, precision + recall + rule.f1_constant)
    counts = {"gold": gold, "predicted": predicted, "correct": correct}
    return {**counts, "precision": precision, "recall": recall, "f1": f1}


def value_of(score: Mapping[str, float] | None) -> float | None:
    """Return the value of a score with its counts."""
    if score is None:
        return None
    return score["accuracy"] if "accuracy" in score else score["f1"]


def label_counts(card: TaskCard, tallies: Iterable[Tally | None]) -> dict[str, dict[str, int]]:
    """Return gold, predicted and correct counts for each label, in the order of the card.

    Predictions that are not labels (Few-NERD accepts any type) are not counted.
    """
    known = [tally for tally in tallies if tally is not None]
    counts = {part: Counter(chain.from_iterable(getattr(tally, part) for tally in known)) for part in Tally._fields}
    return {label: {part: of_part[label] for part, of_part in counts.items()} for label in card.labels}


def guessing_scores(card: TaskCard, items: Sequence[Item]) -> tuple[float | None, float | None, str | None]:
    """Return the scores of predictions that do not depend on the query.

    In DialogRE, a guess is one relation per pair. Few-NERD asks for the entities too, and a random guess of entities is
    not defined. Of a text with several labels, one label is guessed.

    Args:
        card: Card of the data set.
        items: The test items. The score of DialogRE leaves out items after the 500th pair.

    Returns:
        The expected score of a label drawn uniformly (with one guess per gold label, accuracy, precision, recall and F1
        all equal 1 / labels), the score of always predicting the most frequent label of the test items, and this label;
        ``None`` if they are undefined.

    Example:
        >>> from StaICC.long_icl.cards import task_card
        >>> texts = [Item("text", row, ("ha",), (label,)) for row, label in enumerate(["joy", "fear", "joy"])]
        >>> guessing_scores(task_card("goemotions"), texts)[2]
        'joy'
    """
    if card.kind == "entities":
        return None, None, None
    tallies = scored(card.scoring, (Tally(item.gold, (), ()) for item in items))
    gold = Counter(label for tally in tallies if tally for label in tally.gold)
    label, count = gold.most_common(1)[0]
    if card.kind == "labels":
        # One guess a text: its F1 is 2 * correct / (true + predicted labels), with gold.total() / labels correct ones.
        labels_altogether = gold.total() + len(items)
        uniform = 2 * gold.total() / len(card.labels) / labels_altogether
        return uniform, 2 * count / labels_altogether, label
    return 1 / len(card.labels), count / gold.total(), label
