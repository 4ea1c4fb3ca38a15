"""From frozen tables to prompts: stable random, split, demonstration sampler, prompt writer, pseudo-queries."""

from __future__ import annotations

from StaICC.prompting.prompt_writer import PromptWriter, TemplateWarning, as_argument
from StaICC.prompting.pseudo_query import DOMAIN_QUERY_LENGTH, domain_queries, empty_queries
from StaICC.prompting.render import Prompt, PromptRenderer, PromptSettings, Query
from StaICC.prompting.sampler import (
    DemonstrationLists,
    check_demonstration_lists,
    restrict_to_domain,
    sample_demonstrations,
    sample_nested,
)
from StaICC.prompting.split import Label, SplitIndexes, SubsetView, TripletSplit, split_dataset, split_indexes
from StaICC.prompting.stable_random import StableRandom

__all__ = [
    "DOMAIN_QUERY_LENGTH",
    "DemonstrationLists",
    "Label",
    "Prompt",
    "PromptRenderer",
    "PromptSettings",
    "PromptWriter",
    "Query",
    "SplitIndexes",
    "StableRandom",
    "SubsetView",
    "TemplateWarning",
    "TripletSplit",
    "as_argument",
    "check_demonstration_lists",
    "domain_queries",
    "empty_queries",
    "restrict_to_domain",
    "sample_demonstrations",
    "sample_nested",
    "split_dataset",
    "split_indexes",
]
