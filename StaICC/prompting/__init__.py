"""From frozen tables to prompts: stable random, split, demonstration sampler, prompt writer, pseudo-queries."""

from __future__ import annotations

from StaICC.prompting.prompt_writer import Prompt as Prompt
from StaICC.prompting.prompt_writer import PromptRenderer as PromptRenderer
from StaICC.prompting.prompt_writer import PromptSettings as PromptSettings
from StaICC.prompting.prompt_writer import PromptWriter as PromptWriter
from StaICC.prompting.prompt_writer import Query as Query
from StaICC.prompting.prompt_writer import TemplateWarning as TemplateWarning
from StaICC.prompting.sampling import Label as Label
from StaICC.prompting.sampling import StableRandom as StableRandom
from StaICC.prompting.sampling import SubsetView as SubsetView
from StaICC.prompting.sampling import TripletSplit as TripletSplit
from StaICC.prompting.sampling import split_dataset as split_dataset
