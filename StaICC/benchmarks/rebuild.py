"""Rebuild the benchmark of a saved result from its signature.

A signature in a file may hold any value. Its numbers are compared with the counts of the file and with bounds before
anything is built from them, so that no file can cause a long computation.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.catalogue import BENCHMARKS
from StaICC.benchmarks.experimentor import SAMPLERS
from StaICC.benchmarks.statistics import Statistics
from StaICC.datasets import Dataset, load_dataset
from StaICC.errors import ArgumentError, DataError, DataMissingError, SchemaError, UnknownNameError
from StaICC.metrics import MetricSet, metric_set
from StaICC.metrics.score_intervals import INTERVAL_VERSION
from StaICC.results import Result, escaped

if TYPE_CHECKING:
    import os

    from StaICC.benchmarks.experimentor import Experimentor
    from StaICC.benchmarks.long_icl import LongICL

_MOST_K = 4096
"""Demonstrations per prompt: the size of the largest demonstration set of the benchmark."""

_MOST_TRIED = 10**9
_CHANGED = re.compile(r"(mixed|changed|manual)-[0-9a-f]{12}")
_SETS = ("standard", "0.1.1")


class ImplausibleError(ArgumentError):
    """A field of a signature has a value that no run writes."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[type[ImplausibleError], tuple[str, str]]:
        return (ImplausibleError, (self.field, str(self)))


def _field(result: Result, field: str) -> str | None:
    """Return a field of the signature; ``None`` if it is missing.

    Raises:
        ArgumentError: The data sets of the run have different values, or the user changed the prompts.
    """
    value = result.signature.fields.get(field)
    if value is not None and _CHANGED.fullmatch(value):
        single = f"this result has no single {field}" if value.startswith("mixed-") else ""
        raise ArgumentError(
            f"{single or f'the {field} of this result were changed by hand'} ({value}); pass the benchmark itself"
        )
    return value


def _choice(result: Result, field: str, known: Sequence[str]) -> str | None:
    """Return a field that is missing or has one of the known values.

    Raises:
        ArgumentError: As for :func:`_field`.
        ImplausibleError: The field has another value.
    """
    value = _field(result, field)
    if value is not None and value not in known:
        expected = " or ".join(map(repr, known)) or "none"
        raise ImplausibleError(field, f"{field} is {value!r:.40}, expected {expected}")
    return value


def _whole(result: Result, field: str, most: int) -> int | None:
    """Return a field as a whole number; ``None`` if it is missing.

    Raises:
        ArgumentError: As for :func:`_field`.
        ImplausibleError: The field is not a number, or is larger than in any run.
    """
    value = _field(result, field)
    if value is not None and (not re.fullmatch(r"[0-9]{1,9}", value) or int(value) > most):
        raise ImplausibleError(field, f"{field} is {value:.40}, expected a whole number from 0 to {most}")
    return None if value is None else int(value)


def rebuild(
    result: Result,
    data_dir: str | os.PathLike[str] | None = None,
    data_files: Sequence[str | os.PathLike[str]] = (),
) -> Benchmark | LongICL:
    """Return the benchmark that a result's signature describes.

    Args:
        result: The result.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        The benchmark, with the benchmark's own templates. Metrics of the user's own are left out.

    Raises:
        ArgumentError: The benchmark cannot be rebuilt, because prompts or demonstrations were changed by hand, or the
            data are the user's own.
        ImplausibleError: A field of the signature has a value that no run writes.
    """
    unparsed = result.signature.fields.get("unparsed")
    if unparsed not in (None, "error", "wrong", "excluded") and not _CHANGED.fullmatch(unparsed):
        raise ImplausibleError("unparsed", f"unparsed is {unparsed!r:.40}, expected 'error', 'wrong' or 'excluded'")
    if result.benchmark == "LongICL":
        from StaICC.benchmarks.long_icl import rebuild_long_icl  # with its own data and readers

        return rebuild_long_icl(result, data_dir, _reopened(result, data_files))
    _choice(result, "template", ())
    demonstrations = _choice(result, "demonstrations", ("in-domain", "out-of-domain", *SAMPLERS[1:]))
    make = _class_of(result.benchmark)
    k = _whole(result, "k", _MOST_K)
    if k is None:
        raise ArgumentError("this result has no single k (None); pass the benchmark itself")
    arguments: dict[str, Any] = {"k": k, **_settings(result), **_options(result, make)}
    if demonstrations in SAMPLERS:
        arguments["sampler"] = demonstrations
    own = _reopened(result, data_files)
    try:
        arguments["datasets"] = [own[name] if name in own else _builtin(name) for name in result.details]
    except UnknownNameError as error:
        raise ArgumentError(f"the result is over the user's own data ({error}); pass the benchmark itself") from error
    benchmark: Benchmark = make(**arguments)
    for experimentor in benchmark:
        _check_size(result, experimentor)
        if demonstrations == "in-domain":
            experimentor.set_in_domain_mode()
        elif demonstrations == "out-of-domain":
            experimentor.set_out_of_domain_mode()
    return benchmark if result.stopping is None else benchmark.stopped(result.stopping)


def _reopened(result: Result, data_files: Sequence[str | os.PathLike[str]]) -> dict[str, Dataset]:
    """Return the user's own data sets by the names in the result."""
    try:
        found = {name: Dataset.reopen(record, data_files) for name, record in result.files.items()}
    except DataMissingError:
        raise
    except (SchemaError, DataError) as error:
        raise ImplausibleError("data", str(error)) from error
    for name, one in found.items():
        if one.card.name != name:
            raise ImplausibleError("datasets", f"the record of a data file has the name {one.card.name!r:.60}")
    return found


def _builtin(name: str) -> Dataset:
    found = load_dataset(name, references=False)
    if found.card.name != name:  # a run writes the exact name
        raise UnknownNameError(f"{name!r} is not the built-in {found.card.name!r}")
    return found


def _check_size(result: Result, experimentor: Experimentor) -> None:
    """Raise if the benchmark has more, or fewer, queries than the file has records."""
    rounds = experimentor.row_count if result.stopping is None else min(result.stopping.rounds, experimentor.row_count)
    each = rounds * experimentor.get_repeat_times()
    details = result.details[experimentor.name]
    recorded = [len(record.truth) for record in details.conditions]
    interpolations = experimentor.task.options().get("interpolations")
    if interpolations is not None and interpolations != len(details.conditions):
        raise ImplausibleError(
            "options", f"interpolations is {interpolations}, but the file has {len(details.conditions)} conditions"
        )
    if sum(recorded) != each and any(
        count != each for count in recorded
    ):  # some tasks have a condition for each repeat
        raise ImplausibleError(
            "limit",
            f"the signature's limit gives {each} queries on {experimentor.name}, but the file has records of "
            f"{'+'.join(map(str, recorded[:9]))}",
        )


def _settings(result: Result) -> dict[str, Any]:
    """Return the settings of the scoring: metrics, kind of the outputs, statistics, limit, channel."""
    fields = result.signature.fields
    metrics, own = own_metrics(result)
    if own is None and _CHANGED.fullmatch(metrics) is None and not {"+", "@"} & set(fields.get("metrics") or ""):
        measured = {one.name for name in _SETS for one in metric_set(name).metrics}
        scores = {key for one in result.divided.values() for key in (*one, *(one.get("sensitivity") or ()))}
        if metrics not in measured and measured & scores:
            raise ImplausibleError("metrics", f"no run with the metrics {metrics!r:.40} has these scores")
    return {
        "noisy_channel": _choice(result, "channel", ("direct", "noisy")) == "noisy",
        "limit": _whole(result, "limit", 10**9) or None,
        "metrics": metrics if own is not None else MetricSet("custom", ()),
        "outputs": _choice(result, "outputs", ("probabilities", "logits")) or "auto",
        "unparsed": fields.get("unparsed") or "error",
        "statistics": read_statistics(result),
    }


def own_metrics(result: Result) -> tuple[str, tuple[str, ...] | None]:
    """Return the named metric set of a result, and the metrics of the user's own.

    Args:
        result: The result.

    Returns:
        The name of the set, and the names of the user's own metrics; ``None`` if the set itself is the user's own.
    """
    base, *own = (result.signature.fields.get("metrics") or "standard").split("+")
    names = (_unescaped(one.rpartition("@")[0] or one.removeprefix("without ")) for one in own)
    return base, tuple(dict.fromkeys(names)) if base in _SETS else None


def _unescaped(name: str) -> str:
    """Undo :func:`StaICC.results.escaped`, which does not say how many digits a character has."""
    return re.sub(r"%([0-9A-F]{2,6})", _character, name)


def _character(found: re.Match[str]) -> str:
    digits = found[1]
    for length in range(2, len(digits) + 1):
        number = int(digits[:length], 16)
        if number < 0x110000 and escaped(chr(number)) == f"%{digits[:length]}":
            return chr(number) + digits[length:]
    return found[0]


def read_statistics(result: Result) -> Statistics:
    """Return the settings of the intervals and baselines.

    Args:
        result: The result.

    Raises:
        ArgumentError: The data sets have different settings.
        ImplausibleError: No run writes these settings.
    """
    if result.stopping is not None:
        return Statistics(level=result.stopping.interval.level, intervals=False)
    tried = {one.tried for details in result.details.values() for one in details.baselines.values()}
    if len(tried) > 1 or not all(0 < one <= _MOST_TRIED for one in tried):
        raise ImplausibleError("statistics", "the baselines of the file have different or impossible values of 'tried'")
    text = _field(result, "statistics") or ""
    of_baselines = re.match(r"tried([0-9]{1,9})(\+|$)", text)
    best = next(iter(tried), max(1, int(of_baselines[1])) if of_baselines else 1)
    intervals = text[of_baselines.end() :] if of_baselines else text
    if not intervals:
        return Statistics(intervals=False, tried=best)
    found = re.fullmatch(re.escape(INTERVAL_VERSION) + r"-(0?\.[0-9]+)", intervals)
    try:
        if found is None:
            raise ArgumentError(f"expected {INTERVAL_VERSION} and a level")
        read = Statistics(level=float(found[1]), tried=best)
    except ValueError as error:
        raise ImplausibleError("statistics", f"statistics is {text!r:.60} ({error})") from error
    return read


def _options(result: Result, make: Callable[..., Benchmark]) -> dict[str, int]:
    found = {}
    for option in filter(None, (result.signature.fields.get("options") or "").split(",")):
        key, _, value = option.partition("=")
        if not re.fullmatch(r"[0-9]{1,9}", value):
            if make.__module__.startswith("StaICC."):  # all options of the built-in benchmarks are integers
                raise ImplausibleError("options", f"the option {option[:60]!r} has no integer value")
            raise ArgumentError(
                f"the option {option[:60]!r} of this result cannot be read back; pass the benchmark itself"
            )
        if key not in inspect.signature(make).parameters:
            raise ImplausibleError("options", f"{result.benchmark} has no option {key[:60]!r}")
        if int(value) > _MOST_K:
            raise ImplausibleError("options", f"the option {option[:60]!r} is larger than {_MOST_K}")
        found[key] = int(value)
    return found


def stand_in(result: Result) -> Benchmark:
    """Return a benchmark that scores the records of a result, but cannot write its prompts.

    Used for results over the user's own data, and for changed templates: scores depend on the labels, the metrics and
    k, not on the prompts.

    Args:
        result: The result.

    Returns:
        The benchmark, with a placeholder for each data set of the result.

    Raises:
        ArgumentError: The task or a setting is not known.
        ImplausibleError: A field of the signature has a value that no run writes.
    """
    make: Callable[..., Benchmark] = _class_of(result.benchmark)
    datasets = []
    for name, details in result.details.items():
        rows = [("", number % len(details.labels)) for number in range(3 * len(details.labels))]
        made_up = Dataset.from_rows(rows, name="stand-in", label_space=details.labels)
        datasets.append(Dataset(dataclasses.replace(made_up.card, name=name), made_up.table))
    settings = _settings(result) | {"limit": None}
    k = result.signature.fields.get("k") or ""
    known = None if _CHANGED.fullmatch(k) else _whole(result, "k", _MOST_K)
    made: Benchmark = make(k=4 if known is None else known, datasets=datasets, **settings, **_options(result, make))
    return made if result.stopping is None else made.stopped(result.stopping)


def _class_of(name: str) -> type[Any]:
    """Return the class of a benchmark by the name in its results."""
    for known in BENCHMARKS.values():
        if isinstance(known, type) and issubclass(known, Benchmark) and known.task_name == name:
            return cast("type[Any]", known)
    raise ArgumentError(f"this library has no benchmark {name!r} to verify the result with; pass the benchmark itself")
