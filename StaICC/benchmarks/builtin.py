"""The benchmarks of this library by name, with the groups Diagnosis, Suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC import benchmark_names, errors
from StaICC.benchmarks.benchmark import Benchmark, Datasets, Metrics, Settings
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.tasks.bias import ContextualBias, DomainBias, PosteriorBias, TripletBias
from StaICC.benchmarks.tasks.generalisation import Generalisation
from StaICC.benchmarks.tasks.label_noise import GLER
from StaICC.benchmarks.tasks.normal import Normal
from StaICC.benchmarks.tasks.sensitivity import DemonstrationSensitivity, TemplateSensitivity
from StaICC.registry import Registry, callable_entry, fold

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _CompositeBenchmark(BenchmarkGroup):
    """A group with one benchmark of each class in :attr:`kinds`.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    kinds: ClassVar[Sequence[type[Benchmark]]]
    """The classes of the members. The name of a member in the group is ``task_name`` of its class, as in results."""

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make one benchmark of each class, all with the same arguments."""
        if Normal in self.kinds and not isinstance(metrics, str):
            raise errors.ArgumentError("a suite scores by a named metric set, 'standard' or '0.1.1', for all its parts")
        arguments: dict[str, Any] = {
            "k": k,
            "noisy_channel": noisy_channel,
            "metrics": metrics,
            "datasets": datasets,
            **settings,
        }
        members = {kind.task_name: kind(**arguments) for kind in self.kinds}
        super().__init__(self.task_name, members)


class Diagnosis(_CompositeBenchmark):
    """All of StaICC-Diagnosis in one pass over the distinct prompts. The arguments are those of :class:`Suite`."""

    task_name: ClassVar[str] = benchmark_names.DIAGNOSIS
    kinds = (ContextualBias, DomainBias, PosteriorBias, GLER, TemplateSensitivity, DemonstrationSensitivity)


class Suite(_CompositeBenchmark):
    """StaICC-Normal and all of StaICC-Diagnosis in one pass over the distinct prompts.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Example:
        >>> result = Suite(datasets=["mini"], limit=8)(lambda prompt, label_space: 0)
        >>> list(result)
        ['Normal', 'Contextual_bias', 'Domain_bias', 'Post_bias', 'GLER', 'Template_sens', 'Demo_sens']
    """

    task_name: ClassVar[str] = benchmark_names.SUITE
    kinds = (Normal, *Diagnosis.kinds)


_COMMAND_NAMES = {
    benchmark_names.TEMPLATE_SENSITIVITY: "template",
    benchmark_names.DEMONSTRATION_SENSITIVITY: "demonstration",
}
"""The names on the command line that do not follow from the names in results."""


def _command_name(kind: type[Benchmark | BenchmarkGroup]) -> str:
    """Return the name of a benchmark on the command line, such as ``domain-bias`` for ``Domain_bias``."""
    if kind.task_name in _COMMAND_NAMES:
        return _COMMAND_NAMES[kind.task_name]
    return kind.task_name.lower().replace("_", "-")


_BUILTIN: Sequence[type[Benchmark | BenchmarkGroup]] = (
    *Suite.kinds,
    TripletBias,
    Generalisation,
    Diagnosis,
    Suite,
)
"""The benchmarks of this library, in the order in which they are listed. To add one, add its class here."""


_LONG_CONTEXTS = {
    "long-icl": "StaICC.long_icl.benchmark:LongICL",
    "helmet": "StaICC.long_icl.helmet:HELMET",
}
"""The benchmarks with long contexts; loaded by name, because their room is above."""


def _other_names() -> dict[str, str]:
    """Return further names under which the registry finds benchmarks, each with the name on the command line.

    A benchmark is also found by the name of its class and by its name in results, which is that of StaICC 0.1.1. Both
    names are folded: case, hyphens and underscores do not count. For example, ``DomainBias`` and ``Domain_bias`` are
    the benchmark ``domain-bias``.
    """
    names = {}
    for kind in _BUILTIN:
        names[fold(kind.__name__)] = _command_name(kind)
        names[fold(kind.task_name)] = _command_name(kind)
    names[fold(benchmark_names.LONG_ICL)] = "long-icl"
    return names


BENCHMARKS: Registry[Callable[..., Any]] = Registry(
    "benchmark",
    "staicc.benchmarks",
    {**{_command_name(kind): f"{__name__}:{kind.__name__}" for kind in _BUILTIN}, **_LONG_CONTEXTS},
    callable_entry("a class or function that makes a Benchmark or a BenchmarkGroup"),
    folded=_other_names(),
)
"""All benchmarks of this library."""


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
