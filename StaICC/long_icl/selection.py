"""Selection of demonstrations or test items by deterministic rules over labels.

A rule takes the labels of the rows in file order and returns the indices of the selected rows, in prompt order. The
rules of the published protocol:

* ``turns`` (:func:`selected`): one row of each label in each turn, labels in the order in which they first occur;
* ``covering`` (:func:`covering`): one pass through the file; a row is selected if it has a label that is new in this
  turn;
* ``passes``: each pass goes through the file from its start and selects the next row of each label;
* ``at_most``: the first rows of each label, in file order;
* ``balanced`` (:func:`by_balance`): the test items of HELMET, a random row of each label in each turn;
* ``first``: the first rows; ``pairs`` (:func:`by_pairs`): the first dialogues, until the number of pairs is reached.

With ``turns``, an exhausted label is replaced by the next label that has a row (so ``joy`` has 26 test items of
GoEmotions, other labels 20).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TypeVar

from StaICC.prompting.demonstrations import rows_by_label

_Label = TypeVar("_Label", bound=Hashable)


def selected(rule: str, labels: Iterable[_Label | None], size: int) -> list[int]:
    """Select rows of each label.

    Args:
        rule: ``turns``, ``passes`` or ``at_most`` (see the module).
        labels: Label of each row, in file order; None for a row that cannot be selected.
        size: Number of turns or passes, or of rows of a label.

    Returns:
        Indices of the selected rows. Unless a label runs out, the rows of n turns begin those of n + 1 turns.

    Example:
        >>> selected("turns", ["b", "a", "a", "a"], 2)
        [0, 1, 2, 3]
        >>> selected("passes", ["a", "a", "b", "a"], 2)
        [0, 2, 1]
        >>> selected("at_most", ["a", "b", "a", None, "a"], 2)
        [0, 1, 2]
    """
    groups, chosen = rows_by_label(labels), list[int]()
    for turn in range(size):
        places = [rows[turn] for rows in groups if turn < len(rows)]
        chosen += sorted(places) if rule == "passes" else places
    if rule == "turns":
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
