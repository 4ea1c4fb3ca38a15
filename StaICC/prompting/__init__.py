"""From frozen tables to prompts: stable random, split, demonstration sampler, prompt writer, pseudo-queries."""

from __future__ import annotations

from StaICC.prompting.prompt_writer import (
    DOMAIN_QUERY_LENGTH,
    Prompt,
    PromptRenderer,
    PromptSettings,
    PromptWriter,
    Query,
    TemplateWarning,
    as_argument,
    domain_queries,
    empty_queries,
)
from StaICC.prompting.sampling import (
    DemonstrationLists,
    DemonstrationSampler,
    Label,
    SplitIndexes,
    StableRandom,
    SubsetView,
    TripletSplit,
    check_demonstration_lists,
    restrict_to_domain,
    sample_demonstrations,
    sample_nested,
    split_dataset,
    split_indexes,
)

__all__ = [
    "DOMAIN_QUERY_LENGTH",
    "DemonstrationLists",
    "DemonstrationSampler",
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
