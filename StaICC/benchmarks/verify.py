"""Verification: does a saved result follow from its own records, and do its prompts follow from the frozen data?

A result stores the true label, the prediction and the label scores of each query, the digest of all prompts and 32 bits
of the digest of each prompt. Verification makes the benchmark of the result again, writes its prompts without a model,
scores the stored predictions with the code of a run, and so computes the complete result a second time. Then it
compares the two, value by value (fractions to 9 digits, since platforms round logarithms and exponentials differently).

A value that differs is :class:`Contradicted`. A value of the saved result that the second one does not have is
:class:`Unchecked`, and so is all that needs data or code that is not there. Only a result in which neither remains is
:class:`Recomputed`. A group of results is one object: its class says which parts it has, and with which arguments.

What the run alone can know is copied into the second result (``RECORDED``): times,
counts, versions, who predicted, and why queries failed. Verification does not prove that a model computed the label
scores: a file with invented label scores, and everything else computed from them, is recomputed. To predict some
queries again, pass a :class:`~StaICC.benchmarks.verify.Rerun`.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from StaICC.benchmarks.base import BaseBenchmark, DatasetTask, Predictions
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.evaluation import DatasetRun, compare_prompts, digest_prompts
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.race import first_rows, marked, replay
from StaICC.benchmarks.rebuild import ImplausibleError, own_metrics, rebuild
from StaICC.benchmarks.running import RunContext
from StaICC.benchmarks.task import Condition
from StaICC.datasets.source import file_digest
from StaICC.errors import ArgumentError, DataError, DataMissingError, SchemaError, StaICCError, set_integers
from StaICC.inference import Answer, Failure, Inference, Part, ask
from StaICC.inference.chunk import unlabelled
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.recheck import TOLERANCE, RunCounts, RunRecord, difference, tolerance_of
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.metrics.intervals import INTERVAL_VERSION
from StaICC.prompting import Query
from StaICC.results import DIVIDED, DatasetDetails, Result, ResultGroup, Signature
from StaICC.results.details import unpack_scores
from StaICC.results.provenance import GIVEN
from StaICC.results.result import DIGESTS, digest_problems, read_result_file, result_from_dict
from StaICC.results.runs import RACE, SWEEPS, Sweep
from StaICC.results.signature import FIELDS
from StaICC.version import RESULT_SCHEMA, __version__

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


Status = Recomputed | Contradicted | Unchecked
"""What a verification found about a value."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The finding about one data set, about the fields that the data sets share, or about a group or file."""

    benchmark: str
    """Name of the benchmark or of the group."""
    dataset: str | None
    """``None`` for the fields that the data sets share: means, signature, provenance."""
    message: str
    """What was compared."""
    found: tuple[Contradicted | Unchecked, ...] = ()
    """What is contradicted or unchecked; all else is recomputed."""
    same: bool | None = None
    """Whether every prompt is the same; ``None`` if the prompts are not checked."""
    first_difference: int | None = None
    """Number of the first query whose prompt differs; ``None`` if none does."""

    @property
    def contradicted(self) -> tuple[str, ...]:
        """Each value that differs, with its path, the saved and the recomputed value."""
        return tuple(one.difference for one in self.found if isinstance(one, Contradicted))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Each value that was not computed again, with the reason."""
        return tuple(one.reason for one in self.found if isinstance(one, Unchecked))

    @property
    def status(self) -> Status:
        """The first contradicted value, else the first unchecked one, else that all is recomputed."""
        return status_of([self])


def status_of(findings: Iterable[Verification]) -> Status:
    """Return the status of a result: the first contradicted value, else the first unchecked one, else recomputed.

    Args:
        findings: All findings about it; without any, it is unchecked.
    """
    findings = list(findings)
    found = [one for finding in findings for one in finding.found]
    worst = sorted(found, key=lambda one: isinstance(one, Unchecked))  # stable: the first contradicted one
    return worst[0] if worst else Recomputed() if findings else Unchecked("nothing was compared")


def limited(place: str, found: Iterable[Contradicted | Unchecked]) -> tuple[Contradicted | Unchecked, ...]:
    """Return outcomes without duplicates, and only the number of those after the first 20 of each kind."""
    kept: list[Contradicted | Unchecked] = []
    distinct = list(dict.fromkeys(found))
    for kind in (Contradicted, Unchecked):
        of_kind = [one for one in distinct if isinstance(one, kind)]
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


def compare_values(place: str, saved: Any, expected: Any) -> Iterator[Contradicted | Unchecked]:
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
        predictors = [one for one in self.result.provenance.predictors if self.experimentor.name in one.datasets]
        return next((Identity(one.who, one.how) for one in predictors), Identity({}))

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
    found: list[Contradicted | Unchecked] = []
    others: list[Unchecked] = []
    drawn_from: list[tuple[int, int]] = []
    model = identity_of(rerun.model)
    several = len({one.predictor.digest for one in sources if GIVEN not in one.predictor.who}) > 1
    for place, source in enumerate(sources):
        if (why := source.refusal(model, several)) is not None:
            found.append(Unchecked(f"{source.place}: not predicted again, {why}"))
        else:
            drawn_from += [(place, number) for number in range(len(source.stored))]
            differ = Identity(source.predictor.who, {}).differences(Identity(model.who, {}))
            if differ and GIVEN not in source.predictor.who:
                others.append(Unchecked(f"{source.place}: another model: {_listed(differ)}"))
    if not drawn_from:
        found.append(Unchecked("rerun: no query has a known prompt and a prediction of this model"))
    chosen = sorted(random.Random(rerun.seed).sample(drawn_from, min(rerun.queries, len(drawn_from))))
    declared = tolerance_of(rerun.model)
    tolerance = TOLERANCE if declared is None else declared
    distances = [0.0]
    with RunContext(False, on_error="collect", progress=False) as context:
        context.start([rerun.model])
        for place, drawn in groupby(chosen, lambda one: one[0]):
            source, numbers = sources[place], [number for _, number in drawn]
            free_text = source.experimentor.free_text
            options = replace(context.options_for(rerun.model, free_text=free_text), unparsed="wrong")
            answers = ask(rerun.model, [source.queries[number] for number in numbers], Part("rerun"), options)
            for number, again in source.experimentor.read_again(dict(zip(numbers, answers, strict=True))).items():
                where, stored = source.place_of(number), source.stored[number]
                if isinstance(again, Failure) and again.reply is None:
                    found.append(Unchecked(f"{where}: it failed when predicted again: {again.reason}"))
                    continue
                if not isinstance(stored, Failure):
                    distances.append(difference(stored, again))
                elif stored.reply is None:
                    found.append(Unchecked(f"{where}: it failed in the run: {stored.reason}"))
                else:  # a reply without a label
                    distances.append(0.0 if isinstance(again, Failure) else math.inf)
                if distances[-1] > tolerance:
                    text = f"{where}: saved {short_value(stored)}, predicted again {short_value(again)}"
                    kind = Unchecked if declared is None else Contradicted  # its predictions may change
                    found.append(kind(f"{text} (accepted difference: {tolerance:g})"))
    found += others
    differing = sum(one > tolerance for one in distances)
    message = (
        f"{len(chosen)} of {len(drawn_from)} queries predicted again (seed {rerun.seed}): {differing} differ, by at "
        f"most {max(distances):.2g} (accepted: {tolerance:g})"
    )
    return Verification(name, None, message, limited("rerun", found))


__all__ = [
    "Contradicted",
    "Recomputed",
    "Rerun",
    "Status",
    "Unchecked",
    "Verification",
    "matching_files",
    "rebuild",
    "status_of",
    "verify",
    "verify_file",
]

RECORDED = (
    "times, counts of computed and repeated predictions, versions of packages, warnings of the run, reasons of failed "
    "queries and beginnings of unparsed replies, the name of a data file and the texts of its card, and who predicted: "
    "model, method and how its scores are computed"
)
"""What a run records and nothing else in a result implies. It is compared within the file, but never computed again."""

_Found = Contradicted | Unchecked


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
    digests = {one: None if Path(one).is_dir() else file_digest(one) for one in data_files}
    recorded = [
        {
            str(record.get("sha256")): str(record.get("file"))
            for one in result.results()
            for record in one.files.values()
        }
        for result in results
    ]
    expected = {digest: name for one in recorded for digest, name in one.items()}
    for file, digest in digests.items():
        if digest is not None and digest not in expected:
            listed = " or ".join(f"{key:.64} ({name:.80})" for key, name in expected.items())
            wanted = f"expected {listed}" if listed else "but no data set of the result is from a file"
            raise ArgumentError(f"{os.fspath(file)} is not the data of the result: its SHA-256 is {digest}, {wanted}")
    return [[file for file, digest in digests.items() if digest is None or digest in one] for one in recorded]


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
            yield from self._group(result, saved, benchmark, where)
        else:
            yield from self._result(result, saved, benchmark, where, race)

    # -- groups

    def _group(
        self, group: ResultGroup, saved: Mapping[str, Any], benchmark: Any, where: str
    ) -> Iterator[Verification]:
        found: list[_Found] = [] if group else [Unchecked(f"{where}parts: the group has none")]
        name, sweep = group.name, SWEEPS.get(group.name)
        members: Mapping[str, Any] = {}
        if sweep is RACE:
            members = dict.fromkeys(group, benchmark)
        elif sweep is None and benchmark is None:
            try:
                benchmark = rebuild(group, self.data_dir, self.data_files)
            except StaICCError as error:
                found.append(_refused(error, where))
        if sweep is None and isinstance(benchmark, BenchmarkGroup):
            name, members = benchmark.name, benchmark.members
            found += compare_values(f"{where}parts", sorted(group), sorted(members))
        elif sweep is not RACE and benchmark is not None:
            raise ArgumentError(
                f"benchmark: got {benchmark!r:.60} for the group {name!r:.60} of results. Pass its group of "
                "benchmarks, or verify its parts one by one"
            )
        for part_name, part in group.items():
            member, place = members.get(part_name), f"{where}parts / {part_name}"
            if isinstance(part, ResultGroup) and isinstance(member, Benchmark):
                found.append(Contradicted(f"{place}: saved a group, recomputed a result of {member.task.name}"))
                member = None
            yield from self._any(part, saved["parts"][part_name], member, f"{place} / ", sweep is RACE)
        found += _shared_by_parts(group, sweep, where)
        if sweep is RACE:
            found += self._decision(group, where)
        others = {"parts", *(sweep.recorded if sweep is not None else ())}
        entries = {key: value for key, value in saved.items() if key not in others}
        expected = {"schema": _schema(saved), "kind": "group", "name": name}
        found += compare_values(where.removesuffix(" / "), entries, expected)
        yield Verification(group.name, None, "the parts, their arguments and their models", limited(where, found))

    def _decision(self, group: ResultGroup, where: str) -> Iterator[_Found]:
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
            names = (short_value(list(one)) for one in (result.divided, records.names))
            differ = Contradicted("{}details: saved {}, recomputed {}".format(where, *names))
            yield Verification(result.benchmark, None, "the data sets differ", (differ,))
            return
        unscored: list[str] = []
        for name, details in result.details.items():
            place = f"{where}details / {name}"
            same, first, message = None, None, "nothing was computed again"
            found: list[_Found] = []
            try:
                same, first, message = compare_prompts(details, *records.prompts(result, name))
                if not same:
                    field = "prompts" if first is None else "query_digests"
                    found.append(Contradicted(f"{place} / {field}: {message}"))
                values, expected = records.score(result, name)
            except (StaICCError, ArithmeticError, LookupError, ValueError) as error:
                unscored.append(name)
                missing = isinstance(error, DataError)
                found.append(
                    Unchecked(f"{place}: {error}") if missing else Contradicted(f"{place} / conditions: {error}")
                )
            else:
                written = {"prompts": details.prompts, "query_digests": details.query_digests}  # compared above
                found += compare_values(f"{where}{DIVIDED} / {name}", saved[DIVIDED][name], values)
                found += compare_values(place, saved["details"][name], expected | written)
                if same and self.rerun is not None:
                    self.sources += records.sources(where, result, name)
            yield Verification(result.benchmark, name, message, limited(place, found), same, first)
        shared: Iterable[_Found] = [Unchecked(f"{where}means and signature: {', '.join(unscored)} cannot be scored")]
        if not unscored:
            shared = self._shared(result, records, saved, where, race, own)
        found = [*limited(f"{where}means", shared)]
        yield Verification(result.benchmark, None, "the means, the signature and the provenance", tuple(found))

    def _shared(
        self,
        result: Result,
        records: _BenchmarkRecords,
        saved: Mapping[str, Any],
        where: str,
        race: bool,
        own: Sequence[str],
    ) -> Iterator[_Found]:
        """Compare what the data sets share with that of the recomputed result, into which the records of the run go."""
        names = [name for name, details in result.details.items() if details.asked]
        expected = records.collect(result, _predictions(result, names))
        if result.stopping is not None:
            expected = marked(expected, result.stopping)
        expected.environment, expected.timing = result.environment, result.timing
        expected.signature = Signature({**expected.signature.fields, "method": result.provenance.method})
        given = next((one for one in result.provenance.predictors if GIVEN in one.who), None)
        predictors = expected.provenance.predictors
        if given is not None:
            predictors = tuple(replace(one, name=given.name, finished=given.finished) for one in predictors)
            if any(one.free_text for one in records.benchmark):  # the digest is that of texts that no file has
                predictors = tuple(replace(one, who=given.who, identity=given.identity) for one in predictors)
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
        rest = ({key: value for key, value in one.items() if key not in compared} for one in (saved, plain))
        yield from compare_values(where.removesuffix(" / "), *rest)


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


def _refused(error: StaICCError, where: str) -> _Found:
    """Return what it means that a benchmark cannot be rebuilt."""
    if isinstance(error, ImplausibleError):
        return Contradicted(f"{where}arguments: {error}")
    return Unchecked(f"{where}benchmark: {error}")


def _replayed(
    where: str, result: Result, records: _BenchmarkRecords, models: Sequence[_BenchmarkRecords]
) -> Iterator[_Found]:
    """Follow the stopping rule over the predictions of the models, and compare with the saved record."""
    if result.stopping is None:
        yield Contradicted(f"{where}stopping: saved nothing, but the results of a race have the record of its decision")
        return
    try:
        expected = replay(result.stopping, records.benchmark.experimentor, [one.scored for one in models])
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
        for one in result.provenance.predictors:
            counts = RunCounts(one.computed, one.reused, one.rechecked, one.retried)
            identity = Identity(one.who, one.how, one.unidentified)
            record = RunRecord(identity, one.name, one.started, one.finished, counts, one.editions, replies)
            records |= dict.fromkeys(() if GIVEN in one.who else one.datasets, record)
            started = one.started
        given = f"given;parser={PARSER_VERSION}" if replies else "given"
        ways.append(Predictions(records, batched, started, given, result.warnings))
    saved = result.signature.fields.get("scoring")
    return next((one for one in ways if one.scoring(names) == saved), ways[0])


def _shared_by_parts(group: ResultGroup, sweep: Sweep | None, where: str) -> Iterator[_Found]:
    """Compare who predicted the parts of a group and, in a sweep, their settings but the one that differs."""
    parts = [(name, list(part.results())) for name, part in group.items()]
    for name, results in parts:
        place, (first_name, first) = f"{where}parts / {name}", parts[0]
        if sweep is not None and not all(sweep.describes(name, one) for one in results):
            yield Contradicted(f"{place}: the name is not that of its setting")
        if len(results) != len(first):
            yield Contradicted(f"{place}: saved {len(results)} results, {first_name} has {len(first)}")
        for mine, other in zip(results, first, strict=False):
            if sweep is not None:
                settings = (
                    {key: one.signature.fields.get(key) for key in FIELDS if key not in sweep.varies}
                    for one in (mine, other)
                )
                yield from compare_values(f"{place} / signature", *settings)
            if sweep is not RACE and _who(mine, sweep) != _who(other, sweep):
                text = f"{place} / provenance: {mine.model} ({mine.method}), {first_name} has {other.model}"
                # The function of a method may be one of its own; the members of a benchmark group share one.
                yield Contradicted(text) if sweep is None else Unchecked(text)


def _who(result: Result, sweep: Sweep | None) -> list[object]:
    """Return who predicted a result, without the digest of given predictions; in a sweep, without the method."""
    predictors = [
        replace(one, who={key: value for key, value in one.who.items() if key != GIVEN}, identity="")
        for one in result.provenance.predictors
    ]
    return [*predictors, result.method] if sweep is None else [replace(one, how={}) for one in predictors]


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
        written = [(one.name, len(one.queries)) for one in conditions]
        recorded = [(one.name, len(one.truth)) for one in details.conditions]
        if written != recorded:
            raise SchemaError(f"saved {short_value(recorded)}, written {short_value(written)}")
        answers = list(_answers(details, len(experimentor.get_label_space())))
        run = experimentor.assemble(conditions, answers)
        if experimentor.free_text:  # the run recorded the kind of its predictions, and the labels that were read
            kinds = [
                replace(mine, output=one.output)
                for mine, one in zip(run.details.conditions, details.conditions, strict=True)
            ]
            run = replace(run, details=replace(run.details, conditions=tuple(kinds)))
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
    failures = {(one.condition, one.query): Failure(one.reason) for one in details.failures}
    failures |= {(one.condition, one.query): unlabelled(one.reason) for one in details.unparsed}
    for record in details.conditions:
        failed = [failures.get((record.name, number)) for number in range(len(record.truth))]
        rows: Iterator[list[float]] | None = None
        if record.scores is not None:
            scores = unpack_scores(record.scores, labels)
            if len(scores) != failed.count(None):
                raise SchemaError(
                    f"there are label scores of {len(scores)} queries, but {failed.count(None)} predictions"
                )
            rows = iter(scores)
        elif record.output in ("probabilities", "logits", "ambiguous"):
            raise SchemaError("the label scores are missing, but every run saves them")
        for number, (failure, label) in enumerate(zip(failed, record.predictions, strict=True)):
            if failure is not None:
                yield failure
            elif rows is not None:
                yield next(rows)
            elif label is None or not 0 <= label < labels:
                raise SchemaError(f"prediction {number} is {label}, but there are {labels} labels")
            else:
                yield label
