"""Which rows become demonstrations and test items: pure rules over labels, without any randomness.

A rule gets the labels of the rows in file order and gives the places of the chosen rows, in the order in which they
are shown. The rules of the published protocol:

* ``turns`` (:func:`by_turns`): one row of each label in each turn, labels in the order in which they first occur;
* ``covering`` (:func:`covering`): one walk through the file; a row is taken if it brings a label that is new in this
  turn;
* ``passes`` (:func:`by_passes`): each pass goes through the file from its start and takes each label's next row;
* ``at_most`` (:func:`at_most`): the first rows of each label, in file order;
* ``first``: the first rows; ``pairs`` (:func:`by_pairs`): the first dialogues, until so many pairs are asked.

The strict variant differs in one rule: a label that is used up leaves its place in a turn empty, where the published
rule gives it to the next label (in GoEmotions' test set ``joy`` gets 26 items that way, other labels 20).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeVar

__all__ = ["at_most", "by_pairs", "by_passes", "by_turns", "covering"]

_Label = TypeVar("_Label", bound=Hashable)


def by_turns(labels: Sequence[_Label | None], turns: int, *, strict: bool = False) -> list[int]:
    """One row of each label in each turn.

    Args:
        labels: Each row's label, in file order; None for a row that cannot be chosen.
        turns: Number of turns.
        strict: Leave the place of a used-up label empty, instead of giving it to the next label that has a row.

    Returns:
        Places of the chosen rows. Unless a label runs out, so many turns are the beginning of more turns.

    Example:
        >>> by_turns(["a", "b", "a", "a"], 2)
        [0, 1, 2]
        >>> by_turns(["b", "a", "a", "a"], 2)
        [0, 1, 2, 3]
        >>> by_turns(["b", "a", "a", "a"], 2, strict=True)
        [0, 1, 2]
    """
    groups: dict[_Label, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            groups.setdefault(label, []).append(place)
    rows = list(groups.values())
    used = [0] * len(rows)
    chosen: list[int] = []
    for _ in range(turns):
        for own in range(len(rows)):
            candidates = (own,) if strict else range(own, len(rows))
            giver = next((i for i in candidates if used[i] < len(rows[i])), None)
            if giver is not None:
                chosen.append(rows[giver][used[giver]])
                used[giver] += 1
    return chosen


def covering(labels: Iterable[Collection[_Label]], wanted: Collection[_Label], turns: int) -> list[list[int]]:
    """Rows that show every label once more in each turn, in one walk through the file.

    Args:
        labels: Each row's labels, in file order (a row may have several, or none).
        wanted: The labels to be shown; others count for nothing.
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
    """Each pass goes through the rows in file order and takes each label's next row.

    Args:
        labels: Each row's label, in file order.
        passes: Number of passes.

    Returns:
        For each pass, the places of its rows, in file order; empty where all labels have run out.

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
    """The first rows of each wanted label, in file order.

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
    """The first dialogues, until so many pairs are asked.

    Args:
        counts: Number of pairs of each dialogue, in file order.
        size: Number of pairs to be asked; None for all.

    Returns:
        Place of each dialogue, and how many of its pairs are asked. A dialogue without pairs is left out; the last
        dialogue may be asked for some of its pairs only.

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
