"""Experiments with the amount of what is shown: ``context``, ``length``, ``shots``."""

from __future__ import annotations

from dataclasses import replace

from StaICC.errors import ArgumentError
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import DesignOptions, Material, fill_budgets


def context_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show as many demonstrations, in the published order, as a budget has room for."""
    conditions: Conditions = {}
    for budget in fill_budgets(material, material.published_order(), options.levels):
        if budget.reason:
            conditions[budget.name] = budget.reason
        else:
            conditions[budget.name] = material.contexts(budget.demonstrations)
    return conditions


def length_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show the demonstrations of the first budget; add irrelevant text, or demonstrations of the same labels.

    Both contexts of a budget have the same number of bytes, so their difference is that of the demonstrations, and the
    difference between irrelevant text and the first context is that of the length alone.
    """
    first_level = options.levels[:1]
    larger_levels = options.levels[1:]
    (first,) = fill_budgets(material, material.published_order(), first_level)
    if not first.demonstrations:
        return {first.name: first.reason}

    conditions: Conditions = {first.name: material.contexts(first.demonstrations)}
    labels: set[str] = set()
    for item in first.demonstrations:
        labels.update(item.gold)
    rows = [row for row in material.published_order() if labels.issuperset(material.data.labels_of_row(row))]
    for budget in fill_budgets(material, rows, larger_levels, kind=f" of the {len(labels)} labels"):
        padded_name = f"{budget.name} padded"
        conditions[padded_name] = material.contexts(first.demonstrations, size=budget.size)
        same_labels_name = f"{budget.name} same labels"
        if budget.reason:
            conditions[same_labels_name] = budget.reason
        else:
            contexts = material.contexts(budget.demonstrations)
            conditions[same_labels_name] = replace(contexts, compared=padded_name)
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
