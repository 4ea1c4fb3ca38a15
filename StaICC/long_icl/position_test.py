"""The test of the experiment ``position``: does the part of the context change predictions?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from StaICC.long_icl.condition_scores import Tallies, lacks_replies
from StaICC.long_icl.scoring import Tally

REDRAWS = 1999
"""Number of random assignments that the test draws; its smallest p-value is 1 / 2000."""


def tallies_by_part(
    labels: Sequence[str], orders: Sequence[Tallies], blocks: Mapping[str, int]
) -> dict[str, list[Tally | None]]:
    """Return the tallies of each part of the context; no tallies if a query of any order failed.

    A part has each test item once: in the order in which the demonstrations of its true label are in this part.

    Args:
        labels: The true label of each test item.
        orders: The tallies of each order. There are as many orders as parts.
        blocks: The block of each label (:func:`~StaICC.long_icl.designs.orders.blocks_of`).
    """
    part_count = len(orders)
    parts: dict[str, list[Tally | None]] = {}
    for part_index in range(part_count):
        tallies: list[Tally | None] = []
        if all(orders):
            for item_index, label in enumerate(labels):
                order_index = _order_with_block(part_index, blocks[label], part_count)
                tallies.append(orders[order_index][item_index])
        parts[f"part {part_index + 1}"] = tallies
    return parts


def _order_with_block(part_index: int, block: int, part_count: int) -> int:
    """Return the order in which a block of labels is in a part of the context.

    In order b, block k is in part ``(k + b) % part_count``. All of them are counted from 0.
    """
    return (part_index - block) % part_count


def p_value_of_positions(labels: Sequence[str], orders: Sequence[Tallies], blocks: Mapping[str, int]) -> float | None:
    """Return the p-value of the test of no effect of the position, from the tallies of all orders.

    The test needs all replies, because they can be missing because of the position. Arguments as for
    :func:`tallies_by_part`.

    Returns:
        The p-value; ``None`` if a query failed or a reply is missing.
    """
    for tallies in orders:
        if not tallies or lacks_replies(tallies):
            return None
    correct_counts = {label: [0] * len(orders) for label in blocks}
    for order_index, tallies in enumerate(orders):
        for label, tally in zip(labels, tallies, strict=True):
            if tally is not None and tally.correct:
                correct_counts[label][order_index] += 1
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
    block_of_each_label = list(blocks.values())
    part_count = max(block_of_each_label) + 1

    # A label that is equally often correct in all conditions adds the same to all parts, whatever its block is. So only
    # the other labels are counted.
    changing_labels = [label for label in blocks if len(set(correct[label])) > 1]
    counts_by_block = []  # for each changing label and each block it may have: the correct predictions in each part
    for label in changing_labels:
        counts_by_block.append([_counts_by_part(correct[label], block, part_count) for block in range(part_count)])

    observed_blocks = [blocks[label] for label in changing_labels]
    observed_statistic = _sum_of_squared_counts(counts_by_block, observed_blocks)
    extreme_count = 0
    for _ in range(redraws):
        # A random order of the blocks of all labels. The first ones are assigned to the changing labels.
        numbered_blocks = sorted((generator.random(), block) for block in block_of_each_label)
        redrawn_blocks = [block for _, block in numbered_blocks]
        if _sum_of_squared_counts(counts_by_block, redrawn_blocks) >= observed_statistic:
            extreme_count += 1
    return (1 + extreme_count) / (1 + redraws)


def _sum_of_squared_counts(counts_by_block: Sequence[Sequence[Sequence[int]]], assigned_blocks: Sequence[int]) -> int:
    """Return the sum over parts of the squared number of correct predictions, which rises with their variance.

    Args:
        counts_by_block: For each label and each block that it may have, its correct predictions in each part.
        assigned_blocks: The block of each label. Further blocks are not used.
    """
    counts_of_labels = [counts[block] for counts, block in zip(counts_by_block, assigned_blocks, strict=False)]
    total = 0
    for counts_of_part in zip(*counts_of_labels, strict=True):
        total += sum(counts_of_part) ** 2
    return total


def _counts_by_part(counts: Sequence[int], block: int, part_count: int) -> tuple[int, ...]:
    """Return the correct predictions of a label in each part, given those in each condition and its block."""
    return tuple(counts[_order_with_block(part_index, block, part_count)] for part_index in range(part_count))
