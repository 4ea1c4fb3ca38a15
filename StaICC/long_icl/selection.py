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

import math
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
        return _rows_of_turns(groups, turn_count=size)
    if rule == "passes":
        return _rows_of_passes(groups, pass_count=size)
    return _first_rows_of_labels(groups, rows_per_label=size)


def _rows_of_turns(groups: Sequence[Sequence[int]], turn_count: int) -> list[int]:
    """Return one row of each label in each turn, labels in the order of the groups.

    LongICLBench does not skip a label whose rows are all used: the next label that has a row takes its place, and then
    has two rows in this turn.

    Args:
        groups: The rows of each label.
        turn_count: Number of turns.
    """
    used_counts = [0] * len(groups)
    selected_rows = []
    for _ in range(turn_count):
        for label in range(len(groups)):
            label_with_rows = _next_label_with_rows(groups, used_counts, first_label=label)
            if label_with_rows is None:
                continue
            row_number = used_counts[label_with_rows]
            selected_rows.append(groups[label_with_rows][row_number])
            used_counts[label_with_rows] += 1
    return selected_rows


def _next_label_with_rows(groups: Sequence[Sequence[int]], used_counts: Sequence[int], first_label: int) -> int | None:
    """Return the first label that has an unused row, from ``first_label`` on; ``None`` if there is none.

    Args:
        groups: The rows of each label.
        used_counts: The number of used rows of each label.
        first_label: The index of the label at which the search starts.
    """
    for label in range(first_label, len(groups)):
        if used_counts[label] < len(groups[label]):
            return label
    return None


def _rows_of_passes(groups: Sequence[Sequence[int]], pass_count: int) -> list[int]:
    """Return the next row of each label in each pass, the rows of a pass in file order.

    Args:
        groups: The rows of each label.
        pass_count: Number of passes.
    """
    selected_rows = []
    for pass_index in range(pass_count):
        rows_of_pass = [rows[pass_index] for rows in groups if pass_index < len(rows)]
        selected_rows += sorted(rows_of_pass)
    return selected_rows


def _first_rows_of_labels(groups: Sequence[Sequence[int]], rows_per_label: int) -> list[int]:
    """Return the first rows of each label, all in file order."""
    first_rows: list[int] = []
    for rows in groups:
        first_rows += rows[:rows_per_label]
    return sorted(first_rows)


def covering(labels: Iterable[Collection[_Label]], wanted: Collection[_Label], turns: int | None) -> list[list[int]]:
    """Select rows that show every label once per turn, in one pass through the file.

    Args:
        labels: Labels of each row, in file order (a row may have several, or none).
        wanted: The labels to show; others are ignored.
        turns: Number of turns; None for all.

    Returns:
        For each turn, the indexes of its rows. A row is selected if it has a wanted label that no earlier row of the
        turn has. A turn is complete when its rows have all wanted labels; the next turn begins with the row after that.
        If the file ends before, the last turn is incomplete, and further turns are missing.

    Example:
        >>> covering([["a"], ["a"], ["b"], ["b"], ["a"]], ["a", "b"], 2)
        [[0, 2], [3, 4]]
    """
    rows_of_turns: list[list[int]] = []
    rows_of_turn: list[int] = []
    missing_labels = set(wanted)
    for row, labels_of_row in enumerate(labels):
        if len(rows_of_turns) == turns:
            break
        new_labels = missing_labels.intersection(labels_of_row)
        if not new_labels:
            continue
        rows_of_turn.append(row)
        missing_labels -= new_labels
        is_complete = not missing_labels
        if is_complete:
            rows_of_turns.append(rows_of_turn)
            rows_of_turn = []
            missing_labels = set(wanted)
    if rows_of_turn:  # the file ended before this turn was complete
        rows_of_turns.append(rows_of_turn)
    return rows_of_turns


def turns_by_need(labels: Iterable[Collection[_Label]], turns: int | None = None) -> list[list[int]]:
    """Select rows with several labels in turns. After n turns, every label was shown n times or more.

    A label is shown by each selected row that has it. Turn n goes through the labels, in the order in which they first
    occur. If a label was shown fewer than n times, its next unused row is selected. A label without unused rows is
    skipped. The last turn is that in which the last row with a label is selected.

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
    row_count = 0
    for row, labels_of_row in enumerate(labels_of_rows):
        if labels_of_row:
            row_count += 1
        for label in labels_of_row:
            rows_of_label.setdefault(label, []).append(row)

    # Each label keeps its position in its rows from turn to turn.
    remaining_rows = {label: iter(rows) for label, rows in rows_of_label.items()}
    shown_counts: Counter[_Label] = Counter()
    used_rows: set[int] = set()
    rows_of_turns: list[list[int]] = []
    while len(used_rows) < row_count and len(rows_of_turns) != turns:
        turn_number = len(rows_of_turns) + 1
        rows_of_turn: list[int] = []
        for label, rows_of_this_label in remaining_rows.items():
            if shown_counts[label] >= turn_number:
                continue
            next_row = _next_unused_row(rows_of_this_label, used_rows)
            if next_row is None:
                continue
            rows_of_turn.append(next_row)
            used_rows.add(next_row)
            shown_counts.update(labels_of_rows[next_row])
        rows_of_turns.append(rows_of_turn)
    return rows_of_turns


def _next_unused_row(remaining_rows: Iterator[int], used_rows: Collection[int]) -> int | None:
    """Return the next row of a label that is not used; ``None`` if all are.

    A row is used already if it was selected for another one of its labels.
    """
    for row in remaining_rows:
        if row not in used_rows:
            return row
    return None


def by_pairs(counts: Sequence[int], size: int | None) -> list[tuple[int, int]]:
    """Select the first dialogues, until the number of pairs is reached.

    Args:
        counts: Number of pairs of each dialogue, in file order.
        size: Number of pairs; None for all.

    Returns:
        Index of each selected dialogue, and its number of selected pairs. Dialogues without pairs are left out. The
        last dialogue has fewer selected pairs than pairs if it has more than are needed.

    Example:
        >>> by_pairs([2, 0, 3, 1], 4)
        [(0, 2), (2, 2)]
    """
    if size is None:
        remaining_pairs = sum(counts)
    else:
        remaining_pairs = size
    dialogues = []
    for dialogue, pair_count in enumerate(counts):
        selected_pairs = min(pair_count, remaining_pairs)
        if selected_pairs > 0:
            dialogues.append((dialogue, selected_pairs))
            remaining_pairs -= selected_pairs
    return dialogues


# -- HELMET's draws: those of Python's random module, and numpy's permutation with seed 42

SEED = 42
"""HELMET's seed."""
_STATE_OF_SEED = 274674114334540486603088602300644985544
"""The state of numpy's generator PCG64 after it was seeded with :data:`SEED`. It is written here because the library
does not depend on numpy."""
_INCREMENT_OF_SEED = 332724090758049132448979897138935081983
"""The increment of the generator with this seed."""
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""The multiplier of PCG64, the same for all seeds."""


def _random_words() -> Iterator[int]:
    """Yield the random 32-bit numbers of numpy's generator with seed 42.

    The generator is PCG64 with the output function XSL-RR: the halves of the state are combined by XOR (exclusive or)
    and rotated by a number of bits that the highest 6 bits of the state give. Of each 64-bit number, numpy uses the low
    half first.
    """
    state = _STATE_OF_SEED
    while True:
        state = (state * _MULTIPLIER + _INCREMENT_OF_SEED) % 2**128
        high_half = state >> 64
        low_half = state % 2**64
        number = _rotate_right(high_half ^ low_half, bit_count=state >> 122)
        yield number % 2**32
        yield number >> 32


def _rotate_right(number: int, bit_count: int) -> int:
    """Return a 64-bit number whose lowest bits were moved to its other end."""
    upper_bits = number >> bit_count
    lowest_bits = number % (1 << bit_count)
    return upper_bits + (lowest_bits << (64 - bit_count))


def _draw_up_to(largest: int, words: Iterator[int]) -> int:
    """Return a random number from 0 to ``largest``, as numpy draws it.

    As many bits of a random word are used as ``largest`` has. A number above ``largest`` is rejected, and the next word
    is used.
    """
    mask = (1 << largest.bit_length()) - 1
    number = next(words) & mask
    while number > largest:
        number = next(words) & mask
    return number


def permutation(size: int) -> list[int]:
    """Return ``numpy.random.default_rng(42).permutation(size)``: a Fisher-Yates shuffle of the numbers below ``size``.

    Source:
        O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
        Generation".

    Example:
        >>> permutation(8)
        [3, 4, 2, 7, 6, 1, 5, 0]
    """
    words = _random_words()
    order = list(range(size))
    for last in range(size - 1, 0, -1):
        position = _draw_up_to(last, words)
        order[last], order[position] = order[position], order[last]
    return order


def balanced(groups: Sequence[Sequence[int]], number: int, seed: int) -> list[int]:
    """Select a number of random rows, one of each label in each turn, as HELMET does.

    The rows of a turn are in random order. The last turn is cut off where the number is reached.

    Args:
        groups: The rows of each label, labels in the order in which they first occur.
        number: Number of rows. A row is selected again if its label has fewer rows than there are turns.
        seed: The seed of Python's :mod:`random`.
    """
    generator = random.Random(seed)
    turn_count = math.ceil(number / len(groups))
    drawn_by_label = [_draw_rows(generator, rows, turn_count) for rows in groups]
    selected_rows: list[int] = []
    for turn in range(turn_count):
        rows_of_turn = [drawn_rows[turn] for drawn_rows in drawn_by_label]
        generator.shuffle(rows_of_turn)
        selected_rows += rows_of_turn
    return selected_rows[:number]


def _draw_rows(generator: random.Random, rows: Sequence[int], count: int) -> list[int]:
    """Draw rows of a label at random, each equally often: the numbers of draws differ by 1 at most.

    HELMET first draws the remainder of ``count / len(rows)``, without replacement. Then it draws all rows in a new
    random order, as often as necessary.
    """
    drawn_rows = generator.sample(rows, count % len(rows))
    while len(drawn_rows) < count:
        drawn_rows += generator.sample(rows, len(rows))
    return drawn_rows


def by_balance(labels: Sequence[_Label | None], size: int | None) -> list[int]:
    """Select test items as HELMET does.

    If there are more rows than ``size``, they are shuffled, and random ones are selected, equally many of each label.
    Otherwise all rows are selected, in file order.

    Args:
        labels: Label of each row, in file order.
        size: Largest number of test items; None for all rows.

    Returns:
        Indexes of the selected rows.
    """
    if size is None or len(labels) <= size:
        return list(range(len(labels)))
    shuffled_rows = permutation(len(labels))
    groups = rows_by_label(labels[row] for row in shuffled_rows)
    return [shuffled_rows[position] for position in balanced(groups, size, SEED)]
