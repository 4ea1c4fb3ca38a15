"""Benchmarks: one task over several data sets, called with the user's inference function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.benchmarks.benchmark import Benchmark, BenchmarkGroup, TaskBenchmark
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.task import (
    Condition,
    Outcome,
    Scores,
    Scoring,
    Statistics,
    Task,
    TaskInput,
    classification_scores,
    condition_missing,
)
from StaICC.benchmarks.tasks import (
    GLER,
    ContextualBias,
    DemonstrationSensitivity,
    Diagnosis,
    DomainBias,
    Generalisation,
    Normal,
    NormalTask,
    PosteriorBias,
    Suite,
    TemplateSensitivity,
    TripletBias,
)
from StaICC.optional import lazy_names

if TYPE_CHECKING:
    from StaICC.benchmarks.long_icl import LongICL

__all__ = [
    "GLER",
    "Benchmark",
    "BenchmarkGroup",
    "Condition",
    "ContextualBias",
    "DatasetRun",
    "DemonstrationSensitivity",
    "Diagnosis",
    "DomainBias",
    "Experimentor",
    "Generalisation",
    "LongICL",
    "Normal",
    "NormalTask",
    "Outcome",
    "PosteriorBias",
    "Scores",
    "Scoring",
    "Statistics",
    "Suite",
    "Task",
    "TaskBenchmark",
    "TaskInput",
    "TemplateSensitivity",
    "TripletBias",
    "classification_scores",
    "condition_missing",
]

__getattr__ = lazy_names(__name__, {"StaICC.benchmarks.long_icl": "LongICL"})
