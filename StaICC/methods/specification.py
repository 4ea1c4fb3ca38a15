"""Until all methods ask through their data: the names that were in this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivityTask
from StaICC.methods.catalogue import METHODS as METHODS
from StaICC.methods.catalogue import TABLE_2 as TABLE_2
from StaICC.methods.contract import MethodData as MethodData
from StaICC.methods.contract import MethodSpec as MethodSpec
from StaICC.methods.contract import Steps as Steps
from StaICC.methods.contract import Variant as Variant
from StaICC.methods.contract import check_variant as check_variant
from StaICC.methods.options import NoOptions as NoOptions
from StaICC.methods.options import OptionText as OptionText
from StaICC.methods.options import make_options as make_options
from StaICC.methods.options import option as option
from StaICC.methods.options import read_options as read_options
from StaICC.methods.prompt_views import clean_copy as clean_copy
from StaICC.methods.prompt_views import refuse_several_lists as refuse_several_lists
from StaICC.methods.prompt_views import with_demonstrations as with_demonstrations
from StaICC.methods.prompt_views import with_settings as with_settings
from StaICC.methods.prompt_views import with_template as with_template

PromptMaker = Callable[[list[Any], list[str]], Any]
"""Writes a prompt from demonstrations (rows of a set) and the input texts of the query."""


def prompt_makers(experimentor: Experimentor, variant: Variant) -> list[PromptMaker]:
    """Return the functions that write training prompts: one, or one for each condition if their templates differ.

    In ``"0.1.1"`` there is always one: the release trains with the first template.
    """
    if not isinstance(experimentor.task, TemplateSensitivityTask) or variant == "0.1.1":
        return [experimentor.prompt_former.write_prompt_from_dataline]
    return [with_template(experimentor, levels).prompt_former.write_prompt_from_dataline for levels in L9]
