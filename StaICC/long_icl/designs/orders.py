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
    """Show the same demonstrations in the published order, rotated, and shuffled.

    With 4 rotations, the cuts are after a fifth, two fifths, ... of the demonstrations.
    """
    demonstrations = material.shots(options.shots)
    (rotation_count,) = options.levels
    if rotation_count >= len(demonstrations):
        raise ArgumentError(
            f"{material.data.card.title}: got {rotation_count} rotations of {len(demonstrations)} demonstrations, "
            f"expected at most {len(demonstrations) - 1}, which have different orders"
        )
    conditions: Conditions = {"published": material.contexts(demonstrations)}
    for number in range(1, rotation_count + 1):
        cut = len(demonstrations) * number // (rotation_count + 1)
        conditions[f"rotation {number}"] = material.contexts(demonstrations[cut:] + demonstrations[:cut])
    for number in range(1, rotation_count + 1):
        seed = options.seed * rotation_count + number
        conditions[f"shuffle {number}"] = material.contexts(shuffled(demonstrations, seed))
    return conditions


def blocks_of(labels: Sequence[_Label], parts: int, seed: int) -> dict[_Label, int]:
    """Assign labels to blocks of equal size (up to one label) at random: the design of the experiment ``position``.

    In condition b, counted from 0, block k is in part (k + b) modulo the number of parts. So every label is in every
    part once, and the part does not depend on the label.
    """
    blocks = {}
    for rank, label in enumerate(shuffled(labels, seed)):
        blocks[label] = rank * parts // len(labels)
    return blocks


def position_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show the demonstrations of each label in each part of the context once."""
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
        by_part: list[list[Item]] = [[] for _ in range(part_count)]
        for item in demonstrations:
            part = (blocks[item.gold[0]] + shift) % part_count
            by_part[part].append(item)
        ordered = [item for items_of_part in by_part for item in items_of_part]
        conditions[f"order {shift + 1}"] = material.contexts(ordered)
    return conditions
