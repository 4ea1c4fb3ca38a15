"""Selection of demonstrations and test items: deterministic rules over labels.

A rule takes the labels of the rows in file order and returns the indices of the selected rows, in prompt order. The
rules of the published protocol:

* ``turns`` (:func:`by_turns`): one row of each label in each turn, labels in the order in which they first occur;
* ``covering`` (:func:`covering`): one pass through the file; a row is selected if it has a label that is new in this
  turn;
* ``passes`` (:func:`by_passes`): each pass goes through the file from its start and selects the next row of each label;
* ``at_most`` (:func:`at_most`): the first rows of each label, in file order;
* ``first``: the first rows; ``pairs`` (:func:`by_pairs`): the first dialogues, until the number of pairs is reached.

The strict variant differs in one rule: a turn has no row for an exhausted label, while the published rule selects a row
of the next label instead (so ``joy`` has 26 test items of GoEmotions, other labels 20).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

_Label = TypeVar("_Label", bound=Hashable)


def by_turns(labels: Sequence[_Label | None], turns: int, *, strict: bool = False) -> list[int]:
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
    if strict:
        return list(chain.from_iterable(turns_of(labels)[:turns]))
    rows = list(_rows_of(labels).values())
    used = [0] * len(rows)
    chosen: list[int] = []
    for _ in range(turns):
        for own in range(len(rows)):
            giver = next((i for i in range(own, len(rows)) if used[i] < len(rows[i])), None)
            if giver is not None:
                chosen.append(rows[giver][used[giver]])
                used[giver] += 1
    return chosen


def turns_of(labels: Iterable[_Label | None]) -> list[list[int]]:
    """Return all turns of one row of each label, as far as the rows go; an exhausted label is left out.

    Example:
        >>> turns_of(["b", "a", "a", None, "a"])
        [[0, 1], [2], [4]]
    """
    groups = _rows_of(labels).values()
    most = max(map(len, groups), default=0)
    return [[rows[turn] for rows in groups if turn < len(rows)] for turn in range(most)]


def _rows_of(labels: Iterable[_Label | None]) -> dict[_Label, list[int]]:
    groups: dict[_Label, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            groups.setdefault(label, []).append(place)
    return groups


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
    every = frozenset(wanted)
    chosen: list[list[int]] = []
    seen: set[_Label] = set()
    complete = True
    for place, own in enumerate(labels):
        new = every.intersection(own) - seen
        if not new:
            continue
        if complete:
            if len(chosen) == turns:
                break
            chosen.append([])
        chosen[-1].append(place)
        seen |= new
        complete = seen == every
        if complete:
            seen = set()
    return chosen


def by_passes(labels: Sequence[_Label], passes: int) -> list[list[int]]:
    """Select, in each pass through the rows in file order, the next row of each label.

    Args:
        labels: Each row's label, in file order.
        passes: Number of passes.

    Returns:
        For each pass, the indices of its rows, in file order; empty if all labels are exhausted.

    Example:
        >>> by_passes(["a", "a", "b", "a"], 3)
        [[0, 2], [1], [3]]
    """
    chosen: list[list[int]] = [[] for _ in range(passes)]
    seen: Counter[_Label] = Counter()
    for place, label in enumerate(labels):
        if seen[label] < passes:
            chosen[seen[label]].append(place)
        seen[label] += 1
    return chosen


def at_most(labels: Sequence[_Label | None], wanted: Collection[_Label], size: int) -> list[int]:
    """Select the first rows of each wanted label, in file order.

    Example:
        >>> at_most(["a", "b", "a", "x", "a"], ["a", "b"], 2)
        [0, 1, 2]
    """
    every = frozenset(wanted)
    seen: Counter[_Label] = Counter()
    chosen = []
    for place, label in enumerate(labels):
        if label is not None and label in every and seen[label] < size:
            seen[label] += 1
            chosen.append(place)
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
