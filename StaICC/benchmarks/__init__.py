"""Benchmarks: one task over several data sets, called with the user's inference function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.benchmarks.evaluation import DatasetRun as DatasetRun
from StaICC.benchmarks.experimentor import Experimentor as Experimentor
from StaICC.benchmarks.task import Condition as Condition
from StaICC.benchmarks.task import Outcome as Outcome
from StaICC.benchmarks.task import Scores as Scores
from StaICC.benchmarks.task import Scoring as Scoring
from StaICC.benchmarks.task import Statistics as Statistics
from StaICC.benchmarks.task import Task as Task
from StaICC.benchmarks.task import TaskInput as TaskInput
from StaICC.benchmarks.tasks import GLER as GLER
from StaICC.benchmarks.tasks import Benchmark as Benchmark
from StaICC.benchmarks.tasks import BenchmarkGroup as BenchmarkGroup
from StaICC.benchmarks.tasks import ContextualBias as ContextualBias
from StaICC.benchmarks.tasks import DemonstrationSensitivity as DemonstrationSensitivity
from StaICC.benchmarks.tasks import Diagnosis as Diagnosis
from StaICC.benchmarks.tasks import DomainBias as DomainBias
from StaICC.benchmarks.tasks import Generalisation as Generalisation
from StaICC.benchmarks.tasks import Normal as Normal
from StaICC.benchmarks.tasks import NormalTask as NormalTask
from StaICC.benchmarks.tasks import PosteriorBias as PosteriorBias
from StaICC.benchmarks.tasks import Suite as Suite
from StaICC.benchmarks.tasks import TaskBenchmark as TaskBenchmark
from StaICC.benchmarks.tasks import TemplateSensitivity as TemplateSensitivity
from StaICC.benchmarks.tasks import TripletBias as TripletBias
from StaICC.benchmarks.tasks import classification_scores as classification_scores
from StaICC.benchmarks.tasks import condition_missing as condition_missing
from StaICC.optional import lazy_names

if TYPE_CHECKING:
    from StaICC.benchmarks.long_icl import LongICL as LongICL


__getattr__ = lazy_names(__name__, {"StaICC.benchmarks.long_icl": "LongICL"})
