"""Verification: does a saved result follow from its own records, and do its prompts follow from the frozen data?

A result stores the true label, the prediction and the label scores of each query, the digest of all prompts and 32 bits
of the digest of each prompt. Verification makes the benchmark of the result again (:func:`rebuild`), writes its prompts
without a model, scores the stored predictions with the code of a run, and so computes the complete result a second
time. Then it compares the two, value by value (fractions to 9 digits, since platforms round logarithms and exponentials
differently).

A value that differs is :class:`Contradicted`. A value of the saved result that the second one does not have is
:class:`Unchecked`, and so is all that needs data or code that is not there, or that another version of this library
computed in another way. Only a result in which neither remains is :class:`Recomputed`. A group of results is one
object: its class says which parts it has, and with which arguments.

What the run alone can know is copied into the second result (``RECORDED``): times, counts, versions, who predicted, and
why queries failed. Verification does not prove that a model computed the label scores: a file with invented label
scores, and everything else computed from them, is recomputed. To predict some queries again, pass a
:class:`~StaICC.benchmarks.verify.Rerun`.

A file may hold any value. Numbers are compared with bounds and with the counts of the file before prompts are written.
So a file costs at most as much time and memory as the prompts of a run with 4,096 demonstrations each.
"""

from __future__ import annotations

import inspect
import math
import os
import random
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from StaICC.benchmarks.evaluation import DatasetRun, Written, compare_prompts, digest_prompts, distinct_prompts
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.race import first_rows, marked, replay
from StaICC.benchmarks.running import BaseBenchmark, DatasetTask, Predictions, RunContext
from StaICC.benchmarks.task import Condition, Statistics
from StaICC.benchmarks.tasks import BENCHMARKS, Benchmark, BenchmarkGroup, members
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
_SETS = ("standard", "0.1.1")


class ImplausibleError(ArgumentError):
    """The arguments of a file have a value that no run writes."""


class _OwnDataError(ArgumentError):
    """A data set is neither in this library nor in a recorded file."""


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
    if isinstance(result, ResultGroup) and any(map(own_metrics, parts)):
        raise ArgumentError("the group has metrics of the user's own; pass the group itself")
    evaluated = [name for name, details in first.details.items() if details.asked or not long_icl]
    own = _reopened(first, data_files)
    try:
        datasets = [own[name] if name in own else _builtin(name, long_icl) for name in evaluated]
        if make is None:
            from StaICC.benchmarks.long_icl import rebuild_long_icl  # with its own data and readers

            return rebuild_long_icl(first, data_dir, datasets, Statistics(**first.arguments["statistics"]))
        benchmark: Benchmark | BenchmarkGroup = make(datasets=datasets, **_constructor_arguments(parts, make))
        _restore(benchmark, result)
    except (DataError, _OwnDataError):
        raise
    except (StaICCError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ImplausibleError(f"{error!s:.200}") from error
    if first.stopping is None or isinstance(benchmark, BenchmarkGroup):
        return benchmark
    return first_rows(benchmark, first.stopping.rounds)


def _builtin(name: str, long_icl: bool) -> Dataset | str:
    try:
        if long_icl:
            from StaICC.benchmarks.long_icl.protocol import card

            return card(name).name
        dataset = load_dataset(name, references=False)
        if dataset.card.name != name:  # a run writes the exact name
            raise UnknownNameError(f"{name!r} is not the built-in {dataset.card.name!r}")
    except UnknownNameError as error:
        raise _OwnDataError(f"the result is over the user's own data ({error}); pass the benchmark itself") from error
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
            raise ImplausibleError(f"the data file of {name!r:.60} is recorded with the name {dataset.card.name!r:.60}")
        refuse_builtin(name)
    return datasets


def _constructor_arguments(parts: Sequence[Result], make: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of the first part, and the options of all parts that the constructor takes."""
    recorded, known = parts[0].arguments, inspect.signature(make).parameters
    given = {name: value for part in reversed(parts) for name, value in part.arguments["options"].items()}
    options = {name: validate_integer(name, value, 0, _MOST) for name, value in given.items()}
    metrics = _metrics(recorded["metrics"])
    return {
        "k": validate_integer("k", recorded["k"], 0, _MOST),
        **{name: recorded[name] for name in ("noisy_channel", "limit", "outputs", "unparsed", "sampler")},
        "metrics": metrics.name if metrics in map(metric_set, _SETS) else metrics,
        "statistics": Statistics(**recorded["statistics"]),
        **{name: value for name, value in options.items() if name in known},
    }


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
    return _names(result.arguments.get("metrics"), "own")


def _names(recorded: object, key: str) -> Sequence[str]:
    """Return a list of names among the recorded arguments."""
    names = recorded.get(key, ()) if isinstance(recorded, Mapping) else ()
    if not isinstance(names, (list, tuple)):
        raise ImplausibleError(f"{key}: got {names!r:.60}, expected a list of names")
    return list(map(str, names))


def _restore(benchmark: Benchmark | BenchmarkGroup, result: Result | ResultGroup) -> None:
    """Set what no constructor takes, after comparing the number of queries with the file."""
    for name, member in members(benchmark).items():
        part = result.get(name) if isinstance(result, ResultGroup) else result
        if not isinstance(part, Result):
            continue  # verification says that this part is missing
        for experimentor in member:
            _check_size(part, experimentor)
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
        raise ArgumentError(
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


class _PartRenderer(PromptRenderer):
    """Writes each prompt as its parts; in the noisy channel, that of the first label."""

    __slots__ = ()

    def assemble(self, demonstrations: Sequence[tuple[str, int]], query: Sequence[str]) -> Prompt:
        """Return instruction, demonstrations and query."""
        prompt = super().assemble(demonstrations, query)
        text = prompt if isinstance(prompt, str) else prompt[0]
        lengths = [len(shown) + len(self._label_parts[label]) for shown, label in demonstrations]
        ends = [0, *accumulate(lengths, initial=len(self.settings.template.instruction)), len(text)]
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
        queries = benchmark[name].all_queries()
        same, _, message = compare_prompts(details, *digest_prompts(queries))
        recorded = [pair for record in details.conditions for pair in zip(record.rows, record.truth, strict=True)]
        if same and recorded != [(query.row, query.label) for query in queries]:
            same, message = False, "the records of the queries are not those of the prompts"
        parted = benchmark[name].conditions(_PartRenderer) if same else ()
        prompts[name] = [tuple(query.prompt) for condition in parted for query in condition.queries] or message
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


def compare_values(place: str, saved: Any, expected: Any, unknown: Mapping[str, str] = {}) -> Iterator[Finding]:
    """Compare a saved JSON value with the expected one, and the values in them; yield all that are not recomputed.

    A value that is saved, but that nothing computes again, is unchecked. So is one whose expected value is
    :class:`Unchecked`.

    Args:
        place: Path of the values; empty for a whole file.
        saved: The value of the file.
        expected: The value that was computed again.
        unknown: Keys whose differences are unchecked, with the reason: this version or benchmark cannot judge them.
    """
    if isinstance(expected, Unchecked):
        yield Unchecked(f"{place}: {expected.reason}")
    elif isinstance(saved, Mapping) and isinstance(expected, Mapping):
        for key in dict.fromkeys([*expected, *saved]):
            inner = f"{place} / {key}" if place else str(key)
            for finding in compare_values(inner, saved.get(key, ABSENT), expected.get(key, ABSENT), unknown):
                if key in unknown and isinstance(finding, Contradicted):
                    finding = Unchecked(f"{finding.difference} ({unknown[key]})")
                yield finding
    elif isinstance(saved, (list, tuple)) and isinstance(expected, (list, tuple)) and len(saved) == len(expected):
        if list(saved) != list(expected):
            for number, pair in enumerate(zip(saved, expected, strict=True)):
                yield from compare_values(f"{place} / {number}", *pair, unknown)
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

    place: str
    """Path of the data set within its file."""
    result: Result
    experimentor: DatasetTask
    queries: Sequence[Query]
    stored: Sequence[Answer | Failure]
    """The stored prediction of each query."""

    @property
    def predictor(self) -> Identity:
        """The model that predicted the data set."""
        for predictor in self.result.provenance.predictors:
            if self.experimentor.name in predictor.datasets:
                return Identity(predictor.who, predictor.how)
        return Identity({})

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
        predictor = source.predictor
        known = {} if GIVEN in predictor.who else predictor.differences(model)
        settings = {key: pair for key, pair in known.items() if key in {**predictor.settings, **model.settings}}
        if source.result.method != "vanilla":
            why = f"its method is {source.result.method:.60}"
        elif settings:
            why = f"{_listed(settings)}; give the options of the run"
        elif several and predictor.digest != model.digest:
            why = "another model predicted it"
        elif [own.identity for own in source.result.provenance.predictors].count(predictor.digest) > 1:
            why = "two functions of the run have its identity"
        else:
            drawn_from += [(place, number) for number in range(len(source.stored))]
            if known:
                others.append(Unchecked(f"{source.place}: another model: {_listed(known)}"))
            continue
        findings.append(Unchecked(f"{source.place}: not predicted again, {why}"))
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
            options = context.options_for(rerun.model, free_text=source.experimentor.free_text)
            queries = [source.queries[number] for number in numbers]
            answers = predict_queries(rerun.model, queries, Part("rerun"), replace(options, unparsed="wrong"))
            for number, again in source.experimentor.read_again(dict(zip(numbers, answers, strict=True))).items():
                where, stored = source.place_of(number), source.stored[number]
                for when, answer in (("when predicted again", again), ("in the run", stored)):
                    if isinstance(answer, Failure) and answer.reply is None:
                        findings.append(Unchecked(f"{where}: it failed {when}: {answer.reason}"))
                        break
                else:
                    unparsed = [isinstance(answer, Failure) for answer in (again, stored)]
                    same = 0.0 if all(unparsed) else math.inf
                    distances.append(same if any(unparsed) else difference(stored, again))
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
    ) -> Generator[Verification, None, _Scored | None]:
        """Yield the findings about a result or a group; return a result whose data sets are all scored."""
        if isinstance(result, ResultGroup):
            yield from self._group(result, saved, benchmark, where)
            return None
        if benchmark is not None and not isinstance(benchmark, BaseBenchmark):
            raise ArgumentError(
                f"benchmark: got {benchmark!r:.60} for a single result of {result.benchmark}. Pass its benchmark"
            )
        own: Sequence[str] = ()
        try:
            if benchmark is None:
                benchmark, own = rebuild(result, self.data_dir, self.data_files), own_metrics(result)
            elif isinstance(benchmark, Benchmark) and result.stopping is not None:
                benchmark = first_rows(benchmark, result.stopping.rounds)
            benchmark = _with_outputs(benchmark, result)
        except StaICCError as error:
            yield Verification(result.benchmark, None, "nothing was computed again", (_refused(error, where),))
            return None
        names = [*benchmark.dataset_names, *benchmark.absent]
        if not set(result.details) == set(result.divided) == set(names):
            differ = f"{where}details: saved {short_value(list(result.divided))}, recomputed {short_value(names)}"
            yield Verification(result.benchmark, None, "the data sets differ", (Contradicted(differ),))
            return None
        sources = None if self.rerun is None else self.sources
        scored = _Scored(result, saved, benchmark, where, _unknown(result, own), sources)
        for name in result.details:
            yield scored.dataset(name)
        lost = [name for name in names if name not in scored.runs]
        unscored = Unchecked(f"{where}means and signature: {', '.join(lost)} cannot be scored")
        findings = limited(f"{where}means", [unscored] if lost else scored.shared(race))
        yield Verification(result.benchmark, None, "the means, the signature and the provenance", findings)
        return None if lost else scored

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
        raced: dict[str, _Scored] = {}
        for part_name, part in group.items():
            member, place = members.get(part_name), f"{where}parts / {part_name}"
            if isinstance(part, ResultGroup) and isinstance(member, Benchmark):
                findings.append(Contradicted(f"{place}: saved a group, recomputed a result of {member.task.name}"))
                member = None
            scored = yield from self._any(part, saved["parts"][part_name], member, f"{place} / ", sweep is RACE)
            if sweep is RACE and scored is not None:  # others would keep the prompts of all parts in memory
                raced[part_name] = scored
        findings += _shared_by_parts(group, sweep, where)
        if sweep is RACE:
            findings += compare_values(f"{where}parts", sorted(group), ["first", "second"])
            models = [raced[part] for part in ("first", "second") if part in raced]
            if len(models) < 2:
                reason = "the decision follows from predictions that cannot be scored"
                findings.append(Unchecked(f"{where}stopping: {reason}"))
            findings += [finding for model in models if len(models) > 1 for finding in model.replayed(models)]
        others = {"parts", *(sweep.recorded if sweep is not None else ())}
        entries = {key: value for key, value in saved.items() if key not in others}
        expected = {"schema": RESULT_SCHEMA, "kind": "group", "name": name}
        findings += compare_values(where.removesuffix(" / "), entries, expected, _OTHER_SCHEMA)
        yield Verification(group.name, None, "the parts, their arguments and their models", limited(where, findings))


@dataclass(slots=True)
class _Scored:
    """A result whose records are scored again, data set by data set."""

    result: Result
    saved: Mapping[str, Any]
    """Its JSON values."""
    benchmark: BaseBenchmark[Any]
    where: str
    """Path of the result within its file."""
    unknown: Mapping[str, str]
    """As for :func:`compare_values`."""
    sources: list[Source] | None
    """Gets the data sets that can be predicted again; ``None`` if none is."""
    runs: dict[str, DatasetRun] = field(default_factory=dict)
    """The scored data sets."""

    def dataset(self, name: str) -> Verification:
        """Write the prompts of a data set, score its records, and compare."""
        details, place = self.result.details[name], f"{self.where}details / {name}"
        same, first, message = None, None, "nothing was computed again"
        findings: list[Finding] = []
        absent = self.benchmark.absent.get(name)
        try:
            if absent is not None and details.asked:
                raise DataMissingError(absent.details.notes[0])
            conditions = () if absent is not None else self.benchmark[name].conditions()
            digests = digest_prompts(query for condition in conditions for query in condition.queries)
            same, first, message = compare_prompts(details, *(("", "") if absent is not None else digests))
            if not same:
                findings.append(Contradicted(f"{place} / {'prompts' if first is None else 'query_digests'}: {message}"))
            run, values, expected = self._score(name, conditions)
        except (StaICCError, ArithmeticError, LookupError, ValueError) as error:
            missing = isinstance(error, DataError)
            findings.append(
                Unchecked(f"{place}: {error}") if missing else Contradicted(f"{place} / conditions: {error}")
            )
        else:
            self.runs[name] = run
            compared = {"prompts": details.prompts, "query_digests": details.query_digests}
            saved = self.saved[DIVIDED][name]
            findings += compare_values(f"{self.where}{DIVIDED} / {name}", saved, values, self.unknown)
            findings += compare_values(place, self.saved["details"][name], expected | compared, self.unknown)
            if same and run.answers and self.sources is not None:
                own, queries = self.benchmark[name], [query for condition in conditions for query in condition.queries]
                self.sources.append(Source(f"{self.where}{name}", self.result, own, queries, run.answers))
        return Verification(self.result.benchmark, name, message, limited(place, findings), same, first)

    def _score(self, name: str, conditions: Sequence[Condition]) -> tuple[DatasetRun, Any, dict[str, Any]]:
        """Score the records of a data set; return the run, its scores and its details as JSON values.

        Raises:
            StaICCError: The records are not those of the benchmark's queries.
        """
        details, run = self.result.details[name], self.benchmark.absent.get(name)
        if run is not None:
            return run, run.values, run.details.to_dict()
        experimentor = self.benchmark[name]
        if experimentor.unrecorded is not None:
            values = self.result.divided[name]
            averaged = {key: values.get(key) for key in self.result.averaged}
            run = DatasetRun(values, averaged, details, (), details.intervals, ())
            seen: list[Written] = []
            digest_prompts((query for condition in conditions for query in condition.queries), seen)
            known = {"asked": len(seen), "distinct": distinct_prompts(seen), "data": experimentor.data_digest}
            return run, Unchecked(experimentor.unrecorded), details.to_dict() | known
        written = [(condition.name, len(condition.queries)) for condition in conditions]
        recorded = [(record.name, len(record.truth)) for record in details.conditions]
        if written != recorded:
            raise SchemaError(f"saved {short_value(recorded)}, written {short_value(written)}")
        run = experimentor.assemble(conditions, list(_answers(details, len(experimentor.get_label_space()))))
        if experimentor.free_text:  # the run recorded the kind of its predictions, and the labels that were read
            pairs = zip(run.details.conditions, details.conditions, strict=True)
            kinds = tuple(replace(computed, output=saved.output) for computed, saved in pairs)
            run = replace(run, details=replace(run.details, conditions=kinds))
        return run, run.values, run.details.to_dict()

    def shared(self, race: bool) -> Iterator[Finding]:
        """Compare what the data sets share with that of the recomputed result, into which the records of the run go."""
        result, benchmark = self.result, self.benchmark
        runs = {name: self.runs[name] for name in benchmark.dataset_names}
        again = benchmark.collect(runs, 0.0, _predictions(result), with_divided=result.with_divided)
        if result.stopping is not None:
            again = marked(again, result.stopping)
        again.environment, again.timing = result.environment, result.timing
        again.signature = Signature({**again.signature.fields, "method": result.provenance.method})
        given = next((predictor for predictor in result.provenance.predictors if GIVEN in predictor.who), None)
        predictors = again.provenance.predictors
        if given is not None:
            known: dict[str, Any] = {"name": given.name, "finished": given.finished}
            if any(experimentor.free_text for experimentor in benchmark):  # a digest of texts that no file has
                known |= {"who": given.who, "identity": given.identity}
            predictors = tuple(replace(predictor, **known) for predictor in predictors)
        method = result.signature.fields.get("method")
        again.provenance = replace(again.provenance, predictors=predictors, method=method)
        for name in again.files.keys() & result.files.keys():
            again.files[name] = {**again.files[name], "file": result.files[name].get("file")}
        expected = again.to_dict()
        if result.stopping is not None and not race:
            if result.stopping.rule == "race":
                expected["stopping"] = Unchecked("the decision of a race follows from both of its results, this is one")
            else:
                yield from self.replayed([self])
        if "arguments" not in self.saved:  # as in files of StaICC 1.0.0
            expected.pop("arguments", None)
        stated, computed = (  # a field that a signature lacks states a default
            {key: value for key, value in document.items() if key not in (DIVIDED, "details")}
            | {"signature": dict.fromkeys(FIELDS) | document["signature"]}
            for document in (self.saved, expected)
        )
        yield from compare_values(self.where.removesuffix(" / "), stated, computed, self.unknown)

    def replayed(self, models: Sequence[_Scored]) -> Iterator[Finding]:
        """Follow the stopping rule over the predictions of the models, and compare with the saved record."""
        stopping, place = self.result.stopping, f"{self.where}stopping"
        if stopping is None:
            yield Contradicted(f"{place}: saved nothing, but the results of a race have the record of its decision")
            return
        try:
            expected = replay(stopping, self.benchmark.experimentor, [model.runs for model in models])
        except (StaICCError, LookupError) as error:
            yield Contradicted(f"{place}: {error}")
        else:
            yield from compare_values(place, stopping.to_dict(), expected.to_dict())


_OTHER_SCHEMA = {"schema": f"another one than this version writes, {RESULT_SCHEMA}"}
_OF_VERSIONS = ("version", "scoring", "statistics", "intervals", "missing", "baselines", "notes")
"""What another version of this library may have computed in another way."""


def _unknown(result: Result, own: Sequence[str]) -> dict[str, str]:
    """Return the keys whose values cannot be judged, with the reason: another version, or metrics of the user's own."""
    reasons, version = dict(_OTHER_SCHEMA), result.signature.fields.get("version")
    if version != __version__:
        reasons |= dict.fromkeys(_OF_VERSIONS, f"computed by version {short_value(version)}, this is {__version__}")
    if own:
        reason = f"{'+'.join(own)} is the user's own; pass the benchmark"
        reasons |= dict.fromkeys(("metrics", "statistics"), reason)
    return reasons


def _with_outputs(benchmark: BaseBenchmark[Any], result: Result) -> BaseBenchmark[Any]:
    """Return the benchmark of a result; the kind of given scores is that of their file, which the result records."""
    given = any(GIVEN in predictor.who for predictor in result.provenance.predictors)
    if not isinstance(benchmark, Benchmark) or not given or "outputs" not in result.arguments:
        return benchmark
    outputs = result.arguments["outputs"]
    return benchmark.copy_with(experimentor=[own.copy_with(outputs=outputs) for own in benchmark])


def _refused(error: StaICCError, where: str) -> Finding:
    """Return what it means that a benchmark cannot be rebuilt."""
    if isinstance(error, ImplausibleError):
        return Contradicted(f"{where}arguments: {error}")
    return Unchecked(f"{where}benchmark: {error}")


def _predictions(result: Result) -> Predictions:
    """Return who predicted, as the run recorded it; the run's code computes identities and counts from it again."""
    scoring = result.signature.fields.get("scoring") or ""
    replies, batched = scoring.endswith(parser := f";parser={PARSER_VERSION}"), ";batched" in scoring
    records: dict[str, RunRecord] = {}
    started = ""
    for saved in result.provenance.predictors:
        counts = RunCounts(saved.computed, saved.reused, saved.rechecked, saved.retried)
        identity = Identity(saved.who, saved.how, saved.unidentified, plain=True)  # equal ones may be two functions
        times = saved.started, saved.finished
        record = RunRecord(identity, saved.name, *times, counts, saved.editions, replies)
        records |= dict.fromkeys(() if GIVEN in saved.who else saved.datasets, record)
        started = saved.started
    return Predictions(records, batched, started, f"given{parser}" if replies else "given", result.warnings)


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
                own, shared = (
                    {key: result.signature.fields.get(key) for key in FIELDS if key not in sweep.varies}
                    for result in (mine, other)
                )
                yield from compare_values(f"{place} / signature", own, shared)
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
