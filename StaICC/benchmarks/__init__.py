"""Benchmarks: one task over several data sets, called with the user's inference function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.benchmarks.benchmark import Benchmark, TaskBenchmark
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.normal import Normal, NormalTask
from StaICC.benchmarks.outcome import Condition, Outcome, Scores
from StaICC.benchmarks.task import Scoring, Task, TaskInput
from StaICC.lazy import lazy_names

if TYPE_CHECKING:
    from StaICC.benchmarks.bias import ContextualBias, DomainBias, PosteriorBias
    from StaICC.benchmarks.group import BenchmarkGroup, Diagnosis, Suite, TripletBias
    from StaICC.benchmarks.long_icl import LongICL
    from StaICC.benchmarks.sensitivity import GLER, DemonstrationSensitivity, TemplateSensitivity

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
    "Suite",
    "Task",
    "TaskBenchmark",
    "TaskInput",
    "TemplateSensitivity",
    "TripletBias",
]

__getattr__ = lazy_names(
    __name__,
    {
        "StaICC.benchmarks.bias": "ContextualBias DomainBias PosteriorBias",
        "StaICC.benchmarks.group": "BenchmarkGroup Diagnosis Suite TripletBias",
        "StaICC.benchmarks.sensitivity": "GLER DemonstrationSensitivity TemplateSensitivity",
        "StaICC.benchmarks.long_icl": "LongICL",
    },
)
