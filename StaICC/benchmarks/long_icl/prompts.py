"""Items, prompts, and the selection of rows.

Items are the rows of the data sets as records. There are five kinds: a text with a label (BANKING77, GoEmotions), two
sentences with a label (Discovery), a sentence with two entities and their relation (TACRED), a sentence with its
entities and their types (Few-NERD), a dialogue with pairs of entities and their relations (DialogRE).

All queries of a round share the text before the query (the *context*: instruction, label list if asked for, and
demonstrations), so kernels and servers with prefix caching compute it once.

Demonstrations and test items are selected by deterministic rules over labels. A rule takes the labels of the rows in
file order and returns the indices of the selected rows, in prompt order. The rules of the published protocol:

* ``turns`` (:func:`by_turns`): one row of each label in each turn, labels in the order in which they first occur;
* ``covering`` (:func:`covering`): one pass through the file; a row is selected if it has a label that is new in this
  turn;
* ``passes`` (:func:`by_passes`): each pass goes through the file from its start and selects the next row of each label;
* ``at_most`` (:func:`at_most`): the first rows of each label, in file order;
* ``balanced`` (:func:`by_balance`): the test items of HELMET, a random row of each label in each turn;
* ``first``: the first rows; ``pairs`` (:func:`by_pairs`): the first dialogues, until the number of pairs is reached.

The strict variant differs in one rule: a turn has no row for an exhausted label, while the published rule selects a row
of the next label instead (so ``joy`` has 26 test items of GoEmotions, other labels 20).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any, TypeVar

from StaICC.benchmarks.long_icl.task_cards import TaskCard, card
from StaICC.errors import ArgumentError, known_name

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


def as_item(dataset: str, item: Item | Mapping[str, Any]) -> Item:
    """Return the item of a data set, from a record or from a mapping with the fields of the query.

    Args:
        dataset: Such as ``"banking77"``.
        item: A record of the right kind (returned unchanged), or a mapping with the fields of the query: ``text``;
            ``sentence1`` and ``sentence2``; ``sentence``, ``subject_entity``, ``object_entity``; ``sentence``;
            ``dialogue`` and ``relations``. ``row`` and the true labels may be missing; other keys are ignored.

    Raises:
        UnknownNameError: The data set is unknown.
        ArgumentError: The item is of another kind or lacks a field.

    Example:
        >>> as_item("banking77", {"text": "Where is my card?"}).needle
        'Where is my card?'
    """
    kind = card(dataset).kind
    if isinstance(item, Item) and item.kind == kind:
        return item
    fields = item if isinstance(item, Mapping) else {}
    row, texts = fields.get("row", -1), tuple(str(fields[name]) for name in FIELDS[kind] if name in fields)
    if len(texts) < len(FIELDS[kind]) or (kind == "dialogue" and "relations" not in fields):
        needed = ", ".join([*FIELDS[kind], *["relations"] * (kind == "dialogue")])
        raise ArgumentError(f"item: got {item!r:.200}, expected an item of {dataset}, or a mapping with {needed}")
    if kind == "entities":
        entities = fields.get("entities", ())
        return entity_item(row, texts[0], entities.items() if isinstance(entities, Mapping) else entities)
    if kind == "dialogue":
        names = ("subject_entity", "object_entity", "relation")
        relations = [[relation.get(name, "") for name in names] for relation in fields["relations"]]
        return dialogue_item(row, texts[0], relations)
    return Item(kind, row, texts, (fields.get("label", ""),))


ARRANGEMENTS = ("interleaved", "grouped")
"""``interleaved``: as published; ``grouped``: all demonstrations of a label together, labels in alphabetical order, as
the paper does with TACRED."""


def write_query(card: TaskCard, item: Item) -> str:
    r"""Return the text of a query, up to the position where the model continues.

    Example:
        >>> from StaICC.benchmarks.long_icl.task_cards import card
        >>> from StaICC.benchmarks.long_icl.prompts import Item
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


def by_turns(labels: Iterable[_Label | None], turns: int, *, strict: bool = False) -> list[int]:
    """Select one row of each label in each turn.

    Args:
        labels: Label of each row, in file order; None for a row that cannot be selected.
        turns: Number of turns.
        strict: Select no row for an exhausted label, instead of a row of the next label that has one.

    Returns:
        Indices of the selected rows. Unless a label runs out, the rows of n turns begin those of n + 1 turns.

    Example:
        >>> by_turns(["a", "b", "a", "a"], 2)
        [0, 1, 2]
        >>> by_turns(["b", "a", "a", "a"], 2)
        [0, 1, 2, 3]
        >>> by_turns(["b", "a", "a", "a"], 2, strict=True)
        [0, 1, 2]
    """
    unused = [rows[::-1] for rows in rows_by_label(labels)]
    chosen: list[int] = []
    for _ in range(turns):
        for place in range(len(unused)):
            givers = unused[place : place + 1] if strict else unused[place:]
            chosen += next(([rows.pop()] for rows in givers if rows), [])
    return chosen


def turns_of(labels: Iterable[_Label | None]) -> list[list[int]]:
    """Return all turns of one row of each label, as far as the rows go; an exhausted label is left out.

    Example:
        >>> turns_of(["b", "a", "a", None, "a"])
        [[0, 1], [2], [4]]
    """
    return [[row for row in turn if row is not None] for turn in zip_longest(*rows_by_label(labels))]


def rows_by_label(labels: Iterable[_Label | None]) -> list[list[int]]:
    """Return the rows of each label, labels in the order in which they first occur."""
    groups: dict[_Label, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            groups.setdefault(label, []).append(place)
    return list(groups.values())


def by_passes(labels: Iterable[_Label | None], passes: int) -> list[int]:
    """Select, in each pass through the rows in file order, the next row of each label.

    Example:
        >>> by_passes(["a", "a", "b", "a"], 2)
        [0, 2, 1]
    """
    return [*chain.from_iterable(map(sorted, turns_of(labels)[:passes]))]


def at_most(labels: Iterable[_Label | None], size: int) -> list[int]:
    """Select the first rows of each label, in file order.

    Example:
        >>> at_most(["a", "b", "a", None, "a"], 2)
        [0, 1, 2]
    """
    return sorted(chain.from_iterable(turns_of(labels)[:size]))


def covering(labels: Iterable[Collection[_Label]], wanted: Collection[_Label], turns: int) -> list[list[int]]:
    """Select rows that show every label once per turn, in one pass through the file.

    Args:
        labels: Labels of each row, in file order (a row may have several, or none).
        wanted: The labels to show; others are ignored.
        turns: Number of turns.

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
    left = sum(counts) if size is None else size
    chosen = []
    for place, count in enumerate(counts):
        if left and count:
            chosen.append((place, min(count, left)))
            left -= min(count, left)
    return chosen


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
