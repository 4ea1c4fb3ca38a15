"""Experiments with the amount of what is shown: ``context``, ``length``, ``shots``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from StaICC.errors import ArgumentError
from StaICC.long_icl.contexts import Conditions, UnavailableCondition
from StaICC.long_icl.material import DesignOptions, Material, fill_budgets
from StaICC.long_icl.prompts import Item


def context_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return a condition for each budget. It shows as many demonstrations, in the published order, as fit.

    Args:
        options: The options of the experiment. Its levels are the budgets in reference tokens.
        material: The training rows and the test items.
    """
    conditions: Conditions = {}
    for budget in fill_budgets(material, material.published_order(), options.levels):
        if budget.reason:
            conditions[budget.name] = UnavailableCondition(budget.reason)
        else:
            conditions[budget.name] = material.shared_context(budget.demonstrations)
    return conditions


def length_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return the context of the first budget, and two longer contexts for each larger budget.

    - ``padded``: the demonstrations of the first budget after irrelevant text. Its difference from the first context is
      that of the length alone.
    - ``same labels``: further demonstrations of the labels of the first budget. It has as many bytes as the padded
      context, so their difference is that of the demonstrations.

    Args:
        options: The options of the experiment. Its levels are the budgets in reference tokens, in rising order.
        material: The training rows and the test items.
    """
    first_level = options.levels[:1]
    larger_levels = options.levels[1:]
    (first,) = fill_budgets(material, material.published_order(), first_level)
    if not first.demonstrations:
        return {first.name: UnavailableCondition(first.reason)}

    conditions: Conditions = {first.name: material.shared_context(first.demonstrations)}
    labels = _labels_of(first.demonstrations)
    row_indexes = []
    for row_index in material.published_order():
        if labels.issuperset(material.data.labels_of_row(row_index)):
            row_indexes.append(row_index)

    for budget in fill_budgets(material, row_indexes, larger_levels, kind=f" of the {len(labels)} labels"):
        padded_name = f"{budget.name} padded"
        conditions[padded_name] = material.shared_context(first.demonstrations, size=budget.size)
        same_labels_name = f"{budget.name} same labels"
        if budget.reason:
            conditions[same_labels_name] = UnavailableCondition(budget.reason)
        else:
            context = material.shared_context(budget.demonstrations)
            conditions[same_labels_name] = replace(context, compared=padded_name)
    return conditions


def _labels_of(demonstrations: Iterable[Item]) -> set[str]:
    """Return the distinct labels of demonstrations."""
    labels: set[str] = set()
    for item in demonstrations:
        labels.update(item.gold)
    return labels


def shots_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return a condition for each level. The level is the number of demonstrations of each label.

    Args:
        options: The options of the experiment. Its levels are numbers of demonstrations of each label.
        material: The training rows and the test items.
    """
    conditions: Conditions = {}
    for number in options.levels:
        name = f"{number} shots"
        try:
            demonstrations = material.shots(number)
        except ArgumentError as error:
            conditions[name] = UnavailableCondition(str(error))
        else:
            conditions[name] = material.shared_context(demonstrations)
    return conditions
