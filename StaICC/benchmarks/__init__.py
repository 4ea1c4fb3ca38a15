"""Benchmarks: one task over several data sets, called with the user's inference function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.bias import ContextualBias, DomainBias, PosteriorBias
from StaICC.benchmarks.experimentor import DatasetRun, Experimentor
from StaICC.benchmarks.group import BenchmarkGroup, Diagnosis, Suite, TripletBias
from StaICC.benchmarks.normal import Normal, NormalTask
from StaICC.benchmarks.sensitivity import GLER, DemonstrationSensitivity, TemplateSensitivity
from StaICC.benchmarks.task import Condition, Outcome, Scores, Task

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
    "LongICL",
    "Normal",
    "NormalTask",
    "Outcome",
    "PosteriorBias",
    "Scores",
    "Suite",
    "Task",
    "TemplateSensitivity",
    "TripletBias",
]


def __getattr__(name: str) -> Any:
    if name == "LongICL":  # readers and parsers of six data sets: imported by those who use them
        from StaICC.benchmarks.long_icl import LongICL

        return LongICL
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
