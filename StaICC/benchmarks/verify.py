"""Verification: do the numbers of a saved result follow from its own records, and its prompts from the frozen data?

A result stores the true label, the prediction and the label scores of each query, the digest of all prompts and 32 bits
of the digest of each prompt. Verification

* writes the prompts again, without a model, and compares their digests;
* compares the true labels and test rows with the data set;
* scores the saved label scores again with the code of a run, and compares every score, interval, baseline, count, note
  and mean with the saved one (to 9 digits: platforms round logarithms and exponentials differently);
* compares the fields of the signature with those of the rebuilt benchmark;
* follows the rule of a run that stopped early over the saved predictions, and compares its interval and its decision;
* compares the provenance with the details and the signature (:mod:`StaICC.benchmarks.verify_provenance`);
* compares the digests of a file with its content (:func:`verify_file`).

Fields that cannot be checked are listed with the reason. Verification does not prove that a model computed the scores:
a file with invented label scores, and everything else computed from them, is consistent.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.benchmark import Benchmark, mean
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.findings import (
    ABSENT,
    RECORDED,
    Verification,
    compare_prompts,
    compare_values,
    describe_difference,
    short_value,
    values_equal,
)
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.means import means_of
from StaICC.benchmarks.metric_identity import is_of_library
from StaICC.benchmarks.outcome import Condition
from StaICC.benchmarks.rebuild import ImplausibleError, own_metrics, rebuild, stand_in
from StaICC.benchmarks.records import digest_prompts
from StaICC.benchmarks.sequential import replay
from StaICC.benchmarks.verify_provenance import verify_provenance
from StaICC.datasets.user_files import file_digest
from StaICC.errors import ArgumentError, SchemaError, StaICCError, UnknownNameError
from StaICC.inference import Answer, Failure
from StaICC.prompting import Query
from StaICC.results import AVERAGED, DIVIDED, ConditionRecord, DatasetDetails, Result, ResultGroup, short_digest
from StaICC.results.early_stopping import RACE
from StaICC.results.file_format import DIGESTS, digest_problems, read_result_file
from StaICC.results.label_scores import unpack_scores
from StaICC.results.result import result_from_dict
from StaICC.results.signature import FIELDS

if TYPE_CHECKING:
    from StaICC.benchmarks.long_icl import LongICL

__all__ = ["Verification", "matching_files", "rebuild", "verify", "verify_file"]

_MOST_NAMED = 20  # inconsistent fields of one data set that are listed one by one

_DERIVED = frozenset(FIELDS) - {"method", "scoring", "version"}
"""Fields of a signature that follow from the benchmark; the others were recorded by the run."""

_FROM_PROMPTS = ("asked", "distinct", "prompts", "query_digests", "labels")


def verify_file(
    path: str | os.PathLike[str],
    benchmark: Benchmark | BenchmarkGroup | LongICL | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    data_files: Sequence[str | os.PathLike[str]] = (),
) -> list[Verification]:
    """Verify a saved result with the digests of its file.

    Args:
        path: The file.
        benchmark: As for :func:`verify`.
        data_dir: As for :func:`verify`.
        data_files: As for :func:`verify`; the folder of the result and the current folder are searched too.

    Returns:
        The finding about the file, then those of :func:`verify`.

    Raises:
        SchemaError: The file is not a saved result, or is damaged.
        OSError: The file cannot be read.
    """
    data = read_result_file(path)
    result = result_from_dict(data, os.fspath(path))
    name = result.name if isinstance(result, ResultGroup) else result.benchmark
    problems = tuple(digest_problems(data))
    message = "the digests differ" if problems else "the digests are the same"
    about_file = Verification(name, None, None, None, message, (DIGESTS,), problems)
    return [about_file, *verify(result, benchmark, data_dir, [*data_files, Path(path).parent, Path()])]


def verify(
    result: Result | ResultGroup,
    benchmark: Benchmark | BenchmarkGroup | LongICL | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    data_files: Sequence[str | os.PathLike[str]] = (),
) -> list[Verification]:
    """Write the prompts of a result again, score its records again, and compare.

    Args:
        result: A result or a group of results.
        benchmark: The benchmark that computed it. Needed if the user changed its prompts or metrics, or if it ran on
            the user's own data; otherwise it is rebuilt from the signature.
        data_dir: Folder with the data of LongICL; by default, the folder where they are installed.
        data_files: Files of the user's own data, found by their SHA-256, and folders that contain them under the
            recorded name.

    Returns:
        For each benchmark one finding for each data set, then one for the fields that they share.

    Raises:
        ArgumentError: The benchmark does not fit the result, or a file is not the one of a data set of the result.
        DataMissingError: The data of the benchmark are not installed, or a file or folder is not there.
    """
    (files,) = matching_files([result], data_files)
    return list(_verify(result, benchmark, data_dir, files, ""))


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


def _verify(
    result: Result | ResultGroup,
    benchmark: Benchmark | BenchmarkGroup | LongICL | None,
    data_dir: str | os.PathLike[str] | None,
    data_files: Sequence[str | os.PathLike[str]],
    where: str,
    of_race: dict[str, _Verifier] | None = None,
) -> Iterator[Verification]:
    if isinstance(result, ResultGroup):
        members = benchmark.members if isinstance(benchmark, BenchmarkGroup) else {}
        models: dict[str, _Verifier] = {}
        is_race = result.name == RACE
        for name, part in result.items():
            member = benchmark if is_race and isinstance(benchmark, Benchmark) else members.get(name)
            race = models if is_race else None
            yield from _verify(part, member, data_dir, data_files, f"{where}parts / {name} / ", race)
        if is_race:
            yield _verify_race(models)
        return
    if isinstance(benchmark, BenchmarkGroup):
        raise ArgumentError(
            f"a group of benchmarks was given for a single result of {result.benchmark}; pass the benchmark"
        )
    problems: list[str] = []
    reason: str | None = None
    own = own_metrics(result)[1]
    if isinstance(benchmark, Benchmark) and not all(is_of_library(one.metric_set) for one in benchmark):
        own = ()
    if isinstance(benchmark, Benchmark) and result.stopping is not None:
        benchmark = benchmark.stopped(result.stopping)
    if benchmark is None:
        try:
            benchmark = rebuild(result, data_dir, data_files)
        except ImplausibleError as error:
            problems.append(f"signature / {error.field}: {error}")
            reason = str(error)
        except (ArgumentError, UnknownNameError) as error:
            reason = str(error)
    if result.benchmark == "LongICL" and not isinstance(benchmark, Benchmark):
        from StaICC.benchmarks.long_icl.verification import verify_long_icl

        yield from verify_long_icl(result, benchmark, reason, problems, where)
        return
    assert benchmark is None or isinstance(benchmark, Benchmark)
    verifier = _Verifier(result, benchmark, own, reason, problems, where)
    if of_race is not None:
        of_race[where] = verifier
    yield from verifier.findings()


def _verify_race(verifiers: Mapping[str, _Verifier]) -> Verification:
    """Verify the decision of a race, which follows from the predictions of both models."""
    found: list[str] = []
    skipped: list[str] = []
    both = list(verifiers.values())
    if len(both) != 2 or not all(one.result.stopping and one.result.stopping.rule == "race" for one in both):
        found.append("parts: a race has two results with the rule 'race'")
    else:
        for one in both:
            _compare_stopping(one, both, found, skipped)
    message = "not consistent" if found else "not checkable" if skipped else "the decision follows from the predictions"
    checked = () if skipped else ("stopping",)
    return Verification(RACE, None, None, None, message, checked, tuple(found), tuple(skipped))


def _compare_stopping(verifier: _Verifier, models: Sequence[_Verifier], found: list[str], skipped: list[str]) -> None:
    """Follow the stopping rule over the predictions of the models, and compare with the saved record."""
    saved, benchmark = verifier.result.stopping, verifier.benchmark
    assert saved is not None
    place = f"{verifier.where}stopping"
    unchecked = next((one for one in models if one.benchmark is None or one.unscored), None)
    if benchmark is None or unchecked is not None:
        why = unchecked.reason if unchecked is not None else None
        skipped.append(f"{place}: {why or 'the records cannot be scored'}")
        return
    try:
        expected = replay(saved, benchmark.experimentor, [one.runs for one in models])
    except (StaICCError, LookupError) as error:
        found.append(f"{place}: {error}")
        return
    found += compare_values(place, saved.to_dict(), expected.to_dict())


class _Verifier:
    """Verifies one result.

    Args:
        result: The result.
        benchmark: The benchmark that writes its prompts; ``None`` if there is none.
        own: The user's own metrics that the benchmark does not have; ``None``: all its metrics.
        reason: Why there is none.
        problems: Problems with fields of the signature that no run writes.
        where: Path of the result within its file.
    """

    def __init__(
        self,
        result: Result,
        benchmark: Benchmark | None,
        own: tuple[str, ...] | None,
        reason: str | None,
        problems: Sequence[str],
        where: str,
    ) -> None:
        self.result = result
        self.benchmark = benchmark
        self.reason = reason
        self.problems = list(problems)
        self.where = where
        self.scorer = benchmark
        self.no_scoring: str | None = None
        if benchmark is None:
            try:
                self.scorer = stand_in(result)
            except StaICCError as error:
                self.no_scoring = str(error)
        self.own = own
        self.runs: dict[str, DatasetRun] = {}
        self.unscored: set[str] = set()
        self.other_prompts: list[str] = []

    def findings(self) -> Iterator[Verification]:
        """Verify each data set, then the fields that they share."""
        for name, details in self.result.details.items():
            yield self._of_dataset(name, details)
        yield self._of_all()

    # -- one data set

    def _of_dataset(self, name: str, details: DatasetDetails) -> Verification:
        found: list[str] = []
        skipped: list[str] = []
        checked: list[str] = []
        conditions, same, first, message = self._prompts(name, details, found, skipped, checked)
        run = None
        if self.scorer is None:
            skipped.append(f"scores: {self.no_scoring}")
        elif not details.conditions:
            skipped.append("scores: the file holds no records of queries")
        else:
            run = self._scored(self.scorer, name, details, conditions, found)
        if run is not None:
            self.runs[name] = run
            if self.own is None or self.own:
                skipped.append(
                    f"{'+'.join(self.own or ('metrics',))}: the metric is the user's own; pass the benchmark"
                )
            leave_out = self._left_out(conditions is None)
            place = f"{self.where}{DIVIDED} / {name}"
            found += compare_values(place, self.result.divided[name], dict(run.values), leave_out)
            place = f"{self.where}details / {name}"
            found += compare_values(place, details.to_dict(), run.details.to_dict(), leave_out)
            checked += ["scores", "counts", "intervals", "baselines", "records", "notes"]
        else:
            self.unscored.add(name)
        if details.failures:
            skipped.append("reasons of failed queries: recorded by the run")
        if len(found) > _MOST_NAMED:
            found[_MOST_NAMED:] = [f"{self.where}details / {name}: {len(found) - _MOST_NAMED} more fields differ"]
        return Verification(
            self.result.benchmark, name, same, first, message, tuple(checked), tuple(found), tuple(skipped)
        )

    def _prompts(
        self, name: str, details: DatasetDetails, found: list[str], skipped: list[str], checked: list[str]
    ) -> tuple[Sequence[Condition] | None, bool | None, int | None, str]:
        """Compare the prompts, the true labels and the rows with those of the benchmark.

        Returns:
            The conditions if they match the records; whether the prompts are the same, the first query that differs,
            and both as a sentence.
        """
        if self.benchmark is None:
            skipped.append(f"prompts, true labels and rows: {self.reason}")
            return None, None, None, f"the prompts cannot be checked: {self.reason}"
        conditions = self.benchmark[name].conditions()
        prompts, marks = digest_prompts([query for one in conditions for query in one.queries])
        same, first, message = compare_prompts(details, prompts, marks)
        checked.append("prompts")
        if not same:
            self.other_prompts.append(name)
            found.append(f"{self.where}details / {name} / {'prompts' if first is None else 'query_digests'}: {message}")
        written = [(one.name, len(one.queries)) for one in conditions]
        recorded = [(one.name, len(one.truth)) for one in details.conditions]
        if written != recorded:
            if same:
                place = f"{self.where}details / {name} / conditions"
                found.append(f"{place}: saved {short_value(recorded)}, written {short_value(written)}")
            return None, same, first, message
        checked.append("true labels and rows")
        return conditions, same, first, message

    def _scored(
        self,
        scorer: Benchmark,
        name: str,
        details: DatasetDetails,
        conditions: Sequence[Condition] | None,
        found: list[str],
    ) -> DatasetRun | None:
        """Score the records again, with the code of a run."""
        experimentor = scorer[name]
        space = tuple(experimentor.get_label_space())
        place = f"{self.where}details / {name}"
        failures = {(one.condition, one.query): Failure(one.reason) for one in details.failures}
        failures |= {(one.condition, one.query): Failure(one.reason, reply="") for one in details.unparsed}
        answers: list[Answer | Failure] = []
        for number, record in enumerate(details.conditions):
            try:
                answers += _answers(record, len(space), failures)
            except StaICCError as error:
                found.append(f"{place} / conditions / {number}: {error}")
                return None
        try:
            marks = iter(base64.b64decode(details.query_digests).hex(" ", 4).split())
            recorded = [_condition(record, space, marks) for record in details.conditions]
            return experimentor.assemble(conditions or recorded, answers)
        except (ArithmeticError, LookupError, ValueError) as error:
            found.append(f"{place}: the records cannot be scored ({error})")
            return None

    def _left_out(self, no_prompts: bool) -> Callable[[tuple[str, ...]], bool]:
        """Return the test for fields that are not compared."""
        own = self.own
        mixed_k = (self.result.signature.fields.get("k") or "").startswith("mixed-") and self.benchmark is None

        def left_out(path: tuple[str, ...]) -> bool:
            key = path[0]
            names = [part for one in path for part in (one, one.rpartition(".")[2], one.removeprefix("interval of "))]
            is_score = (len(path) > 1 and key in ("missing", "intervals")) or key not in DatasetDetails.__slots__
            if key == "data" and self.benchmark is None:
                return True
            if no_prompts and ((key in _FROM_PROMPTS and key != "asked") or "last_demonstration" in path[-1]):
                return True
            if is_score and (own is None or any(name in own for name in names)):
                return True
            if own is None and key in ("baselines", "intervals", "missing"):
                return True
            return mixed_k and any(name.startswith("sensitivity") for name in path)

        return left_out

    # -- fields that the data sets share

    def _of_all(self) -> Verification:
        result, where = self.result, self.where
        found = [f"{where}{problem}" for problem in self.problems]
        skipped = [RECORDED, *(["warnings: recorded by the run"] if result.warnings else [])]
        if result.files:
            skipped.append("files (title, source, licence, notes, unused templates): recorded by the run")
        own = self.own
        recomputed: dict[str, Any] = {}
        if len(self.runs) == len(result.details) and self.scorer is not None:
            keys = dict.fromkeys(key for run in self.runs.values() for key in run.averaged)
            recomputed = {key: mean([run.averaged.get(key) for run in self.runs.values()]) for key in keys}
        for key, saved in result.averaged.items():
            expected = recomputed[key] if key in recomputed else self._mean_of_saved(key)
            if expected is ABSENT:
                if own is not None and key not in own:
                    found.append(f"{where}{AVERAGED} / {key}: saved {short_value(saved)}, no data set has this score")
                else:
                    skipped.append(f"{AVERAGED} / {key}: the metric is the user's own")
            elif not values_equal(saved, expected):
                found.append(describe_difference(f"{where}{AVERAGED} / {key}", saved, expected))
        found += [
            describe_difference(f"{where}{AVERAGED} / {key}", ABSENT, value)
            for key, value in recomputed.items()
            if key not in result.averaged
        ]
        if ";parser=" in (result.signature.fields.get("scoring") or ""):
            skipped.append("signature / scoring: the version of the reply parser is recorded by the run")
        if self.other_prompts:
            found.append(f"{where}signature: it describes other prompts than those of {', '.join(self.other_prompts)}")
        self._means(found, skipped)
        self._signature(found, skipped)
        checked: tuple[str, ...] = (AVERAGED, "signature", "provenance")
        if result.stopping is not None and result.stopping.rule == "precision":
            _compare_stopping(self, [self], found, skipped)
            checked += ("stopping",)
        elif result.stopping is not None and "parts / " not in where:
            skipped.append("stopping: the decision of a race follows from both of its results, this is one")
        found += verify_provenance(result, where)
        message = "the means and the signature follow from the data sets" if not found else "not consistent"
        return Verification(result.benchmark, None, None, None, message, checked, tuple(found), tuple(skipped))

    def _means(self, found: list[str], skipped: list[str]) -> None:
        """Compare the intervals and the baselines of the means."""
        result = self.result
        if self.own is None or len(self.runs) < len(result.details) or not self.runs:
            skipped.append("means: their intervals and baselines cannot be recomputed")
            return
        no_prompts = self.benchmark is None or bool(self.other_prompts)

        def left_out(path: tuple[str, ...]) -> bool:
            own = path[0] == "missing" and path[-1] in (self.own or ())
            return own or (no_prompts and "last_demonstration" in path[-1])

        found += compare_values(f"{self.where}means", result.means.to_dict(), means_of(self.runs).to_dict(), left_out)

    def _mean_of_saved(self, key: str) -> Any:
        """The mean of the saved scores, where they cannot be recomputed."""
        values = [_figure(scores, key) for scores in self.result.divided.values()]
        return ABSENT if any(value is ABSENT for value in values) else mean(values)

    def _signature(self, found: list[str], skipped: list[str]) -> None:
        result, where = self.result, self.where
        saved = result.signature.fields
        own = saved.get("benchmark") or ""  # of a plug-in or of the user: with its version or a digest of its code
        expected: dict[str, str | None] = {
            "benchmark": own if own.startswith(f"{result.benchmark}@") else result.benchmark,
            "prompts": short_digest({name: details.prompts for name, details in result.details.items()}),
            "stopping": None if result.stopping is None else result.stopping.settings,
        }
        failed = sum(details.failed for details in result.details.values())
        expected["failed"] = str(failed) if failed else None
        if self.benchmark is not None and not self.unscored:
            runs = {
                name: replace(run, details=replace(run.details, prompts=result.details[name].prompts))
                for name, run in self.runs.items()
            }
            expected = {**self.benchmark.signature(runs).fields, "failed": expected["failed"]}
        elif self.reason is not None:
            skipped.append(f"signature: most fields: {self.reason}")
        compared = _DERIVED if self.benchmark is not None and not self.unscored else frozenset(expected)
        for field in dict.fromkeys([*saved, *expected]):
            if field == "scoring" or (field == "metrics" and (self.own is None or self.own)):
                continue
            if field not in compared:
                if field != "version" and field not in _DERIVED:
                    skipped.append(f"signature / {field}: recorded by the run")
            elif saved.get(field) != expected.get(field):
                there = (one if one is not None else ABSENT for one in (saved.get(field), expected.get(field)))
                found.append(describe_difference(f"{where}signature / {field}", *there))


def _figure(scores: Mapping[str, Any], key: str) -> Any:
    """The score of a data set that enters the mean of this name."""
    lines = scores.get("sensitivity")
    value = lines.get(key, ABSENT) if isinstance(lines, Mapping) else scores.get(key, ABSENT)
    if key == "distribution":  # the release averages nothing here and reports zero
        return 0.0 if value is not ABSENT else ABSENT
    return value[0] if isinstance(value, (list, tuple)) and value else value


def _condition(record: ConditionRecord, space: tuple[str, ...], marks: Iterator[str]) -> Condition:
    """The queries of a record, with digests instead of their prompts."""
    labelled_rows = zip(record.truth, record.rows, strict=True)
    queries = (Query(next(marks, ""), space, label, row, 0) for label, row in labelled_rows)
    return Condition(record.name, tuple(queries))


def _answers(
    record: ConditionRecord, labels: int, failures: Mapping[tuple[str, int], Failure]
) -> Iterator[Answer | Failure]:
    """Yield the predictions of a condition: label scores, or else predicted labels."""
    failed = [failures.get((record.name, number)) for number in range(len(record.truth))]
    rows: Iterator[list[float]] | None = None
    if record.scores is not None:
        scores = unpack_scores(record.scores, labels)
        if len(scores) != failed.count(None):
            raise SchemaError(f"there are label scores of {len(scores)} queries, but {failed.count(None)} predictions")
        rows = iter(scores)
    elif record.output not in ("labels", "none"):
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
