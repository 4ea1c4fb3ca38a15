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
    """Compare a parsed answer to the true labels of an item. How depends on what an answer to this kind of item is.

    Args:
        card: Card of the data set.
        answer: The parsed answer: of a sentence with entities, the type of each entity; otherwise a text.
        item: The test item.
        parsing: How the answer was parsed, a value of :data:`~StaICC.long_icl.parsing.PARSINGS`.
        names: What the prompt calls the labels (:func:`tally_prediction`). Only the prompts of items with one label, or
            with a list of labels, can have other names than the card.
    """
    is_published = parsing == "published"
    if not isinstance(answer, str):
        return _tally_entities(answer, item, is_published=is_published)
    if item.kind == "dialogue":
        return _tally_relations(card, answer, item, is_published=is_published)
    card_with_names = _with_label_names(card, names)
    if item.kind == "labels":
        return _tally_labels(card, card_with_names, answer, item)
    return _tally_one_label(card, card_with_names, answer, item, is_published=is_published)


def _with_label_names(card: TaskCard, names: tuple[str, ...]) -> TaskCard:
    """Return a card with the names that a prompt has for the labels; no names: the card itself."""
    if not names:
        return card
    return replace(card, labels=names)


def _tally_one_label(card: TaskCard, named_card: TaskCard, answer: str, item: Item, *, is_published: bool) -> Tally:
    """Compare a parsed label to the true one.

    Args:
        card: Card of the data set.
        named_card: The card with the names that the prompt has for the labels.
        answer: The parsed answer.
        item: The test item.
        is_published: Whether the published parser read the answer. It returns the normal form of a label.
    """
    if is_published:
        label_of_name = labels_by_name(named_card.labels, named_card.answers, fold=False)
        name = label_of_name.get(answer, "")
    else:
        name = as_label(named_card, answer)
    if name not in named_card.labels:
        return Tally(item.gold, predicted=(), correct=())
    predicted_label = card.labels[named_card.labels.index(name)]
    return _tally_of_label(predicted_label, item)


def _tally_of_label(predicted_label: str, item: Item) -> Tally:
    """Return the tally of an item with one true label for which a label is predicted."""
    predicted = (predicted_label,)
    correct: tuple[str, ...] = ()
    if predicted == item.gold:
        correct = item.gold
    return Tally(item.gold, predicted, correct)


def _tally_entities(types_by_entity: Mapping[str, str], item: Item, *, is_published: bool) -> Tally:
    """Compare entities to those of a sentence. One is correct if the sentence has it (same text) with the same type.

    Args:
        types_by_entity: The type of each entity in the answer.
        item: The test item.
        is_published: Whether the published parser read the answer. The library's parser strips the texts of entities.
    """
    true_types_by_entity = {}
    for arguments, true_type in zip(item.arguments, item.gold, strict=True):
        entity = arguments[0]
        if not is_published:
            entity = entity.strip()
        true_types_by_entity[entity] = true_type

    correct = []
    for entity, entity_type in types_by_entity.items():
        if true_types_by_entity.get(entity) == entity_type:
            correct.append(entity_type)
    return Tally(tuple(true_types_by_entity.values()), tuple(types_by_entity.values()), tuple(correct))


def _tally_relations(card: TaskCard, answer: str, item: Item, *, is_published: bool) -> Tally:
    """Compare the relations of a dialogue place by place: the first part of the answer is about the first pair.

    Args:
        card: Card of the data set.
        answer: The parsed answer, with commas between its parts.
        item: The test item.
        is_published: Whether the published parser read the answer. A part of its answer is a prediction if it contains
            the name of a relation, and correct if it contains the true one. Of the library's parser, it must equal the
            name.
    """

    def names_relation(part: str, relation: str) -> bool:
        if is_published:
            return relation in part
        return relation == part

    parts = [part.strip() for part in answer.split(",")]
    predicted = []
    for part in parts:
        for relation in card.labels:
            if names_relation(part, relation):
                predicted.append(relation)
                break
    correct = []
    # An answer may have fewer or more parts than the dialogue has pairs.
    for true_relation, part in zip(item.gold, parts, strict=False):
        if names_relation(part, true_relation):
            correct.append(true_relation)
    return Tally(item.gold, tuple(predicted), tuple(correct))


def _tally_labels(card: TaskCard, named_card: TaskCard, answer: str, item: Item) -> Tally:
    """Compare a parsed list of labels to the true labels of a text, as sets.

    Args:
        card: Card of the data set.
        named_card: The card with the names that the prompt has for the labels.
        answer: The labels, with the card's separator between them. Parts that are no labels are not counted.
        item: The test item.
    """
    predicted = []
    for part in answer.split(card.answers.separator.strip()):
        name = as_label(named_card, part)
        if name in named_card.labels:
            label = card.labels[named_card.labels.index(name)]
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
        answer = parse_response(_with_label_names(card, names), prediction, item, parsing, prompt)
        return tally_answer(card, answer, item, parsing, names), _answer_text(answer)
    if card.structured:
        raise OutputError(f"{card.needs_text}, not {type(prediction).__name__}")

    answer_or_scores = check_answer(prediction, card.labels)
    assert isinstance(answer_or_scores, (int, list))  # check_answer accepts no text here
    if isinstance(answer_or_scores, int):
        label_index = answer_or_scores
    else:
        label_index = answer_or_scores.index(max(answer_or_scores))
    shown_labels = names or card.labels
    return _tally_of_label(card.labels[label_index], item), shown_labels[label_index]


def _answer_text(answer: Parsed) -> str:
    """Return a parsed answer as text: entities and their types one to a line."""
    if isinstance(answer, str):
        return answer
    lines = [f"{entity}: {entity_type}" for entity, entity_type in answer.items()]
    return "\n".join(lines)


def _ratio(numerator: float, denominator: float) -> float:
    """Return the ratio, 0 if the denominator is 0."""
    if denominator == 0:
        return 0.0
    return numerator / denominator


def scored(rule: ScoringRule, tallies: Iterable[Tally | None]) -> list[Tally | None]:
    """Return the tallies that are scored: all, except that the published DialogRE score stops at 500 gold labels."""
    scored_tallies = []
    gold_count = 0
    for tally in tallies:
        scored_tallies.append(tally)
        if tally is not None:
            gold_count += len(tally.gold)
        if rule.stop_at is not None and gold_count >= rule.stop_at:
            break
    return scored_tallies


def score_tallies(rule: ScoringRule, tallies: Iterable[Tally | None]) -> dict[str, float] | None:
    """Return the score of tallies, with the counts that it is computed from; ``None`` without items.

    Args:
        rule: Scoring rule of the data set.
        tallies: One tally per item, in order; ``None`` for an item that is left out.

    Returns:
        ``items``, ``correct`` and ``accuracy``; or ``gold``, ``predicted``, ``correct``, ``precision``, ``recall`` and
        ``f1``.
    """
    gold_count = 0
    predicted_count = 0
    correct_count = 0
    item_count = 0
    for tally in scored(rule, tallies):
        if tally is None:
            continue
        item_count += 1
        gold_count += len(tally.gold)
        predicted_count += len(tally.predicted)
        correct_count += len(tally.correct)
    if item_count == 0:
        return None
    if rule.metric == "accuracy":
        return {"items": gold_count, "correct": correct_count, "accuracy": correct_count / gold_count}
    precision = _ratio(correct_count, predicted_count + rule.ratio_constant)
    recall = _ratio(correct_count, gold_count + rule.ratio_constant)
    f1 = _ratio(2 * precision * recall, precision + recall + rule.f1_constant)
    return {
        "gold": gold_count,
        "predicted": predicted_count,
        "correct": correct_count,
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }


def value_of(score: Mapping[str, float] | None) -> float | None:
    """Return the accuracy or F1 of a score with its counts; ``None`` without a score."""
    if score is None:
        return None
    if "accuracy" in score:
        return score["accuracy"]
    return score["f1"]


def label_counts(card: TaskCard, tallies: Iterable[Tally | None]) -> dict[str, dict[str, int]]:
    """Return gold, predicted and correct counts for each label, in the order of the card.

    Predictions that are not labels (Few-NERD accepts any type) are not counted.
    """
    gold: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for tally in tallies:
        if tally is not None:
            gold.update(tally.gold)
            predicted.update(tally.predicted)
            correct.update(tally.correct)
    counts = {}
    for label in card.labels:
        counts[label] = {"gold": gold[label], "predicted": predicted[label], "correct": correct[label]}
    return counts


class GuessingScores(NamedTuple):
    """Scores of predictions that do not depend on the query; ``None`` if they are undefined."""

    uniform: float | None
    """The expected score of a label drawn uniformly. With one guess for each gold label, accuracy, precision, recall
    and F1 all equal 1 / labels."""
    majority: float | None
    """The score of always predicting the most frequent label of the test items."""
    majority_label: str | None
    """The most frequent label."""


def guessing_scores(card: TaskCard, items: Sequence[Item]) -> GuessingScores:
    """Return the scores of predictions that do not depend on the query.

    In DialogRE, a guess is one relation per pair. Few-NERD asks for the entities too, and a random guess of entities is
    not defined. Of a text with several labels, one label is guessed.

    Args:
        card: Card of the data set.
        items: The test items. The score of DialogRE leaves out items after the 500th pair.

    Example:
        >>> from StaICC.long_icl.cards import task_card
        >>> texts = [Item("text", row, ("ha",), (label,)) for row, label in enumerate(["joy", "fear", "joy"])]
        >>> guessing_scores(task_card("goemotions"), texts).majority_label
        'joy'
    """
    if card.kind == "entities":
        return GuessingScores(None, None, None)
    gold: Counter[str] = Counter()
    for tally in scored(card.scoring, [Tally(item.gold, (), ()) for item in items]):
        if tally is not None:
            gold.update(tally.gold)
    majority_label, majority_count = gold.most_common(1)[0]
    gold_count = gold.total()
    if card.kind == "labels":
        # One label is guessed for each text. F1 is 2 * correct / (gold + predicted labels). Of a label drawn uniformly,
        # gold / labels guesses are correct on average.
        gold_and_predicted_count = gold_count + len(items)
        uniform = 2 * gold_count / len(card.labels) / gold_and_predicted_count
        majority = 2 * majority_count / gold_and_predicted_count
        return GuessingScores(uniform, majority, majority_label)
    return GuessingScores(1 / len(card.labels), majority_count / gold_count, majority_label)
