"""The benchmark of a saved result, made again from the arguments that the file records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from StaICC import benchmark_names
from StaICC.arguments import validate_integer
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.benchmarks.experimentor import METRIC_SETS, Experimentor
from StaICC.benchmarks.findings import Contradicted, Finding, Results, Unchecked
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.benchmarks.race import first_rows
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.benchmarks.task import Statistics
from StaICC.datasets.catalogue import refuse_builtin
from StaICC.datasets.dataset import Dataset, load_dataset
from StaICC.errors import ArgumentError, DataError, SchemaError, StaICCError, UnknownNameError
from StaICC.files.output import StrPath
from StaICC.metrics.metric_set import METRICS, MetricSet, metric_set
from StaICC.registry import import_reference
from StaICC.results.result import Result, ResultGroup
from StaICC.version import __version__

_MOST = 4096
"""Largest number in an option: the size of the largest demonstration set of the benchmark."""
_REBUILD_LONG_ICL = "StaICC.long_icl.benchmark:rebuild_long_icl"
"""Makes the benchmark LongICL of a result again, with its own data and readers; loaded by name: its room is above."""
_LONG_ICL_CARD = "StaICC.long_icl.cards:task_card"
"""Finds the card of a data set of LongICL; loaded by name, too."""
UNREADABLE = (StaICCError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What arguments and records that no run writes can raise."""


class UnknownBenchmarkError(ArgumentError):
    """The benchmark of a result cannot be made again from what is here: pass it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; pass the benchmark itself")


def finding_of_error(place: str, error: Exception) -> Finding:
    """Return what an error says about a value: without its data or its benchmark it is unchecked."""
    kind = Unchecked if isinstance(error, (UnknownBenchmarkError, DataError)) else Contradicted
    return kind(f"{place}: {error!s:.999}")


def rebuild(
    result: Results, data_dir: StrPath | None = None, data_files: Sequence[StrPath] = ()
) -> BaseBenchmark[Any] | BenchmarkGroup:
    """Return the benchmark of a result, or the group of benchmarks of a group of results.

    Args:
        result: The result. The members of a group get the same arguments, those of the first part.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        The benchmark, with the benchmark's own templates. Metrics of the user's own are left out.

    Raises:
        UnknownBenchmarkError: The file does not record the arguments of the benchmark, or prompts, demonstrations, the
            benchmark or the data are the user's own.
        SchemaError: The records are not those of the arguments. Arguments that no run writes raise other errors, too.
    """
    parts = list(result.results())
    if not all(part.arguments for part in parts) or not parts:
        raise UnknownBenchmarkError("the file does not record the arguments of the benchmark")
    first = parts[0]
    long_icl = result is first and first.benchmark == benchmark_names.LONG_ICL
    make = None if long_icl else _class_of(result)
    changed = ", ".join(dict.fromkeys(name for part in parts for name in part.arguments.get("changed", ())))
    if changed:
        raise UnknownBenchmarkError(f"changed by hand, or not the same for all data sets: {changed:.99}")
    if isinstance(result, ResultGroup) and any(part.arguments["metrics"]["own"] for part in parts):
        raise UnknownBenchmarkError("the group has metrics of the user's own")
    evaluated = [name for name, details in first.details.items() if details.asked or not long_icl]
    datasets = [_dataset(first, name, data_files) for name in evaluated]
    if make is None:
        statistics = Statistics(**first.arguments["statistics"])
        again: BaseBenchmark[Any] = import_reference(_REBUILD_LONG_ICL)(first, data_dir, datasets, statistics)
        return again
    arguments = _constructor_arguments(parts, make)
    refuse_unknown_arguments(make, arguments)
    benchmark: Benchmark | BenchmarkGroup = make(datasets=datasets, **arguments)
    for name, member in members(benchmark).items():
        part = result.get(name) if isinstance(result, ResultGroup) else result
        if isinstance(part, Result):  # verification says that another one is missing
            for experimentor in member:
                _restore(part, experimentor)
    if first.stopping is None or isinstance(benchmark, BenchmarkGroup):
        return benchmark
    return first_rows(benchmark, first.stopping.rounds)


def refuse_unknown_arguments(make: Callable[..., Any], arguments: Iterable[str]) -> None:
    """Refuse recorded arguments that a benchmark of this version does not take: another version wrote the result.

    Args:
        make: The class of the benchmark.
        arguments: Names of the recorded arguments.

    Raises:
        UnknownBenchmarkError: The benchmark does not take one of them.
    """
    known = inspect.signature(make).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
        return
    unknown = ", ".join(repr(name) for name in arguments if name not in known)
    if unknown:
        raise UnknownBenchmarkError(
            f"{make.__name__} takes no argument {unknown:.99} in StaICC {__version__}: another version wrote the result"
        )


def _dataset(result: Result, name: str, data_files: Sequence[StrPath]) -> Dataset | str:
    """Return a data set of a result: that of its recorded file, or a built-in one."""
    try:
        if name in result.files:
            dataset = Dataset.reopen(result.files[name], data_files)
            refuse_builtin(name)
        elif result.benchmark == benchmark_names.LONG_ICL:
            return str(import_reference(_LONG_ICL_CARD)(name).name)
        else:
            dataset = load_dataset(name, references=False)
    except (ArgumentError, UnknownNameError) as error:
        raise UnknownBenchmarkError(f"the result is over the user's own data ({error})") from error
    if dataset.card.name != name:  # a run writes the exact name
        raise SchemaError(f"the data set {name!r:.60} is recorded with the name {dataset.card.name!r:.60}")
    return dataset


def _constructor_arguments(parts: Sequence[Result], make: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of the first part, and the options of all parts that the constructor takes."""
    recorded, known = parts[0].arguments, inspect.signature(make).parameters
    given = {name: value for part in reversed(parts) for name, value in part.arguments["options"].items()}
    options = {name: validate_integer(name, value, 0, _MOST) for name, value in given.items()}
    metrics = _metrics(recorded["metrics"])
    return {
        "k": validate_integer("k", recorded["k"], 0, _MOST),
        **{name: recorded[name] for name in ("noisy_channel", "limit", "outputs", "unparsed", "sampler")},
        "metrics": metrics.name if metrics in map(metric_set, METRIC_SETS) else metrics,
        "statistics": Statistics(**recorded["statistics"]),
        **{name: value for name, value in options.items() if name in known},
    }


def _metrics(recorded: Mapping[str, Any]) -> MetricSet:
    """Return the metrics of a result that are of this library."""
    parts = str(recorded["set"]).split("+")
    if not all(part in METRIC_SETS or part in METRICS for part in parts):  # a name in a file imports nothing
        return MetricSet("custom", ())
    metrics = metric_set(recorded["set"])
    return replace(metrics, metrics=tuple(metric for metric in metrics.metrics if metric.name in recorded["names"]))


def _restore(result: Result, experimentor: Experimentor) -> None:
    """Set what no constructor takes, unless the benchmark has more queries than the file has records."""
    details, options = result.details.get(experimentor.name), experimentor.task.options()
    rows = experimentor.row_count if result.stopping is None else min(result.stopping.rounds, experimentor.row_count)
    least = rows * experimentor.get_repeat_times() * options.get("templates", options.get("interpolations", 1))
    recorded = 0 if details is None else sum(len(record.truth) for record in details.conditions)
    if details is not None and least > recorded:  # of a group, the part may have other data sets
        raise SchemaError(
            f"limit and options give {least} queries or more on {experimentor.name}, the file has records of {recorded}"
        )
    if result.arguments["demonstrations"] == "in-domain":
        experimentor.set_in_domain_mode()
    elif result.arguments["demonstrations"] == "out-of-domain":
        experimentor.set_out_of_domain_mode()


def _class_of(result: Results) -> type[Any]:
    """Return the class of a benchmark, or of a group of benchmarks, by the name in its results."""
    kind, name = (Benchmark, result.benchmark) if isinstance(result, Result) else (BenchmarkGroup, result.name)
    if isinstance(result, Result) and "@" in (signed := result.signature.fields.get("benchmark") or ""):
        name = signed  # of a plug-in, or a task of the user's own
    for known in BENCHMARKS.values():
        if isinstance(known, type) and issubclass(known, kind) and known.task_name == name:
            return cast("type[Any]", known)
    raise UnknownBenchmarkError(f"this library has no benchmark {name!r:.60} to verify the result with")
