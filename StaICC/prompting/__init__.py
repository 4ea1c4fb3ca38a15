"""From frozen tables to prompts: stable random, split, demonstration sampler, prompt writer, pseudo-queries."""

from __future__ import annotations

from StaICC.prompting.prompt_writer import DOMAIN_QUERY_LENGTH as DOMAIN_QUERY_LENGTH
from StaICC.prompting.prompt_writer import Prompt as Prompt
from StaICC.prompting.prompt_writer import PromptRenderer as PromptRenderer
from StaICC.prompting.prompt_writer import PromptSettings as PromptSettings
from StaICC.prompting.prompt_writer import PromptWriter as PromptWriter
from StaICC.prompting.prompt_writer import Query as Query
from StaICC.prompting.prompt_writer import TemplateWarning as TemplateWarning
from StaICC.prompting.prompt_writer import as_argument as as_argument
from StaICC.prompting.prompt_writer import domain_queries as domain_queries
from StaICC.prompting.prompt_writer import empty_queries as empty_queries
from StaICC.prompting.prompt_writer import skip_query as skip_query
from StaICC.prompting.sampling import DemonstrationLists as DemonstrationLists
from StaICC.prompting.sampling import DemonstrationSampler as DemonstrationSampler
from StaICC.prompting.sampling import Label as Label
from StaICC.prompting.sampling import SplitIndexes as SplitIndexes
from StaICC.prompting.sampling import StableRandom as StableRandom
from StaICC.prompting.sampling import SubsetView as SubsetView
from StaICC.prompting.sampling import TripletSplit as TripletSplit
from StaICC.prompting.sampling import check_demonstration_lists as check_demonstration_lists
from StaICC.prompting.sampling import restrict_to_domain as restrict_to_domain
from StaICC.prompting.sampling import sample_demonstrations as sample_demonstrations
from StaICC.prompting.sampling import sample_nested as sample_nested
from StaICC.prompting.sampling import split_dataset as split_dataset
from StaICC.prompting.sampling import split_indexes as split_indexes
