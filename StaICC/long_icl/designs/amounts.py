"""Experiments with the amount of what is shown: ``context``, ``length``, ``shots``."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from StaICC.errors import ArgumentError
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import DesignOptions, Material, fill_budgets


def context_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show as many demonstrations, in the published order, as a budget has room for."""
    filled = fill_budgets(material, chain.from_iterable(material.data.turns()), options.levels)
    return {name: reason or material.contexts(shown) for name, shown, _, reason in filled}


def length_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show the demonstrations of the first budget; add irrelevant text, or demonstrations of the same labels.

    Both contexts of a budget have the same number of bytes, so their difference is that of the demonstrations, and the
    difference between irrelevant text and the first context is that of the length alone.
    """
    order, larger = [*chain.from_iterable(material.data.turns())], options.levels[1:]
    ((first, base, _, reason),) = fill_budgets(material, order, options.levels[:1])
    if not base:
        return {first: reason}
    conditions: Conditions = {first: material.contexts(base)}
    labels = {item.gold[0] for item in base}
    same = (place for place in order if material.data.train[place].label in labels)
    for name, shown, size, reason in (
        fill_budgets(material, same, larger, f" of the {len(labels)} labels") if larger else ()
    ):
        conditions[f"{name} padded"] = material.contexts(base, size=size)
        conditions[f"{name} same labels"] = reason or replace(material.contexts(shown), compared=f"{name} padded")
    return conditions


def shots_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show a number of demonstrations of each label."""
    conditions: Conditions = {}
    for number in options.levels:
        try:
            conditions[f"{number} shots"] = material.contexts(material.shots(number))
        except ArgumentError as error:
            conditions[f"{number} shots"] = str(error)
    return conditions
