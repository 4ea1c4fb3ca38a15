"""Experiments with the order of demonstrations: ``order``, ``position``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from StaICC.errors import ArgumentError
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.shuffling import shuffled

_Label = TypeVar("_Label")


def order_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return conditions with the same demonstrations in the published order, in rotated and in shuffled orders.

    There are as many shuffled orders as rotated ones. A rotation moves the demonstrations before a cut to the end. With
    4 rotations, the cuts are after one, two, three and four fifths of the demonstrations.

    Args:
        options: The options of the experiment. Its only level is the number of rotations.
        material: The training rows and the test items.

    Raises:
        ArgumentError: There are not more demonstrations than rotations.
    """
    demonstrations = material.shots(options.shots)
    (rotation_count,) = options.levels
    if rotation_count >= len(demonstrations):
        raise ArgumentError(
            f"{material.data.card.title}: got {rotation_count} rotations of {len(demonstrations)} demonstrations, "
            f"expected at most {len(demonstrations) - 1}, which have different orders"
        )
    conditions: Conditions = {"published": material.shared_context(demonstrations)}
    for number in range(1, rotation_count + 1):
        cut = len(demonstrations) * number // (rotation_count + 1)
        rotated = demonstrations[cut:] + demonstrations[:cut]
        conditions[f"rotation {number}"] = material.shared_context(rotated)
    for number in range(1, rotation_count + 1):
        seed = options.seed * rotation_count + number
        conditions[f"shuffle {number}"] = material.shared_context(shuffled(demonstrations, seed))
    return conditions


def blocks_of(labels: Sequence[_Label], parts: int, seed: int) -> dict[_Label, int]:
    """Return the block of each label in the experiment ``position``, a number from 0.

    Labels are assigned to blocks at random. The sizes of two blocks differ by one label at most. In condition b,
    counted from 0, the demonstrations of block k are in part ``(k + b) % parts`` of the context. So the demonstrations
    of every label are in every part once.

    Args:
        labels: The labels.
        parts: Number of parts of the context, which is that of the blocks.
        seed: Seed of the assignment.
    """
    blocks = {}
    for rank, label in enumerate(shuffled(labels, seed)):
        blocks[label] = rank * parts // len(labels)
    return blocks


def position_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return conditions that show the demonstrations of each label in each part of the context once.

    The design is a Latin square of blocks of labels (:func:`blocks_of`).

    Args:
        options: The options of the experiment. Its only level is the number of parts of the context.
        material: The training rows and the test items.

    Raises:
        ArgumentError: There are more parts than labels.
    """
    (part_count,) = options.levels
    labels = material.data.card.labels
    if part_count > len(labels):
        raise ArgumentError(
            f"{material.data.card.title}: got {part_count} parts for {len(labels)} labels, expected at most "
            f"{len(labels)}, so that each part has a label"
        )
    demonstrations = material.shots(options.shots)
    blocks = blocks_of(labels, part_count, options.seed)

    conditions: Conditions = {}
    for shift in range(part_count):
        parts: list[list[Item]] = [[] for _ in range(part_count)]
        for item in demonstrations:
            label = item.gold[0]
            part_index = (blocks[label] + shift) % part_count
            parts[part_index].append(item)
        demonstrations_in_order = []
        for items_of_part in parts:
            demonstrations_in_order.extend(items_of_part)
        conditions[f"order {shift + 1}"] = material.shared_context(demonstrations_in_order)
    return conditions
