"""Verification: does a saved result follow from its own records, and do its prompts follow from the frozen data?

A result stores the true label, the prediction and the label scores of each query, the digest of all prompts and 32 bits
of the digest of each prompt. Verification makes the benchmark of the result again (:func:`rebuild`), writes its prompts
without a model, scores the stored predictions with the code of a run, and so computes the complete result a second
time. Then it compares the two, value by value (fractions to 9 digits, since platforms round logarithms and exponentials
differently).

A value that differs is :class:`Contradicted`. A value of the saved result that the second one does not have is
:class:`Unchecked`, and so is all that needs data or code that is not there. Only a result in which neither remains is
:class:`Recomputed`. A group of results is one object: its class says which parts it has, and with which arguments.

What the run alone can know is copied into the second result (``RECORDED``): times, counts, versions, who predicted, and
why queries failed. Verification does not prove that a model computed the label scores: a file with invented label
scores, and everything else computed from them, is recomputed. To predict some queries again, pass a
:class:`~StaICC.benchmarks.verify.Rerun`.

A file may hold any value. Numbers are compared with bounds and with the counts of the file before prompts are written,
so that no file can cause a long computation.
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from StaICC.benchmarks.base import BaseBenchmark, DatasetTask, Predictions
from StaICC.benchmarks.benchmark import Benchmark, BenchmarkGroup, members
from StaICC.benchmarks.evaluation import DatasetRun, compare_prompts, digest_prompts
from StaICC.benchmarks.experimentor import Experimentor, is_of_library
from StaICC.benchmarks.race import first_rows, marked, replay
from StaICC.benchmarks.running import RunContext
from StaICC.benchmarks.task import Condition, Statistics
from StaICC.benchmarks.tasks import BENCHMARKS
from StaICC.datasets import Dataset, load_dataset
from StaICC.datasets.catalogue import refuse_builtin
from StaICC.datasets.source import file_digest
from StaICC.errors import (
    ArgumentError,
    DataError,
    DataMissingError,
    SchemaError,
    StaICCError,
    UnknownNameError,
    set_integers,
    validate_integer,
)
from StaICC.inference import Answer, Failure, Inference, Part, predict_queries
from StaICC.inference.identity import TOLERANCE, Identity, RunCounts, RunRecord, difference, identity_of, tolerance_of
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.inference.workers import unlabelled
from StaICC.metrics import MetricSet, metric_set
from StaICC.metrics.intervals import INTERVAL_VERSION
from StaICC.metrics.registry import METRICS
from StaICC.prompting import Prompt, PromptRenderer, Query
from StaICC.results import DIVIDED, DatasetDetails, Result, ResultGroup, Signature
from StaICC.results.provenance import FIELDS, GIVEN
from StaICC.results.result import DIGESTS, RACE, SWEEPS, Sweep, digest_problems, read_result_file, result_from_dict
from StaICC.version import RESULT_SCHEMA, __version__

if TYPE_CHECKING:
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
    evaluated = [name for name, details in first.details.items() if details.asked or not long_icl]
    try:
        datasets = [own[name] if name in own else _builtin(name, long_icl) for name in evaluated]
    except UnknownNameError as error:
        raise ArgumentError(f"the result is over the user's own data ({error}); pass the benchmark itself") from error
    if isinstance(result, ResultGroup) and any(map(own_metrics, parts)):
        raise ArgumentError("the group has metrics of the user's own; pass the group itself")
    try:
        if make is None:
            from StaICC.benchmarks.long_icl import rebuild_long_icl  # with its own data and readers

            return rebuild_long_icl(first, data_dir, datasets, _statistics(first.arguments))
        benchmark: Benchmark | BenchmarkGroup = make(datasets=datasets, **_constructor_arguments(parts, make))
        _restore(benchmark, result)
    except (DataError, ImplausibleError):
        raise
    except (StaICCError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ImplausibleError(f"{error!s:.200}") from error
    if first.stopping is None or isinstance(benchmark, BenchmarkGroup):
        return benchmark
    return first_rows(benchmark, first.stopping.rounds)


def _builtin(name: str, long_icl: bool) -> Dataset | str:
    if long_icl:
        from StaICC.benchmarks.long_icl.task_cards import card

        return card(name).name
    dataset = load_dataset(name, references=False)
    if dataset.card.name != name:  # a run writes the exact name
        raise UnknownNameError(f"{name!r} is not the built-in {dataset.card.name!r}")
    return dataset


def _reopened(result: Result, data_files: Sequence[str | os.PathLike[str]]) -> dict[str, Dataset]:
    """Return the user's own data sets by the names in the result."""
    try:
        datasets = {name: Dataset.reopen(record, data_files) for name, record in result.files.items()}
    except DataMissingError:
        raise
    except (SchemaError, DataError) as error:
        raise ImplausibleError(str(error)) from error
    for name, dataset in datasets.items():
        if dataset.card.name != name:
            raise ImplausibleError(
                f"the record of the data file of {name!r:.60} has the name {dataset.card.name!r:.60}"
            )
        refuse_builtin(name)
    return datasets


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


def _restore(benchmark: Benchmark | BenchmarkGroup, result: Result | ResultGroup) -> None:
    """Set what no constructor takes, after comparing the number of queries with the file."""
    for name, member in members(benchmark).items():
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
    options = experimentor.task.options()
    expected = rounds * experimentor.get_repeat_times() * int(options.get("templates", 1))
    recorded = [len(record.truth) for record in details.conditions]
    interpolations = options.get("interpolations", len(recorded))
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
    prompts: dict[str, list[tuple[str, ...]] | str] = {}
    for name, details in result.details.items():
        queries = [query for condition in benchmark[name].conditions(_PartRenderer) for query in condition.queries]
        same, _, message = compare_prompts(details, *digest_prompts(queries))
        recorded = [pair for record in details.conditions for pair in zip(record.rows, record.truth, strict=True)]
        if same and recorded != [(query.row, query.label) for query in queries]:
            same, message = False, "the records of the queries are not those of the prompts"
        prompts[name] = [_parts(query.prompt) for query in queries] if same else message
    return prompts


ABSENT = object()
"""The value of a missing field."""

_MOST_NAMED = 20  # outcomes of one kind that are named one by one


@dataclass(frozen=True, slots=True)
class Recomputed:
    """All values were computed again, and are the same."""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A value is another one than the records, the data or the model give."""

    difference: str
    """The path of the value, the saved and the recomputed value."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A value that was not computed again. As an expected value: no value can be computed."""

    reason: str


Finding = Contradicted | Unchecked
Status = Recomputed | Finding
"""What a verification finds out about a value."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The finding about one data set, about the fields that the data sets share, or about a group or file."""

    benchmark: str
    """Name of the benchmark or of the group."""
    dataset: str | None
    """``None`` for the fields that the data sets share: means, signature, provenance."""
    message: str
    """What was compared."""
    findings: tuple[Finding, ...] = ()
    """What is contradicted or unchecked; all else is recomputed."""
    same: bool | None = None
    """Whether every prompt is the same; ``None`` if the prompts are not checked."""
    first_difference: int | None = None
    """Number of the first query whose prompt differs; ``None`` if none does."""

    @property
    def contradicted(self) -> tuple[str, ...]:
        """Each value that differs, with its path, the saved and the recomputed value."""
        return tuple(finding.difference for finding in self.findings if isinstance(finding, Contradicted))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Each value that was not computed again, with the reason."""
        return tuple(finding.reason for finding in self.findings if isinstance(finding, Unchecked))

    @property
    def status(self) -> Status:
        """The first contradicted value, else the first unchecked one, else that all is recomputed."""
        return status_of([self])


def status_of(findings: Iterable[Verification]) -> Status:
    """Return the status of a result: the first contradicted value, else the first unchecked one, else recomputed.

    Args:
        findings: All findings about it; without any, it is unchecked.
    """
    verifications = list(findings)
    listed = [finding for verification in verifications for finding in verification.findings]
    first = next((finding for finding in listed if isinstance(finding, Contradicted)), None)
    return first or next(iter(listed), Recomputed() if verifications else Unchecked("nothing was compared"))


def limited(place: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return outcomes without duplicates, and only the number of those after the first 20 of each kind."""
    kept: list[Finding] = []
    distinct = dict.fromkeys(findings)
    for kind in (Contradicted, Unchecked):
        of_kind = [finding for finding in distinct if isinstance(finding, kind)]
        kept += of_kind[:_MOST_NAMED]
        if len(of_kind) > _MOST_NAMED:
            kept.append(kind(f"{place}: {len(of_kind) - _MOST_NAMED} more values"))
    return tuple(kept)


def values_equal(saved: object, recomputed: object) -> bool:
    """Whether two plain values are equal; fractions to 9 digits, since platforms round logarithms differently."""
    if isinstance(saved, bool) or isinstance(recomputed, bool):
        return saved is recomputed
    if isinstance(saved, (int, float)) and isinstance(recomputed, (int, float)):
        return saved == recomputed or (
            type(saved) is float and math.isclose(saved, recomputed, rel_tol=1e-9, abs_tol=1e-15)
        )
    return saved == recomputed


def compare_values(place: str, saved: Any, expected: Any) -> Iterator[Finding]:
    """Compare a saved JSON value with the expected one, and the values in them; yield all that are not recomputed.

    A value that is saved, but that nothing computes again, is unchecked. So is one whose expected value is
    :class:`Unchecked`.

    Args:
        place: Path of the values; empty for a whole file.
        saved: The value of the file.
        expected: The value that was computed again.
    """
    if isinstance(expected, Unchecked):
        yield Unchecked(f"{place}: {expected.reason}")
    elif isinstance(saved, Mapping) and isinstance(expected, Mapping):
        for key in dict.fromkeys([*expected, *saved]):
            inner = f"{place} / {key}" if place else str(key)
            yield from compare_values(inner, saved.get(key, ABSENT), expected.get(key, ABSENT))
    elif isinstance(saved, (list, tuple)) and isinstance(expected, (list, tuple)) and len(saved) == len(expected):
        if list(saved) != list(expected):
            for number, pair in enumerate(zip(saved, expected, strict=True)):
                yield from compare_values(f"{place} / {number}", *pair)
    elif expected is ABSENT:
        yield Unchecked(f"{place}: saved {short_value(saved)}, which nothing computes again")
    elif not values_equal(saved, expected):
        yield Contradicted(f"{place}: saved {short_value(saved)}, recomputed {short_value(expected)}")


def short_value(value: object) -> str:
    """Return a value as text of at most 80 characters."""
    if value is ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True, slots=True)
class Rerun:
    """Which queries to predict again: random ones, over all parts, data sets and conditions.

    Raises:
        ArgumentError: The model is no function, or the number is not positive.
    """

    model: Inference
    """The inference function, such as a kernel."""
    queries: int = 20
    """The maximum number of queries."""
    seed: int = field(default_factory=lambda: secrets.randbelow(10**9))
    """Chooses the queries; random by default. The finding names it."""

    def __post_init__(self) -> None:
        set_integers(self, queries=1)
        if not callable(self.model):
            raise ArgumentError(f"model: got {self.model!r:.60}, expected an inference function or a kernel")


@dataclass(frozen=True, slots=True)
class Source:
    """A data set whose queries can be predicted again, because its prompts are those of the result."""

    where: str
    """Path of the result within its file."""
    result: Result
    experimentor: DatasetTask
    queries: Sequence[Query]
    stored: Sequence[Answer | Failure]
    """The stored prediction of each query."""

    @property
    def place(self) -> str:
        """Path of the data set."""
        return f"{self.where}{self.experimentor.name}"

    @property
    def predictor(self) -> Identity:
        """The model that predicted the data set."""
        for predictor in self.result.provenance.predictors:
            if self.experimentor.name in predictor.datasets:
                return Identity(predictor.who, predictor.how)
        return Identity({})

    def refusal(self, model: Identity, several: bool) -> str | None:
        """Return why a model cannot predict the data set again; ``None`` if it can.

        Args:
            model: The model.
            several: Whether the data sets have predictions of several models.
        """
        if self.result.method != "vanilla":
            return f"its method is {self.result.method:.60}"
        differ = Identity({}, self.predictor.settings).differences(Identity({}, model.settings))
        if differ and GIVEN not in self.predictor.who:
            return f"{_listed(differ)}; give the options of the run"
        return "another model predicted it" if several and self.predictor.digest != model.digest else None

    def place_of(self, number: int) -> str:
        """Return the path of a query."""
        row = self.queries[number].row
        for record in self.result.details[self.experimentor.name].conditions:
            if number < len(record.rows):
                return f"{self.place} / {record.name} / query {number} (test row {row})"
            number -= len(record.rows)
        return self.place


def _listed(differ: Mapping[str, tuple[object, object]]) -> str:
    return ", ".join(f"{name} was {before}, is {now}" for name, (before, now) in differ.items())[:300]


def predict_again(rerun: Rerun, name: str, sources: Sequence[Source]) -> Verification:
    """Predict random queries again, and compare within the tolerance that the model declares.

    Args:
        rerun: The model, and how many queries.
        name: Name of the result.
        sources: The data sets to draw from. With predictions of several models, those of this one.
    """
    findings: list[Finding] = []
    others: list[Unchecked] = []
    drawn_from: list[tuple[int, int]] = []
    model = identity_of(rerun.model)
    several = len({source.predictor.digest for source in sources if GIVEN not in source.predictor.who}) > 1
    for place, source in enumerate(sources):
        if (why := source.refusal(model, several)) is not None:
            findings.append(Unchecked(f"{source.place}: not predicted again, {why}"))
        else:
            drawn_from += [(place, number) for number in range(len(source.stored))]
            differ = Identity(source.predictor.who, {}).differences(Identity(model.who, {}))
            if differ and GIVEN not in source.predictor.who:
                others.append(Unchecked(f"{source.place}: another model: {_listed(differ)}"))
    if not drawn_from:
        findings.append(Unchecked("rerun: no query has a known prompt and a prediction of this model"))
    chosen = sorted(random.Random(rerun.seed).sample(drawn_from, min(rerun.queries, len(drawn_from))))
    declared = tolerance_of(rerun.model)
    tolerance = TOLERANCE if declared is None else declared
    distances = [0.0]
    with RunContext(False, on_error="collect", progress=False) as context:
        context.start([rerun.model])
        for place, drawn in groupby(chosen, itemgetter(0)):
            source, numbers = sources[place], [number for _, number in drawn]
            free_text = source.experimentor.free_text
            options = replace(context.options_for(rerun.model, free_text=free_text), unparsed="wrong")
            queries = [source.queries[number] for number in numbers]
            answers = predict_queries(rerun.model, queries, Part("rerun"), options)
            for number, again in source.experimentor.read_again(dict(zip(numbers, answers, strict=True))).items():
                where, stored = source.place_of(number), source.stored[number]
                if isinstance(again, Failure) and again.reply is None:
                    findings.append(Unchecked(f"{where}: it failed when predicted again: {again.reason}"))
                    continue
                if not isinstance(stored, Failure):
                    distances.append(difference(stored, again))
                elif stored.reply is None:
                    findings.append(Unchecked(f"{where}: it failed in the run: {stored.reason}"))
                else:  # a reply without a label
                    distances.append(0.0 if isinstance(again, Failure) else math.inf)
                if distances[-1] > tolerance:
                    text = f"{where}: saved {short_value(stored)}, predicted again {short_value(again)}"
                    kind = Unchecked if declared is None else Contradicted  # its predictions may change
                    findings.append(kind(f"{text} (accepted difference: {tolerance:g})"))
    findings += others
    differing = sum(distance > tolerance for distance in distances)
    message = (
        f"{len(chosen)} of {len(drawn_from)} queries predicted again (seed {rerun.seed}): {differing} differ, by at "
        f"most {max(distances):.2g} (accepted: {tolerance:g})"
    )
    return Verification(name, None, message, limited("rerun", findings))


RECORDED = (
    "times, counts of computed and repeated predictions, versions of packages, warnings of the run, reasons of failed "
    "queries and beginnings of unparsed replies, the name of a data file and the texts of its card, and who predicted: "
    "model, method and how its scores are computed"
)
"""What a run records and nothing else in a result implies. It is compared within the file, but never computed again."""


def verify_file(
    path: str | os.PathLike[str],
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    data_files: Sequence[str | os.PathLike[str]] = (),
    rerun: Rerun | None = None,
) -> list[Verification]:
    """Verify a saved result with the digests of its file.

    Args:
        path: The file.
        benchmark: As for :func:`verify`.
        data_dir: As for :func:`verify`.
        data_files: As for :func:`verify`; the folder of the result and the current folder are searched too.
        rerun: As for :func:`verify`.

    Returns:
        The finding about the file, then those of :func:`verify`.

    Raises:
        SchemaError: The file is not a saved result, or is damaged.
        OSError: The file cannot be read.
    """
    data = read_result_file(path)
    result = result_from_dict(data, os.fspath(path))
    name = result.name if isinstance(result, ResultGroup) else result.benchmark
    problems = tuple(map(Contradicted, digest_problems(data)))
    about_file = Verification(name, None, f"the digests {'differ' if problems else 'are the same'}", problems)
    saved = {key: value for key, value in data.items() if key != DIGESTS}
    verifier = _Verifier(rerun, data_dir, matching_files([result], [*data_files, Path(path).parent, Path()])[0])
    return [about_file, *verifier.findings(result, saved, benchmark)]


def verify(
    result: Result | ResultGroup,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    data_files: Sequence[str | os.PathLike[str]] = (),
    rerun: Rerun | None = None,
) -> list[Verification]:
    """Compute a result again from its records, and compare.

    Args:
        result: A result or a group of results.
        benchmark: The benchmark, or the group, that computed it. Needed if the user changed its prompts or metrics, if
            it ran on the user's own data, and for benchmarks that are not of this library; otherwise it is rebuilt.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, found by their SHA-256, and folders that contain them under the
            recorded name.
        rerun: Predict some queries again.

    Returns:
        For each benchmark one finding for each data set, then one for the fields that they share; for a group one more
        for its parts, and one for the queries that were predicted again. :func:`status_of` is the status of them all.

    Raises:
        ArgumentError: The benchmark does not fit the result, or a file is not the one of a data set of the result.
        DataMissingError: A file or folder is not there.
    """
    if not isinstance(result, (Result, ResultGroup)):
        raise ArgumentError(f"result: got {result!r:.80}, expected a result or a group. For a file use verify_file")
    verifier = _Verifier(rerun, data_dir, matching_files([result], data_files)[0])
    return list(verifier.findings(result, result.to_dict(), benchmark))


def matching_files(
    results: Sequence[Result | ResultGroup], data_files: Sequence[str | os.PathLike[str]]
) -> list[list[str | os.PathLike[str]]]:
    """Return for each result the files of its own data sets, found by their SHA-256, and all folders.

    Args:
        results: The results to verify.
        data_files: Files and folders.

    Raises:
        ArgumentError: A file is not the one of a data set of these results.
        DataMissingError: A file or folder is not there.
    """
    digests = {file: None if Path(file).is_dir() else file_digest(file) for file in data_files}
    recorded = [
        {
            str(record.get("sha256")): str(record.get("file"))
            for part in result.results()
            for record in part.files.values()
        }
        for result in results
    ]
    expected = {digest: name for names in recorded for digest, name in names.items()}
    for file, digest in digests.items():
        if digest is not None and digest not in expected:
            listed = " or ".join(f"{key:.64} ({name:.80})" for key, name in expected.items())
            wanted = f"expected {listed}" if listed else "but no data set of the result is from a file"
            raise ArgumentError(f"{os.fspath(file)} is not the data of the result: its SHA-256 is {digest}, {wanted}")
    return [[file for file, digest in digests.items() if digest is None or digest in names] for names in recorded]


@dataclass(slots=True)
class _Verifier:
    """Verifies a result, or a group with all its parts."""

    rerun: Rerun | None
    """Which queries to predict again."""
    data_dir: str | os.PathLike[str] | None
    """Folder with the data of LongICL."""
    data_files: Sequence[str | os.PathLike[str]]
    """Files and folders of the user's own data."""
    sources: list[Source] = field(default_factory=list)
    """The queries that can be predicted again."""
    raced: dict[str, _BenchmarkRecords] = field(default_factory=dict)
    """The results of a race, by their path."""

    def findings(
        self, result: Result | ResultGroup, saved: Mapping[str, Any], benchmark: Any
    ) -> Iterator[Verification]:
        """Yield the findings about a result and its parts, then that about the queries that are predicted again."""
        yield from self._any(result, saved, benchmark, "")
        if self.rerun is not None:
            name = result.name if isinstance(result, ResultGroup) else result.benchmark
            yield predict_again(self.rerun, name, self.sources)

    def _any(
        self, result: Result | ResultGroup, saved: Mapping[str, Any], benchmark: Any, where: str, race: bool = False
    ) -> Iterator[Verification]:
        if isinstance(result, ResultGroup):
            return self._group(result, saved, benchmark, where)
        return self._result(result, saved, benchmark, where, race)

    # -- groups

    def _group(
        self, group: ResultGroup, saved: Mapping[str, Any], benchmark: Any, where: str
    ) -> Iterator[Verification]:
        findings: list[Finding] = [] if group else [Unchecked(f"{where}parts: the group has none")]
        name, sweep = group.name, SWEEPS.get(group.name)
        members: Mapping[str, Any] = {}
        if sweep is RACE:
            members = dict.fromkeys(group, benchmark)
        elif sweep is None and benchmark is None:
            try:
                benchmark = rebuild(group, self.data_dir, self.data_files)
            except StaICCError as error:
                findings.append(_refused(error, where))
        if sweep is None and isinstance(benchmark, BenchmarkGroup):
            name, members = benchmark.name, benchmark.members
            findings += compare_values(f"{where}parts", sorted(group), sorted(members))
        elif sweep is not RACE and benchmark is not None:
            raise ArgumentError(
                f"benchmark: got {benchmark!r:.60} for the group {name!r:.60} of results. Pass its group of "
                "benchmarks, or verify its parts one by one"
            )
        for part_name, part in group.items():
            member, place = members.get(part_name), f"{where}parts / {part_name}"
            if isinstance(part, ResultGroup) and isinstance(member, Benchmark):
                findings.append(Contradicted(f"{place}: saved a group, recomputed a result of {member.task.name}"))
                member = None
            yield from self._any(part, saved["parts"][part_name], member, f"{place} / ", sweep is RACE)
        findings += _shared_by_parts(group, sweep, where)
        if sweep is RACE:
            findings += self._decision(group, where)
        others = {"parts", *(sweep.recorded if sweep is not None else ())}
        entries = {key: value for key, value in saved.items() if key not in others}
        expected = {"schema": _schema(saved), "kind": "group", "name": name}
        findings += compare_values(where.removesuffix(" / "), entries, expected)
        yield Verification(group.name, None, "the parts, their arguments and their models", limited(where, findings))

    def _decision(self, group: ResultGroup, where: str) -> Iterator[Finding]:
        """Follow the stopping rule of a race over the predictions of both models."""
        yield from compare_values(f"{where}parts", sorted(group), ["first", "second"])
        parts = {f"{where}parts / {name} / ": group.get(name) for name in ("first", "second")}
        raced = [self.raced[place] for place in parts if place in self.raced]
        if len(raced) < 2:
            yield Unchecked(f"{where}stopping: the decision follows from predictions that cannot be scored")
            return
        for (place, result), records in zip(parts.items(), raced, strict=True):
            assert isinstance(result, Result)
            yield from _replayed(place, result, records, raced)

    # -- single results

    def _result(
        self, result: Result, saved: Mapping[str, Any], benchmark: Any, where: str, race: bool
    ) -> Iterator[Verification]:
        if isinstance(benchmark, BenchmarkGroup):
            raise ArgumentError(
                f"a group of benchmarks was given for a single result of {result.benchmark}; pass the benchmark"
            )
        own: Sequence[str] = ()
        if isinstance(benchmark, Benchmark) and result.stopping is not None:
            benchmark = first_rows(benchmark, result.stopping.rounds)
        elif benchmark is None:
            try:
                benchmark, own = rebuild(result, self.data_dir, self.data_files), own_metrics(result)
            except StaICCError as error:
                yield Verification(result.benchmark, None, "nothing was computed again", (_refused(error, where),))
                return
        records = _BenchmarkRecords(_without_intervals(benchmark) if _has_other_intervals(result) else benchmark)
        if not set(result.details) == set(result.divided) == set(records.names):
            saved_names, names = short_value(list(result.divided)), short_value(list(records.names))
            differ = Contradicted(f"{where}details: saved {saved_names}, recomputed {names}")
            yield Verification(result.benchmark, None, "the data sets differ", (differ,))
            return
        unscored: list[str] = []
        for name, details in result.details.items():
            place = f"{where}details / {name}"
            same, first, message = None, None, "nothing was computed again"
            findings: list[Finding] = []
            try:
                same, first, message = compare_prompts(details, *records.prompts(result, name))
                if not same:
                    field = "prompts" if first is None else "query_digests"
                    findings.append(Contradicted(f"{place} / {field}: {message}"))
                values, expected = records.score(result, name)
            except (StaICCError, ArithmeticError, LookupError, ValueError) as error:
                unscored.append(name)
                missing = isinstance(error, DataError)
                findings.append(
                    Unchecked(f"{place}: {error}") if missing else Contradicted(f"{place} / conditions: {error}")
                )
            else:
                written: dict[str, Any] = {
                    "prompts": details.prompts,
                    "query_digests": details.query_digests,
                }  # compared
                version = result.signature.fields.get("version")
                other = f"of version {short_value(version)}, this is {__version__}"
                if version != __version__ and list(details.notes) != list(expected["notes"]):
                    written["notes"] = Unchecked(f"warnings {other}")
                if version != __version__:  # which may have had fewer p-values
                    stated = saved["details"][name].get("baselines", {})
                    written["baselines"] = {
                        score: {
                            key: Unchecked(f"p-values {other}") if own.get(key) is None is not value else value
                            for key, value in base.items()
                        }
                        for score, base in expected["baselines"].items()
                        for own in [stated.get(score, {})]
                    }
                findings += compare_values(f"{where}{DIVIDED} / {name}", saved[DIVIDED][name], values)
                findings += compare_values(place, saved["details"][name], expected | written)
                if same and self.rerun is not None:
                    self.sources += records.sources(where, result, name)
            yield Verification(result.benchmark, name, message, limited(place, findings), same, first)
        shared: Iterable[Finding] = [Unchecked(f"{where}means and signature: {', '.join(unscored)} cannot be scored")]
        if not unscored:
            shared = self._shared(result, records, saved, where, race, own)
        findings = [*limited(f"{where}means", shared)]
        yield Verification(result.benchmark, None, "the means, the signature and the provenance", tuple(findings))

    def _shared(
        self,
        result: Result,
        records: _BenchmarkRecords,
        saved: Mapping[str, Any],
        where: str,
        race: bool,
        own: Sequence[str],
    ) -> Iterator[Finding]:
        """Compare what the data sets share with that of the recomputed result, into which the records of the run go."""
        names = [name for name, details in result.details.items() if details.asked]
        expected = records.collect(result, _predictions(result, names))
        if result.stopping is not None:
            expected = marked(expected, result.stopping)
        expected.environment, expected.timing = result.environment, result.timing
        expected.signature = Signature({**expected.signature.fields, "method": result.provenance.method})
        given = next((predictor for predictor in result.provenance.predictors if GIVEN in predictor.who), None)
        predictors = expected.provenance.predictors
        if given is not None:
            known: dict[str, Any] = {"name": given.name, "finished": given.finished}
            if any(experimentor.free_text for experimentor in records.benchmark):  # a digest of texts that no file has
                known |= {"who": given.who, "identity": given.identity}
            predictors = tuple(replace(predictor, **known) for predictor in predictors)
        method = result.signature.fields.get("method")
        expected.provenance = replace(expected.provenance, predictors=predictors, method=method)
        for name in expected.files.keys() & result.files.keys():
            expected.files[name] = {**expected.files[name], "file": result.files[name].get("file")}
        plain = expected.to_dict()
        if result.stopping is not None and result.stopping.rule == "race" and not race:
            plain["stopping"] = Unchecked("the decision of a race follows from both of its results, this is one")
        elif result.stopping is not None and not race:
            yield from _replayed(where, result, records, [records])
        if race:
            self.raced[where] = records
        plain["schema"] = _schema(saved)
        fields: dict[str, Any] = dict.fromkeys(FIELDS) | plain["signature"]  # a missing field states a default
        signed = dict.fromkeys(FIELDS) | saved["signature"]
        if signed["version"] != __version__:
            other = Unchecked(f"computed by version {short_value(signed['version'])}, this is {__version__}")
            fields |= {"version": other} | {
                key: other for key in ("scoring", "statistics") if fields[key] != signed[key]
            }
            if _has_other_intervals(result):
                plain["arguments"] = {**plain["arguments"], "statistics": other}
        if own:
            reason = Unchecked(f"{'+'.join(own)} is the user's own; pass the benchmark")
            fields |= {"metrics": reason, "statistics": reason}
            plain["arguments"] = {**plain["arguments"], "metrics": reason}
        if "arguments" not in saved:  # as in files of StaICC 1.0.0
            plain.pop("arguments", None)
        yield from compare_values(f"{where}signature", signed, fields)
        compared = (DIVIDED, "details", "signature")
        rest = {key: value for key, value in saved.items() if key not in compared}
        computed = {key: value for key, value in plain.items() if key not in compared}
        yield from compare_values(where.removesuffix(" / "), rest, computed)


def _schema(saved: Mapping[str, Any]) -> object:
    """Return the expected schema of a file: that of this version, which cannot judge others."""
    same = saved["schema"] == RESULT_SCHEMA
    return RESULT_SCHEMA if same else Unchecked(f"got {saved['schema']}, this version writes {RESULT_SCHEMA}")


def _has_other_intervals(result: Result) -> bool:
    """Return whether another version of this library computed the intervals, by other methods."""
    statistics = result.signature.fields.get("statistics") or INTERVAL_VERSION
    return result.signature.fields.get("version") != __version__ and INTERVAL_VERSION not in statistics


def _without_intervals(benchmark: BaseBenchmark[Any]) -> BaseBenchmark[Any]:
    return benchmark.copy_with(
        experimentor=[
            experimentor.copy_with(statistics=replace(experimentor.statistics, intervals=False))
            for experimentor in benchmark
        ]
    )


def _refused(error: StaICCError, where: str) -> Finding:
    """Return what it means that a benchmark cannot be rebuilt."""
    if isinstance(error, ImplausibleError):
        return Contradicted(f"{where}arguments: {error}")
    return Unchecked(f"{where}benchmark: {error}")


def _replayed(
    where: str, result: Result, records: _BenchmarkRecords, models: Sequence[_BenchmarkRecords]
) -> Iterator[Finding]:
    """Follow the stopping rule over the predictions of the models, and compare with the saved record."""
    if result.stopping is None:
        yield Contradicted(f"{where}stopping: saved nothing, but the results of a race have the record of its decision")
        return
    try:
        expected = replay(result.stopping, records.benchmark.experimentor, [model.scored for model in models])
    except (StaICCError, LookupError) as error:
        yield Contradicted(f"{where}stopping: {error}")
    else:
        yield from compare_values(f"{where}stopping", result.stopping.to_dict(), expected.to_dict())


def _predictions(result: Result, names: Sequence[str]) -> Predictions:
    """Return who predicted, as the run recorded it; the run's code computes identities and counts from it again."""
    ways = []
    for replies, batched in itertools.product((False, True), repeat=2):
        records: dict[str, RunRecord] = {}
        started = ""
        for saved in result.provenance.predictors:
            counts = RunCounts(saved.computed, saved.reused, saved.rechecked, saved.retried)
            identity = Identity(saved.who, saved.how, saved.unidentified)
            times = (saved.started, saved.finished)
            record = RunRecord(identity, saved.name, *times, counts, saved.editions, replies)
            records |= dict.fromkeys(() if GIVEN in saved.who else saved.datasets, record)
            started = saved.started
        given = f"given;parser={PARSER_VERSION}" if replies else "given"
        ways.append(Predictions(records, batched, started, given, result.warnings))
    scoring = result.signature.fields.get("scoring")
    return next((way for way in ways if way.scoring(names) == scoring), ways[0])


def _shared_by_parts(group: ResultGroup, sweep: Sweep | None, where: str) -> Iterator[Finding]:
    """Compare who predicted the parts of a group and, in a sweep, their settings but the one that differs."""
    parts = [(name, list(part.results())) for name, part in group.items()]
    for name, results in parts:
        place, (first_name, first) = f"{where}parts / {name}", parts[0]
        if sweep is not None and not all(sweep.describes(name, result) for result in results):
            yield Contradicted(f"{place}: the name is not that of its setting")
        if len(results) != len(first):
            yield Contradicted(f"{place}: saved {len(results)} results, {first_name} has {len(first)}")
        for mine, other in zip(results, first, strict=False):
            if sweep is not None:
                settings = (
                    {key: result.signature.fields.get(key) for key in FIELDS if key not in sweep.varies}
                    for result in (mine, other)
                )
                yield from compare_values(f"{place} / signature", *settings)
            if sweep is not RACE and _who(mine, sweep) != _who(other, sweep):
                text = f"{place} / provenance: {mine.model} ({mine.method}), {first_name} has {other.model}"
                # The function of a method may be one of its own; the members of a benchmark group share one.
                yield Contradicted(text) if sweep is None else Unchecked(text)


def _who(result: Result, sweep: Sweep | None) -> list[object]:
    """Return who predicted a result, without the digest of given predictions; in a sweep, without the method."""
    predictors = [
        replace(predictor, who={key: value for key, value in predictor.who.items() if key != GIVEN}, identity="")
        for predictor in result.provenance.predictors
    ]
    if sweep is None:
        return [*predictors, result.method]
    return [replace(predictor, how={}) for predictor in predictors]


class _BenchmarkRecords:
    """The records of a result of a benchmark.

    Args:
        benchmark: The benchmark.
    """

    def __init__(self, benchmark: BaseBenchmark[Any]) -> None:
        self.benchmark = benchmark
        self.names: Sequence[str] = [*benchmark.dataset_names, *benchmark.absent]
        self.scored: dict[str, DatasetRun] = {}
        self._written: dict[str, Sequence[Condition]] = {}

    def prompts(self, result: Result, name: str) -> tuple[str, str]:
        """Return the digest of the prompts of a data set, and the first bytes of the digest of each."""
        if name in self.benchmark.absent:
            if result.details[name].asked:
                raise DataMissingError(self.benchmark.absent[name].details.notes[0])
            return "", ""
        self._written[name] = self.benchmark[name].conditions()
        return digest_prompts(query for condition in self._written[name] for query in condition.queries)

    def score(self, result: Result, name: str) -> tuple[Any, Any]:
        """Return the scores and the details that follow from the records of a data set, as JSON values.

        Raises:
            StaICCError: The records are not those of the benchmark's queries.
        """
        details = result.details[name]
        if name in self.benchmark.absent:
            run = self.benchmark.absent[name]
            return run.values, run.details.to_dict()
        experimentor, conditions = self.benchmark[name], self._written[name]
        if experimentor.unrecorded is not None:
            values = result.divided[name]
            averaged = {key: values.get(key) for key in result.averaged}
            self.scored[name] = DatasetRun(values, averaged, details, (), details.intervals, ())
            return Unchecked(experimentor.unrecorded), details.to_dict() | experimentor.known_details()
        written = [(condition.name, len(condition.queries)) for condition in conditions]
        recorded = [(record.name, len(record.truth)) for record in details.conditions]
        if written != recorded:
            raise SchemaError(f"saved {short_value(recorded)}, written {short_value(written)}")
        answers = list(_answers(details, len(experimentor.get_label_space())))
        run = experimentor.assemble(conditions, answers)
        if experimentor.free_text:  # the run recorded the kind of its predictions, and the labels that were read
            pairs = zip(run.details.conditions, details.conditions, strict=True)
            kinds = tuple(replace(computed, output=saved.output) for computed, saved in pairs)
            run = replace(run, details=replace(run.details, conditions=kinds))
        self.scored[name] = run
        return run.values, run.details.to_dict()

    def collect(self, result: Result, predictions: Predictions) -> Result:
        """Return the complete result, after all data sets are scored."""
        return self.benchmark.collect(self.scored, 0.0, predictions, with_divided=result.with_divided)

    def sources(self, where: str, result: Result, name: str) -> Iterator[Source]:
        """Yield the queries of a scored data set, to predict them again, if it has records of them."""
        run = self.scored.get(name)
        if run is not None and run.answers:
            experimentor = self.benchmark[name]
            queries = [query for condition in self._written[name] for query in condition.queries]
            yield Source(where, result, experimentor, queries, experimentor.stored_predictions(run))


def _answers(details: DatasetDetails, labels: int) -> Iterator[Answer | Failure]:
    """Yield the predictions of a data set: label scores, or else predicted labels."""
    failures = {(failed.condition, failed.query): Failure(failed.reason) for failed in details.failures}
    failures |= {(reply.condition, reply.query): unlabelled(reply.reason) for reply in details.unparsed}
    for record in details.conditions:
        failed = [failures.get((record.name, number)) for number in range(len(record.truth))]
        if record.scores is None and record.output in ("probabilities", "logits", "ambiguous"):
            raise SchemaError("the label scores are missing, but every run saves them")
        rows = record.label_scores(labels)
        for number, (failure, row, label) in enumerate(zip(failed, rows, record.predictions, strict=True)):
            if failure is not None:
                yield failure
            elif row is not None:
                yield row
            elif label is None or not 0 <= label < labels:
                raise SchemaError(f"prediction {number} is {label}, but there are {labels} labels")
            else:
                yield label
