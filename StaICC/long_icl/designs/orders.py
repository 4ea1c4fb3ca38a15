"""Experiments with the order of demonstrations: ``order``, ``position``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from StaICC.errors import ArgumentError
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.shuffling import shuffled

_Value = TypeVar("_Value")


def order_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show the same demonstrations in the published order, rotated, and shuffled."""
    shown = material.shots(options.shots)
    (count,) = options.levels
    if count >= len(shown):
        raise ArgumentError(f"{material.data.card.title}: got {count} rotations of {len(shown)} demonstrations")
    numbers = range(1, count + 1)
    cuts = {number: len(shown) * number // (count + 1) for number in numbers}
    orders = {"published": shown} | {f"rotation {number}": shown[cut:] + shown[:cut] for number, cut in cuts.items()}
    orders |= {f"shuffle {number}": shuffled(shown, options.seed * count + number) for number in numbers}
    return {name: material.contexts(order) for name, order in orders.items()}


def blocks_of(labels: Sequence[_Value], parts: int, seed: int) -> dict[_Value, int]:
    """Assign labels to blocks of equal size (up to one label) at random: the design of the experiment ``position``.

    In condition b, counted from 0, block k is in part (k + b) modulo the number of parts. So every label is in every
    part once, and the part does not depend on the label.
    """
    return {label: rank * parts // len(labels) for rank, label in enumerate(shuffled(labels, seed))}


def position_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show the demonstrations of each label in each part of the context."""
    (parts,) = options.levels
    labels = material.data.card.labels
    if parts > len(labels):
        raise ArgumentError(f"{material.data.card.title}: got {parts} parts for {len(labels)} labels")
    shown, blocks = material.shots(options.shots), blocks_of(labels, parts, options.seed)
    return {
        f"order {shift + 1}": material.contexts(sorted(shown, key=lambda item: (blocks[item.gold[0]] + shift) % parts))
        for shift in range(parts)
    }
