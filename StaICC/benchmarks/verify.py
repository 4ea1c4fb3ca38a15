"""Verification: does a saved result follow from its own records, do its prompts follow from the frozen data?

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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from StaICC import benchmark_names
from StaICC.arguments import set_integers, validate_integer
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.benchmarks.context import Predictions, RunContext
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import METRIC_SETS, Experimentor
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.benchmarks.prompt_digests import compare_prompts, digest_prompts
from StaICC.benchmarks.race import RACE, first_rows, marked, replay
from StaICC.benchmarks.records import Written
from StaICC.benchmarks.rerun_scores import DatasetRerun, RerunScore, rerun_score
from StaICC.benchmarks.running import BaseBenchmark, DatasetTask
from StaICC.benchmarks.task import Condition, Statistics
from StaICC.datasets.catalogue import refuse_builtin
from StaICC.datasets.dataset import Dataset, load_dataset
from StaICC.datasets.source import data_file_digest
from StaICC.errors import ArgumentError, DataError, SchemaError, StaICCError, UnknownNameError
from StaICC.files.output import StrPath
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.recheck import TOLERANCE, RunRecord, difference, tolerance_of
from StaICC.inference.replies import Failure, unlabelled
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.inference.runner import Part, predict_queries
from StaICC.metrics.metric_set import METRICS, MetricSet, metric_set
from StaICC.prompting.prompt_writer import Query
from StaICC.registry import import_reference
from StaICC.results.details import DatasetDetails
from StaICC.results.files import DIGESTS, DIVIDED, digest_problems, read_result_file
from StaICC.results.predictor import GIVEN
from StaICC.results.result import Result, ResultGroup, result_from_dict
from StaICC.results.runs import Sweep, find_sweep
from StaICC.results.signature import FIELDS, Signature
from StaICC.version import RESULT_SCHEMA, __version__

_MOST = 4096
"""Largest number in an option: the size of the largest demonstration set of the benchmark."""


Results = Result | ResultGroup
_REBUILD_LONG_ICL = "StaICC.long_icl.benchmark:rebuild_long_icl"
"""Makes the benchmark LongICL of a result again, with its own data and readers; loaded by name: its room is above."""
_LONG_ICL_CARD = "StaICC.long_icl.cards:task_card"
"""Finds the card of a data set of LongICL; loaded by name, too."""
_UNREADABLE = (StaICCError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What arguments and records that no run writes can raise."""


class UnknownBenchmarkError(ArgumentError):
    """The benchmark of a result cannot be made again from what is here: pass it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; pass the benchmark itself")


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


def _pieces(query: Query) -> tuple[str, ...]:
    """Return instruction, demonstrations and question; of the noisy channel, those of the first label."""
    parts = query.parts
    if parts is None:  # of a task of the user's own, or cut within a demonstration
        return (query.prompt if isinstance(query.prompt, str) else query.prompt[0],)
    return (parts.instruction, *(shown.text for shown in parts.demonstrations), parts.question)


def written_prompts(result: Result, data_files: Sequence[StrPath] = ()) -> dict[str, list[tuple[str, ...]] | str]:
    """Return the prompts of a result by data set, each as instruction, demonstrations and query.

    Args:
        result: The result.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        For each data set the prompts, in the order of its queries; of the noisy channel, the text of the first label.
        A text is the reason why there are none: the data are not there, or the prompts are not those of the run.
    """
    if result.benchmark == benchmark_names.LONG_ICL:
        return dict.fromkeys(result.details, "prompts of LongICL are too long for a page")
    try:
        benchmark = rebuild(result, data_files=data_files)
    except _UNREADABLE as error:
        return dict.fromkeys(result.details, str(error))
    assert isinstance(benchmark, Benchmark)  # only LongICL is another
    prompts: dict[str, list[tuple[str, ...]] | str] = {}
    for name, details in result.details.items():
        queries = benchmark[name].all_queries()
        same, _, message = compare_prompts(details, *digest_prompts(queries))
        recorded = [pair for record in details.conditions for pair in zip(record.rows, record.truth, strict=True)]
        if same and recorded != [(query.row, query.label) for query in queries]:
            same, message = False, "the records of the queries are not those of the prompts"
        prompts[name] = [_pieces(query) for query in queries] if same else message
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
    scores: tuple[RerunScore, ...] = ()
    """Of a rerun, the recomputed accuracy of each result."""
    recomputed: Results | None = field(default=None, repr=False, compare=False)
    """Of a rerun, the result with the new predictions in the place of the saved ones."""

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


def _of_error(place: str, error: Exception) -> Finding:
    """Return what an error says about a value: without its data or its benchmark it is unchecked."""
    kind = Unchecked if isinstance(error, (UnknownBenchmarkError, DataError)) else Contradicted
    return kind(f"{place}: {error!s:.999}")


def limited(place: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return outcomes without duplicates, and only the number of those after the first 20 of each kind."""
    kept: list[Finding] = []
    distinct = dict.fromkeys(findings)
    for kind in (Contradicted, Unchecked):
        of_kind = [finding for finding in distinct if isinstance(finding, kind)]
        more = len(of_kind) - _MOST_NAMED
        kept += [*of_kind[:_MOST_NAMED], *[kind(f"{place}: {more} more values")] * (more > 0)]
    return tuple(kept)


def values_equal(saved: object, recomputed: object) -> bool:
    """Whether two plain values are equal; fractions to 9 digits, since platforms round logarithms differently."""
    if isinstance(saved, float) and isinstance(recomputed, (int, float)) and not isinstance(recomputed, bool):
        return math.isclose(saved, recomputed, rel_tol=1e-9, abs_tol=1e-15)
    return saved == recomputed and isinstance(saved, bool) == isinstance(recomputed, bool)


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
    return "nothing" if value is ABSENT else f"{value!r:.80}"


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


def predict_again(
    rerun: Rerun, name: str, sources: Sequence[tuple[_Scored, str]], whole: Results | None = None
) -> Verification:
    """Predict random queries again, and compare within the tolerance that the model declares.

    Args:
        rerun: The model, and how many queries.
        name: Name of the result.
        sources: The data sets to draw from, whose prompts are those of the result, each with the result that has it.
            With predictions of several models, those of this one.
        whole: The result, of which the finding has a copy with the new predictions.
    """
    findings: list[Finding] = []
    predicted: dict[int, dict[int, Answer | Failure]] = {}
    drawn_from: list[tuple[int, int]] = []
    model = identity_of(rerun.model)
    predictors = [scored.predictor(dataset) for scored, dataset in sources]
    several = len({predictor.digest for predictor in predictors if GIVEN not in predictor.who}) > 1
    for place, ((scored, dataset), predictor) in enumerate(zip(sources, predictors, strict=True)):
        result, known = scored.result, {} if GIVEN in predictor.who else predictor.differences(model)
        settings = {key: pair for key, pair in known.items() if key in {**predictor.settings, **model.settings}}
        listed = ", ".join(f"{name} was {before}, is {now}" for name, (before, now) in (settings or known).items())
        if result.method != "vanilla":
            why = f"not predicted again, its method is {result.method:.60}"
        elif settings:
            why = f"not predicted again, {listed:.300}; give the options of the run"
        elif several and predictor.digest != model.digest:
            why = "not predicted again, another model predicted it"
        elif [own.identity for own in result.provenance.predictors].count(predictor.digest) > 1:
            why = "not predicted again, two functions of the run have its identity"
        else:
            drawn_from += [(place, number) for number in range(len(scored.runs[dataset].answers))]
            why = f"another model: {listed:.300}" if known else ""
        findings += [Unchecked(f"{scored.where}{dataset}: {why}")] if why else []
    if not drawn_from:
        findings.append(Unchecked("rerun: no query has a known prompt and a prediction of this model"))
    chosen = sorted(random.Random(rerun.seed).sample(drawn_from, min(rerun.queries, len(drawn_from))))
    declared = tolerance_of(rerun.model)
    tolerance = TOLERANCE if declared is None else declared
    distances = [0.0]
    with RunContext(False, on_error="collect", progress=False) as context:
        context.start([rerun.model])
        for place, drawn in groupby(chosen, itemgetter(0)):
            (scored, dataset), numbers = sources[place], [number for _, number in drawn]
            own = scored.benchmark[dataset]
            queries = [
                (f"{scored.where}{dataset} / {condition.name} / query {number} (test row {query.row})", query)
                for condition in own.conditions()
                for number, query in enumerate(condition.queries)
            ]
            options = replace(context.options_for(rerun.model, free_text=own.free_text), unparsed="wrong")
            answers = predict_queries(rerun.model, [queries[number][1] for number in numbers], Part("rerun"), options)
            for number, answer in zip(numbers, answers, strict=True):
                where, stored = queries[number][0], scored.runs[dataset].answers[number]
                again = own.read_again(number, answer)
                pair = {"when predicted again": again, "in the run": stored}
                lost = [(when, it) for when, it in pair.items() if isinstance(it, Failure) and it.reply is None]
                findings += [Unchecked(f"{where}: it failed {when}: {it.reason}") for when, it in lost[:1]]
                if not lost:
                    predicted.setdefault(place, {})[number] = again
                    distances.append(difference(*(None if isinstance(it, Failure) else it for it in pair.values())))
                    if distances[-1] > tolerance:
                        text = f"{where}: saved {short_value(stored)}, predicted again {short_value(again)}"
                        kind = Unchecked if declared is None else Contradicted  # its predictions may change
                        findings.append(kind(f"{text} (accepted difference: {tolerance:g})"))
    differing = sum(distance > tolerance for distance in distances)
    message = (
        f"{len(chosen)} of {len(drawn_from)} queries predicted again (seed {rerun.seed}): {differing} differ, by at "
        f"most {max(distances):.2g} (accepted: {tolerance:g})"
    )
    scores = _rerun_scores(sources, predicted, tolerance)
    message = "; ".join([message, *map(str, scores)])
    recomputed = None if whole is None else _with_predictions(whole, sources, predicted)
    return Verification(name, None, message, limited("rerun", findings), scores=scores, recomputed=recomputed)


_Predicted = Mapping[int, Mapping[int, Answer | Failure]]
"""New predictions by the position of their source (a data set of a result), then by the number of their query."""


def _rerun_scores(
    sources: Sequence[tuple[_Scored, str]], predicted: _Predicted, tolerance: float
) -> tuple[RerunScore, ...]:
    """Return the recomputed accuracy of each result of which queries were predicted again."""
    datasets_of: dict[int, list[DatasetRerun]] = {}
    names: dict[int, str] = {}
    for place, again in predicted.items():
        scored, dataset = sources[place]
        if "accuracy" not in scored.result.averaged:
            continue
        truth = [query.label for query in scored.benchmark[dataset].all_queries()]
        names[id(scored)] = scored.result.benchmark
        datasets_of.setdefault(id(scored), []).append(DatasetRerun(truth, scored.runs[dataset].answers, again))
    return tuple(rerun_score(names[key], datasets, tolerance) for key, datasets in datasets_of.items())


def _with_predictions(result: Results, sources: Sequence[tuple[_Scored, str]], predicted: _Predicted) -> Results:
    """Return a result with the new predictions in the place of the saved ones, and scores that follow from them."""
    if isinstance(result, ResultGroup):
        parts = {name: _with_predictions(part, sources, predicted) for name, part in result.items()}
        return ResultGroup(result.name, parts)
    own = {place: source for place, source in enumerate(sources) if source[0].result is result and place in predicted}
    if not own:
        return result
    scored = next(iter(own.values()))[0]
    runs = dict(scored.runs)
    counts = []
    for place, (_, dataset) in own.items():
        experimentor = scored.benchmark[dataset]
        answers = list(runs[dataset].answers)
        for number, answer in predicted[place].items():
            answers[number] = answer
        runs[dataset] = experimentor.assemble(experimentor.conditions(), answers)
        counts.append(f"{len(predicted[place])} of {len(answers)} on {dataset}")
    again = scored.benchmark.collect(runs, _predictions(result), divided=result.with_divided)
    again.signature, again.stopping = result.signature, result.stopping
    given = any(GIVEN in predictor.who for predictor in result.provenance.predictors)
    if given:  # their identity is a digest of the predictions
        again.provenance = replace(again.provenance, method=result.provenance.method)
    else:
        again.provenance = result.provenance
    again.warnings += (f"predictions that verify --rerun computed are in the place of saved ones: {', '.join(counts)}",)
    return again


RECORDED = (
    "times, counts of computed and repeated predictions, label mass and dropped demonstrations, versions of packages, "
    "warnings that need the model or are of the run itself, reasons of failed queries and beginnings of unparsed "
    "replies, the name of a data file and the texts of its card, and who predicted: model, method and how its scores "
    "are computed"
)
"""What a run records and nothing else in a result implies. It is compared within the file, but never computed again."""


def verify_file(
    path: StrPath,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: StrPath | None = None,
    data_files: Sequence[StrPath] = (),
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
    result: Results,
    benchmark: BaseBenchmark[Any] | BenchmarkGroup | None = None,
    data_dir: StrPath | None = None,
    data_files: Sequence[StrPath] = (),
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
        raise ArgumentError(f"result: got {result!r:.80}, expected a result or group. For a file use verify_file")
    verifier = _Verifier(rerun, data_dir, matching_files([result], data_files)[0])
    return list(verifier.findings(result, result.to_dict(), benchmark))


def matching_files(results: Sequence[Results], data_files: Sequence[StrPath]) -> list[list[StrPath]]:
    """Return for each result the files of its own data sets, found by their SHA-256, and all folders.

    Args:
        results: The results to verify.
        data_files: Files and folders.

    Raises:
        ArgumentError: A file is not the one of a data set of these results.
        DataMissingError: A file or folder is not there.
    """
    digests = {file: None if Path(file).is_dir() else data_file_digest(file) for file in data_files}
    records = [[record for part in result.results() for record in part.files.values()] for result in results]
    recorded = [{str(record.get("sha256")): str(record.get("file")) for record in of_result} for of_result in records]
    expected = {digest: name for names in recorded for digest, name in names.items()}
    for file, digest in digests.items():
        if digest is not None and digest not in expected:
            listed = " or ".join(f"{key:.64} ({name:.80})" for key, name in expected.items())
            wanted = f"expected {listed}" if listed else "but no data set of the result is from a file"
            raise ArgumentError(f"{file} is not the data of the result: its SHA-256 is {digest}, {wanted}")
    return [[file for file, digest in digests.items() if digest is None or digest in names] for names in recorded]


@dataclass(slots=True)
class _Verifier:
    """Verifies a result, or a group with all its parts."""

    rerun: Rerun | None
    """Which queries to predict again."""
    data_dir: StrPath | None
    """Folder with the data of LongICL."""
    data_files: Sequence[StrPath]
    """Files and folders of the user's own data."""
    sources: list[tuple[_Scored, str]] = field(default_factory=list)
    """The queries that can be predicted again."""

    def findings(self, result: Results, saved: Mapping[str, Any], benchmark: Any) -> Iterator[Verification]:
        """Yield the findings about a result and its parts, then that about the queries that are predicted again."""
        yield from self._any(result, saved, benchmark, "")
        if self.rerun is not None:
            name = result.name if isinstance(result, ResultGroup) else result.benchmark
            yield predict_again(self.rerun, name, self.sources, result)

    def _any(
        self, result: Results, saved: Mapping[str, Any], benchmark: Any, where: str, raced: list[_Scored] | None = None
    ) -> Iterator[Verification]:
        """Yield the findings about a result or a group; ``raced`` gets results of a race whose data sets are scored."""
        group = isinstance(result, ResultGroup)
        name = result.name if isinstance(result, ResultGroup) else result.benchmark
        sweep = find_sweep(name) if group else None
        fitting: Any = BaseBenchmark if not group or sweep is RACE else BenchmarkGroup if sweep is None else ()
        if benchmark is not None and not isinstance(benchmark, fitting):
            got = f"{where}benchmark: got {benchmark!r:.60} for results of {name!r:.60}"
            if not where:
                raise ArgumentError(f"{got}. Pass its own benchmark, or verify the parts of a group one by one")
            yield Verification(name, None, "nothing was computed again", (Contradicted(got),))
            return
        own: Sequence[str] = ()
        refused: list[Finding] = []
        try:
            if benchmark is None and sweep is None:
                benchmark = rebuild(result, self.data_dir, self.data_files)
                own = [str(own) for one in result.results() for own in one.arguments.get("metrics", {}).get("own", ())]
            if isinstance(benchmark, Benchmark) and isinstance(result, Result):
                if result.stopping is not None:
                    benchmark = first_rows(benchmark, result.stopping.rounds)
                outputs = result.setting("outputs")  # the kind of given scores is that of their file
                if outputs is not None and any(GIVEN in predictor.who for predictor in result.provenance.predictors):
                    benchmark = benchmark.copy_with(experimentor=[one.copy_with(outputs=outputs) for one in benchmark])
        except _UNREADABLE as error:
            refused.append(_of_error(f"{where}benchmark", error))
        if isinstance(result, ResultGroup):
            yield from self._group(result, saved, benchmark, where, refused)
        elif refused:
            yield Verification(name, None, "nothing was computed again", tuple(refused))
        else:
            sources = None if self.rerun is None else self.sources
            scored = _Scored(result, saved, benchmark, where, _unknown(result, own), sources)
            names = dict.fromkeys([*result.details, *benchmark.dataset_names, *benchmark.absent])
            for dataset in names:
                yield scored.dataset(dataset)
            lost = [dataset for dataset in names if dataset not in scored.runs]
            unscored = Unchecked(f"{where}means and signature: {', '.join(lost)} cannot be scored")
            findings = limited(f"{where}means", [unscored] if lost else scored.shared(raced is not None))
            yield Verification(name, None, "the means, the signature and the provenance", findings)
            if raced is not None and not lost:  # others would keep the prompts of all parts in memory
                raced.append(scored)

    def _group(
        self, group: ResultGroup, saved: Mapping[str, Any], benchmark: Any, where: str, findings: list[Finding]
    ) -> Iterator[Verification]:
        findings += [] if group else [Unchecked(f"{where}parts: the group has none")]
        name, sweep = group.name, find_sweep(group.name)
        members: Mapping[str, Any] = dict.fromkeys(group, benchmark)
        raced: list[_Scored] | None = [] if sweep is RACE else None
        if isinstance(benchmark, BenchmarkGroup):
            name, members = benchmark.name, benchmark.members
            left_out = saved.get("skipped")  # unchecked below
            named = {*group, *(left_out if isinstance(left_out, Mapping) else ())}
            findings += compare_values(f"{where}parts", sorted(named), sorted(members))
        for part_name, part in group.items():
            place = f"{where}parts / {part_name} / "
            yield from self._any(part, saved["parts"][part_name], members.get(part_name), place, raced)
        findings += _shared_by_parts(group, sweep, where)
        if raced is not None:
            findings += compare_values(f"{where}parts", sorted(group), ["first", "second"])
            models = sorted(raced, key=lambda scored: scored.where)  # the first, the second
            unscored = Unchecked(f"{where}stopping: the decision follows from predictions that cannot be scored")
            replayed = (finding for model in models for finding in model.replayed(models))
            findings += replayed if len(models) == 2 else [unscored]
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
    sources: list[tuple[_Scored, str]] | None
    """Gets the data sets that can be predicted again; ``None`` if none is."""
    runs: dict[str, DatasetRun] = field(default_factory=dict)
    """The scored data sets."""

    def predictor(self, name: str) -> Identity:
        """Return the identity of the model that predicted a data set."""
        predictors = (own for own in self.result.provenance.predictors if name in own.datasets)
        return next((Identity(own.who, own.how) for own in predictors), Identity({}))

    def dataset(self, name: str) -> Verification:
        """Write the prompts of a data set, score its records, and compare."""
        place, seen, findings = f"{self.where}details / {name}", list[Written](), list[Finding]()
        same, first, message = None, None, "nothing was computed again"
        try:
            details = self.result.details[name]
            absent = None if details.asked else self.benchmark.absent.get(name)
            conditions = self.benchmark[name].conditions() if absent is None else ()
            queries = (query for condition in conditions for query in condition.queries)
            digests = digest_prompts(queries, seen) if absent is None else ("", "")
            same, first, message = compare_prompts(details, *digests)
            if not same:
                findings.append(Contradicted(f"{place} / {'prompts' if first is None else 'query_digests'}: {message}"))
            run = absent or self._score(name, conditions, seen)
        except _UNREADABLE as error:
            findings.append(_of_error(f"{place} / conditions", error))
        else:
            self.runs[name] = run
            unrecorded = None if absent is not None else self.benchmark[name].unrecorded
            if details.dropped and self.benchmark[name].free_text:
                unrecorded = "prompts lost demonstrations, and the file does not record which ones"
            values = run.values if unrecorded is None else Unchecked(unrecorded)
            saved = self.saved["details"][name]
            recorded = {key: saved[key] for key in ("prompts", "query_digests", "label_mass", "dropped")}
            findings += compare_values(
                f"{self.where}{DIVIDED} / {name}", self.saved[DIVIDED][name], values, self.unknown
            )
            expected = run.details.to_dict() | recorded  # compared before, or recorded with the predictions
            findings += compare_values(place, saved, expected, self.unknown)
            if same and run.answers and self.sources is not None:
                self.sources.append((self, name))
        return Verification(self.result.benchmark, name, message, limited(place, findings), same, first)

    def _score(self, name: str, conditions: Sequence[Condition], seen: Sequence[Written]) -> DatasetRun:
        """Score the records of a data set.

        Raises:
            StaICCError: The records are not those of the benchmark's queries.
        """
        details: DatasetDetails = self.result.details[name]
        own: DatasetTask = self.benchmark[name]
        if own.unrecorded is not None:
            saved = self.result.divided[name]
            distinct = len({written[:2] for written in seen})
            known = replace(details, asked=len(seen), distinct=distinct, data=own.data_digest)
            averaged = {key: saved.get(key) for key in self.result.averaged}
            warnings = tuple(note for note in details.notes if f"{name}: {note}" in self.result.warnings)
            return DatasetRun(saved, averaged, known, (), known.intervals, (), warnings=warnings)
        written = [(condition.name, len(condition.queries)) for condition in conditions]
        recorded = [(record.name, len(record.truth)) for record in details.conditions]
        if written != recorded:
            raise SchemaError(f"saved {short_value(recorded)}, written {short_value(written)}")
        run = own.assemble(conditions, list(_answers(details, len(own.get_label_space()))))
        if own.free_text:  # the run recorded the kind of its predictions, and the labels that were read
            pairs = zip(run.details.conditions, details.conditions, strict=True)
            kinds = tuple(replace(computed, output=saved.output) for computed, saved in pairs)
            run = replace(run, details=replace(run.details, conditions=kinds))
        return run

    def shared(self, race: bool) -> Iterator[Finding]:
        """Compare what the data sets share with that of the recomputed result, into which the records of the run go."""
        result, benchmark = self.result, self.benchmark
        runs = {name: self.runs[name] for name in benchmark.dataset_names}
        again = benchmark.collect(runs, _predictions(result), divided=result.with_divided)
        if result.stopping is not None:
            again = marked(again, result.stopping)
        again.signature = Signature({**again.signature.fields, "method": result.provenance.method})
        again.provenance = replace(again.provenance, method=result.signature.fields.get("method"))
        for name in again.files.keys() & result.files.keys():
            again.files[name] = {**again.files[name], "file": result.files[name].get("file")}
        not_compared = (DIVIDED, "details", "environment", "timing")  # compared before, or of the run only
        expected = again.to_dict() | {key: self.saved[key] for key in not_compared}
        pairs = zip(expected["provenance"]["predictors"], self.saved["provenance"]["predictors"], strict=False)
        texts = any(experimentor.free_text for experimentor in benchmark)  # their digest is of texts that no file has
        for computed, saved in pairs:
            copied = (*_OF_RUNS, "who", "identity") if texts and GIVEN in saved["who"] else _OF_RUNS
            computed |= {key: saved[key] for key in copied if key in saved}
        if result.stopping is not None and not race:
            if result.stopping.rule == "race":
                expected["stopping"] = Unchecked("the decision of a race follows from both of its results, this is one")
            else:
                yield from self.replayed([self])
        saved, expected["signature"] = (  # a field that a signature lacks states a default
            {field: one.signature.fields.get(field) for field in FIELDS} for one in (result, again)
        )
        yield from compare_values(
            self.where.removesuffix(" / "), {**self.saved, "signature": saved}, expected, self.unknown
        )

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


_OF_RUNS = ("name", "started", "finished", "editions", "computed", "reused", "rechecked", "retried")
"""What a run alone can know of who predicted."""
_OTHER_SCHEMA = {"schema": f"another one than this version writes, {RESULT_SCHEMA}"}
_OF_VERSIONS = ("version", "scoring", "statistics", "intervals", "missing", "baselines", "notes", "warnings")
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


def _predictions(result: Result) -> Predictions:
    """Return who predicted, as the run recorded it; the run's code computes identities and counts from it again."""
    scoring = result.signature.fields.get("scoring") or ""
    replies, batched = scoring.endswith(parser := f";parser={PARSER_VERSION}"), ";batched" in scoring
    records: dict[str, RunRecord] = {}
    for saved in result.provenance.predictors:
        identity = Identity(saved.who, saved.how, saved.unidentified, plain=True)  # equal ones may be two functions
        record = RunRecord(identity, saved.name, "", "", Counter(), replies=replies)
        records |= dict.fromkeys(() if GIVEN in saved.who else saved.datasets, record)
    return Predictions(records, batched, given=f"given{parser}" if replies else "given", warnings=result.warnings)


def _shared_by_parts(group: ResultGroup, sweep: Sweep | None, where: str) -> Iterator[Finding]:
    """Compare who predicted the parts of a group and, in a sweep, their settings but the one that differs."""
    parts = {name: dict(part) if isinstance(part, ResultGroup) else {"": part} for name, part in group.items()}
    for name, own in parts.items():
        place, (first_name, first) = f"{where}parts / {name}", next(iter(parts.items()))
        results, others = ([result for member in part.values() for result in member.results()] for part in (own, first))
        if sweep is not None and not all(sweep.describes(name, result) for result in results):
            yield Contradicted(f"{place}: the name is not that of its setting")
        if len(results) != len(others):  # a method leaves out members of a group that do not fit it
            text = f"{place}: saved {len(results)} results, {first_name} has {len(others)}"
            yield Contradicted(text) if sweep is None else Unchecked(text)
        compared = [(member.results(), first[key].results()) for key, member in own.items() if key in first]
        if sweep is None:  # members of a group have names of their own
            compared = [(results, others)]
        for mine, other in (pair for both in compared for pair in zip(*both, strict=False)):
            if sweep is not None:
                settings, shared = (
                    {key: result.signature.fields.get(key) for key in FIELDS if key not in sweep.varies}
                    for result in (mine, other)
                )
                yield from compare_values(f"{place} / signature", settings, shared)
            if sweep is not RACE and _who(mine, sweep) != _who(other, sweep):
                text = f"{place} / provenance: {mine.model} ({mine.method}), {first_name} has {other.model}"
                # The function of a method may be one of its own; the members of a benchmark group share one.
                yield Contradicted(text) if sweep is None else Unchecked(text)


def _who(result: Result, sweep: Sweep | None) -> list[object]:
    """Return who predicted a result, without the digest of given predictions; in a sweep, without the method."""
    without: dict[str, Any] = {"identity": ""} if sweep is None else {"identity": "", "how": {}}
    who = [{key: value for key, value in own.who.items() if key != GIVEN} for own in result.provenance.predictors]
    predictors = zip(result.provenance.predictors, who, strict=True)
    return [replace(own, who=facts, **without) for own, facts in predictors] + [result.method] * (sweep is None)


def _answers(details: DatasetDetails, labels: int) -> Iterator[Answer | Failure]:
    """Yield the predictions of a data set: label scores, or else predicted labels."""
    failures = {(failed.condition, failed.query): Failure(failed.reason) for failed in details.failures}
    failures |= {(reply.condition, reply.query): unlabelled(reply.reason) for reply in details.unparsed}
    for record in details.conditions:
        failed = [failures.get((record.name, number)) for number in range(len(record.truth))]
        rows = record.label_scores(labels)
        for number, known in enumerate(zip(failed, rows, record.predictions, strict=True)):
            answer = next((answer for answer in known if answer is not None), None)
            if answer is None or (isinstance(answer, int) and not 0 <= answer < labels):
                raise SchemaError(f"prediction {number} is {answer}, but there are {labels} labels")
            yield answer
