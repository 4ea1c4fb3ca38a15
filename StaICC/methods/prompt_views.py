"""Copies of a data set whose prompts are others, for methods."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.sensitivity import DemonstrationSensitivityTask, template_of_levels
from StaICC.datasets.catalogue import Template, TemplateAlternatives
from StaICC.errors import ArgumentError
from StaICC.prompting.demonstrations import check_demonstration_lists
from StaICC.prompting.prompt_writer import PromptWriter

_SHARED_SETTINGS = ("instruction", "input_text_prefixes", "label_prefix", "query_prefix", "label_space")
"""The settings that are the same in the noisy channel, whose affixes are others."""


def clean_copy(experimentor: Experimentor, noisy_channel: bool = False) -> Experimentor:
    """Return a copy of an experimentor with all settings; changes to the copy do not affect the original.

    Args:
        experimentor: The experimentor.
        noisy_channel: Whether the copy has the prompts of the noisy channel. They have affixes of their own, those of
            the benchmark. Other settings that the user has changed are kept.
    """
    writer = experimentor.prompt_former
    if not noisy_channel or writer.settings.noisy_channel:
        return experimentor.copy_with(_writer=copy.copy(writer))
    noisy_writer = PromptWriter(experimentor.card, experimentor.triplet_dataset, noisy_channel=True)
    noisy_writer = noisy_writer.copy_with(_warned=True)  # the original has warned of its changes
    if writer.changed:
        settings = writer.get_config_dict()
        noisy_writer.set_config_dict({key: settings[key] for key in _SHARED_SETTINGS})
    return experimentor.copy_with(_writer=noisy_writer)


def with_demonstrations(experimentor: Experimentor, lists: Sequence[Sequence[int]]) -> Experimentor:
    """Return a copy of an experimentor with other demonstrations; each test row is used once then.

    Args:
        experimentor: The experimentor.
        lists: For each test row within the limit, or for all test rows, positions of the demonstration set, equally
            many in each list.

    Raises:
        ArgumentError: A test row within the limit has no list, there are more lists than test rows, their lengths
            differ, or a position is not in the set.
    """
    name = "the argument demonstrations"
    if not hasattr(lists, "__len__"):
        raise ArgumentError(f"{name} must be a list of lists of positions, not {lists!r:.80}")
    if not experimentor.row_count <= len(lists) <= len(experimentor.test_set()):
        raise ArgumentError(
            f"demonstrations: got {len(lists)} lists, expected one for each of the {experimentor.row_count} test rows"
        )
    pool_size = len(experimentor.demonstration_set())
    checked_lists = check_demonstration_lists(lists, queries=len(lists), k=None, pool=pool_size, name=name)
    copied = clean_copy(experimentor)
    k = len(checked_lists[0])
    if k != copied.get_k():
        copied.set_k(k)
    # The sampler has a list for every test row. Those beyond the limit are not asked, so any demonstrations do.
    n_beyond_limit = len(copied.test_set()) - len(checked_lists)
    lists_beyond_limit = [list(range(k))] * n_beyond_limit
    copied.set_demonstration_sampler([*checked_lists, *lists_beyond_limit])
    return copied


def with_settings(experimentor: Experimentor, **settings: Any) -> Experimentor:
    """Return a copy of an experimentor with other settings of its prompts.

    Args:
        experimentor: The experimentor.
        **settings: The settings that change, such as ``instruction``.
    """
    # No warning that prompts are not the benchmark's: the signature says it by the method.
    writer = experimentor.prompt_former.copy_with(_warned=True)
    writer.set_config_dict(settings)
    return experimentor.copy_with(_writer=writer)


def template_settings(experimentor: Experimentor, template: Template | str) -> dict[str, Any]:
    """Return the settings of prompts that a template has, by name.

    These are all parts of a template. One of template sensitivity has those parts only that this benchmark varies.

    Args:
        experimentor: The data set, whose card has the alternatives.
        template: The template; or a text such as ``"1012"``, which names one of template sensitivity by the number of
            the alternative of each part (a row of ``L9``).

    Raises:
        ArgumentError: The card has no alternatives, or there is no such row.
    """
    if isinstance(template, Template):
        return asdict(template)
    varied = template_of_levels(experimentor.task_input(), template).template
    return {part.name: getattr(varied, part.name) for part in fields(TemplateAlternatives)}


def refuse_several_lists(experimentor: Experimentor) -> None:
    """Refuse a benchmark that needs several demonstration lists for each query."""
    if isinstance(experimentor.task, DemonstrationSensitivityTask):
        name = experimentor.task.name
        raise ArgumentError(f"{name} needs several demonstration lists for each query; this method sets one")
