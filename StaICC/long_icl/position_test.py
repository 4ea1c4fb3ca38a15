"""The test of the experiment ``position``: does the part of the context change predictions?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.condition_scores import lacks_replies
from StaICC.long_icl.designs.orders import blocks_of
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.scoring import Tally

REDRAWS = 1999
"""Designs that the test of positions draws; its smallest p-value is 1 / 2000."""


def by_part(
    experiment: Experiment, card: TaskCard, labels: Sequence[str], orders: Sequence[Sequence[Tally | None]]
) -> tuple[dict[str, list[Tally | None]], float | None]:
    """Return the tallies of ``position`` by part of the context, and the p-value; no tallies if a query failed.

    There is no p-value if a reply is missing: replies can be missing because of the position.
    """
    count, complete = len(orders), all(orders)
    blocks = blocks_of(card.labels, count, experiment.seed)
    parts = {
        f"part {part + 1}": [
            orders[(part - blocks[label]) % count][place] for place, label in enumerate(labels) if complete
        ]
        for part in range(count)
    }
    correct: dict[str, list[int]] = {label: [0] * count for label in card.labels}
    if not complete or any(map(lacks_replies, orders)):
        return parts, None
    for order, of_order in enumerate(orders):
        for label, tally in zip(labels, of_order, strict=True):
            correct[label][order] += bool(tally and tally.correct)
    return parts, position_p_value(correct, blocks)


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
        blocks: The block of each label (:func:`blocks_of`).
        redraws: Number of other assignments.
        seed: Of the draws.

    Source:
        Fisher 1935, "The Design of Experiments"; the p-value counts the observed assignment as one of the drawn ones.

    Example:
        >>> position_p_value({"a": [1, 0], "b": [0, 1], "c": [1, 0], "d": [0, 1]}, {"a": 0, "b": 1, "c": 0, "d": 1}, 9)
        0.4
    """
    draw = random.Random(seed).random
    slots = list(blocks.values())
    labels = [label for label in blocks if len(set(correct[label])) > 1]  # the others add the same to all parts
    count = max(slots) + 1
    by_block = [
        [tuple(correct[label][(part - block) % count] for part in range(count)) for block in range(count)]
        for label in labels
    ]

    def statistic(assigned: Sequence[int]) -> int:
        columns = zip(*(rows[block] for rows, block in zip(by_block, assigned, strict=False)), strict=True)
        return sum(number * number for number in map(sum, columns))

    observed = statistic([blocks[label] for label in labels])
    extreme = 0
    for _ in range(redraws):
        order = sorted((draw(), slot) for slot in slots)
        extreme += statistic([slot for _, slot in order]) >= observed
    return (1 + extreme) / (1 + redraws)
