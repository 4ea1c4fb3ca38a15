"""Benchmarks: one task over several data sets, called with the user's inference function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.benchmarks.benchmark import Benchmark, TaskBenchmark
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.normal import Normal, NormalTask
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
from StaICC.lazy import lazy_names

if TYPE_CHECKING:
    from StaICC.benchmarks.diagnosis import (
        GLER,
        ContextualBias,
        DemonstrationSensitivity,
        DomainBias,
        PosteriorBias,
        TemplateSensitivity,
    )
    from StaICC.benchmarks.group import BenchmarkGroup, Diagnosis, Suite, TripletBias
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

__getattr__ = lazy_names(
    __name__,
    {
        "StaICC.benchmarks.group": "BenchmarkGroup Diagnosis Suite TripletBias",
        "StaICC.benchmarks.diagnosis": "ContextualBias DomainBias PosteriorBias "
        "GLER DemonstrationSensitivity TemplateSensitivity",
        "StaICC.benchmarks.long_icl": "LongICL",
    },
)
