"""Benchmarks by name: the built-in ones, those of plug-ins (``staicc.benchmarks``), and ``package.module:name``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from StaICC.registry import Registry, callable_entry, fold

_BUILTIN = {
    "normal": "StaICC.benchmarks.normal:Normal",
    "contextual-bias": "StaICC.benchmarks.diagnosis:ContextualBias",
    "domain-bias": "StaICC.benchmarks.diagnosis:DomainBias",
    "post-bias": "StaICC.benchmarks.diagnosis:PosteriorBias",
    "triplet-bias": "StaICC.benchmarks.group:TripletBias",
    "gler": "StaICC.benchmarks.diagnosis:GLER",
    "template": "StaICC.benchmarks.diagnosis:TemplateSensitivity",
    "demonstration": "StaICC.benchmarks.diagnosis:DemonstrationSensitivity",
    "diagnosis": "StaICC.benchmarks.group:Diagnosis",
    "suite": "StaICC.benchmarks.group:Suite",
}
_SPELLINGS = {"template_sens": "template", "demo_sens": "demonstration"}
"""Names of 0.1.1 that are not those of the classes."""


def _spellings() -> dict[str, str]:
    """Return the built-in names by folded spelling: their own, those of their classes, and those of 0.1.1."""
    classes = {place.rpartition(":")[2]: name for name, place in _BUILTIN.items()}
    named = {**{name: name for name in _BUILTIN}, **classes, **_SPELLINGS}
    return {fold(spelling): name for spelling, name in named.items()}


BENCHMARKS: Registry[Callable[..., Any]] = Registry(
    "benchmark",
    "staicc.benchmarks",
    _BUILTIN,
    callable_entry("a class or function that makes a Benchmark or a BenchmarkGroup"),
    folded=_spellings(),
)
"""All benchmarks that run over frozen classification data. To add one, add its line here."""


def make_benchmark(name: str, **arguments: Any) -> Any:
    """Make a benchmark by name.

    Args:
        name: A name of :data:`BENCHMARKS`, a plug-in's benchmark, or ``package.module:name``.
        **arguments: For the benchmark: ``k``, ``noisy_channel``, ``metrics``, ``datasets``, ``limit``, ``outputs``.

    Returns:
        The benchmark, to be called with an inference function.

    Raises:
        UnknownNameError: There is no such benchmark.
        PluginError: A plug-in is broken, or two plug-ins have that benchmark.
    """
    return BENCHMARKS.find(name).value(**arguments)
