"""The test of the experiment ``position``: does the part of the context change predictions?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from StaICC.long_icl.condition_scores import Tallies, lacks_replies
from StaICC.long_icl.scoring import Tally

REDRAWS = 1999
"""Designs that the test draws; its smallest p-value is 1 / 2000."""


def tallies_by_part(
    labels: Sequence[str], orders: Sequence[Tallies], blocks: Mapping[str, int]
) -> dict[str, list[Tally | None]]:
    """Return the tallies of ``position`` by part of the context; no tallies if a query of any order failed.

    A part has each test item once: in the order in which the demonstrations of its true label are in this part.

    Args:
        labels: The true label of each test item.
        orders: The tallies of each order.
        blocks: The block of each label (:func:`~StaICC.long_icl.designs.orders.blocks_of`).
    """
    part_count = len(orders)
    parts: dict[str, list[Tally | None]] = {}
    for part in range(part_count):
        tallies: list[Tally | None] = []
        if all(orders):
            for item_index, label in enumerate(labels):
                # In order b, block k is in part (k + b) modulo the number of parts.
                order = (part - blocks[label]) % part_count
                tallies.append(orders[order][item_index])
        parts[f"part {part + 1}"] = tallies
    return parts


def p_value_of_positions(labels: Sequence[str], orders: Sequence[Tallies], blocks: Mapping[str, int]) -> float | None:
    """Return the p-value of the test of no effect; ``None`` if a query failed or a reply is missing.

    Replies can be missing because of the position, so the test needs all of them. Arguments as for
    :func:`tallies_by_part`.
    """
    if not all(orders) or any(lacks_replies(tallies) for tallies in orders):
        return None
    correct_counts = {label: [0] * len(orders) for label in blocks}
    for order, tallies in enumerate(orders):
        for label, tally in zip(labels, tallies, strict=True):
            if tally is not None and tally.correct:
                correct_counts[label][order] += 1
    return position_p_value(correct_counts, blocks)


def position_p_value(
    correct: Mapping[str, Sequence[int]], blocks: Mapping[str, int], redraws: int = REDRAWS, seed: int = 0
) -> float:
    """Return the p-value of the hypothesis that the position of a label in the context changes no prediction.

    The design assigned labels to blocks at random. If positions change nothing, the predictions would be the same
    under every assignment. So the statistic, the variance of the number of correct predictions over the parts, is
    compared with that under other random assignments. The test is exact for any model: a constant one, one that is
    better on some labels or under some orders, and one whose predictions depend on each other.

    Args:
        correct: For each label the number of correct predictions in each condition.
        blocks: The block of each label (:func:`~StaICC.long_icl.designs.orders.blocks_of`).
        redraws: Number of other assignments.
        seed: Seed of the draws.

    Source:
        Fisher 1935, "The Design of Experiments"; the p-value counts the observed assignment as one of the drawn ones.

    Example:
        >>> position_p_value({"a": [1, 0], "b": [0, 1], "c": [1, 0], "d": [0, 1]}, {"a": 0, "b": 1, "c": 0, "d": 1}, 9)
        0.4
    """
    generator = random.Random(seed)
    slots = list(blocks.values())  # the block of each label, which the assignments exchange
    part_count = max(slots) + 1

    # A label that is equally often correct in all conditions adds the same to all parts, whatever its block is.
    changing_labels = [label for label in blocks if len(set(correct[label])) > 1]
    counts_by_block = []  # for each changing label and each block it may have: the correct predictions in each part
    for label in changing_labels:
        counts_by_block.append([_counts_by_part(correct[label], block, part_count) for block in range(part_count)])

    def statistic(assigned: Sequence[int]) -> int:
        """Return the sum over parts of the squared number of correct predictions, which rises with the variance."""
        rows = [counts[block] for counts, block in zip(counts_by_block, assigned, strict=False)]
        return sum(sum(column) ** 2 for column in zip(*rows, strict=True))

    observed = statistic([blocks[label] for label in changing_labels])
    extreme_count = 0
    for _ in range(redraws):
        order = sorted((generator.random(), slot) for slot in slots)
        if statistic([slot for _, slot in order]) >= observed:
            extreme_count += 1
    return (1 + extreme_count) / (1 + redraws)


def _counts_by_part(counts: Sequence[int], block: int, part_count: int) -> tuple[int, ...]:
    """Return the correct predictions of a label in each part, given those in each condition and its block."""
    return tuple(counts[(part - block) % part_count] for part in range(part_count))
