"""Selection of demonstrations or test items by deterministic rules over labels.

A rule takes the labels of the rows in file order and returns the indexes of the selected rows, in prompt order. The
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

Data sets of users whose texts have several labels have the rule ``needed`` (:func:`turns_by_need`). With one label in
each row, it selects the same rows as ``turns``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
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
        Indexes of the selected rows. Unless a label runs out, the rows of n turns begin those of n + 1 turns.

    Example:
        >>> selected("turns", ["b", "a", "a", "a"], 2)
        [0, 1, 2, 3]
        >>> selected("passes", ["a", "a", "b", "a"], 2)
        [0, 2, 1]
        >>> selected("at_most", ["a", "b", "a", None, "a"], 2)
        [0, 1, 2]
    """
    groups = rows_by_label(labels)
    if rule == "turns":
        return _rows_of_turns(groups, size)
    if rule == "passes":
        return _rows_of_passes(groups, size)
    first_rows = []
    for rows in groups:
        first_rows += rows[:size]
    return sorted(first_rows)


def _rows_of_turns(groups: Sequence[Sequence[int]], turn_count: int) -> list[int]:
    """Return one row of each label in each turn; an exhausted label gives its place to the next label that has a row.

    Args:
        groups: The rows of each label.
        turn_count: Number of turns.
    """
    used = [0] * len(groups)
    selected_rows = []
    for _ in range(turn_count):
        for first_label in range(len(groups)):
            for label in range(first_label, len(groups)):
                if used[label] < len(groups[label]):
                    selected_rows.append(groups[label][used[label]])
                    used[label] += 1
                    break
    return selected_rows


def _rows_of_passes(groups: Sequence[Sequence[int]], pass_count: int) -> list[int]:
    """Return the next row of each label in each pass, the rows of a pass in file order.

    Args:
        groups: The rows of each label.
        pass_count: Number of passes.
    """
    selected_rows = []
    for number in range(pass_count):
        rows_of_pass = [rows[number] for rows in groups if number < len(rows)]
        selected_rows += sorted(rows_of_pass)
    return selected_rows


def covering(labels: Iterable[Collection[_Label]], wanted: Collection[_Label], turns: int | None) -> list[list[int]]:
    """Select rows that show every label once per turn, in one pass through the file.

    Args:
        labels: Labels of each row, in file order (a row may have several, or none).
        wanted: The labels to show; others are ignored.
        turns: Number of turns; None for all.

    Returns:
        For each turn, the indexes of its rows: those with a wanted label that no earlier row of the turn has. A turn
        ends with the row that completes it; the next one begins with the row after that. The last turn may be
        incomplete, and turns that never began are missing.

    Example:
        >>> covering([["a"], ["a"], ["b"], ["b"], ["a"]], ["a", "b"], 2)
        [[0, 2], [3, 4]]
    """
    missing: set[_Label] = set()  # labels that the current turn does not show yet; empty if it is complete
    rows_of_turns: list[list[int]] = []
    for row, labels_of_row in enumerate(labels):
        begins_turn = not missing
        new_labels = (set(wanted) if begins_turn else missing).intersection(labels_of_row)
        if not new_labels:
            continue
        if begins_turn:
            if len(rows_of_turns) == turns:
                break
            rows_of_turns.append([])
            missing = set(wanted)
        rows_of_turns[-1].append(row)
        missing -= new_labels
    return rows_of_turns


def turns_by_need(labels: Iterable[Collection[_Label]], turns: int | None = None) -> list[list[int]]:
    """Select rows with several labels in turns, so that n turns show every label n times, or in all of its rows.

    In turn n, each label that fewer than n selected rows have gets its next row, labels in the order in which they
    first occur. A row counts for all of its labels. All turns together select every row that has a label.

    Args:
        labels: Labels of each row, in file order (a row may have several, or none).
        turns: Number of turns; None for all.

    Returns:
        For each turn, the indexes of its rows. A turn is empty if earlier rows show every label often enough.

    Example:
        >>> turns_by_need([["a"], ["a", "b"], ["b"], ["c", "a"]])
        [[0, 1, 3], [2]]
    """
    labels_of_rows = list(labels)
    rows_of_label: dict[_Label, list[int]] = {}
    for row, labels_of_row in enumerate(labels_of_rows):
        for label in labels_of_row:
            rows_of_label.setdefault(label, []).append(row)

    next_of_label = dict.fromkeys(rows_of_label, 0)  # the position of the first row that may be unused
    shown_of_label: Counter[_Label] = Counter()
    used_rows: set[int] = set()
    row_count = len(set().union(*rows_of_label.values()))
    rows_of_turns: list[list[int]] = []
    while len(used_rows) < row_count and len(rows_of_turns) != turns:
        rows_of_turn: list[int] = []
        for label, rows in rows_of_label.items():
            if shown_of_label[label] > len(rows_of_turns):
                continue
            while next_of_label[label] < len(rows) and rows[next_of_label[label]] in used_rows:
                next_of_label[label] += 1
            if next_of_label[label] == len(rows):
                continue
            row = rows[next_of_label[label]]
            used_rows.add(row)
            rows_of_turn.append(row)
            shown_of_label.update(labels_of_rows[row])
        rows_of_turns.append(rows_of_turn)
    return rows_of_turns


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
    remaining = sum(counts) if size is None else size
    dialogues = []
    for dialogue, pair_count in enumerate(counts):
        selected_pairs = min(pair_count, remaining)
        if selected_pairs > 0:
            dialogues.append((dialogue, selected_pairs))
            remaining -= selected_pairs
    return dialogues


# -- HELMET's draws: those of Python's random module, and numpy's permutation with seed 42

SEED = 42
"""HELMET's seed."""
_STATE_OF_SEED = 274674114334540486603088602300644985544
"""The state of numpy's generator after it was seeded with :data:`SEED`."""
_INCREMENT_OF_SEED = 332724090758049132448979897138935081983
"""Its increment."""
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""The multiplier of all generators PCG64."""


def _random_words() -> Iterator[int]:
    """Yield the 32-bit numbers of the generator PCG64 (XSL-RR) of numpy, the low half of each 64-bit number first."""
    state = _STATE_OF_SEED
    while True:
        state = (state * _MULTIPLIER + _INCREMENT_OF_SEED) % 2**128
        high_half = state >> 64
        low_half = state % 2**64
        mixed = high_half ^ low_half
        rotation = state >> 122
        number = (mixed >> rotation | mixed << (64 - rotation)) % 2**64
        yield number % 2**32
        yield number >> 32


def permutation(size: int) -> list[int]:
    """Return ``numpy.random.default_rng(42).permutation(size)``.

    Source:
        O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
        Generation"; Fisher-Yates shuffle with numbers drawn by rejection.

    Example:
        >>> permutation(8)
        [3, 4, 2, 7, 6, 1, 5, 0]
    """
    words = _random_words()
    order = list(range(size))
    for last in range(size - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        position = next(words) & mask
        while position > last:
            position = next(words) & mask
        order[last], order[position] = order[position], order[last]
    return order


def balanced(groups: Sequence[Sequence[int]], number: int, seed: int) -> list[int]:
    """Select a number of random rows, one of each label in each turn, as HELMET does.

    Args:
        groups: The rows of each label, labels in the order in which they first occur.
        number: Number of rows. A label with fewer rows than turns gives rows again.
        seed: Of Python's :mod:`random`.
    """
    generator = random.Random(seed)
    turn_count = -(-number // len(groups))  # rounded up
    drawn_by_label = [_draw_rows(generator, rows, turn_count) for rows in groups]
    selected_rows: list[int] = []
    for turn in range(turn_count):
        rows_of_turn = [drawn_rows[turn] for drawn_rows in drawn_by_label]
        generator.shuffle(rows_of_turn)
        selected_rows += rows_of_turn
    return selected_rows[:number]


def _draw_rows(generator: random.Random, rows: Sequence[int], count: int) -> list[int]:
    """Draw rows of a label at random; every row is drawn once before one is drawn again.

    HELMET draws the remainder of ``count / len(rows)`` first, then all rows as often as necessary.
    """
    drawn_rows = generator.sample(rows, count % len(rows))
    while len(drawn_rows) < count:
        drawn_rows += generator.sample(rows, min(count - len(drawn_rows), len(rows)))
    return drawn_rows


def by_balance(labels: Sequence[_Label | None], size: int | None) -> list[int]:
    """Select test items as HELMET does: all rows in file order, or if there are more than ``size``, balanced ones."""
    if size is None or len(labels) <= size:
        return list(range(len(labels)))
    order = permutation(len(labels))
    groups = rows_by_label(labels[row] for row in order)
    return [order[position] for position in balanced(groups, size, SEED)]
