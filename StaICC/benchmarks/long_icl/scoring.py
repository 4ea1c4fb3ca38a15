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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from StaICC.benchmarks.long_icl.prompts import Item, as_item
from StaICC.benchmarks.long_icl.task_cards import AnswerFormat, ScoringRule, TaskCard, card
from StaICC.errors import ArgumentError, OutputError, known_name
from StaICC.inference.contract import check_answer
from StaICC.inference.reply_parser import parse_reply, reply_text

_AROUND = ".\"'\u201c\u201d\u2018\u2019`*"
_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")


@functools.lru_cache(maxsize=32)
def _labels_by_name(labels: tuple[str, ...], answers: AnswerFormat, fold: bool) -> dict[str, str]:
    names = {label: answers.normal(label) for label in labels}
    return {name.casefold() if fold else name: label for label, name in names.items()}


def as_label(own: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Example:
        >>> from StaICC.benchmarks.long_icl.task_cards import card
        >>> as_label(card("banking77"), '"Reverted_card_payment?".')
        'reverted_card_payment?'
        >>> as_label(card("banking77"), "no idea.")
        'no idea'
    """
    labels = _labels_by_name(own.labels, own.answers, True)
    for candidate in (text.strip(), text.strip().strip(_AROUND).strip()):
        label = labels.get(own.answers.normal(candidate).casefold())
        if label is not None:
            return label
    return candidate


def _strict_text(own: TaskCard, response: str, item: Item) -> str:
    """Return the answer as one line of text; see :func:`StaICC.benchmarks.long_icl.scoring.parse_answer`."""
    cue, answer = own.answers.cue, response.strip()
    if item.kind == "dialogue":
        answer = answer.split(cue.format(count=len(item.gold)), 1)[-1].strip()
        line = _before(_before(_first_line(answer.removeprefix("[/INST]")), "Dialogue:"), "[/INST]")
        return ", ".join(as_label(own, part) for part in line.split(","))
    if answer.casefold().startswith(cue.casefold()):
        answer = answer[len(cue) :]
    return as_label(own, _before(_first_line(answer), own.answers.marker))


def _strict_entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    """Return entities and types; see :func:`StaICC.benchmarks.long_icl.scoring.parse_answer`."""
    entities: dict[str, str] = {}
    for line in map(str.strip, response.strip().split("\n")):
        if line.startswith("Sentence: "):
            break
        pieces = line.split(": ")
        if len(pieces) > 1:
            cuts = range(len(pieces) - 1, 0, -1)
            cut = next((cut for cut in cuts if as_label(own, pieces[cut]) in own.labels), cuts[0])
            entity = ": ".join(pieces[:cut]).strip()
            if entity not in item.texts[0]:
                entity = _LIST_MARK.sub("", entity, count=1)
            entities[entity] = as_label(own, pieces[cut])
        elif entities:
            break
    return entities


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
    return text.strip().split("\n", 1)[0]


def _one_label(own: TaskCard, response: str, item: Item) -> str:
    rest = _after_last(response, item.needle)
    if rest is None:
        answer = _before(response, own.answers.marker)
    else:
        parts = rest.strip().split(own.answers.cue) if own.answers.cue else [rest.strip()]
        answer = _before(parts[1], own.answers.marker) if len(parts) > 1 else parts[0]
    return own.answers.normal(_first_line(answer))


def _entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    rest = _after_last(response, item.needle)
    entities: dict[str, str] = {}
    for line in (response if rest is None else rest).strip().split("\n"):
        if ": " not in line or line.startswith(("Sentence", "sentence")):
            break
        entity, kind = line.split(": ")[:2]
        entities[entity] = kind
    return entities


def _relations(own: TaskCard, response: str, item: Item) -> str:
    for needle in (item.needle, own.answers.cue.format(count=len(item.gold))):
        rest = _after_last(response, needle)
        response = (response if rest is None else rest).strip()
    for marker in ("dialogue", "Dialogue"):
        response = _before(response, marker).strip()
    return _before(_first_line(response), "[/INST]").strip()


def _as_published_list(own: TaskCard, text: str) -> str:
    """Return labels between commas if a reply lists them as JSON, or one to a line; else the text."""
    with contextlib.suppress(ValueError):
        listed = json.loads(text)
        if isinstance(listed, list) and all(isinstance(part, str) for part in listed):
            text = ", ".join(listed)
    lines = [_LIST_MARK.sub("", line.strip()).replace("**", "") for line in text.splitlines() if line.strip()]
    return ", ".join(lines) if len(lines) > 1 and all(as_label(own, line) in own.labels for line in lines) else text


def _exact_match(own: TaskCard, response: str, item: Item) -> str:
    """Return the first line without the cue: HELMET writes the cue before the response and reads the line after it."""
    line, cue = response.split("\n", 1)[0].strip(), own.answers.cue
    return own.answers.normal(line[len(cue) :] if line[: len(cue)].lower() == cue else line)


Parsed = str | dict[str, str]
"""A parsed answer: one line of text; for Few-NERD entities and types."""
_PUBLISHED: Mapping[str, Callable[[TaskCard, str, Item], Parsed]] = {"entities": _entities, "dialogue": _relations}


def _parse(own: TaskCard, response: str, item: Item, variant: str, prompt: str | None) -> Parsed:
    """Return the answer in a response; arguments as :func:`parse_answer`."""
    if not isinstance(response, str):
        raise ArgumentError(f"response must be text, not {response!r}")
    if known_name("parsing", variant, PARSINGS) == "published":
        read = _exact_match if own.answers.exact_match else _PUBLISHED.get(item.kind, _one_label)
        return read(own, response, item)
    response = response.removeprefix(prompt.rstrip()) if prompt else response  # a model may drop its final blank
    if variant == "tolerant":
        if not own.structured:
            index = parse_reply(response, own.labels).label
            return "" if index is None else own.labels[index]
        response = reply_text(response)
        response = _as_published_list(own, response) if item.kind == "dialogue" else response.replace("**", "")
    return _strict_entities(own, response, item) if item.kind == "entities" else _strict_text(own, response, item)


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
    answer = _parse(card(dataset), response, as_item(dataset, item), variant, prompt)
    return answer if isinstance(answer, str) else [list(pair) for pair in answer.items()]


PARTS = ("gold", "predicted", "correct")
"""The fields of a :class:`Tally`."""
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


def tally_answer(card: TaskCard, answer: Parsed, item: Item, variant: str = "published") -> Tally:
    """Compare a parsed answer to the true labels of an item.

    An entity is correct if the sentence has it (same text) with the same type. Relations of a dialogue are compared
    place by place. Published: a part of the answer is a prediction if it contains the name of a relation, and correct
    if it contains the true one. Strict: it must equal the name.

    Args:
        card: Card of the data set.
        answer: The parsed answer.
        item: The test item.
        variant: ``published`` or ``strict``.
    """
    strict, gold = variant != "published", item.gold
    if not isinstance(answer, str):
        known = {text.strip() if strict else text: kind for (text,), kind in zip(item.arguments, gold, strict=True)}
        correct = tuple(kind for entity, kind in answer.items() if known.get(entity) == kind)
        return Tally(tuple(known.values()), tuple(answer.values()), correct)
    if item.kind != "dialogue":
        label = as_label(card, answer) if strict else _labels_by_name(card.labels, card.answers, False).get(answer, "")
        predicted = (label,) * (label in card.labels)
        return Tally(gold, predicted, gold * (predicted == gold))
    parts = [part.strip() for part in answer.split(",")]

    def named(part: str, label: str) -> bool:
        return part == label if strict else label in part

    predicted = tuple(label for part in parts for label in [*filter(partial(named, part), card.labels)][:1])
    return Tally(gold, predicted, tuple(label for label, part in zip(gold, parts, strict=False) if named(part, label)))


def tally_prediction(
    card: TaskCard, prediction: object, item: Item, variant: str = "published", prompt: str | None = None
) -> tuple[Tally, str]:
    """Score one prediction of any kind.

    Args:
        card: Card of the data set.
        prediction: Text; or, for data sets with one label per item, a label index or one score per label (the first
            label with the highest score is predicted).
        item: The test item.
        variant: How text is parsed: ``published``, ``strict`` or ``tolerant``.
        prompt: The prompt; the strict and the tolerant parser remove it from the beginning of a response.

    Returns:
        The tally, and the parsed answer as text.

    Raises:
        OutputError: The prediction has another type.
    """
    if isinstance(prediction, str):
        answer = _parse(card, prediction, item, variant, prompt)
        text = answer if isinstance(answer, str) else "\n".join(map(": ".join, answer.items()))
        return tally_answer(card, answer, item, variant), text
    if card.structured:
        raise OutputError(f"{card.needs_text}, not {type(prediction).__name__}")
    scores = check_answer(prediction, card.labels)
    assert isinstance(scores, (int, list))  # check_answer accepts no text here
    label = card.labels[scores if isinstance(scores, int) else scores.index(max(scores))]
    return Tally(item.gold, (label,), item.gold * ((label,) == item.gold)), label


def _ratio(numerator: float, denominator: float) -> float:
    """Return the ratio, 0 if the denominator is 0."""
    return numerator / denominator if denominator else 0.0


def scored(rule: ScoringRule, tallies: Iterable[Tally | None], variant: str = "published") -> list[Tally | None]:
    """Return the tallies that are scored: all, except that the published DialogRE score stops at 500 gold labels."""
    counted, gold = [], 0
    for tally in tallies:
        counted.append(tally)
        gold += len(tally.gold) if tally is not None else 0
        if variant != "strict" and rule.stop_at is not None and gold >= rule.stop_at:
            break
    return counted


def score_tallies(
    rule: ScoringRule, tallies: Iterable[Tally | None], variant: str = "published"
) -> dict[str, float] | None:
    """Return the score of tallies, with the counts that it is computed from; ``None`` without items.

    Args:
        rule: Scoring rule of the data set.
        tallies: One tally per item, in order; ``None`` for an item that is left out.
        variant: ``published`` or ``strict``.

    Returns:
        ``items``, ``correct`` and ``accuracy``; or ``gold``, ``predicted``, ``correct``, ``precision``, ``recall`` and
        ``f1``.
    """
    counted = [tally for tally in scored(rule, tallies, variant) if tally is not None]
    if not counted:
        return None
    gold, predicted, correct = (sum(len(getattr(tally, part)) for tally in counted) for part in PARTS)
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


def value_of(score: Mapping[str, float] | None) -> float | None:
    """Return the value of a score with its counts."""
    return None if score is None else score["accuracy"] if "accuracy" in score else score["f1"]


def label_counts(card: TaskCard, tallies: Iterable[Tally | None]) -> dict[str, dict[str, int]]:
    """Return gold, predicted and correct counts for each label, in the order of the card.

    Predictions that are not labels (Few-NERD accepts any type) are not counted.
    """
    known = [tally for tally in tallies if tally is not None]
    counts = {part: Counter(chain.from_iterable(getattr(tally, part) for tally in known)) for part in PARTS}
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
        >>> from StaICC.benchmarks.long_icl.prompts import Item
        >>> texts = [Item("text", row, ("ha",), (label,)) for row, label in enumerate(["joy", "fear", "joy"])]
        >>> guessing_scores(card("goemotions"), texts)[2]
        'joy'
    """
    if card.kind == "entities":
        return None, None, None
    tallies = scored(card.scoring, (Tally(item.gold, (), ()) for item in items), variant)
    gold = Counter(label for tally in tallies if tally for label in tally.gold)
    label, count = gold.most_common(1)[0]
    return 1 / len(card.labels), count / gold.total(), label
