"""Responses to answers, and answers to scores.

Responses are parsed as the published parsers do, with their errors corrected, or tolerantly.

A response is the continuation of the prompt, or the prompt with its continuation. The published parsers search for the
query text in the response and take its last occurrence as the query. They are reproduced exactly, with their errors.
The strict variant corrects them (prompt templates are unchanged):

* S5. A turn has no row for an exhausted label (:func:`StaICC.benchmarks.long_icl.prompts.by_turns`).
* S6. The query's text is not searched for in the response. If the response begins with the prompt, the prompt is
  dropped.
* S7. One cue at the beginning of the answer (``intent category:`` ...) is dropped.
* S8. Full stops, quotation marks, backticks and asterisks around a label are dropped, unless a label has them itself.
* S10. Labels are compared without case, in all data sets. Entity texts are compared with case, because they are
  quotations.
* S13. Few-NERD: a line is split at the last ``": "`` before a type of the list (else at the last one),
  and both sides are stripped, so that entities with a colon can be correct.
* S14. Few-NERD: lines without an entity are skipped before the first entity; a bullet or number before an entity is
  dropped, unless it is in the sentence (``1. FC Koeln``); only ``Sentence:`` ends the list, not an entity that
  begins with the word.
* S17. Precision, recall and F1 are ratios without added constants; 0 / 0 is 0.
* S18. DialogRE: a part of the answer counts only if it is a relation's name, not if it contains one.
* S20. DialogRE: the first cue counts, not the last one; the answer ends at ``Dialogue:``, not at the word
  ``dialogue``; an end mark ``[/INST]`` at its beginning is dropped.
* S21. DialogRE: all items are scored, not only the first ones up to 500 pairs.
An empty response or an unknown label is wrong in both variants.

Scores are accuracy, or micro-averaged precision, recall and F1. Each item has a :class:`Tally`: its gold labels, the
predicted labels, and the correct ones. Scores are ratios of sums over tallies, so they do not depend on the order of
the items and can be resampled without parsing again. One published exception: the score of DialogRE leaves out the
items after the one with the 500th gold label.

The published F1 adds 1e-8 to its denominators, so a perfect score is 0.99999999. The published evaluator of Few-NERD
divides by zero if no prediction is correct; this library returns 0.0, as the paper reports. This is the only difference
between the published variant and the published code. The strict variant adds no constant and scores all items.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.long_icl.prompts import Item, as_item
from StaICC.benchmarks.long_icl.task_cards import AnswerFormat, ScoringRule, TaskCard, card
from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError, unknown_name
from StaICC.inference.contract import check_answer
from StaICC.inference.reply_parser import parse_reply, reply_text

_AROUND = ".\"'\u201c\u201d\u2018\u2019`*"
_BULLET = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")


def _without_prompt(response: str, prompt: str | None) -> str:
    """Return the response without the prompt (whose final blank the model may drop)."""
    return response.removeprefix(prompt.rstrip()).strip() if prompt else response.strip()


@functools.lru_cache(maxsize=16)
def _labels_by_name(labels: tuple[str, ...], answers: AnswerFormat) -> dict[str, str]:
    return {answers.normal(label).casefold(): label for label in labels}


def as_label(own: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Example:
        >>> from StaICC.benchmarks.long_icl.task_cards import card
        >>> as_label(card("banking77"), '"Reverted_card_payment?".')
        'reverted_card_payment?'
        >>> as_label(card("banking77"), "no idea.")
        'no idea'
    """
    labels = _labels_by_name(own.labels, own.answers)
    for candidate in (text.strip(), text.strip().strip(_AROUND).strip()):
        found = labels.get(own.answers.normal(candidate).casefold())
        if found is not None:
            return found
    return candidate


def _without_cue(answer: str, cue: str) -> str:
    """Return the answer without one cue at its beginning."""
    return answer[len(cue) :].strip() if answer.casefold().startswith(cue.casefold()) else answer


def _strict_text(own: TaskCard, response: str, item: Item, prompt: str | None) -> str:
    """Return the answer as one line of text; see :func:`StaICC.benchmarks.long_icl.scoring.parse_answer`."""
    answer = _without_prompt(response, prompt)
    cue = own.answers.cue
    if item.kind == "dialogue":
        cue = cue.format(count=len(item.gold))
        answer = answer.split(cue, 1)[-1].strip()
        line = answer.removeprefix("[/INST]").strip().split("\n", 1)[0]
        line = line.split("Dialogue:", 1)[0].split("[/INST]", 1)[0]
        return ", ".join(as_label(own, part) for part in line.split(","))
    line = _without_cue(answer, cue).split("\n", 1)[0]
    if own.answers.marker is not None:
        line = line.split(own.answers.marker, 1)[0]
    return as_label(own, line)


def _split(own: TaskCard, line: str) -> tuple[str, str]:
    """Return entity and type of a line that contains ``": "``."""
    pieces = line.split(": ")
    cut = len(pieces) - 1
    for place in range(cut, 0, -1):
        if as_label(own, pieces[place]) in own.labels:
            cut = place
            break
    return ": ".join(pieces[:cut]).strip(), as_label(own, pieces[cut])


def _strict_entities(own: TaskCard, response: str, item: Item, prompt: str | None) -> dict[str, str]:
    """Return entities and types; see :func:`StaICC.benchmarks.long_icl.scoring.parse_answer`."""
    found: dict[str, str] = {}
    for line in map(str.strip, _without_prompt(response, prompt).split("\n")):
        if line.startswith("Sentence: "):
            break
        if ": " in line:
            entity, kind = _split(own, line)
            if entity not in item.texts[0]:
                entity = _BULLET.sub("", entity, count=1)
            found[entity] = kind
        elif found:
            break
    return found


VARIANTS = ("published", "strict")
"""``published``: as the published code; ``strict``: with its errors corrected."""

PARSINGS = (*VARIANTS, "tolerant")
"""``tolerant``: with the parser of all benchmarks (:mod:`StaICC.inference.reply_parser`); lists of labels as in
``strict``, after reasoning, out of code blocks, and as JSON or one to a line too."""


def _after_last(response: str, needle: str) -> str | None:
    """Return the text after the last occurrence; None if there is none."""
    place = response.rfind(needle) if needle else -1
    return None if place < 0 else response[place + len(needle) :]


def _before(text: str, marker: str | None) -> str:
    return text if marker is None else text.split(marker, 1)[0]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0].strip()


def _one_label(own: TaskCard, response: str, item: Item) -> str:
    rest = _after_last(response, item.needle)
    if rest is None:
        answer = _before(response, own.answers.marker)
    else:
        parts = rest.strip().split(own.answers.cue) if own.answers.cue else [rest.strip()]
        answer = _before(parts[1], own.answers.marker) if len(parts) > 1 else parts[0]
    return own.answers.normal(_first_line(answer))


def _entities(response: str, item: Item) -> dict[str, str]:
    rest = _after_last(response, item.needle)
    found: dict[str, str] = {}
    for line in (response if rest is None else rest).strip().split("\n"):
        if ": " not in line or line.startswith(("Sentence", "sentence")):
            break
        entity, kind = line.split(": ")[:2]
        found[entity] = kind
    return found


def _relations(own: TaskCard, response: str, item: Item) -> str:
    cue = own.answers.cue.format(count=len(item.gold))
    for needle in (item.needle, cue):
        rest = _after_last(response, needle)
        response = (response if rest is None else rest).strip()
    for marker in ("dialogue", "Dialogue"):
        response = _before(response, marker).strip()
    return _before(_first_line(response), "[/INST]").strip()


def _checked(response: str, variant: str) -> None:
    if not isinstance(response, str):
        raise ArgumentError(f"response must be text, not {response!r}")
    if variant not in PARSINGS:
        raise unknown_name("parsing", variant, PARSINGS)


_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d{1,3}[.)])\s+")


def _tolerant(own: TaskCard, response: str, item: Item, prompt: str | None) -> str:
    response = response.removeprefix(prompt.rstrip()) if prompt else response
    if item.kind != "dialogue":
        found = parse_reply(response, own.labels).label
        return "" if found is None else own.labels[found]
    text = reply_text(response)
    with contextlib.suppress(ValueError):
        listed = json.loads(text)
        if isinstance(listed, list) and all(isinstance(part, str) for part in listed):
            text = ", ".join(listed)
    lines = [_LIST_MARK.sub("", line.strip()).replace("**", "") for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(as_label(own, line) in own.labels for line in lines):
        text = ", ".join(lines)
    return _strict_text(own, text, item, None)


def parse_text(
    own: TaskCard, response: str, item: Item, *, variant: str = "published", prompt: str | None = None
) -> str:
    """Return the answer as one line of text (all data sets except Few-NERD); arguments as :func:`parse_answer`."""
    _checked(response, variant)
    if variant == "tolerant":
        return _tolerant(own, response, item, prompt)
    if variant == "strict":
        return _strict_text(own, response, item, prompt)
    return _relations(own, response, item) if item.kind == "dialogue" else _one_label(own, response, item)


def parse_entities(
    own: TaskCard, response: str, item: Item, *, variant: str = "published", prompt: str | None = None
) -> dict[str, str]:
    """Return entities and types, in order (Few-NERD); arguments as :func:`parse_answer`."""
    _checked(response, variant)
    if variant == "tolerant":
        response = reply_text(response).replace("**", "")
    return _entities(response, item) if variant == "published" else _strict_entities(own, response, item, prompt)


def parse_answer(
    dataset: str,
    response: str,
    item: Item | Mapping[str, Any],
    *,
    variant: str = "published",
    prompt: str | None = None,
) -> str | list[list[str]]:
    r"""Return the answer in a response, in normal form.

    Args:
        dataset: Such as ``"banking77"``.
        response: The generated text, with or without the prompt.
        item: The test item: a record, or a mapping with its fields (see
            :func:`~StaICC.benchmarks.long_icl.prompts.as_item`).
        variant: ``published``, ``strict`` or ``tolerant``.
        prompt: The prompt; the other variants remove it from the beginning of the response.

    Returns:
        The label as text (in lower case for BANKING77, GoEmotions and Discovery); for DialogRE the list of relations
        as one text; for Few-NERD ``[entity, type]`` lists, in order.

    Raises:
        UnknownNameError: The data set or parsing is unknown.
        ArgumentError: The response is not text, or the item lacks a field.

    Example:
        >>> parse_answer("banking77", "Card_Arrival\nservice query: another", {"text": "Where is it?"})
        'card_arrival'
        >>> parse_answer("few_nerd", "Calder Bay: location-GPE", {"sentence": "Off to Calder Bay."})
        [['Calder Bay', 'location-GPE']]
    """
    own, query = card(dataset), as_item(dataset, item)
    if query.kind == "entities":
        found = parse_entities(own, response, query, variant=variant, prompt=prompt)
        return [list(pair) for pair in found.items()]
    return parse_text(own, response, query, variant=variant, prompt=prompt)


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


def tally_entities(card: TaskCard, answer: dict[str, str], item: Item, variant: str = "published") -> Tally:
    """Compare entities and types; an entity is correct if the sentence has it (same text) with the same type."""
    strict = variant != "published"
    entities = zip(item.arguments, item.gold, strict=True)
    gold = {entity.strip() if strict else entity: kind for (entity,), kind in entities}
    correct = tuple(kind for entity, kind in answer.items() if gold.get(entity) == kind)
    return Tally(tuple(gold.values()), tuple(answer.values()), correct)


def tally_relations(card: TaskCard, answer: str, item: Item, variant: str = "published") -> Tally:
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
    assert isinstance(answer, (int, list))  # check_answer accepts no text here
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
    if item.kind == "entities":
        found = parse_entities(card, prediction, item, variant=variant, prompt=prompt)
        answer = "\n".join(f"{entity}: {kind}" for entity, kind in found.items())
        return tally_entities(card, found, item, variant), answer
    answer = parse_text(card, prediction, item, variant=variant, prompt=prompt)
    if item.kind == "dialogue":
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


def score_tallies(rule: ScoringRule, tallies: Iterable[Tally], variant: str = "published") -> dict[str, float]:
    """Return the score of tallies, with the counts that it is computed from.

    Args:
        rule: Scoring rule of the data set.
        tallies: One tally per item, in order.
        variant: ``published`` or ``strict``.

    Returns:
        ``items``, ``correct`` and ``accuracy``; or ``gold``, ``predicted``, ``correct``, ``precision``, ``recall`` and
        ``f1``.

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
        return {"items": gold, "correct": correct, "accuracy": correct / gold}
    if variant == "strict":
        precision, recall = _ratio(correct, predicted), _ratio(correct, gold)
        f1 = _ratio(2 * correct, predicted + gold)  # the harmonic mean of the two, without rounding them first
    else:
        precision, recall = _ratio(correct, predicted + SMALL), _ratio(correct, gold + SMALL)
        f1 = _ratio(2 * precision * recall, precision + recall + rule.f1_constant)
    counts = {"gold": gold, "predicted": predicted, "correct": correct}
    return {**counts, "precision": precision, "recall": recall, "f1": f1}


def value_of(score: Mapping[str, float]) -> float:
    """Return the value of a score with its counts."""
    return score["accuracy"] if "accuracy" in score else score["f1"]


def label_counts(card: TaskCard, tallies: Sequence[Tally]) -> dict[str, dict[str, int]]:
    """Return gold, predicted and correct counts for each label, in the order of the card.

    Predictions that are not labels (Few-NERD accepts any type) are not counted.
    """
    counts = {
        part: Counter(label for tally in tallies for label in getattr(tally, part))
        for part in ("gold", "predicted", "correct")
    }
    return {label: {part: of_part[label] for part, of_part in counts.items()} for label in card.labels}


def guessing_scores(
    card: TaskCard, items: Sequence[Item], variant: str = "published"
) -> tuple[float | None, float | None, str | None]:
    """Return the scores of predictions that do not depend on the query.

    In DialogRE, a guess is one relation per pair. Few-NERD asks for the entities too, and a random guess of entities is
    not defined.

    Args:
        card: Card of the data set.
        items: The test items.
        variant: ``published`` or ``strict`` (the published score of DialogRE leaves out items after the 500th pair).

    Returns:
        The expected score of a label drawn uniformly (with one guess per gold label, accuracy, precision, recall and F1
        all equal 1 / labels), the score of always predicting the most frequent label of the test items, and this label;
        ``None`` if they are undefined.

    Example:
        >>> from StaICC.benchmarks.long_icl.task_cards import card
        >>> from StaICC.benchmarks.long_icl.prompts import text_item
        >>> texts = [text_item(0, "ha", "joy"), text_item(1, "oh", "fear"), text_item(2, "yes", "joy")]
        >>> guessing_scores(card("goemotions"), texts)[2]
        'joy'
    """
    if card.kind == "entities":
        return None, None, None
    tallies = scored(card.scoring, (Tally(item.gold, (), ()) for item in items), variant)
    gold = Counter(label for tally in tallies for label in tally.gold)
    label, count = gold.most_common(1)[0]
    return 1 / len(card.labels), count / gold.total(), label
