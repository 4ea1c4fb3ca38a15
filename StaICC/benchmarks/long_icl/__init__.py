"""LongICL: classification with many labels and long contexts, as LongICLBench publishes it.

Six data sets with 28 to 174 labels; one to five rounds of demonstrations, where each round adds one demonstration per
label; contexts of 1,000 to 50,000 tokens; 500 test items. Source: "Long-context LLMs Struggle with Long In-context
Learning" (Li et al., 2024) and its published code. ``docs/long_icl.md`` describes the protocol and both variants.

Modules: ``protocol`` (cards, items, selection of rows, prompts, scores of responses), ``data`` (reading and
installing), ``experiments`` (what a long context does) and ``benchmark`` (:class:`LongICL`).

``variant="published"`` reproduces the prompts, parses and scores of the published code exactly, except for one division
by zero. ``variant="strict"`` writes the same prompt templates and corrects errors in the selection of rows, the parsing
and the scoring; :mod:`StaICC.benchmarks.long_icl.protocol` lists the corrections.

Guarantees: There is no randomness. Every file is checked row by row, and against the published digest if one is known.
A missing data set is reported with instructions. A failed query is never scored as a wrong prediction.

Example:
    >>> parse_answer("goemotions", " JOY ", {"text": "I passed!"})
    'joy'
"""

from __future__ import annotations

from StaICC.benchmarks.long_icl.benchmark import LongICL as LongICL
from StaICC.benchmarks.long_icl.benchmark import LongICLExperimentor as LongICLExperimentor
from StaICC.benchmarks.long_icl.benchmark import rebuild_long_icl as rebuild_long_icl
from StaICC.benchmarks.long_icl.data import default_folder as default_folder
from StaICC.benchmarks.long_icl.data import install as install
from StaICC.benchmarks.long_icl.data import load as load
from StaICC.benchmarks.long_icl.data import load_available as load_available
from StaICC.benchmarks.long_icl.experiments import Experiment as Experiment
from StaICC.benchmarks.long_icl.protocol import TaskCard as TaskCard
from StaICC.benchmarks.long_icl.protocol import card as card
from StaICC.benchmarks.long_icl.protocol import cards as cards
from StaICC.benchmarks.long_icl.protocol import parse_answer as parse_answer
