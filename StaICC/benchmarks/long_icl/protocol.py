"""The published protocol: cards of the data sets, items and prompts, selection of rows, and scores of responses.

``cards.json`` has everything that differs between the data sets, six of LongICLBench and five of HELMET. Terms: a
*demonstration* is an in-context example; each *round* adds one demonstration per label (round 3 shows each label three
times, if there are enough rows); the *query* is the item to classify; the *cue* is the text before an answer; the
*marker* is the text at which another example begins.

Prompt strings are exact: no blank is added between two parts.

Items are the rows of the data sets as records. There are five kinds: a text with a label (BANKING77, GoEmotions), two
sentences with a label (Discovery), a sentence with two entities and their relation (TACRED), a sentence with its
entities and their types (Few-NERD), a dialogue with pairs of entities and their relations (DialogRE).

All queries of a round share the text before the query (the *context*: instruction, label list if asked for, and
demonstrations), so kernels and servers with prefix caching compute it once.

Demonstrations and test items are selected by deterministic rules over labels. A rule takes the labels of the rows in
file order and returns the indices of the selected rows, in prompt order. The rules of the published protocol:

* ``turns`` (:func:`selected`): one row of each label in each turn, labels in the order in which they first occur;
* ``covering`` (:func:`covering`): one pass through the file; a row is selected if it has a label that is new in this
  turn;
* ``passes``: each pass goes through the file from its start and selects the next row of each label;
* ``at_most``: the first rows of each label, in file order;
* ``balanced`` (:func:`by_balance`): the test items of HELMET, a random row of each label in each turn;
* ``first``: the first rows; ``pairs`` (:func:`by_pairs`): the first dialogues, until the number of pairs is reached.

The strict variant differs in one rule: a turn has no row for an exhausted label, while the published rule selects a row
of the next label instead (so ``joy`` has 26 test items of GoEmotions, other labels 20).

Responses are parsed as the published parsers do, with their errors corrected, or tolerantly.

A response is the continuation of the prompt, or the prompt with its continuation. The published parsers search for the
query text in the response and take its last occurrence as the query. They are reproduced exactly, with their errors.
The strict variant corrects them (prompt templates are unchanged):

* S5. A turn has no row for an exhausted label (:func:`selected`).
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
import importlib.resources
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeVar

from StaICC.datasets.storage import read_value
from StaICC.errors import ArgumentError, OutputError, known_name
from StaICC.inference.contract import check_answer
from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.prompting.sampling import rows_by_label

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
ROUNDS = 5
"""Number of rounds of the benchmark."""


@dataclass(frozen=True, slots=True)
class FileSpec:
    """The file of a split, with its names and published digests."""

    format: str
    """Reader, a key of :data:`StaICC.benchmarks.long_icl.data.READERS`."""
    names: tuple[str, ...] = ()
    """Paths in the data folder; the first one is the installed name."""
    rows: int = 0
    """Rows of the published file."""
    sha256: tuple[str, ...] = ()
    """Digests of the published file, one for each known serialisation of the same rows."""
    rows_sha256: str | None = None
    """Digest of the rows as read (see :func:`StaICC.benchmarks.long_icl.data.load`)."""
    split: str = ""
    """The split of the hub, if it has another name."""


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """How demonstrations or test items are selected (see :mod:`StaICC.benchmarks.long_icl.protocol`)."""

    rule: str
    expected: tuple[int, ...] = ()
    """Number of demonstrations of rounds 1 to 5 with the published data; empty for test items, and without rounds."""
    size: int | None = None
    """Number of turns, or of items per label, of test items; None if the rule has no such number."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The constant strings of the prompts."""

    plain: str
    """First text of the prompt, without label list."""
    instruct: tuple[str, str]
    """First text of the prompt, before and after the label list."""
    query: str
    """The query; names in braces are fields of the item."""
    answer: str
    """The answer of a demonstration, repeated for each answer of the item."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Strings that the published parsers search for, and how labels are compared."""

    cue: str
    """The text before an answer; empty if there is none."""
    marker: str | None
    lower: bool
    """Labels are compared in lower case."""
    delete: str
    """Characters removed before labels are compared."""
    exact_match: bool = False
    """The first line is the answer, and labels are compared without articles and repeated blanks, as in SQuAD."""

    def normal(self, text: str) -> str:
        """Return the normal form of a label or an answer, in which they are compared.

        Example:
            >>> card("discovery").answers.normal("Actually,")
            'actually'
        """
        text = text.strip().translate(dict.fromkeys(map(ord, self.delete)))
        text = text.lower().strip() if self.lower else text
        return " ".join(_ARTICLES.sub(" ", text).split()) if self.exact_match else text


@dataclass(frozen=True, slots=True)
class ScoringRule:
    """Metric, and its published deviations."""

    metric: str
    """``accuracy`` or ``micro_f1``."""
    f1_constant: float = 0.0
    """The published F1 adds this to its denominator."""
    stop_at: int | None = None
    """The published score ends with the item that reaches this number of gold labels."""


@dataclass(frozen=True, slots=True)
class HubTable:
    """The place of a data set on the Hugging Face hub, and how its records become lines of the published file."""

    repository: str
    config: str
    columns: tuple[str, ...]
    """The columns that become the cells of a line, in order."""
    label: str
    """The column with the label (or labels)."""


@dataclass(frozen=True, slots=True)
class TaskCard:
    """All facts about a data set, without its rows."""

    name: str
    title: str
    task: str
    kind: str
    """Kind of item: ``text``, ``pair``, ``relation``, ``entities`` or ``dialogue``."""
    source: str
    licence: str
    citation: str
    labels: tuple[str, ...]
    """Label names, in prompt order and in the order of label indices."""
    demonstrations: SelectionRule
    test: SelectionRule
    template: PromptTemplate
    answers: AnswerFormat
    scoring: ScoringRule
    restricted: bool = False
    """The licence requires an action before use."""
    terms: str = ""
    """The licence terms in a sentence or two."""
    obtain: str = ""
    """How to get the files."""
    offensive: bool = False
    """The texts contain offensive language."""
    other_labels: tuple[str, ...] = ()
    """Labels in the files that the benchmark leaves out."""
    files: Mapping[str, FileSpec] = field(default_factory=dict)
    """The files ``train`` and ``test``; without ``test``, a random tenth of the rows is the test set, as in HELMET."""
    hub: HubTable | None = None
    """Where the hub has the rows; None if it has not."""
    suite: str = "LongICLBench"
    """The benchmark that publishes the task."""
    shots: tuple[int, ...] = ()
    """HELMET: numbers of demonstrations for 4K, 8K, 16K, 32K, 64K and 128K tokens."""

    @property
    def structured(self) -> bool:
        """Whether an item has several labels, so that the prediction must be text."""
        return self.kind in ("entities", "dialogue")

    @property
    def needs_text(self) -> str:
        """Why a prediction that is not text cannot be scored."""
        return f"items of {self.title} have several labels, so the prediction must be text"

    def notice(self) -> str:
        """Return licence, terms and source, to show before the data are used."""
        return f"{self.title}: {self.licence}. {self.terms} Source: {self.source}"

    def instructions(self) -> str:
        """Return how to get missing files."""
        return (
            f"{self.obtain} Put them into the data folder, or install them: "
            f"python -m StaICC data install long-icl --from FOLDER. Licence: {self.licence}. {self.terms}"
        )


@functools.cache
def cards(suite: str | None = "LongICLBench") -> Mapping[str, TaskCard]:
    """Return the cards by name, in the order of the benchmark.

    Args:
        suite: ``LongICLBench`` or ``HELMET``; None for both.

    Example:
        >>> list(cards())
        ['banking77', 'goemotions', 'discovery', 'tacred', 'few_nerd', 'dialogre']
        >>> list(cards("HELMET"))
        ['helmet_banking77', 'helmet_trec_coarse', 'helmet_trec_fine', 'helmet_nlu', 'helmet_clinc150']
    """
    text = (importlib.resources.files(__package__) / "cards.json").read_text(encoding="utf-8")
    records: dict[str, dict[str, Any]] = {}
    for record in json.loads(text)["cards"]:  # "like" names the card that has the fields which are left out
        records[record["name"]] = records.get(record.pop("like", ""), {}) | record
    known = {name: read_value(TaskCard, record, f"the card of {name}") for name, record in records.items()}
    return {name: card for name, card in known.items() if suite in (None, card.suite)}


def card(name: str) -> TaskCard:
    """Return the card of a data set.

    Args:
        name: Such as ``"banking77"``.

    Raises:
        UnknownNameError: The data set is unknown; the message suggests the nearest name.

    Example:
        >>> len(card("discovery").labels)
        174
    """
    return cards(None)[known_name("LongICL data set", name, cards(None))]


FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "pair": ("sentence1", "sentence2"),
    "relation": ("sentence", "subject_entity", "object_entity"),
    "entities": ("sentence",),
    "dialogue": ("dialogue",),
}
"""The fields of the query template for each kind of item."""


@dataclass(frozen=True, slots=True)
class Item:
    """A row of a data set."""

    kind: str
    """A key of :data:`FIELDS`."""
    row: int
    """0-based row in the file (for DialogRE demonstrations: among the kept rows)."""
    texts: tuple[str, ...]
    """One for each field of the query template."""
    gold: tuple[str, ...]
    """The true labels, in order."""
    arguments: tuple[tuple[str, ...], ...] = ()
    """What each true label is about: an entity, or two; empty for items with one label."""
    searched: str = ""
    """The text that the parsers search for, if it is not one of the texts."""

    @property
    def needle(self) -> str:
        """The text that the published parsers search for in a response, to skip a repeated prompt."""
        return self.searched or self.texts[self.kind == "pair"]


def entity_item(row: int, sentence: str, entities: Iterable[Sequence[str]]) -> Item:
    """Return a sentence and its entities, in prompt order and each once, with their types."""
    pairs = list(entities)
    return Item("entities", row, (sentence,), tuple(kind for _, kind in pairs), tuple((text,) for text, _ in pairs))


def dialogue_item(row: int, dialogue: str, relations: Iterable[Sequence[str]]) -> Item:
    """Return a dialogue and the queried pairs of entities, each with its relation."""
    known = list(relations)
    labels, pairs = (relation for _, _, relation in known), ((first, second) for first, second, _ in known)
    return Item("dialogue", row, (dialogue,), tuple(labels), tuple(pairs))


def _asked(own: TaskCard, item: Item | Mapping[str, Any]) -> Item:
    """Return an item; that of a mapping with the fields of the query has no labels."""
    if isinstance(item, Item) and item.kind == own.kind:
        return item
    needed = [*FIELDS[own.kind], *["relations"] * (own.kind == "dialogue")]
    if not isinstance(item, Mapping) or not item.keys() >= {*needed}:
        expected = f"an item of {own.name}, or a mapping with {', '.join(needed)}"
        raise ArgumentError(f"item: got {item!r:.200}, expected {expected}")
    count = len(item["relations"]) if own.kind == "dialogue" else 1
    return Item(own.kind, -1, tuple(str(item[name]) for name in FIELDS[own.kind]), ("",) * count)


ARRANGEMENTS = ("interleaved", "grouped")
"""``interleaved``: as published; ``grouped``: all demonstrations of a label together, labels in alphabetical order, as
the paper does with TACRED."""


def write_query(card: TaskCard, item: Item) -> str:
    r"""Return the text of a query, up to the position where the model continues.

    Example:
        >>> write_query(card("banking77"), Item("text", 0, ("Where is it?",), ("card_arrival",)))
        'service query: Where is it?\nintent category: '
    """
    pairs = ", ".join(map(repr, item.arguments))  # as Python tuples of strings
    fields = dict(zip(FIELDS[item.kind], item.texts, strict=True), count=str(len(item.gold)), pairs=pairs)
    return card.template.query.format_map(fields)


def write_answer(card: TaskCard, item: Item) -> str:
    """Return the true answer as demonstrations show it, with a final line feed."""
    if item.kind == "entities":
        entities = zip(item.arguments, item.gold, strict=True)
        return "".join(card.template.answer.format_map({"entity": text, "type": kind}) for (text,), kind in entities)
    return card.template.answer.format_map(dict.fromkeys(("label", "relations"), ", ".join(item.gold)))


def write_context(card: TaskCard, demonstrations: Iterable[Item], *, instruct: bool = False) -> str:
    """Return the text before the query.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations, in order.
        instruct: Show the label list.

    Returns:
        Instruction and demonstrations.
    """
    before, after = card.template.instruct
    head = before + ", ".join(card.labels) + after if instruct else card.template.plain
    return head + "".join(write_query(card, item) + write_answer(card, item) for item in demonstrations)


def arrange(card: TaskCard, demonstrations: Sequence[Item], arrangement: str = "interleaved") -> list[Item]:
    """Return demonstrations in an arrangement; those of DialogRE merged by dialogue.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations as selected.
        arrangement: One of :data:`ARRANGEMENTS`.

    Raises:
        UnknownNameError: The arrangement is unknown.
        ArgumentError: Demonstrations have several labels, so they cannot be grouped by label.
    """
    if known_name("arrangement", arrangement, ARRANGEMENTS) == "interleaved":
        return merge_dialogues(demonstrations) if card.kind == "dialogue" else list(demonstrations)
    if card.structured:
        raise ArgumentError(f"{card.title}: a demonstration has several labels, so the arrangement cannot be 'grouped'")
    return sorted(demonstrations, key=lambda item: item.gold)


def merge_dialogues(items: Iterable[Item]) -> list[Item]:
    """Put pairs of the same dialogue together, as DialogRE's demonstrations are shown.

    Dialogues come in the order in which they first occur, pairs in the order of the items. So the demonstrations of a
    round are not the beginning of the next round's: a later pair can join an earlier dialogue.
    """
    merged: dict[str, Item] = {}
    for item in items:
        first = merged.setdefault(item.texts[0], item)
        if first is not item:
            gold, arguments = first.gold + item.gold, first.arguments + item.arguments
            merged[item.texts[0]] = replace(first, gold=gold, arguments=arguments)
    return list(merged.values())


_Label = TypeVar("_Label", bound=Hashable)


def selected(rule: str, labels: Iterable[_Label | None], size: int, *, strict: bool = False) -> list[int]:
    """Select rows of each label.

    Args:
        rule: ``turns``, ``passes`` or ``at_most`` (see the module).
        labels: Label of each row, in file order; None for a row that cannot be selected.
        size: Number of turns or passes, or of rows of a label.
        strict: Select no row for an exhausted label, instead of a row of the next label that has one.

    Returns:
        Indices of the selected rows. Unless a label runs out, the rows of n turns begin those of n + 1 turns.

    Example:
        >>> selected("turns", ["b", "a", "a", "a"], 2)
        [0, 1, 2, 3]
        >>> selected("turns", ["b", "a", "a", "a"], 2, strict=True)
        [0, 1, 2]
        >>> selected("passes", ["a", "a", "b", "a"], 2)
        [0, 2, 1]
        >>> selected("at_most", ["a", "b", "a", None, "a"], 2)
        [0, 1, 2]
    """
    groups, chosen = rows_by_label(labels), list[int]()
    for turn in range(size):
        places = [rows[turn] for rows in groups if turn < len(rows)]
        chosen += sorted(places) if rule == "passes" else places
    if rule == "turns" and not strict:
        unused, chosen = [rows[::-1] for rows in groups], []
        for place in [*range(len(groups))] * size:
            chosen += next(([rows.pop()] for rows in unused[place:] if rows), [])
    return sorted(chosen) if rule == "at_most" else chosen


def covering(labels: Iterable[Collection[_Label]], wanted: Collection[_Label], turns: int | None) -> list[list[int]]:
    """Select rows that show every label once per turn, in one pass through the file.

    Args:
        labels: Labels of each row, in file order (a row may have several, or none).
        wanted: The labels to show; others are ignored.
        turns: Number of turns; None for all.

    Returns:
        For each turn, the places of its rows: those with a wanted label that no earlier row of the turn has. A turn
        ends with the row that completes it; the next one begins with the row after that. The last turn may be
        incomplete, and turns that never began are missing.

    Example:
        >>> covering([["a"], ["a"], ["b"], ["b"], ["a"]], ["a", "b"], 2)
        [[0, 2], [3, 4]]
    """
    missing: set[_Label] = set()
    chosen: list[list[int]] = []
    for place, own in enumerate(labels):
        new = (missing or set(wanted)).intersection(own)
        if not new:
            continue
        if not missing:
            if len(chosen) == turns:
                break
            chosen.append([])
            missing = set(wanted)
        chosen[-1].append(place)
        missing -= new
    return chosen


def by_pairs(counts: Sequence[int], size: int | None) -> list[tuple[int, int]]:
    """Select the first dialogues, until the number of pairs is reached.

    Args:
        counts: Number of pairs of each dialogue, in file order.
        size: Number of pairs; None for all.

    Returns:
        Index of each selected dialogue, and its number of selected pairs. A dialogue without pairs is left out; of the
        last dialogue, some pairs may be left out.

    Example:
        >>> by_pairs([2, 0, 3, 1], 4)
        [(0, 2), (2, 2)]
    """
    most, before = sum(counts) if size is None else size, accumulate(counts, initial=0)
    dialogues = enumerate(zip(counts, before, strict=False))
    return [(place, min(count, most - first)) for place, (count, first) in dialogues if count and first < most]


# -- HELMET's draws: those of Python's random module, and numpy's permutation with seed 42

SEED = 42
"""HELMET's seed."""
_STATE, _INCREMENT = 274674114334540486603088602300644985544, 332724090758049132448979897138935081983  # of this seed
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


def _words() -> Iterator[int]:
    """Yield the 32-bit numbers of the generator PCG64 (XSL-RR) of numpy."""
    state = _STATE
    while True:
        state = (state * _MULTIPLIER + _INCREMENT) % 2**128
        high, low = divmod(state, 2**64)
        word, turn = high ^ low, state >> 122
        word = (word >> turn | word << (64 - turn)) % 2**64
        yield from (word % 2**32, word >> 32)


def permutation(size: int) -> list[int]:
    """Return ``numpy.random.default_rng(42).permutation(size)``.

    Source:
        O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
        Generation"; Fisher-Yates shuffle with numbers drawn by rejection.

    Example:
        >>> permutation(8)
        [3, 4, 2, 7, 6, 1, 5, 0]
    """
    words, order = _words(), [*range(size)]
    for last in range(size - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        place = next(value for word in words if (value := word & mask) <= last)
        order[last], order[place] = order[place], order[last]
    return order


def balanced(groups: Sequence[Sequence[int]], number: int, seed: int) -> list[int]:
    """Select a number of random rows, one of each label in each turn, as HELMET does.

    Args:
        groups: The rows of each label, labels in the order in which they first occur.
        number: Number of rows. A label with fewer rows than turns gives rows again.
        seed: Of Python's :mod:`random`.
    """
    draw, turns, columns = random.Random(seed), -(-number // len(groups)), []
    for rows in groups:
        chosen = draw.sample(rows, turns % len(rows))
        while len(chosen) < turns:
            chosen += draw.sample(rows, min(turns - len(chosen), len(rows)))
        columns.append(chosen)
    selected = [[*turn] for turn in zip(*columns, strict=True)]
    for turn in selected:
        draw.shuffle(turn)
    return [*chain.from_iterable(selected)][:number]


def by_balance(labels: Sequence[_Label | None], size: int | None) -> list[int]:
    """Select test items as HELMET does: all rows in file order, or if there are more than ``size``, balanced ones."""
    if size is None or len(labels) <= size:
        return [*range(len(labels))]
    order = permutation(len(labels))
    return [order[place] for place in balanced(rows_by_label(labels[row] for row in order), size, SEED)]


_AROUND = ".\"'\u201c\u201d\u2018\u2019`*"
_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")


@functools.lru_cache(maxsize=32)
def _labels_by_name(labels: tuple[str, ...], answers: AnswerFormat, fold: bool) -> dict[str, str]:
    names = {label: answers.normal(label) for label in labels}
    return {name.casefold() if fold else name: label for label, name in names.items()}


def as_label(own: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Example:
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
    """Return the answer as one line of text; see :func:`StaICC.benchmarks.long_icl.protocol.parse_answer`."""
    cue, answer = own.answers.cue, response.strip()
    if item.kind == "dialogue":
        answer = answer.split(cue.format(count=len(item.gold)), 1)[-1].strip()
        line = _before(_before(_first_line(answer.removeprefix("[/INST]")), "Dialogue:"), "[/INST]")
        return ", ".join(as_label(own, part) for part in line.split(","))
    if answer.casefold().startswith(cue.casefold()):
        answer = answer[len(cue) :]
    return as_label(own, _before(_first_line(answer), own.answers.marker))


def _strict_entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    """Return entities and types; see :func:`StaICC.benchmarks.long_icl.protocol.parse_answer`."""
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


def _after_last(response: str, needle: str) -> str:
    """Return the text after the last occurrence; without any, the complete text."""
    return response.rpartition(needle)[2] if needle else response


def _before(text: str, marker: str | None) -> str:
    return text if marker is None else text.split(marker, 1)[0]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def _one_label(own: TaskCard, response: str, item: Item) -> str:
    cue, marker = own.answers.cue, own.answers.marker
    if not item.needle or item.needle not in response:
        return own.answers.normal(_first_line(_before(response, marker)))
    rest = _after_last(response, item.needle).strip()
    parts = rest.split(cue) if cue else [rest]
    return own.answers.normal(_first_line(_before(parts[1], marker) if len(parts) > 1 else rest))


def _entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    entities: dict[str, str] = {}
    for line in _after_last(response, item.needle).strip().split("\n"):
        if ": " not in line or line.startswith(("Sentence", "sentence")):
            break
        entity, kind = line.split(": ")[:2]
        entities[entity] = kind
    return entities


def _relations(own: TaskCard, response: str, item: Item) -> str:
    for needle in (item.needle, own.answers.cue.format(count=len(item.gold))):
        response = _after_last(response, needle).strip()
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
        item: The test item: a record, or a mapping with the fields of the query: ``text``; ``sentence1`` and
            ``sentence2``; ``sentence``, ``subject_entity``, ``object_entity``; ``sentence``; ``dialogue`` and
            ``relations``. Other keys are ignored.
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
    own = card(dataset)
    answer = _parse(own, response, _asked(own, item), variant, prompt)
    return answer if isinstance(answer, str) else [list(pair) for pair in answer.items()]


SMALL = 1e-8
"""The published precision and recall add this constant to their denominators."""


class Tally(NamedTuple):
    """Gold, predicted and correct labels of one item."""

    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    """Predicted labels (for items with one label: the answer if it is a label)."""
    correct: tuple[str, ...]
    """Gold labels that are predicted correctly."""


def tally_answer(
    card: TaskCard, answer: Parsed, item: Item, variant: str = "published", names: tuple[str, ...] = ()
) -> Tally:
    """Compare a parsed answer to the true labels of an item.

    An entity is correct if the sentence has it (same text) with the same type. Relations of a dialogue are compared
    place by place. Published: a part of the answer is a prediction if it contains the name of a relation, and correct
    if it contains the true one. Strict: it must equal the name.

    Args:
        card: Card of the data set.
        answer: The parsed answer.
        item: The test item.
        variant: ``published`` or ``strict``.
        names: As for :func:`tally_prediction`.
    """
    strict, gold, own = variant != "published", item.gold, replace(card, labels=names) if names else card
    if not isinstance(answer, str):
        known = {text.strip() if strict else text: kind for (text,), kind in zip(item.arguments, gold, strict=True)}
        correct = tuple(kind for entity, kind in answer.items() if known.get(entity) == kind)
        return Tally(tuple(known.values()), tuple(answer.values()), correct)
    if item.kind != "dialogue":
        label = as_label(own, answer) if strict else _labels_by_name(own.labels, own.answers, False).get(answer, "")
        predicted: tuple[str, ...] = (card.labels[own.labels.index(label)],) if label in own.labels else ()
        return Tally(gold, predicted, gold * (predicted == gold))
    parts = [part.strip() for part in answer.split(",")]

    def named(part: str, label: str) -> bool:
        return part == label if strict else label in part

    predicted = tuple(label for part in parts for label in [*filter(partial(named, part), card.labels)][:1])
    return Tally(gold, predicted, tuple(label for label, part in zip(gold, parts, strict=False) if named(part, label)))


def tally_prediction(
    card: TaskCard,
    prediction: object,
    item: Item,
    variant: str = "published",
    prompt: str | None = None,
    names: tuple[str, ...] = (),
) -> tuple[Tally, str]:
    """Score one prediction of any kind.

    Args:
        card: Card of the data set.
        prediction: Text; or, for data sets with one label per item, a label index or one score per label (the first
            label with the highest score is predicted).
        item: The test item.
        variant: How text is parsed: ``published``, ``strict`` or ``tolerant``.
        prompt: The prompt; the strict and the tolerant parser remove it from the beginning of a response.
        names: What the prompt calls the labels, in their order; by default, the card's names.

    Returns:
        The tally with the card's names, and the parsed answer as text.

    Raises:
        OutputError: The prediction has another type.
    """
    if isinstance(prediction, str):
        answer = _parse(replace(card, labels=names) if names else card, prediction, item, variant, prompt)
        text = answer if isinstance(answer, str) else "\n".join(map(": ".join, answer.items()))
        return tally_answer(card, answer, item, variant, names), text
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
    gold, predicted, correct = (sum(map(len, labels)) for labels in zip(*counted, strict=True))
    if rule.metric == "accuracy":
        return {"items": gold, "correct": correct, "accuracy": correct / gold}
    small = 0.0 if variant == "strict" else SMALL
    precision, recall = _ratio(correct, predicted + small), _ratio(correct, gold + small)
    f1 = _ratio(2 * correct, predicted + gold)  # the harmonic mean of the two, without rounding them first
    if small:
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
    counts = {part: Counter(chain.from_iterable(getattr(tally, part) for tally in known)) for part in Tally._fields}
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
