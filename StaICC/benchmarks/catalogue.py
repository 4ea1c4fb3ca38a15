"""Benchmarks by the name that the command line uses."""

from __future__ import annotations

from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.bias import ContextualBias, DomainBias, PosteriorBias
from StaICC.benchmarks.group import BenchmarkGroup, Diagnosis, Suite, TripletBias
from StaICC.benchmarks.normal import Normal
from StaICC.benchmarks.sensitivity import GLER, DemonstrationSensitivity, TemplateSensitivity
from StaICC.errors import unknown_name

__all__ = ["BENCHMARKS", "make_benchmark"]

BENCHMARKS: dict[str, type[Benchmark] | type[BenchmarkGroup]] = {
    "normal": Normal,
    "contextual-bias": ContextualBias,
    "domain-bias": DomainBias,
    "post-bias": PosteriorBias,
    "triplet-bias": TripletBias,
    "gler": GLER,
    "template": TemplateSensitivity,
    "demonstration": DemonstrationSensitivity,
    "diagnosis": Diagnosis,
    "suite": Suite,
}
"""All benchmarks that run over frozen classification data."""


def make_benchmark(name: str, **arguments: Any) -> Any:
    """Make a benchmark by name.

    Args:
        name: A key of :data:`BENCHMARKS`.
        **arguments: For the benchmark: ``k``, ``noisy_channel``, ``metrics``, ``datasets``, ``limit``, ``outputs``.

    Returns:
        The benchmark, to be called with an inference function.

    Raises:
        UnknownNameError: There is no such benchmark.
    """
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name](**arguments)
