"""LongICL: classification with many labels and long contexts, as LongICLBench publishes it.

Six data sets with 28 to 174 labels; demonstrations in one to five rounds, each of which shows every label once more;
contexts from 1,000 to 50,000 tokens; 500 test items. Source: "Long-context LLMs Struggle with Long In-context
Learning" (Li et al., 2024) and its published code. ``docs/long_icl.md`` has the whole protocol and the decisions of
the two variants.

The way through the package: ``cards`` (what the data sets are) - ``readers`` (published files) - ``selection`` (which
rows) - ``items`` and ``prompting`` (prompts) - ``parsing`` and ``strict`` (answers) - ``scoring``, ``baselines``,
``positions`` (numbers) - ``loading``, ``installing`` and ``hub`` (folders) - ``experimentor`` (all of it, for one data
set) - ``benchmark`` (:class:`LongICL`: asking a function about all of them) - ``collecting`` (the result) -
``published`` and ``position_study`` (what one does with it).

``variant="published"`` is the original, byte for byte and number for number, but for one division by zero.
``variant="strict"`` asks the same prompts and mends what the original gets wrong in choosing rows, reading answers
and counting; :mod:`StaICC.benchmarks.long_icl.strict` lists every decision.

Guarantees: no randomness; every file is checked row by row, and against the published digest where one is known; a
data set that is missing is named, with what to do; a query without an answer is never scored as a wrong one.

Example:
    >>> parse_answer("goemotions", " JOY ", {"text": "I passed!"})
    'joy'
"""

from __future__ import annotations

from StaICC.benchmarks.long_icl.baselines import Baselines, baselines
from StaICC.benchmarks.long_icl.benchmark import LongICL, rebuild_long_icl
from StaICC.benchmarks.long_icl.cards import TaskCard, card, cards
from StaICC.benchmarks.long_icl.experimentor import DataSetScore, LongICLExperimentor, Outcome, Query, RoundScore
from StaICC.benchmarks.long_icl.hub import install_from_hub
from StaICC.benchmarks.long_icl.installing import Installed, default_folder, install
from StaICC.benchmarks.long_icl.items import (
    DialogueItem,
    EntityItem,
    Item,
    PairItem,
    Relation,
    RelationItem,
    TextItem,
    as_item,
)
from StaICC.benchmarks.long_icl.loading import DataSet, LoadedFile, Skipped, load, load_available
from StaICC.benchmarks.long_icl.parsing import VARIANTS, parse_answer
from StaICC.benchmarks.long_icl.position_study import PositionStudy, positions_of, study_positions
from StaICC.benchmarks.long_icl.positions import ARRANGEMENTS, PositionBin, accuracy_by_position, label_positions
from StaICC.benchmarks.long_icl.published import (
    PublishedComparison,
    PublishedTable,
    compare_with_published,
    published_tables,
)
from StaICC.benchmarks.long_icl.scoring import Accuracy, LabelCounts, MicroF1, Tally, score_tallies

__all__ = [
    "ARRANGEMENTS",
    "VARIANTS",
    "Accuracy",
    "Baselines",
    "DataSet",
    "DataSetScore",
    "DialogueItem",
    "EntityItem",
    "Installed",
    "Item",
    "LabelCounts",
    "LoadedFile",
    "LongICL",
    "LongICLExperimentor",
    "MicroF1",
    "Outcome",
    "PairItem",
    "PositionBin",
    "PositionStudy",
    "PublishedComparison",
    "PublishedTable",
    "Query",
    "Relation",
    "RelationItem",
    "RoundScore",
    "Skipped",
    "Tally",
    "TaskCard",
    "TextItem",
    "accuracy_by_position",
    "as_item",
    "baselines",
    "card",
    "cards",
    "compare_with_published",
    "default_folder",
    "install",
    "install_from_hub",
    "label_positions",
    "load",
    "load_available",
    "parse_answer",
    "positions_of",
    "published_tables",
    "rebuild_long_icl",
    "score_tallies",
    "study_positions",
]
