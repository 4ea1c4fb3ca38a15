"""The benchmark of a saved result, made again from the arguments that the file records."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

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
from StaICC.results.result import Result, ResultGroup
from StaICC.version import __version__

_LARGEST_OPTION = 4096
"""Largest number in an option: the size of the largest demonstration set of the benchmark. A forged file with a larger
one would cost time and memory."""

UNREADABLE = (StaICCError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors that damaged or forged arguments and records of a file can raise."""


class UnknownBenchmarkError(ArgumentError):
    """The benchmark of a result cannot be made again from its file and this library. The user has to pass it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; pass the benchmark itself")


def finding_of_error(place: str, error: Exception) -> Finding:
    """Return the finding about a saved value that could not be computed again, because an error was raised.

    The value is unchecked if its data or its benchmark are not available. Any other error contradicts it: the file of a
    run leads to none, so its records are damaged or forged.

    Args:
        place: The path of the value.
        error: The error.
    """
    text = f"{place}: {error!s:.999}"
    if isinstance(error, (UnknownBenchmarkError, DataError)):
        return Unchecked(text)
    return Contradicted(text)


class ReadsItsData(ABC):
    """A benchmark that reads its data from a folder, and so makes itself again from a result."""

    @classmethod
    @abstractmethod
    def remade(
        cls, result: Result, data_dir: StrPath | None, own_datasets: Mapping[str, Dataset]
    ) -> BaseBenchmark[Any]:
        """Return the benchmark of a result, over the data sets for which the result has predictions.

        Args:
            result: The result.
            data_dir: Folder with the data; by default, the folder where they are installed.
            own_datasets: The data sets of the user's own, by name.

        Raises:
            UnknownBenchmarkError: The benchmark cannot be made again from the file.
        """


def rebuild(
    result: Results, data_dir: StrPath | None = None, data_files: Sequence[StrPath] = ()
) -> BaseBenchmark[Any] | BenchmarkGroup:
    """Return the benchmark of a result, or the group of benchmarks of a group of results.

    Args:
        result: The result. The members of a group get the same arguments, those of the first part.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        The benchmark, with its published templates. Metrics of the user's own are left out, because the file has only
        their names.

    Raises:
        UnknownBenchmarkError: The file does not record the arguments of the benchmark, or prompts, demonstrations, the
            benchmark or the data are the user's own.
        SchemaError: The records are not those of the arguments. Arguments that no run writes raise other errors, too.
    """
    parts = list(result.results())
    has_arguments = len(parts) > 0 and all(part.arguments for part in parts)
    if not has_arguments:
        raise UnknownBenchmarkError("the file does not record the arguments of the benchmark")
    benchmark_class = _class_of(result)
    _refuse_changes_by_hand(parts)
    if isinstance(result, Result) and issubclass(benchmark_class, ReadsItsData):
        own_datasets = {name: reopen_dataset(result, name, data_files) for name in result.files}
        return benchmark_class.remade(result, data_dir, own_datasets)
    if isinstance(result, ResultGroup) and any(part.arguments["metrics"]["own"] for part in parts):
        raise UnknownBenchmarkError("the group has metrics of the user's own")

    first_part = parts[0]
    datasets = [_dataset(first_part, name, data_files) for name in first_part.details]
    arguments = _constructor_arguments(parts, benchmark_class)
    refuse_unknown_arguments(benchmark_class, arguments)
    benchmark: Benchmark | BenchmarkGroup = benchmark_class(datasets=datasets, **arguments)
    _restore_settings(benchmark, result)
    if isinstance(benchmark, Benchmark) and first_part.stopping is not None:
        return first_rows(benchmark, first_part.stopping.rounds)
    return benchmark


def _restore_settings(benchmark: Benchmark | BenchmarkGroup, result: Results) -> None:
    """Restore the settings of the run that no constructor takes, in each data set of a benchmark or of its members.

    Args:
        benchmark: The rebuilt benchmark, which is changed.
        result: The result.

    Raises:
        SchemaError: A data set has more queries than the file has records.
    """
    for name, member in members(benchmark).items():
        part: Any = result
        if isinstance(result, ResultGroup):
            part = result.get(name)
        # A part may be missing, or a group itself. Verification reports that, so it is no error here.
        if isinstance(part, Result):
            for experimentor in member:
                _restore_demonstrations(part, experimentor)


def _refuse_changes_by_hand(parts: Sequence[Result]) -> None:
    """Raise an error if the user changed settings that are no arguments of a benchmark.

    Args:
        parts: The results of the benchmarks.

    Raises:
        UnknownBenchmarkError: A setting was changed.
    """
    names: list[str] = []
    for part in parts:
        names += part.arguments.get("changed", ())
    listed = ", ".join(dict.fromkeys(names))
    if listed:
        raise UnknownBenchmarkError(f"set by hand or by the method, or not the same for all data sets: {listed:.99}")


def refuse_unknown_arguments(make: Callable[..., Any], arguments: Iterable[str]) -> None:
    """Refuse recorded arguments that a benchmark of this version does not take: another version wrote the result.

    Args:
        make: The class of the benchmark.
        arguments: Names of the recorded arguments.

    Raises:
        UnknownBenchmarkError: The benchmark does not take one of them.
    """
    parameters = inspect.signature(make).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = ", ".join(repr(name) for name in arguments if name not in parameters)
    if unknown:
        raise UnknownBenchmarkError(
            f"{make.__name__} takes no argument {unknown:.99} in StaICC {__version__}: another version wrote the result"
        )


def _dataset(result: Result, name: str, data_files: Sequence[StrPath]) -> Dataset:
    """Return a data set of a result: the one in the recorded file of the user's own data, or a built-in one.

    Args:
        result: The result.
        name: The name of the data set in it.
        data_files: Files of the user's own data, and folders that contain them.

    Raises:
        UnknownBenchmarkError: The data are the user's own, and their file is not given.
        SchemaError: A run would have recorded another name.
    """
    if name in result.files:
        return reopen_dataset(result, name, data_files)
    try:
        dataset = load_dataset(name, references=False)
    except (ArgumentError, UnknownNameError) as error:
        raise UnknownBenchmarkError(f"the result is over the user's own data ({error})") from error
    return _with_recorded_name(dataset, name)


def reopen_dataset(result: Result, name: str, data_files: Sequence[StrPath]) -> Dataset:
    """Return the data set in the recorded file of the user's own data.

    Args:
        result: The result.
        name: The name of the data set in it.
        data_files: Files of the user's own data, and folders that contain them.

    Raises:
        UnknownBenchmarkError: The file is not given.
        SchemaError: A run would have recorded another name.
    """
    try:
        dataset = Dataset.reopen(result.files[name], data_files)
        refuse_builtin(name)
    except (ArgumentError, UnknownNameError) as error:
        raise UnknownBenchmarkError(f"the result is over the user's own data ({error})") from error
    return _with_recorded_name(dataset, name)


def _with_recorded_name(dataset: Dataset, name: str) -> Dataset:
    """Return a data set, if its name is the recorded one.

    Raises:
        SchemaError: A run would have recorded another name: it writes the exact one, and finds any spelling.
    """
    if dataset.card.name != name:
        raise SchemaError(f"the data set {name!r:.60} is recorded with the name {dataset.card.name!r:.60}")
    return dataset


def _constructor_arguments(parts: Sequence[Result], make: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments with which the constructor makes a benchmark, or a group of benchmarks, again.

    They are the arguments of the first part, and those options of all parts that the constructor takes. An option is
    an argument of one benchmark only, such as the number of templates. If parts have different values of an option,
    that of the first part is taken.

    Args:
        parts: The results.
        make: The class of their benchmark, or of the group.
    """
    recorded_options: dict[str, Any] = {}
    for part in parts:
        for name, value in part.arguments["options"].items():
            if name not in recorded_options:
                recorded_options[name] = value
    options = {name: _checked_option(name, value) for name, value in recorded_options.items()}

    recorded = parts[0].arguments
    arguments = {
        "k": validate_integer("k", recorded["k"], 0, _LARGEST_OPTION),
        "noisy_channel": recorded["noisy_channel"],
        "limit": recorded["limit"],
        "outputs": recorded["outputs"],
        "unparsed": recorded["unparsed"],
        "sampler": recorded["sampler"],
        "metrics": _metrics(recorded["metrics"]),
        "statistics": Statistics(**recorded["statistics"]),
    }
    parameters = inspect.signature(make).parameters
    for name, value in options.items():
        if name in parameters:
            arguments[name] = value
    return arguments


def _checked_option(name: str, value: Any) -> int | str:
    """Return a recorded option of a task, which is checked before: an integer or a text.

    An integer may be at most :data:`_LARGEST_OPTION`, so that a forged file costs little time. The task checks a text.

    Raises:
        ArgumentError: The option is neither.
    """
    if isinstance(value, str):
        return value
    return validate_integer(name, value, 0, _LARGEST_OPTION)


def _metrics(recorded: Mapping[str, Any]) -> MetricSet | str:
    """Return the metrics of a result, without metrics of the user's own.

    They are the name of the metric set if the user deleted none of its metrics, because a suite takes a name only. Else
    they are a metric set.

    Args:
        recorded: The metrics as the file records them (:func:`~StaICC.benchmarks.experimentor.metrics_record`).
    """
    names = str(recorded["set"]).split("+")
    # The name of a metric may be a reference to code of the user's. A name in a file imports nothing.
    if not all(name in METRIC_SETS or name in METRICS for name in names):
        return MetricSet("custom", ())
    metrics = metric_set(recorded["set"])
    recorded_metrics = tuple(metric for metric in metrics.metrics if metric.name in recorded["names"])
    if recorded_metrics == metrics.metrics:
        return str(recorded["set"])
    return replace(metrics, metrics=recorded_metrics)


def _restore_demonstrations(result: Result, experimentor: Experimentor) -> None:
    """Choose the demonstrations of a data set as in the run: in-domain or out-of-domain, which no constructor takes.

    Args:
        result: The result.
        experimentor: The data set of the rebuilt benchmark, which is changed.

    Raises:
        SchemaError: The benchmark has more queries than the file has records. Writing them could take long.
    """
    details = result.details.get(experimentor.name)
    # In a group, the part may have other data sets than the first part, of which the benchmark was made.
    if details is not None:
        least_query_count = _least_query_count(result, experimentor)
        recorded_query_count = sum(len(record.truth) for record in details.conditions)
        if least_query_count > recorded_query_count:
            raise SchemaError(
                f"limit and options give {least_query_count} queries or more on {experimentor.name}, the file has "
                f"records of {recorded_query_count}"
            )
    if result.arguments["demonstrations"] == "in-domain":
        experimentor.set_in_domain_mode()
    elif result.arguments["demonstrations"] == "out-of-domain":
        experimentor.set_out_of_domain_mode()


def _least_query_count(result: Result, experimentor: Experimentor) -> int:
    """Return a lower bound of the number of queries of a data set, without writing them.

    Args:
        result: The result.
        experimentor: The data set.
    """
    row_count = experimentor.row_count
    if result.stopping is not None:
        row_count = min(row_count, result.stopping.rounds)
    # These options are numbers of conditions: Generalisation has "templates", GLER has "interpolations".
    options = experimentor.task.options()
    condition_count: int = options.get("templates", options.get("interpolations", 1))
    return row_count * experimentor.get_repeat_times() * condition_count


def _class_of(result: Results) -> type[Any]:
    """Return the class of the benchmark that computed a result, or that of the group that computed a group of results.

    The registry has classes. It may also have functions of plug-ins that make benchmarks, which are passed over.

    Raises:
        UnknownBenchmarkError: No class in the registry has the name of the benchmark.
    """
    name = _name_of_benchmark(result)
    base_class: type[Any]
    if isinstance(result, ResultGroup):
        base_class = BenchmarkGroup
    else:
        base_class = BaseBenchmark
    for registered in BENCHMARKS.values():
        if not isinstance(registered, type) or not issubclass(registered, base_class):
            continue
        if registered.task_name == name:
            return cast("type[Any]", registered)
    raise UnknownBenchmarkError(f"this library has no benchmark {name!r:.60} to verify the result with")


def _name_of_benchmark(result: Results) -> str:
    """Return the name of the benchmark or group that computed a result, in the form that only its own code has.

    The name of a plug-in's benchmark, and that of a task of the user's own, has ``@`` and its origin in the signature.
    No benchmark of this library has such a name.
    """
    if isinstance(result, ResultGroup):
        return result.name
    signed_name = result.signature.fields.get("benchmark") or ""
    if "@" in signed_name:
        return signed_name
    return result.benchmark
