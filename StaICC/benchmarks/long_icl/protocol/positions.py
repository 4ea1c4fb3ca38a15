"""Positions of demonstrations, and accuracy by position.

The paper evaluates TACRED with two arrangements of the demonstrations, interleaved (as selected: every label once, then
every label again) and grouped by label, and reports accuracy by position of the gold label's demonstrations.
:func:`arrange` orders the demonstrations; :func:`accuracy_by_position` computes the accuracy from the outcomes of any
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from StaICC.benchmarks.long_icl.data.cards import TaskCard
from StaICC.benchmarks.long_icl.data.items import Item
from StaICC.benchmarks.long_icl.scoring import Tally
from StaICC.errors import ArgumentError, unknown_name

__all__ = ["ARRANGEMENTS", "PLACES", "PositionBin", "accuracy_by_position", "arrange", "label_positions"]

ARRANGEMENTS = ("interleaved", "grouped")
"""``interleaved``: as published; ``grouped``: all demonstrations of a label together, labels in alphabetical
order."""

PLACES = ("first", "mean", "last")
"""Definitions of the position of a label with several demonstrations."""


@dataclass(frozen=True, slots=True)
class PositionBin:
    """Counts of the items whose gold label is in one part of the context."""

    start: int
    """First position of the part, from 1."""
    end: int
    """Last position of the part."""
    gold: int
    correct: int
    accuracy: float | None
    """None if no gold label is in this part."""


def arrange(card: TaskCard, demonstrations: Sequence[Item], arrangement: str) -> list[Item]:
    """Return demonstrations in an arrangement.

    Args:
        card: Card of the data set.
        demonstrations: The demonstrations as selected.
        arrangement: One of :data:`ARRANGEMENTS`.

    Raises:
        UnknownNameError: The arrangement is unknown.
        ArgumentError: Demonstrations have several labels, so they cannot be grouped by label.
    """
    if arrangement not in ARRANGEMENTS:
        raise unknown_name("arrangement", arrangement, ARRANGEMENTS)
    if arrangement == "interleaved":
        return list(demonstrations)
    if card.structured:
        raise ArgumentError(f"{card.title}: a demonstration has several labels, so the arrangement cannot be 'grouped'")
    return sorted(demonstrations, key=lambda item: item.gold)


def label_positions(demonstrations: Iterable[Item]) -> dict[str, tuple[int, ...]]:
    """Return the positions of the demonstrations of each label, from 1.

    Example:
        >>> from StaICC.benchmarks.long_icl.data.items import TextItem
        >>> label_positions([TextItem(0, "hm", "joy"), TextItem(1, "ah", "fear"), TextItem(2, "oh", "joy")])
        {'joy': (1, 3), 'fear': (2,)}
    """
    places: dict[str, tuple[int, ...]] = {}
    for place, item in enumerate(demonstrations, 1):
        for label in dict.fromkeys(item.gold):
            places[label] = (*places.get(label, ()), place)
    return places


def accuracy_by_position(
    tallies: Iterable[Tally],
    positions: Mapping[str, Sequence[int]],
    *,
    bins: int = 5,
    place: str = "mean",
) -> tuple[PositionBin, ...]:
    """Return the accuracy by position of the gold label's demonstrations.

    Args:
        tallies: The tallies of the items of a round.
        positions: Positions by label, from :func:`label_positions`.
        bins: Number of equal parts of the context.
        place: Position of a label with several demonstrations: ``first``, ``mean`` or ``last``.

    Returns:
        One record for each part, in order of the context. Gold labels without demonstrations are not counted.

    Raises:
        ArgumentError: There are no demonstrations, or ``bins`` is not a whole number from 1 to their number.
        UnknownNameError: ``place`` is unknown.

    Example:
        >>> tallies = [Tally(("a",), ("a",), ("a",)), Tally(("b",), ("a",), ())]
        >>> [part.accuracy for part in accuracy_by_position(tallies, {"a": [1, 2], "b": [3, 4]}, bins=2)]
        [1.0, 0.0]
    """
    if place not in PLACES:
        raise unknown_name("place", place, PLACES)
    length = max((max(places) for places in positions.values()), default=0)
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= length:
        raise ArgumentError(
            f"bins must be a whole number from 1 to the number of demonstrations, {length}, not {bins!r}"
        )

    def part(label: str) -> int:
        places = positions[label]
        # Twice the mean as an integer, so that no rounding moves a label across a border.
        doubled = {"first": 2 * places[0], "last": 2 * places[-1], "mean": 2 * sum(places)}[place]
        count = len(places) if place == "mean" else 1
        return min(bins - 1, (doubled - count) * bins // (2 * count * length))

    gold, correct = [0] * bins, [0] * bins
    for tally in tallies:
        for labels, counts in ((tally.gold, gold), (tally.correct, correct)):
            for label in labels:
                if positions.get(label):
                    counts[part(label)] += 1
    edges = [_first_place(i, bins, length) for i in range(bins + 1)]
    return tuple(
        PositionBin(edges[i], edges[i + 1] - 1, gold[i], correct[i], correct[i] / gold[i] if gold[i] else None)
        for i in range(bins)
    )


def _first_place(part: int, bins: int, length: int) -> int:
    """Return the first position p, from 1, whose middle (p - 1/2) is in the part."""
    return next((p for p in range(1, length + 1) if (2 * p - 1) * bins // (2 * length) >= part), length + 1)
