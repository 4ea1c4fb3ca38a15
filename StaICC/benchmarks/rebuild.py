"""Make the benchmark of a saved result again, with the arguments that the result records.

A file may hold any value. Numbers are compared with bounds and with the counts of the file before prompts are written,
so that no file can cause a long computation.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.catalogue import BENCHMARKS
from StaICC.benchmarks.evaluation import compare_prompts, digest_prompts
from StaICC.benchmarks.experimentor import is_of_library
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.race import first_rows
from StaICC.benchmarks.task import Statistics
from StaICC.datasets import Dataset, load_dataset
from StaICC.datasets.own_data import refuse_builtin
from StaICC.errors import (
    ArgumentError,
    DataError,
    DataMissingError,
    SchemaError,
    StaICCError,
    UnknownNameError,
    validate_integer,
)
from StaICC.metrics import MetricSet, metric_set
from StaICC.metrics.registry import METRICS
from StaICC.prompting import Prompt, PromptRenderer
from StaICC.results import Result, ResultGroup
from StaICC.results.provenance import GIVEN

if TYPE_CHECKING:
    from StaICC.benchmarks.experimentor import Experimentor
    from StaICC.benchmarks.long_icl import LongICL

_MOST = 4096
"""Largest number in an option: the size of the largest demonstration set of the benchmark."""
_MOST_TRIED = 10**9
_SETS = ("standard", "0.1.1")


class ImplausibleError(ArgumentError):
    """The arguments of a file have a value that no run writes."""


def rebuild(
    result: Result | ResultGroup,
    data_dir: str | os.PathLike[str] | None = None,
    data_files: Sequence[str | os.PathLike[str]] = (),
) -> Benchmark | BenchmarkGroup | LongICL:
    """Return the benchmark of a result, or the group of benchmarks of a group of results.

    Args:
        result: The result. The members of a group get the same arguments, those of the first part.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        The benchmark, with the benchmark's own templates. Metrics of the user's own are left out.

    Raises:
        ArgumentError: The benchmark cannot be made again: the file does not record its arguments, or prompts,
            demonstrations, the benchmark or the data are the user's own.
        ImplausibleError: The recorded arguments have a value that no run writes.
    """
    parts = list(result.results())
    if not parts:
        raise ArgumentError("a group without results has no benchmark")
    first = parts[0]
    long_icl = result is first and first.benchmark == "LongICL"
    make = None if long_icl else _class_of(result)
    if not all(part.arguments for part in parts):
        raise ArgumentError("the file does not record the arguments of the benchmark; pass the benchmark itself")
    changed = dict.fromkeys(name for part in parts for name in _names(part.arguments, "changed"))
    if changed:
        names = ", ".join(changed)
        raise ArgumentError(
            f"changed by hand, or not the same for all data sets: {names:.99}; pass the benchmark itself"
        )
    own = _reopened(first, data_files)
    try:
        datasets = [own[name] if name in own else _builtin(name, long_icl) for name in _evaluated(first)]
    except UnknownNameError as error:
        raise ArgumentError(f"the result is over the user's own data ({error}); pass the benchmark itself") from error
    if isinstance(result, ResultGroup) and any(map(own_metrics, parts)):
        raise ArgumentError("the group has metrics of the user's own; pass the group itself")
    try:
        if make is None:
            from StaICC.benchmarks.long_icl import rebuild_long_icl  # with its own data and readers

            return rebuild_long_icl(first, data_dir, datasets, _statistics(first.arguments))
        made: Benchmark | BenchmarkGroup = make(datasets=datasets, **_constructor_arguments(parts, make))
        _restore(made, result)
    except (DataError, ImplausibleError):
        raise
    except (StaICCError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ImplausibleError(f"{error!s:.200}") from error
    return (
        made if first.stopping is None or isinstance(made, BenchmarkGroup) else first_rows(made, first.stopping.rounds)
    )


def _evaluated(result: Result) -> list[str]:
    """Return the data sets of a result; LongICL skips those whose files are not there."""
    return [name for name, details in result.details.items() if details.asked or result.benchmark != "LongICL"]


def _builtin(name: str, long_icl: bool) -> Dataset | str:
    if long_icl:
        from StaICC.benchmarks.long_icl.task_cards import cards

        if name not in cards():
            raise UnknownNameError(f"LongICL has no data set {name!r:.60}")
        return name
    found = load_dataset(name, references=False)
    if found.card.name != name:  # a run writes the exact name
        raise UnknownNameError(f"{name!r} is not the built-in {found.card.name!r}")
    return found


def _reopened(result: Result, data_files: Sequence[str | os.PathLike[str]]) -> dict[str, Dataset]:
    """Return the user's own data sets by the names in the result."""
    try:
        found = {name: Dataset.reopen(record, data_files) for name, record in result.files.items()}
    except DataMissingError:
        raise
    except (SchemaError, DataError) as error:
        raise ImplausibleError(str(error)) from error
    for name, dataset in found.items():
        if dataset.card.name != name:
            raise ImplausibleError(
                f"the record of the data file of {name!r:.60} has the name {dataset.card.name!r:.60}"
            )
        refuse_builtin(name)
    return found


def _constructor_arguments(parts: Sequence[Result], make: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of the first part, and the options of all parts that the constructor takes."""
    recorded = parts[0].arguments
    given = {name: value for part in reversed(parts) for name, value in part.arguments["options"].items()}
    options = {name: validate_integer(name, value, 0, _MOST) for name, value in given.items()}
    metrics = _metrics(recorded["metrics"])
    known = inspect.signature(make).parameters
    return {
        "k": validate_integer("k", recorded["k"], 0, _MOST),
        **{name: recorded[name] for name in ("noisy_channel", "limit", "outputs", "unparsed", "sampler")},
        "metrics": metrics.name if is_of_library(metrics) else metrics,
        "statistics": _statistics(recorded),
        **{name: value for name, value in options.items() if name in known},
    }


def _statistics(recorded: Mapping[str, Any]) -> Statistics:
    statistics = Statistics(**recorded["statistics"])
    return replace(statistics, tried=validate_integer("tried", statistics.tried, 1, _MOST_TRIED))


def _metrics(recorded: Mapping[str, Any]) -> MetricSet:
    """Return the metrics of a result that are of this library."""
    parts = recorded["set"].split("+")
    if not all(part in _SETS or part in METRICS for part in parts):  # a name in a file imports nothing
        return MetricSet("custom", ())
    metrics = metric_set(recorded["set"])
    return replace(metrics, metrics=tuple(metric for metric in metrics.metrics if metric.name in recorded["names"]))


def own_metrics(result: Result) -> Sequence[str]:
    """Return the names of the metrics of a result that are the user's own, as its arguments record them.

    Raises:
        ImplausibleError: They are no list.
    """
    metrics = result.arguments.get("metrics")
    return _names(metrics, "own") if isinstance(metrics, Mapping) else ()


def _names(recorded: Mapping[str, Any], key: str) -> Sequence[str]:
    """Return a list of names among the recorded arguments."""
    names = recorded.get(key, [])
    if not isinstance(names, (list, tuple)):
        raise ImplausibleError(f"{key}: got {names!r:.60}, expected a list of names")
    return list(map(str, names))


def _restore(made: Benchmark | BenchmarkGroup, result: Result | ResultGroup) -> None:
    """Set what no constructor takes, after comparing the number of queries with the file."""
    for name, member in (made.members if isinstance(made, BenchmarkGroup) else {"": made}).items():
        part = result.get(name) if isinstance(result, ResultGroup) else result
        if not isinstance(part, Result):
            continue  # verification says that this part is missing
        given = any(GIVEN in predictor.who for predictor in part.provenance.predictors)
        for experimentor in member:
            _check_size(part, experimentor)
            if given:  # their file states the kind of numbers
                experimentor.outputs = part.arguments["outputs"]
            if part.arguments["demonstrations"] == "in-domain":
                experimentor.set_in_domain_mode()
            elif part.arguments["demonstrations"] == "out-of-domain":
                experimentor.set_out_of_domain_mode()


def _check_size(result: Result, experimentor: Experimentor) -> None:
    """Raise if the benchmark has more, or fewer, queries than the file has records."""
    details = result.details.get(experimentor.name)
    if details is None:
        return  # of a group: this part has other data sets
    rounds = experimentor.row_count if result.stopping is None else min(result.stopping.rounds, experimentor.row_count)
    expected = rounds * experimentor.get_repeat_times()
    recorded = [len(record.truth) for record in details.conditions]
    interpolations = experimentor.task.options().get("interpolations", len(recorded))
    # Some tasks have a condition for each repeat.
    if interpolations != len(recorded) or (sum(recorded) != expected and {*recorded} != {expected}):
        raise ImplausibleError(
            f"limit and options give {expected} queries on {experimentor.name} in {interpolations} conditions, but the "
            f"file has records of {'+'.join(map(str, recorded[:9]))}"
        )


def _class_of(result: Result | ResultGroup) -> type[Any]:
    """Return the class of a benchmark, or of a group of benchmarks, by the name in its results."""
    kind, name = (Benchmark, result.benchmark) if isinstance(result, Result) else (BenchmarkGroup, result.name)
    if isinstance(result, Result) and "@" in (signed := result.signature.fields.get("benchmark") or ""):
        name = signed  # of a plug-in, or a task of the user's own
    for known in BENCHMARKS.values():
        if isinstance(known, type) and issubclass(known, kind) and known.task_name == name:
            return cast("type[Any]", known)
    raise ArgumentError(
        f"this library has no benchmark {name!r:.60} to verify the result with; pass the benchmark itself"
    )


class _PartedPrompt(str):
    """A prompt with the positions where its demonstrations begin, and the end of the last one."""

    cuts: tuple[int, ...] = ()


class _PartRenderer(PromptRenderer):
    """Writes prompts that know their parts."""

    __slots__ = ()

    def assemble(self, demonstrations: Sequence[tuple[str, int]], query: Sequence[str]) -> Prompt:
        """Put a prompt together; in the noisy channel, that of the first label gets the parts."""
        prompt = super().assemble(demonstrations, query)
        texts = [_PartedPrompt(text) for text in ([prompt] if isinstance(prompt, str) else prompt)]
        lengths = [len(text) + len(self._label_parts[label]) for text, label in demonstrations]
        texts[0].cuts = tuple(accumulate(lengths, initial=len(self.settings.template.instruction)))
        return texts[0] if isinstance(prompt, str) else tuple(texts)


def _parts(prompt: Prompt) -> tuple[str, ...]:
    """Return instruction, demonstrations and query."""
    text = prompt if isinstance(prompt, str) else prompt[0]
    cuts = (text.cuts or (0,)) if isinstance(text, _PartedPrompt) else (0,)
    ends = [0, *cuts, len(text)]
    return tuple(text[start:end] for start, end in pairwise(ends))


def written_prompts(
    result: Result, data_files: Sequence[str | os.PathLike[str]] = ()
) -> dict[str, list[tuple[str, ...]] | str]:
    """Return the prompts of a result by data set, each as instruction, demonstrations and query.

    Args:
        result: The result.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        For each data set the prompts, in the order of its queries; of the noisy channel, the text of the first label.
        A text is the reason why there are none: the data are not there, or the prompts are not those of the run.
    """
    if result.benchmark == "LongICL":
        return dict.fromkeys(result.details, "prompts of LongICL are too long for a page")
    try:
        benchmark = rebuild(result, data_files=data_files)
    except StaICCError as error:
        return dict.fromkeys(result.details, str(error))
    assert isinstance(benchmark, Benchmark)  # only LongICL is another
    found: dict[str, list[tuple[str, ...]] | str] = {}
    for name, details in result.details.items():
        queries = [query for condition in benchmark[name].conditions(_PartRenderer) for query in condition.queries]
        same, _, message = compare_prompts(details, *digest_prompts(queries))
        recorded = [pair for one in details.conditions for pair in zip(one.rows, one.truth, strict=True)]
        if same and recorded != [(query.row, query.label) for query in queries]:
            same, message = False, "the records of the queries are not those of the prompts"
        found[name] = [_parts(query.prompt) for query in queries] if same else message
    return found
